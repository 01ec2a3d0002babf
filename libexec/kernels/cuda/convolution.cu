/* convolution.cu - a convolution as a matrix product whose second matrix is never made:
 *
 *   result (out, positions) = weight (out, in * taps) times columns (in * taps, positions)
 *
 * for each image and group, in tiles (tile.h). RESULT: the dtype of all operands.
 */
#include "libexec/kernels/cuda/params.h"
#include "libexec/kernels/cuda/tile.h"

FINISHING(convolution_params, cuda_convolution_params);

/* The image's coordinate along dimension d that result coordinate o and tap k read, or -1. */
static inline int64_t source_of(const cuda_convolution_params *p, int d, int64_t o, int64_t k)
{
    int64_t i = o * p->stride[d] - p->padding[d] + k * p->dilation[d];

    if (i < 0 || i % p->gap[d] != 0) {
        return -1;
    }
    i /= p->gap[d];
    return i < p->size[d] ? i : -1;
}

/* Element (o, k) of the weight as a matrix; k counts (channel, taps). A transposed
 * convolution's lies (in, out, taps), its taps turned round. */
static inline real weight_at(const cuda_convolution_params *p, int64_t group, int64_t o,
                             int64_t k)
{
    const int64_t taps = p->kernel[0] * p->kernel[1] * p->kernel[2];
    const int64_t channel = k / taps;
    const int64_t tap = p->is_transposed ? taps - 1 - k % taps : k % taps;
    const int64_t filter =
        p->is_transposed ? (group * p->in_channels + channel) * p->out_channels + o
                         : (group * p->out_channels + o) * p->in_channels + channel;

    return LOAD(RESULT)(p->weight, filter * taps + tap);
}

static inline real column_at(const cuda_convolution_params *p, int64_t image, int64_t group,
                             int64_t k, int64_t position)
{
    const int64_t taps = p->kernel[0] * p->kernel[1] * p->kernel[2];
    const int64_t tap = k % taps;
    const int64_t plane = (image * p->groups + group) * p->in_channels + k / taps;
    const int64_t z = source_of(p, 0, position / (p->result[1] * p->result[2]),
                                tap / (p->kernel[1] * p->kernel[2]));
    const int64_t y = source_of(p, 1, position / p->result[2] % p->result[1],
                                tap / p->kernel[2] % p->kernel[1]);
    const int64_t x = source_of(p, 2, position % p->result[2], tap % p->kernel[2]);

    return z < 0 || y < 0 || x < 0
               ? 0
               : LOAD(RESULT)(p->in, ((plane * p->size[0] + z) * p->size[1] + y) * p->size[2] + x);
}

/* A tile's channels [row, row + TILE) and positions [column, column + TILE), at depth k and on. */
static inline void load_tile(const cuda_convolution_params *p, strip *a, strip *b, int64_t image,
                             int64_t row, int64_t column, int64_t k)
{
    const int64_t positions = p->result[0] * p->result[1] * p->result[2];
    const int64_t depth = p->in_channels * p->kernel[0] * p->kernel[1] * p->kernel[2];
    const int64_t group = BLOCK_Y;

    for (int i = THREAD; i < TILE * DEEP; i += THREADS) {
        const int r = i / DEEP;
        const int c = i % TILE;

        a[i % DEEP][r] = row + r < p->out_channels && k + i % DEEP < depth
                             ? weight_at(p, group, row + r, k + i % DEEP)
                             : 0;
        b[i / TILE][c] = column + c < positions && k + i / TILE < depth
                             ? column_at(p, image, group, k + i / TILE, column + c)
                             : 0;
    }
}

KERNEL(convolution, convolution_params)
{
    SHARED strip a[DEEP];
    SHARED strip b[DEEP];
    const int64_t positions = p.of.result[0] * p.of.result[1] * p.of.result[2];
    const int64_t depth = p.of.in_channels * p.of.kernel[0] * p.of.kernel[1] * p.of.kernel[2];
    const int64_t tiles = (positions + TILE - 1) / TILE;
    const int64_t row = BLOCK_X / tiles * TILE;
    const int64_t column = BLOCK_X % tiles * TILE;

    for (int64_t image = BLOCK_Z; image < p.of.batch; image += 65535) {
        real sums[EACH][EACH] = {{0}};

        for (int64_t k = 0; k < depth; k += DEEP) {
            load_tile(&p.of, a, b, image, row, column, k);
            BARRIER();
            add_products(a, b, sums);
            BARRIER();
        }
        for (int i = 0; i < EACH * EACH; i++) {
            const int64_t o = row + THREAD / SIDE + i / EACH * SIDE;
            const int64_t position = column + THREAD % SIDE + i % EACH * SIDE;
            const int64_t channel = BLOCK_Y * p.of.out_channels + o;
            const int64_t at =
                (image * p.of.groups * p.of.out_channels + channel) * positions + position;
            const real sum = sums[i / EACH][i % EACH];

            if (o < p.of.out_channels && position < positions) {
                STORE(RESULT)(p.of.out, at,
                              p.of.bias != 0 ? sum + LOAD(RESULT)(p.of.bias, channel) : sum);
                FINISH(p, at);
            }
        }
    }
}
