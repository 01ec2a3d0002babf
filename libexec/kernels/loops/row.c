/* row.c - sums, extremes and maps of a dense row, for f32 and f64. */
#include "libexec/kernels/loops/loops.h"
#include "libexec/kernels/loops/vector.h"
#include "libexec/kernels/math_f32.h"

#define STRETCH 4096 /* elements summed in the row's type */
#define LANES   (128 / (int)sizeof(REAL))
#define VECTORS (128 / EXG_VECTOR_BYTES)

#define REAL   float
#define VECTOR exg_vf32
#define ROW(name) row_f32_##name
#define EXP(x)    exg_f32_exp(x)
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

const exg_row_f32_loops EXG_ISA_NAME(exg_loops_row_f32) = {
    row_f32_sum,   row_f32_sum_squares, row_f32_max,       row_f32_min,
    row_f32_exp,   row_f32_exp_sum,     row_f32_scale,     row_f32_shift,
    row_f32_normalize, row_f32_add,     row_f32_max_of,    row_f32_min_of,
};

const exg_row_f64_loops EXG_ISA_NAME(exg_loops_row_f64) = {
    row_f64_sum,   row_f64_sum_squares, row_f64_max,       row_f64_min,
    row_f64_exp,   row_f64_exp_sum,     row_f64_scale,     row_f64_shift,
    row_f64_normalize, row_f64_add,     row_f64_max_of,    row_f64_min_of,
};
