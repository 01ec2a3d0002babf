/* linalg_values.c - lowerings of what is made of eigenvalues and singular values, and exponentials
 * of matrices. */
#include "libexport/decompositions/linalg.h"

#include "libexport/decompositions/complex.h"

#include <math.h>

#define EXG_ROWS "libexport/operators/collective.def"
#include "libexport/operators/rows.h"
#define EXG_ROWS "libexport/operators/linalg.def"
#include "libexport/operators/rows.h"

#define SELF   exg_get_ref(&args[0])
#define OUT(x) exg_arg_ref(x)

/* ---- eigenvalues
 * ------------------------------------------------------------------------------------ */

static bool is_upper(const exg_argument *word)
{
    return word->kind == EXG_ARGUMENT_STRING && (word->as_string[0] | 32) == 'u';
}

/* (A, UPLO, compute_v) */
void exg_lower__linalg_eigh(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    (void)EMIT_ALL(b, eigh, results, args[0], exg_arg_bool(is_upper(&args[1])));
    if (!exg_get_bool(&args[2])) {
        results[1] = OUT(exg_linalg_nothing(b, exg_lower_dtype(b, SELF)));
    }
}

void exg_lower_linalg_eigh(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    (void)EMIT_ALL(b, eigh, results, args[0], exg_arg_bool(is_upper(&args[1])));
}

void exg_lower_linalg_eigvalsh(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = OUT(EMIT(b, eigh, args[0], exg_arg_bool(is_upper(&args[1]))));
}

void exg_lower_linalg_eig(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    (void)EMIT_ALL(b, eig, results, args[0]);
}

void exg_lower_linalg_eigvals(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = OUT(EMIT(b, eig, args[0]));
}

/* ---- singular values
 * ---------------------------------------------------------------------------------- */

typedef struct svd {
    exg_ref u, s, vh;
} svd;

static svd decomposed(exg_builder *b, exg_ref a, bool full)
{
    exg_argument parts[3];

    (void)EMIT_ALL(b, svd_factor, parts, a, exg_arg_bool(full));
    return (svd){exg_get_ref(&parts[0]), exg_get_ref(&parts[1]), exg_get_ref(&parts[2])};
}

/* (A, full_matrices, compute_uv, driver) */
void exg_lower__linalg_svd(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    svd f = decomposed(b, SELF, exg_get_bool(&args[1]));
    bool all = exg_get_bool(&args[2]);
    exg_ref none = all ? EXG_NO_REF : exg_linalg_nothing(b, exg_lower_dtype(b, SELF));

    results[0] = OUT(all ? f.u : none);
    results[1] = OUT(f.s);
    results[2] = OUT(all ? f.vh : none);
}

void exg_lower_linalg_svd(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    svd f = decomposed(b, SELF, exg_get_bool(&args[1]));

    results[0] = OUT(f.u);
    results[1] = OUT(f.s);
    results[2] = OUT(f.vh);
}

/* (self, some, compute_uv) -> U, S, V */
void exg_lower_svd(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    bool all = exg_get_bool(&args[2]);
    svd f = decomposed(b, SELF, !all || !exg_get_bool(&args[1]));
    exg_ref v = exg_linalg_adjoint(b, f.vh);

    results[0] = OUT(all ? f.u : EMIT(b, zeros_like_default, f.u));
    results[1] = OUT(f.s);
    results[2] = OUT(all ? v : EMIT(b, zeros_like_default, v));
}

void exg_lower_linalg_svdvals(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = OUT(decomposed(b, SELF, false).s);
}

exg_ref exg_lower_singular_values(exg_builder *b, exg_ref x, int64_t dim0, int64_t dim1)
{
    int64_t dims[EXG_SHAPE_RANK_MAX];
    uint32_t rank = exg_lower_dims(b, x).rank;
    uint32_t first = exg_lower_dim(b, dim0, rank);
    uint32_t second = exg_lower_dim(b, dim1, rank);
    uint32_t count = 0;

    for (uint32_t d = 0; d < rank; d++) {
        if (d != first && d != second) {
            dims[count++] = d;
        }
    }
    dims[count++] = first;
    dims[count++] = second;
    return decomposed(b, EMIT(b, permute_default, x, INTS_OF(b, dims, count)), false).s;
}

/* What is above atol and rtol times the greatest; by default eps times the longer side. */
typedef struct tolerance {
    exg_argument atol, rtol; /* None, a number or a tensor */
} tolerance;

static exg_ref as_tensor(exg_builder *b, const exg_argument *x, exg_dtype dtype)
{
    return x->kind == EXG_ARGUMENT_TENSOR
               ? EMIT(b, unsqueeze_default, exg_lower_cast(b, exg_get_ref(x), dtype), -1)
               : exg_lower_number(b, exg_is_none(x) ? 0 : exg_get_float(x), dtype);
}

/* Which of the values, whose magnitudes are `sizes`, count. */
static exg_ref counting(exg_builder *b, exg_ref a, exg_ref sizes, tolerance by)
{
    exg_dtype dtype = exg_lower_dtype(b, sizes);
    double eps = dtype == EXG_DTYPE_F64 ? 0x1p-52 : 0x1p-23;
    int64_t longer = exg_linalg_rows(b, a) > exg_linalg_columns(b, a) ? exg_linalg_rows(b, a)
                                                                      : exg_linalg_columns(b, a);
    exg_argument usual = exg_arg_float(eps * (double)longer);
    exg_ref most = EMIT(b, amax_default, sizes, INTS(b, -1), exg_arg_bool(true));
    exg_ref atol = as_tensor(b, &by.atol, dtype);
    exg_ref rtol = as_tensor(b, exg_is_none(&by.rtol) ? &usual : &by.rtol, dtype);

    if (exg_is_none(&by.rtol) && !exg_is_none(&by.atol)) { /* no rtol beside an atol */
        rtol = EMIT(b, where_ScalarSelf, EMIT(b, gt_Scalar, atol, 0), 0., rtol);
    }
    return EMIT(b, gt_Tensor, sizes,
                EMIT(b, maximum_default, atol, EMIT(b, mul_Tensor, rtol, most)));
}

static exg_ref pinv(exg_builder *b, exg_ref a, tolerance by, bool hermitian)
{
    exg_argument parts[2];
    exg_ref left;
    exg_ref values;
    exg_ref right;
    exg_ref counts;

    if (exg_lower_numel(b, a) == 0) {
        return EMIT(b, zeros_like_default, exg_linalg_transposed(b, a));
    }
    if (hermitian) {
        (void)EMIT_ALL(b, eigh, parts, a, exg_arg_bool(false));
        values = exg_get_ref(&parts[0]);
        left = exg_get_ref(&parts[1]);
        right = exg_linalg_adjoint(b, left);
    } else {
        svd f = decomposed(b, a, false);

        values = f.s;
        left = exg_linalg_adjoint(b, f.vh);
        right = exg_linalg_adjoint(b, f.u);
    }
    counts = counting(b, a, EMIT(b, abs_default, values), by);
    values = EMIT(b, where_ScalarOther, counts, EMIT(b, reciprocal_default, values), 0.);
    return EMIT(b, matmul_default,
                EMIT(b, mul_Tensor, left, EMIT(b, unsqueeze_default, values, -2)), right);
}

/* (self, atol, rtol, hermitian); (self, rcond, hermitian); (self, rcond) */
void exg_lower_linalg_pinv(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = OUT(pinv(b, SELF, (tolerance){args[1], args[2]}, exg_get_bool(&args[3])));
}

void exg_lower_linalg_pinv_rcond(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = OUT(pinv(b, SELF, (tolerance){exg_arg_none(), args[1]}, exg_get_bool(&args[2])));
}

void exg_lower_pinverse(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = OUT(pinv(b, SELF, (tolerance){exg_arg_none(), args[1]}, false));
}

static exg_ref matrix_rank(exg_builder *b, exg_ref a, tolerance by, bool hermitian)
{
    exg_ref sizes = hermitian ? EMIT(b, abs_default, EMIT(b, eigh, a, exg_arg_bool(false)))
                              : decomposed(b, a, false).s;

    if (exg_builder_status(b) == EXG_OK && exg_lower_numel(b, a) == 0) {
        exg_dims dims = exg_lower_dims(b, a);

        dims.rank -= 2; /* it has two: `a` could be decomposed */
        return EMIT(b, zeros_default, INTS_OF(b, dims.n, dims.rank), DTYPE(EXG_DTYPE_I64));
    }
    return EMIT(b, sum_dim_IntList, counting(b, a, sizes, by), INTS(b, -1));
}

void exg_lower_linalg_matrix_rank(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = OUT(matrix_rank(b, SELF, (tolerance){args[1], args[2]}, exg_get_bool(&args[3])));
}

void exg_lower_linalg_matrix_rank_tol(exg_builder *b, const exg_argument *args,
                                      exg_argument *results)
{
    results[0] =
        OUT(matrix_rank(b, SELF, (tolerance){args[1], exg_arg_float(0)}, exg_get_bool(&args[2])));
}

/* ---- norms
 * ------------------------------------------------------------------------------------------------
 */

static exg_ref norm_of(exg_builder *b, exg_ref a, exg_argument p)
{
    return p.kind == EXG_ARGUMENT_STRING ? EMIT(b, linalg_matrix_norm_str_ord, a, p)
                                         : EMIT(b, linalg_norm_default, a, p, INTS(b, -2, -1));
}

/* (self, p): the greatest singular value by the least, or the norm by that of the inverse */
void exg_lower_linalg_cond(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    double p = exg_is_none(&args[1]) ? 2 : exg_get_float(&args[1]);

    if (fabs(p) == 2) {
        exg_ref s = decomposed(b, SELF, false).s;
        exg_ref most = EMIT(b, select_int, s, -1, 0);
        exg_ref low = EMIT(b, select_int, s, -1, -1);

        results[0] = OUT(p > 0 ? EMIT(b, div_Tensor, most, low) : EMIT(b, div_Tensor, low, most));
        return;
    }
    exg_lower_linalg_cond_word(b, args, results);
}

void exg_lower_linalg_cond_word(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref other = norm_of(b, exg_linalg_inverse(b, SELF), args[1]);

    results[0] = OUT(EMIT(b, mul_Tensor, norm_of(b, SELF, args[1]), other));
}

void exg_lower_nuclear_norm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = OUT(
        EMIT(b, linalg_matrix_norm_str_ord, SELF, exg_arg_string("nuc"), INTS(b, -2, -1), args[1]));
}

void exg_lower_nuclear_norm_dim(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] =
        OUT(EMIT(b, linalg_matrix_norm_str_ord, SELF, exg_arg_string("nuc"), args[1], args[2]));
}

/* (self, ord, dim, keepdim, dtype) */
void exg_lower_linalg_matrix_norm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = OUT(EMIT(b, linalg_norm_default, args[0], args[1], args[2], args[3], args[4]));
}

/* (self, ord: "fro" or "nuc", dim, keepdim, dtype) */
void exg_lower_linalg_matrix_norm_word(exg_builder *b, const exg_argument *args,
                                       exg_argument *results)
{
    exg_dtype dtype = exg_dtype_argument(&args[4], exg_lower_dtype(b, SELF));
    exg_dtype real = exg_real_of(dtype);
    int64_t dims[2] = {-2, -1};
    exg_ref x;

    if (args[1].kind != EXG_ARGUMENT_STRING || args[1].as_string[0] == 'f') {
        results[0] = OUT(EMIT(b, linalg_vector_norm_default, SELF, 2.0, args[2], args[3], args[4]));
        return;
    }
    (void)exg_get_ints(&args[2], dims, 2);
    x = exg_lower_singular_values(b, exg_lower_wide(b, exg_lower_cast(b, SELF, dtype)), dims[0],
                                  dims[1]);
    x = EMIT(b, sum_dim_IntList, x, INTS(b, -1));
    results[0] =
        OUT(exg_lower_cast(b, exg_get_bool(&args[3]) ? exg_lower_kept(b, x, SELF, dims) : x, real));
}

/* x with dims of size 1 where `of` had the two. */
exg_ref exg_lower_kept(exg_builder *b, exg_ref x, exg_ref of, const int64_t dims[2])
{
    exg_dims sizes = exg_lower_dims(b, of);

    for (int i = 0; i < 2; i++) {
        sizes.n[exg_lower_dim(b, dims[i], sizes.rank)] = 1;
    }
    return exg_lower_shaped(b, x, &sizes);
}

/* The same, of the last two dims when none are given. */
void exg_lower_linalg_norm_word(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = OUT(EMIT(b, linalg_matrix_norm_str_ord, args[0], args[1],
                          exg_is_none(&args[2]) ? INTS(b, -2, -1) : args[2], args[3], args[4]));
}

/* Of square matrices. */
exg_status exg_shape_matrix_exp(exg_shape_call *call, exg_error *err)
{
    exg_dims dims;

    EXG_TRY(exg_linalg_matrix(call, 0, true, &dims, err));
    return exg_shape_same(call, err);
}

/* Narrow floats by way of float32. */
void exg_lower_matrix_exp(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = OUT(
        exg_lower_cast(b, EMIT(b, matrix_exp, exg_lower_wide(b, SELF)), exg_lower_dtype(b, SELF)));
}

exg_status exg_shape_ldl_factor(exg_shape_call *call, exg_error *err)
{
    exg_dims a;

    EXG_TRY(exg_linalg_matrix(call, 0, true, &a, err));
    return exg_shape_lu_factor(call, err);
}
