/* decompose.c - composite operators written out by their lowerings, until only
 * core operators and in-place writes are left. */
#include "libexport/base/given.h"
#include <exg/emit.h>
#include "libexport/operators/lower.h"
#include "libexport/transform/layout.h"
#include "libexport/transform/stretch.h"

#include <exg/transform.h>
#include <string.h>

/* PyTorch multiplies and divides in float32 by a number as it is, where the tensor's floats have 16
 * bits and do not hold it (float16 * 70000); it adds what the number becomes in the tensor's. */
static bool is_wide(exg_rewrite *r, const exg_operator *op, const exg_argument *args)
{
    exg_operator_id id = op->functional == EXG_OPERATOR_COUNT ? op->id : op->functional;
    const exg_tensor_meta *meta;

    if ((id != EXG_OP_mul_Tensor && id != EXG_OP_div_Tensor && id != EXG_OP_div_Tensor_mode) ||
        args[0].kind != EXG_ARGUMENT_TENSOR ||
        (args[1].kind != EXG_ARGUMENT_INT && args[1].kind != EXG_ARGUMENT_FLOAT)) {
        return false;
    }
    meta = exg_ref_meta(r->builder, exg_get_ref(&args[0]));
    return meta != NULL && (meta->dtype == EXG_DTYPE_F16 || meta->dtype == EXG_DTYPE_BF16) &&
           !exg_keeps_value(meta->dtype, &args[1]);
}

static exg_status emit_wide(exg_rewrite *r, const exg_node *node, const exg_operator *op,
                            const exg_argument *args)
{
    exg_builder *b = r->builder;
    exg_dtype dtype = exg_ref_meta(b, exg_get_ref(&args[0]))->dtype;
    const exg_operator *functional = op;
    exg_argument wide[EXG_REWRITE_ARGS_MAX];
    exg_ref result;

    if (op->functional == EXG_OPERATOR_COUNT) {
        memcpy(wide, args, op->schema->argument_count * sizeof(*args));
    } else {
        functional = exg_operators_get(r->operators, op->functional);
        exg_operator_functional_args(op, functional, args, wide);
    }
    wide[0] = exg_arg_ref(exg_lower_cast(b, exg_get_ref(&args[0]), EXG_DTYPE_F32));
    wide[1] = exg_arg_ref(exg_lower_wrapped(b, &args[1], EXG_DTYPE_F32));
    result = exg_emit(b, functional->id, wide, functional->schema->argument_count);
    EXG_TRY(exg_builder_status(b));
    if (op->functional == EXG_OPERATOR_COUNT) {
        return exg_rewrite_emit(r, node, EXG_OP__to_copy_default,
                                (const exg_argument[]){exg_arg_ref(result), DTYPE(dtype)}, 2);
    }
    return exg_rewrite_emit(r, node, EXG_OP_copy__default,
                            (const exg_argument[]){args[0], exg_arg_ref(result)}, 2);
}

exg_status exg_decompose_node(exg_rewrite *r, const exg_node *node, const exg_operator *op,
                              exg_argument *args, const exg_argument_kind *slots)
{
    if (is_wide(r, op, args)) {
        EXG_TRY(emit_wide(r, node, op, args));
        return exg_layout_adopt_results(r, node, op);
    }
    exg_lower_wrap_numbers(r->builder, op, args, slots);
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
