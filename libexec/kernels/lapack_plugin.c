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

static int fitting(int64_t count)
{
    return count > INT32_MAX ? INT32_MAX : (int)count;
}

static int numbers_of(int m, int n)
{
    return fitting(exg_lapack_numbers(m, n));
}

/* ---- real and complex alike ----------------------------------------------------------- */

#define ALIKE(t, type)                                                                             \
    static int t##_cholesky(int n, bool upper, double *a)                                          \
    {                                                                                              \
        return LAPACKE_##t##potrf_work(COLUMNS, upper ? 'U' : 'L', n, (type *)a, at_least_1(n));   \
    }                                                                                              \
                                                                                                   \
    static int t##_lu(int m, int n, double *a, int32_t *pivots)                                    \
    {                                                                                              \
        return LAPACKE_##t##getrf_work(COLUMNS, m, n, (type *)a, at_least_1(m), pivots);           \
    }                                                                                              \
                                                                                                   \
    static int t##_qr(int m, int n, double *a, double *tau, double *work)                          \
    {                                                                                              \
        return LAPACKE_##t##geqrf_work(COLUMNS, m, n, (type *)a, at_least_1(m), (type *)tau,       \
                                       (type *)work, numbers_of(m, n));                            \
    }

ALIKE(d, double)
ALIKE(z, lapack_complex_double)

#define LDL(t, kind, type)                                                                         \
    static int t##kind(int n, double *a, int32_t *pivots, double *work)                            \
    {                                                                                              \
        return LAPACKE_##t##kind##trf_work(COLUMNS, 'L', n, (type *)a, at_least_1(n), pivots,      \
                                           (type *)work, 64 * n + 64);                             \
    }                                                                                              \
                                                                                                   \
    static int t##kind##_solve(int n, int count, const double *a, const int32_t *pivots,           \
                               double *b)                                                          \
    {                                                                                              \
        return LAPACKE_##t##kind##trs_work(COLUMNS, 'L', n, count, (const type *)a, at_least_1(n), \
                                           pivots, (type *)b, at_least_1(n));                      \
    }

LDL(d, sy, double)
LDL(z, sy, lapack_complex_double)
LDL(z, he, lapack_complex_double)

/* ---- real ------------------------------------------------------------------------------ */

static int d_ldl(int n, bool hermitian, double *a, int32_t *pivots, double *work)
{
    (void)hermitian;
    return dsy(n, a, pivots, work);
}

static int d_ldl_solve(int n, int count, bool hermitian, const double *a, const int32_t *pivots,
                       double *b)
{
    (void)hermitian;
    return dsy_solve(n, count, a, pivots, b);
}

static int d_eigh(int n, bool upper, bool vectors, double *a, double *values, double *work,
                  int32_t *ints)
{
    return LAPACKE_dsyevd_work(COLUMNS, vectors ? 'V' : 'N', upper ? 'U' : 'L', n, a, at_least_1(n),
                               values, work, numbers_of(n, n), ints,
                               (int)exg_lapack_int_work(n, n));
}

/* LAPACK's v holds the real, then the imaginary part of a pair of conjugates. */
static void unpack(int n, const double *v, const double *imaginary, double *vectors)
{
    for (int j = 0; j < n; j++) {
        bool paired = imaginary[j] != 0 && j + 1 < n;
        const double *re = v + (int64_t)j * n;
        double *first = vectors + 2 * (int64_t)j * n;
        double *second = first + 2 * (int64_t)n;

        for (int i = 0; i < n; i++) {
            first[2 * i] = re[i];
            first[2 * i + 1] = paired ? re[n + i] : 0;
            if (paired) {
                second[2 * i] = re[i];
                second[2 * i + 1] = -re[n + i];
            }
        }
        j += paired;
    }
}

static int d_eig(int n, double *a, double *values, double *vectors, double *work)
{
    double *v = work;
    double *real = v + (int64_t)n * n;
    double *imaginary = real + n;
    double *rest = imaginary + n;
    int info =
        LAPACKE_dgeev_work(COLUMNS, 'N', 'V', n, a, at_least_1(n), real, imaginary, NULL, 1, v,
                           at_least_1(n), rest, fitting(work + exg_lapack_numbers(n, n) - rest));

    for (int i = 0; i < n; i++) {
        values[2 * i] = real[i];
        values[2 * i + 1] = imaginary[i];
    }
    unpack(n, v, imaginary, vectors);
    return info;
}

static int d_svd(int m, int n, bool full, double *a, double *s, double *u, double *vh, double *work,
                 int32_t *ints)
{
    int rows = full ? n : m < n ? m : n;

    return LAPACKE_dgesdd_work(COLUMNS, full ? 'A' : 'S', m, n, a, at_least_1(m), s, u,
                               at_least_1(m), vh, at_least_1(rows), work, numbers_of(m, n), ints);
}

/* ---- complex --------------------------------------------------------------------------- */

#define Z(numbers) ((lapack_complex_double *)(numbers))

/* After the complex work. */
static double *real_work(double *work, int m, int n)
{
    return work + 2 * exg_lapack_numbers(m, n);
}

static int z_ldl(int n, bool hermitian, double *a, int32_t *pivots, double *work)
{
    return hermitian ? zhe(n, a, pivots, work) : zsy(n, a, pivots, work);
}

static int z_ldl_solve(int n, int count, bool hermitian, const double *a, const int32_t *pivots,
                       double *b)
{
    return hermitian ? zhe_solve(n, count, a, pivots, b) : zsy_solve(n, count, a, pivots, b);
}

static int z_eigh(int n, bool upper, bool vectors, double *a, double *values, double *work,
                  int32_t *ints)
{
    return LAPACKE_zheevd_work(COLUMNS, vectors ? 'V' : 'N', upper ? 'U' : 'L', n, Z(a),
                               at_least_1(n), values, Z(work), numbers_of(n, n),
                               real_work(work, n, n), numbers_of(n, n), ints,
                               (int)exg_lapack_int_work(n, n));
}

static int z_eig(int n, double *a, double *values, double *vectors, double *work)
{
    return LAPACKE_zgeev_work(COLUMNS, 'N', 'V', n, Z(a), at_least_1(n), Z(values), NULL, 1,
                              Z(vectors), at_least_1(n), Z(work), numbers_of(n, n),
                              real_work(work, n, n));
}

static int z_svd(int m, int n, bool full, double *a, double *s, double *u, double *vh, double *work,
                 int32_t *ints)
{
    int rows = full ? n : m < n ? m : n;

    return LAPACKE_zgesdd_work(COLUMNS, full ? 'A' : 'S', m, n, Z(a), at_least_1(m), s, Z(u),
                               at_least_1(m), Z(vh), at_least_1(rows), Z(work), numbers_of(m, n),
                               real_work(work, m, n), ints);
}

extern const exg_lapack_table exg_lapack_tables;

#define KIND(t)                                                                                    \
    {                                                                                              \
        .cholesky = t##_cholesky, .lu = t##_lu, .qr = t##_qr, .ldl = t##_ldl,                      \
        .ldl_solve = t##_ldl_solve, .eigh = t##_eigh, .eig = t##_eig, .svd = t##_svd               \
    }

__attribute__((visibility("default"))) const exg_lapack_table exg_lapack_tables = {
    .version = EXG_LAPACK_VERSION,
    .of_real = KIND(d),
    .of_complex = KIND(z),
};
