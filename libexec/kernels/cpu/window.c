/* window.c - a copy of self in which one window is replaced: slice_scatter,
 * select_scatter, diagonal_scatter, as_strided_scatter. In place when the result
 * is self's own memory: then only the window is written.
 */
#include "libexec/kernels/cpu/common.h"

typedef struct window_params {
    exg_move self; /* self -> result */
    exg_move src;  /* src -> window of the result */
    int64_t offset_bytes;
} window_params;

/* Plans both moves; the window is given by sizes, strides and offset in elements of
 * the result. */
static exg_status plan(exg_kernel_call *call, uint32_t rank, const int64_t *sizes,
                       const int64_t *strides, int64_t offset, exg_error *err)
{
    const exg_tensor *self = &call->inputs[0];
    const exg_tensor *src = &call->inputs[1];
    const exg_tensor *out = &call->outputs[0];
    uint32_t bytes = exg_dtype_bytes(out->dtype);
    window_params *p = EXG_NEW(call->arena, window_params);

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (self->dtype != out->dtype || src->dtype != out->dtype) {
        return EXG_FAIL(err, UNSUPPORTED, "KRN-003", "a window of %s written with %s",
                        exg_dtype_name(self->dtype), exg_dtype_name(src->dtype));
    }
    exg_move_plan(&p->self, self->rank, self->sizes, out->strides, self->strides, bytes);
    exg_move_plan(&p->src, rank, sizes, strides, src->strides, bytes);
    p->offset_bytes = offset * bytes;
    call->params = p;
    return EXG_OK;
}

static void window_run(const exg_kernel_call *call)
{
    const window_params *p = call->params;
    char *out = call->outputs[0].data;

    if (call->inputs[0].data != out) {
        exg_move_run(&p->self, call->pool, out, call->inputs[0].data);
    }
    exg_move_run(&p->src, call->pool, out + p->offset_bytes, call->inputs[1].data);
}

/* A bound of a slice: absent, from the end when negative, clamped. */
static int64_t slice_bound(const exg_kernel_call *call, uint32_t position, int64_t size,
                           int64_t absent)
{
    int64_t bound;

    if (exg_call_is_none(call, position)) {
        return absent;
    }
    bound = exg_call_int(call, position);
    bound = bound < 0 ? bound + size : bound;
    return bound < 0 ? 0 : EXG_MIN(bound, size);
}

static exg_status slice_scatter_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *out = &call->outputs[0];
    uint32_t dim = exg_call_dim(call, 2, out->rank);
    int64_t strides[EXG_RANK_MAX];
    int64_t start = slice_bound(call, 3, out->sizes[dim], 0);

    memcpy(strides, out->strides, sizeof(strides));
    strides[dim] *= exg_call_int(call, 5);
    return plan(call, out->rank, call->inputs[1].sizes, strides, start * out->strides[dim], err);
}

static exg_status select_scatter_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *out = &call->outputs[0];
    uint32_t dim = exg_call_dim(call, 2, out->rank);
    int64_t index = exg_call_int(call, 3);
    int64_t strides[EXG_RANK_MAX];

    index = index < 0 ? index + out->sizes[dim] : index;
    if (index < 0 || index >= out->sizes[dim]) {
        return EXG_FAIL(err, USAGE, "KRN-004", "index %lld is outside a dimension of %lld",
                        (long long)index, (long long)out->sizes[dim]);
    }
    for (uint32_t d = 0, k = 0; d < out->rank; d++) {
        if (d != dim) {
            strides[k++] = out->strides[d];
        }
    }
    return plan(call, out->rank - 1, call->inputs[1].sizes, strides, index * out->strides[dim],
                err);
}

static exg_status diagonal_scatter_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *out = &call->outputs[0];
    int64_t offset = exg_call_int(call, 2);
    uint32_t dim1 = exg_call_dim(call, 3, out->rank);
    uint32_t dim2 = exg_call_dim(call, 4, out->rank);
    int64_t strides[EXG_RANK_MAX];
    uint32_t rank = 0;

    for (uint32_t d = 0; d < out->rank; d++) {
        if (d != dim1 && d != dim2) {
            strides[rank++] = out->strides[d];
        }
    }
    strides[rank++] = out->strides[dim1] + out->strides[dim2];
    return plan(call, rank, call->inputs[1].sizes, strides,
                offset >= 0 ? offset * out->strides[dim2] : -offset * out->strides[dim1], err);
}

static exg_status as_strided_scatter_prepare(exg_kernel_call *call, exg_error *err)
{
    int64_t sizes[EXG_RANK_MAX];
    int64_t strides[EXG_RANK_MAX];
    uint32_t rank = exg_call_ints(call, 2, sizes, EXG_RANK_MAX);
    int64_t offset = exg_call_is_none(call, 4) ? 0 : exg_call_int(call, 4);
    int64_t last = offset;

    exg_call_ints(call, 3, strides, EXG_RANK_MAX);
    for (uint32_t d = 0; d < rank; d++) {
        last += (sizes[d] - 1) * strides[d];
    }
    if (offset < 0 || last >= exg_tensor_numel(&call->outputs[0])) {
        return EXG_FAIL(err, USAGE, "KRN-005", "the strided window ends at element %lld of %lld",
                        (long long)last, (long long)exg_tensor_numel(&call->outputs[0]));
    }
    return plan(call, rank, sizes, strides, offset, err);
}

#define WINDOW_KERNEL(kernel)                                                                 \
    const exg_kernel exg_kernel_##kernel = {                                                  \
        .name = #kernel,                                                                      \
        .prepare = kernel##_prepare,                                                          \
        .run = window_run,                                                                    \
        .flags = EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_IN_PLACE,                                \
    }

WINDOW_KERNEL(slice_scatter);
WINDOW_KERNEL(select_scatter);
WINDOW_KERNEL(diagonal_scatter);
WINDOW_KERNEL(as_strided_scatter);
