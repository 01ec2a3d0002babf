/* decompose.c - composite operators written out by their lowerings, until only
 * core operators and in-place writes are left. */
#include "libexport/base/require.h"
#include "libexport/operators/aten.h"
#include "libexport/operators/lower.h"
#include "libexport/transform/graph_segment.h"
#include "libexport/transform/layout.h"
#include <exg/emit.h>

#include <exg/transform.h>
#include <string.h>

/* Of operators that multiply or divide: the one that takes the second operand as a number. */
static const struct {
    exg_operator_id id, by_number;
} products[] = {
#define ROW(id, by_number)                                                                         \
    {                                                                                              \
        EXG_OP_##id, EXG_OP_##by_number                                                            \
    }
    ROW(mul_Tensor, mul_Scalar),
    ROW(mul__Tensor, mul__Scalar),
    ROW(mul_out, mul_Scalar_out),
    ROW(multiply_Tensor, multiply_Scalar),
    ROW(multiply__Tensor, multiply__Scalar),
    ROW(multiply_out, mul_Scalar_out),
    ROW(div_Tensor, div_Scalar),
    ROW(div__Tensor, div__Scalar),
    ROW(div_out, div_Scalar_out),
    ROW(div_Tensor_mode, div_Scalar_mode),
    ROW(div__Tensor_mode, div__Scalar_mode),
    ROW(div_out_mode, div_Scalar_mode_out),
    ROW(divide_Tensor, divide_Scalar),
    ROW(divide__Tensor, divide__Scalar),
    ROW(divide_out, div_Scalar_out),
    ROW(divide_Tensor_mode, divide_Scalar_mode),
    ROW(divide__Tensor_mode, divide__Scalar_mode),
    ROW(divide_out_mode, div_Scalar_mode_out),
    ROW(true_divide_Tensor, true_divide_Scalar),
    ROW(true_divide__Tensor, true_divide__Scalar),
    ROW(true_divide_out, div_Scalar_out),
    ROW(floor_divide_default, floor_divide_Scalar),
    ROW(floor_divide__Tensor, floor_divide__Scalar),
    ROW(floor_divide_out, floor_divide_Scalar_out),
#undef ROW
};

/* The operator by a number, where the first operand has floats of 16 bits; else EXG_OP_NONE.
 * Of those PyTorch multiplies and divides in float32 by the number as it is (float16 * 70000); it
 * adds what the number becomes in their dtype. */
static exg_operator_id product_by_number(const exg_rewrite *r, exg_operator_id id,
                                         const exg_argument *args)
{
    const exg_tensor_meta *meta = NULL;

    if (args[0].kind == EXG_ARGUMENT_TENSOR) {
        meta = exg_ref_meta(r->builder, exg_get_ref(&args[0]));
    }
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
        if (products[i].id == id && meta != NULL &&
            (meta->dtype == EXG_DTYPE_F16 || meta->dtype == EXG_DTYPE_BF16)) {
            return products[i].by_number;
        }
    }
    return EXG_OP_NONE;
}

/* PyTorch takes a number for the second tensor of a node, for the first only in what it exports. */
static bool is_number(const exg_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_INT || arg->kind == EXG_ARGUMENT_FLOAT ||
           arg->kind == EXG_ARGUMENT_BOOL || arg->kind == EXG_ARGUMENT_COMPLEX;
}

exg_status exg_decompose_node(exg_rewrite *r, const exg_node *node, const exg_operator *op,
                              exg_argument *args, const exg_argument_kind *scalar_reads)
{
    const exg_operator_id by_number = product_by_number(r, op->id, args);
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
