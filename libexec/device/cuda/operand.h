/* operand.h - what kernel texts are told of an operand. */
#ifndef EXG_LIBEXEC_DEVICE_CUDA_OPERAND_H
#define EXG_LIBEXEC_DEVICE_CUDA_OPERAND_H

#include "libexec/kernels/cuda/params.h"
#include "libexec/kernels/kernel.h"

/* A dtype's name in texts ("BF16"), as convert.def has it; of an absent operand another's. */
const char *exg_cuda_dtype(exg_dtype dtype);
const char *exg_cuda_dtype_or(const exg_kernel_call *call, uint32_t input, exg_dtype otherwise);

/* Has the call an input of that number? */
bool exg_cuda_has(const exg_kernel_call *call, uint32_t input);

/* UNSUPPORTED: left to the host. */
exg_status exg_cuda_refuse(const char *what, exg_error *err);

/* Sizes and strides of a tensor, without dimensions of one element and with neighbours
 * merged where they are one after the other. */
cuda_view exg_cuda_view(const exg_tensor *tensor);

/* The same of two tensors of the same sizes, cut alike. */
void exg_cuda_views(const exg_tensor *a, const exg_tensor *b, cuda_view *of_a, cuda_view *of_b);

#endif
