/* scatter.c - elements to places by index: scatter_src, scatter_value and those that combine,
 * index_copy, index_put. Items that say which index goes where are made, brought in order where
 * there are several, and carried out (scatter.cu).
 */
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/kernel_table.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/kernels/cpu/common.h"

/* Dimensions put together, with the strides of up to three tensors. */
typedef struct dims {
    exg_tensor of[3];
    int64_t count;
} dims;

static void add_dim(dims *d, int64_t size, int64_t a, int64_t b, int64_t c)
{
    const int64_t strides[] = {a, b, c};

    for (int i = 0; i < 3; i++) {
        d->of[i].sizes[d->of[i].rank] = size;
        d->of[i].strides[d->of[i].rank++] = strides[i];
    }
    d->count *= size;
}

/* What is written, by which kind: "" moves the elements. `source` is the operand's slot. */
static exg_status add_scatter(exg_kernel_call *call, cuda_scatter_params *params,
                              const char *source, const char *kind, exg_error *err)
{
    exg_dtype dtype = call->outputs[0].dtype;
    char slots[] = "w i2 o0";
    uint64_t sorted;
    exg_compute compute;
    exg_cuda_launch *launch = NULL;

    if (kind[0] != '\0' && !exg_compute_of(dtype, &compute)) {
        return exg_unsupported_dtype("scatter", dtype, err);
    }
    memcpy(slots + 2, source, 2);
    EXG_TRY(exg_cuda_add_sort(call, params->lines, params->size, &sorted, err));
    EXG_TRY(EXG_CUDA_ADD(
        call, "scatter", "scatter", slots, *params, &launch, err, "-DELEMENT=element_%u %s %s%s",
        exg_dtype_bytes(dtype), kind,
        kind[0] == '\0' ? "" : "-DOUT=", kind[0] == '\0' ? "" : exg_cuda_dtype(dtype)));
    launch->slots[0].offset = sorted;
    exg_cuda_grid(launch, params->lines * params->size * params->slice);
    return EXG_OK;
}

/* The items are first in the workspace, also where nothing is sorted. */
static void need_items(exg_kernel_call *call, int64_t count)
{
    call->workspace_bytes = EXG_MAX(call->workspace_bytes, (uint64_t)count * sizeof(cuda_item));
}

/* Items by an index along one dimension. */
static exg_status add_place(exg_kernel_call *call, const cuda_place_params *params, exg_error *err)
{
    exg_cuda_launch *launch = NULL;

    EXG_TRY(EXG_CUDA_ADD(call, "scatter", "place", "i1 w f", *params, &launch, err, "-DINDEX=%s",
                         exg_cuda_dtype(call->inputs[1].dtype)));
    exg_cuda_grid(launch, params->lines * params->size);
    need_items(call, params->lines * params->size);
    return EXG_OK;
}

/* ---- scatter ------------------------------------------------------------------------------- */

/* Dimensions along which the index is the same belong to what an item stands for; the others
 * but `dim` make lines. */
static void lay_out(const exg_kernel_call *call, uint32_t dim, bool has_source,
                    cuda_place_params *place, cuda_scatter_params *scatter)
{
    const exg_tensor *self = &call->outputs[0];
    const exg_tensor *index = &call->inputs[1];
    const exg_tensor *source = &call->inputs[has_source ? 2 : 1];
    dims lines = {.count = 1};
    dims inner = {.count = 1};
    dims item = {.count = 1};

    for (uint32_t d = 0; d < index->rank; d++) {
        int64_t to = d < self->rank ? self->strides[d] : 0;
        int64_t from = has_source && d < source->rank ? source->strides[d] : 0;

        add_dim(d == dim                                        ? &item
                : index->strides[d] == 0 && index->sizes[d] > 1 ? &inner
                                                                : &lines,
                index->sizes[d], to, from, index->strides[d]);
    }
    *place = (cuda_place_params){
        .lines = lines.count,
        .size = item.count,
        .dim_size = self->rank > 0 ? self->sizes[dim] : 1,
        .of_line = exg_cuda_view(&lines.of[2]),
        .stride = index->rank > 0 ? index->strides[dim] : 0,
    };
    scatter->lines = lines.count;
    scatter->size = item.count;
    scatter->slice = inner.count;
    scatter->key_stride = self->rank > 0 ? self->strides[dim] : 0;
    scatter->out_line = exg_cuda_view(&lines.of[0]);
    scatter->source_line = exg_cuda_view(&lines.of[1]);
    scatter->out_inner = exg_cuda_view(&inner.of[0]);
    scatter->source_inner = exg_cuda_view(&inner.of[1]);
    scatter->source_item = exg_cuda_view(&item.of[1]);
}

static exg_status scatter(exg_kernel_call *call, const char *kind, bool has_source, exg_error *err)
{
    const exg_tensor *index = &call->inputs[1];
    cuda_scatter_params params = {0};
    cuda_place_params place;

    if (!has_source && !exg_call_element(call, 3, call->outputs[0].dtype, params.element)) {
        return exg_unsupported_dtype("scatter", call->outputs[0].dtype, err);
    }
    EXG_TRY(exg_cuda_step_begin(call, err));
    EXG_TRY(exg_cuda_add_copy_of_self(call, err));
    if (exg_tensor_numel(index) == 0) { /* of any dtype */
        return EXG_OK;
    }
    EXG_TRY(exg_require_index("scatter", index->dtype, err));
    lay_out(call, exg_call_dim(call, 1, index->rank), has_source, &place, &params);
    EXG_TRY(add_place(call, &place, err));
    return add_scatter(call, &params, has_source ? "i2" : "iz", kind, err);
}

#define SCATTER(name, kind, has_source)                                                            \
    static exg_status name##_prepare(exg_kernel_call *call, exg_error *err)                        \
    {                                                                                              \
        return scatter(call, kind, has_source, err);                                               \
    }                                                                                              \
    EXG_CUDA_KERNEL(name, EXG_KERNEL_IN_PLACE | EXG_KERNEL_ANY_STRIDES_1)

SCATTER(scatter_src, "", true);
SCATTER(scatter_value, "", false);
SCATTER(scatter_add, "-DADD", true);
SCATTER(scatter_prod, "-DPROD", true);
SCATTER(scatter_amax, "-DAMAX", true);
SCATTER(scatter_amin, "-DAMIN", true);

/* ---- one place ----------------------------------------------------------------------------- */

/* In one launch: a row of a cache. `slots`: of the indices, and of the source. */
static exg_status add_put(exg_kernel_call *call, const char *slots, const cuda_index_params *index,
                          const cuda_scatter_params *scatter, bool wraps, exg_error *err)
{
    cuda_put_params params = {.slice = scatter->slice,
                              .count = index->count,
                              .wraps = wraps,
                              .out_inner = scatter->out_inner,
                              .source_inner = scatter->source_inner};
    exg_cuda_launch *launch = NULL;

    memcpy(params.sizes, index->sizes, sizeof(params.sizes));
    memcpy(params.strides, index->strides, sizeof(params.strides));
    memcpy(params.is_narrow, index->is_narrow, sizeof(params.is_narrow));
    EXG_TRY(EXG_CUDA_ADD(call, "scatter", "put", slots, params, &launch, err,
                         "-DPUT -DELEMENT=element_%u", exg_dtype_bytes(call->outputs[0].dtype)));
    exg_cuda_grid(launch, params.slice);
    return EXG_OK;
}

/* ---- index_copy ---------------------------------------------------------------------------- */

static exg_status index_copy_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *out = &call->outputs[0];
    const exg_tensor *index = &call->inputs[1];
    exg_around around = exg_around_dim(out, exg_call_dim(call, 1, out->rank));
    int64_t count = exg_tensor_numel(index);
    dims inner = {.count = 1};
    dims item = {.count = 1};
    cuda_place_params place = {.lines = 1, .size = count, .dim_size = around.size, .stride = 1};
    cuda_scatter_params params = {.lines = 1, .size = count, .key_stride = around.inner};

    EXG_TRY(exg_require_index("index_copy", index->dtype, err));
    EXG_TRY(exg_cuda_step_begin(call, err));
    EXG_TRY(exg_cuda_add_copy_of_self(call, err));
    add_dim(&inner, around.outer, around.size * around.inner, count * around.inner, 0);
    add_dim(&inner, around.inner, 1, 1, 0);
    add_dim(&item, count, 0, around.inner, 0);
    params.slice = inner.count;
    params.out_inner = exg_cuda_view(&inner.of[0]);
    params.source_inner = exg_cuda_view(&inner.of[1]);
    params.source_item = exg_cuda_view(&item.of[1]);
    if (count == 0) {
        return EXG_OK;
    }
    if (count == 1 && params.slice > 0) {
        const cuda_index_params one = {.count = 1,
                                       .sizes = {around.size},
                                       .strides = {around.inner},
                                       .is_narrow = {index->dtype == EXG_DTYPE_I32}};

        return add_put(call, "i1 iz iz iz iz iz i2 o0 f", &one, &params, false, err);
    }
    EXG_TRY(add_place(call, &place, err));
    return params.slice == 0 ? EXG_OK : add_scatter(call, &params, "i2", "", err);
}

EXG_CUDA_KERNEL(index_copy, EXG_KERNEL_IN_PLACE);

/* ---- index_put ----------------------------------------------------------------------------- */

static void lay_out_put(const exg_kernel_call *call, uint32_t count, const cuda_index_params *index,
                        cuda_scatter_params *params)
{
    const exg_tensor *self = &call->outputs[0];
    const exg_tensor *values = &call->inputs[call->input_count - 1];
    uint32_t before = exg_call_dims_before(call, count);
    uint32_t position_rank = (uint32_t)index->rank;
    uint32_t rank = self->rank - (uint32_t)index->count + position_rank;
    uint32_t at = 0; /* dimension of the values */
    dims inner = {.count = 1};
    dims item = {.count = 1};

    for (uint32_t d = 0; d < self->rank; d++) {
        if (d >= count || !exg_cuda_has(call, 1 + d)) {
            at += at == before ? position_rank : 0;
            add_dim(&inner, self->sizes[d], self->strides[d],
                    exg_broadcast_stride(values, rank, at), 0);
            at++;
        }
    }
    for (uint32_t k = 0; k < position_rank; k++) {
        add_dim(&item, index->result[k], 0, exg_broadcast_stride(values, rank, before + k), 0);
    }
    params->lines = params->key_stride = 1;
    params->size = item.count;
    params->slice = inner.count;
    params->out_inner = exg_cuda_view(&inner.of[0]);
    params->source_inner = exg_cuda_view(&inner.of[1]);
    params->source_item = exg_cuda_view(&item.of[1]);
}

static exg_status index_put_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *out = &call->outputs[0];
    uint32_t count = call->input_count - 2;
    cuda_index_params index = {0};
    cuda_scatter_params params = {0};
    exg_cuda_launch *launch = NULL;
    char slots[] = "iz " EXG_CUDA_NO_INDICES " w f";
    char source[] = "i0";

    if (call->input_count - 1 > 9) {
        return exg_cuda_refuse("index_put of so many indices", err);
    }
    source[1] = (char)('0' + call->input_count - 1);
    EXG_TRY(exg_cuda_step_begin(call, err));
    EXG_TRY(exg_cuda_add_copy_of_self(call, err));
    EXG_TRY(exg_cuda_read_indices(call, out, count, 0, &index, slots + 3, err));
    lay_out_put(call, count, &index, &params);
    index.numel = params.size;
    if (params.size == 0) {
        return EXG_OK;
    }
    if (params.size == 1 && params.slice > 0 && !exg_call_bool(call, 3)) {
        char put[] = EXG_CUDA_NO_INDICES " i0 o0 f";

        memcpy(put, slots + 3, strlen(EXG_CUDA_NO_INDICES));
        memcpy(put + strlen(EXG_CUDA_NO_INDICES) + 1, source, 2);
        return add_put(call, put, &index, &params, true, err);
    }
    EXG_TRY(EXG_CUDA_ADD(call, "index", "index_places", slots, index, &launch, err, "%s", ""));
    exg_cuda_grid(launch, params.size);
    need_items(call, params.size);
    if (params.slice == 0) {
        return EXG_OK;
    }
    return add_scatter(call, &params, source, exg_call_bool(call, 3) ? "-DADD" : "", err);
}

EXG_CUDA_KERNEL(index_put, EXG_KERNEL_IN_PLACE);
