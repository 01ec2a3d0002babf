/* narrow.c - formulas from bf16 to bf16 (narrow.def).
 *
 * Those of one operand here take fewer steps than math_f32.h's. Each is within 2^-9 of itself
 * (half a unit of bf16's last place) before it is rounded, so that what is stored is the true
 * value's neighbour at worst; gelu far below 0 comes as near as its f32's.
 */
#define EXG_FORMULA_F32
#include "libexec/kernels/formula.h"
#include "libexec/kernels/loops/flow.h"
#include "libexec/kernels/loops/narrow.h"

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

/* ---- loops ------------------------------------------------------------------------------ */

#define SCALARS(s_) \
    const float s = (s_)[0], t = (s_)[1], u = (s_)[2], v = (s_)[3]
#define UNUSED(a, b, c, s, t, u, v) \
    ((void)(a), (void)(b), (void)(c), (void)(s), (void)(t), (void)(u), (void)(v))

/* pointwise.def's own, over the elements of vectors. */
#define EXG_POINTWISE(id, schema, result, float_formula, int_formula, sharding) \
    FORMULA_##result(id, float_formula)
#define FORMULA_PROMOTE(id, formula) FORMULA(id, formula)
#define FORMULA_NUMBER(id, formula)  FORMULA(id, formula)
#define FORMULA_FLOAT(id, formula)   FORMULA(id, formula)
#define FORMULA_FIRST(id, formula)
#define FORMULA_CAST(id, formula)
#define FORMULA_BOOL(id, formula)
#define FORMULA_WHERE(id, formula)
#define FORMULA(id, formula)                                                                      \
    static inline __attribute__((always_inline)) real formula_##id(real x, real y, real z,        \
                                                                   const float *scalars)          \
    {                                                                                             \
        enum { far = 0 };                                                                         \
        SCALARS(scalars);                                                                         \
        real result;                                                                              \
                                                                                                  \
        for (int k = 0; k < EXG_VF32; k++) {                                                      \
            const float a = ((const float *)&x)[k];                                               \
            const float b = ((const float *)&y)[k];                                               \
            const float c = ((const float *)&z)[k];                                               \
                                                                                                  \
            UNUSED(a, b, c, s, t, u, v);                                                          \
            ((float *)&result)[k] = (float)(formula);                                             \
        }                                                                                         \
        return result;                                                                            \
    }
#include "libexport/operators/pointwise.def"
#undef EXG_POINTWISE

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

/* `element` is where the vector lies in its tile. */
static inline __attribute__((always_inline)) void put(uint16_t *to, bits value, uint32_t element,
                                                      const exg_flow *flow)
{
    if (flow != NULL && flow->is_past_caches) {
        EXG_STREAM(to, value);
    } else {
        *(bits *)to = value;
    }
    if (flow != NULL && element % EXG_FLOW_PART == 0) {
        exg_flow_ask(flow, element);
    }
}

/* Every second element at a time, where it lies. */
#define LOOP(id, function, rounded)                                                               \
    static inline __attribute__((always_inline)) bits pairs_##id(bits a, bits b, bits c,          \
                                                                 const float *scalars)            \
    {                                                                                             \
        return paired(rounded(function(EVEN(a), EVEN(b), EVEN(c), scalars)),                      \
                      rounded(function(ODD(a), ODD(b), ODD(c), scalars)));                        \
    }                                                                                             \
    static void loop_##id(uint32_t count, void *out, const void *a, const void *b, const void *c, \
                          const void *scalars, const exg_flow *flow, int *bad)                    \
    {                                                                                             \
        uint16_t rest[3][EXG_PAIRS] = {{0}};                                                      \
        uint32_t i = 0;                                                                           \
                                                                                                  \
        (void)bad, (void)flow;                                                                    \
        for (; i + EXG_PAIRS <= count; i += EXG_PAIRS) {                                          \
            PUT((uint16_t *)out + i,                                                              \
                pairs_##id(*(const bits *)((const uint16_t *)a + i),                              \
                           *(const bits *)((const uint16_t *)b + i),                              \
                           *(const bits *)((const uint16_t *)c + i), scalars),                    \
                i);                                                                               \
        }                                                                                         \
        if (i < count) {                                                                          \
            memcpy(rest[0], (const uint16_t *)a + i, (count - i) * sizeof(uint16_t));             \
            memcpy(rest[1], (const uint16_t *)b + i, (count - i) * sizeof(uint16_t));             \
            memcpy(rest[2], (const uint16_t *)c + i, (count - i) * sizeof(uint16_t));             \
            *(bits *)rest[0] = pairs_##id(*(const bits *)rest[0], *(const bits *)rest[1],         \
                                          *(const bits *)rest[2], scalars);                       \
            memcpy((uint16_t *)out + i, rest[0], (count - i) * sizeof(uint16_t));                 \
        }                                                                                         \
    }
#define PUT(to, value, element) put(to, value, element, flow)
#define EXG_NARROW(id, function) LOOP(id, narrow_##id, rounded_up)
#define EXG_NARROW_FORMULA(id)
#include "libexec/kernels/narrow.def"
#undef EXG_NARROW_FORMULA
#undef EXG_NARROW
#undef PUT

/* A branch in the loop would keep compilers from making vectors of formulas that choose. */
#define PUT(to, value, element) (*(bits *)(to) = (value))
#define EXG_NARROW(id, function)
#define EXG_NARROW_FORMULA(id) LOOP(id, formula_##id, rounded)
#include "libexec/kernels/narrow.def"
#undef EXG_NARROW_FORMULA
#undef EXG_NARROW

#define EXG_NARROW(id, function) [EXG_FORMULA_##id] = loop_##id,
#define EXG_NARROW_FORMULA(id)   [EXG_FORMULA_##id] = loop_##id,
const exg_narrow_loops EXG_ISA_NAME(exg_loops_narrow) = {
    {
#include "libexec/kernels/narrow.def"
    },
#undef EXG_NARROW_FORMULA
#undef EXG_NARROW
#define EXG_NARROW(id, function) [EXG_FORMULA_##id] = true,
#define EXG_NARROW_FORMULA(id)
    {
#include "libexec/kernels/narrow.def"
    }};
