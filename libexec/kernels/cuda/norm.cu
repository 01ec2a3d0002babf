/* norm.cu - layer, rms and group norm, one row a block. X: the dtype of rows; WEIGHT, BIAS of
 * those; MEAN, FACTOR of the statistics handed out. One of LAYER, RMS, GROUP. y may be x.
 */
#include "libexec/kernels/cuda/block.h"
#include "libexec/kernels/cuda/params.h"

typedef COMPUTE(X) real;

DEFINE_BLOCK(sum, double, shuffle_f64, a + b)

static inline double mean_of(const cuda_norm_params *p, int64_t base)
{
    double sum = 0;

#ifndef RMS
    for (int64_t i = THREAD; i < p->size; i += THREADS) {
        sum += (double)LOAD(X)(p->in, base + i);
    }
    sum = block_sum(sum) / (double)p->size;
#endif
    return sum;
}

static inline double factor_of(const cuda_norm_params *p, int64_t base, real mean)
{
    double squares = 0;

    for (int64_t i = THREAD; i < p->size; i += THREADS) {
        const double d = (double)(LOAD(X)(p->in, base + i) - mean);

        squares += d * d;
    }
    return 1.0 / sqrt(block_sum(squares) / (double)p->size + p->eps);
}

KERNEL(normalize, cuda_norm_params)
{
    for (int64_t row = BLOCK_X; row < p.rows; row += BLOCKS_X) {
        const int64_t base = row * p.size;
        const double mean = mean_of(&p, base);
        const double factor = factor_of(&p, base, (real)mean);

        for (int64_t i = THREAD; i < p.size; i += THREADS) {
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
        if (THREAD == 0 && p.mean != 0) {
            STORE(MEAN)(p.mean, row, (COMPUTE(MEAN))mean);
        }
        if (THREAD == 0 && p.factor != 0) {
            STORE(FACTOR)(p.factor, row, (COMPUTE(FACTOR))factor);
        }
    }
}
