/* view_rules.c - strategies of views: how a split dimension travels. */
#include "libexec/sharding/rules.h"
#include "libexport/operators/shape.h"

#include <string.h>

#define EXG_NAMED_RULE(name) exg_operator_rule exg_rule_##name;
#include "libexec/sharding/named_rules.def"
#undef EXG_NAMED_RULE

/* results <- operand 0, both split. */
static exg_status add_move(exg_rule_call *call, uint32_t from, uint32_t to)
{
    exg_strategy *strategy = exg_strategy_add(call);

    if (strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    strategy->operands[0] = exg_shard((int32_t)from);
    strategy->results[0] = exg_shard((int32_t)to);
    return EXG_OK;
}

/* What moves no element between positions passes summands. */
static exg_status add_partials(exg_rule_call *call)
{
    static const exg_reduce_op ops[] = {EXG_REDUCE_SUM, EXG_REDUCE_AVG, EXG_REDUCE_MAX,
                                        EXG_REDUCE_MIN};

    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        exg_strategy *strategy = exg_strategy_add(call);

        if (strategy == NULL) {
            return EXG_OUT_OF_MEMORY(call->err);
        }
        strategy->operands[0] = exg_partial(ops[i]);
        strategy->results[0] = exg_partial(ops[i]);
    }
    return EXG_OK;
}

exg_status exg_rule_same(exg_rule_call *call)
{
    for (uint32_t d = 0; d < call->operands[0]->rank; d++) {
        EXG_TRY(add_move(call, d, d));
    }
    return add_partials(call);
}

/* Dims of the two shapes are grouped so that each group has one product. The first
 * dim of a group stays split when it divides evenly on both sides: then chunks of
 * the one are chunks of the other. */
exg_status exg_rule_view(exg_rule_call *call)
{
    const exg_tensor_meta *in = call->operands[0];
    const exg_tensor_meta *out = call->results[0];
    uint32_t i = 0;
    uint32_t o = 0;

    while (i < in->rank && o < out->rank) {
        uint32_t first_in = i;
        uint32_t first_out = o;
        int64_t product_in = in->sizes[i++].value;
        int64_t product_out = out->sizes[o++].value;
        int64_t head_in;
        int64_t head_out;

        while (product_in != product_out && i <= in->rank && o <= out->rank) {
            if (product_in < product_out && i < in->rank) {
                product_in *= in->sizes[i++].value;
            } else if (product_out < product_in && o < out->rank) {
                product_out *= out->sizes[o++].value;
            } else {
                return add_partials(call); /* empty tensors: only whole */
            }
        }
        /* leading ones of a group stand aside */
        while (first_in + 1 < i && in->sizes[first_in].value == 1) {
            first_in++;
        }
        while (first_out + 1 < o && out->sizes[first_out].value == 1) {
            first_out++;
        }
        head_in = in->sizes[first_in].value;
        head_out = out->sizes[first_out].value;
        if (head_in == head_out ||
            (head_in % call->mesh_size == 0 && head_out % call->mesh_size == 0)) {
            EXG_TRY(add_move(call, first_in, first_out));
        }
    }
    return add_partials(call);
}

exg_status exg_rule_permute(exg_rule_call *call)
{
    int64_t dims[EXG_SHAPE_RANK_MAX];
    uint32_t rank = exg_get_ints(&call->args[1], dims, EXG_SHAPE_RANK_MAX);

    for (uint32_t o = 0; o < rank; o++) {
        EXG_TRY(add_move(call, exg_rule_dim(dims[o], rank), o));
    }
    return add_partials(call);
}

exg_status exg_rule_expand(exg_rule_call *call)
{
    const exg_tensor_meta *in = call->operands[0];
    uint32_t added = call->results[0]->rank - in->rank;

    for (uint32_t d = 0; d < in->rank; d++) {
        if (in->sizes[d].value == call->results[0]->sizes[d + added].value) {
            EXG_TRY(add_move(call, d, d + added));
        }
    }
    for (uint32_t d = 0; d < call->results[0]->rank; d++) { /* what is repeated: some of it */
        if (d < added || in->sizes[d - added].value != call->results[0]->sizes[d].value) {
            EXG_TRY(exg_strategy_add_one(call, exg_shard((int32_t)d), exg_replicate()));
        }
    }
    return add_partials(call);
}

/* (self, dim, ...): the other dims stay where they are. */
static exg_status keep_others(exg_rule_call *call)
{
    const exg_tensor_meta *in = call->operands[0];
    uint32_t dim = exg_rule_dim(exg_get_int(&call->args[1]), in->rank);

    for (uint32_t d = 0; d < in->rank; d++) {
        if (d != dim) {
            EXG_TRY(add_move(call, d, d));
        }
    }
    return add_partials(call);
}

exg_status exg_rule_slice(exg_rule_call *call)
{
    return keep_others(call);
}

/* Complex numbers and their two parts: the dims in front are the same. */
exg_status exg_rule_parts(exg_rule_call *call)
{
    uint32_t rank = call->operands[0]->rank;
    uint32_t shared = rank < call->results[0]->rank ? rank : call->results[0]->rank;

    for (uint32_t d = 0; d < shared; d++) {
        EXG_TRY(add_move(call, d, d));
    }
    return EXG_OK;
}

/* Windows along a dim, put last. */
exg_status exg_rule_unfold(exg_rule_call *call)
{
    return keep_others(call);
}

/* Of two dims, put last; the others keep their order. */
exg_status exg_rule_diagonal(exg_rule_call *call)
{
    const exg_tensor_meta *in = call->operands[0];
    uint32_t a = exg_rule_dim(exg_get_int(&call->args[2]), in->rank);
    uint32_t b = exg_rule_dim(exg_get_int(&call->args[3]), in->rank);
    uint32_t to = 0;

    for (uint32_t d = 0; d < in->rank; d++) {
        if (d != a && d != b) {
            EXG_TRY(add_move(call, d, to++));
        }
    }
    return add_partials(call);
}

exg_status exg_rule_select(exg_rule_call *call)
{
    const exg_tensor_meta *in = call->operands[0];
    uint32_t dim = exg_rule_dim(exg_get_int(&call->args[1]), in->rank);

    for (uint32_t d = 0; d < in->rank; d++) {
        if (d != dim) {
            EXG_TRY(add_move(call, d, d > dim ? d - 1 : d));
        }
    }
    return add_partials(call);
}

exg_status exg_rule_unsqueeze(exg_rule_call *call)
{
    const exg_tensor_meta *in = call->operands[0];
    uint32_t dim = exg_rule_dim(exg_get_int(&call->args[1]), in->rank + 1);

    for (uint32_t d = 0; d < in->rank; d++) {
        EXG_TRY(add_move(call, d, d >= dim ? d + 1 : d));
    }
    return add_partials(call);
}

/* Dims of size 1 that are named drop out; by global sizes, so a chunk of 1 stays. */
exg_status exg_rule_squeeze(exg_rule_call *call)
{
    const exg_tensor_meta *in = call->operands[0];
    bool in_set[EXG_SHAPE_RANK_MAX] = {false};
    uint32_t to = 0;

    if (call->args[1].count > 0 || call->args[1].kind != EXG_ARGUMENT_INTS) {
        EXG_TRY(exg_dim_set(&call->args[1], in->rank, in_set, call->err));
    }
    for (uint32_t d = 0; d < in->rank; d++) {
        if (in_set[d] && in->sizes[d].value == 1) {
            continue;
        }
        /* a named dim that stays could become 1 on a rank and drop out there */
        if (!in_set[d]) {
            EXG_TRY(add_move(call, d, to));
        }
        to++;
    }
    return add_partials(call);
}
