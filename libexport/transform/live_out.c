/* live_out.c - what is live when a segment ends: the whole tensors it made, and how the views that
 * are still read were taken, so that the next segment can replay them. */
#include "libexport/transform/flat_graph.h"

#include <string.h>

typedef struct live_outs {
    exg_rewrite *r;
    exg_graph_segment *segment;
    const exg_graph *graph; /* the new one */
    const exg_node **maker; /* by new value id: the view or in-place node, or NULL */
    bool *needed;           /* by new value id: a view on the way to something live */
    exg_value_id *called;   /* by new value id: its name for the next segment, or NO_VALUE */
    exg_value_id *live;     /* ids of the flat graph */
    uint32_t live_count;
    exg_error *err;
} live_outs;

static exg_status find_makers(live_outs *c)
{
    exg_arena *scratch = c->r->out->arena;
    const exg_graph *graph = c->graph;

    c->maker = EXG_NEW_ARRAY(scratch, const exg_node *, graph->value_count);
    c->needed = EXG_NEW_ARRAY(scratch, bool, graph->value_count);
    c->called = EXG_NEW_ARRAY(scratch, exg_value_id, graph->value_count);
    if (c->maker == NULL || c->needed == NULL || c->called == NULL) {
        return EXG_OUT_OF_MEMORY(c->err);
    }
    memset(c->called, 0xff, graph->value_count * sizeof(*c->called));
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];
        const exg_operator *op = exg_operators_find(c->r->operators, node->target);

        if (node->output_count == 1 && node->outputs[0].kind == EXG_ARGUMENT_TENSOR &&
            (op->view != NULL || op->functional != EXG_OP_NONE)) {
            c->maker[node->outputs[0].as_tensor] = node;
        }
    }
    return EXG_OK;
}

/* Values read by node `next` or later that the next segment does not have anyway. */
static exg_status find_live(live_outs *c, const exg_flat_graph *flat, uint32_t next)
{
    c->live = EXG_NEW_ARRAY(c->r->out->arena, exg_value_id, flat->graph.value_count);
    if (c->live == NULL) {
        return EXG_OUT_OF_MEMORY(c->err);
    }
    for (uint32_t v = 0; v < flat->graph.value_count; v++) {
        if (flat->own[v]) {
            c->called[c->r->refs[v].id] = v;
        } else if (c->r->refs[v].id != EXG_NO_VALUE && flat->reads.last_use[v] > next) {
            c->live[c->live_count++] = v;
        }
    }
    return EXG_OK;
}

/* The whole tensor under a value; views on the way are marked. */
static exg_value_id base_of(live_outs *c, exg_value_id id)
{
    while (c->maker[id] != NULL) {
        c->needed[id] = true;
        id = c->maker[id]->inputs[0].arg.as_tensor;
    }
    return id;
}

static exg_value_id called(live_outs *c, exg_value_id id)
{
    if (c->called[id] == EXG_NO_VALUE) {
        c->called[id] = EXG_REPLAYED_VALUE | c->segment->after.replayed_count++;
    }
    return c->called[id];
}

static uint32_t input_of(const exg_graph *graph, exg_value_id id)
{
    uint32_t i = 0;

    while (i < graph->input_count &&
           (graph->inputs[i].kind != EXG_ARGUMENT_TENSOR || graph->inputs[i].as_tensor != id)) {
        i++;
    }
    return i;
}

/* A base that the next segment is given: what an earlier segment made, or an output here. */
static exg_status live_base(live_outs *c, exg_value_id base)
{
    exg_graph_segment *s = c->segment;
    uint32_t own = s->flat->graph.input_count;
    uint32_t input = input_of(c->graph, base);
    exg_live_in *live_in = &s->after.live_in[s->after.live_in_count];
    exg_argument output = exg_arg_ref((exg_ref){base});

    if (input < own) {
        return EXG_OK;
    }
    if (input < c->graph->input_count) {
        *live_in = s->inputs[input - own];
    } else {
        *live_in = (exg_live_in){.name = exg_arena_strdup(s->arena, c->graph->values[base].name),
                                 .meta = exg_meta_copy(s->arena, c->graph->values[base].tensor),
                                 .depth = s->depth,
                                 .index = c->graph->output_count};
        if (live_in->meta == NULL || live_in->name == NULL) {
            return EXG_OUT_OF_MEMORY(c->err);
        }
        exg_meta_contiguous(live_in->meta);
        exg_builder_output(c->r->builder, &output, EXG_OUTPUT_USER, NULL);
    }
    live_in->id = called(c, base);
    s->after.live_in_count++;
    return exg_builder_status(c->r->builder);
}

static exg_status add_view(live_outs *c, const exg_operator *op, const exg_argument *args,
                           exg_value_id from, exg_value_id to)
{
    exg_arena *arena = c->segment->arena;
    uint32_t count = op->schema->argument_count;
    exg_replayed_view *view = &c->segment->after.views[c->segment->after.view_count++];

    *view =
        (exg_replayed_view){op->id, exg_arena_memdup(arena, args, count, sizeof(*args)), from, to};
    if (view->args == NULL) {
        return EXG_OUT_OF_MEMORY(c->err);
    }
    for (uint32_t i = 0; i < count; i++) {
        EXG_TRY(exg_argument_copy(arena, &view->args[i], c->err));
    }
    return EXG_OK;
}

/* The node's view, on what the next segment calls its operand. What an in-place operator
 * gives is its operand. */
static exg_status live_view(live_outs *c, const exg_node *node)
{
    const exg_operator *op = exg_operators_find(c->r->operators, node->target);
    exg_argument args[EXG_ARGUMENTS_MAX];

    EXG_TRY(exg_operator_normalize(op, node, args, c->err));
    if (op->functional != EXG_OP_NONE) {
        op = exg_operators_get(c->r->operators, EXG_OP_alias_default);
    }
    return add_view(c, op, args, called(c, node->inputs[0].arg.as_tensor),
                    called(c, node->outputs[0].as_tensor));
}

static exg_status live_all(live_outs *c)
{
    exg_state *after = &c->segment->after;
    const exg_operator *alias = exg_operators_get(c->r->operators, EXG_OP_alias_default);
    const exg_argument none[EXG_ARGUMENTS_MAX] = {{0}};
    bool *placed = EXG_NEW_ARRAY(c->r->out->arena, bool, c->graph->value_count);

    after->live_in = EXG_NEW_ARRAY(c->segment->arena, exg_live_in, c->live_count);
    after->views = EXG_NEW_ARRAY(c->segment->arena, exg_replayed_view,
                                 (size_t)c->live_count + c->graph->node_count);
    if (placed == NULL || after->live_in == NULL || after->views == NULL) {
        return EXG_OUT_OF_MEMORY(c->err);
    }
    for (uint32_t k = 0; k < c->live_count; k++) {
        exg_value_id id = c->r->refs[c->live[k]].id;

        c->called[id] = c->called[id] == EXG_NO_VALUE ? c->live[k] : c->called[id];
    }
    for (uint32_t k = 0; k < c->live_count; k++) {
        exg_value_id base = base_of(c, c->r->refs[c->live[k]].id);

        if (!placed[base]) {
            placed[base] = true;
            EXG_TRY(live_base(c, base));
        }
    }
    for (uint32_t n = 0; n < c->graph->node_count; n++) {
        const exg_node *node = &c->graph->nodes[n];

        if (node->output_count == 1 && node->outputs[0].kind == EXG_ARGUMENT_TENSOR &&
            c->needed[node->outputs[0].as_tensor]) {
            EXG_TRY(live_view(c, node));
        }
    }
    for (uint32_t k = 0; k < c->live_count; k++) { /* two names of one value */
        exg_value_id name = c->called[c->r->refs[c->live[k]].id];

        if (name != c->live[k]) {
            EXG_TRY(add_view(c, alias, none, name, c->live[k]));
        }
    }
    return EXG_OK;
}

exg_status exg_live_out(exg_rewrite *r, exg_graph_segment *segment, uint32_t next, exg_error *err)
{
    live_outs c = {.r = r, .segment = segment, .graph = exg_builder_graph(r->builder), .err = err};

    segment->after.at = next;
    EXG_TRY(find_makers(&c));
    EXG_TRY(find_live(&c, segment->flat, next));
    return live_all(&c);
}
