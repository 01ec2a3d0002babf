/* weight.h - factors of a weight's groups. */
#ifndef EXG_LIBEXEC_KERNELS_LOOPS_WEIGHT_H
#define EXG_LIBEXEC_KERNELS_LOOPS_WEIGHT_H

#include "libexec/kernels/loops/loops.h"

static inline float exg_weight_scale(const exg_weight *w, int64_t j, int64_t g)
{
    return w->scales == NULL ? 1 : w->scales[j * w->groups + g];
}

/* What is added to a sum for the groups' shifts: they times the sums of x. */
static inline float exg_weight_shift(const exg_weight *w, int64_t j, const float *sums)
{
    float shift = 0;

    for (int64_t g = 0; g < w->groups; g++) {
        shift += w->shifts[j * w->groups + g] * sums[g];
    }
    return shift;
}

#endif
