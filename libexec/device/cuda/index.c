/* index.c - embedding, index_select, gather, index. */
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/kernel_table.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/kernels/cpu/common.h"

static exg_status pick(exg_kernel_call *call, uint32_t dim, exg_error *err)
{
    const exg_tensor *self = &call->inputs[0];
    const exg_tensor *index = &call->inputs[1];
    exg_around around = exg_around_dim(self, dim);
    cuda_pick_params params = {
        .size = around.size, .count = exg_tensor_numel(index), .inner = around.inner};
    uint32_t bytes = exg_dtype_bytes(self->dtype);
    uint32_t length = EXG_CUDA_WORD / bytes;
    exg_cuda_launch *launch = NULL;

    EXG_TRY(exg_require_index("an index", index->dtype, err));
    while (params.inner % length != 0) {
        length /= 2;
    }
    params.inner /= length;
    params.numel = around.outer * params.count * params.inner;
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (params.numel == 0) {
        return EXG_OK;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "index", "pick", "i0 i1 o0 f", params, &launch, err,
                         "-DBYTES=%u -DLENGTH=%u -DINDEX=%s", EXG_MIN(bytes, 8),
                         bytes > 8 ? bytes / 8 : length, exg_cuda_dtype(index->dtype)));
    exg_cuda_grid(launch, params.numel);
    return EXG_OK;
}

static exg_status embedding_prepare(exg_kernel_call *call, exg_error *err)
{
    return pick(call, 0, err);
}

static exg_status index_select_prepare(exg_kernel_call *call, exg_error *err)
{
    return pick(call, exg_call_dim(call, 1, call->inputs[0].rank), err);
}

EXG_CUDA_KERNEL(embedding, 0);
EXG_CUDA_KERNEL(index_select, 0);

/* ---- gather ------------------------------------------------------------------------------ */

static exg_status gather_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *index = &call->inputs[1];
    exg_tensor self = call->inputs[0];
    cuda_gather_params params = {.numel = exg_tensor_numel(index)};
    uint32_t dim;
    exg_cuda_launch *launch = NULL;

    EXG_TRY(exg_require_index("gather", index->dtype, err));
    if (self.rank != index->rank) {
        return exg_cuda_refuse("gather of another rank than its index", err);
    }
    params.dim_size = 1; /* of a number */
    if (self.rank > 0) {
        dim = exg_call_dim(call, 1, self.rank);
        params.dim_size = self.sizes[dim];
        params.dim_stride = self.strides[dim];
        self.strides[dim] = 0;
    }
    memcpy(self.sizes, index->sizes, sizeof(self.sizes));
    exg_cuda_views(index, &self, &params.of_index, &params.of_self);
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (params.numel == 0) {
        return EXG_OK;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "index", "gather", "i0 i1 o0 f", params, &launch, err,
                         "-DELEMENT=element_%u -DINDEX=%s", exg_dtype_bytes(self.dtype),
                         exg_cuda_dtype(index->dtype)));
    exg_cuda_grid(launch, params.numel);
    return EXG_OK;
}

EXG_CUDA_KERNEL(gather, EXG_KERNEL_ANY_STRIDES);

/* ---- index ------------------------------------------------------------------------------- */

static exg_status add_index(const exg_kernel_call *call, const exg_tensor *self, uint32_t d,
                            cuda_index_params *params, exg_error *err)
{
    const exg_tensor *index = &call->inputs[1 + d];

    EXG_TRY(exg_require_index("index", index->dtype, err));
    if (params->count == CUDA_INDICES_MAX || 1 + d > 9) {
        return exg_cuda_refuse("an index of the ninth dimension, or more than six", err);
    }
    params->sizes[params->count] = self->sizes[d];
    params->strides[params->count] = self->strides[d];
    params->is_narrow[params->count++] = index->dtype == EXG_DTYPE_I32;
    return EXG_OK;
}

exg_status exg_cuda_read_indices(const exg_kernel_call *call, const exg_tensor *self,
                                 uint32_t count, uint32_t before, cuda_index_params *params,
                                 char *slots, exg_error *err)
{
    uint32_t rank = 0; /* of the positions */
    uint32_t n = 0;

    for (uint32_t d = 0; d < count; d++) {
        if (exg_cuda_has(call, 1 + d)) {
            EXG_TRY(add_index(call, self, d, params, err));
            slots[3 * n + 1] = (char)('1' + d);
            n++;
            rank = EXG_MAX(rank, call->inputs[1 + d].rank);
        }
    }
    for (uint32_t k = 0; k < rank; k++) {
        params->result[before + k] = 1;
    }
    n = 0;
    for (uint32_t d = 0; d < count; d++) {
        const exg_tensor *index = &call->inputs[1 + d];

        for (uint32_t k = 0; exg_cuda_has(call, 1 + d) && k < index->rank; k++) {
            uint32_t at = before + rank - index->rank + k;

            if (index->sizes[k] != 1) {
                params->result[at] = index->sizes[k];
                params->index_strides[n][at] = index->strides[k];
            }
        }
        n += exg_cuda_has(call, 1 + d) ? 1 : 0;
    }
    params->rank = rank;
    return EXG_OK;
}

static exg_status index_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *self = &call->inputs[0];
    const exg_tensor *out = &call->outputs[0];
    cuda_index_params params = {.numel = exg_tensor_numel(out)};
    uint32_t count = call->input_count - 1;
    uint32_t before = exg_call_dims_before(call, count);
    exg_cuda_launch *launch = NULL;
    char slots[] = "i0 " EXG_CUDA_NO_INDICES " o0 f";
    uint32_t at = 0;

    EXG_TRY(exg_cuda_read_indices(call, self, count, before, &params, slots + 3, err));
    for (uint32_t d = 0; d < self->rank; d++) { /* around the positions, the other dimensions */
        if (!exg_cuda_has(call, 1 + d)) {
            at += at == before ? (uint32_t)params.rank : 0;
            params.self_strides[at++] = self->strides[d];
        }
    }
    params.rank = out->rank;
    memcpy(params.result, out->sizes, sizeof(params.result));
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (params.numel == 0) {
        return EXG_OK;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "index", "index_many", slots, params, &launch, err,
                         "-DELEMENT=element_%u", exg_dtype_bytes(self->dtype)));
    exg_cuda_grid(launch, params.numel);
    return EXG_OK;
}

EXG_CUDA_KERNEL(index, EXG_KERNEL_ANY_STRIDES);
