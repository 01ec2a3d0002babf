/* quantize_affine.c - lowerings of quantize_affine.def. Meaning:
 * torchao/quantization/quant_primitives.py. */
#include "libexport/decompositions/complex.h"
#include "libexport/operators/lower.h"

#include <float.h>
#include <math.h>

#define EXG_ROWS "libexport/operators/quantize_affine.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

/* Two dims for each of the tensor's: which block, and where in it. */
typedef struct blocks {
    exg_dims in;
    exg_dims split; /* (n / block, block) for each dim */
    exg_dims each;  /* (n / block, 1): where a block's scale lies */
    exg_dims count; /* n / block */
    uint32_t inner[EXG_SHAPE_RANK_MAX / 2];
} blocks;

static bool blocks_of(exg_builder *b, exg_ref x, const exg_argument *size, blocks *made)
{
    uint32_t rank;

    *made = (blocks){.in = exg_lower_dims(b, x)};
    rank = made->in.rank;
    if (size->kind != EXG_ARGUMENT_INTS || size->count != rank || 2 * rank > EXG_SHAPE_RANK_MAX) {
        exg_lower_refuse(b, "blocks of other dims than the tensor's");
        return false;
    }
    made->split.rank = made->each.rank = 2 * rank;
    made->count.rank = rank;
    for (uint32_t d = 0; d < rank; d++) {
        int64_t block = size->as_ints[d];

        if (block < 1 || made->in.n[d] % block != 0) {
            exg_lower_refuse(b, "a size that is no number of whole blocks");
            return false;
        }
        made->count.n[d] = made->split.n[2 * d] = made->each.n[2 * d] = made->in.n[d] / block;
        made->split.n[2 * d + 1] = block;
        made->each.n[2 * d + 1] = 1;
        made->inner[d] = 2 * d + 1;
    }
    return true;
}

static exg_argument within(exg_builder *b, const blocks *of)
{
    int64_t dims[EXG_SHAPE_RANK_MAX / 2] = {0};

    for (uint32_t d = 0; d < of->in.rank; d++) {
        dims[d] = of->inner[d];
    }
    return INTS_OF(b, dims, of->in.rank);
}

static exg_ref each_block(exg_builder *b, const blocks *of, const exg_argument *values)
{
    return exg_lower_shaped(b, exg_get_ref(values), &of->each);
}

typedef struct ends {
    double low, high;
} ends;

/* What the dtype holds, or what the call says. */
static ends ends_of(exg_dtype dtype, const exg_argument *low, const exg_argument *high)
{
    exg_argument least = exg_lower_least(dtype);
    ends e = {.low = exg_get_float(&least)};

    if (exg_dtype_is_float8(dtype)) {
        e.high = exg_float8_most(dtype);
        e.low = -e.high;
    } else {
        e.high = e.low < 0 ? -1 - e.low : ldexp(1, 8 * (int)exg_dtype_bytes(dtype)) - 1;
    }
    e.low = exg_is_none(low) ? e.low : exg_get_float(low);
    e.high = exg_is_none(high) ? e.high : exg_get_float(high);
    return e;
}

/* (input, block_size, scale, zero_point?, output_dtype, quant_min?, quant_max?) */
void exg_lower_quantize_affine(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_dtype_argument(&args[4], EXG_DTYPE_I8);
    ends e = ends_of(dtype, &args[5], &args[6]);
    blocks of;
    exg_ref x;

    if (!blocks_of(b, SELF, &args[1], &of)) {
        return;
    }
    x = EMIT(b, mul_Tensor, exg_lower_shaped(b, SELF, &of.split),
             EMIT(b, reciprocal_default, each_block(b, &of, &args[2])));
    x = EMIT(b, round_default, x);
    x = exg_lower_given(&args[3]) ? EMIT(b, add_Tensor, x, each_block(b, &of, &args[3])) : x;
    x = exg_lower_shaped(b, EMIT(b, clamp_both, x, e.low, e.high), &of.in);
    results[0] = exg_arg_ref(exg_lower_cast(b, x, dtype));
}

/* (input, block_size, scale, zero_point?, input_dtype, quant_min?, quant_max?, output_dtype) */
void exg_lower_dequantize_affine(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_dtype_argument(&args[7], EXG_DTYPE_F32);
    blocks of;
    exg_ref x;

    if (!blocks_of(b, SELF, &args[1], &of)) {
        return;
    }
    x = exg_lower_cast(b, exg_lower_shaped(b, SELF, &of.split), dtype);
    if (exg_lower_given(&args[3])) {
        x = EMIT(b, sub_Tensor, x, exg_lower_cast(b, each_block(b, &of, &args[3]), dtype));
    }
    x = EMIT(b, mul_Tensor, x, each_block(b, &of, &args[2]));
    results[0] = exg_arg_ref(exg_lower_cast(b, exg_lower_shaped(b, x, &of.in), dtype));
}

/* The least scale there is unless the call says: the smallest normal number. */
static double least_scale(exg_dtype dtype, const exg_argument *eps)
{
    return !exg_is_none(eps)        ? exg_get_float(eps)
           : dtype == EXG_DTYPE_F16 ? 0x1p-14
           : dtype == EXG_DTYPE_F64 ? DBL_MIN
                                    : (double)FLT_MIN;
}

/* Sizes of a result: of dims whose block is the whole nothing is left, unless they are kept. */
static exg_dims left(const blocks *of, bool keepdim)
{
    exg_dims made = {.rank = 0};

    for (uint32_t d = 0; d < of->in.rank; d++) {
        if (keepdim || of->count.n[d] > 1 || of->split.n[2 * d + 1] == 1) {
            made.n[made.rank++] = of->count.n[d];
        }
    }
    return made;
}

/* (input, mapping_type, block_size, target_dtype, quant_min?, quant_max?, eps?, scale_dtype?,
 * zero_point_dtype?, keepdim) -> scale, zero_point */
void exg_lower_choose_qparams_affine(exg_builder *b, const exg_argument *args,
                                     exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, SELF);
    ends e = ends_of(exg_dtype_argument(&args[3], EXG_DTYPE_I8), &args[4], &args[5]);
    bool symmetric = exg_lower_is_word(&args[1], "SYMMETRIC");
    bool unclipped = exg_lower_is_word(&args[1], "SYMMETRIC_NO_CLIPPING_ERR");
    exg_ref low, high, scale, zero;
    exg_dims made;
    blocks of;

    if (!blocks_of(b, SELF, &args[2], &of)) {
        return;
    }
    made = left(&of, exg_get_bool(&args[9]));
    low = exg_lower_shaped(b, SELF, &of.split);
    high = EMIT(b, clamp_min_default, EMIT(b, amax_default, low, within(b, &of)), 0.);
    low = EMIT(b, clamp_max_default, EMIT(b, amin_default, low, within(b, &of)), 0.);
    if (symmetric) {
        scale = EMIT(b, div_Scalar, EMIT(b, maximum_default, EMIT(b, neg_default, low), high),
                     (e.high - e.low) / 2);
    } else if (unclipped) {
        scale = EMIT(b, maximum_default, EMIT(b, div_Scalar, low, e.low),
                     EMIT(b, div_Scalar, high, e.high));
    } else {
        scale = EMIT(b, div_Scalar, EMIT(b, sub_Tensor, high, low), e.high - e.low);
    }
    scale = EMIT(b, clamp_min_default, scale, least_scale(dtype, &args[6]));
    if (symmetric || unclipped) {
        zero = EMIT(b, full_like_default, scale, trunc((e.high + e.low + 1) / 2));
    } else {
        zero = EMIT(b, round_default, EMIT(b, div_Tensor, low, scale));
        zero = EMIT(b, clamp_both, EMIT(b, rsub_Scalar, zero, e.low), e.low, e.high);
    }
    scale = exg_lower_shaped(b, scale, &made);
    results[0] = exg_arg_ref(exg_lower_cast(b, scale, exg_dtype_argument(&args[7], dtype)));
    results[1] = exg_arg_ref(exg_lower_cast(
        b, exg_lower_shaped(b, zero, &made),
        exg_dtype_argument(&args[8], symmetric || unclipped ? dtype : EXG_DTYPE_I32)));
}

/* ---- float8 -------------------------------------------------------------------------------- */

/* (tensor, block_size, float8_dtype, scale_dtype, hp_value_lb?, hp_value_ub?) */
void exg_lower_choose_scale_float8(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_dtype_argument(&args[2], EXG_DTYPE_F8E4M3FN);
    exg_ref x;
    blocks of;

    if (!exg_dtype_is_float8(dtype) || !blocks_of(b, SELF, &args[1], &of)) {
        exg_lower_refuse(b, "a scale of other than float8");
        return;
    }
    x = EMIT(b, abs_default, exg_lower_shaped(b, SELF, &of.split));
    x = EMIT(b, amax_default, x, within(b, &of));
    if (!exg_is_none(&args[4]) || !exg_is_none(&args[5])) {
        x = EMIT(b, clamp_default, x, args[4], args[5]);
    }
    x = exg_lower_shaped(b, EMIT(b, div_Scalar, x, exg_float8_most(dtype)), &of.count);
    if (exg_dtype_argument(&args[3], EXG_DTYPE_F32) != EXG_DTYPE_F32) {
        x = EMIT(b, exp2_default, EMIT(b, round_default, EMIT(b, log2_default, x)));
    }
    results[0] = exg_arg_ref(exg_lower_cast(b, x, EXG_DTYPE_F32));
}

/* x in float32 and its scale, one a block of equal sizes; times, or by it. */
static exg_ref scaled(exg_builder *b, exg_ref x, exg_ref scale, bool by)
{
    exg_dims in = exg_lower_dims(b, x);
    exg_dims parts = exg_lower_dims(b, scale);
    int64_t size[EXG_SHAPE_RANK_MAX] = {0};
    blocks of;

    x = exg_lower_cast(b, x, EXG_DTYPE_F32);
    if (parts.rank == 0 || parts.rank != in.rank) {
        return by ? EMIT(b, div_Tensor, x, scale) : EMIT(b, mul_Tensor, x, scale);
    }
    for (uint32_t d = 0; d < in.rank; d++) {
        size[d] = parts.n[d] < 1 || in.n[d] % parts.n[d] != 0 ? 0 : in.n[d] / parts.n[d];
    }
    if (!blocks_of(b, x,
                   &(exg_argument){.kind = EXG_ARGUMENT_INTS, .count = in.rank, .as_ints = size},
                   &of)) {
        return x;
    }
    x = exg_lower_shaped(b, x, &of.split);
    scale = exg_lower_shaped(b, scale, &of.each);
    x = by ? EMIT(b, div_Tensor, x, scale) : EMIT(b, mul_Tensor, x, scale);
    return exg_lower_shaped(b, x, &of.in);
}

/* (tensor, scale, float8_dtype) */
void exg_lower_quantize_affine_float8(exg_builder *b, const exg_argument *args,
                                      exg_argument *results)
{
    exg_dtype dtype = exg_dtype_argument(&args[2], EXG_DTYPE_F8E4M3FN);
    double most = exg_float8_most(dtype);
    exg_ref x = scaled(b, SELF, exg_get_ref(&args[1]), true);

    results[0] = exg_arg_ref(exg_lower_cast(b, EMIT(b, clamp_both, x, -most, most), dtype));
}

/* (tensor, scale, output_dtype) */
void exg_lower_dequantize_affine_float8(exg_builder *b, const exg_argument *args,
                                        exg_argument *results)
{
    exg_ref x = scaled(b, SELF, exg_get_ref(&args[1]), false);

    results[0] = exg_arg_ref(exg_lower_cast(b, x, exg_dtype_argument(&args[2], EXG_DTYPE_F32)));
}
