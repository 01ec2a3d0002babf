/* collectives.c - each is one or two exchanges, with packing where a chunk of a
 * dimension is no run of bytes. */
#include "libexec/comm/collectives.h"
#include "libexec/comm/reduce.h"

#include <string.h>

#define RANKS_MAX 256

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

bool exg_can_reduce(exg_dtype dtype, exg_reduce_op op)
{
    switch (dtype) {
    case EXG_DTYPE_F32:
    case EXG_DTYPE_F64:
    case EXG_DTYPE_F16:
    case EXG_DTYPE_BF16:
        return op < EXG_REDUCE_BAND;
    case EXG_DTYPE_U8:
    case EXG_DTYPE_I8:
    case EXG_DTYPE_I16:
    case EXG_DTYPE_I32:
    case EXG_DTYPE_I64:
    case EXG_DTYPE_B8:
        return op != EXG_REDUCE_AVG;
    default:
        return false;
    }
}

static exg_status check_size(const exg_communicator *c, exg_error *err)
{
    if (c->size > RANKS_MAX) {
        return EXG_FAIL(err, LIMIT, "COM-004", "%u ranks; at most %d", c->size, RANKS_MAX);
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

uint32_t exg_collective_rounds(const exg_collective *what)
{
    return what->kind == EXG_ALL_REDUCE ? 2 : 1;
}

void exg_collective_counts(const exg_communicator *c, const exg_collective *what, uint32_t round,
                           exg_segment *send, exg_segment *receive)
{
    around in = what->kind == EXG_ALL_REDUCE     ? flat(what->in)
                : what->kind == EXG_ALL_TO_ALL ? around_dim(what->in, what->other_dim)
                                               : around_dim(what->in, what->dim);
    around out = what->kind == EXG_ALL_REDUCE ? in : around_dim(what->out, what->dim);
    bool sends_chunks = what->kind != EXG_ALL_GATHER && round == 0;
    bool gets_chunks = what->kind == EXG_ALL_GATHER || what->kind == EXG_ALL_TO_ALL || round == 1;
    uint64_t own = what->kind == EXG_ALL_REDUCE   ? chunk_bytes(in, c->size, c->rank)
                   : what->kind == EXG_ALL_GATHER ? bytes_of(what->in)
                                                  : bytes_of(what->out);

    for (uint32_t r = 0; r < c->size; r++) {
        send[r].bytes = sends_chunks ? chunk_bytes(in, c->size, r) : own;
        receive[r].bytes = gets_chunks ? chunk_bytes(out, c->size, r) : own;
    }
}

/* ---- collectives ---------------------------------------------------------------------- */

/* Lays segments end to end; gives where they end. */
static uint8_t *lay(exg_segment *segments, uint32_t count, uint8_t *at)
{
    for (uint32_t r = 0; r < count; r++) {
        segments[r].data = at;
        at += segments[r].bytes;
    }
    return at;
}

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

uint64_t exg_all_gather_workspace(const exg_communicator *c, const exg_tensor *out)
{
    (void)c;
    return bytes_of(out);
}

exg_status exg_all_gather(exg_communicator *c, const exg_tensor *in, const exg_tensor *out,
                          uint32_t dim, void *workspace, exg_error *err)
{
    exg_segment send[RANKS_MAX];
    exg_segment receive[RANKS_MAX];
    exg_collective what = {EXG_ALL_GATHER, in, out, dim, 0};
    bool in_place = around_dim(out, dim).outer == 1;

    EXG_TRY(check_size(c, err));
    exg_collective_counts(c, &what, 0, send, receive);
    for (uint32_t r = 0; r < c->size; r++) {
        send[r].data = in->data;
    }
    (void)lay(receive, c->size, in_place ? out->data : workspace);
    EXG_TRY(exg_exchange(c, send, receive, err));
    if (!in_place) {
        unpack_chunks(receive, c->size, out, dim);
    }
    return EXG_OK;
}

uint64_t exg_all_reduce_workspace(const exg_communicator *c, const exg_tensor *in)
{
    return c->size * chunk_bytes(flat(in), c->size, 0);
}

exg_status exg_all_reduce(exg_communicator *c, const exg_tensor *in, const exg_tensor *out,
                          exg_reduce_op op, void *workspace, exg_error *err)
{
    exg_segment send[RANKS_MAX];
    exg_segment receive[RANKS_MAX];
    exg_collective what = {EXG_ALL_REDUCE, in, out, 0, 0};
    uint64_t own;

    EXG_TRY(check_size(c, err));
    exg_collective_counts(c, &what, 0, send, receive);
    own = receive[0].bytes;
    (void)lay(send, c->size, in->data);
    (void)lay(receive, c->size, workspace);
    EXG_TRY(exg_exchange(c, send, receive, err));
    exg_reduce_parts(in->dtype, op, workspace, c->size, (int64_t)own / exg_dtype_bytes(in->dtype),
                     workspace);
    exg_collective_counts(c, &what, 1, send, receive);
    for (uint32_t r = 0; r < c->size; r++) {
        send[r].data = workspace;
    }
    (void)lay(receive, c->size, out->data);
    return exg_exchange(c, send, receive, err);
}

uint64_t exg_reduce_scatter_workspace(const exg_communicator *c, const exg_tensor *in, uint32_t dim)
{
    /* packed chunks, then own chunk of every rank; chunk 0 is the longest */
    return bytes_of(in) + c->size * chunk_bytes(around_dim(in, dim), c->size, 0);
}

exg_status exg_reduce_scatter(exg_communicator *c, const exg_tensor *in, const exg_tensor *out,
                              uint32_t dim, exg_reduce_op op, void *workspace, exg_error *err)
{
    exg_segment send[RANKS_MAX];
    exg_segment receive[RANKS_MAX];
    exg_collective what = {EXG_REDUCE_SCATTER, in, out, dim, 0};
    uint8_t *parts;

    EXG_TRY(check_size(c, err));
    exg_collective_counts(c, &what, 0, send, receive);
    parts = lay(send, c->size, workspace);
    (void)lay(receive, c->size, parts);
    pack_chunks(in, dim, send, c->size);
    EXG_TRY(exg_exchange(c, send, receive, err));
    exg_reduce_parts(in->dtype, op, parts, c->size, exg_tensor_numel(out), out->data);
    return EXG_OK;
}

uint64_t exg_all_to_all_workspace(const exg_communicator *c, const exg_tensor *in,
                                  const exg_tensor *out)
{
    (void)c;
    return bytes_of(in) + bytes_of(out);
}

exg_status exg_all_to_all(exg_communicator *c, const exg_tensor *in, const exg_tensor *out,
                          uint32_t gather_dim, uint32_t scatter_dim, void *workspace,
                          exg_error *err)
{
    exg_segment send[RANKS_MAX];
    exg_segment receive[RANKS_MAX];
    exg_collective what = {EXG_ALL_TO_ALL, in, out, gather_dim, scatter_dim};

    EXG_TRY(check_size(c, err));
    exg_collective_counts(c, &what, 0, send, receive);
    (void)lay(receive, c->size, lay(send, c->size, workspace));
    pack_chunks(in, scatter_dim, send, c->size);
    EXG_TRY(exg_exchange(c, send, receive, err));
    unpack_chunks(receive, c->size, out, gather_dim);
    return EXG_OK;
}

exg_status exg_broadcast_bytes(exg_communicator *c, void *data, uint64_t bytes, uint32_t source,
                               exg_error *err)
{
    exg_segment send[RANKS_MAX];
    exg_segment receive[RANKS_MAX];

    EXG_TRY(check_size(c, err));
    for (uint32_t r = 0; r < c->size; r++) {
        bool sends = c->rank == source && r != source;
        bool gets = c->rank != source && r == source;

        send[r] = (exg_segment){data, sends ? bytes : 0};
        receive[r] = (exg_segment){data, gets ? bytes : 0};
    }
    return exg_exchange(c, send, receive, err);
}
