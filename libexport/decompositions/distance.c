/* distance.c - lowerings and shapes of statistics.def: between all rows of two matrices. */
#include "libexport/operators/lower.h"
#include "libexport/operators/shape.h"

#include <exg/operator_id_new.h>
#include <math.h>

#define EXG_ROWS "libexport/operators/statistics.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

#define CDIST_ROWS_DIRECT 25 /* up to so many PyTorch takes differences */

/* Of what cdist is of: does PyTorch compute it by a product of matrices? */
static bool is_by_product(exg_builder *b, const exg_argument *args)
{
    int64_t mode = exg_is_none(&args[3]) ? 0 : exg_get_int(&args[3]);
    exg_dims x = exg_lower_dims(b, SELF);
    exg_dims y = exg_lower_dims(b, exg_get_ref(&args[1]));

    return exg_get_float(&args[2]) == 2 && x.rank >= 2 && y.rank >= 2 && mode < 2 &&
           (mode == 1 || EXG_END(x, 2) > CDIST_ROWS_DIRECT || EXG_END(y, 2) > CDIST_ROWS_DIRECT);
}

static exg_ref squares_of_rows(exg_builder *b, exg_ref x)
{
    return EMIT(b, sum_squares, x, INTS(b, -1), exg_arg_bool(true));
}

/* (x1 [.., P, M], x2 [.., R, M], p) -> [.., P, R] */
exg_status exg_shape_distances(exg_shape_call *call, exg_error *err)
{
    exg_dims x;
    exg_dims y;
    bool fits;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &x, err));
    EXG_TRY(exg_dims_of(exg_shape_input(call, 1), &y, err));
    fits = x.rank >= 2 && x.rank == y.rank && EXG_END(x, 1) == EXG_END(y, 1);
    for (uint32_t d = 0; fits && d + 2 < x.rank; d++) {
        fits = x.n[d] == y.n[d];
    }
    if (!fits) {
        return EXG_SHAPE_FAIL(err, "distances of rows that do not fit");
    }
    x.n[x.rank - 1] = EXG_END(y, 2);
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &x, err);
}

/* Are the matrices such that distances() has them? Then in f32 or double, with one batch. */
static bool direct_operands(exg_builder *b, double p, exg_ref *x, exg_ref *y)
{
    exg_dims a = exg_lower_dims(b, *x);
    exg_dims c = exg_lower_dims(b, *y);
    exg_dims batch;
    exg_dtype dtype = exg_lower_dtype(b, *x);

    if ((p != 0 && p != 1 && p != 2 && p != (double)INFINITY) || a.rank < 2 || c.rank < 2 ||
        !exg_dtype_is_float(dtype) || exg_lower_dtype(b, *y) != dtype ||
        EXG_END(a, 1) != EXG_END(c, 1)) {
        return false;
    }
    a.rank -= 2;
    c.rank -= 2;
    if (exg_broadcast(&a, &c, &batch, NULL) != EXG_OK || batch.rank + 2 > EXG_SHAPE_RANK_MAX) {
        return false;
    }
    for (uint32_t k = 0; k < 2; k++) {
        exg_ref *side = k == 0 ? x : y;
        exg_dims all = batch;
        exg_dims own = exg_lower_dims(b, *side);

        all.n[all.rank++] = EXG_END(own, 2);
        all.n[all.rank++] = EXG_END(own, 1);
        *side = EMIT(b, expand_default, exg_lower_wide(b, *side), INTS_OF(b, all.n, all.rank));
    }
    return true;
}

/* (x1 [.., P, M], x2 [.., R, M], p, compute_mode) -> [.., P, R]; by |x|^2 + |y|^2 - 2 x y where
 * PyTorch does so. */
void exg_lower_cdist(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref other = exg_get_ref(&args[1]);
    exg_ref x;
    exg_ref y;
    exg_ref squares;

    if (!is_by_product(b, args)) {
        x = SELF;
        y = other;
        if (direct_operands(b, exg_get_float(&args[2]), &x, &y)) {
            x = EMIT(b, distances, x, y, args[2]);
            results[0] = exg_arg_ref(exg_lower_cast(b, x, exg_lower_dtype(b, SELF)));
            return;
        }
        x = EMIT(b, sub_Tensor, EMIT(b, unsqueeze_default, SELF, -2),
                 EMIT(b, unsqueeze_default, other, -3));
        results[0] = exg_arg_ref(EMIT(b, linalg_vector_norm_default, x, args[2], INTS(b, -1)));
        return;
    }
    x = exg_lower_wide(b, SELF);
    y = exg_lower_wide(b, other);
    squares =
        EMIT(b, matmul_default, EMIT(b, mul_Scalar, x, -2.0), EMIT(b, transpose_int, y, -2, -1));
    squares = EMIT(b, add_Tensor, squares, squares_of_rows(b, x));
    squares = EMIT(b, add_Tensor, squares, EMIT(b, transpose_int, squares_of_rows(b, y), -2, -1));
    squares = EMIT(b, sqrt_default, EMIT(b, clamp_min_default, squares, 0));
    results[0] = exg_arg_ref(exg_lower_cast(b, squares, exg_lower_dtype(b, SELF)));
}
