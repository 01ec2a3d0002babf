/* footprint.c - the memory that a placed program needs on its rank. Weights are read where
 * they lie, in views; values live from the node that makes them to the last that reads
 * them, or a view of them. */
#include "libexec/sharding/partitioner.h"
#include "libexport/base/map.h"

#include <exg/text.h>
#include <inttypes.h>
#include <string.h>

typedef struct walk {
    const exg_graph *graph;
    const exg_operators *operators;
    exg_value_id *base; /* by value: whose memory it is a view on; itself */
    uint32_t *last;     /* by value: the node that reads it last */
    double *read;       /* by value: of a weight, bytes of the views read, each once */
    exg_strided **view; /* by value: of a view of a weight */
    bool *is_weight;
    exg_arena *arena;
    exg_map halos;            /* that were read */
    exg_partition_box *boxes; /* by value: of a weight, where the views read lie; NULL: not asked */
    bool failed;              /* no memory */
} walk;

/* Calls visit(w, value, node) for each tensor that a node reads. */
static void each_operand(walk *w, uint32_t node, void (*visit)(walk *, exg_value_id, uint32_t))
{
    const exg_node *n = &w->graph->nodes[node];

    for (uint32_t i = 0; i < n->input_count; i++) {
        const exg_argument *arg = &n->inputs[i].arg;

        if (arg->kind == EXG_ARGUMENT_TENSOR) {
            visit(w, arg->as_tensor, node);
        }
        for (uint32_t t = 0;
             (arg->kind == EXG_ARGUMENT_TENSORS || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSORS) &&
             t < arg->count;
             t++) {
            if (arg->as_tensors[t] != EXG_NO_VALUE) {
                visit(w, arg->as_tensors[t], node);
            }
        }
    }
}

/* The view that a weight, or a view of one, is. */
static exg_strided view_of(const walk *w, exg_value_id id)
{
    const exg_tensor_meta *meta = w->graph->values[id].tensor;
    exg_strided view = {.dtype = meta->dtype};

    if (w->view[id] != NULL) {
        return *w->view[id];
    }
    view.rank = meta->rank < EXG_SHAPE_RANK_MAX ? meta->rank : EXG_SHAPE_RANK_MAX;
    for (uint32_t d = 0; d < view.rank; d++) {
        view.sizes[d] = meta->sizes[d].value;
        view.strides[d] = meta->strides[d].value;
    }
    view.offset = meta->storage_offset.value;
    return view;
}

/* Takes out what names no further elements, puts the widest stride first and joins what is
 * without gaps, so that views on the same elements, reshaped, transposed or expanded, are the
 * same. */
static void order_view(exg_strided *view)
{
    uint32_t rank = 0;

    for (uint32_t d = 0; d < view->rank; d++) {
        int64_t size = view->sizes[d];
        int64_t stride = view->strides[d];
        uint32_t at = rank;

        if (size == 1 || (stride == 0 && size > 1)) {
            continue;
        }
        for (; at > 0 && view->strides[at - 1] < stride; at--) {
            view->sizes[at] = view->sizes[at - 1];
            view->strides[at] = view->strides[at - 1];
        }
        view->sizes[at] = size;
        view->strides[at] = stride;
        rank++;
    }
    view->rank = 0;
    for (uint32_t d = 0; d < rank; d++) {
        uint32_t at = view->rank;
        bool joins = at > 0 && view->strides[at - 1] == view->strides[d] * view->sizes[d];

        at = joins ? at - 1 : at;
        view->sizes[at] = view->sizes[d] * (joins ? view->sizes[at] : 1);
        view->strides[at] = view->strides[d];
        view->rank = at + 1;
    }
}

static bool is_same_view(const exg_strided *a, const exg_strided *b)
{
    bool same = a->rank == b->rank && a->offset == b->offset && a->dtype == b->dtype;

    for (uint32_t d = 0; same && d < a->rank; d++) {
        same = a->sizes[d] == b->sizes[d] && a->strides[d] == b->strides[d];
    }
    return same;
}

/* The box of a weight's elements that the ordered view is; false: it is none. */
static bool box_of(const exg_tensor_meta *meta, const exg_strided *view, exg_partition_box *box)
{
    exg_strided full = {.dtype = meta->dtype, .rank = meta->rank, .offset = view->offset};
    int64_t first = view->offset - meta->storage_offset.value;
    int64_t last = first;
    int64_t step = 1;

    for (uint32_t d = 0; d < view->rank; d++) {
        last += (view->sizes[d] - 1) * view->strides[d];
    }
    for (uint32_t d = meta->rank; d-- > 0;) {
        int64_t size = meta->sizes[d].value;

        if (size == 0 || meta->strides[d].value != step) {
            return false;
        }
        box->offsets[d] = first / step % size;
        box->sizes[d] = last / step % size - box->offsets[d] + 1;
        full.sizes[d] = box->sizes[d];
        full.strides[d] = step;
        step *= size;
    }
    order_view(&full);
    return is_same_view(&full, view);
}

/* One more box of a weight. False: it lies on one that was known, or beside it along several dims.
 */
static bool add_box(exg_partition_box *known, const exg_partition_box *found, uint32_t rank)
{
    uint32_t other = rank;

    for (uint32_t d = 0; d < rank; d++) {
        bool same = known->offsets[d] == found->offsets[d] && known->sizes[d] == found->sizes[d];

        if (!same && other < rank) {
            return false;
        }
        other = same ? other : d;
    }
    if (other == rank) {
        return true; /* the first again */
    }
    if (known->count == 0) {
        known->dim = other;
        known->firsts[0] = known->offsets[other];
        known->lengths[known->count++] = known->sizes[other];
    }
    for (uint32_t k = 0; k < known->count; k++) {
        int64_t first = known->firsts[k];

        if (first == found->offsets[other] && known->lengths[k] == found->sizes[other]) {
            return known->dim == other;
        }
        if (first < found->offsets[other] + found->sizes[other] &&
            found->offsets[other] < first + known->lengths[k]) {
            return false;
        }
    }
    if (known->dim != other || known->count == EXG_BOXES_MAX) {
        return false;
    }
    known->firsts[known->count] = found->offsets[other];
    known->lengths[known->count++] = found->sizes[other];
    return true;
}

static void note_box(walk *w, exg_value_id base, const exg_strided *view)
{
    const exg_tensor_meta *meta = w->graph->values[base].tensor;
    exg_partition_box *box = &w->boxes[base];
    exg_partition_box found = {.read = true};

    found.whole = meta->rank > EXG_SHAPE_RANK_MAX || !box_of(meta, view, &found);
    if (box->read && !box->whole && !found.whole) {
        box->whole = !add_box(box, &found, meta->rank);
    } else if (!box->whole) {
        *box = found;
    }
}

/* A node reads the view that `id` is on the weight `base`. */
static void note_part(walk *w, exg_value_id base, exg_value_id id)
{
    exg_strided view = view_of(w, id);
    exg_text key = EXG_TEXT_EMPTY;
    double bytes = exg_dtype_bytes(view.dtype);
    double whole = exg_meta_bytes(w->graph->values[base].tensor);
    const char *kept;

    order_view(&view);
    if (w->boxes != NULL) {
        note_box(w, base, &view);
    }
    exg_text_printf(&key, "%u %d %" PRId64, base, (int)view.dtype, view.offset);
    for (uint32_t d = 0; d < view.rank; d++) {
        bytes *= (double)view.sizes[d];
        exg_text_printf(&key, " %" PRId64 ":%" PRId64, view.sizes[d], view.strides[d]);
    }
    kept = key.failed ? NULL : exg_arena_strdup(w->arena, key.data);
    exg_text_free(&key);
    if (kept != NULL && exg_map_find(&w->halos, kept) != EXG_MAP_NONE) {
        return;
    }
    w->failed = w->failed || kept == NULL || !exg_map_put(&w->halos, kept, id);
    w->read[base] = w->read[base] + bytes < whole ? w->read[base] + bytes : whole;
}

static void note_use(walk *w, exg_value_id id, uint32_t node)
{
    exg_value_id base = w->base[id];

    w->last[base] = node;
    if (w->is_weight[base]) {
        note_part(w, base, id);
    }
}

/* What a view of a weight is a view on; where its strides do not allow that it is a copy, of
 * all that it is a view of. */
static void note_view(walk *w, const exg_operator *op, const exg_node *node)
{
    exg_value_id from = node->inputs[0].arg.as_tensor;
    exg_value_id to = node->outputs[0].as_tensor;
    exg_argument args[EXG_ARGUMENTS_MAX];
    exg_strided in = view_of(w, from);
    exg_strided *out = EXG_NEW(w->arena, exg_strided);
    exg_error err;

    if (out == NULL) {
        w->failed = true;
        return;
    }
    out->dtype = in.dtype;
    if (exg_operator_normalize(op, node, args, &err) != EXG_OK ||
        op->view(args, &in, out, &err) != EXG_OK) {
        note_part(w, w->base[from], from);
        *out = in;
    }
    w->view[to] = out;
}

static void take(walk *w)
{
    for (uint32_t n = 0; n < w->graph->node_count; n++) {
        const exg_node *node = &w->graph->nodes[n];
        const exg_operator *op = exg_operators_find(w->operators, node->target);

        if (exg_is_view_node(op, node)) {
            exg_value_id base = w->base[node->inputs[0].arg.as_tensor];

            w->base[node->outputs[0].as_tensor] = base;
            if (w->is_weight[base]) {
                note_view(w, op, node);
            }
        } else {
            each_operand(w, n, note_use);
        }
    }
    for (uint32_t o = 0; o < w->graph->output_count; o++) {
        if (w->graph->outputs[o].kind == EXG_ARGUMENT_TENSOR) {
            note_use(w, w->graph->outputs[o].as_tensor, w->graph->node_count);
        }
    }
}

/* The most bytes alive at once: a value begins at its node, ends after its last use. */
static double most_alive(const walk *w, double *ends)
{
    double alive = 0;
    double most = 0;

    for (uint32_t n = 0; n < w->graph->node_count; n++) {
        const exg_node *node = &w->graph->nodes[n];

        for (uint32_t o = 0; o < node->output_count; o++) {
            exg_value_id id = node->outputs[o].kind == EXG_ARGUMENT_TENSOR
                                  ? node->outputs[o].as_tensor
                                  : EXG_NO_VALUE;

            if (id != EXG_NO_VALUE && w->base[id] == id && w->last[id] > n) {
                double bytes = exg_meta_bytes(w->graph->values[id].tensor);

                alive += bytes;
                ends[w->last[id]] += bytes;
            }
        }
        most = alive > most ? alive : most;
        alive -= ends[n];
    }
    return most;
}

/* In `arena`, which is NULL when there was no memory for it. */
static bool open_walk(walk *w, const exg_program *local)
{
    const exg_graph *graph = local->graph;

    if (w->arena == NULL) {
        return false;
    }
    w->base = EXG_NEW_ARRAY(w->arena, exg_value_id, graph->value_count);
    w->last = EXG_NEW_ARRAY(w->arena, uint32_t, graph->value_count);
    w->read = EXG_NEW_ARRAY(w->arena, double, graph->value_count);
    w->is_weight = EXG_NEW_ARRAY(w->arena, bool, graph->value_count);
    w->view = EXG_NEW_ARRAY(w->arena, exg_strided *, graph->value_count);
    exg_map_init(&w->halos, w->arena);
    if (w->base == NULL || w->last == NULL || w->read == NULL || w->is_weight == NULL ||
        w->view == NULL) {
        return false;
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        w->base[v] = v;
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (graph->inputs[i].kind == EXG_ARGUMENT_TENSOR) {
            w->is_weight[graph->inputs[i].as_tensor] =
                local->signature.inputs[i].kind != EXG_INPUT_USER;
        }
    }
    return true;
}

exg_status exg_partition_footprint(const exg_program *local, const exg_operators *operators,
                                   exg_partition_summary *summary, exg_error *err)
{
    const exg_graph *graph = local->graph;
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    walk w = {.graph = graph, .operators = operators, .arena = arena};
    double *ends = arena == NULL ? NULL : EXG_NEW_ARRAY(arena, double, graph->node_count + 1);
    double weights = 0;

    if (ends != NULL && open_walk(&w, local)) {
        take(&w);
    } else {
        w.failed = true;
    }
    if (w.failed) {
        exg_arena_destroy(arena);
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        weights += w.read[v];
    }
    summary->weight_bytes = (uint64_t)weights;
    summary->value_bytes = (uint64_t)most_alive(&w, ends);
    exg_arena_destroy(arena);
    return EXG_OK;
}

exg_status exg_partition_boxes(const exg_program *local, const exg_operators *operators,
                               exg_partition_box *boxes, exg_error *err)
{
    const exg_graph *graph = local->graph;
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    walk w = {.graph = graph, .operators = operators, .arena = arena};

    if (arena != NULL) {
        w.boxes = EXG_NEW_ARRAY(arena, exg_partition_box, graph->value_count);
    }
    if (w.boxes != NULL && open_walk(&w, local)) {
        take(&w);
    } else {
        w.failed = true;
    }
    for (uint32_t i = 0; !w.failed && i < graph->input_count; i++) {
        boxes[i] = graph->inputs[i].kind == EXG_ARGUMENT_TENSOR
                       ? w.boxes[graph->inputs[i].as_tensor]
                       : (exg_partition_box){0};
    }
    exg_arena_destroy(arena);
    return w.failed ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}
