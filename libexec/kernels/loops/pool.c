/* pool.c - one tap of many windows side by side. */
#include "libexec/kernels/loops/loops.h"

/* By constant steps, which compilers make vectors of. */
#define BY_STEP(loop)           \
    do {                        \
        if (step == 1) {        \
            loop(1);            \
        } else if (step == 2) { \
            loop(2);            \
        } else {                \
            loop(step);         \
        }                       \
    } while (0)

#define DEFINE_POOL(type, sum_type, index_type, name)                                             \
    static void greatest_##name(int64_t count, void *best_, void *places_, const void *from_,     \
                                int64_t step, int64_t place)                                      \
    {                                                                                             \
        const type *from = from_;                                                                 \
        type *best = best_;                                                                       \
        index_type *places = places_;                                                             \
                                                                                                  \
        BY_STEP(GREATEST_OF);                                                                     \
    }                                                                                             \
    static void greater_##name(int64_t count, void *best_, const void *from_, int64_t step)       \
    {                                                                                             \
        const type *from = from_;                                                                 \
        type *best = best_;                                                                       \
                                                                                                  \
        BY_STEP(GREATER_OF);                                                                      \
    }                                                                                             \
    static void add_##name(int64_t count, void *sums_, const void *from_, int64_t step)           \
    {                                                                                             \
        const type *from = from_;                                                                 \
        sum_type *sums = sums_;                                                                   \
                                                                                                  \
        BY_STEP(SUM_OF);                                                                          \
    }                                                                                             \
    static void join_##name(int64_t count, void *sums_, const void *from_, int64_t step)          \
    {                                                                                             \
        const sum_type *from = from_;                                                             \
        sum_type *sums = sums_;                                                                   \
                                                                                                  \
        BY_STEP(SUM_OF);                                                                          \
    }

/* NaN is greater than all before it, as PyTorch has it. */
#define IS_GREATER(v, best) (((v) > (best)) | ((v) != (v)))

#define GREATEST_OF(by)                                                          \
    EXG_INDEPENDENT                                                              \
    for (int64_t x = 0; x < count; x++) {                                        \
        const int is_it = IS_GREATER(from[x * (by)], best[x]);                   \
                                                                                 \
        best[x] = is_it ? from[x * (by)] : best[x];                              \
        places[x] = is_it ? (__typeof__(*places))(place + x * (by)) : places[x]; \
    }

#define GREATER_OF(by)                                                            \
    EXG_INDEPENDENT                                                               \
    for (int64_t x = 0; x < count; x++) {                                         \
        best[x] = IS_GREATER(from[x * (by)], best[x]) ? from[x * (by)] : best[x]; \
    }

#define SUM_OF(by)                        \
    EXG_INDEPENDENT                       \
    for (int64_t x = 0; x < count; x++) { \
        sums[x] += from[x * (by)];        \
    }

DEFINE_POOL(float, float, int32_t, f32)
DEFINE_POOL(double, double, int64_t, f64)
DEFINE_POOL(int32_t, int64_t, int32_t, i32)
DEFINE_POOL(int64_t, int64_t, int64_t, i64)

const exg_pool_loops EXG_ISA_NAME(exg_loops_pool) = {{
    [EXG_COMPUTE_F32] = {greatest_f32, greater_f32, add_f32, join_f32},
    [EXG_COMPUTE_F64] = {greatest_f64, greater_f64, add_f64, join_f64},
    [EXG_COMPUTE_I32] = {greatest_i32, greater_i32, add_i32, join_i32},
    [EXG_COMPUTE_I64] = {greatest_i64, greater_i64, add_i64, join_i64},
}};
