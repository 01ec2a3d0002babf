/* lapack.c - see lapack.h. The one file that knows LAPACK. */
#include "libexec/kernels/lapack.h"

int64_t exg_lapack_work(int64_t m, int64_t n)
{
    int64_t least = m < n ? m : n;

    return 64 * (m + n) + 4 * least * least + 7 * least + 2 * n * n + 64;
}

int64_t exg_lapack_int_work(int64_t m, int64_t n)
{
    return 8 * (m + n) + 64;
}

#ifdef EXG_HAVE_LAPACK

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

bool exg_lapack_is_there(void)
{
    return true;
}

int exg_lapack_cholesky(int n, bool upper, double *a)
{
    return LAPACKE_dpotrf_work(COLUMNS, upper ? 'U' : 'L', n, a, at_least_1(n));
}

int exg_lapack_lu(int m, int n, double *a, int32_t *pivots)
{
    return LAPACKE_dgetrf_work(COLUMNS, m, n, a, at_least_1(m), pivots);
}

int exg_lapack_qr(int m, int n, double *a, double *tau, double *work)
{
    return LAPACKE_dgeqrf_work(COLUMNS, m, n, a, at_least_1(m), tau, work, work_of(m, n));
}

int exg_lapack_ldl(int n, double *a, int32_t *pivots, double *work)
{
    return LAPACKE_dsytrf_work(COLUMNS, 'L', n, a, at_least_1(n), pivots, work, 64 * n + 64);
}

int exg_lapack_ldl_solve(int n, int count, const double *a, const int32_t *pivots, double *b)
{
    return LAPACKE_dsytrs_work(COLUMNS, 'L', n, count, a, at_least_1(n), pivots, b, at_least_1(n));
}

int exg_lapack_eigh(int n, bool upper, double *a, double *values, double *work, int32_t *ints)
{
    return LAPACKE_dsyevd_work(COLUMNS, 'V', upper ? 'U' : 'L', n, a, at_least_1(n), values, work,
                               work_of(n, n), ints, (int)exg_lapack_int_work(n, n));
}

int exg_lapack_eig(int n, double *a, double *real, double *imaginary, double *v, double *work)
{
    return LAPACKE_dgeev_work(COLUMNS, 'N', 'V', n, a, at_least_1(n), real, imaginary, NULL, 1, v,
                              at_least_1(n), work, work_of(n, n));
}

int exg_lapack_svd(int m, int n, bool full, double *a, double *s, double *u, double *vh,
                   double *work, int32_t *ints)
{
    int rows = full ? n : m < n ? m : n;

    return LAPACKE_dgesdd_work(COLUMNS, full ? 'A' : 'S', m, n, a, at_least_1(m), s, u,
                               at_least_1(m), vh, at_least_1(rows), work, work_of(m, n), ints);
}

#else

#define NOT_THERE(name, ...)                                                                       \
    int name(__VA_ARGS__)                                                                          \
    {                                                                                              \
        return -1;                                                                                 \
    }

#pragma GCC diagnostic ignored "-Wunused-parameter"

bool exg_lapack_is_there(void)
{
    return false;
}

NOT_THERE(exg_lapack_cholesky, int n, bool upper, double *a)
NOT_THERE(exg_lapack_lu, int m, int n, double *a, int32_t *pivots)
NOT_THERE(exg_lapack_qr, int m, int n, double *a, double *tau, double *work)
NOT_THERE(exg_lapack_ldl, int n, double *a, int32_t *pivots, double *work)
NOT_THERE(exg_lapack_ldl_solve, int n, int count, const double *a, const int32_t *pivots, double *b)
NOT_THERE(exg_lapack_eigh, int n, bool upper, double *a, double *values, double *work,
          int32_t *ints)
NOT_THERE(exg_lapack_eig, int n, double *a, double *real, double *imaginary, double *v,
          double *work)
NOT_THERE(exg_lapack_svd, int m, int n, bool full, double *a, double *s, double *u, double *vh,
          double *work, int32_t *ints)

#endif
