/* row.c - sums, extremes and maps of a dense row, for f32 and f64. */
#include "libexec/kernels/loops/row.h"
#include "libexec/kernels/loops/real_math.h"

#include <string.h>

#define LANES   (128 / (int)sizeof(REAL))
#define LINE    (LANES / 2)
#define VECTORS (128 / EXG_VECTOR_BYTES)

EXG_LANE_TOTAL(row_f32_lane_total, 32, exg_float8)
EXG_LANE_TOTAL(row_f64_lane_total, 16, exg_double8)

#ifdef __AVX512F__
/* The first `count` elements, or as many as there is room for, and zeros. */
static inline exg_vf32 row_f32_first_of(const float *x, int64_t count)
{
    const uint32_t mask = count <= 0 ? 0 : count >= 16 ? 0xffff : (1U << count) - 1;

    return (exg_vf32)_mm512_maskz_loadu_ps((__mmask16)mask, x);
}

static inline exg_vf64 row_f64_first_of(const double *x, int64_t count)
{
    const uint32_t mask = count <= 0 ? 0 : count >= 8 ? 0xff : (1U << count) - 1;

    return (exg_vf64)_mm512_maskz_loadu_pd((__mmask8)mask, x);
}
#endif

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

#define INTEGER_ROW(name, type, start, expression)                                                 \
    static int64_t name(int64_t count, const void *x_)                                             \
    {                                                                                              \
        const type *x = x_;                                                                        \
        int64_t s = start;                                                                         \
                                                                                                   \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const int64_t v = x[i];                                                                \
            s = expression;                                                                        \
        }                                                                                          \
        return s;                                                                                  \
    }                                                                                              \
    static void name##_rows(int64_t count, int64_t *y, const void *x_, int64_t stride,             \
                            int64_t rows)                                                          \
    {                                                                                              \
        for (int64_t r = 0; r < rows; r++) {                                                       \
            const type *x = (const type *)x_ + r * stride;                                         \
                                                                                                   \
            EXG_INDEPENDENT                                                                        \
            for (int64_t i = 0; i < count; i++) {                                                  \
                const int64_t v = x[i], s = y[i];                                                  \
                y[i] = expression;                                                                 \
            }                                                                                      \
        }                                                                                          \
    }

#define INTEGER_ROWS(name, type)                                                                   \
    INTEGER_ROW(name##_sum, type, 0, (int64_t)((uint64_t)s + (uint64_t)v))                         \
    INTEGER_ROW(name##_max, type, INT64_MIN, v > s ? v : s)                                        \
    INTEGER_ROW(name##_min, type, INT64_MAX, v < s ? v : s)

/* Four rows at a time. */
#define INTEGER_PRODUCTS(name, type)                                                               \
    static void name##_add_products(int64_t count, int64_t *y_, const void *x_, int64_t stride,    \
                                    int64_t rows, const int64_t *factors_)                         \
    {                                                                                              \
        const uint64_t *factors = (const uint64_t *)factors_;                                      \
        uint64_t *y = (uint64_t *)y_;                                                              \
        int64_t r = 0;                                                                             \
                                                                                                   \
        for (; r + 4 <= rows; r += 4) {                                                            \
            const type *a = (const type *)x_ + r * stride;                                         \
            const type *b = a + stride;                                                            \
            const type *c = b + stride;                                                            \
            const type *d = c + stride;                                                            \
            const uint64_t e = factors[r], f = factors[r + 1], g = factors[r + 2],                 \
                           h = factors[r + 3];                                                     \
                                                                                                   \
            EXG_INDEPENDENT                                                                        \
            for (int64_t i = 0; i < count; i++) {                                                  \
                y[i] += (e * (uint64_t)a[i] + f * (uint64_t)b[i]) +                                \
                        (g * (uint64_t)c[i] + h * (uint64_t)d[i]);                                 \
            }                                                                                      \
        }                                                                                          \
        for (; r < rows; r++) {                                                                    \
            const type *a = (const type *)x_ + r * stride;                                         \
                                                                                                   \
            EXG_INDEPENDENT                                                                        \
            for (int64_t i = 0; i < count; i++) {                                                  \
                y[i] += factors[r] * (uint64_t)a[i];                                               \
            }                                                                                      \
        }                                                                                          \
    }

#define INTEGER_TABLE(name)                                                                        \
    {                                                                                              \
        .sum = name##_sum, .max = name##_max, .min = name##_min, .add_rows = name##_sum_rows,      \
        .max_rows = name##_max_rows, .min_rows = name##_min_rows,                                  \
        .add_products = name##_add_products                                                        \
    }

INTEGER_ROWS(i32, int32_t)
INTEGER_ROWS(i64, int64_t)
INTEGER_PRODUCTS(i32, int32_t)
INTEGER_PRODUCTS(i64, int64_t)

const exg_row_integer_loops EXG_ISA_NAME(exg_loops_row_integer) = {INTEGER_TABLE(i32),
                                                                   INTEGER_TABLE(i64)};

#define TABLE(R)                                                                                   \
    {                                                                                              \
        .sum = R(sum), .product = R(product), .sum_squares = R(sum_squares), .max = R(max),        \
        .min = R(min), .peak = R(peak), .exp = R(exp), .exp_sum = R(exp_sum), .scale = R(scale),   \
        .shift = R(shift), .exp_across = R(exp_across), .scale_across = R(scale_across),           \
        .shift_across = R(shift_across), .normalize = R(normalize), .add = R(add),                 \
        .max_of = R(max_of), .min_of = R(min_of), .add_rows = R(add_rows),                         \
        .max_rows = R(max_rows), .min_rows = R(min_rows),                                          \
    }
#define F32(name) row_f32_##name
#define F64(name) row_f64_##name

const exg_row_f32_loops EXG_ISA_NAME(exg_loops_row_f32) = TABLE(F32);
const exg_row_f64_loops EXG_ISA_NAME(exg_loops_row_f64) = TABLE(F64);
