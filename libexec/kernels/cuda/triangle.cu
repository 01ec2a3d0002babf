/* triangle.cu - matrices with one side of a diagonal set to zero. */
#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/cuda/params.h"

KERNEL(triangle, cuda_triangle_params)
{
    FOR_EACH(i, p.numel) {
        const int64_t column = i % p.columns;
        const int64_t row = i / p.columns % p.rows;
        const int keeps = p.is_upper ? column - row >= p.diagonal : column - row <= p.diagonal;
        ELEMENT x;

        memset(&x, 0, sizeof(x));
        if (keeps) {
            x = ((const ELEMENT *)p.in)[i];
        }
        ((ELEMENT *)p.out)[i] = x;
    }
}
