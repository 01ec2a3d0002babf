/* weight.h - what the loops by weights of fewer bits share: their order in memory, the factors of
 * their groups. */
#ifndef EXG_LIBEXEC_KERNELS_LOOPS_WEIGHT_H
#define EXG_LIBEXEC_KERNELS_LOOPS_WEIGHT_H

#include "libexec/kernels/loops/loops.h"
#include "libexec/kernels/loops/vector.h"

typedef float exg_weight_four __attribute__((vector_size(16), aligned(4), may_alias));

static inline float exg_weight_lanes_sum(exg_vf32 v)
{
    exg_weight_four folded = ((const exg_weight_four *)&v)[0];

    for (int i = 1; i < EXG_VF32 / 4; i++) {
        folded += ((const exg_weight_four *)&v)[i];
    }
    return (folded[0] + folded[1]) + (folded[2] + folded[3]);
}

/* What is added to a sum for the groups' shifts: they times the sums of x. */
static inline float exg_weight_shift(const exg_weight *w, int64_t j, const float *sums)
{
    const float *shifts = w->shifts + j * w->groups;
    exg_vf32 lanes = {0};
    float shift;
    int64_t g = 0;

    for (; g + EXG_VF32 <= w->groups; g += EXG_VF32) {
        lanes += *(const exg_vf32 *)(shifts + g) * *(const exg_vf32 *)(sums + g);
    }
    shift = exg_weight_lanes_sum(lanes);
    for (; g < w->groups; g++) {
        shift += shifts[g] * sums[g];
    }
    return shift;
}

/* Asks for what rows have where this one is read: far ones, to the second cache, and the one whose
 * turn is after `columns` rows. */
static inline __attribute__((always_inline)) void exg_weight_ask(const exg_weight *w, int columns,
                                                                 const char *bytes)
{
    EXG_ASK_FAR(bytes);
    __builtin_prefetch(bytes + columns * w->stride);
}

#endif
