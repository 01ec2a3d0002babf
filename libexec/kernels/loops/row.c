/* row.c - sums, extremes and maps of a dense row, for f32 and f64. */
#include "libexec/kernels/loops/row.h"
#include "libexec/kernels/loops/real_math.h"

#include <string.h>

#define LANES   (128 / (int)sizeof(REAL))
#define LINE    (LANES / 2)
#define VECTORS (128 / EXG_VECTOR_BYTES)

EXG_LANE_TOTAL(row_f32_lane_total, 32, exg_float8)
EXG_LANE_TOTAL(row_f64_lane_total, 16, exg_double8)

/* e^(x - shift) of whole vectors, or of `count`; shift is not below x. */
static inline __attribute__((always_inline)) void row_f32_exp_lanes(int count, float *e,
                                                                    const float *x, float shift)
{
#ifdef EXG_HAVE_REAL_MATH
    for (int k = 0; k < count; k += EXG_VF32) {
        *(real *)(e + k) = real_exp_down(*(const real *)(x + k) - shift);
    }
#else
    EXG_INDEPENDENT
    for (int k = 0; k < count; k++) {
        e[k] = exg_f32_exp_down(x[k] - shift);
    }
#endif
}

static inline __attribute__((always_inline)) void row_f64_exp_lanes(int count, double *e,
                                                                    const double *x, double shift)
{
    for (int k = 0; k < count; k++) {
        e[k] = exp(x[k] - shift);
    }
}

#define REAL      float
#define VECTOR    exg_vf32
#define ROW(name) row_f32_##name
#include "libexec/kernels/loops/row_body.h"
#undef REAL
#undef VECTOR
#undef ROW

#define REAL      double
#define VECTOR    exg_vf64
#define ROW(name) row_f64_##name
#include "libexec/kernels/loops/row_body.h"
#undef REAL
#undef VECTOR
#undef ROW

#define TABLE(R)                                                                                   \
    {                                                                                              \
        .sum = R(sum), .sum_squares = R(sum_squares), .max = R(max), .min = R(min),                \
        .peak = R(peak), .exp = R(exp), .exp_sum = R(exp_sum), .scale = R(scale),                  \
        .shift = R(shift), .exp_across = R(exp_across), .scale_across = R(scale_across),           \
        .shift_across = R(shift_across), .normalize = R(normalize), .add = R(add),                 \
        .windows = R(windows), .max_of = R(max_of), .min_of = R(min_of),                           \
    }
#define F32(name) row_f32_##name
#define F64(name) row_f64_##name

const exg_row_f32_loops EXG_ISA_NAME(exg_loops_row_f32) = TABLE(F32);
const exg_row_f64_loops EXG_ISA_NAME(exg_loops_row_f64) = TABLE(F64);
