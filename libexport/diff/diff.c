/* diff.c - the rooms of a comparison, one after the other. */
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/diff/side.h"

#include <string.h>

static exg_status compare(exg_differ *d, exg_error *err)
{
    exg_symbol_names symbols[2];
    exg_side a = {.graph = d->a->graph,
                  .signature = &d->a->signature,
                  .renamed = &d->renamed,
                  .renamed_to = d->b,
                  .symbols = &symbols[0]};
    exg_side b = {.graph = d->b->graph, .signature = &d->b->signature, .symbols = &symbols[1]};

    exg_map_init(&symbols[0].map, d->scratch);
    exg_map_init(&symbols[1].map, d->scratch);
    exg_map_init(&d->renamed, d->scratch);
    if (!d->options->skip_tensors) {
        EXG_TRY(exg_diff_tensors(d, err)); /* first: renames matter to the graph */
    }
    if (!d->failed) {
        exg_side_fill(d, &a);
    }
    if (!d->failed) {
        exg_side_fill(d, &b);
    }
    if (!d->failed) {
        exg_diff_signatures(d, &a, &b);
    }
    if (!d->failed) {
        exg_diff_graphs(d, &a, &b);
    }
    return d->failed ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

/* By room; within a room as found. */
static bool sort_rooms(exg_diff *diff)
{
    exg_difference *sorted = EXG_NEW_ARRAY(diff->arena, exg_difference, diff->count);
    uint32_t count = 0;

    if (sorted == NULL) {
        return false;
    }
    for (exg_diff_room room = 0; room < EXG_DIFF_ROOM_COUNT; room++) {
        for (uint32_t i = 0; i < diff->count; i++) {
            if (diff->items[i].room == room) {
                sorted[count++] = diff->items[i];
            }
        }
    }
    diff->items = sorted;
    return true;
}

static exg_status compare_weights(exg_differ *d, exg_error *err)
{
    exg_map_init(&d->renamed, d->scratch);
    EXG_TRY(exg_diff_tensors(d, err));
    return d->failed ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

/* Fills d->diff by compare(); frees it where that fails. */
static exg_status run(exg_differ *d, exg_status (*compare_all)(exg_differ *d, exg_error *err),
                      const exg_diff_options *options, exg_error *err)
{
    exg_diff_options own = {.size = sizeof(own)};
    exg_status status;

    memset(d->diff, 0, sizeof(*d->diff));
    EXG_TRY(EXG_READ_OPTIONS(exg_diff_options, &own, options, err));
    d->options = &own;
    d->diff->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    d->scratch = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    status =
        d->diff->arena == NULL || d->scratch == NULL ? EXG_OUT_OF_MEMORY(err) : compare_all(d, err);
    if (status == EXG_OK && !sort_rooms(d->diff)) {
        status = EXG_OUT_OF_MEMORY(err);
    }
    exg_arena_destroy(d->scratch);
    if (status != EXG_OK) {
        exg_diff_free(d->diff);
    }
    return status;
}

exg_status exg_diff_weights(exg_weights *a, exg_weights *b, const exg_diff_options *options,
                            exg_diff *diff, exg_error *err)
{
    EXG_REQUIRE(err, a, b, diff);
    exg_differ d = {.a_weights = a, .b_weights = b, .by_name_alone = true, .diff = diff};

    return run(&d, compare_weights, options, err);
}

exg_status exg_diff_programs(const exg_verified *a, const exg_verified *b,
                             const exg_diff_options *options, exg_diff *diff, exg_error *err)
{
    EXG_REQUIRE(err, a, b, diff);
    EXG_REQUIRE(err, a->program, b->program);
    exg_differ d = {.a = a->program,
                    .b = b->program,
                    .a_weights = a->program->weights,
                    .b_weights = b->program->weights,
                    .diff = diff};

    return run(&d, compare, options, err);
}
