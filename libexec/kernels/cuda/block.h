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

/* block_NAME_before(own, all): `joined`, of an a and the b after it, over the own of the threads
 * before this one; *all: of all. `start`: what nothing comes to. */
#define DEFINE_BLOCK_SCAN(name, type, shuffle, joined, start)                                      \
    static inline type join_##name(type a, type b)                                                 \
    {                                                                                              \
        return joined;                                                                             \
    }                                                                                              \
                                                                                                   \
    static inline type block_##name##_before(type own, type *all)                                  \
    {                                                                                              \
        SHARED type warps[WARPS_MAX];                                                              \
        type sum = own; /* of the lanes that differ from this one in the bits seen so far */       \
        type before = start;                                                                       \
                                                                                                   \
        for (int lanes = 1; lanes < WARP; lanes *= 2) {                                            \
            const type others = shuffle(sum, lanes);                                               \
                                                                                                   \
            if ((THREAD & lanes) != 0) {                                                           \
                before = join_##name(others, before);                                              \
                sum = join_##name(others, sum);                                                    \
            } else {                                                                               \
                sum = join_##name(sum, others);                                                    \
            }                                                                                      \
        }                                                                                          \
        if (THREAD % WARP == 0) {                                                                  \
            warps[THREAD / WARP] = sum;                                                            \
        }                                                                                          \
        BARRIER();                                                                                 \
        sum = *all = start;                                                                        \
        for (int w = 0; w < THREADS / WARP; w++) {                                                 \
            sum = w == THREAD / WARP ? *all : sum;                                                 \
            *all = join_##name(*all, warps[w]);                                                    \
        }                                                                                          \
        BARRIER();                                                                                 \
        return join_##name(sum, before);                                                           \
    }

#endif
