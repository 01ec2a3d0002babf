/* pairs.c - steps of one kernel that have nothing to do with each other are one launch of a device:
 * the rows of keys and of values that go into caches, the rotation of queries and of keys. The
 * second of two comes to stand behind the first, and their values live while both run. On a mesh
 * steps stay where they are.
 */
#include "libexec/device/device.h"
#include "libexec/kernels/pointwise.h"
#include "libexec/plan/planner.h"

#include <string.h>

#define AHEAD 8 /* steps that are looked at for a second one */

static bool touches(const exg_location *of, uint32_t count, uint32_t buffer)
{
    bool found = false;

    for (uint32_t i = 0; i < count && buffer != EXG_NO_BUFFER; i++) {
        found = found || of[i].buffer == buffer;
    }
    return found;
}

/* Does one write what the other one reads or writes? */
static bool are_apart(const exg_step *a, const exg_step *b)
{
    bool apart = true;

    for (uint32_t o = 0; o < b->call.output_count; o++) {
        apart = apart && !touches(a->inputs, exg_step_operands(a), b->outputs[o].buffer) &&
                !touches(a->outputs, a->call.output_count, b->outputs[o].buffer);
    }
    for (uint32_t o = 0; o < a->call.output_count; o++) {
        apart = apart && !touches(b->inputs, exg_step_operands(b), a->outputs[o].buffer);
    }
    return apart;
}

/* Kernels that write into operand 0's memory copy it first where the result is elsewhere. */
static bool is_as_asked(const exg_step *step)
{
    return (step->kernel->flags & EXG_KERNEL_IN_PLACE) == 0 ||
           step->host == &exg_kernel_pointwise ||
           (step->call.input_count > 0 && step->inputs[0].buffer == step->outputs[0].buffer &&
            step->inputs[0].offset == step->outputs[0].offset);
}

static bool may_pair(const exg_planner *p, const exg_step *a, const exg_step *b)
{
    return !a->on_host && !b->on_host && is_as_asked(a) && is_as_asked(b) &&
           a->call.workspace_bytes == 0 && b->call.workspace_bytes == 0 &&
           p->device->table->pairs(p->device, &a->call, &b->call);
}

/* The step that may be one launch with step `s`, and may stand behind it; 0: none. */
static uint32_t second_of(const exg_planner *p, uint32_t s)
{
    const exg_plan *plan = p->plan;

    for (uint32_t t = s + 1; t < plan->step_count && t <= s + AHEAD; t++) {
        bool is_free = true;

        for (uint32_t u = s; is_free && u < t; u++) {
            is_free = are_apart(&plan->steps[u], &plan->steps[t]);
        }
        if (is_free && may_pair(p, &plan->steps[s], &plan->steps[t])) {
            return t;
        }
    }
    return 0;
}

static void note(exg_plan *plan, const exg_location *of, uint32_t count, uint32_t s)
{
    for (uint32_t i = 0; i < count; i++) {
        exg_buffer *b = of[i].buffer == EXG_NO_BUFFER ? NULL : &plan->buffers[of[i].buffer];

        if (b != NULL && b->kind == EXG_BUFFER_ARENA) {
            b->first_step = s < b->first_step ? s : b->first_step;
            b->last_step = b->last_step < s ? s : b->last_step;
        }
    }
}

/* From where values are first written to where they are last read, both steps of a pair for one. */
static void find_lives(exg_plan *plan)
{
    for (uint32_t b = 0; b < plan->buffer_count; b++) {
        exg_buffer *buffer = &plan->buffers[b];

        if (buffer->kind == EXG_BUFFER_ARENA) {
            buffer->first_step = UINT32_MAX;
            buffer->last_step = buffer->last_step == UINT32_MAX ? UINT32_MAX : 0;
        }
    }
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const exg_step *step = &plan->steps[s];
        const uint32_t last = s + step->is_paired;

        note(plan, step->inputs, exg_step_operands(step), s);
        note(plan, step->outputs, step->call.output_count, s);
        note(plan, step->inputs, exg_step_operands(step), last);
        note(plan, step->outputs, step->call.output_count, last);
    }
}

void exg_planner_pair(exg_planner *p)
{
    exg_plan *plan = p->plan;
    bool any = false;

    if (p->device == NULL || p->device->table->pairs == NULL || p->grid != NULL) {
        return;
    }
    for (uint32_t s = plan->folded_count; s + 1 < plan->step_count; s++) {
        uint32_t t = second_of(p, s);
        exg_step moved;

        if (t == 0) {
            continue;
        }
        moved = plan->steps[t];
        memmove(&plan->steps[s + 2], &plan->steps[s + 1], (t - s - 1) * sizeof(moved));
        plan->steps[s + 1] = moved;
        plan->steps[s].is_paired = true;
        any = true;
        s++;
    }
    if (any) {
        find_lives(plan);
    }
}
