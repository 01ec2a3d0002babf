/* convolution_windows.c - aten.convolution with few channels a group: nothing is packed.
 *
 * Result planes of a group are made a tile of their rows at a time. What the tile reads is copied
 * into a frame first, zeros where it is outside the image, in the compute type, and apart by the
 * remainders of the stride, so that neighbours of a result row read neighbours. Rows of the frame
 * follow one another, and a tile is one long row: what it has beyond the width of results is thrown
 * away.
 *
 *   frame (channels, kernel rows along z, remainders of y, remainders of x, height, width)
 */
#include "libexec/kernels/cpu/convolution.h"
#include "libexec/kernels/loops/windows.h"

#define FRAME   12288 /* floats */
#define SUMS    4096
#define SLACK   64 /* of both, for whole vectors */
#define COLUMNS 16 /* that loops over planes may write, a vector */
#define LEAST   16 /* columns of a tile, where there are as many */
#define GROUP   16 /* channels of a group: of more a product of matrices is faster */

typedef struct windows_run {
    const convolution *c;
    const exg_windows_loops *loops;
    const char *input, *weight, *bias;
    char *result;
    int64_t tiles[3];                 /* of a plane */
    int64_t offsets[EXG_WINDOW_TAPS]; /* where in a frame each tap begins */
} windows_run;

/* Room for so many floats. */
#define NUMBERS(count)                                                                             \
    union {                                                                                        \
        float f32[count];                                                                          \
        double f64[(count) / 2];                                                                   \
    }

static int64_t real_bytes(const convolution *c)
{
    return c->dtype == EXG_DTYPE_F64 ? sizeof(double) : sizeof(float);
}

/* ---- sizes -------------------------------------------------------------------------------- */

/* From the first tap of dimension d to the last, in elements of the image. */
static int64_t span(const convolution *c, int d)
{
    return (c->kernel[d] - 1) * c->dilation[d];
}

static int64_t remainders(const convolution *c, int d)
{
    return EXG_MIN(c->stride[d], span(c, d) + 1);
}

static int64_t frame_size(const convolution *c, int d)
{
    return c->tile[d] + span(c, d) / c->stride[d];
}

static int64_t frame_numbers(const convolution *c)
{
    return c->in * c->kernel[0] * remainders(c, 1) * remainders(c, 2) * frame_size(c, 1) *
           frame_size(c, 2);
}

static int64_t filters_at_once(const convolution *c)
{
    return c->out < EXG_WINDOWS_FILTERS ? 1 : EXG_WINDOWS_FILTERS;
}

/* Which of the loops over planes suits; -1: none. */
static int plane_of(const convolution *c)
{
    const int64_t index = (c->kernel[1] - 3) / 2;
    const bool is_one = c->in == 1 && c->out == 1 && c->kernel[0] == 1 && c->stride[1] == 1 &&
                        c->dilation[1] == 1 && c->dtype != EXG_DTYPE_F64;

    return is_one && c->kernel[1] >= 3 && c->kernel[1] % 2 == 1 && index < EXG_WINDOWS_PLANES
               ? (int)index
               : -1;
}

/* From a row of sums to the next, in numbers. */
static int64_t row_pitch(const convolution *c)
{
    return plane_of(c) < 0 ? frame_size(c, 2) : exg_round_up(c->tile[2], COLUMNS);
}

static bool tile_fits(const convolution *c)
{
    int64_t narrow = real_bytes(c) / (int64_t)sizeof(float);

    return frame_numbers(c) <= FRAME / narrow &&
           c->tile[1] * row_pitch(c) <= SUMS / narrow / filters_at_once(c);
}

bool exg_convolution_windows_plan(convolution *c)
{
    if (c->groups == 1 || c->in > GROUP || (c->in > 1 && c->taps == 1) ||
        c->in * c->taps > EXG_WINDOW_TAPS || c->in * c->taps == 0 || c->positions == 0 ||
        span(c, 1) >= FRAME || span(c, 2) >= FRAME ||
        c->batch * c->groups * c->out * c->positions > UINT32_MAX) {
        return false;
    }
    c->tile[0] = c->tile[1] = 1;
    c->tile[2] = EXG_MIN(c->result[2], SUMS);
    while (!tile_fits(c) && c->tile[2] > LEAST) {
        c->tile[2] = (c->tile[2] + 1) / 2;
    }
    if (!tile_fits(c)) {
        return false;
    }
    while (c->tile[1] < c->result[1] && tile_fits(c)) {
        c->tile[1]++;
    }
    c->tile[1] -= tile_fits(c) ? 0 : 1;
    return true;
}

/* ---- a tile ------------------------------------------------------------------------------- */

/* What every row of a tile's frame has of a row of the image: every stride-th element. */
typedef struct stretch {
    int64_t first, last; /* of the frame's row, which has zeros beside them */
    int64_t from;        /* in the image's */
} stretch;

static stretch find_stretch(const convolution *c, int64_t column)
{
    int64_t step = c->stride[2];
    int64_t width = frame_size(c, 2);
    int64_t end = column < c->size[2] ? exg_ceil_div(c->size[2] - column, step) : 0;
    stretch s = {column < 0 ? exg_ceil_div(-column, step) : 0, EXG_MIN(width, end), 0};

    s.from = column + s.first * step;
    return s;
}

/* No image: NULL. */
static void fill_row(const convolution *c, const stretch *s, char *row, const char *image)
{
    int64_t width = frame_size(c, 2);
    bool is_inside = image != NULL && s->first < s->last;

    if (!is_inside || s->last - s->first < width) {
        memset(row, 0, (size_t)(width * real_bytes(c)));
    }
    if (is_inside) {
        c->convert->load[c->dtype]((uint32_t)(s->last - s->first), row + s->first * real_bytes(c),
                                   image + s->from * c->bytes, c->stride[2]);
    }
}

/* What the tile whose first result is `at` reads of a group's planes. */
static void fill_frame(const convolution *c, const char *image, const int64_t *at, char *frame)
{
    int64_t row_bytes = frame_size(c, 2) * real_bytes(c);

    for (int64_t k = 0; k < c->in * c->kernel[0]; k++) {
        const char *plane = image + k / c->kernel[0] * c->plane * c->bytes;
        int64_t z = exg_convolution_source(c, 0, at[0], k % c->kernel[0]);

        for (int64_t py = 0; py < remainders(c, 1); py++) {
            for (int64_t px = 0; px < remainders(c, 2); px++) {
                stretch s = find_stretch(c, at[2] * c->stride[2] - c->padding[2] + px);

                for (int64_t row = 0; row < frame_size(c, 1); row++, frame += row_bytes) {
                    int64_t y = (at[1] + row) * c->stride[1] - c->padding[1] + py;
                    bool is_inside = z >= 0 && y >= 0 && y < c->size[1];
                    int64_t from = (z * c->size[1] + y) * c->size[2] * c->bytes;

                    fill_row(c, &s, frame, is_inside ? plane + from : NULL);
                }
            }
        }
    }
    memset(frame, 0, (size_t)(SLACK / (int64_t)sizeof(float) * real_bytes(c)));
}

static void find_taps(const convolution *c, int64_t *offsets)
{
    int64_t width = frame_size(c, 2);
    int64_t plane = frame_size(c, 1) * width;

    for (int64_t t = 0; t < c->in * c->taps; t++) {
        int64_t z = t / c->kernel[2] / c->kernel[1]; /* of all channels */
        int64_t y = t / c->kernel[2] % c->kernel[1] * c->dilation[1];
        int64_t x = t % c->kernel[2] * c->dilation[2];
        int64_t part =
            (z * remainders(c, 1) + y % c->stride[1]) * remainders(c, 2) + x % c->stride[2];

        offsets[t] = part * plane + y / c->stride[1] * width + x / c->stride[2];
    }
}

/* Where a result is, and how far apart those of its row are. */
static int64_t result_of(const convolution *c, int64_t plane, int64_t z, int64_t y, int64_t x,
                         int64_t *apart)
{
    const convolution *whole = c->whole;

    *apart = 1;
    if (whole == NULL) {
        return plane * c->positions + (z * c->result[1] + y) * c->result[2] + x;
    }
    *apart = whole->stride[2];
    z = c->first[0] + z * whole->stride[0];
    y = c->first[1] + y * whole->stride[1];
    return plane * whole->positions + (z * whole->result[1] + y) * whole->result[2] + c->first[2] +
           x * whole->stride[2];
}

/* Weights of `filters` from `first` on, tap by tap, and what their sums begin with. */
static void load_weights(const windows_run *r, int64_t first, int64_t filters, double *starts,
                         void *weights)
{
    const convolution *c = r->c;
    const int64_t taps = c->in * c->taps;
    NUMBERS(2 * EXG_WINDOW_TAPS) own;

    for (int64_t f = 0; f < filters; f++) {
        starts[f] = c->has_bias ? exg_float_at(c->convert, c->dtype, r->bias, first + f) : 0;
        c->convert->load[c->dtype]((uint32_t)taps, &own, r->weight + (first + f) * taps * c->bytes,
                                   1);
        for (int64_t t = 0; t < taps; t++) {
            if (c->dtype == EXG_DTYPE_F64) {
                ((double *)weights)[t * filters + f] = own.f64[t];
            } else {
                ((float *)weights)[t * filters + f] = own.f32[t];
            }
        }
    }
}

static void windows_tile(void *context, uint32_t task)
{
    const windows_run *r = context;
    const convolution *c = r->c;
    int64_t in_row = task / r->tiles[2]; /* rows of tiles, counted through all groups */
    int64_t in_group = in_row / r->tiles[1];
    int64_t at[3] = {in_group % r->tiles[0], in_row % r->tiles[1] * c->tile[1],
                     task % r->tiles[2] * c->tile[2]};
    int64_t group = in_group / r->tiles[0]; /* of all images */
    int64_t rows = EXG_MIN(c->result[1] - at[1], c->tile[1]);
    int64_t columns = EXG_MIN(c->result[2] - at[2], c->tile[2]);
    int64_t width = frame_size(c, 2);
    int64_t count = (rows - 1) * width + columns;
    int64_t pitch = SUMS / filters_at_once(c) + SLACK; /* of the sums of a filter */
    NUMBERS(FRAME + SLACK) frame;
    NUMBERS(SUMS + EXG_WINDOWS_FILTERS * SLACK) sums;
    NUMBERS(2 * EXG_WINDOWS_FILTERS * EXG_WINDOW_TAPS) weights;

    pitch = c->dtype == EXG_DTYPE_F64 ? pitch / 2 : pitch;
    fill_frame(c, r->input + group * c->in * c->plane * c->bytes, at, (char *)&frame);
    for (int64_t filter = 0, filters; filter < c->out; filter += filters) {
        double starts[EXG_WINDOWS_FILTERS];

        filters = c->out - filter < EXG_WINDOWS_FILTERS ? 1 : EXG_WINDOWS_FILTERS;
        load_weights(r, group % c->groups * c->out + filter, filters, starts, &weights);
        if (plane_of(c) >= 0) {
            r->loops->planes_f32[plane_of(c)](rows, columns, sums.f32, row_pitch(c), frame.f32,
                                              width, c->kernel[2], r->offsets, weights.f32,
                                              (float)starts[0]);
        } else if (c->dtype == EXG_DTYPE_F64) {
            r->loops->f64[filters > 1](count, sums.f64, pitch, frame.f64, c->in * c->taps,
                                       r->offsets, weights.f64, starts);
        } else {
            r->loops->f32[filters > 1](count, sums.f32, pitch, frame.f32, c->in * c->taps,
                                       r->offsets, weights.f32, starts);
        }
        for (int64_t y = 0; y < filters * rows; y++) {
            const int64_t plane = group * c->out + filter + y / rows;
            const char *from =
                (char *)&sums + (y / rows * pitch + y % rows * row_pitch(c)) * real_bytes(c);
            int64_t apart;
            int64_t to = result_of(c, plane, at[0], at[1] + y % rows, at[2], &apart);

            c->convert->store[c->dtype]((uint32_t)columns, r->result + to * c->bytes, apart, from);
        }
    }
}

void exg_convolution_windows_run(const exg_kernel_call *call, const convolution *c,
                                 const void *weight)
{
    windows_run r = {c,
                     EXG_LOOPS(exg_loops_windows),
                     call->inputs[0].data,
                     weight,
                     c->has_bias ? call->inputs[2].data : NULL,
                     call->outputs[0].data,
                     {0},
                     {0}};
    int64_t tasks = c->batch * c->groups;

    for (int d = 0; d < 3; d++) {
        r.tiles[d] = exg_ceil_div(c->result[d], c->tile[d]);
        tasks *= r.tiles[d];
    }
    find_taps(c, r.offsets);
    exg_pool_run(call->pool, windows_tile, &r, (uint32_t)tasks);
}
