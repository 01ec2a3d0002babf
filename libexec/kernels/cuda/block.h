/* block.h - what all threads of a warp, or of a block, find out together: shuffles inside warps,
 * then shared memory. Every thread calls, in step; each gets the answer.
 */
#ifndef EXG_LIBEXEC_KERNELS_CUDA_BLOCK_H
#define EXG_LIBEXEC_KERNELS_CUDA_BLOCK_H

#include "libexec/kernels/cuda/common.h"

#define WARPS_MAX 32

/* warp_NAME(x): `combine` in a and b over the x of the warp's threads, in an order that is always
 * the same. */
#define DEFINE_WARP(name, type, shuffle, combine)                                                  \
    static inline type warp_##name(type x)                                                         \
    {                                                                                              \
        type a = x;                                                                                \
                                                                                                   \
        for (int lanes = WARP / 2; lanes > 0; lanes /= 2) {                                        \
            const type b = shuffle(a, lanes);                                                      \
                                                                                                   \
            a = combine;                                                                           \
        }                                                                                          \
        return a;                                                                                  \
    }

/* block_NAME(x): the same over the x of the block's threads. */
#define DEFINE_BLOCK(name, type, shuffle, combine)                                                 \
    DEFINE_WARP(name, type, shuffle, combine)                                                      \
    static inline type block_##name(type x)                                                        \
    {                                                                                              \
        SHARED type parts[WARPS_MAX];                                                              \
        type a = warp_##name(x);                                                                   \
                                                                                                   \
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
