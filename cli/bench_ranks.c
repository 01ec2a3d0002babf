/* bench_ranks.c - runs of a program that is already parallel: all ranks begin together, and a run
 * takes as long as the slowest of them. */
#include "cli/bench.h"
#include "cli/cli.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* What ranks share while they run again and again. */
typedef struct turn {
    pthread_barrier_t barrier;
    uint64_t until; /* of the clock */
    bool goes_on;   /* as rank 0 says */
    atomic_bool failed;
    cli_bench_note_fn *note;
    void *user;
} turn;

/* Whatever happens to a rank, it comes to the barrier as often as the others. */
static exg_status run_rank(void *user, cli_run *run, uint32_t rank, exg_error *err)
{
    turn *t = user;
    exg_status status;

    do {
        uint64_t start;

        (void)pthread_barrier_wait(&t->barrier);
        start = cli_now_ns();
        status = exg_session_run(run->session, run->inputs.items, run->inputs.count, err);
        if (status != EXG_OK) {
            t->failed = true;
        }
        (void)pthread_barrier_wait(&t->barrier);
        if (rank == 0 && !t->failed) {
            status = t->note(t->user, run->session, (double)(cli_now_ns() - start), err);
            t->failed = t->failed || status != EXG_OK;
        }
        if (rank == 0) {
            t->goes_on = !t->failed && cli_now_ns() < t->until;
        }
        (void)pthread_barrier_wait(&t->barrier);
    } while (t->goes_on);
    return status;
}

exg_status cli_bench_ranks(cli_ranks *ranks, uint64_t until, cli_bench_note_fn *note, void *user,
                           exg_error *err)
{
    turn t = {.until = until, .note = note, .user = user};
    const unsigned count = cli_ranks_count(ranks);
    exg_status status;

    if (pthread_barrier_init(&t.barrier, NULL, count) != 0) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = cli_ranks_each(ranks, run_rank, &t, err);
    (void)pthread_barrier_destroy(&t.barrier);
    return status;
}
