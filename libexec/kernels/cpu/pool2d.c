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
} pool_params;

typedef struct pool_run_context {
    const pool_params *p;
    const char *in;
    char *out;
    int64_t *indices;
    char *workspace;
} pool_run_context;

/* Rows and columns [first, last) one output reads. */
typedef struct pool_window {
    int64_t first[2], last[2];
    int64_t size; /* with padding */
} pool_window;

static pool_window window_of(const pool_params *p, int64_t y, int64_t x)
{
    int64_t at[2] = {y, x};
    int64_t sizes[2] = {p->height, p->width};
    int64_t outs[2] = {p->out_height, p->out_width};
    pool_window w = {.size = 1};

    for (int d = 0; d < 2; d++) {
        if (p->kind == ADAPTIVE) {
            w.first[d] = at[d] * sizes[d] / outs[d];
            w.last[d] = exg_ceil_div((at[d] + 1) * sizes[d], outs[d]);
        } else {
            int64_t first = at[d] * p->stride[d] - p->padding[d];
            int64_t last = EXG_MIN(first + p->kernel[d], sizes[d] + p->padding[d]);

            w.size *= last - first;
            w.first[d] = EXG_MAX(first, 0);
            w.last[d] = EXG_MIN(last, sizes[d]);
        }
    }
    return w;
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

#define DEFINE_POOL(type, sum_type, name, lowest)                                             \
    static void max_##name(const pool_params *p, const type *plane, type *out, int64_t *index)\
    {                                                                                         \
        for (int64_t y = 0; y < p->out_height; y++) {                                         \
            int64_t y0 = first_tap(p, 0, y);                                                  \
            int64_t y1 = EXG_MIN(y * p->stride[0] - p->padding[0] +                           \
                                     (p->kernel[0] - 1) * p->dilation[0] + 1,                 \
                                 p->height);                                                  \
                                                                                              \
            for (int64_t x = 0; x < p->out_width; x++) {                                      \
                int64_t x0 = first_tap(p, 1, x);                                              \
                int64_t x1 = EXG_MIN(x * p->stride[1] - p->padding[1] +                       \
                                         (p->kernel[1] - 1) * p->dilation[1] + 1,             \
                                     p->width);                                               \
                type best = lowest;                                                           \
                int64_t where = y0 * p->width + x0;                                           \
                                                                                              \
                for (int64_t i = y0; i < y1; i += p->dilation[0]) {                           \
                    for (int64_t j = x0; j < x1; j += p->dilation[1]) {                       \
                        type v = plane[i * p->width + j];                                     \
                                                                                              \
                        if (v > best || v != v) {                                             \
                            best = v;                                                         \
                            where = i * p->width + j;                                         \
                        }                                                                     \
                    }                                                                         \
                }                                                                             \
                out[y * p->out_width + x] = best;                                             \
                index[y * p->out_width + x] = where;                                          \
            }                                                                                 \
        }                                                                                     \
    }                                                                                         \
    static void average_##name(const pool_params *p, const type *plane, type *out)            \
    {                                                                                         \
        for (int64_t y = 0; y < p->out_height; y++) {                                         \
            for (int64_t x = 0; x < p->out_width; x++) {                                      \
                pool_window w = window_of(p, y, x);                                           \
                int64_t inside = (w.last[0] - w.first[0]) * (w.last[1] - w.first[1]);         \
                int64_t by = p->divisor != 0 ? p->divisor                                     \
                             : p->counts_padding && p->kind != ADAPTIVE ? w.size : inside;    \
                sum_type sum = 0;                                                             \
                                                                                              \
                for (int64_t i = w.first[0]; i < w.last[0]; i++) {                            \
                    for (int64_t j = w.first[1]; j < w.last[1]; j++) {                        \
                        sum += plane[i * p->width + j];                                       \
                    }                                                                         \
                }                                                                             \
                out[y * p->out_width + x] =                                                   \
                    inside > 0 ? (type)(sum / (sum_type)by) : (type)0;                        \
            }                                                                                 \
        }                                                                                     \
    }

DEFINE_POOL(float, float, f32, -INFINITY)
DEFINE_POOL(double, double, f64, -INFINITY)
DEFINE_POOL(int32_t, int64_t, i32, INT32_MIN)
DEFINE_POOL(int64_t, int64_t, i64, INT64_MIN)

static void pool_plane(const pool_params *p, const void *plane, void *out, int64_t *indices)
{
    switch (p->compute) {
    case EXG_COMPUTE_F32:
        if (p->kind == MAX) {
            max_f32(p, plane, out, indices);
        } else {
            average_f32(p, plane, out);
        }
        break;
    case EXG_COMPUTE_F64:
        if (p->kind == MAX) {
            max_f64(p, plane, out, indices);
        } else {
            average_f64(p, plane, out);
        }
        break;
    case EXG_COMPUTE_I32:
        if (p->kind == MAX) {
            max_i32(p, plane, out, indices);
        } else {
            average_i32(p, plane, out);
        }
        break;
    default:
        if (p->kind == MAX) {
            max_i64(p, plane, out, indices);
        } else {
            average_i64(p, plane, out);
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
    pool_run_context r = {p, call->inputs[0].data, call->outputs[0].data,
                          p->kind == MAX ? call->outputs[1].data : NULL, call->workspace};

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
        p->plane_bytes =
            ((uint64_t)area * exg_compute_bytes(p->compute) + 63) & ~UINT64_C(63);
        call->workspace_bytes =
            p->plane_bytes * exg_block_count(p->planes, p->planes_of_block);
    }
    p->convert = EXG_LOOPS(exg_loops_convert);
    p->rows = EXG_LOOPS(exg_loops_row_f32);
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

    return plan(call, ADAPTIVE, &p, err);
}

#define POOL_KERNEL(kernel, suits)                                                            \
    const exg_kernel exg_kernel_##kernel = {                                                  \
        .name = #kernel,                                                                      \
        .prepare = kernel##_prepare,                                                          \
        .run = pool_run_all,                                                                  \
        .suits_channels_last = suits,                                                         \
    }

POOL_KERNEL(max_pool2d_with_indices, max_suits_channels_last);
POOL_KERNEL(avg_pool2d, NULL);
POOL_KERNEL(adaptive_avg_pool2d, NULL);
