/* convolution_transposed.c - transposed aten.convolution with a stride.
 *
 * Per image and group one product, columns (out * taps, plane) = weight transposed (out * taps, in)
 * times image (in, plane), of a few output channels at a time; a result is the sum of the columns
 * whose taps fall on it. Nothing is multiplied with the zeros between. Of one channel a group every
 * stride-th result is one of a convolution without a stride, by some of the taps, the last first.
 */
#include "libexec/kernels/cpu/convolution.h"

#define COLUMNS_MAX ((int64_t)4 << 20) /* bytes, where one channel has no more */
#define STRETCH     512                /* results of a row at a time */

typedef struct scatter_run {
    const exg_kernel_call *call;
    const convolution *c;
    int64_t image, channel; /* the first of what columns are there */
    int64_t stretches;      /* of a result row */
    int64_t units, units_of_block;
} scatter_run;

typedef union stretch {
    float f32[STRETCH];
    double f64[STRETCH];
} stretch;

static exg_dtype real_dtype(const convolution *c)
{
    return c->dtype == EXG_DTYPE_F64 ? EXG_DTYPE_F64 : EXG_DTYPE_F32;
}

bool exg_convolution_scatters(const convolution *c)
{
    return c->transposed && !exg_dtype_is_integral(c->dtype) && c->positions > 0 && c->plane > 0 &&
           c->in > 0 && c->out > 0 && c->taps > 0 &&
           (c->stride[0] > 1 || c->stride[1] > 1 || c->stride[2] > 1);
}

/* The greatest divisor of `count` that is not above `most`, at least 1. */
static int64_t divisor(int64_t count, int64_t most)
{
    int64_t d = EXG_MAX(1, EXG_MIN(count, most));

    while (count % d != 0) {
        d--;
    }
    return d;
}

/* ---- one channel a group ------------------------------------------------------------------- */

#define PHASES_MAX 64

/* The taps of dimension d that fall on results first, first + stride, ...: every step-th from
 * `tap` on, `count` of them. */
typedef struct phase_taps {
    int64_t tap, step, count;
} phase_taps;

static phase_taps taps_of(const convolution *c, int d, int64_t first)
{
    phase_taps t = {0, 1, 0};

    for (int64_t k = 0; k < c->kernel[d]; k++) {
        if ((first + c->padding[d] - k * c->dilation[d]) % c->stride[d] == 0) {
            t.tap = t.count == 0 ? k : t.tap;
            t.step = t.count == 1 ? k - t.tap : t.step;
            t.count++;
        }
    }
    return t;
}

/* Of results from first[0 ... 2] on; a dimension without taps has one that is outside. */
static bool plan_phase(const convolution *c, const int64_t *first, convolution *phase)
{
    *phase = *c;
    phase->whole = c;
    phase->taps = phase->positions = 1;
    for (int d = 0; d < 3; d++) {
        phase_taps t = taps_of(c, d, first[d]);
        int64_t last = t.tap + (t.count - 1) * t.step;

        phase->first[d] = first[d];
        phase->stride[d] = phase->gap[d] = 1;
        phase->result[d] = exg_ceil_div(c->result[d] - first[d], c->stride[d]);
        phase->kernel[d] = EXG_MAX(t.count, 1);
        phase->dilation[d] = t.step * c->dilation[d] / c->stride[d];
        phase->padding[d] = t.count == 0
                                ? phase->result[d]
                                : (last * c->dilation[d] - c->padding[d] - first[d]) / c->stride[d];
        phase->taps *= phase->kernel[d];
        phase->positions *= phase->result[d];
    }
    return phase->positions == 0 || exg_convolution_windows_plan(phase);
}

/* Whether that is its way; false, too, where there is no memory for it. */
static bool plan_phases(exg_kernel_call *call, convolution *c)
{
    int64_t count = c->stride[0] * c->stride[1] * c->stride[2];
    int64_t taps = 1;

    if (c->in != 1 || c->groups == 1 || count > PHASES_MAX ||
        (c->phases = EXG_NEW_ARRAY(call->arena, convolution, (size_t)count)) == NULL) {
        return false;
    }
    for (int64_t k = 0; k < count; k++) {
        int64_t first[3] = {k / c->stride[2] / c->stride[1], k / c->stride[2] % c->stride[1],
                            k % c->stride[2]};

        if (!plan_phase(c, first, &c->phases[k])) {
            return false;
        }
        taps = EXG_MAX(taps, c->phases[k].taps);
    }
    c->phase_count = count;
    call->workspace_bytes = (uint64_t)(c->groups * c->out * taps * c->bytes);
    return true;
}

/* The weights of a phase, zeros for taps that are none. */
static void take_weights(const convolution *c, const convolution *phase, const char *weight,
                         char *to)
{
    phase_taps t[3];

    for (int d = 0; d < 3; d++) {
        t[d] = taps_of(c, d, phase->first[d]);
    }
    for (int64_t filter = 0; filter < c->groups * c->out; filter++, weight += c->taps * c->bytes) {
        for (int64_t k = phase->taps; k-- > 0; to += c->bytes) { /* the last first */
            int64_t x = t[2].tap + k % phase->kernel[2] * t[2].step;
            int64_t y = t[1].tap + k / phase->kernel[2] % phase->kernel[1] * t[1].step;
            int64_t z = t[0].tap + k / phase->kernel[2] / phase->kernel[1] * t[0].step;

            if (t[0].count * t[1].count * t[2].count == 0) {
                memset(to, 0, c->bytes);
            } else {
                memcpy(to, weight + ((z * c->kernel[1] + y) * c->kernel[2] + x) * c->bytes,
                       c->bytes);
            }
        }
    }
}

static void run_phases(const exg_kernel_call *call, const convolution *c)
{
    for (int64_t k = 0; k < c->phase_count; k++) {
        const convolution *phase = &c->phases[k];

        if (phase->positions > 0) {
            take_weights(c, phase, call->inputs[1].data, call->workspace);
            exg_convolution_windows_run(call, phase, call->workspace);
        }
    }
}

/* ---- by columns ---------------------------------------------------------------------------- */

exg_status exg_convolution_scatter_plan(exg_kernel_call *call, convolution *c, exg_error *err)
{
    exg_gemm *g = &c->gemm;
    int64_t of_channel = c->taps * c->plane * exg_dtype_bytes(real_dtype(c));

    if (plan_phases(call, c)) {
        return EXG_OK;
    }
    c->outs = divisor(c->out, COLUMNS_MAX / of_channel);
    c->images = c->outs < c->out ? 1 : divisor(c->groups, COLUMNS_MAX / of_channel / c->out);
    c->columns_bytes = exg_round_up(c->images * c->outs * of_channel, 64);
    call->workspace_bytes = (uint64_t)c->columns_bytes;
    g->batch = c->images;
    g->m = c->outs * c->taps;
    g->n = c->plane;
    g->k = c->in;
    g->a = (exg_matrix){c->dtype, c->in * c->out * c->taps, 1, c->out * c->taps, 0};
    g->b = (exg_matrix){c->dtype, c->in * c->plane, c->plane, 1, 0};
    g->c_dtype = real_dtype(c);
    g->alpha = 1;
    EXG_TRY(exg_gemm_plan(g, call, err));
    call->takes_epilogue = false; /* columns are no results */
    return EXG_OK;
}

/* Image coordinate along dimension d whose tap k falls on result o, or -1. */
static int64_t source_of(const convolution *c, int d, int64_t o, int64_t k)
{
    int64_t at = o + c->padding[d] - k * c->dilation[d];

    return at >= 0 && at % c->stride[d] == 0 && at / c->stride[d] < c->size[d] ? at / c->stride[d]
                                                                               : -1;
}

/* Adds tap k of a row of columns to `count` results from x on. */
static void add_row(const convolution *c, stretch *sums, const char *row, int64_t x, int64_t count,
                    int64_t k)
{
    int64_t step = c->stride[2];
    int64_t start = x + c->padding[2] - k * c->dilation[2]; /* of image elements times step */
    int64_t first = start > 0 ? exg_ceil_div(start, step) : 0;
    int64_t last = start + count > 0 ? EXG_MIN(c->size[2], exg_ceil_div(start + count, step)) : 0;
    int64_t to = first * step - start;

    if (c->dtype == EXG_DTYPE_F64) {
        for (int64_t i = first; i < last; i++, to += step) {
            sums->f64[to] += ((const double *)(const void *)row)[i];
        }
    } else {
        for (int64_t i = first; i < last; i++, to += step) {
            sums->f32[to] += ((const float *)(const void *)row)[i];
        }
    }
}

/* `count` results from `at` on, out of the columns of their channel. */
static void add_up(const convolution *c, const char *columns, double start, const int64_t *at,
                   int64_t count, stretch *sums)
{
    int64_t row_bytes = c->size[2] * exg_dtype_bytes(real_dtype(c));

    for (int64_t i = 0; i < count; i++) {
        if (c->dtype == EXG_DTYPE_F64) {
            sums->f64[i] = start;
        } else {
            sums->f32[i] = (float)start;
        }
    }
    for (int64_t t = 0; t < c->kernel[0] * c->kernel[1]; t++) {
        int64_t z = source_of(c, 0, at[0], t / c->kernel[1]);
        int64_t y = source_of(c, 1, at[1], t % c->kernel[1]);

        for (int64_t k = 0; k < c->kernel[2] && z >= 0 && y >= 0; k++) {
            int64_t row = ((t * c->kernel[2] + k) * c->size[0] + z) * c->size[1] + y;

            add_row(c, sums, columns + row * row_bytes, at[2], count, k);
        }
    }
}

static double bias_of(const scatter_run *r, int64_t filter)
{
    const convolution *c = r->c;

    return c->has_bias ? exg_float_at(c->convert, c->dtype, r->call->inputs[2].data, filter) : 0;
}

static void scatter_block(void *context, uint32_t block)
{
    const scatter_run *r = context;
    const convolution *c = r->c;
    int64_t of_channel = c->taps * c->plane * exg_dtype_bytes(real_dtype(c));
    int64_t end = EXG_MIN(((int64_t)block + 1) * r->units_of_block, r->units);

    for (int64_t unit = (int64_t)block * r->units_of_block; unit < end; unit++) {
        int64_t row = unit / r->stretches; /* of results, counted through channels */
        int64_t at[3] = {row / c->result[1] % c->result[0], row % c->result[1],
                         unit % r->stretches * STRETCH};
        int64_t count = EXG_MIN(c->result[2] - at[2], STRETCH);
        int64_t plane = row / c->result[1] / c->result[0]; /* of the columns */
        int64_t image = r->image + plane / c->outs;
        int64_t filter = r->channel + plane % c->outs;
        int64_t to = (image * c->out + filter) * c->positions +
                     (at[0] * c->result[1] + at[1]) * c->result[2] + at[2];
        stretch sums;

        add_up(c, (const char *)r->call->workspace + plane * of_channel,
               bias_of(r, image % c->groups * c->out + filter), at, count, &sums);
        c->convert->store[c->dtype]((uint32_t)count,
                                    (char *)r->call->outputs[0].data + to * c->bytes, 1, &sums);
    }
}

void exg_convolution_scatter_run(const exg_kernel_call *call, const convolution *c)
{
    const char *image = call->inputs[0].data;
    const char *weight = call->inputs[1].data;
    scatter_run r = {.call = call, .c = c};

    if (c->phase_count > 0) {
        run_phases(call, c);
        return;
    }
    r.stretches = exg_ceil_div(c->result[2], STRETCH);
    r.units = c->images * c->outs * c->result[0] * c->result[1] * r.stretches;
    r.units_of_block = exg_items_per_block(
        exg_ceil_div(c->taps * c->plane, c->positions) * EXG_MIN(c->result[2], STRETCH), EXG_GRAIN);
    for (; r.image < c->batch * c->groups; r.image += c->images) {
        for (r.channel = 0; r.channel < c->out; r.channel += c->outs) {
            int64_t first = r.image % c->groups * c->in * c->out + r.channel;

            exg_gemm_run(&c->gemm, call, (char *)call->workspace + c->columns_bytes,
                         call->workspace, weight + first * c->taps * c->bytes,
                         image + r.image * c->in * c->plane * c->bytes, NULL);
            exg_pool_run(call->pool, scatter_block, &r, exg_block_count(r.units, r.units_of_block));
        }
    }
}
