/* row.c - sums, extremes and maps of a dense row, for f32 and f64. */
#include "libexec/kernels/loops/row.h"
#include "libexec/kernels/math_f32.h"

#define LANES   (128 / (int)sizeof(REAL))
#define LINE    (LANES / 2)
#define VECTORS (128 / EXG_VECTOR_BYTES)

EXG_LANE_TOTAL(row_f32_lane_total, 32, exg_float8)
EXG_LANE_TOTAL(row_f64_lane_total, 16, exg_double8)

#define REAL   float
#define VECTOR exg_vf32
#define ROW(name) row_f32_##name
#define EXP(x)    exg_f32_exp_down(x)
#include "libexec/kernels/loops/row_body.h"
#undef REAL
#undef VECTOR
#undef ROW
#undef EXP

#define REAL   double
#define VECTOR exg_vf64
#define ROW(name) row_f64_##name
#define EXP(x)    exp(x)
#include "libexec/kernels/loops/row_body.h"
#undef REAL
#undef VECTOR
#undef ROW
#undef EXP

#define TABLE(R)                                                                              \
    {                                                                                         \
        .sum = R(sum), .sum_squares = R(sum_squares), .max = R(max), .min = R(min),           \
        .peak = R(peak),                                                                      \
        .exp = R(exp), .exp_sum = R(exp_sum), .scale = R(scale), .shift = R(shift),           \
        .normalize = R(normalize), .add = R(add), .add_scaled = R(add_scaled),                \
        .max_of = R(max_of), .min_of = R(min_of),                                             \
    }
#define F32(name) row_f32_##name
#define F64(name) row_f64_##name

const exg_row_f32_loops EXG_ISA_NAME(exg_loops_row_f32) = TABLE(F32);
const exg_row_f64_loops EXG_ISA_NAME(exg_loops_row_f64) = TABLE(F64);
