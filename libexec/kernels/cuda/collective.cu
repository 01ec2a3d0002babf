/* collective.cu - what ranks do with bytes of each other that they can reach.
 *
 * ELEMENT (element_4): move. DTYPE, and one of SUM, AVG, MAX, MIN, PRODUCT, BAND, BOR, BXOR:
 * combine, in the order of ranks, as the host does (libexec/comm/reduce.c); REAL: the dtype is
 * floating.
 */
#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/cuda/params.h"

#ifdef ELEMENT
/* One move a row of blocks. */
KERNEL(move, cuda_moves_params)
{
    const cuda_strips *m = &p.moves[BLOCK_Y];

    FOR_EACH(i, m->count) {
        ((ELEMENT *)m->to)[i / m->to_run * m->to_pitch + i % m->to_run] =
            ((const ELEMENT *)m->from)[i / m->from_run * m->from_pitch + i % m->from_run];
    }
}
#else

#ifdef REAL
typedef COMPUTE(DTYPE) wide;
#define WHOLE(x) (x)
#else
typedef int64_t wide;
#define WHOLE(x) ((uint64_t)(x)) /* wraps */
#endif

#if defined(MAX)
#define COMBINED a != a || a > b ? a : b
#elif defined(MIN)
#define COMBINED a != a || a < b ? a : b
#elif defined(PRODUCT)
#define COMBINED (wide)(WHOLE(a) * WHOLE(b))
#elif defined(BAND)
#define COMBINED a & b
#elif defined(BOR)
#define COMBINED a | b
#elif defined(BXOR)
#define COMBINED a ^ b
#else
#define COMBINED (wide)(WHOLE(a) + WHOLE(b))
#endif

KERNEL(combine, cuda_combine_params)
{
    FOR_EACH(i, p.count) {
        const int64_t at = i / p.run * p.pitch + i % p.run;
        wide a = (wide)LOAD(DTYPE)(p.parts[0], at);

        for (int r = 1; r < p.part_count; r++) {
            const wide b = (wide)LOAD(DTYPE)(p.parts[r], at);

            a = COMBINED;
        }
#ifdef AVG
        a /= (wide)p.part_count;
#endif
        STORE(DTYPE)(p.out, i, (COMPUTE(DTYPE))a);
    }
}
#endif
