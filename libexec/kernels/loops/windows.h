/* windows.h - windows of a row under filters. */
#ifndef EXG_LIBEXEC_KERNELS_LOOPS_WINDOWS_H
#define EXG_LIBEXEC_KERNELS_LOOPS_WINDOWS_H

#include "libexec/kernels/loops/loops.h"

#define EXG_WINDOWS_FILTERS      4
#define EXG_WINDOWS_PLANES       3
#define EXG_WINDOWS_PLANE(index) (2 * (index) + 3) /* rows of a filter */

/* y[i] = starts[0] + weights[0] * x[i + offsets[0]] + ...; both have room for 64 floats, or as many
 * bytes, more. [1]: of EXG_WINDOWS_FILTERS filters, their rows `pitch` apart; those of a tap have
 * their weights side by side. */
typedef struct exg_windows_loops {
    void (*f32[2])(int64_t count, float *y, int64_t pitch, const float *x, int64_t taps,
                   const int64_t *offsets, const float *weights, const double *starts);
    void (*f64[2])(int64_t count, double *y, int64_t pitch, const double *x, int64_t taps,
                   const int64_t *offsets, const double *weights, const double *starts);
    /* The same of `rows` rows, `pitch` apart in y and `width` in x, under one filter of
     * EXG_WINDOWS_PLANE of the index rows, which are neighbours, by `taps` columns: offsets and
     * weights (rows, taps). What x brings is used for several rows of y. */
    void (*planes_f32[EXG_WINDOWS_PLANES])(int64_t rows, int64_t count, float *y, int64_t pitch,
                                           const float *x, int64_t width, int64_t taps,
                                           const int64_t *offsets, const float *weights,
                                           float start);
} exg_windows_loops;

EXG_LOOPS_DECLARE(exg_windows_loops, exg_loops_windows);

#endif
