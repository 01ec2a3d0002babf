/* collectives.c - each is one or two exchanges. A chunk of a dimension that is no run of bytes goes
 * from where it lies to where it comes to lie: nothing is packed. */
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

void exg_halo_of(const exg_halo *w, uint32_t ranks, uint32_t rank, int64_t *first, int64_t *count)
{
    int64_t low;
    int64_t high;

    *first = *count = 0;
    exg_chunk(w->parts, ranks, rank, &low, &high);
    if (high == 0) {
        return;
    }
    high = (low + high - 1) * w->stride - w->before + w->reach;
    low = low * w->stride - w->before;
    if (w->period > 0) {
        int64_t turned = (low % w->period + w->period) % w->period;

        high += turned - low;
        low = turned;
    }
    low = low < 0 ? 0 : low > w->size ? w->size : low;
    high = high > w->size ? w->size : high;
    *first = low;
    *count = high > low ? high - low : 0;
}

/* What goes to a rank of the dim along which `in` is cut, or comes from one of that of `out`. */
typedef struct span {
    int64_t first, count;
} span;

static span chunk_of(int64_t length, uint32_t ranks, uint32_t rank)
{
    span s;

    exg_chunk(length, ranks, rank, &s.first, &s.count);
    return s;
}

/* What `window` of one rank has of `chunk` of another, as places in `of`. */
static span common(span chunk, span halo, span of)
{
    int64_t first = chunk.first > halo.first ? chunk.first : halo.first;
    int64_t chunk_end = chunk.first + chunk.count;
    int64_t halo_end = halo.first + halo.count;
    int64_t end = chunk_end < halo_end ? chunk_end : halo_end;

    return end > first ? (span){first - of.first, end - first} : (span){0, 0};
}

static span halo_at(const exg_collective *what, uint32_t ranks, uint32_t rank)
{
    span s;

    exg_halo_of(&what->halo, ranks, rank, &s.first, &s.count);
    return s;
}

/* How a round cuts what is sent and what comes; `cut_in`, `cut_out`: or not at all. */
typedef struct cutting {
    around in, out;
    bool cut_in, cut_out;
} cutting;

static cutting cutting_of(const exg_communicator *c, const exg_collective *what, uint32_t round)
{
    switch (what->kind) {
    case EXG_ALL_REDUCE:
        return (cutting){flat(what->in), flat(what->in), round == 0 && !is_short(c, what),
                         round == 1};
    case EXG_ALL_GATHER:
        return (cutting){flat(what->in), around_dim(what->out, what->dim), false, true};
    case EXG_REDUCE_SCATTER:
        return (cutting){around_dim(what->in, what->dim), flat(what->out), true, false};
    case EXG_ALL_TO_ALL:
        return (cutting){around_dim(what->in, what->other_dim), around_dim(what->out, what->dim),
                         true, true};
    case EXG_BROADCAST:
        return (cutting){flat(what->in), flat(what->out), false, true};
    default: /* of EXG_ALL_TO_ALL_SINGLE along dim 0 */
        return (cutting){around_dim(what->in, what->dim), around_dim(what->out, what->dim), true,
                         true};
    }
}

/* The rows of rank `rank`, where those of all lie one after another. */
static span rows_of(const int64_t *counts, uint32_t rank)
{
    span s = {0, counts[rank]};

    for (uint32_t r = 0; r < rank; r++) {
        s.first += counts[r];
    }
    return s;
}

static span sent_to(const exg_communicator *c, const exg_collective *what, const cutting *k,
                    uint32_t rank)
{
    span own = {0, k->in.length};

    if (what->kind == EXG_HALO) {
        own = chunk_of(what->halo.size, c->size, c->rank);
        return common(own, halo_at(what, c->size, rank), own);
    }
    if (what->kind == EXG_ALL_TO_ALL_SINGLE) {
        return rows_of(what->sent, rank);
    }
    if (what->kind == EXG_BROADCAST && c->rank != what->root) {
        return (span){0, 0};
    }
    return k->cut_in ? chunk_of(k->in.length, c->size, rank) : own;
}

static span come_from(const exg_communicator *c, const exg_collective *what, const cutting *k,
                      uint32_t rank)
{
    if (what->kind == EXG_HALO) {
        span own = halo_at(what, c->size, c->rank);

        return common(chunk_of(what->halo.size, c->size, rank), own, own);
    }
    if (what->kind == EXG_ALL_TO_ALL_SINGLE) {
        return rows_of(what->received, rank);
    }
    if (what->kind == EXG_BROADCAST) {
        return (span){0, rank == what->root ? k->out.length : 0};
    }
    return k->cut_out ? chunk_of(k->out.length, c->size, rank) : (span){0, k->out.length};
}

static uint64_t span_bytes(around a, span s)
{
    return (uint64_t)(a.outer * s.count * a.inner);
}

void exg_collective_counts(const exg_communicator *c, const exg_collective *what, uint32_t round,
                           exg_segment *send, exg_segment *receive)
{
    cutting k = cutting_of(c, what, round);
    span shared = chunk_of(k.in.length, c->size, c->rank); /* own sum, in the second round */
    bool sends_own = what->kind == EXG_ALL_REDUCE && round == 1;
    bool gets_own = what->kind == EXG_ALL_REDUCE && round == 0 && k.cut_in;

    for (uint32_t r = 0; r < c->size; r++) {
        send[r].bytes = span_bytes(k.in, sends_own ? shared : sent_to(c, what, &k, r));
        receive[r].bytes = span_bytes(k.out, gets_own ? shared : come_from(c, what, &k, r));
    }
}

static exg_strip strip_of(around a, span s)
{
    return (exg_strip){(uint64_t)(s.first * a.inner), (uint64_t)a.outer,
                       (uint64_t)(s.count * a.inner), (uint64_t)(a.length * a.inner)};
}

exg_strip exg_collective_sent(const exg_communicator *c, const exg_collective *what, uint32_t rank)
{
    cutting k = cutting_of(c, what, 0);

    k.cut_in = k.cut_in && what->kind != EXG_ALL_REDUCE;
    return strip_of(k.in, sent_to(c, what, &k, rank));
}

exg_strip exg_collective_received(const exg_communicator *c, const exg_collective *what,
                                  uint32_t rank)
{
    cutting k = cutting_of(c, what, 0);

    return strip_of(k.out, come_from(c, what, &k, rank));
}

/* ---- where bytes are ------------------------------------------------------------------ */

static exg_segment segment_of(exg_strip s, const void *data)
{
    bool is_one = s.rows < 2 || s.run == s.pitch;

    return (exg_segment){.data = (uint8_t *)(uintptr_t)data + s.first,
                         .bytes = exg_strip_bytes(&s),
                         .run = is_one ? 0 : s.run,
                         .pitch = is_one ? 0 : s.pitch};
}

/* Lays segments end to end, but that of rank `apart`. */
static void lay(exg_segment *segments, uint32_t count, uint32_t apart, void *first)
{
    uint8_t *at = first;

    for (uint32_t r = 0; r < count; r++) {
        segments[r] = (exg_segment){.data = r == apart ? NULL : at, .bytes = segments[r].bytes};
        at += r == apart ? 0 : segments[r].bytes;
    }
}

uint64_t exg_collective_workspace(const exg_communicator *c, const exg_collective *what)
{
    exg_segment send[EXG_RANKS_MAX];
    exg_segment receive[EXG_RANKS_MAX];
    uint64_t sum = 0;

    if (c->size > EXG_RANKS_MAX || !exg_collective_reduces(what) ||
        c->ops->lends) { /* begin will say so */
        return 0;
    }
    exg_collective_counts(c, what, 0, send, receive);
    for (uint32_t r = 0; r < c->size; r++) {
        sum += r == c->rank ? 0 : receive[r].bytes;
    }
    return sum;
}

/* Where all of a round comes from and goes to: what is reduced comes into the workspace. */
static void lay_round(const exg_communicator *c, const exg_collective *what, void *workspace,
                      exg_segment *send, exg_segment *receive)
{
    cutting k = cutting_of(c, what, 0);

    exg_collective_counts(c, what, 0, send, receive);
    if (exg_collective_reduces(what)) {
        lay(receive, c->size, c->rank, workspace);
    }
    for (uint32_t r = 0; r < c->size; r++) {
        send[r] = segment_of(strip_of(k.in, sent_to(c, what, &k, r)), what->in->data);
        if (!exg_collective_reduces(what)) {
            receive[r] = segment_of(strip_of(k.out, come_from(c, what, &k, r)), what->out->data);
        }
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
    exg_reduce_segments(what->in->dtype, what->op, from, r->c->size, to);
}

/* The second round of an all-reduce: own chunk goes to all, theirs come. */
static exg_status share_sums(exg_communicator *c, const exg_collective *what, uint64_t turn,
                             exg_error *err)
{
    exg_segment send[EXG_RANKS_MAX];
    exg_segment receive[EXG_RANKS_MAX];

    exg_collective_counts(c, what, 1, send, receive);
    lay(receive, c->size, c->size, what->out->data);
    for (uint32_t r = 0; r < c->size; r++) {
        send[r] = (exg_segment){.data = receive[c->rank].data, .bytes = send[r].bytes};
    }
    EXG_TRY(exg_exchange_begin(c, turn, send, receive, err));
    EXG_TRY(exg_exchange_finish(c, turn, NULL, NULL, err));
    return exg_exchange_settle(c, turn, err); /* `out` is the caller's from here on */
}

exg_status exg_collective_finish(exg_communicator *c, const exg_collective *what, uint64_t turn,
                                 exg_error *err)
{
    reading r = {c, what};

    EXG_TRY(
        exg_exchange_finish(c, turn, exg_collective_reduces(what) ? read_summands : NULL, &r, err));
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

        send[r] = (exg_segment){.data = data, .bytes = sends ? bytes : 0};
        receive[r] = (exg_segment){.data = data, .bytes = gets ? bytes : 0};
    }
    return exg_exchange(c, send, receive, err);
}
