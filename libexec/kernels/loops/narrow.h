/* narrow.h - vectors of bf16, every second element at a time where it lies, and what is near
 * enough to a bf16 in fewer steps than math_f32.h's.
 */
#ifndef EXG_LIBEXEC_KERNELS_LOOPS_NARROW_H
#define EXG_LIBEXEC_KERNELS_LOOPS_NARROW_H

#include "libexec/kernels/loops/vector.h"
#include "libexec/kernels/math_f32.h"

#include <stdint.h>

typedef exg_vf32 real;
typedef int32_t bits __attribute__((vector_size(EXG_VECTOR_BYTES), aligned(2), may_alias));
typedef uint32_t ubits __attribute__((vector_size(EXG_VECTOR_BYTES), aligned(4), may_alias));

#define EXG_PAIRS (2 * EXG_VF32) /* elements of a vector */

/* The elements at even places and at odd ones. */
#define EVEN(pairs) ((real)((pairs) << 16))
#define ODD(pairs)  ((real)((pairs) & -65536))

/* The greater and the lesser; of a NaN and another, y. */
#if defined(__AVX512F__)
#define GREATER(x, y) ((real)_mm512_max_ps((__m512)(x), (__m512)(y)))
#define LESSER(x, y)  ((real)_mm512_min_ps((__m512)(x), (__m512)(y)))
#elif defined(__AVX__)
#define GREATER(x, y) ((real)_mm256_max_ps((__m256)(x), (__m256)(y)))
#define LESSER(x, y)  ((real)_mm256_min_ps((__m256)(x), (__m256)(y)))
#elif defined(__SSE2__)
#define GREATER(x, y) ((real)_mm_max_ps((__m128)(x), (__m128)(y)))
#define LESSER(x, y)  ((real)_mm_min_ps((__m128)(x), (__m128)(y)))
#else
#define GREATER(x, y) chosen((x) > (y), x, y)
#define LESSER(x, y)  chosen((x) < (y), x, y)

static inline real chosen(bits first, real x, real y)
{
    return (real)(((bits)x & first) | ((bits)y & ~first));
}
#endif

/* max(x, limit) and min(x, limit); NaN stays. */
#define AT_LEAST(x, limit) GREATER((real){0} + (limit), x)
#define AT_MOST(x, limit)  LESSER((real){0} + (limit), x)

/* 2^(x * scale) within 2^-13 of itself, 1 of 0, for products from -127, which gives 0, to 127. */
static inline real power_of_two(real x, float scale)
{
    const float rounder = EXG_F32_ROUNDER + 127.0f;
    real t = x * scale + rounder;
    real r = x * scale - (t - rounder);
    real p = ((5.5008931e-2f * r + 2.4221096e-1f) * r + 6.9328293e-1f) * r + 1.0f;

    return p * (real)((bits)t << 23);
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

/* The upper halves as one. */
static inline bits paired(bits even, bits odd)
{
    return (bits)((ubits)even >> 16) | (odd & -65536);
}

#endif
