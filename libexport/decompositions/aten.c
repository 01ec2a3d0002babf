/* aten.c - what operators that are not core ATen are in it (aten.def); attention is in attention.c.
 * Floats of 16 bits are computed in float32, as the operators are. */
#include "libexport/operators/lower.h"

#include <math.h>

#define EXG_ATEN(id, name) exg_lowering exg_spell_##name;
#include "libexport/operators/aten.def"
#undef EXG_ATEN

#define SELF     exg_get_ref(&args[0])
#define OTHER    exg_get_ref(&args[1])
#define GIVES(x) results[0] = exg_arg_ref(x)

static exg_argument word(const char *text)
{
    return (exg_argument){.kind = EXG_ARGUMENT_STRING, .as_string = text};
}

/* A number as a tensor without dims. */
static exg_ref filled(exg_builder *b, exg_argument value, exg_dtype dtype)
{
    return EMIT(b, full_default, INTS_OF(b, NULL, 0), value, DTYPE(dtype));
}

/* x by a function of what is computed in float32, in x's dtype again. */
#define IN_WIDE(x, made) exg_lower_cast(b, made, exg_lower_dtype(b, x))

/* ---- ours -------------------------------------------------------------------------------- */

/* (input, normalized_dims, weight?, eps) */
void exg_spell_rms_norm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_lower_wide(b, SELF);
    uint32_t rank = exg_lower_dims(b, x).rank;
    uint32_t count = (uint32_t)exg_get_int(&args[1]);
    int64_t dims[EXG_SHAPE_RANK_MAX] = {0};
    exg_ref y;

    for (uint32_t i = 0; i < count && count <= rank; i++) {
        dims[i] = (int64_t)rank - count + i;
    }
    y = EMIT(b, mean_dim, EMIT(b, mul_Tensor, x, x), INTS_OF(b, dims, count), true);
    y = EMIT(b, mul_Tensor, x, EMIT(b, rsqrt_default, EMIT(b, add_Scalar, y, args[3])));
    if (exg_lower_given(&args[2])) {
        y = EMIT(b, mul_Tensor, y, exg_lower_wide(b, exg_get_ref(&args[2])));
    }
    GIVES(IN_WIDE(SELF, y));
}

void exg_spell_index_put(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    (void)exg_emit_all(b, EXG_OP_index_put_default, args, 4, results);
}

static void scatter_reduce(exg_builder *b, const exg_argument *args, const char *by,
                           exg_argument *results)
{
    GIVES(EMIT(b, scatter_reduce_two, args[0], args[1], args[2], args[3], word(by)));
}

void exg_spell_scatter_prod(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    scatter_reduce(b, args, "prod", results);
}

void exg_spell_scatter_amax(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    scatter_reduce(b, args, "amax", results);
}

void exg_spell_scatter_amin(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    scatter_reduce(b, args, "amin", results);
}

void exg_spell_gelu_none(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, gelu_default, args[0]));
}

void exg_spell_gelu_tanh(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, gelu_default, args[0], word("tanh")));
}

void exg_spell_div_floor(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, div_Tensor_mode, args[0], args[1], word("floor")));
}

void exg_spell_div_floor_scalar(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, div_Scalar_mode, args[0], args[1], word("floor")));
}

void exg_spell_div_trunc(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, div_Tensor_mode, args[0], args[1], word("trunc")));
}

void exg_spell_div_trunc_scalar(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, div_Scalar_mode, args[0], args[1], word("trunc")));
}

void exg_spell_cube(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, pow_Tensor_Scalar, args[0], 3));
}

/* (self, nan, posinf, neginf) */
void exg_spell_nan_to_num(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, SELF);
    exg_ref y = SELF;

    y = EMIT(b, where_self, EMIT(b, isnan_default, args[0]), filled(b, args[1], dtype), y);
    y = EMIT(b, where_self, EMIT(b, eq_Scalar, args[0], (double)INFINITY),
             filled(b, args[2], dtype), y);
    y = EMIT(b, where_self, EMIT(b, eq_Scalar, args[0], -(double)INFINITY),
             filled(b, args[3], dtype), y);
    GIVES(y);
}

/* ---- limits ------------------------------------------------------------------------------ */

void exg_spell_clamp_both(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, clamp_default, args[0], args[1], args[2]));
}

void exg_spell_clamp_min(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, clamp_default, args[0], args[1], exg_arg_none()));
}

void exg_spell_clamp_max(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, clamp_default, args[0], exg_arg_none(), args[1]));
}

void exg_spell_clamp_min_tensor(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, clamp_Tensor, args[0], args[1], exg_arg_none()));
}

void exg_spell_clamp_max_tensor(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, clamp_Tensor, args[0], exg_arg_none(), args[1]));
}

void exg_spell_relu6(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, hardtanh_default, args[0], 0, 6));
}

/* ---- products ---------------------------------------------------------------------------- */

void exg_spell_square(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, pow_Tensor_Scalar, args[0], 2));
}

/* (self, other, alpha): other - alpha self */
void exg_spell_rsub_tensor(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, sub_Tensor, args[1], args[0], args[2]));
}

void exg_spell_rsub_scalar(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    bool one = args[2].kind == EXG_ARGUMENT_INT && exg_get_int(&args[2]) == 1;

    GIVES(
        one ? EMIT(b, add_Scalar, EMIT(b, mul_Scalar, args[0], -1), args[1])
            : EMIT(b, sub_Tensor, EMIT(b, full_like_default, args[0], args[1]), args[0], args[2]));
}

/* (input, weight, bias?) */
void exg_spell_linear(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    exg_dims weight = exg_lower_dims(b, OTHER);
    exg_ref turned;
    exg_ref flat;

    if (in.rank == 0 || weight.rank != 2) { /* of a vector: as it says itself */
        exg_ref x = EMIT(b, mul_Tensor, args[0], args[1]);

        x = EMIT(b, sum_dim_IntList, x, INTS(b, -1));
        GIVES(exg_lower_given(&args[2]) ? EMIT(b, add_Tensor, x, args[2]) : x);
        return;
    }
    turned = EMIT(b, permute_default, args[1], INTS(b, 1, 0));
    flat = in.rank == 2 ? SELF : EMIT(b, reshape_default, args[0], INTS(b, -1, weight.n[1]));
    if (weight.n[1] == 0) { /* -1 could be any number */
        int64_t rows = 1;

        for (uint32_t i = 0; i + 1 < in.rank; i++) {
            rows *= in.n[i];
        }
        flat = EMIT(b, reshape_default, args[0], INTS(b, rows, 0));
    }
    flat = exg_lower_given(&args[2]) ? EMIT(b, addmm_default, args[2], flat, turned)
                                     : EMIT(b, mm_default, flat, turned);
    in.n[in.rank - 1] = weight.n[0];
    GIVES(in.rank == 2 ? flat : EMIT(b, reshape_default, flat, INTS_OF(b, in.n, in.rank)));
}

/* (self, batch1, batch2, beta, alpha) */
void exg_spell_baddbmm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = EMIT(b, bmm_default, args[1], args[2]);

    x = EMIT(b, mul_Scalar, x, args[4]);
    if (!(args[3].kind == EXG_ARGUMENT_INT && exg_get_int(&args[3]) == 0)) {
        x = EMIT(b, add_Tensor, x, EMIT(b, mul_Scalar, args[0], args[3]));
    }
    GIVES(x);
}

/* (self, tensor1, tensor2, value) */
void exg_spell_addcmul(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x =
        EMIT(b, mul_Tensor, exg_lower_wide(b, OTHER), exg_lower_wide(b, exg_get_ref(&args[2])));

    x = EMIT(b, add_Tensor, exg_lower_wide(b, SELF), EMIT(b, mul_Scalar, x, args[3]));
    GIVES(IN_WIDE(SELF, x));
}

void exg_spell_addcdiv(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x =
        EMIT(b, div_Tensor, exg_lower_wide(b, OTHER), exg_lower_wide(b, exg_get_ref(&args[2])));

    x = EMIT(b, add_Tensor, exg_lower_wide(b, SELF), EMIT(b, mul_Scalar, x, args[3]));
    GIVES(IN_WIDE(SELF, x));
}

/* ---- activations ------------------------------------------------------------------------- */

void exg_spell_silu(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_lower_wide(b, SELF);

    GIVES(IN_WIDE(SELF, EMIT(b, mul_Tensor, x, EMIT(b, sigmoid_default, x))));
}

/* log(1 + exp(x)) of what is not large */
static exg_ref log_of_one_more(exg_builder *b, exg_ref x)
{
    return EMIT(b, log1p_default, EMIT(b, exp_default, x));
}

/* (self, beta, threshold) */
static exg_ref softplus(exg_builder *b, exg_ref x, exg_argument beta, exg_argument threshold)
{
    exg_ref scaled = EMIT(b, mul_Scalar, x, beta);

    return EMIT(b, where_self, EMIT(b, gt_Scalar, scaled, threshold), x,
                EMIT(b, div_Scalar, log_of_one_more(b, scaled), beta));
}

void exg_spell_softplus(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(IN_WIDE(SELF, softplus(b, exg_lower_wide(b, SELF), args[1], args[2])));
}

void exg_spell_mish(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_lower_wide(b, SELF);
    exg_ref y = EMIT(b, tanh_default, softplus(b, x, exg_arg_int(1), exg_arg_int(20)));

    GIVES(IN_WIDE(SELF, EMIT(b, mul_Tensor, x, y)));
}

void exg_spell_log_sigmoid(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_lower_wide(b, SELF);
    exg_ref least = EMIT(b, clamp_default, x, exg_arg_none(), 0);
    exg_ref y = log_of_one_more(b, EMIT(b, neg_default, EMIT(b, abs_default, x)));

    GIVES(IN_WIDE(SELF, EMIT(b, sub_Tensor, least, y)));
}

static exg_ref hardsigmoid(exg_builder *b, exg_ref x)
{
    return EMIT(b, clamp_default, EMIT(b, add_Scalar, x, 3), 0, 6);
}

void exg_spell_hardsigmoid(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_lower_wide(b, SELF);

    GIVES(IN_WIDE(SELF, EMIT(b, div_Scalar, hardsigmoid(b, x), 6)));
}

void exg_spell_hardswish(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_lower_wide(b, SELF);
    exg_ref y = EMIT(b, mul_Tensor, x, hardsigmoid(b, x));

    GIVES(IN_WIDE(SELF, EMIT(b, div_Scalar, y, 6)));
}

void exg_spell_celu(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, elu_default, args[0], args[1], 1, 1 / exg_get_float(&args[1])));
}

void exg_spell_selu(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, elu_default, args[0], 1.6732632423543772848170429916717,
               1.0507009873554804934193349852946));
}

void exg_spell_prelu(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, where_self, EMIT(b, gt_Scalar, args[0], 0), args[0],
               EMIT(b, mul_Tensor, args[0], args[1])));
}

/* (self, lambd) */
void exg_spell_softshrink(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_lower_wide(b, SELF);
    exg_ref step = EMIT(b, mul_Scalar, EMIT(b, sign_default, x), args[1]);
    exg_ref y = EMIT(b, where_self, EMIT(b, gt_Scalar, EMIT(b, abs_default, x), args[1]),
                     EMIT(b, sub_Tensor, x, step), EMIT(b, mul_Scalar, x, 0));

    GIVES(IN_WIDE(SELF, y));
}

void exg_spell_hardshrink(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref small = EMIT(b, le_Scalar, EMIT(b, abs_default, args[0]), args[1]);

    GIVES(EMIT(b, where_self, small, filled(b, exg_arg_int(0), exg_lower_dtype(b, SELF)), args[0]));
}

/* (self, threshold, value) */
void exg_spell_threshold(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, where_self, EMIT(b, le_Scalar, args[0], args[1]),
               filled(b, args[2], exg_lower_dtype(b, SELF)), args[0]));
}

/* ---- choices ----------------------------------------------------------------------------- */

/* (self, mask, value) */
void exg_spell_masked_fill(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, where_self, args[1], filled(b, args[2], exg_lower_dtype(b, SELF)), args[0]));
}

/* (condition, self, other): a number takes the dtype of the tensor beside it, as it would there. */
void exg_spell_where_scalar_other(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_number_dtype(args[2].kind, exg_lower_dtype(b, OTHER));

    GIVES(EMIT(b, where_self, args[0], args[1], filled(b, args[2], dtype)));
}

void exg_spell_where_scalar_self(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_number_dtype(args[1].kind, exg_lower_dtype(b, exg_get_ref(&args[2])));

    GIVES(EMIT(b, where_self, args[0], filled(b, args[1], dtype), args[2]));
}

void exg_spell_where_scalar(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_number_dtype(args[1].kind, exg_number_dtype(args[2].kind, EXG_DTYPE_B8));

    GIVES(EMIT(b, where_self, args[0], filled(b, args[1], dtype), filled(b, args[2], dtype)));
}

/* The columns of each row up to `diagonal` past it, or those from it on. */
static exg_ref triangle(exg_builder *b, const exg_argument *args, bool is_lower)
{
    exg_dims x = exg_lower_dims(b, SELF);
    exg_ref rows;
    exg_ref past;

    if (x.rank < 2) {
        exg_lower_refuse(b, "a triangle of a vector");
        return EXG_NO_REF;
    }
    rows = EMIT(b, unsqueeze_default, exg_lower_steps(b, EXG_END(x, 2), EXG_DTYPE_I64, 0, 1), 1);
    past = EMIT(b, sub_Tensor, exg_lower_steps(b, EXG_END(x, 1), EXG_DTYPE_I64, 0, 1), rows);
    past = is_lower ? EMIT(b, le_Scalar, past, args[1]) : EMIT(b, ge_Scalar, past, args[1]);
    return EMIT(b, where_self, past, args[0], filled(b, exg_arg_int(0), exg_lower_dtype(b, SELF)));
}

void exg_spell_tril(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(triangle(b, args, true));
}

void exg_spell_triu(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(triangle(b, args, false));
}

/* (self, dim?, keepdim) */
void exg_spell_all_dims(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref some = EMIT(b, any_dims, EMIT(b, logical_not_default, args[0]), args[1], args[2]);

    some = EMIT(b, logical_not_default, some);
    GIVES(exg_lower_dtype(b, SELF) == EXG_DTYPE_U8 ? exg_lower_cast(b, some, EXG_DTYPE_U8) : some);
}

/* ---- the rest ---------------------------------------------------------------------------- */

/* (self, dim?, correction?, keepdim) */
void exg_spell_std(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_lower_wide(b, SELF);

    x = EMIT(b, sqrt_default, EMIT(b, var_correction, x, args[1], args[2], args[3]));
    GIVES(exg_lower_cast(b, x, exg_real_of(exg_lower_dtype(b, SELF))));
}

void exg_spell_frac(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, sub_Tensor, args[0], EMIT(b, trunc_default, args[0])));
}

void exg_spell_deg2rad(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, mul_Scalar, args[0], M_PI / 180));
}

void exg_spell_rad2deg(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, mul_Scalar, args[0], 180 / M_PI));
}

void exg_spell_isposinf(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, eq_Scalar, args[0], (double)INFINITY));
}

void exg_spell_isneginf(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    GIVES(EMIT(b, eq_Scalar, args[0], -(double)INFINITY));
}

/* (self, dim, index, source) */
void exg_spell_index_copy(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t rank = exg_lower_dims(b, SELF).rank;
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[1]), rank > 0 ? rank : 1);
    exg_ref indices[EXG_SHAPE_RANK_MAX];

    if (rank == 0 || exg_lower_dims(b, exg_get_ref(&args[2])).rank != 1) {
        exg_lower_unsupported(b, "index_copy of a number in ATen");
        return;
    }
    for (uint32_t d = 0; d < dim && d < EXG_SHAPE_RANK_MAX; d++) {
        indices[d] = EXG_NO_REF;
    }
    indices[dim] = exg_get_ref(&args[2]);
    GIVES(EMIT(b, index_put_default, args[0], exg_arg_refs(b, indices, dim + 1), args[3]));
}

static exg_ref is_infinite(exg_builder *b, exg_ref x)
{
    return EMIT(b, eq_Scalar, EMIT(b, abs_default, x), (double)INFINITY);
}

void exg_spell_isfinite(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref beyond =
        EMIT(b, logical_or_default, is_infinite(b, SELF), EMIT(b, ne_Tensor, args[0], args[0]));

    GIVES(EMIT(b, logical_not_default, beyond));
}

/* (self, end, weight): from the end that is nearer */
void exg_spell_lerp(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_complex_number weight = args[2].kind == EXG_ARGUMENT_COMPLEX
                                    ? args[2].as_complex
                                    : (exg_complex_number){.real = exg_get_float(&args[2])};
    bool is_near = hypot(weight.real, weight.imag) < 0.5; /* to self */
    exg_argument rest = args[2];
    exg_ref self = exg_lower_wide(b, SELF);
    exg_ref end = exg_lower_wide(b, OTHER);
    exg_ref step = EMIT(b, sub_Tensor, end, self);

    if (args[2].kind == EXG_ARGUMENT_COMPLEX) {
        rest.as_complex = (exg_complex_number){1 - weight.real, -weight.imag};
    } else {
        rest = exg_arg_float(1 - weight.real);
    }
    GIVES(IN_WIDE(SELF, is_near ? EMIT(b, add_Tensor, self, EMIT(b, mul_Scalar, step, args[2]))
                                : EMIT(b, sub_Tensor, end, EMIT(b, mul_Scalar, step, rest))));
}

/* (self, other): 0 log 0 is 0 */
void exg_spell_xlogy(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref log = EMIT(b, log_default, args[1]);
    exg_ref y = EMIT(b, mul_Tensor, args[0], log);
    exg_dtype dtype = exg_lower_dtype(b, y);
    exg_ref nothing = EMIT(b, logical_and_default, EMIT(b, eq_Scalar, args[0], 0),
                           EMIT(b, eq_Tensor, args[1], args[1]));

    GIVES(EMIT(b, where_self, nothing, filled(b, exg_arg_int(0), dtype), y));
}

void exg_spell_sinc(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = EMIT(b, mul_Scalar, exg_lower_wide(b, SELF), M_PI);
    exg_dtype dtype = exg_lower_dtype(b, x);
    exg_ref y = EMIT(b, div_Tensor, EMIT(b, sin_default, x), x);

    y = EMIT(b, where_self, EMIT(b, eq_Scalar, x, 0), filled(b, exg_arg_int(1), dtype), y);
    GIVES(exg_dtype_is_float(exg_lower_dtype(b, SELF)) ? IN_WIDE(SELF, y) : y);
}

void exg_spell_logaddexp(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref self = exg_lower_wide(b, SELF);
    exg_ref other = exg_lower_wide(b, OTHER);
    exg_ref most = EMIT(b, maximum_default, self, other);
    exg_ref less = EMIT(b, neg_default, EMIT(b, abs_default, EMIT(b, sub_Tensor, self, other)));
    exg_ref y = EMIT(b, add_Tensor, most, log_of_one_more(b, less));

    GIVES(IN_WIDE(SELF, EMIT(b, where_self, is_infinite(b, most), most, y)));
}

/* (self, places (terms, count), weights (terms, count), dim) */
void exg_spell_resample(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const exg_ref weights = exg_get_ref(&args[2]);
    const uint32_t rank = exg_lower_dims(b, SELF).rank;
    const uint32_t dim = exg_lower_dim(b, exg_get_int(&args[3]), rank);
    const int64_t terms = exg_lower_dims(b, OTHER).n[0];
    exg_ref sum = EXG_NO_REF;

    for (int64_t t = 0; t < terms; t++) {
        exg_ref taken = EMIT(b, index_select_default, SELF, exg_arg_int(dim),
                             exg_lower_flat(b, exg_lower_slice(b, OTHER, 0, t, 1)));
        exg_ref weight = exg_lower_flat(b, exg_lower_slice(b, weights, 0, t, 1));

        taken = EMIT(b, mul_Tensor, taken, exg_lower_along(b, weight, dim, rank));
        sum = t == 0 ? taken : EMIT(b, add_Tensor, sum, taken);
    }
    GIVES(sum);
}

/* x along `dim`, the last `shift` of it first. */
static exg_ref rolled(exg_builder *b, exg_ref x, uint32_t dim, int64_t shift)
{
    int64_t size = exg_lower_dims(b, x).n[dim];
    int64_t first = size == 0 ? 0 : (size - shift % size) % size;

    if (first == 0) {
        return x;
    }
    return EMIT(b, cat_default,
                exg_arg_refs(b,
                             (const exg_ref[]){exg_lower_slice(b, x, dim, first, size - first),
                                               exg_lower_slice(b, x, dim, 0, first)},
                             2),
                exg_arg_int(dim));
}

/* (self, shifts, dims); without dims as a vector */
void exg_spell_roll(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    int64_t shifts[EXG_SHAPE_RANK_MAX] = {0};
    int64_t dims[EXG_SHAPE_RANK_MAX] = {0};
    uint32_t count = exg_get_ints(&args[2], dims, EXG_SHAPE_RANK_MAX);
    exg_ref x = SELF;

    (void)exg_get_ints(&args[1], shifts, EXG_SHAPE_RANK_MAX);
    if (count == 0) {
        x = rolled(b, exg_lower_flat(b, x), 0, shifts[0]);
        x = EMIT(b, reshape_default, x, INTS_OF(b, in.n, in.rank));
    }
    for (uint32_t i = 0; i < count; i++) {
        x = rolled(b, x, exg_lower_dim(b, dims[i], in.rank), shifts[i]);
    }
    GIVES(x.id == SELF.id ? EMIT(b, clone_default, x) : x);
}
