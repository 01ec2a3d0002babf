/* optimizers.c - lowerings of optimizers.def: one step of an optimizer for each tensor of a list,
 * and what scales losses. PyTorch computes what is one number of a step in float64, and what narrow
 * tensors hold in float32. */
#include "libexport/operators/lower.h"

#include <exg/operator_id_new.h>

#define EXG_ROWS "libexport/operators/optimizers.def"
#include "libexport/operators/rows.h"

/* ---- arguments, by their names ----------------------------------------------------------------
 */

typedef struct optimizer {
    exg_builder *b;
    const exg_argument *args;
    uint32_t list_count; /* of args[0] on: parameters, gradients, states */
    bool has_scale;      /* gradients are written too */
} optimizer;

enum { PARAMETER, GRADIENT, STATE, LISTS_MAX = 5 };

static const exg_argument *named(const optimizer *o, const char *name)
{
    static const exg_argument none = {.kind = EXG_ARGUMENT_NONE};
    const exg_function_schema *schema = exg_lower_operator(o->b)->schema;

    for (uint32_t i = 0; i < schema->argument_count; i++) {
        if (strcmp(schema->arguments[i].name, name) == 0) {
            return &o->args[i];
        }
    }
    return &none;
}

static double number(const optimizer *o, const char *name)
{
    return exg_get_float(named(o, name));
}

/* A tensor of one element as a number in float64. */
static exg_ref scalar(const optimizer *o, exg_ref x)
{
    exg_dims none = {0};

    return exg_lower_shaped(o->b, exg_lower_cast(o->b, x, EXG_DTYPE_F64), &none);
}

/* The learning rate may be a tensor. */
static exg_ref learning_rate(const optimizer *o)
{
    const exg_argument *lr = named(o, "lr");

    return lr->kind == EXG_ARGUMENT_TENSOR ? scalar(o, exg_get_ref(lr))
                                           : exg_lower_number(o->b, number(o, "lr"), EXG_DTYPE_F64);
}

/* The one of list `name` that belongs to parameter k. */
static exg_ref step_of(const optimizer *o, uint32_t k)
{
    return scalar(o, exg_lower_item(named(o, "state_steps"), k));
}

/* ---- what all do -------------------------------------------------------------------------------
 */

/* x[PARAMETER], x[GRADIENT] (its scale and sign taken off) and the states become the new ones. */
typedef void update(const optimizer *o, uint32_t k, exg_ref *x);

static exg_ref decayed(const optimizer *o, exg_ref gradient, exg_ref parameter)
{
    double decay = number(o, "weight_decay");

    return decay == 0 ? gradient
                      : EMIT(o->b, add_Tensor, gradient, EMIT(o->b, mul_Scalar, parameter, decay));
}

/* Nothing is written where a gradient was found that is no number. */
static exg_ref unless_found(const optimizer *o, exg_ref made, exg_ref old)
{
    const exg_argument *found = named(o, "found_inf");

    return exg_lower_given(found)
               ? EMIT(o->b, where_self, EMIT(o->b, eq_Scalar, scalar(o, exg_get_ref(found)), 1.0),
                      old, made)
               : made;
}

static void step_one(const optimizer *o, uint32_t k, update *of, exg_ref *made)
{
    exg_ref x[LISTS_MAX], gradient = EXG_NO_REF;

    for (uint32_t l = 0; l < o->list_count; l++) {
        bool is_there = o->args[l].count > 0;

        made[l] = is_there ? exg_lower_item(&o->args[l], k) : EXG_NO_REF;
        x[l] = is_there ? exg_lower_wide(o->b, made[l]) : EXG_NO_REF;
    }
    if (o->has_scale) {
        exg_ref scale = scalar(o, exg_get_ref(named(o, "grad_scale")));

        x[GRADIENT] = EMIT(o->b, div_Tensor, x[GRADIENT], scale);
    }
    gradient = x[GRADIENT];
    if (exg_get_bool(named(o, "maximize"))) {
        x[GRADIENT] = EMIT(o->b, neg_default, gradient);
    }
    of(o, k, x);
    x[GRADIENT] = gradient;
    for (uint32_t l = 0; l < o->list_count; l++) {
        if (made[l].id != EXG_NO_VALUE) {
            exg_ref cast = exg_lower_cast(o->b, x[l], exg_lower_dtype(o->b, made[l]));

            made[l] = unless_found(o, cast, made[l]);
        }
    }
}

/* Lists that are not empty are as long as the first. */
static bool are_alike(const optimizer *o)
{
    const exg_argument *steps = named(o, "state_steps");

    for (uint32_t l = 0; l < o->list_count; l++) {
        if (o->args[l].count != o->args[0].count && (l <= GRADIENT || o->args[l].count != 0)) {
            return false;
        }
    }
    return steps->kind == EXG_ARGUMENT_NONE || steps->count == o->args[0].count;
}

/* Of an operator that writes: the states that there are, and gradients that were scaled. */
static void write_back(const optimizer *o, uint32_t k, const exg_ref *made)
{
    for (uint32_t l = 0; l < o->list_count; l++) {
        if (made[l].id != EXG_NO_VALUE && (l != GRADIENT || o->has_scale)) {
            (void)EMIT(o->b, copy__default, exg_lower_item(&o->args[l], k), made[l]);
        }
    }
}

/* `lists`: parameters, gradients and states, which are the first arguments. */
static void step_all(exg_builder *b, const exg_argument *args, exg_argument *results,
                     uint32_t lists, update *of)
{
    optimizer o = {.b = b, .args = args, .list_count = lists};
    uint32_t returns = exg_lower_operator(b)->schema->return_count, count = args[0].count;
    exg_ref *made[LISTS_MAX], one[LISTS_MAX];

    o.has_scale = exg_lower_given(named(&o, "grad_scale"));
    if (!are_alike(&o)) {
        exg_lower_refuse(b, "lists of different lengths");
        return;
    }
    for (uint32_t l = 0; l < lists; l++) {
        made[l] = exg_lower_new_refs(b, count);
        if (made[l] == NULL) {
            return;
        }
    }
    for (uint32_t k = 0; k < count; k++) {
        step_one(&o, k, of, one);
        if (returns == 0) {
            write_back(&o, k, one);
        }
        for (uint32_t l = 0; l < lists; l++) {
            made[l][k] = one[l];
        }
    }
    for (uint32_t r = 0; r < returns; r++) { /* after the states the steps, as they were */
        results[r] = r < lists ? exg_arg_refs(b, made[r], args[r].count) : args[r];
    }
}

/* ---- Adam ---------------------------------------------------------------------------------------
 */

enum { MEAN = STATE, SQUARE, LARGEST };

/* 1 - beta^step */
static exg_ref correction(const optimizer *o, const char *beta, exg_ref step)
{
    return EMIT(o->b, rsub_Scalar, EMIT(o->b, pow_Scalar, number(o, beta), step), 1);
}

static void adam(const optimizer *o, uint32_t k, exg_ref *x)
{
    exg_builder *b = o->b;
    double beta1 = number(o, "beta1"), beta2 = number(o, "beta2");
    exg_ref step = step_of(o, k), gradient = x[GRADIENT], square, root;
    exg_ref size = EMIT(b, div_Tensor, learning_rate(o), correction(o, "beta1", step));

    x[MEAN] = EMIT(b, lerp_Scalar, x[MEAN], gradient, 1 - beta1);
    square = EMIT(b, mul_Scalar, EMIT(b, mul_Tensor, gradient, gradient), 1 - beta2);
    x[SQUARE] = EMIT(b, add_Tensor, EMIT(b, mul_Scalar, x[SQUARE], beta2), square);
    if (exg_get_bool(named(o, "amsgrad"))) {
        x[LARGEST] = EMIT(b, maximum_default, x[LARGEST], x[SQUARE]);
    }
    root = EMIT(b, sqrt_default, x[exg_get_bool(named(o, "amsgrad")) ? LARGEST : SQUARE]);
    root = EMIT(b, div_Tensor, root, EMIT(b, sqrt_default, correction(o, "beta2", step)));
    root = EMIT(b, add_Scalar, root, number(o, "eps"));
    x[PARAMETER] = EMIT(b, sub_Tensor, x[PARAMETER],
                        EMIT(b, div_Tensor, EMIT(b, mul_Tensor, x[MEAN], size), root));
}

static void adam_with_decay(const optimizer *o, uint32_t k, exg_ref *x)
{
    x[GRADIENT] = decayed(o, x[GRADIENT], x[PARAMETER]);
    adam(o, k, x);
}

/* The decay is of the parameter itself. */
static void adamw(const optimizer *o, uint32_t k, exg_ref *x)
{
    double decay = number(o, "weight_decay");

    if (decay != 0) {
        exg_ref left = EMIT(o->b, rsub_Scalar, EMIT(o->b, mul_Scalar, learning_rate(o), decay), 1);

        x[PARAMETER] = EMIT(o->b, mul_Tensor, x[PARAMETER], left);
    }
    adam(o, k, x);
}

void exg_lower_fused_adam(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    step_all(b, args, results, LARGEST + 1, adam_with_decay);
}

void exg_lower_fused_adamw(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    step_all(b, args, results, LARGEST + 1, adamw);
}

/* ---- SGD, Adagrad -------------------------------------------------------------------------------
 */

static void sgd(const optimizer *o, uint32_t k, exg_ref *x)
{
    exg_builder *b = o->b;
    double momentum = number(o, "momentum");
    exg_ref step = decayed(o, x[GRADIENT], x[PARAMETER]);

    (void)k;
    if (momentum != 0 && o->args[STATE].count > 0) {
        exg_ref added = EMIT(b, mul_Scalar, step, 1 - number(o, "dampening"));

        x[STATE] = exg_get_bool(named(o, "is_first_step"))
                       ? step
                       : EMIT(b, add_Tensor, EMIT(b, mul_Scalar, x[STATE], momentum), added);
        step = exg_get_bool(named(o, "nesterov"))
                   ? EMIT(b, add_Tensor, step, EMIT(b, mul_Scalar, x[STATE], momentum))
                   : x[STATE];
    }
    x[PARAMETER] = EMIT(b, sub_Tensor, x[PARAMETER], EMIT(b, mul_Tensor, step, learning_rate(o)));
}

void exg_lower_fused_sgd(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    step_all(b, args, results, STATE + 1, sgd);
}

static void adagrad(const optimizer *o, uint32_t k, exg_ref *x)
{
    exg_builder *b = o->b;
    exg_ref gradient = decayed(o, x[GRADIENT], x[PARAMETER]);
    exg_ref before = EMIT(b, sub_Scalar, step_of(o, k), 1);
    exg_ref slower = EMIT(b, add_Scalar, EMIT(b, mul_Scalar, before, number(o, "lr_decay")), 1);
    exg_ref root;

    x[STATE] = EMIT(b, add_Tensor, x[STATE], EMIT(b, mul_Tensor, gradient, gradient));
    root = EMIT(b, add_Scalar, EMIT(b, sqrt_default, x[STATE]), number(o, "eps"));
    gradient = EMIT(b, mul_Tensor, gradient, EMIT(b, div_Tensor, learning_rate(o), slower));
    x[PARAMETER] = EMIT(b, sub_Tensor, x[PARAMETER], EMIT(b, div_Tensor, gradient, root));
}

void exg_lower_fused_adagrad(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    step_all(b, args, results, STATE + 1, adagrad);
}

/* ---- scaled losses ------------------------------------------------------------------------------
 */

/* (gradients, found_inf, inv_scale) */
void exg_lower_amp_unscale(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref found = exg_get_ref(&args[1]), one = exg_lower_number(b, 1, EXG_DTYPE_F32);
    bool writes = exg_lower_operator(b)->schema->return_count == 0;
    exg_ref *made = exg_lower_new_refs(b, args[0].count);

    for (uint32_t k = 0; made != NULL && k < args[0].count; k++) {
        exg_ref x = exg_lower_item(&args[0], k), wide = exg_lower_wide(b, x);
        exg_ref all = EMIT(b, all_default, EMIT(b, isfinite_default, x));

        found = EMIT(b, where_self, all, found, one);
        made[k] = exg_lower_cast(b, EMIT(b, mul_Tensor, wide, args[2]), exg_lower_dtype(b, x));
        if (writes) {
            (void)EMIT(b, copy__default, x, made[k]);
        }
    }
    if (writes) {
        (void)EMIT(b, copy__default, args[1], found);
    } else if (made != NULL) {
        results[0] = exg_arg_refs(b, made, args[0].count);
        results[1] = exg_arg_ref(found);
    }
}

/* (scale, growth_tracker, found_inf, growth, backoff, interval): back after what is no number;
 * else, after as many steps as the interval, up, unless that is none. */
void exg_lower_amp_update_scale(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref scale = exg_get_ref(&args[0]), steps = exg_get_ref(&args[1]);
    exg_ref found = EMIT(b, gt_Scalar, args[2], 0);
    exg_ref next = EMIT(b, add_Scalar, steps, 1), zero = EMIT(b, zeros_like_default, steps);
    exg_ref is_due = EMIT(b, eq_Scalar, next, args[5]);
    exg_ref up = EMIT(b, mul_Scalar, scale, args[3]);

    up = EMIT(b, where_self, EMIT(b, isfinite_default, up), up, scale);
    scale = EMIT(b, where_self, found, EMIT(b, mul_Scalar, scale, args[4]),
                 EMIT(b, where_self, is_due, up, scale));
    steps = EMIT(b, where_self, EMIT(b, logical_or_default, found, is_due), zero, next);
    if (exg_lower_operator(b)->schema->return_count == 1) {
        (void)EMIT(b, copy__default, args[1], steps);
        results[0] = exg_arg_ref(EMIT(b, copy__default, args[0], scale));
        return;
    }
    results[0] = exg_arg_ref(scale);
    results[1] = exg_arg_ref(steps);
}
