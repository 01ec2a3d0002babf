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
    int64_t divisor; /* 0: by count */
    exg_dtype dtype;
    exg_compute compute;
    uint32_t bytes;
    int64_t planes_of_block;
    uint64_t plane_bytes; /* of a block's workspace: a plane in the compute type */
    const exg_convert_loops *convert;
    const exg_row_f32_loops *rows;
    const exg_pool_loops *loops;
} pool_params;

typedef struct pool_run_context {
    const pool_params *p;
    const char *in;
    char *out;
    int64_t *indices;
    char *workspace;
} pool_run_context;

/* Taps of a dilated window start inside: the first one that is. */
static int64_t first_tap(const pool_params *p, int d, int64_t o)
{
    int64_t first = o * p->stride[d] - p->padding[d];

    while (first < 0) {
        first += p->dilation[d];
    }
    return first;
}

/* ---- a tap of all windows of a row ------------------------------------------------------ */

/* The windows [first, last) of a row whose tap in column j is inside. */
static void windows_with(const pool_params *p, int64_t j, int64_t *first, int64_t *last)
{
    int64_t at = j * p->dilation[1] - p->padding[1];

    *first = at >= 0 ? 0 : exg_ceil_div(-at, p->stride[1]);
    *last = at >= p->width ? 0 : EXG_MIN((p->width - 1 - at) / p->stride[1] + 1, p->out_width);
}

/* Every tap of the windows of row y, in order: what is greater, or a NaN, takes the place of what
 * came before; or sums. */
static void pool_row(const pool_params *p, const char *plane, int64_t y, char *out,
                     int64_t *indices)
{
    int64_t bytes = exg_compute_bytes(p->compute);
    int64_t row = y * p->stride[0] - p->padding[0];

    for (int64_t i = 0; i < p->kernel[0]; i++, row += p->dilation[0]) {
        for (int64_t j = 0; row >= 0 && row < p->height && j < p->kernel[1]; j++) {
            int64_t first;
            int64_t last;
            int64_t place;

            windows_with(p, j, &first, &last);
            place = row * p->width + first * p->stride[1] - p->padding[1] + j * p->dilation[1];
            if (first >= last) {
                continue;
            }
            if (p->kind == MAX) {
                p->loops->greatest[p->compute](last - first, out + first * bytes,
                                               indices == NULL ? NULL : indices + first,
                                               plane + place * bytes, p->stride[1], place);
            } else {
                p->loops->add[p->compute](last - first, out + first * bytes, plane + place * bytes,
                                          p->stride[1]);
            }
        }
    }
}

/* ---- greatest ------------------------------------------------------------------------------ */

static void lowest_of(exg_compute compute, void *element)
{
    switch (compute) {
    case EXG_COMPUTE_F32:
        *(float *)element = -INFINITY;
        break;
    case EXG_COMPUTE_F64:
        *(double *)element = -INFINITY;
        break;
    case EXG_COMPUTE_I32:
        *(int32_t *)element = INT32_MIN;
        break;
    default:
        *(int64_t *)element = INT64_MIN;
    }
}

static void max_plane(const pool_params *p, const char *plane, char *out, int64_t *indices)
{
    uint32_t bytes = exg_compute_bytes(p->compute);
    int64_t row_bytes = p->out_width * bytes;
    int64_t lowest;

    lowest_of(p->compute, &lowest);
    for (int64_t y = 0; y < p->out_height; y++) {
        int64_t *places = indices == NULL ? NULL : indices + y * p->out_width;

        exg_fill(out + y * row_bytes, &lowest, p->out_width, bytes);
        for (int64_t x = 0; x < p->out_width && places != NULL; x++) {
            places[x] = first_tap(p, 0, y) * p->width + first_tap(p, 1, x);
        }
        pool_row(p, plane, y, out + y * row_bytes, places);
    }
}

/* ---- averages ------------------------------------------------------------------------------ */

/* What a window covers along a dimension: [first, last), and with padding. */
typedef struct pool_range {
    int64_t first, last, size;
} pool_range;

static pool_range range_of(const pool_params *p, int d, int64_t o)
{
    int64_t size = d == 0 ? p->height : p->width;
    int64_t outs = d == 0 ? p->out_height : p->out_width;
    int64_t first = o * p->stride[d] - p->padding[d];
    int64_t last = EXG_MIN(first + p->kernel[d], size + p->padding[d]);

    if (p->kind == ADAPTIVE) {
        first = o * size / outs;
        last = exg_ceil_div((o + 1) * size, outs);
    }
    return (pool_range){EXG_MAX(first, 0), EXG_MIN(last, size), last - first};
}

static int64_t divisor_of(const pool_params *p, pool_range y, pool_range x)
{
    return p->divisor != 0     ? p->divisor
           : p->counts_padding ? y.size * x.size
                               : (y.last - y.first) * (x.last - x.first);
}

#define IS_EMPTY(range) ((range).last <= (range).first)

#define DEFINE_AVERAGE(type, sum_type, name)                                                       \
    static void average_##name(const pool_params *p, const type *plane, type *out)                 \
    {                                                                                              \
        for (int64_t x = 0; x < p->out_width; x++) {                                               \
            pool_range columns = range_of(p, 1, x);                                                \
                                                                                                   \
            for (int64_t y = 0; y < p->out_height; y++) {                                          \
                pool_range rows = range_of(p, 0, y);                                               \
                sum_type sum = 0;                                                                  \
                                                                                                   \
                for (int64_t i = rows.first; i < rows.last; i++) {                                 \
                    for (int64_t j = columns.first; j < columns.last; j++) {                       \
                        sum += plane[i * p->width + j];                                            \
                    }                                                                              \
                }                                                                                  \
                out[y * p->out_width + x] =                                                        \
                    IS_EMPTY(rows) || IS_EMPTY(columns)                                            \
                        ? (type)0                                                                  \
                        : (type)(sum / (sum_type)divisor_of(p, rows, columns));                    \
            }                                                                                      \
        }                                                                                          \
    }

/* Sums, by what their windows cover. */
#define DEFINE_DIVIDE(type, name)                                                                  \
    static void divide_##name(const pool_params *p, type *out)                                     \
    {                                                                                              \
        for (int64_t y = 0; y < p->out_height; y++) {                                              \
            pool_range rows = range_of(p, 0, y);                                                   \
                                                                                                   \
            for (int64_t x = 0; x < p->out_width; x++) {                                           \
                pool_range columns = range_of(p, 1, x);                                            \
                type *to = &out[y * p->out_width + x];                                             \
                                                                                                   \
                *to = IS_EMPTY(rows) || IS_EMPTY(columns)                                          \
                          ? (type)0                                                                \
                          : (type)(*to / (type)divisor_of(p, rows, columns));                      \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_AVERAGE(float, float, f32)
DEFINE_AVERAGE(double, double, f64)
DEFINE_AVERAGE(int32_t, int64_t, i32)
DEFINE_AVERAGE(int64_t, int64_t, i64)
DEFINE_DIVIDE(float, f32)
DEFINE_DIVIDE(double, f64)
DEFINE_DIVIDE(int64_t, i64)

/* One window over all of the plane, which is one row in memory. */
static bool is_of_all(const pool_params *p)
{
    return p->out_height == 1 && p->out_width == 1 && p->padding[0] == 0 && p->padding[1] == 0 &&
           p->kernel[0] == p->height && p->kernel[1] == p->width;
}

/* By rows where windows are regular and sums are of the type of elements, else one by one. */
static void average_plane(const pool_params *p, const char *plane, char *out)
{
    const void *all = plane;
    void *to = out;
    int64_t area = p->height * p->width;
    double by = (double)(p->divisor != 0 ? p->divisor : area);
    bool is_real = p->compute == EXG_COMPUTE_F32 || p->compute == EXG_COMPUTE_F64;

    if (is_real && is_of_all(p) && p->compute == EXG_COMPUTE_F32) {
        *(float *)to = (float)(p->rows->sum(area, all) / by);
    } else if (is_real && is_of_all(p)) {
        *(double *)to = EXG_LOOPS(exg_loops_row_f64)->sum(area, all) / by;
    } else if (p->kind == AVERAGE && p->compute != EXG_COMPUTE_I32) {
        int64_t row_bytes = p->out_width * exg_compute_bytes(p->compute);

        memset(out, 0, (size_t)(p->out_height * row_bytes));
        for (int64_t y = 0; y < p->out_height; y++) {
            pool_row(p, plane, y, out + y * row_bytes, NULL);
        }
        if (p->compute == EXG_COMPUTE_F32) {
            divide_f32(p, to);
        } else if (p->compute == EXG_COMPUTE_F64) {
            divide_f64(p, to);
        } else {
            divide_i64(p, to);
        }
    } else if (p->compute == EXG_COMPUTE_F32) {
        average_f32(p, all, to);
    } else if (p->compute == EXG_COMPUTE_F64) {
        average_f64(p, all, to);
    } else if (p->compute == EXG_COMPUTE_I32) {
        average_i32(p, all, to);
    } else {
        average_i64(p, all, to);
    }
}

static void pool_plane(const pool_params *p, const void *plane, void *out, int64_t *indices)
{
    if (p->kind == MAX) {
        max_plane(p, plane, out, indices);
    } else {
        average_plane(p, plane, out);
    }
}

static void pool_block(void *context, uint32_t block)
{
    const pool_run_context *r = context;
    const pool_params *p = r->p;
    int64_t end = EXG_MIN(((int64_t)block + 1) * p->planes_of_block, p->planes);
    int64_t in_count = p->height * p->width;
    int64_t out_count = p->out_height * p->out_width;
    char *scratch = r->workspace + block * p->plane_bytes;

    for (int64_t plane = (int64_t)block * p->planes_of_block; plane < end; plane++) {
        const char *in = r->in + plane * in_count * p->bytes;
        char *out = r->out + plane * out_count * p->bytes;
        int64_t *indices = r->indices == NULL ? NULL : r->indices + plane * out_count;

        if (exg_compute_is_storage(p->dtype)) {
            pool_plane(p, in, out, indices);
        } else {
            char *result = scratch + in_count * exg_compute_bytes(p->compute);

            p->convert->load[p->dtype]((uint32_t)in_count, scratch, in, 1);
            pool_plane(p, scratch, result, indices);
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

static void pool_run_all(const exg_kernel_call *call)
{
    const pool_params *p = call->params;
    pool_run_context r = {
        p, call->inputs[0].data, call->outputs[0].data,
        p->kind == MAX && !exg_tensor_is_absent(&call->outputs[1]) ? call->outputs[1].data : NULL,
        call->workspace};

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
    if (!exg_compute_is_storage(p->dtype)) {
        p->plane_bytes = ((uint64_t)area * exg_compute_bytes(p->compute) + 63) & ~UINT64_C(63);
        call->workspace_bytes = p->plane_bytes * exg_block_count(p->planes, p->planes_of_block);
    }
    p->convert = EXG_LOOPS(exg_loops_convert);
    p->rows = EXG_LOOPS(exg_loops_row_f32);
    p->loops = EXG_LOOPS(exg_loops_pool);
    p->dilation[0] = p->dilation[1] = 1;
    call->params = p;
    *out = p;
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
    return EXG_OK;
}

static exg_status adaptive_avg_pool2d_prepare(exg_kernel_call *call, exg_error *err)
{
    pool_params *p;

    EXG_TRY(plan(call, ADAPTIVE, &p, err));
    if (p->out_height > 0 && p->height % p->out_height == 0 && p->out_width > 0 &&
        p->width % p->out_width == 0) { /* windows side by side */
        p->kind = AVERAGE;
        p->kernel[0] = p->stride[0] = p->height / p->out_height;
        p->kernel[1] = p->stride[1] = p->width / p->out_width;
    }
    return EXG_OK;
}

#define POOL_KERNEL(kernel, suits, kernel_flags)                                                   \
    const exg_kernel exg_kernel_##kernel = {                                                       \
        .name = #kernel,                                                                           \
        .prepare = kernel##_prepare,                                                               \
        .run = pool_run_all,                                                                       \
        .flags = kernel_flags,                                                                     \
        .suits_channels_last = suits,                                                              \
    }

POOL_KERNEL(max_pool2d_with_indices, max_suits_channels_last, EXG_KERNEL_LEAVES_UNUSED);
POOL_KERNEL(avg_pool2d, NULL, 0);
POOL_KERNEL(adaptive_avg_pool2d, NULL, 0);
