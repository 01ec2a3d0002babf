/* create.cu - tensors from numbers. */
#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/cuda/params.h"

#ifdef ELEMENT
KERNEL(fill, cuda_fill_params)
{
    ELEMENT x;

    memcpy(&x, p.element, sizeof(x));
    FOR_EACH(i, p.numel) {
        ((ELEMENT *)p.out)[i] = x;
    }
}
#else
/* Floats in double: one rounding an element, no drift. */
KERNEL(arange, cuda_arange_params)
{
    FOR_EACH(i, p.numel) {
#ifdef IS_FLOAT
        STORE(OUT)(p.out, i, (COMPUTE(OUT))(p.start + (double)i * p.step));
#else
        STORE(OUT)(p.out, i, (COMPUTE(OUT))(p.int_start + i * p.int_step));
#endif
    }
}
#endif
