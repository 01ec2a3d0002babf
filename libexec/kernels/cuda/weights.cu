/* weights.cu - attention's weights of its scores, a row a block: the scores are those of products
 * (batch, heads, rows, keys), scaled already; mask and causality as in attention.cu.
 *
 * X: the dtype of the weights; SCORE: of the scores; MASK, HAS_MASK, MASK_IS_BOOL.
 */
#include "libexec/kernels/cuda/attention.h"
#include "libexec/kernels/cuda/block.h"
#include "libexec/kernels/cuda/exponential.h"

typedef COMPUTE(SCORE) real;

DEFINE_BLOCK(peak, real, SHUFFLE_REAL, b > a ? b : a)
DEFINE_BLOCK(sum, double, shuffle_f64, a + b)

KERNEL(weights, cuda_attention_params)
{
    const int64_t all = BLOCK_X;
    const int64_t row = all % p.rows;
    const int64_t head = all / p.rows % p.heads;
    const int64_t mask = attention_head_of(&p, 3, all / p.rows / p.heads, head);
    const int64_t base = all * p.keys;
    real peak = -(real)INFINITY;
    double sum = 0;
    double factor;

    for (int64_t k = THREAD; k < p.keys; k += THREADS) {
        const real score = attention_masked(&p, LOAD(SCORE)(p.query, base + k), mask, row, k);

        peak = score > peak ? score : peak;
    }
    peak = block_peak(peak);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t k = THREAD; k < p.keys; k += THREADS) {
            const real score = attention_masked(&p, LOAD(SCORE)(p.query, base + k), mask, row, k);
            /* nothing seen: 0, or NaN where a score is */
            const real weight = peak == -(real)INFINITY ? (score != score ? score : 0)
                                                        : EXPONENTIAL(score - peak);

            if (pass == 0) {
                sum += (double)weight;
            } else {
                STORE(X)(p.out, base + k, (COMPUTE(X))(weight * (real)factor));
            }
        }
        if (pass == 0) {
            sum = block_sum(sum);
            factor = sum != 0 ? 1.0 / sum : p.masked;
        }
    }
}
