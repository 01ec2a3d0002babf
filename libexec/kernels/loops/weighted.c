/* weighted.c - sums of elements at places, four terms at a time. */
#include "libexec/kernels/loops/weighted.h"

#define WEIGHTED(name, type)                                                                       \
    static void name(int64_t count, type *y, const type *x, int64_t terms, const int32_t *places,  \
                     const type *weights, int64_t stride)                                          \
    {                                                                                              \
        for (int64_t k = 0; k < count; k++) {                                                      \
            y[k] = 0;                                                                              \
        }                                                                                          \
        for (; terms >= 4; terms -= 4, places += 4 * stride, weights += 4 * stride) {              \
            EXG_INDEPENDENT                                                                        \
            for (int64_t k = 0; k < count; k++) {                                                  \
                type sum = y[k] + x[places[k]] * weights[k];                                       \
                                                                                                   \
                sum += x[places[k + stride]] * weights[k + stride];                                \
                sum += x[places[k + 2 * stride]] * weights[k + 2 * stride];                        \
                y[k] = sum + x[places[k + 3 * stride]] * weights[k + 3 * stride];                  \
            }                                                                                      \
        }                                                                                          \
        for (; terms > 0; terms--, places += stride, weights += stride) {                          \
            EXG_INDEPENDENT                                                                        \
            for (int64_t k = 0; k < count; k++) {                                                  \
                y[k] += x[places[k]] * weights[k];                                                 \
            }                                                                                      \
        }                                                                                          \
    }

WEIGHTED(f32, float)
WEIGHTED(f64, double)

const exg_weighted_loops EXG_ISA_NAME(exg_loops_weighted) = {.f32 = f32, .f64 = f64};
