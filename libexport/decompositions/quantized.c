/* quantized.c - lowerings of quantized.def: numbers on a grid of whole steps.
 * Meaning: torch/ao/quantization/fx/_decomposed.py. */
#include "libexport/operators/lower.h"

#define EXG_ROWS "libexport/operators/quantized.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

/* A vector of one value a channel, along `axis` of x. */
static exg_ref along_axis(exg_builder *b, exg_ref vector, exg_ref x, int64_t axis)
{
    uint32_t rank = exg_lower_dims(b, x).rank;

    return exg_lower_along(b, vector, exg_lower_dim(b, axis, rank), rank);
}

/* x held to [low, high], numbers or tensors of one. */
static exg_ref clamped(exg_builder *b, exg_ref x, const exg_argument *low, const exg_argument *high)
{
    return low->kind == EXG_ARGUMENT_TENSOR ? EMIT(b, clamp_Tensor, x, *low, *high)
                                            : EMIT(b, clamp_both, x, *low, *high);
}

/* clamp(round(x / scale) + zero_point), scale and zero_point tensors */
static exg_ref quantized(exg_builder *b, exg_ref x, exg_ref scale, exg_ref zero,
                         const exg_argument *low, const exg_argument *high, exg_dtype dtype)
{
    exg_ref steps =
        EMIT(b, round_default,
             EMIT(b, mul_Tensor, exg_lower_wide(b, x), EMIT(b, reciprocal_default, scale)));

    return exg_lower_cast(b, clamped(b, EMIT(b, add_Tensor, steps, zero), low, high), dtype);
}

static exg_ref dequantized(exg_builder *b, exg_ref q, exg_ref scale, exg_ref zero, exg_dtype dtype)
{
    q = exg_lower_cast(b, q, dtype);
    q = zero.id == EXG_NO_VALUE ? q : EMIT(b, sub_Tensor, q, zero);
    return exg_lower_cast(b, EMIT(b, mul_Tensor, q, scale), dtype);
}

/* (input, scale, zero_point, quant_min, quant_max, dtype) */
void exg_lower_quantize(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref steps = EMIT(b, mul_Scalar, exg_lower_wide(b, SELF), 1.0 / exg_get_float(&args[1]));

    steps = EMIT(b, add_Scalar, EMIT(b, round_default, steps), args[2]);
    steps = EMIT(b, clamp_both, steps, args[3], args[4]);
    results[0] = exg_arg_ref(exg_lower_cast(b, steps, exg_dtype_argument(&args[5], EXG_DTYPE_I8)));
}

void exg_lower_quantize_tensor(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] =
        exg_arg_ref(quantized(b, SELF, exg_get_ref(&args[1]), exg_get_ref(&args[2]), &args[3],
                              &args[4], exg_dtype_argument(&args[5], EXG_DTYPE_I8)));
}

/* (input, scales, zero_points, axis, quant_min, quant_max, dtype) */
void exg_lower_quantize_channel(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t axis = exg_get_int(&args[3]);

    results[0] = exg_arg_ref(quantized(b, SELF, along_axis(b, exg_get_ref(&args[1]), SELF, axis),
                                       along_axis(b, exg_get_ref(&args[2]), SELF, axis), &args[4],
                                       &args[5], exg_dtype_argument(&args[6], EXG_DTYPE_I8)));
}

/* As above, but rounded after the zero point was added. */
void exg_lower_quantize_token(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref steps = EMIT(b, mul_Tensor, SELF, EMIT(b, reciprocal_default, exg_get_ref(&args[1])));

    steps = EMIT(b, round_default, EMIT(b, add_Tensor, steps, args[2]));
    steps = EMIT(b, clamp_both, steps, args[3], args[4]);
    results[0] = exg_arg_ref(exg_lower_cast(b, steps, exg_dtype_argument(&args[5], EXG_DTYPE_I8)));
}

/* (input, scale, zero_point, quant_min, quant_max, dtype, out_dtype?) */
void exg_lower_dequantize(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_dtype_argument(&args[6], EXG_DTYPE_F32);
    exg_ref q = EMIT(b, sub_Scalar, exg_lower_cast(b, SELF, dtype), args[2]);

    results[0] = exg_arg_ref(EMIT(b, mul_Scalar, q, args[1]));
}

void exg_lower_dequantize_tensor(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(dequantized(b, SELF, exg_get_ref(&args[1]), exg_get_ref(&args[2]),
                                         exg_dtype_argument(&args[6], EXG_DTYPE_F32)));
}

/* (input, scales, zero_points?, axis, quant_min, quant_max, dtype, out_dtype?): what the scales
 * are narrow for is rounded so, whatever it is stored as. */
void exg_lower_dequantize_channel(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t axis = exg_get_int(&args[3]);
    exg_ref scale = exg_get_ref(&args[1]);
    exg_ref zero = exg_get_ref(&args[2]);
    exg_dtype out = exg_dtype_argument(&args[7], EXG_DTYPE_F32);
    exg_dtype rounded = exg_lower_dtype(b, scale);
    exg_ref x;

    if (zero.id != EXG_NO_VALUE) {
        rounded = exg_promote_types(rounded, exg_lower_dtype(b, zero));
        zero = along_axis(b, zero, SELF, axis);
    }
    scale = along_axis(b, exg_lower_wide(b, scale), SELF, axis);
    x = dequantized(b, SELF, scale, zero, exg_dtype_bytes(rounded) < 4 ? EXG_DTYPE_F32 : out);
    x = exg_dtype_bytes(rounded) < 4 ? exg_lower_cast(b, x, rounded) : x;
    results[0] = exg_arg_ref(exg_lower_cast(b, x, out));
}

/* (input, scales, zero_points, quant_min, quant_max, dtype, output_dtype) */
void exg_lower_dequantize_token(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = EMIT(b, mul_Tensor, EMIT(b, sub_Tensor, args[0], args[2]), args[1]);

    results[0] = exg_arg_ref(exg_lower_cast(b, x, exg_dtype_argument(&args[6], EXG_DTYPE_F32)));
}

/* The matrix with a group of columns a row; args as below. */
static exg_ref groups_of(exg_builder *b, const exg_argument *args)
{
    exg_dims in = exg_lower_dims(b, SELF);
    exg_dims scales = exg_lower_dims(b, exg_get_ref(&args[1]));
    int64_t group = exg_get_int(&args[6]);

    if (in.rank != 2 || group < 2) {
        exg_lower_refuse(b, "groups of a matrix hold more than one column");
        return SELF;
    }
    if (group > in.n[1] && scales.rank > 0 && EXG_END(scales, 1) == 1) {
        group = in.n[1];
    }
    if (group == 0 || in.n[1] % group != 0) {
        exg_lower_refuse(b, "the columns of a matrix are no whole groups");
        return SELF;
    }
    return EMIT(b, reshape_default, SELF, INTS(b, exg_lower_numel(b, SELF) / group, group));
}

static exg_ref as_column(exg_builder *b, exg_ref x)
{
    return EMIT(b, reshape_default, x, INTS(b, exg_lower_numel(b, x), 1));
}

/* (input, scales, zero_points?, quant_min, quant_max, dtype, group_size, output_dtype) */
void exg_lower_dequantize_group(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    exg_ref x = groups_of(b, args);

    if (exg_lower_given(&args[2])) {
        x = EMIT(b, sub_Tensor, x, as_column(b, exg_get_ref(&args[2])));
    }
    x = EMIT(b, mul_Tensor, x, as_column(b, exg_get_ref(&args[1])));
    x = exg_lower_shaped(b, x, &in);
    results[0] = exg_arg_ref(exg_lower_cast(b, x, exg_dtype_argument(&args[7], EXG_DTYPE_F32)));
}

/* (input, scales, zero_points, quant_min, quant_max, dtype, group_size): as of a token */
void exg_lower_quantize_group(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    exg_argument by_row[6] = {exg_arg_ref(groups_of(b, args)),
                              exg_arg_ref(as_column(b, exg_get_ref(&args[1]))),
                              exg_arg_ref(as_column(b, exg_get_ref(&args[2]))),
                              args[3],
                              args[4],
                              args[5]};

    exg_lower_quantize_token(b, by_row, results);
    results[0] = exg_arg_ref(exg_lower_shaped(b, exg_get_ref(&results[0]), &in));
}

/* ---- choosing the grid ------------------------------------------------------------------ */

typedef struct range {
    exg_ref low, high; /* of the data and 0 */
} range;

static range range_of(exg_builder *b, exg_ref x, exg_argument dims, bool keepdim)
{
    range r = {EMIT(b, amin_default, x, dims, exg_arg_bool(keepdim)),
               EMIT(b, amax_default, x, dims, exg_arg_bool(keepdim))};

    r.low = EMIT(b, clamp_max_default, r.low, 0.0);
    r.high = EMIT(b, clamp_min_default, r.high, 0.0);
    return r;
}

/* (input, quant_min, quant_max, eps, dtype) -> scale [1] f64, zero_point [1] i64 */
void exg_lower_choose_qparams(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    double low = exg_get_float(&args[1]);
    double high = exg_get_float(&args[2]);
    range r = range_of(b, SELF, exg_arg_ints(b, NULL, 0), false);
    exg_ref scale = EMIT(b, div_Scalar, EMIT(b, sub_Tensor, r.high, r.low), high - low);
    exg_ref zero;

    scale = EMIT(b, clamp_min_default, scale, args[3]);
    zero = EMIT(b, rsub_Scalar, EMIT(b, round_default, EMIT(b, div_Tensor, r.low, scale)), low);
    zero = EMIT(b, clamp_both, zero, low, high);
    results[0] =
        exg_arg_ref(EMIT(b, view_default, exg_lower_cast(b, scale, EXG_DTYPE_F64), INTS(b, 1)));
    results[1] =
        exg_arg_ref(EMIT(b, view_default, exg_lower_cast(b, zero, EXG_DTYPE_I64), INTS(b, 1)));
}

/* The same with zero in the middle: 0, of bytes without a sign 128. */
void exg_lower_choose_qparams_symmetric(exg_builder *b, const exg_argument *args,
                                        exg_argument *results)
{
    double span = exg_get_float(&args[2]) - exg_get_float(&args[1]);
    int zero = exg_dtype_argument(&args[4], EXG_DTYPE_I8) == EXG_DTYPE_U8 ? 128 : 0;
    range r = range_of(b, SELF, exg_arg_ints(b, NULL, 0), false);
    exg_ref scale = EMIT(b, maximum_default, EMIT(b, neg_default, r.low), r.high);

    scale = EMIT(b, div_Scalar, scale, span / 2);
    scale = EMIT(b, clamp_min_default, exg_lower_wide(b, scale), args[3]);
    results[0] =
        exg_arg_ref(EMIT(b, view_default, exg_lower_cast(b, scale, EXG_DTYPE_F64), INTS(b, 1)));
    results[1] = exg_arg_ref(EMIT(b, full_default, INTS(b, 1), zero, DTYPE(EXG_DTYPE_I64)));
}

/* (input, dtype) -> scales [.., 1] f64, zero_points [.., 1] i64, of -128 ... 127 */
void exg_lower_choose_qparams_token_asymmetric(exg_builder *b, const exg_argument *args,
                                               exg_argument *results)
{
    range r = range_of(b, SELF, INTS(b, -1), true);
    exg_ref scale = EMIT(b, div_Scalar, EMIT(b, sub_Tensor, r.high, r.low), 255.0);
    exg_ref low;
    exg_ref high;
    exg_ref zero;

    scale = EMIT(b, clamp_min_default, scale, 0x1p-23);
    low = EMIT(b, div_Tensor, r.low, scale);
    high = EMIT(b, div_Tensor, r.high, scale);
    zero = EMIT(b, add_Tensor, EMIT(b, add_Scalar, low, -128.0), EMIT(b, add_Scalar, high, 127.0));
    zero = EMIT(b, where_self, EMIT(b, gt_Scalar, zero, 0.0), EMIT(b, rsub_Scalar, low, -128.0),
                EMIT(b, rsub_Scalar, high, 127.0));
    zero = EMIT(b, round_default, EMIT(b, clamp_both, zero, -128.0, 127.0));
    results[0] = exg_arg_ref(exg_lower_cast(b, scale, EXG_DTYPE_F64));
    results[1] = exg_arg_ref(exg_lower_cast(b, zero, EXG_DTYPE_I64));
}

/* (input, dtype) -> scales [.., 1], zero_points of 0 */
void exg_lower_choose_qparams_token(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref scale =
        EMIT(b, amax_default, EMIT(b, abs_default, SELF), INTS(b, -1), exg_arg_bool(true));

    scale = exg_lower_dtype(b, scale) == EXG_DTYPE_F16 ? exg_lower_cast(b, scale, EXG_DTYPE_F32)
                                                       : scale;
    scale = EMIT(b, div_Scalar, EMIT(b, clamp_min_default, scale, 1e-5), 127.0);
    results[0] = exg_arg_ref(scale);
    results[1] = exg_arg_ref(EMIT(b, zeros_like_default, scale));
}

/* ---- quantized and back at once ------------------------------------------------------------ */

/* zero_point + round(x / scale) held to [least, most], and back; the mask says what was in
 * there anyway. Scale and zero point are tensors that broadcast. */
static void fake_quantize(exg_builder *b, exg_ref x, exg_ref scale, exg_ref zero_point,
                          const exg_argument *ends, exg_argument *results)
{
    exg_ref zero = exg_lower_cast(b, zero_point, exg_lower_dtype(b, scale));
    exg_ref level = EMIT(b, mul_Tensor, x, EMIT(b, reciprocal_default, scale));
    exg_ref held;

    level = EMIT(b, add_Tensor, EMIT(b, round_default, level), zero);
    held = EMIT(b, clamp_both, level, ends[0], ends[1]);
    results[1] = exg_arg_ref(EMIT(b, eq_Tensor, held, level));
    held = EMIT(b, mul_Tensor, EMIT(b, sub_Tensor, held, zero), scale);
    results[0] = exg_arg_ref(exg_lower_cast(b, held, exg_lower_dtype(b, x)));
}

/* (self, scale, zero_point, quant_min, quant_max): numbers or 0-d tensors */
void exg_lower_fake_quantize_cachemask(exg_builder *b, const exg_argument *args,
                                       exg_argument *results)
{
    bool given = args[1].kind == EXG_ARGUMENT_TENSOR;
    exg_dtype dtype = exg_lower_dtype(b, SELF);
    exg_ref scale =
        given ? exg_get_ref(&args[1]) : exg_lower_number(b, exg_get_float(&args[1]), dtype);
    exg_ref zero =
        given ? exg_get_ref(&args[2]) : exg_lower_number(b, (double)exg_get_int(&args[2]), dtype);

    fake_quantize(b, SELF, scale, zero, &args[3], results);
}

void exg_lower_fake_quantize(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument both[2] = {exg_arg_none(), exg_arg_none()};

    exg_lower_fake_quantize_cachemask(b, args, both);
    results[0] = both[0];
}

/* (self, scale, zero_point, axis, quant_min, quant_max): one of each along the axis */
void exg_lower_fake_quantize_channel_cachemask(exg_builder *b, const exg_argument *args,
                                               exg_argument *results)
{
    uint32_t rank = exg_lower_dims(b, SELF).rank;
    uint32_t axis = exg_lower_dim(b, exg_get_int(&args[3]), rank);

    fake_quantize(b, SELF, exg_lower_along(b, exg_get_ref(&args[1]), axis, rank),
                  exg_lower_along(b, exg_get_ref(&args[2]), axis, rank), &args[4], results);
}

void exg_lower_fake_quantize_channel(exg_builder *b, const exg_argument *args,
                                     exg_argument *results)
{
    exg_argument both[2] = {exg_arg_none(), exg_arg_none()};

    exg_lower_fake_quantize_channel_cachemask(b, args, both);
    results[0] = both[0];
}

/* (self, scale, zero_point, fake_quant_enabled, quant_min, quant_max) */
void exg_lower_fake_quantize_qparams(exg_builder *b, const exg_argument *args,
                                     exg_argument *results)
{
    exg_argument made[2] = {exg_arg_none(), exg_arg_none()};
    exg_dims none = {0};
    exg_ref on = exg_lower_shaped(b, exg_get_ref(&args[3]), &none);

    on = EMIT(b, ne_Scalar, on, 0);
    fake_quantize(b, SELF, exg_lower_shaped(b, exg_get_ref(&args[1]), &none),
                  exg_lower_shaped(b, exg_get_ref(&args[2]), &none), &args[4], made);
    results[0] = exg_arg_ref(EMIT(b, where_self, on, made[0], SELF));
    on = EMIT(b, logical_not_default, on);
    results[1] = exg_arg_ref(EMIT(b, logical_or_default, made[1], on));
}

void exg_lower_fake_quantize_backward(exg_builder *b, const exg_argument *args,
                                      exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, mul_Tensor, SELF, args[1]));
}

/* ---- with scale and zero point learned --------------------------------------------------- */

/* Scale and zero point as they are used, in the form of x. */
typedef struct grid {
    exg_ref scale, zero;
    uint32_t axis; /* the rank of x: one for all */
    exg_argument ends[2];
    double factor;
} grid;

/* (scale, zero_point, [axis], quant_min, quant_max, grad_factor) */
static grid grid_of(exg_builder *b, exg_ref x, const exg_argument *args, bool by_channel,
                    bool is_backward)
{
    uint32_t rank = exg_lower_dims(b, x).rank;
    const exg_argument *rest = args + 2 + by_channel;
    exg_dims none = {0};
    grid g = {exg_get_ref(&args[0]),
              exg_get_ref(&args[1]),
              rank,
              {rest[0], rest[1]},
              exg_get_float(&rest[2])};

    g.zero = exg_lower_cast(b, g.zero, exg_lower_dtype(b, g.scale));
    if (by_channel) {
        g.axis = exg_lower_dim(b, exg_get_int(&args[2]), rank);
        g.scale = exg_lower_along(b, g.scale, g.axis, rank);
        g.zero = exg_lower_along(b, g.zero, g.axis, rank);
    } else {
        g.scale = exg_lower_shaped(b, g.scale, &none);
        g.zero = exg_lower_shaped(b, g.zero, &none);
    }
    /* backward PyTorch adds a half to one for all, and cuts */
    g.zero = is_backward && !by_channel ? EMIT(b, trunc_default, EMIT(b, add_Scalar, g.zero, 0.5))
                                        : EMIT(b, round_default, g.zero);
    g.zero = EMIT(b, clamp_both, g.zero, g.ends[0], g.ends[1]);
    return g;
}

static void learnable(exg_builder *b, const exg_argument *args, bool by_channel,
                      exg_argument *results)
{
    grid g = grid_of(b, SELF, args + 1, by_channel, false);
    exg_argument both[2] = {exg_arg_none(), exg_arg_none()};

    fake_quantize(b, SELF, g.scale, g.zero, g.ends, both);
    results[0] = both[0];
}

void exg_lower_fake_quantize_learnable(exg_builder *b, const exg_argument *args,
                                       exg_argument *results)
{
    learnable(b, args, false, results);
}

void exg_lower_fake_quantize_learnable_channel(exg_builder *b, const exg_argument *args,
                                               exg_argument *results)
{
    learnable(b, args, true, results);
}

/* The sum of all, or of each place of the axis, times the factor. */
static exg_argument learned(exg_builder *b, const grid *g, exg_ref x)
{
    exg_dims dims = exg_lower_dims(b, x);
    int64_t others[EXG_SHAPE_RANK_MAX];
    uint32_t count = 0;

    for (uint32_t d = 0; d < dims.rank; d++) {
        others[count] = d;
        count += d != g->axis;
    }
    x = count == 0 ? x : EMIT(b, sum_dim_IntList, x, INTS_OF(b, others, count));
    x = g->axis == dims.rank ? exg_lower_flat(b, x) : x;
    return exg_arg_ref(EMIT(b, mul_Scalar, x, g->factor));
}

/* (grad, self, scale, zero_point, ..) -> of self, of scale, of zero_point: outside the grid
 * self changes nothing, there the ends of the grid do. */
static void learnable_backward(exg_builder *b, const exg_argument *args, bool by_channel,
                               exg_argument *results)
{
    exg_ref x = exg_get_ref(&args[1]);
    grid g = grid_of(b, x, args + 2, by_channel, true);
    exg_ref grad = SELF;
    exg_ref level = EMIT(b, mul_Tensor, x, EMIT(b, reciprocal_default, g.scale));
    exg_ref held;
    exg_ref inside;
    exg_ref of_scale;

    level = EMIT(b, add_Tensor, EMIT(b, round_default, level), g.zero);
    held = EMIT(b, clamp_both, level, g.ends[0], g.ends[1]);
    inside = EMIT(b, eq_Tensor, held, level);
    held = EMIT(b, sub_Tensor, held, g.zero);
    of_scale =
        EMIT(b, div_Tensor, EMIT(b, sub_Tensor, EMIT(b, mul_Tensor, held, g.scale), x), g.scale);
    of_scale = EMIT(b, where_self, inside, of_scale, held);
    results[0] = exg_arg_ref(EMIT(b, mul_Tensor, grad, inside));
    results[1] = learned(b, &g, EMIT(b, mul_Tensor, grad, of_scale));
    results[2] = learned(b, &g,
                         EMIT(b, where_ScalarSelf, inside, 0.,
                              EMIT(b, neg_default, EMIT(b, mul_Tensor, grad, g.scale))));
}

void exg_lower_fake_quantize_learnable_backward(exg_builder *b, const exg_argument *args,
                                                exg_argument *results)
{
    learnable_backward(b, args, false, results);
}

void exg_lower_fake_quantize_learnable_channel_backward(exg_builder *b, const exg_argument *args,
                                                        exg_argument *results)
{
    learnable_backward(b, args, true, results);
}

/* (self [M, K], mat2 [N, K] of int8, scales [N]): a byte is exact in any float dtype. */
void exg_lower_weight_int8pack_mm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref weight = exg_lower_cast(b, exg_get_ref(&args[1]), exg_lower_dtype(b, SELF));

    results[0] = exg_arg_ref(EMIT(b, mul_Tensor, EMIT(b, linear_default, SELF, weight), args[2]));
}
