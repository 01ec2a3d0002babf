/* operator_table.c - operators by key, with what was registered for them. */
#include "libexec/dispatch/dispatcher.h"
#include "libexport/base/arena.h"
#include "libexport/base/given.h"

#include <stdio.h>
#include <string.h>

void exg_operator_key(const exg_operator *op, char *text, size_t room)
{
    static const char prefix[] = "torch.ops.";
    const char *target = op->target;

    target += strncmp(target, prefix, sizeof(prefix) - 1) == 0 ? sizeof(prefix) - 1 : 0;
    snprintf(text, room, "%s", target);
}

static exg_status add_row(exg_dispatcher *d, const char *key, const exg_operator *op,
                          exg_dispatch_op **row, exg_error *err)
{
    exg_dispatch_op *made = EXG_NEW(d->arena, exg_dispatch_op);

    if (made == NULL || (made->key = exg_arena_strdup(d->arena, key)) == NULL ||
        !exg_arena_reserve(d->arena, &d->rows, d->row_count, &d->row_capacity,
                           sizeof(exg_dispatch_op *)) ||
        !exg_map_put(&d->by_key, made->key, d->row_count)) {
        return EXG_OUT_OF_MEMORY(err);
    }
    made->op = op;
    made->index = d->row_count;
    d->rows[d->row_count++] = made;
    *row = made;
    return EXG_OK;
}

exg_status exg_dispatch_row_of(exg_dispatcher *d, const char *key, exg_dispatch_op **row,
                               exg_error *err)
{
    uint32_t index = exg_map_find(&d->by_key, key);
    char target[256];

    if (index != EXG_MAP_NONE) {
        *row = d->rows[index];
        return EXG_OK;
    }
    snprintf(target, sizeof(target), "torch.ops.%s", key);
    return add_row(d, key, exg_operators_find(d->operators, target), row, err);
}

exg_status exg_dispatch_row_of_op(exg_dispatcher *d, const exg_operator *op, exg_dispatch_op **row,
                                  exg_error *err)
{
    char key[256];

    exg_operator_key(op, key, sizeof(key));
    return exg_dispatch_row_of(d, key, row, err);
}

exg_status exg_dispatcher_register(exg_dispatcher *d, const char *key, const exg_dispatch_row *row,
                                   exg_error *err)
{
    EXG_GIVEN(err, d, key, row);
    exg_dispatch_op *known;

    EXG_TRY(exg_dispatch_row_of(d, key, &known, err));
    known->callers = *row;
    exg_cache_empty(&d->cache); /* which was decided by other rules */
    return EXG_OK;
}
