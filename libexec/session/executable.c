/* executable.c - a segment from program to plans, one a rank, and one run of them. */
#include "libexec/session/executable.h"
#include "libexec/comm/collectives.h"
#include "libexec/session/collective_check.h"
#include "libexec/session/plan_rank.h"
#include "libexec/session/work.h"
#include "libexport/base/checked.h"
#include "libexport/transform/origin.h"

#include <exg/scalar.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static uint64_t input_bytes(const exg_plan *plan, uint32_t p)
{
    return plan->inputs[p].buffer == EXG_NO_BUFFER ? 0
                                                   : plan->buffers[plan->inputs[p].buffer].bytes;
}

void exg_executable_destroy(exg_executable *executable)
{
    for (uint32_t r = 0; executable->executors != NULL && r < executable->rank_count; r++) {
        exg_plan_executor_destroy(executable->executors[r]);
    }
    free(executable->report);
    *executable->plan_bytes -= executable->bytes;
    exg_graph_segment_destroy(executable->segment);
    exg_arena_destroy(executable->arena);
    free(executable);
}

/* What the plan takes from other plans of the run and leaves to them. One element may be a number
 * that the next segment depends on, which the host reads. */
static void note_forwarded(const exg_executable *b, bool is_part, exg_plan *plan)
{
    const exg_graph_segment *s = b->segment;
    bool is_end = s->graph_break == EXG_GRAPH_BREAK_END && !is_part;

    for (uint32_t i = is_part ? 0 : plan->input_count - s->input_count; i < plan->input_count;
         i++) {
        plan->inputs[i].is_forwarded = plan->inputs[i].kind == EXG_INPUT_USER;
    }
    for (uint32_t o = s->first_output; !is_end && o < plan->output_count; o++) {
        plan->outputs[o].is_forwarded = exg_tensor_numel(&plan->outputs[o].location.view) != 1;
    }
}

/* Without a mesh nothing was placed: what the plan takes, before any of it is. */
static exg_status check_memory(const exg_session_context *e, const exg_plan *plan, exg_error *err)
{
    const exg_plan_summary *s = &plan->summary;
    const exg_memory_budget *budget = exg_weight_store_budget(e->store);
    uint64_t bytes = (budget->of_machine ? 0 : s->weight_bytes) + s->constant_bytes;

    if (budget->limit == 0 || (e->options.plan_only && budget->of_machine) ||
        (exg_add_u64(bytes, s->arena_bytes, &bytes) &&
         exg_add_u64(bytes, s->workspace_bytes, &bytes) && bytes <= budget->limit)) {
        return EXG_OK;
    }
    return exg_error_fix(err,
                         EXG_FAIL(err, LIMIT, "PLC-009",
                                  "the plan needs %" PRIu64 " bytes for %svalues and "
                                  "workspace, and %s %" PRIu64,
                                  bytes, budget->of_machine ? "" : "weights, ",
                                  budget->of_machine ? "the machine has" : "may take",
                                  budget->limit),
                         EXG_MEMORY_BUDGET_FIX);
}

/* Places, plans and binds one rank. */
static exg_status make_rank(exg_session_context *e, exg_executable *b, bool is_part,
                            const exg_program *functional, uint32_t r, exg_error *err)
{
    struct exg_accelerator *device = e->devices == NULL ? NULL : e->devices[r];
    const exg_grid *grid = e->grids == NULL ? NULL : &e->grids[r];
    exg_plan *plan = NULL;
    exg_status status;

    if (grid == NULL || e->is_spmd) { /* nothing is placed */
        EXG_TRY(exg_plan_rank(functional, e->operators, &e->plan, grid, device, b->in_place, &plan,
                              err));
        status = check_memory(e, plan, err);
        if (status != EXG_OK) {
            exg_plan_destroy(plan);
            return status;
        }
    } else {
        EXG_TRY(exg_executable_plan_rank(e, b, functional, e->first_rank + r, grid, NULL, device,
                                         &plan, err));
    }
    note_forwarded(b, is_part, plan);
    return e->options.plan_only ? exg_plan_executor_on_paper(plan, &b->executors[r], err)
                                : exg_plan_executor_create(plan, e->store, e->pool, grid, device, r,
                                                           b->level, &b->executors[r], err);
}

static const exg_rank_input *rank_input(const exg_session_context *context, uint32_t rank,
                                        uint32_t input)
{
    return &context->rank_inputs[rank * context->program->graph->input_count + input];
}

bool exg_ranks_have(const exg_session_context *context, uint32_t input)
{
    bool any = false;

    for (uint32_t r = 0; context->rank_inputs != NULL && r < context->rank_count; r++) {
        any = any || rank_input(context, r, input)->input.name != NULL;
    }
    return any;
}

/* Ranks that write one caller's tensor would disturb each other: each gets a copy of
 * its own. */
static exg_status take_copies(const exg_session_context *context, exg_executable *b, exg_error *err)
{
    exg_scratch *scratch = exg_weight_store_scratch(context->store);
    const exg_plan *plan = exg_executable_plan(b);

    for (uint32_t i = 0; b->copies != NULL && i < plan->input_count * b->rank_count; i++) {
        uint32_t p = i / b->rank_count;

        if (plan->inputs[p].kind == EXG_INPUT_USER && plan->inputs[p].mutated &&
            (p >= b->named_inputs || !exg_ranks_have(context, p))) {
            EXG_TRY(exg_scratch_block(
                scratch, (exg_scratch_key){EXG_SCRATCH_COPY, b->level, i % b->rank_count, p}, NULL,
                input_bytes(plan, p), &b->copies[i], err));
        }
    }
    return EXG_OK;
}

exg_status exg_executable_settle(const exg_session_context *context, exg_executable *executable,
                                 exg_error *err)
{
    exg_scratch *scratch = exg_weight_store_scratch(context->store);

    scratch->live = executable->level + 1;
    for (uint32_t r = 0; r < executable->rank_count; r++) {
        EXG_TRY(exg_plan_executor_settle(executable->executors[r], err));
    }
    return take_copies(context, executable, err);
}

static exg_status create_tables(exg_executable *b, exg_error *err)
{
    const exg_plan *plan = exg_executable_plan(b);

    b->callers = EXG_NEW_ARRAY(b->arena, void *, plan->input_count);
    if (b->rank_count > 1) {
        b->copies = EXG_NEW_ARRAY(b->arena, void *, (size_t)plan->input_count * b->rank_count);
    }
    return b->callers == NULL || (b->rank_count > 1 && b->copies == NULL) ? EXG_OUT_OF_MEMORY(err)
                                                                          : EXG_OK;
}

/* Where inputs, and outputs of the last segment, are in parts. */
static exg_status take_parts(const exg_session_context *e, exg_executable *b,
                             const exg_program *functional, exg_error *err)
{
    const exg_graph *graph = functional->graph;
    bool is_end = b->segment->graph_break == EXG_GRAPH_BREAK_END;
    uint32_t ndim = e->mesh.ndim;

    b->parts.ndim = ndim;
    b->parts.inputs = EXG_NEW_ARRAY(b->arena, exg_placement, (size_t)graph->input_count * ndim);
    b->parts.outputs =
        is_end ? EXG_NEW_ARRAY(b->arena, exg_placement, (size_t)graph->output_count * ndim) : NULL;
    return b->parts.inputs == NULL || (is_end && b->parts.outputs == NULL) ? EXG_OUT_OF_MEMORY(err)
                                                                           : EXG_OK;
}

/* Outputs of the program's last segment that are bound to the memory of inputs. */
static exg_status find_in_place(const exg_session_context *e, exg_executable *b,
                                const exg_program *functional, exg_error *err)
{
    uint32_t count = functional->graph->output_count;
    uint32_t first = b->segment->first_output;
    uint32_t user = 0;

    b->in_place = EXG_NEW_ARRAY(b->arena, uint32_t, count);
    if (b->in_place == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t o = 0; o < count; o++) {
        bool is_user = o >= first && o < first + b->segment->output_count &&
                       exg_is_user_output(functional->signature.outputs[o].kind);

        b->in_place[o] = is_user ? e->in_place[user++] : EXG_NO_INPUT;
    }
    return EXG_OK;
}

static exg_status make_ranks(exg_session_context *e, exg_executable *b, bool is_part,
                             exg_error *err)
{
    exg_program *functional = NULL;
    exg_status status;

    b->rank_count = e->rank_count;
    b->executors = EXG_NEW_ARRAY(b->arena, exg_plan_executor *, e->rank_count);
    if (b->executors == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    b->choices.arena = b->arena;
    b->named_inputs =
        is_part ? 0 : b->segment->program->graph->input_count - b->segment->input_count;
    status =
        exg_graph_segment_functional(b->segment, is_part, e->devices == NULL, &functional, err);
    b->bytes = functional == NULL ? 0 : exg_arena_used(functional->arena);
    b->work = functional == NULL ? 0 : exg_work_of(functional, e->operators);
    if (status == EXG_OK && e->options.local_parts && e->grids != NULL && !e->is_spmd && !is_part) {
        status = take_parts(e, b, functional, err);
    }
    if (status == EXG_OK && !is_part && b->segment->graph_break == EXG_GRAPH_BREAK_END) {
        status = find_in_place(e, b, functional, err);
    }
    status = status == EXG_OK && !is_part && b->segment->depth == 0
                 ? exg_partition_check_patterns(e->program, e->operators, e->partitioning.options,
                                                e->options.mesh.ndim, err)
                 : status;
    for (uint32_t r = 0; status == EXG_OK && r < e->rank_count; r++) {
        status = make_rank(e, b, is_part, functional, r, err);
        if (status == EXG_OK) {
            exg_plan_executor_watch(b->executors[r], &e->stop, e->alone,
                                    r == 0 ? &e->progress : NULL);
        }
        if (status == EXG_OK && e->options.profile) {
            status = exg_plan_executor_profile(b->executors[r], err);
        }
    }
    if (status == EXG_OK && e->grids != NULL && !e->is_spmd &&
        (e->options.plan_only ? e->options.check_ranks : !e->options.processes)) {
        status = exg_check_collectives(e, b, functional, err);
    }
    exg_program_destroy(functional); /* planned: neither is needed any more */
    exg_program_destroy(b->segment->program);
    b->segment->program = NULL;
    return status == EXG_OK ? create_tables(b, err) : status;
}

/* Processes must let go of the same plans: there what they were planned from counts, which is the
 * same on all. */
static void count_bytes(exg_session_context *context, exg_executable *b)
{
    if (!context->options.processes) {
        b->bytes = exg_arena_held(b->arena);
        for (uint32_t r = 0; r < b->rank_count; r++) {
            b->bytes += exg_plan_executor_own_bytes(b->executors[r]);
        }
    }
    b->bytes += exg_arena_held(b->segment->arena);
    context->plan_bytes += b->bytes;
}

exg_status exg_executable_create(exg_session_context *context, exg_graph_segment *segment,
                                 bool is_part, uint32_t level, const int64_t *key,
                                 uint32_t key_count, exg_executable **executable, exg_error *err)
{
    exg_executable *b = calloc(1, sizeof(*b));
    exg_status status;

    *executable = NULL;
    if (b == NULL) {
        exg_graph_segment_destroy(segment);
        return EXG_OUT_OF_MEMORY(err);
    }
    b->segment = segment;
    b->level = level + segment->depth;
    b->plan_bytes = &context->plan_bytes;
    b->arena = exg_arena_create(exg_arena_allocator(segment->arena), EXG_ARENA_UNBOUNDED);
    b->key = b->arena == NULL ? NULL : exg_arena_memdup(b->arena, key, key_count, sizeof(*key));
    b->key_count = key_count;
    status = b->key == NULL ? EXG_OUT_OF_MEMORY(err) : make_ranks(context, b, is_part, err);
    if (status != EXG_OK) {
        b->bytes = 0; /* not counted */
        exg_executable_destroy(b);
        return status;
    }
    count_bytes(context, b);
    context->plan_count++;
    *executable = b;
    return EXG_OK;
}

exg_executable *exg_executable_find(exg_executable **list, const int64_t *key, uint32_t key_count)
{
    for (exg_executable **at = list; *at != NULL; at = &(*at)->next) {
        exg_executable *found = *at;

        if (found->key_count == key_count &&
            memcmp(found->key, key, key_count * sizeof(*key)) == 0) {
            *at = found->next;
            found->next = *list;
            *list = found;
            return found;
        }
    }
    return NULL;
}

const exg_plan *exg_executable_plan(const exg_executable *executable)
{
    return exg_plan_executor_plan(executable->executors[0]);
}

void exg_executable_expect_input(exg_executable *executable, uint32_t input, const void *data,
                                 bool there)
{
    for (uint32_t r = 0; r < executable->rank_count; r++) {
        exg_plan_executor_expect_input(executable->executors[r], input, data, there);
    }
}

exg_status exg_executable_check_whole(const exg_executable *executable, uint32_t input,
                                      exg_error *err)
{
    const exg_local_parts *parts = &executable->parts;
    bool is_whole = true;

    for (uint32_t d = 0; parts->inputs != NULL && d < parts->ndim; d++) {
        is_whole = is_whole && parts->inputs[input * parts->ndim + d].kind == EXG_REPLICATE;
    }
    return is_whole ? EXG_OK
                    : EXG_FAIL(err, USAGE, "INP-015",
                               "input '%s' is split over the mesh: each rank is given its part",
                               exg_executable_plan(executable)->inputs[input].name);
}

void exg_executable_set_input(exg_executable *executable, uint32_t input, void *data, bool there)
{
    for (uint32_t r = 0; r < executable->rank_count; r++) {
        void *copy = executable->copies == NULL
                         ? NULL
                         : executable->copies[input * executable->rank_count + r];

        if (copy != NULL && data != NULL) {
            memcpy(copy, data, input_bytes(exg_executable_plan(executable), input));
        }
        exg_plan_executor_set_input(executable->executors[r], input, copy != NULL ? copy : data,
                                    there);
    }
    executable->callers[input] = data;
}

void exg_executable_expect_rank_inputs(const exg_session_context *context, exg_executable *b,
                                       uint32_t input)
{
    for (uint32_t r = 0; r < b->rank_count; r++) {
        const exg_rank_input *own = rank_input(context, r, input);

        exg_plan_executor_expect_input(b->executors[r], input, own->data, own->input.on_device);
    }
}

/* Is it what the rank's plan takes? */
static exg_status check_rank_input(const exg_session_context *context, const exg_plan *plan,
                                   uint32_t rank, uint32_t input, exg_error *err)
{
    const exg_tensor *takes = &plan->inputs[input].tensor;
    const exg_session_input *own = &rank_input(context, rank, input)->input;

    if (own->name == NULL) {
        return EXG_FAIL(err, USAGE, "INP-015", "input '%s' is in the memory of other ranks alone",
                        plan->inputs[input].name);
    }
    if (own->tensor.dtype != takes->dtype) {
        return EXG_FAIL(err, USAGE, "INP-003", "its part of input '%s' is %s; it takes %s",
                        own->name, exg_dtype_name(own->tensor.dtype), exg_dtype_name(takes->dtype));
    }
    if (own->tensor.rank != takes->rank) {
        return EXG_FAIL(err, USAGE, "INP-004", "its part of input '%s' has %u dims; it takes %u",
                        own->name, own->tensor.rank, takes->rank);
    }
    for (uint32_t d = 0; d < takes->rank; d++) {
        if (own->tensor.sizes[d] != takes->sizes[d]) {
            return EXG_FAIL(err, USAGE, "INP-004",
                            "its part of input '%s' has %" PRId64 " in dim %u; it takes %" PRId64,
                            own->name, own->tensor.sizes[d], d, takes->sizes[d]);
        }
    }
    return EXG_OK;
}

exg_status exg_executable_set_rank_inputs(const exg_session_context *context, exg_executable *b,
                                          uint32_t input, exg_error *err)
{
    for (uint32_t r = 0; r < b->rank_count; r++) {
        const exg_rank_input *own = rank_input(context, r, input);

        EXG_TRY_IN(
            err, check_rank_input(context, exg_plan_executor_plan(b->executors[r]), r, input, err),
            "rank %u", context->first_rank + r);
        exg_plan_executor_set_input(b->executors[r], input, own->data,
                                    own->input.on_device && context->devices != NULL);
    }
    b->callers[input] = NULL;
    return EXG_OK;
}

void *exg_executable_output_address(const exg_executable *executable, uint32_t index,
                                    uint32_t place)
{
    return exg_plan_executor_output_address(executable->executors[place],
                                            executable->segment->first_output + index);
}

void exg_executable_bind_input(const exg_session_context *context, exg_executable *executable,
                               uint32_t input, uint32_t place, void *held)
{
    if (context->devices != NULL) {
        exg_plan_executor_bind_input(executable->executors[place], input, held);
    } else {
        exg_executable_set_input(executable, input, held, false);
    }
}

/* What the first rank wrote goes back to the caller's tensor. */
static void return_copies(exg_executable *b)
{
    const exg_plan *plan = exg_executable_plan(b);

    for (uint32_t p = 0; p < plan->input_count; p++) {
        void *copy = b->copies[p * b->rank_count];

        if (copy != NULL && b->callers[p] != NULL) {
            memcpy(b->callers[p], copy, input_bytes(plan, p));
        }
    }
}

static void run_rank(void *context, uint32_t r)
{
    exg_session_context *e = context;
    exg_outcome *out = &e->outcomes[r];

    exg_error_clear(&out->error);
    out->status = exg_plan_executor_run(e->running->executors[r], &out->error);
    if (out->status != EXG_OK && out->status != EXG_MALFORMED) { /* the data's faults come last: */
        exg_grid_abort(&e->grids[r], out->status);               /* nobody waits any more */
    }
    if (out->status != EXG_OK && out->status != EXG_PEER) { /* which says it itself */
        (void)exg_error_within(&out->error, out->status, "rank %u", r);
    }
}

static exg_status run_team(exg_session_context *e, exg_executable *b, exg_error *err)
{
    uint32_t lost = EXG_NO_RANK;

    e->running = b;
    if (e->options.timeout_ns == 0) {
        exg_team_run(e->team, run_rank, e);
    } else {
        lost = exg_team_watch(e->team, run_rank, e, e->options.timeout_ns / 2);
    }
    if (lost != EXG_NO_RANK) {
        e->lost = true;
        return exg_error_within(err,
                                EXG_FAIL(err, PEER, "COM-001",
                                         "rank %u did not come back within "
                                         "%.1f s",
                                         lost, (double)e->options.timeout_ns * 1e-9),
                                "rank %u, node '%s'", lost,
                                exg_plan_executor_at(b->executors[lost]));
    }
    return_copies(b);
    return exg_outcome_of(e, err);
}

/* As the one rank of this process: all hear what it came to. */
static exg_status run_process(exg_session_context *e, exg_executable *b, exg_error *err)
{
    exg_status status = exg_plan_executor_run(b->executors[0], err);

    if (exg_grid_status(&e->grids[0], NULL) != EXG_OK ||
        (status != EXG_OK && exg_grid_is_aborted(&e->grids[0]))) {
        exg_grid_abort(&e->grids[0], status);
        return status;
    }
    return exg_grid_agree(&e->grids[0], NULL, 0, status, err);
}

exg_session_output exg_executable_output(const exg_executable *executable, uint32_t rank,
                                         uint32_t index)
{
    const exg_plan_executor *executor = executable->executors[rank];
    const exg_plan_output *from =
        &exg_plan_executor_plan(executor)->outputs[executable->segment->first_output + index];
    exg_session_output output = {.constant = from->constant};

    if (from->constant.kind == EXG_ARGUMENT_TENSOR) {
        output.tensor = from->location.view;
        output.tensor.data =
            exg_plan_executor_output(executor, executable->segment->first_output + index);
    }
    return output;
}

static exg_status bind_output(exg_plan_executor *executor, uint32_t o, uint32_t index,
                              const exg_output_binding *binding, exg_error *err)
{
    const exg_plan_output *output = &exg_plan_executor_plan(executor)->outputs[o];
    exg_result_place place = {binding->data, binding->on_device};
    uint64_t bytes;

    if (output->constant.kind != EXG_ARGUMENT_TENSOR) {
        return EXG_OK; /* a constant */
    }
    bytes = exg_plan_result_bytes(output);
    if (binding->data != NULL && binding->bytes < bytes) {
        return EXG_FAIL(err, USAGE, "RUN-014",
                        "output %u takes %" PRIu64 " bytes; it is bound to %" PRIu64, index, bytes,
                        binding->bytes);
    }
    exg_plan_executor_bind_output(executor, o, &place);
    return EXG_OK;
}

/* Where the rank has user output `index`, as it was asked for. */
static exg_output_binding binding_of(const exg_session_context *context, uint32_t rank,
                                     uint32_t index)
{
    if (context->rank_places != NULL) {
        return context->rank_places[rank * context->program->graph->output_count + index];
    }
    return rank == 0 ? context->bound[index] : (exg_output_binding){0};
}

bool exg_executable_leaves_output(const exg_session_context *context, const exg_executable *b,
                                  uint32_t rank, uint32_t index)
{
    exg_output_binding own = binding_of(context, rank, index);

    return rank > 0 && context->devices != NULL && !context->is_spmd && b->parts.inputs == NULL &&
           own.data == NULL && !own.on_device;
}

exg_status exg_executable_bind_outputs(const exg_session_context *context, exg_executable *b,
                                       exg_error *err)
{
    uint32_t index = 0;

    for (uint32_t o = 0; o < b->segment->output_count; o++) {
        uint32_t at = b->segment->first_output + o;

        if (!exg_is_user_output(exg_executable_plan(b)->outputs[at].kind)) {
            continue;
        }
        for (uint32_t r = 0; r < b->rank_count; r++) {
            exg_output_binding own = binding_of(context, r, index);

            own.on_device = own.on_device || exg_executable_leaves_output(context, b, r, index);
            if (context->rank_places == NULL) {
                EXG_TRY(bind_output(b->executors[r], at, index, &own, err));
            } else {
                EXG_TRY_IN(err, bind_output(b->executors[r], at, index, &own, err), "rank %u",
                           context->first_rank + r);
            }
        }
        index++;
    }
    return EXG_OK;
}

/* What random numbers of this segment's run are drawn by: the number of the session's run
 * for the first, others of their own for what follows and for loops. */
static uint64_t draw_of(exg_session_context *e)
{
    const uint64_t words[2] = {e->runs, e->segments};

    return e->segments++ == 0 ? e->runs : XXH3_64bits(words, sizeof(words));
}

/* Constants are folded before the first run. Weights are read for it, so all processes hear whether
 * that went well. */
static exg_status fold_constants(exg_session_context *context, exg_executable *executable,
                                 exg_error *err)
{
    exg_status status = EXG_OK;

    if (executable->is_folded) {
        return EXG_OK;
    }
    for (uint32_t r = 0; status == EXG_OK && r < context->rank_count; r++) {
        status = exg_plan_executor_fold(executable->executors[r], err);
    }
    if (context->options.processes && context->grids != NULL) {
        status = exg_grid_agree(&context->grids[0], NULL, 0, status, err);
    }
    for (uint32_t r = 0; status == EXG_OK && r < context->rank_count; r++) {
        exg_plan_executor_forget(executable->executors[r]);
    }
    executable->is_folded = status == EXG_OK;
    return status;
}

/* Before it is begun. */
static exg_status take_work(exg_session_context *e, const exg_executable *b, exg_error *err)
{
    if (b->work > e->work_left) {
        return exg_error_fix(
            err,
            EXG_FAIL(err, LIMIT, "RUN-012",
                     "%.3g operations are asked for, of %.3g that a run may take (%.3g are left)",
                     b->work, e->work_limit, e->work_left),
            "--work-limit, exg_session_options.work_limit");
    }
    e->work_left -= b->work;
    return EXG_OK;
}

exg_status exg_executable_run(exg_session_context *context, exg_executable *executable,
                              exg_error *err)
{
    const exg_graph_segment *s = executable->segment;
    uint64_t draw = draw_of(context);

    EXG_TRY(take_work(context, executable, err));
    EXG_TRY(fold_constants(context, executable, err));
    for (uint32_t r = 0; r < context->rank_count; r++) {
        exg_plan_executor_set_random(executable->executors[r], context->options.seed, draw);
        exg_plan_executor_launches(executable->executors[r],
                                   context->launches && s->graph_break == EXG_GRAPH_BREAK_END &&
                                       s->check_count == 0);
    }
    EXG_TRY(context->team != NULL ? run_team(context, executable, err)
            : context->grids != NULL && !context->is_spmd
                ? run_process(context, executable, err)
                : exg_plan_executor_run(executable->executors[0], err));
    for (uint32_t i = 0; i < s->check_count; i++) {
        exg_argument held;

        EXG_TRY(exg_executable_read_scalar(context, executable, s->checks[i].output, &held, err));
        if (!exg_is_true(&held)) {
            return exg_error_at_node(err,
                                     EXG_FAIL(err, MALFORMED, "RUN-006", "the program asserts: %s",
                                              s->checks[i].message),
                                     s->checks[i].node);
        }
    }
    return EXG_OK;
}

exg_status exg_executable_finish(const exg_session_context *context,
                                 const exg_executable *executable, exg_error *err)
{
    for (uint32_t r = 0; r < context->rank_count; r++) {
        EXG_TRY(exg_plan_executor_finish(executable->executors[r], err));
    }
    return EXG_OK;
}

/* The element at `at` as a number of its kind, where a program has such numbers. */
static exg_status number_of(exg_dtype dtype, const void *at, exg_argument *number, exg_error *err)
{
    exg_scalar n = exg_scalar_read(dtype, at);

    switch (n.kind) {
    case EXG_SCALAR_BOOL:
        *number = exg_arg_bool(n.as_bool);
        return EXG_OK;
    case EXG_SCALAR_INT:
        *number = exg_arg_int(n.as_int);
        return EXG_OK;
    case EXG_SCALAR_FLOAT:
        *number = exg_arg_float(n.as_float);
        return EXG_OK;
    default:
        return EXG_FAIL(err, UNSUPPORTED, "NOD-017", "a %s as a number of the program",
                        n.kind == EXG_SCALAR_COMPLEX ? "complex number" : "uint64 above int64");
    }
}

exg_status exg_executable_read_scalar(exg_session_context *context,
                                      const exg_executable *executable, uint32_t index,
                                      exg_argument *number, exg_error *err)
{
    exg_session_output held = exg_executable_output(executable, 0, index);
    uint32_t bytes = exg_dtype_bytes(held.tensor.dtype);

    if (exg_tensor_numel(&held.tensor) != 1) {
        return EXG_FAIL(err, MALFORMED, "NOD-017", "a number of %" PRId64 " elements",
                        exg_tensor_numel(&held.tensor));
    }
    for (uint32_t d = 0; context->options.processes && d < context->mesh.ndim; d++) {
        EXG_TRY(exg_broadcast_bytes(context->grids[0].dims[d], held.tensor.data, bytes, 0, err));
    }
    return number_of(held.tensor.dtype, held.tensor.data, number, err);
}
