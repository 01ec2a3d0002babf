/* emitted_rules.c - strategies in which a rank runs something else than the operator itself: what
 * it does on a dim that is split needs the other ranks' parts, or its own place among them.
 * For a softmax the largest and the sum are exchanged, not all that is summed; a rank looks up only
 * what its part of a table has. Only for placers that emit (exg_rule_call.emits).
 */
#include "libexec/sharding/rules.h"
#include "libexport/operators/shape.h"

#include <exg/emit.h>
#include <exg/operator_id_new.h>

#define EXG_NAMED_RULE(name) exg_operator_rule exg_rule_##name;
#include "libexec/sharding/named_rules.def"
#undef EXG_NAMED_RULE

/* ---- softmax -------------------------------------------------------------------------- */

static exg_ref reduced(const exg_emission *e, exg_ref x, const char *op)
{
    return EMIT(e->builder, exg_all_reduce, x, exg_arg_string(op), e->mesh_dim);
}

/* x less the largest of all ranks, in float32 at least; *sum: of its exponentials. */
static exg_ref shifted(const exg_emission *e, exg_ref *exponentials, exg_ref *sum)
{
    exg_builder *b = e->builder;
    const exg_tensor_meta *in = e->call->operands[0];
    exg_argument dims = INTS(b, exg_get_int(&e->args[1]));
    exg_ref x = exg_get_ref(&e->args[0]);

    if (exg_dtype_bytes(in->dtype) == 2) {
        x = EMIT(b, _to_copy_default, x, DTYPE(EXG_DTYPE_F32));
    }
    x = EMIT(b, sub_Tensor, x, reduced(e, EMIT(b, amax_default, x, dims, true), "max"));
    *exponentials = EMIT(b, exp_default, x);
    *sum = reduced(e, EMIT(b, sum_dim_IntList, *exponentials, dims, true), "sum");
    return x;
}

static void put_softmax(const exg_emission *e, exg_ref y)
{
    exg_dtype dtype = e->call->results[0]->dtype;

    if (exg_dtype_bytes(dtype) == 2) {
        y = EMIT(e->builder, _to_copy_default, y, DTYPE(dtype));
    }
    e->results[0] = exg_arg_ref(y);
}

static void emit_softmax(const exg_emission *e)
{
    exg_ref exponentials;
    exg_ref sum;

    (void)shifted(e, &exponentials, &sum);
    put_softmax(e, EMIT(e->builder, div_Tensor, exponentials, sum));
}

static void emit_log_softmax(const exg_emission *e)
{
    exg_ref exponentials;
    exg_ref sum;
    exg_ref x = shifted(e, &exponentials, &sum);

    put_softmax(e, EMIT(e->builder, sub_Tensor, x, EMIT(e->builder, log_default, sum)));
}

exg_status exg_rule_softmax(exg_rule_call *call)
{
    const exg_tensor_meta *in = call->operands[0];
    int64_t at = exg_get_int(&call->args[1]);
    uint32_t dim = (uint32_t)(at < 0 ? at + in->rank : at);
    exg_strategy *strategy;

    EXG_TRY(exg_rule_along_dim(call));
    if (!call->emits || dim >= in->rank || !exg_is_real(in->dtype) ||
        !exg_all_have(call, in->sizes[dim].value, 1)) {
        return EXG_OK;
    }
    strategy = exg_strategy_add_emitted(
        call, call->op->id == EXG_OP__softmax_default ? emit_softmax : emit_log_softmax);
    if (strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    strategy->operands[0] = strategy->results[0] = exg_shard((int32_t)dim);
    strategy->reduces = 2;
    strategy->reduced_bytes = exg_bytes_without(in, dim);
    return EXG_OK;
}

/* ---- attention -------------------------------------------------------------------------- */

/* Position i sees the keys up to i, counted in the whole: a mask says so for the own part. */
static void emit_causal(const exg_emission *e)
{
    exg_builder *b = e->builder;
    const exg_function_schema *schema = e->call->op->schema;
    const exg_tensor_meta *query = e->call->operands[0];
    const exg_tensor_meta *key = e->call->operands[1];
    exg_argument args[EXG_ARGUMENTS_MAX];
    int64_t offset;
    int64_t rows = exg_own_chunk(e, query->sizes[query->rank - 2].value, &offset);
    exg_ref positions = EMIT(b, arange_start_step, offset, offset + rows, 1, DTYPE(EXG_DTYPE_I64));
    exg_ref keys =
        EMIT(b, arange_start_step, 0, key->sizes[key->rank - 2].value, 1, DTYPE(EXG_DTYPE_I64));

    for (uint32_t i = 0; i < schema->argument_count; i++) {
        args[i] = e->args[i];
    }
    args[3] = exg_arg_ref(EMIT(b, le_Tensor, keys, EMIT(b, unsqueeze_default, positions, 1)));
    args[4] = exg_arg_bool(false);
    exg_emit_all(b, e->call->op->id, args, schema->argument_count, e->results);
}

exg_status exg_add_causal_attention(exg_rule_call *call)
{
    exg_strategy *strategy;

    if (!call->emits || call->operands[3] != NULL) {
        return EXG_OK;
    }
    strategy = exg_strategy_add_emitted(call, emit_causal);
    if (strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    strategy->operands[0] = strategy->results[0] = exg_shard((int32_t)call->operands[0]->rank - 2);
    return EXG_OK;
}

/* ---- running sums and products ---------------------------------------------------------- */

static exg_ref total(const exg_emission *e, exg_ref x)
{
    exg_argument dtype = DTYPE(e->call->results[0]->dtype);
    exg_argument dim = e->args[1];

    return e->call->op->id == EXG_OP_cumsum_default
               ? EMIT(e->builder, sum_dim_IntList, x, INTS(e->builder, exg_get_int(&dim)), true,
                      dtype)
               : EMIT(e->builder, prod_dim_int, x, dim, true, dtype);
}

/* Of the own part, with what the ranks in front have in all. */
static void emit_running(const exg_emission *e)
{
    exg_builder *b = e->builder;
    exg_argument dim = e->args[1];
    exg_argument dtype = DTYPE(e->call->results[0]->dtype);
    exg_ref x = exg_get_ref(&e->args[0]);
    exg_ref totals = EMIT(b, exg_all_gather, total(e, x), dim, e->call->mesh_size, e->mesh_dim);
    exg_ref before = total(e, EMIT(b, slice_Tensor, totals, dim, 0, e->rank, 1));

    e->results[0] =
        exg_arg_ref(e->call->op->id == EXG_OP_cumsum_default
                        ? EMIT(b, add_Tensor, EMIT(b, cumsum_default, x, dim, dtype), before)
                        : EMIT(b, mul_Tensor, EMIT(b, cumprod_default, x, dim, dtype), before));
}

exg_status exg_rule_cumsum(exg_rule_call *call)
{
    const exg_tensor_meta *in = call->operands[0];
    int64_t at = exg_get_int(&call->args[1]);
    uint32_t dim = (uint32_t)(at < 0 ? at + in->rank : at);
    exg_strategy *strategy;

    EXG_TRY(exg_rule_along_dim(call));
    if (!call->emits || dim >= in->rank || exg_dtype_bytes(call->results[0]->dtype) < 4 ||
        call->results[0]->dtype == EXG_DTYPE_C64 || call->results[0]->dtype == EXG_DTYPE_C128) {
        return EXG_OK;
    }
    strategy = exg_strategy_add_emitted(call, emit_running);
    if (strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    strategy->operands[0] = strategy->results[0] = exg_shard((int32_t)dim);
    strategy->gathers = 1;
    strategy->reduced_bytes = call->mesh_size * exg_bytes_without(call->results[0], dim);
    return EXG_OK;
}

/* ---- means ------------------------------------------------------------------------------- */

/* Of parts of different lengths: the part's sum, divided by the length of the whole. */
static void emit_mean(const exg_emission *e)
{
    exg_builder *b = e->builder;
    const exg_tensor_meta *in = e->call->operands[0];
    bool in_set[EXG_SHAPE_RANK_MAX] = {false};
    double count = 1;
    exg_ref sum;

    (void)exg_dim_set(&e->args[1], in->rank, in_set, NULL);
    for (uint32_t d = 0; d < in->rank; d++) {
        count *= in_set[d] ? (double)in->sizes[d].value : 1;
    }
    sum = EMIT(b, sum_dim_IntList, e->args[0], e->args[1], e->args[2],
               DTYPE(e->call->results[0]->dtype));
    e->results[0] = exg_arg_ref(EMIT(b, div_Scalar, sum, exg_arg_float(count)));
}

exg_status exg_add_uneven_mean(exg_rule_call *call, uint32_t dim)
{
    exg_strategy *strategy = call->emits ? exg_strategy_add_emitted(call, emit_mean) : NULL;

    if (call->emits && strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    if (strategy != NULL) {
        strategy->operands[0] = exg_shard((int32_t)dim);
        strategy->results[0] = exg_partial(EXG_REDUCE_SUM);
    }
    return EXG_OK;
}

/* ---- looking up ------------------------------------------------------------------------- */

/* *index, indices into the whole of dim `dim` of the first operand, become indices into the own
 * part of it; *others: which are another rank's, and read place 0 instead. What is no index of the
 * whole stays none. False, and zeros as the result: the rank has no part of the dim. */
static bool own_indices(const exg_emission *e, uint32_t dim, exg_ref *index, exg_ref *others)
{
    exg_builder *b = e->builder;
    int64_t length = e->call->operands[0]->sizes[dim].value;
    int64_t offset;
    int64_t size = exg_own_chunk(e, length, &offset);
    exg_ref below;
    exg_ref above;

    if (size == 0) {
        e->results[0] = exg_arg_ref(exg_emit_zeros(e));
        return false;
    }
    below = EMIT(b, logical_and_default, EMIT(b, ge_Scalar, *index, 0),
                 EMIT(b, lt_Scalar, *index, offset));
    above = EMIT(b, logical_and_default, EMIT(b, ge_Scalar, *index, offset + size),
                 EMIT(b, lt_Scalar, *index, length));
    *others = EMIT(b, logical_or_default, below, above);
    *index = EMIT(b, masked_fill_Scalar, EMIT(b, sub_Scalar, *index, offset), *others, 0);
    return true;
}

static uint32_t dim_argument(const exg_emission *e)
{
    int64_t at = exg_get_int(&e->args[1]);

    return (uint32_t)(at < 0 ? at + e->call->operands[0]->rank : at);
}

static void emit_embedding(const exg_emission *e)
{
    exg_builder *b = e->builder;
    exg_ref index = exg_get_ref(&e->args[1]);
    exg_ref others;

    if (own_indices(e, 0, &index, &others)) {
        index = EMIT(b, embedding_default, e->args[0], index);
        e->results[0] = exg_arg_ref(
            EMIT(b, masked_fill_Scalar, index, EMIT(b, unsqueeze_default, others, -1), 0));
    }
}

static void emit_add_rows(const exg_emission *e)
{
    exg_builder *b = e->builder;
    exg_ref index = exg_get_ref(&e->args[1]);
    exg_ref others;

    if (own_indices(e, 0, &index, &others)) {
        e->results[0] = exg_arg_ref(EMIT(
            b, add_rows, e->args[0], index,
            EMIT(b, masked_fill_Scalar, e->args[2], others, e->args[4]), e->args[3], e->args[4]));
    }
}

static void emit_gather(const exg_emission *e)
{
    exg_builder *b = e->builder;
    exg_ref index = exg_get_ref(&e->args[2]);
    exg_ref others;

    if (own_indices(e, dim_argument(e), &index, &others)) {
        e->results[0] =
            exg_arg_ref(EMIT(b, masked_fill_Scalar,
                             EMIT(b, gather_default, e->args[0], e->args[1], index), others, 0));
    }
}

static void emit_index_select(const exg_emission *e)
{
    exg_builder *b = e->builder;
    uint32_t rank = e->call->operands[0]->rank;
    uint32_t dim = dim_argument(e);
    int64_t shape[EXG_SHAPE_RANK_MAX];
    exg_ref index = exg_get_ref(&e->args[2]);
    exg_ref others;

    if (own_indices(e, dim, &index, &others)) {
        for (uint32_t d = 0; d < rank; d++) {
            shape[d] = d == dim ? e->call->results[0]->sizes[dim].value : 1;
        }
        index = EMIT(b, index_select_default, e->args[0], e->args[1], index);
        e->results[0] =
            exg_arg_ref(EMIT(b, masked_fill_Scalar, index,
                             EMIT(b, view_default, others, INTS_OF(b, shape, rank)), 0));
    }
}

exg_status exg_add_lookup(exg_rule_call *call, uint32_t dim)
{
    exg_emit_strategy *emit = call->op->id == EXG_OP_embedding_default ? emit_embedding
                              : call->op->id == EXG_OP_add_rows        ? emit_add_rows
                              : call->op->id == EXG_OP_gather_default  ? emit_gather
                                                                       : emit_index_select;
    exg_strategy *strategy;

    if (!call->emits || call->operands[1]->rank == 0 || call->operands[0]->rank == 0 ||
        call->operands[0]->sizes[dim].value == 0 || call->operands[0]->dtype == EXG_DTYPE_B8 ||
        call->operands[0]->dtype == EXG_DTYPE_C64 || call->operands[0]->dtype == EXG_DTYPE_C128) {
        return EXG_OK;
    }
    strategy = exg_strategy_add_emitted(call, emit);
    if (strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    strategy->operands[0] = exg_shard((int32_t)dim);
    strategy->results[0] = exg_partial(EXG_REDUCE_SUM);
    return EXG_OK;
}
