/* composite.c - lowerings of composite.def. */
#include "libexport/decompositions/complex.h"

#include <math.h>
#include <string.h>

#define EXG_ROWS "libexport/operators/backward.def"
#include "libexport/operators/rows.h"
#define EXG_ROWS "libexport/operators/composite.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

void exg_lower_gelu(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    bool tanh = strcmp(args[1].as_string, "tanh") == 0;

    results[0] = exg_arg_ref(tanh ? EMIT(b, gelu_tanh, SELF) : EMIT(b, gelu_none, SELF));
}

/* (grad_output, self, approximate) */
void exg_lower_gelu_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    bool tanh = strcmp(args[2].as_string, "tanh") == 0;

    results[0] = exg_arg_ref(tanh ? EMIT(b, gelu_tanh_backward, SELF, args[1])
                                  : EMIT(b, gelu_none_backward, SELF, args[1]));
}

void exg_lower_clamp(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    bool low = !exg_is_none(&args[1]);
    bool high = !exg_is_none(&args[2]);

    results[0] = exg_arg_ref(low && high ? EMIT(b, clamp_both, SELF, args[1], args[2])
                             : low       ? EMIT(b, clamp_min_default, SELF, args[1])
                             : high      ? EMIT(b, clamp_max_default, SELF, args[2])
                                         : EMIT(b, clone_default, SELF));
}

void exg_lower_clamp_tensor(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref y = SELF;

    if (!exg_is_none(&args[1])) {
        y = EMIT(b, clamp_min_Tensor, y, args[1]);
    }
    if (!exg_is_none(&args[2])) {
        y = EMIT(b, clamp_max_Tensor, y, args[2]);
    }
    results[0] = exg_arg_ref(y);
}

/* Whether PyTorch rounds what a rounded division is made of to the 16 bits of the result: not where
 * the divisor has one element. */
static bool rounds_between(exg_builder *b, exg_ref quotient, exg_ref divisor)
{
    const exg_tensor_meta *meta = exg_ref_meta(b, divisor);
    int64_t numel = 0;

    return meta != NULL && exg_tensor_meta_numel(meta, &numel) && numel != 1 &&
           (exg_lower_dtype(b, quotient) == EXG_DTYPE_F16 ||
            exg_lower_dtype(b, quotient) == EXG_DTYPE_BF16);
}

/* The quotient less what is left over, down from there where it has another sign than the divisor,
 * each step rounded. */
static exg_ref floored(exg_builder *b, exg_ref x, exg_ref y)
{
    exg_ref quotient = EMIT(b, div_Tensor, x, y);
    exg_ref left, exact, whole;

    if (!rounds_between(b, quotient, y)) {
        return EMIT(b, div_floor, x, y);
    }
    left = EMIT(b, fmod_Tensor, x, y);
    exact = EMIT(b, div_Tensor, EMIT(b, sub_Tensor, x, left), y);
    exact = EMIT(
        b, where_self,
        EMIT(b, logical_and_default, EMIT(b, ne_Scalar, left, 0),
             EMIT(b, logical_xor_default, EMIT(b, lt_Scalar, y, 0), EMIT(b, lt_Scalar, left, 0))),
        EMIT(b, sub_Scalar, exact, 1), exact);
    whole = EMIT(b, floor_default, exact);
    whole = EMIT(b, where_self, EMIT(b, gt_Scalar, EMIT(b, sub_Tensor, exact, whole), 0.5),
                 EMIT(b, add_Scalar, whole, 1), whole);
    whole = EMIT(b, where_self, EMIT(b, eq_Scalar, exact, 0),
                 EMIT(b, copysign_Tensor, EMIT(b, mul_Scalar, exact, 0), quotient), whole);
    return EMIT(b, where_self, EMIT(b, eq_Scalar, y, 0), quotient, whole);
}

static exg_ref truncated(exg_builder *b, exg_ref x, exg_ref y)
{
    exg_ref quotient = EMIT(b, div_Tensor, x, y);

    return rounds_between(b, quotient, y) ? EMIT(b, trunc_default, quotient)
                                          : EMIT(b, div_trunc, x, y);
}

void exg_lower_floor_divide(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(floored(b, SELF, exg_get_ref(&args[1])));
}

void exg_lower_div_mode(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const char *mode = exg_is_none(&args[2]) ? "" : args[2].as_string;
    exg_ref divisor = exg_get_ref(&args[1]);

    results[0] = exg_arg_ref(strcmp(mode, "floor") == 0   ? floored(b, SELF, divisor)
                             : strcmp(mode, "trunc") == 0 ? truncated(b, SELF, divisor)
                                                          : EMIT(b, div_Tensor, SELF, divisor));
}

void exg_lower_div_scalar_mode(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const char *mode = exg_is_none(&args[2]) ? "" : args[2].as_string;

    results[0] =
        exg_arg_ref(strcmp(mode, "floor") == 0   ? EMIT(b, div_floor_Scalar, args[0], args[1])
                    : strcmp(mode, "trunc") == 0 ? EMIT(b, div_trunc_Scalar, args[0], args[1])
                                                 : EMIT(b, div_Scalar, args[0], args[1]));
}

/* Checked here, since every size is a number by now; nothing is left of it. */
void exg_lower_assert_tensor_metadata(exg_builder *b, const exg_argument *args,
                                      exg_argument *results)
{
    const exg_tensor_meta *meta = exg_ref_meta(b, SELF);
    int64_t sizes[EXG_SHAPE_RANK_MAX];
    exg_error err;

    (void)results;
    if (meta == NULL) {
        return;
    }
    if (args[3].kind == EXG_ARGUMENT_SCALAR_TYPE && args[3].as_scalar_type != meta->dtype) {
        (void)EXG_SHAPE_FAIL(&err, "_assert_tensor_metadata: dtype is %s, not %s",
                             exg_dtype_name(meta->dtype), exg_dtype_name(args[3].as_scalar_type));
        exg_builder_fail(b, &err);
    }
    if (!exg_is_none(&args[1])) {
        uint32_t rank = exg_get_ints(&args[1], sizes, EXG_SHAPE_RANK_MAX);

        for (uint32_t i = 0; i < meta->rank; i++) {
            if (rank != meta->rank || sizes[i] != meta->sizes[i].value) {
                (void)EXG_SHAPE_FAIL(&err, "_assert_tensor_metadata: the size differs in dim %u",
                                     i);
                exg_builder_fail(b, &err);
                return;
            }
        }
    }
}

/* Its result went into the program as a number when that was made. */
void exg_lower_nothing(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    (void)b;
    (void)args;
    results[0] = exg_arg_none();
}

/* (self, p): p (p - 1) / 4 log pi, and the sum of lgamma(self - k / 2) for k below p */
void exg_lower_mvlgamma(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t p = exg_get_int(&args[1]);
    exg_ref sum = EMIT(b, lgamma_default, SELF);

    if (p < 1 || p > 256) {
        exg_lower_refuse(b, "mvlgamma of p below 1, or above 256");
        return;
    }
    for (int64_t k = 1; k < p; k++) {
        sum = EMIT(b, add_Tensor, sum,
                   EMIT(b, lgamma_default, EMIT(b, add_Scalar, SELF, -0.5 * (double)k)));
    }
    results[0] = exg_arg_ref(
        EMIT(b, add_Scalar, sum, (double)(p * (p - 1)) / 4 * log(3.14159265358979323846)));
}

void exg_lower_frexp(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, frexp_mantissa, SELF));
    results[1] = exg_arg_ref(exg_lower_cast(b, EMIT(b, frexp_exponent, SELF), EXG_DTYPE_I32));
}

/* Of two bytes: the next number's bits are the next integer, away from 0 or towards it. */
static exg_ref next_of_two_bytes(exg_builder *b, exg_ref x, exg_ref y)
{
    exg_dtype dtype = exg_lower_dtype(b, x);
    exg_ref sum = EMIT(b, add_Tensor, x, y); /* NaN where one is, and broadcast */
    exg_ref bits = EMIT(b, view_dtype, EMIT(b, expand_as_default, x, sum), DTYPE(EXG_DTYPE_I16));
    exg_ref away = EMIT(b, eq_Tensor, EMIT(b, lt_Tensor, x, y), EMIT(b, gt_Scalar, x, 0));
    exg_ref next = EMIT(b, where_self, away, EMIT(b, add_Scalar, bits, exg_arg_int(1)),
                        EMIT(b, sub_Scalar, bits, exg_arg_int(1)));
    exg_ref first =
        EMIT(b, where_Scalar, EMIT(b, gt_Scalar, y, 0), exg_arg_int(1), exg_arg_int(INT16_MIN + 1));

    next = EMIT(b, where_self, EMIT(b, eq_Scalar, x, 0), exg_lower_cast(b, first, EXG_DTYPE_I16),
                next);
    next = EMIT(b, where_self, EMIT(b, eq_Tensor, x, y), EMIT(b, expand_as_default, y, sum),
                EMIT(b, view_dtype, EMIT(b, clone_default, next), DTYPE(dtype)));
    return EMIT(b, where_self,
                EMIT(b, logical_or_default, EMIT(b, isnan_default, x), EMIT(b, isnan_default, y)),
                sum, next);
}

/* The next number of the dtype; formulas know the compute type alone. */
void exg_lower_nextafter(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref other = exg_get_ref(&args[1]);
    exg_dtype dtype = exg_lower_dtype(b, EMIT(b, add_Tensor, SELF, other)); /* of both */

    if (exg_dtype_bytes(dtype) < 4) {
        results[0] = exg_arg_ref(
            next_of_two_bytes(b, exg_lower_cast(b, SELF, dtype), exg_lower_cast(b, other, dtype)));
        return;
    }
    results[0] = exg_arg_ref(EMIT(b, nextafter_wide, args[0], args[1]));
}

void exg_lower_complex(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    if (exg_lower_dtype(b, SELF) != exg_lower_dtype(b, exg_get_ref(&args[1]))) {
        exg_lower_refuse(b, "a complex number of parts of two dtypes");
        return;
    }
    results[0] = exg_arg_ref(exg_lower_joined(b, SELF, exg_get_ref(&args[1])));
}

void exg_lower_polar(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] =
        exg_arg_ref(exg_lower_joined(b, EMIT(b, mul_Tensor, SELF, EMIT(b, cos_default, args[1])),
                                     EMIT(b, mul_Tensor, SELF, EMIT(b, sin_default, args[1]))));
}

/* The number as a tensor of the other's dtype, or, of bools, both as int64. */
static exg_argument shifted(exg_builder *b, exg_operator_id shift, const exg_argument *args)
{
    exg_ref by = exg_get_ref(&args[1]);
    exg_dtype dtype =
        exg_lower_dtype(b, by) == EXG_DTYPE_B8 ? EXG_DTYPE_I64 : exg_lower_dtype(b, by);
    const exg_argument both[] = {exg_arg_ref(exg_lower_wrapped(b, &args[0], dtype)),
                                 exg_arg_ref(exg_lower_cast(b, by, dtype))};

    return exg_arg_ref(exg_emit(b, shift, both, 2));
}

void exg_lower_bitwise_left_shift_scalar(exg_builder *b, const exg_argument *args,
                                         exg_argument *results)
{
    results[0] = shifted(b, EXG_OP_bitwise_left_shift_Tensor, args);
}

void exg_lower_bitwise_right_shift_scalar(exg_builder *b, const exg_argument *args,
                                          exg_argument *results)
{
    results[0] = shifted(b, EXG_OP_bitwise_right_shift_Tensor, args);
}

void exg_lower_chalf(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(exg_lower_cast(b, SELF, EXG_DTYPE_C32));
}

/* (self, n), where the function has n first */
void exg_lower_polygamma_in_place(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = EMIT(b, polygamma_default, args[1], args[0]);

    results[0] = exg_arg_ref(EMIT(b, copy__default, args[0], x));
}

/* ---- assertions that hand on a token, so that no one drops them ------------------------------ */

void exg_lower_make_dep_token(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    (void)args;
    results[0] = exg_arg_ref(exg_lower_number(b, 0, EXG_DTYPE_F32));
}

/* (self, assert_msg, dep_token) */
void exg_lower_functional_assert(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref holds = EMIT(b, all_default, EMIT(b, ne_Scalar, args[0], 0));

    results[0] = exg_arg_ref(
        exg_lower_checked(b, exg_get_ref(&args[2]), holds, "what the program asserts is true"));
}

void exg_lower_functional_assert_scalar(exg_builder *b, const exg_argument *args,
                                        exg_argument *results)
{
    exg_argument of_tensor[3] = {
        exg_arg_ref(exg_lower_number(b, exg_get_float(&args[0]), EXG_DTYPE_F64)), args[1], args[2]};

    exg_lower_functional_assert(b, of_tensor, results);
}

/* (size, min?, max?, dep_token) */
void exg_lower_functional_range(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    double size = exg_get_float(&args[0]);
    bool holds = (exg_is_none(&args[1]) || size >= exg_get_float(&args[1])) &&
                 (exg_is_none(&args[2]) || size <= exg_get_float(&args[2]));

    results[0] = exg_arg_ref(
        exg_lower_checked(b, exg_get_ref(&args[3]), exg_lower_number(b, holds, EXG_DTYPE_B8),
                          "a size lies in the range that the program asserts"));
}

/* (self, source): what self is from here on */
void exg_lower_set_source(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, alias_default, args[1]));
}
