/* local.c - ranks as threads: an exchange posts pointers, waits for all, copies
 * what is its own from the others' memory, waits again.
 *
 * The barrier spins while giving way (ranks may share cores), then sleeps.
 */
#include "libexec/comm/communicator.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SPINS 200

typedef struct group {
    uint32_t size;
    _Atomic uint32_t arrived;
    _Atomic uint32_t generation;
    _Atomic int status;         /* exg_status of an abort, or EXG_OK */
    _Atomic uint32_t *present;  /* by rank: generations entered, to name a missing one */
    const exg_segment **posted; /* by rank: what it sends */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    _Atomic uint32_t open; /* communicators not closed */
} group;

typedef struct local {
    exg_communicator base;
    group *group;
} local;

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void wake_all(group *g)
{
    pthread_mutex_lock(&g->lock);
    pthread_cond_broadcast(&g->moved);
    pthread_mutex_unlock(&g->lock);
}

static void local_abort(exg_communicator *self, exg_status status)
{
    group *g = ((local *)self)->group;
    int ok = EXG_OK;

    atomic_compare_exchange_strong(&g->status, &ok, (int)status);
    wake_all(g);
}

static exg_status aborted(exg_communicator *c, exg_error *err)
{
    (void)c;
    return EXG_FAIL(err, PEER, "COM-003", "another rank failed and ended the run");
}

static uint32_t missing_rank(const group *g, uint32_t generation)
{
    for (uint32_t r = 0; r < g->size; r++) {
        if (atomic_load(&g->present[r]) <= generation) {
            return r;
        }
    }
    return 0;
}

static bool turned(const group *g, uint32_t generation)
{
    return atomic_load(&g->generation) != generation || atomic_load(&g->status) != EXG_OK;
}

static exg_status sleep_until_turned(local *l, uint32_t generation, exg_error *err)
{
    group *g = l->group;
    uint64_t start = now_ns();
    exg_status status = EXG_OK;

    pthread_mutex_lock(&g->lock);
    while (!turned(g, generation)) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 50 * 1000 * 1000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&g->moved, &g->lock, &until);
        if (!turned(g, generation) && now_ns() - start > l->base.deadline_ns) {
            status = EXG_FAIL(err, PEER, "COM-001", "rank %u did not arrive within %.1f s",
                              missing_rank(g, generation), (double)l->base.deadline_ns * 1e-9);
            break;
        }
    }
    pthread_mutex_unlock(&g->lock);
    return status;
}

static exg_status barrier(local *l, exg_error *err)
{
    group *g = l->group;
    uint32_t generation = atomic_load(&g->generation);

    atomic_store(&g->present[l->base.rank], generation + 1);
    if (atomic_fetch_add(&g->arrived, 1) + 1 == g->size) {
        atomic_store(&g->arrived, 0);
        atomic_fetch_add(&g->generation, 1);
        wake_all(g);
    } else {
        for (int i = 0; i < SPINS && !turned(g, generation); i++) {
            sched_yield();
        }
        if (!turned(g, generation)) {
            exg_status status = sleep_until_turned(l, generation, err);

            if (status != EXG_OK) {
                local_abort(&l->base, EXG_PEER);
                return status;
            }
        }
    }
    return atomic_load(&g->status) != EXG_OK && atomic_load(&g->generation) == generation
               ? aborted(&l->base, err)
               : EXG_OK;
}

static exg_status local_exchange(exg_communicator *self, const exg_segment *send,
                                 const exg_segment *receive, exg_error *err)
{
    local *l = (local *)self;
    group *g = l->group;

    g->posted[self->rank] = send;
    EXG_TRY(barrier(l, err));
    for (uint32_t i = 0; i < self->size; i++) {
        uint32_t from = (self->rank + i) % self->size;
        const exg_segment *theirs = &g->posted[from][self->rank];

        if (theirs->bytes != receive[from].bytes) {
            local_abort(self, EXG_PEER);
            return EXG_FAIL(err, PEER, "COM-002",
                            "rank %u sends %llu bytes where rank %u expects %llu", from,
                            (unsigned long long)theirs->bytes, self->rank,
                            (unsigned long long)receive[from].bytes);
        }
        if (theirs->bytes > 0 && theirs->data != receive[from].data) {
            memcpy(receive[from].data, theirs->data, theirs->bytes);
        }
    }
    return barrier(l, err);
}

static void local_close(exg_communicator *self)
{
    group *g = ((local *)self)->group;

    if (atomic_fetch_sub(&g->open, 1) == 1) {
        pthread_cond_destroy(&g->moved);
        pthread_mutex_destroy(&g->lock);
        free(g->present);
        free(g->posted);
        free(g);
    }
    free(self);
}

/* Colors are told to all; the first rank of a color makes the group and hands each of the
 * others its communicator, by address. */
static exg_status local_split(exg_communicator *self, uint32_t color, exg_communicator **out,
                              exg_error *err)
{
    uint32_t n = self->size;
    uint32_t *colors = calloc(n, sizeof(*colors));
    exg_segment *send = calloc(2 * (size_t)n, sizeof(*send));
    exg_communicator **made = calloc(n, sizeof(*made));
    exg_segment *receive = send == NULL ? NULL : send + n;
    uint32_t first = n;
    uint32_t members = 0;
    exg_status status = EXG_OK;

    if (colors == NULL || send == NULL || made == NULL) {
        local_abort(self, EXG_NO_MEMORY);
        status = EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    for (uint32_t r = 0; status == EXG_OK && r < n; r++) {
        send[r] = (exg_segment){&color, sizeof(color)};
        receive[r] = (exg_segment){&colors[r], sizeof(color)};
    }
    status = status == EXG_OK ? exg_exchange(self, send, receive, err) : status;
    for (uint32_t r = 0; status == EXG_OK && r < n; r++) {
        first = colors[r] == color && first == n ? r : first;
        members += colors[r] == color;
    }
    if (status == EXG_OK && color != EXG_NO_COLOR && first == self->rank) {
        status = exg_local_create(members, made, err);
        if (status != EXG_OK) {
            local_abort(self, status);
        }
    }
    members = 0;
    for (uint32_t r = 0; status == EXG_OK && r < n; r++) {
        bool gives = color != EXG_NO_COLOR && first == self->rank && colors[r] == color;
        bool takes = color != EXG_NO_COLOR && first == r;

        send[r] = (exg_segment){gives ? &made[members++] : NULL, gives ? sizeof(*out) : 0};
        receive[r] = (exg_segment){out, takes ? sizeof(*out) : 0};
    }
    status = status == EXG_OK ? exg_exchange(self, send, receive, err) : status;
    free(colors);
    free(send);
    free(made);
    return status;
}

static const exg_communicator_ops local_ops = {
    .name = "local",
    .exchange = local_exchange,
    .split = local_split,
    .abort = local_abort,
    .close = local_close,
};

static group *create_group(uint32_t size)
{
    group *g = calloc(1, sizeof(*g));

    if (g == NULL) {
        return NULL;
    }
    g->size = size;
    g->present = calloc(size, sizeof(*g->present));
    g->posted = calloc(size, sizeof(*g->posted));
    if (g->present == NULL || g->posted == NULL || pthread_mutex_init(&g->lock, NULL) != 0) {
        free(g->present);
        free(g->posted);
        free(g);
        return NULL;
    }
    pthread_cond_init(&g->moved, NULL);
    return g;
}

exg_status exg_local_create(uint32_t size, exg_communicator **communicators, exg_error *err)
{
    group *g = create_group(size);

    if (g == NULL) {
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    for (uint32_t r = 0; r < size; r++) {
        local *l = calloc(1, sizeof(*l));

        communicators[r] = &l->base;
        if (l == NULL) {
            atomic_store(&g->open, r == 0 ? 1 : r);
            for (uint32_t i = 0; i < r; i++) {
                local_close(communicators[i]);
            }
            return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
        }
        l->base = (exg_communicator){.ops = &local_ops,
                                     .rank = r,
                                     .size = size,
                                     .deadline_ns = EXG_DEADLINE_NS,
                                     .status = EXG_OK};
        l->group = g;
    }
    atomic_store(&g->open, size);
    return EXG_OK;
}
