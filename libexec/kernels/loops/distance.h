/* distance.h - from one number to the same one of many rows. */
#ifndef EXG_LIBEXEC_KERNELS_LOOPS_DISTANCE_H
#define EXG_LIBEXEC_KERNELS_LOOPS_DISTANCE_H

#include "libexec/kernels/loops/loops.h"

typedef enum exg_distance {
    EXG_DISTANCE_COUNT,    /* of numbers that differ */
    EXG_DISTANCE_SUM,      /* of magnitudes */
    EXG_DISTANCE_SQUARES,  /* their sum */
    EXG_DISTANCE_GREATEST, /* magnitude, NaN where there is one */
    EXG_DISTANCES
} exg_distance;

/* sums[k] += what x and y[k] are apart; rounded to the type before. */
typedef struct exg_distance_loops {
    void (*f32[EXG_DISTANCES])(int64_t count, double *sums, float x, const float *y);
    void (*f64[EXG_DISTANCES])(int64_t count, double *sums, double x, const double *y);
} exg_distance_loops;

EXG_LOOPS_DECLARE(exg_distance_loops, exg_loops_distance);

#endif
