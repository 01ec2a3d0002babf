/* resume.c - the segment after one that has run: with the number it waited for, or with the
 * results of its loop. */
#include "libexport/transform/origin.h"
#include "libexport/transform/segment_builder.h"

#include <exg/transform.h>
#include <inttypes.h>
#include <string.h>

/* The symbol by itself that the file has for a number, and its range. */
static exg_status check_range(const exg_flat_graph *c, const exg_sym_int *size, int64_t value,
                              exg_error *err)
{
    const char *name;
    size_t length;

    if (size == NULL || size->expr == NULL || !exg_symint_lone_symbol(size->expr, &name, &length) ||
        name[0] != 'u') {
        return EXG_OK;
    }
    for (uint32_t i = 0; i < c->flat.range_constraint_count; i++) {
        const exg_range_constraint *range = &c->flat.range_constraints[i];

        if (strlen(range->symbol) == length && memcmp(range->symbol, name, length) == 0 &&
            ((range->has_min && value < range->min_val) ||
             (range->has_max && value > range->max_val))) {
            return EXG_FAIL(err, MALFORMED, "RUN-007",
                            "%s = %" PRId64 " is outside its range, %" PRId64 " to %" PRId64,
                            range->symbol, value, range->has_min ? range->min_val : INT64_MIN,
                            range->has_max ? range->max_val : INT64_MAX);
        }
    }
    return EXG_OK;
}

static exg_status check_number(const exg_flat_graph *c, const exg_node *node,
                               const exg_argument *number, exg_error *err)
{
    for (uint32_t o = 0; o < node->output_count && number->kind == EXG_ARGUMENT_INT; o++) {
        const exg_argument *out = &node->outputs[o];
        exg_value_id id = out->kind == EXG_ARGUMENT_SYM_INT  ? out->as_sym.value
                          : out->kind == EXG_ARGUMENT_TENSOR ? out->as_tensor
                                                             : EXG_NO_VALUE;
        const exg_value *value = id == EXG_NO_VALUE ? NULL : &c->graph.values[id];

        if (value != NULL && value->sym_int != NULL) {
            EXG_TRY(check_range(c, value->sym_int, number->as_int, err));
        }
        for (uint32_t d = 0; value != NULL && value->tensor != NULL && d < value->tensor->rank;
             d++) {
            EXG_TRY(check_range(c, &value->tensor->sizes[d], number->as_int, err));
        }
    }
    return EXG_OK;
}

/* The state a segment begins in, with room for one more number or for a loop's results. */
static exg_status enter(exg_graph_segment *s, const exg_graph_segment *before, uint32_t more,
                        exg_state *state, exg_error *err)
{
    const exg_state *after = &before->after;

    *state = *after;
    s->inputs = EXG_NEW_ARRAY(s->arena, exg_live_in, (size_t)after->live_in_count + more);
    state->known = EXG_NEW_ARRAY(s->arena, exg_known_number, (size_t)after->known_count + 1);
    if (s->inputs == NULL || state->known == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (after->live_in_count > 0) {
        memcpy(s->inputs, after->live_in, after->live_in_count * sizeof(*s->inputs));
    }
    if (after->known_count > 0) {
        memcpy(state->known, after->known, after->known_count * sizeof(*state->known));
    }
    s->input_count = after->live_in_count;
    return EXG_OK;
}

static exg_status resume(exg_graph_segment *s, const exg_graph_segment *before,
                         const exg_argument *number, exg_error *err)
{
    const exg_node *node = before->node;
    const exg_flat_graph *from = before->flat;
    exg_flat_graph *flat = (exg_flat_graph *)(uintptr_t)from;
    exg_state state;

    EXG_TRY(enter(s, before, 0, &state, err));
    if (exg_higher_order_of(node->target) == EXG_HIGHER_ORDER_COND) {
        EXG_TRY(exg_flat_graph_branch(from, state.at, exg_is_true(number), s->arena, &flat, err));
        state.at = 0;
        return exg_graph_segment_make(s, flat, &state, NULL, err);
    }
    if (check_number(from, node, number, err) != EXG_OK) {
        return exg_error_at_node(err, EXG_MALFORMED, node);
    }
    if (exg_operators_find(from->operators, node->target)->symbolic != NULL) {
        state.known[state.known_count++] =
            (exg_known_number){node->outputs[0].as_sym.value, *number};
        return exg_graph_segment_make(s, flat, &state, NULL, err);
    }
    return exg_graph_segment_make(s, flat, &state, number, err);
}

exg_status exg_graph_segment_resume(const exg_graph_segment *before, const exg_argument *number,
                                    exg_graph_segment **segment, exg_error *err)
{
    exg_graph_segment *s;
    exg_status status;

    *segment = NULL;
    EXG_TRY(exg_graph_segment_new(exg_arena_allocator(before->arena), before->depth + 1, &s, err));
    status = resume(s, before, number, err);
    if (status != EXG_OK) {
        exg_graph_segment_destroy(s);
        return status;
    }
    *segment = s;
    return EXG_OK;
}

static exg_status add_results(exg_graph_segment *s, const exg_graph_segment *before,
                              const exg_tensor_meta *results, exg_error *err)
{
    uint32_t at = 0;

    for (uint32_t o = 0; o < before->node->output_count; o++) {
        const exg_argument *out = &before->node->outputs[o];
        bool list = out->kind == EXG_ARGUMENT_TENSORS;
        const exg_value_id *ids = list ? out->as_tensors : &out->as_tensor;
        uint32_t count = list ? out->count : out->kind == EXG_ARGUMENT_TENSOR ? 1 : 0;

        for (uint32_t i = 0; i < count; i++, at++) {
            exg_live_in *live_in = &s->inputs[s->input_count];

            if (ids[i] == EXG_NO_VALUE ||
                before->flat->reads.last_use[ids[i]] <= before->after.at) {
                continue;
            }
            *live_in = (exg_live_in){.id = ids[i],
                                     .name = before->flat->graph.values[ids[i]].name,
                                     .meta = exg_meta_copy(s->arena, &results[at]),
                                     .depth = before->depth,
                                     .index = at,
                                     .of_loop = true};
            if (live_in->meta == NULL) {
                return EXG_OUT_OF_MEMORY(err);
            }
            s->input_count++;
        }
        at += count == 0;
    }
    return EXG_OK;
}

exg_status exg_graph_segment_resume_loop(const exg_graph_segment *before,
                                         const exg_tensor_meta *results,
                                         exg_graph_segment **segment, exg_error *err)
{
    exg_graph_segment *s;
    exg_state state;
    exg_status status;

    *segment = NULL;
    EXG_TRY(exg_graph_segment_new(exg_arena_allocator(before->arena), before->depth + 1, &s, err));
    status = enter(s, before, before->loop.result_count, &state, err);
    if (status == EXG_OK) {
        status = add_results(s, before, results, err);
    }
    if (status == EXG_OK) {
        status =
            exg_graph_segment_make(s, (exg_flat_graph *)(uintptr_t)before->flat, &state, NULL, err);
    }
    if (status != EXG_OK) {
        exg_graph_segment_destroy(s);
        return status;
    }
    *segment = s;
    return EXG_OK;
}
