/* lane.c - a plan's turn in the memory of a device, and its runs there. */
#include "libexec/lane.h"
#include "libexec/comm/collectives.h"
#include "libexec/comm/grid.h"
#include "libexec/kernels/cpu/common.h"
#include "libexport/base/arena.h"

#include <stdlib.h>
#include <string.h>

struct exg_lane {
    exg_accelerator *device;
    exg_plan *plan;
    exg_staging_base *base;
    const void *context;
    void *arena, *workspace;
    void **inputs;              /* by graph input: room for a user's tensor */
    uint8_t **given;            /* by graph input: the caller's */
    void **taken;               /* by graph output, the host's */
    void *staging;              /* the host's, for the steps it computes: operands, */
    void *workspace_here;       /* and their workspace */
    uint64_t staging_bytes;
    bool stages; /* is there such a step? */
    exg_fault_note *notes;      /* by step */
    exg_fault_note *notes_here; /* as they were when a run ended */
    exg_random_source *random;
    exg_random_source random_here;
    exg_device_graph *graph;
    bool can_replay;
    bool has_run;
    bool waits; /* a run ends when it is done: for the caller's bytes, for faults, for others */
};

/* ---- memory ------------------------------------------------------------------------------ */

static exg_status create_tables(exg_lane *lane, exg_error *err)
{
    const exg_plan *plan = lane->plan;

    lane->inputs = EXG_NEW_ARRAY(plan->arena, void *, plan->input_count);
    lane->given = EXG_NEW_ARRAY(plan->arena, uint8_t *, plan->input_count);
    lane->taken = EXG_NEW_ARRAY(plan->arena, void *, plan->output_count);
    lane->notes_here = EXG_NEW_ARRAY(plan->arena, exg_fault_note, plan->step_count);
    if (lane->inputs == NULL || lane->given == NULL || lane->taken == NULL ||
        lane->notes_here == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t s = 0; s < plan->step_count; s++) {
        if (plan->steps[s].on_host) {
            lane->staging_bytes = EXG_MAX(lane->staging_bytes, exg_staging_bytes(&plan->steps[s]));
            lane->stages = true;
        }
    }
    return EXG_OK;
}

/* Is it the caller's, who has it on the host? */
static bool is_given(const exg_plan_input *input)
{
    return input->kind == EXG_INPUT_USER && input->buffer != EXG_NO_BUFFER && !input->is_handed_on;
}

/* Is it handed out, rather than handed on or written back to where it came from? */
static bool is_result(const exg_plan_output *output)
{
    return output->constant.kind == EXG_ARGUMENT_TENSOR && !output->is_handed_on &&
           output->kind != EXG_OUTPUT_BUFFER_MUTATION &&
           output->kind != EXG_OUTPUT_PARAMETER_MUTATION &&
           output->kind != EXG_OUTPUT_USER_INPUT_MUTATION;
}

static uint64_t result_bytes(const exg_plan_output *output)
{
    return (uint64_t)exg_tensor_numel(&output->location.window) *
           exg_dtype_bytes(output->location.window.dtype);
}

static exg_status allocate_notes(exg_lane *lane, exg_error *err)
{
    const exg_device_table *table = lane->device->table;
    uint64_t bytes = lane->plan->step_count * sizeof(exg_fault_note);
    void *notes; /* and, behind them, what is drawn from */

    EXG_TRY(table->allocate(lane->device, bytes + sizeof(*lane->random), &notes, err));
    lane->notes = notes;
    lane->random = (exg_random_source *)(void *)((uint8_t *)notes + bytes);
    EXG_TRY(table->copy_in(lane->device, lane->random, &lane->random_here,
                           sizeof(lane->random_here), err));
    EXG_TRY(table->copy_in(lane->device, notes, lane->notes_here, bytes, err)); /* zeros */
    return table->wait(lane->device, err);
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

static exg_status ask_for_all(exg_lane *lane, const turn *t)
{
    const exg_plan *plan = lane->plan;
    const exg_plan_summary *summary = &plan->summary;

    if (summary->arena_bytes > 0) {
        EXG_TRY(ask(t, EXG_SCRATCH_VALUES, 0, lane->device, summary->arena_bytes, &lane->arena));
    }
    if (summary->workspace_bytes > 0) {
        EXG_TRY(ask(t, EXG_SCRATCH_WORKSPACE, 0, lane->device, summary->workspace_bytes,
                    &lane->workspace));
    }
    for (uint32_t i = 0; i < plan->input_count; i++) {
        if (is_given(&plan->inputs[i])) {
            EXG_TRY(ask(t, EXG_SCRATCH_INPUT, i, lane->device,
                        plan->buffers[plan->inputs[i].buffer].bytes, &lane->inputs[i]));
        }
    }
    for (uint32_t o = 0; o < plan->output_count; o++) {
        if (is_result(&plan->outputs[o])) {
            EXG_TRY(ask(t, EXG_SCRATCH_RESULT, o, NULL, result_bytes(&plan->outputs[o]),
                        &lane->taken[o]));
        }
    }
    if (lane->stages) {
        EXG_TRY(ask(t, EXG_SCRATCH_STAGING, 0, NULL, lane->staging_bytes, &lane->staging));
        EXG_TRY(ask(t, EXG_SCRATCH_STAGING_WORKSPACE, 0, NULL, summary->workspace_bytes,
                    &lane->workspace_here));
    }
    return EXG_OK;
}

exg_status exg_lane_settle(exg_lane *lane, exg_scratch *scratch, uint32_t level, uint32_t rank,
                           exg_error *err)
{
    exg_lane_moved(lane); /* what was recorded works where blocks lay */
    return ask_for_all(lane, &(turn){scratch, level, rank, err});
}

/* Is anything of a run the host's, or can go wrong in it? */
static bool has_to_wait(const exg_lane *lane)
{
    const exg_plan *plan = lane->plan;
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

/* Collectives can be recorded where the line says so. */
static bool records(const exg_step *step)
{
    const exg_collective *what;
    uint32_t mesh_dim;

    if ((step->kernel->flags & EXG_KERNEL_EXCHANGES) == 0) {
        return true;
    }
    return exg_collective_of(step->kernel, &step->call, &what, &mesh_dim) !=
               EXG_COLLECTIVE_NONE &&
           step->call.grid->lines[mesh_dim] != NULL && step->call.grid->lines[mesh_dim]->records;
}

exg_status exg_lane_create(exg_accelerator *device, exg_plan *plan, exg_staging_base *base,
                           const void *context, exg_lane **lane, exg_error *err)
{
    exg_lane *l = calloc(1, sizeof(*l));
    exg_status status;

    *lane = NULL;
    if (l == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *l = (exg_lane){.device = device, .plan = plan, .base = base, .context = context};
    l->can_replay = device->table->record != NULL && !plan->outputs_apart;
    for (uint32_t s = plan->once_count; s < plan->step_count; s++) {
        l->can_replay = l->can_replay && !plan->steps[s].on_host && records(&plan->steps[s]);
    }
    status = create_tables(l, err);
    status = status == EXG_OK ? allocate_notes(l, err) : status;
    if (status != EXG_OK) {
        exg_lane_destroy(l);
        return status;
    }
    l->waits = has_to_wait(l);
    *lane = l;
    return EXG_OK;
}

void exg_lane_moved(exg_lane *lane)
{
    if (lane->graph != NULL) {
        lane->device->table->forget(lane->device, lane->graph);
    }
    lane->graph = NULL;
    lane->has_run = false;
}

void exg_lane_destroy(exg_lane *lane)
{
    if (lane != NULL) {
        exg_lane_moved(lane);
        lane->device->table->release(lane->device, lane->notes);
        free(lane);
    }
}

uint8_t *exg_lane_arena(const exg_lane *lane)
{
    return lane->arena;
}

uint8_t *exg_lane_input(const exg_lane *lane, uint32_t input)
{
    return lane->inputs[input];
}

void exg_lane_bind(exg_lane *lane, uint32_t s, exg_fault_note *fault,
                   const exg_random_source *random)
{
    exg_step *step = &lane->plan->steps[s];

    step->call.workspace = step->on_host ? lane->workspace_here : lane->workspace;
    step->call.fault = step->on_host ? fault : lane->notes + s;
    step->call.random = step->on_host ? random : lane->random;
    if (step->on_host) {
        exg_staging_bind(step, lane->staging);
    }
}

void exg_lane_give(exg_lane *lane, uint32_t input, void *data)
{
    lane->given[input] = data;
}

void *exg_lane_taken(const exg_lane *lane, uint32_t output)
{
    return lane->taken[output];
}

/* ---- a run ------------------------------------------------------------------------------- */

exg_status exg_lane_begin(exg_lane *lane, const exg_random_source *random, exg_error *err)
{
    const exg_plan *plan = lane->plan;
    const exg_device_table *table = lane->device->table;

    if (memcmp(&lane->random_here, random, sizeof(*random)) != 0) {
        EXG_TRY(table->wait(lane->device, err)); /* the last one may be on its way there */
        lane->random_here = *random;
        EXG_TRY(table->copy_in(lane->device, lane->random, &lane->random_here,
                               sizeof(lane->random_here), err));
    }
    for (uint32_t i = 0; i < plan->input_count; i++) {
        if (lane->inputs[i] != NULL && lane->given[i] != NULL) {
            EXG_TRY(table->copy_in(lane->device, lane->inputs[i], lane->given[i],
                                   plan->buffers[plan->inputs[i].buffer].bytes, err));
        }
    }
    return EXG_OK;
}

exg_status exg_lane_step(exg_lane *lane, uint32_t s, exg_error *err)
{
    const exg_step *step = &lane->plan->steps[s];

    return step->on_host
               ? exg_staging_run(lane->device, step, lane->staging, lane->base, lane->context, err)
               : lane->device->table->launch(lane->device, step->kernel, &step->call,
                                                  exg_step_operands(step), err);
}

bool exg_lane_can_replay(const exg_lane *lane)
{
    return lane->can_replay;
}

static exg_status ask_for_steps(exg_lane *lane, exg_error *err)
{
    for (uint32_t s = lane->plan->once_count; s < lane->plan->step_count; s++) {
        EXG_TRY(exg_lane_step(lane, s, err));
    }
    return EXG_OK;
}

static exg_status record(exg_lane *lane, exg_error *err)
{
    const exg_device_table *table = lane->device->table;
    exg_status asked;
    exg_status kept;

    EXG_TRY(table->record(lane->device, err));
    asked = ask_for_steps(lane, err);
    kept = table->recorded(lane->device, &lane->graph, asked == EXG_OK ? err : NULL);
    return asked == EXG_OK ? kept : asked;
}

/* The first run asks step by step: most programs run once. So do all where what they ask for
 * cannot be recorded. */
exg_status exg_lane_replay(exg_lane *lane, exg_error *err)
{
    const exg_device_table *table = lane->device->table;
    exg_status status;

    if (lane->has_run && lane->graph == NULL) {
        status = record(lane, err);
        if (status == EXG_UNSUPPORTED) {
            exg_error_clear(err);
            lane->can_replay = false;
        } else {
            EXG_TRY(status);
        }
    }
    lane->has_run = true;
    return lane->graph == NULL ? ask_for_steps(lane, err)
                               : table->replay(lane->device, lane->graph, err);
}

/* None is left for the next run. */
exg_status exg_lane_filled(exg_lane *lane, uint32_t *step, exg_fault_note *note, exg_error *err)
{
    const exg_device_table *table = lane->device->table;
    uint64_t bytes = lane->plan->step_count * sizeof(*lane->notes);

    *step = EXG_NO_STEP;
    EXG_TRY(table->copy_out(lane->device, lane->notes_here, lane->notes, bytes, err));
    EXG_TRY(table->wait(lane->device, err));
    for (uint32_t s = lane->plan->step_count; s-- > 0;) {
        if (atomic_load_explicit(&lane->notes_here[s].fault, memory_order_relaxed) !=
            EXG_FAULT_NONE) {
            *step = s;
        }
    }
    if (*step == EXG_NO_STEP) {
        return EXG_OK;
    }
    atomic_init(&note->fault, lane->notes_here[*step].fault);
    note->index = lane->notes_here[*step].index;
    note->size = lane->notes_here[*step].size;
    memset(lane->notes_here, 0, bytes);
    EXG_TRY(table->copy_in(lane->device, lane->notes, lane->notes_here, bytes, err));
    return table->wait(lane->device, err);
}

exg_status exg_lane_end(exg_lane *lane, uint32_t *step, exg_fault_note *note, exg_error *err)
{
    const exg_plan *plan = lane->plan;
    const exg_device_table *table = lane->device->table;

    for (uint32_t o = 0; o < plan->output_count; o++) {
        const exg_location *from = &plan->outputs[o].location;

        if (lane->taken[o] != NULL) {
            EXG_TRY(table->copy_out(lane->device, lane->taken[o],
                                    lane->base(lane->context, from->buffer) +
                                        from->offset *
                                            (int64_t)exg_dtype_bytes(from->window.dtype),
                                    result_bytes(&plan->outputs[o]), err));
        }
    }
    for (uint32_t i = 0; i < plan->input_count; i++) {
        if (lane->inputs[i] != NULL && lane->given[i] != NULL && plan->inputs[i].mutated) {
            EXG_TRY(table->copy_out(lane->device, lane->given[i], lane->inputs[i],
                                    plan->buffers[plan->inputs[i].buffer].bytes, err));
        }
    }
    *step = EXG_NO_STEP;
    return lane->waits ? exg_lane_filled(lane, step, note, err) : EXG_OK;
}
