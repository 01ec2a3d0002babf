/* row.h - a row of elements that lie side by side, in the registers of a block's threads: read
 * once, by words of 16 bytes where memory is aligned so.
 *
 * EACH: elements of a thread, a multiple of ROW_VECTOR(dtype). Thread t has elements
 * (v * THREADS + t) * ROW_VECTOR + e, for v = 0, 1, ...
 */
#ifndef EXG_LIBEXEC_KERNELS_CUDA_ROW_H
#define EXG_LIBEXEC_KERNELS_CUDA_ROW_H

#include "libexec/kernels/cuda/common.h"

#define ROW_VECTOR(dtype) ((int)(16 / sizeof(STORAGE(dtype))))

/* Where the thread's element i lies in the row. */
#define ROW_AT(dtype, i)                                                                           \
    ((i / ROW_VECTOR(dtype) * THREADS + THREAD) * ROW_VECTOR(dtype) + i % ROW_VECTOR(dtype))

/* Defines NAME_load(x, memory, base, size, fill): the row at element `base`, with `fill` past its
 * end; and NAME_store(memory, base, size, x). */
#define DEFINE_ROW(name, dtype, real)                                                              \
    static inline int name##_is_word(const void *memory, int64_t base, int at, int64_t size)       \
    {                                                                                              \
        return at + ROW_VECTOR(dtype) <= size &&                                                   \
               (uint64_t)((const STORAGE(dtype) *)memory + base + at) % 16 == 0;                   \
    }                                                                                              \
                                                                                                   \
    static inline void name##_load(real x[EACH], const void *memory, int64_t base, int64_t size,   \
                                   real fill)                                                      \
    {                                                                                              \
        UNROLL                                                                                     \
        for (int v = 0; v < EACH; v += ROW_VECTOR(dtype)) {                                        \
            ALIGNED_16 STORAGE(dtype) word[ROW_VECTOR(dtype)];                                     \
            const int at = ROW_AT(dtype, v);                                                       \
            const int is_word = name##_is_word(memory, base, at, size);                            \
                                                                                                   \
            if (is_word) {                                                                         \
                move_word(word, (const STORAGE(dtype) *)memory + base + at, 16);                   \
            }                                                                                      \
            UNROLL                                                                                 \
            for (int e = 0; e < ROW_VECTOR(dtype); e++) {                                          \
                x[v + e] = is_word         ? (real)LOAD(dtype)(word, e)                            \
                           : at + e < size ? (real)LOAD(dtype)(memory, base + at + e)              \
                                           : fill;                                                 \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static inline void name##_store(void *memory, int64_t base, int64_t size, const real x[EACH])  \
    {                                                                                              \
        UNROLL                                                                                     \
        for (int v = 0; v < EACH; v += ROW_VECTOR(dtype)) {                                        \
            ALIGNED_16 STORAGE(dtype) word[ROW_VECTOR(dtype)];                                     \
            const int at = ROW_AT(dtype, v);                                                       \
            const int is_word = name##_is_word(memory, base, at, size);                            \
                                                                                                   \
            UNROLL                                                                                 \
            for (int e = 0; e < ROW_VECTOR(dtype); e++) {                                          \
                if (is_word) {                                                                     \
                    STORE(dtype)(word, e, (COMPUTE(dtype))x[v + e]);                               \
                } else if (at + e < size) {                                                        \
                    STORE(dtype)(memory, base + at + e, (COMPUTE(dtype))x[v + e]);                 \
                }                                                                                  \
            }                                                                                      \
            if (is_word) {                                                                         \
                move_word((STORAGE(dtype) *)memory + base + at, word, 16);                         \
            }                                                                                      \
        }                                                                                          \
    }

#endif
