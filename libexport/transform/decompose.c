/* decompose.c - composite operators written out by their lowerings, until only
 * core operators and in-place writes are left. */
#include "libexport/transform/rewrite.h"

#include <exg/transform.h>

static exg_status decompose_node(exg_rewrite *r, const exg_node *node)
{
    exg_argument args[EXG_REWRITE_ARGS_MAX];
    const exg_operator *op;

    EXG_TRY(exg_rewrite_args(r, node, &op, args));
    /* Strides of ours may differ from those the file was traced with, so a view
     * that does not fit them is a view of a copy. */
    return exg_rewrite_emit(r, node,
                            op->id == EXG_OP_view_default ? EXG_OP_reshape_default : op->id, args,
                            op->schema->argument_count);
}

exg_status exg_decompose(const exg_program *specialized, const exg_operators *operators,
                         exg_program **out, exg_error *err)
{
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
    status = status == EXG_OK ? exg_rewrite_outputs(&r) : status;
    return exg_rewrite_finish(&r, status, out);
}
