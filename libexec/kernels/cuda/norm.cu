/* norm.cu - layer, rms and group norm, row by row. X: the dtype of rows; WEIGHT, BIAS of
 * those; MEAN, FACTOR of the statistics handed out. One of LAYER, RMS, GROUP. y may be x.
 * EACH: a thread keeps so many elements of the row (row.h); X, WEIGHT and BIAS are of one size, the
 * weight and bias as long as the row.
 */
#include "libexec/kernels/cuda/params.h"
#include "libexec/kernels/cuda/row.h"

typedef COMPUTE(X) real;

DEFINE_ROW_JOIN(sum, double, shuffle_f64, a + b)

static inline void keep_statistics(const cuda_norm_params *p, int64_t row, double mean,
                                   double factor)
{
    if (ROW_THREAD == 0 && p->mean != 0) {
        STORE(MEAN)(p->mean, row, (COMPUTE(MEAN))mean);
    }
    if (ROW_THREAD == 0 && p->factor != 0) {
        STORE(FACTOR)(p->factor, row, (COMPUTE(FACTOR))factor);
    }
}

#ifdef EACH
DEFINE_ROW(row, X, real)
DEFINE_ROW(weight, WEIGHT, real)
DEFINE_ROW(bias, BIAS, real)

/* 1 / sqrt(x) in the type of the row: in doubles each thread would take longer with it than with
 * its elements. */
#define ROOT(x) (1 / (sizeof(real) == sizeof(double) ? (real)sqrt(x) : (real)sqrtf((float)(x))))

/* A thread sums its few in the type of the row, all of them in double. */
static inline double mean_of(const cuda_norm_params *p, const real x[EACH])
{
    real sum = 0;

#ifdef RMS
    return 0;
#endif
    UNROLL
    for (int i = 0; i < EACH; i++) {
        sum += x[i]; /* zeros past the end */
    }
    return row_sum((double)sum) * p->share;
}

static inline double factor_of(const cuda_norm_params *p, const real x[EACH], real mean)
{
    real squares = 0;

    UNROLL
    for (int i = 0; i < EACH; i++) {
        const real d = ROW_AT(X, i) < p->size ? x[i] - mean : 0;

        squares += d * d;
    }
    return ROOT(row_sum((double)squares) * p->share + p->eps);
}

KERNEL(normalize, cuda_norm_params)
{
    FOR_EACH_ROW(r, p.rows) {
        const int64_t base = r * p.size;
        double mean;
        double factor;
        real x[EACH];

        row_load(x, p.in, base, (int)p.size, 0);
        mean = mean_of(&p, x);
        factor = factor_of(&p, x, (real)mean);
        UNROLL
        for (int i = 0; i < EACH; i++) {
            x[i] = (x[i] - (real)mean) * (real)factor;
        }
        if (p.weight != 0) {
            real by[EACH];

            weight_load(by, p.weight, 0, (int)p.size, 0);
            UNROLL
            for (int i = 0; i < EACH; i++) {
                x[i] *= by[i];
            }
        }
        if (p.bias != 0) {
            real by[EACH];

            bias_load(by, p.bias, 0, (int)p.size, 0);
            UNROLL
            for (int i = 0; i < EACH; i++) {
                x[i] += by[i];
            }
        }
        row_store(p.out, base, (int)p.size, x);
        keep_statistics(&p, r, mean, factor);
    }
}
#else
static inline double mean_of(const cuda_norm_params *p, int64_t base)
{
    double sum = 0;

#ifndef RMS
    for (int64_t i = ROW_THREAD; i < p->size; i += ROW_THREADS) {
        sum += (double)LOAD(X)(p->in, base + i);
    }
    sum = row_sum(sum) / (double)p->size;
#endif
    return sum;
}

static inline double factor_of(const cuda_norm_params *p, int64_t base, real mean)
{
    double squares = 0;

    for (int64_t i = ROW_THREAD; i < p->size; i += ROW_THREADS) {
        const double d = (double)(LOAD(X)(p->in, base + i) - mean);

        squares += d * d;
    }
    return 1.0 / sqrt(row_sum(squares) / (double)p->size + p->eps);
}

KERNEL(normalize, cuda_norm_params)
{
    FOR_EACH_ROW(row, p.rows) {
        const int64_t base = row * p.size;
        const double mean = mean_of(&p, base);
        const double factor = factor_of(&p, base, (real)mean);

        for (int64_t i = ROW_THREAD; i < p.size; i += ROW_THREADS) {
#ifdef GROUP
            const int64_t at = row % p.groups * p.channels + i / p.area;
#else
            const int64_t at = i;
#endif
            real y = (LOAD(X)(p.in, base + i) - (real)mean) * (real)factor;

            y = p.weight != 0 ? y * (real)LOAD(WEIGHT)(p.weight, at) : y;
            y = p.bias != 0 ? y + (real)LOAD(BIAS)(p.bias, at) : y;
            STORE(X)(p.out, base + i, y);
        }
        keep_statistics(&p, row, mean, factor);
    }
}
#endif
