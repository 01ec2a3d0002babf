/* softmax.cu - softmax and log_softmax, one row a block. A NaN passes into the sum and so into
 * the whole row; so does a row of -inf only. IN, OUT: dtypes; IS_LOG. y may be x.
 */
#include "libexec/kernels/cuda/block.h"
#include "libexec/kernels/cuda/exponential.h"
#include "libexec/kernels/cuda/params.h"

typedef COMPUTE(IN) real;

DEFINE_BLOCK(peak, real, SHUFFLE_REAL, b > a ? b : a)
DEFINE_BLOCK(sum, double, shuffle_f64, a + b)

KERNEL(softmax, cuda_softmax_params)
{
    for (int64_t row = BLOCK_X; row < p.rows; row += BLOCKS_X) {
        const int64_t base = row / p.inner * p.size * p.inner + row % p.inner;
        real peak = -INFINITY;
        double sum = 0;

        for (int64_t i = THREAD; i < p.size; i += THREADS) {
            const real x = LOAD(IN)(p.in, base + i * p.inner);

            peak = x > peak ? x : peak;
        }
        peak = block_peak(peak);
        for (int64_t i = THREAD; i < p.size; i += THREADS) {
            sum += (double)EXPONENTIAL(LOAD(IN)(p.in, base + i * p.inner) - peak);
        }
        sum = block_sum(sum);
        for (int64_t i = THREAD; i < p.size; i += THREADS) {
            const real x = LOAD(IN)(p.in, base + i * p.inner) - peak;

#ifdef IS_LOG
            STORE(OUT)(p.out, base + i * p.inner, (COMPUTE(OUT))(x - (real)log(sum)));
#else
            STORE(OUT)(p.out, base + i * p.inner,
                       (COMPUTE(OUT))(EXPONENTIAL(x) * (real)(1.0 / sum)));
#endif
        }
    }
}
