/* mpi_plugin.c - the exchange over MPI: a receive and a send for each rank that has
 * something for another, posted when it begins; finishing it watches the receives, settling
 * the sends, until they are done, the deadline passes or a rank calls the run off.
 */
#include "libexec/comm/mpi_plugin.h"
#include "libexport/base/clock.h"

#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#ifndef UNIT_BYTES /* of what is counted where bytes are too many for an int */
#define UNIT_BYTES (UINT64_C(1) << 30)
#endif
#define TURNS     16384 /* tags of exchanges, in turn */
#define ABORT_TAG (TURNS + 1)
#define SPINS     256 /* between looks at the clock and for an end called */
#define STOP_NS   (UINT64_C(60) * 1000000000u) /* for the last rank to end too */

/* Of one exchange: its receives, then its sends. */
typedef struct traffic {
    MPI_Request *requests;
    int *peers;          /* by request */
    MPI_Count *expected; /* bytes of a receive; -1 of a send */
    int receives, count;
} traffic;

struct exg_mpi_group {
    MPI_Comm comm;
    int rank, size;
    const exg_stop *stop; /* NULL: nobody's */
    bool broken; /* an exchange failed: nothing that waits for others is called on it again */
    traffic under_way[EXG_EXCHANGES_MAX]; /* by turn */
};

static int own_init; /* MPI itself is the process's; this says who began it */

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

/* ---- calls that wait for other ranks ------------------------------------------------- */

/* MPI_Init and MPI_Comm_split return when all ranks have come, and know no deadline. They
 * are made by a thread of their own, for which the caller waits as long as it likes. That
 * thread is MPI's main one: it also ends MPI. */
typedef enum errand_kind { ERRAND_NONE, ERRAND_START, ERRAND_SPLIT, ERRAND_STOP } errand_kind;

static struct server {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool started;
    errand_kind errand; /* to do, or being done */
    MPI_Comm of;        /* SPLIT */
    int color, key;
    MPI_Comm made;
    bool failed;
} server = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static bool start_mpi(MPI_Comm *world)
{
    int initialized = 0;
    int provided;

    MPI_Initialized(&initialized);
    if (!initialized) {
        if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) {
            return false;
        }
        own_init = 1;
    }
    return MPI_Comm_dup(MPI_COMM_WORLD, world) == MPI_SUCCESS;
}

static void stop_mpi(void)
{
    int finalized = 0;

    MPI_Finalized(&finalized);
    if (own_init && !finalized) {
        MPI_Finalize();
    }
}

static void *serve(void *unused)
{
    pthread_mutex_lock(&server.lock);
    for (;;) {
        errand_kind errand = server.errand;
        MPI_Comm made = MPI_COMM_NULL;
        bool done = true;

        if (errand == ERRAND_NONE) {
            pthread_cond_wait(&server.moved, &server.lock);
            continue;
        }
        pthread_mutex_unlock(&server.lock);
        if (errand == ERRAND_START) {
            done = start_mpi(&made);
        } else if (errand == ERRAND_SPLIT) {
            done = MPI_Comm_split(server.of, server.color, server.key, &made) == MPI_SUCCESS;
        } else {
            stop_mpi();
        }
        pthread_mutex_lock(&server.lock);
        server.made = made;
        server.failed = !done;
        server.errand = ERRAND_NONE;
        pthread_cond_broadcast(&server.moved);
    }
    return unused;
}

/* Has `errand` done, or gives up waiting for it: then it is still under way, and nothing
 * else is begun. */
static exg_mpi_outcome send_for(errand_kind errand, MPI_Comm of, int color, int key,
                                uint64_t deadline_ns, MPI_Comm *made)
{
    uint64_t limit = exg_now_ns() + deadline_ns;
    exg_mpi_outcome outcome = EXG_MPI_DONE;
    pthread_t thread;

    pthread_mutex_lock(&server.lock);
    if (!server.started) {
        if (pthread_create(&thread, NULL, serve, NULL) != 0) {
            pthread_mutex_unlock(&server.lock);
            return EXG_MPI_FAILED;
        }
        pthread_detach(thread);
        server.started = true;
    }
    if (server.errand != ERRAND_NONE) {
        pthread_mutex_unlock(&server.lock);
        return EXG_MPI_LATE;
    }
    server.errand = errand;
    server.of = of;
    server.color = color;
    server.key = key;
    pthread_cond_broadcast(&server.moved);
    while (server.errand != ERRAND_NONE && outcome == EXG_MPI_DONE) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 20 * 1000 * 1000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&server.moved, &server.lock, &until);
        if (server.errand != ERRAND_NONE && exg_now_ns() > limit) {
            outcome = EXG_MPI_LATE;
        }
    }
    if (outcome == EXG_MPI_DONE) {
        outcome = server.failed ? EXG_MPI_FAILED : EXG_MPI_DONE;
        *made = server.made;
    }
    pthread_mutex_unlock(&server.lock);
    return outcome;
}

static exg_mpi_outcome start(uint64_t deadline_ns, exg_mpi_group **world, uint32_t *rank,
                             uint32_t *size)
{
    MPI_Comm own;
    exg_mpi_outcome outcome = send_for(ERRAND_START, MPI_COMM_NULL, 0, 0, deadline_ns, &own);

    return outcome == EXG_MPI_DONE ? adopt(own, world, rank, size) : outcome;
}

/* ---- exchange -------------------------------------------------------------------------- */

static void free_type(MPI_Datatype *type)
{
    if (*type != MPI_DATATYPE_NULL) {
        MPI_Type_free(type);
    }
}

/* Runs of bytes, as an exg_segment says. MPI counts in int, so a run may have to be units of many
 * bytes and what is left. */
static bool make_type(const exg_segment *segment, MPI_Datatype *type)
{
    uint64_t run = segment->run == 0 ? segment->bytes : segment->run;
    uint64_t rows = segment->bytes / run;
    int lengths[2] = {(int)(run / UNIT_BYTES), (int)(run % UNIT_BYTES)};
    MPI_Aint places[2] = {0, (MPI_Aint)(run - run % UNIT_BYTES)};
    MPI_Datatype types[2] = {MPI_DATATYPE_NULL, MPI_BYTE};
    MPI_Datatype whole = MPI_DATATYPE_NULL;
    bool made = rows <= INT_MAX;

    if (made && lengths[0] == 0) {
        made = MPI_Type_create_hvector((int)rows, (int)run, (MPI_Aint)segment->pitch, MPI_BYTE,
                                       type) == MPI_SUCCESS;
    } else if (made) {
        made = MPI_Type_contiguous((int)UNIT_BYTES, MPI_BYTE, &types[0]) == MPI_SUCCESS &&
               MPI_Type_create_struct(2, lengths, places, types, &whole) == MPI_SUCCESS &&
               MPI_Type_create_hvector((int)rows, 1, (MPI_Aint)segment->pitch, whole, type) ==
                   MPI_SUCCESS;
        free_type(&whole);
        free_type(&types[0]);
    }
    return made && MPI_Type_commit(type) == MPI_SUCCESS;
}

static bool post(traffic *t, const exg_mpi_group *g, const exg_segment *segment, int peer,
                 bool sends, int tag)
{
    bool is_plain = segment->run == 0 && segment->bytes < UNIT_BYTES;
    int count = is_plain ? (int)segment->bytes : 1;
    MPI_Datatype type = is_plain ? MPI_BYTE : MPI_DATATYPE_NULL;
    MPI_Request *request = &t->requests[t->count];
    int result;

    if (segment->bytes == 0) {
        return true;
    }
    if (!is_plain && !make_type(segment, &type)) {
        free_type(&type);
        return false;
    }
    t->peers[t->count] = peer;
    t->expected[t->count] = sends ? -1 : (MPI_Count)segment->bytes;
    result = sends ? MPI_Isend(segment->data, count, type, peer, tag, g->comm, request)
                   : MPI_Irecv(segment->data, count, type, peer, tag, g->comm, request);
    if (!is_plain) {
        free_type(&type); /* of what is under way it stays until that is done */
    }
    t->count += result == MPI_SUCCESS;
    return result == MPI_SUCCESS;
}

static exg_mpi_outcome finish_request(const traffic *t, int index, const MPI_Status *status,
                                      int result, uint32_t *peer)
{
    MPI_Count bytes = 0;

    *peer = (uint32_t)t->peers[index];
    if (result != MPI_SUCCESS) {
        int kind = MPI_ERR_OTHER;

        MPI_Error_class(result, &kind);
        return kind == MPI_ERR_TRUNCATE ? EXG_MPI_MISMATCH : EXG_MPI_FAILED;
    }
    if (t->expected[index] >= 0 && MPI_Get_elements_x(status, MPI_BYTE, &bytes) == MPI_SUCCESS &&
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
static void give_up(exg_mpi_group *g)
{
    g->broken = true;
    for (int s = 0; s < EXG_EXCHANGES_MAX; s++) {
        traffic *t = &g->under_way[s];

        for (int i = 0; i < t->count; i++) {
            if (t->requests[i] != MPI_REQUEST_NULL) {
                if (t->expected[i] >= 0) {
                    MPI_Cancel(&t->requests[i]);
                }
                MPI_Request_free(&t->requests[i]);
            }
        }
        t->count = 0;
    }
}

/* Until requests first..end-1 are done. */
static exg_mpi_outcome watch(const exg_mpi_group *g, traffic *t, int first, int end,
                             uint64_t deadline_ns, uint32_t *peer)
{
    uint64_t start_ns = 0;
    uint64_t spins = 0;

    for (int left = end - first; left > 0; spins++) {
        left = 0;
        for (int i = first; i < end; i++) {
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
            outcome = finish_request(t, i, &status, result, peer);
            if (outcome != EXG_MPI_DONE) {
                return outcome;
            }
        }
        if (left > 0 && spins % SPINS == SPINS - 1) {
            start_ns = start_ns == 0 ? exg_now_ns() : start_ns;
            if (called_off(g)) {
                return EXG_MPI_ABORTED;
            }
            if (exg_stop_is_due(g->stop)) {
                return EXG_MPI_STOPPED;
            }
            if (exg_now_ns() - start_ns > deadline_ns) {
                return EXG_MPI_LATE;
            }
            sched_yield();
        }
    }
    return EXG_MPI_DONE;
}

static exg_mpi_outcome watched(exg_mpi_group *g, exg_mpi_outcome outcome)
{
    if (outcome != EXG_MPI_DONE) {
        give_up(g);
    }
    return outcome;
}

static bool reserve(traffic *t, int size)
{
    size_t count = 2 * (size_t)size; /* what comes and what goes, of each rank */

    if (t->requests == NULL) {
        t->requests = calloc(count, sizeof(*t->requests));
        t->peers = calloc(count, sizeof(*t->peers));
        t->expected = calloc(count, sizeof(*t->expected));
    }
    return t->requests != NULL && t->peers != NULL && t->expected != NULL;
}

static exg_mpi_outcome post_all(exg_mpi_group *g, traffic *t, uint64_t turn,
                                const exg_segment *send, const exg_segment *receive)
{
    int tag = (int)(turn % TURNS);
    bool posted = reserve(t, g->size);

    for (int i = 1; posted && i < g->size; i++) {
        int from = (g->rank + i) % g->size;

        posted = post(t, g, &receive[from], from, false, tag);
    }
    t->receives = t->count;
    for (int i = 1; posted && i < g->size; i++) {
        int to = (g->rank + g->size - i) % g->size;

        posted = post(t, g, &send[to], to, true, tag);
    }
    return posted ? EXG_MPI_DONE : EXG_MPI_FAILED;
}

static exg_mpi_outcome begin(exg_mpi_group *g, uint64_t turn, const exg_segment *send,
                             const exg_segment *receive, uint64_t deadline_ns, uint32_t *peer)
{
    traffic *t = &g->under_way[turn % EXG_EXCHANGES_MAX];
    exg_mpi_outcome outcome = watch(g, t, 0, t->count, deadline_ns, peer);

    t->count = t->receives = 0;
    return watched(g, outcome == EXG_MPI_DONE ? post_all(g, t, turn, send, receive) : outcome);
}

static exg_mpi_outcome finish(exg_mpi_group *g, uint64_t turn, uint64_t deadline_ns, uint32_t *peer)
{
    traffic *t = &g->under_way[turn % EXG_EXCHANGES_MAX];

    return watched(g, watch(g, t, 0, t->receives, deadline_ns, peer));
}

static exg_mpi_outcome settle(exg_mpi_group *g, uint64_t turn, uint64_t deadline_ns, uint32_t *peer)
{
    traffic *t = &g->under_way[turn % EXG_EXCHANGES_MAX];

    return watched(g, watch(g, t, t->receives, t->count, deadline_ns, peer));
}

/* ---- the rest ---------------------------------------------------------------------------- */

static exg_mpi_outcome split(exg_mpi_group *g, uint32_t color, uint64_t deadline_ns,
                             exg_mpi_group **out, uint32_t *rank, uint32_t *size)
{
    MPI_Comm part;
    exg_mpi_outcome outcome =
        send_for(ERRAND_SPLIT, g->comm, color == EXG_NO_COLOR ? MPI_UNDEFINED : (int)color, g->rank,
                 deadline_ns, &part);

    *out = NULL;
    return outcome != EXG_MPI_DONE || part == MPI_COMM_NULL ? outcome
                                                            : adopt(part, out, rank, size);
}

static void call_off(exg_mpi_group *g)
{
    g->broken = true;
    for (int r = 0; r < g->size; r++) {
        MPI_Request request;

        if (r != g->rank &&
            MPI_Isend(NULL, 0, MPI_BYTE, r, ABORT_TAG, g->comm, &request) == MPI_SUCCESS) {
            MPI_Request_free(&request);
        }
    }
}

static bool is_aborted(exg_mpi_group *g)
{
    return g->broken || called_off(g);
}

static void watch_stop(exg_mpi_group *g, const exg_stop *stop)
{
    g->stop = stop;
}

static void close_group(exg_mpi_group *g)
{
    int finalized = 0;

    g->stop = NULL;
    MPI_Finalized(&finalized);
    if (!finalized && !g->broken) {
        for (int s = 0; s < EXG_EXCHANGES_MAX; s++) { /* what others have still to take */
            traffic *t = &g->under_way[s];
            uint32_t peer;

            (void)watch(g, t, 0, t->count, STOP_NS, &peer);
        }
        MPI_Comm_free(&g->comm);
    }
    for (int s = 0; s < EXG_EXCHANGES_MAX; s++) {
        free(g->under_way[s].requests);
        free(g->under_way[s].peers);
        free(g->under_way[s].expected);
    }
    free(g);
}

static void stop(void)
{
    MPI_Comm none;

    if (server.started) {
        (void)send_for(ERRAND_STOP, MPI_COMM_NULL, 0, 0, STOP_NS, &none);
    }
}

extern const exg_mpi_plugin exg_mpi_plugin_table;

__attribute__((visibility("default"))) const exg_mpi_plugin exg_mpi_plugin_table = {
    .version = EXG_MPI_PLUGIN_VERSION,
    .start = start,
    .begin = begin,
    .finish = finish,
    .settle = settle,
    .split = split,
    .abort = call_off,
    .is_aborted = is_aborted,
    .watch = watch_stop,
    .close = close_group,
    .stop = stop,
};
