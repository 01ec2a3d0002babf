/* running_extreme.c - cummax, cummin along one dimension: the extreme so far, and its place.
 *
 *   x, values, places (outer, size, inner), contiguous. Of equal elements the latest counts, and
 *   NaN is the extreme from the first one on, as in PyTorch.
 */
#include "libexec/kernels/cpu/common.h"

#define CHUNK 256 /* lines side by side, or elements of a dense one, at a time */

typedef struct running_params {
    exg_around around;
    exg_dtype dtype;
    uint32_t bytes;
    bool is_storage; /* memory is of the type that is compared */
    int64_t tiles;   /* of one outer row: CHUNK lines each, or the dense line */
    int64_t tiles_of_block;
    const exg_convert_loops *convert;
    const exg_running_loop *loop;
} running_params;

typedef struct running_context {
    const running_params *p;
    const char *in;
    char *values;
    int64_t *places;
} running_context;

typedef union values {
    float f32[CHUNK];
    double f64[CHUNK];
    int32_t i32[CHUNK];
    int64_t i64[CHUNK];
} values;

static const void *bring(const running_context *r, int64_t at, int64_t count, values *to)
{
    const running_params *p = r->p;
    const char *memory = r->in + at * p->bytes;

    if (p->is_storage) {
        return memory;
    }
    p->convert->load[p->dtype]((uint32_t)count, to, memory, 1);
    return to;
}

static void *place_of(const running_context *r, int64_t at, values *y)
{
    return r->p->is_storage ? (void *)(r->values + at * r->p->bytes) : y;
}

static void put(const running_context *r, int64_t at, int64_t count, const values *y)
{
    const running_params *p = r->p;

    if (!p->is_storage) {
        p->convert->store[p->dtype]((uint32_t)count, r->values + at * p->bytes, 1, y);
    }
}

static void run_across(const running_context *r, int64_t outer, int64_t inner)
{
    exg_around a = r->p->around;
    int64_t count = EXG_MIN(a.inner - inner, CHUNK);
    int64_t first = outer * a.size * a.inner + inner;
    int64_t places[CHUNK] = {0};
    values best;
    values x;
    values y;

    r->p->convert->load[r->p->dtype]((uint32_t)count, &best, r->in + first * r->p->bytes, 1);
    for (int64_t i = 0; i < a.size; i++) {
        int64_t at = first + i * a.inner;

        r->p->loop->across(count, place_of(r, at, &y), r->places + at, bring(r, at, count, &x),
                           &best, places, i);
        put(r, at, count, &y);
    }
}

static void run_along(const running_context *r, int64_t outer)
{
    int64_t size = r->p->around.size;
    int64_t place = 0;
    values best;
    values x;
    values y;

    r->p->convert->load[r->p->dtype](1, &best, r->in + outer * size * r->p->bytes, 1);
    for (int64_t first = 0; first < size; first += CHUNK) {
        int64_t at = outer * size + first;
        int64_t count = EXG_MIN(size - first, CHUNK);

        r->p->loop->along(count, place_of(r, at, &y), r->places + at, bring(r, at, count, &x),
                          &best, &place, first);
        put(r, at, count, &y);
    }
}

static void running_block(void *context, uint32_t block)
{
    const running_context *r = context;
    const running_params *p = r->p;
    int64_t end = EXG_MIN(((int64_t)block + 1) * p->tiles_of_block, p->around.outer * p->tiles);

    for (int64_t tile = (int64_t)block * p->tiles_of_block; tile < end; tile++) {
        if (p->around.inner == 1) {
            run_along(r, tile);
        } else {
            run_across(r, tile / p->tiles, tile % p->tiles * CHUNK);
        }
    }
}

/* (self, dim) -> values, places */
static exg_status plan(exg_kernel_call *call, bool is_min, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    running_params *p = EXG_NEW(call->arena, running_params);
    exg_compute compute;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    p->dtype = in->dtype;
    if (!exg_compute_of(p->dtype, &compute)) {
        return exg_unsupported_dtype(is_min ? "cummin" : "cummax", p->dtype, err);
    }
    p->around = exg_around_dim(in, exg_call_dim(call, 1, in->rank));
    p->bytes = exg_dtype_bytes(p->dtype);
    p->is_storage = exg_compute_is_storage(p->dtype);
    p->tiles = exg_ceil_div(p->around.inner, CHUNK);
    p->tiles_of_block = exg_items_per_block(
        2 * p->around.size * EXG_MAX(1, EXG_MIN(p->around.inner, CHUNK)), EXG_GRAIN);
    p->convert = EXG_LOOPS(exg_loops_convert);
    p->loop = &EXG_LOOPS(exg_loops_running)->of[compute][is_min];
    call->params = p;
    return EXG_OK;
}

static void running_run(const exg_kernel_call *call)
{
    const running_params *p = call->params;
    running_context r = {p, call->inputs[0].data, call->outputs[0].data, call->outputs[1].data};

    if (p->around.size > 0) {
        exg_pool_run(call->pool, running_block, &r,
                     exg_block_count(p->around.outer * p->tiles, p->tiles_of_block));
    }
}

#define RUNNING(kernel, is_min)                                                                    \
    static exg_status kernel##_prepare(exg_kernel_call *call, exg_error *err)                      \
    {                                                                                              \
        return plan(call, is_min, err);                                                            \
    }                                                                                              \
    const exg_kernel exg_kernel_##kernel = {                                                       \
        .name = #kernel,                                                                           \
        .prepare = kernel##_prepare,                                                               \
        .run = running_run,                                                                        \
    };

RUNNING(cummax, false)
RUNNING(cummin, true)
