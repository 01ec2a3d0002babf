/* mpi_plugin.c - the exchange over MPI: a receive and a send for each rank that has
 * something for another, watched until they are done, the deadline passes or a rank calls
 * the run off.
 */
#include "libexec/comm/mpi_plugin.h"

#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PART_BYTES (UINT64_C(1) << 30) /* of one message: MPI counts in int */
#define TURNS      16384               /* tags of exchanges, in turn */
#define ABORT_TAG  (TURNS + 1)
#define SPINS      64

struct exg_mpi_group {
    MPI_Comm comm;
    int rank, size;
};

static int own_init; /* MPI itself is the process's; this says who began it */

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static exg_mpi_outcome adopt(MPI_Comm comm, exg_mpi_group **group, uint32_t *rank, uint32_t *size)
{
    exg_mpi_group *made = calloc(1, sizeof(*made));

    *group = made;
    if (made == NULL) {
        return EXG_MPI_FAILED;
    }
    made->comm = comm;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &made->rank);
    MPI_Comm_size(comm, &made->size);
    *rank = (uint32_t)made->rank;
    *size = (uint32_t)made->size;
    return EXG_MPI_DONE;
}

static exg_mpi_outcome start(exg_mpi_group **world, uint32_t *rank, uint32_t *size)
{
    int initialized = 0;
    int provided;
    MPI_Comm own;

    MPI_Initialized(&initialized);
    if (!initialized) {
        if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) {
            return EXG_MPI_FAILED;
        }
        own_init = 1;
    }
    if (MPI_Comm_dup(MPI_COMM_WORLD, &own) != MPI_SUCCESS) {
        return EXG_MPI_FAILED;
    }
    return adopt(own, world, rank, size);
}

/* ---- exchange -------------------------------------------------------------------------- */

static uint64_t parts_of(uint64_t bytes)
{
    return (bytes + PART_BYTES - 1) / PART_BYTES;
}

typedef struct traffic {
    MPI_Request *requests;
    int *peers;      /* by request */
    int *expected;   /* bytes of a receive; -1 of a send */
    int count;
} traffic;

static bool post(traffic *t, const exg_mpi_group *g, const exg_segment *segment, int peer,
                 bool sends, int tag)
{
    for (uint64_t at = 0; at < segment->bytes; at += PART_BYTES) {
        uint64_t left = segment->bytes - at;
        int bytes = (int)(left < PART_BYTES ? left : PART_BYTES);
        char *data = (char *)segment->data + at;

        t->peers[t->count] = peer;
        t->expected[t->count] = sends ? -1 : bytes;
        if ((sends ? MPI_Isend(data, bytes, MPI_BYTE, peer, tag, g->comm,
                               &t->requests[t->count])
                   : MPI_Irecv(data, bytes, MPI_BYTE, peer, tag, g->comm,
                               &t->requests[t->count])) != MPI_SUCCESS) {
            return false;
        }
        t->count++;
    }
    return true;
}

static exg_mpi_outcome finish(const traffic *t, int index, const MPI_Status *status, int result,
                              uint32_t *peer)
{
    int bytes = 0;

    *peer = (uint32_t)t->peers[index];
    if (result != MPI_SUCCESS) {
        int kind = MPI_ERR_OTHER;

        MPI_Error_class(result, &kind);
        return kind == MPI_ERR_TRUNCATE ? EXG_MPI_MISMATCH : EXG_MPI_FAILED;
    }
    if (t->expected[index] >= 0 && MPI_Get_count(status, MPI_BYTE, &bytes) == MPI_SUCCESS &&
        bytes != t->expected[index]) {
        return EXG_MPI_MISMATCH;
    }
    return EXG_MPI_DONE;
}

static bool called_off(const exg_mpi_group *g)
{
    int flag = 0;

    MPI_Iprobe(MPI_ANY_SOURCE, ABORT_TAG, g->comm, &flag, MPI_STATUS_IGNORE);
    return flag != 0;
}

/* What has not come is given up; what was not taken stays MPI's. */
static void give_up(traffic *t)
{
    for (int i = 0; i < t->count; i++) {
        if (t->requests[i] != MPI_REQUEST_NULL) {
            if (t->expected[i] >= 0) {
                MPI_Cancel(&t->requests[i]);
            }
            MPI_Request_free(&t->requests[i]);
        }
    }
}

static exg_mpi_outcome watch(const exg_mpi_group *g, traffic *t, uint64_t deadline_ns,
                             uint32_t *peer)
{
    uint64_t start_ns = now_ns();
    uint64_t spins = 0;

    for (int left = t->count; left > 0; spins++) {
        left = 0;
        for (int i = 0; i < t->count; i++) {
            MPI_Status status;
            exg_mpi_outcome outcome;
            int flag = 0;
            int result;

            if (t->requests[i] == MPI_REQUEST_NULL) {
                continue;
            }
            result = MPI_Test(&t->requests[i], &flag, &status);
            if (!flag && result == MPI_SUCCESS) {
                *peer = (uint32_t)t->peers[i];
                left++;
                continue;
            }
            outcome = finish(t, i, &status, result, peer);
            if (outcome != EXG_MPI_DONE) {
                return outcome;
            }
        }
        if (left > 0 && spins % SPINS == SPINS - 1) {
            if (called_off(g)) {
                return EXG_MPI_ABORTED;
            }
            if (now_ns() - start_ns > deadline_ns) {
                return EXG_MPI_LATE;
            }
            sched_yield();
        }
    }
    return EXG_MPI_DONE;
}

static exg_mpi_outcome exchange(exg_mpi_group *g, const exg_segment *send,
                                const exg_segment *receive, uint64_t turn, uint64_t deadline_ns,
                                uint32_t *peer)
{
    traffic t = {0};
    uint64_t most = 1;
    int tag = (int)(turn % TURNS);
    bool posted = true;
    exg_mpi_outcome outcome = EXG_MPI_FAILED;

    for (int r = 0; r < g->size; r++) {
        most += parts_of(send[r].bytes) + parts_of(receive[r].bytes);
    }
    *peer = (uint32_t)g->rank;
    if (send[g->rank].bytes != receive[g->rank].bytes) {
        return EXG_MPI_MISMATCH;
    }
    if (send[g->rank].bytes > 0 && send[g->rank].data != receive[g->rank].data) {
        memcpy(receive[g->rank].data, send[g->rank].data, send[g->rank].bytes);
    }
    t.requests = calloc((size_t)most, sizeof(*t.requests));
    t.peers = calloc((size_t)most, sizeof(*t.peers));
    t.expected = calloc((size_t)most, sizeof(*t.expected));
    if (t.requests != NULL && t.peers != NULL && t.expected != NULL) {
        for (int i = 1; posted && i < g->size; i++) {
            int from = (g->rank + i) % g->size;

            posted = post(&t, g, &receive[from], from, false, tag);
        }
        for (int i = 1; posted && i < g->size; i++) {
            int to = (g->rank + g->size - i) % g->size;

            posted = post(&t, g, &send[to], to, true, tag);
        }
        outcome = posted ? watch(g, &t, deadline_ns, peer) : EXG_MPI_FAILED;
        if (outcome != EXG_MPI_DONE) {
            give_up(&t);
        }
    }
    free(t.requests);
    free(t.peers);
    free(t.expected);
    return outcome;
}

/* ---- the rest ---------------------------------------------------------------------------- */

static exg_mpi_outcome split(exg_mpi_group *g, uint32_t color, exg_mpi_group **out, uint32_t *rank,
                             uint32_t *size)
{
    MPI_Comm part;

    *out = NULL;
    if (MPI_Comm_split(g->comm, color == EXG_NO_COLOR ? MPI_UNDEFINED : (int)color, g->rank,
                       &part) != MPI_SUCCESS) {
        return EXG_MPI_FAILED;
    }
    return part == MPI_COMM_NULL ? EXG_MPI_DONE : adopt(part, out, rank, size);
}

static void call_off(exg_mpi_group *g)
{
    for (int r = 0; r < g->size; r++) {
        MPI_Request request;

        if (r != g->rank &&
            MPI_Isend(NULL, 0, MPI_BYTE, r, ABORT_TAG, g->comm, &request) == MPI_SUCCESS) {
            MPI_Request_free(&request);
        }
    }
}

static void close_group(exg_mpi_group *g)
{
    int finalized = 0;

    MPI_Finalized(&finalized);
    if (!finalized) {
        MPI_Comm_free(&g->comm);
    }
    free(g);
}

static void stop(void)
{
    int finalized = 0;

    MPI_Finalized(&finalized);
    if (own_init && !finalized) {
        MPI_Finalize();
    }
}

static void kill_job(int code)
{
    MPI_Abort(MPI_COMM_WORLD, code);
}

extern const exg_mpi_plugin exg_mpi_plugin_table;

__attribute__((visibility("default"))) const exg_mpi_plugin exg_mpi_plugin_table = {
    .version = EXG_MPI_PLUGIN_VERSION,
    .start = start,
    .exchange = exchange,
    .split = split,
    .abort = call_off,
    .close = close_group,
    .stop = stop,
    .kill_job = kill_job,
};
