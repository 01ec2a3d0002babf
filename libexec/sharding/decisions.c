/* decisions.c - how the operands of moves along earlier mesh dims are placed along this one: ranks
 * that meet in such a move may have other sizes than each other, and place its operand alike.
 */
#include "libexec/sharding/partitioner.h"

#include <string.h>

static exg_status note_decision(exg_partitioner *p, exg_decisions *decisions, exg_placement operand)
{
    if (decisions->count == decisions->capacity) {
        uint32_t capacity = decisions->capacity == 0 ? 16 : 2 * decisions->capacity;
        exg_placement *operands = EXG_NEW_ARRAY(decisions->arena, exg_placement, capacity);

        if (operands == NULL) {
            return EXG_OUT_OF_MEMORY(p->r.err);
        }
        if (decisions->count > 0) {
            memcpy(operands, decisions->operands, decisions->count * sizeof(*operands));
        }
        decisions->operands = operands;
        decisions->capacity = capacity;
    }
    decisions->operands[decisions->count++] = operand;
    return EXG_OK;
}

exg_status exg_no_such_move(const exg_partitioner *p)
{
    return EXG_FAIL(p->r.err, UNSUPPORTED, "PLC-003",
                    "ranks along an earlier mesh dim than %u do not come to the same moves",
                    p->mesh_dim);
}

exg_status exg_follow_decision(exg_partitioner *p, uint32_t mesh_dim, exg_placement *operand)
{
    exg_decisions *decisions = p->decisions == NULL ? NULL : &p->decisions[mesh_dim];

    if (decisions == NULL) {
        return EXG_OK;
    }
    if (mesh_dim >= p->followed) {
        return note_decision(p, decisions, *operand);
    }
    if (p->taken[mesh_dim] == decisions->count) {
        return exg_no_such_move(p);
    }
    *operand = decisions->operands[p->taken[mesh_dim]++];
    return EXG_OK;
}
