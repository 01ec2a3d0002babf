/* weighted.h - sums of elements at places, each times a weight; results do not depend on the
 * instruction set. */
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
    /* As f32, where most groups of `lanes` outputs read `span` elements in a row, from x[bases[0]],
     * x[bases[1]] and so on; -1: they do not. 0: bases are not read. */
    int64_t lanes, span;
    void (*near_f32)(int64_t count, float *y, const float *x, const int32_t *bases, int64_t terms,
                     const int32_t *places, const float *weights, int64_t stride);
    /* y[k] = rows[0][k] weights[0] + rows[1][k] weights[1] + ..., in this order; none: 0 */
    void (*rows_f32)(int64_t count, float *y, int64_t terms, const void *const *rows,
                     const float *weights);
    void (*rows_f64)(int64_t count, double *y, int64_t terms, const void *const *rows,
                     const double *weights);
} exg_weighted_loops;

EXG_LOOPS_DECLARE(exg_weighted_loops, exg_loops_weighted);

#endif
