/* nccl.c - a stand-in for libnccl: the entry points that the plugin uses, between threads or
 * processes, over the stand-in of libcuda. Communicators must not block.
 *
 * What a rank sends goes into shared memory when its stream comes to it; what it receives is
 * taken from there. Reductions go round from the rank after the first, in the dtype itself, as
 * no host adds up. Each call is noted in the log.
 *
 * EXG_STANDIN_NCCL_VERSION: as ncclGetVersion tells it. EXG_STANDIN_NCCL=error:RANK:NUMBER,
 * or hang:RANK:NUMBER: what becomes of the rank's collective of this number, from 0; refuse: it is
 * not taken; start:RANK: a rank that never gets ready; init:RANK: one that fails at once.
 * EXG_STANDIN_NCCL_ABORT: blocks: an abort ends what is under way and does not return; deaf: nor
 * that.
 */
#include "libexport/base/element.h"
#include "tests/standin/cuda.h"
#include "tests/standin/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SUCCESS          0
#define SYSTEM_ERROR     2
#define INVALID_ARGUMENT 4
#define INVALID_USAGE    5
#define REMOTE_ERROR     6
#define IN_PROGRESS      7

#define RANKS_MAX    128
#define GROUP_MAX    (2 * RANKS_MAX) /* calls of a group */
#define CHANNEL_FEW  (4u << 20)      /* bytes of a channel, of a few ranks */
#define CHANNEL_MANY (16u << 10)

typedef struct unique_id {
    char bytes[128]; /* the name of a file */
} unique_id;

typedef struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
} config;

typedef enum call_kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, SEND, RECEIVE } call_kind;

typedef struct call {
    call_kind kind;
    const unsigned char *in;
    unsigned char *out;
    size_t count;
    int dtype, op, peer;
} call;

/* What one rank sent another and that one has not taken, a ring. */
typedef struct channel {
    _Atomic uint64_t written, taken;
    unsigned char bytes[];
} channel;

/* In memory that all ranks share, zeros at first. */
typedef struct group {
    _Atomic int joined, fault;
    _Atomic int devices[RANKS_MAX]; /* and 1 */
    max_align_t channels[];         /* from, to */
} group;

typedef struct comm {
    struct comm *next; /* of all that there were */
    group *group;
    int rank, size;
    unique_id id;
    unsigned asked;
    _Atomic int fault;
    _Atomic bool aborted;
    bool gone;                /* destroyed or aborted */
    _Atomic int graphs;       /* that have its work */
    struct request *requests; /* all that was asked for: graphs may ask again */
} comm;

/* The calls of one group on one communicator. */
typedef struct request {
    struct request *next;
    comm *comm;
    unsigned number; /* on the communicator */
    unsigned count;
    call calls[];
} request;

static comm *comms;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static __thread struct {
    int depth;
    struct {
        comm *comm;
        void *stream;
        call call;
    } items[GROUP_MAX];
    unsigned count;
} pending;

#define CALLS(X)                                                                                   \
    X(ncclGetVersion, (int *version))                                                              \
    X(ncclGetUniqueId, (unique_id * id))                                                           \
    X(ncclCommInitRankConfig, (comm * *c, int size, unique_id id, int rank, const config *how))    \
    X(ncclCommFinalize, (comm * c))                                                                \
    X(ncclCommDestroy, (comm * c))                                                                 \
    X(ncclCommAbort, (comm * c))                                                                   \
    X(ncclCommGetAsyncError, (comm * c, int *error))                                               \
    X(ncclGroupStart, (void))                                                                      \
    X(ncclGroupEnd, (void))                                                                        \
    X(ncclAllReduce,                                                                               \
      (const void *in, void *out, size_t count, int dtype, int op, comm *c, void *stream))         \
    X(ncclAllGather, (const void *in, void *out, size_t count, int dtype, comm *c, void *stream))  \
    X(ncclReduceScatter,                                                                           \
      (const void *in, void *out, size_t count, int dtype, int op, comm *c, void *stream))         \
    X(ncclSend, (const void *data, size_t count, int dtype, int peer, comm *c, void *stream))      \
    X(ncclRecv, (void *data, size_t count, int dtype, int peer, comm *c, void *stream))
#define DECLARE(name, parameters) int name parameters;
CALLS(DECLARE)
const char *ncclGetErrorString(int result);
const char *ncclGetLastError(comm *c);

const char *ncclGetErrorString(int result)
{
    return result == REMOTE_ERROR       ? "remote process exited or there was a network error"
           : result == INVALID_USAGE    ? "invalid usage"
           : result == INVALID_ARGUMENT ? "invalid argument"
                                        : "another error";
}

const char *ncclGetLastError(comm *c)
{
    (void)c;
    return "";
}

int ncclGetVersion(int *version)
{
    const char *as = getenv("EXG_STANDIN_NCCL_VERSION");

    *version = as == NULL ? 22803 : (int)strtol(as, NULL, 10);
    return SUCCESS;
}

/* ---- communicators ------------------------------------------------------------------------ */

int ncclGetUniqueId(unique_id *id)
{
    static _Atomic unsigned count;

    standin_log("ncclGetUniqueId");
    memset(id, 0, sizeof(*id));
    (void)snprintf(id->bytes, sizeof(id->bytes), "/dev/shm/exg-standin-%d-%u", (int)getpid(),
                   count++);
    return SUCCESS;
}

static bool is_plan(const char *text)
{
    const char *plan = getenv("EXG_STANDIN_NCCL");

    return plan != NULL && strcmp(plan, text) == 0;
}

static size_t room_of(int size)
{
    return size > 16 ? CHANNEL_MANY : CHANNEL_FEW;
}

static size_t group_bytes(int size)
{
    return sizeof(group) + (size_t)size * (size_t)size * (sizeof(channel) + room_of(size));
}

static channel *channel_of(group *g, int size, int from, int to)
{
    size_t place = (size_t)from * (size_t)size + (size_t)to;

    return (channel *)(void *)((unsigned char *)g->channels +
                               place * (sizeof(channel) + room_of(size)));
}

static group *open_group(const char *name, int size)
{
    int file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *memory = MAP_FAILED;

    if (file >= 0 && ftruncate(file, (off_t)group_bytes(size)) == 0) {
        memory = mmap(NULL, group_bytes(size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    if (file >= 0) {
        (void)close(file);
    }
    return memory == MAP_FAILED ? NULL : memory;
}

int ncclCommInitRankConfig(comm **c, int size, unique_id id, int rank, const config *how)
{
    group *g;
    int result = IN_PROGRESS;
    char plan[32];

    standin_log("ncclCommInitRankConfig %d of %d, %zu bytes, version %u, blocking %d", rank, size,
                how->size, how->version, how->blocking);
    if (how->magic != 0xcafebeef || how->blocking != 0 || rank < 0 || rank >= size ||
        size > RANKS_MAX || standin_device() < 0) {
        return INVALID_ARGUMENT;
    }
    (void)snprintf(plan, sizeof(plan), "init:%d", rank);
    if (is_plan(plan)) { /* which leaves no communicator */
        return SYSTEM_ERROR;
    }
    *c = calloc(1, sizeof(**c));
    g = open_group(id.bytes, size);
    if (*c == NULL || g == NULL) {
        return SYSTEM_ERROR;
    }
    atomic_store(&g->devices[rank], standin_device() + 1);
    for (int r = 0; r < size; r++) {
        if (r != rank && atomic_load(&g->devices[r]) == standin_device() + 1) {
            result = INVALID_USAGE; /* two ranks on a device */
        }
    }
    (*c)->group = g;
    (*c)->rank = rank;
    (*c)->size = size;
    (*c)->id = id;
    pthread_mutex_lock(&lock);
    (*c)->next = comms;
    comms = *c;
    pthread_mutex_unlock(&lock);
    (void)snprintf(plan, sizeof(plan), "start:%d", rank);
    if (is_plan(plan)) {
        return result;
    }
    if (atomic_fetch_add(&g->joined, 1) + 1 == size) {
        (void)unlink(id.bytes);
    }
    return result;
}

int ncclCommGetAsyncError(comm *c, int *error)
{
    int fault = atomic_load(&c->group->fault);

    *error = c->fault != 0                              ? c->fault
             : fault != 0                               ? fault
             : atomic_load(&c->group->joined) < c->size ? IN_PROGRESS
                                                        : SUCCESS;
    return SUCCESS;
}

int ncclCommFinalize(comm *c)
{
    standin_log("ncclCommFinalize %d", c->rank);
    return SUCCESS;
}

/* Of all ranks in this process: is it the last, and does a graph have work of one? */
static bool are_held(comm *c, bool *last)
{
    bool held = false;

    *last = true;
    pthread_mutex_lock(&lock);
    c->gone = true;
    for (comm *other = comms; other != NULL; other = other->next) {
        if (strcmp(other->id.bytes, c->id.bytes) == 0) {
            *last = *last && other->gone;
            held = held || atomic_load(&other->graphs) > 0;
        }
    }
    pthread_mutex_unlock(&lock);
    return held;
}

/* The last of a process waits until no graph has work of the communication: for ever, if need be.
 */
static void reclaim(comm *c)
{
    bool last;

    while (are_held(c, &last) && last) {
        standin_carry_on(); /* as a device does by itself */
        (void)usleep(1000);
    }
}

/* It stays: streams may still hold what was asked of it. */
int ncclCommDestroy(comm *c)
{
    standin_log("ncclCommDestroy %d", c->rank);
    c->aborted = true;
    reclaim(c);
    (void)munmap(c->group, group_bytes(c->size));
    return SUCCESS;
}

int ncclCommAbort(comm *c)
{
    const char *how = getenv("EXG_STANDIN_NCCL_ABORT");

    standin_log("ncclCommAbort %d", c->rank);
    c->aborted = how == NULL || strcmp(how, "deaf") != 0;
    while (how != NULL) {
        (void)pause();
    }
    reclaim(c);
    (void)unlink(c->id.bytes); /* where not all came */
    return SUCCESS;
}

/* ---- what is carried out -------------------------------------------------------------------- */

static size_t bytes_of(int dtype)
{
    static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

    return bytes[dtype];
}

static int64_t whole_at(int dtype, const void *at)
{
    return dtype == 0   ? *(const int8_t *)at
           : dtype == 1 ? *(const uint8_t *)at
           : dtype == 2 ? *(const int32_t *)at
                        : *(const int64_t *)at;
}

static double real_at(int dtype, const void *at)
{
    return dtype == 6   ? (double)exg_f16_to_f32(*(const uint16_t *)at)
           : dtype == 9 ? (double)exg_bf16_to_f32(*(const uint16_t *)at)
           : dtype == 7 ? (double)*(const float *)at
                        : *(const double *)at;
}

static void put_whole(int dtype, void *at, int64_t x)
{
    memcpy(at, &x, bytes_of(dtype)); /* little endian */
}

static void put_real(int dtype, void *at, double x)
{
    if (dtype == 6) {
        *(uint16_t *)at = exg_f32_to_f16((float)x);
    } else if (dtype == 9) {
        *(uint16_t *)at = exg_f32_to_bf16((float)x);
    } else if (dtype == 7) {
        *(float *)at = (float)x;
    } else {
        *(double *)at = x;
    }
}

#define COMBINE(op, a, b)                                                                          \
    ((op) == 1 ? a * b : (op) == 2 ? (a > b ? a : b) : (op) == 3 ? (a < b ? a : b) : a + b)

/* What goes one way between this rank and another. */
typedef struct transfer {
    int peer;
    bool is_sent, is_done;
    unsigned char *data;
    size_t bytes;
} transfer;

/* What a channel holds: this, and the bytes. */
typedef struct envelope {
    size_t bytes, count;
    int is_alone, dtype, op; /* alone: sent, rather than part of a collective */
} envelope;

typedef struct progress {
    unsigned count;
    unsigned char *received; /* of reductions: by rank */
    transfer transfers[];
} progress;

static void copy_in(channel *c, size_t room, uint64_t at, const void *from, size_t bytes)
{
    size_t first = room - at % room; /* before it goes round */

    first = bytes < first ? bytes : first;
    memcpy(c->bytes + at % room, from, first);
    memcpy(c->bytes, (const unsigned char *)from + first, bytes - first);
}

static void copy_out(const channel *c, size_t room, uint64_t at, void *to, size_t bytes)
{
    size_t first = room - at % room;

    first = bytes < first ? bytes : first;
    memcpy(to, c->bytes + at % room, first);
    memcpy((unsigned char *)to + first, c->bytes, bytes - first);
}

static envelope envelope_of(const call *what, const transfer *t)
{
    return what->kind >= SEND ? (envelope){.bytes = t->bytes, .is_alone = 1}
                              : (envelope){t->bytes, what->count, 0, what->dtype, what->op};
}

static bool send_it(channel *c, size_t room, const envelope *e, const transfer *t)
{
    uint64_t at = atomic_load(&c->written);

    if (at + sizeof(*e) + t->bytes - atomic_load(&c->taken) > room) {
        return false;
    }
    copy_in(c, room, at, e, sizeof(*e));
    copy_in(c, room, at + sizeof(*e), t->data, t->bytes);
    atomic_store(&c->written, at + sizeof(*e) + t->bytes);
    return true;
}

/* Both sides must speak of the same. */
static bool take_it(group *g, channel *c, size_t room, const envelope *want, const transfer *t)
{
    uint64_t at = atomic_load(&c->taken);
    envelope e;

    if (atomic_load(&c->written) == at) {
        return false;
    }
    copy_out(c, room, at, &e, sizeof(e));
    if (e.bytes != want->bytes || e.count != want->count || e.is_alone != want->is_alone ||
        e.dtype != want->dtype || e.op != want->op) {
        atomic_store(&g->fault, INVALID_USAGE);
        return false;
    }
    copy_out(c, room, at + sizeof(e), t->data, t->bytes);
    atomic_store(&c->taken, at + sizeof(e) + e.bytes);
    return true;
}

static void add(progress *p, int peer, bool is_sent, const unsigned char *data, size_t bytes)
{
    p->transfers[p->count++] =
        (transfer){peer, is_sent, false, (unsigned char *)(uintptr_t)data, bytes};
}

static progress *start(const request *o)
{
    const call *first = &o->calls[0];
    int size = o->comm->size;
    size_t bytes = first->count * bytes_of(first->dtype);
    progress *p = calloc(1, sizeof(*p) + (o->count + 2 * (size_t)size) * sizeof(transfer));

    if (p == NULL) {
        abort();
    }
    for (unsigned i = 0; first->kind >= SEND && i < o->count; i++) {
        const call *c = &o->calls[i];

        add(p, c->peer, c->kind == SEND, c->kind == SEND ? c->in : c->out, c->count);
    }
    for (int r = 0; first->kind < SEND && r < size; r++) {
        add(p, r, true, first->in + (first->kind == REDUCE_SCATTER ? (size_t)r * bytes : 0), bytes);
    }
    if (first->kind == ALL_REDUCE || first->kind == REDUCE_SCATTER) {
        p->received = calloc((size_t)size, bytes);
    }
    for (int r = 0; first->kind < SEND && r < size; r++) {
        add(p, r, false, (p->received == NULL ? first->out : p->received) + (size_t)r * bytes,
            bytes);
    }
    return p;
}

static bool go_on(const request *o, progress *p)
{
    group *g = o->comm->group;
    size_t room = room_of(o->comm->size);
    bool is_over = true;

    for (unsigned i = 0; i < p->count; i++) {
        transfer *t = &p->transfers[i];
        envelope e = envelope_of(&o->calls[0], t);
        int from = t->is_sent ? o->comm->rank : t->peer;
        int to = t->is_sent ? t->peer : o->comm->rank;
        channel *c = channel_of(g, o->comm->size, from, to);

        if (!t->is_done) {
            t->is_done = t->is_sent ? send_it(c, room, &e, t) : take_it(g, c, room, &e, t);
        }
        is_over = is_over && t->is_done;
    }
    return is_over;
}

/* Element `i` of all ranks, from the second on. */
static void reduce_element(const call *what, int size, const progress *p, size_t i)
{
    size_t bytes = bytes_of(what->dtype);
    unsigned char *to = what->out + i * bytes;
    int how = what->op;

    memcpy(to, p->received + (1 % (size_t)size * what->count + i) * bytes, bytes);
    for (int n = 1; n < size; n++) {
        const void *next = p->received + ((size_t)((n + 1) % size) * what->count + i) * bytes;

        if (what->dtype >= 6) {
            double a = real_at(what->dtype, to);
            double b = real_at(what->dtype, next);

            put_real(what->dtype, to, COMBINE(how, a, b));
        } else {
            int64_t a = whole_at(what->dtype, to);
            int64_t b = whole_at(what->dtype, next);

            put_whole(what->dtype, to, COMBINE(how, a, b));
        }
    }
    if (how == 4) {
        put_real(what->dtype, to, real_at(what->dtype, to) / size);
    }
}

/* "error:1:4", of this rank's collective? */
static bool is_planned(const char *kind, const request *o)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "%s:%d:%u", kind, o->comm->rank, o->number);
    return is_plan(text);
}

/* No more of it: it is over, or was aborted. */
static int end(progress *p, void **state)
{
    if (p != NULL) {
        free(p->received);
        free(p);
    }
    *state = NULL;
    return 1;
}

static int meet(void *operation, void **state)
{
    const request *o = operation;
    progress *p = *state;

    if (o->comm->aborted) {
        return end(p, state);
    }
    if (is_planned("error", o)) {
        o->comm->fault = REMOTE_ERROR;
    }
    if (is_planned("hang", o) || o->comm->fault != 0) {
        return 0;
    }
    p = p == NULL ? start(o) : p;
    *state = p;
    if (!go_on(o, p)) {
        return 0;
    }
    for (size_t i = 0; p->received != NULL && i < o->calls[0].count; i++) {
        reduce_element(&o->calls[0], o->comm->size, p, i);
    }
    return end(p, state);
}

/* ---- calls -------------------------------------------------------------------------------- */

static void keep(void *operation, int by)
{
    atomic_fetch_add(&((const request *)operation)->comm->graphs, by);
}

static int ask(comm *c, void *stream, const call *calls, unsigned count)
{
    request *o = calloc(1, sizeof(*o) + count * sizeof(*calls));

    if (o == NULL) {
        abort();
    }
    o->next = c->requests;
    c->requests = o;
    o->comm = c;
    o->number = c->asked++;
    o->count = count;
    memcpy(o->calls, calls, count * sizeof(*calls));
    if (is_planned("refuse", o)) {
        return SYSTEM_ERROR;
    }
    return standin_meet(stream, meet, keep, o);
}

int ncclGroupStart(void)
{
    standin_log("ncclGroupStart");
    pending.depth++;
    return SUCCESS;
}

int ncclGroupEnd(void)
{
    call calls[GROUP_MAX];
    unsigned count = pending.count;

    standin_log("ncclGroupEnd");
    if (--pending.depth > 0 || count == 0) {
        return SUCCESS;
    }
    pending.count = 0;
    for (unsigned i = 0; i < count; i++) {
        calls[i] = pending.items[i].call;
        if (pending.items[i].comm != pending.items[0].comm || calls[i].kind < SEND) {
            return INVALID_USAGE; /* which NCCL takes, and nobody asks for */
        }
    }
    return ask(pending.items[0].comm, pending.items[0].stream, calls, count);
}

static int take(comm *c, void *stream, const call *what)
{
    size_t bytes = what->count * bytes_of(what->dtype);
    size_t all = bytes * (size_t)c->size;

    if (what->count == 0) {
        return SUCCESS;
    }
    size_t in = what->kind == REDUCE_SCATTER ? all : bytes;
    size_t out = what->kind == ALL_GATHER ? all : bytes;

    if ((what->in != NULL && !standin_holds(what->in, in)) ||
        (what->out != NULL && !standin_holds(what->out, out))) {
        return INVALID_ARGUMENT;
    }
    if (pending.depth == 0) {
        return ask(c, stream, what, 1);
    }
    pending.items[pending.count].comm = c;
    pending.items[pending.count].stream = stream;
    pending.items[pending.count++].call = *what;
    return SUCCESS;
}

int ncclAllReduce(const void *in, void *out, size_t count, int dtype, int op, comm *c, void *stream)
{
    standin_log("ncclAllReduce %zu of %d by %d s%u", count, dtype, op,
                standin_stream_number(stream));
    return take(c, stream, &(call){ALL_REDUCE, in, out, count, dtype, op, 0});
}

int ncclAllGather(const void *in, void *out, size_t count, int dtype, comm *c, void *stream)
{
    standin_log("ncclAllGather %zu of %d s%u", count, dtype, standin_stream_number(stream));
    return take(c, stream, &(call){ALL_GATHER, in, out, count, dtype, 0, 0});
}

int ncclReduceScatter(const void *in, void *out, size_t count, int dtype, int op, comm *c,
                      void *stream)
{
    standin_log("ncclReduceScatter %zu of %d by %d s%u", count, dtype, op,
                standin_stream_number(stream));
    return take(c, stream, &(call){REDUCE_SCATTER, in, out, count, dtype, op, 0});
}

int ncclSend(const void *data, size_t count, int dtype, int peer, comm *c, void *stream)
{
    standin_log("ncclSend %zu of %d to %d s%u", count, dtype, peer, standin_stream_number(stream));
    return take(c, stream, &(call){SEND, data, NULL, count, dtype, 0, peer});
}

int ncclRecv(void *data, size_t count, int dtype, int peer, comm *c, void *stream)
{
    standin_log("ncclRecv %zu of %d from %d s%u", count, dtype, peer,
                standin_stream_number(stream));
    return take(c, stream, &(call){RECEIVE, NULL, data, count, dtype, 0, peer});
}
