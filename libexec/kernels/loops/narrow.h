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

static inline real all(float x)
{
    return (real){0} + x;
}

/* max(x, limit) and min(x, limit); NaN stays. */
#define AT_LEAST(x, limit) GREATER(all(limit), x)
#define AT_MOST(x, limit)  LESSER(all(limit), x)

/* a * b + c; fused where the instruction set has it. */
static inline real fma_of(real a, real b, real c)
{
#if defined(__AVX512F__)
    return (real)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (real)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

/* A polynomial's next step. */
static inline real next(real p, real x, float c)
{
    return fma_of(p, x, all(c));
}

/* 2^(x * scale) within 2^-13 of itself, 1 of 0, for products from -127, which gives 0, to 127. */
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

/* The same where what lies midway is hardly ever there: up. */
static inline bits rounded_up(real x)
{
    return (bits)x + 0x8000;
}

/* The upper halves as one. */
static inline bits paired(bits even, bits odd)
{
    return (bits)((ubits)even >> 16) | (odd & -65536);
}

#endif
