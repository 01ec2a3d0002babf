/* weight_pack.cu - codes of 16 values, a byte each, become half bytes; zeros behind each row. */
#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/cuda/params.h"

KERNEL(weight_pack, cuda_weight_pack_params)
{
    FOR_EACH (i, p.rows * p.row_bytes) {
        const int64_t row = quotient(i, p.row_bytes);
        const int64_t k = (i - row * p.row_bytes) * 2;
        const uint8_t *from = (const uint8_t *)p.in + row * p.k + k;
        uint32_t pair = 0;

        for (int half = 0; half < 2; half++) {
            pair |= k + half < p.k ? ((uint32_t)from[half] - (uint32_t)p.least & 15) << (4 * half)
                                   : 0;
        }
        ((uint8_t *)p.out)[i] = (uint8_t)pair;
    }
}
