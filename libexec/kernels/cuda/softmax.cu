/* softmax.cu - softmax and log_softmax, row by row. A NaN passes into the sum and so into
 * the whole row; so does a row of -inf only. IN, OUT: dtypes; IS_LOG. y may be x.
 * EACH: the row lies side by side, a thread keeps so many elements of it (row.h); IN is OUT.
 * COLUMNS: a block takes WARP rows that lie side by side, each warp a share of all of them.
 */
#include "libexec/kernels/cuda/exponential.h"
#include "libexec/kernels/cuda/params.h"
#include "libexec/kernels/cuda/row.h"

typedef COMPUTE(IN) real;

DEFINE_ROW_JOIN(peak, real, SHUFFLE_REAL, b > a ? b : a)
DEFINE_ROW_JOIN(sum, double, shuffle_f64, a + b)

/* What an element is finished with. In doubles a division or logarithm of each thread would take
 * longer than a short row. */
#ifdef IS_LOG
#ifdef IS_DOUBLE
#define LAST(sum)         log(sum)
#else
#define LAST(sum)         logf((real)(sum))
#endif
#define FINISHED(x, last) ((x) - (last))
#else
#define LAST(sum)         (1 / (real)(sum))
#define FINISHED(x, last) ((x) * (last))
#endif

/* Of an element less the peak. */
static inline real finished(real x, real last)
{
#ifdef IS_LOG
    return FINISHED(x, last);
#else
    return FINISHED(EXPONENTIAL(x), last);
#endif
}

#ifdef EACH
DEFINE_ROW(in, IN, real)

KERNEL(softmax, cuda_softmax_params)
{
    FOR_EACH_ROW(row, p.rows) {
        const int64_t base = row * p.size;
        real x[EACH];
        real peak = -INFINITY;
        real part = 0; /* few are summed so; threads' sums in double */
        double sum;
        real last;

        in_load(x, p.in, base, (int)p.size, -INFINITY);
        UNROLL
        for (int i = 0; i < EACH; i++) {
            peak = x[i] > peak ? x[i] : peak;
        }
        peak = row_peak(peak);
        UNROLL
        for (int i = 0; i < EACH; i++) {
            x[i] -= peak;
            if (ROW_AT(IN, i) < p.size) {
                const real e = EXPONENTIAL(x[i]);

                part += e;
#ifndef IS_LOG
                x[i] = e;
#endif
            }
        }
        sum = row_sum((double)part);
        last = LAST(sum);
        UNROLL
        for (int i = 0; i < EACH; i++) {
            x[i] = FINISHED(x[i], last);
        }
        in_store(p.out, base, (int)p.size, x);
    }
}
#elif defined(COLUMNS)
static inline real peak_of(const real parts[WARPS_MAX][WARP])
{
    real peak = parts[0][THREAD % WARP];

    for (int w = 1; w < THREADS / WARP; w++) {
        const real b = parts[w][THREAD % WARP];

        peak = b > peak ? b : peak;
    }
    return peak;
}

static inline double sum_of(const double parts[WARPS_MAX][WARP])
{
    double sum = 0;

    for (int w = 0; w < THREADS / WARP; w++) {
        sum += parts[w][THREAD % WARP];
    }
    return sum;
}

KERNEL(softmax, cuda_softmax_params)
{
    SHARED real peaks[WARPS_MAX][WARP];
    SHARED double sums[WARPS_MAX][WARP];
    const int64_t row = (int64_t)BLOCK_X * WARP + THREAD % WARP;
    const int is_there = row < p.rows;
    const int64_t outer = is_there ? quotient(row, p.inner) : 0;
    const int64_t base = outer * p.size * p.inner + (is_there ? row - outer * p.inner : 0);
    const int64_t size = is_there ? p.size : 0;
    const int warp = THREAD / WARP;
    real peak = -INFINITY;
    double sum = 0;
    real last;

    for (int64_t i = warp; i < size; i += THREADS / WARP) {
        const real x = LOAD(IN)(p.in, base + i * p.inner);

        peak = x > peak ? x : peak;
    }
    peaks[warp][THREAD % WARP] = peak;
    BARRIER();
    peak = peak_of(peaks);
    for (int64_t i = warp; i < size; i += THREADS / WARP) {
        sum += (double)EXPONENTIAL(LOAD(IN)(p.in, base + i * p.inner) - peak);
    }
    sums[warp][THREAD % WARP] = sum;
    BARRIER();
    last = LAST(sum_of(sums));
    for (int64_t i = warp; i < size; i += THREADS / WARP) {
        STORE(OUT)(p.out, base + i * p.inner,
                   (COMPUTE(OUT))finished(LOAD(IN)(p.in, base + i * p.inner) - peak, last));
    }
}
#else
KERNEL(softmax, cuda_softmax_params)
{
    FOR_EACH_ROW(row, p.rows) {
        const int64_t base = row / p.inner * p.size * p.inner + row % p.inner;
        real peak = -INFINITY;
        double sum = 0;
        real last;

        for (int64_t i = ROW_THREAD; i < p.size; i += ROW_THREADS) {
            const real x = LOAD(IN)(p.in, base + i * p.inner);

            peak = x > peak ? x : peak;
        }
        peak = row_peak(peak);
        for (int64_t i = ROW_THREAD; i < p.size; i += ROW_THREADS) {
            sum += (double)EXPONENTIAL(LOAD(IN)(p.in, base + i * p.inner) - peak);
        }
        sum = row_sum(sum);
        last = LAST(sum);
        for (int64_t i = ROW_THREAD; i < p.size; i += ROW_THREADS) {
            STORE(OUT)(p.out, base + i * p.inner,
                       (COMPUTE(OUT))finished(LOAD(IN)(p.in, base + i * p.inner) - peak, last));
        }
    }
}
#endif
