/* block.h - what all threads of a block find out together: shuffles inside warps, then shared
 * memory. Every thread calls, in step; each gets the answer.
 */
#ifndef EXG_LIBEXEC_KERNELS_CUDA_BLOCK_H
#define EXG_LIBEXEC_KERNELS_CUDA_BLOCK_H

#include "libexec/kernels/cuda/common.h"

#define WARPS_MAX 32

/* block_NAME(x): `combine` in a and b over the x of all threads, in an order that is always
 * the same. */
#define DEFINE_BLOCK(name, type, shuffle, combine)                                                 \
    static inline type block_##name(type x)                                                        \
    {                                                                                              \
        SHARED type parts[WARPS_MAX];                                                              \
        type a = x;                                                                                \
                                                                                                   \
        for (int lanes = WARP / 2; lanes > 0; lanes /= 2) {                                        \
            const type b = shuffle(a, lanes);                                                      \
                                                                                                   \
            a = combine;                                                                           \
        }                                                                                          \
        if (THREAD % WARP == 0) {                                                                  \
            parts[THREAD / WARP] = a;                                                              \
        }                                                                                          \
        BARRIER();                                                                                 \
        a = parts[0];                                                                              \
        for (int k = 1; k < THREADS / WARP; k++) {                                                 \
            const type b = parts[k];                                                               \
                                                                                                   \
            a = combine;                                                                           \
        }                                                                                          \
        BARRIER();                                                                                 \
        return a;                                                                                  \
    }

#endif
