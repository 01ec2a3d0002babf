/* session.c - plans kept by the sizes they were made for, and the way of a call:
 * inputs checked and bound, the plan found or made, carried out, results handed
 * out.
 */
#include "libexec/rank.h"
#include "libexport/base/arena.h"

#include <exg/session.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct bound {
    struct bound *next;
    exg_arena *arena; /* of the symbols */
    exg_symbols symbols;
    exg_rank *rank;
} bound;

struct exg_session {
    exg_verified verified;
    exg_session_options options;
    exg_pool *pool;
    exg_memory *memory;
    bound *plans;    /* newest use first */
    bound *current;  /* of the last run */
    exg_session_output *outputs;
    uint32_t output_count, output_capacity;
    exg_input_binding *bindings; /* by graph input */
    exg_arena *arena;
    exg_session_stats stats;
};

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static exg_status check_operators(const exg_verified *verified, exg_error *err)
{
    char *missing;
    exg_status status = EXG_OK;

    EXG_TRY(exg_missing_operators(verified->program, verified->operators, exg_operator_runs, &missing,
                                  err));
    if (missing != NULL) {
        for (char *c = missing; *c != '\0'; c++) {
            *c = *c == '\n' ? ';' : *c;
        }
        status = EXG_FAIL(err, UNSUPPORTED, "OPR-003", "operators that are not there yet: %s",
                          missing);
        free(missing);
    }
    return status;
}

exg_status exg_session_create(const exg_verified *verified, const exg_session_options *options,
                              exg_session **session, exg_error *err)
{
    exg_session *s;
    exg_status status;

    *session = NULL;
    EXG_TRY(check_operators(verified, err));
    s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    s->verified = *verified;
    if (options != NULL) {
        s->options = *options;
    }
    s->arena = exg_arena_create(EXG_ARENA_UNBOUNDED);
    s->bindings = s->arena == NULL ? NULL
                                   : EXG_NEW_ARRAY(s->arena, exg_input_binding,
                                                   verified->program->graph->input_count);
    s->outputs = s->arena == NULL ? NULL
                                  : EXG_NEW_ARRAY(s->arena, exg_session_output,
                                                  verified->program->graph->output_count);
    status = s->bindings == NULL || s->outputs == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    status = status == EXG_OK ? exg_pool_create(s->options.thread_count, &s->pool, err) : status;
    status = status == EXG_OK ? exg_memory_create(verified->program->weights, &s->memory, err)
                              : status;
    if (status != EXG_OK) {
        exg_session_destroy(s);
        return status;
    }
    *session = s;
    return EXG_OK;
}

static void bound_destroy(bound *b)
{
    if (b != NULL) {
        exg_rank_destroy(b->rank);
        exg_arena_destroy(b->arena);
        free(b);
    }
}

void exg_session_destroy(exg_session *session)
{
    if (session == NULL) {
        return;
    }
    for (bound *b = session->plans; b != NULL;) {
        bound *next = b->next;

        bound_destroy(b);
        b = next;
    }
    exg_memory_destroy(session->memory);
    exg_pool_destroy(session->pool);
    exg_arena_destroy(session->arena);
    free(session);
}

/* ---- plans ------------------------------------------------------------------------ */

static exg_status make_plan(exg_session *s, const exg_symbols *symbols, exg_plan **plan,
                            exg_error *err)
{
    const exg_operators *operators = s->verified.operators;
    exg_program *stages[4] = {NULL};
    exg_status status = exg_specialize(&s->verified, symbols, &stages[0], err);

    status = status == EXG_OK ? exg_decompose(stages[0], operators, &stages[1], err) : status;
    status = status == EXG_OK ? exg_functionalize(stages[1], operators, &stages[2], err) : status;
    status = status == EXG_OK ? exg_simplify(stages[2], operators, &stages[3], err) : status;
    status = status == EXG_OK ? exg_plan_create(stages[3], operators, &s->options.plan, plan, err)
                              : status;
    for (uint32_t i = 0; i < 4; i++) {
        exg_program_destroy(stages[i]);
    }
    return status;
}

static bool same_symbols(const exg_symbols *a, const exg_symbols *b)
{
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->items[i].value != b->items[i].value) { /* bound in one order, always */
            return false;
        }
    }
    return a->count == b->count;
}

/* The plan for these symbols goes to the front of the list. */
static bool find_plan(exg_session *s, const exg_symbols *symbols)
{
    for (bound **at = &s->plans; *at != NULL; at = &(*at)->next) {
        if (same_symbols(&(*at)->symbols, symbols)) {
            bound *found = *at;

            *at = found->next;
            found->next = s->plans;
            s->plans = found;
            s->current = found;
            return true;
        }
    }
    return false;
}

static exg_status add_plan(exg_session *s, exg_arena *arena, const exg_symbols *symbols,
                           exg_error *err)
{
    bound *b = calloc(1, sizeof(*b));
    exg_plan *plan = NULL;
    uint64_t start = now_ns();
    exg_status status = b == NULL ? EXG_OUT_OF_MEMORY(err) : make_plan(s, symbols, &plan, err);

    status = status == EXG_OK ? exg_rank_create(plan, s->memory, s->pool, &b->rank, err) : status;
    if (status != EXG_OK) {
        free(b);
        exg_arena_destroy(arena);
        return status;
    }
    b->arena = arena;
    b->symbols = *symbols;
    b->next = s->plans;
    s->plans = b;
    s->current = b;
    s->stats.plan_count++;
    s->stats.plan_ns += now_ns() - start;
    return EXG_OK;
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
        input->tensor.data != NULL) {
        memcpy(&binding.as_int, input->tensor.data, sizeof(binding.as_int));
    }
    return binding;
}

static exg_status check_input_layout(const exg_session_input *inputs, uint32_t count,
                                     exg_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!inputs[i].is_number && !exg_tensor_is_contiguous(&inputs[i].tensor)) {
            return EXG_FAIL(err, USAGE, "INP-008", "input '%s' is not row-major", inputs[i].name);
        }
        if (!inputs[i].is_number && inputs[i].tensor.data == NULL &&
            exg_tensor_numel(&inputs[i].tensor) > 0) {
            return EXG_FAIL(err, USAGE, "INP-008", "input '%s' has no data", inputs[i].name);
        }
    }
    return EXG_OK;
}

static exg_status select_plan(exg_session *s, const exg_session_input *inputs, uint32_t count,
                              exg_error *err)
{
    exg_arena *arena;
    exg_symbols symbols;
    exg_status status;

    if (count > s->verified.program->graph->input_count) {
        return EXG_FAIL(err, USAGE, "INP-001", "%u inputs for a program of %u", count,
                        s->verified.program->graph->input_count);
    }
    for (uint32_t i = 0; i < count; i++) {
        s->bindings[i] = binding_of(&inputs[i]);
    }
    arena = exg_arena_create(EXG_ARENA_UNBOUNDED);
    if (arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = exg_bind_inputs(&s->verified, s->bindings, count, arena, &symbols, err);
    if (status != EXG_OK || find_plan(s, &symbols)) {
        exg_arena_destroy(arena);
        return status;
    }
    return add_plan(s, arena, &symbols, err);
}

static void set_inputs(exg_session *s, const exg_session_input *inputs, uint32_t count)
{
    const exg_plan *plan = exg_rank_plan(s->current->rank);

    for (uint32_t p = 0; p < plan->input_count; p++) {
        for (uint32_t i = 0; i < count && plan->inputs[p].kind == EXG_INPUT_USER; i++) {
            if (plan->inputs[p].name != NULL && strcmp(plan->inputs[p].name, inputs[i].name) == 0 &&
                plan->inputs[p].buffer != EXG_NO_BUFFER) {
                exg_rank_set_input(s->current->rank, p, inputs[i].tensor.data);
            }
        }
    }
}

/* ---- outputs ---------------------------------------------------------------------- */

static bool is_user_output(exg_output_kind kind)
{
    return kind == EXG_OUTPUT_USER || kind == EXG_OUTPUT_LOSS ||
           kind == EXG_OUTPUT_GRADIENT_TO_PARAMETER || kind == EXG_OUTPUT_GRADIENT_TO_USER_INPUT;
}

static void collect_outputs(exg_session *s)
{
    const exg_plan *plan = exg_rank_plan(s->current->rank);

    s->output_count = 0;
    for (uint32_t o = 0; o < plan->output_count; o++) {
        exg_session_output *output = &s->outputs[s->output_count];

        if (!is_user_output(plan->outputs[o].kind)) {
            continue;
        }
        output->constant = plan->outputs[o].constant;
        if (output->constant.kind == EXG_ARGUMENT_TENSOR) {
            output->tensor = plan->outputs[o].location.window;
            output->tensor.data = exg_rank_data(s->current->rank, &plan->outputs[o].location);
        }
        s->output_count++;
    }
}

exg_status exg_session_run(exg_session *session, const exg_session_input *inputs,
                           uint32_t input_count, exg_error *err)
{
    uint64_t start;

    session->output_count = 0;
    EXG_TRY(check_input_layout(inputs, input_count, err));
    EXG_TRY(select_plan(session, inputs, input_count, err));
    start = now_ns();
    set_inputs(session, inputs, input_count);
    EXG_TRY(exg_rank_run(session->current->rank, err));
    session->stats.run_ns = now_ns() - start;
    session->stats.runs++;
    collect_outputs(session);
    return EXG_OK;
}

uint32_t exg_session_output_count(const exg_session *session)
{
    return session->output_count;
}

const exg_session_output *exg_session_output_at(const exg_session *session, uint32_t index)
{
    return index < session->output_count ? &session->outputs[index] : NULL;
}

uint32_t exg_session_state_count(const exg_session *session)
{
    return exg_memory_state_count(session->memory);
}

const char *exg_session_state_at(const exg_session *session, uint32_t index, exg_tensor *tensor)
{
    return exg_memory_state_at(session->memory, index, tensor);
}

void exg_session_statistics(const exg_session *session, exg_session_stats *stats)
{
    *stats = session->stats;
    stats->memory_bytes = exg_memory_bytes(session->memory);
    for (const bound *b = session->plans; b != NULL; b = b->next) {
        stats->memory_bytes += exg_rank_bytes(b->rank);
    }
    if (session->current != NULL) {
        exg_plan_summarize(exg_rank_plan(session->current->rank), &stats->plan);
    }
}

const exg_plan *exg_session_plan(const exg_session *session)
{
    return session->current == NULL ? NULL : exg_rank_plan(session->current->rank);
}
