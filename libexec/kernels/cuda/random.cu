/* random.cu - numbers by position, the same as the host draws (distribution.h). OUT: the dtype.
 * One of UNIFORM, NORMAL, BITS; IS_WIDE. Or DISTRIBUTION: a function.
 */
#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/cuda/params.h"
#include "libexec/kernels/distribution.h"

#ifdef DISTRIBUTION
KERNEL(draw_each, cuda_draw_each_params)
{
    FOR_EACH(i, p.numel) {
        exg_numbers n = exg_numbers_of((const exg_random_source *)p.source, p.stream, (uint64_t)i);
        const double a = (double)LOAD(OUT)(p.a, i);
        const double b = p.b == 0 ? 0 : (double)LOAD(OUT)(p.b, i);
        bool bad;

        STORE(OUT)(p.out, i, (COMPUTE(OUT))DISTRIBUTION(&n, a, b, &bad));
        if (bad) {
            raise_fault(p.fault, FAULT_PARAMETER, 0, -1);
        }
    }
}
#else

#ifdef IS_WIDE
#define STEP 2
#else
#define STEP 4
#endif

#if defined(BITS)
#define DRAW(words, v) exg_draw_bits(words, v)
#elif defined(UNIFORM) && defined(IS_WIDE)
#define DRAW(words, v) exg_draw_uniform_f64(words, v)
#elif defined(UNIFORM)
#define DRAW(words, v) exg_draw_uniform_f32(words, p.digits, v)
#elif defined(IS_WIDE)
#define DRAW(words, v) exg_draw_normal_f64(words, v)
#else
#define DRAW(words, v) exg_draw_normal_f32(words, v)
#endif

KERNEL(draw, cuda_draw_params)
{
    FOR_EACH(block, (p.numel + STEP - 1) / STEP) {
        uint32_t words[4];
        COMPUTE(OUT) v[STEP];

        exg_random_block((const exg_random_source *)p.source, p.stream, (uint64_t)block, words);
        DRAW(words, v);
        for (int k = 0; k < STEP; k++) {
            if (block * STEP + k < p.numel) {
                STORE(OUT)(p.out, block * STEP + k, v[k]);
            }
        }
    }
}
#endif
