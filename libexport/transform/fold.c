/* fold.c - a convolution followed by arithmetic with one number a channel (a batch norm
 * of stored statistics, a scale, a bias) is a convolution with other weights:
 *
 *   (W x + b) * s = (s W) x + s b        (W x + b) + t = W x + (b + t)
 *
 * The new weights are nodes over weights alone, so they are computed once. Only where
 * nothing else reads the convolution; not in narrow dtypes, which would round W again.
 */
#include "libexport/transform/fold.h"
#include "libexport/program/uses.h"

#include <exg/emit.h>
#include <string.h>

/* What becomes of weight and bias; EXG_OP_NONE: nothing. */
static const struct {
    exg_operator_id op, weight, bias;
    exg_operator_id no_bias; /* what the bias is when there was none */
} rows[] = {
    {EXG_OP_mul_Tensor, EXG_OP_mul_Tensor, EXG_OP_mul_Tensor, EXG_OP_NONE},
    {EXG_OP_div_Tensor, EXG_OP_div_Tensor, EXG_OP_div_Tensor, EXG_OP_NONE},
    {EXG_OP_add_Tensor, EXG_OP_NONE, EXG_OP_add_Tensor, EXG_OP_alias_default},
    {EXG_OP_sub_Tensor, EXG_OP_NONE, EXG_OP_sub_Tensor, EXG_OP_neg_default},
};

#define ROW_COUNT        (sizeof(rows) / sizeof(rows[0]))
#define CONVOLUTION_ARGS 9
#define WEIGHT_RANK_MAX  5

/* A convolution that may be folded into. */
typedef struct product {
    const exg_node *node;
    exg_argument args[CONVOLUTION_ARGS];
} product;

typedef struct fold {
    exg_rewrite r;
    bool *constant;     /* by old value: depends on weights alone */
    uint32_t *uses;     /* by old value */
    product **products; /* by old value: the convolution that makes it */
} fold;

static bool is_state(const exg_program *program, uint32_t input)
{
    const exg_signature *s = &program->signature;

    for (uint32_t o = 0; o < s->output_count; o++) {
        if (s->outputs[o].target != NULL && s->inputs[input].target != NULL &&
            strcmp(s->outputs[o].target, s->inputs[input].target) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_constant(const fold *f, const exg_node *node, const exg_operator *op)
{
    if (op->pointwise == EXG_POINTWISE_NOT && op->view == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        const exg_argument *arg = &node->inputs[i].arg;

        if (arg->kind == EXG_ARGUMENT_TENSOR && !f->constant[arg->as_tensor]) {
            return false;
        }
    }
    return node->output_count == 1 && node->outputs[0].kind == EXG_ARGUMENT_TENSOR;
}

/* One element a channel of `product`, broadcast along the rest. */
static bool is_by_channel(const exg_tensor_meta *factor, const exg_tensor_meta *result)
{
    for (uint32_t d = 0; d < result->rank; d++) {
        uint32_t missing = result->rank - factor->rank;
        int64_t size = d < missing ? 1 : factor->sizes[d - missing].value;

        if (size != (d == 1 ? result->sizes[1].value : 1)) {
            return false;
        }
    }
    return true;
}

static bool can_fold(const fold *f, const exg_node *node, uint32_t row, const exg_argument *args)
{
    const exg_value *values = f->r.in->graph->values;
    exg_value_id x = node->inputs[0].arg.as_tensor;
    exg_value_id s = node->inputs[1].arg.as_tensor;
    const exg_tensor_meta *result = values[x].tensor;

    return f->products[x] != NULL && f->uses[x] == 1 && f->constant[s] && result->rank >= 3 &&
           values[s].tensor->rank <= result->rank && is_by_channel(values[s].tensor, result) &&
           values[s].tensor->dtype == result->dtype &&
           values[node->outputs[0].as_tensor].tensor->dtype == result->dtype &&
           (rows[row].weight != EXG_OP_NONE || exg_get_float(&args[2]) == 1);
}

/* Emits the convolution with other weights in place of the node. */
static exg_status fold_node(fold *f, const exg_node *node, uint32_t row, const exg_argument *args)
{
    exg_builder *b = f->r.builder;
    const product *before = f->products[node->inputs[0].arg.as_tensor];
    product *made = exg_arena_memdup(f->r.out->arena, before, 1, sizeof(*before));
    exg_argument *now = made == NULL ? NULL : made->args;
    exg_ref factor = exg_get_ref(&args[1]);
    exg_ref weight = exg_get_ref(&before->args[1]);
    exg_ref bias = exg_get_ref(&before->args[2]);
    const exg_tensor_meta *meta = exg_ref_meta(b, weight);
    int64_t sizes[WEIGHT_RANK_MAX] = {0};

    if (now == NULL) {
        return EXG_OUT_OF_MEMORY(f->r.err);
    }
    for (uint32_t d = 0; meta != NULL && d < meta->rank; d++) {
        sizes[d] = d == 0 ? meta->sizes[0].value : 1;
    }
    if (rows[row].weight != EXG_OP_NONE && meta != NULL) {
        exg_argument pair[2] = {before->args[1], exg_arg_ref(EMIT(b, reshape_default, factor,
                                                                  INTS_OF(b, sizes, meta->rank)))};

        now[1] = exg_arg_ref(exg_emit(b, rows[row].weight, pair, 2));
    }
    factor = EMIT(b, reshape_default, factor, INTS_OF(b, sizes, 1));
    if (bias.id != EXG_NO_VALUE) {
        exg_argument pair[2] = {before->args[2], exg_arg_ref(factor)};

        now[2] = exg_arg_ref(exg_emit(b, rows[row].bias, pair, 2));
    } else if (rows[row].no_bias != EXG_OP_NONE) {
        exg_argument one = exg_arg_ref(factor);

        now[2] = exg_arg_ref(exg_emit(b, rows[row].no_bias, &one, 1));
    }
    f->products[node->outputs[0].as_tensor] = made;
    exg_builder_set_origin(b, &before->node->metadata); /* whose work it is */
    return exg_rewrite_emit(&f->r, node, EXG_OP_convolution_default, now, CONVOLUTION_ARGS);
}

/* The convolutions that may be folded into: batched, not transposed, of wide weights. */
static exg_status note_product(fold *f, const exg_node *node, const exg_argument *args)
{
    const exg_value *values = f->r.in->graph->values;
    const exg_argument *weight = &node->inputs[1].arg;
    const exg_tensor_meta *result = values[node->outputs[0].as_tensor].tensor;
    exg_dtype dtype = result->dtype;

    if (weight->kind == EXG_ARGUMENT_TENSOR && f->constant[weight->as_tensor] &&
        !exg_get_bool(&args[6]) && result->rank <= WEIGHT_RANK_MAX &&
        values[weight->as_tensor].tensor->rank == result->rank &&
        (dtype == EXG_DTYPE_F32 || dtype == EXG_DTYPE_F64) &&
        (exg_get_ref(&args[2]).id == EXG_NO_VALUE || f->constant[node->inputs[2].arg.as_tensor])) {
        product *kept = EXG_NEW(f->r.out->arena, product);

        if (kept == NULL) {
            return EXG_OUT_OF_MEMORY(f->r.err);
        }
        kept->node = node;
        memcpy(kept->args, args, sizeof(kept->args));
        f->products[node->outputs[0].as_tensor] = kept;
    }
    return EXG_OK;
}

static exg_status copy_node(fold *f, const exg_node *node)
{
    exg_argument args[EXG_ARGUMENTS_MAX];
    const exg_operator *op;

    EXG_TRY(exg_rewrite_args(&f->r, node, &op, args));
    for (uint32_t row = 0; row < ROW_COUNT; row++) {
        if (op->id == rows[row].op && node->input_count >= 2 &&
            node->inputs[0].arg.kind == EXG_ARGUMENT_TENSOR &&
            node->inputs[1].arg.kind == EXG_ARGUMENT_TENSOR && can_fold(f, node, row, args)) {
            return fold_node(f, node, row, args);
        }
    }
    if (op->id == EXG_OP_convolution_default) {
        EXG_TRY(note_product(f, node, args));
    } else if (is_constant(f, node, op)) {
        f->constant[node->outputs[0].as_tensor] = true;
    }
    return exg_rewrite_emit(&f->r, node, op->id, args, op->schema->argument_count);
}

static exg_status prepare(fold *f)
{
    const exg_program *in = f->r.in;
    const exg_graph *graph = in->graph;
    exg_arena *arena = f->r.out->arena;

    f->constant = EXG_NEW_ARRAY(arena, bool, graph->value_count);
    f->uses = exg_graph_count_uses(arena, graph);
    f->products = EXG_NEW_ARRAY(arena, product *, graph->value_count);
    if (f->constant == NULL || f->uses == NULL || f->products == NULL) {
        return EXG_OUT_OF_MEMORY(f->r.err);
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (graph->inputs[i].kind == EXG_ARGUMENT_TENSOR &&
            in->signature.inputs[i].kind != EXG_INPUT_USER && !is_state(in, i)) {
            f->constant[graph->inputs[i].as_tensor] = true;
        }
    }
    return exg_rewrite_inputs(&f->r);
}

exg_status exg_fold(const exg_program *functional, const exg_operators *operators,
                    exg_program **out, exg_error *err)
{
    fold f = {0};
    exg_status status;

    *out = NULL;
    EXG_TRY(exg_rewrite_begin(&f.r, functional, operators, err));
    status = prepare(&f);
    for (uint32_t n = 0; status == EXG_OK && n < functional->graph->node_count; n++) {
        status = copy_node(&f, &functional->graph->nodes[n]);
    }
    if (status == EXG_OK) {
        status = exg_rewrite_outputs(&f.r);
    }
    return exg_rewrite_finish(&f.r, status, out);
}
