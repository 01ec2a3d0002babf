/* convolution.cu - a convolution as a matrix product whose second matrix is never made:
 *
 *   result (out, positions) = weight (out, in * taps) times columns (in * taps, positions)
 *
 * for each image and group, in tiles as gemm.cu. X: the dtype of all operands.
 */
#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/cuda/params.h"

#define TILE 64
#define EACH 4
#define DEEP 16
#define SIDE (TILE / EACH)

typedef COMPUTE(X) real;

#ifdef IS_INTEGER
#define MULTIPLY_ADD(x, y, z) ((x) * (y) + (z))
#elif defined(IS_DOUBLE)
#define MULTIPLY_ADD(x, y, z) fma(x, y, z)
#else
#define MULTIPLY_ADD(x, y, z) fmaf(x, y, z)
#endif

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
    const int64_t tap = k % taps;

    return p->is_transposed
               ? LOAD(X)(p->weight, ((group * p->in_channels + channel) * p->out_channels + o) *
                                            taps + (taps - 1 - tap))
               : LOAD(X)(p->weight, ((group * p->out_channels + o) * p->in_channels + channel) *
                                            taps + tap);
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
               : LOAD(X)(p->in, ((plane * p->size[0] + z) * p->size[1] + y) * p->size[2] + x);
}

KERNEL(convolution, cuda_convolution_params)
{
    SHARED real a[DEEP][TILE + 1];
    SHARED real b[DEEP][TILE + 1];
    const int64_t positions = p.result[0] * p.result[1] * p.result[2];
    const int64_t depth = p.in_channels * p.kernel[0] * p.kernel[1] * p.kernel[2];
    const int64_t tiles = (positions + TILE - 1) / TILE;
    const int64_t row = BLOCK_X / tiles * TILE;
    const int64_t column = BLOCK_X % tiles * TILE;
    const int64_t group = BLOCK_Y;
    const int y = THREAD / SIDE;
    const int x = THREAD % SIDE;

    for (int64_t image = BLOCK_Z; image < p.batch; image += 65535) {
        real sums[EACH][EACH];

        for (int i = 0; i < EACH * EACH; i++) {
            sums[i / EACH][i % EACH] = 0;
        }
        for (int64_t k = 0; k < depth; k += DEEP) {
            for (int i = THREAD; i < TILE * DEEP; i += THREADS) {
                const int r = i / DEEP;
                const int c = i % TILE;

                a[i % DEEP][r] = row + r < p.out_channels && k + i % DEEP < depth
                                     ? weight_at(&p, group, row + r, k + i % DEEP)
                                     : 0;
                b[i / TILE][c] = column + c < positions && k + i / TILE < depth
                                     ? column_at(&p, image, group, k + i / TILE, column + c)
                                     : 0;
            }
            BARRIER();
            for (int d = 0; d < DEEP; d++) {
                for (int i = 0; i < EACH; i++) {
                    for (int j = 0; j < EACH; j++) {
                        sums[i][j] = MULTIPLY_ADD(a[d][y + i * SIDE], b[d][x + j * SIDE],
                                                  sums[i][j]);
                    }
                }
            }
            BARRIER();
        }
        for (int i = 0; i < EACH; i++) {
            const int64_t o = row + y + i * SIDE;
            const int64_t channel = group * p.out_channels + o;

            for (int j = 0; j < EACH; j++) {
                const int64_t at = column + x + j * SIDE;

                if (o < p.out_channels && at < positions) {
                    STORE(X)(p.out,
                             (image * p.groups * p.out_channels + channel) * positions + at,
                             p.bias != 0 ? sums[i][j] + LOAD(X)(p.bias, channel) : sums[i][j]);
                }
            }
        }
    }
}
