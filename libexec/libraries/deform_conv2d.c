/* deform_conv2d.c - a convolution whose taps lie beside their places, each by its own offset. */
#include "libexec/libraries/torchvision.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { STRIDE = 5, PADDING = 7, DILATION = 9, GROUPS = 11, OFFSET_GROUPS = 12, USE_MASK = 13 };

/* input (N, C, H, W), weight (O, C / groups, h, w), offset (N, 2 * offset_groups * h * w, rows,
 * columns), mask likewise without the 2, bias (O). */
typedef struct deformed {
    const exg_operator_call *call;
    int64_t channels, height, width;
    int64_t out_channels, rows, columns;
    int64_t taps, taps_across;
    int64_t groups, offset_groups;
    bool masked;
    atomic_bool out_of_memory;
} deformed;

static int64_t out_size(const exg_operator_call *call, uint32_t d)
{
    int64_t span = exg_operator_int(call, DILATION + d) * (call->inputs[1].sizes[2 + d] - 1) + 1;
    int64_t room = call->inputs[0].sizes[2 + d] + 2 * exg_operator_int(call, PADDING + d) - span;

    return room < 0 ? 0 : room / exg_operator_int(call, STRIDE + d) + 1;
}

static exg_status check_numbers(const exg_operator_call *call, exg_error *err)
{
    for (uint32_t p = STRIDE; p <= OFFSET_GROUPS; p++) {
        bool is_padding = p == PADDING || p == PADDING + 1;
        int64_t number = exg_operator_int(call, p);

        if (number < !is_padding || number > INT32_MAX) {
            return EXG_OPERATOR_FAIL(err, MALFORMED,
                                     "a stride, dilation, padding or number of "
                                     "groups that is none");
        }
    }
    return EXG_OK;
}

static exg_status check(const exg_operator_call *call, exg_error *err)
{
    const exg_tensor *input = &call->inputs[0], *weight = &call->inputs[1];
    const exg_tensor *offset = &call->inputs[2], *mask = &call->inputs[3];
    int64_t groups = exg_operator_int(call, GROUPS);
    int64_t parts = exg_operator_int(call, OFFSET_GROUPS);
    int64_t taps;
    bool fits;

    if (check_numbers(call, err) != EXG_OK) {
        return EXG_MALFORMED;
    }
    if (input->rank != 4 || weight->rank != 4 || offset->rank != 4 || call->inputs[4].rank != 1) {
        return EXG_OPERATOR_FAIL(err, MALFORMED, "input, weight and offset have four dims");
    }
    taps = weight->sizes[2] * weight->sizes[3];
    fits = weight->sizes[1] * groups == input->sizes[1] && weight->sizes[0] % groups == 0 &&
           input->sizes[1] % parts == 0 && offset->sizes[0] == input->sizes[0] &&
           offset->sizes[1] == 2 * parts * taps && offset->sizes[2] == out_size(call, 0) &&
           offset->sizes[3] == out_size(call, 1) && call->inputs[4].sizes[0] == weight->sizes[0];
    if (fits && exg_operator_bool(call, USE_MASK)) {
        fits = mask->rank == 4 && mask->sizes[0] == input->sizes[0] &&
               mask->sizes[1] == parts * taps && mask->sizes[2] == offset->sizes[2] &&
               mask->sizes[3] == offset->sizes[3];
    }
    if (!fits) {
        return EXG_OPERATOR_FAIL(err, MALFORMED, "input, weight, offset, mask, bias do not fit");
    }
    return exg_vision_check_dtypes(call, err);
}

exg_status exg_deform_conv2d_shape(exg_operator_call *call, exg_error *err)
{
    exg_status status = check(call, err);

    if (status == EXG_OK) {
        call->outputs[0] =
            (exg_tensor){.dtype = call->inputs[0].dtype,
                         .rank = 4,
                         .sizes = {call->inputs[0].sizes[0], call->inputs[1].sizes[0],
                                   out_size(call, 0), out_size(call, 1)}};
    }
    return status;
}

#define LOOPS(T, suffix, floor_of)                                                                 \
    static T at_##suffix(const deformed *d, const T *plane, int64_t y, int64_t x)                  \
    {                                                                                              \
        return y < 0 || x < 0 || y >= d->height || x >= d->width ? 0 : plane[y * d->width + x];    \
    }                                                                                              \
                                                                                                   \
    static T between_##suffix(const deformed *d, const T *plane, T y, T x)                         \
    {                                                                                              \
        int64_t top, left;                                                                         \
        T ly, lx;                                                                                  \
                                                                                                   \
        if (!(y > -1 && x > -1 && y < (T)d->height && x < (T)d->width)) {                          \
            return 0;                                                                              \
        }                                                                                          \
        top = (int64_t)floor_of(y);                                                                \
        left = (int64_t)floor_of(x);                                                               \
        ly = y - (T)top;                                                                           \
        lx = x - (T)left;                                                                          \
        return (1 - ly) * (1 - lx) * at_##suffix(d, plane, top, left) +                            \
               (1 - ly) * lx * at_##suffix(d, plane, top, left + 1) +                              \
               ly * (1 - lx) * at_##suffix(d, plane, top + 1, left) +                              \
               ly * lx * at_##suffix(d, plane, top + 1, left + 1);                                 \
    }                                                                                              \
                                                                                                   \
    /* What tap `tap` of `channel` sees from the places of a row. */                               \
    static void gather_##suffix(const deformed *d, int64_t image, int64_t row, int64_t channel,    \
                                int64_t tap, T *out)                                               \
    {                                                                                              \
        const exg_operator_call *call = d->call;                                                   \
        const T *plane = (const T *)call->inputs[0].data +                                         \
                         (image * d->channels + channel) * d->height * d->width;                   \
        int64_t part = channel / (d->channels / d->offset_groups);                                 \
        int64_t at = (image * d->offset_groups + part) * d->taps + tap;                            \
        int64_t places = d->rows * d->columns;                                                     \
        const T *down = (const T *)call->inputs[2].data + at * 2 * places + row * d->columns;      \
        const T *mask =                                                                            \
            d->masked ? (const T *)call->inputs[3].data + at * places + row * d->columns : NULL;   \
        int64_t y = row * exg_operator_int(call, STRIDE) - exg_operator_int(call, PADDING) +       \
                    tap / d->taps_across * exg_operator_int(call, DILATION);                       \
        int64_t x = tap % d->taps_across * exg_operator_int(call, DILATION + 1) -                  \
                    exg_operator_int(call, PADDING + 1);                                           \
                                                                                                   \
        for (int64_t c = 0; c < d->columns; c++) {                                                 \
            int64_t from = x + c * exg_operator_int(call, STRIDE + 1);                             \
            T value = between_##suffix(d, plane, (T)y + down[c], (T)from + down[places + c]);      \
                                                                                                   \
            out[c] = mask == NULL ? value : mask[c] * value;                                       \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* One row of one image: what its taps see, then the product with the weights. */              \
    static void row_##suffix(void *context, uint32_t block)                                        \
    {                                                                                              \
        deformed *d = context;                                                                     \
        int64_t image = block / d->rows, row = block % d->rows;                                    \
        int64_t depth = d->channels / d->groups * d->taps;                                         \
        const T *weight = d->call->inputs[1].data, *bias = d->call->inputs[4].data;                \
        T *seen = malloc((size_t)(d->channels * d->taps * d->columns + 1) * sizeof(T));            \
                                                                                                   \
        if (seen == NULL) {                                                                        \
            atomic_store(&d->out_of_memory, true);                                                 \
            return;                                                                                \
        }                                                                                          \
        for (int64_t k = 0; k < d->channels * d->taps; k++) {                                      \
            gather_##suffix(d, image, row, k / d->taps, k % d->taps, seen + k * d->columns);       \
        }                                                                                          \
        for (int64_t o = 0; o < d->out_channels; o++) {                                            \
            const T *own = seen + o / (d->out_channels / d->groups) * depth * d->columns;          \
            T *out = (T *)d->call->outputs[0].data +                                               \
                     ((image * d->out_channels + o) * d->rows + row) * d->columns;                 \
                                                                                                   \
            for (int64_t c = 0; c < d->columns; c++) {                                             \
                out[c] = bias[o];                                                                  \
            }                                                                                      \
            for (int64_t k = 0; k < depth; k++) {                                                  \
                for (int64_t c = 0; c < d->columns; c++) {                                         \
                    out[c] += weight[o * depth + k] * own[k * d->columns + c];                     \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        free(seen);                                                                                \
    }

LOOPS(float, f32, floorf)
LOOPS(double, f64, floor)

static exg_status compute_deform_conv2d(exg_operator_call *call, exg_error *err)
{
    const exg_tensor *input = &call->inputs[0], *weight = &call->inputs[1];
    const exg_tensor *out = &call->outputs[0];
    deformed d = {.call = call,
                  .channels = input->sizes[1],
                  .height = input->sizes[2],
                  .width = input->sizes[3],
                  .out_channels = out->sizes[1],
                  .rows = out->sizes[2],
                  .columns = out->sizes[3],
                  .taps_across = weight->sizes[3],
                  .taps = weight->sizes[2] * weight->sizes[3],
                  .groups = exg_operator_int(call, GROUPS),
                  .offset_groups = exg_operator_int(call, OFFSET_GROUPS),
                  .masked = exg_operator_bool(call, USE_MASK)};

    if (out->sizes[0] * d.rows > UINT32_MAX) {
        return EXG_OPERATOR_FAIL(err, LIMIT, "more than 2^32 rows");
    }
    call->parallel(call, input->dtype == EXG_DTYPE_F64 ? row_f64 : row_f32, &d,
                   (uint32_t)(out->sizes[0] * d.rows));
    if (atomic_load(&d.out_of_memory)) {
        return EXG_OPERATOR_FAIL(err, NO_MEMORY, "out of memory");
    }
    return EXG_OK;
}

exg_status exg_deform_conv2d(exg_operator_call *call, exg_error *err)
{
    return exg_vision_widened(call, compute_deform_conv2d, err);
}
