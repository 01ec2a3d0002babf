/* weighted.h - sums of elements at places, each times a weight. */
#ifndef EXG_LIBEXEC_KERNELS_LOOPS_WEIGHTED_H
#define EXG_LIBEXEC_KERNELS_LOOPS_WEIGHTED_H

#include "libexec/kernels/loops/loops.h"

/* y[k] = x[places[k]] weights[k] + x[places[k + stride]] weights[k + stride] + ..., `terms` of
 * them, in this order. */
typedef struct exg_weighted_loops {
    void (*f32)(int64_t count, float *y, const float *x, int64_t terms, const int32_t *places,
                const float *weights, int64_t stride);
    void (*f64)(int64_t count, double *y, const double *x, int64_t terms, const int32_t *places,
                const double *weights, int64_t stride);
} exg_weighted_loops;

EXG_LOOPS_DECLARE(exg_weighted_loops, exg_loops_weighted);

#endif
