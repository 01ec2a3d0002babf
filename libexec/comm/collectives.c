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
        return true;
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
    around a = around_dim(out, dim);
    uint8_t *into = a.outer == 1 ? out->data : workspace;
    uint8_t *at = into;

    EXG_TRY(check_size(c, err));
    for (uint32_t r = 0; r < c->size; r++) {
        int64_t offset;
        int64_t count;

        exg_chunk(a.length, c->size, r, &offset, &count);
        send[r] = (exg_segment){in->data, bytes_of(in)};
        receive[r] = (exg_segment){at, (uint64_t)(a.outer * count * a.inner)};
        at += receive[r].bytes;
    }
    EXG_TRY(exg_exchange(c, send, receive, err));
    for (uint32_t r = 0; r < c->size && a.outer != 1; r++) {
        int64_t offset;
        int64_t count;

        exg_chunk(a.length, c->size, r, &offset, &count);
        unpack(receive[r].data, a, offset, count, out->data);
    }
    return EXG_OK;
}

uint64_t exg_all_reduce_workspace(const exg_communicator *c, const exg_tensor *in)
{
    int64_t offset;
    int64_t count;

    exg_chunk(exg_tensor_numel(in), c->size, 0, &offset, &count);
    return (uint64_t)count * c->size * exg_dtype_bytes(in->dtype);
}

exg_status exg_all_reduce(exg_communicator *c, const exg_tensor *in, const exg_tensor *out,
                          exg_reduce_op op, void *workspace, exg_error *err)
{
    exg_segment send[RANKS_MAX];
    exg_segment receive[RANKS_MAX];
    int64_t numel = exg_tensor_numel(in);
    int64_t item = exg_dtype_bytes(in->dtype);
    int64_t own_offset;
    int64_t own;

    EXG_TRY(check_size(c, err));
    exg_chunk(numel, c->size, c->rank, &own_offset, &own);
    for (uint32_t r = 0; r < c->size; r++) {
        int64_t offset;
        int64_t count;

        exg_chunk(numel, c->size, r, &offset, &count);
        send[r] = (exg_segment){(uint8_t *)in->data + offset * item, (uint64_t)(count * item)};
        receive[r] = (exg_segment){(uint8_t *)workspace + (int64_t)r * own * item,
                                   (uint64_t)(own * item)};
    }
    EXG_TRY(exg_exchange(c, send, receive, err));
    exg_reduce_parts(in->dtype, op, workspace, c->size, own, workspace);
    for (uint32_t r = 0; r < c->size; r++) {
        int64_t offset;
        int64_t count;

        exg_chunk(numel, c->size, r, &offset, &count);
        send[r] = (exg_segment){workspace, (uint64_t)(own * item)};
        receive[r] = (exg_segment){(uint8_t *)out->data + offset * item, (uint64_t)(count * item)};
    }
    return exg_exchange(c, send, receive, err);
}

static uint64_t longest_chunk(const exg_communicator *c, const exg_tensor *in, uint32_t dim)
{
    around a = around_dim(in, dim);
    int64_t offset;
    int64_t count;

    exg_chunk(a.length, c->size, 0, &offset, &count);
    return (uint64_t)(a.outer * count * a.inner);
}

uint64_t exg_reduce_scatter_workspace(const exg_communicator *c, const exg_tensor *in, uint32_t dim)
{
    /* packed chunks, then own chunk of every rank; chunk 0 is the longest */
    return bytes_of(in) + c->size * longest_chunk(c, in, dim);
}

exg_status exg_reduce_scatter(exg_communicator *c, const exg_tensor *in, const exg_tensor *out,
                              uint32_t dim, exg_reduce_op op, void *workspace, exg_error *err)
{
    exg_segment send[RANKS_MAX];
    exg_segment receive[RANKS_MAX];
    around a = around_dim(in, dim);
    uint8_t *at = workspace;
    uint64_t own = bytes_of(out);

    EXG_TRY(check_size(c, err));
    for (uint32_t r = 0; r < c->size; r++) {
        int64_t offset;
        int64_t count;

        exg_chunk(a.length, c->size, r, &offset, &count);
        pack(in->data, a, offset, count, at);
        send[r] = (exg_segment){at, (uint64_t)(a.outer * count * a.inner)};
        at += send[r].bytes;
    }
    for (uint32_t r = 0; r < c->size; r++) {
        receive[r] = (exg_segment){at + (uint64_t)r * own, own};
    }
    EXG_TRY(exg_exchange(c, send, receive, err));
    exg_reduce_parts(in->dtype, op, at, c->size, exg_tensor_numel(out), out->data);
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
    around from = around_dim(in, scatter_dim);
    around to = around_dim(out, gather_dim);
    uint8_t *at = workspace;

    EXG_TRY(check_size(c, err));
    for (uint32_t r = 0; r < c->size; r++) {
        int64_t offset;
        int64_t count;

        exg_chunk(from.length, c->size, r, &offset, &count);
        pack(in->data, from, offset, count, at);
        send[r] = (exg_segment){at, (uint64_t)(from.outer * count * from.inner)};
        at += send[r].bytes;
    }
    for (uint32_t r = 0; r < c->size; r++) {
        int64_t offset;
        int64_t count;

        exg_chunk(to.length, c->size, r, &offset, &count);
        receive[r] = (exg_segment){at, (uint64_t)(to.outer * count * to.inner)};
        at += receive[r].bytes;
    }
    EXG_TRY(exg_exchange(c, send, receive, err));
    for (uint32_t r = 0; r < c->size; r++) {
        int64_t offset;
        int64_t count;

        exg_chunk(to.length, c->size, r, &offset, &count);
        unpack(receive[r].data, to, offset, count, out->data);
    }
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
