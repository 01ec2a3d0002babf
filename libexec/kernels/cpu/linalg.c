/* linalg.c - factorisations of a batch of matrices, one after the other, in double whatever
 * the dtype: matrices are copied column by column into the workspace, where LAPACK or a plain
 * loop works, and back. Triangular solves, Householder products, orders of pivots and
 * exponentials need no LAPACK.
 */
#include "libexec/kernels/cpu/common.h"
#include "libexec/kernels/lapack.h"

#include <limits.h>
#include <math.h>

/* Of the first operand: sizes of its matrices, and how many. */
typedef struct linalg_params {
    const exg_lapack *lapack;
    int64_t batch;
    int m, n;
    int count;       /* columns of a right hand side, or of tau */
    int64_t doubles; /* of work, after which the int32s come */
    bool flag;       /* the first bool argument */
    bool check;      /* the last one */
} linalg_params;

static int64_t last_size(const exg_tensor *t, uint32_t from_end)
{
    return t->rank < from_end ? 1 : t->sizes[t->rank - from_end];
}

static exg_status prepare(exg_kernel_call *call, const char *name, bool needs_lapack,
                          exg_error *err)
{
    linalg_params *p = EXG_NEW(call->arena, linalg_params);
    const exg_lapack *lapack = NULL;
    const exg_tensor *a = &call->inputs[0];
    const exg_tensor *last = &call->inputs[call->input_count - 1];
    int64_t m = last_size(a, 2);
    int64_t n = last_size(a, 1);
    int64_t count = last_size(last, 1);
    int64_t sides;
    bool has_flag = false;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (needs_lapack && (lapack = exg_lapack_load()) == NULL) {
        return exg_error_fix(err,
                             EXG_FAIL(err, UNSUPPORTED, "KRN-012", "%s: LAPACK cannot be loaded",
                                      name),
                             "build exg where liblapacke-dev is installed");
    }
    if (a->dtype != EXG_DTYPE_F32 && a->dtype != EXG_DTYPE_F64) {
        return exg_unsupported_dtype(name, a->dtype, err);
    }
    if (m > 32768 || n > 32768 || count > INT_MAX) {
        return EXG_FAIL(err, LIMIT, "KRN-013", "%s of matrices of %lld by %lld", name, (long long)m,
                        (long long)n);
    }
    *p = (linalg_params){
        .lapack = lapack, .batch = 1, .m = (int)m, .n = (int)n, .count = (int)count};
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
    p->doubles = 4 * sides * sides + n * count + 4 * sides + exg_lapack_work(m, n);
    call->workspace_bytes = (uint64_t)p->doubles * sizeof(double) +
                            (uint64_t)exg_lapack_int_work(m, n) * sizeof(int32_t);
    call->params = p;
    return EXG_OK;
}

/* ---- matrices in and out -------------------------------------------------------------- */

static double get(const exg_tensor *t, int64_t at)
{
    return t->dtype == EXG_DTYPE_F32 ? (double)((const float *)t->data)[at]
                                     : ((const double *)t->data)[at];
}

static void set(const exg_tensor *t, int64_t at, double value)
{
    if (t->dtype == EXG_DTYPE_F32) {
        ((float *)t->data)[at] = (float)value;
    } else {
        ((double *)t->data)[at] = value;
    }
}

/* Matrix `index` (m, n) of a row-major tensor, as columns. */
static void gather(const exg_tensor *t, int64_t index, int m, int n, double *columns)
{
    int64_t first = index * m * n;

    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            columns[i + (int64_t)j * m] = get(t, first + (int64_t)i * n + j);
        }
    }
}

static void scatter(const exg_tensor *t, int64_t index, int m, int n, const double *columns)
{
    int64_t first = index * m * n;

    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            set(t, first + (int64_t)i * n + j, columns[i + (int64_t)j * m]);
        }
    }
}

static void put_vector(const exg_tensor *t, int64_t index, int n, const double *values)
{
    for (int i = 0; i < n; i++) {
        set(t, index * n + i, values[i]);
    }
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

#define KERNEL(id, lapack)                                                                         \
    static exg_status id##_prepare(exg_kernel_call *call, exg_error *err)                          \
    {                                                                                              \
        return prepare(call, #id, lapack, err);                                                    \
    }                                                                                              \
    static void id##_run(const exg_kernel_call *call)                                              \
    {                                                                                              \
        const linalg_params *p = call->params;                                                     \
                                                                                                   \
        for (int64_t index = 0; index < p->batch; index++) {                                       \
            id(call, p, index, call->workspace);                                                   \
        }                                                                                          \
    }                                                                                              \
    const exg_kernel exg_kernel_##id = {                                                           \
        .name = #id,                                                                               \
        .prepare = id##_prepare,                                                                   \
        .run = id##_run,                                                                           \
    };

/* ---- by LAPACK -------------------------------------------------------------------------- */

/* Zeros on the other side of the diagonal. */
static void keep_triangle(double *a, int n, bool upper)
{
    for (int j = 0; j < n; j++) {
        for (int i = upper ? j + 1 : 0; i < (upper ? n : j); i++) {
            a[i + (int64_t)j * n] = 0;
        }
    }
}

static void cholesky_factor(const exg_kernel_call *call, const linalg_params *p, int64_t index,
                            double *a)
{
    int n = p->n;
    int info;

    gather(&call->inputs[0], index, n, n, a);
    info = p->lapack->cholesky(n, p->flag, a);
    keep_triangle(a, n, p->flag);
    scatter(&call->outputs[0], index, n, n, a);
    put_info(call, 1, index, info);
}

static void lu_factor(const exg_kernel_call *call, const linalg_params *p, int64_t index, double *a)
{
    int32_t *pivots = (int32_t *)call->outputs[1].data + index * EXG_MIN(p->m, p->n);
    int info;

    gather(&call->inputs[0], index, p->m, p->n, a);
    info = p->lapack->lu(p->m, p->n, a, pivots);
    scatter(&call->outputs[0], index, p->m, p->n, a);
    put_info(call, 2, index, info);
}

static void ldl_factor(const exg_kernel_call *call, const linalg_params *p, int64_t index,
                       double *a)
{
    int info;

    gather(&call->inputs[0], index, p->n, p->n, a);
    info = p->lapack->ldl(p->n, a, (int32_t *)call->outputs[1].data + index * p->n,
                          a + (int64_t)p->n * p->n);
    keep_triangle(a, p->n, false);
    scatter(&call->outputs[0], index, p->n, p->n, a);
    put_info(call, 2, index, info);
}

static void ldl_solve(const exg_kernel_call *call, const linalg_params *p, int64_t index, double *a)
{
    double *x = a + (int64_t)p->n * p->n;
    const int32_t *pivots = (const int32_t *)call->inputs[1].data + index * p->n;

    for (int i = 0; i < p->n; i++) { /* the pivots may come from anywhere */
        int64_t pivot = pivots[i] < 0 ? -(int64_t)pivots[i] : pivots[i];

        if (pivot < 1 || pivot > p->n) {
            exg_raise(call, EXG_FAULT_INDEX);
            return;
        }
    }
    gather(&call->inputs[0], index, p->n, p->n, a);
    gather(&call->inputs[2], index, p->n, p->count, x);
    (void)p->lapack->ldl_solve(p->n, p->count, a, pivots, x);
    scatter(&call->outputs[0], index, p->n, p->count, x);
}

static void qr_factor(const exg_kernel_call *call, const linalg_params *p, int64_t index, double *a)
{
    int k = EXG_MIN(p->m, p->n);
    double *tau = a + (int64_t)p->m * p->n;

    gather(&call->inputs[0], index, p->m, p->n, a);
    (void)p->lapack->qr(p->m, p->n, a, tau, tau + k);
    scatter(&call->outputs[0], index, p->m, p->n, a);
    put_vector(&call->outputs[1], index, k, tau);
}

static void eigh(const exg_kernel_call *call, const linalg_params *p, int64_t index, double *a)
{
    int64_t square = (int64_t)p->n * p->n;
    double *values = a + square;

    gather(&call->inputs[0], index, p->n, p->n, a);
    must_end(call, p->lapack->eigh(p->n, p->flag, a, values, values + p->n, ints_of(call)), a,
             square + p->n);
    put_vector(&call->outputs[0], index, p->n, values);
    scatter(&call->outputs[1], index, p->n, p->n, a);
}

/* Complex numbers as pairs of reals of half their size. */
static void set_complex(const exg_tensor *t, int64_t at, double real, double imaginary)
{
    exg_tensor pairs = *t;

    pairs.dtype = t->dtype == EXG_DTYPE_C64 ? EXG_DTYPE_F32 : EXG_DTYPE_F64;
    set(&pairs, 2 * at, real);
    set(&pairs, 2 * at + 1, imaginary);
}

static void eig(const exg_kernel_call *call, const linalg_params *p, int64_t index, double *a)
{
    int n = p->n;
    int64_t square = (int64_t)n * n;
    double *v = a + square;
    double *real = v + square;
    double *imaginary = real + n;

    gather(&call->inputs[0], index, n, n, a);
    must_end(call, p->lapack->eig(n, a, real, imaginary, v, imaginary + n), v, square + 2 * n);
    for (int j = 0; j < n; j++) {
        bool paired = imaginary[j] != 0 && j + 1 < n;

        set_complex(&call->outputs[0], index * n + j, real[j], imaginary[j]);
        if (paired) {
            set_complex(&call->outputs[0], index * n + j + 1, real[j + 1], imaginary[j + 1]);
        }
        for (int i = 0; i < n; i++) {
            double x = v[i + (int64_t)j * n];
            double y = paired ? v[i + (int64_t)(j + 1) * n] : 0;
            int64_t at = index * square + (int64_t)i * n + j;

            set_complex(&call->outputs[1], at, x, y);
            if (paired) {
                set_complex(&call->outputs[1], at + 1, x, -y);
            }
        }
        j += paired;
    }
}

static void set_identity(double *a, int64_t n)
{
    memset(a, 0, (size_t)(n * n) * sizeof(*a));
    for (int64_t i = 0; i < n; i++) {
        a[i + i * n] = 1;
    }
}

static void svd_factor(const exg_kernel_call *call, const linalg_params *p, int64_t index,
                       double *a)
{
    int k = EXG_MIN(p->m, p->n);
    int u_columns = p->flag ? p->m : k;
    int v_rows = p->flag ? p->n : k;
    double *u = a + (int64_t)p->m * p->n;
    double *vh = u + (int64_t)p->m * u_columns;
    double *s = vh + (int64_t)v_rows * p->n;

    gather(&call->inputs[0], index, p->m, p->n, a);
    if (k > 0) {
        must_end(call, p->lapack->svd(p->m, p->n, p->flag, a, s, u, vh, s + k, ints_of(call)), u,
                 s + k - u);
    } else {
        set_identity(u, u_columns == p->m ? p->m : 0);
        set_identity(vh, v_rows == p->n ? p->n : 0);
    }
    scatter(&call->outputs[0], index, p->m, u_columns, u);
    put_vector(&call->outputs[1], index, k, s);
    scatter(&call->outputs[2], index, v_rows, p->n, vh);
}

/* ---- by loops ------------------------------------------------------------------------------ */

/* A x = b, column by column of b. */
static void solve_triangular(const exg_kernel_call *call, const linalg_params *p, int64_t index,
                             double *a)
{
    int n = p->n;
    double *x = a + (int64_t)n * n;
    bool unit = p->check;

    gather(&call->inputs[0], index, n, n, a);
    gather(&call->inputs[1], index, n, p->count, x);
    for (int column = 0; column < p->count; column++, x += n) {
        for (int step = 0; step < n; step++) {
            int k = p->flag ? n - 1 - step : step;
            const double *of = a + (int64_t)k * n;
            int first = p->flag ? 0 : k + 1;
            int end = p->flag ? k : n;

            x[k] = unit ? x[k] : x[k] / of[k];
            for (int i = first; i < end; i++) {
                x[i] -= of[i] * x[k];
            }
        }
    }
    scatter(&call->outputs[0], index, n, p->count, a + (int64_t)n * n);
}

/* The first n columns of H(0) H(1) ..., H(k) = 1 - tau(k) v v', v = (0 .. 0, 1, column k). */
static void householder(const exg_kernel_call *call, const linalg_params *p, int64_t index,
                        double *a)
{
    int m = p->m;
    double *q = a + (int64_t)m * p->n;

    gather(&call->inputs[0], index, m, p->n, a);
    memset(q, 0, (size_t)m * (size_t)p->n * sizeof(*q));
    for (int j = 0; j < EXG_MIN(m, p->n); j++) {
        q[j + (int64_t)j * m] = 1;
    }
    for (int k = EXG_MIN(p->count, p->n); k-- > 0;) {
        double tau = get(&call->inputs[1], index * p->count + k);
        const double *v = a + (int64_t)k * m;

        for (int j = 0; j < p->n && k < m; j++) {
            double *column = q + (int64_t)j * m;
            double dot = column[k];

            for (int i = k + 1; i < m; i++) {
                dot += v[i] * column[i];
            }
            column[k] -= tau * dot;
            for (int i = k + 1; i < m; i++) {
                column[i] -= tau * dot * v[i];
            }
        }
    }
    scatter(&call->outputs[0], index, m, p->n, q);
}

/* c = a b */
static void multiply(int n, const double *a, const double *b, double *c)
{
    memset(c, 0, (size_t)n * (size_t)n * sizeof(*c));
    for (int j = 0; j < n; j++) {
        for (int k = 0; k < n; k++) {
            double factor = b[k + (int64_t)j * n];

            for (int i = 0; i < n; i++) {
                c[i + (int64_t)j * n] += a[i + (int64_t)k * n] * factor;
            }
        }
    }
}

/* Taylor's polynomial of degree 18 of the matrix divided by a power of two until its norm is
 * at most a half, where the rest is below 2^-75; then squared as often. */
static void matrix_exp(const exg_kernel_call *call, const linalg_params *p, int64_t index,
                       double *a)
{
    int n = p->n;
    int64_t square = (int64_t)n * n;
    double *sum = a + square;
    double *next = sum + square;
    double norm = 0;
    int halvings = 0;

    gather(&call->inputs[0], index, n, n, a);
    for (int j = 0; j < n; j++) {
        double column = 0;

        for (int i = 0; i < n; i++) {
            column += fabs(a[i + (int64_t)j * n]);
        }
        norm = column > norm || isnan(column) ? column : norm;
    }
    for (; isfinite(norm) && norm > 0.5; norm /= 2) {
        halvings++;
    }
    for (int64_t i = 0; i < square; i++) {
        a[i] = ldexp(a[i], -halvings);
    }
    set_identity(sum, n);
    for (int k = 18; k > 0; k--) { /* Horner: 1 + a / 1 (1 + a / 2 (1 + ...)) */
        double *done = next;

        multiply(n, a, sum, next);
        for (int64_t i = 0; i < square; i++) {
            next[i] = next[i] / k + (i % (n + 1) == 0);
        }
        next = sum;
        sum = done;
    }
    for (int k = 0; k < halvings; k++) {
        double *done = next;

        multiply(n, sum, sum, next);
        next = sum;
        sum = done;
    }
    scatter(&call->outputs[0], index, n, n, sum);
}

KERNEL(cholesky_factor, true)
KERNEL(lu_factor, true)
KERNEL(ldl_factor, true)
KERNEL(ldl_solve, true)
KERNEL(qr_factor, true)
KERNEL(eigh, true)
KERNEL(eig, true)
KERNEL(svd_factor, true)
KERNEL(solve_triangular, false)
KERNEL(householder, false)
KERNEL(matrix_exp, false)

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
                exg_raise(call, EXG_FAULT_INDEX);
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
};
