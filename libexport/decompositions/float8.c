/* float8.c - products of float8 numbers: computed in float32 and rounded once. What lies beyond
 * e4m3fn, which has no infinity, is its greatest number then, not NaN as in PyTorch's casts. */
#include "libexport/decompositions/complex.h"

#include <string.h>

#define EXG_ROWS "libexport/operators/quantized.def"
#include "libexport/operators/rows.h"

static exg_ref narrow(exg_builder *b, exg_ref x, exg_dtype dtype)
{
    return exg_lower_cast(b, dtype == EXG_DTYPE_F8E4M3FN ? EMIT(b, clamp_both, x, -448., 448.) : x,
                          dtype);
}

/* The same of float32. */
static void product(exg_builder *b, exg_operator_id id, const exg_argument *args,
                    exg_argument *results)
{
    uint32_t count = exg_operators_get(exg_builder_operators(b), id)->schema->argument_count;
    exg_dtype dtype = exg_lower_dtype(b, exg_get_ref(&args[0]));
    exg_argument wide[EXG_ARGUMENTS_MAX];

    for (uint32_t i = 0; i < count; i++) {
        wide[i] = args[i].kind == EXG_ARGUMENT_TENSOR
                      ? exg_arg_ref(exg_lower_wide(b, exg_get_ref(&args[i])))
                      : args[i];
    }
    results[0] = exg_arg_ref(narrow(b, exg_emit(b, id, wide, count), dtype));
}

exg_dtype_lowering *exg_float8_lowering_of(exg_operator_id id)
{
    return id == EXG_OP_mm_default || id == EXG_OP_addmm_default || id == EXG_OP_linear_default
               ? product
               : NULL;
}

/* A number, or one a row or column. */
static exg_ref factor(exg_builder *b, exg_ref scale)
{
    exg_ref x = exg_lower_cast(b, scale, EXG_DTYPE_F32);

    return exg_lower_numel(b, x) == 1 ? EMIT(b, view_default, x, exg_arg_ints(b, NULL, 0)) : x;
}

/* self times mat2 times both scales, and the bias, in float32. */
static exg_ref scaled_product(exg_builder *b, const exg_argument *args, exg_ref scale_a,
                              exg_ref scale_b, const exg_argument *bias)
{
    exg_ref x;

    if (!exg_dtype_is_float8(exg_lower_dtype(b, exg_get_ref(&args[0]))) ||
        !exg_dtype_is_float8(exg_lower_dtype(b, exg_get_ref(&args[1])))) {
        exg_lower_refuse(b, "a scaled product of other than float8");
        return EXG_NO_REF;
    }
    x = EMIT(b, mm_default, exg_lower_wide(b, exg_get_ref(&args[0])),
             exg_lower_wide(b, exg_get_ref(&args[1])));
    x = EMIT(b, mul_Tensor, x, EMIT(b, mul_Tensor, scale_a, scale_b));
    return exg_lower_given(bias)
               ? EMIT(b, add_Tensor, x, exg_lower_cast(b, exg_get_ref(bias), EXG_DTYPE_F32))
               : x;
}

/* (self, mat2, scale_a, scale_b, bias?, scale_result?, out_dtype?, use_fast_accum) */
void exg_lower_scaled_mm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype out = exg_dtype_argument(&args[6], exg_lower_dtype(b, exg_get_ref(&args[0])));
    exg_ref x = scaled_product(b, args, factor(b, exg_get_ref(&args[2])),
                               factor(b, exg_get_ref(&args[3])), &args[4]);

    if (exg_lower_given(&args[5]) && exg_dtype_is_float8(out)) {
        x = EMIT(b, div_Tensor, x, factor(b, exg_get_ref(&args[5])));
    }
    results[0] = exg_arg_ref(narrow(b, x, out));
}

/* Is it one scale, for all or by row, in plain order? */
static bool is_plain(const exg_argument *scales, const exg_argument *recipe,
                     const exg_argument *swizzle)
{
    enum { TENSOR, ROW };

    return scales->count == 1 && recipe->count == 1 && recipe->as_ints[0] >= TENSOR &&
           recipe->as_ints[0] <= ROW &&
           (swizzle->count == 0 || (swizzle->count == 1 && swizzle->as_ints[0] == 0));
}

/* (self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias?, out_dtype?,
 * contraction_dim, use_fast_accum) */
void exg_lower_scaled_mm_v2(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype out = exg_dtype_argument(&args[9], exg_lower_dtype(b, exg_get_ref(&args[0])));

    if (!is_plain(&args[2], &args[3], &args[4]) || !is_plain(&args[5], &args[6], &args[7])) {
        exg_lower_unsupported(b, "a scaled product with scales by block");
        return;
    }
    results[0] =
        exg_arg_ref(narrow(b,
                           scaled_product(b, args, factor(b, exg_lower_item(&args[2], 0)),
                                          factor(b, exg_lower_item(&args[5], 0)), &args[8]),
                           out));
}
