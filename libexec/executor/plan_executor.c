/* plan_executor.c - binds operands to memory once, then runs steps. */
#include "libexec/executor/plan_executor.h"
#include "libexec/comm/collectives.h"
#include "libexec/executor/weight_bindings.h"
#include "libexec/kernels/kernels.h"
#include "libexec/kernels/registered.h"
#include "libexport/base/arena.h"
#include "libexport/base/clock.h"
#include "libexport/base/stop.h"
#include "libexport/operators/registered.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* An operand that moves when a user input's data does, or the memory of an output. */
typedef struct patch {
    exg_tensor *operand;
    uint8_t *const *base;
    int64_t byte_offset;
} patch;

/* Of a step: when it began, by the clock, and how long it took. */
typedef struct step_time {
    uint64_t start_ns, last_ns, total_ns;
} step_time;

typedef struct noted {
    exg_fault fault;
    uint32_t step;
    int64_t index, size;
} noted;

struct exg_plan_executor {
    exg_plan *plan;
    exg_weight_bindings bindings;
    const exg_grid *grid;
    exg_accelerator *device; /* NULL: the host */
    exg_pool *pool;
    exg_pool *alone;         /* what steps take that do not take the pool */
    const exg_stop *stop;    /* NULL: nobody's */
    exg_progress *progress;  /* NULL: nobody's */
    exg_device_frame *frame; /* on a device: what the plan has there */
    uint32_t index, level;
    bool is_settled;          /* the scratch was asked, */
    uint64_t moves;           /* when it had moved so often */
    uint8_t *arena;           /* of the scratch */
    uint8_t *workspace;       /* likewise */
    uint8_t **inputs;         /* first byte behind each graph input */
    uint8_t **outputs;        /* of each graph output's memory, where that is the caller's */
    exg_result_place *places; /* by graph output, without a device */
    bool launches, owes;      /* runs are not waited for; such a one was asked for */
    bool is_folded;           /* constants are folded */
    patch *patches;
    uint32_t patch_count;
    bool moved;           /* an input's data changed since the operands were bound */
    step_time *times;     /* by step; NULL: not measured */
    exg_fault_note fault; /* what steps raise */
    noted folding, now;   /* the first one of the folded steps, and of a run */
    _Atomic uint32_t at;  /* the step being run */
    exg_random_source random;
};

const exg_plan *exg_plan_executor_plan(const exg_plan_executor *executor)
{
    return executor->plan;
}

uint64_t exg_plan_executor_own_bytes(const exg_plan_executor *executor)
{
    return exg_arena_held(executor->plan->arena) + executor->bindings.own_bytes;
}

static uint8_t *base_of(const exg_plan_executor *executor, uint32_t buffer)
{
    const exg_buffer *b = &executor->plan->buffers[buffer];

    switch (b->kind) {
    case EXG_BUFFER_CONSTANT:
        return executor->bindings.folded[b->index]->data;
    case EXG_BUFFER_INPUT:
        return executor->inputs[b->index];
    case EXG_BUFFER_OUTPUT:
        return executor->outputs[b->index];
    default:
        return executor->arena == NULL ? NULL : executor->arena + b->offset;
    }
}

static uint8_t *base_for_frame(const void *executor, uint32_t buffer)
{
    return base_of(executor, buffer);
}

static void *data_at(const exg_plan_executor *executor, const exg_location *location)
{
    uint8_t *base = base_of(executor, location->buffer);

    return base == NULL ? NULL
                        : base + location->offset * (int64_t)exg_dtype_bytes(location->view.dtype);
}

void *exg_plan_executor_output(const exg_plan_executor *executor, uint32_t index)
{
    const exg_result_place *place = &executor->places[index];

    if (place->data != NULL) {
        return place->data;
    }
    return executor->frame != NULL && !place->there
               ? exg_device_frame_taken(executor->frame, index)
               : data_at(executor, &executor->plan->outputs[index].location);
}

void *exg_plan_executor_output_address(const exg_plan_executor *executor, uint32_t index)
{
    return data_at(executor, &executor->plan->outputs[index].location);
}

/* The pointer to memory behind a buffer that may move from run to run: the caller's, or another
 * plan's. NULL: it stays. */
static uint8_t *const *moving_base(const exg_plan_executor *executor, uint32_t buffer)
{
    const exg_buffer *b = &executor->plan->buffers[buffer];

    if (b->kind == EXG_BUFFER_OUTPUT) {
        return &executor->outputs[b->index];
    }
    return b->kind == EXG_BUFFER_INPUT && executor->plan->inputs[b->index].kind == EXG_INPUT_USER
               ? &executor->inputs[b->index]
               : NULL;
}

static uint32_t bind_operands(exg_plan_executor *executor, const exg_location *locations,
                              exg_tensor *operands, uint32_t count, patch *patches)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint8_t *const *base;

        if (locations[i].buffer == EXG_NO_BUFFER) {
            continue;
        }
        base = moving_base(executor, locations[i].buffer);
        if (base == NULL) {
            operands[i].data = data_at(executor, &locations[i]);
            continue;
        }
        if (patches != NULL) {
            patches[found] =
                (patch){&operands[i], base,
                        locations[i].offset * (int64_t)exg_dtype_bytes(locations[i].view.dtype)};
        }
        found++;
    }
    return found;
}

static uint32_t count_moving(const exg_plan_executor *executor, const exg_location *locations,
                             uint32_t count)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < count; i++) {
        found += locations[i].buffer != EXG_NO_BUFFER &&
                 moving_base(executor, locations[i].buffer) != NULL;
    }
    return found;
}

static exg_status create_patches(exg_plan_executor *executor, exg_error *err)
{
    for (uint32_t s = 0; s < executor->plan->step_count; s++) {
        const exg_step *step = &executor->plan->steps[s];

        if (!step->on_host) { /* its operands are copied */
            executor->patch_count += count_moving(executor, step->inputs, exg_step_operands(step)) +
                                     count_moving(executor, step->outputs, step->call.output_count);
        }
    }
    executor->patches = EXG_NEW_ARRAY(executor->plan->arena, patch, executor->patch_count);
    return executor->patches == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

static void bind_steps(exg_plan_executor *executor)
{
    patch *next = executor->patches;

    for (uint32_t s = 0; s < executor->plan->step_count; s++) {
        exg_step *step = &executor->plan->steps[s];

        step->call.workspace = executor->workspace;
        step->call.pool = s < executor->plan->folded_count || executor->grid == NULL
                              ? executor->pool
                              : executor->alone;
        step->call.fault = &executor->fault;
        step->call.random = &executor->random;
        if (executor->frame != NULL) {
            exg_device_frame_bind(executor->frame, s, &executor->fault, &executor->random);
        }
        if (!step->on_host) {
            next += bind_operands(executor, step->inputs, step->call.inputs,
                                  exg_step_operands(step), next);
            next += bind_operands(executor, step->outputs, step->call.outputs,
                                  step->call.output_count, next);
        }
    }
}

/* What describes the plan's memory. */
static exg_status create_tables(exg_plan_executor *r, exg_error *err)
{
    r->inputs = EXG_NEW_ARRAY(r->plan->arena, uint8_t *, r->plan->input_count);
    r->outputs = EXG_NEW_ARRAY(r->plan->arena, uint8_t *, r->plan->output_count);
    r->places = EXG_NEW_ARRAY(r->plan->arena, exg_result_place, r->plan->output_count);
    if (r->inputs == NULL || r->outputs == NULL || r->places == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    return r->device == NULL
               ? EXG_OK
               : exg_device_frame_create(r->device, r->plan, base_for_frame, r, &r->frame, err);
}

/* What a device that has not enough was asked for. */
static exg_status tell_need(const exg_plan *plan, exg_status status, exg_error *err)
{
    const exg_plan_summary *s = &plan->summary;

    (void)exg_error_fix(err, status,
                        "spread it over more ranks (--mesh N --place fsdp), or give "
                        "it smaller inputs");
    return exg_error_within(err, status,
                            "a plan of %" PRIu64 " bytes of values, %" PRIu64
                            " of workspace, %" PRIu64 " of weights and %" PRIu64 " made from them",
                            s->arena_bytes, s->workspace_bytes, s->weight_bytes, s->constant_bytes);
}

exg_status exg_plan_executor_create(exg_plan *plan, exg_weight_store *store, exg_pool *pool,
                                    const exg_grid *grid, exg_accelerator *device, uint32_t index,
                                    uint32_t level, exg_plan_executor **executor, exg_error *err)
{
    exg_plan_executor *r = calloc(1, sizeof(*r));
    exg_status status;

    *executor = NULL;
    if (r == NULL) {
        exg_plan_destroy(plan);
        return EXG_OUT_OF_MEMORY(err);
    }
    r->plan = plan;
    r->grid = grid;
    r->device = device;
    r->pool = pool;
    r->index = index;
    r->level = level;
    r->bindings = (exg_weight_bindings){
        .plan = plan, .store = store, .device = device, .is_of_mesh = grid != NULL};
    status = create_tables(r, err);
    r->bindings.inputs = r->inputs;
    if (status == EXG_OK) {
        status = exg_weight_bindings_bind(&r->bindings, index, err);
    }
    if (status == EXG_OK) {
        status = create_patches(r, err);
    }
    if (status == EXG_NO_MEMORY && device != NULL) {
        (void)tell_need(plan, status, err);
    }
    if (status != EXG_OK) {
        exg_plan_executor_destroy(r);
        return status;
    }
    *executor = r;
    return EXG_OK;
}

/* Asks for what the plan needs; the operands are bound when all is there. */
static exg_status take_turn(exg_plan_executor *r, exg_error *err)
{
    exg_scratch *scratch = exg_weight_store_scratch(r->bindings.store);
    const exg_plan_summary *s = &r->plan->summary;
    void *arena = NULL;
    void *workspace = NULL;

    if (r->frame != NULL) {
        EXG_TRY(exg_device_frame_settle(r->frame, scratch, r->level, r->index, err));
        r->arena = exg_device_frame_arena(r->frame);
        for (uint32_t i = 0; i < r->plan->input_count; i++) {
            uint8_t *own = exg_device_frame_input(r->frame, i);

            r->inputs[i] = own == NULL ? r->inputs[i] : own;
        }
        return EXG_OK;
    }
    EXG_TRY(exg_scratch_block(scratch, (exg_scratch_key){EXG_SCRATCH_VALUES, r->level, r->index, 0},
                              NULL, s->arena_bytes, &arena, err));
    EXG_TRY(exg_scratch_block(scratch, (exg_scratch_key){EXG_SCRATCH_WORKSPACE, 0, r->index, 0},
                              NULL, s->workspace_bytes, &workspace, err));
    r->arena = arena;
    r->workspace = workspace;
    return EXG_OK;
}

exg_status exg_plan_executor_settle(exg_plan_executor *executor, exg_error *err)
{
    const exg_scratch *scratch = exg_weight_store_scratch(executor->bindings.store);
    exg_status status;

    if (executor->is_settled && executor->moves == scratch->moves) {
        return EXG_OK;
    }
    status = take_turn(executor, err);
    if (status == EXG_NO_MEMORY && executor->device != NULL) {
        (void)tell_need(executor->plan, status, err);
    }
    EXG_TRY(status);
    executor->is_settled = true;
    executor->moves = scratch->moves;
    bind_steps(executor);
    executor->moved = true;
    return EXG_OK;
}

exg_status exg_plan_executor_on_paper(exg_plan *plan, exg_plan_executor **executor, exg_error *err)
{
    *executor = calloc(1, sizeof(**executor));
    if (*executor == NULL) {
        exg_plan_destroy(plan);
        return EXG_OUT_OF_MEMORY(err);
    }
    (*executor)->plan = plan;
    return EXG_OK;
}

void exg_plan_executor_destroy(exg_plan_executor *executor)
{
    if (executor != NULL) {
        exg_weight_bindings_release(&executor->bindings);
        exg_device_frame_destroy(executor->frame);
        exg_plan_destroy(executor->plan);
        free(executor);
    }
}

void exg_plan_executor_bind_input(exg_plan_executor *executor, uint32_t index, void *held)
{
    executor->moved = executor->moved || executor->inputs[index] != held;
    executor->inputs[index] = held;
}

/* Kernels are prepared for blocks of the device's own; what lies otherwise is copied there. */
#define ALIGNMENT 256

static bool is_usable_there(const void *data, bool there)
{
    return there && (uintptr_t)data % ALIGNMENT == 0;
}

void exg_plan_executor_expect_input(exg_plan_executor *executor, uint32_t index, const void *data,
                                    bool there)
{
    if (executor->frame != NULL &&
        exg_device_frame_expect(executor->frame, index, is_usable_there(data, there))) {
        executor->is_settled = false;
    }
}

void exg_plan_executor_set_input(exg_plan_executor *executor, uint32_t index, void *data,
                                 bool there)
{
    void *own = executor->frame == NULL ? NULL : exg_device_frame_input(executor->frame, index);

    if (executor->frame == NULL) {
        exg_plan_executor_bind_input(executor, index, data);
    } else if (is_usable_there(data, there)) {
        exg_device_frame_give(executor->frame, index, NULL, false);
        exg_plan_executor_bind_input(executor, index, data);
    } else {
        exg_device_frame_give(executor->frame, index, data, there);
        if (own != NULL) {
            exg_plan_executor_bind_input(executor, index, own);
        }
    }
}

void exg_plan_executor_bind_output(exg_plan_executor *executor, uint32_t index,
                                   const exg_result_place *place)
{
    executor->places[index] = *place;
    if (executor->frame != NULL) {
        exg_device_frame_bind_output(executor->frame, index, place);
    }
}

/* The host's results to where they are bound; one may be what was an input. */
static void hand_out(const exg_plan_executor *executor)
{
    const exg_plan *plan = executor->plan;

    for (uint32_t i = 0; executor->frame == NULL && i < 2 * plan->output_count; i++) {
        uint32_t o = i % plan->output_count;
        const exg_location *from = &plan->outputs[o].location;
        void *to = executor->places[o].data;

        if (to != NULL && exg_plan_output_comes_first(plan, o) == (i < plan->output_count) &&
            to != data_at(executor, from)) {
            memmove(to, data_at(executor, from), (size_t)exg_plan_result_bytes(&plan->outputs[o]));
        }
    }
}

uint64_t exg_plan_output_bytes(const exg_plan *plan, uint32_t index)
{
    return plan->buffers[plan->outputs[index].location.buffer].bytes;
}

void exg_plan_executor_set_output(exg_plan_executor *executor, uint32_t index, void *data)
{
    executor->moved = executor->moved || executor->outputs[index] != data;
    executor->outputs[index] = data;
}

void exg_plan_executor_set_random(exg_plan_executor *executor, uint64_t seed, uint64_t run)
{
    executor->random = (exg_random_source){seed, run};
}

void exg_plan_executor_watch(exg_plan_executor *executor, const exg_stop *stop, exg_pool *alone,
                             exg_progress *progress)
{
    executor->stop = stop;
    executor->progress = progress;
    executor->alone = alone;
}

exg_status exg_plan_executor_profile(exg_plan_executor *executor, exg_error *err)
{
    executor->times = EXG_NEW_ARRAY(executor->plan->arena, step_time, executor->plan->step_count);
    return executor->times == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

void exg_plan_executor_times(const exg_plan_executor *executor, uint32_t index, uint64_t *start_ns,
                             uint64_t *last_ns, uint64_t *total_ns)
{
    step_time time = executor->times == NULL ? (step_time){0} : executor->times[index];

    *start_ns = time.start_ns;
    *last_ns = time.last_ns;
    *total_ns = time.total_ns;
}

static void begin_faults(exg_plan_executor *executor, noted *first)
{
    *first = (noted){.fault = EXG_FAULT_NONE};
    atomic_store_explicit(&executor->fault.fault, EXG_FAULT_NONE, memory_order_relaxed);
}

/* After step `s`: was it the first to raise a fault? */
static void note_fault(exg_plan_executor *executor, uint32_t s, noted *first)
{
    int fault = atomic_load_explicit(&executor->fault.fault, memory_order_relaxed);

    if (fault != EXG_FAULT_NONE && first->fault == EXG_FAULT_NONE) {
        *first = (noted){(exg_fault)fault, s, executor->fault.index, executor->fault.size};
    }
}

static const char *what_is_wrong(const exg_step *step, exg_fault fault)
{
    if (fault == EXG_FAULT_REGISTERED) {
        return exg_registered_error(&step->call)->message;
    }
    if (step->host == &exg_kernel_checked) {
        return step->call.args[2].as_string; /* the claim */
    }
    return fault == EXG_FAULT_INDEX       ? "an index is outside its dimension"
           : fault == EXG_FAULT_PARAMETER ? "no distribution has such a parameter"
           : fault == EXG_FAULT_SINGULAR
               ? "a matrix is singular, not positive definite, or its factors do not converge"
               : "integer division by zero";
}

static exg_status tell_fault(const exg_plan_executor *executor, const noted *first, exg_error *err)
{
    const exg_step *step = &executor->plan->steps[first->step];
    const char *what = what_is_wrong(step, first->fault);
    exg_status status;

    if (first->fault == EXG_FAULT_REGISTERED) {
        status = exg_error_set(err, __FILE__, __LINE__, exg_registered_error(&step->call)->status,
                               "LIB-008", "%s: %s", step->call.op->registered->target, what);
        return exg_error_within(err, status, "node '%s'", step->name);
    }
    status = first->size < 0 ? EXG_FAIL(err, MALFORMED, "RUN-001", "%s: %s", step->target, what)
                             : EXG_FAIL(err, MALFORMED, "RUN-001",
                                        "%s: index %" PRId64 " is outside a dimension of %" PRId64,
                                        step->target, first->index, first->size);
    if (step->source[0] != '\0') {
        (void)exg_error_source(err, status, "%s", step->source);
    }
    return exg_error_within(err, status, "node '%s'", step->name);
}

/* Where a step raises its faults here: on a device they are looked at later. */
static exg_status carry_out(exg_plan_executor *executor, uint32_t s, exg_error *err)
{
    const exg_step *step = &executor->plan->steps[s];

    if (executor->frame != NULL) {
        return exg_device_frame_step(executor->frame, s, err);
    }
    step->kernel->run(&step->call);
    return EXG_OK;
}

/* What the device noted, if it came before what the host did. */
static void note_there(noted *first, uint32_t s, const exg_fault_note *note)
{
    if (s != EXG_NO_STEP && (first->fault == EXG_FAULT_NONE || s < first->step)) {
        *first = (noted){(exg_fault)atomic_load_explicit(&note->fault, memory_order_relaxed), s,
                         note->index, note->size};
    }
}

/* Do other ranks of this process read the same weights? */
static bool is_shared(const exg_plan_executor *executor)
{
    return executor->grid != NULL && executor->grid->ndim > 0 &&
           executor->grid->dims[0]->ops->lends;
}

exg_status exg_plan_executor_fold(exg_plan_executor *executor, exg_error *err)
{
    const exg_plan *plan = executor->plan;
    exg_fault_note there;
    uint32_t at;

    if (executor->is_folded) {
        return EXG_OK;
    }
    begin_faults(executor, &executor->folding);
    for (uint32_t s = 0; s < plan->folded_count; s++) {
        exg_step *step = &executor->plan->steps[s];
        const exg_buffer *b = &plan->buffers[step->outputs[0].buffer];
        exg_folded_constant *folded =
            b->kind == EXG_BUFFER_CONSTANT ? executor->bindings.folded[b->index] : NULL;

        if (folded == NULL || !folded->is_computed) {
            EXG_TRY(exg_stop_check(executor->stop, err));
            EXG_TRY(exg_weight_bindings_fetch(&executor->bindings, step, err));
            if (!step->on_host) {
                (void)bind_operands(executor, step->inputs, step->call.inputs,
                                    exg_step_operands(step), NULL);
            }
            EXG_TRY(carry_out(executor, s, err));
            note_fault(executor, s, &executor->folding);
            if (executor->device != NULL || !is_shared(executor)) {
                exg_weight_bindings_forget(&executor->bindings, step);
            }
        }
        if (folded != NULL) {
            folded->is_computed = b->is_packed;
        }
    }
    if (executor->frame != NULL && plan->folded_count > 0) {
        EXG_TRY(exg_device_frame_filled(executor->frame, &at, &there, err));
        note_there(&executor->folding, at, &there);
    } else if (executor->frame == NULL && plan->folded_count > 0) {
        /* what weights became on the way, which may be large, is in none of its constants */
        exg_forget(exg_weight_store_budget(executor->bindings.store)->allocator, executor->arena,
                   plan->summary.arena_bytes);
    }
    executor->is_folded = true;
    return EXG_OK;
}

void exg_plan_executor_forget(exg_plan_executor *executor)
{
    exg_weight_bindings_forget_all(&executor->bindings);
}

static exg_status exchange_status(const exg_plan_executor *executor, const char *node,
                                  exg_error *err)
{
    exg_status status = exg_grid_status(executor->grid, err);

    if (status != EXG_OK && err != NULL) {
        err->where[0] = '\0'; /* of one line of the mesh */
        return exg_error_within(err, status, "rank %u, node '%s'", executor->grid->rank, node);
    }
    return status;
}

/* Where collectives are the devices' own, what went wrong between ranks is known when a rank asks
 * for one, or when it waits. */
static exg_status exchange_fault(const exg_plan_executor *executor, exg_status status,
                                 exg_error *err)
{
    const exg_device_table *table = executor->device->table;
    const exg_collective *stuck =
        table->stuck_at == NULL ? NULL : table->stuck_at(executor->device);
    const char *node = exg_plan_executor_at(executor);
    const exg_collective *what;
    uint32_t dim;

    for (uint32_t s = 0; stuck != NULL && s < executor->plan->step_count; s++) {
        const exg_step *step = &executor->plan->steps[s];

        if (exg_collective_of(step->kernel, &step->call, &what, &dim) != EXG_COLLECTIVE_NONE &&
            what == stuck) {
            node = step->name;
        }
    }
    if (err != NULL) {
        err->where[0] = '\0';
    }
    if (stuck == NULL && exg_device_frame_can_replay(executor->frame)) {
        return exg_error_within(err, status, "rank %u, in a graph of all steps",
                                executor->grid->rank);
    }
    return exg_error_within(err, status, "rank %u, node '%s'", executor->grid->rank, node);
}

/* Runs step `s`. After one that exchanges with other ranks a fault of the exchange ends the
 * run: what would follow has nothing to work on. */
static exg_status run_step(exg_plan_executor *executor, uint32_t s, exg_error *err)
{
    const exg_step *step = &executor->plan->steps[s];

    atomic_store_explicit(&executor->at, s, memory_order_relaxed);
    exg_progress_step(executor->progress, s - executor->plan->folded_count,
                      executor->plan->step_count - executor->plan->folded_count);
    EXG_TRY(exg_stop_check(executor->stop, err));
    EXG_TRY(carry_out(executor, s, err));
    note_fault(executor, s, &executor->now);
    return (step->kernel->flags & EXG_KERNEL_EXCHANGES) == 0 ||
                   (executor->frame != NULL && !step->on_host)
               ? EXG_OK
               : exchange_status(executor, step->name, err);
}

static exg_status run_steps(exg_plan_executor *executor, exg_error *err)
{
    if (executor->frame != NULL && exg_device_frame_can_replay(executor->frame)) {
        return exg_device_frame_replay(executor->frame, err);
    }
    for (uint32_t s = executor->plan->folded_count; s < executor->plan->step_count; s++) {
        EXG_TRY(run_step(executor, s, err));
    }
    return EXG_OK;
}

static exg_status run_measured(exg_plan_executor *executor, exg_error *err)
{
    uint64_t start = exg_now_ns();

    for (uint32_t s = executor->plan->folded_count; s < executor->plan->step_count; s++) {
        step_time *time = &executor->times[s];
        uint64_t end;

        EXG_TRY(run_step(executor, s, err));
        if (executor->device != NULL) {
            EXG_TRY(executor->device->table->wait(executor->device, err));
        }
        end = exg_now_ns();
        time->start_ns = start;
        time->last_ns = end - start;
        time->total_ns += end - start;
        start = end;
    }
    return EXG_OK;
}

const char *exg_plan_executor_at(const exg_plan_executor *executor)
{
    return executor->plan->steps[atomic_load_explicit(&executor->at, memory_order_relaxed)].name;
}

static void rebind_moved(exg_plan_executor *executor)
{
    if (executor->moved && executor->frame != NULL) {
        exg_device_frame_moved(executor->frame);
    }
    for (uint32_t i = 0; executor->moved && i < executor->patch_count; i++) {
        uint8_t *base = *executor->patches[i].base;

        executor->patches[i].operand->data =
            base == NULL ? NULL : base + executor->patches[i].byte_offset;
    }
    executor->moved = false;
}

/* Others' devices wait for what this one was to ask for: they are told at once. */
static void give_up_lines(const exg_plan_executor *executor, exg_status status)
{
    bool any = false;

    for (uint32_t d = 0; executor->grid != NULL && d < executor->grid->ndim; d++) {
        any = any || executor->grid->links[d] != NULL;
    }
    if (any) {
        exg_grid_abort(executor->grid, status);
    }
}

/* What is asked of the device before the steps and after them. */
static exg_status run_on_device(exg_plan_executor *executor, exg_error *err)
{
    exg_fault_note there;
    uint32_t at;
    exg_status status;

    EXG_TRY(exg_device_frame_begin(executor->frame, &executor->random, err));
    status = executor->times != NULL ? run_measured(executor, err) : run_steps(executor, err);
    if (status == EXG_OK) {
        status = exg_device_frame_end(executor->frame, !executor->launches, &at, &there, err);
        executor->owes = executor->launches;
    } else {
        give_up_lines(executor, status);
        (void)executor->device->table->wait(executor->device, NULL);
    }
    if (status == EXG_PEER && executor->grid != NULL) {
        return exchange_fault(executor, status, err);
    }
    EXG_TRY(status);
    note_there(&executor->now, at, &there);
    return executor->grid == NULL ? EXG_OK
                                  : exchange_status(executor, exg_plan_executor_at(executor), err);
}

/* Steps leave blocks out once the run is to stop: what it came to is not told then. */
static exg_status run_watched(exg_plan_executor *executor, exg_error *err)
{
    exg_pool *pool = executor->grid == NULL ? executor->pool : NULL; /* else the one that watches */
    exg_status status;

    exg_pool_watch(pool, executor->stop);
    status = executor->frame != NULL   ? run_on_device(executor, err)
             : executor->times != NULL ? run_measured(executor, err)
                                       : run_steps(executor, err);
    exg_pool_watch(pool, NULL);
    return status == EXG_OK ? exg_stop_check(executor->stop, err) : status;
}

static exg_status tell_faults(const exg_plan_executor *executor, exg_error *err)
{
    const noted *first =
        executor->folding.fault != EXG_FAULT_NONE ? &executor->folding : &executor->now;

    return first->fault == EXG_FAULT_NONE ? EXG_OK : tell_fault(executor, first, err);
}

exg_status exg_plan_executor_run(exg_plan_executor *executor, exg_error *err)
{
    rebind_moved(executor);
    begin_faults(executor, &executor->now);
    EXG_TRY(run_watched(executor, err));
    EXG_TRY(tell_faults(executor, err));
    hand_out(executor);
    return EXG_OK;
}

void exg_plan_executor_launches(exg_plan_executor *executor, bool launches)
{
    executor->launches = launches;
}

exg_status exg_plan_executor_finish(exg_plan_executor *executor, exg_error *err)
{
    exg_fault_note there;
    uint32_t at;

    if (!executor->owes) {
        return EXG_OK;
    }
    executor->owes = false;
    begin_faults(executor, &executor->now);
    EXG_TRY(exg_device_frame_filled(executor->frame, &at, &there, err));
    note_there(&executor->now, at, &there);
    return tell_faults(executor, err);
}
