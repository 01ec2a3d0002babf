/* report.c - keeps the differences that the rooms find. */
#include "libexport/diff/report.h"

#include <string.h>

static const char *const room_names[EXG_DIFF_ROOM_COUNT] = {
    [EXG_DIFF_PROGRAM] = "program",
    [EXG_DIFF_SIGNATURE] = "signature",
    [EXG_DIFF_GRAPH] = "graph",
    [EXG_DIFF_TENSOR] = "tensor",
};

static const char *const kind_names[EXG_DIFF_KIND_COUNT] = {
    [EXG_DIFF_REMOVED] = "removed",   [EXG_DIFF_ADDED] = "added",
    [EXG_DIFF_CHANGED] = "changed",   [EXG_DIFF_RENAMED] = "renamed",
    [EXG_DIFF_RESHAPED] = "reshaped", [EXG_DIFF_CAST] = "cast",
};

const char *exg_diff_room_name(exg_diff_room room)
{
    return (unsigned)room < EXG_DIFF_ROOM_COUNT ? room_names[room] : "?";
}

const char *exg_diff_kind_name(exg_diff_kind kind)
{
    return (unsigned)kind < EXG_DIFF_KIND_COUNT ? kind_names[kind] : "?";
}

void exg_differ_found(exg_differ *d, const exg_difference *difference)
{
    exg_difference *made;

    if (d->failed) {
        return;
    }
    if (!exg_arena_reserve(d->diff->arena, &d->diff->items, d->diff->count, &d->capacity,
                           sizeof(*made))) {
        d->failed = true;
        return;
    }
    made = &d->diff->items[d->diff->count];
    *made = *difference;
    made->where_a = exg_arena_strdup(d->diff->arena, difference->where_a);
    made->where_b = exg_arena_strdup(d->diff->arena, difference->where_b);
    made->what = exg_arena_strdup(d->diff->arena, difference->what);
    if (made->what == NULL || (made->where_a == NULL) != (difference->where_a == NULL) ||
        (made->where_b == NULL) != (difference->where_b == NULL)) {
        d->failed = true;
        return;
    }
    d->diff->count++;
}

const char *exg_differ_keep(exg_differ *d, exg_text *text)
{
    const char *string = exg_text_string(text);
    char *kept = string == NULL ? NULL : exg_arena_strdup(d->scratch, string);

    exg_text_free(text);
    if (kept == NULL) {
        d->failed = true;
        return "";
    }
    return kept;
}

void exg_diff_free(exg_diff *diff)
{
    if (diff != NULL) {
        exg_arena_destroy(diff->arena);
        memset(diff, 0, sizeof(*diff));
    }
}
