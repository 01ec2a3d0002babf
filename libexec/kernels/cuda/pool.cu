/* pool.cu - greatest and mean elements of windows, one output a thread. X: the dtype. */
#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/cuda/params.h"

typedef COMPUTE(X) real;

#if defined(IS_INTEGER) && defined(IS_WIDE)
#define LOWEST INT64_MIN
typedef int64_t total;
#elif defined(IS_INTEGER)
#define LOWEST INT32_MIN
typedef int64_t total;
#else
#define LOWEST (-INFINITY)
typedef real total;
#endif

#ifdef GREATEST
/* The first tap of a dilated window that is inside. */
static inline int64_t first_tap(const cuda_pool_params *p, int d, int64_t o)
{
    int64_t first = o * p->stride[d] - p->padding[d];

    while (first < 0) {
        first += p->dilation[d];
    }
    return first;
}

static inline int64_t last_tap(const cuda_pool_params *p, int d, int64_t o, int64_t size)
{
    const int64_t end = o * p->stride[d] - p->padding[d] + (p->kernel[d] - 1) * p->dilation[d] + 1;

    return end < size ? end : size;
}

KERNEL(pool, cuda_pool_params)
{
    const int64_t area = p.out_height * p.out_width;

    FOR_EACH(at, p.planes * area) {
        const int64_t base = at / area * p.height * p.width;
        const int64_t y = at % area / p.out_width;
        const int64_t x = at % p.out_width;
        const int64_t y0 = first_tap(&p, 0, y);
        const int64_t x0 = first_tap(&p, 1, x);
        real best = LOWEST;
        int64_t where = y0 * p.width + x0;

        for (int64_t i = y0; i < last_tap(&p, 0, y, p.height); i += p.dilation[0]) {
            for (int64_t j = x0; j < last_tap(&p, 1, x, p.width); j += p.dilation[1]) {
                const real v = LOAD(X)(p.in, base + i * p.width + j);

                if (v > best || v != v) {
                    best = v;
                    where = i * p.width + j;
                }
            }
        }
        STORE(X)(p.out, at, best);
        if (p.indices != 0) {
            ((int64_t *)p.indices)[at] = where;
        }
    }
}
#else
typedef struct span {
    int64_t first, last; /* inside */
    int64_t all;         /* with padding */
} span;

static inline span span_of(const cuda_pool_params *p, int d, int64_t o, int64_t size, int64_t out)
{
    span s;

    if (p->is_adaptive) {
        s.first = o * size / out;
        s.last = ((o + 1) * size + out - 1) / out;
        s.all = s.last - s.first;
    } else {
        s.first = o * p->stride[d] - p->padding[d];
        s.last = s.first + p->kernel[d];
        s.last = s.last < size + p->padding[d] ? s.last : size + p->padding[d];
        s.all = s.last - s.first;
        s.first = s.first > 0 ? s.first : 0;
        s.last = s.last < size ? s.last : size;
    }
    return s;
}

KERNEL(pool, cuda_pool_params)
{
    const int64_t area = p.out_height * p.out_width;

    FOR_EACH(at, p.planes * area) {
        const int64_t base = at / area * p.height * p.width;
        const span rows = span_of(&p, 0, at % area / p.out_width, p.height, p.out_height);
        const span columns = span_of(&p, 1, at % p.out_width, p.width, p.out_width);
        const int64_t inside = (rows.last - rows.first) * (columns.last - columns.first);
        const int64_t by = p.divisor != 0                       ? p.divisor
                           : p.counts_padding && !p.is_adaptive ? rows.all * columns.all
                                                                : inside;
        total sum = 0;

        for (int64_t i = rows.first; i < rows.last; i++) {
            for (int64_t j = columns.first; j < columns.last; j++) {
                sum += LOAD(X)(p.in, base + i * p.width + j);
            }
        }
        STORE(X)(p.out, at, inside > 0 ? (real)(sum / (total)by) : (real)0);
    }
}
#endif
