/* lapack_plugin.c - the one file that knows LAPACK: a library of its own, loaded when a
 * program has a factorisation, so that others need not load LAPACK either.
 */
#include "libexec/kernels/lapack.h"

#include <lapacke.h>

#define COLUMNS LAPACK_COL_MAJOR

_Static_assert(sizeof(lapack_int) == sizeof(int32_t), "LAPACK with 32-bit integers");

static int at_least_1(int n)
{
    return n > 1 ? n : 1;
}

static int work_of(int m, int n)
{
    int64_t work = exg_lapack_work(m, n);

    return work > INT32_MAX ? INT32_MAX : (int)work;
}

static int cholesky(int n, bool upper, double *a)
{
    return LAPACKE_dpotrf_work(COLUMNS, upper ? 'U' : 'L', n, a, at_least_1(n));
}

static int lu(int m, int n, double *a, int32_t *pivots)
{
    return LAPACKE_dgetrf_work(COLUMNS, m, n, a, at_least_1(m), pivots);
}

static int qr(int m, int n, double *a, double *tau, double *work)
{
    return LAPACKE_dgeqrf_work(COLUMNS, m, n, a, at_least_1(m), tau, work, work_of(m, n));
}

static int ldl(int n, double *a, int32_t *pivots, double *work)
{
    return LAPACKE_dsytrf_work(COLUMNS, 'L', n, a, at_least_1(n), pivots, work, 64 * n + 64);
}

static int ldl_solve(int n, int count, const double *a, const int32_t *pivots, double *b)
{
    return LAPACKE_dsytrs_work(COLUMNS, 'L', n, count, a, at_least_1(n), pivots, b, at_least_1(n));
}

static int eigh(int n, bool upper, double *a, double *values, double *work, int32_t *ints)
{
    return LAPACKE_dsyevd_work(COLUMNS, 'V', upper ? 'U' : 'L', n, a, at_least_1(n), values, work,
                               work_of(n, n), ints, (int)exg_lapack_int_work(n, n));
}

static int eig(int n, double *a, double *real, double *imaginary, double *v, double *work)
{
    return LAPACKE_dgeev_work(COLUMNS, 'N', 'V', n, a, at_least_1(n), real, imaginary, NULL, 1, v,
                              at_least_1(n), work, work_of(n, n));
}

static int svd(int m, int n, bool full, double *a, double *s, double *u, double *vh,
               double *work, int32_t *ints)
{
    int rows = full ? n : m < n ? m : n;

    return LAPACKE_dgesdd_work(COLUMNS, full ? 'A' : 'S', m, n, a, at_least_1(m), s, u,
                               at_least_1(m), vh, at_least_1(rows), work, work_of(m, n), ints);
}

extern const exg_lapack exg_lapack_table;

__attribute__((visibility("default"))) const exg_lapack exg_lapack_table = {
    .version = EXG_LAPACK_VERSION,
    .cholesky = cholesky,
    .lu = lu,
    .qr = qr,
    .ldl = ldl,
    .ldl_solve = ldl_solve,
    .eigh = eigh,
    .eig = eig,
    .svd = svd,
};
