/* decompose.c - composite operators written out by their lowerings, until only
 * core operators and in-place writes are left. */
#include "libexport/base/given.h"
#include <exg/emit.h>
#include "libexport/operators/lower.h"
#include "libexport/transform/layout.h"
#include "libexport/transform/stretch.h"

#include <exg/transform.h>

/* A number where a tensor is due becomes a 0-d tensor; one that is a 0-d tensor already,
 * of the kind in `slots`, takes the dtype a number would. */
static void wrap_numbers(exg_rewrite *r, const exg_operator *op, exg_argument *args,
                         const exg_argument_kind *slots)
{
    exg_dtype beside = EXG_DTYPE_F32;

    for (uint32_t i = op->schema->argument_count; i-- > 0;) {
        if (args[i].kind == EXG_ARGUMENT_TENSOR &&
            (slots == NULL || slots[i] == EXG_ARGUMENT_NONE)) {
            beside = exg_ref_meta(r->builder, exg_get_ref(&args[i]))->dtype;
        }
    }
    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        bool number = args[i].kind == EXG_ARGUMENT_INT || args[i].kind == EXG_ARGUMENT_FLOAT ||
                      args[i].kind == EXG_ARGUMENT_BOOL ||
                      args[i].kind == EXG_ARGUMENT_COMPLEX;

        if (number && op->schema->arguments[i].type.base == EXG_TYPE_TENSOR) {
            args[i] = exg_arg_ref(EMIT(r->builder, full_default,
                                       exg_arg_ints(r->builder, NULL, 0), args[i],
                                       DTYPE(exg_number_dtype(args[i].kind, beside))));
        } else if (slots != NULL && slots[i] != EXG_ARGUMENT_NONE) {
            args[i] = exg_arg_ref(EMIT(r->builder, _to_copy_default, args[i],
                                       DTYPE(exg_number_dtype(slots[i], beside))));
        }
    }
}

exg_status exg_decompose_node(exg_rewrite *r, const exg_node *node, const exg_operator *op,
                              exg_argument *args, const exg_argument_kind *slots)
{
    wrap_numbers(r, op, args, slots);
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
    exg_argument args[EXG_REWRITE_ARGS_MAX];
    const exg_operator *op;

    EXG_TRY(exg_rewrite_args(r, node, &op, args));
    return exg_decompose_node(r, node, op, args, NULL);
}

exg_status exg_decompose(const exg_program *specialized, const exg_operators *operators,
                         exg_program **out, exg_error *err)
{
    EXG_GIVEN(err, specialized, operators, out);
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
