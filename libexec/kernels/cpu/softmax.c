/* softmax.c - softmax, log_softmax along one dimension.
 *
 *   x, y (outer, size, inner), contiguous; a row is the size elements of one
 *   (outer, inner).
 *
 * Dense rows of f32, f64 and bf16 are read and written where they are; the others are brought
 * in and out of a scratch row of the compute type, which also takes what is on its way past the
 * caches, and the exponentials of bf16. Rows that are side by side are taken so, a tile of them.
 */
#include "libexec/kernels/cpu/common.h"
#include "libexec/kernels/stream.h"

#include <math.h>
#include <stdatomic.h>

#define SCRATCH_BYTES   32768
#define ASKED_BYTES_MAX 16384     /* of a row, in the compute type */
#define ACROSS_MIN      8         /* rows side by side */
#define ACROSS_BYTES    (1 << 18) /* of a tile, which stays in the second cache */
#define ACROSS_MAX      512
#define FLUSH           64 /* exponentials summed in the compute type */

typedef struct softmax_params {
    exg_around around;
    bool is_log;
    bool is_double;
    exg_dtype in_dtype, out_dtype;
    uint32_t in_bytes, out_bytes;
    int64_t rows_of_block;
    uint64_t scratch_bytes; /* of a row in the workspace, two a block, when a row is long */
    int64_t across;         /* rows of a tile; 0: they are dense, or few */
    int64_t tiles;          /* of one outer */
    bool asks;              /* for the next row: it comes from memory, and is short */
    bool is_past_caches;    /* what is written */
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
#define SUM(name, REAL)                                                                            \
    static double sum_of_##name(const softmax_params *p, const softmax_row *s, REAL shift,         \
                                const exg_ahead *ahead)                                            \
    {                                                                                              \
        int64_t n = p->around.size;                                                                \
                                                                                                   \
        return p->is_log ? p->name->exp_sum(n, s->x, shift, ahead)                                 \
                         : p->name->exp(n, s->e, s->x, shift, ahead);                              \
    }                                                                                              \
    static void end_of_##name(const softmax_params *p, const softmax_row *s, bool past)            \
    {                                                                                              \
        int64_t n = p->around.size;                                                                \
                                                                                                   \
        if (p->is_log) {                                                                           \
            p->name->shift(n, s->y, s->x, (REAL)s->shift, (REAL)log(s->sum), past);                \
        } else {                                                                                   \
            p->name->scale(n, s->y, s->e, (REAL)(1.0 / s->sum), past);                             \
        }                                                                                          \
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

/* ---- side by side ----------------------------------------------------------------------- */

/* A tile whose elements of one position of all rows are (count), in memory or in scratch. */
typedef struct softmax_tile {
    int64_t at, count; /* the first element in the tensor */
    char *scratch;     /* NULL: elements are of the compute type where they are */
} softmax_tile;

static const void *bring(const softmax_run_context *r, const softmax_tile *t, int64_t i)
{
    const softmax_params *p = r->p;

    return t->scratch != NULL ? t->scratch + i * t->count * (p->is_double ? 8 : 4)
                              : r->in + (t->at + i * p->around.inner) * p->in_bytes;
}

static void *place(const softmax_run_context *r, const softmax_tile *t, int64_t i)
{
    return t->scratch != NULL ? t->scratch + i * t->count * (r->p->is_double ? 8 : 4)
                              : r->out + (t->at + i * r->p->around.inner) * r->p->out_bytes;
}

#define ACROSS(name, REAL)                                                                         \
    static void across_of_##name(const softmax_run_context *r, const softmax_tile *t)              \
    {                                                                                              \
        const softmax_params *p = r->p;                                                            \
        REAL peaks[ACROSS_MAX];                                                                    \
        REAL parts[ACROSS_MAX] = {0}; /* of up to FLUSH exponentials; then what ends rows */       \
        double sums[ACROSS_MAX] = {0};                                                             \
                                                                                                   \
        memcpy(peaks, bring(r, t, 0), (size_t)t->count * sizeof(REAL));                            \
        for (int64_t i = 1; i < p->around.size; i++) {                                             \
            p->name->max_of(t->count, peaks, bring(r, t, i));                                      \
        }                                                                                          \
        for (int64_t i = 0; i < p->around.size; i++) {                                             \
            p->name->exp_across(t->count, p->is_log ? NULL : place(r, t, i), bring(r, t, i),       \
                                peaks, parts);                                                     \
            if ((i + 1) % FLUSH == 0 || i + 1 == p->around.size) {                                 \
                for (int64_t k = 0; k < t->count; k++) {                                           \
                    sums[k] += (double)parts[k];                                                   \
                    parts[k] = 0;                                                                  \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        for (int64_t k = 0; k < t->count; k++) {                                                   \
            parts[k] = (REAL)(p->is_log ? log(sums[k]) : 1.0 / sums[k]);                           \
        }                                                                                          \
        for (int64_t i = 0; i < p->around.size; i++) {                                             \
            if (p->is_log) {                                                                       \
                p->name->shift_across(t->count, place(r, t, i), bring(r, t, i), peaks, parts);     \
            } else {                                                                               \
                p->name->scale_across(t->count, place(r, t, i), place(r, t, i), parts);            \
            }                                                                                      \
        }                                                                                          \
    }

ACROSS(f32, float)
ACROSS(f64, double)

static void across_block(void *context, uint32_t block)
{
    const softmax_run_context *r = context;
    const softmax_params *p = r->p;
    exg_around a = p->around;
    int64_t end = EXG_MIN(((int64_t)block + 1) * p->rows_of_block, a.outer * p->tiles);

    for (int64_t tile = (int64_t)block * p->rows_of_block; tile < end; tile++) {
        int64_t inner = tile % p->tiles * p->across;
        softmax_tile t = {.at = tile / p->tiles * a.size * a.inner + inner,
                          .count = EXG_MIN(a.inner - inner, p->across)};
        int64_t row_bytes = t.count * (p->is_double ? 8 : 4);

        if (p->scratch_bytes > 0) {
            t.scratch = r->workspace + block * p->scratch_bytes;
        }
        for (int64_t i = 0; i < a.size && t.scratch != NULL; i++) {
            p->load((uint32_t)t.count, t.scratch + i * row_bytes,
                    r->in + (t.at + i * a.inner) * p->in_bytes, 1);
        }
        (p->is_double ? across_of_f64 : across_of_f32)(r, &t);
        for (int64_t i = 0; i < a.size && t.scratch != NULL; i++) {
            p->store((uint32_t)t.count, r->out + (t.at + i * a.inner) * p->out_bytes, 1,
                     t.scratch + i * row_bytes);
        }
    }
}

static void plan_across(exg_kernel_call *call, softmax_params *p)
{
    exg_around a = p->around;
    int64_t bytes = p->is_double ? 8 : 4;

    p->across = EXG_MIN(EXG_MAX(ACROSS_BYTES / (EXG_MAX(a.size, 1) * bytes), 64), ACROSS_MAX);
    p->across = EXG_MIN(p->across, a.inner);
    p->tiles = exg_ceil_div(a.inner, p->across);
    p->rows_of_block = exg_items_per_block(4 * a.size * p->across, EXG_GRAIN);
    if (p->in_dtype != p->out_dtype || !exg_compute_is_storage(p->in_dtype)) {
        p->scratch_bytes = (uint64_t)(a.size * p->across * bytes + 63) & ~UINT64_C(63);
        call->workspace_bytes =
            p->scratch_bytes * exg_block_count(a.outer * p->tiles, p->rows_of_block);
    }
}

/* ---- prepare, run ---------------------------------------------------------------------- */

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
    call->params = p;
    if (p->around.inner >= ACROSS_MIN) {
        plan_across(call, p);
        return EXG_OK;
    }
    if (is_direct(p) && p->in_dtype == EXG_DTYPE_BF16) {
        p->bf16 = EXG_LOOPS(exg_loops_row_bf16);
    }
    row_bytes = (p->around.size * (p->is_double ? 8 : 4) + 255) & -256;
    all = p->around.outer * p->around.inner * p->around.size;
    p->asks = p->around.inner == 1 && row_bytes <= ASKED_BYTES_MAX &&
              all * (p->in_bytes + p->out_bytes) > EXG_STREAM_BYTES;
    p->is_past_caches =
        is_direct(p) && row_bytes <= SCRATCH_BYTES && all * p->out_bytes >= exg_past_caches_bytes();
    p->rows_of_block =
        exg_items_per_block(4 * p->around.size, p->is_past_caches ? EXG_GRAIN_FENCED : EXG_GRAIN);
    if ((!is_direct(p) || (p->bf16 != NULL && !is_log)) && row_bytes > SCRATCH_BYTES) {
        p->scratch_bytes = (uint64_t)row_bytes;
        call->workspace_bytes =
            2 * p->scratch_bytes *
            exg_block_count(p->around.outer * p->around.inner, p->rows_of_block);
    }
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

    if (p->around.size > 0 && p->across > 0) {
        exg_pool_run(call->pool, across_block, &r,
                     exg_block_count(p->around.outer * p->tiles, p->rows_of_block));
    } else if (p->around.size > 0) {
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
