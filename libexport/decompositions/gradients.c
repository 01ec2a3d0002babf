/* gradients.c - lowerings of gradients.def. The first argument is what came back: g. */
#include "libexport/operators/lower.h"

#include <math.h>

#define EXG_ROWS "libexport/operators/gradients.def"
#include "libexport/operators/rows.h"

#define SELF   exg_get_ref(&args[0])
#define REF(i) exg_get_ref(&args[i])

/* In the dtype of x, whose gradient it is. */
static exg_argument stored(exg_builder *b, exg_ref g, exg_ref x)
{
    return exg_arg_ref(exg_lower_cast(b, g, exg_lower_dtype(b, x)));
}

/* ---- losses: of a mean (reduction 1) every element has its part ---- */

static exg_ref shared(exg_builder *b, exg_ref g, exg_ref x, int64_t reduction)
{
    return reduction == 1 ? EMIT(b, div_Scalar, g, exg_arg_int(exg_lower_numel(b, x))) : g;
}

/* g sign(d) where |d| is at least beta, else g d / beta */
void exg_lower_smooth_l1_loss_backward(exg_builder *b, const exg_argument *args,
                                       exg_argument *results)
{
    double beta = exg_get_float(&args[4]);
    exg_ref d = EMIT(b, sub_Tensor, exg_lower_wide(b, REF(1)), exg_lower_wide(b, REF(2)));
    exg_ref g = shared(b, exg_lower_wide(b, SELF), REF(1), exg_get_int(&args[3]));
    exg_ref near = beta > 0 ? EMIT(b, div_Scalar, d, beta) : d;
    exg_ref slope = EMIT(b, where_ScalarSelf, EMIT(b, ge_Scalar, d, beta), 1.0, near);

    slope = EMIT(b, where_ScalarSelf, EMIT(b, le_Scalar, d, -beta), -1.0, slope);
    results[0] = stored(b, EMIT(b, mul_Tensor, g, slope), REF(1));
}

/* g d, where |d| counts as delta at most */
void exg_lower_huber_loss_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    double delta = exg_get_float(&args[4]);
    exg_ref d = EMIT(b, sub_Tensor, exg_lower_wide(b, REF(1)), exg_lower_wide(b, REF(2)));
    exg_ref g = shared(b, exg_lower_wide(b, SELF), REF(1), exg_get_int(&args[3]));

    d = EMIT(b, clamp_both, d, -delta, delta);
    results[0] = stored(b, EMIT(b, mul_Tensor, g, d), REF(1));
}

/* g w (x - y) / (x (1 - x)), divided by 1e-12 at least */
void exg_lower_binary_cross_entropy_backward(exg_builder *b, const exg_argument *args,
                                             exg_argument *results)
{
    exg_ref x = exg_lower_wide(b, REF(1));
    exg_ref below = EMIT(b, mul_Tensor, EMIT(b, rsub_Scalar, x, 1.0), x);
    exg_ref g = EMIT(b, mul_Tensor, exg_lower_wide(b, SELF), EMIT(b, sub_Tensor, x, args[2]));

    g = EMIT(b, div_Tensor, g, EMIT(b, clamp_min_default, below, 1e-12));
    g = exg_lower_given(&args[3]) ? EMIT(b, mul_Tensor, g, args[3]) : g;
    results[0] = stored(b, shared(b, g, x, exg_get_int(&args[4])), REF(1));
}

/* -g y / (1 + e^(x y)) */
void exg_lower_soft_margin_loss_backward(exg_builder *b, const exg_argument *args,
                                         exg_argument *results)
{
    exg_ref y = exg_lower_wide(b, REF(2));
    exg_ref part = EMIT(b, sigmoid_default,
                        EMIT(b, neg_default, EMIT(b, mul_Tensor, exg_lower_wide(b, REF(1)), y)));
    exg_ref g = EMIT(b, mul_Tensor, exg_lower_wide(b, SELF), EMIT(b, mul_Tensor, y, part));

    g = shared(b, EMIT(b, neg_default, g), REF(1), exg_get_int(&args[3]));
    results[0] = stored(b, g, REF(1));
}

/* z_j = margin - x_y + x_j of classes j but y: of what is above 0 its power p, each by C and by the
 * class's weight. (g, x (rows, C) or (C), y, p, margin, weight?, reduction) */
void exg_lower_multi_margin_loss_backward(exg_builder *b, const exg_argument *args,
                                          exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, REF(1));
    int64_t classes = in.rank == 0 ? 1 : in.n[in.rank - 1];
    exg_ref x = EMIT(b, reshape_default, exg_lower_wide(b, REF(1)), INTS(b, -1, classes));
    exg_ref y = EMIT(b, reshape_default, REF(2), INTS(b, -1, 1));
    exg_ref g = shared(b, exg_lower_wide(b, SELF), y, exg_get_int(&args[6]));
    exg_ref z = EMIT(b, sub_Tensor, x, EMIT(b, gather_default, x, 1, y));
    exg_ref steps = exg_lower_steps(b, classes, EXG_DTYPE_I64, 1, 2);
    exg_ref counts;

    z = EMIT(b, add_Scalar, z, args[4]);
    counts = EMIT(b, logical_and_default, EMIT(b, gt_Scalar, z, 0), EMIT(b, ne_Tensor, steps, y));
    z = exg_get_float(&args[3]) == 1 ? EMIT(b, full_like_default, z, 1)
                                     : EMIT(b, mul_Scalar, z, 2.0);
    z = EMIT(b, div_Scalar, EMIT(b, where_ScalarOther, counts, z, 0.0), exg_arg_int(classes));
    if (exg_lower_given(&args[5])) {
        z = EMIT(b, mul_Tensor, z, EMIT(b, index_Tensor, REF(5), exg_arg_refs(b, &y, 1)));
    }
    z = EMIT(b, where_self, EMIT(b, eq_Tensor, steps, y),
             EMIT(b, neg_default, EMIT(b, sum_dim_IntList, z, INTS(b, 1), exg_arg_bool(true))), z);
    if (exg_lower_dims(b, g).rank > 0) {
        g = EMIT(b, reshape_default, g, INTS(b, -1, 1));
    }
    results[0] = stored(b, exg_lower_shaped(b, EMIT(b, mul_Tensor, z, g), &in), REF(1));
}

/* ---- functions ---- */

/* s (1 - s) of a sigmoid s */
static exg_ref bell(exg_builder *b, exg_ref s)
{
    return EMIT(b, mul_Tensor, s, EMIT(b, rsub_Scalar, s, 1.0));
}

/* The first half times the sigmoid of the second. */
void exg_lower_glu_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, REF(1));
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[2]), in.rank);
    int64_t half = in.rank == 0 ? 0 : in.n[dim] / 2;
    exg_ref g = exg_lower_wide(b, SELF);
    exg_ref x = exg_lower_wide(b, REF(1));
    exg_ref s = EMIT(b, sigmoid_default, exg_lower_slice(b, x, dim, half, half));
    exg_ref parts[2] = {EMIT(b, mul_Tensor, g, s), EMIT(b, mul_Tensor, g, bell(b, s))};

    parts[1] = EMIT(b, mul_Tensor, parts[1], exg_lower_slice(b, x, dim, 0, half));
    results[0] = stored(b, EMIT(b, cat_default, exg_arg_refs(b, parts, 2), (int)dim), REF(1));
}

/* What torch keeps for the way back, e^-|x|, nothing here reads. */
void exg_lower_log_sigmoid_forward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref kept = EMIT(b, exp_default, EMIT(b, neg_default, EMIT(b, abs_default, SELF)));

    results[0] = exg_arg_ref(EMIT(b, log_sigmoid_default, SELF));
    results[1] = exg_arg_ref(kept);
}

void exg_lower_log_sigmoid_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref s = EMIT(b, sigmoid_default, EMIT(b, neg_default, exg_lower_wide(b, REF(1))));

    results[0] = stored(b, EMIT(b, mul_Tensor, exg_lower_wide(b, SELF), s), REF(1));
}

/* x tanh(softplus(x)) */
void exg_lower_mish_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_lower_wide(b, REF(1));
    exg_ref t = EMIT(b, tanh_default, EMIT(b, softplus_default, x));
    exg_ref rest = EMIT(b, rsub_Scalar, EMIT(b, square_default, t), 1.0);
    exg_ref slope = EMIT(b, mul_Tensor, EMIT(b, mul_Tensor, x, EMIT(b, sigmoid_default, x)), rest);

    slope = EMIT(b, add_Tensor, t, slope);
    results[0] = stored(b, EMIT(b, mul_Tensor, exg_lower_wide(b, SELF), slope), REF(1));
}

/* What is within lambda of 0 was made 0. */
void exg_lower_shrink_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref near = EMIT(b, le_Scalar, EMIT(b, abs_default, REF(1)), args[2]);

    results[0] = exg_arg_ref(EMIT(b, where_ScalarSelf, near, 0.0, SELF));
}

/* g / (x (1 - x)) between eps and 1 - eps, 0 elsewhere; without eps NaN */
void exg_lower_logit_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    bool given = !exg_is_none(&args[2]) && exg_get_float(&args[2]) >= 0;
    double eps = given ? exg_get_float(&args[2]) : 0;
    exg_ref x = exg_lower_wide(b, REF(1));
    exg_ref outside =
        EMIT(b, logical_or_default, EMIT(b, lt_Scalar, x, eps), EMIT(b, gt_Scalar, x, 1 - eps));
    exg_ref g = EMIT(b, div_Tensor, exg_lower_wide(b, SELF), bell(b, x));

    g = EMIT(b, where_ScalarSelf, outside, given ? 0.0 : (double)NAN, g);
    results[0] = stored(b, g, REF(1));
}

/* (g, self, noise, lower, upper, training): by what it was multiplied with, or by their mean. */
void exg_lower_rrelu_with_noise_backward(exg_builder *b, const exg_argument *args,
                                         exg_argument *results)
{
    double lower = exg_get_float(&args[3]);
    double upper = exg_get_float(&args[4]);

    if (exg_get_bool(&args[5]) && upper - lower > 1e-6) {
        results[0] = stored(b, EMIT(b, mul_Tensor, SELF, args[2]), SELF);
        return;
    }
    results[0] = exg_arg_ref(EMIT(b, leaky_relu_backward_default, SELF, args[1],
                                  (lower + upper) / 2, exg_arg_bool(false)));
}

void exg_lower_prelu_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref above = EMIT(b, gt_Scalar, REF(1), 0);

    results[0] =
        stored(b, EMIT(b, where_self, above, SELF, EMIT(b, mul_Tensor, args[2], SELF)), REF(1));
    results[1] = stored(
        b, EMIT(b, where_ScalarSelf, above, 0.0, EMIT(b, mul_Tensor, args[1], SELF)), REF(1));
}

/* ---- distances ---- */

/* What the distance of order p has as its slope along d. */
static exg_ref along(exg_builder *b, exg_ref d, exg_ref distance, double p)
{
    exg_ref sign = EMIT(b, sign_default, d);
    exg_ref size = EMIT(b, abs_default, d);
    exg_ref slope;

    if (p == 1) {
        return sign;
    }
    if (isinf(p)) {
        return EMIT(b, mul_Tensor, sign,
                    exg_lower_cast(b, EMIT(b, eq_Tensor, size, distance), exg_lower_dtype(b, d)));
    }
    if (p == 2) {
        slope = EMIT(b, div_Tensor, d, distance);
    } else {
        slope = EMIT(b, mul_Tensor, sign, EMIT(b, pow_Tensor_Scalar, size, p - 1));
        slope = EMIT(b, div_Tensor, slope, EMIT(b, pow_Tensor_Scalar, distance, p - 1));
        slope = p < 1 ? EMIT(b, where_ScalarSelf, EMIT(b, eq_Scalar, d, 0), 0.0, slope) : slope;
    }
    return EMIT(b, where_ScalarSelf, EMIT(b, eq_Scalar, distance, 0), 0.0, slope);
}

/* (grad (.., p, r), x1 (.., p, m), x2 (.., r, m), p, cdist (.., p, r)) -> like x1 */
void exg_lower_cdist_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    double p = exg_get_float(&args[3]);
    exg_dims in = exg_lower_dims(b, REF(1));
    exg_ref d = EMIT(b, sub_Tensor, EMIT(b, unsqueeze_default, REF(1), -2),
                     EMIT(b, unsqueeze_default, REF(2), -3));
    exg_ref slope;

    if (in.rank < 2 || exg_lower_dims(b, REF(2)).rank < 2) {
        exg_lower_refuse(b, "distances of rows of matrices");
        return;
    }
    if (p == 0) {
        results[0] = exg_arg_ref(EMIT(b, zeros_like_default, REF(1)));
        return;
    }
    slope = along(b, d, EMIT(b, unsqueeze_default, REF(4), -1), p);
    slope = EMIT(b, mul_Tensor, slope, EMIT(b, unsqueeze_default, SELF, -1));
    slope = EMIT(b, sum_dim_IntList, slope, INTS(b, -2));
    results[0] = exg_arg_ref(EMIT(b, sum_to_size_default, slope, INTS_OF(b, in.n, in.rank)));
}

/* A number a pair i < j as a matrix that is its own transpose, with zeros from i to i. */
static exg_ref both_ways(exg_builder *b, exg_ref x, int64_t n)
{
    exg_ref pairs = EMIT(b, triu_indices_default, exg_arg_int(n), exg_arg_int(n), 1);
    exg_ref place = EMIT(b, mul_Scalar, EMIT(b, select_int, pairs, 0, 0), exg_arg_int(n));
    exg_ref whole = EMIT(b, full_default, INTS(b, n * n), 0, DTYPE(exg_lower_dtype(b, x)));

    place = EMIT(b, add_Tensor, place, EMIT(b, select_int, pairs, 0, 1));
    whole = EMIT(b, scatter_src, whole, 0, place, x);
    whole = EMIT(b, reshape_default, whole, INTS(b, n, n));
    return EMIT(b, add_Tensor, whole, EMIT(b, t_default, whole));
}

/* (grad, x (n, m), p, pdist), both of the first and the last a number a pair of rows */
void exg_lower_pdist_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, REF(1));
    int64_t pairs;

    if (in.rank != 2 || !exg_mul_i64(in.n[0], in.n[0], &pairs)) {
        exg_lower_refuse(b, "distances of rows of a matrix that can be counted");
        return;
    }
    results[0] = exg_arg_ref(EMIT(b, _cdist_backward_default, both_ways(b, SELF, in.n[0]), args[1],
                                  args[1], args[2], both_ways(b, REF(3), in.n[0])));
}

/* ---- windows, masks ---- */

/* (g, mask, sizes): where the mask is true, in order; zeros when they end. */
void exg_lower_masked_scatter_backward(exg_builder *b, const exg_argument *args,
                                       exg_argument *results)
{
    int64_t sizes[EXG_SHAPE_RANK_MAX];
    uint32_t rank = exg_get_ints(&args[2], sizes, EXG_SHAPE_RANK_MAX);
    exg_dims in = exg_lower_dims(b, SELF);
    exg_ref mask = exg_lower_flat(b, EMIT(b, expand_default, REF(1), INTS_OF(b, in.n, in.rank)));
    exg_ref place = EMIT(b, cumsum_default, exg_lower_cast(b, mask, EXG_DTYPE_I64), 0);
    bool counted = rank <= EXG_SHAPE_RANK_MAX;
    int64_t count = 1;
    exg_ref x;

    for (uint32_t d = 0; counted && d < rank; d++) {
        counted = sizes[d] >= 0 && exg_mul_i64(count, sizes[d], &count);
    }
    if (!counted || count == INT64_MAX) {
        exg_lower_refuse(b, "a source of sizes that can be counted");
        return;
    }
    place = EMIT(b, where_ScalarOther, mask, EMIT(b, sub_Scalar, place, 1), exg_arg_int(count));
    x = EMIT(b, full_default, INTS(b, count + 1), 0, DTYPE(exg_lower_dtype(b, SELF)));
    x = EMIT(b, scatter_src, x, 0, place, exg_lower_flat(b, SELF));
    results[0] = exg_arg_ref(
        EMIT(b, reshape_default, exg_lower_slice(b, x, 0, 0, count), INTS_OF(b, sizes, rank)));
}

/* (grad_in, input_sizes, dim, size, step): what lay in several windows comes together. */
void exg_lower_unfold_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t sizes[EXG_SHAPE_RANK_MAX];
    uint32_t rank = exg_get_ints(&args[1], sizes, EXG_SHAPE_RANK_MAX);
    exg_dtype dtype = exg_lower_dtype(b, SELF);
    exg_ref whole, place, g;
    uint32_t dim;

    if (rank > EXG_SHAPE_RANK_MAX || exg_lower_dims(b, SELF).rank != rank + 1) {
        exg_lower_refuse(b, "windows of a tensor of another rank");
        return;
    }
    dim = exg_lower_dim(b, exg_get_int(&args[2]), rank);
    if (rank == 0) { /* a number has one window */
        results[0] = exg_arg_ref(EMIT(b, reshape_default, SELF, INTS_OF(b, sizes, 0)));
        return;
    }
    place = exg_lower_steps(b, sizes[dim], EXG_DTYPE_I64, 0, 1);
    place = exg_lower_flat(b, EMIT(b, unfold_default, place, 0, args[3], args[4]));
    g = EMIT(b, movedim_int, SELF, -1, exg_arg_int((int64_t)dim + 1));
    g = EMIT(b, flatten_using_ints, g, (int)dim, (int)dim + 1);
    whole = EMIT(b, full_default, INTS_OF(b, sizes, rank), 0, DTYPE(dtype));
    results[0] = exg_arg_ref(EMIT(b, index_add_default, whole, (int)dim, place, g));
}

/* ---- v of length g along every dim but `dim` ---- */

static exg_argument all_but(exg_builder *b, uint32_t rank, uint32_t dim)
{
    int64_t dims[EXG_SHAPE_RANK_MAX];
    uint32_t count = 0;

    for (uint32_t d = 0; d < rank; d++) {
        dims[count] = d;
        count += d != dim;
    }
    return INTS_OF(b, dims, count);
}

/* (v, g, dim) -> v g / |v|, |v| */
void exg_lower_weight_norm_interface(exg_builder *b, const exg_argument *args,
                                     exg_argument *results)
{
    uint32_t rank = exg_lower_dims(b, SELF).rank;
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[2]), rank);
    exg_ref v = exg_lower_wide(b, SELF);
    exg_ref norm =
        EMIT(b, linalg_vector_norm_default, v, 2, all_but(b, rank, dim), exg_arg_bool(true));
    exg_ref scale = EMIT(b, div_Tensor, exg_lower_wide(b, REF(1)), norm);

    results[0] = stored(b, EMIT(b, mul_Tensor, v, scale), SELF);
    results[1] = exg_arg_ref(norm);
}

/* (w', v, g, |v|, dim): v' = g / |v| (w' - v (w' . v) / |v|^2), g' = (w' . v) / |v| */
void exg_lower_weight_norm_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t rank = exg_lower_dims(b, SELF).rank;
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[4]), rank);
    exg_ref w = exg_lower_wide(b, SELF);
    exg_ref v = exg_lower_wide(b, REF(1));
    exg_ref dot = EMIT(b, sum_dim_IntList, EMIT(b, mul_Tensor, w, v), all_but(b, rank, dim),
                       exg_arg_bool(true));
    exg_ref part = EMIT(b, div_Tensor, dot, EMIT(b, square_default, REF(3)));
    exg_ref g = EMIT(b, sub_Tensor, w, EMIT(b, mul_Tensor, v, part));
    exg_ref scale = EMIT(b, div_Tensor, exg_lower_wide(b, REF(2)), args[3]);

    results[0] = stored(b, EMIT(b, mul_Tensor, scale, g), REF(1));
    results[1] = stored(b, EMIT(b, div_Tensor, dot, args[3]), REF(2));
}
