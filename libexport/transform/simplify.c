/* simplify.c - drops nodes whose results nothing uses. Every node of a functional
 * program is free of effects, so a node lives only by its results; but one that
 * exchanges with other ranks stays, since they wait for it. Before, arithmetic
 * goes into weights (fold.h) and products become what they mean (attention.h,
 * quantized.h). */
#include "libexport/transform/simplify.h"
#include "libexport/base/require.h"
#include "libexport/operators/lower.h"
#include "libexport/transform/attention.h"
#include "libexport/transform/fold.h"
#include "libexport/transform/host_operators.h"
#include "libexport/transform/quantized.h"
#include "libexport/transform/rewrite.h"

#include <exg/operator_id_new.h>
#include <string.h>

static void mark(void *user, exg_value_id *id)
{
    bool *live = user;

    if (*id != EXG_NO_VALUE) {
        live[*id] = true;
    }
}

static bool defines_live(const exg_node *node, const bool *live)
{
    for (uint32_t o = 0; o < node->output_count; o++) {
        const exg_argument *output = &node->outputs[o];

        if (output->kind == EXG_ARGUMENT_TENSOR && live[output->as_tensor]) {
            return true;
        }
        for (uint32_t i = 0; output->kind == EXG_ARGUMENT_TENSORS && i < output->count; i++) {
            if (live[output->as_tensors[i]]) {
                return true;
            }
        }
    }
    return false;
}

static bool is_live(const exg_operators *operators, const exg_node *node, const bool *live)
{
    const exg_operator *op = exg_operators_find(operators, node->target);

    return defines_live(node, live) || (op != NULL && exg_is_exchange(op->id));
}

static exg_status copy_live(exg_rewrite *r, const bool *live)
{
    const exg_graph *graph = r->in->graph;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        exg_argument args[EXG_ARGUMENTS_MAX];
        const exg_operator *op;

        if (!is_live(r->operators, &graph->nodes[n], live)) {
            continue;
        }
        EXG_TRY_IN(r->err, exg_rewrite_args(r, &graph->nodes[n], &op, args), "graph.nodes[%u]", n);
        if (op->id == EXG_OP_alias_default) {
            exg_rewrite_set(r, &graph->nodes[n], args);
            continue;
        }
        EXG_TRY_IN(r->err,
                   exg_rewrite_emit(r, &graph->nodes[n], op->id, args, op->schema->argument_count),
                   "graph.nodes[%u]", n);
    }
    return EXG_OK;
}

static exg_status rewrite_live(exg_rewrite *r, const bool *live)
{
    EXG_TRY(exg_rewrite_inputs(r));
    EXG_TRY(copy_live(r, live));
    return exg_rewrite_outputs(r);
}

/* Which values something uses; NULL: no memory. */
static bool *find_live(const exg_graph *graph, const exg_operators *operators, exg_arena *arena)
{
    bool *live = EXG_NEW_ARRAY(arena, bool, graph->value_count);

    for (uint32_t i = 0; live != NULL && i < graph->output_count; i++) {
        exg_argument_visit_values(&graph->outputs[i], mark, live);
    }
    for (uint32_t n = graph->node_count; live != NULL && n-- > 0;) {
        if (is_live(operators, &graph->nodes[n], live)) {
            for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
                exg_argument_visit_values(&graph->nodes[n].inputs[i].arg, mark, live);
            }
        }
    }
    return live;
}

exg_status exg_drop_dead(const exg_program *functional, const exg_operators *operators,
                         exg_program **out, exg_error *err)
{
    exg_rewrite r;
    bool *live;
    exg_status status;

    *out = NULL;
    EXG_TRY(exg_rewrite_begin(&r, functional, operators, err));
    live = find_live(functional->graph, operators, r.out->arena);
    status = live == NULL ? EXG_OUT_OF_MEMORY(err) : rewrite_live(&r, live);
    return exg_rewrite_finish(&r, status, out);
}

/* What stands for each value: itself, or what it is an alias of. */
static void follow(void *user, exg_value_id *id)
{
    const exg_value_id *stands = user;

    if (*id != EXG_NO_VALUE) {
        *id = stands[*id];
    }
}

/* The same in the program's own graph, which is many times faster. Values that nothing defines any
 * more stay in its table: a plan does not look at them. */
static exg_status drop_dead_here(exg_program *program, const exg_operators *operators,
                                 exg_error *err)
{
    exg_graph *graph = program->graph;
    const bool *live = find_live(graph, operators, program->arena);
    exg_value_id *stands = EXG_NEW_ARRAY(program->arena, exg_value_id, graph->value_count);
    uint32_t kept = 0;

    if (live == NULL || stands == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        stands[v] = v;
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        exg_node *node = &graph->nodes[n];
        const exg_operator *op = exg_operators_find(operators, node->target);

        if (!is_live(operators, node, live)) {
            continue;
        }
        for (uint32_t i = 0; i < node->input_count; i++) {
            exg_argument_visit_values(&node->inputs[i].arg, follow, stands);
        }
        if (op != NULL && op->id == EXG_OP_alias_default) {
            stands[node->outputs[0].as_tensor] = node->inputs[0].arg.as_tensor;
            continue;
        }
        graph->nodes[kept++] = *node;
    }
    graph->node_count = kept;
    for (uint32_t i = 0; i < graph->output_count; i++) {
        exg_argument_visit_values(&graph->outputs[i], follow, stands);
        if (graph->outputs[i].kind == EXG_ARGUMENT_TENSOR) {
            program->signature.outputs[i].arg.name =
                graph->values[graph->outputs[i].as_tensor].name;
        }
    }
    return EXG_OK;
}

typedef exg_status pass(const exg_program *functional, const exg_operators *operators,
                        exg_program **out, exg_error *err);

typedef enum where { ANYWHERE, ON_HOST, ON_DEVICE } where;

/* What is done, in order, to programs that call an operator. */
static const struct {
    exg_operator_id op;
    pass *run;
    where where;
} passes[] = {
    {EXG_OP__to_copy_default, exg_find_quantized, ON_HOST}, /* before weights are folded into */
    {EXG_OP_convolution_default, exg_fold, ANYWHERE},
    {EXG_OP_bmm_default, exg_find_attention, ANYWHERE},
    {EXG_OP_cummax_default, exg_part_host_operators, ON_DEVICE},
    {EXG_OP_cummin_default, exg_part_host_operators, ON_DEVICE},
    {EXG_OP_edge_pad, exg_part_host_operators, ON_DEVICE},
    {EXG_OP_add_rows, exg_part_host_operators, ON_DEVICE},
    {EXG_OP_distances, exg_part_host_operators, ON_DEVICE},
    {EXG_OP_weighted_gather, exg_part_host_operators, ON_DEVICE},
    {EXG_OP_resample, exg_part_host_operators, ON_DEVICE},
};

static bool calls(const exg_program *program, const exg_operators *operators, exg_operator_id op)
{
    const char *target = exg_operators_get(operators, op)->target;

    for (uint32_t n = 0; n < program->graph->node_count; n++) {
        if (strcmp(program->graph->nodes[n].target, target) == 0) {
            return true;
        }
    }
    return false;
}

/* Runs the passes that the program is for; what they made, or NULL where none had to. */
static exg_status run_passes(const exg_program *program, const exg_operators *operators,
                             bool on_host, exg_program **made, exg_error *err)
{
    exg_status status = EXG_OK;

    *made = NULL;
    for (size_t i = 0; i < sizeof(passes) / sizeof(passes[0]) && status == EXG_OK; i++) {
        if (passes[i].where != (on_host ? ON_DEVICE : ON_HOST) &&
            calls(program, operators, passes[i].op)) {
            exg_program *next = NULL;

            status = passes[i].run(program, operators, &next, err);
            exg_program_destroy(*made);
            program = *made = next;
        }
    }
    return status;
}

exg_status exg_simplify_here(exg_program **functional, const exg_operators *operators, bool on_host,
                             exg_error *err)
{
    exg_program *made;
    exg_program *copy = NULL;
    exg_status status = run_passes(*functional, operators, on_host, &made, err);

    if (status == EXG_OK && made == NULL) {
        return drop_dead_here(*functional, operators, err);
    }
    if (status == EXG_OK) { /* what a pass makes may still hold lists of what it was made from */
        status = exg_drop_dead(made, operators, &copy, err);
    }
    exg_program_destroy(made);
    if (status == EXG_OK) {
        exg_program_destroy(*functional);
        *functional = copy;
    }
    return status;
}

exg_status exg_simplify(const exg_program *functional, const exg_operators *operators,
                        exg_program **out, exg_error *err)
{
    EXG_REQUIRE(err, functional, operators, out);
    exg_program *made;
    exg_status status = run_passes(functional, operators, true, &made, err);

    *out = NULL;
    if (status == EXG_OK) {
        status = exg_drop_dead(made == NULL ? functional : made, operators, out, err);
    }
    exg_program_destroy(made);
    return status;
}
