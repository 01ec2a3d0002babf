/* narrow.c - formulas from bf16 to bf16 (narrow.def).
 *
 * Those of one operand here take fewer steps than math_f32.h's. Each is within 2^-9 of itself
 * (half a unit of bf16's last place) before it is rounded, so that what is stored is the true
 * value's neighbour at worst; gelu far below 0 comes as near as its f32's.
 */
#include "libexec/kernels/loops/flow.h"
#include "libexec/kernels/loops/narrow.h"
#include "libexec/kernels/loops/real_formulas.h"

#include <string.h>

/* ---- formulas of one operand -------------------------------------------------------------- */

#ifdef __AVX512DQ__
/* 2^x: what is left above the whole number below it, and that. */
static inline real power(real x)
{
    real r = (real)_mm512_reduce_ps((__m512)x, 0x09);
    real p = next(next(all(7.8023007e-2f), r, 2.2606939e-1f), r, 6.9583285e-1f);

    return (real)_mm512_scalef_ps((__m512)next(p, r, 9.9992525e-1f), (__m512)x);
}

static inline real exponential(real x)
{
    return power(x * 1.44269504f);
}

static inline real reciprocal(real x)
{
    return (real)_mm512_rcp14_ps((__m512)x);
}

/* 1 / (1 + 2^x) */
static inline real logistic(real x)
{
    return reciprocal(power(x) + 1.0f);
}
#else
/* The square of that of a half, so that it overflows and goes under as it should. */
static inline real exponential(real x)
{
    real half = power_of_two(AT_LEAST(AT_MOST(x, 174.5f), -174.5f), 0.72134752f);

    return half * half;
}

/* For 1 <= x <= 2^126: a guess from the bits, and a step of Newton's with a third term. */
static inline real reciprocal(real x)
{
    real guess = (real)(0x7ef31000 - (bits)x);
    real rest = next(-x, guess, 1.0f);

    return fma_of(guess, fma_of(rest, rest, rest), guess);
}

/* 1 / (1 + 2^x); 0 where that is below 2^-125. */
static inline real logistic(real x)
{
    real y = reciprocal(power_of_two(AT_LEAST(AT_MOST(x, 125.0f), -125.0f), 1.0f) + 1.0f);

    return (real)((bits)y & ~(x > 125.0f));
}
#endif

static inline real sigmoid(real x)
{
    return logistic(x * -1.44269504f);
}

static inline real silu(real x)
{
    return x * sigmoid(x);
}

static inline real hyperbolic_tangent(real x)
{
    real near = AT_LEAST(AT_MOST(x, 3.9f), -3.9f);
    real t = near * near;
    real q = next(next(t, all(6.6358749e-3f), 4.1472749e-1f), t, 1.0f);

    return near * next(t, all(8.3182726e-2f), 9.9967310e-1f) * reciprocal(q);
}

#ifdef EXG_HAVE_REAL_MATH
/* x times a distribution, of which a table has what is below -|x|; 0 from -5.08. */
static inline __attribute__((always_inline)) real distributed(const float table[][32], real x)
{
    real below = piecewise(table, 2, AT_MOST(magnitude_of(x), 5.2f), 0.1665f);
    const __mmask16 is_above = ~_mm512_movepi32_mask((__m512i)x);

    return x * (real)_mm512_mask_sub_ps((__m512)below, is_above, (__m512)all(1.0f), (__m512)below);
}

/* The normal distribution. */
static const float normal_below[3][32] = {
    {0.5000013f, 0.4338811f, 0.3695666f, 0.3087132f, 0.2527054f, 0.2025634f, 0.1588975f,
     0.1219088f, 0.09143068f, 0.06700239f, 0.04795713f, 0.03351372f, 0.02285904f, 0.01521363f,
     0.009877224f, 0.006254069f, 0.003861228f, 0.00232403f, 0.001363445f, 0.0007795561f,
     0.0004343207f, 0.0002357615f, 0.0001246548f, 6.419609e-05f, 3.220732e-05f, 1.573704e-05f,
     7.488231e-06f, 3.469698e-06f, 1.565421e-06f, 6.87656e-07f, 2.940946e-07f, 0.0f},
    {-0.3992049f, -0.3931197f, -0.3771348f, -0.3519246f, -0.319436f, -0.2820326f, -0.2422122f,
     -0.2023359f, -0.1644113f, -0.1299485f, -0.09990599f, -0.07471242f, -0.0543469f, -0.03845365f,
     -0.02646555f, -0.01771759f, -0.01153743f, -0.007307915f, -0.004502546f, -0.002698379f,
     -0.001572996f, -0.000891933f, -0.0004919027f, -0.0002639703f, -0.0001377563f, -6.992764e-05f,
     -3.452766e-05f, -1.658312e-05f, -7.747227e-06f, -3.520522e-06f, -1.55614e-06f, 0.0f},
    {0.008338667f, 0.03288461f, 0.06290796f, 0.08794963f, 0.1063569f, 0.1173015f, 0.1208453f,
     0.1176661f, 0.1091963f, 0.09702587f, 0.08281917f, 0.0680716f, 0.05396995f, 0.04133002f,
     0.03060237f, 0.02192681f, 0.01521296f, 0.01022596f, 0.006662545f, 0.004209061f, 0.00257915f,
     0.001533316f, 0.0008908402f, 0.0005037219f, 0.0002742522f, 0.0001449881f, 7.443837e-05f,
     3.711897e-05f, 1.797945e-05f, 8.460186e-06f, 3.867625e-06f, 0.0f},
};

static inline real gelu(real x)
{
    return distributed(normal_below, x);
}

/* 1 / (1 + exp(2 * sqrt(2 / pi) * (x + 0.044715 * x^3))) */
static const float tanh_below[3][32] = {
    {0.5000013f, 0.4338826f, 0.3695779f, 0.3087476f, 0.2527759f, 0.2026769f, 0.15905f, 0.1220848f,
     0.09160546f, 0.06714784f, 0.04804884f, 0.03353675f, 0.02281088f, 0.01510373f, 0.009723551f,
     0.0060783f, 0.003683984f, 0.002161439f, 0.001225537f, 0.000670349f, 0.0003530791f,
     0.000178741f, 8.674992e-05f, 4.032793e-05f, 1.791397e-05f, 7.588737e-06f, 3.059724e-06f,
     1.171849e-06f, 4.254789e-07f, 1.461644e-07f, 4.741348e-08f, 0.0f},
    {-0.3992062f, -0.3930918f, -0.3770383f, -0.351744f, -0.3191912f, -0.2817765f, -0.2420145f,
     -0.2022637f, -0.1645032f, -0.1302036f, -0.1002831f, -0.07514293f, -0.05475482f, -0.03877562f,
     -0.02666429f, -0.01778584f, -0.01149321f, -0.007184563f, -0.004337648f, -0.002524942f,
     -0.001414487f, -0.0007611575f, -0.0003927566f, -0.0001938938f, -9.140511e-05f, -4.106764e-05f,
     -1.755064e-05f, -7.120219e-06f, -2.736824e-06f, -9.947217e-07f, -3.411994e-07f, 0.0f},
    {0.008379727f, 0.03303787f, 0.0631549f, 0.08819059f, 0.1064827f, 0.1172315f, 0.1205447f,
     0.1172123f, 0.1086829f, 0.0965808f, 0.0825491f, 0.0680296f, 0.05414487f, 0.0416583f,
     0.03099446f, 0.02229628f, 0.01549808f, 0.01039885f, 0.006726436f, 0.004187936f, 0.002505393f,
     0.001437488f, 0.0008044481f, 0.0004233856f, 0.0002124179f, 0.0001014359f, 4.601289e-05f,
     1.978791e-05f, 8.051999e-06f, 3.094189e-06f, 1.1207e-06f, 0.0f},
};

static inline real gelu_tanh(real x)
{
    return distributed(tanh_below, x);
}
#else
/* The normal distribution as a logistic one of a polynomial: what is left of it keeps its
 * accuracy far below 0 too. */
static inline real gelu(real x)
{
    real t = AT_MOST(x * x, 28.1f);
    real q = next(next(all(-5.8133500e-6f), t, 1.2574309e-3f), t, -1.0838282e-1f);

    return x * logistic(x * next(q, t, -2.2989701f));
}

static inline real gelu_tanh(real x)
{
    return x * logistic(x * next(x * x, all(-1.0294324e-1f), -2.3022082f));
}
#endif

/* ---- loops ------------------------------------------------------------------------------ */

#define EXG_NARROW_FORMULA(id)
#define EXG_NARROW(id, function)                                                                  \
    static inline __attribute__((always_inline)) real narrow_##id(real x, real y, real z,         \
                                                                  const float *scalars)           \
    {                                                                                             \
        (void)y, (void)z, (void)scalars;                                                          \
        return function(x);                                                                       \
    }
#include "libexec/kernels/narrow.def"
#undef EXG_NARROW_FORMULA
#undef EXG_NARROW

/* A part that has been computed, from `element` on, as the flow asks. */
static inline __attribute__((always_inline)) void put(uint16_t *to, const uint16_t *part,
                                                      uint32_t element, const exg_flow *flow)
{
    exg_flow_ask(flow, element, EXG_FLOW_PART);
    for (uint32_t k = 0; k < EXG_FLOW_PART; k += EXG_PAIRS) {
        exg_flow_put(to + k, *(const exg_vbytes *)(part + k), flow->is_past_caches);
    }
}

/* Every second element at a time, where it lies. A branch in the loop over vectors would keep
 * compilers from making such of formulas that choose. */
#define LOOP(id, function, rounded)                                                               \
    static inline __attribute__((always_inline)) void pairs_##id(                                 \
        uint32_t count, uint16_t *out, const uint16_t *a, const uint16_t *b, const uint16_t *c,   \
        const float *scalars)                                                                     \
    {                                                                                             \
        for (uint32_t i = 0; i < count; i += EXG_PAIRS) {                                         \
            const bits x = *(const bits *)(a + i);                                                \
            const bits y = *(const bits *)(b + i);                                                \
            const bits z = *(const bits *)(c + i);                                                \
                                                                                                  \
            *(bits *)(out + i) = paired(rounded(function(EVEN(x), EVEN(y), EVEN(z), scalars)),    \
                                        rounded(function(ODD(x), ODD(y), ODD(z), scalars)));      \
        }                                                                                         \
    }                                                                                             \
    static __attribute__((noinline)) void parts_##id(                                             \
        uint32_t count, uint16_t *out, const uint16_t *a, const uint16_t *b, const uint16_t *c,   \
        const float *scalars, const exg_flow *flow)                                               \
    {                                                                                             \
        for (uint32_t i = 0; i < count; i += EXG_FLOW_PART) {                                     \
            _Alignas(EXG_VECTOR_BYTES) uint16_t part[EXG_FLOW_PART];                              \
                                                                                                  \
            pairs_##id(EXG_FLOW_PART, part, a + i, b + i, c + i, scalars);                        \
            put(out + i, part, i, flow);                                                          \
        }                                                                                         \
    }                                                                                             \
    static void loop_##id(uint32_t count, void *out_, const void *a_, const void *b_,             \
                          const void *c_, const void *scalars, const exg_flow *flow, int *bad)    \
    {                                                                                             \
        const uint16_t *a = a_, *b = b_, *c = c_;                                                 \
        uint16_t *out = out_;                                                                     \
        uint32_t i = flow != NULL ? count / EXG_FLOW_PART * EXG_FLOW_PART : 0;                    \
        uint32_t end = count / EXG_PAIRS * EXG_PAIRS;                                             \
                                                                                                  \
        (void)bad;                                                                                \
        if (flow != NULL) {                                                                       \
            parts_##id(i, out, a, b, c, scalars, flow);                                           \
        }                                                                                         \
        pairs_##id(end - i, out + i, a + i, b + i, c + i, scalars);                               \
        if (end < count) {                                                                        \
            const size_t bytes = (count - end) * sizeof(uint16_t);                                \
            uint16_t rest[3][EXG_PAIRS] = {{0}};                                                  \
                                                                                                  \
            memcpy(rest[0], a + end, bytes);                                                      \
            memcpy(rest[1], b + end, bytes);                                                      \
            memcpy(rest[2], c + end, bytes);                                                      \
            pairs_##id(EXG_PAIRS, rest[0], rest[0], rest[1], rest[2], scalars);                   \
            memcpy(out + end, rest[0], bytes);                                                    \
        }                                                                                         \
    }
#define EXG_NARROW(id, function) LOOP(id, narrow_##id, rounded_up)
#define EXG_NARROW_FORMULA(id)   LOOP(id, formula_##id, rounded)
#include "libexec/kernels/narrow.def"
#undef EXG_NARROW_FORMULA
#undef EXG_NARROW

#define EXG_NARROW(id, function) [EXG_FORMULA_##id] = loop_##id,
#define EXG_NARROW_FORMULA(id)   [EXG_FORMULA_##id] = loop_##id,
const exg_narrow_loops EXG_ISA_NAME(exg_loops_narrow) = {{
#include "libexec/kernels/narrow.def"
}};
