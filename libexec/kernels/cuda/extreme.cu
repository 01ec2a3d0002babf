/* extreme.cu - the first extreme along a dimension and its place; NaN is the extreme when there is
 * one. IN: the dtype; IS_MIN; HAS_VALUES. A block takes a row; BY_THREAD: a thread; COLUMNS: a
 * block takes WARP rows that lie side by side, each warp a share of all of them.
 */
#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/cuda/params.h"

typedef COMPUTE(IN) real;

#define THREADS_MAX 1024
#define BATCH       4 /* elements that a thread asks for at once */

typedef struct best {
    real value;
    int64_t place; /* -1: none yet */
} best;

static inline int is_better(const real x, const real than)
{
#ifdef IS_MIN
    return x < than || (x != x && than == than);
#else
    return x > than || (x != x && than == than);
#endif
}

/* The better one; of equal ones the first. */
static inline best better_of(const best a, const best b)
{
    if (b.place < 0 || (a.place >= 0 && is_better(a.value, b.value))) {
        return a;
    }
    if (a.place < 0 || is_better(b.value, a.value)) {
        return b;
    }
    return a.place < b.place ? a : b;
}

/* Of elements first, first + step, ... before `end`. */
static inline best best_of(const cuda_extreme_params *p, int64_t row, int64_t first, int64_t step,
                           int64_t end)
{
    const int64_t base = row / p->inner * p->size * p->inner + row % p->inner;
    best found = {0, -1};

    for (int64_t i = first; i < end; i += BATCH * step) {
        real x[BATCH];

        UNROLL
        for (int b = 0; b < BATCH; b++) {
            x[b] = i + b * step < end ? LOAD(IN)(p->in, base + (i + b * step) * p->inner) : 0;
        }
        UNROLL
        for (int b = 0; b < BATCH; b++) {
            const best next = {x[b], i + b * step < end ? i + b * step : -1};

            found = better_of(found, next);
        }
    }
    return found;
}

static inline void keep(const cuda_extreme_params *p, int64_t row, const best found)
{
#ifdef HAS_VALUES
    STORE(IN)(p->values, row, found.value);
#endif
    ((int64_t *)p->places)[row] = found.place;
}

#ifdef BY_THREAD
KERNEL(extreme, cuda_extreme_params)
{
    FOR_EACH(row, p.rows) {
        keep(&p, row, best_of(&p, row, 0, 1, p.size));
    }
}
#elif defined(COLUMNS)
KERNEL(extreme, cuda_extreme_params)
{
    SHARED best parts[THREADS_MAX / WARP][WARP];
    const int64_t row = (int64_t)BLOCK_X * WARP + THREAD % WARP;
    const int is_there = row < p.rows;
    best found = best_of(&p, is_there ? row : 0, THREAD / WARP, THREADS / WARP,
                         is_there ? p.size : 0);

    parts[THREAD / WARP][THREAD % WARP] = found;
    BARRIER();
    if (THREAD < WARP && is_there) {
        for (int k = 1; k < THREADS / WARP; k++) {
            found = better_of(found, parts[k][THREAD % WARP]);
        }
        keep(&p, row, found);
    }
}
#else
KERNEL(extreme, cuda_extreme_params)
{
    SHARED best parts[THREADS_MAX];

    for (int64_t row = BLOCK_X; row < p.rows; row += BLOCKS_X) {
        parts[THREAD] = best_of(&p, row, THREAD, THREADS, p.size);
        BARRIER();
        for (int half = THREADS / 2; half > 0; half /= 2) {
            if (THREAD < half) {
                parts[THREAD] = better_of(parts[THREAD], parts[THREAD + half]);
            }
            BARRIER();
        }
        if (THREAD == 0) {
            keep(&p, row, parts[0]);
        }
        BARRIER();
    }
}
#endif
