/* index_rules.c - strategies of operators over batches of matrices, and of those that read and
 * write at places: what is the same along a dim is done chunk by chunk. */
#include "libexec/sharding/rules.h"
#include "libexport/operators/shape.h"

#define EXG_NAMED_RULE(name) exg_operator_rule exg_rule_##name;
#include "libexec/sharding/named_rules.def"
#undef EXG_NAMED_RULE

static int64_t size_at(const exg_tensor_meta *meta, uint32_t dim)
{
    return meta == NULL || dim >= meta->rank ? -1 : meta->sizes[dim].value;
}

/* ---- batches ---------------------------------------------------------------------------- */

/* Leading dims but the last `own` of operand 0: of all operands and all results alike. */
static exg_status leading(exg_rule_call *call, uint32_t own)
{
    uint32_t rank = call->operands[0]->rank;

    for (uint32_t d = 0; d + own < rank; d++) {
        bool alike = true;
        exg_strategy *strategy;

        for (uint32_t i = 1; i < call->operand_count; i++) {
            alike = alike && (call->operands[i] == NULL ||
                              size_at(call->operands[i], d) == size_at(call->operands[0], d));
        }
        for (uint32_t r = 0; r < call->result_count; r++) {
            alike = alike && size_at(call->results[r], d) == size_at(call->operands[0], d);
        }
        strategy = alike ? exg_strategy_add(call) : NULL;
        if (alike && strategy == NULL) {
            return EXG_OUT_OF_MEMORY(call->err);
        }
        for (uint32_t i = 0; alike && i < call->operand_count; i++) {
            strategy->operands[i] =
                call->operands[i] == NULL ? exg_replicate() : exg_shard((int32_t)d);
        }
        for (uint32_t r = 0; alike && r < call->result_count; r++) {
            strategy->results[r] = exg_shard((int32_t)d);
        }
    }
    return EXG_OK;
}

exg_status exg_rule_matrices(exg_rule_call *call)
{
    return leading(call, 2);
}

exg_status exg_rule_vectors(exg_rule_call *call)
{
    return leading(call, 1);
}

/* The last operand has right sides in its columns, each solved by itself. */
exg_status exg_rule_solve(exg_rule_call *call)
{
    uint32_t right = call->operand_count - 1;
    int32_t last = (int32_t)call->operands[right]->rank - 1;
    exg_strategy *strategy;

    EXG_TRY(leading(call, 2));
    strategy = exg_strategy_add(call);
    if (strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    strategy->operands[right] = exg_shard(last);
    strategy->results[0] = exg_shard(last);
    return EXG_OK;
}

/* ---- scatter ------------------------------------------------------------------------------ */

/* Positions stay what they are along dims that all of self, index and source share. */
static exg_status scatter_rows(exg_rule_call *call)
{
    const exg_tensor_meta *self = call->operands[0];
    uint32_t dim = exg_rule_dim(exg_get_int(&call->args[1]), self->rank);

    for (uint32_t d = 0; d < self->rank; d++) {
        bool alike = d != dim;
        exg_strategy *strategy;

        for (uint32_t i = 1; i < call->operand_count; i++) {
            alike = alike && size_at(call->operands[i], d) == size_at(self, d);
        }
        strategy = alike ? exg_strategy_add(call) : NULL;
        if (alike && strategy == NULL) {
            return EXG_OUT_OF_MEMORY(call->err);
        }
        for (uint32_t i = 0; alike && i < call->operand_count; i++) {
            strategy->operands[i] = exg_shard((int32_t)d);
        }
        if (alike) {
            strategy->results[0] = exg_shard((int32_t)d);
        }
    }
    return EXG_OK;
}

exg_status exg_rule_scatter(exg_rule_call *call)
{
    return scatter_rows(call);
}

/* What is combined with what is there may come in parts: along dim, chunks of index and
 * source. Their positions in the other dims are their own, so those stay whole. */
static exg_status combined(exg_rule_call *call, exg_reduce_op op)
{
    uint32_t dim = exg_rule_dim(exg_get_int(&call->args[1]), call->operands[0]->rank);
    exg_strategy *strategy;

    EXG_TRY(scatter_rows(call));
    if (call->operand_count != 3 || call->operands[0]->rank == 0 ||
        size_at(call->operands[1], dim) != size_at(call->operands[2], dim)) {
        return EXG_OK;
    }
    strategy = exg_strategy_add(call);
    if (strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    strategy->operands[0] = exg_partial(op);
    strategy->operands[1] = exg_shard((int32_t)dim);
    strategy->operands[2] = exg_shard((int32_t)dim);
    strategy->results[0] = exg_partial(op);
    return EXG_OK;
}

exg_status exg_rule_scatter_add(exg_rule_call *call)
{
    return combined(call, EXG_REDUCE_SUM);
}

exg_status exg_rule_scatter_amax(exg_rule_call *call)
{
    return combined(call, EXG_REDUCE_MAX);
}

exg_status exg_rule_scatter_amin(exg_rule_call *call)
{
    return combined(call, EXG_REDUCE_MIN);
}

/* The diagonal of self, last in src, is written; other dims keep their order. */
exg_status exg_rule_diagonal_scatter(exg_rule_call *call)
{
    uint32_t rank = call->operands[0]->rank;
    uint32_t a = exg_rule_dim(exg_get_int(&call->args[3]), rank);
    uint32_t b = exg_rule_dim(exg_get_int(&call->args[4]), rank);
    int32_t of_src = 0;

    for (uint32_t d = 0; d < rank; d++) {
        exg_strategy *strategy = d == a || d == b ? NULL : exg_strategy_add(call);

        if (d != a && d != b && strategy == NULL) {
            return EXG_OUT_OF_MEMORY(call->err);
        }
        if (strategy != NULL) {
            strategy->operands[0] = exg_shard((int32_t)d);
            strategy->operands[1] = exg_shard(of_src++);
            strategy->results[0] = exg_shard((int32_t)d);
        }
    }
    return EXG_OK;
}

/* ---- index --------------------------------------------------------------------------------- */

/* self[indices]: operands are self, then an index a dim of self, absent where it is taken
 * whole; of index_put values come last. */
typedef struct indexing {
    uint32_t index_count;
    uint32_t first;                  /* where the dims of the indices stand in the result */
    uint32_t spread;                 /* how many they are */
    bool of_dim[EXG_SHAPE_RANK_MAX]; /* is there an index for it? */
} indexing;

static bool indexing_of(const exg_rule_call *call, uint32_t index_count, indexing *x)
{
    uint32_t rank = call->operands[0]->rank;
    bool ended = false;
    bool adjacent = true;
    bool found = false;

    *x = (indexing){.index_count = index_count};
    if (index_count > rank || rank > EXG_SHAPE_RANK_MAX) {
        return false;
    }
    for (uint32_t d = 0; d < index_count; d++) {
        const exg_tensor_meta *index = call->operands[1 + d];

        if (index == NULL) {
            ended = found;
            continue;
        }
        if (exg_dtype_bytes(index->dtype) == 1) { /* a mask */
            return false;
        }
        adjacent = adjacent && !ended;
        x->first = found ? x->first : d;
        found = true;
        x->of_dim[d] = true;
        x->spread = index->rank > x->spread ? index->rank : x->spread;
    }
    x->first = adjacent ? x->first : 0;
    return found;
}

/* Where dim `d` of self, which has no index, stands in self[indices]. */
static uint32_t lands(const indexing *x, uint32_t d)
{
    uint32_t to = 0;
    uint32_t before = 0; /* dims without an index in front of the first that has one */

    for (uint32_t i = 0; i < d; i++) {
        to += !x->of_dim[i];
    }
    while (before < x->first && !x->of_dim[before]) {
        before++;
    }
    return to >= before ? to + x->spread : to;
}

/* An operand broadcast to (..., sizes): its dim for dim `to` of `rank`, if that is split. */
static exg_placement follows(const exg_tensor_meta *operand, uint32_t rank, uint32_t to,
                             int64_t size)
{
    uint32_t missing = operand == NULL ? 0 : rank - operand->rank;

    return operand != NULL && operand->rank <= rank && to >= missing &&
                   size_at(operand, to - missing) == size
               ? exg_shard((int32_t)(to - missing))
               : exg_replicate();
}

exg_status exg_rule_index(exg_rule_call *call)
{
    const exg_tensor_meta *self = call->operands[0];
    const exg_tensor_meta *out = call->results[0];
    indexing x;

    if (!indexing_of(call, call->operand_count - 1, &x)) {
        return EXG_OK;
    }
    for (uint32_t d = 0; d < self->rank; d++) {
        exg_strategy *strategy = x.of_dim[d] ? NULL : exg_strategy_add(call);

        if (!x.of_dim[d] && strategy == NULL) {
            return EXG_OUT_OF_MEMORY(call->err);
        }
        if (strategy != NULL) {
            strategy->operands[0] = exg_shard((int32_t)d);
            strategy->results[0] = exg_shard((int32_t)lands(&x, d));
        }
    }
    for (uint32_t e = 0; e < x.spread; e++) {
        exg_strategy *strategy = exg_strategy_add(call);

        if (strategy == NULL) {
            return EXG_OUT_OF_MEMORY(call->err);
        }
        for (uint32_t i = 1; i < call->operand_count; i++) {
            strategy->operands[i] =
                follows(call->operands[i], x.spread, e, size_at(out, x.first + e));
        }
        strategy->results[0] = exg_shard((int32_t)(x.first + e));
    }
    return EXG_OK;
}

exg_status exg_rule_index_put(exg_rule_call *call)
{
    const exg_tensor_meta *self = call->operands[0];
    uint32_t last = call->operand_count - 1;
    uint32_t indexed = 0;
    indexing x;

    if (last < 1 || !indexing_of(call, last - 1, &x)) {
        return EXG_OK;
    }
    for (uint32_t d = 0; d < self->rank; d++) {
        indexed += x.of_dim[d];
    }
    for (uint32_t d = 0; d < self->rank; d++) {
        exg_strategy *strategy = x.of_dim[d] ? NULL : exg_strategy_add(call);

        if (!x.of_dim[d] && strategy == NULL) {
            return EXG_OUT_OF_MEMORY(call->err);
        }
        if (strategy != NULL) {
            strategy->operands[0] = exg_shard((int32_t)d);
            strategy->operands[last] =
                follows(call->operands[last], self->rank - indexed + x.spread, lands(&x, d),
                        size_at(self, d));
            strategy->results[0] = exg_shard((int32_t)d);
        }
    }
    return EXG_OK;
}

/* ---- search --------------------------------------------------------------------------------- */

/* Lines of edges go with the lines of values they are for; along the last dim, and where all
 * values have one line of edges, the values alone are split. */
exg_status exg_rule_searchsorted(exg_rule_call *call)
{
    uint32_t own = call->operands[0]->rank - 1; /* dims of lines */
    uint32_t rank = call->operands[1]->rank;

    for (uint32_t d = 0; d < rank; d++) {
        exg_strategy *strategy = exg_strategy_add(call);

        if (strategy == NULL) {
            return EXG_OUT_OF_MEMORY(call->err);
        }
        strategy->operands[0] = d < own ? exg_shard((int32_t)d) : exg_replicate();
        strategy->operands[1] = exg_shard((int32_t)d);
        strategy->results[0] = exg_shard((int32_t)d);
    }
    return EXG_OK;
}
