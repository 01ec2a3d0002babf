/* fft.c - discrete Fourier transforms of lines of any length: complex to complex, real to the first
 * half of what they become, and back.
 *
 * A length of prime factors up to EXG_FFT_RADIX goes through Stockham's passes, one a factor,
 * which need no reordering, in the type of the tensor; any other through Bluestein's chirps in
 * double, as a convolution of a length that is a power of two. An even number of real ones is
 * transformed as half as many complex ones. W(n) = e^(-2 pi i / n).
 */
#include "libexec/kernels/cpu/common.h"

#include <math.h>

#define BLOCKS_MAX 16
#define FEW        3 /* lines that are not worth a vector of them */
#define PI         3.14159265358979323846

typedef enum fft_way { COMPLEX, FROM_REAL, TO_REAL } fft_way;

typedef struct pair {
    double re, im;
} pair;

typedef struct fft_params {
    fft_way way;
    exg_around in, out;
    int64_t n;             /* of the transform */
    int64_t points;        /* complex values that are transformed: n, or n / 2 of real ones */
    exg_fft_passes passes; /* of points, or of Bluestein's length */
    const pair *chirp;     /* W(2 points)^(k^2); NULL: no Bluestein */
    const pair *filter;    /* its conjugates */
    const void *turns;     /* W(n)^k, of real numbers two and two; NULL: not so */
    const exg_fft_loops *loops;
    bool is_inverse;
    double scale;
    uint32_t bytes; /* of a real number of the tensors; they are widened for Bluestein */
    uint64_t buffer_bytes;
    uint32_t block_count;
} fft_params;

typedef struct fft_context {
    const fft_params *p;
    const exg_kernel_call *call;
} fft_context;

static pair product(pair a, pair b)
{
    return (pair){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* e^(-pi i numerator / n) */
static pair turn(int64_t numerator, int64_t n)
{
    double angle = -PI * (double)numerator / (double)n;

    return (pair){cos(angle), sin(angle)};
}

/* ---- passes ------------------------------------------------------------------------------ */

static bool factor(exg_fft_passes *f, int64_t n)
{
    static const int64_t evens[] = {8, 4, 2};

    f->n = n;
    for (uint32_t i = 0; i < 3; i++) {
        for (; n % evens[i] == 0; n /= evens[i]) {
            f->factors[f->count++] = evens[i];
        }
    }
    for (int64_t p = 3; p <= EXG_FFT_RADIX; p += 2) {
        for (; n % p == 0; n /= p) {
            f->factors[f->count++] = p;
        }
    }
    return n == 1;
}

/* W(n)^k for k below `count`, in f32 or double. */
static const void *make_roots(exg_arena *arena, bool is_double, int64_t n, int64_t count)
{
    void *w = exg_arena_alloc(arena, 2 * (size_t)count + 2, is_double ? 8 : 4);

    for (int64_t k = 0; w != NULL && k < count; k++) {
        pair t = turn(2 * k, n);

        if (is_double) {
            ((pair *)w)[k] = t;
        } else {
            ((float *)w)[2 * k] = (float)t.re;
            ((float *)w)[2 * k + 1] = (float)t.im;
        }
    }
    return w;
}

/* ---- Bluestein -------------------------------------------------------------------------- */

/* x[k] = c[k] sum of (x[j] c[j]) conj(c[k - j]), c[k] = W(2n)^(k^2): a convolution, whose
 * filter is transformed once. */
static bool make_chirps(exg_arena *arena, fft_params *p, int64_t n)
{
    int64_t m = 1;
    pair *chirp = EXG_NEW_ARRAY(arena, pair, (size_t)n);
    pair *filter;
    pair *other;

    while (m < 2 * n - 1) {
        m *= 2;
    }
    filter = EXG_NEW_ARRAY(arena, pair, (size_t)m);
    other = EXG_NEW_ARRAY(arena, pair, (size_t)m);
    p->passes = (exg_fft_passes){0};
    p->passes.w = make_roots(arena, true, m, m);
    if (chirp == NULL || filter == NULL || other == NULL || p->passes.w == NULL) {
        return false;
    }
    (void)factor(&p->passes, m);
    for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) {
        chirp[k] = turn(square, n);
        filter[k] = (pair){chirp[k].re / (double)m, -chirp[k].im / (double)m};
        filter[(m - k) % m] = filter[k];
    }
    p->chirp = chirp;
    filter = EXG_LOOPS(exg_loops_fft)->of[EXG_FFT_F64][0]->transform(&p->passes, filter, other);
    for (int64_t k = 0; k < m; k++) {
        filter[k].im = -filter[k].im;
    }
    p->filter = filter;
    return true;
}

/* By a number, `sign` times whose imaginary part is what comes. */
static void multiply(uint32_t lines, double *value, pair w, double sign)
{
    double *im = value + lines;

    for (uint32_t k = 0; k < lines; k++) {
        pair z = product((pair){value[k], sign * im[k]}, w);

        value[k] = z.re;
        im[k] = z.im;
    }
}

static void *by_chirps(const fft_params *p, void *x_, void *y)
{
    const uint32_t lines = p->loops->lines;
    const int64_t n = p->points;
    const int64_t m = p->passes.n;
    double *x = x_;
    double *z;

    for (int64_t k = 0; k < n; k++) {
        multiply(lines, x + 2 * k * lines, p->chirp[k], 1);
    }
    memset(x + 2 * n * lines, 0, (size_t)(2 * (m - n) * lines) * sizeof(double));
    z = p->loops->transform(&p->passes, x, y);
    for (int64_t k = 0; k < m; k++) { /* the way back is the way there of conjugates */
        multiply(lines, z + 2 * k * lines, p->filter[k], -1);
    }
    z = p->loops->transform(&p->passes, z, z == x ? y : x);
    for (int64_t k = 0; k < n; k++) {
        multiply(lines, z + 2 * k * lines, p->chirp[k], -1);
    }
    return z;
}

/* ---- memory ------------------------------------------------------------------------------ */

/* Where lines from `line` on are, of which the last one stands for those that are not there.
 * `halves` real numbers are two and two. */
static void locate(const fft_params *p, const exg_tensor *t, const exg_around *a, bool halves,
                   int64_t line, exg_fft_memory *m)
{
    const int64_t parts = exg_dtype_is_complex(t->dtype) ? 2 : 1;
    const int64_t last = a->outer * a->inner - 1;
    int64_t outer;
    int64_t inner;

    m->step = a->inner * (halves ? 2 : parts);
    m->im = parts == 2 ? 1 : halves ? a->inner : 0;
    m->apart = a->inner > 1 && line % a->inner + p->loops->lines <= a->inner ? parts : 0;
    outer = line / a->inner;
    inner = line % a->inner;
    for (uint32_t i = 0; i < p->loops->lines; i++) {
        int64_t at = outer * a->size * a->inner + inner;

        m->lines[i] = (char *)t->data + at * parts * p->bytes;
        if (line + i < last && ++inner == a->inner) {
            inner = 0;
            outer++;
        }
    }
}

/* Of f32 that is computed in double. */
static bool is_widened(const fft_params *p)
{
    return p->chirp != NULL && p->bytes == sizeof(float);
}

static void load(const fft_params *p, const exg_fft_memory *m, int64_t count, double sign, void *x)
{
    const uint32_t lines = p->loops->lines;
    double *value = x;

    if (!is_widened(p)) {
        p->loops->load(count, m, sign, x);
        return;
    }
    for (int64_t k = 0; k < count; k++, value += 2 * lines) {
        for (uint32_t i = 0; i < lines; i++) {
            const float *at = (const float *)m->lines[i] + k * m->step;

            value[i] = (double)at[0];
            value[lines + i] = m->im == 0 ? 0 : (double)at[m->im] * sign;
        }
    }
}

static void store(const fft_params *p, const exg_fft_memory *m, int64_t count, double sign,
                  const void *x)
{
    const uint32_t lines = p->loops->lines;
    const double *value = x;

    if (!is_widened(p)) {
        p->loops->store(count, m, p->scale, sign, x);
        return;
    }
    for (int64_t k = 0; k < count; k++, value += 2 * lines) {
        for (uint32_t i = 0; i < lines; i++) {
            float *at = (float *)m->lines[i] + k * m->step;

            at[0] = (float)(value[i] * p->scale);
            if (m->im != 0) {
                at[m->im] = (float)(value[lines + i] * p->scale * sign);
            }
        }
    }
}

/* ---- lines ------------------------------------------------------------------------------- */

/* The real and the imaginary parts of value k. */
static void *part(const fft_params *p, void *x, int64_t k, bool is_imaginary)
{
    const uint64_t bytes = (p->chirp != NULL ? sizeof(double) : p->bytes) * p->loops->lines;

    return (char *)x + (2 * (uint64_t)k + is_imaginary) * bytes;
}

static void clear_imaginary(const fft_params *p, void *x, int64_t k)
{
    memset(part(p, x, k, true), 0, (size_t)((char *)part(p, x, 1, false) - (char *)x) / 2);
}

/* What is missing of an odd number of values: conjugates of those there are. */
static void complete(const fft_params *p, void *x)
{
    const size_t bytes = (size_t)((char *)part(p, x, 1, false) - (char *)x) / 2;
    const bool is_double = p->chirp != NULL || p->bytes == sizeof(double);

    for (int64_t k = 1; k <= p->n / 2; k++) {
        void *im = part(p, x, p->n - k, true);

        memcpy(part(p, x, p->n - k, false), part(p, x, k, false), bytes);
        memcpy(im, part(p, x, k, true), bytes);
        for (uint32_t i = 0; i < p->loops->lines; i++) {
            if (is_double) {
                ((double *)im)[i] = -((double *)im)[i];
            } else {
                ((float *)im)[i] = -((float *)im)[i];
            }
        }
    }
}

static void *transform(const fft_params *p, void *x, void *y)
{
    return p->chirp != NULL ? by_chirps(p, x, y) : p->loops->transform(&p->passes, x, y);
}

static void transform_lines(const fft_context *r, int64_t line, void *x)
{
    const fft_params *p = r->p;
    const double sign = p->is_inverse ? -1 : 1; /* the inverse of z is conj(forward(conj(z))) */
    const int64_t half = p->n / 2 + 1;
    const bool halves = p->turns != NULL;
    void *y = (char *)x + p->buffer_bytes;
    void *z;
    exg_fft_memory from;
    exg_fft_memory to;

    locate(p, &r->call->inputs[0], &p->in, halves && p->way == FROM_REAL, line, &from);
    locate(p, &r->call->outputs[0], &p->out, halves && p->way == TO_REAL, line, &to);
    switch (p->way) {
    case COMPLEX:
        load(p, &from, p->n, sign, x);
        store(p, &to, p->n, sign, transform(p, x, y));
        break;
    case FROM_REAL:
        load(p, &from, p->points, 1, x);
        z = transform(p, x, y);
        if (halves) {
            void *other = z == x ? y : x;

            p->loops->from_half(p->points, p->turns, z, other);
            z = other;
        }
        store(p, &to, half, 1, z);
        break;
    default:
        load(p, &from, half, halves ? 1 : -1, x);
        clear_imaginary(p, x, 0);
        if (halves) {
            clear_imaginary(p, x, half - 1);
            p->loops->to_half(p->points, p->turns, x, y);
            z = transform(p, y, x);
        } else {
            complete(p, x);
            z = transform(p, x, y);
        }
        store(p, &to, p->points, -1, z);
    }
}

static void fft_block(void *context, uint32_t block)
{
    const fft_context *r = context;
    const fft_params *p = r->p;
    const int64_t count = p->in.outer * p->in.inner;
    char *x = (char *)r->call->workspace + 2 * p->buffer_bytes * block;

    for (int64_t line = (int64_t)block * p->loops->lines; line < count;
         line += (int64_t)p->block_count * p->loops->lines) {
        transform_lines(r, line, x);
    }
}

/* ---- plan -------------------------------------------------------------------------------- */

static bool plan_passes(exg_kernel_call *call, fft_params *p, bool is_double)
{
    exg_arena *arena = call->arena;

    if (!factor(&p->passes, p->points)) {
        is_double = true;
        if (!make_chirps(arena, p, p->points)) {
            return false;
        }
    } else if ((p->passes.w = make_roots(arena, is_double, p->points, p->points)) == NULL) {
        return false;
    }
    if (p->points != p->n) {
        p->turns = make_roots(arena, is_double, p->n, p->points / 2 + 1);
        return p->turns != NULL;
    }
    return true;
}

static exg_status plan(exg_kernel_call *call, fft_way way, int64_t n, bool is_inverse, double scale,
                       exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    uint32_t dim = exg_call_dim(call, 1, in->rank);
    fft_params *p = EXG_NEW(call->arena, fft_params);
    bool is_double = in->dtype == EXG_DTYPE_C128 || in->dtype == EXG_DTYPE_F64;
    int64_t count;
    exg_fft_type type;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    call->params = p;
    p->way = way;
    p->in = exg_around_dim(in, dim);
    p->out = exg_around_dim(&call->outputs[0], dim);
    p->n = n;
    p->points = way != COMPLEX && n % 2 == 0 ? n / 2 : n;
    p->is_inverse = is_inverse;
    p->scale = scale;
    p->bytes = is_double ? 8 : 4;
    count = p->in.outer * p->in.inner;
    if (n > INT32_MAX / 4) {
        return EXG_FAIL(err, LIMIT, "KRN-014", "a Fourier transform of %lld elements",
                        (long long)n);
    }
    if (n < 1 || count == 0) {
        return EXG_OK; /* no line */
    }
    if (!plan_passes(call, p, is_double)) {
        return EXG_OUT_OF_MEMORY(err);
    }
    type = is_double || p->chirp != NULL ? EXG_FFT_F64 : EXG_FFT_F32;
    p->loops = EXG_LOOPS(exg_loops_fft)->of[type][count >= FEW];
    p->block_count = (uint32_t)EXG_MIN(exg_ceil_div(count, p->loops->lines), (int64_t)BLOCKS_MAX);
    p->block_count = count * n < EXG_GRAIN / 8 ? 1 : p->block_count;
    p->buffer_bytes = (uint64_t)(EXG_MAX(p->passes.n, n / 2 + 1) * 2 * p->loops->lines) *
                      (type == EXG_FFT_F64 ? sizeof(double) : sizeof(float));
    p->buffer_bytes = (p->buffer_bytes + 63) / 64 * 64;
    call->workspace_bytes = 2 * p->buffer_bytes * p->block_count;
    return EXG_OK;
}

static void fft_run(const exg_kernel_call *call)
{
    fft_context r = {call->params, call};

    exg_pool_run(call->pool, fft_block, &r, r.p->block_count);
}

/* (self, dim, inverse, scale) */
static exg_status fft_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];

    if (in->dtype != EXG_DTYPE_C64 && in->dtype != EXG_DTYPE_C128) {
        return exg_unsupported_dtype("fft", in->dtype, err);
    }
    return plan(call, COMPLEX, exg_around_dim(in, exg_call_dim(call, 1, in->rank)).size,
                exg_call_bool(call, 2), exg_call_float(call, 3), err);
}

/* (self, dim, scale) */
static exg_status fft_from_real_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];

    if (in->dtype != EXG_DTYPE_F32 && in->dtype != EXG_DTYPE_F64) {
        return exg_unsupported_dtype("fft_from_real", in->dtype, err);
    }
    return plan(call, FROM_REAL, exg_around_dim(in, exg_call_dim(call, 1, in->rank)).size, false,
                exg_call_float(call, 2), err);
}

/* (self, dim, size, scale) */
static exg_status fft_to_real_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];

    if (in->dtype != EXG_DTYPE_C64 && in->dtype != EXG_DTYPE_C128) {
        return exg_unsupported_dtype("fft_to_real", in->dtype, err);
    }
    return plan(call, TO_REAL, exg_call_int(call, 2), true, exg_call_float(call, 3), err);
}

#define FFT(kernel)                                                                                \
    const exg_kernel exg_kernel_##kernel = {                                                       \
        .name = #kernel,                                                                           \
        .prepare = kernel##_prepare,                                                               \
        .run = fft_run,                                                                            \
    };

FFT(fft)
FFT(fft_from_real)
FFT(fft_to_real)
