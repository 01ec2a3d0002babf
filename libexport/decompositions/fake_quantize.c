/* fake_quantize.c - lowerings of quantized.def that choose the grid from what they have seen:
 * running extremes, moved a part of the way to those of every call, and the scale and zero point
 * that follow. Meaning: FusedObsFakeQuant.cpp and quant_utils.h. */
#include "libexport/operators/lower.h"

#include <float.h>
#include <math.h>

#define EXG_ROWS "libexport/operators/quantized.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

#define SCALE_MIN ((double)6.1e-5f)

/* (self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point,
 * averaging_const, quant_min, quant_max, ch_axis, per_row_fake_quant, symmetric_quant) */
enum { ON = 1, QUANTIZES, RUNNING, SCALE = 5, ZERO, PART, LEAST, MOST, AXIS, BY_ROW, SYMMETRIC };

/* Is the flag, a tensor of one number, up? */
static exg_ref is_up(exg_builder *b, const exg_argument *flag)
{
    exg_dims none = {0};

    return exg_lower_shaped(b, EMIT(b, ne_Scalar, *flag, 0), &none);
}

/* The running extreme, a part of the way on to that of x; infinities are left at once. */
static exg_ref moved(exg_builder *b, const exg_argument *args, uint32_t which, exg_ref seen)
{
    exg_ref running = exg_get_ref(&args[which]);
    exg_dims dims = exg_lower_dims(b, running);
    exg_ref step;

    if (exg_lower_numel(b, running) != exg_lower_numel(b, seen)) {
        exg_lower_refuse(b, "running extremes of another number of channels");
        return running;
    }
    seen = exg_lower_cast(b, exg_lower_shaped(b, seen, &dims), exg_lower_dtype(b, running));
    step = EMIT(b, mul_Scalar, EMIT(b, sub_Tensor, seen, running), args[PART]);
    return EMIT(b, where_self, EMIT(b, isinf_default, running), seen,
                EMIT(b, add_Tensor, running, step));
}

/* Least and most of x, over all or all but a channel's axis. */
static void extremes(exg_builder *b, const exg_argument *args, exg_ref *least, exg_ref *most)
{
    uint32_t rank = exg_lower_dims(b, SELF).rank;
    uint32_t axis =
        exg_get_bool(&args[BY_ROW]) ? exg_lower_dim(b, exg_get_int(&args[AXIS]), rank) : rank;
    int64_t dims[EXG_SHAPE_RANK_MAX] = {0};
    uint32_t count = 0;
    exg_ref x = exg_lower_wide(b, SELF);

    for (uint32_t d = 0; d < rank; d++) {
        dims[count] = d;
        count += d != axis;
    }
    *least = *most = x;
    if (count > 0) {
        *least = EMIT(b, amin_default, x, INTS_OF(b, dims, count));
        *most = EMIT(b, amax_default, x, INTS_OF(b, dims, count));
    }
}

static exg_ref absolute(exg_builder *b, exg_ref x, double by)
{
    return EMIT(b, abs_default, EMIT(b, div_Scalar, x, by));
}

/* Where zero is within, the range is made as wide on both sides as its wider one. */
static void balance(exg_builder *b, double span, exg_ref both, exg_ref *low, exg_ref *high)
{
    double below = -(double)((int64_t)(span / 2) + 1);
    double above = (double)(int64_t)(span / 2);
    exg_ref step = EMIT(b, maximum_default, absolute(b, *low, below), absolute(b, *high, above));

    *low = EMIT(b, where_self, both, EMIT(b, mul_Scalar, step, below), *low);
    *high = EMIT(b, where_self, both, EMIT(b, mul_Scalar, step, above), *high);
}

/* How far from the end of the grid its zero is, were this end of the data exact. */
static exg_ref zero_from(exg_builder *b, double end, exg_ref steps)
{
    return EMIT(b, rsub_Scalar, steps, end);
}

static exg_ref error_from(exg_builder *b, double end, exg_ref steps)
{
    return EMIT(b, rsub_Scalar, EMIT(b, abs_default, steps), fabs(end));
}

/* Scale and zero point of the range, computed in float64. */
static void choose(exg_builder *b, const exg_argument *args, exg_ref low, exg_ref high,
                   exg_ref *scale, exg_ref *zero)
{
    double least = exg_get_float(&args[LEAST]);
    double most = exg_get_float(&args[MOST]);
    bool symmetric = exg_get_bool(&args[SYMMETRIC]);
    exg_ref both, fits;

    low = exg_lower_cast(b, low, EXG_DTYPE_F64);
    high = exg_lower_cast(b, high, EXG_DTYPE_F64);
    both = EMIT(b, logical_and_default, EMIT(b, lt_Scalar, low, 0.), EMIT(b, gt_Scalar, high, 0.));
    if (symmetric) {
        balance(b, most - least, both, &low, &high);
    }
    low = EMIT(b, clamp_max_default, low, 0.);
    high = EMIT(b, clamp_min_default, high, 0.);
    *scale = EMIT(b, div_Scalar, EMIT(b, sub_Tensor, high, low), most - least);
    fits = EMIT(b, gt_Scalar, *scale, 1 / (double)FLT_MAX);
    *scale = EMIT(b, where_ScalarOther, fits, *scale, 0.1);
    low = EMIT(b, div_Tensor, low, *scale);
    high = EMIT(b, div_Tensor, high, *scale);
    *zero = EMIT(b, where_self,
                 EMIT(b, lt_Tensor, error_from(b, least, low), error_from(b, most, high)),
                 zero_from(b, least, low), zero_from(b, most, high));
    if (symmetric) {
        *zero = EMIT(b, where_ScalarSelf, both, (least + most) / 2, *zero);
    }
    *zero = EMIT(b, round_default, EMIT(b, clamp_both, *zero, least, most));
    *scale = EMIT(b, clamp_min_default, *scale, SCALE_MIN);
}

/* What stands there now, or, where that is on, what was found. */
static exg_argument kept(exg_builder *b, exg_ref on, const exg_argument *old, exg_ref found)
{
    exg_ref x = exg_get_ref(old);

    found = exg_lower_cast(b, found, exg_lower_dtype(b, x));
    return exg_arg_ref(EMIT(b, where_self, on, found, x));
}

/* -> output, mask, running_min, running_max, scale, zero_point */
void exg_lower_observed_functional(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref on = is_up(b, &args[ON]);
    exg_ref quantizes = is_up(b, &args[QUANTIZES]);
    exg_argument made[2] = {exg_arg_none(), exg_arg_none()};
    exg_ref least, most, scale, zero;

    if (exg_get_bool(&args[BY_ROW]) && exg_get_int(&args[AXIS]) != 0) {
        exg_lower_refuse(b, "an observer of channels that are not the first dim");
        return;
    }
    extremes(b, args, &least, &most);
    least = moved(b, args, RUNNING, least);
    most = moved(b, args, RUNNING + 1, most);
    results[2] = kept(b, on, &args[RUNNING], least);
    results[3] = kept(b, on, &args[RUNNING + 1], most);
    choose(b, args, exg_get_ref(&results[2]), exg_get_ref(&results[3]), &scale, &zero);
    results[4] = kept(b, quantizes, &args[SCALE], scale);
    results[5] = kept(b, quantizes, &args[ZERO], zero);
    if (exg_get_bool(&args[BY_ROW])) {
        (void)EMIT_ALL(b, fake_quantize_per_channel_affine_cachemask_default, made, SELF,
                       results[4], results[5], args[AXIS], args[LEAST], args[MOST]);
        results[0] = exg_arg_ref(EMIT(b, where_self, quantizes, made[0], SELF));
        results[1] = exg_arg_ref(
            EMIT(b, logical_or_default, made[1], EMIT(b, logical_not_default, quantizes)));
        return;
    }
    (void)EMIT_ALL(b, _fake_quantize_per_tensor_affine_cachemask_tensor_qparams_default, made, SELF,
                   results[4], results[5], quantizes, args[LEAST], args[MOST]);
    results[0] = made[0];
    results[1] = made[1];
}

/* The same, written where it is kept. -> output, mask */
void exg_lower_observed_helper(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument all[6] = {exg_arg_none()};

    exg_lower_observed_functional(b, args, all);
    for (uint32_t k = 0; k < 4; k++) {
        (void)EMIT(b, copy__default, args[RUNNING + k], all[2 + k]);
    }
    results[0] = all[0];
    results[1] = all[1];
}

void exg_lower_observed(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument both[2] = {exg_arg_none(), exg_arg_none()};

    exg_lower_observed_helper(b, args, both);
    results[0] = both[0];
}
