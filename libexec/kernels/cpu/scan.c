/* scan.c - cumsum, cumprod along one dimension.
 *
 *   x, y (outer, size, inner), contiguous. f32 and f64 run in double, f16 and bf16 in
 *   f32, integers in int64, as in PyTorch.
 */
#include "libexec/kernels/cpu/common.h"

#define CHUNK 256 /* lines side by side, or elements of dense ones, at a time */

typedef struct scan_params {
    exg_around around;
    bool is_product;
    exg_dtype in_dtype, out_dtype;
    exg_compute loaded, compute;
    exg_scan_type type;
    uint32_t in_bytes, out_bytes;
    bool reads, writes; /* memory itself, where it is of the type that is computed */
    int64_t tiles;      /* of lines that go together */
    int64_t tiles_of_block;
    const exg_convert_loops *convert;
    const exg_scan_loop *loop;
} scan_params;

typedef struct scan_run_context {
    const scan_params *p;
    const char *in;
    char *out;
} scan_run_context;

typedef union values {
    float f32[CHUNK];
    double f64[CHUNK];
    int32_t i32[CHUNK];
    int64_t i64[CHUNK];
} values;

/* 1 of products, 0 of sums. */
static void start(const scan_params *p, values *running)
{
    for (int64_t k = 0; k < CHUNK; k++) {
        switch (p->type) {
        case EXG_SCAN_F32:
            running->f32[k] = p->is_product ? 1 : 0;
            break;
        case EXG_SCAN_F32_IN_F64:
        case EXG_SCAN_F64:
            running->f64[k] = p->is_product ? 1 : 0;
            break;
        case EXG_SCAN_I32:
            running->i32[k] = p->is_product ? 1 : 0;
            break;
        default:
            running->i64[k] = p->is_product ? 1 : 0;
        }
    }
}

/* `count` elements from `at` on in the type they are computed in: memory itself, or in `to`. */
static const void *bring(const scan_run_context *r, int64_t at, int64_t count, values *to)
{
    const scan_params *p = r->p;
    const char *memory = r->in + at * p->in_bytes;
    values loaded;

    if (p->reads) {
        return memory;
    }
    if (p->loaded == p->compute) {
        p->convert->load[p->in_dtype]((uint32_t)count, to, memory, 1);
    } else {
        p->convert->load[p->in_dtype]((uint32_t)count, &loaded, memory, 1);
        p->convert->convert[p->compute][p->loaded]((uint32_t)count, to, &loaded);
    }
    return to;
}

static void *place(const scan_run_context *r, int64_t at, values *y)
{
    return r->p->writes ? (void *)(r->out + at * r->p->out_bytes) : y;
}

static void put(const scan_run_context *r, int64_t at, int64_t count, const values *y)
{
    const scan_params *p = r->p;

    if (!p->writes) {
        p->convert->store[p->out_dtype]((uint32_t)count, r->out + at * p->out_bytes, 1, y);
    }
}

static void scan_across(const scan_run_context *r, int64_t outer, int64_t inner)
{
    exg_around a = r->p->around;
    int64_t count = EXG_MIN(a.inner - inner, CHUNK);
    values running;
    values x;
    values y;

    start(r->p, &running);
    for (int64_t i = 0; i < a.size; i++) {
        int64_t at = (outer * a.size + i) * a.inner + inner;

        r->p->loop->across(count, place(r, at, &y), bring(r, at, count, &x), &running);
        put(r, at, count, &y);
    }
}

static void scan_along(const scan_run_context *r, int64_t line)
{
    exg_around a = r->p->around;
    int64_t lines = EXG_MIN(a.outer - line, EXG_SCAN_ABREAST);
    uint32_t of_one = r->p->type == EXG_SCAN_F32 || r->p->type == EXG_SCAN_I32 ? 4 : 8;
    values running;
    values x[EXG_SCAN_ABREAST];
    values y[EXG_SCAN_ABREAST];

    start(r->p, &running);
    for (int64_t first = 0; first < a.size; first += CHUNK) {
        int64_t count = EXG_MIN(a.size - first, CHUNK);
        const void *from[EXG_SCAN_ABREAST];
        void *to[EXG_SCAN_ABREAST];

        for (int64_t k = 0; k < lines; k++) {
            from[k] = bring(r, (line + k) * a.size + first, count, &x[k]);
            to[k] = place(r, (line + k) * a.size + first, &y[k]);
        }
        if (lines == EXG_SCAN_ABREAST) {
            r->p->loop->along(count, to, from, &running);
        } else {
            for (int64_t k = 0; k < lines; k++) {
                r->p->loop->one(count, to[k], from[k], (char *)&running + k * of_one);
            }
        }
        for (int64_t k = 0; k < lines; k++) {
            put(r, (line + k) * a.size + first, count, &y[k]);
        }
    }
}

static void scan_block(void *context, uint32_t block)
{
    const scan_run_context *r = context;
    const scan_params *p = r->p;
    bool is_dense = p->around.inner == 1;
    int64_t all = is_dense ? p->tiles : p->around.outer * p->tiles;
    int64_t end = EXG_MIN(((int64_t)block + 1) * p->tiles_of_block, all);

    for (int64_t tile = (int64_t)block * p->tiles_of_block; tile < end; tile++) {
        if (is_dense) {
            scan_along(r, tile * EXG_SCAN_ABREAST);
        } else {
            scan_across(r, tile / p->tiles, tile % p->tiles * CHUNK);
        }
    }
}

static exg_scan_type scan_type_of(const scan_params *p)
{
    switch (p->compute) {
    case EXG_COMPUTE_F32:
        return p->out_dtype == EXG_DTYPE_F32 ? EXG_SCAN_F32_IN_F64 : EXG_SCAN_F32;
    case EXG_COMPUTE_F64:
        return EXG_SCAN_F64;
    case EXG_COMPUTE_I32:
        return EXG_SCAN_I32;
    default:
        return EXG_SCAN_I64;
    }
}

static exg_status plan(exg_kernel_call *call, bool is_product, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    scan_params *p = EXG_NEW(call->arena, scan_params);
    bool is_dense;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    p->in_dtype = in->dtype;
    p->out_dtype = call->outputs[0].dtype;
    if (!exg_compute_of(p->in_dtype, &p->loaded) || !exg_compute_of(p->out_dtype, &p->compute)) {
        return exg_unsupported_dtype("cumsum", p->in_dtype, err);
    }
    p->around = exg_around_dim(in, exg_call_dim(call, 1, in->rank));
    p->is_product = is_product;
    p->in_bytes = exg_dtype_bytes(p->in_dtype);
    p->out_bytes = exg_dtype_bytes(p->out_dtype);
    is_dense = p->around.inner == 1;
    p->tiles = is_dense ? exg_ceil_div(p->around.outer, EXG_SCAN_ABREAST)
                        : exg_ceil_div(p->around.inner, CHUNK);
    p->tiles_of_block = exg_items_per_block(
        2 * p->around.size * (is_dense ? EXG_SCAN_ABREAST : EXG_MIN(p->around.inner, CHUNK)),
        EXG_GRAIN);
    p->type = scan_type_of(p);
    p->reads = p->loaded == p->compute && exg_compute_is_storage(p->in_dtype);
    p->writes = exg_compute_is_storage(p->out_dtype);
    p->convert = EXG_LOOPS(exg_loops_convert);
    p->loop = &EXG_LOOPS(exg_loops_scan)->of[p->type][is_product];
    call->params = p;
    return EXG_OK;
}

static void scan_run(const exg_kernel_call *call)
{
    const scan_params *p = call->params;
    scan_run_context r = {p, call->inputs[0].data, call->outputs[0].data};
    int64_t tiles = p->around.inner == 1 ? p->tiles : p->around.outer * p->tiles;

    exg_pool_run(call->pool, scan_block, &r, exg_block_count(tiles, p->tiles_of_block));
}

static exg_status cumsum_prepare(exg_kernel_call *call, exg_error *err)
{
    return plan(call, false, err);
}

static exg_status cumprod_prepare(exg_kernel_call *call, exg_error *err)
{
    return plan(call, true, err);
}

const exg_kernel exg_kernel_cumsum = {
    .name = "cumsum",
    .prepare = cumsum_prepare,
    .run = scan_run,
};

const exg_kernel exg_kernel_cumprod = {
    .name = "cumprod",
    .prepare = cumprod_prepare,
    .run = scan_run,
};
