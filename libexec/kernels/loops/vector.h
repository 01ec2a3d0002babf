/* vector.h - vectors of this instruction set's width, for loops whose order of
 * additions is fixed: 32 f32 lanes or 16 f64 lanes whatever the width, so that
 * results do not depend on the machine either.
 */
#ifndef EXG_LIBEXEC_KERNELS_LOOPS_VECTOR_H
#define EXG_LIBEXEC_KERNELS_LOOPS_VECTOR_H

#ifdef __SSE2__
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define EXG_VECTOR_BYTES 64
#elif defined(__AVX__)
#define EXG_VECTOR_BYTES 32
#else
#define EXG_VECTOR_BYTES 16
#endif

/* Loads through these may be unaligned. */
typedef float exg_vf32 __attribute__((vector_size(EXG_VECTOR_BYTES), aligned(4), may_alias));
typedef double exg_vf64 __attribute__((vector_size(EXG_VECTOR_BYTES), aligned(8), may_alias));
typedef char exg_vbytes __attribute__((vector_size(EXG_VECTOR_BYTES), aligned(1), may_alias));

/* Asks for the line that a stretch of memory reaches in a while, as far as the second cache: many
 * more lines are on their way there at a time than to the first, and from there processors bring
 * on what they foresee. */
#define EXG_FAR_AHEAD   32768 /* bytes */
#define EXG_ASK_FAR(at) __builtin_prefetch((const char *)(at) + EXG_FAR_AHEAD, 0, 2)

#define EXG_VF32 (EXG_VECTOR_BYTES / 4) /* floats of a vector */
#define EXG_VF64 (EXG_VECTOR_BYTES / 8)

/* Stores a vector of any type, `to` aligned to it, past the caches: a line that is written whole
 * is not read first. Others see it after a full fence. */
#if defined(__AVX512F__)
#define EXG_STREAM(to, value) _mm512_stream_si512((void *)(to), (__m512i)(value))
#elif defined(__AVX__)
#define EXG_STREAM(to, value) _mm256_stream_si256((__m256i *)(void *)(to), (__m256i)(value))
#elif defined(__SSE2__)
#define EXG_STREAM(to, value) _mm_stream_si128((__m128i *)(void *)(to), (__m128i)(value))
#else
#define EXG_STREAM(to, value) (*(exg_vbytes *)(to) = (exg_vbytes)(value))
#endif

#endif
