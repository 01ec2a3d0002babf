/* random_rejected.c - a distribution an element: draw_bernoulli, and draw_gamma, draw_poisson,
 * draw_binomial, whose numbers are drawn and rejected until one is accepted. The k-th block of
 * words of an element is one counter, so neither its neighbours nor how many tries they took
 * change it.
 */
#include "libexec/kernels/random.h"
#include "libexec/kernels/cpu/common.h"

#include <math.h>

#define CHUNK     256
#define TRIES     4096  /* more than chance ever takes */
#define PER_BLOCK 1024  /* elements of a block: each costs some thirty of simple work */

/* The uniform numbers of one element. */
typedef struct numbers {
    const exg_random_source *source;
    uint64_t element;
    uint32_t stream;
    uint32_t block;
    uint32_t words[4];
    bool has_second;
} numbers;

typedef double draw_function(numbers *n, double a, double b, bool *bad);

typedef struct draw_params {
    draw_function *draw;
    exg_dtype dtype;
    uint32_t stream;
    int64_t numel;
    exg_load_loop *load;
    exg_store_loop *store;
} draw_params;

typedef struct draw_context {
    const exg_kernel_call *call;
    const draw_params *p;
} draw_context;

/* [0, 1), multiples of 2^-53 */
static double uniform(numbers *n)
{
    const uint32_t *w = n->words + 2;

    if (!n->has_second) {
        exg_random_block(n->source, n->stream, n->element | (uint64_t)n->block++ << 40, n->words);
        w = n->words;
    }
    n->has_second = !n->has_second;
    return (double)(((uint64_t)w[1] << 32 | w[0]) >> 11) * 0x1p-53;
}

/* (0, 1] */
static double positive(numbers *n)
{
    return 1 - uniform(n);
}

static double log_gamma(double x)
{
    int sign;

    return lgamma_r(x, &sign);
}

/* 1 by chance p. */
static double draw_bernoulli(numbers *n, double p, double unused, bool *bad)
{
    (void)unused;
    *bad = !(p >= 0 && p <= 1);
    return uniform(n) < p ? 1 : 0;
}

/* Shape `a`, scale 1: Marsaglia and Tsang, "A simple method for generating gamma variables"
 * (2000). Below 1 a draw of a + 1 times u^(1/a). */
static double draw_gamma(numbers *n, double a, double unused, bool *bad)
{
    double scale = 1;
    double d;
    double c;

    (void)unused;
    *bad = a < 0;
    if (!(a > 0) || isinf(a)) {
        return a < 0 ? 0 : a;
    }
    if (a < 1) {
        scale = pow(positive(n), 1 / a);
        a += 1;
    }
    d = a - 1. / 3;
    c = 1 / sqrt(9 * d);
    for (int i = 0; i < TRIES; i++) {
        double x = sqrt(-2 * log(positive(n))) * cos(6.28318530717958647693 * uniform(n));
        double v = 1 + c * x;

        v = v * v * v;
        if (v > 0 && log(positive(n)) < 0.5 * x * x + d - d * v + d * log(v)) {
            return scale * d * v;
        }
    }
    return scale * d;
}

/* Hoermann's transformed rejection: what stays the same of the two distributions. `spread` is
 * the deviation; the candidate and what its height is compared with. */
typedef struct hat {
    double a, b, top, quick;
} hat;

static double candidate(const hat *h, numbers *n, double centre, double *height, bool *quick)
{
    double u = uniform(n) - 0.5;
    double v = positive(n);
    double edge = 0.5 - fabs(u);

    *quick = edge >= 0.07 && v <= h->quick;
    *height = log(v * h->top / (h->a / (edge * edge) + h->b));
    return edge == 0 ? -1 : floor((2 * h->a / edge + h->b) * u + centre);
}

/* Rate `rate`: products of uniform numbers, from 10 on Hoermann, "The transformed rejection
 * method for generating Poisson random variables" (1993), PTRS. */
static double draw_poisson(numbers *n, double rate, double unused, bool *bad)
{
    double spread = sqrt(rate);
    double b = 0.931 + 2.53 * spread;
    const hat h = {-0.059 + 0.02483 * b, b, 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)};

    (void)unused;
    *bad = !(rate >= 0);
    if (!(rate > 0) || isinf(rate)) {
        return isinf(rate) ? rate : 0;
    }
    if (rate < 10) {
        double least = exp(-rate);
        double product = positive(n);
        double k = 0;

        for (; product > least; k++) {
            product *= positive(n);
        }
        return k;
    }
    for (int i = 0; i < TRIES; i++) {
        double height;
        bool quick;
        double k = candidate(&h, n, rate + 0.43, &height, &quick);

        if (k >= 0 && (quick || height <= k * log(rate) - rate - log_gamma(k + 1))) {
            return k;
        }
    }
    return floor(rate);
}

/* `count` trials of chance p <= 1/2: steps to the next success, from 10 expected ones on
 * Hoermann, "The generation of binomial random variates" (1993), BTRS. */
static double successes(numbers *n, double count, double p)
{
    double spread = sqrt(count * p * (1 - p));
    double b = 1.15 + 2.53 * spread;
    const hat h = {-0.0873 + 0.0248 * b + 0.01 * p, b, (2.83 + 5.1 / b) * spread, 0.92 - 4.2 / b};
    double likeliest = floor((count + 1) * p);
    double peak = log_gamma(likeliest + 1) + log_gamma(count - likeliest + 1);

    if (count * p < 10) {
        double step = log1p(-p);
        double at = ceil(log(positive(n)) / step);
        double k = 0;

        for (; at <= count; k++) {
            at += EXG_MAX(1, ceil(log(positive(n)) / step));
        }
        return k;
    }
    for (int i = 0; i < TRIES; i++) {
        double height;
        bool quick;
        double k = candidate(&h, n, count * p + 0.5, &height, &quick);

        if (k >= 0 && k <= count &&
            (quick || height <= peak - log_gamma(k + 1) - log_gamma(count - k + 1) +
                                    (k - likeliest) * log(p / (1 - p)))) {
            return k;
        }
    }
    return likeliest;
}

static double draw_binomial(numbers *n, double count, double p, bool *bad)
{
    *bad = !(count >= 0 && p >= 0 && p <= 1);
    if (!(count > 0 && p > 0) || isinf(count)) {
        return isnan(p) || isnan(count) ? NAN : 0;
    }
    return p >= 1 ? count : p <= 0.5 ? successes(n, count, p) : count - successes(n, count, 1 - p);
}

static void load(const draw_params *p, const exg_tensor *from, int64_t first, int64_t count,
                 double *to)
{
    float narrow[CHUNK];

    if (p->dtype == EXG_DTYPE_F64) {
        memcpy(to, (const double *)from->data + first, (size_t)count * sizeof(*to));
        return;
    }
    p->load((uint32_t)count, narrow, (const char *)from->data + first * exg_dtype_bytes(p->dtype),
            1);
    for (int64_t i = 0; i < count; i++) {
        to[i] = (double)narrow[i];
    }
}

static void store(const draw_params *p, const exg_tensor *to, int64_t first, int64_t count,
                  const double *from)
{
    float narrow[CHUNK];

    if (p->dtype == EXG_DTYPE_F64) {
        memcpy((double *)to->data + first, from, (size_t)count * sizeof(*from));
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        narrow[i] = (float)from[i];
    }
    p->store((uint32_t)count, (char *)to->data + first * exg_dtype_bytes(p->dtype), 1, narrow);
}

static void draw_block(void *context, uint32_t block)
{
    const draw_context *r = context;
    const draw_params *p = r->p;
    int64_t first = (int64_t)block * PER_BLOCK;
    int64_t end = EXG_MIN(first + PER_BLOCK, p->numel);
    double a[CHUNK];
    double b[CHUNK] = {0};
    bool any = false;

    for (; first < end; first += CHUNK) {
        int64_t count = EXG_MIN(end - first, CHUNK);

        load(p, &r->call->inputs[0], first, count, a);
        if (r->call->input_count > 1) {
            load(p, &r->call->inputs[1], first, count, b);
        }
        for (int64_t i = 0; i < count; i++) {
            numbers n = {.source = r->call->random,
                         .element = (uint64_t)(first + i),
                         .stream = p->stream};
            bool bad;

            a[i] = p->draw(&n, a[i], b[i], &bad);
            any = any || bad;
        }
        store(p, &r->call->outputs[0], first, count, a);
    }
    if (any) {
        exg_raise(r->call, EXG_FAULT_PARAMETER);
    }
}

static void draw_run(const exg_kernel_call *call)
{
    const draw_params *p = call->params;
    draw_context r = {call, p};

    exg_pool_run(call->pool, draw_block, &r, exg_block_count(p->numel, PER_BLOCK));
}

static exg_status prepare(exg_kernel_call *call, draw_function *draw, exg_error *err)
{
    draw_params *p = EXG_NEW(call->arena, draw_params);
    exg_dtype dtype = call->outputs[0].dtype;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_require_float("random numbers", dtype, err));
    p->draw = draw;
    p->dtype = dtype;
    p->stream = (uint32_t)exg_call_int(call, call->input_count);
    p->numel = exg_tensor_numel(&call->outputs[0]);
    p->load = EXG_LOOPS(exg_loops_convert)->load[dtype];
    p->store = EXG_LOOPS(exg_loops_convert)->store[dtype];
    call->params = p;
    return EXG_OK;
}

#define KERNEL(name_)                                                                  \
    static exg_status prepare_##name_(exg_kernel_call *call, exg_error *err)          \
    {                                                                                  \
        return prepare(call, draw_##name_, err);                                       \
    }                                                                                  \
    const exg_kernel exg_kernel_draw_##name_ = {                                       \
        .name = "draw_" #name_,                                                        \
        .prepare = prepare_##name_,                                                    \
        .run = draw_run,                                                               \
    };
KERNEL(bernoulli)
KERNEL(gamma)
KERNEL(poisson)
KERNEL(binomial)
