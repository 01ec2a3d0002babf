/* lapack.h - the door to LAPACK: factorisations of matrices of double or of pairs of double
 * (complex numbers), columns dense, one thread, memory brought by the caller. Each gives
 * LAPACK's info: 0, or what went wrong. They are in a library of their own
 * (libexg_lapack.so), which is loaded when asked for.
 */
#ifndef EXG_LIBEXEC_KERNELS_LAPACK_H
#define EXG_LIBEXEC_KERNELS_LAPACK_H

#include <stdbool.h>
#include <stdint.h>

#define EXG_LAPACK_VERSION 3
#define EXG_LAPACK_FILE    "libexg_lapack.so"
#define EXG_LAPACK_SYMBOL  "exg_lapack_tables"

/* Of real matrices, or of complex ones: `double *` is of pairs then, but where it says real. */
typedef struct exg_lapack {
    int (*cholesky)(int n, bool upper, double *a);
    int (*lu)(int m, int n, double *a, int32_t *pivots);
    int (*qr)(int m, int n, double *a, double *tau, double *work);
    int (*ldl)(int n, bool hermitian, double *a, int32_t *pivots, double *work);
    int (*ldl_solve)(int n, int count, bool hermitian, const double *a, const int32_t *pivots,
                     double *b);
    /* Eigenvalues ascending, real; a becomes the eigenvectors, where they are wanted. */
    int (*eigh)(int n, bool upper, bool vectors, double *a, double *values, double *work,
                int32_t *ints);
    /* Values and vectors are complex always. */
    int (*eig)(int n, double *a, double *values, double *vectors, double *work);
    /* s is real. */
    int (*svd)(int m, int n, bool full, double *a, double *s, double *u, double *vh, double *work,
               int32_t *ints);
} exg_lapack;

typedef struct exg_lapack_table {
    uint32_t version;
    exg_lapack of_real;
    exg_lapack of_complex;
} exg_lapack_table;

/* NULL when the library is not there, or of another version. */
const exg_lapack *exg_lapack_load(bool is_complex);

/* Numbers of work that any of these needs for (m, n); doubles of it, where complex numbers
 * have real work after their own; int32s, which come last. */
static inline int64_t exg_lapack_numbers(int64_t m, int64_t n)
{
    int64_t least = m < n ? m : n;

    return 64 * (m + n) + 4 * least * least + 7 * least + 2 * n * n + 64;
}

static inline int64_t exg_lapack_work(int64_t m, int64_t n, bool is_complex)
{
    int64_t numbers = exg_lapack_numbers(m, n);

    return is_complex ? 3 * numbers + 2 * m * n : numbers;
}

static inline int64_t exg_lapack_int_work(int64_t m, int64_t n)
{
    return 8 * (m + n) + 64;
}

#endif
