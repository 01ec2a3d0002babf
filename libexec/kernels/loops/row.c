/* row.c - sums, extremes and maps of a dense row, for f32 and f64. */
#include "libexec/kernels/loops/loops.h"
#include "libexec/kernels/loops/vector.h"
#include "libexec/kernels/math_f32.h"

#define STRETCH 4096 /* elements summed in the row's type */
#define LANES   (128 / (int)sizeof(REAL))
#define VECTORS (128 / EXG_VECTOR_BYTES)

#define UNROLL  _Pragma("GCC unroll 8")

typedef float float4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double double4 __attribute__((vector_size(32), aligned(8), may_alias));

/* For the stretch of 128 bytes that begins at byte `at` of the row. */
static inline __attribute__((always_inline)) void ask(const exg_ahead *ahead, int64_t at)
{
    for (int k = 0; k < 2; k++) {
        for (uint32_t byte = 0; byte < ahead->bytes[k]; byte += 64) {
            __builtin_prefetch(ahead->at[k] + at / 128 * ahead->bytes[k] + byte);
        }
    }
}

#define REAL   float
#define REAL4  float4
#define VECTOR exg_vf32
#define ROW(name) row_f32_##name
#define EXP(x)    exg_f32_exp_down(x)
#include "libexec/kernels/loops/row_body.h"
#undef REAL
#undef REAL4
#undef VECTOR
#undef ROW
#undef EXP

#define REAL   double
#define REAL4  double4
#define VECTOR exg_vf64
#define ROW(name) row_f64_##name
#define EXP(x)    exp(x)
#include "libexec/kernels/loops/row_body.h"
#undef REAL
#undef REAL4
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
