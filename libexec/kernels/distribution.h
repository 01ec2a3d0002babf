/* distribution.h - random numbers of a distribution, on the host and on devices.
 *
 * Where it is the same for all elements a block of four words is four of 32 bits or less, or two of
 * 64. Where each has its own the k-th block of words of an element is one counter, so neither its
 * neighbours nor how often they were drawn and rejected change it.
 */
#ifndef EXG_LIBEXEC_KERNELS_DISTRIBUTION_H
#define EXG_LIBEXEC_KERNELS_DISTRIBUTION_H

#include "libexec/kernels/random.h"

#include <math.h>
#include <stdbool.h>

#define EXG_DRAW_TRIES 4096 /* more than chance ever takes */

/* ---- the same for all --------------------------------------------------------------------- */

static inline uint64_t exg_word_pair(const uint32_t *words, int at)
{
    return (uint64_t)words[2 * at + 1] << 32 | words[2 * at];
}

/* [0, 1), multiples of 2^-53 */
static inline double exg_unit(const uint32_t *words, int at)
{
    return (double)(exg_word_pair(words, at) >> 11) * 0x1p-53;
}

/* Two normal numbers of two uniform ones, u in (0, 1], v in [0, 1) (Box, Muller). */
static inline void exg_normal_pair(double u, double v, double *z)
{
    const double radius = sqrt(-2 * log(u));
    const double angle = 6.28318530717958647693 * v;

    z[0] = radius * cos(angle);
    z[1] = radius * sin(angle);
}

static inline void exg_draw_bits(const uint32_t *words, int64_t *v)
{
    v[0] = (int64_t)(exg_word_pair(words, 0) >> 1);
    v[1] = (int64_t)(exg_word_pair(words, 1) >> 1);
}

static inline void exg_draw_uniform_f64(const uint32_t *words, double *v)
{
    v[0] = exg_unit(words, 0);
    v[1] = exg_unit(words, 1);
}

static inline void exg_draw_normal_f64(const uint32_t *words, double *v)
{
    exg_normal_pair(exg_unit(words, 0) + 0x1p-53, exg_unit(words, 1), v);
}

/* `digits`: so many that no dtype rounds it to 1. */
static inline void exg_draw_uniform_f32(const uint32_t *words, uint32_t digits, float *v)
{
    for (int k = 0; k < 4; k++) {
        v[k] = ldexpf((float)(words[k] >> (32 - digits)), -(int)digits);
    }
}

static inline void exg_draw_normal_f32(const uint32_t *words, float *v)
{
    for (int k = 0; k < 4; k += 2) {
        double z[2];

        exg_normal_pair(((double)words[k] + 1) * 0x1p-32, (double)words[k + 1] * 0x1p-32, z);
        v[k] = (float)z[0];
        v[k + 1] = (float)z[1];
    }
}

/* ---- one each ----------------------------------------------------------------------------- */

/* The uniform numbers of one element. */
typedef struct exg_numbers {
    const exg_random_source *source;
    uint64_t element;
    uint32_t stream;
    uint32_t block;
    uint32_t words[4];
    bool has_second;
} exg_numbers;

static inline exg_numbers exg_numbers_of(const exg_random_source *source, uint32_t stream,
                                         uint64_t element)
{
    exg_numbers n = {source, element, stream, 0, {0}, false};

    return n;
}

/* [0, 1), multiples of 2^-53 */
static inline double exg_uniform(exg_numbers *n)
{
    if (!n->has_second) {
        exg_random_block(n->source, n->stream, n->element | (uint64_t)n->block++ << 40, n->words);
    }
    n->has_second = !n->has_second;
    return exg_unit(n->words, n->has_second ? 0 : 1);
}

/* (0, 1] */
static inline double exg_positive(exg_numbers *n)
{
    return 1 - exg_uniform(n);
}

static inline double exg_log_gamma(double x)
{
    int sign;

    return lgamma_r(x, &sign);
}

/* 1 by chance p. */
static inline double exg_draw_bernoulli(exg_numbers *n, double p, double unused, bool *bad)
{
    (void)unused;
    *bad = !(p >= 0 && p <= 1);
    return exg_uniform(n) < p ? 1 : 0;
}

/* Shape `a`, scale 1: Marsaglia and Tsang, "A simple method for generating gamma variables"
 * (2000). Below 1 a draw of a + 1 times u^(1/a). */
static inline double exg_draw_gamma(exg_numbers *n, double a, double unused, bool *bad)
{
    double scale = 1;
    double d;
    double c;

    (void)unused;
    *bad = a < 0;
    if (!(a > 0) || isinf(a)) {
        return a < 0 ? 0 : a;
    }
    if (a < 1) {
        scale = pow(exg_positive(n), 1 / a);
        a += 1;
    }
    d = a - 1.0 / 3;
    c = 1 / sqrt(9 * d);
    for (int i = 0; i < EXG_DRAW_TRIES; i++) {
        double x = sqrt(-2 * log(exg_positive(n))) * cos(6.28318530717958647693 * exg_uniform(n));
        double v = 1 + c * x;

        v = v * v * v;
        if (v > 0 && log(exg_positive(n)) < 0.5 * x * x + d - d * v + d * log(v)) {
            return scale * d * v;
        }
    }
    return scale * d;
}

/* Hoermann's transformed rejection: what stays the same of the two distributions. `spread` is
 * the deviation; the candidate and what its height is compared with. */
typedef struct exg_hat {
    double a, b, top, quick;
} exg_hat;

static inline double exg_candidate(const exg_hat *h, exg_numbers *n, double centre, double *height,
                                   bool *quick)
{
    double u = exg_uniform(n) - 0.5;
    double v = exg_positive(n);
    double edge = 0.5 - fabs(u);

    *quick = edge >= 0.07 && v <= h->quick;
    *height = log(v * h->top / (h->a / (edge * edge) + h->b));
    return edge == 0 ? -1 : floor((2 * h->a / edge + h->b) * u + centre);
}

/* Rate `rate`: products of uniform numbers, from 10 on Hoermann, "The transformed rejection
 * method for generating Poisson random variables" (1993), PTRS. */
static inline double exg_draw_poisson(exg_numbers *n, double rate, double unused, bool *bad)
{
    double spread = sqrt(rate);
    double b = 0.931 + 2.53 * spread;
    const exg_hat h = {-0.059 + 0.02483 * b, b, 1.1239 + 1.1328 / (b - 3.4),
                       0.9277 - 3.6224 / (b - 2)};

    (void)unused;
    *bad = !(rate >= 0);
    if (!(rate > 0) || isinf(rate)) {
        return isinf(rate) ? rate : 0;
    }
    if (rate < 10) {
        double least = exp(-rate);
        double product = exg_positive(n);
        double k = 0;

        for (; product > least; k++) {
            product *= exg_positive(n);
        }
        return k;
    }
    for (int i = 0; i < EXG_DRAW_TRIES; i++) {
        double height;
        bool quick;
        double k = exg_candidate(&h, n, rate + 0.43, &height, &quick);

        if (k >= 0 && (quick || height <= k * log(rate) - rate - exg_log_gamma(k + 1))) {
            return k;
        }
    }
    return floor(rate);
}

/* `count` trials of chance p <= 1/2: steps to the next success, from 10 expected ones on
 * Hoermann, "The generation of binomial random variates" (1993), BTRS. */
static inline double exg_successes(exg_numbers *n, double count, double p)
{
    double spread = sqrt(count * p * (1 - p));
    double b = 1.15 + 2.53 * spread;
    const exg_hat h = {-0.0873 + 0.0248 * b + 0.01 * p, b, (2.83 + 5.1 / b) * spread,
                       0.92 - 4.2 / b};
    double likeliest = floor((count + 1) * p);
    double peak = exg_log_gamma(likeliest + 1) + exg_log_gamma(count - likeliest + 1);

    if (count * p < 10) {
        double step = log1p(-p);
        double at = ceil(log(exg_positive(n)) / step);
        double k = 0;

        for (; at <= count; k++) {
            at += fmax(1, ceil(log(exg_positive(n)) / step));
        }
        return k;
    }
    for (int i = 0; i < EXG_DRAW_TRIES; i++) {
        double height;
        bool quick;
        double k = exg_candidate(&h, n, count * p + 0.5, &height, &quick);

        if (k >= 0 && k <= count &&
            (quick || height <= peak - exg_log_gamma(k + 1) - exg_log_gamma(count - k + 1) +
                                    (k - likeliest) * log(p / (1 - p)))) {
            return k;
        }
    }
    return likeliest;
}

static inline double exg_draw_binomial(exg_numbers *n, double count, double p, bool *bad)
{
    *bad = !(count >= 0 && p >= 0 && p <= 1);
    if (!(count > 0 && p > 0) || isinf(count)) {
        return isnan(p) || isnan(count) ? NAN : 0;
    }
    return p >= 1     ? count
           : p <= 0.5 ? exg_successes(n, count, p)
                      : count - exg_successes(n, count, 1 - p);
}

#endif
