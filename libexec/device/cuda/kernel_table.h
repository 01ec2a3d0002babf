/* kernel_table.h - the device's kernels. One row is one kernel, under the name of the host's that
 * it stands for; its text is in libexec/kernels/cuda/.
 *
 * What has no row the host computes, between copies: Fourier transforms, the factorisations of
 * linalg_* and what goes with them, the order of rows (unique along a dimension), convolutions of
 * bytes (which no program that runs on devices has).
 *
 * An operator of a library has the text that the library gives (registered.c).
 *
 * To add one: a row here, prepare() in the file of its family, a text, and its line in
 * CMakeLists.txt. The tests run the host kernels' own tests on it.
 */
#ifndef EXG_LIBEXEC_DEVICE_CUDA_KERNEL_TABLE_H
#define EXG_LIBEXEC_DEVICE_CUDA_KERNEL_TABLE_H

#include "libexec/device/cuda/cuda.h"
#include "libexec/kernels/cpu/common.h"
#include "libexec/kernels/cuda/params.h"
#include "libexec/kernels/pieces.h"

#define EXG_CUDA_KERNELS(X)                                                                        \
    X(adaptive_avg_pool2d)                                                                         \
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
    X(constant_pad_nd)                                                                             \
    X(convolution)                                                                                 \
    X(copy)                                                                                        \
    X(cumprod)                                                                                     \
    X(cumsum)                                                                                      \
    X(diagonal_scatter)                                                                            \
    X(draw_bernoulli)                                                                              \
    X(draw_binomial)                                                                               \
    X(draw_bits)                                                                                   \
    X(draw_gamma)                                                                                  \
    X(draw_normal)                                                                                 \
    X(draw_poisson)                                                                                \
    X(draw_uniform)                                                                                \
    X(embedding)                                                                                   \
    X(flip)                                                                                        \
    X(full)                                                                                        \
    X(gather)                                                                                      \
    X(gathered_product)                                                                            \
    X(index)                                                                                       \
    X(index_copy)                                                                                  \
    X(index_put)                                                                                   \
    X(index_select)                                                                                \
    X(linear)                                                                                      \
    X(log_softmax)                                                                                 \
    X(max_dim)                                                                                     \
    X(max_pool2d_with_indices)                                                                     \
    X(mean)                                                                                        \
    X(min_dim)                                                                                     \
    X(mm)                                                                                          \
    X(native_group_norm)                                                                           \
    X(native_layer_norm)                                                                           \
    X(places)                                                                                      \
    X(pointwise)                                                                                   \
    X(prod)                                                                                        \
    X(recurrent)                                                                                   \
    X(registered)                                                                                  \
    X(rms_norm)                                                                                    \
    X(roll)                                                                                        \
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
    X(sort)                                                                                        \
    X(std)                                                                                         \
    X(sum)                                                                                         \
    X(sum_squares)                                                                                 \
    X(topk)                                                                                        \
    X(tril)                                                                                        \
    X(triu)                                                                                        \
    X(var)                                                                                         \
    X(weight_pack)                                                                                 \
    X(weight_product)

#define EXG_CUDA_DECLARE(name) extern const exg_kernel exg_cuda_##name;
EXG_CUDA_KERNELS(EXG_CUDA_DECLARE)
#undef EXG_CUDA_DECLARE

/* Copies a box of an operand (pieces.h) to where `to` says, its own offset further on. */
exg_status exg_cuda_add_piece(exg_kernel_call *call, const exg_piece *piece, exg_cuda_slot to,
                              exg_error *err);
/* The operand 0 as it is to the result, unless that is in its memory. */
exg_status exg_cuda_add_copy_of_self(exg_kernel_call *call, exg_error *err);
/* Fills the result. */
exg_status exg_cuda_add_fill(exg_kernel_call *call, const uint64_t element[2], exg_error *err);

/* Sums (or with "-DIS_PRODUCT" products) so far along a dimension, from the first of three slots to
 * the second, which may be the same place; those in the workspace are at `at`. The third is the
 * workspace, for what lines that are split need: it comes behind what is asked for already. */
exg_status exg_cuda_add_scan(exg_kernel_call *call, exg_around around, exg_dtype in,
                             exg_dtype out_dtype, const char *slots, uint64_t at, const char *kind,
                             exg_error *err);

/* Lines of items (item.h), and the bits of their keys that say the order. */
typedef struct exg_cuda_order {
    int64_t lines, size;
    bool is_wide;
    int32_t first_bit, end_bit;
} exg_cuda_order;

static inline uint32_t exg_cuda_item_bytes(bool is_wide)
{
    return is_wide ? sizeof(cuda_wide_item) : sizeof(cuda_item);
}

static inline const char *exg_cuda_item_option(bool is_wide)
{
    return is_wide ? "-DWIDE" : "";
}

/* Brings the items at the start of the workspace in order, equal ones as they were; *sorted: where
 * they are then. Asks for the workspace, and may be left to the caller to fill before: its launches
 * come after those added so far. */
exg_status exg_cuda_add_sort(exg_kernel_call *call, const exg_cuda_order *order, uint64_t *sorted,
                             exg_error *err);

/* The indices of index and index_put: operands 1 and on, `count` of them, some absent. Writes
 * the operands' numbers over the six of EXG_CUDA_NO_INDICES, and in params what they say of
 * self, the sizes of the positions from dimension `before` of the result on, and their rank. */
#define EXG_CUDA_NO_INDICES "iz iz iz iz iz iz"
exg_status exg_cuda_read_indices(const exg_kernel_call *call, const exg_tensor *self,
                                 uint32_t count, uint32_t before, cuda_index_params *params,
                                 char *slots, exg_error *err);

#endif
