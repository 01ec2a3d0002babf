/* comm_mpi.c - an all-reduce between processes beside MPI's own: mpirun -n 2 bench_comm_mpi.
 * Medians of interleaved runs, as rank 0 sees them.
 */
#include "libexec/comm/collectives.h"
#include "tests/bench/timing.h"

#include <exg/device_mesh.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define RUNS 21

static void bench(exg_communicator *c, uint64_t bytes)
{
    static double times[2][RUNS];
    int loops = bytes <= 65536 ? 500 : bytes <= (1 << 20) ? 20 : 1;
    int runs = bytes > (1 << 20) ? 11 : RUNS;
    int count = (int)(bytes / sizeof(float));
    exg_tensor in = {.dtype = EXG_DTYPE_F32, .rank = 1, .sizes = {count}, .strides = {1}};
    exg_tensor out = in;
    exg_collective what = {.kind = EXG_ALL_REDUCE, .in = &in, .out = &out};
    void *workspace = malloc(exg_collective_workspace(c, &what) + 1);

    in.data = calloc(1, bytes);
    out.data = calloc(1, bytes);
    memset(in.data, 1, bytes);
    memset(out.data, 1, bytes);
    for (int i = 0; i < runs; i++) {
        double start;

        MPI_Barrier(MPI_COMM_WORLD);
        start = now_ns();
        for (int n = 0; n < loops; n++) {
            (void)exg_collective_run(c, &what, workspace, NULL);
        }
        times[0][i] = (now_ns() - start) / loops;
        MPI_Barrier(MPI_COMM_WORLD);
        start = now_ns();
        for (int n = 0; n < loops; n++) {
            MPI_Allreduce(in.data, out.data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        }
        times[1][i] = (now_ns() - start) / loops;
    }
    if (c->rank == 0) {
        double ours = median(times[0], runs);
        double theirs = median(times[1], runs);

        printf("all-reduce of %8llu bytes, %u processes: %10.0f ns, MPI_Allreduce %10.0f ns: "
               "%.2f\n",
               (unsigned long long)bytes, c->size, ours, theirs, ours / theirs);
    }
    free(in.data);
    free(out.data);
    free(workspace);
}

int main(void)
{
    static const uint64_t sizes[] = {8, 1024, 65536, 1 << 20, 64 << 20};
    const char *processes = getenv("OMPI_COMM_WORLD_SIZE");
    exg_communicator *world;
    exg_error err;

    if (processes == NULL ||
        exg_mpi_create((uint32_t)atoi(processes), EXG_DEADLINE_NS, &world, &err) != EXG_OK) {
        fprintf(stderr, "start it as mpirun -n 2 bench_comm_mpi\n");
        return 1;
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        bench(world, sizes[i]);
    }
    exg_communicator_close(world);
    exg_mpi_finish();
    return 0;
}
