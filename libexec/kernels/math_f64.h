/* math_f64.h - f64 functions as straight-line C, so that loops over them vectorise.
 *
 * Each is within 1 unit in the last place of the true value, tanh within 3; NaN, infinities and
 * signed zeros as in C's math.h. Polynomials are the series.
 */
#ifndef EXG_LIBEXEC_KERNELS_MATH_F64_H
#define EXG_LIBEXEC_KERNELS_MATH_F64_H

#include "libexec/kernels/math_f32.h"

#ifdef __FMA__
#define exg_f64_fma(a, b, c) __builtin_fma((a), (b), (c))
#else
#define exg_f64_fma(a, b, c) ((a) * (b) + (c))
#endif

#define EXG_F64_LN2_HIGH 0x1.62e42fee00000p-1 /* times a whole number of 12 bits it is exact */
#define EXG_F64_LN2_LOW  0x1.a39ef35793c76p-33

/* x less the nearest n times ln2; the low bits of *power are n. */
static inline double exg_f64_exp_rest(double x, double *power)
{
    double t = exg_f64_fma(x, 1.44269504088896340736, EXG_F64_ROUNDER);
    double n = t - EXG_F64_ROUNDER;

    *power = t;
    return exg_f64_fma(n, -EXG_F64_LN2_LOW, exg_f64_fma(n, -EXG_F64_LN2_HIGH, x));
}

/* e^r - 1 for |r| <= ln2 / 2. */
static inline double exg_f64_exp_tail(double r)
{
    double q = 1.0 / 6227020800.0;

    q = exg_f64_fma(q, r, 1.0 / 479001600.0);
    q = exg_f64_fma(q, r, 1.0 / 39916800.0);
    q = exg_f64_fma(q, r, 1.0 / 3628800.0);
    q = exg_f64_fma(q, r, 1.0 / 362880.0);
    q = exg_f64_fma(q, r, 1.0 / 40320.0);
    q = exg_f64_fma(q, r, 1.0 / 5040.0);
    q = exg_f64_fma(q, r, 1.0 / 720.0);
    q = exg_f64_fma(q, r, 1.0 / 120.0);
    q = exg_f64_fma(q, r, 1.0 / 24.0);
    q = exg_f64_fma(q, r, 1.0 / 6.0);
    q = exg_f64_fma(q, r, 0.5);
    return exg_f64_fma(q * r, r, r);
}

/* 2^(low bits + less - 1023) */
static inline double exg_f64_power_shifted(double power, uint64_t less)
{
    return exg_f64_of_bits((int64_t)(((uint64_t)exg_f64_bits(power) + less) << 52));
}

/* In two factors, so that neither overflows and denormals come out. */
static inline double exg_f64_exp(double x)
{
    double power;
    double p = exg_f64_exp_tail(exg_f64_exp_rest(x, &power));
    double second = x < 0.0 ? 0x1p-512 : 0x1p+512;
    double first = exg_f64_power_shifted(power, x < 0.0 ? 1023 + 512 : 1023 - 512);

    p = exg_f64_fma(p, first, first) * second;
    p = x > 709.8 ? INFINITY : p;
    return x < -746.0 ? 0.0 : p;
}

static inline double exg_f64_copysign(double magnitude, double sign)
{
    return exg_f64_of_bits((exg_f64_bits(magnitude) & INT64_MAX) |
                           (exg_f64_bits(sign) & INT64_MIN));
}

/* With y = e^(2 |x|) - 1 it is y / (y + 2). */
static inline double exg_f64_tanh(double x)
{
    double twice = 2.0 * exg_f64_copysign(x, 1.0);
    double power;
    double p;
    double y;

    twice = twice > 44.0 ? 44.0 : twice;
    p = exg_f64_exp_tail(exg_f64_exp_rest(twice, &power));
    power = exg_f64_power_shifted(power, 1023);
    y = exg_f64_fma(power, p, power - 1.0);
    return exg_f64_copysign(y / (y + 2.0), x);
}

/* x = m * 2^e with m in [sqrt(1/2), sqrt(2)); of f = m - 1 and s = f / (2 + f) it is
 * e * ln2 + f - (f^2 / 2 - s * (f^2 / 2 + R)), R what the series of atanh(s) has after s. */
static inline double exg_f64_log(double x)
{
    double scaled = x < 0x1p-1022 ? x * 0x1p54 : x;
    int64_t word = exg_f64_bits(scaled) - 0x3fe6a09e667f3bcd;
    double e = exg_f64_of_bits((word >> 52) + 0x4338000000000000) - EXG_F64_ROUNDER;
    double f = exg_f64_of_bits((word & 0xfffffffffffff) + 0x3fe6a09e667f3bcd) - 1.0;
    double s = f / (2.0 + f);
    double z = s * s;
    double half = 0.5 * f * f;
    double r = 2.0 / 21.0;
    double result;
    double edge;

    r = exg_f64_fma(r, z, 2.0 / 19.0);
    r = exg_f64_fma(r, z, 2.0 / 17.0);
    r = exg_f64_fma(r, z, 2.0 / 15.0);
    r = exg_f64_fma(r, z, 2.0 / 13.0);
    r = exg_f64_fma(r, z, 2.0 / 11.0);
    r = exg_f64_fma(r, z, 2.0 / 9.0);
    r = exg_f64_fma(r, z, 2.0 / 7.0);
    r = exg_f64_fma(r, z, 2.0 / 5.0);
    r = exg_f64_fma(r, z, 2.0 / 3.0);
    e = x < 0x1p-1022 ? e - 54.0 : e;
    result = e * EXG_F64_LN2_HIGH - ((half - (s * (half + r * z) + e * EXG_F64_LN2_LOW)) - f);
    edge = x == 0.0 ? -INFINITY : NAN;
    result = x > 0x1.fffffffffffffp1023 ? x : result;
    return x > 0.0 ? result : edge;
}

/* log(1 + e^x) */
static inline double exg_f64_log1p_exp(double x)
{
    double t = exg_f64_exp(-exg_f64_copysign(x, 1.0));
    double u = 1.0 + t;

    return (x > 0.0 ? x : 0.0) + (exg_f64_log(u) + (t - (u - 1.0)) / u);
}

#endif
