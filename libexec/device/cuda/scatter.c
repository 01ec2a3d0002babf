/* scatter.c - elements to places by index: scatter_src, scatter_value and those that combine,
 * index_copy, index_put. Items that say which index goes where are made, brought in order where
 * there are several, and carried out (scatter.cu).
 */
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/kernel_table.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/kernels/cpu/common.h"

/* Items, and parts, that a thread of scatter.cu goes over. */
#define PIECE_OF_ITEMS 32
#define PIECE_OF_PARTS 128

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

/* The order of items whose keys are places below `count`, and of those that are nowhere. */
static exg_cuda_order order_of(int64_t lines, int64_t size, int64_t count)
{
    exg_cuda_order order = {.lines = lines, .size = size, .is_wide = count >= UINT32_MAX};

    while (order.end_bit < 64 && (uint64_t)count >> order.end_bit != 0) {
        order.end_bit++;
    }
    return order;
}

/* Items of which none is brought in order are there too. */
static void need_items(exg_kernel_call *call, const exg_cuda_order *order)
{
    call->workspace_bytes =
        (uint64_t)(order->lines * order->size) * exg_cuda_item_bytes(order->is_wide);
}

static exg_status add_moves(exg_kernel_call *call, const cuda_scatter_params *params,
                            const char *source, const exg_cuda_order *order, uint64_t sorted,
                            exg_error *err)
{
    char slots[] = "w i2 o0";
    exg_cuda_launch *launch = NULL;

    memcpy(slots + 2, source, 2);
    EXG_TRY(EXG_CUDA_ADD(call, "scatter", "scatter", slots, *params, &launch, err,
                         "-DELEMENT=element_%u %s", exg_dtype_bytes(call->outputs[0].dtype),
                         exg_cuda_item_option(order->is_wide)));
    launch->slots[0].offset = sorted;
    exg_cuda_grid(launch, params->lines * params->size * params->slice);
    return EXG_OK;
}

/* Where in the workspace the parts of pieces are. */
typedef struct parts {
    uint64_t keys, values;
} parts;

/* Behind what is asked for already. */
static parts need_parts(exg_kernel_call *call, int64_t count, int64_t slice)
{
    parts at = {.keys = (call->workspace_bytes + 7) / 8 * 8};

    at.values = at.keys + (uint64_t)count * sizeof(uint64_t);
    call->workspace_bytes = at.values + (uint64_t)(count * slice) * sizeof(uint64_t);
    return at;
}

/* Pieces of the items, then of the parts that they leave, until there is one of each line. */
static exg_status add_combined(exg_kernel_call *call, cuda_scatter_params params,
                               const char *source, const char *kind, const exg_cuda_order *order,
                               uint64_t sorted, exg_error *err)
{
    char slots[] = "w i2 o0 w w w w";
    const char *dtype = exg_cuda_dtype(call->outputs[0].dtype);
    bool is_first = true;
    parts from = {0};

    memcpy(slots + 2, source, 2);
    for (params.pieces = 0; params.pieces != 1; params.size = 2 * params.pieces) {
        exg_cuda_launch *launch = NULL;
        int64_t piece = is_first ? PIECE_OF_ITEMS : PIECE_OF_PARTS;
        parts to;

        params.pieces = exg_ceil_div(params.size, piece);
        to = need_parts(call, params.lines * params.pieces * 2, params.slice);
        EXG_TRY(EXG_CUDA_ADD(call, "scatter", is_first ? "scatter_combine" : "scatter_join", slots,
                             params, &launch, err, "-DOUT=%s %s -DPIECE=%d %s %s", dtype, kind,
                             (int)piece, is_first ? "" : "-DPARTS",
                             exg_cuda_item_option(order->is_wide)));
        launch->slots[0].offset = sorted;
        launch->slots[3].offset = to.keys;
        launch->slots[4].offset = to.values;
        launch->slots[5].offset = from.keys;
        launch->slots[6].offset = from.values;
        exg_cuda_grid(launch, params.lines * params.pieces * params.slice);
        from = to;
        is_first = false;
    }
    return EXG_OK;
}

/* What is written, by which kind: "" moves the elements. `source` is the operand's slot. */
static exg_status add_scatter(exg_kernel_call *call, const cuda_scatter_params *params,
                              const char *source, const char *kind, const exg_cuda_order *order,
                              exg_error *err)
{
    exg_dtype dtype = call->outputs[0].dtype;
    uint64_t sorted;
    exg_compute compute;

    if (kind[0] != '\0' && !exg_compute_of(dtype, &compute)) {
        return exg_unsupported_dtype("scatter", dtype, err);
    }
    EXG_TRY(exg_cuda_add_sort(call, order, &sorted, err));
    return kind[0] == '\0' ? add_moves(call, params, source, order, sorted, err)
                           : add_combined(call, *params, source, kind, order, sorted, err);
}

/* Items by an index along one dimension. */
static exg_status add_place(exg_kernel_call *call, const cuda_place_params *params,
                            const exg_cuda_order *order, exg_error *err)
{
    exg_cuda_launch *launch = NULL;

    EXG_TRY(EXG_CUDA_ADD(call, "scatter", "place", "i1 w f", *params, &launch, err, "-DINDEX=%s %s",
                         exg_cuda_dtype(call->inputs[1].dtype),
                         exg_cuda_item_option(order->is_wide)));
    exg_cuda_grid(launch, params->lines * params->size);
    need_items(call, order);
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
    exg_cuda_order order;

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
    order = order_of(place.lines, place.size, place.dim_size);
    EXG_TRY(add_place(call, &place, &order, err));
    return add_scatter(call, &params, has_source ? "i2" : "iz", kind, &order, err);
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
    exg_cuda_order order = order_of(1, count, around.size);

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
    EXG_TRY(add_place(call, &place, &order, err));
    return params.slice == 0 ? EXG_OK : add_scatter(call, &params, "i2", "", &order, err);
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

/* Behind every place that the indices may say. */
static int64_t end_of(const cuda_index_params *index)
{
    int64_t end = 1;

    for (int64_t n = 0; n < index->count; n++) {
        end += (index->sizes[n] > 0 ? index->sizes[n] - 1 : 0) * index->strides[n];
    }
    return end;
}

static exg_status index_put_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *out = &call->outputs[0];
    uint32_t count = call->input_count - 2;
    cuda_index_params index = {0};
    cuda_scatter_params params = {0};
    exg_cuda_order order;
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
    order = order_of(1, params.size, end_of(&index));
    EXG_TRY(EXG_CUDA_ADD(call, "index", "index_places", slots, index, &launch, err, "%s",
                         exg_cuda_item_option(order.is_wide)));
    exg_cuda_grid(launch, params.size);
    need_items(call, &order);
    if (params.slice == 0) {
        return EXG_OK;
    }
    return add_scatter(call, &params, source, exg_call_bool(call, 3) ? "-DADD" : "", &order, err);
}

EXG_CUDA_KERNEL(index_put, EXG_KERNEL_IN_PLACE);
