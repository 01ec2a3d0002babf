/* search.c - how many edges of a sorted line are before each value: searchsorted, bucketize.
 *
 *   edges (size) or (lines, size), values (lines, width), of one dtype.
 *
 * The line is halved where PyTorch halves it, and an edge is before a value unless it is
 * known not to. So a value that is NaN comes after all edges, an edge that is NaN before all
 * values, and edges that are in no order have the places that PyTorch finds in them.
 */
#include "libexec/kernels/cpu/common.h"

#define CHUNK    256
#define TOGETHER 8

/* Places of `count` values among `size` edges; `right`: an edge equal to a value is before. */
typedef void search_line(const void *edges, int64_t size, const void *values, int64_t count,
                         bool right, int64_t *places);

typedef struct search_params {
    search_line *search;
    int64_t lines, width, size;
    int64_t chunks; /* of a line */
    int64_t chunks_of_block;
    uint32_t bytes; /* of a value, of an edge */
    bool own_edges; /* every line has its own */
    bool right;
    bool is_narrow; /* places are i32 */
} search_params;

typedef struct search_context {
    const exg_kernel_call *call;
    const search_params *p;
} search_context;

/* Several values go together, since each halving waits for memory; one that has found its place
 * looks at it again until all have. */
#define HALVES(is_after)                                                                           \
    for (int64_t k = 0; k < count && size > 0; k += TOGETHER) {                                    \
        int64_t low[TOGETHER] = {0};                                                               \
        int64_t high[TOGETHER];                                                                    \
                                                                                                   \
        for (int64_t i = 0; i < TOGETHER; i++) {                                                   \
            high[i] = k + i < count ? size : 0;                                                    \
        }                                                                                          \
        for (int64_t left = size; left > 0; left /= 2) {                                           \
            for (int64_t i = 0; i < TOGETHER; i++) {                                               \
                int64_t mid = (low[i] + high[i]) >> 1;                                             \
                bool is_found = low[i] == high[i];                                                 \
                bool after = line[mid - (mid == size)] is_after value[k + i < count ? k + i : k];  \
                                                                                                   \
                /* no jump that is taken every other time */                                       \
                high[i] += (mid - high[i]) & -(int64_t)after;                                      \
                low[i] += (mid + 1 - low[i]) & ((int64_t)(after | is_found) - 1);                  \
            }                                                                                      \
        }                                                                                          \
        for (int64_t i = 0; i < TOGETHER && k + i < count; i++) {                                  \
            places[k + i] = low[i];                                                                \
        }                                                                                          \
    }

#define SEARCH_LINE(type, name)                                                                    \
    static void name(const void *edges, int64_t size, const void *values, int64_t count,           \
                     bool right, int64_t *places)                                                  \
    {                                                                                              \
        const type *line = edges;                                                                  \
        const type *value = values;                                                                \
                                                                                                   \
        memset(places, 0, (size_t)count * sizeof(*places));                                        \
        if (right) {                                                                               \
            HALVES(>)                                                                              \
        } else {                                                                                   \
            HALVES(>=)                                                                             \
        }                                                                                          \
    }
SEARCH_LINE(float, search_f32)
SEARCH_LINE(double, search_f64)
SEARCH_LINE(int32_t, search_i32)
SEARCH_LINE(int64_t, search_i64)

static void search_chunk(const exg_kernel_call *call, const search_params *p, int64_t line,
                         int64_t first)
{
    const char *edges = call->inputs[0].data;
    const char *values = call->inputs[1].data;
    int64_t count = EXG_MIN(p->width - first, CHUNK);
    int64_t at = line * p->width + first;
    int64_t places[CHUNK];

    p->search(edges + (p->own_edges ? line * p->size * p->bytes : 0), p->size,
              values + at * p->bytes, count, p->right, places);
    if (!p->is_narrow) {
        memcpy((int64_t *)call->outputs[0].data + at, places, (size_t)count * sizeof(*places));
        return;
    }
    for (int64_t k = 0; k < count; k++) {
        ((int32_t *)call->outputs[0].data)[at + k] = (int32_t)places[k];
    }
}

static void search_block(void *context, uint32_t block)
{
    const search_context *c = context;
    int64_t first = (int64_t)block * c->p->chunks_of_block;
    int64_t end = EXG_MIN(first + c->p->chunks_of_block, c->p->lines * c->p->chunks);

    for (int64_t i = first; i < end; i++) {
        search_chunk(c->call, c->p, i / c->p->chunks, i % c->p->chunks * CHUNK);
    }
}

static void search_run(const exg_kernel_call *call)
{
    const search_params *p = call->params;
    search_context context = {call, p};

    exg_pool_run(call->pool, search_block, &context,
                 exg_block_count(p->lines * p->chunks, p->chunks_of_block));
}

/* (edges, values, right, dtype) */
static exg_status search_prepare(exg_kernel_call *call, exg_error *err)
{
    static search_line *const each[EXG_COMPUTE_COUNT] = {search_f32, search_f64, search_i32,
                                                         search_i64};
    const exg_tensor *edges = &call->inputs[0];
    const exg_tensor *values = &call->inputs[1];
    search_params *p = EXG_NEW(call->arena, search_params);
    exg_compute compute;
    int64_t halvings = 1;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (!exg_compute_of(values->dtype, &compute) || !exg_compute_is_storage(values->dtype) ||
        edges->dtype != values->dtype) {
        return exg_unsupported_dtype("searchsorted", values->dtype, err);
    }
    EXG_TRY(exg_require_index("searchsorted", call->outputs[0].dtype, err));
    p->search = each[compute];
    p->bytes = exg_dtype_bytes(values->dtype);
    p->size = edges->sizes[edges->rank - 1];
    p->own_edges = edges->rank > 1;
    p->width = values->rank == 0 ? 1 : values->sizes[values->rank - 1];
    p->lines = p->width == 0 ? 0 : exg_tensor_numel(values) / p->width;
    if (!p->own_edges) { /* one long line, however the values lie */
        p->width *= p->lines;
        p->lines = 1;
    }
    for (int64_t left = p->size; left > 0; left /= 2) {
        halvings++;
    }
    p->chunks = exg_ceil_div(p->width, CHUNK);
    p->chunks_of_block = exg_items_per_block(halvings * EXG_MIN(p->width, CHUNK), EXG_GRAIN);
    p->right = exg_call_bool(call, 2);
    p->is_narrow = call->outputs[0].dtype == EXG_DTYPE_I32;
    call->params = p;
    return EXG_OK;
}

const exg_kernel exg_kernel_searchsorted = {
    .name = "searchsorted",
    .prepare = search_prepare,
    .run = search_run,
};
