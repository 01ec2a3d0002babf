/* pool2d.c - max_pool2d_with_indices, avg_pool2d, _adaptive_avg_pool2d.
 *
 *   x (planes, H, W)   y (planes, OH, OW), contiguous; a plane is one channel of one
 *   image. Integers are pooled too, f16 and bf16 in f32.
 */
#include "libexec/kernels/cpu/common.h"

#include <math.h>

typedef enum pool_kind { MAX, AVERAGE, ADAPTIVE } pool_kind;

typedef struct pool_params {
    pool_kind kind;
    int64_t planes, height, width, out_height, out_width;
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    bool counts_padding;
    bool is_mean; /* of whole planes of f32 */
    int64_t divisor; /* 0: by count */
    const double *across; /* by column of results, what a count has as a factor; of averages */
    exg_dtype dtype;
    exg_compute compute;
    uint32_t bytes;
    int64_t planes_of_block;
    uint64_t row_bytes;   /* of a block's workspace: a row of sums, */
    uint64_t plane_bytes; /* and behind it a plane in the compute type */
    const exg_pool_taps *taps;
    const exg_convert_loops *convert;
    const exg_row_f32_loops *rows;
} pool_params;

static uint32_t sum_bytes(const pool_params *p)
{
    return p->compute == EXG_COMPUTE_F32 ? sizeof(float) : sizeof(int64_t);
}

typedef struct pool_run_context {
    const pool_params *p;
    const char *in;
    char *out;
    int64_t *indices;
    char *workspace;
} pool_run_context;

/* Places [first, last) that the window of result o reads along d. */
typedef struct pool_range {
    int64_t first, last;
    int64_t size; /* with padding */
} pool_range;

static pool_range range_of(const pool_params *p, int d, int64_t o)
{
    const int64_t size = d == 0 ? p->height : p->width;
    const int64_t out = d == 0 ? p->out_height : p->out_width;
    const int64_t first = o * p->stride[d] - p->padding[d];
    const int64_t last = EXG_MIN(first + p->kernel[d], size + p->padding[d]);

    if (p->kind == ADAPTIVE) {
        return (pool_range){o * size / out, exg_ceil_div((o + 1) * size, out), 0};
    }
    return (pool_range){EXG_MAX(first, 0), EXG_MIN(last, size), last - first};
}

/* What a sum is divided by, as far as d says: factors of a count. */
static int64_t divisor_of(const pool_params *p, int d, int64_t o)
{
    const pool_range r = range_of(p, d, o);

    return p->counts_padding ? r.size : EXG_MAX(r.last - r.first, 0);
}

/* Taps of a dilated window start inside: the first one that is. */
static int64_t first_tap(const pool_params *p, int d, int64_t o)
{
    int64_t first = o * p->stride[d] - p->padding[d];

    while (first < 0) {
        first += p->dilation[d];
    }
    return first;
}

#define CHUNK 256 /* results of a row at a time */

/* Of results [x, x + count) of a row those whose windows have tap k inside: the first, and how
 * many. */
static int64_t inside_of(const pool_params *p, int64_t k, int64_t x, int64_t count, int64_t *first)
{
    const int64_t offset = k * p->dilation[1] - p->padding[1];
    const int64_t most = p->width - 1 - offset;
    const int64_t last = most < 0 ? 0 : most / p->stride[1] + 1;

    *first = EXG_MAX(x, offset < 0 ? exg_ceil_div(-offset, p->stride[1]) : 0);
    return EXG_MIN(x + count, last) - *first;
}

/* Element of the row that tap k of result x reads. */
static int64_t tap_at(const pool_params *p, int64_t k, int64_t x)
{
    return x * p->stride[1] - p->padding[1] + k * p->dilation[1];
}

#define DEFINE_POOL(type, sum_type, place_type, name, lowest)                                      \
    /* Nothing is less; the place is that of the first tap, in rows from the window's first. */    \
    static void begin_##name(const pool_params *p, int64_t x, int64_t count, void *best,           \
                             void *places)                                                         \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++) {                                                      \
            ((type *)best)[i] = lowest;                                                            \
            ((place_type *)places)[i] = (place_type)first_tap(p, 1, x + i);                        \
        }                                                                                          \
    }                                                                                              \
    static void tell_##name(int64_t count, const void *places, int64_t start, int64_t *indices)    \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++) {                                                      \
            indices[i] = start + ((const place_type *)places)[i];                                  \
        }                                                                                          \
    }                                                                                              \
    static void divide_##name(const pool_params *p, int64_t by, int64_t x, int64_t count,          \
                              const void *sums_, void *out_)                                       \
    {                                                                                              \
        const sum_type *sums = sums_;                                                              \
        type *out = out_;                                                                          \
                                                                                                   \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const sum_type divisor =                                                               \
                (sum_type)(p->divisor != 0 ? (double)p->divisor : (double)by * p->across[x + i]);  \
                                                                                                   \
            out[i] = divisor != 0 ? (type)(sums[i] / divisor) : (type)0;                           \
        }                                                                                          \
    }                                                                                              \
    /* Sums of the columns of unequal windows. */                                                  \
    static void gather_##name(const pool_params *p, int64_t x, int64_t count,                      \
                              const void *columns_, void *sums_)                                   \
    {                                                                                              \
        const sum_type *columns = columns_;                                                        \
        sum_type *sums = sums_;                                                                    \
                                                                                                   \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const pool_range r = range_of(p, 1, x + i);                                            \
                                                                                                   \
            sums[i] = 0;                                                                           \
            for (int64_t j = r.first; j < r.last; j++) {                                           \
                sums[i] += columns[j];                                                             \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_POOL(float, float, int32_t, f32, -INFINITY)
DEFINE_POOL(double, double, int64_t, f64, -INFINITY)
DEFINE_POOL(int32_t, int64_t, int32_t, i32, INT32_MIN)
DEFINE_POOL(int64_t, int64_t, int64_t, i64, INT64_MIN)

static const struct {
    void (*begin)(const pool_params *p, int64_t x, int64_t count, void *best, void *places);
    void (*tell)(int64_t count, const void *places, int64_t start, int64_t *indices);
    void (*divide)(const pool_params *p, int64_t by, int64_t x, int64_t count, const void *sums,
                   void *out);
    void (*gather)(const pool_params *p, int64_t x, int64_t count, const void *columns,
                   void *sums);
} typed[EXG_COMPUTE_COUNT] = {
    [EXG_COMPUTE_F32] = {begin_f32, tell_f32, divide_f32, gather_f32},
    [EXG_COMPUTE_F64] = {begin_f64, tell_f64, divide_f64, gather_f64},
    [EXG_COMPUTE_I32] = {begin_i32, tell_i32, divide_i32, gather_i32},
    [EXG_COMPUTE_I64] = {begin_i64, tell_i64, divide_i64, gather_i64},
};

/* Results [x, x + count) of row y. */
static void max_chunk(const pool_params *p, const char *plane, int64_t y, int64_t x, int64_t count,
                      char *out, int64_t *indices)
{
    const uint32_t bytes = exg_compute_bytes(p->compute); /* of a place too */
    const int64_t y0 = first_tap(p, 0, y);
    const int64_t y1 = EXG_MIN(
        y * p->stride[0] - p->padding[0] + (p->kernel[0] - 1) * p->dilation[0] + 1, p->height);
    _Alignas(64) char places[CHUNK * sizeof(int64_t)];

    typed[p->compute].begin(p, x, count, out, places);
    for (int64_t i = y0; i < y1; i += p->dilation[0]) {
        for (int64_t k = 0; k < p->kernel[1]; k++) {
            int64_t first;
            int64_t some = inside_of(p, k, x, count, &first);
            int64_t at = tap_at(p, k, first);
            const char *from = plane + (i * p->width + at) * bytes;
            char *best = out + (first - x) * bytes;

            if (indices == NULL) {
                p->taps->greater(some, best, from, p->stride[1]);
            } else {
                p->taps->greatest(some, best, places + (first - x) * bytes, from, p->stride[1],
                                  (i - y0) * p->width + at);
            }
        }
    }
    if (indices != NULL) {
        typed[p->compute].tell(count, places, y0 * p->width, indices);
    }
}

/* The same of averages; `columns` has the sums of the rows of their windows. */
static void average_chunk(const pool_params *p, const char *columns, int64_t by, int64_t x,
                          int64_t count, char *out)
{
    const uint32_t bytes = sum_bytes(p);
    _Alignas(64) char sums[CHUNK * sizeof(int64_t)];

    if (p->kind == ADAPTIVE) {
        typed[p->compute].gather(p, x, count, columns, sums);
    } else {
        memset(sums, 0, (size_t)count * bytes);
    }
    for (int64_t k = 0; p->kind != ADAPTIVE && k < p->kernel[1]; k++) {
        int64_t first;
        int64_t some = inside_of(p, k, x, count, &first);

        p->taps->join(some, sums + (first - x) * bytes, columns + tap_at(p, k, first) * bytes,
                      p->stride[1]);
    }
    typed[p->compute].divide(p, by, x, count, sums, out);
}

/* A plane of the compute type; `columns`: room for a row of sums. */
static void pool_plane(const pool_params *p, const char *plane, char *out, int64_t *indices,
                       char *columns)
{
    const uint32_t bytes = exg_compute_bytes(p->compute);
    const int64_t area = p->height * p->width;

    if (p->is_mean) {
        *(float *)(void *)out =
            (float)(p->rows->sum(area, (const float *)(const void *)plane) / (double)area);
        return;
    }
    for (int64_t y = 0; y < p->out_height; y++) {
        const pool_range rows = range_of(p, 0, y);

        if (p->kind != MAX) {
            memset(columns, 0, (size_t)p->width * sum_bytes(p));
            for (int64_t i = rows.first; i < rows.last; i++) {
                p->taps->add(p->width, columns, plane + i * p->width * bytes, 1);
            }
        }
        for (int64_t x = 0; x < p->out_width; x += CHUNK) {
            const int64_t count = EXG_MIN(p->out_width - x, CHUNK);
            const int64_t at = y * p->out_width + x;

            if (p->kind == MAX) {
                max_chunk(p, plane, y, x, count, out + at * bytes,
                          indices == NULL ? NULL : indices + at);
            } else {
                average_chunk(p, columns, divisor_of(p, 0, y), x, count, out + at * bytes);
            }
        }
    }
}

static void pool_block(void *context, uint32_t block)
{
    const pool_run_context *r = context;
    const pool_params *p = r->p;
    int64_t end = EXG_MIN(((int64_t)block + 1) * p->planes_of_block, p->planes);
    int64_t in_count = p->height * p->width;
    int64_t out_count = p->out_height * p->out_width;
    char *columns = r->workspace + block * (p->row_bytes + p->plane_bytes);
    char *scratch = columns + p->row_bytes;

    for (int64_t plane = (int64_t)block * p->planes_of_block; plane < end; plane++) {
        const char *in = r->in + plane * in_count * p->bytes;
        char *out = r->out + plane * out_count * p->bytes;
        int64_t *indices = r->indices == NULL ? NULL : r->indices + plane * out_count;

        if (exg_compute_is_storage(p->dtype)) {
            pool_plane(p, in, out, indices, columns);
        } else {
            char *result = scratch + in_count * exg_compute_bytes(p->compute);

            p->convert->load[p->dtype]((uint32_t)in_count, scratch, in, 1);
            pool_plane(p, scratch, result, indices, columns);
            p->convert->store[p->dtype]((uint32_t)out_count, out, 1, result);
        }
    }
}

/* ---- channels last ---------------------------------------------------------------------- */

#define CHANNELS 256 /* widened at a time */

/* best (count) = the greatest of the window of (y, x), channel by channel from `channel`. */
static void greatest(const exg_kernel_call *call, const char *image, int64_t y, int64_t x,
                     int64_t channel, int64_t count, float *best)
{
    const pool_params *p = call->params;
    const int64_t *strides = call->inputs[0].strides;
    int64_t y_end = y * p->stride[0] - p->padding[0] + (p->kernel[0] - 1) * p->dilation[0] + 1;
    int64_t x_end = x * p->stride[1] - p->padding[1] + (p->kernel[1] - 1) * p->dilation[1] + 1;
    bool is_first = true;
    float wide[CHANNELS];

    for (int64_t i = first_tap(p, 0, y); i < EXG_MIN(y_end, p->height); i += p->dilation[0]) {
        for (int64_t j = first_tap(p, 1, x); j < EXG_MIN(x_end, p->width); j += p->dilation[1]) {
            const char *at = image + (i * strides[2] + j * strides[3] + channel) * p->bytes;
            const float *from = (const float *)(const void *)at;

            if (p->dtype != EXG_DTYPE_F32) {
                p->convert->load[p->dtype]((uint32_t)count, wide, at, 1);
                from = wide;
            }
            if (is_first) {
                memcpy(best, from, (size_t)count * sizeof(*best));
            } else {
                p->rows->max_of(count, best, from);
            }
            is_first = false;
        }
    }
}

/* One row of results (width, channels) of one image. */
static void last_row(void *context, uint32_t block)
{
    const exg_kernel_call *call = context;
    const pool_params *p = call->params;
    const exg_tensor *in = &call->inputs[0];
    int64_t channels = in->sizes[1];
    int64_t y = block % p->out_height;
    const char *image =
        (const char *)in->data + block / p->out_height * in->strides[0] * (int64_t)p->bytes;
    char *out = (char *)call->outputs[0].data +
                (int64_t)block * p->out_width * channels * (int64_t)p->bytes;
    float best[CHANNELS];

    for (int64_t x = 0; x < p->out_width; x++) {
        for (int64_t c = 0; c < channels; c += CHANNELS) {
            int64_t count = EXG_MIN(channels - c, CHANNELS);
            char *to = out + (x * channels + c) * (int64_t)p->bytes;

            if (p->dtype == EXG_DTYPE_F32) {
                greatest(call, image, y, x, c, count, (float *)(void *)to);
            } else {
                greatest(call, image, y, x, c, count, best);
                p->convert->store[p->dtype]((uint32_t)count, to, 1, best);
            }
        }
    }
}

/* Of what f32 holds, if it lies so already, when nobody asks for the places. */
static bool max_suits_channels_last(const exg_kernel_call *call)
{
    const exg_tensor *in = &call->inputs[0];
    exg_compute compute;

    return exg_compute_of(in->dtype, &compute) && compute == EXG_COMPUTE_F32 && in->rank == 4 &&
           in->strides[1] == 1 && in->strides[3] == in->sizes[1];
}

static bool has_places(const exg_kernel_call *call)
{
    return call->output_count > 1 && call->outputs[1].dtype != EXG_DTYPE_COUNT;
}

static void pool_run_all(const exg_kernel_call *call)
{
    const pool_params *p = call->params;
    pool_run_context r = {p, call->inputs[0].data, call->outputs[0].data,
                          has_places(call) ? call->outputs[1].data : NULL, call->workspace};

    if (call->channels_last) {
        exg_pool_run(call->pool, last_row, (void *)(uintptr_t)call,
                     (uint32_t)(call->inputs[0].sizes[0] * p->out_height));
        return;
    }
    exg_pool_run(call->pool, pool_block, &r, exg_block_count(p->planes, p->planes_of_block));
}

static exg_status plan(exg_kernel_call *call, pool_kind kind, pool_params **out, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    const exg_tensor *result = &call->outputs[0];
    pool_params *p = EXG_NEW(call->arena, pool_params);
    int64_t area;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    p->kind = kind;
    p->dtype = in->dtype;
    if (!exg_compute_of(p->dtype, &p->compute)) {
        return exg_unsupported_dtype("pooling", p->dtype, err);
    }
    p->height = in->sizes[in->rank - 2];
    p->width = in->sizes[in->rank - 1];
    p->out_height = result->sizes[result->rank - 2];
    p->out_width = result->sizes[result->rank - 1];
    p->planes = 1;
    for (uint32_t d = 0; d + 2 < in->rank; d++) {
        p->planes *= in->sizes[d];
    }
    p->bytes = exg_dtype_bytes(p->dtype);
    area = p->height * p->width + p->out_height * p->out_width;
    p->planes_of_block = exg_items_per_block(4 * area, EXG_GRAIN);
    p->planes_of_block = EXG_MAX(p->planes_of_block, exg_ceil_div(p->planes, 64));
    if (kind != MAX) {
        p->row_bytes = ((uint64_t)p->width * sum_bytes(p) + 63) & ~UINT64_C(63);
    }
    if (!exg_compute_is_storage(p->dtype)) {
        p->plane_bytes =
            ((uint64_t)area * exg_compute_bytes(p->compute) + 63) & ~UINT64_C(63);
    }
    call->workspace_bytes =
        (p->row_bytes + p->plane_bytes) * exg_block_count(p->planes, p->planes_of_block);
    p->taps = &EXG_LOOPS(exg_loops_pool)->of[p->compute];
    p->convert = EXG_LOOPS(exg_loops_convert);
    p->rows = EXG_LOOPS(exg_loops_row_f32);
    call->params = p;
    *out = p;
    return EXG_OK;
}

/* Once windows are known. */
static exg_status count_across(const exg_kernel_call *call, pool_params *p, exg_error *err)
{
    double *across = EXG_NEW_ARRAY(call->arena, double, (size_t)p->out_width);

    if (across == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (int64_t x = 0; x < p->out_width; x++) {
        across[x] = (double)divisor_of(p, 1, x);
    }
    p->across = across;
    return EXG_OK;
}

static exg_status max_pool2d_with_indices_prepare(exg_kernel_call *call, exg_error *err)
{
    static const int64_t zeros[2] = {0, 0};
    static const int64_t ones[2] = {1, 1};
    pool_params *p;

    EXG_TRY(plan(call, MAX, &p, err));
    exg_call_pair(call, 1, p->kernel, ones);
    exg_call_pair(call, 2, p->stride, p->kernel);
    exg_call_pair(call, 3, p->padding, zeros);
    exg_call_pair(call, 4, p->dilation, ones);
    if (has_places(call) && exg_compute_bytes(p->compute) == sizeof(int32_t) &&
        p->kernel[0] * p->dilation[0] > INT32_MAX / EXG_MAX(p->width, 1)) {
        return EXG_FAIL(err, UNSUPPORTED, "KRN-001", "places in a window of more than 2^31");
    }
    return EXG_OK;
}

static exg_status avg_pool2d_prepare(exg_kernel_call *call, exg_error *err)
{
    static const int64_t zeros[2] = {0, 0};
    static const int64_t ones[2] = {1, 1};
    pool_params *p;

    EXG_TRY(plan(call, AVERAGE, &p, err));
    exg_call_pair(call, 1, p->kernel, ones);
    exg_call_pair(call, 2, p->stride, p->kernel);
    exg_call_pair(call, 3, p->padding, zeros);
    p->counts_padding = exg_call_bool(call, 5);
    p->divisor = exg_call_is_none(call, 6) ? 0 : exg_call_int(call, 6);
    p->dilation[0] = p->dilation[1] = 1;
    return count_across(call, p, err);
}

static exg_status adaptive_avg_pool2d_prepare(exg_kernel_call *call, exg_error *err)
{
    pool_params *p;

    EXG_TRY(plan(call, ADAPTIVE, &p, err));
    p->is_mean = p->out_height * p->out_width == 1 && p->compute == EXG_COMPUTE_F32;
    if (p->out_height > 0 && p->out_width > 0 && p->height % p->out_height == 0 &&
        p->width % p->out_width == 0) { /* windows are all alike */
        p->kind = AVERAGE;
        p->kernel[0] = p->stride[0] = p->height / p->out_height;
        p->kernel[1] = p->stride[1] = p->width / p->out_width;
        p->dilation[0] = p->dilation[1] = 1;
    }
    return count_across(call, p, err);
}

#define POOL_KERNEL(kernel, suits, flag)                                                      \
    const exg_kernel exg_kernel_##kernel = {                                                  \
        .name = #kernel,                                                                      \
        .prepare = kernel##_prepare,                                                          \
        .run = pool_run_all,                                                                  \
        .flags = (flag),                                                                      \
        .suits_channels_last = suits,                                                         \
    }

POOL_KERNEL(max_pool2d_with_indices, max_suits_channels_last, EXG_KERNEL_FIRST_ALONE);
POOL_KERNEL(avg_pool2d, NULL, 0);
POOL_KERNEL(adaptive_avg_pool2d, NULL, 0);
