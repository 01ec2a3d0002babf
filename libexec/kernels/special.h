/* special.h - special functions of double. Meaning at poles, outside the domain and for
 * NaN is PyTorch's; accuracy is 1e-12 relative, away from zeros,
 * but for igammac of a below 1e-4, where it is 1e-8.
 * Sources: Abramowitz and Stegun, "Handbook of Mathematical Functions"; DLMF.
 */
#ifndef EXG_LIBEXEC_KERNELS_SPECIAL_H
#define EXG_LIBEXEC_KERNELS_SPECIAL_H

#include "libexec/kernels/gamma.h"

/* gamma's kin, but for digamma, which gamma.h has */
double exg_special_polygamma(double n, double x); /* n: 0, 1, ... */
double exg_special_zeta(double x, double q);      /* Hurwitz */
double exg_special_igamma(double a, double x);    /* lower, regularized */
double exg_special_igammac(double a, double x);   /* upper, regularized */

/* the error function's kin */
double exg_special_erfcx(double x);
double exg_special_erfinv(double x);
double exg_special_ndtri(double p);
double exg_special_log_ndtr(double x);

/* Bessel functions; _e: times e^-|x| (i), e^x (k) */
double exg_special_i0(double x);
double exg_special_i0e(double x);
double exg_special_i1(double x);
double exg_special_i1e(double x);
double exg_special_k0(double x);
double exg_special_k0e(double x);
double exg_special_k1(double x);
double exg_special_k1e(double x);
double exg_special_j0(double x);
double exg_special_j1(double x);
double exg_special_y0(double x);
double exg_special_y1(double x);
double exg_special_spherical_j0(double x);
double exg_special_airy_ai(double x);

/* orthogonal polynomials of degree n, whose fraction is dropped; 0 below degree 0 */
double exg_special_chebyshev_t(double x, double n);
double exg_special_chebyshev_u(double x, double n);
double exg_special_chebyshev_v(double x, double n);
double exg_special_chebyshev_w(double x, double n);
double exg_special_hermite_h(double x, double n);
double exg_special_hermite_he(double x, double n);
double exg_special_laguerre_l(double x, double n);
double exg_special_legendre_p(double x, double n);

/* x = mantissa 2^exponent */
double exg_special_mantissa(double x);
double exg_special_exponent(double x);

#endif
