/* scan.cu - sums or products so far along a dimension. IN, OUT: dtypes; IS_PRODUCT; REAL: floating;
 * IS_NARROW: each step is rounded to f32, as the host's is. BY_THREAD: a thread takes a line, else
 * a block, each thread a stretch of it.
 */
#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/cuda/params.h"

#ifdef REAL
typedef double state;
#else
typedef int64_t state;
#endif

#define THREADS_MAX 256

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

#ifdef BY_THREAD
KERNEL(scan, cuda_scan_params)
{
    FOR_EACH(row, p.rows) {
        run_on(&p, base_of(&p, row), 0, p.size, START);
    }
}
#else
KERNEL(scan, cuda_scan_params)
{
    SHARED state parts[THREADS_MAX];
    const int64_t stretch = (p.size + THREADS - 1) / THREADS;
    const int64_t first = stretch * THREAD < p.size ? stretch * THREAD : p.size;
    const int64_t end = first + stretch < p.size ? first + stretch : p.size;

    for (int64_t row = BLOCK_X; row < p.rows; row += BLOCKS_X) {
        const int64_t base = base_of(&p, row);
        state a = START;

        for (int64_t i = first; i < end; i++) {
            a = STEP(a, term(&p, base, i));
        }
        parts[THREAD] = a;
        BARRIER();
        a = START;
        for (int k = 0; k < THREAD; k++) {
            a = STEP(a, parts[k]);
        }
        run_on(&p, base, first, end, a);
        BARRIER();
    }
}
#endif
