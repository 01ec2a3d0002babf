/* operator_set.c - operators by number and by target. */
#include "libexport/operators/operator_set.h"

#include <exg/operator_id_new.h>

#include <string.h>

void exg_operators_destroy(exg_operators *operators)
{
    if (operators != NULL) {
        exg_arena_destroy(operators->arena);
    }
}

const exg_operator *exg_operators_get(const exg_operators *operators, exg_operator_id id)
{
    return (uint32_t)id < EXG_OPERATOR_COUNT ? &operators->items[id]
                                             : operators->added[id - EXG_OPERATOR_COUNT];
}

const exg_operator **exg_operators_by_address(const exg_operators *operators, const char *target)
{
    uint64_t hash = (uint64_t)(uintptr_t)target * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t at = (uint32_t)(hash >> 32) % EXG_ADDRESSES;

    while (operators->by_address[at] != NULL && operators->by_address[at]->target != target) {
        at = (at + 1) % EXG_ADDRESSES;
    }
    return &operators->by_address[at];
}

const exg_operator *exg_operators_find(const exg_operators *operators, const char *target)
{
    const exg_operator *same = *exg_operators_by_address(operators, target);
    uint32_t index;

    if (same != NULL) {
        return same;
    }
    index = exg_map_find(&operators->by_target, target);
    return index == EXG_MAP_NONE ? NULL : exg_operators_get(operators, (exg_operator_id)index);
}

const exg_dtype_lowerings *exg_operators_dtype_lowerings(const exg_operators *operators,
                                                         exg_operator_id id)
{
    static const exg_dtype_lowerings none;

    return (uint32_t)id < EXG_OPERATOR_COUNT ? &operators->of_dtypes[id] : &none;
}

/* ---- in PyTorch's operators ----------------------------------------------------------------- */

bool exg_operator_is_own(const exg_operator *op)
{
    return strcmp(op->schema->name_space, "exg") == 0;
}

bool exg_operator_may_stay(const exg_operator *op)
{
    bool stays = !exg_operator_is_own(op) && op->view == NULL && op->symbolic == NULL &&
                 op->functional == EXG_OP_NONE && !op->schema->is_mutable;

    for (uint32_t r = 0; r < op->schema->return_count; r++) {
        stays = stays && op->schema->returns[r].alias == 0;
    }
    return stays;
}

const exg_aten *exg_operators_aten(const exg_operators *operators, exg_operator_id id)
{
    return operators->aten == NULL ? NULL : &operators->aten[id];
}
