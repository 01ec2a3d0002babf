/* cmd_run.c - exg run FILE: on one rank, on a mesh, or what each rank has by itself. */
#include "cli/cli.h"

#include <exg/transform.h>
#include <stddef.h>
#include <string.h>

#define PATH_ROOM 4096

/* Told before the run, not after it. */
static exg_status check_names(const cli_call *call, exg_error *err)
{
    const char *const paths[] = {call->output, call->state_output, call->dump};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        EXG_TRY(paths[i] == NULL ? EXG_OK : exg_tensor_file_check_name(paths[i], err));
    }
    return EXG_OK;
}

/* On one rank, or on a mesh whose ranks share what the program says. */
static exg_status run_whole(cli_run *run, exg_error *err)
{
    exg_session_options options;
    cli_placement placement;
    exg_status status = cli_session_options(run->call, &options, &placement, err);

    if (status == EXG_OK &&
        exg_program_has_collectives(run->program.program, run->program.operators)) {
        status = cli_parallel_options(run->call, &options, &placement, err);
    }
    if (status == EXG_OK) {
        cli_run_watch(true);
        status = cli_run_begin(run, 0, &options, err);
        cli_run_watch(false);
    }
    status = status == EXG_OK ? cli_run_finish(run, err) : status;
    cli_run_leave(run);
    cli_placement_free(&placement);
    return status;
}

exg_status cmd_run(const cli_call *call, exg_error *err)
{
    cli_call own = *call;
    cli_run run = {.call = call};
    char trace[PATH_ROOM];
    exg_status status = EXG_OK;

    EXG_TRY(check_names(call, err));
    if (call->rank_file != NULL) {
        return cli_run_ranks(call, err);
    }
    EXG_TRY(cli_open_verified(call, &run.program, err));
    if (cli_is_parallel(call, &run.program)) {
        cli_run_close(&run);
        return cli_run_ranks(call, err);
    }
    status = cli_check_no_ranks(call, err);
    if (status == EXG_OK && call->trace != NULL) { /* each process may have one */
        status = cli_rank_name(call->trace, cli_process_rank(), trace, sizeof(trace), err);
        own.trace = call->is_quiet && strcmp(trace, call->trace) == 0 ? NULL : trace;
    }
    run.call = &own;
    status = status == EXG_OK ? cli_run_read(&run, err) : status;
    if (call->is_quiet) { /* all ranks watch what one of them writes */
        own.output = own.state_output = own.dump = NULL;
    }
    status = status == EXG_OK ? run_whole(&run, err) : status;
    cli_run_close(&run);
    return status;
}
