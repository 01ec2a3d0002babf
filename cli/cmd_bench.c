/* cmd_bench.c - exg bench FILE [B]: how long runs take, alone or at once, and what of the machine
 * they use. Two sides take turns, so that what else the machine does meets both. */
#include "cli/bench.h"
#include "cli/turns.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SIDES         2
#define PROFILED_RUNS 10
#define SESSIONS_MAX  1024

/* One session, with inputs of its own. */
typedef struct lane {
    exg_session *session;
    cli_inputs inputs;
    double *times;
    uint32_t count, capacity;
    uint64_t until; /* of the clock */
    exg_status status;
    exg_error error;
} lane;

typedef struct side {
    cli_call call;
    cli_program program;
    cli_placement placement;
    exg_session_options options;
    cli_turns *turns; /* NULL: it runs here; else the first lane has the times */
    cli_ranks *ranks; /* of a program that is already parallel: the same; else NULL */
    lane *lanes;
    cli_bench_side told;
} side;

typedef struct bench {
    const cli_call *call;
    cli_program first; /* A as it is opened, whose inputs these are */
    cli_inputs inputs;
    side sides[SIDES];
    uint32_t side_count, sessions;
    exg_device_mesh *processes; /* those that mpirun started; NULL: one alone */
    bool is_parallel;           /* the program: it reads its inputs rank by rank */
} bench;

/* ---- runs ------------------------------------------------------------------------------------ */

static exg_status note_time(lane *l, double ns, exg_error *err)
{
    if (l->count == l->capacity) {
        const uint32_t room = l->capacity == 0 ? 1024 : 2 * l->capacity;
        double *times = realloc(l->times, room * sizeof(*times));

        if (times == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        l->times = times;
        l->capacity = room;
    }
    l->times[l->count++] = ns;
    return EXG_OK;
}

static exg_status run_once(lane *l, exg_error *err)
{
    const uint64_t start = cli_now_ns();

    EXG_TRY(cli_inputs_told(
        &l->inputs, exg_session_run(l->session, l->inputs.items, l->inputs.count, err), err));
    return note_time(l, (double)(cli_now_ns() - start), err);
}

/* Once, and then for as long as there is time. */
static void *run_lane(void *argument)
{
    lane *l = argument;

    do {
        l->status = run_once(l, &l->error);
    } while (l->status == EXG_OK && cli_now_ns() < l->until);
    return NULL;
}

/* By the other process. */
static exg_status run_elsewhere(side *s, double seconds, exg_error *err)
{
    double *times;
    double took = 0;
    uint32_t count = 0;
    exg_status status = cli_turns_run(s->turns, seconds, &times, &count, &took, err);

    for (uint32_t i = 0; status == EXG_OK && i < count; i++) {
        status = note_time(&s->lanes[0], times[i], err);
    }
    free(times);
    s->told.seconds += took;
    return status;
}

static exg_status note_run(void *user, exg_session *rank0, double ns, exg_error *err)
{
    side *s = user;

    (void)rank0;
    return note_time(&s->lanes[0], ns, err);
}

/* All sessions of a side at once, for so long. */
static exg_status run_side(const bench *b, side *s, double seconds, exg_error *err)
{
    const uint64_t start = cli_now_ns();
    const uint64_t until = start + (uint64_t)(seconds * 1e9);
    const uint32_t sessions = b->sessions;
    pthread_t threads[SESSIONS_MAX];
    uint32_t started = 1;
    exg_status status = EXG_OK;

    if (s->turns != NULL) {
        return run_elsewhere(s, seconds, err);
    }
    if (s->ranks != NULL || b->processes != NULL) {
        cli_run *own = s->ranks == NULL ? NULL : cli_ranks_at(s->ranks, 0);

        status = b->processes == NULL
                     ? cli_bench_ranks(s->ranks, until, note_run, s, err)
                     : cli_bench_processes(b->processes,
                                           own == NULL ? s->lanes[0].session : own->session,
                                           own == NULL ? &s->lanes[0].inputs : &own->inputs, until,
                                           note_run, s, err);
        s->told.seconds += (double)(cli_now_ns() - start) * 1e-9;
        return status;
    }
    for (uint32_t i = 0; i < sessions; i++) {
        s->lanes[i].until = until;
    }
    for (; started < sessions; started++) {
        if (pthread_create(&threads[started], NULL, run_lane, &s->lanes[started]) != 0) {
            status = EXG_FAIL(err, NO_MEMORY, "THR-001", "the thread of session %u did not start",
                              started);
            break;
        }
    }
    (void)run_lane(&s->lanes[0]);
    for (uint32_t i = 1; i < started; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    for (uint32_t i = 0; status == EXG_OK && i < sessions; i++) {
        status = s->lanes[i].status;
        if (status != EXG_OK && err != NULL) {
            *err = s->lanes[i].error;
        }
    }
    s->told.seconds += (double)(cli_now_ns() - start) * 1e-9;
    return status;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median of all that was measured since the counts were so. */
static double median_since(const side *s, uint32_t sessions, const uint32_t *before, double *room)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < sessions; i++) {
        for (uint32_t t = before[i]; t < s->lanes[i].count; t++) {
            room[count++] = s->lanes[i].times[t];
        }
    }
    qsort(room, count, sizeof(*room), by_value);
    return count == 0 ? 0 : room[count / 2];
}

static exg_status run_round(bench *b, uint32_t round, double seconds, exg_error *err)
{
    for (uint32_t s = 0; s < b->side_count; s++) {
        side *one = &b->sides[s];
        uint32_t *before = calloc(b->sessions, sizeof(*before));
        uint64_t runs = 0;
        double *room;
        exg_status status = before == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

        for (uint32_t i = 0; before != NULL && i < b->sessions; i++) {
            before[i] = one->lanes[i].count;
        }
        status = status == EXG_OK ? run_side(b, one, seconds, err) : status;
        for (uint32_t i = 0; status == EXG_OK && i < b->sessions; i++) {
            runs += one->lanes[i].count - before[i];
        }
        room = status == EXG_OK ? malloc((runs + 1) * sizeof(*room)) : NULL;
        status = status == EXG_OK && room == NULL ? EXG_OUT_OF_MEMORY(err) : status;
        if (status == EXG_OK) {
            one->told.medians[round] = median_since(one, b->sessions, before, room);
        }
        free(room);
        free(before);
        EXG_TRY(status);
        cli_progress_of((uint64_t)round * b->side_count + s + 1,
                        (uint64_t)CLI_BENCH_ROUNDS * b->side_count, "rounds");
    }
    return EXG_OK;
}

static exg_status measure(bench *b, exg_error *err)
{
    const double duration = b->call->has_duration ? b->call->duration : 3;
    const double warm_up = b->call->has_warm_up ? b->call->warm_up : 0.5;

    for (uint32_t s = 0; s < b->side_count; s++) {
        EXG_TRY_IN(err, run_side(b, &b->sides[s], warm_up, err), "%s", b->sides[s].told.name);
        b->sides[s].told.seconds = 0;
        for (uint32_t i = 0; i < b->sessions; i++) {
            b->sides[s].lanes[i].count = 0;
        }
    }
    for (uint32_t round = 0; round < CLI_BENCH_ROUNDS; round++) {
        EXG_TRY(run_round(b, round, duration / CLI_BENCH_ROUNDS, err));
    }
    return EXG_OK;
}

/* All times of a side, sorted. */
static exg_status collect(side *s, uint32_t sessions, exg_error *err)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < sessions; i++) {
        count += s->lanes[i].count;
    }
    s->told.times = malloc((count + 1) * sizeof(double));
    if (s->told.times == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < sessions; i++) {
        for (uint64_t k = 0; k < s->lanes[i].count; k++) {
            s->told.times[s->told.count++] = s->lanes[i].times[k];
        }
    }
    qsort(s->told.times, s->told.count, sizeof(double), by_value);
    return EXG_OK;
}

/* The shortest time of each step so far. */
static exg_status note_steps(exg_session *session, uint64_t **shortest, exg_error *err)
{
    const uint32_t count = exg_session_profile_count(session);
    const bool is_first = *shortest == NULL;

    *shortest = is_first ? calloc((size_t)count + 1, sizeof(**shortest)) : *shortest;
    if (*shortest == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t ns = exg_session_profile_at(session, i)->last_ns;

        (*shortest)[i] = is_first || ns < (*shortest)[i] ? ns : (*shortest)[i];
    }
    return EXG_OK;
}

static exg_status note_profile(void *user, exg_session *rank0, double ns, exg_error *err)
{
    (void)ns;
    return note_steps(rank0, user, err);
}

static exg_status keep_operators(side *s, exg_session *session, const uint64_t *shortest,
                                 exg_error *err)
{
    cli_bench_side *told = &s->told;

    EXG_TRY(cli_list_operators(session, shortest, &told->operators, &told->operator_count, err));
    for (uint32_t i = 0; i < told->operator_count; i++) {
        told->operators[i].key = exg_arena_strdup(s->placement.arena, told->operators[i].key);
        EXG_TRY(told->operators[i].key == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK);
    }
    return EXG_OK;
}

/* Rank 0's. */
static exg_status profile_ranks(side *s, exg_error *err)
{
    cli_call call = s->call;
    cli_ranks *ranks = NULL;
    uint64_t *shortest = NULL;
    exg_status status;

    call.profile = true;
    status = cli_ranks_run(&call, &ranks, err);
    for (uint32_t i = 0; status == EXG_OK && i < PROFILED_RUNS; i++) {
        status = cli_bench_ranks(ranks, 0, note_profile, &shortest, err);
    }
    if (status == EXG_OK) {
        status = keep_operators(s, cli_ranks_at(ranks, 0)->session, shortest, err);
    }
    free(shortest);
    cli_ranks_close(ranks);
    return status;
}

/* Apart, since looking at the clock takes time itself. */
static exg_status profile(side *s, exg_error *err)
{
    const cli_inputs *inputs = &s->lanes[0].inputs;
    exg_session_options options = s->options;
    cli_bench_side *told = &s->told;
    exg_session *session = NULL;
    uint64_t *shortest = NULL;
    exg_status status;

    if (s->turns != NULL) {
        return cli_turns_operators(s->turns, s->placement.arena, &told->operators,
                                   &told->operator_count, err);
    }
    if (s->ranks != NULL) {
        return profile_ranks(s, err);
    }
    options.profile = true;
    status = exg_session_create(&s->program.verified, &options, &session, err);
    for (uint32_t i = 0; status == EXG_OK && i < PROFILED_RUNS; i++) {
        status = exg_session_run(session, inputs->items, inputs->count, err);
        status = status == EXG_OK ? note_steps(session, &shortest, err) : status;
    }
    status = status == EXG_OK ? keep_operators(s, session, shortest, err) : status;
    free(shortest);
    exg_session_destroy(session);
    return status;
}

/* ---- sides ----------------------------------------------------------------------------------- */

static exg_status open_side(const bench *b, side *s, exg_error *err)
{
    const uint32_t sessions = b->sessions;

    EXG_TRY(cli_open_verified(&s->call, &s->program, err));
    EXG_TRY(cli_session_options(&s->call, &s->options, &s->placement, err));
    s->lanes = calloc(sessions, sizeof(*s->lanes));
    if (s->lanes == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (s->call.exg != NULL) {
        EXG_TRY(cli_check_apart(&s->call, err));
        return cli_turns_start(&s->call, &s->turns, err);
    }
    if (b->is_parallel) {
        return cli_ranks_run(&s->call, &s->ranks, err);
    }
    if (sessions > 1 && !s->call.has_threads) {
        s->options.thread_count = 1; /* sessions are what is parallel */
    }
    for (uint32_t i = 0; i < sessions; i++) {
        EXG_TRY(cli_inputs_copy(&b->inputs, &s->lanes[i].inputs, err));
        if (b->call->precision != s->call.precision) { /* of A, which has read them */
            EXG_TRY(cli_inputs_cast(&s->program, &s->lanes[i].inputs, err));
        }
        EXG_TRY(exg_session_create(&s->program.verified, &s->options, &s->lanes[i].session, err));
    }
    return EXG_OK;
}

static void close_side(side *s, uint32_t sessions)
{
    for (uint32_t i = 0; s->lanes != NULL && i < sessions; i++) {
        exg_session_destroy(s->lanes[i].session);
        cli_inputs_free(&s->lanes[i].inputs);
        free(s->lanes[i].times);
    }
    cli_turns_end(s->turns);
    cli_ranks_close(s->ranks);
    free(s->lanes);
    free(s->told.times);
    free(s->told.operators);
    cli_close(&s->program);
    cli_placement_free(&s->placement);
}

static exg_status refuse(const char *what, const char *fix, exg_error *err)
{
    return exg_error_fix(err, EXG_FAIL(err, UNSUPPORTED, "CLI-013", "%s", what), "%s", fix);
}

static exg_status check_call(const bench *b, exg_error *err)
{
    const cli_call *call = b->call;

    if (cli_process_count() > 1 && b->sessions > 1) {
        return refuse("the processes that mpirun started have a session each",
                      "leave --sessions out", err);
    }
    if (cli_process_count() > 1 && (b->sides[0].call.exg != NULL || b->sides[1].call.exg != NULL)) {
        return refuse("processes that mpirun started are of one exg, and one level of instructions",
                      "mpirun exg bench FILE for each, one after the other", err);
    }
    return call->has_duration && !(call->duration > 0)
               ? EXG_FAIL(err, USAGE, "CLI-001", "--duration is a time above 0")
               : EXG_OK;
}

/* A process has one level of instructions: B's is another one's. */
static void part_levels(bench *b)
{
    const char *a_isa = b->sides[0].call.isa;
    const char *b_isa = b->sides[1].call.isa;

    if (a_isa != b_isa && (a_isa == NULL || b_isa == NULL || strcmp(a_isa, b_isa) != 0) &&
        b->sides[1].call.exg == NULL) {
        b->sides[1].call.exg = "/proc/self/exe";
    }
}

/* ---- told by another process when to run (turns.h) ------------------------------------------- */

static exg_status answer_run(bench *b, double seconds, exg_error *err)
{
    side *s = &b->sides[0];
    const uint32_t sessions = b->sessions;
    uint64_t count = 0;

    s->told.seconds = 0;
    for (uint32_t i = 0; i < sessions; i++) {
        s->lanes[i].count = 0;
    }
    EXG_TRY(run_side(b, s, seconds, err));
    for (uint32_t i = 0; i < sessions; i++) {
        count += s->lanes[i].count;
    }
    printf("times %" PRIu64 " %.9f\n", count, s->told.seconds);
    for (uint32_t i = 0; i < sessions; i++) {
        (void)fwrite(s->lanes[i].times, sizeof(double), s->lanes[i].count, stdout);
    }
    return EXG_OK;
}

static exg_status answer_operators(side *s, exg_error *err)
{
    EXG_TRY(profile(s, err));
    printf("operators %u\n", s->told.operator_count);
    for (uint32_t i = 0; i < s->told.operator_count; i++) {
        const cli_profile_row *row = &s->told.operators[i];

        printf("%u %" PRIu64 " %.9g %.9g %.400s\n", row->steps, row->total_ns, row->flops,
               row->bytes, row->key);
    }
    return EXG_OK;
}

static exg_status take_turns(bench *b, exg_error *err)
{
    side *s = &b->sides[0];
    char line[64];
    double seconds;

    EXG_TRY(open_side(b, s, err));
    (void)fputs(CLI_TURNS_GREETING, stdout);
    while (fflush(stdout) == 0 && fgets(line, sizeof(line), stdin) != NULL) {
        if (sscanf(line, "run %lf", &seconds) == 1) {
            EXG_TRY(answer_run(b, seconds, err));
        } else if (strcmp(line, "operators\n") == 0) {
            EXG_TRY(answer_operators(s, err));
        } else {
            return EXG_FAIL(err, USAGE, "CLI-004", "--turns: no line 'run SECONDS'");
        }
    }
    return EXG_OK;
}

static exg_status run_bench(bench *b, exg_error *err)
{
    cli_bench_side told[SIDES];
    cli_bench_report report = {.call = b->call,
                               .inputs = &b->inputs,
                               .sides = told,
                               .side_count = b->side_count,
                               .sessions = b->sessions,
                               .rounds = CLI_BENCH_ROUNDS};

    for (uint32_t s = 0; s < b->side_count; s++) {
        EXG_TRY_IN(err, open_side(b, &b->sides[s], err), "%s", b->sides[s].told.name);
    }
    EXG_TRY(cli_measure_ceilings(&b->sides[0].options, &report.ceilings, err));
    EXG_TRY(measure(b, err));
    cli_progress_end();
    for (uint32_t s = 0; s < b->side_count; s++) {
        EXG_TRY(collect(&b->sides[s], b->sessions, err));
        EXG_TRY(profile(&b->sides[s], err));
        told[s] = b->sides[s].told;
    }
    report.threads = b->sides[0].options.thread_count;
    report.ranks = b->processes != NULL        ? cli_process_count()
                   : b->sides[0].ranks == NULL ? 1
                                               : cli_ranks_count(b->sides[0].ranks);
    return cli_put_bench(&report, err);
}

exg_status cmd_bench(const cli_call *call, exg_error *err)
{
    bench b = {.call = call,
               .side_count = call->path_count > 1 || call->with.count > 0 ? 2 : 1,
               .sessions = call->has_sessions ? (uint32_t)call->sessions : 1};
    exg_status status;

    b.sides[0].call = *call;
    EXG_TRY(cli_apply_with(call, &b.sides[1].call, err));
    b.sides[1].call.paths[0] = call->paths[call->path_count > 1];
    for (uint32_t s = 0; s < SIDES; s++) {
        b.sides[s].told.name = s == 0 ? "A" : "B";
        b.sides[s].told.file = b.sides[s].call.paths[0];
    }
    part_levels(&b);
    EXG_TRY(check_call(&b, err));
    EXG_TRY(cli_open_verified(call, &b.first, err));
    b.is_parallel = cli_is_parallel(call, &b.first) || cli_is_parallel(&b.sides[1].call, &b.first);
    if (b.is_parallel && b.sessions > 1) {
        cli_close(&b.first);
        return refuse("the program is already parallel: it has a session a rank",
                      "leave --sessions out", err);
    }
    status = b.is_parallel ? EXG_OK : cli_inputs_read(call, &b.first, &b.inputs, err);
    status = status == EXG_OK ? cli_bench_mesh(&b.processes, err) : status;
    if (status == EXG_OK) {
        status = call->turns ? take_turns(&b, err) : run_bench(&b, err);
    }
    for (uint32_t s = 0; s < SIDES; s++) {
        close_side(&b.sides[s], b.sessions);
    }
    exg_device_mesh_destroy(b.processes);
    cli_inputs_free(&b.inputs);
    cli_close(&b.first);
    return status;
}
