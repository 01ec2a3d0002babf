/* winograd.c - channels-last convolutions of 3 by 3 with 2.25 times fewer products.
 *
 * Each 2 by 2 results come from 4 by 4 pixels: 16 factors of those, multiplied with 16 of
 * the weights summed over the channels, give 16 products, and these the results
 * (loops/winograd.c). Over all tiles that is 16 matrix products
 *
 *   products[e] (tiles, out) = factors[e] (tiles, in) times weights[e] (in, out)
 *
 * The factors of all tiles are made first, as panels; products only for a block of tiles
 * and columns at a time. Sums and differences alone, so errors are those of a sum of a
 * few terms more. Where results are not finite, they are made again by the definition:
 * differences of infinities say nothing.
 */
#include "libexec/kernels/cpu/convolution.h"
#include "libexec/kernels/pointwise.h"

#include <math.h>

#define CHANNELS_MIN 32   /* of the image and of the result */
#define WEIGHTS_MIN  4096 /* of one factor */
#define TILES_MIN    32
#define TILES        64 /* of a block */
#define PANELS       2  /* of the weights in a block */
#define COLUMNS_MAX  (PANELS * 48)
#define CHANNELS     64    /* spread at a time */
#define ROWS_MAX     8     /* of a panel of factors */
#define EPILOGUE     16384 /* elements of a task */

typedef struct winograd {
    convolution c;
    int64_t strides[4]; /* of the image: batch, channel, row, column */
    const exg_gemm_loops *gemm;
    const exg_winograd_loops *loops;
    int64_t tile_rows, tile_columns, tiles; /* of an image, of an image row; in all */
    int64_t padded_tiles, padded_out;
    int64_t block_tiles, tile_blocks, block_columns, column_blocks;
} winograd;

typedef struct winograd_run {
    const winograd *w;
    const exg_kernel_call *call;
    const float *image, *weights, *bias;
    float *factors, *result;
} winograd_run;

/* Where a tile's results begin. */
typedef struct place {
    int64_t batch, y, x;
} place;

static const float nothing[COLUMNS_MAX];

static place place_of(const winograd *w, int64_t tile)
{
    int64_t of_image = w->tile_rows * w->tile_columns;

    return (place){tile / of_image, tile % of_image / w->tile_columns * 2,
                   tile % w->tile_columns * 2};
}

/* Channels from `first` of the pixel at (y, x), or zeros; `room` where they are not dense. */
static const float *pixel(const winograd_run *r, int64_t batch, int64_t y, int64_t x, int64_t first,
                          int64_t count, float *room)
{
    const winograd *w = r->w;
    const float *at = r->image + batch * w->strides[0] + first * w->strides[1] + y * w->strides[2] +
                      x * w->strides[3];

    if (y < 0 || y >= w->c.size[1] || x < 0 || x >= w->c.size[2]) {
        return nothing;
    }
    if (w->strides[1] == 1) {
        return at;
    }
    w->c.convert->load[EXG_DTYPE_F32]((uint32_t)count, room, at, w->strides[1]);
    return room;
}

/* ---- factors ------------------------------------------------------------------------- */

/* The panels of factor e that hold tiles from `tile`, depth from k. */
static float *factors_at(const winograd_run *r, int64_t e, int64_t tile, int64_t k)
{
    const winograd *w = r->w;
    int64_t block = k - k % EXG_GEMM_K;
    int64_t depth = EXG_MIN(w->c.in - block, EXG_GEMM_K);

    return r->factors + (e * w->c.in + block) * w->padded_tiles + tile * depth +
           (k - block) * w->gemm->rows;
}

/* Channels [first, first + count) of one panel of tiles. */
static void spread_panel(const winograd_run *r, int64_t tile, int64_t first, int64_t count)
{
    const winograd *w = r->w;
    int64_t rows = w->gemm->rows;
    float room[16][CHANNELS];
    _Alignas(64) float factors[16 * ROWS_MAX * CHANNELS];

    for (int64_t row = 0; row < rows; row++) {
        place p = place_of(w, tile + row);
        const float *pixels[16];

        for (int i = 0; i < 16; i++) {
            pixels[i] = tile + row >= w->tiles
                            ? nothing
                            : pixel(r, p.batch, p.y - w->c.padding[1] + i / 4,
                                    p.x - w->c.padding[2] + i % 4, first, count, room[i]);
        }
        w->loops->spread(count, factors + row * CHANNELS, rows * CHANNELS, pixels);
    }
    for (int64_t e = 0; e < 16; e++) {
        const void *from[ROWS_MAX];

        for (int64_t row = 0; row < rows; row++) {
            from[row] = factors + (e * rows + row) * CHANNELS;
        }
        w->gemm->pack_rows(count, factors_at(r, e, tile, first), from);
    }
}

static void spread_block(void *context, uint32_t block)
{
    const winograd_run *r = context;
    const winograd *w = r->w;

    for (int64_t k = 0; k < w->c.in; k += CHANNELS) {
        spread_panel(r, block * w->gemm->rows, k, EXG_MIN(w->c.in - k, CHANNELS));
    }
}

/* ---- products, results --------------------------------------------------------------- */

static const float *weights_at(const winograd *w, const float *weights, int64_t e, int64_t k,
                               int64_t depth, int64_t column)
{
    return weights + (e * w->c.in + k) * w->padded_out + column * depth;
}

/* The weight of factor e itself, from `in` to `out`. */
static double factor_weight(const winograd_run *r, int e, int64_t in, int64_t out)
{
    const winograd *w = r->w;
    int64_t k = in - in % EXG_GEMM_K;
    int64_t depth = EXG_MIN(w->c.in - k, EXG_GEMM_K);
    int64_t column = out - out % w->gemm->columns;

    return (double)weights_at(w, r->weights, e, k, depth,
                              column)[(in - k) * w->gemm->columns + out - column];
}

/* One weight of the filter: what was spread is gathered, g1 = (g0 + g1 + g2) / 2 -
 * (g0 - g1 + g2) / 2. */
static double weight_of(const winograd_run *r, int64_t row, int64_t column, int64_t in, int64_t out)
{
    static const int first[3] = {0, 1, 3};
    double sum = 0;

    for (int i = 0; i < (row == 1 ? 2 : 1); i++) {
        for (int j = 0; j < (column == 1 ? 2 : 1); j++) {
            double x = factor_weight(r, (first[row] + i) * 4 + first[column] + j, in, out);

            sum += i == j ? x : -x;
        }
    }
    return sum;
}

/* One result by the definition. */
static float define(const winograd_run *r, place p, int64_t out)
{
    const winograd *w = r->w;
    double sum = r->bias != NULL ? (double)r->bias[out] : 0;

    for (int64_t t = 0; t < 9; t++) {
        for (int64_t in = 0; in < w->c.in; in++) {
            float room;

            sum += weight_of(r, t / 3, t % 3, in, out) *
                   (double)*pixel(r, p.batch, p.y - w->c.padding[1] + t / 3,
                                  p.x - w->c.padding[2] + t % 3, in, 1, &room);
        }
    }
    return (float)sum;
}

/* Columns [column, column + count) of one tile's results. */
static void gather_tile(const winograd_run *r, int64_t tile, const float *products, int64_t stride,
                        int64_t column, int64_t count)
{
    const winograd *w = r->w;
    place p = place_of(w, tile);
    float outside[COLUMNS_MAX];
    float *results[4];

    for (int i = 0; i < 4; i++) {
        int64_t y = p.y + i / 2;
        int64_t x = p.x + i % 2;
        int64_t at = (p.batch * w->c.result[1] + y) * w->c.result[2] + x;

        results[i] =
            y < w->c.result[1] && x < w->c.result[2] ? r->result + at * w->c.out + column : outside;
    }
    if (w->loops->gather(count, results, products, stride,
                         r->bias != NULL ? r->bias + column : nothing)) {
        return;
    }
    for (int i = 0; i < 4; i++) {
        for (int64_t k = 0; k < count && results[i] != outside; k++) {
            if (!isfinite(results[i][k])) {
                results[i][k] = define(r, (place){p.batch, p.y + i / 2, p.x + i % 2}, column + k);
            }
        }
    }
}

static void product_block(void *context, uint32_t block)
{
    const winograd_run *r = context;
    const winograd *w = r->w;
    int64_t tile = block % w->tile_blocks * w->block_tiles;
    int64_t column = block / w->tile_blocks * w->block_columns;
    int64_t tiles = EXG_MIN(w->tiles - tile, w->block_tiles);
    int64_t columns = EXG_MIN(exg_round_up(w->c.out - column, w->gemm->lanes), w->block_columns);
    int64_t stride = tiles * columns;
    _Alignas(64) float products[16 * TILES * COLUMNS_MAX];

    for (int64_t e = 0; e < 16; e++) {
        for (int64_t k = 0; k < w->c.in; k += EXG_GEMM_K) {
            int64_t depth = EXG_MIN(w->c.in - k, EXG_GEMM_K);
            const float *weights = weights_at(w, r->weights, e, k, depth, column);
            const float *next =
                k + depth < w->c.in || e < 15 ? weights + depth * w->padded_out : NULL;

            w->gemm->block(tiles, columns, depth, factors_at(r, e, tile, k), 0, weights,
                           products + e * stride, columns, k > 0, NULL, next);
        }
    }
    for (int64_t i = 0; i < tiles; i++) {
        gather_tile(r, tile + i, products + i * columns, stride, column,
                    EXG_MIN(columns, w->c.out - column));
    }
}

static void finish_block(void *context, uint32_t block)
{
    const winograd_run *r = context;
    int64_t first = (int64_t)block * EPILOGUE;
    int64_t all = r->w->c.batch * r->w->c.positions * r->w->c.out;

    exg_pointwise_epilogue(r->call, first, 1, EXG_MIN(all - first, EPILOGUE), 0);
}

/* ---- prepare, run ---------------------------------------------------------------------- */

exg_status exg_winograd_prepare(exg_kernel_call *call, exg_error *err)
{
    winograd *w = EXG_NEW(call->arena, winograd);

    if (w == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    exg_convolution_read(call, &w->c);
    memcpy(w->strides, call->inputs[0].strides, sizeof(w->strides));
    w->gemm = EXG_LOOPS(exg_loops_gemm_f32);
    w->loops = EXG_LOOPS(exg_loops_winograd);
    w->tile_rows = exg_ceil_div(w->c.result[1], 2);
    w->tile_columns = exg_ceil_div(w->c.result[2], 2);
    w->tiles = w->c.batch * w->tile_rows * w->tile_columns;
    w->padded_tiles = exg_ceil_div(w->tiles, w->gemm->rows) * w->gemm->rows;
    w->padded_out = exg_ceil_div(w->c.out, w->gemm->columns) * w->gemm->columns;
    w->block_tiles = exg_ceil_div(w->tiles, exg_ceil_div(w->tiles, TILES));
    w->block_tiles = exg_ceil_div(w->block_tiles, w->gemm->rows) * w->gemm->rows;
    w->tile_blocks = exg_ceil_div(w->tiles, w->block_tiles);
    w->block_columns = PANELS * w->gemm->columns;
    w->column_blocks = exg_ceil_div(w->padded_out, w->block_columns);
    call->takes_epilogue = true;
    call->workspace_bytes = (uint64_t)(16 * w->padded_tiles * w->c.in) * sizeof(float);
    call->params = w;
    return EXG_OK;
}

void exg_winograd_run(const exg_kernel_call *call)
{
    const winograd *w = call->params;
    winograd_run r = {.w = w,
                      .call = call,
                      .image = call->inputs[0].data,
                      .weights = call->packed->data,
                      .bias = w->c.has_bias ? call->inputs[2].data : NULL,
                      .factors = call->workspace,
                      .result = call->outputs[0].data};

    exg_pool_run(call->pool, spread_block, &r, (uint32_t)(w->padded_tiles / w->gemm->rows));
    exg_pool_run(call->pool, product_block, &r, (uint32_t)(w->tile_blocks * w->column_blocks));
    if (call->epilogue != NULL) {
        exg_pool_run(call->pool, finish_block, &r,
                     exg_block_count(w->c.batch * w->c.positions * w->c.out, EPILOGUE));
    }
}

/* ---- weights ----------------------------------------------------------------------------- */

bool exg_winograd_suits(const exg_kernel_call *call)
{
    const exg_tensor *weight = &call->inputs[1];
    convolution c;
    int64_t tiles = call->inputs[0].sizes[0];

    if (weight->dtype != EXG_DTYPE_F32 || weight->sizes[0] < CHANNELS_MIN ||
        weight->sizes[1] < CHANNELS_MIN || weight->sizes[0] * weight->sizes[1] < WEIGHTS_MIN ||
        weight->sizes[2] != 3 || weight->sizes[3] != 3) {
        return false;
    }
    exg_convolution_options(call, 2, &c);
    for (int d = 1; d < 3; d++) {
        int64_t result = call->inputs[0].sizes[1 + d] + 2 * c.padding[d] - 2;

        if (c.stride[d] != 1 || c.dilation[d] != 1 || result < 1) {
            return false;
        }
        tiles *= exg_ceil_div(result, 2);
    }
    return tiles >= TILES_MIN;
}

exg_status exg_winograd_packing_plan(exg_kernel_call *call, exg_error *err)
{
    const int64_t *s = call->inputs[1].sizes;
    exg_tensor *packed = &call->outputs[0];
    exg_matrix b = {EXG_DTYPE_F32, 0, 1, s[1], 0};

    EXG_TRY(exg_gemm_packing_plan(call, &b, EXG_GEMM_MANY, s[0], s[1], err));
    memmove(packed->sizes + 1, packed->sizes, 3 * sizeof(packed->sizes[0]));
    packed->sizes[0] = packed->sizes[1] > 0 ? 16 : 0;
    packed->rank = EXG_WINOGRAD_RANK;
    call->workspace_bytes = (uint64_t)(16 * s[0] * s[1]) * sizeof(float);
    return EXG_OK;
}

/* The 16 factors of the filters to one output channel. */
static void spread_filters(void *context, uint32_t out)
{
    static const double g[4][3] = {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}};
    const exg_kernel_call *call = context;
    const exg_tensor *weight = &call->inputs[1];
    float *to = (float *)call->workspace + out * weight->sizes[1];

    for (int64_t in = 0; in < weight->sizes[1]; in++) {
        const float *filter =
            (const float *)weight->data + out * weight->strides[0] + in * weight->strides[1];

        for (int e = 0; e < 16; e++) {
            double sum = 0;

            for (int t = 0; t < 9; t++) {
                sum += g[e / 4][t / 3] * g[e % 4][t % 3] *
                       (double)filter[t / 3 * weight->strides[2] + t % 3 * weight->strides[3]];
            }
            to[e * weight->sizes[0] * weight->sizes[1] + in] = (float)sum;
        }
    }
}

void exg_winograd_packing_run(const exg_kernel_call *call)
{
    const exg_tensor *weight = &call->inputs[1];
    const exg_tensor *packed = &call->outputs[0];
    exg_kernel_call one = *call;
    exg_tensor part = *packed;

    exg_pool_run(call->pool, spread_filters, (void *)(uintptr_t)call, (uint32_t)weight->sizes[0]);
    one.outputs = &part;
    for (int64_t e = 0; e < 16; e++) {
        part.data =
            (char *)packed->data + e * packed->sizes[1] * packed->sizes[2] * packed->sizes[3];
        exg_gemm_packing_run(&one, (const float *)call->workspace +
                                       e * weight->sizes[0] * weight->sizes[1]);
    }
}
