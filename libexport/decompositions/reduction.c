/* reduction.c - shapes and lowerings of reduction.def. */
#include "libexport/decompositions/complex.h"
#include "libexport/operators/shape.h"
#include <exg/emit.h>

#include <inttypes.h>

#define EXG_ROWS "libexport/operators/reduction.def"
#include "libexport/operators/rows.h"

static exg_status reduced(const exg_shape_call *call, const exg_argument *dim, bool keepdim,
                          exg_dims *out, exg_error *err)
{
    bool in_set[EXG_SHAPE_RANK_MAX];
    exg_dims in;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &in, err));
    EXG_TRY(exg_dim_set(dim, in.rank, in_set, err));
    out->rank = 0;
    for (uint32_t i = 0; i < in.rank; i++) {
        if (!in_set[i]) {
            out->n[out->rank++] = in.n[i];
        } else if (keepdim) {
            out->n[out->rank++] = 1;
        }
    }
    return EXG_OK;
}

/* (self, dim, keepdim, dtype): integers and bool add up in int64. */
exg_status exg_shape_sum(exg_shape_call *call, exg_error *err)
{
    exg_dtype in = exg_shape_input(call, 0)->dtype;
    exg_dims out;

    EXG_TRY(reduced(call, &call->args[1], exg_get_bool(&call->args[2]), &out, err));
    return exg_shape_result(
        call, 0, exg_dtype_argument(&call->args[3], exg_dtype_is_integral(in) ? EXG_DTYPE_I64 : in),
        &out, err);
}

exg_status exg_shape_mean(exg_shape_call *call, exg_error *err)
{
    exg_dtype dtype = exg_dtype_argument(&call->args[3], exg_shape_input(call, 0)->dtype);
    exg_dims out;

    if (exg_dtype_is_integral(dtype)) {
        return EXG_SHAPE_FAIL(err, "the mean of %s is not defined", exg_dtype_name(dtype));
    }
    EXG_TRY(reduced(call, &call->args[1], exg_get_bool(&call->args[2]), &out, err));
    return exg_shape_result(call, 0, dtype, &out, err);
}

exg_status exg_shape_amax(exg_shape_call *call, exg_error *err)
{
    exg_dims out;

    EXG_TRY(reduced(call, &call->args[1], exg_get_bool(&call->args[2]), &out, err));
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err);
}

exg_status exg_shape_any(exg_shape_call *call, exg_error *err)
{
    exg_dtype in = exg_shape_input(call, 0)->dtype;
    exg_dims out;

    EXG_TRY(reduced(call, &call->args[1], exg_get_bool(&call->args[2]), &out, err));
    return exg_shape_result(call, 0, in == EXG_DTYPE_U8 ? EXG_DTYPE_U8 : EXG_DTYPE_B8, &out, err);
}

/* (self, dim, correction, keepdim) */
exg_status exg_shape_var(exg_shape_call *call, exg_error *err)
{
    exg_dims out;

    EXG_TRY(reduced(call, &call->args[1], exg_get_bool(&call->args[3]), &out, err));
    return exg_shape_result(call, 0, exg_real_of(exg_shape_input(call, 0)->dtype), &out, err);
}

exg_status exg_shape_max_dim(exg_shape_call *call, exg_error *err)
{
    exg_dims out;

    EXG_TRY(reduced(call, &call->args[1], exg_get_bool(&call->args[2]), &out, err));
    EXG_TRY(exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err));
    return exg_shape_result(call, 1, EXG_DTYPE_I64, &out, err);
}

exg_status exg_shape_argmax(exg_shape_call *call, exg_error *err)
{
    exg_dims out;

    EXG_TRY(reduced(call, &call->args[1], exg_get_bool(&call->args[2]), &out, err));
    return exg_shape_result(call, 0, EXG_DTYPE_I64, &out, err);
}

/* (self, dim, dtype) */
exg_status exg_shape_cumsum(exg_shape_call *call, exg_error *err)
{
    exg_dtype in = exg_shape_input(call, 0)->dtype;
    exg_dims out;
    uint32_t dim;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &out, err));
    EXG_TRY(exg_wrap_dim(exg_get_int(&call->args[1]), out.rank, &dim, err));
    return exg_shape_result(
        call, 0, exg_dtype_argument(&call->args[2], exg_dtype_is_integral(in) ? EXG_DTYPE_I64 : in),
        &out, err);
}

/* (self, dim, half_to_float) */
exg_status exg_shape_softmax(exg_shape_call *call, exg_error *err)
{
    exg_dtype dtype = exg_shape_input(call, 0)->dtype;
    exg_dims out;
    uint32_t dim;

    if (exg_dtype_is_integral(dtype)) {
        return EXG_SHAPE_FAIL(err, "softmax of %s is not defined", exg_dtype_name(dtype));
    }
    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &out, err));
    EXG_TRY(exg_wrap_dim(exg_get_int(&call->args[1]), out.rank, &dim, err));
    return exg_shape_result(call, 0, exg_get_bool(&call->args[2]) ? EXG_DTYPE_F32 : dtype, &out,
                            err);
}

/* (self, stable, dim, descending) */
exg_status exg_shape_sort(exg_shape_call *call, exg_error *err)
{
    exg_dims out;
    uint32_t dim;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &out, err));
    EXG_TRY(exg_wrap_dim(exg_get_int(&call->args[2]), out.rank, &dim, err));
    EXG_TRY(exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err));
    return exg_shape_result(call, 1, EXG_DTYPE_I64, &out, err);
}

/* (self, k, dim, largest, sorted) */
exg_status exg_shape_topk(exg_shape_call *call, exg_error *err)
{
    int64_t k = exg_get_int(&call->args[1]);
    exg_dims out;
    uint32_t dim;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &out, err));
    EXG_TRY(exg_wrap_dim(exg_get_int(&call->args[2]), out.rank, &dim, err));
    if (k < 0 || k > (out.rank > 0 ? out.n[dim] : 1)) {
        return EXG_SHAPE_FAIL(err, "topk of %" PRId64 " in a dim of size %" PRId64, k,
                              out.rank > 0 ? out.n[dim] : 1);
    }
    if (out.rank > 0) {
        out.n[dim] = k;
    }
    EXG_TRY(exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err));
    return exg_shape_result(call, 1, EXG_DTYPE_I64, &out, err);
}

/* ---- lowerings ------------------------------------------------------------------ */

#define SELF     exg_get_ref(&args[0])
#define ALL_DIMS exg_arg_ints(b, NULL, 0)

void exg_lower_sum_default(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] =
        exg_arg_ref(EMIT(b, sum_dim_IntList, SELF, ALL_DIMS, exg_arg_bool(false), args[1]));
}

void exg_lower_mean_default(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, mean_dim, SELF, ALL_DIMS, exg_arg_bool(false), args[1]));
}

void exg_lower_prod_default(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t numel = 0;
    const exg_tensor_meta *meta = exg_ref_meta(b, SELF);
    exg_ref flat;

    if (meta != NULL) {
        (void)exg_tensor_meta_numel(meta, &numel);
    }
    flat = EMIT(b, reshape_default, SELF, INTS(b, numel));
    results[0] = exg_arg_ref(EMIT(b, prod_dim_int, flat, 0, exg_arg_bool(false), args[1]));
}

void exg_lower_max_default(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, amax_default, SELF, ALL_DIMS));
}

void exg_lower_min_default(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, amin_default, SELF, ALL_DIMS));
}

void exg_lower_any_default(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, any_dims, SELF));
}

void exg_lower_all_default(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, all_dims, SELF));
}

void exg_lower_any_dim(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, any_dims, SELF, INTS(b, exg_get_int(&args[1])), args[2]));
}

void exg_lower_all_dim(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, all_dims, SELF, INTS(b, exg_get_int(&args[1])), args[2]));
}

void exg_lower_var_dim(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] =
        exg_arg_ref(EMIT(b, var_correction, SELF, args[1], (int)exg_get_bool(&args[2]), args[3]));
}

void exg_lower_var_mean(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, var_correction, SELF, args[1], args[2], args[3]));
    results[1] = exg_arg_ref(EMIT(b, mean_dim, SELF, args[1], args[3]));
}

/* softmax(self, dim, dtype): a cast first, as in torch. */
static exg_ref cast(exg_builder *b, exg_ref x, const exg_argument *dtype)
{
    return exg_is_none(dtype) ? x : EMIT(b, to_dtype, x, *dtype);
}

void exg_lower_softmax(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(
        EMIT(b, _softmax_default, cast(b, SELF, &args[2]), args[1], exg_arg_bool(false)));
}

void exg_lower_log_softmax(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(
        EMIT(b, _log_softmax_default, cast(b, SELF, &args[2]), args[1], exg_arg_bool(false)));
}

void exg_lower_sort(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    (void)EMIT_ALL(b, sort_stable, results, SELF, exg_arg_bool(true), args[1], args[2]);
}
