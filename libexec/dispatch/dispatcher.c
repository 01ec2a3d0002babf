/* dispatcher.c - what is made once: options, the table of operators, the cache, the memory of
 * plans. */
#include "libexec/dispatch/dispatcher.h"
#include "libexport/base/arena.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"

#include <stdlib.h>

#define CACHE_CAPACITY 1024

exg_status exg_dispatcher_configure(exg_dispatcher *d, const exg_dispatch_options *options,
                                    exg_error *err)
{
    EXG_REQUIRE(err, d);
    exg_dispatch_options all = {0};
    uint32_t capacity = d->options.cache_capacity;

    EXG_TRY(EXG_READ_OPTIONS(exg_dispatch_options, &all, options, err));
    d->options = all;
    d->options.cache_capacity = capacity;
    return EXG_OK;
}

static exg_status create_parts(exg_dispatcher *d, uint32_t capacity, exg_error *err)
{
    EXG_TRY(exg_cache_init(&d->cache, capacity, err));
    EXG_TRY(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &d->empty, err));
    EXG_TRY(exg_weight_store_create(d->empty->weights, NULL, &d->memory, err));
    EXG_TRY(exg_register_builtin_ops(d, err));
    EXG_TRY(exg_register_factories(d, err));
    return exg_register_drawn(d, err);
}

exg_status exg_dispatcher_create(const exg_operators *operators,
                                 const exg_dispatch_options *options, exg_dispatcher **d,
                                 exg_error *err)
{
    EXG_REQUIRE(err, operators, d);
    exg_dispatcher *made = calloc(1, sizeof(*made));
    uint32_t capacity = CACHE_CAPACITY;
    exg_status status;

    *d = NULL;
    if (made == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    made->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    made->scratch = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    if (made->arena == NULL || made->scratch == NULL) {
        exg_dispatcher_destroy(made);
        return EXG_OUT_OF_MEMORY(err);
    }
    made->operators = operators;
    exg_costs_init(&made->costs, sizeof(made->costs));
    exg_map_init(&made->by_key, made->arena);
    status = exg_dispatcher_configure(made, options, err);
    if (options != NULL && options->size >= sizeof(*options) && options->cache_capacity > 0) {
        capacity = options->cache_capacity;
    }
    made->options.cache_capacity = capacity;
    if (status == EXG_OK) {
        status = create_parts(made, capacity, err);
    }
    if (status != EXG_OK) {
        exg_dispatcher_destroy(made);
        return status;
    }
    *d = made;
    return EXG_OK;
}

void exg_dispatcher_destroy(exg_dispatcher *d)
{
    if (d == NULL) {
        return;
    }
    exg_cache_free(&d->cache);
    exg_device_mesh_destroy(d->self);
    exg_weight_store_destroy(d->memory);
    exg_program_destroy(d->empty);
    exg_cache_key_free(&d->key);
    exg_arena_destroy(d->arena);
    exg_arena_destroy(d->scratch);
    free(d);
}

const exg_dispatch_stats *exg_dispatcher_statistics(exg_dispatcher *d)
{
    d->stats.size = sizeof(d->stats);
    d->stats.entries = d->cache.entry_count;
    return &d->stats;
}
