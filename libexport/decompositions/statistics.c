/* statistics.c - lowerings of statistics.def: norms, spreads, distances. */
#include "libexport/decompositions/complex.h"

#include <exg/operator_id_new.h>
#include <math.h>

#define EXG_ROWS "libexport/operators/statistics.def"
#include "libexport/operators/rows.h"

#define SELF     exg_get_ref(&args[0])
#define ALL_DIMS exg_arg_ints(b, NULL, 0)

/* ---- variance ------------------------------------------------------------------------------- */

static exg_ref variance(exg_builder *b, exg_ref x, exg_argument dims, bool unbiased,
                        exg_argument keepdim)
{
    return EMIT(b, var_correction, x, dims, (int)unbiased, keepdim);
}

void exg_lower_var_default(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] =
        exg_arg_ref(variance(b, SELF, ALL_DIMS, exg_get_bool(&args[1]), exg_arg_bool(false)));
}

void exg_lower_std_default(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(
        EMIT(b, std_correction, SELF, ALL_DIMS, (int)exg_get_bool(&args[1]), exg_arg_bool(false)));
}

void exg_lower_std_dim(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] =
        exg_arg_ref(EMIT(b, std_correction, SELF, args[1], (int)exg_get_bool(&args[2]), args[3]));
}

void exg_lower_var_mean_default(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_lower_var_default(b, args, results);
    results[1] = exg_arg_ref(EMIT(b, mean_default, SELF));
}

void exg_lower_std_mean_default(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_lower_std_default(b, args, results);
    results[1] = exg_arg_ref(EMIT(b, mean_default, SELF));
}

void exg_lower_var_mean_dim(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(variance(b, SELF, args[1], exg_get_bool(&args[2]), args[3]));
    results[1] = exg_arg_ref(EMIT(b, mean_dim, SELF, args[1], args[3]));
}

void exg_lower_std_mean_dim(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_lower_std_dim(b, args, results);
    results[1] = exg_arg_ref(EMIT(b, mean_dim, SELF, args[1], args[3]));
}

void exg_lower_std_mean_correction(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, std_correction, SELF, args[1], args[2], args[3]));
    results[1] = exg_arg_ref(EMIT(b, mean_dim, SELF, args[1], args[3]));
}

/* ---- sums ------------------------------------------------------------------------------- */

static exg_ref without_nan(exg_builder *b, exg_ref x)
{
    return exg_dtype_is_float(exg_lower_dtype(b, x))
               ? EMIT(b, where_self, EMIT(b, isnan_default, x), EMIT(b, zeros_like_default, x), x)
               : x;
}

void exg_lower_nansum(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] =
        exg_arg_ref(EMIT(b, sum_dim_IntList, without_nan(b, SELF), args[1], args[2], args[3]));
}

void exg_lower_nanmean(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref there = EMIT(b, logical_not_default, EMIT(b, isnan_default, SELF));
    exg_ref sum = EMIT(b, sum_dim_IntList, without_nan(b, SELF), args[1], args[2], args[3]);

    results[0] =
        exg_arg_ref(EMIT(b, div_Tensor, sum, EMIT(b, sum_dim_IntList, there, args[1], args[2])));
}

/* log(sum(exp(x - max))) + max, where max is finite */
void exg_lower_logsumexp(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_dtype_is_integral(exg_lower_dtype(b, SELF))
                    ? exg_lower_cast(b, SELF, EXG_DTYPE_F32)
                    : SELF;
    exg_ref most;
    exg_ref sum;

    if (exg_lower_numel(b, x) == 0) {
        results[0] = exg_arg_ref(EMIT(
            b, log_default, EMIT(b, sum_dim_IntList, EMIT(b, exp_default, x), args[1], args[2])));
        return;
    }
    most = EMIT(b, amax_default, x, args[1], exg_arg_bool(true));
    most =
        EMIT(b, where_self, EMIT(b, isinf_default, most), EMIT(b, zeros_like_default, most), most);
    sum = EMIT(b, sum_dim_IntList, EMIT(b, exp_default, EMIT(b, sub_Tensor, x, most)), args[1],
               exg_arg_bool(true));
    sum = EMIT(b, add_Tensor, EMIT(b, log_default, sum), most);
    if (!exg_get_bool(&args[2])) {
        int64_t dims[EXG_SHAPE_RANK_MAX];
        uint32_t count = exg_get_ints(&args[1], dims, EXG_SHAPE_RANK_MAX);

        for (uint32_t d = 0; count == 0 && d < exg_lower_dims(b, x).rank; d++) {
            dims[d] = d;
        }
        count = count == 0 ? exg_lower_dims(b, x).rank : count;
        sum = EMIT(b, squeeze_dims, sum, INTS_OF(b, dims, count));
    }
    results[0] = exg_arg_ref(sum);
}

void exg_lower_count_nonzero(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument dims = exg_is_none(&args[1])              ? ALL_DIMS
                        : args[1].kind == EXG_ARGUMENT_INT ? INTS(b, args[1].as_int)
                                                           : args[1];

    results[0] = exg_arg_ref(EMIT(b, sum_dim_IntList, EMIT(b, ne_Scalar, SELF, 0), dims));
}

/* (self, dim?, keepdim) -> min, max */
void exg_lower_aminmax(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument dims = exg_is_none(&args[1]) ? ALL_DIMS : INTS(b, exg_get_int(&args[1]));

    results[0] = exg_arg_ref(EMIT(b, amin_default, SELF, dims, args[2]));
    results[1] = exg_arg_ref(EMIT(b, amax_default, SELF, dims, args[2]));
}

/* ---- norms ------------------------------------------------------------------------------ */

/* In one pass where the last dim is among those that are summed over. */
static exg_ref sum_of_squares(exg_builder *b, exg_ref x, exg_argument dims, exg_argument keepdim)
{
    uint32_t rank = exg_lower_dims(b, x).rank;
    int64_t given[EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&dims, given, EXG_SHAPE_RANK_MAX);
    bool has_last = rank == 0 || count == 0;

    for (uint32_t i = 0; i < count && rank > 0; i++) {
        has_last = has_last || exg_lower_dim(b, given[i], rank) == rank - 1;
    }
    return has_last ? EMIT(b, sum_squares, x, dims, keepdim)
                    : EMIT(b, sum_dim_IntList, EMIT(b, square_default, x), dims, keepdim);
}

/* Of complex numbers that of their magnitudes. */
static exg_ref norm_over(exg_builder *b, exg_ref x, double p, exg_argument dims,
                         exg_argument keepdim)
{
    exg_ref size = EMIT(b, abs_default, x);

    x = exg_dtype_is_complex(exg_lower_dtype(b, x)) ? size : x;
    if (p == (double)INFINITY || p == -(double)INFINITY) {
        return p > 0 ? EMIT(b, amax_default, size, dims, keepdim)
                     : EMIT(b, amin_default, size, dims, keepdim);
    }
    if (p == 0) {
        size = EMIT(b, _to_copy_default, EMIT(b, ne_Scalar, x, 0), DTYPE(exg_lower_dtype(b, x)));
        return EMIT(b, sum_dim_IntList, size, dims, keepdim);
    }
    if (p == 2) {
        return EMIT(b, sqrt_default, sum_of_squares(b, x, dims, keepdim));
    }
    if (p != 1) {
        size = EMIT(b, pow_Tensor_Scalar, size, p);
    }
    size = EMIT(b, sum_dim_IntList, size, dims, keepdim);
    return p == 1 ? size : EMIT(b, pow_Tensor_Scalar, size, 1 / p);
}

/* (self, ord, dim, keepdim, dtype); narrow floats by way of float32 */
void exg_lower_linalg_vector_norm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_dtype_argument(&args[4], exg_lower_dtype(b, SELF));
    exg_argument dims = exg_is_none(&args[2]) ? ALL_DIMS : args[2];
    exg_ref x = exg_lower_wide(b, exg_lower_cast(b, SELF, dtype));

    results[0] = exg_arg_ref(exg_lower_cast(
        b, norm_over(b, x, exg_get_float(&args[1]), dims, args[3]), exg_real_of(dtype)));
}

/* (self, ord?, dim?, keepdim, dtype): of vectors, unless ord is given for two dims */
void exg_lower_linalg_norm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t dims[2] = {-2, -1};
    uint32_t rank = exg_lower_dims(b, SELF).rank;
    uint32_t count = exg_is_none(&args[2]) ? rank : exg_get_ints(&args[2], dims, 2);
    double p = exg_is_none(&args[1]) ? 2 : exg_get_float(&args[1]);
    exg_dtype dtype = exg_dtype_argument(&args[4], exg_lower_dtype(b, SELF));
    exg_ref x = exg_lower_wide(b, exg_lower_cast(b, SELF, dtype));

    if (exg_is_none(&args[1]) || count < 2) {
        x = norm_over(b, x, p, exg_is_none(&args[2]) ? ALL_DIMS : args[2], args[3]);
    } else if (fabs(p) == 1 || isinf(p)) {
        /* 1: columns, inf: rows; what was summed is dropped after the other one */
        uint32_t sum = exg_lower_dim(b, fabs(p) == 1 ? dims[0] : dims[1], rank);
        uint32_t most = exg_lower_dim(b, fabs(p) == 1 ? dims[1] : dims[0], rank);

        x = EMIT(b, sum_dim_IntList, EMIT(b, abs_default, x), INTS(b, (int64_t)sum),
                 exg_arg_bool(true));
        x = p > 0 ? EMIT(b, amax_default, x, INTS(b, (int64_t)most), exg_arg_bool(true))
                  : EMIT(b, amin_default, x, INTS(b, (int64_t)most), exg_arg_bool(true));
        x = exg_get_bool(&args[3]) ? x
                                   : EMIT(b, squeeze_dims, x, INTS(b, (int64_t)sum, (int64_t)most));
    } else { /* 2, -2: the greatest and the least singular value */
        x = exg_lower_singular_values(b, x, dims[0], dims[1]);
        x = EMIT(b, select_int, x, -1, p > 0 ? 0 : -1);
        x = exg_get_bool(&args[3]) ? exg_lower_kept(b, x, SELF, dims) : x;
    }
    results[0] = exg_arg_ref(exg_lower_cast(b, x, exg_real_of(dtype)));
}

static void dist(exg_builder *b, exg_ref gap, double p, exg_argument dims, exg_argument keepdim,
                 exg_argument *results)
{
    exg_dtype dtype = exg_real_of(exg_lower_dtype(b, gap));

    results[0] = exg_arg_ref(
        exg_lower_cast(b, norm_over(b, exg_lower_wide(b, gap), p, dims, keepdim), dtype));
}

void exg_lower_dist(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    dist(b, EMIT(b, sub_Tensor, args[0], args[1]), exg_get_float(&args[2]), ALL_DIMS,
         exg_arg_bool(false), results);
}

/* (x1, x2, p, eps, keepdim) */
void exg_lower_pairwise_distance(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    dist(b, EMIT(b, add_Scalar, EMIT(b, sub_Tensor, args[0], args[1]), args[3]),
         exg_get_float(&args[2]), INTS(b, -1), args[4], results);
}

/* (x1, x2, dim, eps): each divided by its length, no less than eps */
void exg_lower_cosine_similarity(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument dim = INTS(b, exg_get_int(&args[2]));
    exg_ref sides[2] = {exg_get_ref(&args[0]), exg_get_ref(&args[1])};
    exg_dims dims[2];
    exg_dims common;
    exg_dtype dtype;

    for (int i = 0; i < 2; i++) {
        dims[i] = exg_lower_dims(b, sides[i]);
    }
    if (exg_broadcast(&dims[0], &dims[1], &common, NULL) != EXG_OK) {
        exg_lower_refuse(b, "shapes that do not broadcast");
        return;
    }
    dtype = exg_lower_dtype(b, EMIT(b, mul_Tensor, sides[0], sides[1])); /* of both */
    for (int i = 0; i < 2; i++) {
        bool is_whole = exg_dtype_is_integral(exg_lower_dtype(b, sides[i]));
        exg_ref side = is_whole ? exg_lower_cast(b, sides[i], dtype) : sides[i];
        exg_ref x = EMIT(b, expand_default, side, INTS_OF(b, common.n, common.rank));
        exg_ref length = EMIT(b, linalg_vector_norm_default, x, 2.0, dim, exg_arg_bool(true));

        sides[i] = EMIT(b, div_Tensor, x, EMIT(b, clamp_min_default, length, args[3]));
    }
    results[0] =
        exg_arg_ref(EMIT(b, sum_dim_IntList, EMIT(b, mul_Tensor, sides[0], sides[1]), dim));
}

/* ---- differences ------------------------------------------------------------------------ */

/* (self, n, dim, prepend?, append?) */
void exg_lower_diff(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t times = exg_get_int(&args[1]);
    exg_ref parts[3];
    uint32_t count = 0;
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[2]), exg_lower_dims(b, SELF).rank);
    bool is_bool = exg_lower_dtype(b, SELF) == EXG_DTYPE_B8;
    exg_ref x;

    if (exg_lower_dims(b, SELF).rank == 0 || times < 0) {
        exg_lower_refuse(b, "differences of a 0-d tensor, or so many times");
        return;
    }
    if (times > 4096) {
        exg_lower_unsupported(b, "differences over 4096 times");
        return;
    }
    if (times == 0) {
        results[0] = exg_arg_ref(EMIT(b, clone_default, SELF));
        return;
    }
    if (exg_lower_given(&args[3])) {
        parts[count++] = exg_get_ref(&args[3]);
    }
    parts[count++] = SELF;
    if (exg_lower_given(&args[4])) {
        parts[count++] = exg_get_ref(&args[4]);
    }
    x = count == 1 ? SELF : EMIT(b, cat_default, exg_arg_refs(b, parts, count), (int)dim);
    for (int64_t i = 0; i < times; i++) {
        int64_t size = exg_lower_dims(b, x).n[dim];
        int64_t left = size > 0 ? size - 1 : 0;
        exg_ref later = exg_lower_slice(b, x, dim, size > 0 ? 1 : 0, left);
        exg_ref earlier = exg_lower_slice(b, x, dim, 0, left);

        x = is_bool ? EMIT(b, logical_xor_default, later, earlier)
                    : EMIT(b, sub_Tensor, later, earlier);
    }
    results[0] = exg_arg_ref(x);
}

/* Sums of neighbours along `dim`. */
static exg_ref neighbours(exg_builder *b, exg_ref y, uint32_t dim)
{
    int64_t size = exg_lower_dims(b, y).n[dim];
    int64_t left = size > 0 ? size - 1 : 0;

    return EMIT(b, add_Tensor, exg_lower_slice(b, y, dim, size > 0 ? 1 : 0, left),
                exg_lower_slice(b, y, dim, 0, left));
}

/* A step's width and a half, times what was added up. */
static exg_argument halved(exg_builder *b, exg_ref sum, const exg_argument *step)
{
    return exg_arg_ref(EMIT(b, mul_Scalar, sum, step == NULL ? 0.5 : exg_get_float(step) / 2));
}

void exg_lower_trapezoid_dx(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[2]), exg_lower_dims(b, SELF).rank);
    exg_ref sum = EMIT(b, sum_dim_IntList, neighbours(b, SELF, dim), INTS(b, (int64_t)dim));

    results[0] = halved(b, sum, &args[1]);
}

/* (y, x, dim): x is as large as y, or a vector along dim. Twice the areas. */
static exg_ref areas(exg_builder *b, const exg_argument *args, uint32_t *dim)
{
    exg_dims in = exg_lower_dims(b, SELF);
    exg_ref x = exg_get_ref(&args[1]);

    *dim = exg_lower_dim(b, exg_get_int(&args[2]), in.rank);
    if (exg_lower_dims(b, x).rank == 1 && in.rank > 1) {
        x = exg_lower_along(b, x, *dim, in.rank);
    }
    x = EMIT(b, diff_default, x, 1, (int)exg_lower_dims(b, x).rank - (int)(in.rank - *dim));
    return EMIT(b, mul_Tensor, neighbours(b, SELF, *dim), x);
}

void exg_lower_trapezoid_x(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t dim;
    exg_ref area = areas(b, args, &dim);

    results[0] = halved(b, EMIT(b, sum_dim_IntList, area, INTS(b, (int64_t)dim)), NULL);
}

void exg_lower_cumulative_trapezoid_x(exg_builder *b, const exg_argument *args,
                                      exg_argument *results)
{
    uint32_t dim;
    exg_ref area = areas(b, args, &dim);

    results[0] = halved(b, EMIT(b, cumsum_default, area, (int)dim), NULL);
}

void exg_lower_cumulative_trapezoid_dx(exg_builder *b, const exg_argument *args,
                                       exg_argument *results)
{
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[2]), exg_lower_dims(b, SELF).rank);

    results[0] = halved(b, EMIT(b, cumsum_default, neighbours(b, SELF, dim), (int)dim), &args[1]);
}

/* ---- pointwise, with what is not given worked out --------------------------------------- */

static double largest(exg_dtype dtype)
{
    return dtype == EXG_DTYPE_F64    ? 1.7976931348623157e308
           : dtype == EXG_DTYPE_F16  ? 65504.0
           : dtype == EXG_DTYPE_BF16 ? 3.3895313892515355e38
                                     : 3.4028234663852886e38;
}

void exg_lower_nan_to_num(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, SELF);

    if (exg_dtype_is_complex(dtype)) { /* of both parts */
        exg_ref parts = EMIT(b, view_as_real_default, SELF);

        parts = EMIT(b, nan_to_num_default, parts, args[1], args[2], args[3]);
        results[0] = exg_arg_ref(EMIT(b, view_as_complex_default, parts));
        return;
    }
    if (!exg_dtype_is_float(dtype)) {
        results[0] = exg_arg_ref(EMIT(b, clone_default, SELF));
        return;
    }
    results[0] =
        exg_arg_ref(EMIT(b, nan_to_num, SELF, exg_is_none(&args[1]) ? 0.0 : exg_get_float(&args[1]),
                         exg_is_none(&args[2]) ? largest(dtype) : exg_get_float(&args[2]),
                         exg_is_none(&args[3]) ? -largest(dtype) : exg_get_float(&args[3])));
}

void exg_lower_logit(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_dtype_is_float(exg_lower_dtype(b, SELF))
                    ? SELF
                    : exg_lower_cast(b, SELF, EXG_DTYPE_F32);

    if (!exg_is_none(&args[1]) && exg_get_float(&args[1]) >= 0) {
        double eps = exg_get_float(&args[1]);

        /* the lower bound counts first, where it is the larger */
        x = EMIT(b, where_ScalarSelf, EMIT(b, lt_Scalar, x, eps), eps,
                 EMIT(b, clamp_max_default, x, 1 - eps));
    }
    x = EMIT(b, div_Tensor, x, EMIT(b, rsub_Scalar, x, 1));
    results[0] = exg_arg_ref(EMIT(b, log_default, x));
}

/* round(x 10^d) / 10^d; d < 0: round(x / 10^-d) 10^-d */
void exg_lower_round_decimals(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t decimals = exg_get_int(&args[1]);
    double scale = pow(10, (double)(decimals < 0 ? -decimals : decimals));
    exg_ref x = SELF;

    if (!exg_dtype_is_float(exg_lower_dtype(b, x))) {
        x = EMIT(b, clone_default, x);
    } else if (decimals < 0) {
        x = EMIT(b, round_default, EMIT(b, div_Scalar, x, scale));
        x = EMIT(b, mul_Scalar, x, scale);
    } else {
        x = EMIT(b, round_default, EMIT(b, mul_Scalar, x, scale));
        x = EMIT(b, div_Scalar, x, scale);
    }
    results[0] = exg_arg_ref(x);
}

/* Both in float64, or complex128 where one is complex. */
static exg_dtype power_dtype(const exg_builder *b, exg_ref tensor, bool other_is_complex)
{
    return other_is_complex || exg_dtype_is_complex(exg_lower_dtype(b, tensor)) ? EXG_DTYPE_C128
                                                                                : EXG_DTYPE_F64;
}

void exg_lower_float_power(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref y = exg_get_ref(&args[1]);
    exg_dtype dtype = power_dtype(b, SELF, exg_dtype_is_complex(exg_lower_dtype(b, y)));

    results[0] = exg_arg_ref(
        EMIT(b, pow_Tensor_Tensor, exg_lower_cast(b, SELF, dtype), exg_lower_cast(b, y, dtype)));
}

/* A number as one of float64, which does not compute in integers. */
static exg_argument wide_number(const exg_argument *number)
{
    return number->kind == EXG_ARGUMENT_COMPLEX ? *number : exg_arg_float(exg_get_float(number));
}

void exg_lower_float_power_scalar(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = power_dtype(b, SELF, args[1].kind == EXG_ARGUMENT_COMPLEX);

    results[0] = exg_arg_ref(
        EMIT(b, pow_Tensor_Scalar, exg_lower_cast(b, SELF, dtype), wide_number(&args[1])));
}

void exg_lower_float_power_of_scalar(exg_builder *b, const exg_argument *args,
                                     exg_argument *results)
{
    exg_ref y = exg_get_ref(&args[1]);
    exg_dtype dtype = power_dtype(b, y, args[0].kind == EXG_ARGUMENT_COMPLEX);

    results[0] =
        exg_arg_ref(EMIT(b, pow_Scalar, wide_number(&args[0]), exg_lower_cast(b, y, dtype)));
}

/* self * 2^other: of whole exponents exact until the result is rounded to self's dtype, so in
 * float64 and in two steps, of which neither leaves the range alone. */
void exg_lower_ldexp(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, SELF);
    exg_ref power, half, rest, product;

    if (exg_dtype_is_float(dtype) &&
        exg_dtype_is_integral(exg_lower_dtype(b, exg_get_ref(&args[1])))) {
        power = exg_lower_cast(b, exg_get_ref(&args[1]), EXG_DTYPE_I64);
        power = EMIT(b, clamp_default, power, exg_arg_int(-2200), exg_arg_int(2200));
        half = EMIT(b, div_floor_Scalar, power, exg_arg_int(2));
        rest = EMIT(b, sub_Tensor, power, half);
        product = EMIT(b, mul_Tensor, exg_lower_cast(b, SELF, EXG_DTYPE_F64),
                       EMIT(b, pow_Scalar, 2.0, exg_lower_cast(b, half, EXG_DTYPE_F64)));
        product = EMIT(b, mul_Tensor, product,
                       EMIT(b, pow_Scalar, 2.0, exg_lower_cast(b, rest, EXG_DTYPE_F64)));
        results[0] = exg_arg_ref(exg_lower_cast(b, product, dtype));
        return;
    }
    results[0] = exg_arg_ref(EMIT(b, mul_Tensor, SELF, EMIT(b, pow_Scalar, 2.0, args[1])));
}

/* (self, dim, dtype?): a row of nothing but -inf gives zeros */
void exg_lower_safe_softmax(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref y = EMIT(b, softmax_int, SELF, args[1], args[2]);
    exg_ref nothing = EMIT(b, all_dims, EMIT(b, isneginf_default, SELF),
                           INTS(b, exg_get_int(&args[1])), exg_arg_bool(true));

    results[0] = exg_arg_ref(EMIT(b, where_self, nothing, EMIT(b, zeros_like_default, y), y));
}

/* ---- quantiles ------------------------------------------------------------------------------- */

/* Between two places of the sorted row, as the word says. */
static exg_ref between(exg_builder *b, exg_ref sorted, exg_ref rank, const char *word)
{
    exg_ref below = EMIT(b, floor_default, rank);
    exg_ref above = EMIT(b, ceil_default, rank);
    exg_ref low;
    exg_ref high;

    if (word[0] == 'n') { /* nearest */
        below = above = EMIT(b, round_default, rank);
    }
    below = word[0] == 'h' ? above : below;                   /* higher */
    above = word[0] == 'l' && word[1] == 'o' ? below : above; /* lower */
    low = EMIT(b, gather_default, sorted, -1, exg_lower_cast(b, below, EXG_DTYPE_I64));
    high = EMIT(b, gather_default, sorted, -1, exg_lower_cast(b, above, EXG_DTYPE_I64));
    return word[0] == 'm' ? EMIT(b, lerp_Scalar, low, high, 0.5)
                          : EMIT(b, lerp_Tensor, low, high, EMIT(b, sub_Tensor, rank, below));
}

/* (self, q, dim?, keepdim, interpolation): a vector q gives a first dim. */
static void quantile(exg_builder *b, const exg_argument *args, exg_ref q, bool skips,
                     exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    bool whole = exg_is_none(&args[2]) || in.rank == 0;
    bool many = exg_lower_dims(b, q).rank > 0;
    int64_t count = exg_lower_numel(b, q);
    uint32_t dim = whole ? 0 : exg_lower_dim(b, exg_get_int(&args[2]), in.rank);
    exg_dtype dtype = exg_lower_dtype(b, SELF);
    exg_argument both[2] = {exg_arg_none(), exg_arg_none()};
    exg_dims rows;
    exg_dims kept = in;
    exg_ref x = whole ? exg_lower_flat(b, SELF) : SELF;
    exg_ref rank;
    exg_ref missing;

    rows = exg_lower_dims(b, x);
    if (rows.rank == 0 || rows.n[dim] == 0) {
        exg_lower_refuse(b, "a quantile of nothing");
        return;
    }
    x = exg_lower_swapped(b, x, dim, rows.rank - 1);
    (void)EMIT_ALL(b, sort_stable, both, x, exg_arg_bool(true), -1, false);
    missing = EMIT(b, sum_dim_IntList, EMIT(b, isnan_default, x), INTS(b, -1), exg_arg_bool(true));
    rank = exg_lower_cast(b, EMIT(b, rsub_Scalar, missing, exg_arg_int(rows.n[dim] - 1)), dtype);
    rank = skips ? EMIT(b, clamp_min_default, rank, 0.0) : rank;
    q = EMIT(b, reshape_default, exg_lower_cast(b, q, dtype), INTS(b, count));
    if (!skips) { /* one NaN is the answer: it is sorted last */
        exg_ref last =
            EMIT(b, mul_Scalar, EMIT(b, ones_like_default, rank), (double)(rows.n[dim] - 1));

        rank =
            EMIT(b, where_self, EMIT(b, gt_Scalar, missing, 0), last, EMIT(b, mul_Tensor, last, q));
    } else {
        rank = EMIT(b, mul_Tensor, rank, q);
    }
    x = between(b, exg_get_ref(&both[0]), rank, args[4].as_string);
    x = exg_lower_swapped(b, EMIT(b, unsqueeze_default, x, 0), 0, rows.rank);
    for (uint32_t d = 0; d < in.rank; d++) {
        kept.n[d] = whole || d == dim ? 1 : in.n[d];
    }
    /* (count, ..., 1): the dim goes back to its place, or away */
    x = exg_lower_swapped(b, x, dim + 1, rows.rank);
    x = EMIT(b, squeeze_dims, x, INTS(b, (int64_t)dim + 1));
    if (exg_get_bool(&args[3]) || !many) {
        exg_dims out = {.rank = 0};

        if (many) {
            out.n[out.rank++] = count;
        }
        for (uint32_t d = 0; d < in.rank; d++) {
            if (exg_get_bool(&args[3]) || !(whole || d == dim)) {
                out.n[out.rank++] = kept.n[d];
            }
        }
        x = exg_lower_shaped(b, x, &out);
    }
    results[0] = exg_arg_ref(x);
}

static exg_ref number_of(exg_builder *b, const exg_argument *args)
{
    return EMIT(b, scalar_tensor_default, args[1], DTYPE(exg_lower_dtype(b, SELF)));
}

void exg_lower_quantile_scalar(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    quantile(b, args, number_of(b, args), false, results);
}

void exg_lower_nanquantile_scalar(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    quantile(b, args, number_of(b, args), true, results);
}

void exg_lower_quantile(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    quantile(b, args, exg_get_ref(&args[1]), false, results);
}

void exg_lower_nanquantile(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    quantile(b, args, exg_get_ref(&args[1]), true, results);
}

/* ---- others ------------------------------------------------------------------------------ */

/* (self, p, dim, maxnorm): slices of dim no longer than maxnorm */
void exg_lower_renorm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[2]), in.rank);
    double most = exg_get_float(&args[3]);
    int64_t others[EXG_SHAPE_RANK_MAX];
    uint32_t count = 0;
    exg_ref norm;
    exg_ref factor;

    for (uint32_t d = 0; d < in.rank; d++) {
        if (d != dim) {
            others[count++] = d;
        }
    }
    norm = EMIT(b, linalg_vector_norm_default, SELF, args[1], INTS_OF(b, others, count),
                exg_arg_bool(true));
    factor =
        EMIT(b, mul_Scalar, EMIT(b, reciprocal_default, EMIT(b, add_Scalar, norm, 1e-7)), most);
    factor = EMIT(b, where_self, EMIT(b, gt_Scalar, norm, most), factor,
                  EMIT(b, ones_like_default, factor));
    results[0] = exg_arg_ref(EMIT(b, mul_Tensor, SELF, factor));
}

/* (self, bins, min, max): min = max means those of the data */
void exg_lower_histc(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t bins = exg_get_int(&args[1]);
    double low = exg_get_float(&args[2]);
    double high = exg_get_float(&args[3]);
    exg_dtype dtype = exg_lower_dtype(b, SELF);
    exg_ref x = exg_lower_flat(b, SELF);
    exg_ref from;
    exg_ref to;
    exg_ref place;
    exg_ref inside;

    if (bins < 1 || exg_lower_numel(b, x) == 0) {
        exg_lower_refuse(b, "histc of nothing, or into no bins");
        return;
    }
    from = low == high ? EMIT(b, amin_default, x) : exg_lower_number(b, low, dtype);
    to = low == high ? EMIT(b, amax_default, x) : exg_lower_number(b, high, dtype);
    if (low == high) { /* all data alike: one to each side */
        exg_ref alike = exg_lower_cast(b, EMIT(b, eq_Tensor, from, to), dtype);

        from = EMIT(b, sub_Tensor, from, alike);
        to = EMIT(b, add_Tensor, to, alike);
    }
    place = EMIT(b, div_Tensor, EMIT(b, mul_Scalar, EMIT(b, sub_Tensor, x, from), (double)bins),
                 EMIT(b, sub_Tensor, to, from));
    inside = EMIT(b, logical_and_default, EMIT(b, ge_Tensor, x, from), EMIT(b, le_Tensor, x, to));
    place = EMIT(b, clamp_both, EMIT(b, floor_default, place), 0.0, (double)(bins - 1));
    place = EMIT(b, where_self, inside, place, EMIT(b, zeros_like_default, place));
    results[0] = exg_arg_ref(
        EMIT(b, scatter_add_default, EMIT(b, full_default, INTS(b, bins), 0, DTYPE(dtype)), 0,
             exg_lower_cast(b, place, EXG_DTYPE_I64), exg_lower_cast(b, inside, dtype)));
}

void exg_lower_isreal(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(
        exg_dtype_is_complex(exg_lower_dtype(b, SELF))
            ? EMIT(b, eq_Scalar, EMIT(b, select_int, EMIT(b, view_as_real_default, SELF), -1, 1), 0)
            : EMIT(b, ones_like_default, SELF, DTYPE(EXG_DTYPE_B8)));
}

/* Of real numbers: 0, or pi below. */
void exg_lower_angle(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_dtype_is_float(exg_lower_dtype(b, SELF))
                    ? SELF
                    : exg_lower_cast(b, SELF, EXG_DTYPE_F32);
    exg_ref pi =
        EMIT(b, mul_Scalar,
             EMIT(b, _to_copy_default, EMIT(b, lt_Scalar, x, 0), DTYPE(exg_lower_dtype(b, x))),
             3.14159265358979323846);

    results[0] = exg_arg_ref(EMIT(b, where_self, EMIT(b, isnan_default, x), x, pi));
}

/* (self [N, M], p): the distances above the diagonal, row by row */
void exg_lower_pdist(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t rows = exg_lower_dims(b, SELF).n[0];
    exg_ref pairs = EMIT(b, triu_indices_default, exg_arg_int(rows), exg_arg_int(rows), 1);
    exg_ref gap = EMIT(b, sub_Tensor,
                       EMIT(b, index_select_default, SELF, 0, EMIT(b, select_int, pairs, 0, 0)),
                       EMIT(b, index_select_default, SELF, 0, EMIT(b, select_int, pairs, 0, 1)));

    dist(b, gap, exg_get_float(&args[1]), INTS(b, -1), exg_arg_bool(false), results);
}

/* ---- norms by their earlier names ------------------------------------------------------------ */

static exg_argument order(const exg_argument *p)
{
    return exg_is_none(p) ? exg_arg_int(2) : *p;
}

void exg_lower_norm_of_all(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, linalg_vector_norm_default, args[0], args[1]));
}

void exg_lower_norm_dtype(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, linalg_vector_norm_default, args[0], order(&args[1]),
                                  exg_arg_none(), false, args[2]));
}

void exg_lower_norm_dims(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(
        EMIT(b, linalg_vector_norm_default, args[0], order(&args[1]), args[2], args[3]));
}

void exg_lower_norm_dims_dtype(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(
        EMIT(b, linalg_vector_norm_default, args[0], order(&args[1]), args[2], args[3], args[4]));
}

void exg_lower_frobenius_norm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, linalg_vector_norm_default, args[0], 2, args[1], args[2]));
}
