/* key.h - what elements are sorted by. IN: their dtype, IS_FLOAT, IS_UNSIGNED; WIDE: keys of 64
 * bits, which numbers of 64 bits have.
 */
#ifndef EXG_LIBEXEC_KERNELS_CUDA_KEY_H
#define EXG_LIBEXEC_KERNELS_CUDA_KEY_H

#include "libexec/kernels/cuda/item.h"

#ifdef WIDE
typedef double key_float;
#else
typedef float key_float;
#endif

#define KEY_BITS (8 * (int)sizeof(order_key))

/* In the order of the elements, NaN last, -0 equal to 0. Of integers the bits that an element
 * has. */
static inline order_key key_of(COMPUTE(IN) x)
{
#ifdef IS_FLOAT
    const key_float number = x == 0 ? 0 : (key_float)x;
    order_key bits;

    memcpy(&bits, &number, sizeof(bits));
    if (number != number) {
        return NOWHERE;
    }
    return bits >> (KEY_BITS - 1) != 0 ? ~bits : bits | (order_key)1 << (KEY_BITS - 1);
#elif defined(IS_UNSIGNED)
    return (order_key)x;
#else
    return (order_key)x + ((order_key)1 << (8 * sizeof(STORAGE(IN)) - 1));
#endif
}

#endif
