/* linalg.c - factorisations of a batch of matrices, one after the other, in double, or pairs
 * of double, whatever the dtype: matrices are copied column by column into the workspace, where
 * LAPACK or a plain loop works, and back. Triangular solves, Householder products, orders of
 * pivots and exponentials need no LAPACK.
 */
#include "libexec/kernels/cpu/common.h"
#include "libexec/kernels/lapack.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>

/* Of the first operand: sizes of its matrices, and how many. */
typedef struct linalg_params {
    const exg_lapack *lapack;
    int64_t batch;
    int m, n;
    int count;       /* columns of a right hand side, or of tau */
    int parts;       /* doubles of a number: 2 where it is complex */
    int64_t doubles; /* of work, after which the int32s come */
    bool flag;       /* the first bool argument */
    bool check;      /* the last one */
} linalg_params;

static int64_t last_size(const exg_tensor *t, uint32_t from_end)
{
    return t->rank < from_end ? 1 : t->sizes[t->rank - from_end];
}

static int parts_of(const exg_tensor *t)
{
    return exg_dtype_is_complex(t->dtype) ? 2 : 1;
}

/* Doubles of a matrix. */
static int64_t numbers(const linalg_params *p, int64_t m, int64_t n)
{
    return m * n * p->parts;
}

static exg_status prepare(exg_kernel_call *call, const char *name, bool needs_lapack,
                          exg_error *err)
{
    linalg_params *p = EXG_NEW(call->arena, linalg_params);
    const exg_lapack *lapack = NULL;
    const exg_tensor *a = &call->inputs[0];
    const exg_tensor *last = &call->inputs[call->input_count - 1];
    int parts = parts_of(a);
    int64_t m = last_size(a, 2);
    int64_t n = last_size(a, 1);
    int64_t count = last_size(last, 1);
    int64_t sides;
    bool has_flag = false;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (needs_lapack && (lapack = exg_lapack_load(parts == 2)) == NULL) {
        return exg_error_fix(
            err, EXG_FAIL(err, UNSUPPORTED, "KRN-012", "%s: LAPACK cannot be loaded", name),
            "install exg-plugin-lapack, or build exg where liblapacke-dev is installed");
    }
    if (a->dtype != EXG_DTYPE_F32 && a->dtype != EXG_DTYPE_F64 && a->dtype != EXG_DTYPE_C64 &&
        a->dtype != EXG_DTYPE_C128) {
        return exg_unsupported_dtype(name, a->dtype, err);
    }
    if (m > 32768 || n > 32768 || count > INT_MAX) {
        return EXG_FAIL(err, LIMIT, "KRN-013", "%s of matrices of %lld by %lld", name, (long long)m,
                        (long long)n);
    }
    *p = (linalg_params){.lapack = lapack,
                         .batch = 1,
                         .m = (int)m,
                         .n = (int)n,
                         .count = (int)count,
                         .parts = parts};
    for (uint32_t d = 0; d + 2 < a->rank; d++) {
        p->batch *= a->sizes[d];
    }
    for (uint32_t i = 0; i < call->arg_count; i++) {
        if (call->args[i].kind == EXG_ARGUMENT_BOOL) {
            p->flag = has_flag ? p->flag : exg_call_bool(call, i);
            p->check = exg_call_bool(call, i);
            has_flag = true;
        }
    }
    sides = EXG_MAX(m, n);
    p->doubles =
        parts * (4 * sides * sides + n * count + 4 * sides) + exg_lapack_work(m, n, parts == 2);
    call->workspace_bytes = (uint64_t)p->doubles * sizeof(double) +
                            (uint64_t)exg_lapack_int_work(m, n) * sizeof(int32_t);
    call->params = p;
    return last->dtype == a->dtype ? EXG_OK : exg_unsupported_dtype(name, last->dtype, err);
}

/* ---- matrices in and out -------------------------------------------------------------- */

static bool is_narrow(const exg_tensor *t)
{
    return t->dtype == EXG_DTYPE_F32 || t->dtype == EXG_DTYPE_C64;
}

/* Of a complex tensor the parts, one after the other. */
static double get(const exg_tensor *t, int64_t at)
{
    return is_narrow(t) ? (double)((const float *)t->data)[at] : ((const double *)t->data)[at];
}

static void set(const exg_tensor *t, int64_t at, double value)
{
    if (is_narrow(t)) {
        ((float *)t->data)[at] = (float)value;
    } else {
        ((double *)t->data)[at] = value;
    }
}

/* Real numbers from `at` on, to doubles and back. */
static void take(const exg_tensor *t, int64_t at, int64_t count, double *to)
{
    if (is_narrow(t)) {
        for (int64_t i = 0; i < count; i++) {
            to[i] = (double)((const float *)t->data)[at + i];
        }
    } else {
        memcpy(to, (const double *)t->data + at, (size_t)count * sizeof(*to));
    }
}

static void give(const exg_tensor *t, int64_t at, int64_t count, const double *from)
{
    if (is_narrow(t)) {
        for (int64_t i = 0; i < count; i++) {
            ((float *)t->data)[at + i] = (float)from[i];
        }
    } else {
        memcpy((double *)t->data + at, from, (size_t)count * sizeof(*from));
    }
}

/* Matrix `index` (m, n) of a row-major tensor, as columns. */
static void gather(const exg_tensor *t, int64_t index, int m, int n, double *columns)
{
    int parts = parts_of(t);
    int64_t at = index * m * n * parts;

    if (parts == 1 && is_narrow(t)) {
        const float *from = (const float *)t->data + at;

        for (int i = 0; i < m; i++) {
            for (int j = 0; j < n; j++) {
                columns[i + (int64_t)j * m] = (double)from[(int64_t)i * n + j];
            }
        }
        return;
    }
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            for (int part = 0; part < parts; part++) {
                columns[(i + (int64_t)j * m) * parts + part] = get(t, at++);
            }
        }
    }
}

static void scatter(const exg_tensor *t, int64_t index, int m, int n, const double *columns)
{
    int parts = parts_of(t);
    int64_t at = index * m * n * parts;

    if (parts == 1 && is_narrow(t)) {
        float *to = (float *)t->data + at;

        for (int i = 0; i < m; i++) {
            for (int j = 0; j < n; j++) {
                to[(int64_t)i * n + j] = (float)columns[i + (int64_t)j * m];
            }
        }
        return;
    }
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            for (int part = 0; part < parts; part++) {
                set(t, at++, columns[(i + (int64_t)j * m) * parts + part]);
            }
        }
    }
}

static void put_vector(const exg_tensor *t, int64_t index, int n, const double *values)
{
    scatter(t, index, 1, n, values);
}

static void put_info(const exg_kernel_call *call, uint32_t output, int64_t index, int info)
{
    const linalg_params *p = call->params;

    ((int32_t *)call->outputs[output].data)[index] = info;
    if (p->check && info != 0) {
        exg_raise(call, EXG_FAULT_SINGULAR);
    }
}

static int32_t *ints_of(const exg_kernel_call *call)
{
    const linalg_params *p = call->params;

    return (int32_t *)(void *)((double *)call->workspace + p->doubles);
}

/* A factorisation that did not end gives NaN and a fault. */
static void must_end(const exg_kernel_call *call, int info, double *values, int64_t count)
{
    if (info != 0) {
        exg_raise(call, EXG_FAULT_SINGULAR);
        for (int64_t i = 0; i < count; i++) {
            values[i] = NAN;
        }
    }
}

/* What goes on till it has converged may do so for ever over an infinity. */
static bool may_converge(const linalg_params *p, const double *a, int m, int n)
{
    int64_t count = numbers(p, m, n);

    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(a[i])) {
            return false;
        }
    }
    return true;
}

/* A LAPACK without locks (Debian's serial OpenBLAS) gives wrong factors now and then when several
 * threads ask at once; ranks that are threads take turns. */
static pthread_mutex_t one_caller = PTHREAD_MUTEX_INITIALIZER;

#define KERNEL(id, lapack, flags_)                                                                 \
    static exg_status id##_prepare(exg_kernel_call *call, exg_error *err)                          \
    {                                                                                              \
        return prepare(call, #id, lapack, err);                                                    \
    }                                                                                              \
    static void id##_run(const exg_kernel_call *call)                                              \
    {                                                                                              \
        const linalg_params *p = call->params;                                                     \
                                                                                                   \
        if (lapack) {                                                                              \
            pthread_mutex_lock(&one_caller);                                                       \
        }                                                                                          \
        for (int64_t index = 0; index < p->batch; index++) {                                       \
            id(call, p, index, call->workspace);                                                   \
        }                                                                                          \
        if (lapack) {                                                                              \
            pthread_mutex_unlock(&one_caller);                                                     \
        }                                                                                          \
    }                                                                                              \
    const exg_kernel exg_kernel_##id = {                                                           \
        .name = #id,                                                                               \
        .prepare = id##_prepare,                                                                   \
        .run = id##_run,                                                                           \
        .flags = EXG_KERNEL_RAISES | (flags_),                                                     \
    };

/* ---- by LAPACK -------------------------------------------------------------------------- */

/* Zeros on the other side of the diagonal. */
static void keep_triangle(const linalg_params *p, double *a, bool upper)
{
    int n = p->n;

    for (int j = 0; j < n; j++) {
        int first = upper ? j + 1 : 0;
        int end = upper ? n : j;

        memset(a + (first + (int64_t)j * n) * p->parts, 0,
               (size_t)(end - first) * (size_t)p->parts * sizeof(*a));
    }
}

/* The first column at which the factor is no number, from 1, as LAPACK counts: that or the one
 * behind it where the diagonal is infinite; 0: none. Not every LAPACK refuses it. */
static int undefined_column(const linalg_params *p, const double *a)
{
    for (int j = 0; j < p->n; j++) {
        double d = a[(j + (int64_t)j * p->n) * p->parts];

        if (isnan(d) || (isinf(d) && j + 1 < p->n)) {
            return isnan(d) ? j + 1 : j + 2;
        }
    }
    return 0;
}

static void cholesky_factor(const exg_kernel_call *call, const linalg_params *p, int64_t index,
                            double *a)
{
    int n = p->n;
    int info;

    gather(&call->inputs[0], index, n, n, a);
    info = p->lapack->cholesky(n, p->flag, a);
    info = info == 0 ? undefined_column(p, a) : info;
    keep_triangle(p, a, p->flag);
    scatter(&call->outputs[0], index, n, n, a);
    put_info(call, 1, index, info);
}

#define SMALL 16 /* rows and columns that are done before LAPACK has begun */

/* As dgetrf of finite numbers: P L U, pivots from 1, and the first of them that is 0. */
static int small_lu(int m, int n, double *a, int32_t *pivots)
{
    int info = 0;

    for (int j = 0; j < m && j < n; j++) {
        double *column = a + (int64_t)j * m;
        int best = j;

        for (int i = j + 1; i < m; i++) {
            best = fabs(column[i]) > fabs(column[best]) ? i : best;
        }
        pivots[j] = best + 1;
        if (column[best] == 0) {
            info = info == 0 ? j + 1 : info;
            continue;
        }
        for (int k = 0; k < n && best != j; k++) {
            double kept = a[j + (int64_t)k * m];

            a[j + (int64_t)k * m] = a[best + (int64_t)k * m];
            a[best + (int64_t)k * m] = kept;
        }
        for (int i = j + 1; i < m; i++) {
            column[i] /= column[j];
        }
        for (int k = j + 1; k < n; k++) {
            double *other = a + (int64_t)k * m;

            for (int i = j + 1; i < m; i++) {
                other[i] -= column[i] * other[j];
            }
        }
    }
    return info;
}

static void lu_factor(const exg_kernel_call *call, const linalg_params *p, int64_t index, double *a)
{
    int32_t *pivots = (int32_t *)call->outputs[1].data + index * EXG_MIN(p->m, p->n);
    int info;

    gather(&call->inputs[0], index, p->m, p->n, a);
    info = p->parts == 1 && p->m <= SMALL && p->n <= SMALL && may_converge(p, a, p->m, p->n)
               ? small_lu(p->m, p->n, a, pivots)
               : p->lapack->lu(p->m, p->n, a, pivots);
    scatter(&call->outputs[0], index, p->m, p->n, a);
    put_info(call, 2, index, info);
}

static void ldl_factor(const exg_kernel_call *call, const linalg_params *p, int64_t index,
                       double *a)
{
    int info;

    gather(&call->inputs[0], index, p->n, p->n, a);
    info = p->lapack->ldl(p->n, p->flag, a, (int32_t *)call->outputs[1].data + index * p->n,
                          a + numbers(p, p->n, p->n));
    keep_triangle(p, a, false);
    scatter(&call->outputs[0], index, p->n, p->n, a);
    put_info(call, 2, index, info);
}

static void ldl_solve(const exg_kernel_call *call, const linalg_params *p, int64_t index, double *a)
{
    double *x = a + numbers(p, p->n, p->n);
    const int32_t *pivots = (const int32_t *)call->inputs[1].data + index * p->n;

    for (int i = 0; i < p->n; i++) { /* the pivots may come from anywhere */
        int64_t pivot = pivots[i] < 0 ? -(int64_t)pivots[i] : pivots[i];

        if (pivot < 1 || pivot > p->n) {
            exg_raise_index(call, pivot, p->n);
            return;
        }
    }
    gather(&call->inputs[0], index, p->n, p->n, a);
    gather(&call->inputs[2], index, p->n, p->count, x);
    (void)p->lapack->ldl_solve(p->n, p->count, p->flag, a, pivots, x);
    scatter(&call->outputs[0], index, p->n, p->count, x);
}

static void qr_factor(const exg_kernel_call *call, const linalg_params *p, int64_t index, double *a)
{
    int k = EXG_MIN(p->m, p->n);
    double *tau = a + numbers(p, p->m, p->n);

    gather(&call->inputs[0], index, p->m, p->n, a);
    (void)p->lapack->qr(p->m, p->n, a, tau, tau + numbers(p, k, 1));
    scatter(&call->outputs[0], index, p->m, p->n, a);
    put_vector(&call->outputs[1], index, k, tau);
}

static void eigh(const exg_kernel_call *call, const linalg_params *p, int64_t index, double *a)
{
    int64_t square = numbers(p, p->n, p->n);
    double *values = a + square;
    bool vectors = !exg_tensor_is_absent(&call->outputs[1]);
    int info = 1;

    gather(&call->inputs[0], index, p->n, p->n, a);
    if (may_converge(p, a, p->n, p->n)) {
        info = p->lapack->eigh(p->n, p->flag, vectors, a, values, values + p->n, ints_of(call));
    }
    must_end(call, info, a, square + p->n);
    put_vector(&call->outputs[0], index, p->n, values);
    if (vectors) {
        scatter(&call->outputs[1], index, p->n, p->n, a);
    }
}

static void eig(const exg_kernel_call *call, const linalg_params *p, int64_t index, double *a)
{
    int n = p->n;
    int64_t square = 2 * (int64_t)n * n;
    double *vectors = a + square;
    double *values = vectors + square;
    int info = 1;

    gather(&call->inputs[0], index, n, n, a);
    if (may_converge(p, a, n, n)) {
        info = p->lapack->eig(n, a, values, vectors, values + 2 * n);
    }
    must_end(call, info, vectors, square + 2 * n);
    put_vector(&call->outputs[0], index, n, values);
    scatter(&call->outputs[1], index, n, n, vectors);
}

/* The first n columns of an identity of m rows. */
static void set_identity(const linalg_params *p, double *a, int m, int n)
{
    memset(a, 0, (size_t)numbers(p, m, n) * sizeof(*a));
    for (int i = 0; i < EXG_MIN(m, n); i++) {
        a[numbers(p, m, i) + (int64_t)i * p->parts] = 1;
    }
}

static void svd_factor(const exg_kernel_call *call, const linalg_params *p, int64_t index,
                       double *a)
{
    int k = EXG_MIN(p->m, p->n);
    int u_columns = p->flag ? p->m : k;
    int v_rows = p->flag ? p->n : k;
    double *u = a + numbers(p, p->m, p->n);
    double *vh = u + numbers(p, p->m, u_columns);
    double *s = vh + numbers(p, v_rows, p->n);
    int info = 1;

    gather(&call->inputs[0], index, p->m, p->n, a);
    if (k > 0) {
        if (may_converge(p, a, p->m, p->n)) {
            info = p->lapack->svd(p->m, p->n, p->flag, a, s, u, vh, s + k, ints_of(call));
        }
        must_end(call, info, u, s + k - u);
    } else {
        set_identity(p, u, p->m, u_columns);
        set_identity(p, vh, v_rows, p->n);
    }
    scatter(&call->outputs[0], index, p->m, u_columns, u);
    put_vector(&call->outputs[1], index, k, s);
    scatter(&call->outputs[2], index, v_rows, p->n, vh);
}

/* ---- by loops ------------------------------------------------------------------------------ */

typedef struct number {
    double re, im;
} number;

static number at(const linalg_params *p, const double *x, int64_t i)
{
    return p->parts == 1 ? (number){x[i], 0} : (number){x[2 * i], x[2 * i + 1]};
}

static void put(const linalg_params *p, double *x, int64_t i, number value)
{
    x[i * p->parts] = value.re;
    if (p->parts == 2) {
        x[2 * i + 1] = value.im;
    }
}

static number times(number x, number y)
{
    return (number){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

/* By the larger part of y, lest its square leave the dtype; x i / y i is the same. */
static number over(number x, number y)
{
    number turned_x = {-x.im, x.re};
    number turned_y = {-y.im, y.re};
    double ratio;
    double size;

    if (fabs(y.re) < fabs(y.im)) {
        return over(turned_x, turned_y);
    }
    if (y.im == 0) {
        return (number){x.re / y.re, x.im / y.re};
    }
    ratio = y.im / y.re;
    size = y.re + y.im * ratio;
    return (number){(x.re + x.im * ratio) / size, (x.im - x.re * ratio) / size};
}

/* y += factor x, of numbers first to end */
static void add_scaled(const linalg_params *p, int first, int end, number factor, const double *x,
                       double *y)
{
    if (p->parts == 1) {
        for (int i = first; i < end; i++) {
            y[i] += factor.re * x[i];
        }
        return;
    }
    for (int i = first; i < end; i++) {
        y[2 * i] += factor.re * x[2 * i] - factor.im * x[2 * i + 1];
        y[2 * i + 1] += factor.re * x[2 * i + 1] + factor.im * x[2 * i];
    }
}

/* The sum of conj(x) y, of numbers first to end */
static number dot(const linalg_params *p, int first, int end, const double *x, const double *y)
{
    number sum = {0, 0};

    if (p->parts == 1) {
        for (int i = first; i < end; i++) {
            sum.re += x[i] * y[i];
        }
        return sum;
    }
    for (int i = first; i < end; i++) {
        sum.re += x[2 * i] * y[2 * i] + x[2 * i + 1] * y[2 * i + 1];
        sum.im += x[2 * i] * y[2 * i + 1] - x[2 * i + 1] * y[2 * i];
    }
    return sum;
}

/* A x = b of real numbers, all columns of b at once: x (n, count) begins as b. */
static void solve_rows(const linalg_params *p, const double *a, double *x)
{
    const int64_t n = p->n;
    const int64_t count = p->count;

    for (int64_t step = 0; step < n; step++) {
        int64_t k = p->flag ? n - 1 - step : step;
        double *row = x + k * count;

        for (int64_t c = 0; c < count && !p->check; c++) {
            row[c] /= a[k + k * n];
        }
        for (int64_t i = p->flag ? 0 : k + 1; i < (p->flag ? k : n); i++) {
            const double factor = -a[i + k * n];

            for (int64_t c = 0; c < count; c++) {
                x[i * count + c] += factor * row[c];
            }
        }
    }
}

/* A x = b, column by column of b. */
static void solve_triangular(const exg_kernel_call *call, const linalg_params *p, int64_t index,
                             double *a)
{
    int n = p->n;
    double *solved = a + numbers(p, n, n);
    bool unit = p->check;

    gather(&call->inputs[0], index, n, n, a);
    if (p->parts == 1) {
        int64_t count = (int64_t)n * p->count;

        take(&call->inputs[1], index * count, count, solved);
        solve_rows(p, a, solved);
        give(&call->outputs[0], index * count, count, solved);
        return;
    }
    gather(&call->inputs[1], index, n, p->count, solved);
    for (int column = 0; column < p->count; column++) {
        double *x = solved + numbers(p, n, column);

        for (int step = 0; step < n; step++) {
            int k = p->flag ? n - 1 - step : step;
            const double *of = a + numbers(p, n, k);
            number found = unit ? at(p, x, k) : over(at(p, x, k), at(p, of, k));

            put(p, x, k, found);
            add_scaled(p, p->flag ? 0 : k + 1, p->flag ? k : n, (number){-found.re, -found.im}, of,
                       x);
        }
    }
    scatter(&call->outputs[0], index, n, p->count, solved);
}

/* The first n columns of H(0) H(1) ..., H(k) = 1 - tau(k) v v', v = (0 .. 0, 1, column k). */
static void householder(const exg_kernel_call *call, const linalg_params *p, int64_t index,
                        double *a)
{
    int m = p->m;
    double *q = a + numbers(p, m, p->n);
    double *tau = q + numbers(p, m, p->n);

    gather(&call->inputs[0], index, m, p->n, a);
    gather(&call->inputs[1], index, 1, p->count, tau);
    set_identity(p, q, m, p->n);
    for (int k = EXG_MIN(EXG_MIN(p->count, p->n), m); k-- > 0;) {
        double *v = a + numbers(p, m, k);

        put(p, v, k, (number){1, 0});
        for (int j = 0; j < p->n; j++) {
            double *column = q + numbers(p, m, j);
            number along = times(at(p, tau, k), dot(p, k, m, v, column));

            add_scaled(p, k, m, (number){-along.re, -along.im}, v, column);
        }
    }
    scatter(&call->outputs[0], index, m, p->n, q);
}

/* c = a b */
static void multiply(const linalg_params *p, const double *a, const double *b, double *c)
{
    int n = p->n;

    memset(c, 0, (size_t)numbers(p, n, n) * sizeof(*c));
    for (int j = 0; j < n; j++) {
        for (int k = 0; k < n; k++) {
            add_scaled(p, 0, n, at(p, b, k + (int64_t)j * n), a + numbers(p, n, k),
                       c + numbers(p, n, j));
        }
    }
}

/* The greatest sum of magnitudes of a column, or NaN. */
static double norm_of(const linalg_params *p, const double *a)
{
    double norm = 0;

    for (int j = 0; j < p->n; j++) {
        double column = 0;

        for (int i = 0; i < p->n; i++) {
            number x = at(p, a, i + (int64_t)j * p->n);

            column += hypot(x.re, x.im);
        }
        norm = column > norm || isnan(column) ? column : norm;
    }
    return norm;
}

/* Taylor's polynomial of degree 18 of the matrix divided by a power of two until its norm is
 * at most a half, where the rest is below 2^-75; then squared as often. */
static void matrix_exp(const exg_kernel_call *call, const linalg_params *p, int64_t index,
                       double *a)
{
    int n = p->n;
    int64_t square = numbers(p, n, n);
    int64_t diagonal = ((int64_t)n + 1) * p->parts;
    double *sum = a + square;
    double *next = sum + square;
    double norm;
    int halvings = 0;

    gather(&call->inputs[0], index, n, n, a);
    for (norm = norm_of(p, a); isfinite(norm) && norm > 0.5; norm /= 2) {
        halvings++;
    }
    for (int64_t i = 0; i < square; i++) {
        a[i] = ldexp(a[i], -halvings);
    }
    set_identity(p, sum, n, n);
    for (int k = 18; k > 0; k--) { /* Horner: 1 + a / 1 (1 + a / 2 (1 + ...)) */
        double *done = next;

        multiply(p, a, sum, next);
        for (int64_t i = 0; i < square; i++) {
            next[i] = next[i] / k + (i % diagonal == 0);
        }
        next = sum;
        sum = done;
    }
    for (int k = 0; k < halvings; k++) {
        double *done = next;

        multiply(p, sum, sum, next);
        next = sum;
        sum = done;
    }
    scatter(&call->outputs[0], index, n, n, sum);
}

KERNEL(cholesky_factor, true, 0)
KERNEL(lu_factor, true, 0)
KERNEL(ldl_factor, true, 0)
KERNEL(ldl_solve, true, 0)
KERNEL(qr_factor, true, 0)
KERNEL(eigh, true, EXG_KERNEL_LEAVES_UNUSED)
KERNEL(eig, true, 0)
KERNEL(svd_factor, true, 0)
KERNEL(solve_triangular, false, 0)
KERNEL(householder, false, 0)
KERNEL(matrix_exp, false, 0)

/* ---- pivots ---------------------------------------------------------------------------------- */

/* Rows exchanged with their pivots, counted from 1, one after the other. */
static void pivots_order_run(const exg_kernel_call *call)
{
    const exg_tensor *pivots = &call->inputs[0];
    const exg_tensor *order = &call->outputs[0];
    int64_t rows = last_size(order, 1);
    int64_t count = last_size(pivots, 1);
    int64_t batch = rows == 0 ? 0 : exg_tensor_numel(order) / rows;

    for (int64_t b = 0; b < batch; b++) {
        const int32_t *pivot = (const int32_t *)pivots->data + b * count;
        int64_t *row = (int64_t *)order->data + b * rows;

        for (int64_t i = 0; i < rows; i++) {
            row[i] = i;
        }
        for (int64_t i = 0; i < count; i++) {
            int64_t other = (int64_t)pivot[i] - 1;
            int64_t taken = row[i];

            if (other < 0 || other >= rows) {
                exg_raise_index(call, other, rows);
                break;
            }
            row[i] = row[other];
            row[other] = taken;
        }
    }
}

static exg_status pivots_order_prepare(exg_kernel_call *call, exg_error *err)
{
    return call->inputs[0].dtype == EXG_DTYPE_I32
               ? EXG_OK
               : exg_unsupported_dtype("pivots_order", call->inputs[0].dtype, err);
}

const exg_kernel exg_kernel_pivots_order = {
    .name = "pivots_order",
    .prepare = pivots_order_prepare,
    .run = pivots_order_run,
    .flags = EXG_KERNEL_RAISES,
};
