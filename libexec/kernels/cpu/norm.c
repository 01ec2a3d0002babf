/* norm.c - native_layer_norm, rms_norm, native_group_norm.
 *
 *   x, y (rows, size)   layer and rms norm: weight, bias (size)
 *                       group norm: a row is a group of channels (channels, area),
 *                       weight, bias one a channel
 *
 * Mean and squares are summed in double from fixed lanes; f16 and bf16 compute in
 * f32. Weights are read in their own dtype. Rows of bf16 with weights of bf16 are taken as they
 * lie.
 */
#include "libexec/kernels/cpu/common.h"
#include "libexec/kernels/stream.h"
#include "libexport/base/element.h"

#include <math.h>
#include <stdatomic.h>

#define CHUNK 4096 /* elements brought into the compute type at once */
#define FAR   64   /* times the variance */

typedef enum norm_kind { LAYER, RMS, GROUP } norm_kind;

typedef struct norm_params {
    norm_kind kind;
    int64_t rows, size;
    int64_t channels, area; /* of a group */
    int64_t groups;
    double eps;
    bool is_double;
    bool has_own_weights; /* of its dtype */
    int64_t chunk;        /* elements taken at once */
    bool is_short;        /* a row is one chunk */
    bool asks;            /* for the next row, which is in no cache */
    bool asks_result;     /* for room for it too */
    bool is_plain;        /* all is read and written where it is */
    bool is_past_caches;  /* what is written */
    exg_dtype dtype;
    uint32_t bytes;
    uint32_t weight, bias; /* inputs; 0: absent */
    int64_t rows_of_block;
    const exg_row_f32_loops *f32;
    const exg_row_f64_loops *f64;
    const exg_row_bf16_loops *bf16; /* NULL: not as they are */
    const exg_convert_loops *convert;
} norm_params;

typedef struct norm_run_context {
    const norm_params *p;
    const exg_kernel_call *call;
} norm_run_context;

typedef union chunk {
    float f32[2 * CHUNK];
    double f64[CHUNK];
} chunk;

/* For what is not taken where it is; rows that have begun and not ended are two. */
typedef struct norm_room {
    chunk scratch, weights, biases, wide[2];
} norm_room;

static chunk *scratch_of(norm_room *room)
{
    return room == NULL ? NULL : &room->scratch;
}

/* `count` elements of the row as the loops take them: the row's own, or in `scratch`. */
static const void *bring(const norm_params *p, const char *memory, exg_dtype dtype, int64_t count,
                         chunk *scratch)
{
    if (p->bf16 != NULL ||
        (exg_compute_is_storage(dtype) && (dtype == EXG_DTYPE_F64) == p->is_double)) {
        return memory;
    }
    p->convert->load[dtype]((uint32_t)count, scratch, memory, 1);
    return scratch;
}

/* Elements where they are: the operand's, or brought into the compute type. */
typedef struct source {
    const char *memory;
    exg_dtype dtype;
    uint32_t bytes;
} source;

static source part(source s, int64_t from)
{
    s.memory += from * s.bytes;
    return s;
}

/* Mean and 1 / sqrt(variance + eps), or for rms norm 0 and 1 / sqrt(mean square). */
static void statistics(const norm_params *p, source row, const exg_ahead *ahead, chunk *scratch,
                       double *mean, double *factor)
{
    double sum = 0;
    double squares = 0;

    for (int64_t i = 0; i < p->size && p->kind != RMS; i += CHUNK) {
        int64_t n = EXG_MIN(p->size - i, CHUNK);
        const void *x = bring(p, part(row, i).memory, row.dtype, n, scratch);

        sum += p->is_double ? p->f64->sum(n, x) : p->f32->sum(n, x);
    }
    *mean = p->size > 0 ? sum / (double)p->size : 0;
    for (int64_t i = 0; i < p->size; i += CHUNK) {
        int64_t n = EXG_MIN(p->size - i, CHUNK);
        const void *x = bring(p, part(row, i).memory, row.dtype, n, scratch);

        squares += p->is_double ? p->f64->sum_squares(n, x, *mean, ahead)
                                : p->f32->sum_squares(n, x, (float)*mean, ahead);
    }
    *factor = 1.0 / sqrt(squares / (double)p->size + p->eps);
}

/* The same of bf16, in one pass about the row's first element; in two where that is far from the
 * mean, as variances go. */
static void statistics_bf16(const norm_params *p, const uint16_t *x, const exg_ahead *ahead,
                            double *mean, double *factor)
{
    double n = (double)p->size;
    float first = p->kind != RMS && p->size > 0 ? exg_bf16_to_f32(x[0]) : 0;
    double squares;

    if (p->kind == RMS) {
        *mean = 0;
        squares = p->bf16->sum_squares(p->size, x, 0, ahead);
    } else {
        double sum = p->bf16->sums(p->size, x, first, &squares, ahead);
        double rest = squares - sum * sum / n;

        *mean = p->size > 0 ? (double)first + sum / n : 0;
        if (sum * sum / n <= FAR * rest) {
            squares = rest;
        } else {
            *mean = p->bf16->sums(p->size, x, 0, &squares, NULL) / n;
            squares = p->bf16->sum_squares(p->size, x, (float)*mean, NULL);
        }
    }
    *factor = 1.0 / sqrt(squares / n + p->eps);
}

/* y = (x - mean) * factor * weight + bias over `count` elements. */
static void apply(const norm_params *p, char *y, source x, int64_t count, double mean,
                  double factor, const void *weight, const void *bias, chunk *scratch)
{
    const void *from = bring(p, x.memory, x.dtype, count, scratch);
    bool is_direct = exg_compute_is_storage(p->dtype) || p->bf16 != NULL;
    bool begins_line = ((uintptr_t)y & 63) == 0;
    bool past = p->is_past_caches && begins_line;
    void *to =
        is_direct && (!p->is_past_caches || begins_line || scratch == NULL) ? (void *)y : scratch;

    if (p->bf16 != NULL) {
        p->bf16->normalize(count, to, from, (float)mean, (float)factor, weight, bias, past);
    } else if (p->is_double) {
        p->f64->normalize(count, to, from, mean, factor, weight, bias, past);
    } else {
        p->f32->normalize(count, to, from, (float)mean, (float)factor, weight, bias, past);
    }
    if (to != y && is_direct) {
        p->convert->copy_past_caches(y, to, (size_t)count * p->bytes);
    } else if (to != y) {
        p->convert->store[p->dtype]((uint32_t)count, y, 1, to);
    }
}

/* Weight and bias as the loops take them; NULL: 1, 0. */
typedef struct affine {
    const void *weight, *bias;
} affine;

static const void *bring_weight(const norm_params *p, const exg_tensor *t, int64_t i, int64_t n,
                                chunk *scratch)
{
    const char *memory = (const char *)t->data + i * exg_dtype_bytes(t->dtype);

    if (p->bf16 == NULL) {
        return bring(p, memory, t->dtype, n, scratch);
    }
    p->bf16->widen(n, scratch->f32, (const void *)memory);
    return scratch;
}

static void bring_affine(const norm_run_context *r, int64_t i, int64_t n, affine *a,
                         norm_room *room)
{
    const norm_params *p = r->p;
    const exg_tensor *w = &r->call->inputs[p->weight];
    const exg_tensor *b = &r->call->inputs[p->bias];

    a->weight = a->bias = NULL;
    if (p->weight != 0) {
        a->weight = bring_weight(p, w, i, n, room == NULL ? NULL : &room->weights);
    }
    if (p->bias != 0) {
        a->bias = bring_weight(p, b, i, n, room == NULL ? NULL : &room->biases);
    }
}

/* `a` holds what a row of one chunk takes, and room for that of longer ones. */
static void apply_row(const norm_run_context *r, char *y, source x, double mean, double factor,
                      affine *a, norm_room *room)
{
    const norm_params *p = r->p;

    for (int64_t i = 0; i < p->size; i += p->chunk) {
        int64_t n = EXG_MIN(p->size - i, p->chunk);

        if (!p->is_short) {
            bring_affine(r, i, n, a, room);
        }
        apply(p, y + i * p->bytes, part(x, i), n, mean, factor, a->weight, a->bias,
              scratch_of(room));
    }
}

static double channel_value(const norm_params *p, const exg_tensor *t, int64_t channel)
{
    return exg_float_at(p->convert, t->dtype, t->data, channel);
}

/* A channel's weight folds into the factor. */
static void apply_group(const norm_run_context *r, char *y, source x, int64_t first_channel,
                        double mean, double factor, norm_room *room)
{
    const norm_params *p = r->p;
    chunk *biases = &room->biases;

    for (int64_t c = 0; c < p->channels; c++) {
        double w =
            p->weight != 0 ? channel_value(p, &r->call->inputs[p->weight], first_channel + c) : 1;

        if (p->bias != 0) {
            const double b = channel_value(p, &r->call->inputs[p->bias], first_channel + c);
            const float narrow = (float)b;

            exg_fill(biases, p->is_double ? (const void *)&b : &narrow, EXG_MIN(p->area, CHUNK),
                     p->is_double ? sizeof(b) : sizeof(narrow));
        }
        for (int64_t i = 0; i < p->area; i += CHUNK) {
            int64_t at = c * p->area + i;

            apply(p, y + at * p->bytes, part(x, at), EXG_MIN(p->area - i, CHUNK), mean, factor * w,
                  NULL, p->bias != 0 ? biases : NULL, &room->scratch);
        }
    }
}

static void store_statistic(const norm_params *p, const exg_tensor *t, int64_t row, double value)
{
    float f32 = (float)value;

    if (t->data != NULL) {
        p->convert->store[t->dtype](1, (char *)t->data + row * exg_dtype_bytes(t->dtype), 1,
                                    t->dtype == EXG_DTYPE_F64 ? (const void *)&value
                                                              : (const void *)&f32);
    }
}

/* A row whose statistics are known. */
typedef struct norm_row {
    source x;
    double mean, factor;
} norm_row;

static void begin_row(const norm_run_context *r, int64_t row, norm_row *s, norm_room *room)
{
    const norm_params *p = r->p;
    uint32_t lanes = p->is_double ? 16 : p->bf16 != NULL ? 64 : 32;
    const char *y = (const char *)r->call->outputs[0].data + row * p->size * p->bytes;
    source x = part((source){r->call->inputs[0].data, p->dtype, p->bytes}, row * p->size);
    exg_ahead ahead = {{part(x, p->size).memory, y + p->size * p->bytes},
                       {lanes * p->bytes, p->asks_result ? lanes * p->bytes : 0}};
    const exg_ahead *asked = p->asks ? &ahead : NULL;

    s->x = x;
    if (p->bf16 != NULL) {
        statistics_bf16(p, (const void *)x.memory, asked, &s->mean, &s->factor);
        return;
    }
    if (p->is_short && !exg_compute_is_storage(p->dtype)) { /* widened once */
        s->x =
            (source){bring(p, x.memory, x.dtype, p->size, &room->wide[row & 1]), EXG_DTYPE_F32, 4};
    }
    statistics(p, s->x, asked, scratch_of(room), &s->mean, &s->factor);
}

static void end_row(const norm_run_context *r, int64_t row, const norm_row *s, affine *a,
                    norm_room *room)
{
    const norm_params *p = r->p;
    char *y = (char *)r->call->outputs[0].data + row * p->size * p->bytes;

    if (p->kind == GROUP) {
        apply_group(r, y, s->x, row % p->groups * p->channels, s->mean, s->factor, room);
    } else {
        apply_row(r, y, s->x, s->mean, s->factor, a, room);
    }
    if (p->kind != RMS) {
        store_statistic(p, &r->call->outputs[1], row, s->mean);
        store_statistic(p, &r->call->outputs[2], row, s->factor);
    }
}

/* A row ends after the next has begun, which leaves no time to wait for its statistics. */
static void walk(const norm_run_context *r, uint32_t block, norm_room *room)
{
    const norm_params *p = r->p;
    int64_t first = (int64_t)block * p->rows_of_block;
    int64_t end = EXG_MIN(first + p->rows_of_block, p->rows);
    norm_row rows[2];
    affine a;

    if (p->is_short && p->kind != GROUP) {
        bring_affine(r, 0, p->size, &a, room);
    }
    begin_row(r, first, &rows[first & 1], room);
    for (int64_t row = first; row < end; row++) {
        if (row + 1 < end) {
            begin_row(r, row + 1, &rows[(row + 1) & 1], room);
        }
        end_row(r, row, &rows[row & 1], &a, room);
    }
    if (p->is_past_caches) {
        atomic_thread_fence(memory_order_seq_cst); /* behind it */
    }
}

/* Apart: a function touches every page of what is in it. */
static __attribute__((noinline)) void walk_in_room(const norm_run_context *r, uint32_t block)
{
    norm_room room;

    walk(r, block, &room);
}

static void norm_block(void *context, uint32_t block)
{
    const norm_run_context *r = context;

    if (r->p->is_plain) {
        walk(r, block, NULL);
    } else {
        walk_in_room(r, block);
    }
}

static void norm_run(const exg_kernel_call *call)
{
    const norm_params *p = call->params;
    norm_run_context r = {p, call};

    exg_pool_run(call->pool, norm_block, &r, exg_block_count(p->rows, p->rows_of_block));
}

static uint32_t present(const exg_kernel_call *call, uint32_t input)
{
    return input < call->input_count && !exg_tensor_is_absent(&call->inputs[input]) ? input : 0;
}

/* Or absent. */
static bool is_of(const exg_kernel_call *call, uint32_t input, exg_dtype dtype)
{
    return input == 0 || call->inputs[input].dtype == dtype;
}

/* The common part; rows and size are the caller's. */
static exg_status plan(exg_kernel_call *call, norm_kind kind, norm_params **out, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    norm_params *p = EXG_NEW(call->arena, norm_params);

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_require_float("a norm", in->dtype, err));
    p->kind = kind;
    p->is_double = in->dtype == EXG_DTYPE_F64;
    p->dtype = in->dtype;
    p->bytes = exg_dtype_bytes(in->dtype);
    p->weight = present(call, 1);
    p->bias = kind == RMS ? 0 : present(call, 2);
    for (uint32_t i = 1; i < call->input_count; i++) {
        if (present(call, i) != 0) {
            EXG_TRY(exg_require_float("a norm", call->inputs[i].dtype, err));
            if (call->inputs[i].dtype == EXG_DTYPE_F64 && !p->is_double) {
                return exg_unsupported_dtype("a norm with a weight", EXG_DTYPE_F64, err);
            }
            if (call->inputs[i].dtype != EXG_DTYPE_F64 && p->is_double) {
                return exg_unsupported_dtype("a norm of float64 with a weight",
                                             call->inputs[i].dtype, err);
            }
        }
    }
    p->f32 = EXG_LOOPS(exg_loops_row_f32);
    p->f64 = EXG_LOOPS(exg_loops_row_f64);
    p->convert = EXG_LOOPS(exg_loops_convert);
    p->has_own_weights = is_of(call, p->weight, p->dtype) && is_of(call, p->bias, p->dtype);
    if (kind != GROUP && p->dtype == EXG_DTYPE_BF16 && p->has_own_weights) {
        p->bf16 = EXG_LOOPS(exg_loops_row_bf16);
    }
    call->params = p;
    *out = p;
    return EXG_OK;
}

/* How rows and size, now known, are walked. */
static void plan_rows(norm_params *p)
{
    int64_t bytes = p->rows * p->size * p->bytes;

    p->chunk = p->bf16 != NULL ? 2 * CHUNK : CHUNK;
    p->is_short = p->size <= p->chunk;
    p->is_past_caches = p->kind != GROUP && (exg_compute_is_storage(p->dtype) || p->bf16 != NULL) &&
                        bytes >= exg_past_caches_bytes();
    p->is_plain = p->kind != GROUP && exg_compute_is_storage(p->dtype) && p->has_own_weights &&
                  (!p->is_past_caches || p->size * p->bytes % 64 == 0);
    p->asks = p->is_short && 2 * bytes > EXG_STREAM_BYTES;
    p->asks_result = p->asks && !p->is_past_caches;
    p->rows_of_block =
        exg_items_per_block(2 * p->size, p->is_past_caches ? EXG_GRAIN_FENCED : EXG_GRAIN);
}

/* The last `dims` dimensions are one row. */
static void set_rows(norm_params *p, const exg_tensor *in, uint32_t dims)
{
    p->rows = 1;
    p->size = 1;
    for (uint32_t d = 0; d < in->rank; d++) {
        if (d + dims < in->rank) {
            p->rows *= in->sizes[d];
        } else {
            p->size *= in->sizes[d];
        }
    }
    plan_rows(p);
}

static exg_status native_layer_norm_prepare(exg_kernel_call *call, exg_error *err)
{
    norm_params *p;
    int64_t shape[EXG_RANK_MAX];

    EXG_TRY(plan(call, LAYER, &p, err));
    set_rows(p, &call->inputs[0], exg_call_ints(call, 1, shape, EXG_RANK_MAX));
    p->eps = exg_call_float(call, 4);
    return EXG_OK;
}

const exg_kernel exg_kernel_native_layer_norm = {
    .name = "native_layer_norm",
    .prepare = native_layer_norm_prepare,
    .run = norm_run,
    .flags = EXG_KERNEL_IN_PLACE,
};

static exg_status rms_norm_prepare(exg_kernel_call *call, exg_error *err)
{
    norm_params *p;

    EXG_TRY(plan(call, RMS, &p, err));
    set_rows(p, &call->inputs[0], (uint32_t)exg_call_int(call, 1));
    p->eps = exg_call_float(call, 3);
    return EXG_OK;
}

const exg_kernel exg_kernel_rms_norm = {
    .name = "rms_norm",
    .prepare = rms_norm_prepare,
    .run = norm_run,
    .flags = EXG_KERNEL_IN_PLACE,
};

static exg_status native_group_norm_prepare(exg_kernel_call *call, exg_error *err)
{
    norm_params *p;

    EXG_TRY(plan(call, GROUP, &p, err));
    p->groups = exg_call_int(call, 6);
    p->channels = exg_call_int(call, 4) / p->groups;
    p->area = exg_call_int(call, 5);
    p->rows = exg_call_int(call, 3) * p->groups;
    p->size = p->channels * p->area;
    p->eps = exg_call_float(call, 7);
    plan_rows(p);
    return EXG_OK;
}

const exg_kernel exg_kernel_native_group_norm = {
    .name = "native_group_norm",
    .prepare = native_group_norm_prepare,
    .run = norm_run,
    .flags = EXG_KERNEL_IN_PLACE,
};
