/* subgraph_rules.c - higher-order operators and the graphs they are given: operands
 * against inputs, outputs against results (GRF-010, GRF-011). Sizes are compared where
 * both are numbers.
 */
#include "libexport/verify/verifier.h"

#include <string.h>

#define HIGHER_ORDER               "torch.ops.higher_order."
#define COND                       HIGHER_ORDER "cond"
#define WHILE_LOOP                 HIGHER_ORDER "while_loop"
#define SCAN                       HIGHER_ORDER "scan"
#define MAP                        HIGHER_ORDER "map_impl"
#define WRAP_WITH_SET_GRAD_ENABLED HIGHER_ORDER "wrap_with_set_grad_enabled"
#define WRAP_WITH_AUTOCAST         HIGHER_ORDER "wrap_with_autocast"
#define INVOKE_SUBGRAPH            HIGHER_ORDER "invoke_subgraph"

/* How operands become inputs of the subgraph. */
typedef enum operands {
    OPERANDS_LISTS,  /* lists after the graphs, end to end */
    OPERANDS_SINGLE, /* one by one after the graph */
} operands;

/* cond(predicate, true, false, operands), while_loop(condition, body, carried, others),
 * scan(combine, carries, xs, others), map_impl(body, mapped, others), wrappers. */
static const struct {
    const char *target;
    operands operands;
    uint32_t graphs;    /* of the node */
    int32_t sliced;     /* the list that is cut along dim 0, or -1 */
    bool carries;       /* list 0 comes back as the first results */
    bool has_predicate; /* input 0, before the graphs */
    bool has_condition; /* the first graph gives one bool */
    bool same_results;  /* what the last graph returns is what the node gives */
} rows[] = {
    {COND, OPERANDS_LISTS, 2, -1, false, true, false, true},
    {WHILE_LOOP, OPERANDS_LISTS, 2, -1, true, false, true, true},
    {SCAN, OPERANDS_LISTS, 1, 1, true, false, false, false},
    {MAP, OPERANDS_LISTS, 1, 0, false, false, false, false},
    {WRAP_WITH_SET_GRAD_ENABLED, OPERANDS_SINGLE, 1, -1, false, false, false, true},
    {WRAP_WITH_AUTOCAST, OPERANDS_SINGLE, 1, -1, false, false, false, true},
    {INVOKE_SUBGRAPH, OPERANDS_SINGLE, 1, -1, false, false, false, true},
};

/* One operand: a value of the outer graph, or a constant (EXG_NO_VALUE). */
typedef struct operand {
    exg_value_id id;
    bool sliced; /* the subgraph sees a slice of dim 0 */
} operand;

typedef struct call {
    exg_verifier *v;
    const exg_graph *outer;
    const exg_node *node;
    const exg_model_path *path;
    const exg_graph *graphs[2];
    uint32_t graph_count;
    operand *operands;
    uint32_t operand_count, operand_capacity;
    uint32_t carried; /* operands that come back */
} call;

static const exg_tensor_meta *meta_of(const exg_graph *graph, const exg_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_TENSOR && arg->as_tensor != EXG_NO_VALUE
               ? graph->values[arg->as_tensor].tensor
               : NULL;
}

/* Alike as far as numbers tell; `skip` leading dims of `a` are not looked at. */
static bool alike(const exg_tensor_meta *a, uint32_t skip, const exg_tensor_meta *b)
{
    if (a == NULL || b == NULL) {
        return true; /* sizes and constants */
    }
    if (a->dtype != b->dtype || a->rank < skip || a->rank - skip != b->rank) {
        return false;
    }
    for (uint32_t d = 0; d < b->rank; d++) {
        const exg_sym_int *size = &a->sizes[d + skip];

        if (size->expr == NULL && b->sizes[d].expr == NULL && size->value != b->sizes[d].value) {
            return false;
        }
    }
    return true;
}

static bool add_operand(call *c, exg_value_id id, bool sliced)
{
    if (!exg_arena_reserve(c->v->scratch, &c->operands, c->operand_count, &c->operand_capacity,
                           sizeof(operand))) {
        c->v->failed = true;
        return false;
    }
    c->operands[c->operand_count++] = (operand){id, sliced};
    return true;
}

static bool add_list(call *c, const exg_argument *arg, bool sliced)
{
    bool fine = true;

    switch (arg->kind) {
    case EXG_ARGUMENT_TENSORS:
    case EXG_ARGUMENT_OPTIONAL_TENSORS:
        for (uint32_t i = 0; fine && i < arg->count; i++) {
            fine = add_operand(c, arg->as_tensors[i], sliced);
        }
        return fine;
    case EXG_ARGUMENT_INTS:
    case EXG_ARGUMENT_FLOATS:
    case EXG_ARGUMENT_BOOLS:
        for (uint32_t i = 0; fine && i < arg->count; i++) {
            fine = add_operand(c, EXG_NO_VALUE, false);
        }
        return fine;
    case EXG_ARGUMENT_SYM_INTS:
        for (uint32_t i = 0; fine && i < arg->count; i++) {
            fine = add_operand(c, arg->as_syms[i].value, false);
        }
        return fine;
    default:
        return false; /* nothing that this operator is known to take */
    }
}

/* Gathers graphs and operands; false when the call has another form. */
static bool gather(call *c, size_t row)
{
    uint32_t list = 0;

    for (uint32_t i = 0; i < c->node->input_count; i++) {
        const exg_argument *arg = &c->node->inputs[i].arg;

        if (arg->kind == EXG_ARGUMENT_GRAPH) {
            if (c->graph_count == rows[row].graphs) {
                return false;
            }
            c->graphs[c->graph_count++] = arg->as_graph->graph;
        } else if (c->graph_count < rows[row].graphs) {
            continue; /* the predicate, a mode */
        } else if (rows[row].operands == OPERANDS_LISTS) {
            if (!add_list(c, arg, (int32_t)list == rows[row].sliced)) {
                return false;
            }
            c->carried = list == 0 ? c->operand_count : c->carried;
            list++;
        } else if (arg->kind != EXG_ARGUMENT_STRING &&
                   !add_operand(c, arg->kind == EXG_ARGUMENT_TENSOR ? arg->as_tensor : EXG_NO_VALUE,
                                false)) {
            return false;
        }
    }
    return c->graph_count == rows[row].graphs;
}

static void check_inputs(call *c, uint32_t g)
{
    const exg_graph *graph = c->graphs[g];

    if (graph->input_count != c->operand_count) {
        exg_found(c->v, "GRF-010", c->path, "%u operands for a subgraph of %u inputs",
                  c->operand_count, graph->input_count);
        return;
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const operand *from = &c->operands[i];
        const exg_tensor_meta *outer =
            from->id == EXG_NO_VALUE ? NULL : c->outer->values[from->id].tensor;

        if (!alike(outer, from->sliced, meta_of(graph, &graph->inputs[i]))) {
            exg_found(c->v, "GRF-010", c->path,
                      "operand %u has another dtype or size than the subgraph's input", i);
        }
    }
}

/* One bool; or of `any_number` dtype, which Python takes for true where it is not zero. */
static bool is_truth(const exg_graph *graph, const exg_argument *arg, bool any_number)
{
    const exg_tensor_meta *meta = meta_of(graph, arg);
    int64_t numel;

    if (arg->kind == EXG_ARGUMENT_SYM_BOOL || arg->kind == EXG_ARGUMENT_BOOL) {
        return true;
    }
    return meta != NULL &&
           (meta->dtype == EXG_DTYPE_B8 || (any_number && !exg_dtype_is_complex(meta->dtype))) &&
           (!exg_tensor_meta_is_static(meta) ||
            (exg_tensor_meta_numel(meta, &numel) && numel == 1));
}

/* Values that the node gives, lists laid out flat. */
static uint32_t count_results(const exg_node *node)
{
    uint32_t count = 0;

    for (uint32_t o = 0; o < node->output_count; o++) {
        count += node->outputs[o].kind == EXG_ARGUMENT_TENSORS ? node->outputs[o].count : 1;
    }
    return count;
}

static bool is_missing(const exg_argument *result, const exg_argument *output)
{
    return result->kind == EXG_ARGUMENT_NONE && output->kind == EXG_ARGUMENT_TENSOR;
}

static void check_results(call *c, size_t row)
{
    const exg_graph *last = c->graphs[c->graph_count - 1];
    uint32_t first = rows[row].has_condition ? c->graph_count - 1 : 0;

    for (uint32_t g = first; g < c->graph_count; g++) {
        const exg_graph *graph = c->graphs[g];

        if (graph->is_single_tensor_return && graph->output_count != 1) {
            return; /* GRF-004 */
        }
        if (graph->output_count != count_results(c->node)) {
            exg_found(c->v, "GRF-011", c->path, "a subgraph returns %u values, the node gives %u",
                      graph->output_count, count_results(c->node));
            return;
        }
        for (uint32_t o = 0; rows[row].same_results && o < c->node->output_count &&
                             c->node->output_count == graph->output_count;
             o++) {
            const exg_argument *result = &graph->outputs[o];
            const exg_argument *output = &c->node->outputs[o];

            if (!alike(meta_of(graph, result), 0, meta_of(c->outer, output))) {
                exg_found(c->v, "GRF-011", c->path,
                          "result %u of a subgraph has another dtype or size than the node's", o);
            } else if (is_missing(result, output)) {
                exg_found(c->v, "GRF-011", c->path,
                          "a subgraph gives nothing as result %u, which is a tensor of the node",
                          o);
            }
        }
    }
    for (uint32_t i = 0; rows[row].carries && i < c->carried; i++) {
        const exg_value_id id = c->operands[i].id;

        if (i >= last->output_count ||
            !alike(id == EXG_NO_VALUE ? NULL : c->outer->values[id].tensor, 0,
                   meta_of(last, &last->outputs[i]))) {
            exg_found(c->v, "GRF-011", c->path, "what is carried as %u does not come back so", i);
        }
    }
}

void exg_verify_subgraphs(exg_verifier *v, const exg_graph *graph, const exg_node *node,
                          const exg_model_path *path)
{
    call c = {.v = v, .outer = graph, .node = node, .path = path};
    size_t row = 0;

    while (row < sizeof(rows) / sizeof(rows[0]) && strcmp(rows[row].target, node->target) != 0) {
        row++;
    }
    if (row == sizeof(rows) / sizeof(rows[0])) {
        return;
    }
    exg_arena_reset(v->scratch);
    if (!gather(&c, row)) {
        exg_found(v, "GRF-010", path, "%s is given other things than graphs and operands",
                  node->target);
        return;
    }
    for (uint32_t g = 0; g < c.graph_count; g++) {
        check_inputs(&c, g);
    }
    if (rows[row].has_predicate && !is_truth(graph, &node->inputs[0].arg, true)) {
        exg_found(v, "GRF-011", path, "the predicate is not one number");
    }
    if (rows[row].has_condition && (c.graphs[0]->output_count != 1 ||
                                    !is_truth(c.graphs[0], &c.graphs[0]->outputs[0], false))) {
        exg_found(v, "GRF-011", path, "the condition does not give one bool");
    }
    check_results(&c, row);
}
