/* random.c - shape and lowerings of random.def: what is drawn, made of uniform and normal
 * numbers and of bits. The stream of a draw is the builder's. */
#include "libexport/operators/lower.h"

#include <math.h>
#include <string.h>

#define EXG_ROWS "libexport/operators/random.def"
#include "libexport/operators/rows.h"

#define SELF    exg_get_ref(&args[0])
#define REAL(i) exg_get_float(&args[i])

/* (size, stream, dtype) */
exg_status exg_shape_draw(exg_shape_call *call, exg_error *err)
{
    exg_dims out;

    out.rank = exg_get_ints(&call->args[0], out.n, EXG_SHAPE_RANK_MAX);
    if (out.rank > EXG_SHAPE_RANK_MAX) {
        return EXG_FAIL(err, LIMIT, "SHP-001", "a tensor of rank %u", out.rank);
    }
    return exg_shape_result(call, 0, exg_dtype_argument(&call->args[2], EXG_DTYPE_F32), &out, err);
}

/* (parameter.., stream): like the first */
exg_status exg_shape_draw_each(exg_shape_call *call, exg_error *err)
{
    const exg_tensor_meta *first = exg_shape_input(call, 0);
    exg_dims out;

    EXG_TRY(exg_dims_of(first, &out, err));
    for (uint32_t i = 1; i < call->op->schema->argument_count; i++) {
        const exg_tensor_meta *more = exg_shape_input(call, i);
        exg_dims dims;

        if (more == NULL) {
            continue;
        }
        EXG_TRY(exg_dims_of(more, &dims, err));
        if (more->dtype != first->dtype || dims.rank != out.rank ||
            memcmp(dims.n, out.n, out.rank * sizeof(out.n[0])) != 0) {
            return EXG_SHAPE_FAIL(err, "distributions are given by tensors of one shape");
        }
    }
    return exg_shape_result(call, 0, first->dtype, &out, err);
}

/* ---- draws -------------------------------------------------------------------------- */

static exg_ref draw(exg_builder *b, exg_operator_id op, exg_argument size, exg_dtype dtype)
{
    const exg_argument args[] = {size, exg_arg_int(0), exg_arg_dtype(dtype)};

    return exg_emit(b, op, args, 3);
}

static exg_argument size_of(exg_builder *b, exg_ref x)
{
    exg_dims dims = exg_lower_dims(b, x);

    return exg_arg_ints(b, dims.n, dims.rank);
}

static exg_ref draw_like(exg_builder *b, exg_operator_id op, exg_ref x, exg_dtype dtype)
{
    return draw(b, op, size_of(b, x), dtype);
}

/* The dtype chances are compared in. */
static exg_dtype chance_dtype(const exg_builder *b, exg_ref x)
{
    return exg_lower_dtype(b, x) == EXG_DTYPE_F64 ? EXG_DTYPE_F64 : EXG_DTYPE_F32;
}

/* Refuses numbers that no such distribution has. */
static bool expects(exg_builder *b, bool holds, const char *what)
{
    if (!holds) {
        exg_lower_refuse(b, what);
    }
    return holds;
}

/* true with chance p */
static exg_ref happens(exg_builder *b, exg_argument size, double p)
{
    return EMIT(b, lt_Scalar, draw(b, EXG_OP_draw_uniform, size, EXG_DTYPE_F64), p);
}

/* Whole numbers in [low, low + range); range 0: all of int64. */
static exg_ref whole(exg_builder *b, exg_argument size, int64_t low, uint64_t range,
                     exg_dtype dtype)
{
    exg_ref x = draw(b, EXG_OP_draw_bits, size, EXG_DTYPE_I64);

    if (range - 1 < INT64_MAX) {
        x = EMIT(b, remainder_Scalar, x, exg_arg_int((int64_t)range));
    }
    x = low == 0 ? x : EMIT(b, add_Scalar, x, exg_arg_int(low));
    return exg_lower_cast(b, x, dtype);
}

static exg_ref between(exg_builder *b, exg_argument size, int64_t low, int64_t high,
                       exg_dtype dtype)
{
    if (high <= low) {
        exg_lower_refuse(b, "random integers below their lower bound");
        return EXG_NO_REF;
    }
    return whole(b, size, low, (uint64_t)high - (uint64_t)low, dtype);
}

static exg_dtype dtype_or_own(const exg_builder *b, const exg_argument *args, uint32_t position)
{
    return exg_dtype_argument(&args[position], exg_lower_dtype(b, SELF));
}

void exg_lower_rand(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(
        draw(b, EXG_OP_draw_uniform, args[0], exg_dtype_argument(&args[1], EXG_DTYPE_F32)));
}

void exg_lower_randn(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(
        draw(b, EXG_OP_draw_normal, args[0], exg_dtype_argument(&args[1], EXG_DTYPE_F32)));
}

void exg_lower_rand_like(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(draw_like(b, EXG_OP_draw_uniform, SELF, dtype_or_own(b, args, 1)));
}

void exg_lower_randn_like(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(draw_like(b, EXG_OP_draw_normal, SELF, dtype_or_own(b, args, 1)));
}

/* (high, size, dtype), (low, high, size, dtype), (self, high, dtype), (self, low, high, dtype) */
void exg_lower_randint(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(
        between(b, args[1], 0, exg_get_int(&args[0]), exg_dtype_argument(&args[2], EXG_DTYPE_I64)));
}

void exg_lower_randint_low(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(between(b, args[2], exg_get_int(&args[0]), exg_get_int(&args[1]),
                                     exg_dtype_argument(&args[3], EXG_DTYPE_I64)));
}

void exg_lower_randint_like(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(
        between(b, size_of(b, SELF), 0, exg_get_int(&args[1]), dtype_or_own(b, args, 2)));
}

void exg_lower_randint_like_low(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(between(b, size_of(b, SELF), exg_get_int(&args[1]),
                                     exg_get_int(&args[2]), dtype_or_own(b, args, 3)));
}

/* (self, high: a 0-d tensor, dtype) */
void exg_lower_randint_like_tensor(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref bits = draw_like(b, EXG_OP_draw_bits, SELF, EXG_DTYPE_I64);
    exg_ref high = exg_lower_cast(b, exg_get_ref(&args[1]), EXG_DTYPE_I64);

    results[0] = exg_arg_ref(
        exg_lower_cast(b, EMIT(b, remainder_Tensor, bits, high), dtype_or_own(b, args, 2)));
}

/* The order of n numbers of 63 bits. */
void exg_lower_randperm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref keys = draw(b, EXG_OP_draw_bits, INTS(b, exg_get_int(&args[0])), EXG_DTYPE_I64);

    results[0] = exg_arg_ref(exg_lower_cast(b, EMIT(b, argsort_default, keys),
                                            exg_dtype_argument(&args[1], EXG_DTYPE_I64)));
}

/* ---- distributions ------------------------------------------------------------------ */

/* 1 or 0, in dtype `result`, by a chance an element. */
static exg_ref chances(exg_builder *b, exg_ref p, exg_argument size, exg_dtype result)
{
    p = EMIT(b, expand_default, exg_lower_cast(b, p, chance_dtype(b, p)), size);
    return exg_lower_cast(b, EMIT(b, draw_bernoulli, p, 0), result);
}

void exg_lower_bernoulli(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(chances(b, SELF, size_of(b, SELF), exg_lower_dtype(b, SELF)));
}

void exg_lower_bernoulli_p(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    if (!expects(b, REAL(1) >= 0 && REAL(1) <= 1, "a chance outside [0, 1]")) {
        return;
    }
    results[0] = exg_arg_ref(
        exg_lower_cast(b, happens(b, size_of(b, SELF), REAL(1)), exg_lower_dtype(b, SELF)));
}

void exg_lower_bernoulli_tensor(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] =
        exg_arg_ref(chances(b, exg_get_ref(&args[1]), size_of(b, SELF), exg_lower_dtype(b, SELF)));
}

/* mean + z * std; either may be a tensor. */
static exg_ref spread(exg_builder *b, exg_ref z, exg_argument mean, exg_argument std)
{
    z = std.kind == EXG_ARGUMENT_TENSOR ? EMIT(b, mul_Tensor, z, std) : EMIT(b, mul_Scalar, z, std);
    return mean.kind == EXG_ARGUMENT_TENSOR ? EMIT(b, add_Tensor, z, mean)
                                            : EMIT(b, add_Scalar, z, mean);
}

void exg_lower_normal_tensor_float(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref z = draw_like(b, EXG_OP_draw_normal, SELF, exg_lower_dtype(b, SELF));

    results[0] = exg_arg_ref(spread(b, z, args[0], args[1]));
}

void exg_lower_normal_float_tensor(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref std = exg_get_ref(&args[1]);
    exg_ref z = draw_like(b, EXG_OP_draw_normal, std, exg_lower_dtype(b, std));

    results[0] = exg_arg_ref(spread(b, z, args[0], args[1]));
}

void exg_lower_normal_tensor_tensor(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref both = EMIT(b, add_Tensor, args[0], args[1]); /* for the common size */
    exg_ref z = draw_like(b, EXG_OP_draw_normal, both, exg_lower_dtype(b, both));

    results[0] = exg_arg_ref(spread(b, z, args[0], args[1]));
}

void exg_lower_normal_float_float(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref z = draw(b, EXG_OP_draw_normal, args[2], exg_dtype_argument(&args[4], EXG_DTYPE_F32));

    results[0] = exg_arg_ref(spread(b, z, args[0], args[1]));
}

void exg_lower_normal_functional(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref z = draw_like(b, EXG_OP_draw_normal, SELF, exg_lower_dtype(b, SELF));

    if (expects(b, REAL(2) >= 0, "a deviation below 0")) {
        results[0] = exg_arg_ref(spread(b, z, args[1], args[2]));
    }
}

void exg_lower_log_normal(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_lower_normal_functional(b, args, results);
    results[0] = exg_arg_ref(EMIT(b, exp_default, exg_get_ref(&results[0])));
}

void exg_lower_uniform(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref u = draw_like(b, EXG_OP_draw_uniform, SELF, exg_lower_dtype(b, SELF));

    if (!expects(b, REAL(1) <= REAL(2), "uniform numbers from more than they go up to")) {
        return;
    }
    results[0] =
        exg_arg_ref(EMIT(b, add_Scalar, EMIT(b, mul_Scalar, u, REAL(2) - REAL(1)), args[1]));
}

/* log(1 - u), which is never log(0), in the dtype chances have. */
static exg_ref log_of_rest(exg_builder *b, exg_ref like)
{
    exg_ref u = draw_like(b, EXG_OP_draw_uniform, like, chance_dtype(b, like));

    return EMIT(b, log1p_default, EMIT(b, neg_default, u));
}

void exg_lower_exponential(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    if (!expects(b, REAL(1) > 0, "an exponential distribution of a rate not above 0")) {
        return;
    }
    results[0] = exg_arg_ref(exg_lower_cast(b, EMIT(b, div_Scalar, log_of_rest(b, SELF), -REAL(1)),
                                            exg_lower_dtype(b, SELF)));
}

/* How many trials until the first success, at least 1. */
void exg_lower_geometric(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref trials;

    if (!expects(b, REAL(1) > 0 && REAL(1) < 1, "a geometric distribution of p outside (0, 1)")) {
        return;
    }
    trials = EMIT(b, ceil_default, EMIT(b, div_Scalar, log_of_rest(b, SELF), log1p(-REAL(1))));
    results[0] = exg_arg_ref(
        exg_lower_cast(b, EMIT(b, clamp_min_default, trials, 1), exg_lower_dtype(b, SELF)));
}

void exg_lower_cauchy(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref u = draw_like(b, EXG_OP_draw_uniform, SELF, chance_dtype(b, SELF));
    exg_ref angle = EMIT(b, mul_Scalar, EMIT(b, add_Scalar, u, -0.5), 3.14159265358979323846);

    if (!expects(b, REAL(2) > 0, "a Cauchy distribution of a scale not above 0")) {
        return;
    }
    results[0] = exg_arg_ref(exg_lower_cast(
        b, spread(b, EMIT(b, tan_default, angle), args[1], args[2]), exg_lower_dtype(b, SELF)));
}

/* Below what the dtype counts in ones; a bool is one of two. */
void exg_lower_random(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, SELF);
    uint32_t bits = dtype == EXG_DTYPE_F64          ? 53
                    : dtype == EXG_DTYPE_F32        ? 24
                    : dtype == EXG_DTYPE_F16        ? 11
                    : dtype == EXG_DTYPE_BF16       ? 8
                    : dtype == EXG_DTYPE_B8         ? 1
                    : exg_dtype_class(dtype) == 'U' ? 8 * exg_dtype_bytes(dtype)
                                                    : 8 * exg_dtype_bytes(dtype) - 1;
    bool closed = exg_dtype_is_float(dtype); /* the power of two itself can be */

    results[0] = exg_arg_ref(
        whole(b, size_of(b, SELF), 0, bits > 62 ? 0 : (UINT64_C(1) << bits) + closed, dtype));
}

void exg_lower_random_from(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    if (exg_is_none(&args[2])) {
        exg_lower_unsupported(b, "random_ from a number up to the dtype's greatest");
        return;
    }
    results[0] = exg_arg_ref(between(b, size_of(b, SELF), exg_get_int(&args[1]),
                                     exg_get_int(&args[2]), exg_lower_dtype(b, SELF)));
}

void exg_lower_random_to(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(
        between(b, size_of(b, SELF), 0, exg_get_int(&args[1]), exg_lower_dtype(b, SELF)));
}

/* Chances of which each can be drawn by: none negative, infinite or NaN, some not 0. */
static exg_ref proper_chances(exg_builder *b, exg_ref p)
{
    exg_ref least = EMIT(b, amin_default, p, INTS(b, -1)); /* NaN, where there is one */
    exg_ref most = EMIT(b, amax_default, p, INTS(b, -1));
    exg_ref holds =
        EMIT(b, logical_and_default, EMIT(b, ge_Scalar, least, 0), EMIT(b, gt_Scalar, most, 0));

    holds = EMIT(b, logical_and_default, holds, EMIT(b, lt_Scalar, most, (double)INFINITY));
    return exg_lower_checked(b, p, holds,
                             "some chance is more than 0, and none is negative, infinite or NaN");
}

/* (self, num_samples, replacement). Without: the greatest of p / e, where e are
 * exponential, are a draw without replacement. With: where a uniform number falls
 * among the running sums. */
void exg_lower_multinomial(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = chance_dtype(b, SELF);
    exg_ref p = exg_lower_cast(b, SELF, dtype);
    exg_dims dims = exg_lower_dims(b, p);
    int64_t count = exg_get_int(&args[1]);
    exg_argument best[2];

    if (!expects(b, exg_dtype_is_float(exg_lower_dtype(b, SELF)), "chances that are no floats")) {
        return;
    }
    if (!expects(b, count > 0, "no numbers of a multinomial")) {
        return;
    }
    p = proper_chances(b, p);
    if (!exg_get_bool(&args[2])) {
        exg_ref e = EMIT(b, neg_default, log_of_rest(b, p));

        e = EMIT(b, clamp_min_default, e, dtype == EXG_DTYPE_F64 ? 0x1p-1000 : 0x1p-120);
        (void)EMIT_ALL(b, topk_default, best, EMIT(b, div_Tensor, p, e), exg_arg_int(count));
        results[0] = best[1];
        return;
    }
    if (dims.rank == 0) {
        exg_lower_refuse(b, "multinomial of a number");
        return;
    }
    {
        exg_ref sums = EMIT(b, cumsum_default, p, -1);
        exg_ref total = exg_lower_slice(b, sums, dims.rank - 1, EXG_END(dims, 1) - 1, 1);
        exg_dims wanted = dims;
        exg_ref u;

        wanted.n[dims.rank - 1] = count;
        u = EMIT(b, mul_Tensor,
                 draw(b, EXG_OP_draw_uniform, exg_arg_ints(b, wanted.n, wanted.rank), dtype),
                 total);
        results[0] = exg_arg_ref(
            EMIT(b, searchsorted_Tensor, sums, u, exg_arg_bool(false), exg_arg_bool(true)));
    }
}

void exg_lower_poisson(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, draw_poisson, SELF, 0));
}

/* (count, prob): sizes and dtype are count's */
void exg_lower_binomial(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref chance = exg_lower_cast(b, exg_get_ref(&args[1]), exg_lower_dtype(b, SELF));

    chance = EMIT(b, expand_default, chance, size_of(b, SELF));
    results[0] = exg_arg_ref(EMIT(b, draw_binomial, SELF, chance, 0));
}

/* The least normal number of a dtype, and the greatest below 1. */
static exg_ref within_unit(exg_builder *b, exg_ref x, exg_dtype dtype, bool below_one)
{
    double least = dtype == EXG_DTYPE_F64 ? 0x1p-1022 : dtype == EXG_DTYPE_F16 ? 0x1p-14 : 0x1p-126;
    double grain = dtype == EXG_DTYPE_F64   ? 0x1p-52
                   : dtype == EXG_DTYPE_F16 ? 0x1p-10
                   : dtype == EXG_DTYPE_F32 ? 0x1p-23
                                            : 0x1p-7;

    x = EMIT(b, clamp_min_default, x, least);
    x = below_one ? EMIT(b, clamp_max_default, x, 1 - grain) : x;
    return exg_lower_cast(b, x, dtype);
}

void exg_lower_standard_gamma(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, SELF);
    exg_ref x = EMIT(b, draw_gamma, exg_lower_cast(b, SELF, EXG_DTYPE_F64), 0);

    results[0] = exg_arg_ref(within_unit(b, x, dtype, false));
}

/* Gamma numbers over their sum, along the last dim. */
void exg_lower_sample_dirichlet(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = EMIT(b, draw_gamma, exg_lower_cast(b, SELF, EXG_DTYPE_F64), 0);

    x = EMIT(b, clamp_min_default, x, 0x1p-1022);
    x = EMIT(b, div_Tensor, x, EMIT(b, sum_dim_IntList, x, INTS(b, -1), exg_arg_bool(true)));
    results[0] = exg_arg_ref(within_unit(b, x, exg_lower_dtype(b, SELF), true));
}

/* ---- dropout ------------------------------------------------------------------------ */

typedef struct dropping {
    bool of_features; /* one chance a channel */
    bool is_alpha;    /* keeps mean and variance of a selu */
} dropping;

/* (input, p, train) */
static exg_ref dropped(exg_builder *b, const exg_argument *args, dropping how)
{
    const double alpha = 1.7580993408473766;
    double p = REAL(1);
    double a = 1 / sqrt((alpha * alpha * p + 1) * (1 - p));
    exg_dims dims = exg_lower_dims(b, SELF);
    exg_ref kept;
    exg_ref x;

    if (!exg_get_bool(&args[2]) || p == 0 || exg_lower_numel(b, SELF) == 0) {
        return EMIT(b, alias_default, SELF);
    }
    if (p == 1) {
        return EMIT(b, mul_Scalar, SELF, 0.);
    }
    for (uint32_t d = 2; how.of_features && d < dims.rank; d++) {
        dims.n[d] = 1;
    }
    kept = exg_lower_cast(b, happens(b, exg_arg_ints(b, dims.n, dims.rank), 1 - p),
                          exg_lower_dtype(b, SELF));
    x = EMIT(b, mul_Tensor, SELF, EMIT(b, mul_Scalar, kept, how.is_alpha ? a : 1 / (1 - p)));
    return !how.is_alpha ? x
                         : EMIT(b, add_Tensor, x,
                                EMIT(b, add_Scalar,
                                     EMIT(b, mul_Scalar, EMIT(b, add_Scalar, kept, -1.), alpha * a),
                                     alpha * a * p));
}

void exg_lower_dropout(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(dropped(b, args, (dropping){false, false}));
}

void exg_lower_feature_dropout(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(dropped(b, args, (dropping){true, false}));
}

void exg_lower_alpha_dropout(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(dropped(b, args, (dropping){false, true}));
}

void exg_lower_feature_alpha_dropout(exg_builder *b, const exg_argument *args,
                                     exg_argument *results)
{
    results[0] = exg_arg_ref(dropped(b, args, (dropping){true, true}));
}

/* (input, p, train?) -> output, mask; train is on when it is None */
void exg_lower_native_dropout(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    double p = REAL(1);
    exg_ref kept;

    if ((!exg_is_none(&args[2]) && !exg_get_bool(&args[2])) || exg_lower_numel(b, SELF) == 0) {
        results[0] = exg_arg_ref(EMIT(b, clone_default, SELF));
        results[1] = exg_arg_ref(EMIT(b, ones_like_default, SELF, DTYPE(EXG_DTYPE_B8)));
        return;
    }
    kept = happens(b, size_of(b, SELF), 1 - p);
    results[0] =
        exg_arg_ref(EMIT(b, mul_Scalar, EMIT(b, mul_Tensor, SELF, kept), p == 1 ? 0 : 1 / (1 - p)));
    results[1] = exg_arg_ref(kept);
}

/* ---- rrelu -------------------------------------------------------------------------- */

/* Slopes drawn for what is not positive, else 1; (self, .., lower at `at`, upper). */
static exg_ref slopes(exg_builder *b, const exg_argument *args, uint32_t at)
{
    exg_dtype dtype = exg_lower_dtype(b, SELF);
    exg_ref drawn = EMIT(b, mul_Scalar, draw_like(b, EXG_OP_draw_uniform, SELF, dtype),
                         REAL(at + 1) - REAL(at));

    return EMIT(b, where_ScalarSelf, EMIT(b, gt_Scalar, SELF, 0), 1.,
                EMIT(b, add_Scalar, drawn, args[at]));
}

void exg_lower_rrelu(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(exg_get_bool(&args[3])
                                 ? EMIT(b, mul_Tensor, SELF, slopes(b, args, 1))
                                 : EMIT(b, leaky_relu_default, SELF, (REAL(1) + REAL(2)) / 2));
}

/* (self, noise, lower, upper, training) -> output, noise */
void exg_lower_rrelu_with_noise_functional(exg_builder *b, const exg_argument *args,
                                           exg_argument *results)
{
    exg_ref noise = exg_get_ref(&args[1]);

    if (exg_get_bool(&args[4])) {
        noise = slopes(b, args, 2);
        results[0] = exg_arg_ref(EMIT(b, mul_Tensor, SELF, noise));
    } else {
        results[0] = exg_arg_ref(EMIT(b, leaky_relu_default, SELF, (REAL(2) + REAL(3)) / 2));
        noise = EMIT(b, clone_default, noise);
    }
    results[1] = exg_arg_ref(noise);
}

void exg_lower_rrelu_with_noise(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument both[2] = {exg_arg_none(), exg_arg_none()};

    exg_lower_rrelu_with_noise_functional(b, args, both);
    if (exg_get_bool(&args[4])) {
        (void)EMIT(b, copy__default, args[1], both[1]);
    }
    results[0] = both[0];
}
