/* session.c - plans kept by the sizes they were made for, and the way of a call:
 * inputs checked and bound, the plan found or made, carried out, results handed
 * out.
 */
#include "libexec/comm/team.h"
#include "libexec/rank.h"
#include "libexport/base/arena.h"

#include <exg/session.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

/* Of one input: name, dtype or "number", rank or the number, sizes. */
#define SIGNATURE_WORDS (3 + EXG_RANK_MAX)

#define EXG_SESSION_RANKS_MAX 64

/* A plan (one a rank) for the numbers it was made for. */
typedef struct bound {
    struct bound *next;
    exg_arena *arena; /* of symbols and ranks */
    exg_symbols symbols;
    exg_rank **ranks;
    uint32_t rank_count;
    void **callers; /* by graph input: the caller's data of this run */
    uint32_t copy_count;
    void **copies; /* by graph input and rank: of an input that the program writes, on a mesh */
    exg_place_summary place;
    char *report;
} bound;

/* What a rank's run came to. */
typedef struct outcome {
    exg_status status;
    exg_error error;
} outcome;

struct exg_session {
    exg_verified verified;
    exg_session_options options;
    uint32_t rank_count; /* 1 without a mesh */
    exg_pool *pool;      /* without a mesh */
    exg_team *team;      /* on a mesh */
    exg_communicator **communicators;
    outcome *outcomes; /* by rank */
    exg_memory *memory;
    bound *plans;   /* newest use first */
    bound *current; /* of the last run */
    exg_session_output *outputs;
    uint32_t output_count, output_capacity;
    exg_input_binding *bindings; /* by graph input */
    int64_t *last_sizes;         /* of the last inputs: the plan is known without binding */
    uint32_t last_count;
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

    EXG_TRY(exg_missing_operators(verified->program, verified->operators, exg_operator_runs,
                                  &missing, err));
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

static exg_status create_ranks(exg_session *s, exg_error *err)
{
    s->rank_count = s->options.mesh_size < 1 ? 1 : s->options.mesh_size;
    if (s->rank_count > EXG_SESSION_RANKS_MAX) {
        return EXG_FAIL(err, LIMIT, "COM-004", "%u ranks in one process; at most %d", s->rank_count,
                        EXG_SESSION_RANKS_MAX);
    }
    s->outcomes = EXG_NEW_ARRAY(s->arena, outcome, s->rank_count);
    s->communicators = EXG_NEW_ARRAY(s->arena, exg_communicator *, s->rank_count);
    if (s->outcomes == NULL || s->communicators == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (s->rank_count == 1) {
        return exg_pool_create(s->options.thread_count, &s->pool, err);
    }
    EXG_TRY(exg_local_create(s->rank_count, s->communicators, err));
    return exg_team_create(s->rank_count, &s->team, err);
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
    s->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    s->bindings = s->arena == NULL ? NULL
                                   : EXG_NEW_ARRAY(s->arena, exg_input_binding,
                                                   verified->program->graph->input_count);
    s->last_sizes = s->arena == NULL ? NULL
                                     : EXG_NEW_ARRAY(s->arena, int64_t,
                                                     verified->program->graph->input_count *
                                                         SIGNATURE_WORDS);
    s->outputs = s->arena == NULL ? NULL
                                  : EXG_NEW_ARRAY(s->arena, exg_session_output,
                                                  verified->program->graph->output_count);
    status = s->bindings == NULL || s->outputs == NULL || s->last_sizes == NULL
                 ? EXG_OUT_OF_MEMORY(err)
                 : EXG_OK;
    status = status == EXG_OK ? create_ranks(s, err) : status;
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
    for (uint32_t r = 0; b->ranks != NULL && r < b->rank_count; r++) {
        exg_rank_destroy(b->ranks[r]);
    }
    for (uint32_t i = 0; b->copies != NULL && i < b->copy_count; i++) {
        free(b->copies[i]);
    }
    free(b->report);
    exg_arena_destroy(b->arena);
    free(b);
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
    exg_team_destroy(session->team);
    for (uint32_t r = 0; session->rank_count > 1 && session->communicators != NULL &&
                         r < session->rank_count;
         r++) {
        exg_communicator_close(session->communicators[r]);
    }
    exg_pool_destroy(session->pool);
    exg_arena_destroy(session->arena);
    free(session);
}

/* ---- plans ------------------------------------------------------------------------ */

/* The functional program for these numbers. */
static exg_status transform(exg_session *s, const exg_symbols *symbols, exg_program **functional,
                            exg_error *err)
{
    const exg_operators *operators = s->verified.operators;
    exg_program *stages[3] = {NULL};
    exg_status status = exg_specialize(&s->verified, symbols, &stages[0], err);

    status = status == EXG_OK ? exg_decompose(stages[0], operators, &stages[1], err) : status;
    status = status == EXG_OK ? exg_functionalize(stages[1], operators, &stages[2], err) : status;
    status = status == EXG_OK ? exg_simplify(stages[2], operators, functional, err) : status;
    for (uint32_t i = 0; i < 3; i++) {
        exg_program_destroy(stages[i]);
    }
    return status;
}

/* Places, plans and binds one rank. */
static exg_status make_rank(exg_session *s, bound *b, const exg_program *functional, uint32_t r,
                            exg_error *err)
{
    const exg_operators *operators = s->verified.operators;
    exg_program *local = NULL;
    exg_plan *plan = NULL;
    exg_status status;

    if (s->rank_count == 1) {
        EXG_TRY(exg_plan_create(functional, operators, &s->options.plan, &plan, err));
        return exg_rank_create(plan, s->memory, s->pool, NULL, &b->ranks[r], err);
    }
    status = exg_place(functional, operators, &s->options.place, s->rank_count, r, &local,
                       r == 0 ? &b->place : NULL, r == 0 ? &b->report : NULL, err);
    status = status == EXG_OK ? exg_plan_rank(local, operators, &s->options.plan,
                                              s->communicators[r], &plan, err)
                              : status;
    exg_program_destroy(local);
    return status != EXG_OK ? status
                            : exg_rank_create(plan, s->memory, NULL, s->communicators[r],
                                              &b->ranks[r], err);
}

static uint64_t input_bytes(const exg_plan *plan, uint32_t p)
{
    return plan->inputs[p].buffer == EXG_NO_BUFFER ? 0
                                                   : plan->buffers[plan->inputs[p].buffer].bytes;
}

/* Ranks that write one caller's tensor would disturb each other: each gets a copy of
 * its own. Made once a plan. */
static exg_status make_copies(exg_session *s, bound *b, exg_error *err)
{
    const exg_plan *plan = exg_rank_plan(b->ranks[0]);

    if (s->rank_count == 1) {
        return EXG_OK;
    }
    b->copies = EXG_NEW_ARRAY(b->arena, void *, (size_t)plan->input_count * s->rank_count);
    if (b->copies == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    b->copy_count = plan->input_count * s->rank_count;
    for (uint32_t i = 0; i < b->copy_count; i++) {
        const exg_plan_input *input = &plan->inputs[i / s->rank_count];

        if (input->kind != EXG_INPUT_USER || !input->mutated) {
            continue;
        }
        b->copies[i] = malloc(input_bytes(plan, i / s->rank_count) + 1);
        if (b->copies[i] == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    return EXG_OK;
}

static exg_status make_ranks(exg_session *s, bound *b, exg_error *err)
{
    exg_program *functional = NULL;
    exg_status status;

    b->rank_count = s->rank_count;
    b->ranks = EXG_NEW_ARRAY(b->arena, exg_rank *, s->rank_count);
    if (b->ranks == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = transform(s, &b->symbols, &functional, err);
    for (uint32_t r = 0; status == EXG_OK && r < s->rank_count; r++) {
        status = make_rank(s, b, functional, r, err);
        if (status == EXG_OK && s->options.profile) {
            status = exg_rank_profile(b->ranks[r], err);
        }
    }
    exg_program_destroy(functional);
    if (status == EXG_OK) {
        b->callers =
            EXG_NEW_ARRAY(b->arena, void *, exg_rank_plan(b->ranks[0])->input_count);
        status = b->callers == NULL ? EXG_OUT_OF_MEMORY(err) : make_copies(s, b, err);
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

/* Takes `arena` over, in which the symbols live. */
static exg_status add_plan(exg_session *s, exg_arena *arena, const exg_symbols *symbols,
                           exg_error *err)
{
    bound *b = calloc(1, sizeof(*b));
    uint64_t start = now_ns();
    exg_status status;

    if (b == NULL) {
        exg_arena_destroy(arena);
        return EXG_OUT_OF_MEMORY(err);
    }
    b->arena = arena;
    b->symbols = *symbols;
    status = make_ranks(s, b, err);
    if (status != EXG_OK) {
        bound_destroy(b);
        return status;
    }
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
            input->tensor.data != NULL) {
            memcpy(&now[3], input->tensor.data, sizeof(int64_t)); /* may be a symbolic integer */
        }
    }
    same = memcmp(words, now, sizeof(now)) == 0;
    memcpy(words, now, sizeof(now));
    return same;
}

static bool same_as_last(exg_session *s, const exg_session_input *inputs, uint32_t count)
{
    bool same = s->current != NULL && count == s->last_count;

    for (uint32_t i = 0; i < count; i++) {
        same = write_signature(&inputs[i], s->last_sizes + (size_t)i * SIGNATURE_WORDS) && same;
    }
    s->last_count = count;
    return same;
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
    if (same_as_last(s, inputs, count)) {
        return EXG_OK;
    }
    s->current = NULL;
    for (uint32_t i = 0; i < count; i++) {
        s->bindings[i] = binding_of(&inputs[i]);
    }
    arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
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

static void set_input(exg_session *s, uint32_t p, void *data)
{
    const exg_plan *plan = exg_rank_plan(s->current->ranks[0]);

    for (uint32_t r = 0; r < s->rank_count; r++) {
        void *copy = s->current->copies == NULL ? NULL
                                                : s->current->copies[p * s->rank_count + r];

        if (copy != NULL && data != NULL) {
            memcpy(copy, data, input_bytes(plan, p));
        }
        exg_rank_set_input(s->current->ranks[r], p, copy != NULL ? copy : data);
    }
    s->current->callers[p] = data;
}

/* What the first rank wrote goes back to the caller's tensor. */
static void return_copies(exg_session *s)
{
    const exg_plan *plan = exg_rank_plan(s->current->ranks[0]);

    for (uint32_t p = 0; p < plan->input_count; p++) {
        void *copy = s->current->copies[p * s->rank_count];

        if (copy != NULL && s->current->callers[p] != NULL) {
            memcpy(s->current->callers[p], copy, input_bytes(plan, p));
        }
    }
}

static void set_inputs(exg_session *s, const exg_session_input *inputs, uint32_t count)
{
    const exg_plan *plan = exg_rank_plan(s->current->ranks[0]);

    for (uint32_t p = 0; p < plan->input_count; p++) {
        for (uint32_t i = 0; i < count && plan->inputs[p].kind == EXG_INPUT_USER; i++) {
            if (plan->inputs[p].name == NULL || plan->inputs[p].buffer == EXG_NO_BUFFER ||
                strcmp(plan->inputs[p].name, inputs[i].name) != 0) {
                continue;
            }
            set_input(s, p, inputs[i].tensor.data);
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
    const exg_plan *plan = exg_rank_plan(s->current->ranks[0]);

    s->output_count = 0;
    for (uint32_t o = 0; o < plan->output_count; o++) {
        exg_session_output *output = &s->outputs[s->output_count];

        if (!is_user_output(plan->outputs[o].kind)) {
            continue;
        }
        output->constant = plan->outputs[o].constant;
        if (output->constant.kind == EXG_ARGUMENT_TENSOR) {
            output->tensor = plan->outputs[o].location.window;
            output->tensor.data = exg_rank_data(s->current->ranks[0], &plan->outputs[o].location);
        }
        s->output_count++;
    }
}

static void run_rank(void *context, uint32_t r)
{
    exg_session *s = context;
    outcome *out = &s->outcomes[r];

    out->status = exg_rank_run(s->current->ranks[r], &out->error);
    if (out->status != EXG_OK && s->rank_count > 1) {
        exg_communicator_abort(s->communicators[r], out->status);
    }
}

/* The first cause: a rank's own fault rather than the news of another's. */
static exg_status run_ranks(exg_session *s, exg_error *err)
{
    const outcome *first = NULL;

    if (s->rank_count == 1) {
        return exg_rank_run(s->current->ranks[0], err);
    }
    exg_team_run(s->team, run_rank, s);
    return_copies(s);
    for (uint32_t r = 0; r < s->rank_count; r++) {
        const outcome *out = &s->outcomes[r];

        if (out->status != EXG_OK && (first == NULL || (first->status == EXG_PEER &&
                                                        out->status != EXG_PEER))) {
            first = out;
        }
    }
    if (first != NULL && err != NULL) {
        *err = first->error;
    }
    return first == NULL ? EXG_OK : first->status;
}

exg_status exg_session_prepare(exg_session *session, const exg_session_input *inputs,
                               uint32_t input_count, exg_error *err)
{
    return select_plan(session, inputs, input_count, err);
}

exg_status exg_session_run(exg_session *session, const exg_session_input *inputs,
                           uint32_t input_count, exg_error *err)
{
    uint64_t start;

    session->output_count = 0;
    EXG_TRY(check_input_layout(inputs, input_count, err));
    EXG_TRY(select_plan(session, inputs, input_count, err));
    for (uint32_t r = 0; r < session->rank_count; r++) {
        exg_rank_fill(session->current->ranks[r]);
    }
    start = now_ns();
    set_inputs(session, inputs, input_count);
    for (uint32_t r = 0; r < session->rank_count; r++) {
        exg_rank_set_random(session->current->ranks[r], session->options.seed, session->stats.runs);
    }
    EXG_TRY(run_ranks(session, err));
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
        for (uint32_t r = 0; r < b->rank_count; r++) {
            stats->memory_bytes += exg_rank_bytes(b->ranks[r]);
        }
    }
    if (session->current != NULL) {
        exg_plan_summarize(exg_rank_plan(session->current->ranks[0]), &stats->plan);
        stats->place = session->current->place;
    }
}

const char *exg_session_place_report(const exg_session *session)
{
    return session->current == NULL ? NULL : session->current->report;
}

const exg_plan *exg_session_plan(const exg_session *session)
{
    return session->current == NULL ? NULL : exg_rank_plan(session->current->ranks[0]);
}

uint32_t exg_session_profile_count(const exg_session *session)
{
    return session->options.profile && session->current != NULL
               ? exg_session_plan(session)->step_count - exg_session_plan(session)->once_count
               : 0;
}

void exg_session_profile_at(const exg_session *session, uint32_t index, exg_step_profile *profile)
{
    const exg_rank *rank = session->current->ranks[0];
    const exg_plan *plan = exg_rank_plan(rank);
    const exg_step *step = &plan->steps[plan->once_count + index];

    *profile = (exg_step_profile){.name = step->name,
                                  .target = step->target,
                                  .kernel = step->kernel->name,
                                  .module = step->module,
                                  .fused = step->fused};
    exg_rank_times(rank, plan->once_count + index, &profile->start_ns, &profile->last_ns,
                   &profile->total_ns);
}
