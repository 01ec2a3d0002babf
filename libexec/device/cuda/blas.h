/* blas.h - cuBLASLt, NVIDIA's products of matrices, opened when a product is first asked for.
 * Without it, and for what it does not take, products are gemm.cu's. Declarations are facts of
 * its binary interface, no header of it is read.
 *
 * It multiplies by columns: a matrix of rows is, to it, the transposed one.
 */
#ifndef EXG_LIBEXEC_DEVICE_CUDA_BLAS_H
#define EXG_LIBEXEC_DEVICE_CUDA_BLAS_H

#include "libexec/device/cuda/rows.h"

/* Adds c = alpha * a * b + beta * self to the call's step as a call of cuBLASLt, and sets *taken;
 * operands by number as gemm.cu's. Not taken: the library is not there, or not made for this. */
exg_status exg_cuda_blas_add(exg_kernel_call *call, const cuda_gemm_params *product, uint32_t a,
                             uint32_t b, uint32_t self, bool *taken, exg_error *err);

#endif
