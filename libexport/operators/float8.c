/* float8.c - products of float8 numbers: computed in float32 and rounded once. What lies beyond
 * e4m3fn, which has no infinity, is its greatest number then, not NaN as in PyTorch's casts. */
#include "libexport/operators/float8.h"

#include <string.h>

#define ARGS_MAX 8

static exg_ref narrow(exg_builder *b, exg_ref x, exg_dtype dtype)
{
    return exg_lower_cast(
        b, dtype == EXG_DTYPE_F8E4M3FN ? EMIT(b, clamp_both, x, -448., 448.) : x, dtype);
}

/* The same of float32. */
static void product(exg_builder *b, exg_operator_id id, const exg_argument *args,
                    exg_argument *results)
{
    uint32_t count = exg_operators_get(exg_builder_operators(b), id)->schema->argument_count;
    exg_dtype dtype = exg_lower_dtype(b, exg_get_ref(&args[0]));
    exg_argument wide[ARGS_MAX];

    for (uint32_t i = 0; i < count && i < ARGS_MAX; i++) {
        wide[i] = args[i].kind == EXG_ARGUMENT_TENSOR
                      ? exg_arg_ref(exg_lower_wide(b, exg_get_ref(&args[i])))
                      : args[i];
    }
    results[0] = exg_arg_ref(narrow(b, exg_emit(b, id, wide, count), dtype));
}

exg_complex_lowering *exg_float8_lowering_of(exg_operator_id id)
{
    return id == EXG_OP_mm_default || id == EXG_OP_addmm_default || id == EXG_OP_linear_default
               ? product
               : NULL;
}

/* A number, or one a row or column. */
static exg_ref factor(exg_builder *b, const exg_argument *scale)
{
    exg_ref x = exg_lower_cast(b, exg_get_ref(scale), EXG_DTYPE_F32);

    return exg_lower_numel(b, x) == 1 ? EMIT(b, view_default, x, exg_arg_ints(b, NULL, 0)) : x;
}

/* (self, mat2, scale_a, scale_b, bias?, scale_result?, out_dtype?, use_fast_accum) */
void exg_lower_scaled_mm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, exg_get_ref(&args[0]));
    exg_dtype out = exg_dtype_argument(&args[6], dtype);
    exg_ref x;

    if (!exg_dtype_is_float8(dtype) ||
        !exg_dtype_is_float8(exg_lower_dtype(b, exg_get_ref(&args[1])))) {
        exg_lower_refuse(b, "a scaled product of other than float8");
        return;
    }
    x = EMIT(b, mm_default, exg_lower_wide(b, exg_get_ref(&args[0])),
             exg_lower_wide(b, exg_get_ref(&args[1])));
    x = EMIT(b, mul_Tensor, x, EMIT(b, mul_Tensor, factor(b, &args[2]), factor(b, &args[3])));
    if (exg_lower_given(&args[4])) {
        x = EMIT(b, add_Tensor, x, exg_lower_cast(b, exg_get_ref(&args[4]), EXG_DTYPE_F32));
    }
    if (exg_lower_given(&args[5]) && exg_dtype_is_float8(out)) {
        x = EMIT(b, div_Tensor, x, factor(b, &args[5]));
    }
    results[0] = exg_arg_ref(narrow(b, x, out));
}
