/* fft.c - discrete Fourier transforms of complex lines of any length, in double.
 *
 * A length of prime factors up to RADIX_MAX goes through Stockham's passes, one a factor,
 * which need no reordering; any other through Bluestein's chirps, as a convolution of a
 * length that is a power of two. W(n) = e^(-2 pi i / n).
 */
#include "libexec/kernels/cpu/common.h"

#include <math.h>

#define RADIX_MAX   31
#define FACTORS_MAX 64
#define BLOCKS_MAX  16
#define PI          3.14159265358979323846

typedef struct complex_double {
    double re, im;
} complex_double;

/* A transform that has passes. */
typedef struct passes {
    int64_t n;
    uint32_t count;
    int64_t factors[FACTORS_MAX];
    const complex_double *w; /* W(n)^k */
} passes;

typedef struct fft_params {
    exg_around around;
    passes passes;               /* of n, or of Bluestein's length */
    const complex_double *chirp; /* W(2n)^(k^2); NULL: no Bluestein */
    const complex_double *filter;
    bool is_inverse;
    double scale;
    exg_dtype dtype;
    uint32_t block_count;
} fft_params;

typedef struct fft_context {
    const fft_params *p;
    const exg_kernel_call *call;
} fft_context;

static complex_double product(complex_double a, complex_double b)
{
    return (complex_double){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* e^(-pi i numerator / n) */
static complex_double turn(int64_t numerator, int64_t n)
{
    double angle = -PI * (double)numerator / (double)n;

    return (complex_double){cos(angle), sin(angle)};
}

/* ---- passes ------------------------------------------------------------------------------ */

/* One value of a butterfly: the sum over q of x[q] W(p)^(q r). */
static complex_double butterfly(const passes *f, const complex_double *x, int64_t apart, int64_t p,
                                int64_t r)
{
    complex_double sum = x[0];

    for (int64_t q = 1; q < p; q++) {
        complex_double t = product(x[q * apart], f->w[f->n / p * (q * r % p)]);

        sum.re += t.re;
        sum.im += t.im;
    }
    return sum;
}

/* Two, four: without multiplications. */
static void small_butterfly(const complex_double *x, int64_t apart, int64_t p, complex_double *out)
{
    complex_double a = x[0];
    complex_double b = x[apart];

    if (p == 2) {
        out[0] = (complex_double){a.re + b.re, a.im + b.im};
        out[1] = (complex_double){a.re - b.re, a.im - b.im};
    } else {
        complex_double c = x[2 * apart];
        complex_double d = x[3 * apart];
        complex_double even = {a.re + c.re, a.im + c.im};
        complex_double odd = {b.re + d.re, b.im + d.im};
        complex_double even_gap = {a.re - c.re, a.im - c.im};
        complex_double odd_gap = {b.im - d.im, d.re - b.re}; /* times -i */

        out[0] = (complex_double){even.re + odd.re, even.im + odd.im};
        out[1] = (complex_double){even_gap.re + odd_gap.re, even_gap.im + odd_gap.im};
        out[2] = (complex_double){even.re - odd.re, even.im - odd.im};
        out[3] = (complex_double){even_gap.re - odd_gap.re, even_gap.im - odd_gap.im};
    }
}

/* y[k + s (p j + r)] = W(n/s)^(j r) times the butterfly of x[k + s (j + m q)], m = n / (s p) */
static void pass(const passes *f, const complex_double *x, complex_double *y, int64_t s, int64_t p)
{
    int64_t m = f->n / (s * p);

    for (int64_t j = 0; j < m; j++) {
        for (int64_t k = 0; k < s; k++) {
            const complex_double *in = x + k + s * j;
            complex_double out[RADIX_MAX];

            if (p == 2 || p == 4) {
                small_butterfly(in, s * m, p, out);
            }
            for (int64_t r = 0; r < p; r++) {
                complex_double value = p == 2 || p == 4 ? out[r] : butterfly(f, in, s * m, p, r);

                y[k + s * (p * j + r)] = j == 0 ? value : product(value, f->w[s * j * r]);
            }
        }
    }
}

/* Gives x or y, whichever holds the result. */
static complex_double *transform(const passes *f, complex_double *x, complex_double *y)
{
    int64_t s = 1;

    for (uint32_t i = 0; i < f->count; i++) {
        complex_double *done = y;

        pass(f, x, y, s, f->factors[i]);
        y = x;
        x = done;
        s *= f->factors[i];
    }
    return x;
}

static bool factor(passes *f, int64_t n)
{
    f->n = n;
    for (int64_t p = 4; n > 1; p = p == 4 ? 2 : p == 2 ? 3 : p + 2) {
        for (; n % p == 0 && f->count < FACTORS_MAX; n /= p) {
            f->factors[f->count++] = p;
        }
        if (p > RADIX_MAX) {
            return false;
        }
    }
    return true;
}

static bool make_roots(exg_arena *arena, passes *f)
{
    complex_double *w = EXG_NEW_ARRAY(arena, complex_double, (size_t)f->n + 1);

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
    complex_double *chirp = EXG_NEW_ARRAY(arena, complex_double, (size_t)n);
    complex_double *filter;
    complex_double *other;

    while (m < 2 * n - 1) {
        m *= 2;
    }
    filter = EXG_NEW_ARRAY(arena, complex_double, (size_t)m);
    other = EXG_NEW_ARRAY(arena, complex_double, (size_t)m);
    p->passes = (passes){0};
    if (chirp == NULL || filter == NULL || other == NULL || !factor(&p->passes, m) ||
        !make_roots(arena, &p->passes)) {
        return false;
    }
    for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) {
        chirp[k] = turn(square, n);
        filter[k] = (complex_double){chirp[k].re / (double)m, -chirp[k].im / (double)m};
        filter[(m - k) % m] = filter[k];
    }
    p->chirp = chirp;
    p->filter = transform(&p->passes, filter, other);
    return true;
}

static complex_double *by_chirps(const fft_params *p, complex_double *x, complex_double *y)
{
    int64_t n = p->around.size;
    int64_t m = p->passes.n;
    complex_double *z;

    for (int64_t k = 0; k < m; k++) {
        x[k] = k < n ? product(x[k], p->chirp[k]) : (complex_double){0, 0};
    }
    z = transform(&p->passes, x, y);
    for (int64_t k = 0; k < m; k++) { /* the way back is the way there of conjugates */
        z[k] = product(z[k], p->filter[k]);
        z[k].im = -z[k].im;
    }
    z = transform(&p->passes, z, z == x ? y : x);
    for (int64_t k = 0; k < n; k++) {
        z[k].im = -z[k].im;
        z[k] = product(z[k], p->chirp[k]);
    }
    return z;
}

/* ---- lines ------------------------------------------------------------------------------- */

static complex_double get(const void *data, exg_dtype dtype, int64_t at)
{
    if (dtype == EXG_DTYPE_C64) {
        const float *x = (const float *)data + 2 * at;

        return (complex_double){(double)x[0], (double)x[1]};
    }
    return ((const complex_double *)data)[at];
}

static void set(void *data, exg_dtype dtype, int64_t at, complex_double value)
{
    if (dtype == EXG_DTYPE_C64) {
        ((float *)data)[2 * at] = (float)value.re;
        ((float *)data)[2 * at + 1] = (float)value.im;
    } else {
        ((complex_double *)data)[at] = value;
    }
}

static void fft_block(void *context, uint32_t block)
{
    const fft_context *r = context;
    const fft_params *p = r->p;
    const exg_around *a = &p->around;
    int64_t lines = a->outer * a->inner;
    complex_double *x = (complex_double *)r->call->workspace + 2 * p->passes.n * block;
    double sign = p->is_inverse ? -1 : 1; /* the inverse of z is conj(forward(conj(z))) */

    for (int64_t line = block; line < lines; line += p->block_count) {
        int64_t first = line / a->inner * a->size * a->inner + line % a->inner;
        complex_double *y;

        for (int64_t k = 0; k < a->size; k++) {
            x[k] = get(r->call->inputs[0].data, p->dtype, first + k * a->inner);
            x[k].im *= sign;
        }
        y = p->chirp != NULL ? by_chirps(p, x, x + p->passes.n)
                             : transform(&p->passes, x, x + p->passes.n);
        for (int64_t k = 0; k < a->size; k++) {
            y[k] = (complex_double){y[k].re * p->scale, y[k].im * p->scale * sign};
            set(r->call->outputs[0].data, p->dtype, first + k * a->inner, y[k]);
        }
    }
}

/* (self, dim, inverse, scale) */
static exg_status fft_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    fft_params *p = EXG_NEW(call->arena, fft_params);
    int64_t lines;

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
    lines = p->around.outer * p->around.inner;
    p->block_count = (uint32_t)EXG_MIN(lines, BLOCKS_MAX);
    p->block_count =
        lines * p->around.size < EXG_GRAIN / 8 ? EXG_MIN(1, p->block_count) : p->block_count;
    call->workspace_bytes = 2 * (uint64_t)p->passes.n * sizeof(complex_double) * p->block_count;
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
