/* distance.c - distances, a number of many rows at a time. */
#include "libexec/kernels/loops/distance.h"

#define DISTANCE(name, type, formula)                                                              \
    static void name(int64_t count, double *sums, type x, const type *y)                           \
    {                                                                                              \
        EXG_INDEPENDENT                                                                            \
        for (int64_t k = 0; k < count; k++) {                                                      \
            const type gap = x - y[k];                                                             \
            const double size = (double)(gap < 0 ? -gap : gap), sum = sums[k];                     \
                                                                                                   \
            (void)size;                                                                            \
            sums[k] = (formula);                                                                   \
        }                                                                                          \
    }

#define ALL(name, type)                                                                            \
    DISTANCE(name##_count, type, sum + (gap != 0 ? 1 : 0))                                         \
    DISTANCE(name##_sum, type, sum + size)                                                         \
    DISTANCE(name##_squares, type, sum + (double)(gap * gap))                                      \
    DISTANCE(name##_greatest, type, ((size > sum) | (size != size)) ? size : sum)

#define ROW(name)                                                                                  \
    {                                                                                              \
        [EXG_DISTANCE_COUNT] = name##_count, [EXG_DISTANCE_SUM] = name##_sum,                      \
        [EXG_DISTANCE_SQUARES] = name##_squares, [EXG_DISTANCE_GREATEST] = name##_greatest,        \
    }

ALL(f32, float)
ALL(f64, double)

const exg_distance_loops EXG_ISA_NAME(exg_loops_distance) = {.f32 = ROW(f32), .f64 = ROW(f64)};
