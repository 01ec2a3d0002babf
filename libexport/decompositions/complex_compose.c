/* complex_compose.c - operators on complex numbers that are put together from others; rows of
 * complex.def. */
#include "libexport/decompositions/complex.h"

#include <math.h>

#define SELF exg_get_ref(&args[0])

static exg_ref real_part(exg_builder *b, exg_ref x)
{
    return EMIT(b, select_int, EMIT(b, view_as_real_default, x), -1, 0);
}

/* sin(pi x) / (pi x), 1 at 0 */
void exg_complex_sinc(exg_builder *b, exg_operator_id id, const exg_argument *args,
                      exg_argument *results)
{
    exg_ref x = EMIT(b, mul_Scalar, SELF, 3.14159265358979323846);
    exg_ref y = EMIT(b, div_Tensor, EMIT(b, sin_default, x), x);

    (void)id;
    results[0] = exg_arg_ref(
        EMIT(b, where_self, EMIT(b, eq_Scalar, SELF, 0), EMIT(b, ones_like_default, y), y));
}

/* (self, other, rtol, atol, equal_nan) */
void exg_complex_isclose(exg_builder *b, exg_operator_id id, const exg_argument *args,
                         exg_argument *results)
{
    exg_ref gap = EMIT(b, abs_default, EMIT(b, sub_Tensor, args[0], args[1]));
    exg_ref room = EMIT(b, mul_Scalar, EMIT(b, abs_default, args[1]), args[2]);
    exg_ref near = EMIT(b, le_Tensor, gap, EMIT(b, add_Scalar, room, args[3]));
    exg_ref same = EMIT(b, eq_Tensor, args[0], args[1]);

    (void)id;
    if (exg_get_bool(&args[4])) {
        same = EMIT(b, logical_or_default, same,
                    EMIT(b, logical_and_default, EMIT(b, isnan_default, args[0]),
                         EMIT(b, isnan_default, args[1])));
    }
    near = EMIT(b, logical_and_default, near, EMIT(b, isfinite_default, gap));
    results[0] = exg_arg_ref(EMIT(b, logical_or_default, same, near));
}

/* log(e^x + e^y), by the one of the larger real part: no overflow where there need be none */
void exg_complex_logaddexp(exg_builder *b, exg_operator_id id, const exg_argument *args,
                           exg_argument *results)
{
    exg_ref x = SELF;
    exg_ref y = exg_get_ref(&args[1]);
    exg_ref first = EMIT(b, ge_Tensor, real_part(b, x), real_part(b, y));
    exg_ref large = EMIT(b, where_self, first, x, y);
    exg_ref small = EMIT(b, where_self, first, y, x);
    exg_ref rest = EMIT(b, log1p_default, EMIT(b, exp_default, EMIT(b, sub_Tensor, small, large)));

    (void)id;
    results[0] = exg_arg_ref(EMIT(b, add_Tensor, large, rest));
}

void exg_complex_adjoint(exg_builder *b, exg_operator_id id, const exg_argument *args,
                         exg_argument *results)
{
    exg_complex_conj(b, id, args, results);
    results[0] = exg_arg_ref(EMIT(b, transpose_int, results[0], -2, -1));
}

/* (self, dim, keepdim) */
void exg_complex_logsumexp(exg_builder *b, exg_operator_id id, const exg_argument *args,
                           exg_argument *results)
{
    exg_ref most = EMIT(b, amax_default, real_part(b, SELF), args[1], exg_arg_bool(true));
    exg_ref sum;

    (void)id;
    most = EMIT(b, where_ScalarOther, EMIT(b, isfinite_default, most), most, 0.0);
    sum = EMIT(b, sum_dim_IntList, EMIT(b, exp_default, EMIT(b, sub_Tensor, SELF, most)), args[1],
               exg_arg_bool(true));
    sum = EMIT(b, add_Tensor, EMIT(b, log_default, sum), most);
    results[0] = exg_arg_ref(exg_get_bool(&args[2]) ? sum : EMIT(b, squeeze_dims, sum, args[1]));
}

/* (self, dim, dtype): each multiplied by the one 1, 2, 4, ... places before */
void exg_complex_cumprod(exg_builder *b, exg_operator_id id, const exg_argument *args,
                         exg_argument *results)
{
    exg_dtype dtype = exg_complex_of(exg_dtype_argument(&args[2], exg_lower_dtype(b, SELF)));
    exg_dims dims = exg_lower_dims(b, SELF);
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[1]), dims.rank);
    int64_t size = dims.rank == 0 ? 1 : dims.n[dim];
    exg_ref x = EMIT(b, _to_copy_default, SELF, DTYPE(dtype));

    if (exg_complex_as_real(b, id, args, results)) {
        return;
    }
    for (int64_t shift = 1; shift < size; shift *= 2) {
        exg_ref before = exg_lower_slice(b, x, dim, 0, size - shift);
        exg_ref after = exg_lower_slice(b, x, dim, shift, size - shift);
        exg_ref parts[2] = {exg_lower_slice(b, x, dim, 0, shift),
                            EMIT(b, mul_Tensor, before, after)};

        x = EMIT(b, cat_default, exg_arg_refs(b, parts, 2), (int)dim);
    }
    results[0] = exg_arg_ref(x);
}

/* ---- written by index: both parts at the same places ----------------------------------------- */

/* (self, dim, index, src) */
void exg_complex_scatter_add(exg_builder *b, exg_operator_id id, const exg_argument *args,
                             exg_argument *results)
{
    exg_ref index = exg_get_ref(&args[2]);
    exg_dims dims = exg_lower_dims(b, index);
    int64_t dim = exg_lower_dim(b, exg_get_int(&args[1]), exg_lower_dims(b, SELF).rank);
    exg_argument real[4] = {exg_arg_ref(EMIT(b, view_as_real_default, args[0])), exg_arg_int(dim),
                            exg_arg_none(), exg_arg_ref(EMIT(b, view_as_real_default, args[3]))};

    dims.n[dims.rank++] = 2;
    real[2] = exg_arg_ref(EMIT(b, expand_default, EMIT(b, unsqueeze_default, index, -1),
                               INTS_OF(b, dims.n, dims.rank)));
    results[0] = exg_arg_ref(EMIT(b, view_as_complex_default, exg_emit(b, id, real, 4)));
}

/* (self, indices, values, accumulate): the parts are a dim that no index names */
void exg_complex_index_put(exg_builder *b, exg_operator_id id, const exg_argument *args,
                           exg_argument *results)
{
    exg_argument real[4] = {exg_arg_ref(EMIT(b, view_as_real_default, args[0])), args[1],
                            exg_arg_ref(EMIT(b, view_as_real_default, args[2])), args[3]};
    exg_dims values = exg_lower_dims(b, exg_get_ref(&args[2]));

    if (values.rank == 0) { /* its parts are no values of the last dim's places */
        real[2] = exg_arg_ref(EMIT(b, reshape_default, real[2], INTS(b, 1, 2)));
    }
    results[0] = exg_arg_ref(EMIT(b, view_as_complex_default, exg_emit(b, id, real, 4)));
}
