/* decompose.c - composite operators written out by their lowerings, until only
 * core operators and in-place writes are left. */
#include "libexport/base/require.h"
#include "libexport/operators/aten.h"
#include "libexport/operators/lower.h"
#include "libexport/transform/graph_segment.h"
#include "libexport/transform/layout.h"

#include <exg/transform.h>
#include <string.h>

/* PyTorch takes a number for the second tensor of a node, for the first only in what it exports. */
static bool is_number(const exg_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_INT || arg->kind == EXG_ARGUMENT_FLOAT ||
           arg->kind == EXG_ARGUMENT_BOOL || arg->kind == EXG_ARGUMENT_COMPLEX;
}

exg_status exg_decompose_node(exg_rewrite *r, const exg_node *node, const exg_operator *op,
                              exg_argument *args, const exg_argument_kind *scalar_reads)
{
    const exg_operator_id by_number = exg_lower_product_by_number(r->builder, op->id, args);
    const bool is_product = by_number != EXG_OP_NONE;

    if (is_product && (args[1].kind == EXG_ARGUMENT_INT || args[1].kind == EXG_ARGUMENT_FLOAT)) {
        op = exg_operators_get(r->operators, by_number);
    }
    if (op->id == EXG_OP_detach__default) { /* of no gradients; PyTorch detaches no view in place */
        op = exg_operators_get(r->operators, EXG_OP_detach_default);
    }
    EXG_TRY(exg_check_bools(op, args, exg_builder_graph(r->builder), r->err));
    if (scalar_reads != NULL || exg_operators_aten(r->operators, op->id) == NULL ||
        is_number(&args[0])) {
        exg_lower_wrap_numbers(r->builder, op, args, scalar_reads, is_product);
    }
    if (exg_layout_is_spoken_of(op)) {
        return exg_layout_emit(r, node, op, args);
    }
    if (op->id == EXG_OP_view_default) {
        EXG_TRY(exg_layout_allow_view(r, args));
    }
    EXG_TRY(exg_rewrite_emit(r, node, op->id, args, op->schema->argument_count));
    return exg_layout_adopt_results(r, node, op);
}

static exg_status decompose_node(exg_rewrite *r, const exg_node *node)
{
    exg_argument args[EXG_ARGUMENTS_MAX];
    const exg_operator *op;

    EXG_TRY(exg_rewrite_args(r, node, &op, args));
    return exg_decompose_node(r, node, op, args, NULL);
}

exg_status exg_decompose(const exg_program *specialized, const exg_operators *operators,
                         exg_program **out, exg_error *err)
{
    EXG_REQUIRE(err, specialized, operators, out);
    exg_rewrite r;
    exg_status status;

    *out = NULL;
    EXG_TRY(exg_rewrite_begin(&r, specialized, operators, err));
    exg_builder_set_lowering(r.builder, true);
    status = exg_rewrite_inputs(&r);
    for (uint32_t n = 0; status == EXG_OK && n < specialized->graph->node_count; n++) {
        status = decompose_node(&r, &specialized->graph->nodes[n]);
        if (status != EXG_OK) {
            (void)exg_error_within(err, status, "graph.nodes[%u]", n);
        }
    }
    if (status == EXG_OK) {
        status = exg_rewrite_outputs(&r);
    }
    return exg_rewrite_finish(&r, status, out);
}
