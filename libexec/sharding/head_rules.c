/* head_rules.c - strategies of an attention whose heads of queries are split, while the fewer heads
 * of keys and values are whole, or in parts that several ranks share. Only for placers that emit
 * (exg_rule_call.emits).
 */
#include "libexec/sharding/rules.h"

#include <exg/emit.h>

/* ---- attention ------------------------------------------------------------------------------- */

/* Heads of queries in parts, those of keys and values whole, or in parts that ranks share: which of
 * them a rank's own queries see. */
typedef struct own_heads {
    uint32_t dim;
    int64_t each;         /* queries that see one head of keys */
    int64_t first, count; /* own heads of queries, */
    int64_t skipped;      /* and heads of keys that ranks before have */
} own_heads;

static own_heads find_own(const exg_emission *e)
{
    own_heads own = {.dim = (uint32_t)e->strategy->results[0].dim};
    int64_t queries = e->call->operands[0]->sizes[own.dim].value;
    int64_t keys = e->call->operands[1]->sizes[own.dim].value;
    exg_placement at = e->strategy->operands[1];

    own.each = queries / keys;
    own.count = exg_own_chunk(e, queries, &own.first);
    if (at.kind == EXG_SHARD) {
        uint32_t ranks = exg_sharers(at);

        own.skipped = e->rank / ranks * (keys / (e->call->mesh_size / ranks));
    }
    return own;
}

/* A rank's own of the heads that it has of keys or values; where queries of one head are on
 * several ranks, with others beside them, each is repeated first. */
static exg_argument take_own(const exg_emission *e, const own_heads *own, const exg_argument *arg)
{
    exg_builder *b = e->builder;
    exg_ref x = exg_get_ref(arg);
    int64_t from = own->first - own->skipped * own->each;

    if (own->count % own->each == 0 || own->each % own->count == 0) {
        int64_t first = from / own->each;
        int64_t last = (from + own->count - 1) / own->each;

        return exg_arg_ref(
            EMIT(b, slice_Tensor, x, own->dim, exg_arg_int(first), exg_arg_int(last + 1), 1));
    }
    x = EMIT(b, repeat_interleave_self_int, x, exg_arg_int(own->each), own->dim);
    return exg_arg_ref(
        EMIT(b, slice_Tensor, x, own->dim, exg_arg_int(from), exg_arg_int(from + own->count), 1));
}

static void emit_own_heads(const exg_emission *e)
{
    const exg_function_schema *schema = e->call->op->schema;
    own_heads own = find_own(e);
    exg_argument args[EXG_ARGUMENTS_MAX];

    for (uint32_t i = 0; i < schema->argument_count; i++) {
        args[i] = e->args[i];
    }
    args[1] = take_own(e, &own, &e->args[1]);
    args[2] = take_own(e, &own, &e->args[2]);
    exg_emit_all(e->builder, e->call->op->id, args, schema->argument_count, e->results);
}

/* Keys and values of `groups` heads, along dim d, that more of the queries see. */
static exg_status add_own_heads(exg_rule_call *call, uint32_t d, exg_placement keys)
{
    const exg_tensor_meta *mask = call->operands[3];
    uint32_t rank = call->operands[0]->rank;
    int64_t queries = call->operands[0]->sizes[d].value;
    uint32_t missing = mask == NULL ? 0 : rank - mask->rank;
    exg_strategy *strategy;

    if (!call->emits || queries == 0 || queries % call->mesh_size != 0) {
        return EXG_OK;
    }
    strategy = exg_strategy_add_emitted(call, emit_own_heads);
    if (strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    strategy->results[0] = strategy->operands[0] = exg_shard((int32_t)d);
    strategy->operands[1] = strategy->operands[2] = keys;
    if (mask != NULL && d >= missing && mask->sizes[d - missing].value == queries) {
        strategy->operands[3] = exg_shard((int32_t)(d - missing));
    }
    return EXG_OK;
}

static bool has_fewer_heads(const exg_rule_call *call, uint32_t d)
{
    const exg_tensor_meta *q = call->operands[0];
    const exg_tensor_meta *k = call->operands[1];
    const exg_tensor_meta *v = call->operands[2];
    int64_t keys = k->rank == q->rank && v->rank == q->rank ? k->sizes[d].value : 0;

    return keys > 0 && v->sizes[d].value == keys && q->sizes[d].value > keys &&
           q->sizes[d].value % keys == 0;
}

exg_status exg_add_attention_to_few(exg_rule_call *call)
{
    uint32_t rank = call->operands[0]->rank;

    return rank > 2 && has_fewer_heads(call, rank - 3)
               ? add_own_heads(call, rank - 3, exg_replicate())
               : EXG_OK;
}

exg_status exg_add_attention_to_shared(exg_rule_call *call, uint32_t ranks)
{
    uint32_t rank = call->operands[0]->rank;

    return rank > 2 && has_fewer_heads(call, rank - 3)
               ? add_own_heads(call, rank - 3, exg_shared_shard((int32_t)rank - 3, ranks))
               : EXG_OK;
}
