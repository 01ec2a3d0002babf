/* copy.cu - element by element between two views of the same sizes. */
#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/cuda/params.h"

KERNEL(copy, cuda_copy_params)
{
    FOR_EACH(i, p.numel) {
        ((ELEMENT *)p.out)[view_offset(&p.to, i)] =
            ((const ELEMENT *)p.in)[view_offset(&p.from, i)];
    }
}
