/* kernels.h - every kernel of the CPU, by name. */
#ifndef EXG_LIBEXEC_KERNELS_KERNELS_H
#define EXG_LIBEXEC_KERNELS_KERNELS_H

#include "libexec/kernels/kernel.h"

#define EXG_KERNELS(X)                                                                             \
    X(adaptive_avg_pool2d)                                                                         \
    X(add_rows)                                                                                    \
    X(addmm)                                                                                       \
    X(all)                                                                                         \
    X(amax)                                                                                        \
    X(amin)                                                                                        \
    X(any)                                                                                         \
    X(arange)                                                                                      \
    X(argmax)                                                                                      \
    X(argmin)                                                                                      \
    X(as_strided_scatter)                                                                          \
    X(attention)                                                                                   \
    X(attention_of_softmax)                                                                        \
    X(avg_pool2d)                                                                                  \
    X(baddbmm)                                                                                     \
    X(bmm)                                                                                         \
    X(cat)                                                                                         \
    X(checked)                                                                                     \
    X(cholesky_factor)                                                                             \
    X(constant_pad_nd)                                                                             \
    X(convolution)                                                                                 \
    X(convolution_of_bytes)                                                                        \
    X(copy)                                                                                        \
    X(cummax)                                                                                      \
    X(cummin)                                                                                      \
    X(cumprod)                                                                                     \
    X(cumsum)                                                                                      \
    X(diagonal_scatter)                                                                            \
    X(distances)                                                                                   \
    X(draw_bernoulli)                                                                              \
    X(draw_binomial)                                                                               \
    X(draw_bits)                                                                                   \
    X(draw_gamma)                                                                                  \
    X(draw_normal)                                                                                 \
    X(draw_poisson)                                                                                \
    X(draw_uniform)                                                                                \
    X(edge_pad)                                                                                    \
    X(effect)                                                                                      \
    X(eig)                                                                                         \
    X(eigh)                                                                                        \
    X(embedding)                                                                                   \
    X(fft)                                                                                         \
    X(fft_from_real)                                                                               \
    X(fft_to_real)                                                                                 \
    X(flip)                                                                                        \
    X(full)                                                                                        \
    X(gather)                                                                                      \
    X(gathered_product)                                                                            \
    X(householder)                                                                                 \
    X(index)                                                                                       \
    X(index_copy)                                                                                  \
    X(index_put)                                                                                   \
    X(index_select)                                                                                \
    X(ldl_factor)                                                                                  \
    X(ldl_solve)                                                                                   \
    X(linear)                                                                                      \
    X(log_softmax)                                                                                 \
    X(lu_factor)                                                                                   \
    X(matrix_exp)                                                                                  \
    X(max_dim)                                                                                     \
    X(max_pool2d_with_indices)                                                                     \
    X(mean)                                                                                        \
    X(min_dim)                                                                                     \
    X(mm)                                                                                          \
    X(native_group_norm)                                                                           \
    X(native_layer_norm)                                                                           \
    X(pivots_order)                                                                                \
    X(places)                                                                                      \
    X(pointwise)                                                                                   \
    X(prod)                                                                                        \
    X(qr_factor)                                                                                   \
    X(recurrent)                                                                                   \
    X(registered)                                                                                  \
    X(resample)                                                                                    \
    X(rms_norm)                                                                                    \
    X(roll)                                                                                        \
    X(row_order)                                                                                   \
    X(scalar_tensor)                                                                               \
    X(scatter_add)                                                                                 \
    X(scatter_amax)                                                                                \
    X(scatter_amin)                                                                                \
    X(scatter_prod)                                                                                \
    X(scatter_src)                                                                                 \
    X(scatter_value)                                                                               \
    X(searchsorted)                                                                                \
    X(select_scatter)                                                                              \
    X(slice_scatter)                                                                               \
    X(softmax)                                                                                     \
    X(solve_triangular)                                                                            \
    X(sort)                                                                                        \
    X(std)                                                                                         \
    X(sum)                                                                                         \
    X(sum_squares)                                                                                 \
    X(svd_factor)                                                                                  \
    X(topk)                                                                                        \
    X(tril)                                                                                        \
    X(triu)                                                                                        \
    X(var)                                                                                         \
    X(weight_product)                                                                              \
    X(weighted_gather)

#define EXG_DECLARE_KERNEL(name) extern const exg_kernel exg_kernel_##name;
EXG_KERNELS(EXG_DECLARE_KERNEL)
#undef EXG_DECLARE_KERNEL

/* The dtypes that one of these takes, a bit each: 1 << exg_dtype (dtypes.def). */
uint64_t exg_kernel_dtypes(const exg_kernel *kernel);

#endif
