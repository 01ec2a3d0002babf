/* creation.c - shapes and lowerings of creation.def. */
#include <exg/emit.h>
#include "libexport/operators/rows.h"
#include "libexport/operators/shape.h"

#include <math.h>

/* The dtype a number has by itself. */
static exg_dtype dtype_of_number(const exg_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_BOOL    ? EXG_DTYPE_B8
           : arg->kind == EXG_ARGUMENT_FLOAT ? EXG_DTYPE_F32
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

static exg_dtype new_dtype(const exg_builder *b, const exg_argument *self, const exg_argument *dtype)
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
