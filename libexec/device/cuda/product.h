/* product.h - products of matrices: cuBLASLt's (blas.c), opened when one is first asked for, and
 * where it is not there, or does not take one, gemm.cu's.
 */
#ifndef EXG_LIBEXEC_DEVICE_CUDA_PRODUCT_H
#define EXG_LIBEXEC_DEVICE_CUDA_PRODUCT_H

#include "libexec/device/cuda/epilogue.h"

typedef struct exg_cuda_addend {
    exg_cuda_slot at;
    exg_dtype dtype;
    cuda_matrix matrix;
    double factor;
} exg_cuda_addend;

/* c (batch, m, n), dense, = activation(alpha * a * b + addends); where each is. */
typedef struct exg_cuda_product {
    cuda_gemm_params of; /* sizes, layouts of a and b, alpha */
    exg_dtype a_dtype, b_dtype, c_dtype;
    exg_cuda_slot a, b, c;
    const exg_tensor *index; /* of matrices of b (operand 2); NULL: each has its own */
    exg_cuda_addend addends[2];
    uint32_t addend_count;
    exg_cuda_activation activation;
    uint64_t workspace; /* offset from which on it may use some */
} exg_cuda_product;

/* Adds the product, without an activation and of one addend at most, and then the call's epilogue
 * to its step; call->workspace_bytes grows as it needs. */
exg_status exg_cuda_add_product(exg_kernel_call *call, const exg_cuda_product *product,
                                exg_error *err);

/* Adds the product to the call's step as a call of cuBLASLt and sets *taken. Not taken: the library
 * is not there, or not made for this. Declarations are facts of its binary interface, no header of
 * it is read. It multiplies by columns: a matrix of rows is, to it, the transposed one. */
exg_status exg_cuda_blas_add(exg_kernel_call *call, const exg_cuda_product *product, bool *taken,
                             exg_error *err);

#endif
