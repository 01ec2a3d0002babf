/* vector.h - vectors of this instruction set's width, for loops whose order of
 * additions is fixed: 32 f32 lanes or 16 f64 lanes whatever the width, so that
 * results do not depend on the machine either.
 */
#ifndef EXG_LIBEXEC_KERNELS_LOOPS_VECTOR_H
#define EXG_LIBEXEC_KERNELS_LOOPS_VECTOR_H

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

#define EXG_VF32 (EXG_VECTOR_BYTES / 4) /* floats of a vector */
#define EXG_VF64 (EXG_VECTOR_BYTES / 8)

#endif
