/* device_frame.c - a plan's turn in the memory of a device, and its runs there. */
#include "libexec/executor/device_frame.h"
#include "libexec/comm/collectives.h"
#include "libexec/comm/grid.h"
#include "libexec/kernels/cpu/common.h"
#include "libexport/base/arena.h"

#include <stdlib.h>
#include <string.h>

struct exg_device_frame {
    exg_accelerator *device;
    exg_plan *plan;
    exg_host_fallback_base *base;
    const void *context;
    void *arena, *workspace;
    void **inputs;            /* by graph input: room for a user's tensor */
    uint8_t **given;          /* by graph input: the caller's, */
    bool *given_there;        /* on the device */
    bool *has_none;           /* by graph input: needs no room, it is used where it is */
    void **taken;             /* by graph output, the host's */
    exg_result_place *places; /* by graph output */
    void *staging;            /* the host's, for the steps it computes: operands, */
    void *workspace_here;     /* and their workspace */
    uint64_t staging_bytes;
    bool stages;                /* is there such a step? */
    exg_fault_note *notes;      /* by step */
    exg_fault_note *notes_here; /* as they were when a run ended */
    exg_random_source *random;
    exg_random_source random_here;
    exg_device_graph *graph;
    bool can_replay;
    bool has_run;
    bool draws; /* does a step read random numbers? */
    bool waits; /* a run ends when it is done: for the caller's bytes, for faults, for others */
};

/* ---- memory ------------------------------------------------------------------------------ */

static exg_status create_tables(exg_device_frame *frame, exg_error *err)
{
    const exg_plan *plan = frame->plan;

    frame->inputs = EXG_NEW_ARRAY(plan->arena, void *, plan->input_count);
    frame->given = EXG_NEW_ARRAY(plan->arena, uint8_t *, plan->input_count);
    frame->given_there = EXG_NEW_ARRAY(plan->arena, bool, plan->input_count);
    frame->has_none = EXG_NEW_ARRAY(plan->arena, bool, plan->input_count);
    frame->taken = EXG_NEW_ARRAY(plan->arena, void *, plan->output_count);
    frame->places = EXG_NEW_ARRAY(plan->arena, exg_result_place, plan->output_count);
    frame->notes_here = EXG_NEW_ARRAY(plan->arena, exg_fault_note, plan->step_count);
    if (frame->inputs == NULL || frame->given == NULL || frame->given_there == NULL ||
        frame->has_none == NULL || frame->taken == NULL || frame->places == NULL ||
        frame->notes_here == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t s = 0; s < plan->step_count; s++) {
        frame->draws = frame->draws || (plan->steps[s].host->flags & EXG_KERNEL_DRAWS) != 0;
        if (plan->steps[s].on_host) {
            frame->staging_bytes =
                EXG_MAX(frame->staging_bytes, exg_host_fallback_bytes(&plan->steps[s]));
            frame->stages = true;
        }
    }
    return EXG_OK;
}

/* Is it the caller's, who has it on the host? */
static bool is_given(const exg_plan_input *input)
{
    return input->kind == EXG_INPUT_USER && input->buffer != EXG_NO_BUFFER && !input->is_forwarded;
}

/* Is it the caller's, rather than another plan's or written back to where it came from? */
static bool is_result(const exg_plan_output *output)
{
    return output->constant.kind == EXG_ARGUMENT_TENSOR && !output->is_forwarded &&
           output->kind != EXG_OUTPUT_BUFFER_MUTATION &&
           output->kind != EXG_OUTPUT_PARAMETER_MUTATION &&
           output->kind != EXG_OUTPUT_USER_INPUT_MUTATION;
}

uint64_t exg_plan_result_bytes(const exg_plan_output *output)
{
    return (uint64_t)exg_tensor_numel(&output->location.view) *
           exg_dtype_bytes(output->location.view.dtype);
}

static exg_status allocate_notes(exg_device_frame *frame, exg_error *err)
{
    const exg_device_table *table = frame->device->table;
    uint64_t bytes = frame->plan->step_count * sizeof(exg_fault_note);
    void *notes; /* and, behind them, what is drawn from */

    EXG_TRY(table->allocate(frame->device, bytes + sizeof(*frame->random), &notes, err));
    frame->notes = notes;
    frame->random = (exg_random_source *)(void *)((uint8_t *)notes + bytes);
    EXG_TRY(table->copy_in(frame->device, frame->random, &frame->random_here,
                           sizeof(frame->random_here), err));
    EXG_TRY(table->copy_in(frame->device, notes, frame->notes_here, bytes, err)); /* zeros */
    return table->wait(frame->device, err);
}

typedef struct turn {
    exg_scratch *scratch;
    uint32_t level, rank;
    exg_error *err;
} turn;

/* `device` NULL: the host's. */
static exg_status ask(const turn *t, exg_scratch_use use, uint32_t index, exg_accelerator *device,
                      uint64_t bytes, void **block)
{
    bool passes = use == EXG_SCRATCH_WORKSPACE || use == EXG_SCRATCH_STAGING ||
                  use == EXG_SCRATCH_STAGING_WORKSPACE; /* nothing of it lasts longer than a step */

    return exg_scratch_block(t->scratch,
                             (exg_scratch_key){use, passes ? 0 : t->level, t->rank, index}, device,
                             bytes, block, t->err);
}

static exg_status ask_for_all(exg_device_frame *frame, const turn *t)
{
    const exg_plan *plan = frame->plan;
    const exg_plan_summary *summary = &plan->summary;

    if (summary->arena_bytes > 0) {
        EXG_TRY(ask(t, EXG_SCRATCH_VALUES, 0, frame->device, summary->arena_bytes, &frame->arena));
    }
    if (summary->workspace_bytes > 0) {
        EXG_TRY(ask(t, EXG_SCRATCH_WORKSPACE, 0, frame->device, summary->workspace_bytes,
                    &frame->workspace));
    }
    for (uint32_t i = 0; i < plan->input_count; i++) {
        frame->inputs[i] = NULL;
        if (is_given(&plan->inputs[i]) && !frame->has_none[i]) {
            EXG_TRY(ask(t, EXG_SCRATCH_INPUT, i, frame->device,
                        plan->buffers[plan->inputs[i].buffer].bytes, &frame->inputs[i]));
        }
    }
    for (uint32_t o = 0; o < plan->output_count; o++) {
        if (is_result(&plan->outputs[o])) {
            EXG_TRY(ask(t, EXG_SCRATCH_RESULT, o, NULL, exg_plan_result_bytes(&plan->outputs[o]),
                        &frame->taken[o]));
        }
    }
    if (frame->stages) {
        EXG_TRY(ask(t, EXG_SCRATCH_STAGING, 0, NULL, frame->staging_bytes, &frame->staging));
        EXG_TRY(ask(t, EXG_SCRATCH_STAGING_WORKSPACE, 0, NULL, summary->workspace_bytes,
                    &frame->workspace_here));
    }
    return EXG_OK;
}

exg_status exg_device_frame_settle(exg_device_frame *frame, exg_scratch *scratch, uint32_t level,
                                   uint32_t rank, exg_error *err)
{
    exg_device_frame_moved(frame); /* what was recorded works where blocks lay */
    return ask_for_all(frame, &(turn){scratch, level, rank, err});
}

/* Is anything of a run the host's, or can go wrong in it? */
static bool has_to_wait(const exg_device_frame *frame)
{
    const exg_plan *plan = frame->plan;
    bool waits = false;

    for (uint32_t i = 0; i < plan->input_count; i++) {
        waits = waits || is_given(&plan->inputs[i]);
    }
    for (uint32_t o = 0; o < plan->output_count; o++) {
        waits = waits || is_result(&plan->outputs[o]);
    }
    for (uint32_t s = 0; s < plan->step_count; s++) {
        waits = waits || exg_step_raises(&plan->steps[s]) ||
                (plan->steps[s].kernel->flags & EXG_KERNEL_EXCHANGES) != 0;
    }
    return waits;
}

/* Collectives can be recorded where the link says so. */
static bool records(const exg_step *step)
{
    const exg_collective *what;
    uint32_t mesh_dim;

    if ((step->kernel->flags & EXG_KERNEL_EXCHANGES) == 0) {
        return true;
    }
    return exg_collective_of(step->kernel, &step->call, &what, &mesh_dim) != EXG_COLLECTIVE_NONE &&
           step->call.grid->links[mesh_dim] != NULL && step->call.grid->links[mesh_dim]->records;
}

exg_status exg_device_frame_create(exg_accelerator *device, exg_plan *plan,
                                   exg_host_fallback_base *base, const void *context,
                                   exg_device_frame **frame, exg_error *err)
{
    exg_device_frame *l = calloc(1, sizeof(*l));
    exg_status status;

    *frame = NULL;
    if (l == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *l = (exg_device_frame){.device = device, .plan = plan, .base = base, .context = context};
    l->can_replay = device->table->record != NULL && !plan->outputs_apart;
    for (uint32_t s = plan->folded_count; s < plan->step_count; s++) {
        l->can_replay = l->can_replay && !plan->steps[s].on_host && records(&plan->steps[s]);
    }
    status = create_tables(l, err);
    if (status == EXG_OK) {
        status = allocate_notes(l, err);
    }
    if (status != EXG_OK) {
        exg_device_frame_destroy(l);
        return status;
    }
    l->waits = has_to_wait(l);
    *frame = l;
    return EXG_OK;
}

void exg_device_frame_moved(exg_device_frame *frame)
{
    if (frame->graph != NULL) {
        frame->device->table->forget(frame->device, frame->graph);
    }
    frame->graph = NULL;
    frame->has_run = false;
}

void exg_device_frame_destroy(exg_device_frame *frame)
{
    if (frame != NULL) {
        exg_device_frame_moved(frame);
        frame->device->table->release(frame->device, frame->notes);
        free(frame);
    }
}

uint8_t *exg_device_frame_arena(const exg_device_frame *frame)
{
    return frame->arena;
}

uint8_t *exg_device_frame_input(const exg_device_frame *frame, uint32_t input)
{
    return frame->inputs[input];
}

void exg_device_frame_bind(exg_device_frame *frame, uint32_t s, exg_fault_note *fault,
                           const exg_random_source *random)
{
    exg_step *step = &frame->plan->steps[s];

    step->call.workspace = step->on_host ? frame->workspace_here : frame->workspace;
    step->call.fault = step->on_host ? fault : frame->notes + s;
    step->call.random = step->on_host ? random : frame->random;
    if (step->on_host) {
        exg_host_fallback_bind(step, frame->staging);
    }
}

void exg_device_frame_give(exg_device_frame *frame, uint32_t input, void *data, bool there)
{
    frame->given[input] = data;
    frame->given_there[input] = there;
}

bool exg_device_frame_expect(exg_device_frame *frame, uint32_t input, bool there)
{
    bool changes = frame->has_none[input] != there;

    frame->has_none[input] = there;
    return changes;
}

void exg_device_frame_bind_output(exg_device_frame *frame, uint32_t output,
                                  const exg_result_place *place)
{
    frame->places[output] = *place;
}

void *exg_device_frame_taken(const exg_device_frame *frame, uint32_t output)
{
    return frame->taken[output];
}

/* ---- a run ------------------------------------------------------------------------------- */

exg_status exg_device_frame_begin(exg_device_frame *frame, const exg_random_source *random,
                                  exg_error *err)
{
    const exg_plan *plan = frame->plan;
    const exg_device_table *table = frame->device->table;

    if (frame->draws && memcmp(&frame->random_here, random, sizeof(*random)) != 0) {
        EXG_TRY(table->wait(frame->device, err)); /* the last one may be on its way there */
        frame->random_here = *random;
        EXG_TRY(table->copy_in(frame->device, frame->random, &frame->random_here,
                               sizeof(frame->random_here), err));
    }
    for (uint32_t i = 0; i < plan->input_count; i++) {
        if (frame->inputs[i] != NULL && frame->given[i] != NULL) {
            EXG_TRY((frame->given_there[i] ? table->copy : table->copy_in)(
                frame->device, frame->inputs[i], frame->given[i],
                plan->buffers[plan->inputs[i].buffer].bytes, err));
        }
    }
    return EXG_OK;
}

exg_status exg_device_frame_step(exg_device_frame *frame, uint32_t s, exg_error *err)
{
    const exg_step *step = &frame->plan->steps[s];

    return step->on_host ? exg_host_fallback_run(frame->device, step, frame->staging, frame->base,
                                                 frame->context, err)
                         : frame->device->table->launch(frame->device, step->kernel, &step->call,
                                                        exg_step_operands(step), err);
}

bool exg_device_frame_can_replay(const exg_device_frame *frame)
{
    return frame->can_replay;
}

static exg_status ask_for_steps(exg_device_frame *frame, exg_error *err)
{
    const exg_device_table *table = frame->device->table;
    const exg_step *steps = frame->plan->steps;

    for (uint32_t s = frame->plan->folded_count; s < frame->plan->step_count; s++) {
        if (steps[s].is_paired) {
            EXG_TRY(table->launch_pair(frame->device, &steps[s].call, &steps[s + 1].call, err));
            s++;
        } else {
            EXG_TRY(exg_device_frame_step(frame, s, err));
        }
    }
    return EXG_OK;
}

static exg_status record(exg_device_frame *frame, exg_error *err)
{
    const exg_device_table *table = frame->device->table;
    exg_status asked;
    exg_status kept;

    EXG_TRY(table->record(frame->device, err));
    asked = ask_for_steps(frame, err);
    kept = table->recorded(frame->device, &frame->graph, asked == EXG_OK ? err : NULL);
    return asked == EXG_OK ? kept : asked;
}

/* The first run asks step by step: most programs run once. So do all where what they ask for
 * cannot be recorded. */
exg_status exg_device_frame_replay(exg_device_frame *frame, exg_error *err)
{
    const exg_device_table *table = frame->device->table;
    exg_status status;

    if (frame->has_run && frame->graph == NULL) {
        status = record(frame, err);
        if (status == EXG_UNSUPPORTED) {
            exg_error_clear(err);
            frame->can_replay = false;
        } else {
            EXG_TRY(status);
        }
    }
    frame->has_run = true;
    return frame->graph == NULL ? ask_for_steps(frame, err)
                                : table->replay(frame->device, frame->graph, err);
}

/* None is left for the next run. */
exg_status exg_device_frame_filled(exg_device_frame *frame, uint32_t *step, exg_fault_note *note,
                                   exg_error *err)
{
    const exg_device_table *table = frame->device->table;
    uint64_t bytes = frame->plan->step_count * sizeof(*frame->notes);

    *step = EXG_NO_STEP;
    EXG_TRY(table->copy_out(frame->device, frame->notes_here, frame->notes, bytes, err));
    EXG_TRY(table->wait(frame->device, err));
    for (uint32_t s = frame->plan->step_count; s-- > 0;) {
        if (atomic_load_explicit(&frame->notes_here[s].fault, memory_order_relaxed) !=
            EXG_FAULT_NONE) {
            *step = s;
        }
    }
    if (*step == EXG_NO_STEP) {
        return EXG_OK;
    }
    atomic_init(&note->fault, frame->notes_here[*step].fault);
    note->index = frame->notes_here[*step].index;
    note->size = frame->notes_here[*step].size;
    memset(frame->notes_here, 0, bytes);
    EXG_TRY(table->copy_in(frame->device, frame->notes, frame->notes_here, bytes, err));
    return table->wait(frame->device, err);
}

bool exg_plan_output_comes_first(const exg_plan *plan, uint32_t output)
{
    const exg_plan_output *o = &plan->outputs[output];

    return o->constant.kind == EXG_ARGUMENT_TENSOR && o->location.buffer != EXG_NO_BUFFER &&
           plan->buffers[o->location.buffer].kind == EXG_BUFFER_INPUT;
}

/* To the host, to where it is bound, or nowhere: it stays where it is. */
static exg_status hand_out(exg_device_frame *frame, uint32_t o, exg_error *err)
{
    const exg_device_table *table = frame->device->table;
    const exg_location *from = &frame->plan->outputs[o].location;
    const exg_result_place *place = &frame->places[o];
    const uint8_t *data = frame->base(frame->context, from->buffer) +
                          from->offset * (int64_t)exg_dtype_bytes(from->view.dtype);
    uint64_t bytes = exg_plan_result_bytes(&frame->plan->outputs[o]);

    if (place->there) {
        return place->data == NULL || place->data == data
                   ? EXG_OK
                   : table->copy(frame->device, place->data, data, bytes, err);
    }
    return table->copy_out(frame->device, place->data == NULL ? frame->taken[o] : place->data, data,
                           bytes, err);
}

exg_status exg_device_frame_end(exg_device_frame *frame, bool waits, uint32_t *step,
                                exg_fault_note *note, exg_error *err)
{
    const exg_plan *plan = frame->plan;
    const exg_device_table *table = frame->device->table;

    for (uint32_t i = 0; i < 2 * plan->output_count; i++) {
        uint32_t o = i % plan->output_count;

        if (frame->taken[o] != NULL &&
            exg_plan_output_comes_first(plan, o) == (i < plan->output_count)) {
            EXG_TRY(hand_out(frame, o, err));
        }
    }
    for (uint32_t i = 0; i < plan->input_count; i++) {
        if (frame->inputs[i] != NULL && frame->given[i] != NULL && plan->inputs[i].mutated) {
            EXG_TRY((frame->given_there[i] ? table->copy : table->copy_out)(
                frame->device, frame->given[i], frame->inputs[i],
                plan->buffers[plan->inputs[i].buffer].bytes, err));
        }
    }
    *step = EXG_NO_STEP;
    return frame->waits && waits ? exg_device_frame_filled(frame, step, note, err) : EXG_OK;
}
