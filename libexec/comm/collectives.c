/* collectives.c - each is one or two exchanges, with packing where a chunk of a
 * dimension is no run of bytes. */
#include "libexec/comm/collectives.h"

#include <string.h>

/* What all ranks send together in an all-reduce, up to which each sends all it has and
 * reduces all: one exchange where more takes two. */
#define SHORT_BYTES 32768

/* A row-major tensor around one dimension: (outer, length, inner bytes). */
typedef struct around {
    int64_t outer, length, inner;
} around;

static around around_dim(const exg_tensor *t, uint32_t dim)
{
    around a = {1, t->sizes[dim], exg_dtype_bytes(t->dtype)};

    for (uint32_t d = 0; d < t->rank; d++) {
        if (d < dim) {
            a.outer *= t->sizes[d];
        } else if (d > dim) {
            a.inner *= t->sizes[d];
        }
    }
    return a;
}

static void pack(const uint8_t *from, around a, int64_t start, int64_t count, uint8_t *to)
{
    for (int64_t o = 0; o < a.outer && count * a.inner > 0; o++) {
        memcpy(to + o * count * a.inner, from + (o * a.length + start) * a.inner,
               (size_t)(count * a.inner));
    }
}

static void unpack(const uint8_t *from, around a, int64_t start, int64_t count, uint8_t *to)
{
    for (int64_t o = 0; o < a.outer && count * a.inner > 0; o++) {
        memcpy(to + (o * a.length + start) * a.inner, from + o * count * a.inner,
               (size_t)(count * a.inner));
    }
}

static uint64_t bytes_of(const exg_tensor *t)
{
    return (uint64_t)exg_tensor_numel(t) * exg_dtype_bytes(t->dtype);
}

static exg_status check_size(const exg_communicator *c, exg_error *err)
{
    if (c->size > EXG_RANKS_MAX) {
        return EXG_FAIL(err, LIMIT, "COM-004", "%u ranks; at most %d", c->size, EXG_RANKS_MAX);
    }
    return EXG_OK;
}

/* ---- counts --------------------------------------------------------------------------- */

static uint64_t chunk_bytes(around a, uint32_t n, uint32_t r)
{
    int64_t offset;
    int64_t count;

    exg_chunk(a.length, n, r, &offset, &count);
    return (uint64_t)(a.outer * count * a.inner);
}

/* All elements as one dimension: what an all-reduce cuts. */
static around flat(const exg_tensor *t)
{
    return (around){1, exg_tensor_numel(t), exg_dtype_bytes(t->dtype)};
}

static bool is_short(const exg_communicator *c, const exg_collective *what)
{
    return what->kind == EXG_ALL_REDUCE && bytes_of(what->in) * c->size <= SHORT_BYTES;
}

uint32_t exg_collective_rounds(const exg_communicator *c, const exg_collective *what)
{
    return what->kind == EXG_ALL_REDUCE && !is_short(c, what) ? 2 : 1;
}

void exg_collective_counts(const exg_communicator *c, const exg_collective *what, uint32_t round,
                           exg_segment *send, exg_segment *receive)
{
    around in = what->kind == EXG_ALL_REDUCE     ? flat(what->in)
                : what->kind == EXG_ALL_TO_ALL ? around_dim(what->in, what->other_dim)
                                               : around_dim(what->in, what->dim);
    around out = what->kind == EXG_ALL_REDUCE ? in : around_dim(what->out, what->dim);
    bool whole = is_short(c, what);
    bool sends_chunks = what->kind != EXG_ALL_GATHER && round == 0 && !whole;
    bool gets_chunks = what->kind == EXG_ALL_GATHER || what->kind == EXG_ALL_TO_ALL || round == 1;
    uint64_t own = whole                            ? bytes_of(what->in)
                   : what->kind == EXG_ALL_REDUCE ? chunk_bytes(in, c->size, c->rank)
                   : what->kind == EXG_ALL_GATHER ? bytes_of(what->in)
                                                  : bytes_of(what->out);

    for (uint32_t r = 0; r < c->size; r++) {
        send[r].bytes = sends_chunks ? chunk_bytes(in, c->size, r) : own;
        receive[r].bytes = gets_chunks ? chunk_bytes(out, c->size, r) : own;
    }
}

/* ---- where bytes lie ------------------------------------------------------------------ */

static void pack_chunks(const exg_tensor *from, uint32_t dim, const exg_segment *to, uint32_t n)
{
    around a = around_dim(from, dim);

    for (uint32_t r = 0; r < n; r++) {
        int64_t offset;
        int64_t count;

        exg_chunk(a.length, n, r, &offset, &count);
        pack(from->data, a, offset, count, to[r].data);
    }
}

static void unpack_chunks(const exg_segment *from, uint32_t n, const exg_tensor *to, uint32_t dim)
{
    around a = around_dim(to, dim);

    for (uint32_t r = 0; r < n; r++) {
        int64_t offset;
        int64_t count;

        exg_chunk(a.length, n, r, &offset, &count);
        unpack(from[r].data, a, offset, count, to->data);
    }
}

/* Are the chunks that are sent packed first? */
static bool is_packed(const exg_collective *what)
{
    uint32_t dim = what->kind == EXG_ALL_TO_ALL ? what->other_dim : what->dim;

    return (what->kind == EXG_ALL_TO_ALL || what->kind == EXG_REDUCE_SCATTER) &&
           around_dim(what->in, dim).outer != 1;
}

/* Does what comes lie in `out` as it comes? Else it is read: summed, or unpacked. */
static bool is_direct(const exg_collective *what)
{
    return (what->kind == EXG_ALL_TO_ALL || what->kind == EXG_ALL_GATHER) &&
           around_dim(what->out, what->dim).outer == 1;
}

/* Lays segments end to end, but that of rank `apart`; gives where they end. */
static uint8_t *lay(exg_segment *segments, uint32_t count, uint32_t apart, uint8_t *at)
{
    for (uint32_t r = 0; r < count; r++) {
        segments[r].data = r == apart ? NULL : at;
        at += r == apart ? 0 : segments[r].bytes;
    }
    return at;
}

static uint64_t sum_of(const exg_segment *segments, uint32_t count, uint32_t apart)
{
    uint64_t sum = 0;

    for (uint32_t r = 0; r < count; r++) {
        sum += r == apart ? 0 : segments[r].bytes;
    }
    return sum;
}

uint64_t exg_collective_workspace(const exg_communicator *c, const exg_collective *what)
{
    exg_segment send[EXG_RANKS_MAX];
    exg_segment receive[EXG_RANKS_MAX];

    if (c->size > EXG_RANKS_MAX) { /* begin will say so */
        return 0;
    }
    exg_collective_counts(c, what, 0, send, receive);
    return (is_packed(what) ? bytes_of(what->in) : 0) +
           (is_direct(what) || c->ops->lends ? 0 : sum_of(receive, c->size, c->rank));
}

/* Where all of a round comes from and goes to. */
static void lay_round(const exg_communicator *c, const exg_collective *what, void *workspace,
                      exg_segment *send, exg_segment *receive)
{
    uint8_t *at = workspace;
    bool sends_all = what->kind == EXG_ALL_GATHER || is_short(c, what);

    exg_collective_counts(c, what, 0, send, receive);
    if (is_packed(what)) {
        at = lay(send, c->size, c->size, at);
        pack_chunks(what->in, what->kind == EXG_ALL_TO_ALL ? what->other_dim : what->dim, send,
                    c->size);
    } else if (!sends_all) {
        (void)lay(send, c->size, c->size, what->in->data);
    }
    for (uint32_t r = 0; sends_all && r < c->size; r++) {
        send[r].data = what->in->data;
    }
    if (is_direct(what)) {
        (void)lay(receive, c->size, c->size, what->out->data);
    } else {
        (void)lay(receive, c->size, c->rank, at);
    }
}

/* ---- phases ----------------------------------------------------------------------------- */

exg_status exg_collective_begin(exg_communicator *c, const exg_collective *what, void *workspace,
                                uint64_t *turn, exg_error *err)
{
    exg_segment send[EXG_RANKS_MAX];
    exg_segment receive[EXG_RANKS_MAX];

    EXG_TRY(check_size(c, err));
    *turn = exg_exchange_turns(c, exg_collective_rounds(c, what));
    lay_round(c, what, workspace, send, receive);
    return exg_exchange_begin(c, *turn, send, receive, err);
}

typedef struct reading {
    const exg_communicator *c;
    const exg_collective *what;
} reading;

static void read_summands(void *context, const exg_segment *from)
{
    const reading *r = context;
    const exg_collective *what = r->what;
    uint8_t *to = what->out->data;

    if (exg_collective_rounds(r->c, what) == 2) { /* own chunk of it */
        for (uint32_t i = 0; i < r->c->rank; i++) {
            to += chunk_bytes(flat(what->in), r->c->size, i);
        }
    }
    exg_reduce_segments(what->in->dtype, what->op, from, r->c->size,
                        (int64_t)from[0].bytes / exg_dtype_bytes(what->in->dtype), to);
}

static void read_chunks(void *context, const exg_segment *from)
{
    const reading *r = context;

    unpack_chunks(from, r->c->size, r->what->out, r->what->dim);
}

/* The second round of an all-reduce: own chunk goes to all, theirs come. */
static exg_status share_sums(exg_communicator *c, const exg_collective *what, uint64_t turn,
                             exg_error *err)
{
    exg_segment send[EXG_RANKS_MAX];
    exg_segment receive[EXG_RANKS_MAX];

    exg_collective_counts(c, what, 1, send, receive);
    (void)lay(receive, c->size, c->size, what->out->data);
    for (uint32_t r = 0; r < c->size; r++) {
        send[r].data = receive[c->rank].data;
    }
    EXG_TRY(exg_exchange_begin(c, turn, send, receive, err));
    EXG_TRY(exg_exchange_finish(c, turn, NULL, NULL, err));
    return exg_exchange_settle(c, turn, err); /* `out` is the caller's from here on */
}

exg_status exg_collective_finish(exg_communicator *c, const exg_collective *what, uint64_t turn,
                                 exg_error *err)
{
    reading r = {c, what};
    bool sums = what->kind == EXG_ALL_REDUCE || what->kind == EXG_REDUCE_SCATTER;

    EXG_TRY(exg_exchange_finish(c, turn,
                                sums              ? read_summands
                                : is_direct(what) ? NULL
                                                  : read_chunks,
                                &r, err));
    return exg_collective_rounds(c, what) == 2 ? share_sums(c, what, turn + 1, err) : EXG_OK;
}

exg_status exg_collective_settle(exg_communicator *c, const exg_collective *what, uint64_t turn,
                                 exg_error *err)
{
    return exg_exchange_settle(c, turn + exg_collective_rounds(c, what) - 1, err);
}

exg_status exg_collective_run(exg_communicator *c, const exg_collective *what, void *workspace,
                              exg_error *err)
{
    uint64_t turn;

    EXG_TRY(exg_collective_begin(c, what, workspace, &turn, err));
    EXG_TRY(exg_collective_finish(c, what, turn, err));
    return exg_collective_settle(c, what, turn, err);
}

exg_status exg_broadcast_bytes(exg_communicator *c, void *data, uint64_t bytes, uint32_t source,
                               exg_error *err)
{
    exg_segment send[EXG_RANKS_MAX];
    exg_segment receive[EXG_RANKS_MAX];

    EXG_TRY(check_size(c, err));
    for (uint32_t r = 0; r < c->size; r++) {
        bool sends = c->rank == source && r != source;
        bool gets = c->rank != source && r == source;

        send[r] = (exg_segment){data, sends ? bytes : 0};
        receive[r] = (exg_segment){data, gets ? bytes : 0};
    }
    return exg_exchange(c, send, receive, err);
}
