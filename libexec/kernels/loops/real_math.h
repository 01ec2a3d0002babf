/* real_math.h - functions of math_f32.h by vectors, in fewer steps: those for AVX-512 look up what
 * 32 floats hold and scale by powers of two. Bounds are those of math_f32.h; logistic functions
 * are within 3.5 units, gelu within 2 of its argument.
 *
 * A table has the coefficients of one polynomial for each of 32 stretches, about the stretch's
 * middle and with its length as unit: [degree][32], since the last two share a row: the lower half
 * of a float is the upper half of the next one's. Minimax fits of our own (Lawson iteration).
 *
 * Steps are chosen for processors (Zen 4) with two kinds of pipes: products, reciprocals and
 * lookups take one of the first, sums, comparisons, shifts and rounding one of the second, a
 * division two of the first, a scaling two of the second. Without AVX-512 (Zen 1) the greater and
 * the lesser take one of the first too.
 */
#ifndef EXG_LIBEXEC_KERNELS_LOOPS_REAL_MATH_H
#define EXG_LIBEXEC_KERNELS_LOOPS_REAL_MATH_H

#include "libexec/kernels/loops/loops.h"
#include "libexec/kernels/loops/real.h"

#ifdef __FMA__
#define EXG_HAVE_REAL_MATH

static inline real magnitude_of(real x)
{
    return (real)((bits)x & INT32_MAX);
}

/* magnitude | the sign of x */
static inline real with_sign_of(real magnitude, real x)
{
    return (real)((bits)magnitude | ((bits)x & INT32_MIN));
}

/* 2^r for r from -1/2 to 1/2. */
static inline real power_of_rest(real r)
{
    real p = next(all(1.3269521e-3f), r, 9.6712913e-3f);

    p = next(next(next(p, r, 5.5507109e-2f), r, 2.4022247e-1f), r, 6.9314700e-1f);
    return next(p, r, 1.0f);
}

/* e^(x - n ln2), where n is the whole number next to x / ln2. */
static inline real exp_rest(real x, real n)
{
    real r = fma_of(n, all(2.12194440e-4f), fma_of(n, all(-0.693359375f), x));
    real p = next(all(1.3814596381e-3f), r, 8.3687170908e-3f);

    p = next(next(next(p, r, 4.1668388093e-2f), r, 1.6666520629e-1f), r, 4.9999993448e-1f);
    return next(next(p, r, 1.0f), r, 1.0f);
}

/* With y = e^(2 |x|) - 1 it is y / (y + 2). */
static inline real real_tanh(real x)
{
    real twice = AT_MOST(magnitude_of(x + x), 18.2f);
    real at = next(twice, all(1.44269504f), EXG_F32_ROUNDER);
    real r = fma_of(EXG_F32_ROUNDER - at, all(0.693147182f), twice);
    real p = next(next(all(1.38706923e-3f), r, 8.36627185e-3f), r, 4.16674353e-2f);
    real scale = (real)(((bits)at << 23) + 0x3f800000);
    real y;

    p = next(next(p, r, 1.66665465e-1f), r, 4.9999997e-1f);
    y = fma_of(scale, fma_of(r * r, p, r), scale - 1.0f);
    return with_sign_of(y / (y + 2.0f), x);
}

#endif

#ifdef __AVX512DQ__
#define EXG_HAVE_TABLES

static inline real looked_up(const float table[32], real at)
{
    return (real)_mm512_permutex2var_ps(_mm512_loadu_ps(table), (__m512i)at,
                                        _mm512_loadu_ps(table + 16));
}

/* For 0 <= x * scale <= 31 stretches, or NaN. */
static inline __attribute__((always_inline)) real piecewise(const float table[][32], int degree,
                                                            real x, float scale)
{
    real at = next(x, all(scale), EXG_F32_ROUNDER);
    real r = fma_of(x, all(scale), EXG_F32_ROUNDER - at);
    real last = looked_up(table[degree - 1], at);
    real p = fma_of((real)((bits)last << 16), r, last);

#pragma GCC unroll 8
    for (int k = degree - 2; k >= 0; k--) {
        p = fma_of(p, r, looked_up(table[k], at));
    }
    return p;
}

/* The whole number next to x. */
static inline real whole(real x)
{
    return (real)_mm512_roundscale_ps((__m512)x, 8);
}

static inline real real_exp(real x)
{
    real near = AT_LEAST(AT_MOST(x, 90.0f), -110.0f);
    real n = whole(near * 1.44269504f);

    return (real)_mm512_scalef_ps((__m512)exp_rest(near, n), (__m512)n);
}

/* 2^(n + r) for r from -1/2 to 1/2. */
static inline real power_near(real n, real r)
{
    return (real)_mm512_scalef_ps((__m512)power_of_rest(r), (__m512)n);
}

/* r, up to 1/2 and what rounding adds; not NaN nor far from there where n is infinite. */
static inline real rest_of(real r)
{
    return (real)_mm512_range_ps((__m512)r, (__m512)all(0.51f), 2);
}

/* e^x for x <= 0, or NaN, within 3 units and one more with every 4 below 0. */
static inline real real_exp_down(real x)
{
    real n = whole(x * 1.44269504f);

    return power_near(n, rest_of(fma_of(x, all(1.44269504f), -n)));
}

/* a / (1 + e^-x) */
static inline real logistic_times(real a, real x)
{
    real n = whole(x * -1.44269504f);
    real r = fma_of(x, all(-1.92596303e-8f), fma_of(x, all(-1.44269504f), -n));

    return a / (power_near(n, rest_of(r)) + 1.0f);
}

/* erf(x) / x */
static const float erf_of_x[4][32] = {
    {1.12837923f,  1.12252963f,  1.10530555f,  1.07764506f,  1.04099977f,  0.997185409f,
     0.948207498f, 0.896085799f, 0.842700779f, 0.789678454f, 0.738320112f, 0.689578235f,
     0.644070089f, 0.602119207f, 0.563812375f, 0.529061377f, 0.497661144f, 0.469339281f,
     0.44379434f,  0.420722961f, 0.399837226f, 0.380874157f, 0.363599777f, 0.347809434f,
     0.333325982f, 0.319996834f, 0.307690978f, 0.296295762f, 0.28571406f,  0.275861979f,
     0.266666651f, 0.258064508f},
    {-5.83223318e-16f, -0.0116443401f, -0.0226457156f, -0.0324307457f, -0.0405541137f,
     -0.0467371121f,   -0.0508795679f, -0.0530485213f, -0.0534491129f, -0.0523782112f,
     -0.0501798652f,   -0.0472016446f, -0.0437616743f, -0.0401267f,    -0.0365026817f,
     -0.0330343917f,   -0.0298121478f, -0.0268822778f, -0.0242584292f, -0.0219324641f,
     -0.019882936f,    -0.0180821996f, -0.0165006053f, -0.0151095362f, -0.0138827786f,
     -0.0127972867f,   -0.011833136f,  -0.0109734489f, -0.0102038784f, -0.0095124105f,
     -0.00888886396f,  -0.00832465198f},
    {-0.00587697839f, -0.00571320718f, -0.00523985596f,  -0.00450777076f, -0.0035923908f,
     -0.00258224364f, -0.00156590622f, -0.000620757928f, 0.000195093162f, 0.000846775365f,
     0.00132234243f,  0.00162919168f,  0.00178851816f,   0.00182929053f,  0.00178272254f,
     0.0016781356f,   0.00154033571f,  0.00138848415f,   0.0012360937f,   0.00109173683f,
     0.000960112433f, 0.00084312103f,  0.000740866642f,  0.000652401417f, 0.000576273364f,
     0.000510879443f, 0.000454664696f, 0.000406224892f,  0.000364339765f, 0.000327979331f,
     0.000296281534f, 0.000268531672f},
    {9.24388125e-16f,  0.000107869229f,  0.000204293843f,  0.000278886437f,  0.000324659166f,
     0.000341809733f,  0.000331333227f,  0.000295096746f,  0.000245507108f,  0.00018760364f,
     0.000129429347f,  7.6158547e-05f,   3.18802413e-05f,  -2.51404435e-06f, -2.65495055e-05f,
     -4.1416115e-05f,  -4.90449311e-05f, -5.11878243e-05f, -4.98790541e-05f, -4.60646734e-05f,
     -4.15347931e-05f, -3.65280066e-05f, -3.1759595e-05f,  -2.73238584e-05f, -2.35091138e-05f,
     -2.017119e-05f,   -1.742932e-05f,   -1.49731222e-05f, -1.30061444e-05f, -1.12775742e-05f,
     -9.84703365e-06f, -8.65491711e-06f},
};

static inline real real_erf(real x)
{
    real near = AT_MOST(magnitude_of(x), 3.95f);

    return with_sign_of(AT_MOST(near * piecewise(erf_of_x, 4, near, 8.0f), 1.0f), x);
}

/* The normal distribution less 1/2. */
static const float normal[4][32] = {
    {-1.38777862e-17f, 0.0743656904f, 0.146169767f, 0.213112295f,
     0.27337265f,      0.325749278f,  0.369705468f, 0.40532425f,
     0.43319279f,      0.454246372f,  0.469603628f, 0.480419934f,
     0.487775534f,     0.492605388f,  0.495667547f, 0.497542113f,
     0.498650104f,     0.499282449f,  0.499630928f, 0.499816328f,
     0.499911577f,     0.499958843f,  0.499981463f, 0.499991924f,
     0.499996603f,     0.499998629f,  0.499999464f, 0.499999791f,
     0.499999911f,     0.49999997f,   0.5f,         0.5f},
    {0.0748017207f,   0.0734981596f,   0.0697229505f,   0.0638564974f,   0.0564633459f,
     0.0482013635f,   0.0397268608f,   0.0316111855f,   0.0242845453f,   0.0180115327f,
     0.0128975064f,   0.0089164339f,   0.00595114892f,  0.00383489323f,  0.00238579139f,
     0.00143298309f,  0.000830966514f, 0.00046522668f,  0.000251460238f, 0.000131217472f,
     6.61097947e-05f, 3.21558728e-05f, 1.51004906e-05f, 6.8465406e-06f,  2.99688827e-06f,
     1.26641885e-06f, 5.16685702e-07f, 2.03538022e-07f, 7.7398397e-08f,  2.84174426e-08f,
     1.00727222e-08f, 1.00727222e-08f},
    {1.04166457e-16f,  -0.00129196222f,  -0.00245119352f,  -0.00336743728f,  -0.00397005398f,
     -0.00423642062f,  -0.00418992341f,  -0.00388965872f,  -0.00341501413f,  -0.0028494841f,
     -0.00226712925f,  -0.00172406097f,  -0.00125532935f,  -0.000876330596f, -0.000587131013f,
     -0.000377841207f, -0.00023370987f,  -0.000139021038f, -7.95601882e-05f, -4.3826687e-05f,
     -2.32419989e-05f, -1.18705648e-05f, -5.83998235e-06f, -2.76786614e-06f, -1.26430996e-06f,
     -5.56540158e-07f, -2.36150484e-07f, -9.65995923e-08f, -3.80973439e-08f, -1.44864929e-08f,
     -5.31227418e-09f, -5.31227418e-09f},
    {-0.00043801521f,  -0.000414306181f, -0.000351366936f, -0.00025600096f, -0.000145166836f,
     -3.43842985e-05f, 6.1615734e-05f,   0.000133720983f,  0.000177588256f, 0.000194749533f,
     0.000189506973f,  0.000169481442f,  0.000141825498f,  0.000110967063f, 8.23566224e-05f,
     5.81058775e-05f,  3.90322311e-05f,  2.49996156e-05f,  1.53435467e-05f, 9.04259559e-06f,
     5.08750009e-06f,  2.75234424e-06f,  1.42831425e-06f,  7.10425013e-07f, 3.40307736e-07f,
     1.57113476e-07f,  6.97081717e-08f,  2.96503764e-08f,  1.22057013e-08f, 4.82221063e-09f,
     1.83854265e-09f,  1.83854265e-09f},
};

static inline real real_gelu(real x)
{
    real near = AT_MOST(magnitude_of(x), 5.5875f);

    return x * (with_sign_of(piecewise(normal, 4, near, 5.33333333f), x) + 0.5f);
}

/* x times a logistic function of a polynomial. */
static inline real real_gelu_tanh(real x)
{
    real y = x * next(x * x, all(-1.0294324e-1f), -2.3022082f);
    real n = whole(y);

    return x / (power_near(n, rest_of(y - n)) + 1.0f);
}

#elif defined(__FMA__)
/* A sum with the rounder and a bias leaves a whole number plus the bias in the low bits, where it
 * is 2^(that - 127). */
static inline real power_below(real at)
{
    return (real)((bits)at << 23);
}

/* In two factors, as exg_f32_scale. */
static inline real exp_far(real x)
{
    real near = AT_LEAST(AT_MOST(x, 90.0f), -110.0f);
    real at = next(near, all(1.44269504f), EXG_F32_ROUNDER);
    real p = exp_rest(near, at - EXG_F32_ROUNDER);
    bits second = 0x5f800000 ^ ((bits)x >> 1 & 0x40000000);

    return p * (real)(((bits)at << 23) + 0x7f000000 - second) * (real)second;
}

/* Where all results are normal numbers, by adding to exponents; elsewhere more steps give the same
 * of those that are, so that none depends on what is beside it. */
static inline real real_exp(real x)
{
    const __m256i limit = (__m256i)_mm256_set1_ps(87.0f);
    const __m256i far = _mm256_cmpgt_epi32((__m256i)magnitude_of(x), limit);
    real at;

    if (__builtin_expect(!_mm256_testz_si256(far, far), 0)) {
        return exp_far(x);
    }
    at = next(x, all(1.44269504f), EXG_F32_ROUNDER);
    return (real)((bits)exp_rest(x, at - EXG_F32_ROUNDER) + ((bits)at << 23));
}

/* e^x for x <= 0, or NaN, within 3 units and one more with every 4 below 0; 0 where that is below
 * the normal numbers. */
static inline real real_exp_down(real x)
{
    const float rounder = EXG_F32_ROUNDER + 127.0f;
    real near = AT_LEAST(x, -88.02969f);
    real at = next(near, all(1.44269504f), rounder);

    return power_of_rest(fma_of(near, all(1.44269504f), rounder - at)) * power_below(at);
}

/* 1 + 2^(n + r), where `at` is n + HALF_ROUNDER: of half the power, since 2^128 is none. */
#define HALF_ROUNDER (EXG_F32_ROUNDER + 126.0f)
static inline real one_plus_power(real at, real r)
{
    return next(power_of_rest(r) * power_below(at), all(2.0f), 1.0f);
}

/* a / (1 + e^-x) */
static inline real logistic_times(real a, real x)
{
    real near = AT_LEAST(AT_MOST(x, 87.0f), -89.4f);
    real at = next(near, all(-1.44269504f), HALF_ROUNDER);
    real r = fma_of(near, all(-1.44269504f), HALF_ROUNDER - at);

    return a / one_plus_power(at, fma_of(near, all(-1.92596303e-8f), r));
}

static inline real real_gelu(real x)
{
    real t = AT_MOST(x * x, 29.7f);
    real p = next(all(2.3064631094e-8f), t, 6.3545448938e-6f);
    real q = next(all(1.2068384194e-6f), t, 7.2997798270e-5f);
    real below;

    p = next(next(next(p, t, 1.6650771431e-4f), t, 4.6635949984e-3f), t, 3.3606879413e-2f);
    q = next(next(next(q, t, 1.8713213503e-3f), t, 2.8508801013e-2f), t, 2.5090593100e-1f);
    below = x * next(p, t, 3.9894223213e-1f) / next(q, t, 1.0f);
    return x * (AT_LEAST(AT_MOST(below, 0.5f), -0.5f) + 0.5f);
}

/* x times a logistic function of a polynomial. */
static inline real real_gelu_tanh(real x)
{
    real y = x * next(x * x, all(-1.0294324e-1f), -2.3022082f);
    real near = AT_LEAST(AT_MOST(y, 129.0f), -126.0f);
    real at = near + HALF_ROUNDER;

    return x / one_plus_power(at, near - (at - HALF_ROUNDER));
}
#endif

#ifdef EXG_HAVE_REAL_MATH
static inline real real_sigmoid(real x)
{
    return logistic_times(all(1.0f), x);
}

static inline real real_silu(real x)
{
    return logistic_times(x, x);
}
#endif

/* The formulas of one f32 that vectors have in fewer steps; NULL for the others. */
static real (*const in_vectors[EXG_FORMULA_COUNT])(real x) = {
    NULL,
#ifdef EXG_HAVE_REAL_MATH
    [EXG_FORMULA_exp_default] = real_exp,
    [EXG_FORMULA_tanh_default] = real_tanh,
    [EXG_FORMULA_sigmoid_default] = real_sigmoid,
    [EXG_FORMULA_silu_default] = real_silu,
    [EXG_FORMULA_gelu_none] = real_gelu,
    [EXG_FORMULA_gelu_tanh] = real_gelu_tanh,
#endif
#ifdef EXG_HAVE_TABLES
    [EXG_FORMULA_erf_default] = real_erf,
#endif
};

#endif
