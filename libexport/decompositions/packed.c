/* packed.c - lowerings of packed.def.
 * Meaning: aten/src/ATen/native/quantized/cpu/{qembeddingbag*,qlinear*}.cpp. */
#include "libexport/operators/lower.h"

#define EXG_ROWS "libexport/operators/packed.def"
#include "libexport/operators/rows.h"

#define ARG(i) exg_get_ref(&args[i])

#define MOST_OF_F16 65504.0

/* (X, weight, bias?): the weight is held to what float16 has, and rounded to it. */
void exg_lower_linear_fp16(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref weight = EMIT(b, clamp_both, args[1], -MOST_OF_F16, MOST_OF_F16);

    weight = exg_lower_cast(b, exg_lower_cast(b, weight, EXG_DTYPE_F16), EXG_DTYPE_F32);
    results[0] = exg_arg_ref(EMIT(b, linear_default, args[0], weight, args[2]));
}

/* ---- rows of bytes -------------------------------------------------------------------------- */

/* Row by row the bytes of floats. */
static exg_ref bytes_of(exg_builder *b, exg_ref x)
{
    return EMIT(b, view_dtype, exg_lower_row_major(b, x), DTYPE(EXG_DTYPE_U8));
}

/* (weight): 255 steps from the least to the most of each row, then the step and the least. */
void exg_lower_byte_prepack(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref weight = exg_lower_cast(b, ARG(0), EXG_DTYPE_F32);
    exg_ref least = EMIT(b, amin_default, weight, INTS(b, -1), true);
    exg_ref range = EMIT(b, sub_Tensor, EMIT(b, amax_default, weight, INTS(b, -1), true), least);
    exg_ref step = EMIT(b, div_Scalar, range, 255);
    exg_ref many =
        EMIT(b, mul_Scalar, EMIT(b, reciprocal_default, EMIT(b, add_Scalar, range, 1e-8)), 255);
    exg_ref steps = EMIT(b, mul_Tensor, EMIT(b, sub_Tensor, weight, least), many);

    steps = exg_lower_cast(b, EMIT(b, round_default, steps), EXG_DTYPE_U8);
    results[0] = exg_arg_ref(EMIT(
        b, cat_default,
        exg_arg_refs(b, (const exg_ref[]){steps, bytes_of(b, step), bytes_of(b, least)}, 3), -1));
}

/* Rows of numbers of `bits` bits, the first lowest in its byte, before a scale and a bias. */
static exg_ref unpacked(exg_builder *b, exg_ref packed, uint32_t bits)
{
    exg_dtype tail_dtype = bits == 8 ? EXG_DTYPE_F32 : EXG_DTYPE_F16;
    int64_t tail_bytes = 2 * exg_dtype_bytes(tail_dtype);
    exg_dims in = exg_lower_dims(b, packed);
    int64_t count = in.rank == 0 ? 0 : EXG_END(in, 1) - tail_bytes;
    exg_ref parts[4];
    exg_ref tail;
    exg_ref x;

    if (count < 0 || exg_lower_dtype(b, packed) != EXG_DTYPE_U8) {
        exg_lower_refuse(b, "a packed weight that has no rows of bytes with scale and bias");
        return EXG_NO_REF;
    }
    tail = exg_lower_slice(b, packed, in.rank - 1, count, tail_bytes);
    tail = EMIT(b, view_dtype, exg_lower_row_major(b, tail), DTYPE(tail_dtype));
    tail = exg_lower_cast(b, tail, EXG_DTYPE_F32);
    x = exg_lower_slice(b, packed, in.rank - 1, 0, count);
    for (uint32_t k = 0; k < 8 / bits; k++) {
        parts[k] = EMIT(b, bitwise_right_shift_Tensor_Scalar, x, exg_arg_int(k * bits));
        parts[k] = EMIT(b, bitwise_and_Scalar, parts[k], (1 << bits) - 1);
        parts[k] = EMIT(b, unsqueeze_default, parts[k], -1);
    }
    x = EMIT(b, cat_default, exg_arg_refs(b, parts, 8 / bits), -1);
    in.n[in.rank - 1] = count * (8 / bits);
    x = exg_lower_cast(b, exg_lower_shaped(b, x, &in), EXG_DTYPE_F32);
    x = EMIT(b, mul_Tensor, x, exg_lower_slice(b, tail, in.rank - 1, 0, 1));
    return EMIT(b, add_Tensor, x, exg_lower_slice(b, tail, in.rank - 1, 1, 1));
}

void exg_lower_byte_unpack(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(unpacked(b, ARG(0), 8));
}

void exg_lower_nibble_unpack(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(unpacked(b, ARG(0), 4));
}

void exg_lower_pair_unpack(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(unpacked(b, ARG(0), 2));
}

/* (weight, indices, offsets?, scale_grad_by_freq, mode, pruned_weights, per_sample_weights?,
 * compressed_indices_mapping?, include_last_offset): sums, whatever the mode says */
void exg_lower_byte_bag(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument bag[4];

    if (exg_get_bool(&args[5]) || exg_lower_given(&args[7]) || !exg_lower_given(&args[2])) {
        exg_lower_unsupported(b, "pruned bags of bytes, and bags without offsets");
        return;
    }
    EMIT_ALL(b, embedding_bag_default, bag, unpacked(b, ARG(0), 8), args[1], args[2], false, 0,
             false, args[6], args[8]);
    results[0] = bag[0];
}

/* ---- linear layers that quantize on the way ------------------------------------------------- */

/* What x is in steps from the zero point, held to [low, high]. */
static exg_ref steps_of(exg_builder *b, exg_ref x, exg_ref scale, exg_ref zero, int64_t low,
                        int64_t high)
{
    exg_ref steps = EMIT(b, mul_Tensor, x, EMIT(b, reciprocal_default, scale));

    steps = EMIT(b, add_Tensor, EMIT(b, round_default, steps), zero);
    steps = EMIT(b, clamp_both, steps, exg_arg_int(low), exg_arg_int(high));
    return exg_lower_cast(b, EMIT(b, sub_Tensor, steps, zero), EXG_DTYPE_F32);
}

/* x times the weight's steps, sums of whole numbers, and then to the output's grid. */
static exg_ref quantized_linear(exg_builder *b, exg_ref x, exg_ref weight, exg_ref scale,
                                exg_ref bias, exg_ref out_scale, exg_ref out_zero)
{
    exg_ref turned =
        EMIT(b, permute_default, exg_lower_cast(b, weight, EXG_DTYPE_F64), INTS(b, 1, 0));
    exg_ref y = EMIT(b, matmul_default, exg_lower_cast(b, x, EXG_DTYPE_F64), turned);

    y = exg_lower_cast(b, y, EXG_DTYPE_F32);
    y = EMIT(b, add_Tensor, y, EMIT(b, div_Tensor, bias, scale));
    y = EMIT(b, mul_Tensor, y, EMIT(b, div_Tensor, scale, out_scale));
    y = EMIT(b, add_Tensor, EMIT(b, round_default, y), out_zero);
    y = EMIT(b, sub_Tensor, EMIT(b, clamp_both, y, 0, 255), out_zero);
    return exg_lower_cast(b, EMIT(b, mul_Tensor, y, out_scale), EXG_DTYPE_F32);
}

/* (X, X_scale, X_zero_point, W, W_scale, W_zero_point, B, output_scale, output_zero_point, ...) */
void exg_lower_wrapped_linear(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = steps_of(b, ARG(0), ARG(1), ARG(2), 0, 255);
    exg_ref weight = steps_of(b, ARG(3), ARG(4), ARG(5), -128, 127);
    exg_ref scale = EMIT(b, mul_Tensor, args[1], args[4]);

    results[0] = exg_arg_ref(quantized_linear(b, x, weight, scale, ARG(6), ARG(7), ARG(8)));
}

/* (W, W_scale, W_zero_point, B): steps, then columns of the scale and the bias */
void exg_lower_wrapped_prepack(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, ARG(0));
    exg_ref steps = steps_of(b, ARG(0), ARG(1), ARG(2), -128, 127);
    exg_ref scale = EMIT(b, reshape_default, args[1], INTS(b, 1, 1));

    if (in.rank != 2) {
        exg_lower_refuse(b, "a weight that is no matrix");
        return;
    }
    scale = exg_lower_cast(b, EMIT(b, expand_default, scale, INTS(b, in.n[0], 1)), EXG_DTYPE_F32);
    results[0] = exg_arg_ref(EMIT(
        b, cat_default,
        exg_arg_refs(b, (const exg_ref[]){steps, scale, EMIT(b, unsqueeze_default, args[3], 1)}, 3),
        1));
}

/* (X, X_scale, X_zero_point, W_prepack, output_scale, output_zero_point, ...) */
void exg_lower_wrapped_prepacked(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref packed = ARG(3);
    exg_dims in = exg_lower_dims(b, packed);
    exg_dims x = exg_lower_dims(b, ARG(0));
    exg_ref scale;
    exg_ref bias;

    if (in.rank != 2 || x.rank < 1) {
        exg_lower_refuse(b, "a packed weight that is no matrix");
        return;
    }
    if (in.n[1] != EXG_END(x, 1) + 2) { /* as recorded: only its results are asked for */
        packed = EMIT(b, constant_pad_nd_default, packed, INTS(b, 0, EXG_END(x, 1) + 2 - in.n[1]));
        in = exg_lower_dims(b, packed);
    }
    scale = exg_lower_slice(b, exg_lower_slice(b, packed, 0, 0, 1), 1, in.n[1] - 2, 1);
    scale = EMIT(b, mul_Tensor, EMIT(b, reshape_default, scale, INTS(b, 1)), args[1]);
    bias = exg_lower_slice(b, packed, 1, in.n[1] - 1, 1);
    bias = EMIT(b, reshape_default, bias, INTS(b, in.n[0]));
    results[0] = exg_arg_ref(quantized_linear(b, steps_of(b, ARG(0), ARG(1), ARG(2), 0, 255),
                                              exg_lower_slice(b, packed, 1, 0, in.n[1] - 2), scale,
                                              bias, ARG(4), ARG(5)));
}
