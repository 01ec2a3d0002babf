/* lapack.c - finds the library that knows LAPACK. */
#include "libexec/kernels/lapack.h"

#include <dlfcn.h>
#include <stddef.h>

const exg_lapack *exg_lapack_load(bool is_complex)
{
    void *library = dlopen(EXG_LAPACK_FILE, RTLD_NOW | RTLD_LOCAL); /* stays: kernels use it */
    const exg_lapack_table *table = library == NULL ? NULL : dlsym(library, EXG_LAPACK_SYMBOL);

    if (table == NULL || table->version != EXG_LAPACK_VERSION) {
        return NULL;
    }
    return is_complex ? &table->of_complex : &table->of_real;
}
