/* convolution.c - aten.convolution as a matrix product.
 *
 *   input  (batch, groups * in, D, H, W)    weight (groups * out, in, kd, kh, kw)
 *   result (batch, groups * out, OD, OH, OW)
 *
 * Per image and group: result (out, positions) = weight (out, in * taps) times columns
 * (in * taps, positions). The columns exist only as packed panels (gemm.h), copied
 * from the image a tap and channel at a time. 1-d and 2-d are 3-d with sizes of 1. A
 * transposed convolution takes weights brought into the order above first. Those with a stride
 * have a file of their own, convolution_transposed.c, only integers are read with zeros in
 * between; and so have groups of few channels, convolution_windows.c.
 */
#include "libexec/kernels/cpu/convolution.h"

/* ---- packing columns --------------------------------------------------------------- */

/* Where one tap of positions in one result row falls in the image. */
typedef struct tap_row {
    int64_t offset;      /* of the first real element, from the channel's start */
    int64_t step;        /* elements between neighbours */
    int64_t first, last; /* positions of the row [first, last) that are inside */
} tap_row;

int64_t exg_convolution_source(const convolution *c, int d, int64_t o, int64_t k)
{
    int64_t i = o * c->stride[d] - c->padding[d] + k * c->dilation[d];

    if (c->gap[d] == 1) {
        return i >= 0 && i < c->size[d] ? i : -1;
    }
    if (i < 0 || i % c->gap[d] != 0 || i / c->gap[d] >= c->size[d]) {
        return -1;
    }
    return i / c->gap[d];
}

/* Positions [x, x + count) of a result row for the filter's column k: what of them is
 * inside, and where in an image row; none: last is first. */
static void find_columns(const convolution *c, int64_t k, int64_t x, int64_t count, tap_row *row)
{
    row->first = 0;
    row->last = count;
    row->step = c->stride[2];
    while (row->first < count && exg_convolution_source(c, 2, x + row->first, k) < 0) {
        row->first++;
    }
    while (row->last > row->first && exg_convolution_source(c, 2, x + row->last - 1, k) < 0) {
        row->last--;
    }
    row->offset = row->last > row->first ? exg_convolution_source(c, 2, x + row->first, k) : 0;
}

/* The same of result row (z, y) for one tap; the offset from the channel's start. */
static void find_row(const convolution *c, const int64_t *tap, int64_t z, int64_t y, int64_t x,
                     int64_t count, tap_row *row)
{
    int64_t iz = exg_convolution_source(c, 0, z, tap[0]);
    int64_t iy = exg_convolution_source(c, 1, y, tap[1]);

    find_columns(c, tap[2], x, count, row);
    row->offset += (iz * c->size[1] + iy) * c->size[2];
    if (iz < 0 || iy < 0) {
        row->first = row->last = row->offset = 0;
    }
}

/* One tap of one stretch of `all` positions, for channels [channel, end). */
static void pack_stretch(const convolution *c, const tap_row *row, int64_t all, const char *image,
                         int64_t channel, int64_t end, char *panel, int64_t panel_step)
{
    uint32_t real = c->gemm.loops->real_bytes;
    int64_t count = row->last - row->first;
    bool is_clipped = count < all;
    bool is_plain = row->step == 1 && exg_compute_is_storage(c->dtype);

    for (; channel < end; channel++, panel += panel_step) {
        const char *from = image + (channel * c->plane + row->offset) * c->bytes;

        if (is_clipped) {
            memset(panel, 0, (size_t)(all * real));
        }
        if (is_plain && count * real == 96) {
            memcpy(panel + row->first * real, from, 96); /* whole panels, by constant sizes */
        } else if (is_plain && count * real == 192) {
            memcpy(panel + row->first * real, from, 192);
        } else if (is_plain) {
            memcpy(panel + row->first * real, from, (size_t)(count * real));
        } else {
            c->convert->load[c->dtype]((uint32_t)count, panel + row->first * real, from, row->step);
        }
    }
}

/* One panel: positions from j, rows [k, k + depth) of in * taps. */
static void pack_panel(const convolution *c, const char *image, int64_t k, int64_t depth, int64_t j,
                       int64_t columns, char *panel)
{
    uint32_t real = c->gemm.loops->real_bytes;
    int64_t row_bytes = (int64_t)c->panel * real;

    if (columns < c->panel) {
        memset(panel, 0, (size_t)(depth * row_bytes));
    }
    for (int64_t t = 0; t < c->taps; t++) {
        int64_t tap[3] = {t / (c->kernel[1] * c->kernel[2]), t / c->kernel[2] % c->kernel[1],
                          t % c->kernel[2]};
        int64_t channel = k <= t ? 0 : exg_ceil_div(k - t, c->taps);
        int64_t end = k + depth <= t ? 0 : exg_ceil_div(k + depth - t, c->taps);
        int64_t x = j % c->result[2];

        if (channel >= end) {
            continue;
        }
        for (int64_t at = 0; at < columns;) {
            int64_t y = (j + at) / c->result[2];
            int64_t count = EXG_MIN(c->result[2] - x, columns - at);
            tap_row row;

            /* a tap wholly outside is a stretch of zeros */
            find_row(c, tap, y / c->result[1], y % c->result[1], x, count, &row);
            pack_stretch(c, &row, count, image, channel, end,
                         panel + (channel * c->taps + t - k) * row_bytes + at * real,
                         c->taps * row_bytes);
            at += count;
            x = 0;
        }
    }
}

void exg_convolution_pack_columns(const void *context, const void *b, int64_t batch, int64_t k,
                                  int64_t depth, int64_t j, int64_t columns, void *panels)
{
    const convolution *c = context;
    const char *image = (const char *)b + batch * c->in * c->plane * c->bytes;
    char *panel = panels;

    for (int64_t at = 0; at < columns; at += c->panel) {
        pack_panel(c, image, k, depth, j + at, EXG_MIN(columns - at, c->panel), panel);
        panel += depth * c->panel * c->gemm.loops->real_bytes;
    }
}

/* ---- shapes and options ---------------------------------------------------------------------- */

/* A list with one entry for all, or one for each of the spatial dimensions. */
static void spatial(const exg_kernel_call *call, uint32_t position, uint32_t rank, int64_t *three)
{
    int64_t items[3] = {0, 0, 0};
    uint32_t count = exg_call_ints(call, position, items, 3);

    for (uint32_t d = 0; d < rank; d++) {
        three[3 - rank + d] = items[count == 1 ? 0 : d];
    }
}

void exg_convolution_options(const exg_kernel_call *call, uint32_t rank, convolution *c)
{
    for (uint32_t d = 0; d < 3; d++) {
        c->stride[d] = c->dilation[d] = 1;
        c->padding[d] = 0;
    }
    spatial(call, 3, rank, c->stride);
    spatial(call, 4, rank, c->padding);
    spatial(call, 5, rank, c->dilation);
}

void exg_convolution_read(const exg_kernel_call *call, convolution *c)
{
    const exg_tensor *input = &call->inputs[0];
    const exg_tensor *weight = &call->inputs[1];
    const exg_tensor *out = &call->outputs[0];
    uint32_t rank = weight->rank - 2;
    uint32_t has_batch = input->rank == weight->rank ? 1 : 0;

    for (uint32_t d = 0; d < 3; d++) {
        c->size[d] = c->result[d] = c->kernel[d] = c->gap[d] = 1;
    }
    c->batch = has_batch ? input->sizes[0] : 1;
    c->groups = exg_call_int(call, 8);
    c->in = input->sizes[has_batch] / c->groups;
    c->out = out->sizes[has_batch] / c->groups;
    for (uint32_t d = 0; d < rank; d++) {
        c->size[3 - rank + d] = input->sizes[has_batch + 1 + d];
        c->result[3 - rank + d] = out->sizes[has_batch + 1 + d];
        c->kernel[3 - rank + d] = weight->sizes[2 + d];
    }
    exg_convolution_options(call, rank, c);
    c->taps = c->kernel[0] * c->kernel[1] * c->kernel[2];
    c->positions = c->result[0] * c->result[1] * c->result[2];
    c->plane = c->size[0] * c->size[1] * c->size[2];
    c->dtype = input->dtype;
    c->bytes = exg_dtype_bytes(c->dtype);
    c->has_bias = call->input_count > 2 && !exg_tensor_is_absent(&call->inputs[2]);
    c->convert = EXG_LOOPS(exg_loops_convert);
}
