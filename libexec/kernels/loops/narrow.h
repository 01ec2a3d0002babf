/* narrow.h - vectors of bf16, every second element at a time where it is, and what is near
 * enough to a bf16 in fewer steps than math_f32.h's.
 */
#ifndef EXG_LIBEXEC_KERNELS_LOOPS_NARROW_H
#define EXG_LIBEXEC_KERNELS_LOOPS_NARROW_H

#include "libexec/kernels/loops/real.h"

#define EXG_PAIRS (2 * EXG_VF32) /* elements of a vector */

/* The elements at even places and at odd ones. */
#define EVEN(pairs) ((real)((pairs) << 16))
#define ODD(pairs)  ((real)((pairs) & -65536))

/* 2^(x * scale) within 2^-13 of itself, 1 of 0, for products from -127, which gives 0, to 128,
 * which is infinite. */
static inline real power_of_two(real x, float scale)
{
    const float rounder = EXG_F32_ROUNDER + 127.0f;
    real t = next(x, all(scale), rounder);
    real r = fma_of(x, all(scale), rounder - t);
    real p = next(next(all(5.5008931e-2f), r, 2.4221096e-1f), r, 6.9328293e-1f);

    return next(p, r, 1.0f) * (real)((bits)t << 23);
}

/* To the upper halves, those of NaN too: what is below theirs is 0, as it was in what came. */
static inline bits rounded(real x)
{
#ifdef __AVX512F__
    __mmask16 is_odd = _mm512_test_epi32_mask((__m512i)x, _mm512_set1_epi32(0x10000));

    return (bits)_mm512_mask_add_epi32((__m512i)((bits)x + 0x7fff), is_odd, (__m512i)x,
                                       _mm512_set1_epi32(0x8000));
#else
    return (bits)x + (((bits)x >> 16 & 1) + 0x7fff);
#endif
}

/* The same where what is midway is hardly ever there: up. */
static inline bits rounded_up(real x)
{
    return (bits)x + 0x8000;
}

/* Of what is a bf16 already. */
static inline bits unrounded(real x)
{
    return (bits)x;
}

/* The upper halves as one. */
static inline bits paired(bits even, bits odd)
{
    return (bits)((ubits)even >> 16) | (odd & -65536);
}

#endif
