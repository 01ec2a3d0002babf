/* index.c - embedding, index_select, gather, index. */
#include "libexec/device/cuda/rows.h"
#include "libexec/kernels/cpu/common.h"

static exg_status pick(exg_kernel_call *call, uint32_t dim, exg_error *err)
{
    const exg_tensor *self = &call->inputs[0];
    const exg_tensor *index = &call->inputs[1];
    exg_around around = exg_around_dim(self, dim);
    cuda_pick_params params = {
        .size = around.size, .count = exg_tensor_numel(index), .inner = around.inner};
    exg_cuda_launch *launch = NULL;

    EXG_TRY(exg_require_index("an index", index->dtype, err));
    params.numel = around.outer * params.count * around.inner;
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (params.numel == 0) {
        return EXG_OK;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "index", "pick", "i0 i1 o0 f", params, &launch, err,
                         "-DELEMENT=element_%u -DINDEX=%s", exg_dtype_bytes(self->dtype),
                         exg_cuda_dtype(index->dtype)));
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

EXG_CUDA_ROW_OF(embedding, 0);
EXG_CUDA_ROW_OF(index_select, 0);

/* ---- gather ------------------------------------------------------------------------------ */

static exg_status gather_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *index = &call->inputs[1];
    exg_tensor self = call->inputs[0];
    cuda_gather_params params = {.numel = exg_tensor_numel(index)};
    uint32_t dim;
    exg_cuda_launch *launch = NULL;

    EXG_TRY(exg_require_index("gather", index->dtype, err));
    if (self.rank != index->rank || self.rank == 0) {
        return exg_cuda_refuse("gather of a number", err);
    }
    dim = exg_call_dim(call, 1, self.rank);
    params.dim_size = self.sizes[dim];
    params.dim_stride = self.strides[dim];
    self.strides[dim] = 0;
    memcpy(self.sizes, index->sizes, sizeof(self.sizes));
    exg_cuda_windows(index, &self, &params.of_index, &params.of_self);
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

EXG_CUDA_ROW_OF(gather, EXG_KERNEL_ANY_STRIDES);

/* ---- index ------------------------------------------------------------------------------- */

/* Which of self's dimensions come in front of the positions: those before the first index,
 * when the indexed ones are neighbours; else none. */
static uint32_t dims_before(const exg_kernel_call *call)
{
    uint32_t first = 0;
    uint32_t last = 0;
    uint32_t count = 0;

    for (uint32_t d = 0; d + 1 < call->input_count; d++) {
        if (exg_cuda_has(call, 1 + d)) {
            first = count == 0 ? d : first;
            last = d;
            count++;
        }
    }
    return count > 0 && last - first + 1 == count ? first : 0;
}

static exg_status add_index(const exg_kernel_call *call, uint32_t d, cuda_index_params *params,
                            uint32_t *position_rank, exg_error *err)
{
    const exg_tensor *self = &call->inputs[0];
    const exg_tensor *index = &call->inputs[1 + d];

    EXG_TRY(exg_require_index("index", index->dtype, err));
    if (params->count == CUDA_INDICES_MAX) {
        return exg_cuda_refuse("more than six indices", err);
    }
    params->sizes[params->count] = self->sizes[d];
    params->strides[params->count] = self->strides[d];
    params->is_narrow[params->count++] = index->dtype == EXG_DTYPE_I32;
    *position_rank = EXG_MAX(*position_rank, index->rank);
    return EXG_OK;
}

/* Strides over the result of self and, at `before`, of the indices. */
static void lay_out(const exg_kernel_call *call, cuda_index_params *params, uint32_t before,
                    uint32_t position_rank)
{
    const exg_tensor *self = &call->inputs[0];
    const exg_tensor *out = &call->outputs[0];
    uint32_t at = 0;
    uint32_t n = 0;

    for (uint32_t d = 0; d < self->rank; d++) {
        if (!exg_cuda_has(call, 1 + d)) {
            at += at == before ? position_rank : 0;
            params->self_strides[at++] = self->strides[d];
        }
    }
    for (uint32_t d = 0; d + 1 < call->input_count; d++) {
        const exg_tensor *index = &call->inputs[1 + d];

        for (uint32_t k = 0; exg_cuda_has(call, 1 + d) && k < index->rank; k++) {
            params->index_strides[n][before + position_rank - index->rank + k] =
                index->sizes[k] == 1 ? 0 : index->strides[k];
        }
        n += exg_cuda_has(call, 1 + d) ? 1 : 0;
    }
    params->rank = out->rank;
    memcpy(params->result, out->sizes, sizeof(params->result));
}

static exg_status index_prepare(exg_kernel_call *call, exg_error *err)
{
    cuda_index_params params = {.numel = exg_tensor_numel(&call->outputs[0])};
    uint32_t position_rank = 0;
    exg_cuda_launch *launch = NULL;
    char slots[64] = "i0 i9 i9 i9 i9 i9 i9 o0 f"; /* i9: none */
    uint32_t n = 0;

    for (uint32_t d = 0; d + 1 < call->input_count; d++) {
        if (exg_cuda_has(call, 1 + d)) {
            EXG_TRY(add_index(call, d, &params, &position_rank, err));
            slots[4 + 3 * n++] = (char)('1' + d);
        }
    }
    if (call->input_count > 9) {
        return exg_cuda_refuse("an index of the ninth dimension", err);
    }
    lay_out(call, &params, dims_before(call), position_rank);
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (params.numel == 0) {
        return EXG_OK;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "index", "index_many", slots, params, &launch, err,
                         "-DELEMENT=element_%u", exg_dtype_bytes(call->inputs[0].dtype)));
    exg_cuda_grid(launch, params.numel);
    return EXG_OK;
}

EXG_CUDA_ROW_OF(index, EXG_KERNEL_ANY_STRIDES);
