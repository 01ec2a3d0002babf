/* static.c - the door to other libraries, shut: of the command that is one static file. A libc that
 * is linked so would load a second one of another version. */
#include <dlfcn.h>
#include <stddef.h>

void *dlopen(const char *file, int mode)
{
    (void)file;
    (void)mode;
    return NULL;
}

void *dlsym(void *library, const char *name)
{
    (void)library;
    (void)name;
    return NULL;
}

int dlclose(void *library)
{
    (void)library;
    return 0;
}

char *dlerror(void)
{
    return "this exg is one static file, which loads no libraries: install the packages";
}
