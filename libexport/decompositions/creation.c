/* creation.c - shapes and lowerings of creation.def. */
#include "libexport/operators/lower.h"

#include <math.h>

#define EXG_ROWS "libexport/operators/creation.def"
#include "libexport/operators/rows.h"

/* The dtype a number has by itself. */
static exg_dtype dtype_of_number(const exg_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_BOOL      ? EXG_DTYPE_B8
           : arg->kind == EXG_ARGUMENT_FLOAT   ? EXG_DTYPE_F32
           : arg->kind == EXG_ARGUMENT_COMPLEX ? EXG_DTYPE_C64
                                               : EXG_DTYPE_I64;
}

exg_status exg_shape_full(exg_shape_call *call, exg_error *err)
{
    exg_dims out;

    out.rank = exg_get_ints(&call->args[0], out.n, EXG_SHAPE_RANK_MAX);
    if (out.rank > EXG_SHAPE_RANK_MAX) {
        return EXG_FAIL(err, LIMIT, "SHP-001", "a tensor of rank %u", out.rank);
    }
    return exg_shape_result(
        call, 0, exg_dtype_argument(&call->args[2], dtype_of_number(&call->args[1])), &out, err);
}

/* Without a dtype a scalar tensor is float, whatever the number. */
exg_status exg_shape_scalar_tensor(exg_shape_call *call, exg_error *err)
{
    exg_dims out = {.rank = 0};

    return exg_shape_result(call, 0, exg_dtype_argument(&call->args[1], EXG_DTYPE_F32), &out, err);
}

exg_status exg_shape_arange(exg_shape_call *call, exg_error *err)
{
    double start = exg_get_float(&call->args[0]);
    double end = exg_get_float(&call->args[1]);
    double step = exg_get_float(&call->args[2]);
    bool floating = false;
    exg_dims out = {.rank = 1};

    for (uint32_t i = 0; i < 3; i++) {
        floating = floating || call->args[i].kind == EXG_ARGUMENT_FLOAT;
    }
    if (floating) {
        double count = ceil((end - start) / step);

        if (!(count >= 0 && count < 0x1p53)) {
            return EXG_SHAPE_FAIL(err, "arange from %g to %g by %g", start, end, step);
        }
        out.n[0] = (int64_t)count;
    } else {
        int64_t from = exg_get_int(&call->args[0]);
        int64_t by = exg_get_int(&call->args[2]);
        int64_t span;

        if (__builtin_sub_overflow(exg_get_int(&call->args[1]), from, &span) || by == 0 ||
            (span > 0 && by < 0) || (span < 0 && by > 0)) {
            return EXG_SHAPE_FAIL(err, "arange from %g to %g by %g", start, end, step);
        }
        out.n[0] = span / by + (span % by != 0);
    }
    return exg_shape_result(
        call, 0, exg_dtype_argument(&call->args[3], floating ? EXG_DTYPE_F32 : EXG_DTYPE_I64), &out,
        err);
}

/* ---- lowerings ------------------------------------------------------------------ */

void exg_lower_arange(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, arange_start_step, 0, args[0], 1, args[1]));
}

void exg_lower_arange_start(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, arange_start_step, args[0], args[1], 1, args[2]));
}

static exg_argument filled(exg_builder *b, exg_argument size, exg_argument value, exg_dtype dtype)
{
    return exg_arg_ref(EMIT(b, full_default, size, value, DTYPE(dtype)));
}

/* (size, dtype, ...) */
void exg_lower_zeros(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = filled(b, args[0], exg_arg_int(0), exg_dtype_argument(&args[1], EXG_DTYPE_F32));
}

void exg_lower_ones(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = filled(b, args[0], exg_arg_int(1), exg_dtype_argument(&args[1], EXG_DTYPE_F32));
}

/* Filled as argument 0 is shaped; `dtype` None means its dtype. */
static exg_argument filled_like(exg_builder *b, const exg_argument *self, exg_argument value,
                                const exg_argument *dtype)
{
    const exg_tensor_meta *meta = exg_ref_meta(b, exg_get_ref(self));
    exg_strided s;

    if (meta == NULL || exg_strided_of(meta, &s, NULL) != EXG_OK) {
        return exg_arg_none();
    }
    return filled(b, INTS_OF(b, s.sizes, s.rank), value, exg_dtype_argument(dtype, meta->dtype));
}

/* zeros_like(self, dtype); zero_(self) has no dtype. */
void exg_lower_zeros_like(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = filled_like(b, &args[0], exg_arg_int(0), &args[1]);
}

void exg_lower_ones_like(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = filled_like(b, &args[0], exg_arg_int(1), &args[1]);
}

void exg_lower_full_like(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = filled_like(b, &args[0], args[1], &args[2]);
}

static exg_dtype new_dtype(const exg_builder *b, const exg_argument *self,
                           const exg_argument *dtype)
{
    const exg_tensor_meta *meta = exg_ref_meta(b, exg_get_ref(self));

    return exg_dtype_argument(dtype, meta == NULL ? EXG_DTYPE_F32 : meta->dtype);
}

void exg_lower_new_zeros(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = filled(b, args[1], exg_arg_int(0), new_dtype(b, &args[0], &args[2]));
}

void exg_lower_new_ones(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = filled(b, args[1], exg_arg_int(1), new_dtype(b, &args[0], &args[2]));
}

void exg_lower_new_full(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = filled(b, args[1], args[2], new_dtype(b, &args[0], &args[3]));
}

/* (start, end, step, dtype, ...): the end too, where a step meets it. */
void exg_lower_range(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    double start = exg_get_float(&args[0]);
    double step = exg_get_float(&args[2]);
    double count = floor((exg_get_float(&args[1]) - start) / step) + 1;
    exg_ref steps;

    if (!(count >= 0 && count < 0x1p53)) {
        exg_lower_refuse(b, "a range that its step does not go through");
        return;
    }
    steps = exg_lower_steps(b, (int64_t)count, EXG_DTYPE_F64, 0, 1);
    steps = EMIT(b, add_Scalar, EMIT(b, mul_Scalar, steps, step), start);
    results[0] = exg_arg_ref(exg_lower_cast(b, steps, exg_dtype_argument(&args[3], EXG_DTYPE_F32)));
}

/* (self, value, wrap): where all dims are at the same place; wrapped, rows begin again after one
 * that is left out. */
void exg_lower_fill_diagonal(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref self = exg_get_ref(&args[0]);
    exg_dims dims = exg_lower_dims(b, self);
    exg_ref row;
    exg_ref mask;

    if (dims.rank < 2) {
        exg_lower_refuse(b, "a diagonal of fewer than two dims");
        return;
    }
    row = exg_lower_steps(b, dims.n[0], EXG_DTYPE_I64, 0, dims.rank);
    if (dims.rank == 2 && exg_get_bool(&args[2])) {
        row = EMIT(b, remainder_Scalar, row, exg_arg_int(dims.n[1] + 1));
    }
    mask = EMIT(b, eq_Tensor, row, exg_lower_steps(b, dims.n[1], EXG_DTYPE_I64, 1, dims.rank));
    for (uint32_t d = 2; d < dims.rank; d++) {
        mask = EMIT(
            b, bitwise_and_Tensor, mask,
            EMIT(b, eq_Tensor, row, exg_lower_steps(b, dims.n[d], EXG_DTYPE_I64, d, dims.rank)));
    }
    results[0] = exg_arg_ref(EMIT(b, masked_fill_Scalar, self, mask, args[1]));
}
