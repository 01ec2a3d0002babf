/* fft.c - discrete Fourier transforms of complex lines of any length, in double.
 *
 * A length of prime factors up to RADIX_MAX goes through Stockham's passes, one a factor,
 * which need no reordering; any other through Bluestein's chirps, as a convolution of a
 * length that is a power of two. W(n) = e^(-2 pi i / n).
 */
#include "libexec/kernels/cpu/common.h"

#include <math.h>

#define RADIX_MAX  31
#define BLOCKS_MAX 16
#define LINES_MAX  8 /* doubles of a vector */
#define PI         3.14159265358979323846

/* Lines side by side, as exg_fft_loops has them. */
typedef struct lines {
    uint32_t count;
    double *(*transform)(const exg_fft_passes *f, double *x, double *y);
} lines;

typedef struct fft_params {
    exg_around around;
    exg_fft_passes passes;            /* of n, or of Bluestein's length */
    const exg_complex_double *chirp;  /* W(2n)^(k^2); NULL: no Bluestein */
    const exg_complex_double *filter; /* its conjugates */
    lines lines;                      /* that go together */
    bool is_inverse;
    double scale;
    exg_dtype dtype;
    uint32_t block_count;
} fft_params;

typedef struct fft_context {
    const fft_params *p;
    const exg_kernel_call *call;
} fft_context;

static exg_complex_double product(exg_complex_double a, exg_complex_double b)
{
    return (exg_complex_double){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* e^(-pi i numerator / n) */
static exg_complex_double turn(int64_t numerator, int64_t n)
{
    double angle = -PI * (double)numerator / (double)n;

    return (exg_complex_double){cos(angle), sin(angle)};
}

/* ---- passes ------------------------------------------------------------------------------ */

static bool factor(exg_fft_passes *f, int64_t n)
{
    f->n = n;
    for (int64_t p = 4; n > 1; p = p == 4 ? 2 : p == 2 ? 3 : p + 2) {
        for (; n % p == 0 && f->count < EXG_FFT_FACTORS; n /= p) {
            f->factors[f->count++] = p;
        }
        if (p > RADIX_MAX) {
            return false;
        }
    }
    return true;
}

static bool make_roots(exg_arena *arena, exg_fft_passes *f)
{
    exg_complex_double *w = EXG_NEW_ARRAY(arena, exg_complex_double, (size_t)f->n + 1);

    for (int64_t k = 0; w != NULL && k < f->n; k++) {
        w[k] = turn(2 * k, f->n);
    }
    f->w = w;
    return w != NULL;
}

/* ---- Bluestein -------------------------------------------------------------------------- */

/* x[k] = c[k] sum of (x[j] c[j]) conj(c[k - j]), c[k] = W(2n)^(k^2): a convolution, whose
 * filter is transformed once. */
static bool make_chirps(exg_arena *arena, fft_params *p, int64_t n)
{
    int64_t m = 1;
    exg_complex_double *chirp = EXG_NEW_ARRAY(arena, exg_complex_double, (size_t)n);
    exg_complex_double *filter;
    exg_complex_double *other;

    while (m < 2 * n - 1) {
        m *= 2;
    }
    filter = EXG_NEW_ARRAY(arena, exg_complex_double, (size_t)m);
    other = EXG_NEW_ARRAY(arena, exg_complex_double, (size_t)m);
    p->passes = (exg_fft_passes){0};
    if (chirp == NULL || filter == NULL || other == NULL || !factor(&p->passes, m) ||
        !make_roots(arena, &p->passes)) {
        return false;
    }
    for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) {
        chirp[k] = turn(square, n);
        filter[k] = (exg_complex_double){chirp[k].re / (double)m, -chirp[k].im / (double)m};
        filter[(m - k) % m] = filter[k];
    }
    p->chirp = chirp;
    filter = (void *)EXG_LOOPS(exg_loops_fft)
                 ->transform[0](&p->passes, (double *)filter, (double *)other);
    for (int64_t k = 0; k < m; k++) {
        filter[k].im = -filter[k].im;
    }
    p->filter = filter;
    return true;
}

/* By a number, `sign` times whose imaginary part is what comes. */
static void multiply(const lines *l, double *value, exg_complex_double w, double sign)
{
    double *im = value + l->count;

    for (uint32_t k = 0; k < l->count; k++) {
        exg_complex_double z = product((exg_complex_double){value[k], sign * im[k]}, w);

        value[k] = z.re;
        im[k] = z.im;
    }
}

static double *by_chirps(const fft_params *p, const lines *l, double *x, double *y)
{
    const int64_t n = p->around.size;
    const int64_t m = p->passes.n;
    const uint32_t apart = 2 * l->count;
    double *z;

    for (int64_t k = 0; k < n; k++) {
        multiply(l, x + k * apart, p->chirp[k], 1);
    }
    memset(x + n * apart, 0, (size_t)((m - n) * apart) * sizeof(double));
    z = l->transform(&p->passes, x, y);
    for (int64_t k = 0; k < m; k++) { /* the way back is the way there of conjugates */
        multiply(l, z + k * apart, p->filter[k], -1);
    }
    z = l->transform(&p->passes, z, z == x ? y : x);
    for (int64_t k = 0; k < n; k++) {
        multiply(l, z + k * apart, p->chirp[k], -1);
    }
    return z;
}

/* ---- lines ------------------------------------------------------------------------------- */

static exg_complex_double get(const void *data, exg_dtype dtype, int64_t at)
{
    if (dtype == EXG_DTYPE_C64) {
        const float *x = (const float *)data + 2 * at;

        return (exg_complex_double){(double)x[0], (double)x[1]};
    }
    return ((const exg_complex_double *)data)[at];
}

static void set(void *data, exg_dtype dtype, int64_t at, exg_complex_double value)
{
    if (dtype == EXG_DTYPE_C64) {
        ((float *)data)[2 * at] = (float)value.re;
        ((float *)data)[2 * at + 1] = (float)value.im;
    } else {
        ((exg_complex_double *)data)[at] = value;
    }
}

/* `count` lines from `line` on, of as many as go side by side. */
static void transform_lines(const fft_context *r, const lines *l, int64_t line, uint32_t count,
                            double *x)
{
    const fft_params *p = r->p;
    const exg_around *a = &p->around;
    const double sign = p->is_inverse ? -1 : 1; /* the inverse of z is conj(forward(conj(z))) */
    int64_t first[LINES_MAX];
    double *y = x + 2 * l->count * p->passes.n;

    for (uint32_t i = 0; i < l->count; i++) {
        int64_t at = line + EXG_MIN(i, count - 1);

        first[i] = at / a->inner * a->size * a->inner + at % a->inner;
    }
    for (int64_t k = 0; k < a->size; k++) {
        double *value = x + 2 * l->count * k;

        for (uint32_t i = 0; i < l->count; i++) {
            exg_complex_double z = get(r->call->inputs[0].data, p->dtype, first[i] + k * a->inner);

            value[i] = z.re;
            value[l->count + i] = z.im * sign;
        }
    }
    y = p->chirp != NULL ? by_chirps(p, l, x, y) : l->transform(&p->passes, x, y);
    for (int64_t k = 0; k < a->size; k++) {
        const double *value = y + 2 * l->count * k;

        for (uint32_t i = 0; i < count; i++) {
            exg_complex_double z = {value[i] * p->scale, value[l->count + i] * p->scale * sign};

            set(r->call->outputs[0].data, p->dtype, first[i] + k * a->inner, z);
        }
    }
}

static void fft_block(void *context, uint32_t block)
{
    const fft_context *r = context;
    const fft_params *p = r->p;
    const int64_t count = p->around.outer * p->around.inner;
    double *x = (double *)r->call->workspace + 4 * p->lines.count * p->passes.n * block;

    for (int64_t group = block; group * p->lines.count < count; group += p->block_count) {
        int64_t line = group * p->lines.count;

        transform_lines(r, &p->lines, line, (uint32_t)EXG_MIN(count - line, p->lines.count), x);
    }
}

/* (self, dim, inverse, scale) */
static exg_status fft_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    fft_params *p = EXG_NEW(call->arena, fft_params);
    const exg_fft_loops *loops = EXG_LOOPS(exg_loops_fft);
    int64_t count;
    int64_t groups;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (in->dtype != EXG_DTYPE_C64 && in->dtype != EXG_DTYPE_C128) {
        return exg_unsupported_dtype("fft", in->dtype, err);
    }
    p->around = exg_around_dim(in, exg_call_dim(call, 1, in->rank));
    p->is_inverse = exg_call_bool(call, 2);
    p->scale = exg_call_float(call, 3);
    p->dtype = in->dtype;
    if (p->around.size > INT32_MAX / 4) {
        return EXG_FAIL(err, LIMIT, "KRN-014", "a Fourier transform of %lld elements",
                        (long long)p->around.size);
    }
    if (factor(&p->passes, p->around.size) ? !make_roots(call->arena, &p->passes)
                                           : !make_chirps(call->arena, p, p->around.size)) {
        return EXG_OUT_OF_MEMORY(err);
    }
    count = p->around.outer * p->around.inner;
    p->lines = count >= loops->lines ? (lines){loops->lines, loops->transform[1]}
                                     : (lines){1, loops->transform[0]};
    groups = exg_ceil_div(count, p->lines.count);
    p->block_count = (uint32_t)EXG_MIN(groups, BLOCKS_MAX);
    p->block_count =
        count * p->around.size < EXG_GRAIN / 8 ? EXG_MIN(1, p->block_count) : p->block_count;
    call->workspace_bytes =
        4 * (uint64_t)p->passes.n * p->lines.count * sizeof(double) * p->block_count;
    call->params = p;
    return EXG_OK;
}

static void fft_run(const exg_kernel_call *call)
{
    fft_context r = {call->params, call};

    if (r.p->around.size > 0) {
        exg_pool_run(call->pool, fft_block, &r, r.p->block_count);
    }
}

const exg_kernel exg_kernel_fft = {
    .name = "fft",
    .prepare = fft_prepare,
    .run = fft_run,
};
