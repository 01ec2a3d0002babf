/* edge_pad.c - edges filled with what the tensor has: reflected, repeated, or from the other side.
 *
 * Each place along a padded dim is one of the tensor's, which a map tells. Rows of the result are
 * rows of the tensor, with the few places before and behind them looked up.
 */
#include "libexec/kernels/cpu/common.h"

typedef enum edge_mode { EDGE_REFLECT, EDGE_REPLICATE, EDGE_CIRCULAR } edge_mode;

typedef struct edge_pad_params {
    uint32_t rank;                 /* the dims before the first padded one are one */
    int64_t sizes[EXG_RANK_MAX];   /* of the result */
    int64_t strides[EXG_RANK_MAX]; /* of the tensor */
    const int64_t *maps[EXG_RANK_MAX];
    int64_t before, inside; /* of a result row: places that precede the tensor's, and those */
    int64_t rows, rows_of_block;
    uint32_t bytes;
} edge_pad_params;

typedef struct edge_pad_run_context {
    const edge_pad_params *p;
    const char *in;
    char *out;
} edge_pad_run_context;

/* Where a place beyond one of `size` is taken from; what is padded goes once over it at most. */
static int64_t source_of(edge_mode mode, int64_t at, int64_t size)
{
    switch (mode) {
    case EDGE_REFLECT:
        return at < 0 ? -at : at < size ? at : 2 * (size - 1) - at;
    case EDGE_REPLICATE:
        return EXG_MAX(0, EXG_MIN(at, size - 1));
    default:
        return at < 0 ? at + size : at < size ? at : at - size;
    }
}

static const int64_t *map_of(exg_arena *arena, edge_mode mode, int64_t before, int64_t size,
                             int64_t padded)
{
    int64_t *map = EXG_NEW_ARRAY(arena, int64_t, (size_t)padded + 1);

    for (int64_t i = 0; map != NULL && i < padded; i++) {
        map[i] = source_of(mode, i - before, size);
    }
    return map;
}

/* (self, pad: (before, after) of the last dim, then of the one before, ..., mode) */
static exg_status edge_pad_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    const exg_tensor *out = &call->outputs[0];
    edge_pad_params *p = EXG_NEW(call->arena, edge_pad_params);
    edge_mode mode = (edge_mode)exg_call_int(call, 2);
    int64_t pad[2 * EXG_RANK_MAX] = {0};
    uint32_t first = in->rank - exg_call_ints(call, 1, pad, 2 * EXG_RANK_MAX) / 2;
    int64_t outer = 1;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    call->params = p;
    p->bytes = exg_dtype_bytes(in->dtype);
    if (exg_tensor_numel(out) == 0) {
        return EXG_OK; /* no rows */
    }
    for (uint32_t d = 0; d < first; d++) {
        outer *= in->sizes[d];
    }
    p->rows = outer;
    p->sizes[p->rank] = outer;
    p->strides[p->rank++] = first == 0 ? 0 : in->strides[first - 1];
    for (uint32_t d = first; d < in->rank; d++, p->rank++) {
        p->sizes[p->rank] = out->sizes[d];
        p->strides[p->rank] = in->strides[d];
        p->maps[p->rank] =
            map_of(call->arena, mode, pad[2 * (in->rank - 1 - d)], in->sizes[d], out->sizes[d]);
        if (p->maps[p->rank] == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        p->rows *= d + 1 < in->rank ? out->sizes[d] : 1;
    }
    p->before = pad[0];
    p->inside = in->sizes[in->rank - 1];
    p->rows_of_block = exg_items_per_block(p->sizes[p->rank - 1], EXG_GRAIN);
    return EXG_OK;
}

#define DEFINE_EDGES(type, name)                                                                   \
    static void edges_##name(char *out, const char *in, const int64_t *map, int64_t first,         \
                             int64_t end)                                                          \
    {                                                                                              \
        for (int64_t i = first; i < end; i++) {                                                    \
            memcpy(out + i * (int64_t)sizeof(type), in + map[i] * (int64_t)sizeof(type),           \
                   sizeof(type));                                                                  \
        }                                                                                          \
    }

typedef struct sixteen {
    uint64_t halves[2];
} sixteen;

DEFINE_EDGES(uint8_t, 1)
DEFINE_EDGES(uint16_t, 2)
DEFINE_EDGES(uint32_t, 4)
DEFINE_EDGES(uint64_t, 8)
DEFINE_EDGES(sixteen, 16)

static void edges(uint32_t bytes, char *out, const char *in, const int64_t *map, int64_t first,
                  int64_t end)
{
    (bytes == 1   ? edges_1
     : bytes == 2 ? edges_2
     : bytes == 4 ? edges_4
     : bytes == 8 ? edges_8
                  : edges_16)(out, in, map, first, end);
}

static void edge_pad_block(void *context, uint32_t block)
{
    const edge_pad_run_context *r = context;
    const edge_pad_params *p = r->p;
    const uint32_t last = p->rank - 1;
    const int64_t bytes = p->bytes;
    int64_t row = (int64_t)block * p->rows_of_block;
    int64_t end = EXG_MIN(row + p->rows_of_block, p->rows);
    int64_t index[EXG_RANK_MAX];

    for (int64_t d = (int64_t)last - 1, rest = row; d >= 0; d--) {
        index[d] = rest % p->sizes[d];
        rest /= p->sizes[d];
    }
    for (; row < end; row++) {
        char *out = r->out + row * p->sizes[last] * bytes;
        const char *in = r->in + index[0] * p->strides[0] * bytes;

        for (uint32_t d = 1; d < last; d++) {
            in += p->maps[d][index[d]] * p->strides[d] * bytes;
        }
        edges(p->bytes, out, in, p->maps[last], 0, p->before);
        memcpy(out + p->before * bytes, in, (size_t)(p->inside * bytes));
        edges(p->bytes, out, in, p->maps[last], p->before + p->inside, p->sizes[last]);
        for (uint32_t d = last; d-- > 0 && ++index[d] == p->sizes[d];) {
            index[d] = 0;
        }
    }
}

static void edge_pad_run(const exg_kernel_call *call)
{
    const edge_pad_params *p = call->params;
    edge_pad_run_context r = {p, call->inputs[0].data, call->outputs[0].data};

    if (p->rows > 0) {
        exg_pool_run(call->pool, edge_pad_block, &r, exg_block_count(p->rows, p->rows_of_block));
    }
}

const exg_kernel exg_kernel_edge_pad = {
    .name = "edge_pad",
    .prepare = edge_pad_prepare,
    .run = edge_pad_run,
};
