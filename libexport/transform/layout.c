/* layout.c - operators that speak of memory, as views of elements. */
#include "libexport/transform/layout.h"
#include "libexport/base/checked.h"
#include "libexport/operators/lower.h"
#include <exg/emit.h>

#include <string.h>

#define NO_NODE UINT32_MAX

/* ---- layouts ------------------------------------------------------------------------------ */

static bool same_strides(const exg_tensor_meta *a, const exg_tensor_meta *b)
{
    bool same = a->rank == b->rank;

    for (uint32_t d = 0; same && d < a->rank; d++) {
        same = a->sizes[d].expr == NULL && b->sizes[d].expr == NULL && b->strides[d].expr == NULL &&
               a->sizes[d].value == b->sizes[d].value &&
               (a->sizes[d].value <= 1 || a->strides[d].value == b->strides[d].value);
    }
    return same;
}

/* The dims from the slowest to the fastest, of a tensor whose elements fill their memory, each
 * place once. false: they do not. */
static bool dense_order(const exg_tensor_meta *meta, int64_t *order)
{
    int64_t expected = 1;
    bool empty = false;

    for (uint32_t d = 0; d < meta->rank; d++) {
        uint32_t at = d;

        if (meta->sizes[d].expr != NULL || meta->strides[d].expr != NULL) {
            return false;
        }
        empty = empty || meta->sizes[d].value == 0;
        while (at > 0 && meta->sizes[d].value > 1 &&
               (meta->sizes[order[at - 1]].value <= 1 ||
                meta->strides[order[at - 1]].value < meta->strides[d].value)) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = d;
    }
    for (uint32_t i = meta->rank; !empty && i-- > 0;) {
        const exg_sym_int *size = &meta->sizes[order[i]];

        if (size->value > 1 && meta->strides[order[i]].value != expected) {
            return false;
        }
        if (!exg_mul_i64(expected, size->value, &expected)) {
            return false;
        }
    }
    return true;
}

static bool is_row_major(const int64_t *order, const exg_tensor_meta *meta)
{
    int64_t last = -1;

    for (uint32_t i = 0; i < meta->rank; i++) {
        if (meta->sizes[order[i]].value > 1) {
            if (order[i] < last) {
                return false;
            }
            last = order[i];
        }
    }
    return true;
}

/* What is recorded of a value, in numbers; NULL: there is nothing, or only the run knows. */
static const exg_tensor_meta *recorded_of(exg_rewrite *r, exg_value_id old)
{
    const exg_tensor_meta *meta = r->in->graph->values[old].tensor;
    exg_tensor_meta *known;

    if (meta == NULL || exg_tensor_meta_is_static(meta)) {
        return meta;
    }
    return r->symbols != NULL && exg_meta_evaluate(meta, r->symbols, r->expressions, r->out->arena,
                                                   &known, NULL) == EXG_OK
               ? known
               : NULL;
}

/* `fresh`: it is no alias, so that its own strides say nothing of PyTorch's. */
static exg_status adopt(exg_rewrite *r, exg_value_id old, bool fresh)
{
    exg_ref ref = r->refs[old];
    const exg_tensor_meta *made = exg_ref_meta(r->builder, ref);
    const exg_tensor_meta *recorded = made == NULL || made->rank < 2 ? NULL : recorded_of(r, old);
    int64_t order[EXG_SHAPE_RANK_MAX];
    exg_tensor_meta *meta;

    if (made == NULL || recorded == NULL || made->rank != recorded->rank ||
        made->rank > EXG_SHAPE_RANK_MAX || made->dtype != recorded->dtype ||
        same_strides(made, recorded) ||
        (!fresh && !(dense_order(made, order) && is_row_major(order, made))) ||
        !dense_order(recorded, order)) {
        return EXG_OK;
    }
    for (uint32_t d = 0; d < made->rank; d++) {
        if (made->sizes[d].value != recorded->sizes[d].value) {
            return EXG_OK;
        }
    }
    meta = exg_meta_copy(r->out->arena, made);
    if (meta == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    memcpy(meta->strides, recorded->strides, meta->rank * sizeof(*meta->strides));
    r->out->graph->values[ref.id].tensor = meta;
    return EXG_OK;
}

exg_status exg_layout_adopt(exg_rewrite *r, exg_value_id old)
{
    return adopt(r, old, false);
}

exg_status exg_layout_adopt_results(exg_rewrite *r, const exg_node *node, const exg_operator *op)
{
    for (uint32_t o = 0; o < node->output_count && o < op->schema->return_count; o++) {
        const exg_argument *output = &node->outputs[o];
        bool fresh = op->view == NULL && op->schema->returns[o].alias == 0;

        if (output->kind == EXG_ARGUMENT_TENSOR && output->as_tensor != EXG_NO_VALUE) {
            EXG_TRY(adopt(r, output->as_tensor, fresh));
        }
        for (uint32_t i = 0; output->kind == EXG_ARGUMENT_TENSORS && i < output->count; i++) {
            EXG_TRY(adopt(r, output->as_tensors[i], fresh));
        }
    }
    return EXG_OK;
}

exg_status exg_layout_allow_view(exg_rewrite *r, const exg_argument *args)
{
    exg_ref ref = exg_get_ref(&args[0]);
    const exg_tensor_meta *meta = exg_ref_meta(r->builder, ref);
    exg_strided in = {0};
    exg_strided out = {0};
    exg_tensor_meta *rows;

    if (meta == NULL || exg_strided_of(meta, &in, NULL) != EXG_OK ||
        exg_operators_get(r->operators, EXG_OP_view_default)->view(args, &in, &out, NULL) ==
            EXG_OK) {
        return EXG_OK;
    }
    rows = exg_meta_copy(r->out->arena, meta);
    if (rows == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    exg_meta_contiguous(rows);
    rows->storage_offset = meta->storage_offset;
    r->out->graph->values[ref.id].tensor = rows;
    return EXG_OK;
}

/* ---- views on memory --------------------------------------------------------------------- */

/* Where an operator has its sizes; strides and the offset follow. */
static const struct {
    exg_operator_id id;
    uint32_t sizes;
    bool scatters; /* gives all of self, with a view written */
} rows[] = {
    {EXG_OP_as_strided_default, 1, false},      {EXG_OP_as_strided__default, 1, false},
    {EXG_OP_as_strided_copy_default, 1, false}, {EXG_OP_as_strided_copy_out, 1, false},
    {EXG_OP_prims_as_strided, 1, false},        {EXG_OP_as_strided_scatter_default, 2, true},
    {EXG_OP_as_strided_scatter_out, 2, true},   {EXG_OP_prims_as_strided_scatter, 2, true},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static size_t row_of(const exg_operator *op)
{
    size_t row = 0;

    while (row < ROWS && rows[row].id != op->id) {
        row++;
    }
    return row;
}

static bool is_resize(const exg_operator *op)
{
    return op->id == EXG_OP_resize_default || op->id == EXG_OP_resize__default ||
           op->id == EXG_OP_prims_resize || op->id == EXG_OP_resize_as__default;
}

bool exg_layout_is_spoken_of(const exg_operator *op)
{
    return row_of(op) < ROWS || is_resize(op);
}

static exg_status refuse(exg_rewrite *r, const exg_operator *op)
{
    return exg_error_fix(
        r->err,
        EXG_FAIL(r->err, UNSUPPORTED, "OPR-010",
                 "%s reads memory that is not an element of its tensor, or lies in "
                 "an order that the program does not tell",
                 op->target),
        "take the elements with slices, unfold or index, and export again");
}

/* Does a view stay within `numel` elements from `offset` on? */
static bool fits(const exg_argument *sizes, const exg_argument *strides, int64_t offset,
                 int64_t numel)
{
    int64_t size[EXG_SHAPE_RANK_MAX];
    int64_t stride[EXG_SHAPE_RANK_MAX];
    uint32_t rank = exg_get_ints(sizes, size, EXG_SHAPE_RANK_MAX);
    int64_t last = offset;

    if (rank > EXG_SHAPE_RANK_MAX || exg_get_ints(strides, stride, EXG_SHAPE_RANK_MAX) != rank ||
        offset < 0) {
        return true; /* the operator itself says what is wrong */
    }
    for (uint32_t d = 0; d < rank; d++) {
        int64_t span;

        if (size[d] == 0) {
            return true;
        }
        if (!exg_mul_i64(size[d] - 1, stride[d], &span) || !exg_add_i64(last, span, &last)) {
            return false;
        }
    }
    return last < numel;
}

/* Others with an alias in their schema may copy (reshape). */
static bool is_always_view(const exg_operator *op)
{
    return op->view != NULL || op->id == EXG_OP_narrow_default ||
           (op->schema->return_count == 1 && op->schema->returns[0].type.is_list &&
            op->schema->returns[0].alias != 0);
}

/* The tensor that `id` is a view of, by the node that made it; EXG_NO_VALUE: it is none. */
static exg_value_id whole_of(exg_rewrite *r, exg_value_id id)
{
    const exg_graph *graph = r->in->graph;
    const exg_operator *op;
    const exg_node *node;

    if (r->makers == NULL) {
        r->makers = EXG_NEW_ARRAY(r->out->arena, uint32_t, graph->value_count);
        if (r->makers == NULL) {
            return EXG_NO_VALUE;
        }
        memset(r->makers, 0xff, graph->value_count * sizeof(*r->makers)); /* NO_NODE */
        for (uint32_t n = 0; n < graph->node_count; n++) {
            const exg_argument *output = graph->nodes[n].outputs;
            bool one = graph->nodes[n].output_count == 1;

            if (one && output->kind == EXG_ARGUMENT_TENSOR) {
                r->makers[output->as_tensor] = n;
            }
            for (uint32_t i = 0; one && output->kind == EXG_ARGUMENT_TENSORS && i < output->count;
                 i++) {
                r->makers[output->as_tensors[i]] = n;
            }
        }
    }
    node = r->makers[id] == NO_NODE ? NULL : &graph->nodes[r->makers[id]];
    op = node == NULL ? NULL : exg_operators_find(r->operators, node->target);
    return op != NULL && is_always_view(op) && node->input_count > 0 &&
                   node->inputs[0].arg.kind == EXG_ARGUMENT_TENSOR
               ? node->inputs[0].arg.as_tensor
               : EXG_NO_VALUE;
}

/* The elements of `ref` as one dim, in the order in which they lie. */
static exg_ref in_memory_order(exg_builder *b, exg_ref ref, const int64_t *order)
{
    const exg_tensor_meta *meta = exg_ref_meta(b, ref);

    if (!is_row_major(order, meta)) {
        ref = EMIT(b, permute_default, ref, INTS_OF(b, order, meta->rank));
    }
    return meta->rank == 1 ? ref : EMIT(b, view_default, ref, INTS(b, exg_lower_numel(b, ref)));
}

/* The other way: what `flat` has, as a tensor like `like`. */
static exg_ref in_dims(exg_builder *b, exg_ref flat, exg_ref like, const int64_t *order)
{
    const exg_tensor_meta *meta = exg_ref_meta(b, like);
    int64_t sizes[EXG_SHAPE_RANK_MAX];
    int64_t inverse[EXG_SHAPE_RANK_MAX];

    for (uint32_t i = 0; i < meta->rank; i++) {
        sizes[i] = meta->sizes[order[i]].value;
        inverse[order[i]] = i;
    }
    flat = EMIT(b, view_default, flat, INTS_OF(b, sizes, meta->rank));
    return EMIT(b, permute_default, flat, INTS_OF(b, inverse, meta->rank));
}

/* The tensor whose elements hold the view (sizes, strides, offset): `self`, which is argument 0
 * of the node, or what it is a view of. */
static exg_status find_memory(exg_rewrite *r, const exg_node *node, const exg_operator *op,
                              exg_ref self, const exg_argument *view, int64_t *offset,
                              exg_ref *memory, int64_t *order)
{
    exg_value_id old = node->inputs[0].arg.as_tensor;
    int64_t absolute;

    *memory = self;
    if (exg_ref_meta(r->builder, self) == NULL) {
        return exg_builder_status(r->builder);
    }
    absolute = exg_is_none(&view[2]) ? exg_ref_meta(r->builder, self)->storage_offset.value
                                     : exg_get_int(&view[2]);
    for (;;) {
        const exg_tensor_meta *meta = exg_ref_meta(r->builder, *memory);
        const exg_tensor_meta *recorded = recorded_of(r, old);

        if (meta == NULL || recorded == NULL || meta->rank > EXG_SHAPE_RANK_MAX ||
            !same_strides(meta, recorded) ||
            !exg_sub_i64(absolute, meta->storage_offset.value, offset)) {
            return refuse(r, op);
        }
        if (dense_order(meta, order) && (*offset >= 0 || absolute < 0) &&
            fits(&view[0], &view[1], *offset, exg_lower_numel(r->builder, *memory))) {
            return EXG_OK;
        }
        old = whole_of(r, old);
        if (old == EXG_NO_VALUE) {
            return refuse(r, op);
        }
        *memory = r->read != NULL ? r->read(r->user, old) : r->refs[old];
    }
}

/* ---- other sizes ---------------------------------------------------------------------------- */

static bool is_channels_last(const exg_argument *format)
{
    return format->kind == EXG_ARGUMENT_MEMORY_FORMAT &&
           (format->as_memory_format == EXG_MEMORY_FORMAT_CHANNELS_LAST ||
            format->as_memory_format == EXG_MEMORY_FORMAT_CHANNELS_LAST_3D);
}

/* resize: the first elements of memory, row by row in the new sizes. What is more than there was
 * has no meaning in PyTorch, but for a view, which would see what is behind it. */
static exg_status emit_resize(exg_rewrite *r, const exg_node *node, const exg_operator *op,
                              const exg_argument *args)
{
    exg_builder *b = r->builder;
    exg_ref self = exg_get_ref(&args[0]);
    exg_dims own = exg_lower_dims(b, self);
    exg_dims dims = {0};
    int64_t strides[EXG_SHAPE_RANK_MAX];
    int64_t order[EXG_SHAPE_RANK_MAX];
    int64_t numel = 1;
    exg_argument view[4] = {args[0]};
    int64_t offset = 0;
    exg_ref memory;

    if (op->id == EXG_OP_resize_as__default) {
        dims = exg_lower_dims(b, exg_get_ref(&args[1]));
    } else {
        dims.rank = exg_get_ints(&args[1], dims.n, EXG_SHAPE_RANK_MAX);
    }
    if (dims.rank > EXG_SHAPE_RANK_MAX ||
        (own.rank == dims.rank && memcmp(own.n, dims.n, own.rank * sizeof(own.n[0])) == 0)) {
        return exg_rewrite_emit(r, node, op->id, args, op->schema->argument_count);
    }
    for (uint32_t d = dims.rank; d-- > 0;) {
        strides[d] = numel;
        if (dims.n[d] < 0 || !exg_mul_i64(numel, dims.n[d] > 1 ? dims.n[d] : 1, &numel)) {
            return exg_rewrite_emit(r, node, op->id, args, op->schema->argument_count);
        }
    }
    if (op->schema->argument_count > 2 && is_channels_last(&args[2])) {
        return refuse(r, op);
    }
    view[1] = INTS_OF(b, dims.n, dims.rank);
    view[2] = INTS_OF(b, strides, dims.rank);
    if (!fits(&view[1], &view[2], 0, exg_lower_numel(b, self)) &&
        whole_of(r, node->inputs[0].arg.as_tensor) == EXG_NO_VALUE &&
        dense_order(exg_ref_meta(b, self), order)) {
        exg_argument longer[3] = {exg_arg_ref(in_memory_order(b, self, order)), args[1],
                                  op->schema->argument_count > 2 ? args[2] : exg_arg_none()};

        return exg_rewrite_emit(r, node, op->id, longer, op->schema->argument_count);
    }
    EXG_TRY(find_memory(r, node, op, self, &view[1], &offset, &memory, order));
    view[0] = exg_arg_ref(in_memory_order(b, memory, order));
    view[3] = exg_arg_int(offset);
    return exg_rewrite_emit(r, node, EXG_OP_as_strided_default, view, 4);
}

exg_status exg_layout_emit(exg_rewrite *r, const exg_node *node, const exg_operator *op,
                           const exg_argument *args)
{
    size_t row = row_of(op);
    exg_builder *b = r->builder;
    exg_argument own[EXG_ARGUMENTS_MAX];
    exg_argument result = exg_arg_none();
    int64_t order[EXG_SHAPE_RANK_MAX] = {0};
    int64_t offset = 0;
    exg_ref memory;

    if (node->input_count == 0 || node->inputs[0].arg.kind != EXG_ARGUMENT_TENSOR) {
        return refuse(r, op);
    }
    if (is_resize(op)) {
        return emit_resize(r, node, op, args);
    }
    EXG_TRY(find_memory(r, node, op, exg_get_ref(&args[0]), &args[rows[row].sizes], &offset,
                        &memory, order));
    memcpy(own, args, op->schema->argument_count * sizeof(*args));
    own[rows[row].sizes + 2] = exg_arg_int(offset);
    if (!rows[row].scatters) {
        own[0] = exg_arg_ref(in_memory_order(b, memory, order));
        return exg_rewrite_emit(r, node, op->id, own, op->schema->argument_count);
    }
    if (memory.id != exg_get_ref(&args[0]).id) {
        return refuse(r, op);
    }
    if (is_row_major(order, exg_ref_meta(b, memory))) {
        return exg_rewrite_emit(r, node, op->id, own, op->schema->argument_count);
    }
    if (op->id == EXG_OP_as_strided_scatter_out) {
        return refuse(r, op);
    }
    own[0] = exg_arg_ref(in_memory_order(b, memory, order));
    EXG_TRY(exg_emit_all(b, op->id, own, op->schema->argument_count, &result));
    result = exg_arg_ref(in_dims(b, exg_get_ref(&result), memory, order));
    exg_rewrite_set(r, node, &result);
    return exg_builder_status(b);
}
