/* window.c - results that replace a window of another value: where that value dies with it, they
 * are made in its memory, and what would bring them there is no step. So a row goes into one
 * layer's part of a cache, and the rest of the cache stays where it is.
 *
 *   s = select(x, 0, 1)            a view
 *   y = index_copy(s, ...)         in the memory of s
 *   z = select_scatter(x, y, 0, 1) the memory of x
 */
#include "libexec/plan/emit.h"
#include "libexec/plan/planner.h"

#include <string.h>

exg_status exg_planner_view(exg_planner *p, const exg_operator *op, const exg_argument *args,
                            const exg_location *source, exg_location *to)
{
    exg_strided in = {
        .rank = source->view.rank, .offset = source->offset, .dtype = source->view.dtype};
    exg_strided out = {.dtype = source->view.dtype};

    memcpy(in.sizes, source->view.sizes, sizeof(in.sizes[0]) * in.rank);
    memcpy(in.strides, source->view.strides, sizeof(in.strides[0]) * in.rank);
    EXG_TRY(op->view(args, &in, &out, p->err));
    *to = *source;
    to->offset = out.offset;
    to->view.dtype = out.dtype;
    to->view.rank = out.rank;
    memcpy(to->view.sizes, out.sizes, sizeof(out.sizes[0]) * out.rank);
    memcpy(to->view.strides, out.strides, sizeof(out.strides[0]) * out.rank);
    return EXG_OK;
}

/* The view of operand 0 that the node's operand 1 replaces, by its normalized arguments; false: it
 * replaces none. */
static bool find_window(exg_planner *p, const exg_operator *op, const exg_argument *args,
                        exg_location *window)
{
    exg_operator_id id = op->id == EXG_OP_select_scatter_default  ? EXG_OP_select_int
                         : op->id == EXG_OP_slice_scatter_default ? EXG_OP_slice_Tensor
                                                                  : EXG_OP_NONE;
    const exg_operator *view = id == EXG_OP_NONE ? NULL : exg_operators_get(p->operators, id);
    exg_argument of_view[EXG_ARGUMENTS_MAX];
    bool is_found;

    if (view == NULL || p->locations[args[0].as_tensor].buffer == EXG_NO_BUFFER) {
        return false;
    }
    of_view[0] = args[0];
    for (uint32_t i = 1; i < view->schema->argument_count; i++) {
        of_view[i] = args[i + 1];
    }
    is_found =
        exg_planner_view(p, view, of_view, &p->locations[args[0].as_tensor], window) == EXG_OK;
    if (!is_found) {
        exg_error_clear(p->err);
    }
    return is_found;
}

#define ALIGNMENT 64 /* bytes, of every result */

/* Both dense, of the same elements. */
static bool is_same_place(const exg_location *a, const exg_location *b)
{
    return a->buffer == b->buffer && a->offset == b->offset && a->view.dtype == b->view.dtype &&
           a->view.rank == b->view.rank &&
           memcmp(a->view.sizes, b->view.sizes, a->view.rank * sizeof(a->view.sizes[0])) == 0 &&
           exg_tensor_is_contiguous(&a->view) && exg_tensor_is_contiguous(&b->view);
}

/* As an operand of its own. */
static bool reads(const exg_node *node, exg_value_id value)
{
    bool found = false;

    for (uint32_t i = 0; i < node->input_count; i++) {
        found = found || (node->inputs[i].arg.kind == EXG_ARGUMENT_TENSOR &&
                          node->inputs[i].arg.as_tensor == value);
    }
    return found;
}

/* Is `value`, which the node reads, what it puts in place of the window? Then it may be computed
 * there. */
static bool replaces(exg_planner *p, const exg_node *node, exg_value_id value,
                     const exg_location *place)
{
    const exg_operator *op = exg_operators_find(p->operators, node->target);
    exg_argument args[EXG_ARGUMENTS_MAX];
    exg_location window;

    if (op == NULL ||
        (op->id != EXG_OP_select_scatter_default && op->id != EXG_OP_slice_scatter_default)) {
        return false;
    }
    if (exg_operator_normalize(op, node, args, p->err) != EXG_OK) {
        exg_error_clear(p->err);
        return false;
    }
    return args[1].as_tensor == value && p->value_uses[args[0].as_tensor] == 1 &&
           find_window(p, op, args, &window) && is_same_place(&window, place);
}

bool exg_planner_is_window(exg_planner *p, uint32_t index, exg_value_id operand,
                           exg_value_id result)
{
    const exg_location *place = &p->locations[operand];
    const exg_buffer *buffer = &p->plan->buffers[place->buffer];
    const exg_tensor_meta *meta = p->graph->values[result].tensor;
    exg_tensor view;

    if (p->no_reuse || place->offset * (int64_t)exg_dtype_bytes(meta->dtype) % ALIGNMENT != 0 ||
        !buffer->writable || buffer->is_folded != p->folds || p->value_uses[operand] != 1 ||
        p->buffer_uses[place->buffer] != 2 || exg_planner_view_of(p, meta, &view) != EXG_OK ||
        view.dtype != place->view.dtype || view.rank != place->view.rank ||
        memcmp(view.sizes, place->view.sizes, view.rank * sizeof(view.sizes[0])) != 0) {
        return false;
    }
    for (uint32_t n = index + 1; n < p->graph->node_count; n++) {
        if (reads(&p->graph->nodes[n], result) && replaces(p, &p->graph->nodes[n], result, place)) {
            return true;
        }
    }
    return false;
}

/* Are all parts of the whole in one block, each where it belongs? */
static exg_status find_joined(exg_planner *p, const exg_argument *args, exg_location *to, bool *is)
{
    const exg_argument *list = &args[0];
    const exg_location *first;

    *is = list->count > 1;
    for (uint32_t i = 0; i < list->count; i++) {
        EXG_TRY(exg_planner_need(p, list->as_tensors[i]));
        *is = *is && p->graph->values[list->as_tensors[i]].tensor->rank == to->view.rank;
    }
    if (!*is) {
        return EXG_OK;
    }
    first = &p->locations[list->as_tensors[0]];
    *is = p->plan->buffers[first->buffer].kind == EXG_BUFFER_ARENA &&
          p->plan->buffers[first->buffer].is_folded == p->folds;
    for (uint32_t i = 0; *is && i < list->count; i++) {
        const exg_location *at = &p->locations[list->as_tensors[i]];
        exg_location part = *at;

        exg_planner_part_of(p, list, i, exg_get_int(&args[1]), &to->view, &part);
        *is = at->buffer == first->buffer && at->offset == part.offset &&
              at->view.dtype == part.view.dtype &&
              exg_dims_equal(at->view.sizes, at->view.rank, part.view.sizes, part.view.rank) &&
              memcmp(at->view.strides, part.view.strides,
                     part.view.rank * sizeof(part.view.strides[0])) == 0;
    }
    to->buffer = first->buffer;
    return EXG_OK;
}

static exg_status keep_joined(exg_planner *p, const exg_node *node, const exg_argument *args,
                              bool *kept)
{
    exg_value_id value = node->outputs[0].as_tensor;
    exg_location to = {.offset = 0};

    EXG_TRY(exg_planner_view_of(p, p->graph->values[value].tensor, &to.view));
    exg_tensor_set_contiguous(&to.view);
    EXG_TRY(find_joined(p, args, &to, kept));
    if (!*kept) {
        return EXG_OK;
    }
    p->locations[value] = to;
    p->buffer_uses[to.buffer] += p->value_uses[value];
    for (uint32_t i = 0; i < args[0].count; i++) {
        exg_planner_used(p, args[0].as_tensors[i]);
    }
    p->plan->summary.view_count++;
    return EXG_OK;
}

exg_status exg_planner_keep_window(exg_planner *p, const exg_node *node, const exg_operator *op,
                                   const exg_argument *args, bool *kept)
{
    exg_value_id whole = args[0].as_tensor;
    exg_value_id to = node->outputs[0].as_tensor;
    exg_location window;

    *kept = false;
    if (op->id == EXG_OP_cat_default) {
        return keep_joined(p, node, args, kept);
    }
    if (op->id != EXG_OP_select_scatter_default && op->id != EXG_OP_slice_scatter_default) {
        return EXG_OK;
    }
    EXG_TRY(exg_planner_need(p, whole));
    EXG_TRY(exg_planner_need(p, args[1].as_tensor));
    if (find_window(p, op, args, &window) &&
        is_same_place(&window, &p->locations[args[1].as_tensor])) {
        p->locations[to] = p->locations[whole];
        p->buffer_uses[window.buffer] += p->value_uses[to];
        exg_planner_used(p, whole);
        exg_planner_used(p, args[1].as_tensor);
        p->plan->summary.view_count++;
        *kept = true;
    }
    return EXG_OK;
}
