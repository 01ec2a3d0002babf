/* ranks.c - a program that is already parallel, or one for each rank: every rank has a session, and
 * files of its own where {rank} is in their names. */
#include "cli/cli.h"

#include <errno.h>
#include <exg/memory.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MARK       "{rank}"
#define NAME_BYTES 4096

/* The option whose file has {rank} in its name, which is *name; NULL: none. */
static const char *find_rank_name(const cli_call *call, const char **name)
{
    const struct {
        const char *option, *name;
    } files[] = {{"--output", call->output}, {"--state-output", call->state_output},
                 {"--dump", call->dump},     {"--expect", call->expect},
                 {"--state", call->state},   {"--weights-from", call->weights_from}};

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (files[i].name != NULL && strstr(files[i].name, MARK) != NULL) {
            *name = files[i].name;
            return files[i].option;
        }
    }
    for (uint32_t i = 0; i < call->inputs.count; i++) {
        if (strstr(call->inputs.items[i], MARK) != NULL) {
            *name = call->inputs.items[i];
            return "--input";
        }
    }
    return NULL;
}

/* One rank alone may have files of its own, too. */
static bool names_ranks(const cli_call *call)
{
    const char *name = NULL;

    return find_rank_name(call, &name) != NULL ||
           (call->trace != NULL && strstr(call->trace, MARK) != NULL);
}

bool cli_is_parallel(const cli_call *call, const cli_program *p)
{
    exg_mesh_shape mesh;
    uint32_t ranks = 1;

    if (cli_mesh(call, &mesh, NULL) != EXG_OK) {
        return false; /* the session's options will tell */
    }
    for (uint32_t d = 0; d < mesh.ndim; d++) {
        ranks *= mesh.sizes[d];
    }
    return call->rank_file != NULL || ((ranks > 1 || names_ranks(call)) &&
                                       exg_program_has_collectives(p->program, p->operators));
}

exg_status cli_rank_name(const char *text, uint32_t rank, char *name, size_t room, exg_error *err)
{
    size_t used = 0;

    for (const char *mark; (mark = strstr(text, MARK)) != NULL; text = mark + strlen(MARK)) {
        used += (size_t)snprintf(used < room ? name + used : NULL, used < room ? room - used : 0,
                                 "%.*s%u", (int)(mark - text), text, rank);
    }
    used += (size_t)snprintf(used < room ? name + used : NULL, used < room ? room - used : 0, "%s",
                             text);
    return used < room ? EXG_OK
                       : EXG_FAIL(err, USAGE, "CLI-004", "a file's name of %zu bytes", used);
}

typedef struct rank {
    cli_call call; /* with its own names */
    cli_run run;
    exg_device_mesh *mesh;
    exg_status status;
    exg_error error;
} rank;

struct cli_ranks {
    const cli_call *call;
    exg_mesh_shape shape;
    exg_session_options options;
    cli_placement placement; /* which they point to */
    rank *items;             /* those here */
    uint32_t count;
    exg_arena *arena; /* names */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    uint32_t ended_count; /* threads, of those that were started last */
    bool failed;          /* one of them */
    bool lost;            /* one did not come back: what it may reach is never freed */
};

/* ---- names --------------------------------------------------------------------------------- */

static exg_status expand(exg_arena *arena, uint32_t number, const char **name, exg_error *err)
{
    char text[NAME_BYTES];

    if (*name == NULL || strstr(*name, MARK) == NULL) {
        return EXG_OK;
    }
    EXG_TRY(cli_rank_name(*name, number, text, sizeof(text), err));
    *name = exg_arena_strdup(arena, text);
    return *name == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

exg_status cli_rank_call(const cli_call *call, uint32_t number, exg_arena *arena, cli_call *own,
                         exg_error *err)
{
    const char **const names[] = {&own->output, &own->state_output, &own->trace,       &own->dump,
                                  &own->expect, &own->state,        &own->weights_from};
    const char **inputs = EXG_NEW_ARRAY(arena, const char *, call->inputs.count);

    if (inputs == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *own = *call;
    own->out = number == 0 ? call->out : NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        EXG_TRY(expand(arena, number, names[i], err));
    }
    for (uint32_t i = 0; i < call->inputs.count; i++) {
        inputs[i] = call->inputs.items[i];
        EXG_TRY(expand(arena, number, &inputs[i], err));
    }
    own->inputs.items = inputs;
    own->paths[0] = call->rank_file != NULL ? call->rank_file : call->paths[0];
    return expand(arena, number, &own->paths[0], err);
}

exg_status cli_check_no_ranks(const cli_call *call, exg_error *err)
{
    const char *name = NULL;
    const char *option = find_rank_name(call, &name);

    return option == NULL
               ? EXG_OK
               : exg_error_fix(
                     err,
                     EXG_FAIL(err, USAGE, "CLI-009",
                              "{rank} has no meaning in %s '%s': ranks of a program that is "
                              "placed have the same inputs and results",
                              option, name),
                     "leave {rank} out: rank 0 writes for all");
}

/* Ranks write results of their own, so not to one file. */
static exg_status check_written(const cli_ranks *all, exg_error *err)
{
    const cli_call *call = all->call;
    const struct {
        const char *option, *name;
    } files[] = {{"--output", call->output},
                 {"--state-output", call->state_output},
                 {"--dump", call->dump},
                 {"--trace", call->trace}};

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (files[i].name != NULL && strstr(files[i].name, MARK) == NULL) {
            return exg_error_fix(err,
                                 EXG_FAIL(err, USAGE, "CLI-011",
                                          "%s '%s' is one file for the results of all ranks",
                                          files[i].option, files[i].name),
                                 "put {rank} into its name: out.{rank}.safetensors");
        }
    }
    return EXG_OK;
}

/* ---- threads ------------------------------------------------------------------------------- */

typedef struct task {
    cli_ranks *all;
    uint32_t at;
    cli_rank_fn *work;
    void *user;
} task;

static void *work_of(void *argument)
{
    task *t = argument;
    cli_ranks *all = t->all;

    all->items[t->at].status =
        t->work(t->user, &all->items[t->at].run, t->at, &all->items[t->at].error);
    (void)pthread_mutex_lock(&all->lock);
    all->ended_count++;
    all->failed = all->failed || all->items[t->at].status != EXG_OK;
    (void)pthread_cond_broadcast(&all->ended);
    (void)pthread_mutex_unlock(&all->lock);
    return NULL;
}

/* Until all have ended; where one has failed, no longer than --timeout after that. */
static void wait_for(cli_ranks *all, uint32_t count)
{
    struct timespec until = {0};

    (void)pthread_mutex_lock(&all->lock);
    while (all->ended_count < count && !all->lost) {
        if (!all->failed || all->options.timeout_ns == 0) {
            (void)pthread_cond_wait(&all->ended, &all->lock);
            continue;
        }
        if (until.tv_sec == 0) {
            (void)clock_gettime(CLOCK_REALTIME, &until);
            until.tv_sec += (time_t)(all->options.timeout_ns / 1000000000u) + 1;
        }
        all->lost = pthread_cond_timedwait(&all->ended, &all->lock, &until) == ETIMEDOUT;
    }
    (void)pthread_mutex_unlock(&all->lock);
}

static exg_status outcome(const cli_ranks *all, exg_error *err);

exg_status cli_ranks_each(cli_ranks *all, cli_rank_fn *work, void *user, exg_error *err)
{
    task *tasks = EXG_NEW_ARRAY(all->arena, task, all->count);
    exg_status status = tasks == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    uint32_t started = 0;

    all->ended_count = 0;
    all->failed = false;
    for (; status == EXG_OK && started < all->count; started++) {
        pthread_t thread;

        tasks[started] = (task){all, started, work, user};
        if (pthread_create(&thread, NULL, work_of, &tasks[started]) != 0) {
            status =
                EXG_FAIL(err, NO_MEMORY, "THR-001", "the thread of rank %u did not start", started);
            all->failed = true; /* the others end as their waits do */
            break;
        }
        (void)pthread_detach(thread);
    }
    wait_for(all, started);
    return status == EXG_OK ? outcome(all, err) : status;
}

static exg_status begin_rank(void *user, cli_run *run, uint32_t at, exg_error *err)
{
    const cli_ranks *all = user;
    exg_session_options options = all->options;

    options.device_mesh = all->items[at].mesh;
    return cli_run_begin(run, at, &options, err);
}

static exg_status leave_rank(void *user, cli_run *run, uint32_t at, exg_error *err)
{
    (void)user;
    (void)at;
    (void)err;
    cli_run_leave(run);
    return EXG_OK;
}

/* ---- a run --------------------------------------------------------------------------------- */

static exg_status create_meshes(cli_ranks *all, exg_error *err)
{
    exg_device_mesh *meshes[CLI_THREADS_MAX];

    if (cli_process_count() > 1) {
        return exg_mpi_mesh_create(&all->shape, &all->items[0].mesh, err);
    }
    EXG_TRY(exg_local_mesh_create(&all->shape, meshes, err));
    for (uint32_t r = 0; r < all->count; r++) {
        all->items[r].mesh = meshes[r];
    }
    return EXG_OK;
}

static exg_status open_ranks(cli_ranks *all, exg_error *err)
{
    for (uint32_t r = 0; r < all->count; r++) {
        rank *item = &all->items[r];
        uint32_t number = r + cli_process_rank();

        exg_error_clear(&item->error);
        EXG_TRY(cli_rank_call(all->call, number, all->arena, &item->call, err));
        item->run.call = &item->call;
        EXG_TRY_IN(err, cli_open_verified(&item->call, &item->run.program, err), "rank %u", number);
        EXG_TRY_IN(err, cli_run_read(&item->run, err), "rank %u", number);
    }
    return create_meshes(all, err);
}

/* How far an outcome is from being the cause: a rank's own fault, what it says of another, the news
 * that there is one. */
static int distance(const rank *r)
{
    return r->status == EXG_OK                     ? 3
           : r->status != EXG_PEER                 ? 0
           : strcmp(r->error.code, "COM-003") == 0 ? 2
                                                   : 1;
}

static exg_status outcome(const cli_ranks *all, exg_error *err)
{
    const rank *first = &all->items[0];

    for (uint32_t r = 1; r < all->count; r++) {
        first = distance(&all->items[r]) < distance(first) ? &all->items[r] : first;
    }
    if (first->status != EXG_OK) {
        *err = first->error;
    }
    return first->status;
}

static exg_status prepare(cli_ranks *all, exg_error *err)
{
    EXG_TRY(cli_session_options(all->call, &all->options, &all->placement, err));
    EXG_TRY(cli_parallel_options(all->call, &all->options, &all->placement, err));
    all->options.mesh = (exg_mesh_shape){0};
    all->options.processes = false;
    if (all->count > 1 && all->options.thread_count == 0) {
        all->options.thread_count = 1; /* ranks are threads */
    }
    return open_ranks(all, err);
}

static exg_status create(const cli_call *call, cli_ranks **made, exg_error *err)
{
    cli_ranks *all = calloc(1, sizeof(*all));

    *made = all;
    if (all == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    all->call = call;
    all->count = 1;
    (void)pthread_mutex_init(&all->lock, NULL);
    (void)pthread_cond_init(&all->ended, NULL);
    EXG_TRY(cli_mesh(call, &all->shape, err));
    for (uint32_t d = 0; cli_process_count() == 1 && d < all->shape.ndim; d++) {
        all->count *= all->shape.sizes[d];
    }
    EXG_TRY(all->count > 1 || cli_process_count() > 1 ? check_written(all, err) : EXG_OK);
    all->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    all->items = calloc(all->count, sizeof(*all->items));
    return all->arena == NULL || all->items == NULL ? EXG_OUT_OF_MEMORY(err) : prepare(all, err);
}

exg_status cli_ranks_run(const cli_call *call, cli_ranks **ranks, exg_error *err)
{
    exg_status status = create(call, ranks, err);

    if (status == EXG_OK) {
        cli_run_watch(true);
        status = cli_ranks_each(*ranks, begin_rank, *ranks, err);
        cli_run_watch(false);
    }
    return status;
}

uint32_t cli_ranks_count(const cli_ranks *ranks)
{
    return ranks->count;
}

cli_run *cli_ranks_at(cli_ranks *ranks, uint32_t at)
{
    return &ranks->items[at].run;
}

const exg_session_options *cli_ranks_options(const cli_ranks *ranks)
{
    return &ranks->options;
}

void cli_ranks_close(cli_ranks *all)
{
    if (all == NULL || all->lost) { /* a rank that is lost may still use it */
        return;
    }
    if (all->items != NULL && all->arena != NULL) {
        (void)cli_ranks_each(all, leave_rank, NULL, NULL); /* devices are left together */
    }
    for (uint32_t r = 0; all->items != NULL && r < all->count; r++) {
        cli_run_close(&all->items[r].run);
        exg_device_mesh_destroy(all->items[r].mesh);
    }
    cli_placement_free(&all->placement);
    free(all->items);
    exg_arena_destroy(all->arena);
    free(all);
}

exg_status cli_run_ranks(const cli_call *call, exg_error *err)
{
    cli_ranks *all = NULL;
    exg_status status = cli_ranks_run(call, &all, err);

    for (uint32_t r = 0; status == EXG_OK && r < all->count; r++) {
        status = cli_run_finish(&all->items[r].run, err);
        if (status != EXG_OK) {
            (void)exg_error_within(err, status, "rank %u", r + cli_process_rank());
        }
    }
    cli_ranks_close(all);
    return status;
}
