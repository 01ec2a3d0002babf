/* reduce.cu - one output of a reduction a block, or a thread where there are few terms; of few
 * outputs, or of columns, blocks take parts of the terms (PARTS).
 *
 * IN, OUT: dtypes. One of SUM, SUM_SQUARES, MEAN, PROD, AMAX, AMIN, ANY, ALL, VAR, STD. REAL: what
 * is summed is floating, else an integer. Sums are kept in double or int64, as the host keeps them.
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
#elif defined(SUM_SQUARES)
static inline state squared(state x)
{
    return x * x;
}

#define START      0
#define TERM(x)    squared((state)(x))
#define JOINED     a + b
#else
#define START      0
#define TERM(x)    (state)(x)
#define JOINED     a + b
#endif

#define VECTOR ((int)(16 / sizeof(STORAGE(IN))))

DEFINE_BLOCK(join, state, SHUFFLE_STATE, JOINED)

static inline state term_at(const cuda_reduce_params *p, int64_t base, int64_t term)
{
    return TERM(LOAD(IN)(p->in, base + view_offset(&p->walked, term)));
}

/* Terms first, first + step, ... before `end`. */
static inline state join_terms(const cuda_reduce_params *p, int64_t base, int64_t first,
                               int64_t step, int64_t end)
{
    state a = START;

    for (int64_t term = first; term < end; term += step) {
        const state b = term_at(p, base, term);

        a = JOINED;
    }
    return a;
}

/* All threads of the block together: terms [first, end), by words of 16 bytes where they lie side
 * by side. Each thread has a part. */
static inline state join_run(const cuda_reduce_params *p, int64_t base, int64_t first, int64_t end)
{
    state a = START;

    if (p->walked.rank == 1 && p->walked.strides[0] == 1) {
        const STORAGE(IN) *from = (const STORAGE(IN) *)p->in + base + first;
        const int64_t words = (uint64_t)from % 16 == 0 ? (end - first) / VECTOR : 0;

        for (int64_t w = THREAD; w < words; w += THREADS) {
            ALIGNED_16 STORAGE(IN) word[VECTOR];

            move_word(word, from + w * VECTOR, 16);
            UNROLL
            for (int e = 0; e < VECTOR; e++) {
                const state b = TERM(LOAD(IN)(word, e));

                a = JOINED;
            }
        }
        first += words * VECTOR;
    }
    {
        const state b = join_terms(p, base, first + THREAD, THREADS, end);

        return JOINED;
    }
}

#ifdef VAR
static inline state join_squares(const cuda_reduce_params *p, int64_t base, int64_t first,
                                 int64_t step, int64_t end, double mean)
{
    state a = 0;

    for (int64_t term = first; term < end; term += step) {
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

#if defined(BY_THREAD)
KERNEL(reduce, cuda_reduce_params)
{
    FOR_EACH(output, p.outputs) {
        const int64_t base = view_offset(&p.kept, output);
        state a = join_terms(&p, base, 0, 1, p.terms);

#ifdef VAR
        a = join_squares(&p, base, 0, 1, p.terms, a / (double)p.terms);
#endif
        finish(&p, output, a);
    }
}
#elif defined(PARTS)
/* A part of the terms of an output, or with COLUMNS of WARP outputs that lie side by side. */
KERNEL(reduce_part, cuda_reduce_params)
{
    const int64_t first = BLOCK_Y * p.part_terms;
    const int64_t end = first + p.part_terms < p.terms ? first + p.part_terms : p.terms;
#ifdef COLUMNS
    SHARED state rows[WARPS_MAX][WARP];
    const int64_t output = (int64_t)BLOCK_X * WARP + THREAD % WARP;
    const int64_t from = first + THREAD / WARP;
    const int64_t step = THREADS / WARP;
    const int is_there = output < p.outputs;
#else
    const int64_t output = BLOCK_X;
    const int64_t from = first + THREAD;
    const int64_t step = THREADS;
    const int is_there = 1;
#endif
    const int64_t base = is_there ? view_offset(&p.kept, output) : 0;
#ifdef SQUARES
    state a = is_there ? join_squares(&p, base, from, step, end,
                                      ((const double *)p.means)[output])
                       : 0;
#else
#ifdef COLUMNS
    state a = is_there ? join_terms(&p, base, from, step, end) : START;
#else
    state a = join_run(&p, base, first, end);
#endif
#endif

#ifdef COLUMNS
    rows[THREAD / WARP][THREAD % WARP] = a;
    BARRIER();
    for (int k = 1; k < THREADS / WARP; k++) {
        const state b = rows[k][THREAD % WARP];

        if (THREAD < WARP) {
            a = JOINED;
        }
    }
    if (THREAD < WARP && is_there) {
        ((state *)p.parts)[output * p.part_count + BLOCK_Y] = a;
    }
#else
    a = block_join(a);
    if (THREAD == 0) {
        ((state *)p.parts)[output * p.part_count + BLOCK_Y] = a;
    }
#endif
}

/* The parts of an output together, by a warp: the result, or with MEANS what its squares need. */
KERNEL(reduce_parts, cuda_reduce_params)
{
    const int64_t warps = (int64_t)BLOCKS_X * (THREADS / WARP);

    for (int64_t output = (int64_t)BLOCK_X * (THREADS / WARP) + THREAD / WARP; output < p.outputs;
         output += warps) {
        const state *parts = (const state *)p.parts + output * p.part_count;
        state a = START;

        for (int64_t part = THREAD % WARP; part < p.part_count; part += WARP) {
            const state b = parts[part];

            a = JOINED;
        }
        a = warp_join(a);
        if (THREAD % WARP == 0) {
#ifdef MEANS
            ((double *)p.means)[output] = a / (double)p.terms;
#else
            finish(&p, output, a);
#endif
        }
    }
}
#else
KERNEL(reduce, cuda_reduce_params)
{
    for (int64_t output = BLOCK_X; output < p.outputs; output += BLOCKS_X) {
        const int64_t base = view_offset(&p.kept, output);
        state a = block_join(join_run(&p, base, 0, p.terms));

#ifdef VAR
        a = block_join(join_squares(&p, base, THREAD, THREADS, p.terms, a / (double)p.terms));
#endif
        if (THREAD == 0) {
            finish(&p, output, a);
        }
    }
}
#endif
