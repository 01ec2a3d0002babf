/* random.cu - numbers by position, the same as the host draws: a block of four words of Philox
 * is four elements of 32 bits or less, or two of 64. OUT: the dtype; one of UNIFORM, NORMAL,
 * BITS; IS_WIDE.
 */
#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/cuda/params.h"
#include "libexec/kernels/random.h"

static inline uint64_t pair_of(const uint32_t *words, int at)
{
    return (uint64_t)words[2 * at + 1] << 32 | words[2 * at];
}

/* Two normal numbers of two uniform ones, u in (0, 1], v in [0, 1) (Box, Muller). */
static inline void normal_pair(double u, double v, double *z)
{
    const double radius = sqrt(-2 * log(u));
    const double angle = 6.28318530717958647693 * v;

    z[0] = radius * cos(angle);
    z[1] = radius * sin(angle);
}

#ifdef IS_WIDE
#define STEP 2
#else
#define STEP 4
#endif

static inline void draw_block(const cuda_draw_params *p, int64_t block, COMPUTE(OUT) v[STEP])
{
    uint32_t words[4];
    double z[2];

    exg_random_block((const exg_random_source *)p->source, p->stream, (uint64_t)block, words);
    (void)z;
#if defined(BITS)
    v[0] = (int64_t)(pair_of(words, 0) >> 1);
    v[1] = (int64_t)(pair_of(words, 1) >> 1);
#elif defined(UNIFORM) && defined(IS_WIDE)
    v[0] = (double)(pair_of(words, 0) >> 11) * 0x1p-53;
    v[1] = (double)(pair_of(words, 1) >> 11) * 0x1p-53;
#elif defined(UNIFORM)
    for (int k = 0; k < 4; k++) {
        v[k] = ldexpf((float)(words[k] >> (32 - p->digits)), -(int)p->digits);
    }
#elif defined(IS_WIDE)
    normal_pair((double)(pair_of(words, 0) >> 11) * 0x1p-53 + 0x1p-53,
                (double)(pair_of(words, 1) >> 11) * 0x1p-53, z);
    v[0] = z[0];
    v[1] = z[1];
#else
    for (int k = 0; k < 4; k += 2) {
        normal_pair(((double)words[k] + 1) * 0x1p-32, (double)words[k + 1] * 0x1p-32, z);
        v[k] = (float)z[0];
        v[k + 1] = (float)z[1];
    }
#endif
}

KERNEL(draw, cuda_draw_params)
{
    FOR_EACH(block, (p.numel + STEP - 1) / STEP) {
        COMPUTE(OUT) v[STEP];

        draw_block(&p, block, v);
        for (int k = 0; k < STEP; k++) {
            if (block * STEP + k < p.numel) {
                STORE(OUT)(p.out, block * STEP + k, v[k]);
            }
        }
    }
}
