/* lapack.h - the door to LAPACK: factorisations of matrices of double, columns dense, one
 * thread, memory brought by the caller. Each gives LAPACK's info: 0, or what went wrong.
 * A build without LAPACK has none of them: exg_lapack_is_there() says so.
 */
#ifndef EXG_LIBEXEC_KERNELS_LAPACK_H
#define EXG_LIBEXEC_KERNELS_LAPACK_H

#include <stdbool.h>
#include <stdint.h>

bool exg_lapack_is_there(void);

/* Doubles, and after them int32s, of work that any of these needs for (m, n). */
int64_t exg_lapack_work(int64_t m, int64_t n);
int64_t exg_lapack_int_work(int64_t m, int64_t n);

int exg_lapack_cholesky(int n, bool upper, double *a);
int exg_lapack_lu(int m, int n, double *a, int32_t *pivots);
int exg_lapack_qr(int m, int n, double *a, double *tau, double *work);
int exg_lapack_ldl(int n, double *a, int32_t *pivots, double *work);
int exg_lapack_ldl_solve(int n, int count, const double *a, const int32_t *pivots, double *b);
/* Eigenvalues ascending; a becomes the eigenvectors. */
int exg_lapack_eigh(int n, bool upper, double *a, double *values, double *work, int32_t *ints);
/* Of pairs of conjugate eigenvalues v holds the real, then the imaginary part. */
int exg_lapack_eig(int n, double *a, double *real, double *imaginary, double *v, double *work);
int exg_lapack_svd(int m, int n, bool full, double *a, double *s, double *u, double *vh,
                   double *work, int32_t *ints);

#endif
