/* row.h - rows, of which a block takes one at a time, or with ROW_IS_WARP each of its warps: what
 * the threads of a row find out together; and a row of elements that lie side by side, in their
 * registers: read once, by words of 16 bytes where memory is aligned so.
 *
 * EACH: elements of a thread, a multiple of ROW_VECTOR(dtype). Thread t has elements
 * (v * ROW_THREADS + t) * ROW_VECTOR + e, for v = 0, 1, ...
 */
#ifndef EXG_LIBEXEC_KERNELS_CUDA_ROW_H
#define EXG_LIBEXEC_KERNELS_CUDA_ROW_H

#include "libexec/kernels/cuda/block.h"

#ifdef ROW_IS_WARP
#define ROW_THREAD    (THREAD % WARP)
#define ROW_THREADS   WARP
#define ROW_OF_BLOCK  (THREAD / WARP)
#define ROWS_OF_BLOCK (THREADS / WARP)
#define DEFINE_ROW_JOIN(name, type, shuffle, combine)                                              \
    DEFINE_WARP(name, type, shuffle, combine)                                                      \
    static inline type row_##name(type x)                                                          \
    {                                                                                              \
        return warp_##name(x);                                                                     \
    }
#else
#define ROW_THREAD    THREAD
#define ROW_THREADS   THREADS
#define ROW_OF_BLOCK  0
#define ROWS_OF_BLOCK 1
/* row_NAME(x): `combine` in a and b over the x of the row's threads (block.h). */
#define DEFINE_ROW_JOIN(name, type, shuffle, combine)                                              \
    DEFINE_BLOCK(name, type, shuffle, combine)                                                     \
    static inline type row_##name(type x)                                                          \
    {                                                                                              \
        return block_##name(x);                                                                    \
    }
#endif

/* Every row below count, shared out over the launch. */
#define FOR_EACH_ROW(row, count)                                                                   \
    NO_UNROLL                                                                                      \
    for (int64_t row = (int64_t)BLOCK_X * ROWS_OF_BLOCK + ROW_OF_BLOCK; row < (count);             \
         row += (int64_t)BLOCKS_X * ROWS_OF_BLOCK)

#define ROW_VECTOR(dtype) ((int)(16 / sizeof(STORAGE(dtype))))

/* Where the thread's element i lies in the row. */
#define ROW_AT(dtype, i)                                                                           \
    ((i / ROW_VECTOR(dtype) * ROW_THREADS + ROW_THREAD) * ROW_VECTOR(dtype) + i % ROW_VECTOR(dtype))

/* Defines NAME_load(x, memory, base, size, fill): the row at element `base`, with `fill` past its
 * end; and NAME_store(memory, base, size, x). */
#define DEFINE_ROW(name, dtype, real)                                                              \
    static inline void name##_load(real x[EACH], const void *memory, int64_t base, int size,       \
                                   real fill)                                                      \
    {                                                                                              \
        const STORAGE(dtype) *row = (const STORAGE(dtype) *)memory + base;                         \
        const int is_aligned = (uint64_t)row % 16 == 0;                                            \
                                                                                                   \
        UNROLL                                                                                     \
        for (int v = 0; v < EACH; v += ROW_VECTOR(dtype)) {                                        \
            ALIGNED_16 STORAGE(dtype) word[ROW_VECTOR(dtype)] = {0};                               \
            const int at = ROW_AT(dtype, v);                                                       \
                                                                                                   \
            move_vector(word, row + at, (int)sizeof(word[0]), ROW_VECTOR(dtype), size - at,        \
                        is_aligned && at + ROW_VECTOR(dtype) <= size);                             \
            UNROLL                                                                                 \
            for (int e = 0; e < ROW_VECTOR(dtype); e++) {                                          \
                x[v + e] = at + e < size ? (real)LOAD(dtype)(word, e) : fill;                      \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static inline void name##_store(void *memory, int64_t base, int size, const real x[EACH])      \
    {                                                                                              \
        STORAGE(dtype) *row = (STORAGE(dtype) *)memory + base;                                     \
        const int is_aligned = (uint64_t)row % 16 == 0;                                            \
                                                                                                   \
        UNROLL                                                                                     \
        for (int v = 0; v < EACH; v += ROW_VECTOR(dtype)) {                                        \
            ALIGNED_16 STORAGE(dtype) word[ROW_VECTOR(dtype)];                                     \
            const int at = ROW_AT(dtype, v);                                                       \
                                                                                                   \
            UNROLL                                                                                 \
            for (int e = 0; e < ROW_VECTOR(dtype); e++) {                                          \
                STORE(dtype)(word, e, (COMPUTE(dtype))x[v + e]);                                   \
            }                                                                                      \
            move_vector(row + at, word, (int)sizeof(word[0]), ROW_VECTOR(dtype), size - at,        \
                        is_aligned && at + ROW_VECTOR(dtype) <= size);                             \
        }                                                                                          \
    }

#endif
