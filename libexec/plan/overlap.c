/* overlap.c - communication beside computation: a collective begins where what it sends is
 * ready, and ends before the first step that needs what it brings (comm/schedule.h). On a device
 * one that it leaves to the host stays where it is, whole, and those before end first.
 */
#include "libexec/comm/schedule.h"
#include "libexec/plan/emit.h"
#include "libexec/plan/planner.h"

#include <stdlib.h>

/* What is known of a crossing beside where it goes. */
typedef struct sending {
    uint32_t mesh_dim;
    bool stays; /* what it sends is never written again in the run */
} sending;

typedef struct overlap {
    exg_planner *p;
    exg_crossing *crossings;
    sending *sendings; /* of each */
    uint32_t count;
    uint32_t *next_write, *next_touch; /* by buffer: the nearest step that does, on either side */
    exg_scheduled *order;
    uint32_t order_count;
} overlap;

static exg_collective_phase phase_of(const exg_step *step, uint32_t *mesh_dim)
{
    const exg_collective *what;

    return exg_collective_of(step->kernel, &step->call, &what, mesh_dim);
}

static uint64_t bytes_of(const exg_tensor *t)
{
    return (uint64_t)exg_tensor_numel(t) * exg_dtype_bytes(t->dtype);
}

static void find_crossings(overlap *o)
{
    const exg_plan *plan = o->p->plan;

    for (uint32_t s = plan->folded_count; s < plan->step_count; s++) {
        const exg_step *step = &plan->steps[s];

        if (phase_of(step, &o->sendings[o->count].mesh_dim) == EXG_COLLECTIVE_WHOLE) {
            o->crossings[o->count++] = (exg_crossing){
                .step = s,
                .is_fixed = step->on_host,
                .bytes = bytes_of(&step->call.outputs[0]) + step->call.workspace_bytes,
            };
        }
    }
}

/* Notes that step `s` touches its buffers, and writes those of its results. */
static void note_step(overlap *o, const exg_step *step, uint32_t s)
{
    for (uint32_t i = 0; i < exg_step_operands(step); i++) {
        if (step->inputs[i].buffer != EXG_NO_BUFFER) {
            o->next_touch[step->inputs[i].buffer] = s;
        }
    }
    for (uint32_t i = 0; i < step->call.output_count; i++) {
        if (step->outputs[i].buffer != EXG_NO_BUFFER) {
            o->next_touch[step->outputs[i].buffer] = s;
            o->next_write[step->outputs[i].buffer] = s;
        }
    }
}

static void forget_steps(overlap *o, uint32_t none)
{
    for (uint32_t b = 0; b < o->p->plan->buffer_count; b++) {
        o->next_write[b] = o->next_touch[b] = none;
    }
}

static void find_ready(overlap *o)
{
    const exg_plan *plan = o->p->plan;
    uint32_t at = 0;
    uint32_t ready = plan->folded_count;

    forget_steps(o, UINT32_MAX);
    for (uint32_t s = plan->folded_count; s < plan->step_count; s++) {
        const exg_step *step = &plan->steps[s];

        if (at < o->count && o->crossings[at].step == s) {
            uint32_t written = o->next_write[step->inputs[0].buffer];
            uint32_t touched = o->next_touch[step->outputs[0].buffer];

            ready = written != UINT32_MAX && written + 1 > ready ? written + 1 : ready;
            ready = touched != UINT32_MAX && touched + 1 > ready ? touched + 1 : ready;
            o->crossings[at].after = exg_crossing_of(o->crossings, at, written);
            o->crossings[at++].ready = ready;
        }
        note_step(o, step, s);
    }
}

static void find_due(overlap *o)
{
    const exg_plan *plan = o->p->plan;
    uint32_t at = o->count;
    uint32_t due = plan->step_count;

    forget_steps(o, plan->step_count);
    for (uint32_t s = plan->step_count; s-- > plan->folded_count;) {
        const exg_step *step = &plan->steps[s];

        if (at > 0 && o->crossings[at - 1].step == s) {
            uint32_t used = o->next_touch[step->outputs[0].buffer];
            uint32_t written = o->next_write[step->inputs[0].buffer];

            due = used < due ? used : due;
            due = step->on_host && s < due ? s : due;
            due = written < due ? written : due;
            at--;
            o->crossings[at].due = due;
            o->sendings[at].stays = written == plan->step_count;
        }
        note_step(o, step, s);
    }
}

/* ---- the steps -------------------------------------------------------------------------- */

/* Where crossing `i` is settled: where the next along its line ends, or it does. */
static uint32_t settled_at(const overlap *o, uint32_t i, uint32_t *by)
{
    const sending *own = &o->sendings[i];

    *by = i;
    for (uint32_t n = i + 1; own->stays && n < o->count && *by == i; n++) {
        *by = o->sendings[n].mesh_dim == own->mesh_dim ? n : i;
    }
    return o->crossings[*by].end;
}

/* The workspace of one in two steps is a buffer like others: it goes with the operands. */
static exg_status split(overlap *o, const exg_crossing *c, exg_step *begin, exg_step *end)
{
    exg_plan *plan = o->p->plan;
    exg_tensor scratch = {.dtype = EXG_DTYPE_U8,
                          .rank = 1,
                          .strides = {1},
                          .sizes = {(int64_t)begin->call.workspace_bytes}};
    exg_location *location = &begin->inputs[begin->call.input_count];

    if (begin->call.workspace_bytes > 0) {
        *location = (exg_location){.view = scratch};
        EXG_TRY(exg_planner_buffer(o->p, begin->call.workspace_bytes, &location->buffer));
        plan->buffers[location->buffer].first_step = c->begin;
        begin->call.inputs[begin->call.input_count] = scratch;
        begin->call.packed = &begin->call.inputs[begin->call.input_count];
        begin->has_packed = true;
        begin->call.workspace_bytes = 0;
    }
    *end = *begin;
    exg_collective_split(begin->kernel, &begin->kernel, &end->kernel);
    return EXG_OK;
}

static void live_until(exg_plan *plan, const exg_location *location, uint32_t step)
{
    exg_buffer *buffer = &plan->buffers[location->buffer];

    buffer->last_step = buffer->last_step < step ? step : buffer->last_step;
}

/* Buffers live from where the collective begins to where nobody reads them any more. */
static void link(overlap *o, uint32_t i, exg_step *steps)
{
    const exg_crossing *c = &o->crossings[i];
    exg_step *begin = &steps[c->begin];
    uint32_t by;
    uint32_t settled = settled_at(o, i, &by);

    exg_collective_link(&begin->call, by == i);
    for (uint32_t n = 0; n < exg_step_operands(begin); n++) {
        live_until(o->p->plan, &begin->inputs[n], settled);
    }
    live_until(o->p->plan, &begin->outputs[0], c->end);
}

static void renumber(exg_plan *plan, const uint32_t *moved)
{
    for (uint32_t b = 0; b < plan->buffer_count; b++) {
        exg_buffer *buffer = &plan->buffers[b];

        if (buffer->kind == EXG_BUFFER_ARENA) {
            buffer->first_step = moved[buffer->first_step];
            buffer->last_step =
                buffer->last_step == UINT32_MAX ? UINT32_MAX : moved[buffer->last_step];
        }
    }
}

/* What was first written by a collective is so where it begins, last read where it ends. */
static exg_status put_in_order(overlap *o, uint32_t *moved)
{
    exg_plan *plan = o->p->plan;
    uint32_t folded = plan->folded_count;
    exg_step *steps = EXG_NEW_ARRAY(o->p->arena, exg_step, folded + o->order_count);

    if (steps == NULL) {
        return EXG_OUT_OF_MEMORY(o->p->err);
    }
    for (uint32_t s = 0; s < folded; s++) {
        steps[s] = plan->steps[s];
        moved[s] = s;
    }
    for (uint32_t i = 0; i < o->order_count; i++) {
        if (o->order[i].phase != EXG_COLLECTIVE_ENDS) {
            moved[o->order[i].step] = folded + i;
            steps[folded + i] = plan->steps[o->order[i].step];
        }
    }
    renumber(plan, moved);
    plan->steps = steps;
    plan->step_count = folded + o->order_count;
    for (uint32_t i = 0; i < o->count; i++) {
        exg_crossing *c = &o->crossings[i];

        c->begin += folded;
        c->end += folded;
        if (c->end != c->begin) {
            EXG_TRY(split(o, c, &steps[c->begin], &steps[c->end]));
        }
    }
    for (uint32_t i = 0; i < o->count; i++) {
        if (o->crossings[i].end != o->crossings[i].begin) {
            link(o, i, steps);
        }
    }
    return EXG_OK;
}

static void measure_workspace(exg_plan *plan)
{
    plan->summary.workspace_bytes = 0;
    for (uint32_t s = 0; s < plan->step_count; s++) {
        uint64_t bytes = plan->steps[s].call.workspace_bytes;

        if (bytes > plan->summary.workspace_bytes) {
            plan->summary.workspace_bytes = bytes;
        }
    }
}

exg_status exg_planner_overlap(exg_planner *p)
{
    exg_plan *plan = p->plan;
    size_t steps = plan->step_count;
    overlap o = {.p = p};
    uint32_t *words = malloc((2 * (size_t)plan->buffer_count + steps + 1) * sizeof(*words));
    exg_status status = EXG_OK;

    o.crossings = calloc(steps + 1, sizeof(*o.crossings));
    o.sendings = calloc(steps + 1, sizeof(*o.sendings));
    o.order = calloc(2 * steps + 1, sizeof(*o.order));
    if (words == NULL || o.crossings == NULL || o.sendings == NULL || o.order == NULL) {
        status = EXG_OUT_OF_MEMORY(p->err);
    } else {
        o.next_write = words;
        o.next_touch = words + plan->buffer_count;
        find_crossings(&o);
        find_ready(&o);
        find_due(&o);
        o.order_count =
            exg_schedule(o.crossings, o.count, plan->folded_count, plan->step_count, o.order);
        status = put_in_order(&o, words + 2 * (size_t)plan->buffer_count);
        measure_workspace(plan);
    }
    free(words);
    free(o.crossings);
    free(o.sendings);
    free(o.order);
    return status;
}
