/* scan.c - cumsum, cumprod along one dimension.
 *
 *   x, y (outer, size, inner), contiguous. f32 and f64 run in double, f16 and bf16 in
 *   f32, integers in int64, as in PyTorch.
 */
#include "libexec/kernels/cpu/common.h"

#define COLUMNS 64

typedef struct scan_params {
    exg_around around;
    bool is_product;
    exg_dtype in_dtype, out_dtype;
    exg_compute loaded, compute;
    uint32_t in_bytes, out_bytes;
    int64_t tiles;
    int64_t rows_of_block;
    const exg_convert_loops *convert;
} scan_params;

typedef struct scan_run_context {
    const scan_params *p;
    const char *in;
    char *out;
} scan_run_context;

typedef union lane_values {
    float f32[COLUMNS];
    double f64[COLUMNS];
    int32_t i32[COLUMNS];
    int64_t i64[COLUMNS];
} lane_values;

/* running = running op x; y = running in the compute type. */
static void scan_step(const scan_params *p, lane_values *running, const lane_values *x,
                      lane_values *y, int64_t count)
{
    bool is_narrow = p->out_dtype != EXG_DTYPE_F32;

    for (int64_t k = 0; k < count; k++) {
        switch (p->compute) {
        case EXG_COMPUTE_F32:
            running->f64[k] = p->is_product ? running->f64[k] * (double)x->f32[k]
                                            : running->f64[k] + (double)x->f32[k];
            y->f32[k] = (float)running->f64[k];
            running->f64[k] = is_narrow ? (double)y->f32[k] : running->f64[k];
            break;
        case EXG_COMPUTE_F64:
            running->f64[k] = p->is_product ? running->f64[k] * x->f64[k]
                                            : running->f64[k] + x->f64[k];
            y->f64[k] = running->f64[k];
            break;
        case EXG_COMPUTE_I32:
            running->i64[k] = p->is_product ? running->i64[k] * x->i32[k]
                                            : running->i64[k] + x->i32[k];
            y->i32[k] = (int32_t)running->i64[k];
            break;
        default:
            running->i64[k] = p->is_product ? running->i64[k] * x->i64[k]
                                            : running->i64[k] + x->i64[k];
            y->i64[k] = running->i64[k];
        }
    }
}

static void scan_tile(const scan_run_context *r, int64_t outer, int64_t inner)
{
    const scan_params *p = r->p;
    exg_around a = p->around;
    uint32_t count = (uint32_t)EXG_MIN(a.inner - inner, COLUMNS);
    bool is_real = p->compute == EXG_COMPUTE_F32 || p->compute == EXG_COMPUTE_F64;
    lane_values running;
    lane_values loaded;
    lane_values x;
    lane_values y;

    for (uint32_t k = 0; k < count; k++) {
        running.i64[k] = p->is_product ? 1 : 0;
        if (is_real) {
            running.f64[k] = p->is_product ? 1 : 0;
        }
    }
    for (int64_t i = 0; i < a.size; i++) {
        int64_t at = (outer * a.size + i) * a.inner + inner;

        p->convert->load[p->in_dtype](count, p->loaded == p->compute ? &x : &loaded,
                                      r->in + at * p->in_bytes, 1);
        if (p->loaded != p->compute) {
            p->convert->convert[p->compute][p->loaded](count, &x, &loaded);
        }
        scan_step(p, &running, &x, &y, count);
        p->convert->store[p->out_dtype](count, r->out + at * p->out_bytes, 1, &y);
    }
}

static void scan_block(void *context, uint32_t block)
{
    const scan_run_context *r = context;
    const scan_params *p = r->p;
    int64_t end = EXG_MIN(((int64_t)block + 1) * p->rows_of_block, p->around.outer * p->tiles);

    for (int64_t row = (int64_t)block * p->rows_of_block; row < end; row++) {
        scan_tile(r, row / p->tiles, row % p->tiles * COLUMNS);
    }
}

static exg_status plan(exg_kernel_call *call, bool is_product, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    scan_params *p = EXG_NEW(call->arena, scan_params);

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
    p->tiles = exg_ceil_div(p->around.inner, COLUMNS);
    p->rows_of_block =
        exg_items_per_block(8 * p->around.size * EXG_MIN(p->around.inner, COLUMNS), EXG_GRAIN);
    p->convert = EXG_LOOPS(exg_loops_convert);
    call->params = p;
    return EXG_OK;
}

static void scan_run(const exg_kernel_call *call)
{
    const scan_params *p = call->params;
    scan_run_context r = {p, call->inputs[0].data, call->outputs[0].data};

    exg_pool_run(call->pool, scan_block, &r,
                 exg_block_count(p->around.outer * p->tiles, p->rows_of_block));
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
