/* segment_reduce.c - lowerings of segment_reduce.def: what is in segments of a dim, reduced and
 * back. Every element is asked whether it is in a segment: (.., segments, elements, ..). */
#include "libexport/operators/lower.h"

#include <math.h>

#define EXG_ROWS "libexport/operators/segment_reduce.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

typedef struct segments {
    exg_ref inside;
    uint32_t axis;
    int each; /* the dim of elements, beside that of segments */
} segments;

/* Lengths of segments, which no one has to have checked: none negative, together the data's. */
static exg_ref whole_lengths(exg_builder *b, exg_ref lengths, uint32_t axis, int64_t size)
{
    exg_ref none = EMIT(b, all_default, EMIT(b, ge_Scalar, lengths, 0));
    exg_ref sum = EMIT(b, sum_dim_IntList, lengths, INTS(b, (int64_t)axis));

    sum = EMIT(b, all_default, EMIT(b, eq_Scalar, sum, exg_arg_int(size)));
    return exg_lower_checked(b, lengths, EMIT(b, logical_and_default, none, sum),
                             "no length is negative and they add up to the data's size");
}

/* Begin and end of every segment, of lengths or of offsets. */
static bool ends_of(exg_builder *b, const exg_dims *in, const exg_argument *lengths,
                    const exg_argument *offsets, bool checked, uint32_t axis, exg_ref *start,
                    exg_ref *end)
{
    if (exg_lower_given(offsets)) {
        exg_ref all = exg_get_ref(offsets);
        int64_t count = exg_lower_dims(b, all).n[axis] - 1;

        *start = exg_lower_slice(b, all, axis, 0, count);
        *end = exg_lower_slice(b, all, axis, 1, count);
        return true;
    }
    if (exg_lower_given(lengths)) {
        exg_ref all = exg_get_ref(lengths);

        all = checked ? whole_lengths(b, all, axis, in->rank == 0 ? 1 : in->n[axis]) : all;
        *end = EMIT(b, cumsum_default, all, (int)axis);
        *start = EMIT(b, sub_Tensor, *end, all);
        return true;
    }
    exg_lower_refuse(b, "segment_reduce wants lengths or offsets");
    return false;
}

static bool segments_of(exg_builder *b, exg_ref data, const exg_argument *lengths,
                        const exg_argument *offsets, const exg_argument *axis, bool checked,
                        segments *made)
{
    exg_dims in = exg_lower_dims(b, data);
    exg_ref place, start, end;

    made->axis = exg_lower_dim(b, exg_get_int(axis), in.rank);
    made->each = (int)made->axis + 1;
    if (!ends_of(b, &in, lengths, offsets, checked, made->axis, &start, &end)) {
        return false;
    }
    place = exg_lower_steps(b, in.rank == 0 ? 1 : in.n[made->axis], EXG_DTYPE_I64, made->axis + 1,
                            made->axis + 2);
    start = EMIT(b, unsqueeze_default, start, -1);
    end = EMIT(b, unsqueeze_default, end, -1);
    made->inside = EMIT(b, logical_and_default, EMIT(b, ge_Tensor, place, start),
                        EMIT(b, lt_Tensor, place, end));
    for (uint32_t d = made->axis + 1; d < in.rank; d++) {
        made->inside = EMIT(b, unsqueeze_default, made->inside, -1);
    }
    return true;
}

/* How many of those that `are` are in each segment, as x is stored. */
static exg_ref number_of(exg_builder *b, const segments *s, exg_ref are, exg_dtype dtype)
{
    return exg_lower_cast(b, EMIT(b, sum_dim_IntList, are, INTS(b, s->each), exg_arg_bool(true)),
                          dtype);
}

/* (data, reduce, lengths, indices, offsets, axis, unsafe, initial) */
void exg_lower_segment_reduce(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, SELF);
    bool mean = exg_lower_is_word(&args[1], "mean");
    bool sum = mean || exg_lower_is_word(&args[1], "sum");
    bool prod = exg_lower_is_word(&args[1], "prod");
    bool most = exg_lower_is_word(&args[1], "max");
    double neutral = sum ? 0 : prod ? 1 : most ? -INFINITY : INFINITY;
    double initial = exg_is_none(&args[7]) ? neutral : exg_get_float(&args[7]);
    segments s;
    exg_ref x;

    if (!segments_of(b, SELF, &args[2], &args[4], &args[5], !exg_get_bool(&args[6]), &s)) {
        return;
    }
    x = EMIT(b, where_ScalarOther, s.inside, EMIT(b, unsqueeze_default, SELF, (int)s.axis),
             neutral);
    x = sum    ? EMIT(b, sum_dim_IntList, x, INTS(b, s.each))
        : prod ? EMIT(b, prod_dim_int, x, s.each)
        : most ? EMIT(b, amax_default, x, INTS(b, s.each))
               : EMIT(b, amin_default, x, INTS(b, s.each));
    x = sum    ? EMIT(b, add_Scalar, x, initial)
        : prod ? EMIT(b, mul_Scalar, x, initial)
        : most ? EMIT(b, clamp_min_default, x, initial)
               : EMIT(b, clamp_max_default, x, initial);
    if (mean) { /* a mean of nothing is NaN, or what it began with */
        exg_ref count = EMIT(b, squeeze_dims, number_of(b, &s, s.inside, dtype), INTS(b, s.each));

        x = EMIT(b, div_Tensor, x,
                 exg_is_none(&args[7]) ? count : EMIT(b, clamp_min_default, count, 1.));
    }
    results[0] = exg_arg_ref(exg_lower_cast(b, x, dtype));
}

/* What a product changes with each of its factors: it without the factor. Where dividing says
 * nothing, of a factor of 0 or NaN, that is the product of the others. */
static exg_ref without_each(exg_builder *b, const segments *s, exg_ref data, exg_ref out,
                            double initial)
{
    exg_dtype dtype = exg_lower_dtype(b, data);
    exg_ref nan = EMIT(b, ne_Tensor, data, data);
    exg_ref hole = EMIT(b, logical_or_default, EMIT(b, eq_Scalar, data, 0.), nan);
    exg_ref holes = number_of(b, s, EMIT(b, logical_and_default, s->inside, hole), dtype);
    exg_ref nans = number_of(b, s, EMIT(b, logical_and_default, s->inside, nan), dtype);
    exg_ref solid = EMIT(b, logical_and_default, s->inside, EMIT(b, logical_not_default, hole));
    exg_ref others = EMIT(b, prod_dim_int, EMIT(b, where_ScalarOther, solid, data, 1.), s->each,
                          exg_arg_bool(true));

    others = EMIT(b, mul_Scalar, others, initial);
    others = EMIT(b, where_ScalarOther, EMIT(b, eq_Scalar, holes, 1.), others, 0.);
    nans = EMIT(b, sub_Tensor, nans, exg_lower_cast(b, nan, dtype));
    others = EMIT(b, where_ScalarSelf, EMIT(b, gt_Scalar, nans, 0.), (double)NAN, others);
    return EMIT(b, where_self, hole, others, EMIT(b, div_Tensor, out, data));
}

/* (grad, output, data, reduce, lengths, offsets, axis, initial) */
void exg_lower_segment_reduce_backward(exg_builder *b, const exg_argument *args,
                                       exg_argument *results)
{
    exg_ref data = exg_get_ref(&args[2]);
    exg_dtype dtype = exg_lower_dtype(b, data);
    exg_ref g, out, x;
    segments s;

    if (!segments_of(b, data, &args[4], &args[5], &args[6], false, &s)) {
        return;
    }
    data = EMIT(b, unsqueeze_default, data, (int)s.axis);
    g = EMIT(b, unsqueeze_default, SELF, s.each);
    out = EMIT(b, unsqueeze_default, args[1], s.each);
    x = s.inside;
    if (exg_lower_is_word(&args[3], "mean")) {
        g = EMIT(b, div_Tensor, g, number_of(b, &s, s.inside, dtype));
    } else if (exg_lower_is_word(&args[3], "prod")) {
        double initial = exg_is_none(&args[7]) ? 1 : exg_get_float(&args[7]);

        g = EMIT(b, mul_Tensor, g, without_each(b, &s, data, out, initial));
    } else if (!exg_lower_is_word(&args[3], "sum")) { /* to those that are the extreme */
        x = EMIT(b, logical_or_default, EMIT(b, eq_Tensor, data, out),
                 EMIT(b, ne_Tensor, data, data));
        x = EMIT(b, logical_and_default, s.inside, x);
        /* shared among equals where it is positive, to each whole where not: PyTorch's way */
        g = EMIT(b, where_self, EMIT(b, gt_Scalar, g, 0.),
                 EMIT(b, div_Tensor, g, number_of(b, &s, x, dtype)), g);
    }
    g = EMIT(b, where_ScalarOther, x, g, 0.);
    results[0] = exg_arg_ref(EMIT(b, sum_dim_IntList, g, INTS(b, (int64_t)s.axis)));
}
