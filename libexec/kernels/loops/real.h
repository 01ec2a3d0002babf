/* real.h - a vector of f32 and its arithmetic. */
#ifndef EXG_LIBEXEC_KERNELS_LOOPS_REAL_H
#define EXG_LIBEXEC_KERNELS_LOOPS_REAL_H

#include "libexec/kernels/loops/vector.h"
#include "libexec/kernels/math_f32.h"

typedef exg_vf32 real;
typedef int32_t bits __attribute__((vector_size(EXG_VECTOR_BYTES), aligned(2), may_alias));
typedef uint32_t ubits __attribute__((vector_size(EXG_VECTOR_BYTES), aligned(4), may_alias));

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

#endif
