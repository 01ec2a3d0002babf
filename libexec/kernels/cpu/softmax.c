/* softmax.c - softmax, log_softmax along one dimension.
 *
 *   x, y (outer, size, inner), contiguous; a row is the size elements of one
 *   (outer, inner).
 *
 * Rows that are not dense, or not of the compute type, are brought in and out of a
 * scratch row.
 */
#include "libexec/kernels/cpu/common.h"
#include "libexec/kernels/stream.h"

#include <math.h>
#include <stdatomic.h>

#define SCRATCH_BYTES   32768
#define ASKED_BYTES_MAX 16384 /* of a row, in the compute type */

typedef struct softmax_params {
    exg_around around;
    bool is_log;
    bool is_double;
    exg_dtype in_dtype, out_dtype;
    uint32_t in_bytes, out_bytes;
    int64_t rows_of_block;
    uint64_t scratch_bytes; /* of a block in the workspace, when a row is long */
    bool asks;           /* for the next row: it comes from memory, and is short */
    bool is_past_caches; /* what is written */
    const exg_row_f32_loops *f32;
    const exg_row_f64_loops *f64;
    exg_load_loop *load;
    exg_store_loop *store;
    exg_copy_loop *copy; /* past the caches */
} softmax_params;

typedef struct softmax_run_context {
    const softmax_params *p;
    const char *in;
    char *out;
    char *workspace;
} softmax_run_context;

/* y may be x. A NaN passes through exp into the sum and so into the whole row; a row
 * of -inf only gives NaN, as exp(-inf - -inf) does. */
static void row_of_f32(const softmax_params *p, float *y, const float *x, const exg_ahead *ahead)
{
    int64_t n = p->around.size;
    float greatest = p->f32->peak(n, x);

    if (p->is_log) {
        double sum = p->f32->exp_sum(n, x, greatest, ahead);

        p->f32->shift(n, y, x, greatest, (float)log(sum));
    } else {
        double sum = p->f32->exp(n, y, x, greatest, ahead);

        p->f32->scale(n, y, y, (float)(1.0 / sum));
    }
}

static void row_of_f64(const softmax_params *p, double *y, const double *x,
                       const exg_ahead *ahead)
{
    int64_t n = p->around.size;
    double greatest = p->f64->peak(n, x);

    if (p->is_log) {
        p->f64->shift(n, y, x, greatest, log(p->f64->exp_sum(n, x, greatest, ahead)));
    } else {
        p->f64->scale(n, y, y, 1.0 / p->f64->exp(n, y, x, greatest, ahead));
    }
}

/* in, out: what the row is brought from and goes to. */
static void softmax_row(const softmax_params *p, void *y, const void *x, const char *in,
                        const char *out)
{
    int64_t n = p->around.size;
    uint32_t lanes = p->is_double ? 16 : 32;
    exg_ahead next = {{in + n * p->in_bytes, out + n * p->out_bytes},
                      {lanes * p->in_bytes, p->is_past_caches ? 0 : lanes * p->out_bytes}};
    const exg_ahead *ahead = p->asks ? &next : NULL;

    if (p->is_double) {
        row_of_f64(p, y, x, ahead);
    } else {
        row_of_f32(p, y, x, ahead);
    }
}

static bool is_direct(const softmax_params *p)
{
    return p->around.inner == 1 && p->in_dtype == p->out_dtype &&
           exg_compute_is_storage(p->in_dtype);
}

static void softmax_block(void *context, uint32_t block)
{
    const softmax_run_context *r = context;
    const softmax_params *p = r->p;
    exg_around a = p->around;
    int64_t end = EXG_MIN(((int64_t)block + 1) * p->rows_of_block, a.outer * a.inner);
    _Alignas(64) char stack[SCRATCH_BYTES];
    char *scratch = p->scratch_bytes > 0 ? r->workspace + block * p->scratch_bytes : stack;

    for (int64_t row = (int64_t)block * p->rows_of_block; row < end; row++) {
        int64_t at = row / a.inner * a.size * a.inner + row % a.inner;
        const char *in = r->in + at * p->in_bytes;
        char *out = r->out + at * p->out_bytes;

        if (p->is_past_caches) {
            softmax_row(p, scratch, in, in, out);
            p->copy(out, scratch, (size_t)a.size * p->out_bytes);
        } else if (is_direct(p)) {
            softmax_row(p, out, in, in, out);
        } else {
            p->load((uint32_t)a.size, scratch, in, a.inner);
            softmax_row(p, scratch, scratch, in, out);
            p->store((uint32_t)a.size, out, a.inner, scratch);
        }
    }
    if (p->is_past_caches) {
        atomic_thread_fence(memory_order_seq_cst); /* behind it */
    }
}

static exg_status plan(exg_kernel_call *call, bool is_log, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    softmax_params *p = EXG_NEW(call->arena, softmax_params);
    int64_t row_bytes;
    int64_t all;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_require_float("softmax", in->dtype, err));
    EXG_TRY(exg_require_float("softmax", call->outputs[0].dtype, err));
    p->around = exg_around_dim(in, exg_call_dim(call, 1, in->rank));
    p->is_log = is_log;
    p->is_double = in->dtype == EXG_DTYPE_F64;
    p->in_dtype = in->dtype;
    p->out_dtype = call->outputs[0].dtype;
    p->in_bytes = exg_dtype_bytes(p->in_dtype);
    p->out_bytes = exg_dtype_bytes(p->out_dtype);
    p->f32 = EXG_LOOPS(exg_loops_row_f32);
    p->f64 = EXG_LOOPS(exg_loops_row_f64);
    p->load = EXG_LOOPS(exg_loops_convert)->load[p->in_dtype];
    p->store = EXG_LOOPS(exg_loops_convert)->store[p->out_dtype];
    p->copy = EXG_LOOPS(exg_loops_convert)->copy_past_caches;
    row_bytes = p->around.size * (p->is_double ? 8 : 4);
    all = p->around.outer * p->around.inner * p->around.size;
    p->asks = p->around.inner == 1 && row_bytes <= ASKED_BYTES_MAX &&
              all * (p->in_bytes + p->out_bytes) > EXG_STREAM_BYTES;
    p->is_past_caches = is_direct(p) && row_bytes <= SCRATCH_BYTES &&
                        all * p->out_bytes >= EXG_PAST_CACHES_BYTES;
    p->rows_of_block = exg_items_per_block(4 * p->around.size,
                                           p->is_past_caches ? EXG_GRAIN_FENCED : EXG_GRAIN);
    if (!is_direct(p) && row_bytes > SCRATCH_BYTES) {
        p->scratch_bytes = ((uint64_t)row_bytes + 63) & ~UINT64_C(63);
        call->workspace_bytes =
            p->scratch_bytes *
            exg_block_count(p->around.outer * p->around.inner, p->rows_of_block);
    }
    call->params = p;
    return EXG_OK;
}

static exg_status softmax_prepare(exg_kernel_call *call, exg_error *err)
{
    return plan(call, false, err);
}

static exg_status log_softmax_prepare(exg_kernel_call *call, exg_error *err)
{
    return plan(call, true, err);
}

static void softmax_run(const exg_kernel_call *call)
{
    const softmax_params *p = call->params;
    softmax_run_context r = {p, call->inputs[0].data, call->outputs[0].data, call->workspace};

    if (p->around.size > 0) {
        exg_pool_run(call->pool, softmax_block, &r,
                     exg_block_count(p->around.outer * p->around.inner, p->rows_of_block));
    }
}

const exg_kernel exg_kernel_softmax = {
    .name = "softmax",
    .prepare = softmax_prepare,
    .run = softmax_run,
    .flags = EXG_KERNEL_IN_PLACE,
};

const exg_kernel exg_kernel_log_softmax = {
    .name = "log_softmax",
    .prepare = log_softmax_prepare,
    .run = softmax_run,
    .flags = EXG_KERNEL_IN_PLACE,
};
