/* pool.c - one tap of the windows of a row: greatest values with their places, and sums. */
#include "libexec/kernels/loops/loops.h"

#define INLINE static inline __attribute__((always_inline))

/* The strides of most windows are constants to the compiler; where may be NULL. */
#define POOL(name, type)                                                                           \
    INLINE void name##_greatest_by(int64_t count, type *best, int64_t *where, const type *x,       \
                                   int64_t stride, int64_t place)                                  \
    {                                                                                              \
        EXG_INDEPENDENT                                                                            \
        for (int64_t k = 0; k < count; k++) {                                                      \
            const type v = x[k * stride];                                                          \
            const bool is_better = v > best[k] || v != v;                                          \
                                                                                                   \
            if (where != NULL) {                                                                   \
                where[k] = is_better ? place + k * stride : where[k];                              \
            }                                                                                      \
            best[k] = is_better ? v : best[k];                                                     \
        }                                                                                          \
    }                                                                                              \
    INLINE void name##_greatest_at(int64_t count, type *best, int64_t *where, const type *x,       \
                                   int64_t stride, int64_t place)                                  \
    {                                                                                              \
        if (stride == 1) {                                                                         \
            name##_greatest_by(count, best, where, x, 1, place);                                   \
        } else if (stride == 2) {                                                                  \
            name##_greatest_by(count, best, where, x, 2, place);                                   \
        } else {                                                                                   \
            name##_greatest_by(count, best, where, x, stride, place);                              \
        }                                                                                          \
    }                                                                                              \
    static void name##_greatest(int64_t count, void *best, int64_t *where, const void *x,          \
                                int64_t stride, int64_t place)                                     \
    {                                                                                              \
        if (where != NULL) {                                                                       \
            name##_greatest_at(count, best, where, x, stride, place);                              \
        } else {                                                                                   \
            name##_greatest_at(count, best, NULL, x, stride, place);                               \
        }                                                                                          \
    }                                                                                              \
    INLINE void name##_add_by(int64_t count, type *sum, const type *x, int64_t stride)             \
    {                                                                                              \
        EXG_INDEPENDENT                                                                            \
        for (int64_t k = 0; k < count; k++) {                                                      \
            sum[k] += x[k * stride];                                                               \
        }                                                                                          \
    }                                                                                              \
    static void name##_add(int64_t count, void *sum, const void *x, int64_t stride)                \
    {                                                                                              \
        if (stride == 1) {                                                                         \
            name##_add_by(count, sum, x, 1);                                                       \
        } else if (stride == 2) {                                                                  \
            name##_add_by(count, sum, x, 2);                                                       \
        } else {                                                                                   \
            name##_add_by(count, sum, x, stride);                                                  \
        }                                                                                          \
    }

POOL(f32, float)
POOL(f64, double)
POOL(i32, int32_t)
POOL(i64, int64_t)

const exg_pool_loops EXG_ISA_NAME(exg_loops_pool) = {
    .greatest = {[EXG_COMPUTE_F32] = f32_greatest,
                 [EXG_COMPUTE_F64] = f64_greatest,
                 [EXG_COMPUTE_I32] = i32_greatest,
                 [EXG_COMPUTE_I64] = i64_greatest},
    .add = {[EXG_COMPUTE_F32] = f32_add,
            [EXG_COMPUTE_F64] = f64_add,
            [EXG_COMPUTE_I32] = i32_add,
            [EXG_COMPUTE_I64] = i64_add},
};
