/* lapack.h - the door to LAPACK: factorisations of matrices of double, columns dense, one
 * thread, memory brought by the caller. Each gives LAPACK's info: 0, or what went wrong.
 * They lie in a library of their own (libexg_lapack.so), which is loaded when asked for.
 */
#ifndef EXG_LIBEXEC_KERNELS_LAPACK_H
#define EXG_LIBEXEC_KERNELS_LAPACK_H

#include <stdbool.h>
#include <stdint.h>

#define EXG_LAPACK_VERSION 1
#define EXG_LAPACK_FILE    "libexg_lapack.so"
#define EXG_LAPACK_SYMBOL  "exg_lapack_table"

typedef struct exg_lapack {
    uint32_t version;
    int (*cholesky)(int n, bool upper, double *a);
    int (*lu)(int m, int n, double *a, int32_t *pivots);
    int (*qr)(int m, int n, double *a, double *tau, double *work);
    int (*ldl)(int n, double *a, int32_t *pivots, double *work);
    int (*ldl_solve)(int n, int count, const double *a, const int32_t *pivots, double *b);
    /* Eigenvalues ascending; a becomes the eigenvectors. */
    int (*eigh)(int n, bool upper, double *a, double *values, double *work, int32_t *ints);
    /* Of pairs of conjugate eigenvalues v holds the real, then the imaginary part. */
    int (*eig)(int n, double *a, double *real, double *imaginary, double *v, double *work);
    int (*svd)(int m, int n, bool full, double *a, double *s, double *u, double *vh, double *work,
               int32_t *ints);
} exg_lapack;

/* NULL when the library is not there, or of another version. */
const exg_lapack *exg_lapack_load(void);

/* Doubles, and after them int32s, of work that any of these needs for (m, n). */
static inline int64_t exg_lapack_work(int64_t m, int64_t n)
{
    int64_t least = m < n ? m : n;

    return 64 * (m + n) + 4 * least * least + 7 * least + 2 * n * n + 64;
}

static inline int64_t exg_lapack_int_work(int64_t m, int64_t n)
{
    return 8 * (m + n) + 64;
}

#endif
