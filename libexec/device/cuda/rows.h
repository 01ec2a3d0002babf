/* rows.h - the device's kernels. One row is one kernel, under the name of the host's that it
 * stands for; its text lies in libexec/kernels/cuda/.
 *
 * To add one: a row here, prepare() in the file of its family, a text, and its line in
 * CMakeLists.txt. The tests run the host kernels' own tests on it.
 */
#ifndef EXG_LIBEXEC_DEVICE_CUDA_ROWS_H
#define EXG_LIBEXEC_DEVICE_CUDA_ROWS_H

#include "libexec/device/cuda/cuda.h"
#include "libexec/kernels/cuda/params.h"

#define EXG_CUDA_KERNELS(X)                                                                   \
    X(copy)                                                                                   \
    X(pointwise)

#define EXG_CUDA_DECLARE(name) extern const exg_kernel exg_cuda_##name;
EXG_CUDA_KERNELS(EXG_CUDA_DECLARE)
#undef EXG_CUDA_DECLARE

/* A dtype's name in texts ("BF16"). */
const char *exg_cuda_dtype(exg_dtype dtype);

/* Sizes and strides of a tensor, without dimensions of one element and with neighbours
 * merged where they lie one after the other. */
cuda_window exg_cuda_window(const exg_tensor *tensor);

/* The same of two tensors of the same sizes, cut alike. */
void exg_cuda_windows(const exg_tensor *a, const exg_tensor *b, cuda_window *of_a,
                      cuda_window *of_b);

#endif
