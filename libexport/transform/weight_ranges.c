/* weight_ranges.c - inputs sorted by where they are: of those that no other holds, the ones that
 * may hold an input are a few neighbours.
 */
#include "libexport/transform/weight_ranges.h"
#include "libexport/base/arena.h"
#include "libexport/transform/graph_segment.h"
#include "libexport/weights/storage.h"

#include <stdlib.h>

typedef struct sorted {
    exg_weight_range *place;
    uint32_t input;
} sorted;

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* By storage, dtype and where they begin, the longest first, the first of equals first. */
static int by_place(const void *a_, const void *b_)
{
    const sorted *a = a_;
    const sorted *b = b_;
    const exg_weight_range *p = a->place;
    const exg_weight_range *q = b->place;
    int order = compare(p->weight->storage, q->weight->storage);

    order = order != 0 ? order : compare(p->weight->meta->dtype, q->weight->meta->dtype);
    order = order != 0 ? order : compare(p->first, q->first);
    order = order != 0 ? order : compare(q->end, p->end);
    return order != 0 ? order : compare(a->input, b->input);
}

static int by_first(const void *a_, const void *b_)
{
    const sorted *a = a_;
    const sorted *b = b_;
    int order = compare(a->place->weight->storage, b->place->weight->storage);

    return order != 0 ? order : compare(a->place->first, b->place->first);
}

static bool is_alike(const exg_weight_range *a, const exg_weight_range *b)
{
    return a->weight->storage == b->weight->storage &&
           a->weight->meta->dtype == b->weight->meta->dtype;
}

/* The first of `wholes`, which begin and end later and later, that ends at `end` or later. */
static uint32_t first_that_reaches(const sorted *wholes, uint32_t count, uint64_t end)
{
    uint32_t low = 0;

    while (low < count) {
        uint32_t middle = low + (count - low) / 2;

        if (wholes[middle].place->end < end) {
            low = middle + 1;
        } else {
            count = middle;
        }
    }
    return low;
}

static void find_whole(const sorted *wholes, uint32_t count, const sorted *own)
{
    const exg_weight_range *place = own->place;
    uint32_t at = first_that_reaches(wholes, count, place->end);
    uint64_t best = 0;

    for (; at < count && wholes[at].place->first <= place->first; at++) {
        const exg_weight_range *whole = wholes[at].place;
        uint64_t length = whole->end - whole->first;

        if (length > best || (length == best && wholes[at].input < own->place->whole)) {
            own->place->whole = wholes[at].input;
            best = length;
        }
    }
}

/* `items` are of one storage and dtype, sorted; `wholes` has room for as many. */
static void find_wholes(const sorted *items, uint32_t count, sorted *wholes)
{
    uint32_t whole_count = 0;

    for (uint32_t i = 0; i < count; i++) {
        const sorted *last = &wholes[whole_count - 1];

        if (exg_tensor_meta_is_packed(items[i].place->weight->meta) &&
            (whole_count == 0 || items[i].place->end > last->place->end)) {
            wholes[whole_count++] = items[i];
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        find_whole(wholes, whole_count, &items[i]);
    }
}

static void number_together(sorted *items, uint32_t count)
{
    uint32_t number = 0;
    uint64_t end = 0;

    for (uint32_t i = 0; i < count; i++) {
        exg_weight_range *place = items[i].place;
        bool begins = i == 0 || place->first >= end ||
                      place->weight->storage != items[i - 1].place->weight->storage;

        number += begins;
        end = begins || place->end > end ? place->end : end;
        place->together = number;
    }
}

static exg_status reach(const exg_program *program, exg_weight_range *places, exg_error *err)
{
    for (uint32_t i = 0; i < program->graph->input_count; i++) {
        const exg_weight *weight = exg_input_weight(program, i);
        exg_weight_range *p = &places[i];

        if (weight != NULL && weight->meta != NULL) {
            EXG_TRY(exg_tensor_meta_reach(weight->meta, &p->first, &p->end, err));
            p->weight = p->first < p->end ? weight : NULL;
        }
    }
    return EXG_OK;
}

exg_status exg_weight_ranges(const exg_program *program, exg_arena *arena,
                             exg_weight_range **places, exg_error *err)
{
    uint32_t count = program->graph->input_count;
    exg_weight_range *p = *places = EXG_NEW_ARRAY(arena, exg_weight_range, count);
    bool shared = false;
    uint32_t placed = 0;
    sorted *items;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_weights_share(program->weights, arena, &shared, err));
    if (shared) {
        EXG_TRY(reach(program, p, err));
    }
    items = calloc(2 * (size_t)count + 1, sizeof(*items));
    if (items == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < count; i++) {
        p[i].whole = i;
        if (p[i].weight != NULL) {
            items[placed++] = (sorted){&p[i], i};
        }
    }
    qsort(items, placed, sizeof(*items), by_place);
    for (uint32_t i = 0, end = 0; i < placed; i = end) {
        while (end < placed && is_alike(items[i].place, items[end].place)) {
            end++;
        }
        find_wholes(items + i, end - i, items + count);
    }
    qsort(items, placed, sizeof(*items), by_first);
    number_together(items, placed);
    free(items);
    return EXG_OK;
}
