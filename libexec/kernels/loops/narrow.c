/* narrow.c - formulas whose results are rounded to bf16, in fewer steps than math_f32.h's.
 *
 * Each is within 2^-9 of itself (half a unit of bf16's last place) before that, so that what is
 * stored is the true value's neighbour at worst; gelu far below 0 comes as near as its f32's.
 */
#include "libexec/kernels/loops/loops.h"
#include "libexec/kernels/loops/vector.h"
#include "libexec/kernels/math_f32.h"

#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

typedef exg_vf32 real;
typedef int32_t bits __attribute__((vector_size(EXG_VECTOR_BYTES), aligned(2), may_alias));
typedef uint32_t ubits __attribute__((vector_size(EXG_VECTOR_BYTES), aligned(4), may_alias));

/* min(x, limit) and max(x, limit); NaN stays. */
#if defined(__AVX512F__)
#define AT_MOST(x, limit)  ((real)_mm512_min_ps(_mm512_set1_ps(limit), (__m512)(x)))
#define AT_LEAST(x, limit) ((real)_mm512_max_ps(_mm512_set1_ps(limit), (__m512)(x)))
#elif defined(__AVX__)
#define AT_MOST(x, limit)  ((real)_mm256_min_ps(_mm256_set1_ps(limit), (__m256)(x)))
#define AT_LEAST(x, limit) ((real)_mm256_max_ps(_mm256_set1_ps(limit), (__m256)(x)))
#elif defined(__SSE2__)
#define AT_MOST(x, limit)  ((real)_mm_min_ps(_mm_set1_ps(limit), (__m128)(x)))
#define AT_LEAST(x, limit) ((real)_mm_max_ps(_mm_set1_ps(limit), (__m128)(x)))
#else
#define AT_MOST(x, limit)  chosen((x) > (limit), x, limit)
#define AT_LEAST(x, limit) chosen((x) < (limit), x, limit)

static inline real chosen(bits beyond, real x, float limit)
{
    return (real)(((bits)x & ~beyond) | (((bits){0} + exg_f32_bits(limit)) & beyond));
}
#endif

/* 2^x for |x| <= 126. */
static inline real power_of_two(real x)
{
    const float rounder = EXG_F32_ROUNDER + 127.0f;
    real t = x + rounder;
    real r = x - (t - rounder);
    real p = ((5.5171669e-2f * r + 2.4261114e-1f) * r + 6.9326099e-1f) * r + 9.9992807e-1f;

    return p * (real)((bits)t << 23);
}

/* The square of that of a half, so that it overflows and goes under as it should. */
static inline real exponential(real x)
{
    real half = power_of_two(AT_LEAST(AT_MOST(x * 0.72134752f, 126.0f), -126.0f));

    return half * half;
}

/* For 1 <= x <= 2^126: a guess from the bits, and a step of Newton's with a third term. */
static inline real reciprocal(real x)
{
    real guess = (real)(0x7ef31000 - (bits)x);
    real rest = 1.0f - x * guess;

    return guess * (rest * rest + rest) + guess;
}

/* 1 / (1 + 2^x); 0 where that is below 2^-125. */
static inline real logistic(real x)
{
    real y = reciprocal(power_of_two(AT_LEAST(AT_MOST(x, 125.0f), -125.0f)) + 1.0f);

    return (real)((bits)y & ~(x > 125.0f));
}

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
    real q = (t * 6.6358749e-3f + 4.1472749e-1f) * t + 1.0f;

    return near * (t * 8.3182726e-2f + 9.9967310e-1f) * reciprocal(q);
}

/* The f32 one, whose quotient costs no more than the steps of a logistic. */
static inline real gelu(real x)
{
    real y;

    for (int k = 0; k < EXG_VF32; k++) {
        ((float *)&y)[k] = ((const float *)&x)[k] * exg_f32_normal_cdf(((const float *)&x)[k]);
    }
    return y;
}

static inline real gelu_tanh(real x)
{
    return x * logistic(x * (x * x * -1.0294324e-1f - 2.3022082f));
}

/* To the upper halves, those of NaN too: what is below theirs is 0, as it was in what came. */
static inline bits rounded(real x)
{
    return (bits)x + (((bits)x >> 16 & 1) + 0x7fff);
}

#define EXG_NARROW(id, function)                                                                  \
    static void values_##id(uint32_t count, void *out, const void *a, const void *b,              \
                            const void *c, const void *scalars, int *bad)                         \
    {                                                                                             \
        float rest[EXG_VF32] = {0};                                                               \
        uint32_t i = 0;                                                                           \
                                                                                                  \
        (void)b, (void)c, (void)scalars, (void)bad;                                               \
        for (; i + EXG_VF32 <= count; i += EXG_VF32) {                                            \
            *(real *)((float *)out + i) = function(*(const real *)((const float *)a + i));        \
        }                                                                                         \
        if (i < count) {                                                                          \
            memcpy(rest, (const float *)a + i, (count - i) * sizeof(float));                      \
            *(real *)rest = function(*(real *)rest);                                              \
            memcpy((float *)out + i, rest, (count - i) * sizeof(float));                          \
        }                                                                                         \
    }                                                                                             \
    /* Every second element at a time, where it lies. */                                          \
    static inline bits pair_##id(bits x)                                                          \
    {                                                                                             \
        bits low = rounded(function((real)(x << 16)));                                            \
        bits high = rounded(function((real)(x & -65536)));                                        \
                                                                                                  \
        return (bits)((ubits)low >> 16) | (high & -65536);                                        \
    }                                                                                             \
    static void stored_##id(uint32_t count, void *out, const void *a)                             \
    {                                                                                             \
        uint16_t rest[2 * EXG_VF32] = {0};                                                        \
        uint32_t i = 0;                                                                           \
                                                                                                  \
        for (; i + 2 * EXG_VF32 <= count; i += 2 * EXG_VF32) {                                    \
            *(bits *)((uint16_t *)out + i) = pair_##id(*(const bits *)((const uint16_t *)a + i)); \
        }                                                                                         \
        if (i < count) {                                                                          \
            memcpy(rest, (const uint16_t *)a + i, (count - i) * sizeof(uint16_t));                \
            *(bits *)rest = pair_##id(*(bits *)rest);                                             \
            memcpy((uint16_t *)out + i, rest, (count - i) * sizeof(uint16_t));                    \
        }                                                                                         \
    }
#include "libexec/kernels/narrow.def"
#undef EXG_NARROW

const exg_narrow_loops EXG_ISA_NAME(exg_loops_narrow) = {
    .values = {
#define EXG_NARROW(id, function) [EXG_FORMULA_##id] = values_##id,
#include "libexec/kernels/narrow.def"
#undef EXG_NARROW
    },
    .stored = {
#define EXG_NARROW(id, function) [EXG_FORMULA_##id] = stored_##id,
#include "libexec/kernels/narrow.def"
#undef EXG_NARROW
    }};
