/* rank.c - binds operands to memory once, then runs steps. */
#include "libexec/comm/collectives.h"
#include "libexec/engine.h"
#include "libexec/kernels/kernels.h"
#include "libexec/lane.h"
#include "libexec/supply.h"
#include "libexport/base/arena.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* An operand that moves when a user input's data does, or the memory of an output. */
typedef struct patch {
    exg_tensor *operand;
    uint8_t *const *base;
    int64_t byte_offset;
} patch;

/* Of a step: since the run began, and how long. */
typedef struct step_time {
    uint64_t start_ns, last_ns, total_ns;
} step_time;

typedef struct noted {
    exg_fault fault;
    uint32_t step;
    int64_t index, size;
} noted;

struct exg_rank {
    exg_plan *plan;
    exg_supply supply;
    const exg_grid *grid;
    exg_accelerator *device; /* NULL: the host */
    exg_pool *pool;
    exg_pool *alone;      /* what steps take that do not take the pool */
    const exg_stop *stop; /* NULL: nobody's */
    exg_lane *lane;     /* on a device: what the plan has there */
    uint32_t index, level;
    bool is_settled;    /* the scratch was asked, */
    uint64_t moves;     /* when it had moved so often */
    uint8_t *arena;     /* of the scratch */
    uint8_t *workspace; /* likewise */
    uint8_t **inputs; /* first byte behind each graph input */
    uint8_t **outputs; /* of each graph output's memory, where that is the caller's */
    bool is_filled;   /* the steps that run once have run */
    patch *patches;
    uint32_t patch_count;
    bool moved; /* an input's data changed since the operands were bound */
    step_time *times; /* by step; NULL: not measured */
    exg_fault_note fault; /* what steps raise */
    noted once, now;      /* the first one of the steps that run once, and of a run */
    _Atomic uint32_t at; /* the step being run */
    exg_random_source random;
};

const exg_plan *exg_rank_plan(const exg_rank *rank)
{
    return rank->plan;
}

uint64_t exg_rank_own_bytes(const exg_rank *rank)
{
    return exg_arena_held(rank->plan->arena) + rank->supply.own_bytes;
}

static uint8_t *base_of(const exg_rank *rank, uint32_t buffer)
{
    const exg_buffer *b = &rank->plan->buffers[buffer];

    switch (b->place) {
    case EXG_PLACE_CONSTANT:
        return rank->supply.made[b->index]->data;
    case EXG_PLACE_INPUT:
        return rank->inputs[b->index];
    case EXG_PLACE_OUTPUT:
        return rank->outputs[b->index];
    default:
        return rank->arena == NULL ? NULL : rank->arena + b->offset;
    }
}

static uint8_t *base_for_lane(const void *rank, uint32_t buffer)
{
    return base_of(rank, buffer);
}

static void *data_at(const exg_rank *rank, const exg_location *location)
{
    uint8_t *base = base_of(rank, location->buffer);

    return base == NULL ? NULL
                        : base + location->offset *
                                     (int64_t)exg_dtype_bytes(location->window.dtype);
}

void *exg_rank_output(const exg_rank *rank, uint32_t index)
{
    return rank->lane != NULL ? exg_lane_taken(rank->lane, index)
                              : data_at(rank, &rank->plan->outputs[index].location);
}

void *exg_rank_held(const exg_rank *rank, uint32_t index)
{
    return data_at(rank, &rank->plan->outputs[index].location);
}

/* Where memory behind a buffer that may move is noted: the caller's, or what is handed on.
 * NULL: it stays. */
static uint8_t *const *moving_base(const exg_rank *rank, uint32_t buffer)
{
    const exg_buffer *b = &rank->plan->buffers[buffer];

    if (b->place == EXG_PLACE_OUTPUT) {
        return &rank->outputs[b->index];
    }
    return b->place == EXG_PLACE_INPUT && rank->plan->inputs[b->index].kind == EXG_INPUT_USER &&
                   (rank->lane == NULL || rank->plan->inputs[b->index].is_handed_on)
               ? &rank->inputs[b->index]
               : NULL;
}

static uint32_t bind_operands(exg_rank *rank, const exg_location *locations, exg_tensor *operands,
                              uint32_t count, patch *patches)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint8_t *const *base;

        if (locations[i].buffer == EXG_NO_BUFFER) {
            continue;
        }
        base = moving_base(rank, locations[i].buffer);
        if (base == NULL) {
            operands[i].data = data_at(rank, &locations[i]);
            continue;
        }
        if (patches != NULL) {
            patches[found] =
                (patch){&operands[i], base,
                        locations[i].offset * (int64_t)exg_dtype_bytes(locations[i].window.dtype)};
        }
        found++;
    }
    return found;
}

static uint32_t count_moving(const exg_rank *rank, const exg_location *locations, uint32_t count)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < count; i++) {
        found += locations[i].buffer != EXG_NO_BUFFER &&
                 moving_base(rank, locations[i].buffer) != NULL;
    }
    return found;
}

static exg_status create_patches(exg_rank *rank, exg_error *err)
{
    for (uint32_t s = 0; s < rank->plan->step_count; s++) {
        const exg_step *step = &rank->plan->steps[s];

        if (!step->on_host) { /* its operands are copied */
            rank->patch_count += count_moving(rank, step->inputs, exg_step_operands(step)) +
                                 count_moving(rank, step->outputs, step->call.output_count);
        }
    }
    rank->patches = EXG_NEW_ARRAY(rank->plan->arena, patch, rank->patch_count);
    return rank->patches == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

static void bind_steps(exg_rank *rank)
{
    patch *next = rank->patches;

    for (uint32_t s = 0; s < rank->plan->step_count; s++) {
        exg_step *step = &rank->plan->steps[s];

        step->call.workspace = rank->workspace;
        step->call.pool =
            s < rank->plan->once_count || rank->grid == NULL ? rank->pool : rank->alone;
        step->call.fault = &rank->fault;
        step->call.random = &rank->random;
        if (rank->lane != NULL) {
            exg_lane_bind(rank->lane, s, &rank->fault, &rank->random);
        }
        if (!step->on_host) {
            next += bind_operands(rank, step->inputs, step->call.inputs, exg_step_operands(step),
                                  next);
            next += bind_operands(rank, step->outputs, step->call.outputs,
                                  step->call.output_count, next);
        }
    }
}

/* What describes the plan's memory. */
static exg_status create_tables(exg_rank *r, exg_error *err)
{
    r->inputs = EXG_NEW_ARRAY(r->plan->arena, uint8_t *, r->plan->input_count);
    r->outputs = EXG_NEW_ARRAY(r->plan->arena, uint8_t *, r->plan->output_count);
    if (r->inputs == NULL || r->outputs == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    return r->device == NULL
               ? EXG_OK
               : exg_lane_create(r->device, r->plan, base_for_lane, r, &r->lane, err);
}

/* What a device that has not enough was asked for. */
static exg_status tell_need(const exg_plan *plan, exg_status status, exg_error *err)
{
    const exg_plan_summary *s = &plan->summary;

    (void)exg_error_fix(err, status, "spread it over more ranks (--mesh N --place fsdp), or give "
                                     "it smaller inputs");
    return exg_error_within(err, status,
                            "a plan of %" PRIu64 " bytes of values, %" PRIu64
                            " of workspace, %" PRIu64 " of weights and %" PRIu64
                            " made from them",
                            s->arena_bytes, s->workspace_bytes, s->weight_bytes,
                            s->constant_bytes);
}

exg_status exg_rank_create(exg_plan *plan, exg_memory *memory, exg_pool *pool,
                           const exg_grid *grid, exg_accelerator *device, uint32_t index,
                           uint32_t level, exg_rank **rank, exg_error *err)
{
    exg_rank *r = calloc(1, sizeof(*r));
    exg_status status;

    *rank = NULL;
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
    r->supply = (exg_supply){.plan = plan, .memory = memory, .device = device};
    status = create_tables(r, err);
    r->supply.inputs = r->inputs;
    status = status == EXG_OK ? exg_supply_bind(&r->supply, index, err) : status;
    status = status == EXG_OK ? create_patches(r, err) : status;
    if (status == EXG_NO_MEMORY && device != NULL) {
        (void)tell_need(plan, status, err);
    }
    if (status != EXG_OK) {
        exg_rank_destroy(r);
        return status;
    }
    *rank = r;
    return EXG_OK;
}

/* Asks for what the plan needs; the operands are bound when all is there. */
static exg_status take_turn(exg_rank *r, exg_error *err)
{
    exg_scratch *scratch = exg_memory_scratch(r->supply.memory);
    const exg_plan_summary *s = &r->plan->summary;
    void *arena = NULL;
    void *workspace = NULL;

    if (r->lane != NULL) {
        EXG_TRY(exg_lane_settle(r->lane, scratch, r->level, r->index, err));
        r->arena = exg_lane_arena(r->lane);
        for (uint32_t i = 0; i < r->plan->input_count; i++) {
            uint8_t *own = exg_lane_input(r->lane, i);

            r->inputs[i] = own == NULL ? r->inputs[i] : own;
        }
        return EXG_OK;
    }
    EXG_TRY(exg_scratch_block(scratch,
                              (exg_scratch_key){EXG_SCRATCH_VALUES, r->level, r->index, 0}, NULL,
                              s->arena_bytes, &arena, err));
    EXG_TRY(exg_scratch_block(scratch, (exg_scratch_key){EXG_SCRATCH_WORKSPACE, 0, r->index, 0},
                              NULL, s->workspace_bytes, &workspace, err));
    r->arena = arena;
    r->workspace = workspace;
    return EXG_OK;
}

exg_status exg_rank_settle(exg_rank *rank, exg_error *err)
{
    const exg_scratch *scratch = exg_memory_scratch(rank->supply.memory);
    exg_status status;

    if (rank->is_settled && rank->moves == scratch->moves) {
        return EXG_OK;
    }
    status = take_turn(rank, err);
    if (status == EXG_NO_MEMORY && rank->device != NULL) {
        (void)tell_need(rank->plan, status, err);
    }
    EXG_TRY(status);
    rank->is_settled = true;
    rank->moves = scratch->moves;
    bind_steps(rank);
    return EXG_OK;
}

exg_status exg_rank_on_paper(exg_plan *plan, exg_rank **rank, exg_error *err)
{
    *rank = calloc(1, sizeof(**rank));
    if (*rank == NULL) {
        exg_plan_destroy(plan);
        return EXG_OUT_OF_MEMORY(err);
    }
    (*rank)->plan = plan;
    return EXG_OK;
}

void exg_rank_destroy(exg_rank *rank)
{
    if (rank != NULL) {
        exg_supply_release(&rank->supply);
        exg_lane_destroy(rank->lane);
        exg_plan_destroy(rank->plan);
        free(rank);
    }
}

void exg_rank_hand_on(exg_rank *rank, uint32_t index, void *held)
{
    rank->moved = rank->moved || rank->inputs[index] != held;
    rank->inputs[index] = held;
}

void exg_rank_set_input(exg_rank *rank, uint32_t index, void *data)
{
    if (rank->lane != NULL) {
        exg_lane_give(rank->lane, index, data);
    } else {
        exg_rank_hand_on(rank, index, data);
    }
}

uint64_t exg_plan_output_bytes(const exg_plan *plan, uint32_t index)
{
    return plan->buffers[plan->outputs[index].location.buffer].bytes;
}

void exg_rank_set_output(exg_rank *rank, uint32_t index, void *data)
{
    rank->moved = rank->moved || rank->outputs[index] != data;
    rank->outputs[index] = data;
}

void exg_rank_set_random(exg_rank *rank, uint64_t seed, uint64_t run)
{
    rank->random = (exg_random_source){seed, run};
}

void exg_rank_watch(exg_rank *rank, const exg_stop *stop, exg_pool *alone)
{
    rank->stop = stop;
    rank->alone = alone;
}

exg_status exg_rank_profile(exg_rank *rank, exg_error *err)
{
    rank->times = EXG_NEW_ARRAY(rank->plan->arena, step_time, rank->plan->step_count);
    return rank->times == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

void exg_rank_times(const exg_rank *rank, uint32_t index, uint64_t *start_ns, uint64_t *last_ns,
                    uint64_t *total_ns)
{
    step_time time = rank->times == NULL ? (step_time){0} : rank->times[index];

    *start_ns = time.start_ns;
    *last_ns = time.last_ns;
    *total_ns = time.total_ns;
}

static void begin_faults(exg_rank *rank, noted *first)
{
    *first = (noted){.fault = EXG_FAULT_NONE};
    atomic_store_explicit(&rank->fault.fault, EXG_FAULT_NONE, memory_order_relaxed);
}

/* After step `s`: was it the first to raise a fault? */
static void note_fault(exg_rank *rank, uint32_t s, noted *first)
{
    int fault = atomic_load_explicit(&rank->fault.fault, memory_order_relaxed);

    if (fault != EXG_FAULT_NONE && first->fault == EXG_FAULT_NONE) {
        *first = (noted){(exg_fault)fault, s, rank->fault.index, rank->fault.size};
    }
}

static const char *what_is_wrong(const exg_step *step, exg_fault fault)
{
    if (step->host == &exg_kernel_checked) {
        return step->call.args[2].as_string; /* the claim */
    }
    return fault == EXG_FAULT_INDEX       ? "an index is outside its dimension"
           : fault == EXG_FAULT_PARAMETER ? "no distribution has such a parameter"
           : fault == EXG_FAULT_SINGULAR
               ? "a matrix is singular, not positive definite, or its factors do not converge"
               : "integer division by zero";
}

static exg_status tell_fault(const exg_rank *rank, const noted *first, exg_error *err)
{
    const exg_step *step = &rank->plan->steps[first->step];
    const char *what = what_is_wrong(step, first->fault);
    exg_status status;

    status = first->size < 0
                 ? EXG_FAIL(err, MALFORMED, "RUN-001", "%s: %s", step->target, what)
                 : EXG_FAIL(err, MALFORMED, "RUN-001",
                            "%s: index %" PRId64 " is outside a dimension of %" PRId64,
                            step->target, first->index, first->size);
    if (step->source[0] != '\0') {
        (void)exg_error_fix(err, status, "it comes from %s", step->source);
    }
    return exg_error_within(err, status, "node '%s'", step->name);
}

/* Where a step raises its faults here: on a device they are looked at later. */
static exg_status carry_out(exg_rank *rank, uint32_t s, exg_error *err)
{
    const exg_step *step = &rank->plan->steps[s];

    if (rank->lane != NULL) {
        return exg_lane_step(rank->lane, s, err);
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

exg_status exg_rank_fill(exg_rank *rank, exg_error *err)
{
    const exg_plan *plan = rank->plan;
    exg_fault_note there;
    uint32_t at;

    if (rank->is_filled) {
        return EXG_OK;
    }
    begin_faults(rank, &rank->once);
    for (uint32_t s = 0; s < plan->once_count; s++) {
        exg_step *step = &rank->plan->steps[s];
        const exg_buffer *b = &plan->buffers[step->outputs[0].buffer];
        exg_made *made = b->place == EXG_PLACE_CONSTANT ? rank->supply.made[b->index] : NULL;

        if (made == NULL || !made->is_filled) {
            EXG_TRY(exg_stop_check(rank->stop, err));
            EXG_TRY(exg_supply_fetch(&rank->supply, step, err));
            if (!step->on_host) {
                (void)bind_operands(rank, step->inputs, step->call.inputs,
                                    exg_step_operands(step), NULL);
            }
            EXG_TRY(carry_out(rank, s, err));
            note_fault(rank, s, &rank->once);
            if (rank->grid == NULL || rank->device != NULL) { /* else others will read it too */
                exg_supply_forget(&rank->supply, step);
            }
        }
        if (made != NULL) {
            made->is_filled = b->is_packed;
        }
    }
    if (rank->lane != NULL && plan->once_count > 0) {
        EXG_TRY(exg_lane_filled(rank->lane, &at, &there, err));
        note_there(&rank->once, at, &there);
    }
    rank->is_filled = true;
    return EXG_OK;
}

void exg_rank_forget(exg_rank *rank)
{
    exg_supply_forget_all(&rank->supply);
}

static exg_status exchange_status(const exg_rank *rank, const char *node, exg_error *err)
{
    exg_status status = exg_grid_status(rank->grid, err);

    if (status != EXG_OK && err != NULL) {
        err->where[0] = '\0'; /* of one line of the mesh */
        return exg_error_within(err, status, "rank %u, node '%s'", rank->grid->rank, node);
    }
    return status;
}

/* Where collectives are the devices' own, what went wrong between ranks is known when a rank asks
 * for one, or when it waits. */
static exg_status exchange_fault(const exg_rank *rank, exg_status status, exg_error *err)
{
    const exg_device_table *table = rank->device->table;
    const exg_collective *stuck = table->stuck_at == NULL ? NULL : table->stuck_at(rank->device);
    const char *node = exg_rank_at(rank);
    const exg_collective *what;
    uint32_t dim;

    for (uint32_t s = 0; stuck != NULL && s < rank->plan->step_count; s++) {
        const exg_step *step = &rank->plan->steps[s];

        if (exg_collective_of(step->kernel, &step->call, &what, &dim) != EXG_COLLECTIVE_NONE &&
            what == stuck) {
            node = step->name;
        }
    }
    if (err != NULL) {
        err->where[0] = '\0';
    }
    if (stuck == NULL && exg_lane_can_replay(rank->lane)) {
        return exg_error_within(err, status, "rank %u, in a graph of all steps", rank->grid->rank);
    }
    return exg_error_within(err, status, "rank %u, node '%s'", rank->grid->rank, node);
}

/* Runs step `s`. After one that exchanges with other ranks a fault of the exchange ends the
 * run: what would follow has nothing to work on. */
static exg_status run_step(exg_rank *rank, uint32_t s, exg_error *err)
{
    const exg_step *step = &rank->plan->steps[s];

    atomic_store_explicit(&rank->at, s, memory_order_relaxed);
    EXG_TRY(exg_stop_check(rank->stop, err));
    EXG_TRY(carry_out(rank, s, err));
    note_fault(rank, s, &rank->now);
    return (step->kernel->flags & EXG_KERNEL_EXCHANGES) == 0 ||
                   (rank->lane != NULL && !step->on_host)
               ? EXG_OK
               : exchange_status(rank, step->name, err);
}

static exg_status run_steps(exg_rank *rank, exg_error *err)
{
    if (rank->lane != NULL && exg_lane_can_replay(rank->lane)) {
        return exg_lane_replay(rank->lane, err);
    }
    for (uint32_t s = rank->plan->once_count; s < rank->plan->step_count; s++) {
        EXG_TRY(run_step(rank, s, err));
    }
    return EXG_OK;
}

static exg_status run_measured(exg_rank *rank, exg_error *err)
{
    uint64_t begin = exg_now_ns();
    uint64_t start = begin;

    for (uint32_t s = rank->plan->once_count; s < rank->plan->step_count; s++) {
        step_time *time = &rank->times[s];
        uint64_t end;

        EXG_TRY(run_step(rank, s, err));
        if (rank->device != NULL) {
            EXG_TRY(rank->device->table->wait(rank->device, err));
        }
        end = exg_now_ns();
        time->start_ns = start - begin;
        time->last_ns = end - start;
        time->total_ns += end - start;
        start = end;
    }
    return EXG_OK;
}

const char *exg_rank_at(const exg_rank *rank)
{
    return rank->plan->steps[atomic_load_explicit(&rank->at, memory_order_relaxed)].name;
}

static void rebind_moved(exg_rank *rank)
{
    if (rank->moved && rank->lane != NULL) {
        exg_lane_moved(rank->lane);
    }
    for (uint32_t i = 0; rank->moved && i < rank->patch_count; i++) {
        uint8_t *base = *rank->patches[i].base;

        rank->patches[i].operand->data = base == NULL ? NULL
                                                      : base + rank->patches[i].byte_offset;
    }
    rank->moved = false;
}

/* Others' devices wait for what this one was to ask for: they are told at once. */
static void give_up_lines(const exg_rank *rank, exg_status status)
{
    bool any = false;

    for (uint32_t d = 0; rank->grid != NULL && d < rank->grid->ndim; d++) {
        any = any || rank->grid->lines[d] != NULL;
    }
    if (any) {
        exg_grid_abort(rank->grid, status);
    }
}

/* What is asked of the device before the steps and after them. */
static exg_status run_on_device(exg_rank *rank, exg_error *err)
{
    exg_fault_note there;
    uint32_t at;
    exg_status status;

    EXG_TRY(exg_lane_begin(rank->lane, &rank->random, err));
    status = rank->times != NULL ? run_measured(rank, err) : run_steps(rank, err);
    if (status == EXG_OK) {
        status = exg_lane_end(rank->lane, &at, &there, err);
    } else {
        give_up_lines(rank, status);
        (void)rank->device->table->wait(rank->device, NULL);
    }
    if (status == EXG_PEER && rank->grid != NULL) {
        return exchange_fault(rank, status, err);
    }
    EXG_TRY(status);
    note_there(&rank->now, at, &there);
    return rank->grid == NULL ? EXG_OK : exchange_status(rank, exg_rank_at(rank), err);
}

/* Steps leave blocks out once the run is to stop: what it came to is not told then. */
static exg_status run_watched(exg_rank *rank, exg_error *err)
{
    exg_pool *pool = rank->grid == NULL ? rank->pool : NULL; /* else the one that watches */
    exg_status status;

    exg_pool_watch(pool, rank->stop);
    status = rank->lane != NULL    ? run_on_device(rank, err)
             : rank->times != NULL ? run_measured(rank, err)
                                   : run_steps(rank, err);
    exg_pool_watch(pool, NULL);
    return status == EXG_OK ? exg_stop_check(rank->stop, err) : status;
}

exg_status exg_rank_run(exg_rank *rank, exg_error *err)
{
    rebind_moved(rank);
    begin_faults(rank, &rank->now);
    EXG_TRY(run_watched(rank, err));
    if (rank->once.fault != EXG_FAULT_NONE || rank->now.fault != EXG_FAULT_NONE) {
        return tell_fault(rank, rank->once.fault != EXG_FAULT_NONE ? &rank->once : &rank->now,
                          err);
    }
    return EXG_OK;
}
