/* library.h - a library that is opened when a device first needs it, the same for cuBLASLt and
 * cuDNN: a struct exg_cuda_NAME of its functions, with `handle` and `was_asked`.
 */
#ifndef EXG_LIBEXEC_DEVICE_CUDA_LIBRARY_H
#define EXG_LIBEXEC_DEVICE_CUDA_LIBRARY_H

#include "libexec/device/cuda/cuda.h"

#define EXG_CUDA_LIBRARY_ROW(member, symbol, params) {symbol, offsetof(library, member)},

/* Defines exg_cuda_NAME_find(), whether it is there; open_once(), NULL where it cannot be used;
 * exg_cuda_NAME_close(). */
#define EXG_CUDA_LIBRARY(name, calls, stem, newest, oldest)                                        \
    typedef exg_cuda_##name library;                                                               \
                                                                                                   \
    bool exg_cuda_##name##_find(const exg_cuda_driver *driver, library *found)                     \
    {                                                                                              \
        static const exg_cuda_symbol symbols[] = {calls(EXG_CUDA_LIBRARY_ROW)};                    \
                                                                                                   \
        (void)driver;                                                                              \
        return exg_cuda_library_open(stem, newest, oldest, symbols,                                \
                                     sizeof(symbols) / sizeof(symbols[0]), found);                 \
    }                                                                                              \
                                                                                                   \
    static library *open_once(exg_cuda_device *d)                                                  \
    {                                                                                              \
        library *l = &d->name;                                                                     \
                                                                                                   \
        if (!l->was_asked) {                                                                       \
            l->was_asked = true;                                                                   \
            if (!exg_cuda_##name##_find(&d->driver, l) || l->create(&l->handle) != 0) {            \
                l->handle = NULL;                                                                  \
            }                                                                                      \
        }                                                                                          \
        return l->handle == NULL ? NULL : l;                                                       \
    }                                                                                              \
                                                                                                   \
    void exg_cuda_##name##_close(exg_cuda_device *d)                                               \
    {                                                                                              \
        if (d->name.handle != NULL) {                                                              \
            (void)d->name.destroy(d->name.handle);                                                 \
        }                                                                                          \
    }

#endif
