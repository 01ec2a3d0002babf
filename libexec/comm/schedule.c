/* schedule.c - begins collectives as early, and ends them as late, as their order lets them. */
#include "libexec/comm/schedule.h"

#define AHEAD (EXG_EXCHANGES_MAX / 4) /* each may take two exchanges */

typedef struct scheduler {
    exg_crossing *crossings;
    uint32_t count;
    exg_scheduled *order;
    uint32_t order_count;
    uint64_t bytes_most, under_way;
    uint32_t begun, ended;
} scheduler;

uint32_t exg_crossing_of(const exg_crossing *crossings, uint32_t count, uint32_t s)
{
    uint32_t low = 0;

    while (low < count) {
        uint32_t middle = low + (count - low) / 2;

        if (crossings[middle].step == s) {
            return middle + 1;
        }
        low = crossings[middle].step < s ? middle + 1 : low;
        count = crossings[middle].step < s ? count : middle;
    }
    return 0;
}

static void put(scheduler *o, uint32_t step, exg_collective_phase phase)
{
    o->order[o->order_count++] = (exg_scheduled){step, phase};
}

static void begin_next(scheduler *o)
{
    exg_crossing *c = &o->crossings[o->begun];

    c->begin = o->order_count;
    put(o, c->step, EXG_COLLECTIVE_BEGINS);
    o->under_way += c->bytes;
    o->begun++;
}

static void begin_ready(scheduler *o, uint32_t gap)
{
    while (o->begun < o->count && !o->crossings[o->begun].is_fixed &&
           o->crossings[o->begun].ready <= gap && o->crossings[o->begun].after <= o->ended &&
           o->begun - o->ended < AHEAD &&
           (o->begun == o->ended ||
            o->under_way + o->crossings[o->begun].bytes <= 2 * o->bytes_most)) {
        begin_next(o);
    }
}

/* One that ends right where it began is carried out whole. */
static void end_next(scheduler *o)
{
    exg_crossing *c = &o->crossings[o->ended];
    bool alone = o->begun == o->ended + 1;

    o->under_way -= c->bytes;
    if (alone && c->begin + 1 == o->order_count) {
        o->order_count--;
        put(o, c->step, EXG_COLLECTIVE_WHOLE);
        c->end = c->begin;
    } else {
        c->end = o->order_count;
        put(o, c->step, EXG_COLLECTIVE_ENDS);
    }
    o->ended++;
}

uint32_t exg_schedule(exg_crossing *crossings, uint32_t count, uint32_t first, uint32_t end,
                      exg_scheduled *order)
{
    scheduler o = {.crossings = crossings, .count = count, .order = order};
    uint32_t at = 0;

    for (uint32_t i = 0; i < count; i++) {
        o.bytes_most = crossings[i].bytes > o.bytes_most ? crossings[i].bytes : o.bytes_most;
    }
    for (uint32_t s = first; s <= end; s++) {
        begin_ready(&o, s);
        while (o.ended < count && crossings[o.ended].due <= s) {
            while (o.begun <= o.ended) {
                begin_next(&o);
            }
            end_next(&o);
            begin_ready(&o, s);
        }
        if (at < count && crossings[at].step == s) {
            at++;
        } else if (s < end) {
            put(&o, s, EXG_COLLECTIVE_NONE);
        }
    }
    return o.order_count;
}
