/* finder.c - who makes what, and a copy of the program. */
#include "libexport/transform/finder.h"
#include "libexport/operators/lower.h"
#include "libexport/program/uses.h"

#include <exg/emit.h>
#include <string.h>

const exg_tensor_meta *exg_meta_of(const exg_finder *f, exg_value_id id)
{
    return f->r.in->graph->values[id].tensor;
}

const exg_node *exg_made_by(const exg_finder *f, exg_value_id id, exg_operator_id op)
{
    const exg_node *node = id == EXG_NO_VALUE ? NULL : f->makers[id];

    return node != NULL && strcmp(node->target, exg_operators_get(f->r.operators, op)->target) == 0
               ? node
               : NULL;
}

exg_value_id exg_operand(const exg_node *node, uint32_t i)
{
    return node != NULL && i < node->input_count && node->inputs[i].arg.kind == EXG_ARGUMENT_TENSOR
               ? node->inputs[i].arg.as_tensor
               : EXG_NO_VALUE;
}

bool exg_number_of(const exg_argument *arg, double *value)
{
    if (arg->kind == EXG_ARGUMENT_FLOAT || arg->kind == EXG_ARGUMENT_INT) {
        *value = arg->kind == EXG_ARGUMENT_INT ? (double)arg->as_int : arg->as_float;
        return true;
    }
    return false;
}

exg_status exg_finder_set(exg_finder *f, const exg_node *node, exg_ref made)
{
    exg_argument args[2] = {exg_arg_ref(made)};
    exg_dims has = exg_lower_dims(f->r.builder, made);
    exg_dims sizes;

    EXG_TRY(exg_dims_of(exg_meta_of(f, node->outputs[0].as_tensor), &sizes, f->r.err));
    if (has.rank == sizes.rank && memcmp(has.n, sizes.n, has.rank * sizeof(*has.n)) == 0) {
        exg_rewrite_set(&f->r, node, args);
        return exg_builder_status(f->r.builder);
    }
    args[1] = INTS_OF(f->r.builder, sizes.n, sizes.rank);
    return exg_rewrite_emit(&f->r, node, EXG_OP_view_default, args, 2);
}

static exg_status prepare(exg_finder *f)
{
    const exg_graph *graph = f->r.in->graph;

    f->makers = EXG_NEW_ARRAY(f->r.out->arena, const exg_node *, graph->value_count);
    f->uses = exg_graph_count_uses(f->r.out->arena, graph);
    if (f->makers == NULL || f->uses == NULL) {
        return EXG_OUT_OF_MEMORY(f->r.err);
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];

        if (node->output_count == 1 && node->outputs[0].kind == EXG_ARGUMENT_TENSOR) {
            f->makers[node->outputs[0].as_tensor] = node;
        }
    }
    return exg_rewrite_inputs(&f->r);
}

static exg_status copy_node(exg_finder *f, const exg_node *node, exg_finder_write *write)
{
    exg_argument args[EXG_ARGUMENTS_MAX];
    const exg_operator *op;
    bool written = false;

    EXG_TRY(exg_rewrite_args(&f->r, node, &op, args));
    EXG_TRY(write(f, node, op, &written));
    return written ? EXG_OK
                   : exg_rewrite_emit(&f->r, node, op->id, args, op->schema->argument_count);
}

exg_status exg_find(const exg_program *functional, const exg_operators *operators,
                    exg_finder_write *write, exg_program **out, exg_error *err)
{
    exg_finder f = {0};
    exg_status status;

    *out = NULL;
    EXG_TRY(exg_rewrite_begin(&f.r, functional, operators, err));
    status = prepare(&f);
    for (uint32_t n = 0; status == EXG_OK && n < functional->graph->node_count; n++) {
        status = copy_node(&f, &functional->graph->nodes[n], write);
        if (status != EXG_OK) {
            (void)exg_error_within(err, status, "graph.nodes[%u]", n);
        }
    }
    if (status == EXG_OK) {
        status = exg_rewrite_outputs(&f.r);
    }
    return exg_rewrite_finish(&f.r, status, out);
}
