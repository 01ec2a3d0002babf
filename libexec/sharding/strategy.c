/* strategy.c - rows of a rule: an empty one, one that splits, those of a dim that stays whole. */
#include "libexec/sharding/rules.h"

#include <string.h>

#define EXG_NAMED_RULE(name) exg_operator_rule exg_rule_##name;
#include "libexec/sharding/named_rules.def"
#undef EXG_NAMED_RULE

exg_row *exg_rule_add(exg_rule_call *call)
{
    exg_row *row;

    if (call->row_count == call->row_capacity) {
        uint32_t capacity = call->row_capacity == 0 ? 8 : call->row_capacity * 2;
        exg_row *rows = EXG_NEW_ARRAY(call->arena, exg_row, capacity);

        if (rows == NULL) {
            return NULL;
        }
        if (call->row_count > 0) {
            memcpy(rows, call->rows, call->row_count * sizeof(*rows));
        }
        call->rows = rows;
        call->row_capacity = capacity;
    }
    row = &call->rows[call->row_count];
    memset(row, 0, sizeof(*row)); /* all replicated */
    row->operands = EXG_NEW_ARRAY(call->arena, exg_placement, call->operand_count);
    if (row->operands == NULL) {
        return NULL;
    }
    call->row_count++;
    return row;
}

exg_status exg_rule_add_split(exg_rule_call *call, const int32_t *results, const int32_t *operands)
{
    exg_row *row = exg_rule_add(call);

    if (row == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    for (uint32_t r = 0; r < call->result_count && r < EXG_RESULTS_MAX; r++) {
        if (results[r] >= 0) {
            row->results[r] = exg_shard(results[r]);
        }
    }
    for (uint32_t i = 0; i < call->operand_count; i++) {
        if (operands[i] >= 0 && call->operands[i] != NULL) {
            row->operands[i] = exg_shard(operands[i]);
        }
    }
    return EXG_OK;
}

exg_status exg_rule_add_one(exg_rule_call *call, exg_placement result, exg_placement operand)
{
    exg_row *row = exg_rule_add(call);

    if (row == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    row->results[0] = result;
    row->operands[0] = operand;
    return EXG_OK;
}

exg_status exg_rule_all_but(exg_rule_call *call, uint32_t dim)
{
    for (uint32_t d = 0; d < call->operands[0]->rank; d++) {
        int32_t split = (int32_t)d;

        if (d != dim) {
            EXG_TRY(exg_rule_add_split(call, (const int32_t[]){split, split}, &split));
        }
    }
    return EXG_OK;
}

exg_status exg_rule_along_dim(exg_rule_call *call)
{
    return exg_rule_all_but(call,
                            exg_rule_dim(exg_get_int(&call->args[1]), call->operands[0]->rank));
}
