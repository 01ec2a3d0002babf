/* linalg.c - shapes of linalg.def; lowerings of what is made of triangles: Cholesky, LU, QR,
 * solving, inverses, determinants. */
#include "libexport/decompositions/linalg.h"

#include "libexport/decompositions/complex.h"

#include <math.h>
#include <string.h>

#define EXG_ROWS "libexport/operators/linalg.def"
#include "libexport/operators/rows.h"

#define SELF   exg_get_ref(&args[0])
#define REF(i) exg_get_ref(&args[i])
#define OUT(x) exg_arg_ref(x)

/* ---- shapes --------------------------------------------------------------------------- */

exg_status exg_linalg_matrix(exg_shape_call *call, uint32_t position, bool is_square,
                             exg_dims *dims, exg_error *err)
{
    EXG_TRY(exg_dims_of(exg_shape_input(call, position), dims, err));
    if (dims->rank < 2) {
        return EXG_SHAPE_FAIL(err, "%s of a tensor of rank %u", call->op->schema->name, dims->rank);
    }
    if (is_square && EXG_END(*dims, 1) != EXG_END(*dims, 2)) {
        return EXG_SHAPE_FAIL(err, "%s of matrices that are not square", call->op->schema->name);
    }
    return EXG_OK;
}

static int64_t least(const exg_dims *matrix)
{
    int64_t m = EXG_END(*matrix, 2);
    int64_t n = EXG_END(*matrix, 1);

    return m < n ? m : n;
}

/* The batch alone; the batch and a vector of n. */
static exg_dims batch_of(const exg_dims *matrix)
{
    exg_dims dims = *matrix;

    dims.rank -= 2;
    return dims;
}

static exg_dims vectors_of(const exg_dims *matrix, int64_t n)
{
    exg_dims dims = *matrix;

    dims.rank -= 1;
    EXG_END(dims, 1) = n;
    return dims;
}

static exg_dims matrices_of(const exg_dims *matrix, int64_t m, int64_t n)
{
    exg_dims dims = *matrix;

    EXG_END(dims, 2) = m;
    EXG_END(dims, 1) = n;
    return dims;
}

exg_status exg_shape_cholesky_factor(exg_shape_call *call, exg_error *err)
{
    exg_dims a;
    exg_dims batch;

    EXG_TRY(exg_linalg_matrix(call, 0, true, &a, err));
    batch = batch_of(&a);
    EXG_TRY(exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &a, err));
    return exg_shape_result(call, 1, EXG_DTYPE_I32, &batch, err);
}

exg_status exg_shape_lu_factor(exg_shape_call *call, exg_error *err)
{
    exg_dims a;
    exg_dims pivots;
    exg_dims batch;

    EXG_TRY(exg_linalg_matrix(call, 0, false, &a, err));
    pivots = vectors_of(&a, least(&a));
    batch = batch_of(&a);
    EXG_TRY(exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &a, err));
    EXG_TRY(exg_shape_result(call, 1, EXG_DTYPE_I32, &pivots, err));
    return exg_shape_result(call, 2, EXG_DTYPE_I32, &batch, err);
}

exg_status exg_shape_qr_factor(exg_shape_call *call, exg_error *err)
{
    exg_dtype dtype = exg_shape_input(call, 0)->dtype;
    exg_dims a;
    exg_dims tau;

    EXG_TRY(exg_linalg_matrix(call, 0, false, &a, err));
    tau = vectors_of(&a, least(&a));
    EXG_TRY(exg_shape_result(call, 0, dtype, &a, err));
    return exg_shape_result(call, 1, dtype, &tau, err);
}

/* Eigenvalues, and eigenvectors as columns. */
static exg_status eigen(exg_shape_call *call, exg_dtype of_values, exg_dtype of_vectors,
                        exg_error *err)
{
    exg_dims a;
    exg_dims values;

    EXG_TRY(exg_linalg_matrix(call, 0, true, &a, err));
    values = vectors_of(&a, least(&a));
    EXG_TRY(exg_shape_result(call, 0, of_values, &values, err));
    return exg_shape_result(call, 1, of_vectors, &a, err);
}

exg_status exg_shape_eigh(exg_shape_call *call, exg_error *err)
{
    exg_dtype dtype = exg_shape_input(call, 0)->dtype;

    return eigen(call, exg_real_of(dtype), dtype, err);
}

exg_status exg_shape_eig(exg_shape_call *call, exg_error *err)
{
    exg_dtype dtype = exg_complex_of(exg_shape_input(call, 0)->dtype);

    return eigen(call, dtype, dtype, err);
}

exg_status exg_shape_svd_factor(exg_shape_call *call, exg_error *err)
{
    exg_dtype dtype = exg_shape_input(call, 0)->dtype;
    bool full = exg_get_bool(&call->args[1]);
    exg_dims a;
    exg_dims u;
    exg_dims s;
    exg_dims vh;
    int64_t m;
    int64_t n;

    EXG_TRY(exg_linalg_matrix(call, 0, false, &a, err));
    m = EXG_END(a, 2);
    n = EXG_END(a, 1);
    u = matrices_of(&a, m, full ? m : least(&a));
    s = vectors_of(&a, least(&a));
    vh = matrices_of(&a, full ? n : least(&a), n);
    EXG_TRY(exg_shape_result(call, 0, dtype, &u, err));
    EXG_TRY(exg_shape_result(call, 1, exg_real_of(dtype), &s, err));
    return exg_shape_result(call, 2, dtype, &vh, err);
}

/* As the last tensor argument, a right hand side of square matrices with its batch. */
exg_status exg_shape_like_last(exg_shape_call *call, exg_error *err)
{
    uint32_t last = 0;
    exg_dims a;
    exg_dims x;

    for (uint32_t i = 0; i < call->op->schema->argument_count; i++) {
        last = call->args[i].kind == EXG_ARGUMENT_TENSOR ? i : last;
    }
    EXG_TRY(exg_linalg_matrix(call, 0, true, &a, err));
    EXG_TRY(exg_linalg_matrix(call, last, false, &x, err));
    if (a.rank != x.rank || memcmp(a.n, x.n, (a.rank - 1) * sizeof(a.n[0])) != 0) {
        return EXG_SHAPE_FAIL(err, "a right hand side of other sizes than the matrix");
    }
    return exg_shape_result(call, 0, exg_shape_input(call, last)->dtype, &x, err);
}

static bool are_vectors_of(const exg_dims *vectors, const exg_dims *matrix)
{
    return vectors->rank + 1 == matrix->rank &&
           memcmp(vectors->n, matrix->n, (vectors->rank - 1) * sizeof(vectors->n[0])) == 0;
}

/* (LD, pivots, B, hermitian) */
exg_status exg_shape_ldl_solve(exg_shape_call *call, exg_error *err)
{
    exg_dims a;
    exg_dims pivots;

    EXG_TRY(exg_linalg_matrix(call, 0, true, &a, err));
    EXG_TRY(exg_dims_of(exg_shape_input(call, 1), &pivots, err));
    if (exg_shape_input(call, 1)->dtype != EXG_DTYPE_I32 || !are_vectors_of(&pivots, &a) ||
        EXG_END(pivots, 1) != least(&a)) {
        return EXG_SHAPE_FAIL(err, "pivots that are not int32, one for each column");
    }
    return exg_shape_like_last(call, err);
}

/* (self, tau) */
exg_status exg_shape_householder(exg_shape_call *call, exg_error *err)
{
    exg_dims a;
    exg_dims tau;

    EXG_TRY(exg_linalg_matrix(call, 0, false, &a, err));
    EXG_TRY(exg_dims_of(exg_shape_input(call, 1), &tau, err));
    if (!are_vectors_of(&tau, &a) || EXG_END(tau, 1) > EXG_END(a, 1)) {
        return EXG_SHAPE_FAIL(err, "more factors than columns");
    }
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &a, err);
}

exg_status exg_shape_pivots_order(exg_shape_call *call, exg_error *err)
{
    exg_dims out;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &out, err));
    if (out.rank < 1 || EXG_END(out, 1) > exg_get_int(&call->args[1])) {
        return EXG_SHAPE_FAIL(err, "more pivots than rows");
    }
    EXG_END(out, 1) = exg_get_int(&call->args[1]);
    return exg_shape_result(call, 0, EXG_DTYPE_I64, &out, err);
}

/* ---- parts ---------------------------------------------------------------------------- */

int64_t exg_linalg_rows(const exg_builder *b, exg_ref x)
{
    exg_dims dims = exg_lower_dims(b, x);

    return dims.rank < 2 ? 0 : EXG_END(dims, 2);
}

int64_t exg_linalg_columns(const exg_builder *b, exg_ref x)
{
    exg_dims dims = exg_lower_dims(b, x);

    return dims.rank < 2 ? 0 : EXG_END(dims, 1);
}

exg_ref exg_linalg_transposed(exg_builder *b, exg_ref x)
{
    return EMIT(b, transpose_int, x, -2, -1);
}

exg_ref exg_linalg_adjoint(exg_builder *b, exg_ref x)
{
    return exg_dtype_is_complex(exg_lower_dtype(b, x)) ? EMIT(b, mH_default, x)
                                                       : exg_linalg_transposed(b, x);
}

static exg_ref last_to(exg_builder *b, exg_ref x, int64_t dim_from_end, int64_t count)
{
    uint32_t rank = exg_lower_dims(b, x).rank;

    return rank < 2 ? x : exg_lower_slice(b, x, rank - (uint32_t)dim_from_end, 0, count);
}

/* One identity that broadcasts. */
static exg_ref identity(exg_builder *b, int64_t m, int64_t n, exg_dtype dtype)
{
    return EMIT(b, eye_m, exg_arg_int(m), exg_arg_int(n), DTYPE(dtype));
}

static exg_ref expanded(exg_builder *b, exg_ref x, const exg_dims *batch)
{
    exg_dims dims = exg_lower_dims(b, x);
    exg_dims wanted = *batch;

    if (dims.rank < 2) {
        exg_lower_refuse(b, "a matrix of rank below 2");
        return EXG_NO_REF;
    }
    wanted.n[wanted.rank++] = EXG_END(dims, 2);
    wanted.n[wanted.rank++] = EXG_END(dims, 1);
    return EMIT(b, expand_default, x, INTS_OF(b, wanted.n, wanted.rank));
}

/* Both with the batch dims of both. */
static void meet(exg_builder *b, exg_ref *x, exg_ref *y)
{
    exg_dims dx = exg_lower_dims(b, *x);
    exg_dims dy = exg_lower_dims(b, *y);
    exg_dims batch;
    exg_error err;

    if (dx.rank < 2 || dy.rank < 2) {
        exg_lower_refuse(b, "a matrix of rank below 2");
        return;
    }
    dx = batch_of(&dx);
    dy = batch_of(&dy);
    if (exg_broadcast(&dx, &dy, &batch, &err) != EXG_OK) {
        exg_builder_fail(b, &err);
        return;
    }
    *x = expanded(b, *x, &batch);
    *y = expanded(b, *y, &batch);
}

static exg_ref triangular(exg_builder *b, exg_ref a, exg_ref x, bool upper, bool unit)
{
    meet(b, &a, &x);
    return EMIT(b, solve_triangular, a, x, exg_arg_bool(upper), exg_arg_bool(unit));
}

/* Rows of x in an order (batch, rows). */
static exg_ref ordered(exg_builder *b, exg_ref x, exg_ref order)
{
    exg_dims dims = exg_lower_dims(b, x);
    exg_ref index = EMIT(b, unsqueeze_default, order, -1);

    return EMIT(b, gather_default, x, -2,
                EMIT(b, expand_default, index, INTS_OF(b, dims.n, dims.rank)));
}

/* ---- Cholesky -------------------------------------------------------------------------- */

void exg_lower_linalg_cholesky_ex(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    (void)EMIT_ALL(b, cholesky_factor, results, args[0], args[1], args[2]);
}

void exg_lower_linalg_cholesky(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = OUT(EMIT(b, cholesky_factor, args[0], args[1], exg_arg_bool(true)));
}

/* A = L L' : of x, L' L in the upper case */
static exg_ref cholesky_solved(exg_builder *b, exg_ref x, exg_ref factor, bool upper)
{
    exg_ref lower = upper ? exg_linalg_adjoint(b, factor) : factor;

    return triangular(b, exg_linalg_adjoint(b, lower), triangular(b, lower, x, false, false), true,
                      false);
}

void exg_lower_cholesky_solve(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = OUT(cholesky_solved(b, SELF, REF(1), exg_get_bool(&args[2])));
}

void exg_lower_cholesky_inverse(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t n = exg_linalg_rows(b, SELF);

    results[0] = OUT(cholesky_solved(b, identity(b, n, n, exg_lower_dtype(b, SELF)), SELF,
                                     exg_get_bool(&args[1])));
}

/* ---- LU, LDL ----------------------------------------------------------------------------- */

typedef struct lu {
    exg_ref factors, pivots, info;
} lu;

static lu factored(exg_builder *b, exg_ref a, bool check)
{
    exg_argument parts[3];

    (void)EMIT_ALL(b, lu_factor, parts, a, exg_arg_bool(check));
    return (lu){exg_get_ref(&parts[0]), exg_get_ref(&parts[1]), exg_get_ref(&parts[2])};
}

static void need_pivoting(exg_builder *b, const exg_argument *pivot)
{
    if (!exg_get_bool(pivot)) {
        exg_lower_refuse(b, "LU without pivoting, which PyTorch has on CUDA alone");
    }
}

/* (A, pivot, check_errors) */
void exg_lower_linalg_lu_factor_ex(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    need_pivoting(b, &args[1]);
    (void)EMIT_ALL(b, lu_factor, results, args[0], args[2]);
}

void exg_lower_linalg_lu_factor(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    lu f = factored(b, SELF, true);

    need_pivoting(b, &args[1]);
    results[0] = OUT(f.factors);
    results[1] = OUT(f.pivots);
}

static void unpack(exg_builder *b, exg_ref factors, exg_argument *results)
{
    int64_t m = exg_linalg_rows(b, factors);
    int64_t n = exg_linalg_columns(b, factors);
    int64_t k = m < n ? m : n;
    exg_ref l = EMIT(b, tril_default, last_to(b, factors, 1, k), -1);

    results[1] = OUT(EMIT(b, add_Tensor, l, identity(b, m, k, exg_lower_dtype(b, factors))));
    results[2] = OUT(EMIT(b, triu_default, last_to(b, factors, 2, k)));
}

/* P with A = P L U: column i has its one in row order[i]. */
static exg_ref permutation(exg_builder *b, exg_ref order, int64_t m, exg_dtype dtype)
{
    exg_ref rows = exg_lower_along(b, EMIT(b, arange_default, exg_arg_int(m)), 0, 2);
    exg_ref ones = EMIT(b, eq_Tensor, EMIT(b, unsqueeze_default, order, -2), rows);

    return exg_lower_cast(b, ones, dtype);
}

exg_ref exg_linalg_nothing(exg_builder *b, exg_dtype dtype)
{
    return EMIT(b, zeros_default, INTS(b, 0), DTYPE(dtype));
}

/* (LU_data, LU_pivots, unpack_data, unpack_pivots) */
void exg_lower_lu_unpack(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, SELF);
    int64_t m = exg_linalg_rows(b, SELF);

    results[0] = results[1] = results[2] = OUT(exg_linalg_nothing(b, dtype));
    if (exg_get_bool(&args[2])) {
        unpack(b, SELF, results);
    }
    if (exg_get_bool(&args[3])) {
        results[0] = OUT(permutation(b, EMIT(b, pivots_order, args[1], exg_arg_int(m)), m, dtype));
    }
}

void exg_lower_linalg_lu(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    lu f = factored(b, SELF, false);
    int64_t m = exg_linalg_rows(b, SELF);

    need_pivoting(b, &args[1]);
    unpack(b, f.factors, results);
    results[0] = OUT(permutation(b, EMIT(b, pivots_order, f.pivots, exg_arg_int(m)), m,
                                 exg_lower_dtype(b, SELF)));
}

/* A x = y, or A' x = y, with A = P L U. */
static exg_ref lu_solved(exg_builder *b, exg_ref factors, exg_ref pivots, exg_ref y, bool adjoint)
{
    exg_ref order = EMIT(b, pivots_order, pivots, exg_arg_int(exg_linalg_rows(b, factors)));

    meet(b, &factors, &y);
    if (!adjoint) {
        y = triangular(b, factors, ordered(b, y, order), false, true);
        return triangular(b, factors, y, true, false);
    }
    y = triangular(b, exg_linalg_adjoint(b, factors), y, false, false);
    y = triangular(b, exg_linalg_adjoint(b, factors), y, true, true);
    return ordered(b, y, EMIT(b, argsort_default, order));
}

/* x A = y is A' x' = y'. */
static exg_ref solved_beside(exg_builder *b, lu f, exg_ref y, bool left, bool adjoint)
{
    return left ? lu_solved(b, f.factors, f.pivots, y, adjoint)
                : exg_linalg_adjoint(
                      b, lu_solved(b, f.factors, f.pivots, exg_linalg_adjoint(b, y), !adjoint));
}

/* (LU, pivots, B, left, adjoint); (B, LU, pivots) */
void exg_lower_linalg_lu_solve(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = OUT(solved_beside(b, (lu){REF(0), REF(1), EXG_NO_REF}, REF(2),
                                   exg_get_bool(&args[3]), exg_get_bool(&args[4])));
}

void exg_lower_lu_solve(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = OUT(lu_solved(b, REF(1), REF(2), SELF, false));
}

/* (self, hermitian, check_errors) */
void exg_lower_linalg_ldl_factor_ex(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    (void)EMIT_ALL(b, ldl_factor, results, args[0], args[1], args[2]);
}

void exg_lower_linalg_ldl_factor(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument parts[3];

    (void)EMIT_ALL(b, ldl_factor, parts, args[0], args[1], exg_arg_bool(true));
    results[0] = parts[0];
    results[1] = parts[1];
}

void exg_lower_linalg_ldl_solve(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref factors = SELF;
    exg_ref x = REF(2);
    exg_dims sizes;

    meet(b, &factors, &x);
    sizes = exg_lower_dims(b, factors);
    sizes.rank -= sizes.rank > 0;
    results[0] =
        OUT(EMIT(b, ldl_solve, factors,
                 EMIT(b, expand_default, args[1], INTS_OF(b, sizes.n, sizes.rank)), x, args[3]));
}

/* ---- solving ------------------------------------------------------------------------------- */

/* (A, B, upper, left, unitriangular) */
void exg_lower_linalg_solve_triangular(exg_builder *b, const exg_argument *args,
                                       exg_argument *results)
{
    bool upper = exg_get_bool(&args[2]);
    bool unit = exg_get_bool(&args[4]);
    exg_ref y = exg_lower_cast(b, REF(1), exg_lower_dtype(b, SELF)); /* torch copies it into that */

    results[0] =
        OUT(exg_get_bool(&args[3])
                ? triangular(b, SELF, y, upper, unit)
                : exg_linalg_transposed(b, triangular(b, exg_linalg_transposed(b, SELF),
                                                      exg_linalg_transposed(b, y), !upper, unit)));
}

/* (B, A, upper, transpose, unitriangular) */
void exg_lower_triangular_solve(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    bool upper = exg_get_bool(&args[2]);
    bool turned = exg_get_bool(&args[3]);
    exg_ref x = SELF;
    exg_ref a = REF(1);

    meet(b, &a, &x);
    results[0] = OUT(triangular(b, turned ? exg_linalg_transposed(b, a) : a, x, upper != turned,
                                exg_get_bool(&args[4])));
    results[1] = OUT(EMIT(b, clone_default, a));
}

/* B is a vector for each matrix. */
static bool is_vectors(const exg_builder *b, exg_ref a, exg_ref y)
{
    exg_dims da = exg_lower_dims(b, a);
    exg_dims dy = exg_lower_dims(b, y);

    return dy.rank == 1 ||
           (da.rank == dy.rank + 1 && memcmp(da.n, dy.n, dy.rank * sizeof(dy.n[0])) == 0);
}

static exg_ref solved(exg_builder *b, lu f, exg_ref a, exg_ref y, bool left)
{
    bool vectors = is_vectors(b, a, y);

    y = vectors ? EMIT(b, unsqueeze_default, y, -1) : y;
    y = solved_beside(b, f, y, left || vectors, false);
    return vectors ? EMIT(b, squeeze_dim, y, -1) : y;
}

/* (A, B, left, check_errors) -> result, LU, pivots, info */
void exg_lower__linalg_solve_ex(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    lu f = factored(b, SELF, exg_get_bool(&args[3]));

    results[0] = OUT(solved(b, f, SELF, REF(1), exg_get_bool(&args[2])));
    results[1] = OUT(f.factors);
    results[2] = OUT(f.pivots);
    results[3] = OUT(f.info);
}

void exg_lower_linalg_solve_ex(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    lu f = factored(b, SELF, exg_get_bool(&args[3]));

    results[0] = OUT(solved(b, f, SELF, REF(1), exg_get_bool(&args[2])));
    results[1] = OUT(f.info);
}

void exg_lower_linalg_solve(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = OUT(solved(b, factored(b, SELF, true), SELF, REF(1), exg_get_bool(&args[2])));
}

static exg_ref inverse(exg_builder *b, lu f)
{
    int64_t n = exg_linalg_rows(b, f.factors);

    return lu_solved(b, f.factors, f.pivots, identity(b, n, n, exg_lower_dtype(b, f.factors)),
                     false);
}

exg_ref exg_linalg_inverse(exg_builder *b, exg_ref a)
{
    return inverse(b, factored(b, a, false));
}

void exg_lower_linalg_inv_ex(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    lu f = factored(b, SELF, exg_get_bool(&args[1]));

    results[0] = OUT(inverse(b, f));
    results[1] = OUT(f.info);
}

void exg_lower_linalg_inv(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = OUT(inverse(b, factored(b, SELF, true)));
}

/* ---- determinants --------------------------------------------------------------------------- */

static exg_ref diagonal(exg_builder *b, exg_ref x)
{
    return EMIT(b, diagonal_default, x, 0, -2, -1);
}

/* 1, or -1 where an odd number of rows changed places. */
static exg_ref parity(exg_builder *b, lu f)
{
    exg_ref own = EMIT(b, arange_start, 1, exg_arg_int(exg_linalg_rows(b, f.factors) + 1),
                       DTYPE(EXG_DTYPE_I32));
    exg_ref moved = EMIT(b, sum_dim_IntList, EMIT(b, ne_Tensor, f.pivots, own), INTS(b, -1));
    exg_ref odd = EMIT(b, remainder_Scalar, moved, 2);

    return EMIT(b, rsub_Scalar,
                EMIT(b, mul_Scalar, exg_lower_cast(b, odd, exg_lower_dtype(b, f.factors)), 2.), 1.);
}

static exg_ref determinant(exg_builder *b, lu f)
{
    return EMIT(b, mul_Tensor, EMIT(b, prod_dim_int, diagonal(b, f.factors), -1), parity(b, f));
}

/* What is given beside a determinant, and gradients solve with: of the transpose, where a real
 * matrix lies row by row. */
static lu factored_as_it_lies(exg_builder *b, exg_ref a)
{
    bool turned = exg_lower_is_contiguous(b, a) && !exg_dtype_is_complex(exg_lower_dtype(b, a));

    return factored(b, turned ? exg_linalg_transposed(b, a) : a, false);
}

void exg_lower__linalg_det(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    lu f = factored_as_it_lies(b, SELF);

    results[0] = OUT(determinant(b, f));
    results[1] = OUT(f.factors);
    results[2] = OUT(f.pivots);
}

void exg_lower_linalg_det(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = OUT(determinant(b, factored(b, SELF, false)));
}

void exg_lower__linalg_slogdet(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    lu f = factored_as_it_lies(b, SELF);
    exg_ref d = diagonal(b, f.factors);

    results[0] =
        OUT(EMIT(b, mul_Tensor, EMIT(b, prod_dim_int, EMIT(b, sgn_default, d), -1), parity(b, f)));
    results[1] =
        OUT(EMIT(b, sum_dim_IntList, EMIT(b, log_default, EMIT(b, abs_default, d)), INTS(b, -1)));
    results[2] = OUT(f.factors);
    results[3] = OUT(f.pivots);
}

void exg_lower_linalg_slogdet(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument parts[4];

    exg_lower__linalg_slogdet(b, args, parts);
    memcpy(results, parts, 2 * sizeof(*results));
}

/* Of real matrices with a negative determinant NaN. */
void exg_lower_logdet(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument parts[4];

    exg_lower__linalg_slogdet(b, args, parts);
    results[0] = OUT(
        exg_dtype_is_complex(exg_lower_dtype(b, SELF))
            ? EMIT(b, add_Tensor, EMIT(b, log_default, parts[0]), parts[1])
            : EMIT(b, where_ScalarSelf, EMIT(b, lt_Scalar, parts[0], 0), (double)NAN, parts[1]));
}

/* ---- QR ------------------------------------------------------------------------------------- */

void exg_lower_geqrf(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    (void)EMIT_ALL(b, qr_factor, results, args[0]);
}

void exg_lower_linalg_householder_product(exg_builder *b, const exg_argument *args,
                                          exg_argument *results)
{
    results[0] = OUT(EMIT(b, householder, args[0], args[1]));
}

/* Columns of zeros until a is m wide. */
static exg_ref widened(exg_builder *b, exg_ref a, int64_t m)
{
    return EMIT(b, constant_pad_nd_default, a, INTS(b, 0, m - exg_linalg_columns(b, a)), 0);
}

/* (self, tau, other, left, transpose): Q, whole, times other */
void exg_lower_ormqr(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref q = EMIT(b, householder, widened(b, SELF, exg_linalg_rows(b, SELF)), args[1]);

    q = exg_get_bool(&args[4]) ? exg_linalg_adjoint(b, q) : q;
    results[0] = OUT(exg_get_bool(&args[3]) ? EMIT(b, matmul_default, q, args[2])
                                            : EMIT(b, matmul_default, args[2], q));
}

static void qr(exg_builder *b, exg_ref a, char mode, exg_argument *results)
{
    int64_t m = exg_linalg_rows(b, a);
    int64_t n = exg_linalg_columns(b, a);
    int64_t k = m < n ? m : n;
    exg_argument parts[2];
    exg_ref factors;

    (void)EMIT_ALL(b, qr_factor, parts, a);
    factors = exg_get_ref(&parts[0]);
    results[1] = OUT(EMIT(b, triu_default, mode == 'c' ? factors : last_to(b, factors, 2, k)));
    if (mode == 'r') {
        results[0] = OUT(exg_linalg_nothing(b, exg_lower_dtype(b, a)));
        return;
    }
    factors = last_to(b, factors, 1, k);
    results[0] =
        OUT(EMIT(b, householder, mode == 'c' ? widened(b, factors, m) : factors, parts[1]));
}

/* mode: reduced, complete, r */
void exg_lower_linalg_qr(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const char *mode = args[1].as_string;

    qr(b, SELF, strcmp(mode, "r") == 0 ? 'r' : mode[0] == 'c' ? 'c' : 'd', results);
}

void exg_lower_qr(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    qr(b, SELF, exg_get_bool(&args[1]) ? 'd' : 'c', results);
}

/* ---- tensors as matrices -------------------------------------------------------------------- */

static int64_t product(const int64_t *n, uint32_t count)
{
    int64_t product = 1;

    for (uint32_t i = 0; i < count; i++) {
        product *= n[i];
    }
    return product;
}

void exg_lower_linalg_tensorinv(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims dims = exg_lower_dims(b, SELF);
    int64_t ind = exg_get_int(&args[1]);
    exg_dims out = {.rank = dims.rank};
    int64_t rows;

    if (ind < 1 || ind > dims.rank) {
        exg_lower_refuse(b, "tensorinv with dims outside the tensor");
        return;
    }
    rows = product(dims.n, (uint32_t)ind);
    for (uint32_t d = 0; d < dims.rank; d++) {
        out.n[d] = dims.n[(d + (uint32_t)ind) % dims.rank];
    }
    results[0] = OUT(exg_lower_shaped(
        b, inverse(b, factored(b, EMIT(b, reshape_default, SELF, INTS(b, rows, -1)), true)), &out));
}

/* (self, other, dims): the dims of self that are `dims` go to its end */
void exg_lower_linalg_tensorsolve(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t rank = exg_lower_dims(b, SELF).rank;
    int64_t count = exg_lower_numel(b, REF(1));
    int64_t dims[EXG_SHAPE_RANK_MAX];
    int64_t order[EXG_SHAPE_RANK_MAX];
    uint32_t given = exg_is_none(&args[2]) ? 0 : exg_get_ints(&args[2], dims, EXG_SHAPE_RANK_MAX);
    uint32_t kept = 0;
    exg_ref a = SELF;
    exg_dims sizes;
    exg_dims out = {.rank = 0};

    for (uint32_t d = 0; d < rank; d++) {
        bool moves = false;

        for (uint32_t k = 0; k < given; k++) {
            moves = moves || exg_lower_dim(b, dims[k], rank) == d;
        }
        if (!moves) {
            order[kept++] = d;
        }
    }
    for (uint32_t k = 0; k < given; k++) {
        order[(kept + k) % EXG_SHAPE_RANK_MAX] = exg_lower_dim(b, dims[k], rank);
    }
    a = given == 0 ? a : EMIT(b, permute_default, a, INTS_OF(b, order, rank));
    sizes = exg_lower_dims(b, a);
    for (uint32_t d = exg_lower_dims(b, REF(1)).rank; d < rank; d++) {
        out.n[out.rank++] = sizes.n[d];
    }
    a = EMIT(b, reshape_default, a, INTS(b, count, product(out.n, out.rank)));
    results[0] = OUT(exg_lower_shaped(
        b, solved(b, factored(b, a, true), a, exg_lower_flat(b, REF(1)), true), &out));
}
