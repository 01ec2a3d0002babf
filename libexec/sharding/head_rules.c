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

/* Queries [from, to) of a rank's own, which see heads [first, last) of the keys that it has, all of
 * them, or one. */
typedef struct piece {
    int64_t from, to, first, last;
} piece;

#define PIECES_MAX 3

/* The rest of one head's queries, those of whole heads, and the beginning of the next one's: heads
 * of keys are read where they are, and none is repeated. */
static uint32_t cut_own(const own_heads *own, piece pieces[PIECES_MAX])
{
    int64_t begin = own->first - own->skipped * own->each;
    int64_t end = begin + own->count;
    uint32_t count = 0;

    for (int64_t at = begin; at < end;) {
        int64_t head = at / own->each;
        int64_t whole = end / own->each * own->each;
        int64_t next = (head + 1) * own->each;

        next = at % own->each == 0 && whole > at ? whole : next < end ? next : end;
        pieces[count++] =
            (piece){at - begin, next - begin, head, (next + own->each - 1) / own->each};
        at = next;
    }
    if (count == 0) { /* a rank without queries */
        pieces[count++] = (piece){0, 0, 0, 1};
    }
    return count;
}

static exg_argument take(const exg_emission *e, const exg_argument *arg, uint32_t dim,
                         int64_t first, int64_t last)
{
    return exg_arg_ref(EMIT(e->builder, slice_Tensor, exg_get_ref(arg), dim, exg_arg_int(first),
                            exg_arg_int(last), 1));
}

static void emit_own_heads(const exg_emission *e)
{
    const exg_function_schema *schema = e->call->op->schema;
    own_heads own = find_own(e);
    exg_placement mask = e->strategy->operands[3];
    exg_argument args[EXG_ARGUMENTS_MAX];
    exg_ref parts[EXG_RESULTS_MAX][PIECES_MAX];
    piece pieces[PIECES_MAX];
    uint32_t count = cut_own(&own, pieces);

    for (uint32_t i = 0; i < schema->argument_count; i++) {
        args[i] = e->args[i];
    }
    for (uint32_t p = 0; p < count; p++) {
        const piece *at = &pieces[p];

        if (count > 1) {
            args[0] = take(e, &e->args[0], own.dim, at->from, at->to);
        }
        args[1] = take(e, &e->args[1], own.dim, at->first, at->last);
        args[2] = take(e, &e->args[2], own.dim, at->first, at->last);
        if (count > 1 && mask.kind == EXG_SHARD) {
            args[3] = take(e, &e->args[3], (uint32_t)mask.dim, at->from, at->to);
        }
        exg_emit_all(e->builder, e->call->op->id, args, schema->argument_count, e->results);
        for (uint32_t r = 0; count > 1 && r < e->call->result_count; r++) {
            parts[r][p] = exg_get_ref(&e->results[r]);
        }
    }
    for (uint32_t r = 0; count > 1 && r < e->call->result_count; r++) {
        e->results[r] = exg_arg_ref(
            EMIT(e->builder, cat_default, exg_arg_refs(e->builder, parts[r], count), own.dim));
    }
}

/* Keys and values of `groups` heads, along dim d, that more of the queries see. */
static exg_status add_own_heads(exg_rule_call *call, uint32_t d, exg_placement keys)
{
    const exg_tensor_meta *mask = call->operands[3];
    uint32_t rank = call->operands[0]->rank;
    int64_t queries = call->operands[0]->sizes[d].value;
    uint32_t missing = mask == NULL ? 0 : rank - mask->rank;
    exg_strategy *strategy;

    if (!call->emits || queries == 0 ||
        (keys.kind == EXG_SHARD && queries % call->mesh_size != 0)) {
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
