/* complex.c - complex numbers as pairs of real ones: the lowerings of complex.def. A complex
 * value is joined from two real ones only where somebody needs it so; the builder remembers
 * its parts, so that a chain of operators stays real all through.
 */
#include "libexport/decompositions/complex.h"

#include <math.h>

typedef struct pair {
    exg_ref re, im;
} pair;

#define NO_PAIR ((pair){EXG_NO_REF, EXG_NO_REF})

/* ---- parts ---------------------------------------------------------------------------- */

static pair parts_of(exg_builder *b, exg_ref x)
{
    exg_ref parts[2];
    exg_ref real;

    if (!exg_dtype_is_complex(exg_lower_dtype(b, x))) {
        return (pair){x, exg_lower_number(b, 0, exg_lower_dtype(b, x))};
    }
    if (exg_builder_parts(b, x, parts)) {
        return (pair){parts[0], parts[1]};
    }
    real = EMIT(b, view_as_real_default, x);
    return (pair){EMIT(b, select_int, real, -1, 0), EMIT(b, select_int, real, -1, 1)};
}

static pair as_dtype(exg_builder *b, pair z, exg_dtype dtype)
{
    return (pair){exg_lower_cast(b, z.re, dtype), exg_lower_cast(b, z.im, dtype)};
}

/* An operand, tensor or number, with parts of a dtype. */
static pair operand(exg_builder *b, const exg_argument *arg, exg_dtype dtype)
{
    if (arg->kind == EXG_ARGUMENT_TENSOR) {
        return as_dtype(b, parts_of(b, exg_get_ref(arg)), dtype);
    }
    if (arg->kind == EXG_ARGUMENT_COMPLEX) {
        return (pair){exg_lower_number(b, arg->as_complex.real, dtype),
                      exg_lower_number(b, arg->as_complex.imag, dtype)};
    }
    return (pair){exg_lower_number(b, exg_get_float(arg), dtype), exg_lower_number(b, 0, dtype)};
}

exg_ref exg_lower_joined(exg_builder *b, exg_ref re, exg_ref im)
{
    exg_dims dims = {.rank = 0};
    exg_dims of_re = exg_lower_dims(b, re);
    exg_dims of_im = exg_lower_dims(b, im);
    exg_ref parts[2] = {re, im};
    exg_ref joined;
    exg_error err;

    if (exg_broadcast(&of_re, &of_im, &dims, &err) != EXG_OK) {
        exg_builder_fail(b, &err);
        return EXG_NO_REF;
    }
    for (int i = 0; i < 2; i++) {
        parts[i] = EMIT(b, expand_default, parts[i], INTS_OF(b, dims.n, dims.rank));
    }
    re = parts[0];
    im = parts[1];
    parts[0] = EMIT(b, unsqueeze_default, re, -1);
    parts[1] = EMIT(b, unsqueeze_default, im, -1);
    joined = EMIT(b, view_as_complex_default, EMIT(b, cat_default, exg_arg_refs(b, parts, 2), -1));
    exg_builder_set_parts(b, joined, re, im);
    return joined;
}

static exg_argument joined(exg_builder *b, pair z)
{
    return exg_arg_ref(exg_lower_joined(b, z.re, z.im));
}

/* The real dtype a call computes in. */
static exg_dtype computes_in(exg_builder *b, exg_operator_id id, const exg_argument *args)
{
    const exg_operator *op = exg_operators_get(exg_builder_operators(b), id);
    exg_dtype compute;
    exg_dtype result;

    exg_pointwise_dtypes(op, args, exg_builder_graph(b), &compute, &result);
    return exg_real_of(compute);
}

/* ---- arithmetic ------------------------------------------------------------------------- */

#define REAL(op, ...) EMIT(b, op, __VA_ARGS__)

static pair add(exg_builder *b, pair x, pair y)
{
    return (pair){REAL(add_Tensor, x.re, y.re), REAL(add_Tensor, x.im, y.im)};
}

static pair sub(exg_builder *b, pair x, pair y)
{
    return (pair){REAL(sub_Tensor, x.re, y.re), REAL(sub_Tensor, x.im, y.im)};
}

static pair mul(exg_builder *b, pair x, pair y)
{
    return (pair){REAL(sub_Tensor, REAL(mul_Tensor, x.re, y.re), REAL(mul_Tensor, x.im, y.im)),
                  REAL(add_Tensor, REAL(mul_Tensor, x.re, y.im), REAL(mul_Tensor, x.im, y.re))};
}

static pair scaled(exg_builder *b, pair z, double by)
{
    return (pair){REAL(mul_Scalar, z.re, by), REAL(mul_Scalar, z.im, by)};
}

static pair shifted(exg_builder *b, pair z, double by)
{
    return (pair){REAL(add_Scalar, z.re, by), z.im};
}

static pair divided(exg_builder *b, pair z, exg_ref by)
{
    return (pair){REAL(div_Tensor, z.re, by), REAL(div_Tensor, z.im, by)};
}

static pair turned(exg_builder *b, pair z) /* i z */
{
    return (pair){REAL(neg_default, z.im), z.re};
}

static pair turned_back(exg_builder *b, pair z) /* -i z */
{
    return (pair){z.im, REAL(neg_default, z.re)};
}

static pair negated(exg_builder *b, pair z)
{
    return (pair){REAL(neg_default, z.re), REAL(neg_default, z.im)};
}

/* y is made of ordinary size first, lest its square leave the dtype. */
static pair divide(exg_builder *b, pair x, pair y)
{
    exg_ref size = REAL(maximum_default, REAL(abs_default, y.re), REAL(abs_default, y.im));
    pair unit = divided(b, y, size);
    exg_ref square = REAL(add_Tensor, REAL(square_default, unit.re), REAL(square_default, unit.im));
    pair turned_y = {unit.re, REAL(neg_default, unit.im)};

    return divided(b, divided(b, mul(b, x, turned_y), square), size);
}

static exg_ref modulus(exg_builder *b, pair z)
{
    return REAL(hypot_default, z.re, z.im);
}

static exg_ref is_zero(exg_builder *b, pair z)
{
    return REAL(logical_and_default, REAL(eq_Scalar, z.re, 0), REAL(eq_Scalar, z.im, 0));
}

static pair choose(exg_builder *b, exg_ref condition, pair x, pair y)
{
    return (pair){REAL(where_self, condition, x.re, y.re), REAL(where_self, condition, x.im, y.im)};
}

/* ---- functions -------------------------------------------------------------------------- */

static pair exponential(exg_builder *b, pair z)
{
    exg_ref size = REAL(exp_default, z.re);
    exg_ref still = REAL(eq_Scalar, z.im, 0); /* inf times the sine of 0 is 0 here */
    pair turned_z = {REAL(mul_Tensor, size, REAL(cos_default, z.im)),
                     REAL(mul_Tensor, size, REAL(sin_default, z.im))};

    return choose(b, still, (pair){size, z.im}, turned_z);
}

static pair logarithm(exg_builder *b, pair z)
{
    return (pair){REAL(log_default, modulus(b, z)), REAL(atan2_default, z.im, z.re)};
}

/* The half of the angle, by t = sqrt((|re| + |z|) / 2). */
static pair root(exg_builder *b, pair z)
{
    exg_ref sum = REAL(add_Tensor, REAL(abs_default, z.re), modulus(b, z));
    exg_ref t = REAL(sqrt_default, REAL(mul_Scalar, sum, 0.5));
    exg_ref other = REAL(div_Tensor, REAL(abs_default, z.im), REAL(mul_Scalar, t, 2.));
    exg_ref right = REAL(ge_Scalar, z.re, 0);
    pair half;

    other = REAL(where_ScalarSelf, REAL(eq_Scalar, t, 0), 0., other);
    half.re = REAL(where_self, right, t, other);
    half.im = REAL(copysign_Tensor, REAL(where_self, right, other, t), z.im);
    return half;
}

static pair sine(exg_builder *b, pair z)
{
    return (pair){REAL(mul_Tensor, REAL(sin_default, z.re), REAL(cosh_default, z.im)),
                  REAL(mul_Tensor, REAL(cos_default, z.re), REAL(sinh_default, z.im))};
}

static pair cosine(exg_builder *b, pair z)
{
    exg_ref im = REAL(mul_Tensor, REAL(sin_default, z.re), REAL(sinh_default, z.im));

    return (pair){REAL(mul_Tensor, REAL(cos_default, z.re), REAL(cosh_default, z.im)),
                  REAL(neg_default, im)};
}

/* (sinh 2a + i sin 2b) / (cosh 2a + cos 2b); past 40 nothing changes in any dtype. */
static pair hyperbolic_tangent(exg_builder *b, pair z)
{
    exg_ref a = REAL(mul_Scalar, REAL(clamp_default, z.re, -40., 40.), 2.);
    exg_ref double_im = REAL(mul_Scalar, z.im, 2.);
    exg_ref below = REAL(add_Tensor, REAL(cosh_default, a), REAL(cos_default, double_im));

    return (pair){REAL(div_Tensor, REAL(sinh_default, a), below),
                  REAL(div_Tensor, REAL(sin_default, double_im), below)};
}

/* log(z + sqrt(z^2 + 1)) where re is not negative; the function is odd. */
static pair area_sine(exg_builder *b, pair z)
{
    exg_ref left = REAL(lt_Scalar, z.re, 0);
    pair right = choose(b, left, negated(b, z), z);
    pair inside = root(b, shifted(b, mul(b, right, right), 1));
    pair y = logarithm(b, add(b, right, inside));

    return choose(b, left, negated(b, y), y);
}

static pair logarithm_of_1_plus(exg_builder *b, pair z)
{
    exg_ref squares = REAL(add_Tensor, REAL(square_default, z.re), REAL(square_default, z.im));
    exg_ref inside = REAL(add_Tensor, REAL(mul_Scalar, z.re, 2.), squares);

    return (pair){REAL(mul_Scalar, REAL(log1p_default, inside), 0.5),
                  REAL(atan2_default, z.im, REAL(add_Scalar, z.re, 1.))};
}

/* log((1 + z) / (1 - z)) / 2, whose square of a modulus is 1 + 4 re / |1 - z|^2; odd */
static pair area_tangent(exg_builder *b, pair z)
{
    exg_ref re = REAL(abs_default, z.re);
    exg_ref less = REAL(rsub_Scalar, re, 1.);
    exg_ref more = REAL(add_Scalar, re, 1.);
    exg_ref square = REAL(square_default, z.im);
    exg_ref below = REAL(add_Tensor, REAL(square_default, less), square);
    exg_ref grown = REAL(div_Tensor, REAL(mul_Scalar, re, 4.), below);
    exg_ref beside = REAL(sub_Tensor, REAL(mul_Tensor, less, more), square);
    pair y = {REAL(copysign_Tensor, REAL(log1p_default, grown), z.re),
              REAL(atan2_default, REAL(mul_Scalar, z.im, 2.), beside)};

    return (pair){REAL(mul_Scalar, y.re, 0.25), REAL(mul_Scalar, y.im, 0.5)};
}

static pair one(exg_builder *b, pair like)
{
    exg_dtype dtype = exg_lower_dtype(b, like.re);

    return (pair){exg_lower_number(b, 1, dtype), exg_lower_number(b, 0, dtype)};
}

static pair sigmoid(exg_builder *b, pair z)
{
    return divide(b, one(b, z), shifted(b, exponential(b, negated(b, z)), 1));
}

/* 0 to a power is 0, or 1 to the power 0. */
static pair power(exg_builder *b, pair x, pair y)
{
    pair zero = scaled(b, one(b, x), 0);
    pair of_zero = choose(b, is_zero(b, y), one(b, x), zero);

    return choose(b, is_zero(b, x), of_zero, exponential(b, mul(b, y, logarithm(b, x))));
}

#define UNARY(name, expression)                                                                    \
    void exg_complex_##name(exg_builder *b, exg_operator_id id, const exg_argument *args,          \
                            exg_argument *results)                                                 \
    {                                                                                              \
        pair z = operand(b, &args[0], computes_in(b, id, args));                                   \
                                                                                                   \
        results[0] = joined(b, expression);                                                        \
    }

UNARY(neg, negated(b, z))
UNARY(reciprocal, divide(b, one(b, z), z))
UNARY(square, mul(b, z, z))
UNARY(sqrt, root(b, z))
UNARY(rsqrt, divide(b, one(b, z), root(b, z)))
UNARY(exp, exponential(b, z))
UNARY(exp2, exponential(b, scaled(b, z, 0.69314718055994530942)))
UNARY(log, logarithm(b, z))
UNARY(log2, scaled(b, logarithm(b, z), 1.4426950408889634074))
UNARY(log10, scaled(b, logarithm(b, z), 0.43429448190325182765))
UNARY(log1p, logarithm_of_1_plus(b, z))
UNARY(sin, sine(b, z))
UNARY(cos, cosine(b, z))
UNARY(tan, turned_back(b, hyperbolic_tangent(b, turned(b, z))))
UNARY(sinh, turned_back(b, sine(b, turned(b, z))))
UNARY(cosh, cosine(b, turned(b, z)))
UNARY(tanh, hyperbolic_tangent(b, z))
UNARY(asinh, area_sine(b, z))
UNARY(asin, turned_back(b, area_sine(b, turned(b, z))))
UNARY(acos,
      shifted(b, negated(b, turned_back(b, area_sine(b, turned(b, z)))), 1.57079632679489661923))
UNARY(atanh, area_tangent(b, z))
UNARY(atan, turned_back(b, area_tangent(b, turned(b, z))))
UNARY(acosh, logarithm(b, add(b, z, mul(b, root(b, shifted(b, z, 1)), root(b, shifted(b, z, -1))))))
UNARY(sigmoid, sigmoid(b, z))
UNARY(silu, mul(b, z, sigmoid(b, z)))
UNARY(sgn, choose(b, is_zero(b, z), z, divided(b, z, modulus(b, z))))

/* e^re cos im - 1 = expm1(re) cos im - 2 sin^2(im / 2) */
static pair exponential_less_1(exg_builder *b, pair z)
{
    exg_ref sine_of_half = REAL(sin_default, REAL(mul_Scalar, z.im, 0.5));
    exg_ref less = REAL(mul_Scalar, REAL(square_default, sine_of_half), 2.);
    exg_ref grown = REAL(mul_Tensor, REAL(expm1_default, z.re), REAL(cos_default, z.im));

    return (pair){REAL(sub_Tensor, grown, less), exponential(b, z).im};
}

UNARY(expm1, exponential_less_1(b, z))

/* The number beside a sum is alpha: position 2. */
#define BINARY(name, expression)                                                                   \
    void exg_complex_##name(exg_builder *b, exg_operator_id id, const exg_argument *args,          \
                            exg_argument *results)                                                 \
    {                                                                                              \
        exg_dtype dtype = computes_in(b, id, args);                                                \
        pair x = operand(b, &args[0], dtype);                                                      \
        pair y = operand(b, &args[1], dtype);                                                      \
                                                                                                   \
        results[0] = joined(b, expression);                                                        \
    }

static pair times_alpha(exg_builder *b, pair z, const exg_argument *alpha)
{
    return exg_get_float(alpha) == 1 && alpha->kind != EXG_ARGUMENT_COMPLEX
               ? z
               : mul(b, z, operand(b, alpha, exg_lower_dtype(b, z.re)));
}

BINARY(add, add(b, x, times_alpha(b, y, &args[2])))
BINARY(sub, sub(b, x, times_alpha(b, y, &args[2])))
BINARY(rsub, sub(b, y, times_alpha(b, x, &args[2])))
BINARY(mul, mul(b, x, y))
BINARY(div, divide(b, x, y))
BINARY(addcmul,
       add(b, x, mul(b, mul(b, y, operand(b, &args[2], dtype)), operand(b, &args[3], dtype))))
BINARY(addcdiv,
       add(b, x, divide(b, mul(b, y, operand(b, &args[3], dtype)), operand(b, &args[2], dtype))))
BINARY(lerp, add(b, x, mul(b, sub(b, y, x), operand(b, &args[2], dtype))))

/* Small whole powers are products; others go by way of float64, since what is lost of the
 * logarithm is lost many times over. */
void exg_complex_pow(exg_builder *b, exg_operator_id id, const exg_argument *args,
                     exg_argument *results)
{
    exg_dtype dtype = computes_in(b, id, args);
    double n = args[1].kind == EXG_ARGUMENT_INT || args[1].kind == EXG_ARGUMENT_FLOAT
                   ? exg_get_float(&args[1])
                   : 0;
    pair x = operand(b, &args[0], n == 2 || n == 3 ? dtype : EXG_DTYPE_F64);
    pair z = n == 2   ? mul(b, x, x)
             : n == 3 ? mul(b, mul(b, x, x), x)
                      : power(b, x, operand(b, &args[1], EXG_DTYPE_F64));

    results[0] = joined(b, as_dtype(b, z, dtype));
}

/* ---- truths ----------------------------------------------------------------------------- */

static exg_ref equal(exg_builder *b, exg_operator_id id, const exg_argument *args)
{
    exg_dtype dtype = computes_in(b, id, args);
    pair x = operand(b, &args[0], dtype);
    pair y = operand(b, &args[1], dtype);

    return REAL(logical_and_default, REAL(eq_Tensor, x.re, y.re), REAL(eq_Tensor, x.im, y.im));
}

void exg_complex_eq(exg_builder *b, exg_operator_id id, const exg_argument *args,
                    exg_argument *results)
{
    results[0] = exg_arg_ref(equal(b, id, args));
}

void exg_complex_ne(exg_builder *b, exg_operator_id id, const exg_argument *args,
                    exg_argument *results)
{
    results[0] = exg_arg_ref(REAL(logical_not_default, equal(b, id, args)));
}

void exg_complex_logical_not(exg_builder *b, exg_operator_id id, const exg_argument *args,
                             exg_argument *results)
{
    (void)id;
    results[0] = exg_arg_ref(is_zero(b, parts_of(b, exg_get_ref(&args[0]))));
}

static exg_ref truth(exg_builder *b, exg_ref x)
{
    return REAL(logical_not_default, is_zero(b, parts_of(b, x)));
}

void exg_complex_logical(exg_builder *b, exg_operator_id id, const exg_argument *args,
                         exg_argument *results)
{
    const exg_argument both[] = {exg_arg_ref(truth(b, exg_get_ref(&args[0]))),
                                 exg_arg_ref(truth(b, exg_get_ref(&args[1])))};

    results[0] = exg_arg_ref(exg_emit(b, id, both, 2));
}

/* Of both parts: or, or, and. */
#define PARTWISE(name, test, together)                                                             \
    void exg_complex_##name(exg_builder *b, exg_operator_id id, const exg_argument *args,          \
                            exg_argument *results)                                                 \
    {                                                                                              \
        pair z = parts_of(b, exg_get_ref(&args[0]));                                               \
                                                                                                   \
        (void)id;                                                                                  \
        results[0] = exg_arg_ref(REAL(together, REAL(test, z.re), REAL(test, z.im)));              \
    }

PARTWISE(isnan, isnan_default, logical_or_default)
PARTWISE(isinf, isinf_default, logical_or_default)
PARTWISE(isfinite, isfinite_default, logical_and_default)

/* ---- choice, making ------------------------------------------------------------------------ */

void exg_complex_where(exg_builder *b, exg_operator_id id, const exg_argument *args,
                       exg_argument *results)
{
    exg_dtype dtype = computes_in(b, id, args);

    results[0] = joined(b, choose(b, exg_get_ref(&args[0]), operand(b, &args[1], dtype),
                                  operand(b, &args[2], dtype)));
}

void exg_complex_masked_fill(exg_builder *b, exg_operator_id id, const exg_argument *args,
                             exg_argument *results)
{
    exg_dtype dtype = exg_real_of(exg_lower_dtype(b, exg_get_ref(&args[0])));

    (void)id;
    results[0] = joined(b, choose(b, exg_get_ref(&args[1]), operand(b, &args[2], dtype),
                                  operand(b, &args[0], dtype)));
}

static pair filled(exg_builder *b, exg_argument size, const exg_argument *value, exg_dtype dtype)
{
    pair z = operand(b, value, dtype);

    return (pair){EMIT(b, expand_default, z.re, size), EMIT(b, expand_default, z.im, size)};
}

/* (size, value, dtype) */
void exg_complex_full(exg_builder *b, exg_operator_id id, const exg_argument *args,
                      exg_argument *results)
{
    exg_dtype dtype = exg_dtype_argument(&args[2], EXG_DTYPE_C64);

    (void)id;
    results[0] = joined(b, filled(b, args[0], &args[1], exg_real_of(dtype)));
}

void exg_complex_scalar_tensor(exg_builder *b, exg_operator_id id, const exg_argument *args,
                               exg_argument *results)
{
    exg_dtype dtype = exg_dtype_argument(&args[1], EXG_DTYPE_C64);

    (void)id;
    results[0] = joined(b, operand(b, &args[0], exg_real_of(dtype)));
}

/* (self, value) */
void exg_complex_fill(exg_builder *b, exg_operator_id id, const exg_argument *args,
                      exg_argument *results)
{
    exg_dims dims = exg_lower_dims(b, exg_get_ref(&args[0]));

    (void)id;
    results[0] = joined(b, filled(b, exg_arg_ints(b, dims.n, dims.rank), &args[1],
                                  exg_real_of(exg_lower_dtype(b, exg_get_ref(&args[0])))));
}

/* Between complex dtypes, from a real one, to a real one. */
void exg_complex_to_copy(exg_builder *b, exg_operator_id id, const exg_argument *args,
                         exg_argument *results)
{
    exg_dtype own = exg_lower_dtype(b, exg_get_ref(&args[0]));
    exg_dtype dtype = exg_dtype_argument(&args[1], own);
    pair z = parts_of(b, exg_get_ref(&args[0]));

    (void)id;
    if (dtype == own) {
        results[0] = exg_arg_ref(EMIT(b, clone_default, args[0]));
    } else if (dtype == EXG_DTYPE_B8) {
        results[0] = exg_arg_ref(truth(b, exg_get_ref(&args[0])));
    } else if (exg_dtype_is_complex(dtype)) {
        results[0] = joined(b, as_dtype(b, z, exg_real_of(dtype)));
    } else {
        results[0] = exg_arg_ref(exg_lower_cast(b, z.re, dtype));
    }
}

/* Two draws; a normal number's variance is halved between its parts. */
static void draw(exg_builder *b, exg_operator_id id, const exg_argument *args, double scale,
                 exg_argument *results)
{
    const exg_argument real[] = {args[0], args[1],
                                 exg_arg_dtype(exg_real_of(args[2].as_scalar_type))};
    exg_ref re = exg_emit(b, id, real, 3);
    exg_ref im = exg_emit(b, id, real, 3);

    results[0] = joined(b, scaled(b, (pair){re, im}, scale));
}

void exg_complex_draw_normal(exg_builder *b, exg_operator_id id, const exg_argument *args,
                             exg_argument *results)
{
    draw(b, id, args, 0.70710678118654752440, results);
}

void exg_complex_draw_uniform(exg_builder *b, exg_operator_id id, const exg_argument *args,
                              exg_argument *results)
{
    draw(b, id, args, 1, results);
}

/* ---- parts asked for --------------------------------------------------------------------------
 */

#define PART(name, expression)                                                                     \
    void exg_complex_##name(exg_builder *b, exg_operator_id id, const exg_argument *args,          \
                            exg_argument *results)                                                 \
    {                                                                                              \
        pair z = parts_of(b, exg_get_ref(&args[0]));                                               \
                                                                                                   \
        (void)id;                                                                                  \
        results[0] = exg_arg_ref(expression);                                                      \
    }

PART(abs, modulus(b, z))
PART(angle, REAL(atan2_default, z.im, z.re))
PART(conj, exg_lower_joined(b, z.re, REAL(neg_default, z.im)))

/* A view, which may be written through. */
static exg_ref part_view(exg_builder *b, const exg_argument *args, int part)
{
    return EMIT(b, select_int, EMIT(b, view_as_real_default, args[0]), -1, part);
}

void exg_complex_real(exg_builder *b, exg_operator_id id, const exg_argument *args,
                      exg_argument *results)
{
    (void)id;
    results[0] = exg_arg_ref(part_view(b, args, 0));
}

void exg_complex_imag(exg_builder *b, exg_operator_id id, const exg_argument *args,
                      exg_argument *results)
{
    (void)id;
    results[0] = exg_arg_ref(part_view(b, args, 1));
}

void exg_complex_itself(exg_builder *b, exg_operator_id id, const exg_argument *args,
                        exg_argument *results)
{
    (void)id;
    results[0] = exg_arg_ref(EMIT(b, alias_default, args[0]));
}

/* ---- sums, products ------------------------------------------------------------------------ */

/* The operator on each part; a dtype asked for is of the parts then. */
static void by_part(exg_builder *b, exg_operator_id id, const exg_argument *args,
                    exg_argument *results)
{
    const exg_operator *op = exg_operators_get(exg_builder_operators(b), id);
    uint32_t count = op->schema->argument_count;
    pair z = parts_of(b, exg_get_ref(&args[0]));
    exg_argument real[8];
    pair out;

    if (exg_complex_as_real(b, id, args, results)) {
        return;
    }
    for (uint32_t i = 0; i < count && i < 8; i++) {
        real[i] = args[i];
        if (args[i].kind == EXG_ARGUMENT_SCALAR_TYPE) {
            real[i].as_scalar_type = exg_real_of(args[i].as_scalar_type);
        }
    }
    real[0] = exg_arg_ref(z.re);
    out.re = exg_emit(b, id, real, count);
    real[0] = exg_arg_ref(z.im);
    out.im = exg_emit(b, id, real, count);
    results[0] = joined(b, out);
}

#define BY_PART(name)                                                                              \
    void exg_complex_##name(exg_builder *b, exg_operator_id id, const exg_argument *args,          \
                            exg_argument *results)                                                 \
    {                                                                                              \
        by_part(b, id, args, results);                                                             \
    }

BY_PART(sum)
BY_PART(mean)
BY_PART(cumsum)

#define OF_TRUTH(name)                                                                             \
    void exg_complex_##name(exg_builder *b, exg_operator_id id, const exg_argument *args,          \
                            exg_argument *results)                                                 \
    {                                                                                              \
        const exg_argument real[] = {exg_arg_ref(truth(b, exg_get_ref(&args[0]))), args[1],        \
                                     args[2]};                                                     \
                                                                                                   \
        results[0] = exg_arg_ref(exg_emit(b, id, real, 3));                                        \
    }

OF_TRUTH(any)
OF_TRUTH(all)

/* (self, dim, keepdim, dtype): halves multiplied until one is left */
void exg_complex_prod(exg_builder *b, exg_operator_id id, const exg_argument *args,
                      exg_argument *results)
{
    exg_ref x = exg_get_ref(&args[0]);
    exg_dims dims = exg_lower_dims(b, x);
    exg_dtype dtype = exg_complex_of(exg_dtype_argument(&args[3], exg_lower_dtype(b, x)));
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[1]), dims.rank);
    int64_t size = dims.rank == 0 ? 1 : dims.n[dim];
    pair z = as_dtype(b, parts_of(b, x), exg_real_of(dtype));

    if (exg_complex_as_real(b, id, args, results)) {
        return;
    }
    if (size == 0) {
        dims.n[dim] = 1;
        z = filled(b, exg_arg_ints(b, dims.n, dims.rank),
                   &(exg_argument){.kind = EXG_ARGUMENT_INT, .as_int = 1}, exg_real_of(dtype));
    }
    while (size > 1) {
        int64_t half = size / 2;
        pair low = {exg_lower_slice(b, z.re, dim, 0, half), exg_lower_slice(b, z.im, dim, 0, half)};
        pair high = {exg_lower_slice(b, z.re, dim, half, half),
                     exg_lower_slice(b, z.im, dim, half, half)};
        pair y = mul(b, low, high);

        if (size % 2 == 1) {
            exg_ref re[] = {y.re, exg_lower_slice(b, z.re, dim, size - 1, 1)};
            exg_ref im[] = {y.im, exg_lower_slice(b, z.im, dim, size - 1, 1)};

            y = (pair){EMIT(b, cat_default, exg_arg_refs(b, re, 2), (int)dim),
                       EMIT(b, cat_default, exg_arg_refs(b, im, 2), (int)dim)};
        }
        z = y;
        size = half + size % 2;
    }
    if (dims.rank > 0 && !exg_get_bool(&args[2])) {
        z = (pair){EMIT(b, squeeze_dim, z.re, (int)dim), EMIT(b, squeeze_dim, z.im, (int)dim)};
    }
    results[0] = joined(b, z);
}

/* x y by four products of the kind `id`, whose operands are at `at` and the next position. */
static pair product(exg_builder *b, exg_operator_id id, const exg_argument *args, uint32_t at)
{
    uint32_t count = exg_operators_get(exg_builder_operators(b), id)->schema->argument_count;
    pair x = parts_of(b, exg_get_ref(&args[at]));
    pair y = parts_of(b, exg_get_ref(&args[at + 1]));
    exg_ref products[4];
    exg_argument real[12];

    if (exg_dtype_is_complex(exg_lower_dtype(b, exg_get_ref(&args[at]))) !=
        exg_dtype_is_complex(exg_lower_dtype(b, exg_get_ref(&args[at + 1])))) {
        exg_lower_refuse(b, "a product of a complex and a real matrix");
        return NO_PAIR;
    }
    for (uint32_t i = 0; i < count && i < 12; i++) {
        real[i] = args[i];
    }
    for (int k = 0; k < 4; k++) {
        real[at] = exg_arg_ref(k / 2 == 0 ? x.re : x.im);
        real[at + 1] = exg_arg_ref(k % 2 == 0 ? y.re : y.im);
        products[k] = exg_emit(b, id, real, count);
    }
    return (pair){REAL(sub_Tensor, products[0], products[3]),
                  REAL(add_Tensor, products[1], products[2])};
}

void exg_complex_mm(exg_builder *b, exg_operator_id id, const exg_argument *args,
                    exg_argument *results)
{
    results[0] = joined(b, product(b, id, args, 0));
}

/* (self, x, y, beta, alpha) */
void exg_complex_addmm(exg_builder *b, exg_operator_id id, const exg_argument *args,
                       exg_argument *results)
{
    pair z = product(b, id == EXG_OP_addmm_default ? EXG_OP_mm_default : EXG_OP_bmm_default,
                     args + 1, 0);
    exg_dtype dtype = exg_lower_dtype(b, z.re);
    pair beta = operand(b, &args[3], dtype);
    pair alpha = operand(b, &args[4], dtype);

    z = mul(b, z, alpha);
    results[0] = joined(b, exg_get_float(&args[3]) == 0 && args[3].kind != EXG_ARGUMENT_COMPLEX
                               ? z
                               : add(b, mul(b, operand(b, &args[0], dtype), beta), z));
}

/* (input, weight, bias, ...); a bias is added along the last dim of the result but
 * `dims_after` */
static void layer(exg_builder *b, exg_operator_id id, const exg_argument *args, uint32_t dims_after,
                  exg_argument *results)
{
    exg_argument bare[12];
    uint32_t count = exg_operators_get(exg_builder_operators(b), id)->schema->argument_count;
    pair z;

    for (uint32_t i = 0; i < count && i < 12; i++) {
        bare[i] = i == 2 ? exg_arg_none() : args[i];
    }
    z = product(b, id, bare, 0);
    if (exg_lower_given(&args[2])) {
        uint32_t rank = exg_lower_dims(b, z.re).rank;
        uint32_t dim = rank - 1 - dims_after;
        pair bias = parts_of(b, exg_get_ref(&args[2]));

        z = add(
            b, z,
            (pair){exg_lower_along(b, bias.re, dim, rank), exg_lower_along(b, bias.im, dim, rank)});
    }
    results[0] = joined(b, z);
}

void exg_complex_linear(exg_builder *b, exg_operator_id id, const exg_argument *args,
                        exg_argument *results)
{
    layer(b, id, args, 0, results);
}

void exg_complex_convolution(exg_builder *b, exg_operator_id id, const exg_argument *args,
                             exg_argument *results)
{
    layer(b, id, args, exg_lower_dims(b, exg_get_ref(&args[1])).rank - 2, results);
}

bool exg_complex_as_real(exg_builder *b, exg_operator_id id, const exg_argument *args,
                         exg_argument *results)
{
    uint32_t count = exg_operators_get(exg_builder_operators(b), id)->schema->argument_count;
    exg_argument real[8];
    bool is = false;

    for (uint32_t i = 0; i < count && i < 8; i++) {
        real[i] = args[i];
        is = is || (args[i].kind == EXG_ARGUMENT_SCALAR_TYPE &&
                    !exg_dtype_is_complex(args[i].as_scalar_type));
    }
    if (is) {
        real[0] = exg_arg_ref(EMIT(b, select_int, EMIT(b, view_as_real_default, args[0]), -1, 0));
        results[0] = exg_arg_ref(exg_emit(b, id, real, count));
    }
    return is;
}
