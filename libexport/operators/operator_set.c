/* operator_set.c - operators by number and by target. */
#include "libexport/operators/operator_set.h"

void exg_operators_destroy(exg_operators *operators)
{
    if (operators != NULL) {
        exg_arena_destroy(operators->arena);
    }
}

const exg_operator *exg_operators_get(const exg_operators *operators, exg_operator_id id)
{
    return &operators->items[id];
}

const exg_operator *exg_operators_find(const exg_operators *operators, const char *target)
{
    uint32_t index = exg_map_find(&operators->by_target, target);

    return index == EXG_MAP_NONE ? NULL : &operators->items[index];
}

const exg_dtype_lowerings *exg_operators_dtype_lowerings(const exg_operators *operators,
                                                         exg_operator_id id)
{
    return &operators->of_dtypes[id];
}
