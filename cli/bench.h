/* bench.h - what exg bench measures, and how it is told. */
#ifndef EXG_CLI_BENCH_H
#define EXG_CLI_BENCH_H

#include "cli/cli.h"
#include "cli/profile.h"

/* What this machine does at best, by a product and by a copy of tensors of f32, with as many
 * threads as the sessions have. */
typedef struct cli_ceilings {
    double flops_per_s, bytes_per_s;
} cli_ceilings;

exg_status cli_measure_ceilings(const exg_session_options *options, cli_ceilings *ceilings,
                                exg_error *err);

/* Runs of a program that is already parallel, once and then until that time of the clock: note() is
 * told, by rank 0, how long the slowest rank took. A fault of a rank, or of note(), ends them. */
typedef exg_status cli_bench_note_fn(void *user, exg_session *rank0, double ns, exg_error *err);
exg_status cli_bench_ranks(cli_ranks *ranks, uint64_t until, cli_bench_note_fn *note, void *user,
                           exg_error *err);

/* All processes that mpirun started, on one mesh; NULL: there is one alone. Collective. */
exg_status cli_bench_mesh(exg_device_mesh **mesh, exg_error *err);
/* The same by all of them, each of which has a session and calls it: note() is told of each run on
 * all. */
exg_status cli_bench_processes(exg_device_mesh *mesh, exg_session *session,
                               const cli_inputs *inputs, uint64_t until, cli_bench_note_fn *note,
                               void *user, exg_error *err);

#define CLI_BENCH_ROUNDS 20 /* in which sides take turns */

/* One of the things measured; times in nanoseconds. */
typedef struct cli_bench_side {
    const char *name; /* "A", "B" */
    const char *file;
    double *times; /* of all runs of all sessions, sorted */
    uint32_t count;
    double seconds;                   /* in which they were run */
    double medians[CLI_BENCH_ROUNDS]; /* of each round */
    cli_profile_row *operators;       /* of a run, the shortest of several apart */
    uint32_t operator_count;
} cli_bench_side;

typedef struct cli_bench_report {
    const cli_call *call;
    const cli_inputs *inputs;
    const cli_bench_side *sides;
    uint32_t side_count, sessions, rounds;
    uint32_t threads; /* of a session; 0: all cores */
    uint32_t ranks;   /* of a program that is already parallel, each with a session; else 1 */
    cli_ceilings ceilings;
} cli_bench_report;

exg_status cli_put_bench(const cli_bench_report *report, exg_error *err);

#endif
