/* narrow_math.h - formulas from bf16 to bf16 (narrow.def) by vectors of f32.
 *
 * Those of one operand here take fewer steps than math_f32.h's. Each is within 2^-9 of itself
 * (half a unit of bf16's last place) before it is rounded, so that what is stored is the true
 * value's neighbour at worst; gelu far below 0 comes as near as its f32's.
 */
#ifndef EXG_LIBEXEC_KERNELS_LOOPS_NARROW_MATH_H
#define EXG_LIBEXEC_KERNELS_LOOPS_NARROW_MATH_H

#include "libexec/kernels/loops/narrow.h"
#include "libexec/kernels/loops/real_formulas.h"

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

static inline real quotient(real a, real b)
{
    return a * (real)_mm512_rcp14_ps((__m512)b);
}
#else
/* The square of that of a half, so that it overflows and goes under as it should. */
static inline real exponential(real x)
{
    real half = power_of_two(AT_LEAST(AT_MOST(x, 174.5f), -174.5f), 0.72134752f);

    return half * half;
}

static inline real quotient(real a, real b)
{
    return a / b;
}

/* 2^x; 0 to x = -126.5, infinite from 127.5 on. */
static inline real power(real x)
{
    return power_of_two(AT_LEAST(AT_MOST(x, 128.0f), -127.0f), 1.0f);
}
#endif

/* a / (1 + 2^x) */
static inline real logistic(real a, real x)
{
    return quotient(a, power(x) + 1.0f);
}

static inline real sigmoid(real x)
{
    return logistic(all(1.0f), x * -1.44269504f);
}

static inline real silu(real x)
{
    return logistic(x, x * -1.44269504f);
}

static inline real hyperbolic_tangent(real x)
{
    real near = AT_LEAST(AT_MOST(x, 3.9f), -3.9f);
    real t = near * near;
    real q = next(next(t, all(6.6358749e-3f), 4.1472749e-1f), t, 1.0f);

    return quotient(near * next(t, all(8.3182726e-2f), 9.9967310e-1f), q);
}

#ifdef EXG_HAVE_TABLES
/* x times a distribution, of which a table has what is below -|x|; 0 from -5.08. */
static inline __attribute__((always_inline)) real distributed(const float table[][32], real x)
{
    /* the lesser magnitude of both */
    const real near = (real)_mm512_range_ps((__m512)x, (__m512)all(5.1615f), 10);
    const real below = piecewise(table, 2, near, 6.00600601f);
    const __mmask16 is_above = _mm512_cmp_ps_mask((__m512)x, (__m512)all(0.0f), _CMP_NLT_UQ);

    return x * (real)_mm512_mask_sub_ps((__m512)below, is_above, (__m512)all(1.0f), (__m512)below);
}

/* The normal distribution. */
static const float normal_below[2][32] = {
    {0.500004113f,    0.433884382f,    0.369558185f,    0.308715016f,
     0.252711117f,    0.202562541f,    0.158896372f,    0.121911965f,
     0.0914319828f,   0.0670033097f,   0.0479585119f,   0.0335156322f,
     0.0228590928f,   0.0152145848f,   0.00987705216f,  0.00625421945f,
     0.0038614613f,   0.00232360116f,  0.00136321562f,  0.000779433583f,
     0.000434288842f, 0.000235805084f, 0.000124690647f, 6.42268642e-05f,
     3.22249653e-05f, 1.57476134e-05f, 7.49407582e-06f, 3.47243395e-06f,
     1.56689646e-06f, 6.88401769e-07f, 2.94487563e-07f, 0.0f},
    {-0.0665105209f,   -0.0655411407f,   -0.0626123324f,   -0.058650136f,
     -0.0532791652f,   -0.0469315834f,   -0.0403398126f,   -0.0337479934f,
     -0.0273720138f,   -0.0216346681f,   -0.0166297369f,   -0.0124652302f,
     -0.00904721394f,  -0.00641567539f,  -0.00440148916f,  -0.00294841058f,
     -0.00192433188f,  -0.00121478981f,  -0.000748533872f, -0.000448651292f,
     -0.000261728361f, -0.000148982537f, -8.21199355e-05f, -4.39206124e-05f,
     -2.29137841e-05f, -1.16355986e-05f, -5.75813829e-06f, -2.75983052e-06f,
     -1.29049329e-06f, -5.85633927e-07f, -2.59285116e-07f, 0.0f},
};

static inline real gelu(real x)
{
    return distributed(normal_below, x);
}

/* 1 / (1 + exp(2 * sqrt(2 / pi) * (x + 0.044715 * x^3))) */
static const float tanh_below[2][32] = {
    {0.500004172f,    0.43388617f,     0.369571835f,    0.308752447f,
     0.252771854f,    0.202677727f,    0.159052819f,    0.12208949f,
     0.0916058794f,   0.0671461001f,   0.0480528288f,   0.0335377231f,
     0.0228095576f,   0.0151033895f,   0.0097229341f,   0.00607844954f,
     0.00368422992f,  0.00216170773f,  0.00122536987f,  0.000670351437f,
     0.000353087293f, 0.000178770802f, 8.68024654e-05f, 4.03473459e-05f,
     1.79298986e-05f, 7.59935619e-06f, 3.06487186e-06f, 1.17439458e-06f,
     4.26512173e-07f, 1.46535257e-07f, 4.7564626e-08f,  0.0f},
    {-0.0665105283f,   -0.0655411482f,   -0.0626123324f,   -0.058650136f,
     -0.0530350246f,   -0.0469315834f,   -0.0403398089f,   -0.0337479897f,
     -0.0273720119f,   -0.0216346662f,   -0.0167518072f,   -0.0125262653f,
     -0.00910825003f,  -0.00644619344f,  -0.00443200814f,  -0.00296367006f,
     -0.00191670295f,  -0.00119953125f,  -0.000721831108f, -0.000420041004f,
     -0.000235768297f, -0.000127047868f, -6.54304749e-05f, -3.22379674e-05f,
     -1.52119328e-05f, -6.83104327e-06f, -2.92375034e-06f, -1.18618641e-06f,
     -4.54866665e-07f, -1.65032134e-07f, -5.66242235e-08f, 0.0f},
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

    return logistic(x, x * next(q, t, -2.2989701f));
}

static inline real gelu_tanh(real x)
{
    return logistic(x, x * next(x * x, all(-1.0294324e-1f), -2.3022082f));
}
#endif

/* As formula_<id>. */
#define EXG_NARROW_FORMULA(id)
#define EXG_NARROW(id, function)                                                                   \
    static inline __attribute__((always_inline))                                                   \
    real narrow_##id(real x, real y, real z, const float *scalars)                                 \
    {                                                                                              \
        (void)y, (void)z, (void)scalars;                                                           \
        return function(x);                                                                        \
    }
#include "libexec/kernels/narrow.def"
#undef EXG_NARROW_FORMULA
#undef EXG_NARROW

#endif
