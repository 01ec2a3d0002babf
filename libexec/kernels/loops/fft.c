/* fft.c - Stockham's passes, of one line and of as many side by side as a vector has numbers. */
#include "libexec/kernels/loops/loops.h"
#include "libexec/kernels/loops/vector.h"

#include <string.h>

#define LANE       float
#define REAL       float
#define WIDTH      1
#define PASS(name) one_f32_##name
#include "libexec/kernels/loops/fft_body.h"
#undef LANE
#undef REAL
#undef PASS

#define LANE       double
#define REAL       double
#define PASS(name) one_f64_##name
#include "libexec/kernels/loops/fft_body.h"
#undef LANE
#undef REAL
#undef WIDTH
#undef PASS

typedef int32_t pick_f32 __attribute__((vector_size(EXG_VECTOR_BYTES)));
typedef int64_t pick_f64 __attribute__((vector_size(EXG_VECTOR_BYTES)));

#if defined(__clang__)
#define SHUFFLE(pick, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(pick, a, b, ...) __builtin_shuffle(a, b, (pick){__VA_ARGS__})
#endif

/* Of two vectors: their first halves interleaved, their second ones, and back again. */
#define LOW_2(pick, a, b)  SHUFFLE(pick, a, b, 0, 2)
#define HIGH_2(pick, a, b) SHUFFLE(pick, a, b, 1, 3)
#define EVEN_2(pick, a, b) SHUFFLE(pick, a, b, 0, 2)
#define ODD_2(pick, a, b)  SHUFFLE(pick, a, b, 1, 3)
#define LOW_4(pick, a, b)  SHUFFLE(pick, a, b, 0, 4, 1, 5)
#define HIGH_4(pick, a, b) SHUFFLE(pick, a, b, 2, 6, 3, 7)
#define EVEN_4(pick, a, b) SHUFFLE(pick, a, b, 0, 2, 4, 6)
#define ODD_4(pick, a, b)  SHUFFLE(pick, a, b, 1, 3, 5, 7)
#define LOW_8(pick, a, b)  SHUFFLE(pick, a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_8(pick, a, b) SHUFFLE(pick, a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define EVEN_8(pick, a, b) SHUFFLE(pick, a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD_8(pick, a, b)  SHUFFLE(pick, a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define LOW_16(pick, a, b)                                                                         \
    SHUFFLE(pick, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_16(pick, a, b)                                                                        \
    SHUFFLE(pick, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define EVEN_16(pick, a, b)                                                                        \
    SHUFFLE(pick, a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD_16(pick, a, b)                                                                         \
    SHUFFLE(pick, a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)

#if EXG_VECTOR_BYTES == 64
#define OF_F32(op) op##_16
#define OF_F64(op) op##_8
#elif EXG_VECTOR_BYTES == 32
#define OF_F32(op) op##_8
#define OF_F64(op) op##_4
#else
#define OF_F32(op) op##_4
#define OF_F64(op) op##_2
#endif

#define LANE       exg_vf32
#define REAL       float
#define WIDTH      EXG_VF32
#define LOW(a, b)  OF_F32(LOW)(pick_f32, a, b)
#define HIGH(a, b) OF_F32(HIGH)(pick_f32, a, b)
#define EVEN(a, b) OF_F32(EVEN)(pick_f32, a, b)
#define ODD(a, b)  OF_F32(ODD)(pick_f32, a, b)
#define PASS(name) lines_f32_##name
#include "libexec/kernels/loops/fft_body.h"
#undef LANE
#undef REAL
#undef WIDTH
#undef LOW
#undef HIGH
#undef EVEN
#undef ODD
#undef PASS

#define LANE       exg_vf64
#define REAL       double
#define WIDTH      EXG_VF64
#define LOW(a, b)  OF_F64(LOW)(pick_f64, a, b)
#define HIGH(a, b) OF_F64(HIGH)(pick_f64, a, b)
#define EVEN(a, b) OF_F64(EVEN)(pick_f64, a, b)
#define ODD(a, b)  OF_F64(ODD)(pick_f64, a, b)
#define PASS(name) lines_f64_##name
#include "libexec/kernels/loops/fft_body.h"

const exg_fft_table EXG_ISA_NAME(exg_loops_fft) = {{
    [EXG_FFT_F32] = {&one_f32_loops, &lines_f32_loops},
    [EXG_FFT_F64] = {&one_f64_loops, &lines_f64_loops},
}};
