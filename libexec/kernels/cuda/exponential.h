/* exponential.h - of the real type of a text: IS_DOUBLE or float. */
#ifndef EXG_LIBEXEC_KERNELS_CUDA_EXPONENTIAL_H
#define EXG_LIBEXEC_KERNELS_CUDA_EXPONENTIAL_H

#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/math_f32.h"

#ifdef IS_DOUBLE
#define EXPONENTIAL(x) exp(x)
#define SHUFFLE_REAL   shuffle_f64
#else
#define EXPONENTIAL(x) exg_f32_exp(x)
#define SHUFFLE_REAL   shuffle_f32
#endif

#endif
