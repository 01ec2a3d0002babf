/* key.h - what elements are sorted by. IN: their dtype, IS_FLOAT, IS_UNSIGNED. */
#ifndef EXG_LIBEXEC_KERNELS_CUDA_KEY_H
#define EXG_LIBEXEC_KERNELS_CUDA_KEY_H

#include "libexec/kernels/cuda/common.h"

/* In the order of the elements, NaN last, -0 equal to 0. */
static inline uint64_t key_of(COMPUTE(IN) x)
{
#ifdef IS_FLOAT
    const double wide = x == 0 ? 0 : (double)x;
    uint64_t bits;

    memcpy(&bits, &wide, sizeof(bits));
    if (wide != wide) {
        return UINT64_MAX;
    }
    return bits >> 63 != 0 ? ~bits : bits | (uint64_t)1 << 63;
#elif defined(IS_UNSIGNED)
    return (uint64_t)x;
#else
    return (uint64_t)(int64_t)x ^ (uint64_t)1 << 63;
#endif
}

#endif
