/* ring_rules.c - attention whose queries, keys and values are all in parts along the positions:
 * blocks of keys and values come one after another, while a rank attends to those it has. It
 * keeps the largest score of each row and the sums over what it has seen, which are brought to
 * the new largest block by block. Only for placers that emit (exg_rule_call.emits).
 */
#include "libexec/comm/collectives.h"
#include "libexec/sharding/rules.h"
#include "libexport/operators/shape.h"

#include <exg/emit.h>
#include <math.h>
#include <string.h>

#define SCORE_TOUCHES 6 /* made, its row's largest, its exponential and their sum, multiplied */
#define MERGE_TOUCHES 4 /* of what was seen so far, by a block */

#define NOTHING (-(double)INFINITY) /* the score of what is not seen */

typedef struct ring {
    const exg_emission *e;
    exg_ref query;                                /* scaled, in float32 at least */
    int64_t rows, first_row, queries, keys, full; /* `full`: keys of a block */
    int64_t groups; /* heads of the queries that share one of the keys */
    bool causal, masked;
    bool begun;
    exg_ref largest, sum, seen; /* of each row: score, exponentials, values by them */
} ring;

static exg_ref widened(const exg_emission *e, exg_ref x)
{
    bool half = exg_dtype_bytes(e->call->operands[0]->dtype) == 2;

    return half ? EMIT(e->builder, _to_copy_default, x, DTYPE(EXG_DTYPE_F32)) : x;
}

/* The block that is `step` ranks in front, of keys or values. Without a turn around (each row
 * of a causal attention sees what is before it) the first ranks get nothing. */
static exg_ref block_of(const ring *r, const exg_argument *own, uint32_t step, int64_t *first,
                        int64_t *count)
{
    const exg_emission *e = r->e;
    uint32_t ranks = e->call->mesh_size;
    bool turns = !(r->causal && r->queries == r->keys);
    uint32_t dim = e->call->operands[0]->rank - 2;
    exg_halo w = {r->keys, ranks, r->full, step * r->full, r->full, turns ? ranks * r->full : 0};

    exg_halo_of(&w, ranks, e->rank, first, count);
    if (step == 0) {
        return exg_get_ref(own);
    }
    return EMIT(e->builder, exg_window, *own, dim, exg_arg_int(w.size), exg_arg_int(w.parts),
                exg_arg_int(w.stride), exg_arg_int(w.before), exg_arg_int(w.reach),
                exg_arg_int(w.period), exg_arg_int(*count), e->mesh_dim);
}

/* The mask's columns of a block; it goes by what its dtype says. */
static exg_ref with_mask(const ring *r, exg_ref scores, int64_t first, int64_t count)
{
    exg_builder *b = r->e->builder;
    const exg_tensor_meta *meta = r->e->call->operands[3];
    exg_ref mask = exg_get_ref(&r->e->args[3]);

    if (meta->rank > 0 && meta->sizes[meta->rank - 1].value == r->keys && r->keys > 1) {
        mask = EMIT(b, slice_Tensor, mask, -1, exg_arg_int(first), exg_arg_int(first + count), 1);
    }
    return meta->dtype == EXG_DTYPE_B8
               ? EMIT(b, masked_fill_Scalar, scores, EMIT(b, logical_not_default, mask), NOTHING)
               : EMIT(b, add_Tensor, scores, widened(r->e, mask));
}

/* Row i sees the keys up to i. */
static exg_ref with_order(const ring *r, exg_ref scores, int64_t first, int64_t count)
{
    exg_builder *b = r->e->builder;
    exg_ref rows = EMIT(b, arange_start_step, exg_arg_int(r->first_row),
                        exg_arg_int(r->first_row + r->rows), 1, DTYPE(EXG_DTYPE_I64));
    exg_ref keys = EMIT(b, arange_start_step, exg_arg_int(first), exg_arg_int(first + count), 1,
                        DTYPE(EXG_DTYPE_I64));

    return EMIT(b, masked_fill_Scalar, scores,
                EMIT(b, gt_Tensor, keys, EMIT(b, unsqueeze_default, rows, 1)), NOTHING);
}

/* Rows of which nothing has been seen have no largest score: any number does. */
static exg_ref shift_of(const ring *r, exg_ref largest)
{
    exg_builder *b = r->e->builder;

    return r->masked || r->causal
               ? EMIT(b, masked_fill_Scalar, largest, EMIT(b, eq_Scalar, largest, NOTHING), 0)
               : largest;
}

/* Keys or values of `groups` heads each, one a head of the queries. */
static exg_ref for_each_head(const ring *r, exg_ref block)
{
    exg_builder *b = r->e->builder;
    const exg_tensor_meta *meta = exg_ref_meta(b, block);
    int64_t sizes[EXG_SHAPE_RANK_MAX];
    uint32_t rank = meta == NULL ? 0 : meta->rank;
    uint32_t heads = rank - 3;
    exg_ref each;

    if (meta == NULL || r->groups == 1) {
        return block;
    }
    for (uint32_t d = 0; d < rank; d++) {
        sizes[d + (d > heads)] = meta->sizes[d].value;
    }
    sizes[heads + 1] = r->groups;
    each = EMIT(b, expand_default, EMIT(b, unsqueeze_default, block, heads + 1),
                INTS_OF(b, sizes, rank + 1), false);
    sizes[heads] *= r->groups;
    memmove(&sizes[heads + 1], &sizes[heads + 2], 2 * sizeof(*sizes));
    return EMIT(b, reshape_default, each, INTS_OF(b, sizes, rank));
}

static void see_block(ring *r, exg_ref key, exg_ref value, int64_t first, int64_t count)
{
    exg_builder *b = r->e->builder;
    exg_ref scores = EMIT(b, matmul_default, r->query,
                          EMIT(b, transpose_int, widened(r->e, for_each_head(r, key)), -2, -1));
    exg_ref largest;
    exg_ref shift;
    exg_ref sum;
    exg_ref seen;

    scores = r->masked ? with_mask(r, scores, first, count) : scores;
    scores = r->causal && first + count - 1 > r->first_row ? with_order(r, scores, first, count)
                                                           : scores;
    largest = EMIT(b, amax_default, scores, INTS(b, -1), true);
    largest = r->begun ? EMIT(b, maximum_default, r->largest, largest) : largest;
    shift = shift_of(r, largest);
    scores = EMIT(b, exp_default, EMIT(b, sub_Tensor, scores, shift));
    sum = EMIT(b, sum_dim_IntList, scores, INTS(b, -1), true);
    seen = EMIT(b, matmul_default, scores, widened(r->e, for_each_head(r, value)));
    if (r->begun) {
        exg_ref less = EMIT(b, exp_default, EMIT(b, sub_Tensor, r->largest, shift));

        sum = EMIT(b, add_Tensor, sum, EMIT(b, mul_Tensor, r->sum, less));
        seen = EMIT(b, add_Tensor, seen, EMIT(b, mul_Tensor, r->seen, less));
    }
    r->largest = largest;
    r->sum = sum;
    r->seen = seen;
    r->begun = true;
}

static exg_ref scaled_query(const exg_emission *e)
{
    const exg_tensor_meta *query = e->call->operands[0];
    double width = (double)query->sizes[query->rank - 1].value;
    double scale =
        e->args[5].kind == EXG_ARGUMENT_NONE ? 1 / sqrt(width) : exg_get_float(&e->args[5]);

    return EMIT(e->builder, mul_Scalar, widened(e, exg_get_ref(&e->args[0])), exg_arg_float(scale));
}

static void put_result(ring *r)
{
    const exg_emission *e = r->e;
    exg_dtype dtype = e->call->results[0]->dtype;
    exg_ref y;

    if (!r->begun || r->rows == 0) {
        e->results[0] = exg_arg_ref(exg_emit_zeros(e));
        return;
    }
    if (r->masked && e->call->op->id == EXG_OP_attention) { /* a row that sees nothing is 0 */
        r->sum =
            EMIT(e->builder, masked_fill_Scalar, r->sum, EMIT(e->builder, eq_Scalar, r->sum, 0), 1);
    }
    y = EMIT(e->builder, div_Tensor, r->seen, r->sum);
    e->results[0] = exg_arg_ref(
        exg_dtype_bytes(dtype) == 2 ? EMIT(e->builder, _to_copy_default, y, DTYPE(dtype)) : y);
}

static void emit_ring(const exg_emission *e)
{
    const exg_tensor_meta *query = e->call->operands[0];
    const exg_tensor_meta *key = e->call->operands[1];
    ring r = {.e = e, .causal = exg_get_bool(&e->args[4])};
    uint32_t ranks = e->call->mesh_size;

    r.masked = e->call->operands[3] != NULL;
    r.groups = query->sizes[query->rank - 3].value / key->sizes[query->rank - 3].value;
    r.queries = query->sizes[query->rank - 2].value;
    r.keys = key->sizes[key->rank - 2].value;
    r.full = (r.keys + ranks - 1) / ranks;
    r.rows = exg_own_chunk(e, r.queries, &r.first_row);
    r.query = scaled_query(e);
    for (uint32_t step = 0; step < ranks; step++) {
        int64_t first;
        int64_t count;
        exg_ref k = block_of(&r, &e->args[1], step, &first, &count);
        exg_ref v = block_of(&r, &e->args[2], step, &first, &count);
        bool is_seen = count > 0 && r.rows > 0 && !(r.causal && first > r.first_row + r.rows - 1);

        if (is_seen) {
            see_block(&r, k, v, first, count);
        }
    }
    put_result(&r);
}

static bool same_but(const exg_tensor_meta *a, const exg_tensor_meta *b, uint32_t dims)
{
    bool same = a->rank == b->rank;

    for (uint32_t d = 0; same && d < dims; d++) {
        same = a->sizes[d].value == b->sizes[d].value;
    }
    return same;
}

/* As many heads as the queries have, or, with enable_gqa, each for some of them. */
static bool heads_fit(const exg_rule_call *call)
{
    const exg_tensor_meta *query = call->operands[0];
    const exg_tensor_meta *key = call->operands[1];
    uint32_t heads = query->rank - 3;
    int64_t own = query->sizes[heads].value;
    int64_t shared = key->rank == query->rank ? key->sizes[heads].value : 0;

    return same_but(query, key, heads) && shared > 0 && own > 0 &&
           (own == shared || (exg_get_bool(&call->args[6]) && own % shared == 0));
}

/* What the ring takes beside one attention: blocks come, scores are written down, and the sums
 * over blocks put together. */
static void count_ring(const exg_rule_call *call, exg_strategy *strategy, uint32_t at)
{
    const exg_tensor_meta *key = call->operands[1];
    const exg_tensor_meta *value = call->operands[2];
    const exg_tensor_meta *out = call->results[0];
    double keys = (double)key->sizes[at].value;
    double own = exg_bytes_without(out, at) * (double)out->sizes[at].value / call->mesh_size;
    double wide = (double)out->sizes[out->rank - 1].value;
    uint32_t others = call->mesh_size - 1;

    strategy->halos = 2 * others;
    strategy->beside_bytes = others * keys / call->mesh_size *
                             (exg_bytes_without(key, at) + exg_bytes_without(value, at));
    strategy->touched_bytes =
        others * MERGE_TOUCHES * own + (wide == 0 ? 0 : SCORE_TOUCHES * own / wide * keys);
}

exg_status exg_add_ring_attention(exg_rule_call *call)
{
    const exg_tensor_meta *query = call->operands[0];
    const exg_tensor_meta *key = call->operands[1];
    const exg_tensor_meta *value = call->operands[2];
    const exg_tensor_meta *mask = call->operands[3];
    uint32_t at = query->rank - 2;
    exg_strategy *strategy;

    if (!call->emits || query->rank < 3 || !exg_is_real(query->dtype) || !heads_fit(call) ||
        !same_but(key, value, at + 1) || query->sizes[at].value == 0 || key->sizes[at].value == 0 ||
        (exg_get_bool(&call->args[4]) && mask != NULL)) {
        return EXG_OK;
    }
    strategy = exg_strategy_add_emitted(call, emit_ring);
    if (strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    for (uint32_t i = 0; i < 3; i++) {
        strategy->operands[i] = exg_shard((int32_t)at);
    }
    if (mask != NULL && mask->rank >= 2 &&
        mask->sizes[mask->rank - 2].value == query->sizes[at].value && query->sizes[at].value > 1) {
        strategy->operands[3] = exg_shard((int32_t)mask->rank - 2);
    }
    strategy->results[0] = exg_shard((int32_t)at);
    count_ring(call, strategy, at);
    return EXG_OK;
}
