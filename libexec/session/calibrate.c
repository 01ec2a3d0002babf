/* calibrate.c - what work and moves take on this machine: work as calibrate_work.c has it, a short
 * and a long all-reduce between threads or processes. Each is the shortest of several batches, for
 * one all-reduce alone may find that the others were there before.
 */
#include "libexec/comm/attendance.h"
#include "libexec/comm/collectives.h"
#include "libexec/comm/team.h"
#include "libexec/session/calibrate_work.h"
#include "libexec/session/context.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"

#include <stdlib.h>
#include <string.h>

#define LONG_BYTES (UINT64_C(4) << 20)
#define TIMES      7
#define RANKS_MAX  64

/* ---- links ------------------------------------------------------------------------------ */

typedef struct exchange {
    exg_communicator *ranks[RANKS_MAX];
    exg_tensor in[RANKS_MAX], out[RANKS_MAX];
    exg_collective what[RANKS_MAX];
    void *workspaces[RANKS_MAX];
    uint32_t batch;
    uint64_t shortest; /* of one in a batch, as rank 0 sees it */
} exchange;

static void reduce_often(void *context, uint32_t r)
{
    exchange *x = context;

    for (int i = 0; i < TIMES; i++) {
        uint64_t start = exg_now_ns();
        uint64_t took;

        for (uint32_t n = 0; n < x->batch; n++) {
            (void)exg_collective_run(x->ranks[r], &x->what[r], x->workspaces[r], NULL);
        }
        took = (exg_now_ns() - start) / x->batch;
        if (r == 0 && took < x->shortest) {
            x->shortest = took;
        }
    }
}

/* Rank `r`'s part of an all-reduce of so many bytes. */
static bool prepare_rank(exchange *x, uint32_t r, uint64_t bytes)
{
    exg_tensor whole = {.dtype = EXG_DTYPE_F32,
                        .rank = 1,
                        .sizes = {(int64_t)(bytes / sizeof(float))},
                        .strides = {1}};

    x->in[r] = x->out[r] = whole;
    x->what[r] = (exg_collective){
        .kind = EXG_ALL_REDUCE, .in = &x->in[r], .out = &x->out[r], .op = EXG_REDUCE_SUM};
    x->in[r].data = calloc(1, bytes);
    x->out[r].data = calloc(1, bytes);
    x->workspaces[r] = malloc(exg_collective_workspace(x->ranks[r], &x->what[r]) + 1);
    return x->in[r].data != NULL && x->out[r].data != NULL && x->workspaces[r] != NULL;
}

static exg_status time_threads(exchange *x, uint32_t ranks, exg_error *err)
{
    exg_team *team;

    EXG_TRY(exg_team_create(ranks, &team, err));
    exg_team_run(team, reduce_often, x);
    exg_team_destroy(team);
    return EXG_OK;
}

/* Between threads, or with `world` between processes, of which this is one. */
static exg_status time_reduce(uint32_t ranks, exg_communicator *world, uint64_t bytes,
                              uint64_t *shortest, exg_error *err)
{
    exchange x = {.batch = bytes < LONG_BYTES ? 200 : 3, .shortest = UINT64_MAX};
    uint32_t here = world == NULL ? ranks : 1;
    exg_status status = EXG_OK;

    if (world == NULL) {
        EXG_TRY(exg_local_create(ranks, x.ranks, err));
    } else {
        x.ranks[0] = world;
    }
    for (uint32_t r = 0; r < here; r++) {
        status = prepare_rank(&x, r, bytes) ? status : EXG_OUT_OF_MEMORY(err);
    }
    if (status == EXG_OK && world == NULL) {
        status = time_threads(&x, ranks, err);
    } else if (status == EXG_OK) {
        reduce_often(&x, 0);
        status = exg_broadcast_bytes(world, &x.shortest, sizeof(x.shortest), 0, err);
    }
    *shortest = x.shortest;
    for (uint32_t r = 0; r < here; r++) {
        free(x.in[r].data);
        free(x.out[r].data);
        free(x.workspaces[r]);
        if (world == NULL) {
            exg_communicator_close(x.ranks[r]);
        }
    }
    return status;
}

/* Cores that all ranks have together, where each node has as many ranks as this one. */
static double cores_of(uint32_t ranks, const exg_communicator *world)
{
    uint32_t here = world == NULL ? ranks : exg_local_processes();

    return here == 0 ? 0 : (double)exg_core_count() * ranks / here;
}

static exg_status measure(uint32_t ranks, exg_communicator *world, exg_costs *costs, exg_error *err)
{
    double others = 2.0 * (ranks - 1) / ranks;
    uint32_t cores = exg_core_count();
    uint64_t message;
    uint64_t moved;

    costs->cores = cores_of(ranks, world);
    cores = world != NULL ? 1 : ranks < cores ? ranks : cores; /* processes all do it at once */
    EXG_TRY(exg_calibrate_work(cores, costs, err));
    EXG_TRY(time_reduce(ranks, world, sizeof(double), &message, err));
    EXG_TRY(time_reduce(ranks, world, LONG_BYTES, &moved, err));
    for (uint32_t d = 0; d < EXG_MESH_DIMS_MAX; d++) {
        double bytes =
            (double)(moved > message ? moved - message : 0) / (others * (double)LONG_BYTES);

        costs->links[d] = (exg_link){.message_ns = (double)message, .ns_per_byte = bytes};
    }
    return EXG_OK;
}

exg_status exg_costs_measure(uint32_t ranks, bool processes, exg_costs *costs, exg_error *err)
{
    EXG_REQUIRE(err, costs);
    exg_communicator *world = NULL;
    exg_costs measured;
    exg_status status;

    EXG_TRY(EXG_READ_OPTIONS(exg_costs, &measured, costs, err));
    exg_costs_init(&measured, sizeof(measured));
    if (ranks < 2 || (!processes && ranks > RANKS_MAX)) {
        return EXG_FAIL(err, USAGE, "PLC-008", "%u ranks; 2 to %d can be measured", ranks,
                        RANKS_MAX);
    }
    if (processes) {
        EXG_TRY(exg_mpi_create(ranks, EXG_DEADLINE_NS, &world, err));
    }
    status = measure(ranks, world, &measured, err);
    if (status != EXG_OK && world != NULL) {
        exg_communicator_abort(world, status);
    }
    exg_communicator_close(world);
    if (status == EXG_OK) {
        EXG_WRITE_OPTIONS(exg_costs, costs, &measured);
    }
    return status;
}
