/* strategy.c - strategies of a rule: an empty one, one that splits, those of a dim that stays
 * whole. */
#include "libexec/sharding/rules.h"

#include <string.h>

#define EXG_NAMED_RULE(name) exg_operator_rule exg_rule_##name;
#include "libexec/sharding/named_rules.def"
#undef EXG_NAMED_RULE

exg_strategy *exg_strategy_add(exg_rule_call *call)
{
    uint32_t results = call->result_count < EXG_RESULTS_MAX ? EXG_RESULTS_MAX : call->result_count;
    exg_strategy *strategy;

    if (call->strategy_count == call->strategy_capacity) {
        uint32_t capacity = call->strategy_capacity == 0 ? 8 : call->strategy_capacity * 2;
        exg_strategy *strategies = EXG_NEW_ARRAY(call->arena, exg_strategy, capacity);

        if (strategies == NULL) {
            return NULL;
        }
        if (call->strategy_count > 0) {
            memcpy(strategies, call->strategies, call->strategy_count * sizeof(*strategies));
        }
        call->strategies = strategies;
        call->strategy_capacity = capacity;
    }
    strategy = &call->strategies[call->strategy_count];
    memset(strategy, 0, sizeof(*strategy)); /* all replicated */
    strategy->operands = EXG_NEW_ARRAY(call->arena, exg_placement, call->operand_count);
    strategy->results = EXG_NEW_ARRAY(call->arena, exg_placement, results);
    if (strategy->operands == NULL || strategy->results == NULL) {
        return NULL;
    }
    call->strategy_count++;
    return strategy;
}

exg_status exg_strategy_add_split(exg_rule_call *call, const int32_t *results,
                                  const int32_t *operands)
{
    exg_strategy *strategy = exg_strategy_add(call);

    if (strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    for (uint32_t r = 0; r < call->result_count; r++) {
        if (results[r] >= 0) {
            strategy->results[r] = exg_shard(results[r]);
        }
    }
    for (uint32_t i = 0; i < call->operand_count; i++) {
        if (operands[i] >= 0 && call->operands[i] != NULL) {
            strategy->operands[i] = exg_shard(operands[i]);
        }
    }
    return EXG_OK;
}

exg_status exg_strategy_add_one(exg_rule_call *call, exg_placement result, exg_placement operand)
{
    exg_strategy *strategy = exg_strategy_add(call);

    if (strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    strategy->results[0] = result;
    strategy->operands[0] = operand;
    return EXG_OK;
}

exg_status exg_strategy_add_all_but(exg_rule_call *call, uint32_t dim)
{
    for (uint32_t d = 0; d < call->operands[0]->rank; d++) {
        int32_t split = (int32_t)d;

        if (d != dim) {
            EXG_TRY(exg_strategy_add_split(call, (const int32_t[]){split, split}, &split));
        }
    }
    return EXG_OK;
}

exg_status exg_rule_along_dim(exg_rule_call *call)
{
    return exg_strategy_add_all_but(
        call, exg_rule_dim(exg_get_int(&call->args[1]), call->operands[0]->rank));
}
