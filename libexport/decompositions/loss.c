/* loss.c - lowerings of loss.def. Most end in reduction: 0 none, 1 mean, 2 sum. */
#include "libexport/operators/lower.h"

#include <string.h>

#define EXG_ROWS "libexport/operators/loss.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

static void reduce(exg_builder *b, exg_ref x, const exg_argument *reduction, exg_argument *results)
{
    results[0] = exg_arg_ref(exg_lower_reduced(b, x, exg_get_int(reduction)));
}

static exg_ref distance(exg_builder *b, const exg_argument *args)
{
    return EMIT(b, abs_default, EMIT(b, sub_Tensor, args[0], args[1]));
}

void exg_lower_mse_loss(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    reduce(b, EMIT(b, square_default, EMIT(b, sub_Tensor, args[0], args[1])), &args[2], results);
}

void exg_lower_l1_loss(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    reduce(b, distance(b, args), &args[2], results);
}

/* z < beta: z^2 / (2 beta), else z - beta / 2 */
void exg_lower_smooth_l1_loss(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    double beta = exg_get_float(&args[3]);
    exg_ref z = distance(b, args);

    if (beta > 0) {
        exg_ref near = EMIT(b, mul_Scalar, EMIT(b, square_default, z), 0.5 / beta);

        z = EMIT(b, where_self, EMIT(b, lt_Scalar, z, beta), near,
                 EMIT(b, sub_Scalar, z, 0.5 * beta));
    }
    reduce(b, z, &args[2], results);
}

/* z <= delta: z^2 / 2, else delta (z - delta / 2) */
void exg_lower_huber_loss(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    double delta = exg_get_float(&args[3]);
    exg_dtype dtype =
        exg_promote_types(exg_lower_dtype(b, SELF), exg_lower_dtype(b, exg_get_ref(&args[1])));
    const exg_argument wide[2] = {exg_arg_ref(exg_lower_wide(b, SELF)),
                                  exg_arg_ref(exg_lower_wide(b, exg_get_ref(&args[1])))};
    exg_ref z = distance(b, wide);
    exg_ref near = EMIT(b, mul_Scalar, EMIT(b, square_default, z), 0.5);
    exg_ref far = EMIT(b, mul_Scalar, EMIT(b, sub_Scalar, z, 0.5 * delta), delta);

    z = EMIT(b, where_self, EMIT(b, le_Scalar, z, delta), near, far);
    reduce(b, exg_lower_cast(b, z, dtype), &args[2], results);
}

/* -(y log x + (1 - y) log(1 - x)), logarithms no less than -100 */
void exg_lower_binary_cross_entropy(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref y = exg_get_ref(&args[1]);
    exg_ref log_x = EMIT(b, clamp_min_default, EMIT(b, log_default, SELF), -100.0);
    exg_ref log_rest = EMIT(b, log1p_default, EMIT(b, neg_default, SELF));
    exg_ref loss = EMIT(b, mul_Tensor, EMIT(b, sub_Scalar, y, 1.0),
                        EMIT(b, clamp_min_default, log_rest, -100.0));

    loss = EMIT(b, sub_Tensor, loss, EMIT(b, mul_Tensor, y, log_x));
    loss = exg_lower_given(&args[2]) ? EMIT(b, mul_Tensor, loss, args[2]) : loss;
    reduce(b, loss, &args[3], results);
}

/* x times y, stored as x is: what mul_ gives. */
static exg_ref times(exg_builder *b, exg_ref x, exg_ref y)
{
    return exg_lower_cast(b, EMIT(b, mul_Tensor, x, y), exg_lower_dtype(b, x));
}

/* (1 - y) x - (1 + (pos_weight - 1) y) log_sigmoid(x), of the target's dtype */
void exg_lower_binary_cross_entropy_with_logits(exg_builder *b, const exg_argument *args,
                                                exg_argument *results)
{
    exg_ref y = exg_get_ref(&args[1]);
    exg_ref log_sigmoid = EMIT(b, log_sigmoid_default, SELF);
    exg_ref loss = times(b, EMIT(b, rsub_Scalar, y, 1.0), SELF);

    if (exg_lower_given(&args[3])) {
        exg_ref more = EMIT(b, mul_Tensor, EMIT(b, sub_Scalar, exg_get_ref(&args[3]), 1.0), y);

        log_sigmoid = times(b, log_sigmoid, EMIT(b, add_Scalar, more, 1.0));
    }
    loss = exg_lower_cast(b, EMIT(b, sub_Tensor, loss, log_sigmoid), exg_lower_dtype(b, loss));
    loss = exg_lower_given(&args[2]) ? times(b, loss, exg_get_ref(&args[2])) : loss;
    reduce(b, loss, &args[4], results);
}

/* y (log y - x); with log_target exp(y) (y - x) */
void exg_lower_kl_div(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref y = exg_get_ref(&args[1]);
    exg_ref loss =
        exg_get_bool(&args[3])
            ? EMIT(b, mul_Tensor, EMIT(b, exp_default, y), EMIT(b, sub_Tensor, y, SELF))
            : EMIT(b, sub_Tensor, EMIT(b, xlogy_Tensor, y, y), EMIT(b, mul_Tensor, y, SELF));

    reduce(b, loss, &args[2], results);
}

void exg_lower_soft_margin_loss(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref product = EMIT(b, mul_Tensor, exg_get_ref(&args[1]), SELF); /* a target of bools too */

    product = EMIT(b, neg_default, product);
    reduce(b, EMIT(b, log1p_default, EMIT(b, exp_default, product)), &args[2], results);
}

/* (input1, input2, target, margin, reduction) */
void exg_lower_margin_ranking_loss(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref gap = EMIT(b, sub_Tensor, args[0], args[1]);
    exg_ref loss = EMIT(b, mul_Tensor, EMIT(b, neg_default, exg_get_ref(&args[2])), gap);

    loss = EMIT(b, clamp_min_default, EMIT(b, add_Scalar, loss, args[3]), 0);
    reduce(b, loss, &args[4], results);
}

/* y = 1: x; y = -1: max(0, margin - x); else both */
void exg_lower_hinge_embedding_loss(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref y = exg_get_ref(&args[1]);
    exg_ref margin = EMIT(b, full_like_default, SELF, args[2]); /* an integer among integers */
    exg_ref hinge = EMIT(b, clamp_min_default, EMIT(b, sub_Tensor, margin, SELF), 0);
    exg_ref none = EMIT(b, zeros_like_default, SELF);
    exg_ref far = EMIT(b, where_self, EMIT(b, ne_Scalar, y, 1), hinge, none);
    exg_ref near = EMIT(b, where_self, EMIT(b, ne_Scalar, y, -1), SELF, none);

    reduce(b, EMIT(b, add_Tensor, far, near), &args[3], results);
}

static exg_ref last_sum(exg_builder *b, exg_ref x)
{
    return EMIT(b, sum_dim_IntList, x, INTS(b, -1));
}

/* (input1, input2, target, margin, reduction); 1e-12 as in torch */
void exg_lower_cosine_embedding_loss(exg_builder *b, const exg_argument *args,
                                     exg_argument *results)
{
    exg_ref y = exg_get_ref(&args[2]);
    exg_ref length0 = last_sum(b, EMIT(b, mul_Tensor, args[0], args[0]));
    exg_ref length1 = last_sum(b, EMIT(b, mul_Tensor, args[1], args[1]));
    exg_ref both = EMIT(b, mul_Tensor, EMIT(b, add_Scalar, length0, 1e-12),
                        EMIT(b, add_Scalar, length1, 1e-12));
    exg_ref cosine = EMIT(b, div_Tensor, last_sum(b, EMIT(b, mul_Tensor, args[0], args[1])),
                          EMIT(b, sqrt_default, both));
    exg_ref none = EMIT(b, zeros_like_default, cosine);
    exg_ref near =
        EMIT(b, where_self, EMIT(b, eq_Scalar, y, 1), EMIT(b, rsub_Scalar, cosine, 1), none);
    exg_ref far = EMIT(b, clamp_min_default, EMIT(b, sub_Scalar, cosine, args[3]), 0);

    far = EMIT(b, where_self, EMIT(b, eq_Scalar, y, -1), far, none);
    reduce(b, EMIT(b, add_Tensor, near, far), &args[4], results);
}

/* (input, target, log_input, full, eps, reduction) */
void exg_lower_poisson_nll_loss(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref y = exg_get_ref(&args[1]);
    exg_ref log_x = EMIT(b, log_default, EMIT(b, add_Scalar, SELF, args[4]));
    exg_ref loss =
        exg_get_bool(&args[2])
            ? EMIT(b, sub_Tensor, EMIT(b, exp_default, SELF), EMIT(b, mul_Tensor, y, SELF))
            : EMIT(b, sub_Tensor, SELF, EMIT(b, mul_Tensor, y, log_x));

    if (exg_get_bool(&args[3])) { /* Stirling's approximation of log(y!), from 1 on */
        exg_ref log_y = EMIT(b, log_default, y);
        exg_ref more = EMIT(b, sub_Tensor, EMIT(b, mul_Tensor, y, log_y), y);
        exg_ref half = EMIT(b, log_default, EMIT(b, mul_Scalar, y, 6.28318530717958647693));

        more = EMIT(b, add_Tensor, more, half, 0.5);
        more =
            EMIT(b, where_self, EMIT(b, le_Scalar, y, 1), EMIT(b, zeros_like_default, more), more);
        loss = EMIT(b, add_Tensor, loss, more);
    }
    reduce(b, loss, &args[5], results);
}

static exg_ref pair_distance(exg_builder *b, const exg_argument *x, const exg_argument *y,
                             const exg_argument *p, const exg_argument *eps)
{
    exg_ref gap = EMIT(b, add_Scalar, EMIT(b, sub_Tensor, *x, *y), *eps);

    return EMIT(b, linalg_vector_norm_default, gap, *p, INTS(b, -1));
}

/* (anchor, positive, negative, margin, p, eps, swap, reduction) */
void exg_lower_triplet_margin_loss(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref near = pair_distance(b, &args[0], &args[1], &args[4], &args[5]);
    exg_ref far = pair_distance(b, &args[0], &args[2], &args[4], &args[5]);
    exg_ref loss;

    if (exg_get_bool(&args[6])) {
        far =
            EMIT(b, minimum_default, far, pair_distance(b, &args[1], &args[2], &args[4], &args[5]));
    }
    loss = EMIT(b, add_Scalar, EMIT(b, sub_Tensor, near, far), args[3]);
    reduce(b, EMIT(b, clamp_min_default, loss, 0), &args[7], results);
}

/* ---- classes ------------------------------------------------------------------------------ */

typedef struct classes {
    exg_ref target; /* ignored places as class 0 */
    exg_ref counts; /* where they count */
    uint32_t dim;   /* of the classes */
} classes;

static classes classes_of(exg_builder *b, exg_ref x, exg_ref target, int64_t ignored)
{
    classes c = {.dim = exg_lower_dims(b, x).rank > 1 ? 1 : 0};

    c.counts = EMIT(b, ne_Scalar, target, exg_arg_int(ignored));
    c.target = EMIT(b, where_ScalarOther, c.counts, target, 0);
    return c;
}

static exg_ref zero_where_ignored(exg_builder *b, const classes *c, exg_ref x)
{
    return EMIT(b, where_self, c->counts, x, EMIT(b, zeros_like_default, x));
}

/* What x says of the target's class. */
static exg_ref of_target(exg_builder *b, const classes *c, exg_ref x)
{
    exg_ref index = EMIT(b, unsqueeze_default, c->target, (int)c->dim);

    return EMIT(b, squeeze_dims, EMIT(b, gather_default, x, (int)c->dim, index),
                INTS(b, (int64_t)c->dim));
}

/* The weight of every place's class, or ones: what a mean divides by. */
static exg_ref weight_of_target(exg_builder *b, const classes *c, const exg_argument *weight,
                                exg_dtype dtype)
{
    exg_dims dims = exg_lower_dims(b, c->target);
    exg_ref flat;

    if (!exg_lower_given(weight)) {
        return exg_lower_cast(b, c->counts, dtype);
    }
    flat = EMIT(b, reshape_default, c->target, INTS(b, exg_lower_numel(b, c->target)));
    flat = EMIT(b, index_select_default, exg_get_ref(weight), 0, flat);
    return zero_where_ignored(b, c, exg_lower_shaped(b, flat, &dims));
}

static exg_ref reduced_by_weight(exg_builder *b, exg_ref loss, exg_ref weight, int64_t reduction)
{
    return reduction == 1
               ? EMIT(b, div_Tensor, EMIT(b, sum_default, loss), EMIT(b, sum_default, weight))
               : exg_lower_reduced(b, loss, reduction);
}

static exg_ref nll(exg_builder *b, exg_ref x, const classes *c, exg_ref weight)
{
    exg_ref said = zero_where_ignored(b, c, of_target(b, c, x));

    return EMIT(b, mul_Tensor, EMIT(b, neg_default, said), weight);
}

/* (log probabilities, target, weight, reduction, ignore_index) */
void exg_lower_nll_loss_nd(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    classes c = classes_of(b, SELF, exg_get_ref(&args[1]), exg_get_int(&args[4]));
    exg_ref weight = weight_of_target(b, &c, &args[2], exg_lower_dtype(b, SELF));

    results[0] =
        exg_arg_ref(reduced_by_weight(b, nll(b, SELF, &c, weight), weight, exg_get_int(&args[3])));
}

/* results: loss, sum of the weights */
void exg_lower_nll_loss_forward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    classes c = classes_of(b, SELF, exg_get_ref(&args[1]), exg_get_int(&args[4]));
    exg_ref weight = weight_of_target(b, &c, &args[2], exg_lower_dtype(b, SELF));
    int64_t reduction = exg_get_int(&args[3]);

    results[0] = exg_arg_ref(reduced_by_weight(b, nll(b, SELF, &c, weight), weight, reduction));
    results[1] = exg_arg_ref(reduction == 0 ? exg_lower_number(b, 0, exg_lower_dtype(b, SELF))
                                            : EMIT(b, sum_default, weight));
}

/* The target is a distribution over the classes. */
static exg_ref soft_cross_entropy(exg_builder *b, exg_ref log_x, const exg_argument *args)
{
    exg_dims dims = exg_lower_dims(b, log_x);
    uint32_t dim = dims.rank > 1 ? 1 : 0;
    double smoothing = exg_get_float(&args[5]);
    exg_ref y = exg_get_ref(&args[1]);
    exg_ref loss;
    int64_t reduction = exg_get_int(&args[3]);

    if (smoothing > 0) {
        y = EMIT(b, add_Scalar, EMIT(b, mul_Scalar, y, 1 - smoothing),
                 smoothing / (double)dims.n[dim]);
    }
    loss = EMIT(b, mul_Tensor, log_x, y);
    if (exg_lower_given(&args[2])) {
        loss = EMIT(b, mul_Tensor, loss, exg_lower_along(b, exg_get_ref(&args[2]), dim, dims.rank));
    }
    if (reduction == 0) {
        return EMIT(b, neg_default, EMIT(b, sum_dim_IntList, loss, INTS(b, (int64_t)dim)));
    }
    loss = EMIT(b, neg_default, EMIT(b, sum_default, loss));
    return reduction == 2
               ? loss
               : EMIT(b, div_Scalar, loss, (double)exg_lower_numel(b, log_x) / (double)dims.n[dim]);
}

/* (self, target, weight, reduction, ignore_index, label_smoothing) */
void exg_lower_cross_entropy_loss(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims dims = exg_lower_dims(b, SELF);
    uint32_t dim = dims.rank > 1 ? 1 : 0;
    exg_ref log_x = EMIT(b, log_softmax_int, SELF, (int)dim);
    double smoothing = exg_get_float(&args[5]);
    int64_t reduction = exg_get_int(&args[3]);
    exg_ref loss;
    exg_ref weight;
    exg_ref smooth = log_x;
    classes c;

    if (exg_dtype_is_float(exg_lower_dtype(b, exg_get_ref(&args[1])))) {
        results[0] = exg_arg_ref(soft_cross_entropy(b, log_x, args));
        return;
    }
    c = classes_of(b, SELF, exg_get_ref(&args[1]), exg_get_int(&args[4]));
    weight = weight_of_target(b, &c, &args[2], exg_lower_dtype(b, log_x));
    loss = reduced_by_weight(b, nll(b, log_x, &c, weight), weight, reduction);
    if (smoothing > 0) {
        if (exg_lower_given(&args[2])) {
            smooth = EMIT(b, mul_Tensor, log_x,
                          exg_lower_along(b, exg_get_ref(&args[2]), dim, dims.rank));
        }
        smooth = EMIT(b, neg_default, EMIT(b, sum_dim_IntList, smooth, INTS(b, (int64_t)dim)));
        smooth = reduced_by_weight(b, zero_where_ignored(b, &c, smooth), weight, reduction);
        loss = EMIT(b, add_Tensor, EMIT(b, mul_Scalar, loss, 1 - smoothing), smooth,
                    smoothing / (double)dims.n[dim]);
    }
    results[0] = exg_arg_ref(loss);
}

/* (input, linear_weight, target, linear_bias?, weight?, ...): how it is cut into chunks is nothing
 * to the loss. */
static exg_ref linear_cross_entropy(exg_builder *b, const exg_argument *args, int reduction,
                                    const exg_argument *ignored, double smoothing)
{
    exg_ref logits = EMIT(b, linear_default, args[0], args[1], args[3]);

    return EMIT(b, cross_entropy_loss_default, logits, args[2], args[4], reduction, *ignored,
                smoothing);
}

/* The gradient of that loss to the logits, (N, classes): a row's share of it times its chances,
 * less 1 where its class is. */
static exg_ref logits_gradient(exg_builder *b, const exg_argument *args, bool mean)
{
    exg_ref bias =
        exg_lower_given(&args[3]) ? exg_lower_wide(b, exg_get_ref(&args[3])) : EXG_NO_REF;
    exg_ref logits =
        EMIT(b, linear_default, exg_lower_wide(b, SELF), exg_lower_wide(b, exg_get_ref(&args[1])),
             bias.id == EXG_NO_VALUE ? exg_arg_none() : exg_arg_ref(bias));
    exg_dtype wide = exg_lower_dtype(b, logits);
    exg_ref target = exg_get_ref(&args[2]);
    exg_ref counts = EMIT(b, ne_Scalar, target, args[6]);
    exg_ref share = exg_lower_cast(b, counts, wide);
    exg_ref own;

    if (exg_lower_given(&args[4])) {
        exg_ref class = EMIT(b, where_ScalarOther, counts, target, 0);

        share = EMIT(b, mul_Tensor, share,
                     exg_lower_cast(b, EMIT(b, index_select_default, args[4], 0, class), wide));
    }
    share = mean ? EMIT(b, div_Tensor, share, EMIT(b, sum_default, share)) : share;
    own = EMIT(b, eq_Tensor, EMIT(b, unsqueeze_default, target, 1),
               exg_lower_steps(b, exg_lower_dims(b, logits).n[1], EXG_DTYPE_I64, 1, 2));
    return EMIT(b, mul_Tensor, EMIT(b, unsqueeze_default, share, 1),
                EMIT(b, sub_Tensor, EMIT(b, softmax_int, logits, 1), exg_lower_cast(b, own, wide)));
}

/* (..., reduction, ignore_index, label_smoothing, chunk, policy, dtype, retain, compute_*) ->
 * loss, gradients to input, weight and bias: nothing of those that are not wanted */
void exg_lower_linear_cross_entropy_chunked(exg_builder *b, const exg_argument *args,
                                            exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, SELF);
    bool mean = strcmp(args[5].as_string, "sum") != 0;
    bool wanted[] = {exg_get_bool(&args[12]), exg_get_bool(&args[13]), exg_get_bool(&args[14])};
    exg_ref made[3] = {EXG_NO_REF, EXG_NO_REF, EXG_NO_REF};
    int64_t none[2] = {0, 0};

    results[0] =
        exg_arg_ref(linear_cross_entropy(b, args, mean ? 1 : 2, &args[6], exg_get_float(&args[7])));
    if (wanted[0] || wanted[1] || wanted[2]) {
        exg_ref grad = logits_gradient(b, args, mean);

        if (exg_get_float(&args[7]) != 0) {
            exg_lower_unsupported(b, "gradients of smoothed labels made while the loss is");
            return;
        }
        made[0] = EMIT(b, mm_default, grad, exg_lower_wide(b, exg_get_ref(&args[1])));
        made[1] = EMIT(b, mm_default, exg_lower_swapped(b, grad, 0, 1), exg_lower_wide(b, SELF));
        made[2] = EMIT(b, sum_dim_IntList, grad, INTS(b, 0));
    }
    for (uint32_t i = 0; i < 3; i++) {
        results[i + 1] = exg_arg_ref(
            wanted[i] ? exg_lower_cast(b, made[i], dtype)
                      : EMIT(b, full_default, INTS_OF(b, none, i < 2 ? 2 : 1), 0.0, DTYPE(dtype)));
    }
}

void exg_lower_linear_cross_entropy_chunked_each(exg_builder *b, const exg_argument *args,
                                                 exg_argument *results)
{
    results[0] = exg_arg_ref(linear_cross_entropy(b, args, 0, &args[5], 0));
}

/* (self [N, C], target [N], p, margin, weight, reduction) */
void exg_lower_multi_margin_loss(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims dims = exg_lower_dims(b, SELF);
    int64_t count = dims.rank == 0 ? 1 : EXG_END(dims, 1);
    exg_ref x = dims.rank == 2 ? SELF : EMIT(b, reshape_default, SELF, INTS(b, 1, count));
    exg_ref index = EMIT(b, reshape_default, exg_get_ref(&args[1]), INTS(b, -1, 1));
    exg_ref gap = EMIT(b, sub_Tensor, x, EMIT(b, gather_default, x, 1, index));
    exg_ref loss = EMIT(b, clamp_min_default, EMIT(b, add_Scalar, gap, args[3]), 0);
    exg_ref own = EMIT(b, eq_Tensor, exg_lower_steps(b, count, EXG_DTYPE_I64, 1, 2), index);

    loss = exg_get_int(&args[2]) == 2 ? EMIT(b, square_default, loss) : loss;
    if (exg_lower_given(&args[4])) {
        exg_ref flat = EMIT(b, reshape_default, index, INTS(b, -1));
        exg_ref weight = EMIT(b, index_select_default, exg_get_ref(&args[4]), 0, flat);

        loss = EMIT(b, mul_Tensor, loss, EMIT(b, unsqueeze_default, weight, 1));
    }
    loss = EMIT(b, where_self, own, EMIT(b, zeros_like_default, loss), loss);
    loss = EMIT(b, div_Scalar, EMIT(b, sum_dim_IntList, loss, INTS(b, 1)), (double)count);
    loss = dims.rank < 2 ? EMIT(b, squeeze_dims, loss, INTS(b, 0)) : loss;
    reduce(b, loss, &args[5], results);
}

/* ---- of several labels ---------------------------------------------------------------------- */

/* Rows of scores (N, C) and of labels, which end at the first below 0. */
typedef struct labels {
    exg_ref x, target;
    exg_ref places; /* a score for each label; what is no class is outside */
    exg_ref valid;  /* (N, C), bool */
    exg_ref others; /* (N, C): where no label is */
    exg_ref is_target;
    int64_t classes;
    bool one; /* a single row */
} labels;

static labels labels_of(exg_builder *b, exg_ref x, exg_ref target)
{
    labels l = {.x = x, .target = target, .one = exg_lower_dims(b, x).rank < 2};
    exg_dtype dtype = exg_lower_dtype(b, x);
    exg_ref ended;

    if (l.one) {
        l.x = EMIT(b, reshape_default, x, INTS(b, 1, -1));
        l.target = EMIT(b, reshape_default, target, INTS(b, 1, -1));
    }
    l.classes = exg_lower_dims(b, l.x).n[1];
    ended = EMIT(b, cumsum_default, EMIT(b, lt_Scalar, l.target, 0), 1);
    l.valid = EMIT(b, eq_Scalar, ended, 0);
    l.places = EMIT(b, where_ScalarSelf, EMIT(b, lt_Scalar, l.target, -1), exg_arg_int(l.classes),
                    EMIT(b, clamp_min_default, l.target, 0));
    l.is_target = EMIT(b, scatter_add_default, EMIT(b, zeros_like_default, l.x), 1, l.places,
                       exg_lower_cast(b, l.valid, dtype));
    l.is_target = EMIT(b, ne_Scalar, l.is_target, 0);
    l.others = EMIT(b, logical_not_default, l.is_target);
    return l;
}

/* (N, labels, C): how far a label's score is from being 1 above that of a class. */
static exg_ref gaps(exg_builder *b, const labels *l)
{
    exg_ref gap = EMIT(b, unsqueeze_default, EMIT(b, gather_default, l->x, 1, l->places), 2);

    gap = EMIT(b, sub_Tensor, EMIT(b, unsqueeze_default, l->x, 1), gap);
    return EMIT(b, add_Scalar, gap, 1.);
}

/* Of labels and of classes that are none; NaN is no gap. */
static exg_ref counted_gaps(exg_builder *b, const labels *l, exg_ref gap, exg_ref counted)
{
    exg_ref is_wide = EMIT(b, gt_Scalar, gap, 0.);

    is_wide = EMIT(b, logical_and_default, is_wide, EMIT(b, unsqueeze_default, l->valid, 2));
    is_wide = EMIT(b, logical_and_default, is_wide, EMIT(b, unsqueeze_default, l->others, 1));
    return EMIT(b, where_ScalarOther, is_wide, counted, 0.0);
}

/* (self, target, reduction) -> loss, is_target */
void exg_lower_multilabel_margin_loss_forward(exg_builder *b, const exg_argument *args,
                                              exg_argument *results)
{
    exg_dims dims = exg_lower_dims(b, exg_get_ref(&args[1]));
    labels l = labels_of(b, SELF, exg_get_ref(&args[1]));
    exg_ref gap = gaps(b, &l);

    gap = counted_gaps(b, &l, gap, gap);
    gap = EMIT(b, div_Scalar, EMIT(b, sum_dim_IntList, gap, INTS(b, 1, 2)), (double)l.classes);
    gap = l.one ? EMIT(b, squeeze_dims, gap, INTS(b, 0)) : gap;
    results[0] = exg_arg_ref(exg_lower_reduced(b, gap, exg_get_int(&args[2])));
    results[1] = exg_arg_ref(
        exg_lower_cast(b, exg_lower_shaped(b, l.is_target, &dims), exg_lower_dtype(b, SELF)));
}

void exg_lower_multilabel_margin_loss(exg_builder *b, const exg_argument *args,
                                      exg_argument *results)
{
    exg_argument both[2] = {exg_arg_none(), exg_arg_none()};

    exg_lower_multilabel_margin_loss_forward(b, args, both);
    results[0] = both[0];
}

/* (grad_output, self, target, reduction, is_target): a gap that is left draws on both */
void exg_lower_multilabel_margin_loss_backward(exg_builder *b, const exg_argument *args,
                                               exg_argument *results)
{
    exg_dims dims = exg_lower_dims(b, exg_get_ref(&args[1]));
    labels l = labels_of(b, exg_get_ref(&args[1]), exg_get_ref(&args[2]));
    exg_ref gap = gaps(b, &l);
    exg_ref left = counted_gaps(b, &l, gap, EMIT(b, full_like_default, gap, 1.0));
    double rows = (double)exg_lower_dims(b, l.x).n[0];
    exg_ref g = SELF;
    exg_ref down;

    down = EMIT(b, neg_default, EMIT(b, sum_dim_IntList, left, INTS(b, 2)));
    left = EMIT(b, sum_dim_IntList, left, INTS(b, 1));
    left = EMIT(b, scatter_add_default, left, 1, l.places, down);
    left = EMIT(b, div_Scalar, left, (double)l.classes * (exg_get_int(&args[3]) == 1 ? rows : 1));
    if (exg_lower_dims(b, g).rank == 1) {
        g = EMIT(b, unsqueeze_default, g, 1);
    }
    results[0] = exg_arg_ref(exg_lower_shaped(b, EMIT(b, mul_Tensor, left, g), &dims));
}
