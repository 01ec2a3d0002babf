/* blas.h - cuBLASLt, NVIDIA's products of matrices, opened when a product is first asked for.
 * Without it, and for what it does not take, products are gemm.cu's. Declarations are facts of
 * its binary interface, no header of it is read.
 *
 * It multiplies by columns: a matrix of rows is, to it, the transposed one.
 */
#ifndef EXG_LIBEXEC_DEVICE_CUDA_BLAS_H
#define EXG_LIBEXEC_DEVICE_CUDA_BLAS_H

#include "libexec/device/cuda/epilogue.h"

typedef struct exg_cuda_addend {
    exg_cuda_slot at;
    cuda_matrix matrix;
    double factor;
} exg_cuda_addend;

/* c (batch, m, n), dense, = activation(alpha * a * b + addends); where each lies. */
typedef struct exg_cuda_product {
    cuda_gemm_params of; /* sizes, layouts of a and b, alpha */
    exg_dtype dtype;     /* of a and b */
    exg_dtype c_dtype;   /* of c and addends: that, or f32 */
    exg_cuda_slot a, b, c;
    exg_cuda_addend addends[2];
    uint32_t addend_count;
    exg_cuda_activation activation;
    uint64_t workspace; /* offset from which on it may use some */
} exg_cuda_product;

/* Adds the product to the call's step as a call of cuBLASLt and sets *taken; call->workspace_bytes
 * grows as it needs. Not taken: the library is not there, or not made for this. */
exg_status exg_cuda_blas_add(exg_kernel_call *call, const exg_cuda_product *product, bool *taken,
                             exg_error *err);

#endif
