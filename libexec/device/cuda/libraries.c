/* libraries.c - where CUDA's libraries are looked for; see driver.h. */
#include "libexec/device/cuda/driver.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4096

/* After the loader's own: the toolkit's folders, then Python's wheels of the environment that is
 * active and of the `python3` that a shell would run. */
static const struct {
    const char *variable; /* of the environment, the folder's beginning; NULL: none */
    const char *pattern;
} places[] = {
    {"CUDA_HOME", "/lib64"},         {"CUDA_HOME", "/lib"},
    {"CUDA_PATH", "/lib64"},         {"CUDA_PATH", "/lib"},
    {NULL, "/usr/local/cuda/lib64"}, {"VIRTUAL_ENV", "/lib/python3*/site-packages/nvidia/*/lib"},
    {"CONDA_PREFIX", "/lib"},        {"CONDA_PREFIX", "/lib/python3*/site-packages/nvidia/*/lib"},
};

const char *exg_cuda_find_symbols(void *library, const exg_cuda_symbol *rows, size_t count,
                                  void *calls)
{
    for (size_t i = 0; i < count; i++) {
        void *function = dlsym(library, rows[i].name);

        if (function == NULL) {
            return rows[i].name;
        }
        memcpy((char *)calls + rows[i].offset, &function, sizeof(function));
    }
    return NULL;
}

static void *load(const char *folder, const char *pattern, const char *name)
{
    char path[PATH_BYTES];
    void *library = NULL;
    glob_t found;

    if (snprintf(path, sizeof(path), "%s%s/%s", folder, pattern, name) >= (int)sizeof(path) ||
        glob(path, 0, NULL, &found) != 0) {
        return NULL;
    }
    for (size_t i = 0; i < found.gl_pathc && library == NULL; i++) {
        library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL); /* stays */
    }
    globfree(&found);
    return library;
}

/* Of the first folder of PATH that has a python3, the folder above. */
static bool find_python(char *prefix)
{
    const char *path = getenv("PATH");

    while (path != NULL && *path != '\0') {
        size_t length = strcspn(path, ":");

        if (length > 0 && length < PATH_BYTES - 16) {
            (void)snprintf(prefix, PATH_BYTES, "%.*s/python3", (int)length, path);
            if (access(prefix, X_OK) == 0) {
                (void)snprintf(prefix + length, PATH_BYTES - length, "/..");
                return true;
            }
        }
        path += length + (path[length] == ':');
    }
    return false;
}

void *exg_cuda_library_load(const char *name)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL); /* stays */
    char python[PATH_BYTES];

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && library == NULL; i++) {
        const char *folder = places[i].variable == NULL ? "" : getenv(places[i].variable);

        if (folder != NULL) {
            library = load(folder, places[i].pattern, name);
        }
    }
    if (library == NULL && find_python(python)) {
        library = load(python, "/lib/python3*/*-packages/nvidia/*/lib", name);
    }
    return library == NULL ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : library; /* for dlerror() */
}

bool exg_cuda_library_open(const char *stem, int newest, int oldest, const exg_cuda_symbol *symbols,
                           size_t count, void *calls)
{
    for (int major = newest; major >= oldest; major--) {
        char name[48];
        void *library;

        (void)snprintf(name, sizeof(name), "lib%s.so.%d", stem, major);
        library = exg_cuda_library_load(name);
        if (library != NULL && exg_cuda_find_symbols(library, symbols, count, calls) == NULL) {
            return true;
        }
    }
    return false;
}

const char *exg_cuda_library_file(const void *calls)
{
    const void *function;
    Dl_info info;

    memcpy(&function, calls, sizeof(function));
    return dladdr(function, &info) == 0 ? NULL : info.dli_fname;
}

void exg_cuda_library_open_beside(const void *calls, const char *name)
{
    const char *file = exg_cuda_library_file(calls);
    const char *end = file == NULL ? NULL : strrchr(file, '/');
    char path[PATH_BYTES];

    if (end != NULL && snprintf(path, sizeof(path), "%.*s/%s", (int)(end - file), file, name) <
                           (int)sizeof(path)) {
        (void)dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays */
    }
}
