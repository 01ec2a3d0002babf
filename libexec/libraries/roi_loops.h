/* roi_loops.h - the loops of roi.c for one type: T, its functions F(name), names R(name). No
 * include guard.
 */

/* One box. NULL: of an image that is not there. */
static const T *R(image_of)(roi_call *c, uint32_t roi, const T **box)
{
    const exg_tensor *input = &c->call->inputs[0];
    T image;

    *box = (const T *)c->call->inputs[1].data + (size_t)roi * 5;
    image = (*box)[0];
    if (!(image >= 0 && image < (T)input->sizes[0])) {
        atomic_store(&c->outside, true);
        return NULL;
    }
    return (const T *)input->data + (int64_t)image * c->channels * c->height * c->width;
}

static T R(interpolate)(const roi_call *c, const T *plane, T y, T x)
{
    int64_t top, left, bottom, right;
    T ly, lx;

    if (!(y >= -1 && y <= (T)c->height && x >= -1 && x <= (T)c->width)) {
        return 0;
    }
    y = y <= 0 ? 0 : y;
    x = x <= 0 ? 0 : x;
    top = (int64_t)y;
    left = (int64_t)x;
    bottom = top >= c->height - 1 ? c->height - 1 : top + 1;
    right = left >= c->width - 1 ? c->width - 1 : left + 1;
    if (top >= c->height - 1) {
        top = c->height - 1;
        y = (T)top;
    }
    if (left >= c->width - 1) {
        left = c->width - 1;
        x = (T)left;
    }
    ly = y - (T)top;
    lx = x - (T)left;
    return (1 - ly) * (1 - lx) * plane[top * c->width + left] +
           (1 - ly) * lx * plane[top * c->width + right] +
           ly * (1 - lx) * plane[bottom * c->width + left] +
           ly * lx * plane[bottom * c->width + right];
}

/* How a box lies over the map, and its cells. */
typedef struct R(cells) {
    T top, left, cell_height, cell_width;
    int64_t samples_down, samples_across;
} R(cells);

static R(cells) R(cells_of)(roi_call *c, const T *box, bool shifts, bool at_least_one)
{
    T scale = (T)c->scale;
    T shift = shifts ? (T)0.5 : 0;
    T left = box[1] * scale - shift, top = box[2] * scale - shift;
    T width = box[3] * scale - shift - left, height = box[4] * scale - shift - top;

    if (at_least_one) {
        width = F(fmax)(width, 1);
        height = F(fmax)(height, 1);
    }
    return (R(cells)){top,
                      left,
                      height / (T)c->rows,
                      width / (T)c->columns,
                      samples_of(c, (double)F(ceil)(height / (T)c->rows)),
                      samples_of(c, (double)F(ceil)(width / (T)c->columns))};
}

/* The sum over the samples of a cell. */
static T R(sum_cell)(const roi_call *c, const R(cells) * at, const T *plane, int64_t row,
                     int64_t column)
{
    T sum = 0;

    for (int64_t i = 0; i < at->samples_down; i++) {
        T y = at->top + (T)row * at->cell_height +
              ((T)i + (T)0.5) * at->cell_height / (T)at->samples_down;

        for (int64_t k = 0; k < at->samples_across; k++) {
            T x = at->left + (T)column * at->cell_width +
                  ((T)k + (T)0.5) * at->cell_width / (T)at->samples_across;

            sum += R(interpolate)(c, plane, y, x);
        }
    }
    return sum;
}

static void R(roi_align)(void *context, uint32_t roi)
{
    roi_call *c = context;
    const T *box;
    const T *image = R(image_of)(c, roi, &box);
    T *out = (T *)c->call->outputs[0].data + roi * c->channels * c->rows * c->columns;
    R(cells) at;
    T count;

    if (image == NULL) {
        return;
    }
    at = R(cells_of)(c, box, c->aligned, !c->aligned);
    count = F(fmax)((T)(at.samples_down * at.samples_across), 1);
    for (int64_t channel = 0; channel < c->channels; channel++) {
        for (int64_t row = 0; row < c->rows; row++) {
            for (int64_t column = 0; column < c->columns; column++) {
                *out++ = R(sum_cell)(c, &at, image + channel * c->height * c->width, row, column) /
                         count;
            }
        }
    }
}

static void R(ps_roi_align)(void *context, uint32_t roi)
{
    roi_call *c = context;
    const T *box;
    const T *image = R(image_of)(c, roi, &box);
    int64_t cells = c->rows * c->columns;
    T *out = (T *)c->call->outputs[0].data + roi * c->out_channels * cells;
    int32_t *from = (int32_t *)c->call->outputs[1].data + roi * c->out_channels * cells;
    R(cells) at;

    if (image == NULL) {
        return;
    }
    at = R(cells_of)(c, box, true, false);
    for (int64_t i = 0; i < c->out_channels * cells; i++) { /* each cell has its own channel */
        const T *plane = image + i * c->height * c->width;

        *out++ = R(sum_cell)(c, &at, plane, i / c->columns % c->rows, i % c->columns) /
                 (T)(at.samples_down * at.samples_across);
        *from++ = (int32_t)i;
    }
}

/* Whole pixels: where a box begins, and how many rows or columns it has. */
static void R(whole)(const roi_call *c, const T *box, int64_t more, T start[2], T size[2])
{
    T scale = (T)c->scale;

    for (int d = 0; d < 2; d++) { /* down, across */
        start[d] = F(round)(box[2 - d] * scale);
        size[d] = F(fmax)(F(round)(box[4 - d] * scale) - start[d] + (T)more, 1);
    }
}

/* Pixels of cell `at` along dim `d`: [range[0], range[1]) */
static void R(range)(const T start[2], const T size[2], int d, int64_t at, int64_t cells,
                     int64_t limit, int64_t range[2])
{
    T cell = size[d] / (T)cells;

    range[0] = clamped(F(floor)((T)at * cell) + start[d], 0, limit);
    range[1] = clamped(F(ceil)((T)(at + 1) * cell) + start[d], 0, limit);
}

/* The greatest pixel of a cell, 0 of an empty one, and where it is (-1). */
static T R(greatest)(const T *plane, int64_t width, const int64_t y[2], const int64_t x[2],
                     int64_t *best)
{
    T most = y[1] <= y[0] || x[1] <= x[0] ? 0 : -T_MAX;

    *best = -1;
    for (int64_t at = y[0]; at < y[1]; at++) {
        for (int64_t k = x[0]; k < x[1]; k++) {
            if (plane[at * width + k] > most) {
                most = plane[at * width + k];
                *best = at * width + k;
            }
        }
    }
    return most;
}

static T R(average)(const T *plane, int64_t width, const int64_t y[2], const int64_t x[2])
{
    T sum = 0;

    for (int64_t at = y[0]; at < y[1]; at++) {
        for (int64_t k = x[0]; k < x[1]; k++) {
            sum += plane[at * width + k];
        }
    }
    return y[1] <= y[0] || x[1] <= x[0] ? 0 : sum / (T)((y[1] - y[0]) * (x[1] - x[0]));
}

/* Each cell the greatest of its channel, or `by_position` the average of a channel of its own. */
static inline void R(pool)(roi_call *c, uint32_t roi, bool by_position)
{
    const T *box;
    const T *image = R(image_of)(c, roi, &box);
    const int64_t cells = c->rows * c->columns;
    const int64_t count = (by_position ? c->out_channels : c->channels) * cells;
    T *out = (T *)c->call->outputs[0].data + roi * count;
    int32_t *from = (int32_t *)c->call->outputs[1].data + roi * count;
    T start[2], size[2];

    if (image == NULL) {
        return;
    }
    R(whole)(c, box, by_position ? 0 : 1, start, size);
    for (int64_t i = 0; i < count; i++) {
        const T *plane = image + (by_position ? i : i / cells) * c->height * c->width;
        int64_t y[2], x[2];
        int64_t best = i;

        R(range)(start, size, 0, i / c->columns % c->rows, c->rows, c->height - by_position, y);
        R(range)(start, size, 1, i % c->columns, c->columns, c->width - by_position, x);
        out[i] = by_position ? R(average)(plane, c->width, y, x)
                             : R(greatest)(plane, c->width, y, x, &best);
        from[i] = (int32_t)best;
    }
}

static void R(roi_pool)(void *context, uint32_t roi)
{
    R(pool)(context, roi, false);
}

static void R(ps_roi_pool)(void *context, uint32_t roi)
{
    R(pool)(context, roi, true);
}
