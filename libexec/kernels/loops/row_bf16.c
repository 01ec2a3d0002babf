/* row_bf16.c - sums, extremes and maps of a dense row of bf16, two elements a lane.
 *
 * Lanes are 64, those of the elements at even places first.
 */
#include "libexec/kernels/loops/narrow.h"
#include "libexec/kernels/loops/row.h"

#include <string.h>

#define LANES 64
#define LINE  32                  /* elements of a line */
#define STEPS (LANES / EXG_PAIRS) /* vectors of pairs in as many elements as lanes */
#define GROUP 2                   /* of those, whose lanes stay in registers */

EXG_LANE_TOTAL(sixteen_total, 16, exg_float8)

static double lane_total(real *lanes)
{
    for (int half = STEPS; half >= STEPS / 2; half /= 2) {
        for (int k = 0; k < half; k++) {
            lanes[k] += lanes[k + half];
        }
    }
    return sixteen_total(lanes);
}

/* Of element k of a part that begins with the first lane. */
static inline float *lane_of(real *lanes, int64_t k)
{
    return (float *)lanes + (k & 1) * (LANES / 2) + k / 2;
}

static inline bits pairs_at(const uint16_t *x)
{
    return *(const bits *)x;
}

/* Of a group, whose first vector x has, in every so many elements as there are lanes; those of the
 * odd elements are behind the even ones'. */
static inline __attribute__((always_inline)) void sum_group(int64_t count, const uint16_t *x,
                                                            float about, real *sums, real *squares,
                                                            const exg_ahead *ahead, int64_t at)
{
    real sum[2 * GROUP] = {{0}};
    real square[2 * GROUP] = {{0}};

    for (int64_t i = 0; i + LANES <= count; i += LANES) {
        if (ahead != NULL) {
            exg_row_ask(ahead, (at + i) * (int64_t)sizeof(*x));
        }
        for (int k = 0; k < GROUP; k++) {
            bits pairs = pairs_at(x + i + k * EXG_PAIRS);
            real even = EVEN(pairs) - about;
            real odd = ODD(pairs) - about;

            sum[k] += even;
            sum[GROUP + k] += odd;
            square[k] += even * even;
            square[GROUP + k] += odd * odd;
        }
    }
    for (int k = 0; k < 2 * GROUP; k++) {
        const int lane = k < GROUP ? k : STEPS - GROUP + k;

        if (sums != NULL) {
            sums[lane] = sum[k];
        }
        squares[lane] = square[k];
    }
}

static inline __attribute__((always_inline)) void sums_into(int64_t count, const uint16_t *x,
                                                            float about, double *sum,
                                                            double *squares, const exg_ahead *ahead)
{
    for (int64_t first = 0; first < count; first += EXG_STRETCH) {
        int64_t end = first + EXG_STRETCH < count ? first + EXG_STRETCH : count;
        int64_t i = first + (end - first) / LANES * LANES;
        real sums[2 * STEPS];
        real lanes[2 * STEPS];

        for (int k = 0; k < STEPS; k += GROUP) {
            sum_group(end - first, x + first + k * EXG_PAIRS, about, sum != NULL ? sums + k : NULL,
                      lanes + k, k == 0 ? ahead : NULL, first);
        }
        for (int64_t k = 0; i < end; i++, k++) {
            float d = exg_bf16_to_f32(x[i]) - about;

            if (sum != NULL) {
                *lane_of(sums, k) += d;
            }
            *lane_of(lanes, k) += d * d;
        }
        if (sum != NULL) {
            *sum += lane_total(sums);
        }
        *squares += lane_total(lanes);
    }
}

static double sum_squares(int64_t count, const uint16_t *x, float mean, const exg_ahead *ahead)
{
    double squares = 0;

    sums_into(count, x, mean, NULL, &squares, ahead);
    return squares;
}

static double sums(int64_t count, const uint16_t *x, float about, double *squares,
                   const exg_ahead *ahead)
{
    double sum = 0;

    *squares = 0;
    sums_into(count, x, about, &sum, squares, ahead);
    return sum;
}

static float peak(int64_t count, const uint16_t *x)
{
    real lanes[2 * STEPS];
    float greatest = -INFINITY;
    int64_t i = 0;

    for (int k = 0; k < 2 * STEPS; k++) {
        lanes[k] = all(-INFINITY);
    }
    for (; i + LANES <= count; i += LANES) {
        for (int k = 0; k < STEPS; k++) {
            bits pairs = pairs_at(x + i + k * EXG_PAIRS);

            lanes[k] = GREATER(EVEN(pairs), lanes[k]);
            lanes[STEPS + k] = GREATER(ODD(pairs), lanes[STEPS + k]);
        }
    }
    for (int k = 0; k < STEPS; k++) {
        lanes[0] = GREATER(GREATER(lanes[k], lanes[STEPS + k]), lanes[0]);
    }
    for (int k = 0; k < EXG_VF32; k++) {
        greatest = lanes[0][k] > greatest ? lanes[0][k] : greatest;
    }
    for (; i < count; i++) {
        float a = exg_bf16_to_f32(x[i]);

        greatest = a > greatest ? a : greatest;
    }
    return greatest;
}

/* e^x within 2^-12 of itself, 1 of 0; 0 far below, more than 2^100 where x is too great, or NaN. */
#ifdef __AVX512DQ__
static inline real exponential(real x)
{
    /* 2^(k / 16) as bits, less what the k below the point of `t` adds */
    static const int32_t powers[16] = {0x3f800000, 0x3f7daac3, 0x3f7b95c2, 0x3f79c3d3,
                                       0x3f7837f0, 0x3f76f532, 0x3f75fed7, 0x3f75583f,
                                       0x3f7504f3, 0x3f7508a4, 0x3f75672a, 0x3f76248c,
                                       0x3f7744fd, 0x3f78ccdf, 0x3f7ac0c7, 0x3f7d257d};
    const float rounder = 786432.0f; /* leaves 4 bits below the point */
    const __mmask16 is_some = _mm512_cmp_ps_mask((__m512)x, (__m512)all(-87.0f), _CMP_NLT_UQ);
    real near = AT_MOST(x, 88.0f);
    real t = next(near, all(1.44269504f), rounder);
    real u = fma_of(t - rounder, all(-0.693147182f), near);
    bits power = (bits)_mm512_permutexvar_epi32((__m512i)t, _mm512_loadu_si512(powers));
    __m512 scaled = (__m512)(power + ((bits)t << 19));

    return (real)_mm512_maskz_fmadd_ps(is_some, scaled, (__m512)u, scaled);
}
#else
static inline real exponential(real x)
{
    return power_of_two(AT_MOST(AT_LEAST(x, -88.02969f), 88.1f), 1.44269504f);
}
#endif

/* e^(x - shift) of a group, whose first vector x has. */
static inline __attribute__((always_inline)) void exp_step(real *lanes, float *y, const uint16_t *x,
                                                           float shift, bool stores)
{
    real e[2 * GROUP];

    for (int k = 0; k < GROUP; k++) {
        bits pairs = pairs_at(x + k * EXG_PAIRS);

        e[k] = exponential(EVEN(pairs) - shift);
        e[GROUP + k] = exponential(ODD(pairs) - shift);
    }
    for (int k = 0; k < GROUP; k++) {
        lanes[k] += e[k];
        lanes[STEPS + k] += e[GROUP + k];
        if (stores) {
            *(real *)(y + k * EXG_PAIRS) = e[k];
            *(real *)(y + k * EXG_PAIRS + EXG_VF32) = e[GROUP + k];
        }
    }
}

static inline __attribute__((always_inline)) double exp_into(int64_t count, float *y,
                                                             const uint16_t *x, float shift,
                                                             const exg_ahead *ahead, bool stores)
{
    double total = 0;

    for (int64_t first = 0; first < count; first += EXG_STRETCH) {
        int64_t end = first + EXG_STRETCH < count ? first + EXG_STRETCH : count;
        int64_t i = first;
        real lanes[2 * STEPS] = {{0}};

        for (; i + LANES <= end; i += LANES) {
            if (ahead != NULL) {
                exg_row_ask(ahead, i * (int64_t)sizeof(*x));
            }
            for (int64_t k = 0; k < STEPS; k += GROUP) {
                const int64_t at = i + k * EXG_PAIRS;

                exp_step(lanes + k, stores ? y + at : NULL, x + at, shift, stores);
            }
        }
        if (i < end) { /* and -inf, which add nothing */
            uint16_t rest[LANES];

            for (int k = 0; k < LANES; k++) {
                rest[k] = i + k < end ? x[i + k] : 0xff80;
            }
            for (int64_t k = 0; k < STEPS; k += GROUP) {
                exp_step(lanes + k, stores ? y + i + k * EXG_PAIRS : NULL, rest + k * EXG_PAIRS,
                         shift, stores);
            }
        }
        total += lane_total(lanes);
    }
    return total;
}

static double exp_all(int64_t count, float *y, const uint16_t *x, float shift,
                      const exg_ahead *ahead)
{
    return shift == 0 ? exp_into(count, y, x, 0, ahead, true)
                      : exp_into(count, y, x, shift, ahead, true);
}

static double exp_sum(int64_t count, const uint16_t *x, float shift, const exg_ahead *ahead)
{
    return shift == 0 ? exp_into(count, NULL, x, 0, ahead, false)
                      : exp_into(count, NULL, x, shift, ahead, false);
}

static inline bits scaled(const float *x, float factor)
{
    return paired(rounded_up(*(const real *)x * factor),
                  rounded_up(*(const real *)(x + EXG_VF32) * factor));
}

static void scale(int64_t count, uint16_t *y, const float *x, float factor, bool is_past_caches)
{
    const int64_t streamed = is_past_caches ? count & -LINE : 0;
    int64_t i = 0;

    for (; i < streamed; i += EXG_PAIRS) {
        EXG_STREAM(y + i, scaled(x + i, factor));
    }
    for (; i + EXG_PAIRS <= count; i += EXG_PAIRS) {
        *(bits *)(y + i) = scaled(x + i, factor);
    }
    if (i < count) {
        bits last = scaled(x + i, factor);

        memcpy(y + i, &last, (size_t)(count - i) * sizeof(*y));
    }
}

static void widen(int64_t count, float *y, const uint16_t *x)
{
    for (int64_t i = 0; i < count; i += EXG_PAIRS) {
        bits pairs = {0};

        memcpy(&pairs, x + i, (size_t)(count - i < EXG_PAIRS ? count - i : EXG_PAIRS) * sizeof(*x));
        *(real *)(y + i) = EVEN(pairs);
        *(real *)(y + i + EXG_VF32) = ODD(pairs);
    }
}

/* Four rows at a time, added to each element in their order. */
static void add_rows(int64_t count, float *y, const uint16_t *x, int64_t stride, int64_t rows)
{
    int64_t r = 0;

    for (; r + 4 <= rows; r += 4) {
        const uint16_t *a = x + r * stride, *b = a + stride, *c = b + stride, *d = c + stride;

        EXG_INDEPENDENT
        for (int64_t i = 0; i < count; i++) {
            y[i] = y[i] + exg_bf16_to_f32(a[i]) + exg_bf16_to_f32(b[i]) + exg_bf16_to_f32(c[i]) +
                   exg_bf16_to_f32(d[i]);
        }
    }
    for (; r < rows; r++) {
        const uint16_t *a = x + r * stride;

        EXG_INDEPENDENT
        for (int64_t i = 0; i < count; i++) {
            y[i] += exg_bf16_to_f32(a[i]);
        }
    }
}

/* y = formula of two numbers and what EVEN and ODD are of x, weight and bias. */
#define MAP(name, formula, rounded)                                                                \
    static inline bits pairs_##name(bits x, float s, float t, const float *weight,                 \
                                    const float *bias, int64_t i)                                  \
    {                                                                                              \
        (void)weight, (void)bias, (void)i;                                                         \
        return paired(rounded(formula(EVEN, 0)), rounded(formula(ODD, EXG_VF32)));                 \
    }                                                                                              \
    static void name(int64_t count, uint16_t *y, const uint16_t *x, float s, float t,              \
                     const float *weight, const float *bias, bool is_past_caches)                  \
    {                                                                                              \
        const int64_t streamed = is_past_caches ? count & -LINE : 0;                               \
        int64_t i = 0;                                                                             \
                                                                                                   \
        for (; i < streamed; i += EXG_PAIRS) {                                                     \
            EXG_STREAM(y + i, pairs_##name(pairs_at(x + i), s, t, weight, bias, i));               \
        }                                                                                          \
        for (; i + EXG_PAIRS <= count; i += EXG_PAIRS) {                                           \
            *(bits *)(y + i) = pairs_##name(pairs_at(x + i), s, t, weight, bias, i);               \
        }                                                                                          \
        if (i < count) {                                                                           \
            const size_t bytes = (size_t)(count - i) * sizeof(*y);                                 \
            bits rest = {0};                                                                       \
                                                                                                   \
            memcpy(&rest, x + i, bytes);                                                           \
            rest = pairs_##name(rest, s, t, weight, bias, i);                                      \
            memcpy(y + i, &rest, bytes);                                                           \
        }                                                                                          \
    }

#define OF(row, at)               (*(const real *)((row) + i + (at)))
#define SHIFTED(PART, at)         ((PART(x) - s) - t)
#define NORMALIZED(PART, at)      ((PART(x) - s) * t)
#define WEIGHTED(PART, at)        (NORMALIZED(PART, at) * OF(weight, at))
#define BIASED(PART, at)          (NORMALIZED(PART, at) + OF(bias, at))
#define WEIGHTED_BIASED(PART, at) (WEIGHTED(PART, at) + OF(bias, at))

MAP(shifted, SHIFTED, rounded)
MAP(normalized, NORMALIZED, rounded_up)
MAP(weighted, WEIGHTED, rounded_up)
MAP(biased, BIASED, rounded_up)
MAP(weighted_biased, WEIGHTED_BIASED, rounded_up)

static void shift(int64_t count, uint16_t *y, const uint16_t *x, float first, float second,
                  bool is_past_caches)
{
    shifted(count, y, x, first, second, NULL, NULL, is_past_caches);
}

static void normalize(int64_t count, uint16_t *y, const uint16_t *x, float mean, float factor,
                      const float *weight, const float *bias, bool is_past_caches)
{
    if (weight != NULL && bias != NULL) {
        weighted_biased(count, y, x, mean, factor, weight, bias, is_past_caches);
    } else if (weight != NULL) {
        weighted(count, y, x, mean, factor, weight, weight, is_past_caches);
    } else if (bias != NULL) {
        biased(count, y, x, mean, factor, bias, bias, is_past_caches);
    } else {
        normalized(count, y, x, mean, factor, NULL, NULL, is_past_caches);
    }
}

const exg_row_bf16_loops EXG_ISA_NAME(exg_loops_row_bf16) = {
    .sums = sums,
    .sum_squares = sum_squares,
    .widen = widen,
    .add_rows = add_rows,
    .peak = peak,
    .exp = exp_all,
    .exp_sum = exp_sum,
    .scale = scale,
    .shift = shift,
    .normalize = normalize,
};
