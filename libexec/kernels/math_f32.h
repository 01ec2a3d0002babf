/* math_f32.h - f32 functions as straight-line C, so that loops over them vectorise.
 *
 * Each is within 2.5 units in the last place of the true value over all floats
 * (tests/exec/kernels/formula.c walks them); NaN, infinities and signed zeros as
 * in C's math.h. Polynomials: minimax fits of our own (Lawson iteration).
 * exg_f32_fma is fused where the instruction set has it.
 */
#ifndef EXG_LIBEXEC_KERNELS_MATH_F32_H
#define EXG_LIBEXEC_KERNELS_MATH_F32_H

#include "libexport/base/element.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __FMA__
#define exg_f32_fma(a, b, c) __builtin_fmaf((a), (b), (c))
#else
#define exg_f32_fma(a, b, c) ((a) * (b) + (c))
#endif

static inline int64_t exg_f64_bits(double x)
{
    int64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline double exg_f64_of_bits(int64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* Adding 1.5 * 2^23 leaves the nearest integer in the low bits. */
#define EXG_F32_ROUNDER 12582912.0f
#define EXG_F64_ROUNDER 6755399441055744.0

static inline float exg_f32_copysign(float magnitude, float sign)
{
    return exg_f32_of_bits((exg_f32_bits(magnitude) & INT32_MAX) |
                           (exg_f32_bits(sign) & INT32_MIN));
}

static inline float exg_f32_abs(float x)
{
    return exg_f32_of_bits(exg_f32_bits(x) & INT32_MAX);
}

static inline float exg_f32_rint(float x)
{
#if defined(__AVX__)
    return __builtin_rintf(x);
#else
    float magnitude = exg_f32_abs(x);
    float rounded = (magnitude + 8388608.0f) - 8388608.0f;

    return exg_f32_copysign(magnitude < 8388608.0f ? rounded : magnitude, x);
#endif
}

/* (1 + p) * 2^n in two factors, so that neither overflows and denormals come out: 2^64 or 2^-64, by
 * the sign of x, is the second. The low bits of `power` are n + 254. */
static inline float exg_f32_scale(float p, float power, float x)
{
    int32_t second = 0x5f800000 ^ (exg_f32_bits(x) >> 1 & 0x40000000);
    uint32_t bits = ((uint32_t)exg_f32_bits(power) << 23) - (uint32_t)second;
    float first = exg_f32_of_bits((int32_t)bits);

    return exg_f32_fma(p, first, first) * exg_f32_of_bits(second);
}

/* x less the nearest n times ln2; the low bits of *power are n + bias. */
static inline float exg_f32_exp_rest(float x, float bias, float *power)
{
    float t = exg_f32_fma(x, 1.44269504f, EXG_F32_ROUNDER + bias);
    float n = t - (EXG_F32_ROUNDER + bias);

    *power = t;
    return exg_f32_fma(n, 2.12194440e-4f, exg_f32_fma(n, -0.693359375f, x));
}

/* 2^(low bits - 127). */
static inline float exg_f32_power_shifted(float power)
{
    return exg_f32_of_bits((int32_t)((uint32_t)exg_f32_bits(power) << 23));
}

/* e^r - 1 for |r| <= ln2 / 2. */
static inline float exg_f32_exp_tail(float r)
{
    float q = 1.99135746e-4f;

    q = exg_f32_fma(q, r, 1.3941022166e-3f);
    q = exg_f32_fma(q, r, 8.3332741322e-3f);
    q = exg_f32_fma(q, r, 4.1666354423e-2f);
    q = exg_f32_fma(q, r, 1.6666666812e-1f);
    q = exg_f32_fma(q, r, 5.0000000465e-1f);
    return exg_f32_fma(q * r, r, r);
}

/* Where the true value is none of a float, what comes before means nothing. Bounds stand in
 * selects of their own, one before and one after, since nested they do not vectorise well. */
static inline float exg_f32_exp(float x)
{
    float power;
    float p = exg_f32_exp_tail(exg_f32_exp_rest(x, 254.0f, &power));

    p = exg_f32_scale(p, power, x);
    p = x > 88.8f ? INFINITY : p;
    return x < -104.0f ? 0.0f : p;
}

/* exp for x <= 0, or NaN, in fewer steps: results below the normal numbers are 0. */
static inline float exg_f32_exp_down(float x)
{
    float power;
    float r = exg_f32_exp_rest(x < -87.0f ? -87.0f : x, 127.0f, &power);
    float q = 1.3814596381e-3f;
    float p;

    q = exg_f32_fma(q, r, 8.3687170908e-3f);
    q = exg_f32_fma(q, r, 4.1668388093e-2f);
    q = exg_f32_fma(q, r, 1.6666520629e-1f);
    q = exg_f32_fma(q, r, 4.9999993448e-1f);
    p = exg_f32_fma(q * r, r, r);
    power = exg_f32_power_shifted(power);
    return x < -87.0f ? 0.0f : exg_f32_fma(p, power, power);
}

/* e^x - 1 for |x| <= 87, in fewer steps. */
static inline float exg_f32_expm1_near(float x)
{
    float power;
    float p = exg_f32_exp_tail(exg_f32_exp_rest(x, 127.0f, &power));

    power = exg_f32_power_shifted(power);
    return exg_f32_fma(power, p, power - 1.0f);
}

/* 1 + e^x: what e^x is where 1 swallows it does not matter. */
static inline float exg_f32_one_plus_exp(float x)
{
    float power; /* 2^(n - 1): 2^128 is none */
    float r = exg_f32_exp_rest(x < -86.0f ? -86.0f : x, 126.0f, &power);
    float p = exg_f32_exp_tail(r);

    power = exg_f32_power_shifted(power);
    p = exg_f32_fma(exg_f32_fma(p, power, power), 2.0f, 1.0f);
    return x > 88.8f ? INFINITY : p;
}

static inline float exg_f32_exp2(float x)
{
    float power = x + (EXG_F32_ROUNDER + 254.0f);
    float r = x - (power - (EXG_F32_ROUNDER + 254.0f));
    float c = 1.5475927465e-4f;

    c = exg_f32_fma(c, r, 1.3400309821e-3f);
    c = exg_f32_fma(c, r, 9.6180053095e-3f);
    c = exg_f32_fma(c, r, 5.5503276761e-2f);
    c = exg_f32_fma(c, r, 2.4022651333e-1f);
    c = exg_f32_fma(c, r, 6.9314720632e-1f);
    c = exg_f32_scale(c * r, power, x);
    c = x >= 128.0f ? INFINITY : c;
    return x < -151.0f ? 0.0f : c;
}

static inline float exg_f32_expm1(float x)
{
    float power; /* 2^(n - 1): 2^128 is none */
    float p = exg_f32_exp_tail(exg_f32_exp_rest(x < -30.0f ? -30.0f : x, 126.0f, &power));

    power = exg_f32_power_shifted(power);
    p = 2.0f * exg_f32_fma(power, p, power - 0.5f);
    p = x > 88.8f ? INFINITY : p;
    return exg_f32_abs(x) < 1e-4f ? exg_f32_fma(0.5f * x, x, x) : p;
}

/* x = m * 2^e with m in [sqrt(1/2), sqrt(2)), for x > 0 and finite; gives log(m). */
static inline float exg_f32_log_parts(float x, float *exponent)
{
    float normal = x < 1.17549435e-38f ? x * 8388608.0f : x;
    int32_t bits = exg_f32_bits(normal) - 0x3f3504f3;
    int32_t e = (bits >> 23) - (x < 1.17549435e-38f ? 23 : 0);
    float f = exg_f32_of_bits((bits & 0x7fffff) + 0x3f3504f3) - 1.0f;
    float p = 6.7466013211e-2f;

    p = exg_f32_fma(p, f, -1.1675641299e-1f);
    p = exg_f32_fma(p, f, 1.1888174599e-1f);
    p = exg_f32_fma(p, f, -1.2405591418e-1f);
    p = exg_f32_fma(p, f, 1.4219550908e-1f);
    p = exg_f32_fma(p, f, -1.6667995667e-1f);
    p = exg_f32_fma(p, f, 2.0002118732e-1f);
    p = exg_f32_fma(p, f, -2.5000009604e-1f);
    p = exg_f32_fma(p, f, 3.3333312603e-1f);
    *exponent = (float)e;
    return exg_f32_fma(f * f, exg_f32_fma(p, f, -0.5f), f);
}

/* The logarithm of what log_parts cannot take: 0, negatives, infinity, NaN. */
static inline float exg_f32_log_edges(float x, float result)
{
    float edge = x == 0.0f ? -INFINITY : NAN;

    result = x > 3.40282347e38f ? x : result;
    return x > 0.0f ? result : edge;
}

static inline float exg_f32_log(float x)
{
    float e;
    float l = exg_f32_log_parts(x, &e);

    l = exg_f32_fma(e, 0.693359375f, exg_f32_fma(e, -2.12194440e-4f, l));
    return exg_f32_log_edges(x, l);
}

static inline float exg_f32_log2(float x)
{
    float e;
    float l = exg_f32_log_parts(x, &e);

    return exg_f32_log_edges(x, exg_f32_fma(l, 0.44269504f, l) + e);
}

static inline float exg_f32_log10(float x)
{
    float e;
    float l = exg_f32_log_parts(x, &e);

    l = exg_f32_fma(e, 7.9034152e-7f, l * 0.434294482f);
    return exg_f32_log_edges(x, exg_f32_fma(e, 0.301029205f, l));
}

static inline float exg_f32_log1p(float x)
{
    float u = 1.0f + x;
    float lost = x - (u - 1.0f); /* what rounding took from u, to first order */
    float l = exg_f32_log(u);
    float corrected = l + lost / u;

    corrected = u > 0.0f && u < 1e30f ? corrected : l;
    return exg_f32_abs(x) < 1e-4f ? exg_f32_fma(-0.5f * x, x, x) : corrected;
}

/* log(1 + e^x); of what e^-|x| leaves, below 2^-126, 0. Compilers do not make vectors of
 * log1p(exp(x)). */
static inline float exg_f32_log1p_exp(float x)
{
    float t = exg_f32_exp_down(-exg_f32_abs(x));
    float q = -3.3184722997e-3f;

    q = exg_f32_fma(q, t, 2.0204585046e-2f);
    q = exg_f32_fma(q, t, -5.7664442807e-2f);
    q = exg_f32_fma(q, t, 1.0680555552e-1f);
    q = exg_f32_fma(q, t, -1.5355396271e-1f);
    q = exg_f32_fma(q, t, 1.9695401192e-1f);
    q = exg_f32_fma(q, t, -2.4958586693e-1f);
    q = exg_f32_fma(q, t, 3.3330512047e-1f);
    q = exg_f32_fma(q, t, -4.9999931455e-1f);
    return (x > 0.0f ? x : 0.0f) + exg_f32_fma(q * t, t, t);
}

static inline float exg_f32_tanh(float x)
{
    float magnitude = exg_f32_abs(x);
    float e;

    magnitude = magnitude > 9.1f ? 9.1f : magnitude;
    e = exg_f32_expm1_near(magnitude + magnitude);
    return exg_f32_copysign(e / (e + 2.0f), x);
}

/* 1 - e^-(t * q(t)): near 0 the first coefficient's 1 is t itself, unrounded. */
static inline float exg_f32_erf(float x)
{
    float t = exg_f32_abs(x);
    float q = -9.2562654539e-6f;

    t = t > 4.0f ? 4.0f : t;
    q = exg_f32_fma(q, t, 1.1764127426e-4f);
    q = exg_f32_fma(q, t, -6.3283686701e-4f);
    q = exg_f32_fma(q, t, 1.6670274865e-3f);
    q = exg_f32_fma(q, t, -1.6039609733e-4f);
    q = exg_f32_fma(q, t, -1.9153063881e-2f);
    q = exg_f32_fma(q, t, 1.0277783050e-1f);
    q = exg_f32_fma(q, t, 6.3661938197e-1f);
    q = exg_f32_fma(q, t, 1.2837917161e-1f);
    return exg_f32_copysign(exg_f32_expm1_near(-exg_f32_fma(q, t, t)), x);
}

/* (1 + erf(x / sqrt(2))) / 2 within 2^-22 of 1: what x times it needs. */
static inline float exg_f32_normal_cdf(float x)
{
    float t = x * x;
    float p = 2.3064631094e-8f;
    float q = 1.2068384194e-6f;

    t = t > 29.7f ? 29.7f : t;
    p = exg_f32_fma(p, t, 6.3545448938e-6f);
    q = exg_f32_fma(q, t, 7.2997798270e-5f);
    p = exg_f32_fma(p, t, 1.6650771431e-4f);
    q = exg_f32_fma(q, t, 1.8713213503e-3f);
    p = exg_f32_fma(p, t, 4.6635949984e-3f);
    q = exg_f32_fma(q, t, 2.8508801013e-2f);
    p = exg_f32_fma(p, t, 3.3606879413e-2f);
    q = exg_f32_fma(q, t, 2.5090593100e-1f);
    p = exg_f32_fma(p, t, 3.9894223213e-1f);
    q = exg_f32_fma(q, t, 1.0f);
    p = x * p / q;
    p = p > 0.5f ? 0.5f : p;
    return 0.5f + (p < -0.5f ? -0.5f : p);
}

/* sin, cos and tan: what is left of x after whole quarters of a turn, in double; of a sine or
 * cosine that is near in f32, where products are fused.
 *
 * Near (|x| at most EXG_F32_NEAR) the quarters are taken off with pi / 2 in two parts,
 * the first of 33 bits, so that its products are exact. Far, x = m * 2^e with a 24-bit
 * integer m, and m times exg_two_over_pi[e] modulo 4 is exact enough for every float.
 * `far` is a constant of the loop: the table would keep it from being vectorised. */
#define EXG_F32_NEAR          1e6f
#define EXG_F32_WIDE_ASKED    2 /* exg_f32_fmod says 1 where it must be given `wide` */
#define EXG_TWO_OVER_PI_FIRST (-37)
#define EXG_TWO_OVER_PI_COUNT 142
extern const double exg_two_over_pi[2][EXG_TWO_OVER_PI_COUNT];

static inline double exg_f32_quarter_far(float x, int32_t *quarter)
{
    int32_t bits = exg_f32_bits(x) & INT32_MAX;
    int32_t e = (bits >> 23) - 150 - EXG_TWO_OVER_PI_FIRST;
    double m = (double)((bits & 0x7fffff) | 0x800000);
    double high;
    double low;
    double t;

    e = e < 0 ? 0 : e >= EXG_TWO_OVER_PI_COUNT ? EXG_TWO_OVER_PI_COUNT - 1 : e;
    high = m * exg_two_over_pi[0][e];
    low = m * exg_two_over_pi[1][e];
    t = high + EXG_F64_ROUNDER;
    *quarter = (int32_t)exg_f64_bits(t) & 3;
    return ((high - (t - EXG_F64_ROUNDER)) + low) * 1.57079632679489661923;
}

static inline double exg_f32_quarter(float x, int32_t *quarter, int far)
{
    double magnitude = (double)exg_f32_abs(x);
    double t = magnitude * 0.63661977236758134308 + EXG_F64_ROUNDER;
    double n = t - EXG_F64_ROUNDER;

    if (far) {
        return exg_f32_quarter_far(x, quarter);
    }
    *quarter = (int32_t)exg_f64_bits(t) & 3;
    return (magnitude - n * 0x1.921fb544p+0) - n * 0x1.0b4611a626331p-34;
}

static inline double exg_f64_sin_part(double r, double s)
{
    double p = 2.71830412993166483e-6;

    p = p * s - 1.98393340706519406e-4;
    p = p * s + 8.33332938353410786e-3;
    p = p * s - 1.66666666416064481e-1;
    return p * s * r + r;
}

static inline double exg_f64_cos_part(double s)
{
    double p = -2.71800214929528156e-7;

    p = p * s + 2.47990399853363007e-5;
    p = p * s - 1.3888881073969203e-3;
    p = p * s + 4.1666666561994448e-2;
    p = p * s - 4.9999999999544636e-1;
    return p * s + 1.0;
}

#ifdef __FMA__
/* In f32: the quarters are taken off with pi / 2 in three parts, the first of which leaves no
 * rounding. */
static inline float exg_f32_sin_near(float x, int32_t *quarter)
{
    float magnitude = exg_f32_abs(x);
    float t = exg_f32_fma(magnitude, 6.36619772e-1f, EXG_F32_ROUNDER);
    float n = t - EXG_F32_ROUNDER;
    float r = exg_f32_fma(n, -1.57079637f, magnitude);
    float p = 2.71830413e-6f;
    float q = -2.71800215e-7f;
    float s;

    r = exg_f32_fma(n, 4.37113883e-08f, r);
    r = exg_f32_fma(n, 1.71512451e-15f, r);
    s = r * r;
    p = exg_f32_fma(p, s, -1.98393341e-4f);
    q = exg_f32_fma(q, s, 2.47990400e-5f);
    p = exg_f32_fma(p, s, 8.33332938e-3f);
    q = exg_f32_fma(q, s, -1.38888811e-3f);
    p = exg_f32_fma(p, s, -1.66666666e-1f);
    q = exg_f32_fma(q, s, 4.16666666e-2f);
    q = exg_f32_fma(q, s, -0.5f);
    *quarter += exg_f32_bits(t);
    return (*quarter & 1) != 0 ? exg_f32_fma(q, s, 1.0f) : exg_f32_fma(p * s, r, r);
}
#endif

/* The sine of |x| and `ahead` quarters. */
static inline float exg_f32_sin_ahead(float x, int32_t ahead, int far)
{
    int32_t quarter = ahead;
    float f;

#ifdef __FMA__
    if (!far || exg_f32_abs(x) <= EXG_F32_NEAR / 4) { /* the same beside one that is far */
        f = exg_f32_sin_near(x, &quarter);
    } else
#endif
    {
        double r = exg_f32_quarter(x, &quarter, far);
        double s = r * r;

        quarter += ahead;
        f = (float)((quarter & 1) != 0 ? exg_f64_cos_part(s) : exg_f64_sin_part(r, s));
    }
    return (quarter & 2) != 0 ? -f : f;
}

static inline float exg_f32_sin(float x, int far)
{
    float f = exg_f32_sin_ahead(x, 0, far);

    f = exg_f32_of_bits(exg_f32_bits(f) ^ (exg_f32_bits(x) & INT32_MIN));
    f = exg_f32_abs(x) < 2e-4f ? x : f;
    return exg_f32_abs(x) < INFINITY ? f : NAN;
}

static inline float exg_f32_cos(float x, int far)
{
    float f = exg_f32_sin_ahead(x, 1, far);

    f = exg_f32_abs(x) < 2e-4f ? 1.0f : f;
    return exg_f32_abs(x) < INFINITY ? f : NAN;
}

static inline float exg_f32_tan(float x, int far)
{
    int32_t quarter;
    double r = exg_f32_quarter(x, &quarter, far);
    double s = r * r;
    double sine = exg_f64_sin_part(r, s);
    double cosine = exg_f64_cos_part(s);
    float f = (float)((quarter & 1) != 0 ? -cosine / sine : sine / cosine);

    f = exg_f32_of_bits(exg_f32_bits(f) ^ (exg_f32_bits(x) & INT32_MIN));
    f = exg_f32_abs(x) < 2e-4f ? x : f;
    return exg_f32_abs(x) < INFINITY ? f : NAN;
}

/* For 0 <= t <= 1, or NaN. */
static inline float exg_f32_atan_unit(float t)
{
    float s = t * t;
    float q = -1.7936218064e-3f;

    q = exg_f32_fma(q, s, 1.0914606042e-2f);
    q = exg_f32_fma(q, s, -3.1177846715e-2f);
    q = exg_f32_fma(q, s, 5.7957593352e-2f);
    q = exg_f32_fma(q, s, -8.4034502506e-2f);
    q = exg_f32_fma(q, s, 1.0952185839e-1f);
    q = exg_f32_fma(q, s, -1.4264242351e-1f);
    q = exg_f32_fma(q, s, 1.9998548925e-1f);
    q = exg_f32_fma(q, s, -3.3333298564e-1f);
    return exg_f32_fma(q * s, t, t);
}

static inline float exg_f32_atan(float x)
{
    float magnitude = exg_f32_abs(x);
    int is_steep = magnitude > 1.0f;
    float p = exg_f32_atan_unit((is_steep ? 1.0f : magnitude) / (is_steep ? magnitude : 1.0f));

    p = is_steep ? (1.57079637f - p) - 4.37113883e-8f : p;
    return exg_f32_copysign(p, x);
}

static inline float exg_f32_atan2(float y, float x)
{
    float up = exg_f32_abs(y);
    float across = exg_f32_abs(x);
    int is_steep = up > across;
    float least = is_steep ? across : up;
    float most = is_steep ? up : across;
    float t = least / most;
    float p;

    t = least == most ? 1.0f : t; /* infinities too */
    t = up + across == 0.0f ? 0.0f : t;
    p = exg_f32_atan_unit(t);
    p = is_steep ? (1.57079637f - p) - 4.37113883e-8f : p;
    p = exg_f32_bits(x) < 0 ? (3.14159274f - p) - 8.74227766e-8f : p;
    return exg_f32_copysign(p, y);
}

/* asin(s) for z = s^2 from 0 to 1/4, or NaN. */
static inline float exg_f32_asin_part(float s, float z)
{
    float q = 4.2172446847e-2f;

    q = exg_f32_fma(q, z, 2.4175856262e-2f);
    q = exg_f32_fma(q, z, 4.5471120626e-2f);
    q = exg_f32_fma(q, z, 7.4952915311e-2f);
    q = exg_f32_fma(q, z, 1.6666752100e-1f);
    return exg_f32_fma(q * z, s, s);
}

/* asin of |x| up to 1/2, or half of acos(|x|) beyond; NaN beyond 1. */
static inline float exg_f32_asin_reduced(float x, int *is_half)
{
    float magnitude = exg_f32_abs(x);
    float z = magnitude * magnitude;
    float beyond = 0.5f - 0.5f * magnitude;

    *is_half = magnitude > 0.5f;
    z = *is_half ? beyond : z;
    return exg_f32_asin_part(*is_half ? sqrtf(z) : magnitude, z);
}

static inline float exg_f32_asin(float x)
{
    int is_half;
    float p = exg_f32_asin_reduced(x, &is_half);

    p = is_half ? exg_f32_fma(p, -2.0f, 1.57079637f) - 4.37113883e-8f : p;
    return exg_f32_copysign(p, x);
}

static inline float exg_f32_acos(float x)
{
    int is_half;
    float p = exg_f32_asin_reduced(x, &is_half);
    float near = (1.57079637f - exg_f32_copysign(p, x)) - 4.37113883e-8f;

    p = exg_f32_bits(x) < 0 ? exg_f32_fma(p, -2.0f, 3.14159274f) - 8.74227766e-8f : p + p;
    return is_half ? p : near;
}

/* e^x / 2 for x >= 0, or NaN. */
static inline float exg_f32_half_exp(float x)
{
    float power;
    float p = exg_f32_exp_tail(exg_f32_exp_rest(x, 253.0f, &power));

    p = exg_f32_scale(p, power, x);
    return x > 89.5f ? INFINITY : p;
}

static inline float exg_f32_cosh(float x)
{
    float half = exg_f32_half_exp(exg_f32_abs(x));

    return half + 0.25f / half;
}

static inline float exg_f32_sinh(float x)
{
    float magnitude = exg_f32_abs(x);
    float half = exg_f32_half_exp(magnitude);
    float e = exg_f32_expm1_near(magnitude > 1.0f ? 1.0f : magnitude);

    e = 0.5f * (e + e / (e + 1.0f));
    e = magnitude > 1.0f ? half - 0.25f / half : e;
    return exg_f32_copysign(magnitude == magnitude ? e : magnitude, x);
}

static inline float exg_f32_asinh(float x)
{
    float magnitude = exg_f32_abs(x);
    float square = magnitude * magnitude;
    float near = exg_f32_log1p(magnitude + square / (1.0f + sqrtf(square + 1.0f)));
    float far = exg_f32_log(magnitude) + 0.693147182f;

    return exg_f32_copysign(magnitude > 1e8f ? far : near, x);
}

static inline float exg_f32_acosh(float x)
{
    float t = x - 1.0f;
    float near = exg_f32_log1p(t + sqrtf(exg_f32_fma(t, t, t + t)));
    float far = exg_f32_log(x) + 0.693147182f;

    near = x > 1e8f ? far : near;
    return x < 1.0f ? NAN : near;
}

static inline float exg_f32_atanh(float x)
{
    float magnitude = exg_f32_abs(x);
    float p = 0.5f * exg_f32_log1p((magnitude + magnitude) / (1.0f - magnitude));

    return exg_f32_copysign(p, x);
}

/* What is left of x, exact in double as long as the quotient has up to 28 bits; `wide`: it may have
 * more, and C's function, which is not vectorised, is taken. */
static inline float exg_f32_fmod(float x, float y, int wide)
{
    double whole = trunc((double)x / (double)y);
    double rest = (double)x - whole * (double)y;

    if (wide == EXG_F32_WIDE_ASKED) {
        return (double)exg_f32_abs(x) <= 0x1p28 * (double)exg_f32_abs(y) ? 0.0f : 1.0f;
    }
    return wide ? fmodf(x, y) : whole == 0.0 ? x : exg_f32_copysign((float)rest, x);
}

/* log2 of a positive, finite, normal double within 2^-43 of itself. */
static inline double exg_f64_log2_short(double x)
{
    int64_t bits = exg_f64_bits(x) - 0x3fe6a09e667f3bcd;
    /* the exponent as a double without a 64-bit conversion */
    double e = exg_f64_of_bits((bits >> 52) + 0x4338000000000000) - EXG_F64_ROUNDER;
    double m = exg_f64_of_bits((bits & 0xfffffffffffff) + 0x3fe6a09e667f3bcd);
    double z = (m - 1.0) / (m + 1.0);
    double s = z * z;
    double p = 2.82910061305662347e-1;

    p = p * s + 3.1990497818439168e-1;
    p = p * s + 4.12209270678198281e-1;
    p = p * s + 5.77077942174005081e-1;
    p = p * s + 9.61796694114043367e-1;
    p = p * s + 2.88539008177784965;
    return p * z + e;
}

/* 2^x for |x| <= 1000 within 2^-40 of itself. */
static inline double exg_f64_exp2_short(double x)
{
    double t = x + EXG_F64_ROUNDER;
    double r = x - (t - EXG_F64_ROUNDER);
    double p = 1.31758267577632666e-6;

    p = p * r + 1.53097618765718726e-5;
    p = p * r + 1.54038520386352122e-4;
    p = p * r + 1.33334519707511979e-3;
    p = p * r + 9.618128542222625e-3;
    p = p * r + 5.55041093943612838e-2;
    p = p * r + 2.40226506988843145e-1;
    p = p * r + 6.93147180546491082e-1;
    p = p * r + 9.99999999999761746e-1;
    return p *
           exg_f64_of_bits(
               (int64_t)((uint64_t)(exg_f64_bits(t) - exg_f64_bits(EXG_F64_ROUNDER) + 1023) << 52));
}

/* In double throughout; the edges in the order C's pow states them. */
static inline float exg_f32_pow(float x, float y)
{
    float magnitude = exg_f32_abs(x);
    float whole = exg_f32_rint(y);
    float half = 0.5f * y;
    int is_whole = whole == y;
    int is_odd = is_whole && exg_f32_rint(half) != half;
    double power = (double)y * exg_f64_log2_short((double)magnitude);
    float result;

    power = power < -400.0 ? -400.0 : power > 400.0 ? 400.0 : power;
    result = (float)exg_f64_exp2_short(power);
    result = magnitude == 0.0f ? (y < 0.0f ? INFINITY : 0.0f) : result;
    result = magnitude == INFINITY ? (y < 0.0f ? 0.0f : INFINITY) : result;
    result = x < 0.0f && !is_whole && magnitude < INFINITY ? NAN : result;
    result = is_odd ? exg_f32_copysign(result, x) : result;
    result = x != x || y != y ? NAN : result;
    /* y infinite: |x| against 1 */
    result = exg_f32_abs(y) == INFINITY && x == x ? (magnitude == 1.0f                  ? 1.0f
                                                     : (magnitude > 1.0f) == (y > 0.0f) ? INFINITY
                                                                                        : 0.0f)
                                                  : result;
    return y == 0.0f || x == 1.0f ? 1.0f : result;
}

#endif
