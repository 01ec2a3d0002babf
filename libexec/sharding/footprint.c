/* footprint.c - the memory that a placed program needs on its rank. Weights are read where
 * they lie, in windows; values live from the node that makes them to the last that reads
 * them, or a view of them. */
#include "libexec/sharding/placer.h"

typedef struct walk {
    const exg_graph *graph;
    const exg_operators *operators;
    exg_value_id *base; /* by value: whose memory it is a window on; itself */
    uint32_t *last;     /* by value: the node that reads it last */
    double *read;       /* by value: of a weight, bytes of the largest window read */
    bool *is_weight;
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
        for (uint32_t t = 0; (arg->kind == EXG_ARGUMENT_TENSORS ||
                              arg->kind == EXG_ARGUMENT_OPTIONAL_TENSORS) && t < arg->count; t++) {
            if (arg->as_tensors[t] != EXG_NO_VALUE) {
                visit(w, arg->as_tensors[t], node);
            }
        }
    }
}

static void note_use(walk *w, exg_value_id id, uint32_t node)
{
    exg_value_id base = w->base[id];
    double bytes = exg_meta_bytes(w->graph->values[id].tensor);

    w->last[base] = node;
    if (w->is_weight[base] && bytes > w->read[base]) {
        w->read[base] = bytes;
    }
}

bool exg_is_view_node(const exg_operator *op, const exg_node *node)
{
    return op != NULL && op->view != NULL && node->input_count > 0 &&
           node->inputs[0].arg.kind == EXG_ARGUMENT_TENSOR && node->output_count == 1 &&
           node->outputs[0].kind == EXG_ARGUMENT_TENSOR;
}

static void take(walk *w)
{
    for (uint32_t n = 0; n < w->graph->node_count; n++) {
        const exg_node *node = &w->graph->nodes[n];

        if (exg_is_view_node(exg_operators_find(w->operators, node->target), node)) {
            w->base[node->outputs[0].as_tensor] = w->base[node->inputs[0].arg.as_tensor];
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

exg_status exg_place_footprint(const exg_program *local, const exg_operators *operators,
                               exg_place_summary *summary, exg_error *err)
{
    const exg_graph *graph = local->graph;
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    walk w = {.graph = graph, .operators = operators};
    double *ends = NULL;
    double weights = 0;

    if (arena != NULL) {
        w.base = EXG_NEW_ARRAY(arena, exg_value_id, graph->value_count);
        w.last = EXG_NEW_ARRAY(arena, uint32_t, graph->value_count);
        w.read = EXG_NEW_ARRAY(arena, double, graph->value_count);
        w.is_weight = EXG_NEW_ARRAY(arena, bool, graph->value_count);
        ends = EXG_NEW_ARRAY(arena, double, graph->node_count + 1);
    }
    if (w.base == NULL || w.last == NULL || w.read == NULL || w.is_weight == NULL || ends == NULL) {
        exg_arena_destroy(arena);
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        w.base[v] = v;
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (graph->inputs[i].kind == EXG_ARGUMENT_TENSOR) {
            w.is_weight[graph->inputs[i].as_tensor] =
                local->signature.inputs[i].kind != EXG_INPUT_USER;
        }
    }
    take(&w);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        weights += w.read[v];
    }
    summary->weight_bytes = (uint64_t)weights;
    summary->value_bytes = (uint64_t)most_alive(&w, ends);
    exg_arena_destroy(arena);
    return EXG_OK;
}
