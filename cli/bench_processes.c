/* bench_processes.c - runs by the processes that mpirun started: all run as often as the first one
 * says, and a run takes as long as the slowest of them. */
#include "cli/bench.h"
#include "cli/cli.h"

#include <exg/dtensor.h>

exg_status cli_bench_mesh(exg_device_mesh **mesh, exg_error *err)
{
    const exg_mesh_shape shape = {.ndim = 1, .sizes = {cli_process_count()}};

    *mesh = NULL;
    return cli_process_count() > 1 ? exg_mpi_mesh_create(&shape, mesh, err) : EXG_OK;
}

/* Of each number the largest that a process has, on all of them. */
static exg_status agree(exg_device_mesh *mesh, double numbers[3], exg_error *err)
{
    const exg_placement largest = exg_partial(EXG_REDUCE_MAX);
    const exg_tensor own = {
        .data = numbers, .dtype = EXG_DTYPE_F64, .rank = 1, .sizes = {3}, .strides = {1}};
    exg_dtensor *t = NULL;
    exg_dtensor *all = NULL;
    exg_status status = exg_dtensor_from_local(mesh, &own, &largest, 1, NULL, &t, err);

    status = status == EXG_OK ? exg_dtensor_full_tensor(t, &all, err) : status;
    if (status == EXG_OK) {
        const double *found = exg_dtensor_to_local(all)->data;

        for (int i = 0; i < 3; i++) {
            numbers[i] = found[i];
        }
    }
    exg_dtensor_destroy(all);
    exg_dtensor_destroy(t);
    return status;
}

exg_status cli_bench_processes(exg_device_mesh *mesh, exg_session *session,
                               const cli_inputs *inputs, uint64_t until, cli_bench_note_fn *note,
                               void *user, exg_error *err)
{
    double said[3] = {0}; /* how long a run took, whether one failed, and whether to go on */

    EXG_TRY(agree(mesh, said, err)); /* begin together */
    do {
        const uint64_t start = cli_now_ns();
        exg_status status = exg_session_run(session, inputs->items, inputs->count, err);

        said[0] = (double)(cli_now_ns() - start);
        said[1] = status != EXG_OK;
        said[2] = cli_process_rank() == 0 && cli_now_ns() < until;
        if (status != EXG_OK) {
            (void)agree(mesh, said, NULL);
            return status;
        }
        EXG_TRY(agree(mesh, said, err));
        if (said[1] != 0) {
            return EXG_FAIL(err, PEER, "COM-003", "another process could not run it");
        }
        EXG_TRY(note(user, session, said[0], err));
    } while (said[2] != 0);
    return EXG_OK;
}
