/* session.c - the way of a call: inputs checked and bound, the plan found or made, carried
 * out, results handed out.
 */
#include "libexec/session/session.h"
#include "libexec/device/device.h"
#include "libexec/session/program.h"
#include "libexec/session/state.h"
#include "libexec/sharding/shard_pattern.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"

#include <exg/text.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Of one input: name, dtype or "number", rank or the number, sizes. */
#define SIGNATURE_WORDS (3 + EXG_RANK_MAX)

/* What plans may take where the options do not say how many are kept. */
#define PLAN_BYTES (32u << 20)

/* Operations a run may take where the options do not say: a few minutes of a core's, and more where
 * there is more to work on. */
#define WORK_LIMIT    1e12
#define WORK_PER_BYTE 1e6 /* of weights and inputs */

/* Iterations of loops a run may take where the options do not say. */
#define LOOP_LIMIT 1000000u

static exg_status create_tables(exg_session *s, exg_error *err)
{
    const exg_graph *graph = s->verified.program->graph;

    s->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    if (s->arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    s->bindings = EXG_NEW_ARRAY(s->arena, exg_input_binding, graph->input_count);
    s->data = EXG_NEW_ARRAY(s->arena, void *, graph->input_count);
    s->given = EXG_NEW_ARRAY(s->arena, void *, graph->input_count);
    s->given_bytes = EXG_NEW_ARRAY(s->arena, uint64_t, graph->input_count);
    s->there = EXG_NEW_ARRAY(s->arena, bool, graph->input_count);
    s->bound = EXG_NEW_ARRAY(s->arena, exg_session_input, graph->input_count);
    s->all = EXG_NEW_ARRAY(s->arena, exg_session_input, 2 * (size_t)graph->input_count);
    s->places = EXG_NEW_ARRAY(s->arena, exg_output_binding, graph->output_count);
    s->in_place = EXG_NEW_ARRAY(s->arena, uint32_t, graph->output_count);
    s->context.there = s->there;
    s->context.in_place = s->in_place;
    s->were_in_place = EXG_NEW_ARRAY(s->arena, uint32_t, graph->output_count);
    s->of_rank = EXG_NEW_ARRAY(s->arena, const exg_session_input *, graph->input_count);
    s->context.bound = s->places;
    s->last_sizes = EXG_NEW_ARRAY(s->arena, int64_t, graph->input_count * SIGNATURE_WORDS);
    if (s->bindings == NULL || s->data == NULL || s->given == NULL || s->given_bytes == NULL ||
        s->there == NULL || s->in_place == NULL || s->were_in_place == NULL || s->of_rank == NULL ||
        s->bound == NULL || s->all == NULL || s->places == NULL || s->last_sizes == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t o = 0; o < graph->output_count; o++) {
        s->in_place[o] = EXG_NO_INPUT;
    }
    return exg_session_map_names(s, err);
}

/* Processes keep the same plans, so none lets go of one by itself. */
static bool evict(void *context)
{
    exg_session *s = context;

    return exg_scratch_evict(exg_weight_store_scratch(s->context.store)) ||
           (!s->context.options.processes && exg_graph_executor_evict(&s->executor));
}

static uint64_t weight_bytes(const exg_weights *weights)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < weights->storage_count; i++) {
        bytes = weights->storages[i].length > UINT64_MAX - bytes
                    ? UINT64_MAX
                    : bytes + weights->storages[i].length;
    }
    return bytes;
}

/* All ranks here share it. */
static exg_status create_memory(exg_session *s, exg_error *err)
{
    exg_session_context *e = &s->context;
    uint64_t limit = e->partitioning.goal.memory_limit;
    uint64_t weights = weight_bytes(s->verified.program->weights);
    exg_memory_budget *budget;

    EXG_TRY(exg_weight_store_create(s->verified.program->weights, e->pool, &e->store, err));
    if (e->options.no_check) {
        exg_weight_store_compare(e->store, 0, 0);
    } else if (e->options.processes && e->grids != NULL) {
        exg_weight_store_compare(e->store, e->first_rank, exg_mesh_shape_size(&e->mesh));
    }
    budget = exg_weight_store_budget(e->store);
    budget->limit = limit > UINT64_MAX / e->rank_count ? UINT64_MAX : limit * e->rank_count;
    budget->device_allocator = e->options.device_allocator;
    budget->evict = evict;
    budget->context = s;
    if (limit == 0 && e->devices == NULL) {
        budget->limit = exg_machine_bytes();
        budget->of_machine = true;
    }
    e->plan_bytes_limit = e->options.plan_limit != 0 ? UINT64_MAX
                          : weights > PLAN_BYTES     ? weights
                                                     : PLAN_BYTES;
    e->work_limit = e->options.work_limit > 0 ? e->options.work_limit
                                              : WORK_LIMIT + WORK_PER_BYTE * (double)weights;
    return EXG_OK;
}

static exg_status create_parts(exg_session *s, exg_error *err)
{
    EXG_TRY(create_tables(s, err));
    EXG_TRY(exg_session_context_open(&s->context, s->arena, err));
    s->output_room = s->verified.program->graph->output_count;
    s->outputs =
        EXG_NEW_ARRAY(s->arena, exg_session_output, (size_t)s->output_room * s->context.rank_count);
    if (s->outputs == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(create_memory(s, err));
    return s->context.options.processes
               ? exg_agreement_take(&s->verified, &s->context, &s->agreement, err)
               : EXG_OK;
}

/* With the other ranks, where each has a session. */
static exg_status take_all(exg_session *s, const exg_verified *verified, exg_error *err)
{
    exg_status status = exg_session_context_take_groups(&s->context, verified, err);

    status = status == EXG_OK
                 ? exg_session_take_program(&s->context, verified, &s->verified, &s->made, err)
                 : status;
    return s->context.is_spmd ? exg_session_context_meet(&s->context, status, err) : status;
}

exg_status exg_session_create(const exg_verified *verified, const exg_session_options *options,
                              exg_session **session, exg_error *err)
{
    EXG_REQUIRE(err, verified, session);
    exg_session_options own = {0};
    exg_session *s;
    exg_status status;

    *session = NULL;
    EXG_TRY(EXG_READ_OPTIONS(exg_session_options, &own, options, err));
    if (verified->program == NULL || verified->operators == NULL) {
        return EXG_FAIL(err, USAGE, "RUN-009", "no program was verified");
    }
    s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    s->context.options = own;
    s->context.mesh = s->context.options.mesh;
    s->context.operators = verified->operators;
    s->executor.context = &s->context;
    status = take_all(s, verified, err);
    if (status != EXG_OK) {
        exg_session_destroy(s);
        return status;
    }
    if (s->context.options.loop_limit == 0) {
        s->context.options.loop_limit = LOOP_LIMIT;
    }
    s->executor = (exg_graph_executor){.context = &s->context, .program = s->verified.program};
    s->context.executor = &s->executor;
    s->context.program = s->verified.program;
    status = create_parts(s, err);
    if (status != EXG_OK) {
        if (s->context.is_spmd && s->context.grids != NULL) {
            exg_grid_abort(s->context.grids, status); /* the others would wait for it */
        }
        exg_session_destroy(s);
        return status;
    }
    *session = s;
    return EXG_OK;
}

void exg_session_destroy(exg_session *session)
{
    exg_session_context *e = session == NULL ? NULL : &session->context;

    if (session == NULL || e->lost) { /* a thread may still use all of it */
        return;
    }
    exg_graph_executor_destroy(&session->executor);
    exg_weight_store_destroy(e->store);
    exg_text_free(&e->unchecked);
    exg_session_context_close(e);
    exg_arena_destroy(session->arena);
    exg_program_destroy(session->made);
    free(session);
}

/* ---- inputs ----------------------------------------------------------------------- */

static exg_input_binding binding_of(const exg_session_input *input)
{
    exg_input_binding binding = {.name = input->name, .kind = EXG_ARGUMENT_TENSOR};

    if (input->is_number) {
        binding.kind = EXG_ARGUMENT_INT;
        binding.as_int = input->number;
        return binding;
    }
    binding.dtype = input->tensor.dtype;
    binding.rank = input->tensor.rank;
    binding.sizes = input->tensor.sizes;
    if (input->tensor.rank == 0 && input->tensor.dtype == EXG_DTYPE_I64 &&
        input->tensor.data != NULL && !input->on_device) {
        memcpy(&binding.as_int, input->tensor.data, sizeof(binding.as_int));
    }
    return binding;
}

/* An input that is in a result of the last run would be overwritten while it is read: it is
 * copied. */
static exg_status set_aside(exg_session *s, uint32_t i, const exg_session_input *input,
                            exg_error *err)
{
    exg_scratch *scratch = exg_weight_store_scratch(s->context.store);
    uint64_t bytes =
        (uint64_t)exg_tensor_numel(&input->tensor) * exg_dtype_bytes(input->tensor.dtype);

    s->given[i] = input->tensor.data;
    s->given_bytes[i] = input->is_number ? 0 : bytes;
    if (input->on_device && s->context.devices != NULL) {
        return exg_session_set_aside_there(s, i, input, err);
    }
    if (input->is_number || !exg_scratch_holds(scratch, NULL, input->tensor.data, bytes)) {
        return EXG_OK;
    }
    EXG_TRY(exg_scratch_block(scratch, (exg_scratch_key){EXG_SCRATCH_GIVEN, 0, 0, i}, NULL, bytes,
                              &s->given[i], err));
    memcpy(s->given[i], input->tensor.data, bytes);
    return EXG_OK;
}

/* What is looked at before the program is asked. */
static exg_status check_inputs(const exg_session_input *inputs, uint32_t count, exg_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        if (inputs[i].name == NULL) {
            return EXG_FAIL(err, USAGE, "INP-001", "input %u of %u has no name", i, count);
        }
        if (!inputs[i].is_number && inputs[i].tensor.rank > EXG_RANK_MAX) {
            return EXG_FAIL(err, USAGE, "INP-004",
                            "input '%s' has %u dims; at most %d are possible", inputs[i].name,
                            inputs[i].tensor.rank, EXG_RANK_MAX);
        }
        if (!inputs[i].is_number && exg_dtype_bytes(inputs[i].tensor.dtype) == 0) {
            return EXG_FAIL(err, USAGE, "INP-003", "input '%s' has an unknown dtype",
                            inputs[i].name);
        }
    }
    return EXG_OK;
}

/* Kernels read elements at addresses that are aligned for them; complex ones by halves. */
static bool is_aligned(const exg_tensor *tensor)
{
    uint32_t bytes = exg_dtype_bytes(tensor->dtype);

    return (uintptr_t)tensor->data % (exg_dtype_is_complex(tensor->dtype) ? bytes / 2 : bytes) == 0;
}

static exg_status check_input_layout(const exg_session *s, const exg_session_input *inputs,
                                     uint32_t count, exg_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = exg_map_find(&s->inputs, inputs[i].name);

        if (inputs[i].tensor.data == NULL && at != EXG_MAP_NONE &&
            exg_ranks_have(&s->context, at)) {
            continue;
        }
        if (!inputs[i].is_number && !exg_tensor_is_contiguous(&inputs[i].tensor)) {
            return EXG_FAIL(err, USAGE, "INP-008", "input '%s' is not row-major", inputs[i].name);
        }
        if (!inputs[i].is_number && inputs[i].tensor.data == NULL &&
            exg_tensor_numel(&inputs[i].tensor) > 0) {
            return EXG_FAIL(err, USAGE, "INP-008", "input '%s' has no data", inputs[i].name);
        }
        if (!inputs[i].is_number && !is_aligned(&inputs[i].tensor)) {
            return EXG_FAIL(err, USAGE, "INP-008", "input '%s' is not aligned for %s",
                            inputs[i].name, exg_dtype_name(inputs[i].tensor.dtype));
        }
    }
    return EXG_OK;
}

/* The constant that export made of the argument of this name, or NULL. */
static const exg_signature_argument *constant_of(const exg_session *s, const char *name)
{
    uint32_t at = s->constants.count == 0 ? EXG_MAP_NONE : exg_map_find(&s->constants, name);

    return at == EXG_MAP_NONE ? NULL : &s->verified.program->signature.inputs[at].arg;
}

static bool is_constant(const exg_signature_argument *constant, const exg_session_input *input)
{
    const exg_tensor *t = &input->tensor;
    double value = constant->kind == EXG_ARGUMENT_FLOAT ? constant->as_float
                   : constant->kind == EXG_ARGUMENT_INT ? (double)constant->as_int
                                                        : (double)constant->as_bool;
    int64_t whole = 0;

    if (constant->kind == EXG_ARGUMENT_STRING || constant->kind == EXG_ARGUMENT_NONE) {
        return false; /* no tensor is one */
    }
    if (input->is_number) {
        return constant->kind == EXG_ARGUMENT_INT ? input->number == constant->as_int
                                                  : (double)input->number == value;
    }
    if (t->data == NULL) { /* planned without data */
        return true;
    }
    if (exg_tensor_numel(t) != 1 || exg_dtype_is_complex(t->dtype)) {
        return false;
    }
    if (constant->kind == EXG_ARGUMENT_INT && t->dtype == EXG_DTYPE_I64) {
        memcpy(&whole, t->data, sizeof(whole));
        return whole == constant->as_int;
    }
    if (t->dtype == EXG_DTYPE_F32) { /* 0.1 as a float32 is meant to be it */
        value = (double)(float)value;
    }
    return exg_element_value(t->dtype, t->data) == value;
}

/* What is given for a constant has to be it: the program was made for no other. */
static exg_status check_constants(const exg_session *s, const exg_session_input *inputs,
                                  uint32_t count, exg_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        const exg_signature_argument *constant = constant_of(s, inputs[i].name);
        char text[40];

        if (constant == NULL || is_constant(constant, &inputs[i])) {
            continue;
        }
        if (constant->kind == EXG_ARGUMENT_INT) {
            snprintf(text, sizeof(text), "%" PRId64, constant->as_int);
        } else if (constant->kind == EXG_ARGUMENT_FLOAT) {
            snprintf(text, sizeof(text), "%.17g", constant->as_float);
        } else if (constant->kind == EXG_ARGUMENT_STRING) {
            snprintf(text, sizeof(text), "'%.32s'", constant->as_string);
        } else if (constant->kind == EXG_ARGUMENT_NONE) {
            snprintf(text, sizeof(text), "None");
        } else {
            snprintf(text, sizeof(text), "%s", constant->as_bool ? "true" : "false");
        }
        return exg_error_fix(
            err, EXG_FAIL(err, USAGE, "INP-012", "input '%s' is fixed to %s", inputs[i].name, text),
            "leave it out, or export the program for another value");
    }
    return EXG_OK;
}

/* The words that decide which plan runs: name, dtype, rank, sizes of each input. */
static bool write_signature(const exg_session_input *input, int64_t *words)
{
    bool same = true;
    int64_t now[SIGNATURE_WORDS] = {(int64_t)XXH3_64bits(input->name, strlen(input->name))};

    now[1] = input->is_number ? -1 : (int64_t)input->tensor.dtype;
    now[2] = input->is_number ? input->number : (int64_t)input->tensor.rank;
    if (!input->is_number) {
        memcpy(&now[3], input->tensor.sizes, input->tensor.rank * sizeof(int64_t));
        if (input->tensor.rank == 0 && input->tensor.dtype == EXG_DTYPE_I64 &&
            input->tensor.data != NULL && !input->on_device) {
            memcpy(&now[3], input->tensor.data, sizeof(int64_t)); /* may be a symbolic integer */
        }
    }
    same = memcmp(words, now, sizeof(now)) == 0;
    memcpy(words, now, sizeof(now));
    return same;
}

static bool same_as_last(exg_session *s, const exg_session_input *inputs, uint32_t count)
{
    bool same = s->executor.current != NULL && count == s->last_count;

    for (uint32_t i = 0; i < count; i++) {
        same = write_signature(&inputs[i], s->last_sizes + (size_t)i * SIGNATURE_WORDS) && same;
    }
    s->last_count = count;
    return same;
}

/* Plans are known by the numbers of their symbols, which are bound in one order, always. */
static exg_status bind_and_select(exg_session *s, uint32_t count, exg_arena *arena, exg_error *err)
{
    const exg_bind_options bind = {.size = sizeof(bind),
                                   .ignore_guards = s->context.options.ignore_guards};
    exg_symbols symbols;
    int64_t *key;

    EXG_TRY(exg_bind_inputs(&s->verified, s->bindings, count, &bind, arena, &symbols, err));
    key = EXG_NEW_ARRAY(arena, int64_t, symbols.count + s->in_place_count);
    if (key == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < symbols.count; i++) {
        key[i] = symbols.items[i].value;
    }
    for (uint32_t o = 0; o < s->in_place_count; o++) {
        key[symbols.count + o] = s->in_place[o];
    }
    return exg_graph_executor_select(&s->executor, key, symbols.count + s->in_place_count, &symbols,
                                     NULL, NULL, err);
}

static exg_status select_plan(exg_session *s, const exg_session_input *inputs, uint32_t count,
                              exg_error *err)
{
    uint32_t bound = 0;
    bool moved;
    exg_arena *arena;
    exg_status status;

    if (count > s->verified.program->graph->input_count) {
        uint32_t i = 0;

        const char *placeholder;

        while (i + 1 < count &&
               exg_session_find_input(s, inputs[i].name, &placeholder, NULL) == EXG_OK) {
            i++;
        }
        return exg_error_fix(err,
                             EXG_FAIL(err, USAGE, "INP-001",
                                      "%u inputs for a program of %u, which has no '%s'", count,
                                      s->verified.program->graph->input_count,
                                      inputs[i].name == NULL ? "" : inputs[i].name),
                             "exg inspect lists its inputs");
    }
    EXG_TRY(check_inputs(inputs, count, err));
    EXG_TRY(check_constants(s, inputs, count, err));
    moved = exg_session_find_in_place(s, inputs, count);
    if (same_as_last(s, inputs, count) && !moved) {
        return EXG_OK;
    }
    s->executor.current = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (constant_of(s, inputs[i].name) == NULL) {
            s->bindings[bound++] = binding_of(&inputs[i]);
        }
    }
    arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    if (arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = bind_and_select(s, bound, arena, err);
    exg_arena_destroy(arena);
    return status;
}

static void set_inputs(exg_session *s, const exg_session_input *inputs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = exg_map_find(&s->inputs, inputs[i].name);

        if (at != EXG_MAP_NONE) {
            s->data[at] = s->given[i];
            s->there[at] = inputs[i].on_device && s->context.devices != NULL;
        }
    }
}

/* ---- outputs ---------------------------------------------------------------------- */

static void collect_outputs(exg_session *s)
{
    const exg_executable *last = s->executor.last;

    s->output_count = 0;
    for (uint32_t o = 0; o < last->segment->output_count; o++) {
        if (exg_is_user_output(
                exg_executable_plan(last)->outputs[last->segment->first_output + o].kind)) {
            for (uint32_t r = 0; r < s->context.rank_count; r++) {
                bool is_left = exg_executable_leaves_output(&s->context, last, r, s->output_count);

                s->outputs[r * s->output_room + s->output_count] =
                    exg_executable_output(last, is_left ? 0 : r, o);
            }
            s->output_count++;
        }
    }
}

exg_status exg_session_prepare(exg_session *session, const exg_session_input *inputs,
                               uint32_t input_count, exg_error *err)
{
    EXG_REQUIRE(err, session, EXG_IF_ANY(input_count, inputs));
    const exg_session_options *options = &session->context.options;

    exg_session_name_inputs(session, &inputs, input_count);
    EXG_TRY(select_plan(session, inputs, input_count, err));
    exg_text_free(&session->context.unchecked);
    session->context.explored = 0;
    return options->plan_only && options->check_ranks
               ? exg_graph_executor_explore(&session->executor, err)
               : EXG_OK;
}

/* All processes have the same, or none runs. */
static exg_status agree(const exg_session *s, const exg_session_input *inputs, uint32_t count,
                        exg_status status, exg_error *err)
{
    const exg_session_context *e = &s->context;
    const exg_executable *b = s->executor.current;

    if (e->is_spmd && e->grids != NULL) {
        return exg_grid_agree(e->grids, NULL, 0, status, err);
    }
    return !e->options.processes || e->options.plan_only || e->grids == NULL
               ? status
               : exg_agreement_reach(&s->agreement, &e->grids[0], b == NULL ? NULL : b->key,
                                     b == NULL ? 0 : b->key_count - s->in_place_count, inputs,
                                     count, status, err);
}

static exg_status run_routine(exg_session *s, exg_error *err)
{
    exg_session_context *e = &s->context;
    exg_memory_budget *budget = exg_weight_store_budget(e->store);
    bool stopped = false;
    exg_status status;

    e->stop.limit_ns = e->options.time_limit_ns == 0 ? 0 : exg_now_ns() + e->options.time_limit_ns;
    e->loops_left = e->options.loop_limit;
    e->segments = 0;
    exg_progress_begin(&e->progress);
    budget->refused = false;
    e->work_left = e->work_limit;
    for (uint32_t i = 0; i < s->last_count && !(e->options.work_limit > 0); i++) {
        e->work_left += WORK_PER_BYTE * (double)s->given_bytes[i];
    }
    status = exg_graph_executor_run(&s->executor, s->data, err);
    if (status != EXG_OK && exg_stop_is_due(&e->stop)) {
        status = exg_stop_check(&e->stop, err); /* the cause of all else */
        atomic_store(&e->stop.asked, false);
        stopped = true;
    }
    e->stop.limit_ns = 0;
    if (e->is_spmd && e->grids != NULL) {
        const exg_graph_executor *r = &s->executor;

        return exg_session_context_leave(e,
                                         r->path_count > 0 &&
                                             r->path[r->path_count - 1]->segment->graph_break ==
                                                 EXG_GRAPH_BREAK_END,
                                         status, err);
    }
    if ((status == EXG_NO_MEMORY || budget->refused || stopped) && e->options.processes &&
        e->grids != NULL) {
        exg_grid_abort(&e->grids[0], status); /* of this rank alone */
    }
    return status;
}

static exg_status take_inputs(exg_session *s, const exg_session_input *inputs, uint32_t count,
                              exg_error *err)
{
    EXG_TRY(check_inputs(inputs, count, err));
    EXG_TRY(check_input_layout(s, inputs, count, err));
    EXG_TRY(select_plan(s, inputs, count, err));
    for (uint32_t i = 0; i < count; i++) {
        EXG_TRY(set_aside(s, i, &inputs[i], err));
    }
    return exg_session_take_rank_inputs(s, err);
}

static exg_status run(exg_session *session, const exg_session_input *inputs, uint32_t input_count,
                      bool launches, exg_error *err)
{
    exg_status status;

    session->output_count = 0;
    if (session->context.options.plan_only || session->context.lost) {
        return EXG_FAIL(err, USAGE, "RUN-008", "the session %s",
                        session->context.lost ? "lost a rank" : "only plans");
    }
    EXG_TRY(exg_session_all_inputs(session, &inputs, &input_count, err));
    EXG_TRY(exg_session_follow(session, true, err));
    if (!session->owes) { /* else its plan stays until it was asked what it came to */
        exg_graph_executor_leave(&session->executor);
    }
    status = take_inputs(session, inputs, input_count, err);
    if (session->owes && status == EXG_OK && session->executor.last != session->executor.current) {
        status = exg_session_wait(session, err);
    }
    EXG_TRY(agree(session, inputs, input_count, status, err));
    session->start_ns = exg_now_ns();
    set_inputs(session, inputs, input_count);
    session->context.launches = launches;
    session->owes = session->owes || launches;
    EXG_TRY(run_routine(session, err));
    EXG_TRY(exg_session_follow(session, false, err));
    session->run_ns = exg_now_ns() - session->start_ns;
    session->context.runs++;
    collect_outputs(session);
    return EXG_OK;
}

exg_status exg_session_run(exg_session *session, const exg_session_input *inputs,
                           uint32_t input_count, exg_error *err)
{
    EXG_REQUIRE(err, session, EXG_IF_ANY(input_count, inputs));
    if (session->owes) {
        EXG_TRY(exg_session_wait(session, err));
    }
    return run(session, inputs, input_count, false, err);
}

exg_status exg_session_launch(exg_session *session, const exg_session_input *inputs,
                              uint32_t input_count, exg_error *err)
{
    EXG_REQUIRE(err, session, EXG_IF_ANY(input_count, inputs));
    return run(session, inputs, input_count, session->context.grids == NULL, err);
}

exg_status exg_session_wait(exg_session *session, exg_error *err)
{
    EXG_REQUIRE(err, session);
    const exg_executable *last = session->executor.last;
    exg_accelerator *device = session->context.devices == NULL ? NULL : session->context.devices[0];
    bool owes = session->owes;

    session->owes = false;
    if (last != NULL) {
        return exg_executable_finish(&session->context, last, err);
    }
    return owes && device != NULL ? device->table->wait(device, err) : EXG_OK; /* one failed */
}

void exg_session_stop(exg_session *session)
{
    if (session != NULL) {
        atomic_store(&session->context.stop.asked, true);
    }
}

uint32_t exg_session_output_count(const exg_session *session)
{
    return session->output_count;
}

const exg_session_output *exg_session_output_at(const exg_session *session, uint32_t index)
{
    return index < session->output_count ? &session->outputs[index] : NULL;
}

const exg_session_output *exg_session_rank_output_at(const exg_session *session, uint32_t rank,
                                                     uint32_t index)
{
    uint32_t at = rank - session->context.first_rank;

    return at < session->context.rank_count && index < session->output_count
               ? &session->outputs[at * session->output_room + index]
               : NULL;
}

uint32_t exg_session_state_count(const exg_session *session)
{
    return exg_weight_store_state_count(session->context.store);
}

const char *exg_session_state_at(const exg_session *session, uint32_t index, exg_tensor *tensor)
{
    return exg_weight_store_state_at(session->context.store, index, tensor);
}

bool exg_session_state_find(const exg_session *session, const char *name, exg_tensor *tensor)
{
    uint32_t count = exg_session_state_count(session);
    uint32_t i = 0;

    while (i < count && strcmp(exg_weight_store_state_name(session->context.store, i), name) != 0) {
        i++;
    }
    return exg_session_state_at(session, i, tensor) != NULL;
}

exg_status exg_session_state_set(exg_session *session, const exg_named_tensor *tensors,
                                 uint32_t count, exg_mismatches *mismatches, exg_error *err)
{
    EXG_REQUIRE(err, session, mismatches, EXG_IF_ANY(count, tensors));
    if (session->context.options.plan_only || session->context.lost) {
        return EXG_FAIL(err, USAGE, "RUN-008", "the session %s",
                        session->context.lost ? "lost a rank" : "only plans");
    }
    return exg_state_set(session->context.store, tensors, count, mismatches, err);
}

const exg_session_stats *exg_session_statistics(exg_session *session)
{
    static const exg_plan_summary no_plan = {.size = sizeof(no_plan)};
    const exg_executable *last = session->executor.current;
    exg_session_stats *stats = &session->stats;

    session->placed = last == NULL ? (exg_partition_summary){0} : last->partition;
    session->placed.size = sizeof(session->placed);
    *stats = (exg_session_stats){
        .size = sizeof(*stats),
        .plan = last == NULL ? &no_plan : exg_plan_summarize(exg_executable_plan(last)),
        .partition = &session->placed,
        .plan_count = session->context.plan_count,
        .plan_ns = session->context.plan_ns,
        .runs = session->context.runs,
        .run_ns = session->run_ns,
        .memory_bytes = exg_weight_store_budget(session->context.store)->held};
    if (last != NULL && session->context.is_spmd && session->context.grids != NULL) {
        exg_process_groups_count(exg_executable_plan(last), session->context.grids,
                                 &session->placed);
    }
    if (last != NULL && (session->context.grids == NULL || session->context.is_spmd)) {
        /* nothing is placed */
        session->placed.weight_bytes = stats->plan->weight_bytes;
        session->placed.value_bytes = stats->plan->arena_bytes;
    }
    stats->collectives_through = session->context.through;
    stats->libraries = exg_session_libraries(session);
    return stats;
}

const char *exg_session_partition_report(const exg_session *session)
{
    return session->executor.current == NULL ? NULL : session->executor.current->report;
}

const exg_plan *exg_session_plan(const exg_session *session)
{
    return session->executor.current == NULL ? NULL
                                             : exg_executable_plan(session->executor.current);
}

const char *exg_session_break_reason(const exg_session *session)
{
    return session->executor.current == NULL ? NULL
                                             : session->executor.current->segment->break_reason;
}

const char *exg_session_unchecked(const exg_session *session)
{
    return session->context.unchecked.data;
}
