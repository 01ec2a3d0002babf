/* shape.h - what shape functions are written with. */
#ifndef EXG_LIBEXPORT_OPERATORS_SHAPE_H
#define EXG_LIBEXPORT_OPERATORS_SHAPE_H

#include "libexport/base/arena.h"
#include "libexport/base/checked.h"

#include <exg/operators.h>

typedef struct exg_dims {
    uint32_t rank;
    int64_t n[EXG_SHAPE_RANK_MAX];
} exg_dims;

/* The size of the k-th dim from the end. Where a file gives a tensor of fewer dims than an operator
 * is of, which may be refused only further on, it is some other: nothing outside `n` is touched. */
#define EXG_END(dims, k) ((dims).n[(dims).rank < (k) ? 0 : (dims).rank - (k)])

#define EXG_SHAPE_FAIL(err, ...) EXG_FAIL((err), MALFORMED, "NOD-017", __VA_ARGS__)

/* exg_operator_infer of numbers that exg_check_numbers has passed. */
exg_status exg_infer_checked(const exg_operator *op, const exg_argument *args,
                             const exg_graph *graph, exg_arena *arena, exg_tensor_meta ***results,
                             uint32_t *result_count, exg_error *err);

/* Refuses integers that no tensor has a use for, and lists longer than what they are of. */
exg_status exg_check_numbers(const exg_operator *op, const exg_argument *args, exg_error *err);

/* Refuses numbers that would be elements of the result's `dtype` and that it does not hold. */
exg_status exg_check_held(const exg_operator *op, const exg_argument *args, exg_dtype dtype,
                          exg_error *err);

/* Can the number be an element of the dtype, as PyTorch converts them? */
bool exg_dtype_holds(exg_dtype dtype, const exg_argument *number);

/* Refuses bools, tensors or numbers, where PyTorch does. */
exg_status exg_check_bools(const exg_operator *op, const exg_argument *args, const exg_graph *graph,
                           exg_error *err);

/* Does an element of the dtype have the number's value, but for its last digits? */
bool exg_keeps_value(exg_dtype dtype, const exg_argument *number);

/* The meta of the tensor at argument `position`; NULL when it is None. */
const exg_tensor_meta *exg_shape_input(const exg_shape_call *call, uint32_t position);

/* Sizes and strides of a static meta; LIMIT past EXG_SHAPE_RANK_MAX, and where the number of
 * elements or the place of one does not fit. */
exg_status exg_dims_of(const exg_tensor_meta *meta, exg_dims *dims, exg_error *err);
exg_status exg_strided_of(const exg_tensor_meta *meta, exg_strided *strided, exg_error *err);

/* `dim` counted from the end when negative; a 0-d tensor has the dims -1 and 0. */
exg_status exg_wrap_dim(int64_t dim, uint32_t rank, uint32_t *wrapped, exg_error *err);

/* The common shape of two under broadcasting. */
exg_status exg_broadcast(const exg_dims *a, const exg_dims *b, exg_dims *out, exg_error *err);

/* A tensor of `meta`'s sizes (NULL: none) broadcasts to `to`, which stays as it is. */
exg_status exg_broadcasts_to(const exg_tensor_meta *meta, const exg_dims *to, const char *what,
                             exg_error *err);

/* The sizes of what a convolution's arguments give; channels and groups are checked too. */
exg_status exg_convolution_sizes(const exg_shape_call *call, exg_dims *out, exg_error *err);

/* How pooling goes along a dim of `size`, and how often; at least once. */
typedef struct exg_pool_window {
    int64_t kernel, stride, padding, dilation;
} exg_pool_window;

exg_status exg_pool_windows(int64_t size, const exg_pool_window *w, bool ceil_mode, int64_t *count,
                            exg_error *err);

/* Sets result `index` to a row-major tensor. Sizes are checked to be non-negative
 * and their product to fit. */
exg_status exg_shape_result(exg_shape_call *call, uint32_t index, exg_dtype dtype,
                            const exg_dims *dims, exg_error *err);
exg_status exg_shape_result_strided(exg_shape_call *call, uint32_t index, exg_dtype dtype,
                                    const exg_strided *strided, exg_error *err);

/* The dims of an int[] argument as flags by dim; an empty list or None means all. */
exg_status exg_dim_set(const exg_argument *arg, uint32_t rank, bool *in_set, exg_error *err);

/* What a pointwise operator computes in, and what its result is stored as. */
void exg_pointwise_dtypes(const exg_operator *op, const exg_argument *args, const exg_graph *graph,
                          exg_dtype *compute, exg_dtype *result);

/* The dtype argument at `position`, or `otherwise` when it is None. */
exg_dtype exg_dtype_argument(const exg_argument *arg, exg_dtype otherwise);

/* Is the result a statistic that keeps the dtype recorded of it: the kernel's own, or that
 * of the operator's first result? */
bool exg_operator_result_is_statistic(const exg_operator *op, uint32_t result);

#endif
