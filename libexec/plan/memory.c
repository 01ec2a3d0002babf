/* memory.c - where buffers are: lifetimes are intervals of steps; a buffer takes
 * the tightest gap that earlier ones left, or the end. One pass over the steps.
 */
#include "libexec/plan/plan_internal.h"
#include "libexport/base/checked.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64

typedef struct gap {
    uint64_t offset;
    uint64_t bytes;
} gap;

typedef struct layout {
    gap *gaps; /* sorted by offset, never touching */
    uint32_t count;
    uint32_t capacity;
    uint64_t end;
} layout;

static exg_status add_gap(layout *l, uint32_t at, gap g, exg_error *err)
{
    if (l->count == l->capacity) {
        uint32_t capacity = l->capacity == 0 ? 64 : l->capacity * 2;
        gap *gaps = realloc(l->gaps, capacity * sizeof(*gaps));

        if (gaps == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        l->gaps = gaps;
        l->capacity = capacity;
    }
    memmove(&l->gaps[at + 1], &l->gaps[at], (l->count - at) * sizeof(*l->gaps));
    l->gaps[at] = g;
    l->count++;
    return EXG_OK;
}

static void remove_gap(layout *l, uint32_t at)
{
    l->count--;
    memmove(&l->gaps[at], &l->gaps[at + 1], (l->count - at) * sizeof(*l->gaps));
}

static exg_status take(layout *l, uint64_t bytes, uint64_t *offset, exg_error *err)
{
    uint32_t best = l->count;

    for (uint32_t i = 0; i < l->count; i++) {
        if (l->gaps[i].bytes >= bytes &&
            (best == l->count || l->gaps[i].bytes < l->gaps[best].bytes)) {
            best = i;
        }
    }
    if (best < l->count) {
        *offset = l->gaps[best].offset;
        l->gaps[best].offset += bytes;
        l->gaps[best].bytes -= bytes;
        if (l->gaps[best].bytes == 0) {
            remove_gap(l, best);
        }
        return EXG_OK;
    }
    if (l->count > 0 && l->gaps[l->count - 1].offset + l->gaps[l->count - 1].bytes == l->end) {
        *offset = l->gaps[l->count - 1].offset; /* the last gap, widened */
        remove_gap(l, l->count - 1);
    } else {
        *offset = l->end;
    }
    if (!exg_add_u64(*offset, bytes, &l->end) || l->end > INT64_MAX) {
        return EXG_FAIL(err, LIMIT, "PLN-001", "the program's values need more than 2^63 bytes");
    }
    return EXG_OK;
}

static exg_status give(layout *l, uint64_t offset, uint64_t bytes, exg_error *err)
{
    uint32_t at = 0;
    bool joins_left;
    bool joins_right;

    while (at < l->count && l->gaps[at].offset < offset) {
        at++;
    }
    joins_left = at > 0 && l->gaps[at - 1].offset + l->gaps[at - 1].bytes == offset;
    joins_right = at < l->count && offset + bytes == l->gaps[at].offset;
    if (joins_left) {
        l->gaps[at - 1].bytes += bytes;
        if (joins_right) {
            l->gaps[at - 1].bytes += l->gaps[at].bytes;
            remove_gap(l, at);
        }
        return EXG_OK;
    }
    if (joins_right) {
        l->gaps[at].offset = offset;
        l->gaps[at].bytes += bytes;
        return EXG_OK;
    }
    return add_gap(l, at, (gap){offset, bytes}, err);
}

/* Buffers by step: a list of those that begin, and of those that end, at each. */
typedef struct events {
    uint32_t *first; /* by step: a buffer, or NO_BUFFER */
    uint32_t *next;  /* by buffer */
} events;

static bool events_create(events *e, uint32_t steps, uint32_t buffers)
{
    e->first = malloc((steps + 1) * sizeof(uint32_t));
    e->next = malloc((buffers + 1) * sizeof(uint32_t));
    if (e->first == NULL || e->next == NULL) {
        return false;
    }
    memset(e->first, 0xff, (steps + 1) * sizeof(uint32_t));
    return true;
}

static void events_add(events *e, uint32_t step, uint32_t buffer)
{
    e->next[buffer] = e->first[step];
    e->first[step] = buffer;
}

static void events_destroy(events *e)
{
    free(e->first);
    free(e->next);
}

static exg_status sweep(exg_plan *plan, bool no_reuse, events *begin, events *finish, layout *l,
                        exg_error *err)
{
    for (uint32_t s = 0; s < plan->step_count; s++) {
        for (uint32_t b = begin->first[s]; b != EXG_NO_BUFFER; b = begin->next[b]) {
            uint64_t bytes;

            if (!exg_align_u64(plan->buffers[b].bytes, ALIGNMENT, &bytes)) {
                return EXG_FAIL(err, LIMIT, "PLN-001", "a value needs more than 2^63 bytes");
            }
            EXG_TRY(take(l, bytes == 0 ? ALIGNMENT : bytes, &plan->buffers[b].offset, err));
        }
        for (uint32_t b = finish->first[s]; b != EXG_NO_BUFFER && !no_reuse; b = finish->next[b]) {
            uint64_t bytes = (plan->buffers[b].bytes + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);

            EXG_TRY(give(l, plan->buffers[b].offset, bytes == 0 ? ALIGNMENT : bytes, err));
        }
    }
    return EXG_OK;
}

exg_status exg_plan_memory(exg_plan *plan, bool no_reuse, exg_error *err)
{
    events begin = {0};
    events finish = {0};
    layout l = {0};
    exg_status status = EXG_OK;

    if (!events_create(&begin, plan->step_count, plan->buffer_count) ||
        !events_create(&finish, plan->step_count, plan->buffer_count)) {
        status = EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t b = 0; status == EXG_OK && b < plan->buffer_count; b++) {
        const exg_buffer *buffer = &plan->buffers[b];

        if (buffer->kind != EXG_BUFFER_ARENA) {
            continue;
        }
        plan->summary.values_bytes += buffer->bytes;
        events_add(&begin, buffer->first_step, b);
        if (buffer->last_step < plan->step_count) {
            events_add(&finish, buffer->last_step, b);
        }
    }
    if (status == EXG_OK) {
        status = sweep(plan, no_reuse, &begin, &finish, &l, err);
    }
    plan->summary.arena_bytes = l.end;
    free(l.gaps);
    events_destroy(&begin);
    events_destroy(&finish);
    return status;
}
