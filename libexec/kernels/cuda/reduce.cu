/* reduce.cu - one output of a reduction a block, or a thread where there are few terms.
 *
 * IN, OUT: dtypes. One of SUM, MEAN, PROD, AMAX, AMIN, ANY, ALL, VAR, STD. REAL: what is summed is
 * floating, else an integer. Sums are kept in double or int64, as the host keeps them.
 */
#include "libexec/kernels/cuda/block.h"
#include "libexec/kernels/cuda/params.h"

#if defined(REAL) && !defined(ANY) && !defined(ALL)
typedef double state;
#define SHUFFLE_STATE shuffle_f64
#define LOWEST        (-INFINITY)
#define HIGHEST       INFINITY
#else
typedef int64_t state;
#define SHUFFLE_STATE shuffle_i64
#define LOWEST        INT64_MIN
#define HIGHEST       INT64_MAX
#endif

#ifdef STD
#define VAR
#endif

#if defined(PROD)
#define START      1
#define TERM(x)    (state)(x)
#define JOINED     a * b
#elif defined(AMAX)
#define START      LOWEST
#define TERM(x)    (state)(x)
#define JOINED     b > a || b != b ? b : a
#elif defined(AMIN)
#define START      HIGHEST
#define TERM(x)    (state)(x)
#define JOINED     b < a || b != b ? b : a
#elif defined(ANY)
#define START      0
#define TERM(x)    (state)((x) != 0)
#define JOINED     a | b
#elif defined(ALL)
#define START      1
#define TERM(x)    (state)((x) != 0)
#define JOINED     a & b
#else
#define START      0
#define TERM(x)    (state)(x)
#define JOINED     a + b
#endif

DEFINE_BLOCK(join, state, SHUFFLE_STATE, JOINED)

static inline state term_at(const cuda_reduce_params *p, int64_t base, int64_t term)
{
    return TERM(LOAD(IN)(p->in, base + view_offset(&p->walked, term)));
}

/* Terms first, first + step, ... */
static inline state join_terms(const cuda_reduce_params *p, int64_t base, int64_t first,
                               int64_t step)
{
    state a = START;

    for (int64_t term = first; term < p->terms; term += step) {
        const state b = term_at(p, base, term);

        a = JOINED;
    }
    return a;
}

#ifdef VAR
static inline state join_squares(const cuda_reduce_params *p, int64_t base, int64_t first,
                                 int64_t step, double mean)
{
    state a = 0;

    for (int64_t term = first; term < p->terms; term += step) {
        const double d = term_at(p, base, term) - mean;

        a += d * d;
    }
    return a;
}
#endif

static inline void finish(const cuda_reduce_params *p, int64_t output, state a)
{
#if defined(MEAN)
    a /= (double)p->terms;
#elif defined(VAR)
    const double count = (double)p->terms - p->correction;

    a /= count > 0 ? count : 0;
#ifdef STD
    a = sqrt(a);
#endif
#endif
    STORE(OUT)(p->out, output, (COMPUTE(OUT))a);
}

#ifdef BY_THREAD
KERNEL(reduce, cuda_reduce_params)
{
    FOR_EACH(output, p.outputs) {
        const int64_t base = view_offset(&p.kept, output);
        state a = join_terms(&p, base, 0, 1);

#ifdef VAR
        a = join_squares(&p, base, 0, 1, a / (double)p.terms);
#endif
        finish(&p, output, a);
    }
}
#else
KERNEL(reduce, cuda_reduce_params)
{
    for (int64_t output = BLOCK_X; output < p.outputs; output += BLOCKS_X) {
        const int64_t base = view_offset(&p.kept, output);
        state a = block_join(join_terms(&p, base, THREAD, THREADS));

#ifdef VAR
        a = block_join(join_squares(&p, base, THREAD, THREADS, a / (double)p.terms));
#endif
        if (THREAD == 0) {
            finish(&p, output, a);
        }
    }
}
#endif
