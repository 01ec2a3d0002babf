/* gamma.h - the gamma function's logarithm and the slope of that as straight-line C in f64, so
 * that loops over them vectorise. Operands below 8 are moved up by 8, from where Stirling's series
 * is exact enough; those left of 1/2 (the slope: of 0) are reflected first. Poles are PyTorch's.
 * Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 6.1 and 6.3.
 */
#ifndef EXG_LIBEXEC_KERNELS_GAMMA_H
#define EXG_LIBEXEC_KERNELS_GAMMA_H

#include "libexec/kernels/math_f64.h"

#define EXG_PI 3.14159265358979324

/* sin(pi r) for |r| <= 1/2: the series. */
static inline double exg_f64_sin_pi(double r)
{
    double s = r * r;
    double p = 5.39266466260812849e-10;

    p = exg_f64_fma(p, s, -2.29484289972698731e-8);
    p = exg_f64_fma(p, s, 7.95205400147551278e-7);
    p = exg_f64_fma(p, s, -2.19153534478302158e-5);
    p = exg_f64_fma(p, s, 4.66302805767612564e-4);
    p = exg_f64_fma(p, s, -7.37043094571435078e-3);
    p = exg_f64_fma(p, s, 8.21458866111282288e-2);
    p = exg_f64_fma(p, s, -5.99264529320792077e-1);
    p = exg_f64_fma(p, s, 2.55016403987734544);
    p = exg_f64_fma(p, s, -5.16771278004997003);
    return r * exg_f64_fma(p, s, EXG_PI);
}

/* cos(pi r) for |r| <= 1/2: the series. */
static inline double exg_f64_cos_pi(double r)
{
    double s = r * r;
    double p = -7.70070713060135338e-11;

    p = exg_f64_fma(p, s, 3.60473079746250093e-9);
    p = exg_f64_fma(p, s, -1.38789524622137721e-7);
    p = exg_f64_fma(p, s, 4.30306958703294701e-6);
    p = exg_f64_fma(p, s, -1.04638104924845707e-4);
    p = exg_f64_fma(p, s, 1.92957430940392305e-3);
    p = exg_f64_fma(p, s, -2.58068913900140600e-2);
    p = exg_f64_fma(p, s, 2.35330630358893205e-1);
    p = exg_f64_fma(p, s, -1.33526276885458950);
    p = exg_f64_fma(p, s, 4.05871212641676822);
    p = exg_f64_fma(p, s, -4.93480220054467931);
    return exg_f64_fma(p, s, 1.0);
}

/* What is left of x after the nearest whole number, from which on all are whole. */
static inline double exg_f64_rest_of_whole(double x)
{
    double n = (x + EXG_F64_ROUNDER) - EXG_F64_ROUNDER;

    return exg_f64_copysign(x, 1.0) < 0x1p51 ? x - n : 0.0;
}

/* Within 1 unit of f32's last place; by the zeros left of -2, within 1e-13 of the value. */
static inline float exg_f32_lgamma(float operand)
{
    const double x = (double)operand;
    const int is_left = x < 0.5;
    const double z = is_left ? 1.0 - x : x;
    const double d = z - 1.5;
    const int has_zeros = exg_f64_copysign(d, 1.0) <= 0.75; /* at 1 and 2, by factors */
    const int is_low = z < 8.0;
    const double w = is_low ? z + 8.0 : z;
    const double t = 1.0 / w;
    const double s = t * t;
    double rising = z * (z + 1.0) * (z + 2.0) * (z + 3.0);
    double p = -3.9638169680358434e-4;
    double q = 6.41025641025641026e-3;
    double result;
    double edge;

    rising *= (z + 4.0) * (z + 5.0) * (z + 6.0) * (z + 7.0);
    rising = has_zeros || !is_low ? 1.0 : rising;
    p = exg_f64_fma(p, d, 6.3223132135792354e-4); /* a fit of our own within 1e-9 */
    p = exg_f64_fma(p, d, -2.3232816807556281e-4);
    p = exg_f64_fma(p, d, 3.8547893036966297e-4);
    p = exg_f64_fma(p, d, -1.2493748523766338e-3);
    p = exg_f64_fma(p, d, 2.0575482567395631e-3);
    p = exg_f64_fma(p, d, -3.1946410448915862e-3);
    p = exg_f64_fma(p, d, 5.4188389662242321e-3);
    p = exg_f64_fma(p, d, -9.4272959158745667e-3);
    p = exg_f64_fma(p, d, 1.6799749533371799e-2);
    p = exg_f64_fma(p, d, -3.1308427964583792e-2);
    p = exg_f64_fma(p, d, 6.2911306770414166e-2);
    p = exg_f64_fma(p, d, -1.4595989625682321e-1);
    p = exg_f64_fma(p, d, 4.8312895108351225e-1) * (z - 1.0) * (z - 2.0);
    q = exg_f64_fma(q, s, -1.91752691752691753e-3);
    q = exg_f64_fma(q, s, 8.41750841750841751e-4);
    q = exg_f64_fma(q, s, -5.95238095238095238e-4);
    q = exg_f64_fma(q, s, 7.93650793650793651e-4);
    q = exg_f64_fma(q, s, -2.77777777777777778e-3);
    q = exg_f64_fma(q, s, 8.33333333333333333e-2);
    q = exg_f64_fma(w - 0.5, exg_f64_log(w), exg_f64_fma(q, t, 0.918938533204672742 - w));
    result = has_zeros ? p : q;
    edge = EXG_PI / exg_f64_copysign(exg_f64_sin_pi(exg_f64_rest_of_whole(x)), 1.0);
    edge = exg_f64_log(is_left ? edge * rising : rising);
    result = is_left ? edge - result : result - edge;
    return exg_f32_abs(operand) == INFINITY ? INFINITY : (float)result;
}

static inline double exg_special_digamma(double x)
{
    const int is_left = x < 0.0;
    const double z = is_left ? 1.0 - x : x;
    const int is_low = z < 8.0;
    const double w = is_low ? z + 8.0 : z;
    const double r = exg_f64_rest_of_whole(x);
    const double t = 1.0 / w;
    const double s = t * t;
    double rising = z; /* and its slope, whose quotient is the sum of 1 / (z + k) */
    double slope = 1.0;
    double q = 4.43259803921568627e-1;
    double turn = EXG_PI * exg_f64_cos_pi(r) / exg_f64_sin_pi(r);
    double result;

#pragma GCC unroll 8
    for (int k = 1; k < 8; k++) {
        slope = exg_f64_fma(slope, z + k, rising);
        rising *= z + k;
    }
    q = exg_f64_fma(q, s, -8.33333333333333333e-2);
    q = exg_f64_fma(q, s, 2.10927960927960928e-2);
    q = exg_f64_fma(q, s, -7.57575757575757576e-3);
    q = exg_f64_fma(q, s, 4.16666666666666667e-3);
    q = exg_f64_fma(q, s, -3.96825396825396825e-3);
    q = exg_f64_fma(q, s, 8.33333333333333333e-3);
    q = exg_f64_fma(q, s, -8.33333333333333333e-2);
    result = exg_f64_log(w) - exg_f64_fma(-q, s, 0.5 * t);
    result -= is_low ? slope / rising : 0.0;
    turn = r == 0.0 ? NAN : turn;
    result -= is_left ? turn : 0.0;
    return x == 0.0 ? exg_f64_copysign(INFINITY, -x) : result;
}

#endif
