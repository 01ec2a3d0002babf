/* compute_rules.c - strategies of operators that compute: matrices, reductions, norms,
 * attention, indexing. */
#include "libexec/sharding/rules.h"
#include "libexport/operators/shape.h"

#include <string.h>

#define EXG_NAMED_RULE(name) exg_operator_rule exg_rule_##name;
#include "libexec/sharding/named_rules.def"
#undef EXG_NAMED_RULE

#define SPLIT(results, operands)                                                                   \
    EXG_TRY(exg_strategy_add_split(call, (const int32_t[])results, (const int32_t[])operands))
#define LIST(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* ---- collectives along another mesh dim ------------------------------------------------ */

/* What is moved may be split along dims that the move leaves alone, and may be summands:
 * moving them is moving their sum. */
static exg_status moved(exg_rule_call *call, int64_t dim, int64_t other)
{
    for (uint32_t d = 0; d < call->operands[0]->rank; d++) {
        if (d != dim && d != other) {
            SPLIT(LIST((int32_t)d), LIST((int32_t)d));
        }
    }
    for (exg_reduce_op op = EXG_REDUCE_SUM; op < EXG_REDUCE_OP_COUNT; op++) {
        EXG_TRY(exg_strategy_add_one(call, exg_partial(op), exg_partial(op)));
    }
    return EXG_OK;
}

/* Of two reductions the order may be changed when they are the same, or sum and mean. */
static exg_status reduced(exg_rule_call *call, int64_t dim, const char *op)
{
    bool linear = strcmp(op, "sum") == 0 || strcmp(op, "avg") == 0;

    for (uint32_t d = 0; d < call->operands[0]->rank; d++) {
        if (d != dim) {
            SPLIT(LIST((int32_t)d), LIST((int32_t)d));
        }
    }
    for (exg_reduce_op o = EXG_REDUCE_SUM; o < EXG_REDUCE_OP_COUNT; o++) {
        if (strcmp(op, exg_reduce_op_name(o)) == 0 || (linear && o <= EXG_REDUCE_AVG)) {
            EXG_TRY(exg_strategy_add_one(call, exg_partial(o), exg_partial(o)));
        }
    }
    return EXG_OK;
}

exg_status exg_rule_all_gather(exg_rule_call *call)
{
    return moved(call, exg_get_int(&call->args[1]), -1);
}

exg_status exg_rule_all_to_all(exg_rule_call *call)
{
    return moved(call, exg_get_int(&call->args[1]), exg_get_int(&call->args[3]));
}

exg_status exg_rule_all_reduce(exg_rule_call *call)
{
    return reduced(call, -1, call->args[1].as_string);
}

exg_status exg_rule_reduce_scatter(exg_rule_call *call)
{
    return reduced(call, exg_get_int(&call->args[1]), call->args[3].as_string);
}

/* ---- matrices --------------------------------------------------------------------- */

/* The dim of a broadcast addend that follows dim `d` of a result of `rank`; -1: whole. */
static int32_t addend_dim(const exg_tensor_meta *addend, uint32_t rank, uint32_t d, int64_t size)
{
    uint32_t missing = rank - addend->rank;

    return d >= missing && addend->sizes[d - missing].value == size ? (int32_t)(d - missing) : -1;
}

/* addmm, baddbmm: beta * self + alpha * (left @ right). The contracted letter wants
 * self as a summand too. */
exg_status exg_rule_addmm(exg_rule_call *call)
{
    const exg_tensor_meta *out = call->results[0];
    uint32_t rank = out->rank;
    int32_t m = (int32_t)rank - 2;
    int32_t n = (int32_t)rank - 1;
    exg_strategy *strategy;

    if (rank == 3) {
        SPLIT(LIST(0), LIST(addend_dim(call->operands[0], rank, 0, out->sizes[0].value), 0, 0));
    }
    SPLIT(LIST(m),
          LIST(addend_dim(call->operands[0], rank, (uint32_t)m, out->sizes[m].value), m, -1));
    SPLIT(LIST(n),
          LIST(addend_dim(call->operands[0], rank, (uint32_t)n, out->sizes[n].value), -1, n));
    strategy = exg_strategy_add(call);
    if (strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    strategy->results[0] = exg_partial(EXG_REDUCE_SUM);
    strategy->operands[0] = exg_partial(EXG_REDUCE_SUM);
    strategy->operands[1] = exg_shard(n);
    strategy->operands[2] = exg_shard(m);
    return EXG_OK;
}

/* linear: input [..., k], weight [n, k], bias [n]. */
exg_status exg_rule_linear(exg_rule_call *call)
{
    int32_t last = (int32_t)call->operands[0]->rank - 1;
    exg_strategy *strategy;

    for (int32_t d = 0; d < last; d++) {
        SPLIT(LIST(d), LIST(d, -1, -1));
    }
    SPLIT(LIST(last), LIST(-1, 0, 0));
    strategy = exg_strategy_add(call);
    if (strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    strategy->results[0] = exg_partial(EXG_REDUCE_SUM);
    strategy->operands[0] = exg_shard(last);
    strategy->operands[1] = exg_shard(1);
    if (call->operands[2] != NULL) {
        strategy->operands[2] = exg_partial(EXG_REDUCE_SUM);
    }
    return EXG_OK;
}

/* As the operands say it: those of an eager call on a grid are what the dims before have left. */
static int64_t groups_of(const exg_rule_call *call, int32_t channels)
{
    bool transposed = exg_get_bool(&call->args[6]);
    int64_t each = call->operands[1]->sizes[1].value; /* channels of a group */
    const exg_tensor_meta *of = transposed ? call->results[0] : call->operands[0];

    return each == 0 || exg_get_int(&call->args[8]) == 1 ? 1 : of->sizes[channels].value / each;
}

/* Channels: those that come out, those that are summed over, or of several groups both at once. Of
 * a transposed convolution the filters' first dim is what goes in. */
static exg_status convolution_channels(exg_rule_call *call, int32_t channels)
{
    bool transposed = exg_get_bool(&call->args[6]);
    int64_t groups = groups_of(call, channels);
    int64_t in = call->operands[0]->sizes[channels].value;
    int64_t out = call->results[0]->sizes[channels].value;
    exg_strategy *strategy;

    if (groups > 1) { /* whole groups, or one channel each */
        if (exg_all_have(call, groups, 1) &&
            (groups % call->mesh_size == 0 || (groups == in && groups == out))) {
            SPLIT(LIST(channels), LIST(channels, 0, 0, 0));
        }
        return EXG_OK;
    }
    SPLIT(LIST(channels), LIST(-1, transposed ? 1 : 0, 0, transposed ? -1 : 0));
    if (call->op->id != EXG_OP_convolution_default || !exg_all_have(call, in, 1)) {
        return EXG_OK;
    }
    strategy = exg_strategy_add(call);
    if (strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    strategy->results[0] = exg_partial(EXG_REDUCE_SUM);
    strategy->operands[0] = exg_shard(channels);
    strategy->operands[1] = exg_shard(transposed ? 0 : 1);
    if (call->operands[2] != NULL) {
        strategy->operands[2] = exg_partial(EXG_REDUCE_SUM);
    }
    return EXG_OK;
}

/* Batch; channels; places, each rank seeing beyond its own. The fourth operand is
 * convolution_of_bytes's. */
exg_status exg_rule_convolution(exg_rule_call *call)
{
    bool batched = call->operands[0]->rank == call->operands[1]->rank;

    if (batched) {
        SPLIT(LIST(0), LIST(0, -1, -1, -1));
    }
    EXG_TRY(convolution_channels(call, batched ? 1 : 0));
    return exg_add_halo(call);
}

/* Queries in parts, each of which sees all keys; a rank's part of a mask goes with them. */
static exg_status attention_by_position(exg_rule_call *call)
{
    const exg_tensor_meta *q = call->operands[0];
    const exg_tensor_meta *mask = call->operands[3];
    uint32_t at = q->rank - 2;

    if (q->rank < 2) {
        return EXG_OK;
    }
    EXG_TRY(exg_add_ring_attention(call));
    if (exg_get_bool(&call->args[4])) {
        return exg_add_causal_attention(call);
    }
    SPLIT(LIST((int32_t)at),
          LIST((int32_t)at, -1, -1,
               mask == NULL ? -1 : addend_dim(mask, q->rank, at, q->sizes[at].value)));
    return EXG_OK;
}

/* Query, key, value (B, H, L, E): by batch, by head where every rank gets whole groups of
 * heads, and by position of the query. A mask follows where it has the dim. */
exg_status exg_rule_attention(exg_rule_call *call)
{
    const exg_tensor_meta *q = call->operands[0];
    const exg_tensor_meta *k = call->operands[1];
    const exg_tensor_meta *mask = call->operands[3];

    for (uint32_t d = 0; d + 2 < q->rank && q->rank == k->rank; d++) {
        int64_t heads = q->sizes[d].value;
        int64_t groups = k->sizes[d].value;
        int32_t mask_dim = mask == NULL ? -1 : addend_dim(mask, q->rank, d, heads);
        int32_t split = (int32_t)d;

        if (heads != groups && (heads % call->mesh_size != 0 || groups % call->mesh_size != 0)) {
            continue;
        }
        if (call->operands[2]->rank != q->rank || call->operands[2]->sizes[d].value != groups) {
            continue;
        }
        SPLIT(LIST(split), LIST(split, split, split, mask_dim));
    }
    EXG_TRY(exg_add_attention_to_few(call));
    return attention_by_position(call);
}

exg_status exg_rule_pool(exg_rule_call *call)
{
    for (int32_t d = 0; d + 2 < (int32_t)call->operands[0]->rank; d++) {
        SPLIT(LIST(d, d), LIST(d));
    }
    return exg_add_halo(call);
}

/* ---- reductions --------------------------------------------------------------------- */

/* Where input dim `d` of a reduction lands; -1: it is reduced. */
static int32_t kept_dim(const exg_rule_call *call, const bool *in_set, uint32_t d)
{
    bool keepdim = call->results[0]->rank == call->operands[0]->rank;
    int32_t to = 0;

    if (in_set[d]) {
        return -1;
    }
    for (uint32_t i = 0; i < d; i++) {
        to += keepdim || !in_set[i];
    }
    return to;
}

/* An empty chunk has no largest element: of a dim that is shorter than the mesh no summands. */
static exg_status reduction_strategies(exg_rule_call *call, exg_reduce_op op, bool linear,
                                       bool passes)
{
    const exg_tensor_meta *in = call->operands[0];
    bool in_set[EXG_SHAPE_RANK_MAX];

    EXG_TRY(exg_dim_set(&call->args[1], in->rank, in_set, call->err));
    for (uint32_t d = 0; d < in->rank; d++) {
        int32_t to = kept_dim(call, in_set, d);
        bool has_empty = !exg_all_have(call, in->sizes[d].value, 1);

        if (to >= 0) {
            SPLIT(LIST(to, to), LIST((int32_t)d));
        } else if (linear && !(has_empty && (op == EXG_REDUCE_MAX || op == EXG_REDUCE_MIN))) {
            EXG_TRY(exg_strategy_add_one(call, exg_partial(op), exg_shard((int32_t)d)));
        }
    }
    return passes ? exg_strategy_add_one(call, exg_partial(op), exg_partial(op)) : EXG_OK;
}

exg_status exg_rule_sum(exg_rule_call *call)
{
    return reduction_strategies(call, EXG_REDUCE_SUM, true,
                                call->operands[0]->dtype == call->results[0]->dtype);
}

exg_status exg_rule_sum_squares(exg_rule_call *call)
{
    return reduction_strategies(call, EXG_REDUCE_SUM, true, false);
}

/* The average of averages is the average only of chunks of one size. */
exg_status exg_rule_mean(exg_rule_call *call)
{
    const exg_tensor_meta *in = call->operands[0];
    bool in_set[EXG_SHAPE_RANK_MAX];
    bool even = true;

    EXG_TRY(exg_dim_set(&call->args[1], in->rank, in_set, call->err));
    for (uint32_t d = 0; d < in->rank; d++) {
        even = even && (!in_set[d] || in->sizes[d].value % call->mesh_size == 0);
    }
    for (uint32_t d = 0; !even && d < in->rank; d++) {
        if (in_set[d]) {
            EXG_TRY(exg_add_uneven_mean(call, d));
        }
    }
    return reduction_strategies(call, EXG_REDUCE_AVG, even, true);
}

exg_status exg_rule_amax(exg_rule_call *call)
{
    return reduction_strategies(call, EXG_REDUCE_MAX, true, true);
}

exg_status exg_rule_amin(exg_rule_call *call)
{
    return reduction_strategies(call, EXG_REDUCE_MIN, true, true);
}

/* No way to combine parts: only dims that are not reduced. dim None or absent: all. */
exg_status exg_rule_reduce(exg_rule_call *call)
{
    exg_operator_id id = call->op->id;

    EXG_TRY(reduction_strategies(call, EXG_REDUCE_SUM, false, false));
    return (id == EXG_OP_max_dim || id == EXG_OP_min_dim || id == EXG_OP_argmax_default ||
            id == EXG_OP_argmin_default) &&
                   call->args[1].kind == EXG_ARGUMENT_INT
               ? exg_add_largest(call,
                                 exg_rule_dim(exg_get_int(&call->args[1]), call->operands[0]->rank))
               : EXG_OK;
}

/* Not the dim that is sorted: where an element goes depends on all, so that is gathered. */
exg_status exg_rule_sort(exg_rule_call *call)
{
    return exg_strategy_add_all_but(
        call, exg_rule_dim(exg_get_int(&call->args[2]), call->operands[0]->rank));
}

exg_status exg_rule_topk(exg_rule_call *call)
{
    EXG_TRY(exg_rule_sort(call));
    return exg_add_largest(call,
                           exg_rule_dim(exg_get_int(&call->args[2]), call->operands[0]->rank));
}

/* ---- norms -------------------------------------------------------------------------- */

exg_status exg_rule_layer_norm(exg_rule_call *call)
{
    uint32_t normalized = exg_get_ints(&call->args[1], (int64_t[1]){0}, 1);

    for (uint32_t d = 0; d + normalized < call->operands[0]->rank; d++) {
        int32_t split = (int32_t)d;

        SPLIT(LIST(split, split, split), LIST(split, -1, -1));
    }
    return EXG_OK;
}

exg_status exg_rule_rms_norm(exg_rule_call *call)
{
    int64_t normalized = exg_get_int(&call->args[1]);

    for (uint32_t d = 0; (int64_t)d + normalized < call->operands[0]->rank; d++) {
        SPLIT(LIST((int32_t)d), LIST((int32_t)d, -1));
    }
    return EXG_OK;
}

exg_status exg_rule_group_norm(exg_rule_call *call)
{
    SPLIT(LIST(0, 0, 0), LIST(0, -1, -1));
    return EXG_OK;
}

/* ---- indexing ----------------------------------------------------------------------- */

exg_status exg_rule_embedding(exg_rule_call *call)
{
    int32_t rank = (int32_t)call->operands[1]->rank;

    SPLIT(LIST(rank), LIST(1, -1));
    for (int32_t d = 0; d < rank; d++) {
        SPLIT(LIST(d), LIST(-1, d));
    }
    return exg_add_lookup(call, 0);
}

/* The result is summands where operands are split along these dims; -1: whole. */
static exg_status add_summands(exg_rule_call *call, const int32_t *dims)
{
    exg_strategy *strategy = exg_strategy_add(call);

    if (strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    strategy->results[0] = exg_partial(EXG_REDUCE_SUM);
    for (uint32_t i = 0; i < call->operand_count; i++) {
        if (dims[i] >= 0 && call->operands[i] != NULL) {
            strategy->operands[i] = exg_shard(dims[i]);
        }
    }
    return EXG_OK;
}

/* Columns of the table and of the result; places, each into any of the bags. */
exg_status exg_rule_add_rows(exg_rule_call *call)
{
    SPLIT(LIST(1), LIST(1, -1, -1, -1));
    EXG_TRY(add_summands(call, (const int32_t[]){-1, 0, 0, 0}));
    return exg_add_lookup(call, 0);
}

/* (x1 [.., P, M], x2 [.., R, M]) -> [.., P, R] */
exg_status exg_rule_distances(exg_rule_call *call)
{
    int32_t last = (int32_t)call->operands[0]->rank - 1;

    for (int32_t d = 0; d < last - 1; d++) {
        SPLIT(LIST(d), LIST(d, d));
    }
    SPLIT(LIST(last - 1), LIST(last - 1, -1));
    SPLIT(LIST(last), LIST(-1, last - 1));
    return EXG_OK;
}

/* (n c elements, n t p, n t p) -> n c p: terms are summed, elements may be needed by any place */
exg_status exg_rule_weighted_gather(exg_rule_call *call)
{
    SPLIT(LIST(0), LIST(0, 0, 0));
    SPLIT(LIST(1), LIST(1, -1, -1));
    SPLIT(LIST(2), LIST(-1, 2, 2));
    return add_summands(call, (const int32_t[]){-1, 1, 1});
}

/* (self, terms count, terms count, dim) -> self with count at dim: terms are summed */
exg_status exg_rule_resample(exg_rule_call *call)
{
    const uint32_t rank = call->operands[0]->rank;
    const uint32_t dim = exg_rule_dim(exg_get_int(&call->args[3]), rank);

    for (uint32_t d = 0; d < rank; d++) {
        const int32_t split = (int32_t)d;

        if (d == dim) {
            SPLIT(LIST(split), LIST(-1, 1, 1));
        } else {
            SPLIT(LIST(split), LIST(split, -1, -1));
        }
    }
    return add_summands(call, (const int32_t[]){-1, 0, 0});
}

exg_status exg_rule_index_select(exg_rule_call *call)
{
    uint32_t dim = exg_rule_dim(exg_get_int(&call->args[1]), call->operands[0]->rank);

    for (uint32_t d = 0; d < call->operands[0]->rank; d++) {
        int32_t split = (int32_t)d;

        if (d != dim) {
            SPLIT(LIST(split), LIST(split, -1));
        } else if (call->operands[1]->rank == 1) {
            SPLIT(LIST(split), LIST(-1, 0));
        }
    }
    return exg_add_lookup(call, dim);
}

/* Dims that self and index share; along dim, the index alone. */
exg_status exg_rule_gather(exg_rule_call *call)
{
    const exg_tensor_meta *self = call->operands[0];
    const exg_tensor_meta *index = call->operands[1];
    uint32_t dim = exg_rule_dim(exg_get_int(&call->args[1]), self->rank);

    for (uint32_t d = 0; d < index->rank && self->rank == index->rank; d++) {
        int32_t split = (int32_t)d;

        if (d == dim) {
            SPLIT(LIST(split), LIST(-1, split));
        } else if (self->sizes[d].value == index->sizes[d].value) {
            SPLIT(LIST(split), LIST(split, split));
        }
    }
    return exg_add_lookup(call, dim);
}

exg_status exg_rule_index_copy(exg_rule_call *call)
{
    uint32_t dim = exg_rule_dim(exg_get_int(&call->args[1]), call->operands[0]->rank);

    for (uint32_t d = 0; d < call->operands[0]->rank; d++) {
        int32_t split = (int32_t)d;

        if (d != dim && call->operands[2]->rank == call->operands[0]->rank) {
            SPLIT(LIST(split), LIST(split, -1, split));
        }
    }
    return EXG_OK;
}

exg_status exg_rule_slice_scatter(exg_rule_call *call)
{
    uint32_t dim = exg_rule_dim(exg_get_int(&call->args[2]), call->operands[0]->rank);

    for (uint32_t d = 0; d < call->operands[0]->rank; d++) {
        int32_t split = (int32_t)d;

        if (d != dim) {
            SPLIT(LIST(split), LIST(split, split));
        }
    }
    return EXG_OK;
}

exg_status exg_rule_select_scatter(exg_rule_call *call)
{
    uint32_t dim = exg_rule_dim(exg_get_int(&call->args[2]), call->operands[0]->rank);

    for (uint32_t d = 0; d < call->operands[0]->rank; d++) {
        int32_t split = (int32_t)d;

        if (d != dim) {
            SPLIT(LIST(split), LIST(split, d > dim ? split - 1 : split));
        }
    }
    return EXG_OK;
}

/* All operands alike, along any other dim; summands pass. */
exg_status exg_rule_cat(exg_rule_call *call)
{
    const exg_tensor_meta *out = call->results[0];
    uint32_t dim = exg_rule_dim(exg_get_int(&call->args[1]), out->rank);

    for (uint32_t d = 0; d <= out->rank; d++) {
        exg_strategy *strategy;
        exg_placement p = d == out->rank ? exg_partial(EXG_REDUCE_SUM) : exg_shard((int32_t)d);

        if (d == dim) {
            continue;
        }
        strategy = exg_strategy_add(call);
        if (strategy == NULL) {
            return EXG_OUT_OF_MEMORY(call->err);
        }
        strategy->results[0] = p;
        for (uint32_t i = 0; i < call->operand_count; i++) {
            bool legacy_empty = call->operands[i]->rank != out->rank;

            strategy->operands[i] = legacy_empty && p.kind == EXG_SHARD ? exg_replicate() : p;
        }
    }
    return EXG_OK;
}

/* Dims that nothing is put before or behind. */
static exg_status add_unpadded(exg_rule_call *call)
{
    int64_t pads[2 * EXG_SHAPE_RANK_MAX];
    uint32_t rank = call->operands[0]->rank;
    uint32_t padded = exg_get_ints(&call->args[1], pads, 2 * EXG_SHAPE_RANK_MAX) / 2;

    for (uint32_t d = 0; d < rank; d++) {
        const int64_t *two = &pads[2 * (rank - 1 - d)];

        if (d + padded < rank || (two[0] == 0 && two[1] == 0)) {
            SPLIT(LIST((int32_t)d), LIST((int32_t)d));
        }
    }
    return EXG_OK;
}

exg_status exg_rule_edge_pad(exg_rule_call *call)
{
    EXG_TRY(add_unpadded(call));
    return exg_add_edges(call);
}

exg_status exg_rule_pad(exg_rule_call *call)
{
    EXG_TRY(add_unpadded(call));
    return exg_add_padded(call);
}

/* Dims that the operator does not touch. Along one that it does elements go to any rank, as no
 * collective sends them: it is gathered. */
static exg_status untouched(exg_rule_call *call, const exg_argument *dims)
{
    bool touched[EXG_SHAPE_RANK_MAX];

    EXG_TRY(exg_dim_set(dims, call->operands[0]->rank, touched, call->err));
    for (uint32_t d = 0; d < call->operands[0]->rank; d++) {
        if (!touched[d]) {
            SPLIT(LIST((int32_t)d), LIST((int32_t)d));
        }
    }
    return EXG_OK;
}

exg_status exg_rule_flip(exg_rule_call *call)
{
    return untouched(call, &call->args[1]);
}

exg_status exg_rule_roll(exg_rule_call *call)
{
    return untouched(call, &call->args[2]);
}

/* Matrices in the last two dims, a batch in front. */
exg_status exg_rule_batch(exg_rule_call *call)
{
    for (uint32_t d = 0; d + 2 < call->operands[0]->rank; d++) {
        SPLIT(LIST((int32_t)d), LIST((int32_t)d));
    }
    return EXG_OK;
}

/* Made whole on every rank; a chunk of it is a view. */
exg_status exg_rule_full(exg_rule_call *call)
{
    (void)call;
    return EXG_OK;
}

exg_status exg_rule_arange(exg_rule_call *call)
{
    (void)call;
    return EXG_OK;
}
