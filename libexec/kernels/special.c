/* special.c - see special.h. Integrals without an end effect are taken by the trapezoid
 * rule, which converges exponentially for them. */
#include "libexec/kernels/special.h"

#include <math.h>
#include <stdint.h>

#define PI         3.14159265358979323846
#define SQRT_PI    1.77245385090551602730
#define SQRT_2     1.41421356237309504880
#define EPSILON    0x1p-53
#define TERMS_MAX  4096
#define DEGREE_MAX (1 << 20) /* polynomials without a closed form give NaN beyond */

/* ---- gamma --------------------------------------------------------------------------- */

/* lgamma() writes its sign where all threads see it. */
static double log_gamma(double x)
{
    int sign;

    return lgamma_r(x, &sign);
}

/* B_2k / (2k)! */
static const double bernoulli[] = {8.3333333333333333e-02, -1.3888888888888889e-03,
                                   3.3068783068783069e-05, -8.2671957671957672e-07,
                                   2.0876756987868099e-08, -5.2841901386874932e-10,
                                   1.3382536530684679e-11, -3.3896802963225829e-13,
                                   8.5860620562778446e-15, -2.1748686985580619e-16};

/* Euler and Maclaurin's sum, begun where q is past 12 + x. */
double exg_special_zeta(double x, double q)
{
    double sum = 0;
    double factor = x;
    double power;

    if (x == 1) {
        return INFINITY;
    }
    if (!(x >= 1)) {
        return NAN;
    }
    if (q <= 0 && (q == floor(q) || x != floor(x))) {
        return q == floor(q) ? INFINITY : NAN;
    }
    if (isnan(q) || q < -TERMS_MAX) {
        return NAN;
    }
    for (; q < 12 + x; q++) {
        double term = pow(q, -x);

        sum += term;
        if (!isfinite(sum) || (q > 0 && fabs(term) <= EPSILON * fabs(sum))) {
            return sum;
        }
    }
    power = pow(q, -x);
    sum += power * q / (x - 1) + power / 2;
    for (int k = 0; k < 10; k++) {
        power /= k == 0 ? q : q * q;
        sum += bernoulli[k] * factor * power;
        factor *= (x + 2 * k + 1) * (x + 2 * k + 2);
    }
    return sum;
}

double exg_special_polygamma(double n, double x)
{
    if (n == 0) {
        return exg_special_digamma(x);
    }
    if (n == 1 && x < 0.5 && x != floor(x)) {
        double s = sin(PI * (x - floor(x)));

        return PI * PI / (s * s) - exg_special_zeta(2, 1 - x);
    }
    return (fmod(n, 2) != 0 ? 1 : -1) * exp(log_gamma(n + 1)) * exg_special_zeta(n + 1, x);
}

/* x^a e^-x / gamma(a + 1) */
static double igamma_factor(double a, double x)
{
    if (a > 20) { /* Stirling: gamma(a + 1) = sqrt(2 pi a) (a/e)^a (1 + ...) */
        double away = (x - a) / a;
        double stirling = 1 / (12 * a) - 1 / (360 * a * a * a) + 1 / (1260 * pow(a, 5));

        return exp(a * (log1p(away) - away) - stirling) / sqrt(2 * PI * a);
    }
    return exp(a * log(x) - x - log_gamma(a + 1));
}

static double igamma_series(double a, double x)
{
    double term = 1;
    double sum = 1;

    for (int64_t k = 1; k < 64 * TERMS_MAX && term > EPSILON * sum; k++) {
        term *= x / (a + (double)k);
        sum += term;
    }
    return sum * igamma_factor(a, x);
}

/* Legendre's continued fraction, by Lentz's way. */
static double igammac_fraction(double a, double x)
{
    double b = x + 1 - a;
    double c = 1e300;
    double d = 1 / b;
    double f = d;

    for (int64_t k = 1; k < 64 * TERMS_MAX; k++) {
        double an = -(double)k * ((double)k - a);
        double change;

        b += 2;
        d = 1 / (an * d + b);
        c = b + an / c;
        change = c * d;
        f *= change;
        if (fabs(change - 1) < 4 * EPSILON) {
            break;
        }
    }
    return f * a * igamma_factor(a, x);
}

/* Of the two one that is simple; false where the work begins. */
static int igamma_is_simple(double a, double x, double *lower)
{
    if (isnan(a) || isnan(x) || x < 0 || a < 0 || (a == 0 && x == 0) || (isinf(a) && isinf(x))) {
        *lower = NAN;
    } else if (a == 0 || isinf(x)) {
        *lower = 1;
    } else if (x == 0 || isinf(a)) {
        *lower = 0;
    } else {
        return 0;
    }
    return 1;
}

double exg_special_igamma(double a, double x)
{
    double simple;

    if (igamma_is_simple(a, x, &simple)) {
        return simple;
    }
    return x > 1.1 && x > a ? 1 - igammac_fraction(a, x) : igamma_series(a, x);
}

/* For x below 1 and below a, or small a, 1 - igamma loses what is small: it is summed from
 * gamma's own series there. */
double exg_special_igammac(double a, double x)
{
    double simple;

    if (igamma_is_simple(a, x, &simple)) {
        return 1 - simple;
    }
    if (x > 1.1 && x > a) {
        return igammac_fraction(a, x);
    }
    if (a < 1 && x <= 1.1) {
        double log_power = a * log(x) - log_gamma(a + 1); /* log(x^a / gamma(a + 1)) */
        double term = 1;
        double sum = 0;

        for (int k = 1; k < TERMS_MAX && fabs(term) > EPSILON * EPSILON; k++) {
            term *= -x / k;
            sum += term * a / (a + k);
        }
        return -expm1(log_power) - exp(log_power) * sum;
    }
    return 1 - igamma_series(a, x);
}

/* ---- error functions ------------------------------------------------------------------ */

double exg_special_erfcx(double x)
{
    double term = 1;
    double sum = 1;

    if (x < 0) {
        return x < -27 ? INFINITY : 2 * exp(x * x) - exg_special_erfcx(-x);
    }
    if (x < 20) {
        return exp(x * x) * erfc(x);
    }
    for (int k = 0; k < 12; k++) {
        term *= -(2 * k + 1) / (2 * x * x);
        sum += term;
    }
    return sum / (x * SQRT_PI);
}

/* A first guess for the y with erfc(y) = q, q in (0, 1] (Winitzki). */
static double erfc_inverse_guess(double q)
{
    double a = 0.147;
    double logarithm = log(q) + log(2 - q);
    double half = 2 / (PI * a) + logarithm / 2;

    return sqrt(fmax(sqrt(half * half - logarithm / a) - half, 0));
}

/* Halley's steps. */
static double erfc_inverse(double q)
{
    double y = erfc_inverse_guess(q);

    for (int k = 0; k < 4; k++) {
        double u = (erfc(y) - q) / (-2 / SQRT_PI * exp(-y * y));

        y -= u / (1 + y * u);
    }
    return y;
}

double exg_special_erfinv(double x)
{
    double y;

    if (!(fabs(x) < 1)) {
        return fabs(x) == 1 ? copysign(INFINITY, x) : NAN;
    }
    if (fabs(x) > 0.5) {
        return copysign(erfc_inverse(1 - fabs(x)), x);
    }
    y = x * SQRT_PI / 2;
    for (int k = 0; k < 4; k++) {
        double u = (erf(y) - x) / (2 / SQRT_PI * exp(-y * y));

        y -= u / (1 + y * u);
    }
    return y;
}

double exg_special_ndtri(double p)
{
    if (!(p > 0 && p < 1)) {
        return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
    }
    return p < 0.25 || p > 0.75
               ? (p < 0.5 ? -1 : 1) * SQRT_2 * erfc_inverse(2 * (p < 0.5 ? p : 1 - p))
               : SQRT_2 * exg_special_erfinv(2 * p - 1);
}

double exg_special_log_ndtr(double x)
{
    double t = x / SQRT_2;

    return x < -1 ? log(exg_special_erfcx(-t) / 2) - t * t : log1p(-erfc(t) / 2);
}

/* ---- Bessel functions ------------------------------------------------------------------- */

/* I_n(x) e^-|x|: its power series, whose terms are positive, or Hankel's expansion. */
static double bessel_ie(int n, double x)
{
    double a = fabs(x);
    double term = n == 0 ? 1 : a / 2;
    double sum = term;

    if (a <= 30) {
        for (int k = 1; k < TERMS_MAX && term > EPSILON * sum; k++) {
            term *= a * a / 4 / (k * (double)(k + n));
            sum += term;
        }
        sum *= exp(-a);
    } else {
        term = sum = 1;
        for (int k = 1; k < 30 && fabs(term) > EPSILON; k++) {
            term *= -(4. * n * n - (2. * k - 1) * (2. * k - 1)) / (8 * a * k);
            sum += term;
        }
        sum = isinf(a) ? 0 : sum / sqrt(2 * PI * a);
    }
    return isnan(x) ? x : n == 1 && x < 0 ? -sum : sum;
}

double exg_special_i0e(double x)
{
    return bessel_ie(0, x);
}

double exg_special_i1e(double x)
{
    return bessel_ie(1, x);
}

static double bessel_i(int n, double x)
{
    double half = exp(fabs(x) / 2); /* e^|x| may be past the end where the product is not */

    return isinf(x) ? (n == 1 ? x : INFINITY) : bessel_ie(n, x) * half * half;
}

double exg_special_i0(double x)
{
    return bessel_i(0, x);
}

double exg_special_i1(double x)
{
    return bessel_i(1, x);
}

/* K_v(x) e^x = integral over t from 0 of e^(x (1 - cosh t)) cosh(v t), x > 0. */
static double bessel_ke(double v, double x)
{
    double step = 0.5 / sqrt(fmax(x, 4));
    double sum = 0.5;

    if (isnan(x) || x < 0) {
        return NAN;
    }
    if (x == 0 || isinf(x)) {
        return x == 0 ? INFINITY : 0;
    }
    for (int k = 1; k < 16 * TERMS_MAX; k++) {
        double t = k * step;
        double half = sinh(t / 2);
        double term = exp(-2 * x * half * half + v * t) * (1 + exp(-2 * v * t)) / 2;

        sum += term;
        if (2 * x * half * half > v * t + 45) {
            break;
        }
    }
    return sum * step;
}

double exg_special_k0e(double x)
{
    return bessel_ke(0, x);
}

double exg_special_k1e(double x)
{
    return bessel_ke(1, x);
}

double exg_special_k0(double x)
{
    return bessel_ke(0, x) * exp(-x);
}

double exg_special_k1(double x)
{
    return bessel_ke(1, x) * exp(-x);
}

double exg_special_j0(double x)
{
    return j0(x);
}

double exg_special_j1(double x)
{
    return j1(x);
}

double exg_special_y0(double x)
{
    return x < 0 ? NAN : y0(x);
}

double exg_special_y1(double x)
{
    return x < 0 ? NAN : y1(x);
}

double exg_special_spherical_j0(double x)
{
    if (isinf(x)) {
        return 0;
    }
    return fabs(x) < 1e-4 ? 1 - x * x / 6 : sin(x) / x;
}

/* For x from -7 to 2 by Maclaurin's series. */
static double airy_series(double x)
{
    const double f0 = 0.35502805388781723926;  /* Ai(0) */
    const double g0 = -0.25881940379280679840; /* Ai'(0) */
    double f = f0;
    double g = g0 * x;
    double sum = f + g;

    for (int k = 1; k < TERMS_MAX; k++) {
        f *= x * x * x / ((3. * k - 1) * (3. * k));
        g *= x * x * x / ((3. * k) * (3. * k + 1));
        sum += f + g;
        if (fabs(f) + fabs(g) < EPSILON * EPSILON) {
            break;
        }
    }
    return sum;
}

double exg_special_airy_ai(double x)
{
    double zeta = 2 / 3. * fabs(x) * sqrt(fabs(x));
    double term = 1;
    double sums[2] = {1, 0}; /* of even and odd terms, signs alternating in each */

    if (isnan(x) || isinf(x)) {
        return isnan(x) ? x : x > 0 ? 0 : NAN;
    }
    if (x > 2) {
        return sqrt(x / 3) / PI * bessel_ke(1 / 3., zeta) * exp(-zeta);
    }
    if (x >= -7) {
        return airy_series(x);
    }
    for (int k = 1; k < 24; k++) {
        term *= (6. * k - 5) * (6. * k - 3) * (6. * k - 1) / (216. * k * (2. * k - 1) * zeta);
        sums[k % 2] += (k / 2) % 2 == 0 ? term : -term;
    }
    return (sin(zeta + PI / 4) * sums[0] - cos(zeta + PI / 4) * sums[1]) /
           (SQRT_PI * sqrt(sqrt(-x)));
}

/* ---- orthogonal polynomials --------------------------------------------------------------- */

/* A degree as a whole number; -1 where it is none, or below 0. */
static double degree(double n)
{
    n = trunc(n);
    return n >= 0 && n < 0x1p53 ? n : -1;
}

/* T, U, V, W begin with 1 and x, 2x, 2x - 1, 2x + 1, and all go on alike. */
static double chebyshev(double x, double n, double first)
{
    double before = 1;
    double now = first;

    for (int k = 1; k < (int)n; k++) {
        double next = 2 * x * now - before;

        before = now;
        now = next;
    }
    return n == 0 ? 1 : now;
}

/* Many steps lose accuracy within (-1, 1), where cosines say it, and end outside. */
static int by_angle(double x, double n)
{
    return n > 8 && fabs(x) < 1;
}

static double outside(double x, double n, double scale)
{
    double value = scale * exp(n * acosh(fabs(x)));

    return x < 0 && fmod(n, 2) != 0 ? -value : value;
}

double exg_special_chebyshev_t(double x, double n)
{
    n = degree(n);
    return n < 0            ? 0
           : by_angle(x, n) ? cos(n * acos(x))
           : n < 64         ? chebyshev(x, n, x)
           : fabs(x) == 1   ? (x > 0 || fmod(n, 2) == 0 ? 1 : -1)
                            : outside(x, n, 0.5);
}

double exg_special_chebyshev_u(double x, double n)
{
    double angle = acos(x);

    n = degree(n);
    return n < 0            ? 0
           : by_angle(x, n) ? sin((n + 1) * angle) / sin(angle)
           : n < 64         ? chebyshev(x, n, 2 * x)
           : fabs(x) == 1   ? (x > 0 || fmod(n, 2) == 0 ? n + 1 : -(n + 1))
                            : outside(x, n, 0.5 * (1 + fabs(x) / sqrt(x * x - 1)));
}

double exg_special_chebyshev_v(double x, double n)
{
    double angle = acos(x);

    n = degree(n);
    return n < 0            ? 0
           : by_angle(x, n) ? cos((n + 0.5) * angle) / cos(angle / 2)
           : n < 64         ? chebyshev(x, n, 2 * x - 1)
           : fabs(x) == 1   ? (x > 0             ? 1
                               : fmod(n, 2) == 0 ? 2 * n + 1
                                                 : -(2 * n + 1))
                            : outside(x, n,
                                      exp(acosh(fabs(x)) / 2) /
                                          (2 * (x > 0 ? cosh(acosh(x) / 2) : sinh(acosh(-x) / 2))));
}

double exg_special_chebyshev_w(double x, double n)
{
    n = degree(n);
    if (n < 0) {
        return 0;
    }
    return exg_special_chebyshev_v(-x, n) * (fmod(n, 2) == 0 ? 1 : -1); /* W(x) = +-V(-x) */
}

/* p(k + 1) = (a x + b) p(k) + c p(k - 1), whose a, b, c the family says. */
typedef enum family { HERMITE_H, HERMITE_HE, LAGUERRE, LEGENDRE } family;

static double polynomial(family of, double x, double n)
{
    double before = 0;
    double now = 1;

    n = degree(n);
    if (n < 0 || n > DEGREE_MAX) {
        return n < 0 ? 0 : NAN;
    }
    for (int k = 0; k < (int)n && isfinite(now); k++) {
        double next = of == HERMITE_H    ? 2 * x * now - 2. * k * before
                      : of == HERMITE_HE ? x * now - k * before
                      : of == LAGUERRE   ? ((2. * k + 1 - x) * now - k * before) / (k + 1)
                                         : ((2. * k + 1) * x * now - k * before) / (k + 1);

        before = now;
        now = next;
    }
    return now;
}

double exg_special_hermite_h(double x, double n)
{
    return polynomial(HERMITE_H, x, n);
}

double exg_special_hermite_he(double x, double n)
{
    return polynomial(HERMITE_HE, x, n);
}

double exg_special_laguerre_l(double x, double n)
{
    return polynomial(LAGUERRE, x, n);
}

double exg_special_legendre_p(double x, double n)
{
    return polynomial(LEGENDRE, x, n);
}

/* ---- parts ---------------------------------------------------------------------------------- */

double exg_special_mantissa(double x)
{
    int exponent;

    return frexp(x, &exponent);
}

double exg_special_exponent(double x)
{
    int exponent = 0;

    (void)frexp(x, &exponent);
    return isfinite(x) ? exponent : 0;
}
