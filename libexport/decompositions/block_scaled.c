/* block_scaled.c - lowerings of block_scaled.def.
 * Meaning: torchao/prototype/mx_formats/{mx_tensor,nvfp4_tensor,utils}.py; the formats are those of
 * the OCP Microscaling specification. */
#include "libexport/operators/lower.h"

#include <exg/operator_id_new.h>

#define EXG_ROWS "libexport/operators/block_scaled.def"
#include "libexport/operators/rows.h"

#define ARG(i) exg_get_ref(&args[i])

#define SCALE_BIAS   127 /* of a scale that is a power of two: 2^(byte - 127), and NaN */
#define SCALE_NAN    255
#define F32_MANTISSA 23
#define F32_EXPONENT 0x7f800000
#define NVFP4_MOST   (448. * 6) /* the greatest scale times the greatest number */
#define NVFP4_LEAST  0x1p-6     /* of a scale: the smallest normal number of float8_e4m3fn */

/* Numbers of few bits. Those of four and six are numbers of float8_e4m3fn, too, when their bits are
 * put where its exponent ends and the power of two between the biases is multiplied in. */
typedef struct format {
    const char *name;
    exg_dtype dtype;      /* what they are stored as */
    double most;          /* the greatest */
    int power;            /* floor(log2(most)) */
    int mantissa;         /* bits of it */
    int shift;            /* of those of less than eight bits: towards the place in float8 */
    unsigned magnitude;   /* their bits but for the sign */
    unsigned sign;        /* and that */
    double least, factor; /* the smallest normal number; 2^(difference of the biases) */
} format;

static const format formats[] = {
    {"float8_e4m3fn", EXG_DTYPE_F8E4M3FN, 448, 8, 3, 0, 0, 0, 0x1p-6, 1},
    {"float8_e5m2", EXG_DTYPE_F8E5M2, 57344, 15, 2, 0, 0, 0, 0x1p-14, 1},
    {"fp6_e2m3", EXG_DTYPE_U8, 7.5, 2, 3, 0, 0x1f, 0x20, 1, 64},
    {"fp6_e3m2", EXG_DTYPE_U8, 28, 4, 2, 1, 0x1f, 0x20, 0.25, 16},
    {"float4_e2m1fn_x2", EXG_DTYPE_U8, 6, 2, 1, 2, 0x07, 0x08, 1, 64},
};

static const format *format_of(exg_builder *b, const exg_argument *name)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (exg_lower_is_word(name, formats[i].name)) {
            return &formats[i];
        }
    }
    exg_lower_unsupported(b, "blocks of other numbers than float8, float6 and float4");
    return NULL;
}

static bool is_half_byte(const format *of)
{
    return of->sign == 0x08;
}

/* (.., n) as (.., n / size, size) */
static bool blocks_of(exg_builder *b, exg_ref x, int64_t size, exg_dims *split)
{
    *split = exg_lower_dims(b, x);
    if (split->rank == 0 || split->rank + 1 > EXG_SHAPE_RANK_MAX || size < 1 ||
        split->n[split->rank - 1] % size != 0) {
        exg_lower_refuse(b, "a last dim that is no number of whole blocks");
        return false;
    }
    split->n[split->rank - 1] /= size;
    split->n[split->rank++] = size;
    return true;
}

/* ---- elements ------------------------------------------------------------------------------- */

/* The bits of `magnitude` and `sign` in each byte, shifted to the right by `down` first. */
static exg_ref as_float8(exg_builder *b, exg_ref bytes, const format *of, unsigned down)
{
    unsigned sign = of->sign << down;
    unsigned up = 7;
    exg_ref magnitude = bytes;

    for (unsigned bit = 0x80; bit > sign; bit >>= 1) {
        up--;
    }
    magnitude = down > 0 ? EMIT(b, bitwise_right_shift_Tensor_Scalar, magnitude, down) : magnitude;
    magnitude = EMIT(b, bitwise_and_Scalar, magnitude, of->magnitude);
    magnitude = EMIT(b, bitwise_left_shift_Tensor_Scalar, magnitude, of->shift);
    bytes = EMIT(b, bitwise_and_Scalar, bytes, sign);
    bytes = EMIT(b, bitwise_left_shift_Tensor_Scalar, bytes, 7 - up);
    return EMIT(b, bitwise_or_Tensor, bytes, magnitude);
}

/* The elements as float8, times 1 / of->factor. */
static exg_ref elements_of(exg_builder *b, exg_ref qdata, const format *of)
{
    exg_dims dims = exg_lower_dims(b, qdata);
    exg_ref parts[2];

    if (exg_lower_dtype(b, qdata) != of->dtype || dims.rank == 0) {
        exg_lower_refuse(b, "blocks that are stored as another dtype");
        return EXG_NO_REF;
    }
    if (of->dtype != EXG_DTYPE_U8) {
        return qdata;
    }
    parts[0] = as_float8(b, qdata, of, 0);
    if (is_half_byte(of)) {
        parts[1] = EMIT(b, unsqueeze_default, as_float8(b, qdata, of, 4), -1);
        parts[0] = EMIT(b, unsqueeze_default, parts[0], -1);
        parts[0] = EMIT(b, cat_default, exg_arg_refs(b, parts, 2), -1);
        dims.n[dims.rank - 1] *= 2;
        parts[0] = exg_lower_shaped(b, parts[0], &dims);
    }
    return EMIT(b, view_dtype, parts[0], DTYPE(EXG_DTYPE_F8E4M3FN));
}

/* x in float32, within [-most, most], rounded to the numbers there are; even ones where it is
 * between two. */
static exg_ref rounded(exg_builder *b, exg_ref x, const format *of)
{
    exg_ref power, step;

    if (of->dtype != EXG_DTYPE_U8) {
        return exg_lower_wide(b, exg_lower_cast(b, x, of->dtype));
    }
    power = EMIT(b, view_dtype, EMIT(b, abs_default, x), DTYPE(EXG_DTYPE_I32));
    power = EMIT(b, bitwise_and_Scalar, power, F32_EXPONENT);
    power = EMIT(b, view_dtype, power, DTYPE(EXG_DTYPE_F32));
    power = EMIT(b, clamp_min_default, power, of->least);
    step = EMIT(b, mul_Scalar, power, 1.0 / (1 << of->mantissa));
    return EMIT(b, mul_Tensor, EMIT(b, round_default, EMIT(b, div_Tensor, x, step)), step);
}

/* ---- scales --------------------------------------------------------------------------------- */

#define TILE_ROWS   128 /* tiles of scales, as tensor cores read them: */
#define TILE_DOWN   4   /* 4 x 32 rows, side by side */
#define TILE_ACROSS 4   /* and as many columns */

exg_ref exg_lower_from_tiles(exg_builder *b, exg_ref scale, int64_t rows, int64_t columns)
{
    int64_t down = (rows + TILE_ROWS - 1) / TILE_ROWS;
    int64_t across = (columns + TILE_ACROSS - 1) / TILE_ACROSS;

    if (down * TILE_ROWS * across * TILE_ACROSS != exg_lower_numel(b, scale)) {
        exg_lower_refuse(b, "swizzled scales of another size");
        return EXG_NO_REF;
    }
    scale = EMIT(b, reshape_default, scale,
                 INTS(b, down, across, TILE_ROWS / TILE_DOWN, TILE_DOWN, TILE_ACROSS));
    scale = EMIT(b, permute_default, scale, INTS(b, 0, 3, 2, 1, 4));
    scale = EMIT(b, reshape_default, scale, INTS(b, down * TILE_ROWS, across * TILE_ACROSS));
    return exg_lower_slice(b, exg_lower_slice(b, scale, 0, 0, rows), 1, 0, columns);
}

/* One a block of `split`, (.., blocks, 1), in float32. */
static exg_ref scales_of(exg_builder *b, exg_ref scale, bool is_swizzled, const exg_dims *split)
{
    exg_dims each = *split;
    int64_t columns = split->n[split->rank - 2];
    int64_t rows = 1;

    for (uint32_t d = 0; d + 2 < split->rank; d++) {
        rows *= split->n[d];
    }
    each.n[each.rank - 1] = 1;
    if (is_swizzled) {
        scale = exg_lower_from_tiles(b, scale, rows, columns);
    } else if (exg_lower_numel(b, scale) != rows * columns) {
        exg_lower_refuse(b, "other than one scale a block");
    }
    return exg_lower_cast(b, EMIT(b, reshape_default, scale, INTS_OF(b, each.n, each.rank)),
                          EXG_DTYPE_F32);
}

static exg_ref dequantized(exg_builder *b, const exg_argument *args, const exg_argument *whole,
                           const exg_argument *how, exg_dtype dtype)
{
    const format *of = format_of(b, &how[0]);
    exg_dims dims, split;
    exg_ref x, scale;

    if (of == NULL) {
        return EXG_NO_REF;
    }
    x = elements_of(b, ARG(0), of);
    dims = exg_lower_dims(b, x);
    if (!blocks_of(b, x, exg_get_int(&how[1]), &split)) {
        return EXG_NO_REF;
    }
    scale = scales_of(b, ARG(1), exg_get_bool(&how[2]), &split);
    if (whole != NULL && exg_lower_given(whole)) {
        exg_ref factor = exg_lower_cast(b, exg_get_ref(whole), EXG_DTYPE_F32);

        if (exg_lower_dims(b, factor).rank > 0) { /* one an expert: (experts, 1, 1) */
            factor = EMIT(b, unsqueeze_default, factor, -1);
        }
        scale = EMIT(b, mul_Tensor, scale, factor);
    }
    scale = of->factor == 1 ? scale : EMIT(b, mul_Scalar, scale, of->factor);
    x = EMIT(b, mul_Tensor, exg_lower_cast(b, exg_lower_shaped(b, x, &split), EXG_DTYPE_F32),
             scale);
    return exg_lower_cast(b, exg_lower_shaped(b, x, &dims), dtype);
}

/* (qdata, scale, per_tensor_scale?, elements, block_size, is_swizzled_scales, dtype) */
void exg_lower_dequantize_blocks(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(
        dequantized(b, args, &args[2], &args[3], exg_dtype_argument(&args[6], EXG_DTYPE_F32)));
}

/* ---- the input of a product ------------------------------------------------------------------ */

static exg_ref number_like(exg_builder *b, double value)
{
    return exg_lower_number(b, value, EXG_DTYPE_F32);
}

/* The least power of two that most_of_block / most is not above. */
static exg_ref bytes_by_quotient(exg_builder *b, exg_ref most, const format *of)
{
    exg_ref quotient = EMIT(b, div_Scalar, most, of->most);
    exg_ref power = EMIT(b, ceil_default, EMIT(b, log2_default, quotient));

    power = EMIT(b, clamp_both, power, (double)-SCALE_BIAS, (double)SCALE_BIAS);
    return EMIT(b, where_self, EMIT(b, isnan_default, quotient), number_like(b, SCALE_NAN),
                EMIT(b, add_Scalar, power, SCALE_BIAS));
}

/* By the exponent of the greatest, rounded as `rounding` says. */
static exg_ref bytes_by_exponent(exg_builder *b, exg_ref most, const format *of,
                                 const exg_argument *rounding)
{
    exg_ref bits = EMIT(b, view_dtype, most, DTYPE(EXG_DTYPE_I32));
    exg_ref power;

    if (exg_lower_is_word(rounding, "even")) {
        bits = EMIT(b, add_Scalar, bits, 1 << (F32_MANTISSA - of->mantissa - 1));
    }
    power = EMIT(b, bitwise_right_shift_Tensor_Scalar, bits, F32_MANTISSA);
    power = EMIT(b, bitwise_and_Scalar, power, 0xff);
    if (exg_lower_is_word(rounding, "ceil")) {
        bits = EMIT(b, bitwise_and_Scalar, bits, (1 << F32_MANTISSA) - 1);
        power = EMIT(b, add_Tensor, power,
                     exg_lower_cast(b, EMIT(b, gt_Scalar, bits, 0), EXG_DTYPE_I32));
    }
    power = EMIT(b, sub_Scalar, power, of->power);
    power = exg_lower_cast(b, EMIT(b, clamp_both, power, 0, SCALE_NAN), EXG_DTYPE_F32);
    return EMIT(b, where_self, EMIT(b, isnan_default, most), number_like(b, SCALE_NAN), power);
}

/* x, of blocks, as a product in MX reads it. */
static exg_ref rounded_mx(exg_builder *b, exg_ref x, const format *of, const exg_argument *rounding)
{
    const bool by_quotient = exg_lower_is_word(rounding, "rceil");
    exg_ref most = EMIT(b, amax_default, EMIT(b, abs_default, x), INTS(b, -1), true);
    exg_ref byte =
        by_quotient ? bytes_by_quotient(b, most, of) : bytes_by_exponent(b, most, of, rounding);
    exg_ref scale =
        EMIT(b, view_dtype, exg_lower_cast(b, byte, EXG_DTYPE_U8), DTYPE(EXG_DTYPE_F8E8M0FNU));

    scale = exg_lower_cast(b, scale, EXG_DTYPE_F32);
    if (by_quotient) { /* where all are small they stay as they are */
        exg_ref factor = EMIT(b, reciprocal_default, scale);

        factor = EMIT(b, where_self, EMIT(b, eq_Scalar, byte, 0), number_like(b, 1), factor);
        x = EMIT(b, mul_Tensor, x, factor);
    } else {
        x = EMIT(b, div_Tensor, x, EMIT(b, clamp_min_default, scale, 0x1p-126));
    }
    x = rounded(b, EMIT(b, clamp_both, x, -of->most, of->most), of);
    return EMIT(b, mul_Tensor, x, scale);
}

/* The same of NVFP4; `whole` (EXG_NO_REF: 1) is left to the result. */
static exg_ref rounded_nvfp4(exg_builder *b, exg_ref x, const format *of, exg_ref whole)
{
    exg_ref most = EMIT(b, amax_default, EMIT(b, abs_default, x), INTS(b, -1), true);
    exg_ref scale = EMIT(b, div_Scalar, most, of->most);
    exg_ref factor;

    scale = whole.id == EXG_NO_VALUE ? scale : EMIT(b, div_Tensor, scale, whole);
    scale = EMIT(b, clamp_both, scale, NVFP4_LEAST, 448.);
    scale = exg_lower_wide(b, exg_lower_cast(b, scale, EXG_DTYPE_F8E4M3FN));
    factor = whole.id == EXG_NO_VALUE
                 ? EMIT(b, reciprocal_default, scale)
                 : EMIT(b, div_Tensor, EMIT(b, reciprocal_default, whole), scale);
    x = EMIT(b, clamp_both, EMIT(b, mul_Tensor, x, factor), -of->most, of->most);
    return EMIT(b, mul_Tensor, rounded(b, x, of), scale);
}

/* A product, times what is of the whole of its operands; the bias comes last where that is. */
static exg_ref scaled_product(exg_builder *b, exg_ref x, exg_ref weight, const exg_argument *bias,
                              exg_ref whole, const exg_argument *whole_weight)
{
    exg_dtype dtype = exg_lower_dtype(b, x);
    exg_ref scale = whole;
    bool is_scaled = whole.id != EXG_NO_VALUE;
    bool is_late;

    if (exg_lower_given(whole_weight)) {
        scale = exg_lower_cast(b, exg_get_ref(whole_weight), EXG_DTYPE_F32);
        scale = is_scaled ? EMIT(b, mul_Tensor, whole, scale) : scale;
        is_scaled = true;
    }
    is_late = (is_scaled || dtype == EXG_DTYPE_F32) && exg_lower_given(bias);
    x = EMIT(b, linear_default, x, weight, is_late ? exg_arg_none() : *bias);
    x = is_scaled ? EMIT(b, mul_Tensor, x, exg_lower_cast(b, scale, dtype)) : x;
    return is_late ? EMIT(b, add_Tensor, x, exg_lower_cast(b, exg_get_ref(bias), dtype)) : x;
}

/* (input, qdata, scale, bias?, per_tensor_scale?, act_per_tensor_scale?, elements, block_size,
 * is_swizzled_scales, rounding) */
void exg_lower_linear_blocks(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, ARG(0));
    exg_ref weight = dequantized(b, args + 1, NULL, &args[6], dtype);
    const format *of = format_of(b, &args[6]);
    exg_dims dims = exg_lower_dims(b, ARG(0));
    exg_ref whole = EXG_NO_REF;
    exg_dims split;
    exg_ref x = ARG(0);

    if (of == NULL || !blocks_of(b, x, exg_get_int(&args[7]), &split)) {
        return;
    }
    x = exg_lower_cast(b, exg_lower_shaped(b, x, &split), EXG_DTYPE_F32);
    if (exg_lower_is_word(&args[9], "nvfp4 dynamic")) {
        whole = EMIT(b, amax_default, EMIT(b, abs_default, x), exg_arg_ints(b, NULL, 0));
        whole = EMIT(b, div_Scalar, whole, NVFP4_MOST);
    } else if (exg_lower_given(&args[5])) {
        whole = exg_lower_cast(b, ARG(5), EXG_DTYPE_F32);
    }
    x = exg_lower_is_word(&args[9], "nvfp4") || exg_lower_is_word(&args[9], "nvfp4 dynamic")
            ? rounded_nvfp4(b, x, of, whole)
            : rounded_mx(b, x, of, &args[9]);
    x = exg_lower_cast(b, exg_lower_shaped(b, x, &dims), dtype);
    results[0] = exg_arg_ref(scaled_product(b, x, weight, &args[3], whole, &args[4]));
}
