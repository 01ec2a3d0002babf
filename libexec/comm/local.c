/* local.c - ranks as threads: beginning an exchange says where the own bytes are, finishing
 * it copies what is its own from the others' memory. Nobody waits for more than that.
 *
 *   places[turn % EXG_EXCHANGES_MAX][rank]:  posted -> read by all -> taken by all -> free
 *
 * A few bytes are sent from the place itself, so their sender need not wait for readers.
 * Waiting spins while giving way (ranks may share cores), then sleeps.
 */
#include "libexec/comm/communicator.h"
#include "libexport/base/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SPINS      400 /* giving way */
#define PAUSES     40  /* before that: the others are near */
#define HELD_BYTES 4096
#define LINE_BYTES 64 /* of a cache */

/* Of one rank in one exchange. */
typedef struct place {
    _Alignas(LINE_BYTES) _Atomic uint64_t posted; /* turn + 1 of what is here */
    const exg_segment *segments;                  /* sent to each rank, then expected of each */
    bool is_held;
    _Alignas(16) uint8_t held[HELD_BYTES];       /* aligned for any element */
    _Alignas(LINE_BYTES) _Atomic uint64_t taken; /* turn + 1 that this rank has read all of */
} place;

typedef struct group {
    uint32_t size;
    _Atomic int status;    /* exg_status of an abort, or EXG_OK */
    place *places;         /* by exchange under way, by rank */
    exg_segment *segments; /* of the places, 2 * size each */
    _Atomic uint32_t sleepers;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    _Atomic uint32_t open; /* communicators not closed */
} group;

typedef struct local {
    exg_communicator base;
    group *group;
    exg_segment *lent; /* for a reader: by rank */
} local;

static void wake_all(group *g)
{
    if (atomic_load(&g->sleepers) > 0) {
        pthread_mutex_lock(&g->lock);
        pthread_cond_broadcast(&g->moved);
        pthread_mutex_unlock(&g->lock);
    }
}

static void local_abort(exg_communicator *self, exg_status status)
{
    group *g = ((local *)self)->group;
    int ok = EXG_OK;

    atomic_compare_exchange_strong(&g->status, &ok, (int)status);
    wake_all(g);
}

static bool local_is_aborted(exg_communicator *self)
{
    return atomic_load(&((local *)self)->group->status) != EXG_OK;
}

/* ---- waiting ---------------------------------------------------------------------------- */

/* Until rank `whose` has brought `word` up to `least`. */
typedef struct awaited {
    const _Atomic uint64_t *word;
    uint64_t least;
    uint32_t whose;
} awaited;

static bool has_come(const awaited *a)
{
    return atomic_load(a->word) >= a->least;
}

static bool is_over(const group *g, const awaited *a)
{
    return has_come(a) || atomic_load(&g->status) != EXG_OK;
}

static exg_status sleep_for(local *l, const awaited *a, exg_error *err)
{
    group *g = l->group;
    uint64_t start = exg_now_ns();
    exg_status status = EXG_OK;

    pthread_mutex_lock(&g->lock);
    atomic_fetch_add(&g->sleepers, 1);
    while (!is_over(g, a)) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 50 * 1000 * 1000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&g->moved, &g->lock, &until);
        if (!is_over(g, a) && exg_now_ns() - start > l->base.deadline_ns) {
            status = EXG_FAIL(err, PEER, "COM-001", "rank %u did not arrive within %.1f s",
                              a->whose, (double)l->base.deadline_ns * 1e-9);
            break;
        }
    }
    atomic_fetch_sub(&g->sleepers, 1);
    pthread_mutex_unlock(&g->lock);
    return status;
}

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static exg_status await(local *l, const _Atomic uint64_t *word, uint64_t least, uint32_t whose,
                        exg_error *err)
{
    awaited a = {word, least, whose};
    group *g = l->group;

    for (int i = 0; i < PAUSES && !has_come(&a); i++) {
        pause_briefly();
    }
    for (int i = 0; i < SPINS && !is_over(g, &a); i++) {
        sched_yield();
    }
    if (!is_over(g, &a)) {
        exg_status status = sleep_for(l, &a, err);

        if (status != EXG_OK) {
            local_abort(&l->base, EXG_PEER);
            return status;
        }
    }
    return has_come(&a) ? EXG_OK
                        : EXG_FAIL(err, PEER, "COM-003", "another rank failed and ended the run");
}

/* ---- phases ----------------------------------------------------------------------------- */

static place *place_of(const group *g, uint64_t turn, uint32_t rank)
{
    return &g->places[turn % EXG_EXCHANGES_MAX * g->size + rank];
}

/* Until all have read what this rank sent in exchange `turn`. */
static exg_status until_taken(local *l, uint64_t turn, exg_error *err)
{
    for (uint32_t i = 1; i < l->base.size; i++) {
        uint32_t rank = (l->base.rank + i) % l->base.size;

        EXG_TRY(await(l, &place_of(l->group, turn, rank)->taken, turn + 1, rank, err));
    }
    return EXG_OK;
}

/* Is what goes to rank `i` what goes to the one before? */
static bool is_repeated(const exg_segment *send, uint32_t i)
{
    return i > 0 && memcmp(&send[i], &send[i - 1], sizeof(*send)) == 0;
}

/* Few bytes move into the place: then the sender's memory is not read. */
static void hold(place *p, exg_segment *to, const exg_segment *send, uint32_t size)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < size && sum <= HELD_BYTES; i++) {
        sum += is_repeated(send, i) ? 0 : send[i].bytes;
    }
    p->is_held = sum <= HELD_BYTES;
    sum = 0;
    for (uint32_t i = 0; p->is_held && i < size; i++) {
        if (is_repeated(send, i)) {
            to[i] = to[i - 1];
        } else if (send[i].bytes > 0) {
            to[i] = (exg_segment){.data = p->held + sum, .bytes = send[i].bytes};
            exg_segment_copy(&to[i], &send[i]);
            sum += send[i].bytes;
        }
    }
}

static exg_status local_begin(exg_communicator *self, uint64_t turn, const exg_segment *send,
                              const exg_segment *receive, exg_error *err)
{
    local *l = (local *)self;
    place *own = place_of(l->group, turn, self->rank);
    exg_segment *segments =
        l->group->segments + 2 * (size_t)self->size * (size_t)(own - l->group->places);

    if (turn >= EXG_EXCHANGES_MAX) {
        EXG_TRY(until_taken(l, turn - EXG_EXCHANGES_MAX, err));
    }
    memcpy(segments, send, self->size * sizeof(*send));
    memcpy(segments + self->size, receive, self->size * sizeof(*receive));
    own->segments = segments;
    hold(own, segments, send, self->size);
    atomic_store(&own->posted, turn + 1);
    wake_all(l->group);
    return EXG_OK;
}

/* Does `from` send this rank what it expects, and the other way round? Both see it. */
static exg_status check_counts(local *l, const place *own, const place *theirs, uint32_t from,
                               exg_error *err)
{
    uint32_t me = l->base.rank;
    uint64_t comes = theirs->segments[me].bytes;
    uint64_t expected = own->segments[l->base.size + from].bytes;
    uint64_t goes = own->segments[from].bytes;
    uint64_t wanted = theirs->segments[l->base.size + me].bytes;

    if (comes == expected && goes == wanted) {
        return EXG_OK;
    }
    local_abort(&l->base, EXG_PEER);
    return comes != expected
               ? EXG_FAIL(err, PEER, "COM-002",
                          "rank %u sends %llu bytes where rank %u expects "
                          "%llu",
                          from, (unsigned long long)comes, me, (unsigned long long)expected)
               : EXG_FAIL(err, PEER, "COM-002",
                          "rank %u sends %llu bytes where rank %u expects "
                          "%llu",
                          me, (unsigned long long)goes, from, (unsigned long long)wanted);
}

static exg_status local_finish(exg_communicator *self, uint64_t turn, exg_exchange_reader *reader,
                               void *context, exg_error *err)
{
    local *l = (local *)self;
    place *own = place_of(l->group, turn, self->rank);
    const exg_segment *receive = own->segments + self->size;

    for (uint32_t i = 0; i < self->size; i++) {
        uint32_t from = (self->rank + i) % self->size;
        const place *theirs = place_of(l->group, turn, from);
        const exg_segment *sent;

        EXG_TRY(await(l, &theirs->posted, turn + 1, from, err));
        EXG_TRY(check_counts(l, own, theirs, from, err));
        sent = &theirs->segments[self->rank];
        if (reader != NULL) {
            l->lent[from] = *sent;
        } else {
            exg_segment_copy(&receive[from], sent);
        }
    }
    if (reader != NULL) {
        reader(context, l->lent);
    }
    atomic_store(&own->taken, turn + 1);
    wake_all(l->group);
    return EXG_OK;
}

static exg_status local_settle(exg_communicator *self, uint64_t turn, exg_error *err)
{
    local *l = (local *)self;

    return place_of(l->group, turn, self->rank)->is_held ? EXG_OK : until_taken(l, turn, err);
}

static void destroy_group(group *g)
{
    pthread_cond_destroy(&g->moved);
    pthread_mutex_destroy(&g->lock);
    free(g->segments);
    free(g->places);
    free(g);
}

static void local_close(exg_communicator *self)
{
    local *l = (local *)self;

    if (atomic_fetch_sub(&l->group->open, 1) == 1) {
        destroy_group(l->group);
    }
    free(l->lent);
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
        status = EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t r = 0; status == EXG_OK && r < n; r++) {
        send[r] = (exg_segment){.data = &color, .bytes = sizeof(color)};
        receive[r] = (exg_segment){.data = &colors[r], .bytes = sizeof(color)};
    }
    if (status == EXG_OK) {
        status = exg_exchange(self, send, receive, err);
    }
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

        send[r] = (exg_segment){.data = gives ? &made[members++] : NULL,
                                .bytes = gives ? sizeof(*out) : 0};
        receive[r] = (exg_segment){.data = out, .bytes = takes ? sizeof(*out) : 0};
    }
    if (status == EXG_OK) {
        status = exg_exchange(self, send, receive, err);
    }
    free(colors);
    free(send);
    free(made);
    return status;
}

static const exg_communicator_ops local_ops = {
    .name = "local",
    .lends = true,
    .begin = local_begin,
    .finish = local_finish,
    .settle = local_settle,
    .split = local_split,
    .abort = local_abort,
    .is_aborted = local_is_aborted,
    .close = local_close,
};

static group *create_group(uint32_t size)
{
    size_t places = (size_t)EXG_EXCHANGES_MAX * size;
    group *g = calloc(1, sizeof(*g));

    if (g == NULL) {
        return NULL;
    }
    g->size = size;
    g->places = aligned_alloc(LINE_BYTES, places * sizeof(*g->places));
    g->segments = calloc(places * 2 * size, sizeof(*g->segments));
    if (g->places == NULL || g->segments == NULL || pthread_mutex_init(&g->lock, NULL) != 0) {
        free(g->places);
        free(g->segments);
        free(g);
        return NULL;
    }
    for (size_t i = 0; i < places; i++) {
        atomic_init(&g->places[i].posted, 0);
        atomic_init(&g->places[i].taken, 0);
    }
    pthread_cond_init(&g->moved, NULL);
    return g;
}

static local *create_rank(group *g, uint32_t rank)
{
    local *l = calloc(1, sizeof(*l));
    exg_segment *lent = calloc(g->size, sizeof(*lent));

    if (l == NULL || lent == NULL) {
        free(l);
        free(lent);
        return NULL;
    }
    l->base = (exg_communicator){.ops = &local_ops,
                                 .rank = rank,
                                 .size = g->size,
                                 .deadline_ns = EXG_DEADLINE_NS,
                                 .status = EXG_OK};
    l->group = g;
    l->lent = lent;
    return l;
}

exg_status exg_local_create(uint32_t size, exg_communicator **communicators, exg_error *err)
{
    group *g = create_group(size);

    if (g == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t r = 0; r < size; r++) {
        local *l = create_rank(g, r);

        if (l == NULL) {
            atomic_store(&g->open, r);
            for (uint32_t i = 0; i < r; i++) {
                local_close(communicators[i]);
            }
            if (r == 0) {
                destroy_group(g);
            }
            return EXG_OUT_OF_MEMORY(err);
        }
        communicators[r] = &l->base;
    }
    atomic_store(&g->open, size);
    return EXG_OK;
}
