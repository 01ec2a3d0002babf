/* scan.cu - sums or products so far along a dimension. IN, OUT: dtypes; IS_PRODUCT; REAL: floating;
 * IS_NARROW: each step is rounded to f32, as the host's is.
 *
 * A block takes a line whose elements lie side by side, a tile at a time; of a few long lines
 * blocks take parts: TOTALS finds what each comes to, PARTS then begins with those before.
 * BY_THREAD: a thread takes a line. COLUMNS: a block takes WARP lines that lie side by side, each
 * warp a stretch of them.
 */
#include "libexec/kernels/cuda/block.h"
#include "libexec/kernels/cuda/params.h"

#ifdef REAL
typedef double state;
#define SHUFFLE_STATE shuffle_f64
#else
typedef int64_t state;
#define SHUFFLE_STATE shuffle_i64
#endif

#ifdef IS_PRODUCT
#define START         1
#define JOINED(a, b)  ((a) * (b))
#else
#define START         0
#define JOINED(a, b)  ((a) + (b))
#endif

#ifdef IS_NARROW
#define STEP(a, b) ((state)(float)JOINED(a, b))
#else
#define STEP(a, b) JOINED(a, b)
#endif

#if defined(BY_THREAD) || defined(COLUMNS)
static inline int64_t base_of(const cuda_scan_params *p, int64_t row)
{
    return row / p->inner * p->size * p->inner + row % p->inner;
}

static inline state term(const cuda_scan_params *p, int64_t base, int64_t i)
{
    return (state)(COMPUTE(OUT))LOAD(IN)(p->in, base + i * p->inner);
}

/* Writes [first, end), from `a` on. */
static inline void run_on(const cuda_scan_params *p, int64_t base, int64_t first, int64_t end,
                          state a)
{
    for (int64_t i = first; i < end; i++) {
        a = STEP(a, term(p, base, i));
        STORE(OUT)(p->out, base + i * p->inner, (COMPUTE(OUT))a);
    }
}
#endif

#if defined(BY_THREAD)
KERNEL(scan, cuda_scan_params)
{
    FOR_EACH(row, p.rows) {
        run_on(&p, base_of(&p, row), 0, p.size, START);
    }
}
#elif defined(COLUMNS)
KERNEL(scan, cuda_scan_params)
{
    SHARED state parts[WARPS_MAX][WARP];
    const int64_t row = (int64_t)BLOCK_X * WARP + THREAD % WARP;
    const int is_there = row < p.rows;
    const int64_t base = is_there ? base_of(&p, row) : 0;
    const int64_t size = is_there ? p.size : 0;
    const int64_t stretch = (size + THREADS / WARP - 1) / (THREADS / WARP);
    const int64_t first = stretch * (THREAD / WARP) < size ? stretch * (THREAD / WARP) : size;
    const int64_t end = first + stretch < size ? first + stretch : size;
    state a = START;

    for (int64_t i = first; i < end; i++) {
        a = STEP(a, term(&p, base, i));
    }
    parts[THREAD / WARP][THREAD % WARP] = a;
    BARRIER();
    a = START;
    for (int k = 0; k < THREAD / WARP; k++) {
        a = STEP(a, parts[k][THREAD % WARP]);
    }
    run_on(&p, base, first, end, a);
}
#else
#define EACH 8 /* elements of a thread, in a tile */
#define WORD_OF(dtype)                                                                             \
    (EACH * (int)sizeof(STORAGE(dtype)) < 16 ? EACH : 16 / (int)sizeof(STORAGE(dtype)))
#define IS_WHOLE(at, dtype, count)                                                                 \
    ((count) >= EACH && (uint64_t)(at) % (WORD_OF(dtype) * sizeof(STORAGE(dtype))) == 0)

DEFINE_BLOCK(join, state, SHUFFLE_STATE, STEP(a, b))

DEFINE_BLOCK_SCAN(sum, state, SHUFFLE_STATE, STEP(a, b), START)

/* EACH elements, of which `count` are there. */
static inline void take(const STORAGE(IN) *from, int64_t count, state x[EACH])
{
    const int is_whole = IS_WHOLE(from, IN, count);

    UNROLL
    for (int v = 0; v < EACH; v += WORD_OF(IN)) {
        ALIGNED_16 STORAGE(IN) word[WORD_OF(IN)] = {0};

        move_vector(word, from + v, (int)sizeof(*from), WORD_OF(IN),
                    (int)(count < EACH ? count : EACH) - v, is_whole);
        UNROLL
        for (int e = 0; e < WORD_OF(IN); e++) {
            x[v + e] = v + e < count ? (state)(COMPUTE(OUT))LOAD(IN)(word, e) : START;
        }
    }
}

static inline void put(STORAGE(OUT) *to, int64_t count, const state x[EACH])
{
    const int is_whole = IS_WHOLE(to, OUT, count);

    UNROLL
    for (int v = 0; v < EACH; v += WORD_OF(OUT)) {
        ALIGNED_16 STORAGE(OUT) word[WORD_OF(OUT)];

        UNROLL
        for (int e = 0; e < WORD_OF(OUT); e++) {
            STORE(OUT)(word, e, (COMPUTE(OUT))x[v + e]);
        }
        move_vector(to + v, word, (int)sizeof(*to), WORD_OF(OUT),
                    (int)(count < EACH ? count : EACH) - v, is_whole);
    }
}

/* Where a part of a line is. */
typedef struct stretch {
    int64_t base, first, end;
} stretch;

static inline stretch part_of(const cuda_scan_params *p, int64_t row)
{
    const int64_t first = BLOCK_Y * p->part_size;
    const int64_t end = first + p->part_size;
    const stretch part = {row * p->size, first, end < p->size ? end : p->size};

    return part;
}

#ifdef TOTALS
KERNEL(scan_totals, cuda_scan_params)
{
    for (int64_t row = BLOCK_X; row < p.rows; row += BLOCKS_X) {
        const stretch part = part_of(&p, row);
        state a = START;

        for (int64_t at = part.first + THREAD * EACH; at < part.end; at += THREADS * EACH) {
            state x[EACH];

            take((const STORAGE(IN) *)p.in + part.base + at, part.end - at, x);
            UNROLL
            for (int e = 0; e < EACH; e++) {
                a = STEP(a, x[e]);
            }
        }
        a = block_join(a);
        if (THREAD == 0) {
            ((state *)p.totals)[row * p.part_count + BLOCK_Y] = a;
        }
    }
}
#else
/* What the parts before this one come to. */
static inline state parts_before(const cuda_scan_params *p, int64_t row)
{
    state a = START;

#ifdef PARTS
    for (int64_t k = THREAD; k < BLOCK_Y; k += THREADS) {
        a = STEP(a, ((const state *)p->totals)[row * p->part_count + k]);
    }
    a = block_join(a);
#endif
    return a;
}

KERNEL(scan, cuda_scan_params)
{
    for (int64_t row = BLOCK_X; row < p.rows; row += BLOCKS_X) {
        const stretch part = part_of(&p, row);
        state so_far = parts_before(&p, row);

        for (int64_t tile = part.first; tile < part.end; tile += THREADS * EACH) {
            const int64_t at = tile + THREAD * EACH;
            state x[EACH];
            state own = START;
            state all;

            take((const STORAGE(IN) *)p.in + part.base + at, part.end - at, x);
            UNROLL
            for (int e = 0; e < EACH; e++) {
                own = STEP(own, x[e]);
            }
            own = STEP(so_far, block_sum_before(own, &all));
            UNROLL
            for (int e = 0; e < EACH; e++) {
                own = STEP(own, x[e]);
                x[e] = own;
            }
            put((STORAGE(OUT) *)p.out + part.base + at, part.end - at, x);
            so_far = STEP(so_far, all);
        }
    }
}
#endif
#endif
