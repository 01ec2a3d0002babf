/* operator_table.c - operators by key, with what was registered for them. */
#include "libexec/dispatch/dispatcher.h"
#include "libexport/base/arena.h"
#include "libexport/base/require.h"

#include <stdio.h>
#include <string.h>

void exg_operator_key(const exg_operator *op, char *text, size_t room)
{
    static const char prefix[] = "torch.ops.";
    const char *target = op->target;

    target += strncmp(target, prefix, sizeof(prefix) - 1) == 0 ? sizeof(prefix) - 1 : 0;
    snprintf(text, room, "%s", target);
}

static exg_status add_op_entry(exg_dispatcher *d, const char *key, const exg_operator *op,
                               exg_op_entry **op_entry, exg_error *err)
{
    exg_op_entry *made = EXG_NEW(d->arena, exg_op_entry);

    if (made == NULL || (made->key = exg_arena_strdup(d->arena, key)) == NULL ||
        !exg_arena_reserve(d->arena, &d->op_entries, d->op_entry_count, &d->op_entry_capacity,
                           sizeof(exg_op_entry *)) ||
        !exg_map_put(&d->by_key, made->key, d->op_entry_count)) {
        return EXG_OUT_OF_MEMORY(err);
    }
    made->op = op;
    made->index = d->op_entry_count;
    d->op_entries[d->op_entry_count++] = made;
    *op_entry = made;
    return EXG_OK;
}

exg_status exg_op_entry_of(exg_dispatcher *d, const char *key, exg_op_entry **op_entry,
                           exg_error *err)
{
    uint32_t index = exg_map_find(&d->by_key, key);
    char target[256];

    if (index != EXG_MAP_NONE) {
        *op_entry = d->op_entries[index];
        return EXG_OK;
    }
    snprintf(target, sizeof(target), "torch.ops.%s", key);
    return add_op_entry(d, key, exg_operators_find(d->operators, target), op_entry, err);
}

exg_status exg_op_entry_of_operator(exg_dispatcher *d, const exg_operator *op,
                                    exg_op_entry **op_entry, exg_error *err)
{
    char key[EXG_OPERATOR_KEY_MAX];

    exg_operator_key(op, key, sizeof(key));
    return exg_op_entry_of(d, key, op_entry, err);
}

exg_status exg_dispatcher_register(exg_dispatcher *d, const char *key,
                                   const exg_op_registration *registration, exg_error *err)
{
    EXG_REQUIRE(err, d, key, registration);
    exg_op_entry *known;

    EXG_TRY(exg_op_entry_of(d, key, &known, err));
    known->registration = *registration;
    exg_cache_empty(&d->cache); /* which was decided by other rules */
    return EXG_OK;
}
