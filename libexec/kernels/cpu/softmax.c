/* softmax.c - softmax, log_softmax along one dimension.
 *
 *   x, y (outer, size, inner), contiguous; a row is the size elements of one
 *   (outer, inner).
 *
 * Dense rows of f32, f64 and bf16 are read and written where they lie; the others are brought
 * in and out of a scratch row of the compute type, which also takes what is on its way past the
 * caches, and the exponentials of bf16.
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
    uint64_t scratch_bytes; /* of a row in the workspace, two a block, when a row is long */
    bool asks;           /* for the next row: it comes from memory, and is short */
    bool is_past_caches; /* what is written */
    const exg_row_f32_loops *f32;
    const exg_row_f64_loops *f64;
    const exg_row_bf16_loops *bf16; /* NULL: not of this row */
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

/* A row whose exponentials are summed. */
typedef struct softmax_row {
    const char *in; /* what it is brought from and goes to */
    char *out;
    const void *x; /* in the compute type, or bf16 */
    void *y;       /* may be x */
    void *e;       /* where the exponentials go: may be either, except of bf16 */
    double shift, sum;
} softmax_row;

/* A NaN passes through exp into the sum and so into the whole row; a row of -inf only gives NaN,
 * as exp(-inf - -inf) does. */
#define SUM(name, REAL)                                                                        \
    static double sum_of_##name(const softmax_params *p, const softmax_row *s, REAL shift,     \
                                const exg_ahead *ahead)                                        \
    {                                                                                          \
        int64_t n = p->around.size;                                                            \
                                                                                               \
        return p->is_log ? p->name->exp_sum(n, s->x, shift, ahead)                             \
                         : p->name->exp(n, s->e, s->x, shift, ahead);                          \
    }                                                                                          \
    static void end_of_##name(const softmax_params *p, const softmax_row *s, bool past)        \
    {                                                                                          \
        int64_t n = p->around.size;                                                            \
                                                                                               \
        if (p->is_log) {                                                                       \
            p->name->shift(n, s->y, s->x, (REAL)s->shift, (REAL)log(s->sum), past);            \
        } else {                                                                               \
            p->name->scale(n, s->y, s->e, (REAL)(1.0 / s->sum), past);                         \
        }                                                                                      \
    }

SUM(f32, float)
SUM(f64, double)
SUM(bf16, float)

/* The softmax of bf16 at first without the greatest, which most rows do not want: e^x is a float
 * then, and what is lost below one would be below the result's too. The logarithm of a sum near 1
 * wants the greatest's part exact. */
static void sum_row(const softmax_params *p, softmax_row *s)
{
    int64_t n = p->around.size;
    uint32_t lanes = p->is_double ? 16 : p->bf16 != NULL ? 64 : 32;
    exg_ahead next = {{s->in + n * p->in_bytes, s->out + n * p->out_bytes},
                      {lanes * p->in_bytes, p->is_past_caches ? 0 : lanes * p->out_bytes}};
    const exg_ahead *ahead = p->asks ? &next : NULL;

    if (p->bf16 != NULL) {
        s->shift = 0;
        s->sum = p->is_log ? 0 : sum_of_bf16(p, s, 0, ahead);
        if (!(s->sum >= 1 && s->sum <= 0x1p100)) {
            s->shift = (double)p->bf16->peak(n, s->x);
            s->sum = sum_of_bf16(p, s, (float)s->shift, p->is_log ? ahead : NULL);
        }
    } else if (p->is_double) {
        s->shift = p->f64->peak(n, s->x);
        s->sum = sum_of_f64(p, s, s->shift, ahead);
    } else {
        s->shift = (double)p->f32->peak(n, s->x);
        s->sum = sum_of_f32(p, s, (float)s->shift, ahead);
    }
}

static bool is_direct(const softmax_params *p)
{
    return p->around.inner == 1 && p->in_dtype == p->out_dtype &&
           (exg_compute_is_storage(p->in_dtype) || p->in_dtype == EXG_DTYPE_BF16);
}

static void begin_row(const softmax_run_context *r, int64_t row, softmax_row *s, char *scratch)
{
    const softmax_params *p = r->p;
    exg_around a = p->around;
    int64_t at = row / a.inner * a.size * a.inner + row % a.inner;

    s->in = r->in + at * p->in_bytes;
    s->out = r->out + at * p->out_bytes;
    s->x = s->in;
    s->y = s->out;
    s->e = p->is_past_caches || p->bf16 != NULL ? scratch : s->out;
    if (!is_direct(p)) {
        p->load((uint32_t)a.size, scratch, s->in, a.inner);
        s->x = s->y = s->e = scratch;
    } else if (p->is_past_caches && ((uintptr_t)s->out & 63) != 0) { /* begins no line */
        s->y = scratch;
    }
    sum_row(p, s);
}

static void end_row(const softmax_params *p, const softmax_row *s)
{
    bool past = p->is_past_caches && s->y == s->out;

    if (p->bf16 != NULL) {
        end_of_bf16(p, s, past);
    } else if (p->is_double) {
        end_of_f64(p, s, past);
    } else {
        end_of_f32(p, s, past);
    }
    if (!is_direct(p)) {
        p->store((uint32_t)p->around.size, s->out, p->around.inner, s->y);
    } else if (s->y != s->out) {
        p->copy(s->out, s->y, (size_t)p->around.size * p->out_bytes);
    }
}

/* A row ends after the next has begun, which leaves no time to wait for its sum. */
static void softmax_block(void *context, uint32_t block)
{
    const softmax_run_context *r = context;
    const softmax_params *p = r->p;
    int64_t first = (int64_t)block * p->rows_of_block;
    int64_t end = EXG_MIN(first + p->rows_of_block, p->around.outer * p->around.inner);
    _Alignas(64) char stack[2][SCRATCH_BYTES];
    char *scratch[2] = {stack[0], stack[1]};
    softmax_row rows[2];

    if (p->scratch_bytes > 0) {
        scratch[0] = r->workspace + block * 2 * p->scratch_bytes;
        scratch[1] = scratch[0] + p->scratch_bytes;
    }
    begin_row(r, first, &rows[first & 1], scratch[first & 1]);
    for (int64_t row = first; row < end; row++) {
        int64_t next = row + 1;

        if (next < end) {
            begin_row(r, next, &rows[next & 1], scratch[next & 1]);
        }
        end_row(p, &rows[row & 1]);
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
    if (is_direct(p) && p->in_dtype == EXG_DTYPE_BF16) {
        p->bf16 = EXG_LOOPS(exg_loops_row_bf16);
    }
    row_bytes = (p->around.size * (p->is_double ? 8 : 4) + 255) & -256;
    all = p->around.outer * p->around.inner * p->around.size;
    p->asks = p->around.inner == 1 && row_bytes <= ASKED_BYTES_MAX &&
              all * (p->in_bytes + p->out_bytes) > EXG_STREAM_BYTES;
    p->is_past_caches = is_direct(p) && row_bytes <= SCRATCH_BYTES &&
                        all * p->out_bytes >= exg_past_caches_bytes();
    p->rows_of_block = exg_items_per_block(4 * p->around.size,
                                           p->is_past_caches ? EXG_GRAIN_FENCED : EXG_GRAIN);
    if ((!is_direct(p) || (p->bf16 != NULL && !is_log)) && row_bytes > SCRATCH_BYTES) {
        p->scratch_bytes = (uint64_t)row_bytes;
        call->workspace_bytes =
            2 * p->scratch_bytes *
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
