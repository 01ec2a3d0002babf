/* contraction.c - lowerings of contraction.def: products of vectors and matrices by way of
 * matmul, convolutions by way of the general one. */
#include "libexport/operators/lower.h"

#include <string.h>

#define EXG_ROWS "libexport/operators/contraction.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

/* ---- vectors and matrices ------------------------------------------------------------------- */

void exg_lower_outer(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, mul_Tensor, EMIT(b, unsqueeze_default, SELF, 1),
                                  EMIT(b, unsqueeze_default, exg_get_ref(&args[1]), 0)));
}

/* One number of two vectors: narrow floats are not rounded between ranks. */
void exg_lower_dot(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x =
        EMIT(b, matmul_default, exg_lower_wide(b, SELF), exg_lower_wide(b, exg_get_ref(&args[1])));

    results[0] = exg_arg_ref(exg_lower_cast(b, x, exg_lower_dtype(b, SELF)));
}

void exg_lower_mv(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, matmul_default, args[0], args[1]));
}

/* The factor of integers is one: 0.6 of them are none, as in PyTorch. That of bools is 0 or 1. */
static exg_argument factor_of(exg_dtype dtype, const exg_argument *factor)
{
    return !exg_dtype_is_integral(dtype) ? *factor
           : dtype == EXG_DTYPE_B8       ? exg_arg_bool(exg_get_float(factor) != 0)
                                         : exg_arg_int((int64_t)exg_get_float(factor));
}

static exg_ref scaled_sum(exg_builder *b, exg_ref self, exg_ref product, const exg_argument *beta,
                          const exg_argument *alpha)
{
    product = EMIT(b, mul_Scalar, product, *alpha);
    /* of no self, not even a NaN counts */
    if (beta->kind != EXG_ARGUMENT_COMPLEX && exg_get_float(beta) == 0) {
        exg_dims dims = exg_lower_dims(b, product);
        exg_dims in = exg_lower_dims(b, self);
        exg_dims out;

        return exg_broadcast(&dims, &in, &out, NULL) == EXG_OK
                   ? EMIT(b, clone_default,
                          EMIT(b, expand_default, product, INTS_OF(b, out.n, out.rank)))
                   : product;
    }
    return EMIT(b, add_Tensor, EMIT(b, mul_Scalar, self, *beta), product);
}

/* beta * self + alpha * product */
static exg_ref added(exg_builder *b, exg_ref self, exg_ref product, const exg_argument *beta,
                     const exg_argument *alpha)
{
    exg_dtype dtype = exg_promote_types(exg_lower_dtype(b, self), exg_lower_dtype(b, product));
    exg_argument own = factor_of(dtype, beta);
    exg_argument others = factor_of(dtype, alpha);

    return exg_lower_cast(b, scaled_sum(b, self, product, &own, &others), dtype);
}

void exg_lower_addmv(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] =
        exg_arg_ref(added(b, SELF, EMIT(b, matmul_default, args[1], args[2]), &args[3], &args[4]));
}

void exg_lower_addr(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] =
        exg_arg_ref(added(b, SELF, EMIT(b, outer_default, args[1], args[2]), &args[3], &args[4]));
}

/* The sum of all products is one product, of the batches beside each other. */
void exg_lower_addbmm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, SELF);
    exg_ref x = exg_get_ref(&args[1]);
    exg_ref y = exg_get_ref(&args[2]);
    exg_dims left = exg_lower_dims(b, x);
    exg_dims right = exg_lower_dims(b, y);
    exg_ref sum;

    if (left.rank != 3 || right.rank != 3) {
        exg_lower_refuse(b, "addbmm of other than batches of matrices");
        return;
    }
    x = EMIT(b, reshape_default, EMIT(b, permute_default, exg_lower_wide(b, x), INTS(b, 1, 0, 2)),
             INTS(b, left.n[1], left.n[0] * left.n[2]));
    y = EMIT(b, reshape_default, exg_lower_wide(b, y),
             INTS(b, right.n[0] * right.n[1], right.n[2]));
    sum = added(b, exg_lower_wide(b, SELF), EMIT(b, mm_default, x, y), &args[3], &args[4]);
    results[0] = exg_arg_ref(exg_lower_cast(b, sum, dtype));
}

/* Last dim of each with the other's. */
void exg_lower_inner(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref y = exg_get_ref(&args[1]);
    exg_dims left = exg_lower_dims(b, SELF);
    exg_dims right = exg_lower_dims(b, y);

    if (left.rank == 0 || right.rank == 0) {
        results[0] = exg_arg_ref(EMIT(b, mul_Tensor, args[0], args[1]));
        return;
    }
    results[0] = exg_arg_ref(EMIT(b, tensordot_default, SELF, y, INTS(b, (int64_t)left.rank - 1),
                                  INTS(b, (int64_t)right.rank - 1)));
}

/* Every element of self times all of other. */
void exg_lower_kron(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref y = exg_get_ref(&args[1]);
    exg_dims left = exg_lower_dims(b, SELF);
    exg_dims right = exg_lower_dims(b, y);
    uint32_t rank = left.rank > right.rank ? left.rank : right.rank;
    exg_dims wide[2] = {{.rank = 2 * rank}, {.rank = 2 * rank}};
    exg_dims out = {.rank = rank};

    if (2 * rank > EXG_SHAPE_RANK_MAX) {
        exg_lower_refuse(b, "too many dims");
        return;
    }
    for (uint32_t d = 0; d < rank; d++) {
        int64_t n = d + left.rank < rank ? 1 : left.n[d + left.rank - rank];
        int64_t m = d + right.rank < rank ? 1 : right.n[d + right.rank - rank];

        wide[0].n[2 * d] = n;
        wide[0].n[2 * d + 1] = wide[1].n[2 * d] = 1;
        wide[1].n[2 * d + 1] = m;
        out.n[d] = n * m;
    }
    results[0] = exg_arg_ref(exg_lower_shaped(
        b,
        EMIT(b, mul_Tensor, exg_lower_shaped(b, SELF, &wide[0]), exg_lower_shaped(b, y, &wide[1])),
        &out));
}

/* Where one side has size 1 along a summed dim, the other is summed before. */
static void even_out(exg_builder *b, const exg_argument *args, exg_ref sides[2])
{
    int64_t dims[2][EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&args[2], dims[0], EXG_SHAPE_RANK_MAX);

    if (exg_get_ints(&args[3], dims[1], EXG_SHAPE_RANK_MAX) != count) {
        exg_lower_refuse(b, "tensordot names other numbers of dims");
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        int64_t size[2];

        for (uint32_t s = 0; s < 2; s++) {
            exg_dims in = exg_lower_dims(b, sides[s]);

            size[s] = in.n[exg_lower_dim(b, dims[s][i], in.rank)];
        }
        for (uint32_t s = 0; s < 2; s++) {
            if (size[s] > 1 && size[1 - s] == 1) {
                sides[s] = EMIT(b, sum_dim_IntList, sides[s], INTS(b, dims[s][i]),
                                exg_arg_bool(true), DTYPE(exg_lower_dtype(b, sides[s])));
            }
        }
    }
}

/* (self, other, dims_self, dims_other) */
void exg_lower_tensordot(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref sides[2] = {SELF, exg_get_ref(&args[1])};
    exg_dims out = {.rank = 0};
    exg_ref flat[2];

    even_out(b, args, sides);
    for (uint32_t s = 0; s < 2; s++) {
        exg_dims in = exg_lower_dims(b, sides[s]);
        int64_t dims[EXG_SHAPE_RANK_MAX];
        int64_t order[EXG_SHAPE_RANK_MAX];
        bool summed[EXG_SHAPE_RANK_MAX] = {false};
        uint32_t count = exg_get_ints(&args[2 + s], dims, EXG_SHAPE_RANK_MAX);
        int64_t inner = 1;
        int64_t outer = 1;
        uint32_t next = 0;

        if (count > in.rank) {
            exg_lower_refuse(b, "tensordot over more dims than there are");
            return;
        }
        for (uint32_t i = 0; i < count; i++) {
            dims[i] = exg_lower_dim(b, dims[i], in.rank);
            if (summed[dims[i]]) {
                exg_lower_refuse(b, "tensordot over a dim twice");
                return;
            }
            summed[dims[i]] = true;
            inner *= in.n[dims[i]];
        }
        for (uint32_t i = 0; s == 1 && i < count; i++) {
            order[next++] = dims[i];
        }
        for (uint32_t d = 0; d < in.rank; d++) {
            if (!summed[d]) {
                order[next++] = d;
                outer *= in.n[d];
                out.n[out.rank++ % EXG_SHAPE_RANK_MAX] = in.n[d];
            }
        }
        for (uint32_t i = 0; s == 0 && i < count; i++) {
            order[next++] = dims[i];
        }
        if (next != in.rank || out.rank > EXG_SHAPE_RANK_MAX) {
            exg_lower_refuse(b, "tensordot to too many dims");
            return;
        }
        flat[s] =
            EMIT(b, reshape_default, EMIT(b, permute_default, sides[s], INTS_OF(b, order, in.rank)),
                 s == 0 ? INTS(b, outer, inner) : INTS(b, inner, outer));
    }
    results[0] = exg_arg_ref(exg_lower_shaped(b, EMIT(b, mm_default, flat[0], flat[1]), &out));
}

/* (self, other, dim): of triples */
void exg_lower_cross(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims left = exg_lower_dims(b, SELF);
    exg_dims right = exg_lower_dims(b, exg_get_ref(&args[1]));
    exg_dims out;
    exg_ref sides[2] = {SELF, exg_get_ref(&args[1])};
    exg_ref turned[2][2];
    uint32_t dim = 0;

    if (exg_broadcast(&left, &right, &out, NULL) != EXG_OK) {
        exg_lower_refuse(b, "shapes that do not broadcast");
        return;
    }
    if (exg_is_none(&args[2])) { /* the first dim of size 3 */
        while (dim < out.rank && out.n[dim] != 3) {
            dim++;
        }
    } else {
        dim = exg_lower_dim(b, exg_get_int(&args[2]), out.rank);
    }
    if (dim >= out.rank || out.n[dim] != 3) {
        exg_lower_refuse(b, "a cross product is along a dim of size 3");
        return;
    }
    for (uint32_t s = 0; s < 2; s++) {
        exg_ref x = EMIT(b, expand_default, sides[s], INTS_OF(b, out.n, out.rank));

        turned[s][0] = EMIT(b, roll_default, x, INTS(b, -1), INTS(b, (int64_t)dim));
        turned[s][1] = EMIT(b, roll_default, x, INTS(b, -2), INTS(b, (int64_t)dim));
    }
    results[0] = exg_arg_ref(EMIT(b, sub_Tensor, EMIT(b, mul_Tensor, turned[0][0], turned[1][1]),
                                  EMIT(b, mul_Tensor, turned[0][1], turned[1][0])));
}

static exg_ref conjugate(exg_builder *b, exg_ref x)
{
    return exg_dtype_is_complex(exg_lower_dtype(b, x)) ? EMIT(b, conj_physical_default, x) : x;
}

void exg_lower_vdot(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument both[2] = {exg_arg_ref(conjugate(b, SELF)), args[1]};

    exg_lower_dot(b, both, results);
}

/* (x, y, dim) */
void exg_lower_linalg_vecdot(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] =
        exg_arg_ref(EMIT(b, sum_dim_IntList, EMIT(b, mul_Tensor, conjugate(b, SELF), args[1]),
                         INTS(b, exg_get_int(&args[2]))));
}

void exg_lower_linalg_multi_dot(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_lower_item(&args[0], 0);

    if (args[0].count == 0) {
        exg_lower_refuse(b, "a product of no matrices");
        return;
    }
    for (uint32_t i = 1; i < args[0].count; i++) {
        x = EMIT(b, matmul_default, x, exg_lower_item(&args[0], i));
    }
    results[0] = exg_arg_ref(x);
}

/* (input1, input2, weight (O, I, J), bias?): x1 W x2 for every O */
void exg_lower_bilinear(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref weight = exg_get_ref(&args[2]);
    exg_dims w = exg_lower_dims(b, weight);
    exg_dims in = exg_lower_dims(b, SELF);
    int64_t rows = 1;
    exg_ref x;

    if (w.rank != 3 || in.rank == 0) {
        exg_lower_refuse(b, "bilinear wants a weight of three dims");
        return;
    }
    for (uint32_t d = 0; d + 1 < in.rank; d++) {
        rows *= in.n[d];
    }
    x = EMIT(b, mm_default,
             EMIT(b, reshape_default, exg_lower_wide(b, SELF), INTS(b, rows, w.n[1])),
             EMIT(b, reshape_default,
                  EMIT(b, permute_default, exg_lower_wide(b, weight), INTS(b, 1, 0, 2)),
                  INTS(b, w.n[1], w.n[0] * w.n[2])));
    x = EMIT(b, mul_Tensor, EMIT(b, view_default, x, INTS(b, rows, w.n[0], w.n[2])),
             EMIT(b, reshape_default, exg_get_ref(&args[1]), INTS(b, rows, 1, w.n[2])));
    x = EMIT(b, sum_dim_IntList, x, INTS(b, 2));
    x = exg_lower_given(&args[3]) ? EMIT(b, add_Tensor, x, args[3]) : x;
    EXG_END(in, 1) = w.n[0];
    x = exg_lower_cast(b, x, exg_lower_dtype(b, SELF));
    results[0] = exg_arg_ref(exg_lower_shaped(b, x, &in));
}

/* (i1, i2, i3, expand1, expand2, expand3, sumdim): dims of size 1 put in, multiplied,
 * summed */
void exg_lower_trilinear(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref product = EXG_NO_REF;

    for (uint32_t k = 0; k < 3; k++) {
        int64_t dims[EXG_SHAPE_RANK_MAX];
        uint32_t count = exg_get_ints(&args[3 + k], dims, EXG_SHAPE_RANK_MAX);
        exg_ref x = exg_get_ref(&args[k]);

        for (uint32_t i = 0; i < count; i++) {
            x = EMIT(b, unsqueeze_default, x, exg_arg_int(dims[i]));
        }
        product = k == 0 ? x : EMIT(b, mul_Tensor, product, x);
    }
    results[0] = exg_arg_ref(EMIT(b, sum_dim_IntList, product, args[6]));
}

/* (self, n): n 0 is the identity */
void exg_lower_matrix_power(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    int64_t n = exg_get_int(&args[1]);
    exg_ref power = EXG_NO_REF;
    exg_ref square = SELF;

    if (in.rank < 2) {
        exg_lower_refuse(b, "a power of what is no matrix");
        return;
    }
    if (n < 0) {
        square = EMIT(b, linalg_inv_default, square);
        n = n == INT64_MIN ? INT64_MAX : -n;
    }
    for (int64_t left = n; left > 0; left /= 2) {
        if (left % 2 == 1) {
            power = power.id == EXG_NO_VALUE ? square : EMIT(b, matmul_default, power, square);
        }
        square = left > 1 ? EMIT(b, matmul_default, square, square) : square;
    }
    if (n == 0) {
        power = EMIT(b, eye_default, exg_arg_int(EXG_END(in, 1)), DTYPE(exg_lower_dtype(b, SELF)));
        power = EMIT(b, expand_default, power, INTS_OF(b, in.n, in.rank));
    }
    results[0] = exg_arg_ref(n < 2 ? EMIT(b, clone_default, power) : power);
}

/* (x, N?): powers 0 ... N - 1 of every element */
void exg_lower_vander(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_lower_dims(b, SELF).rank == 0 ? exg_lower_flat(b, SELF) : SELF;
    exg_dims in = exg_lower_dims(b, x);
    int64_t count = exg_is_none(&args[1]) ? EXG_END(in, 1) : exg_get_int(&args[1]);
    exg_dims wide = in;
    exg_dtype dtype = exg_lower_dtype(b, x);
    exg_ref ones[2];

    dtype = exg_dtype_is_integral(dtype) ? EXG_DTYPE_I64 : dtype;

    if (in.rank == EXG_SHAPE_RANK_MAX || count < 1) {
        exg_lower_refuse(b, "vander wants a vector and one power at least");
        return;
    }
    wide.n[wide.rank++] = count - 1;
    ones[1] =
        EMIT(b, expand_default, EMIT(b, unsqueeze_default, x, -1), INTS_OF(b, wide.n, wide.rank));
    EXG_END(wide, 1) = 1;
    ones[0] = EMIT(b, full_default, INTS_OF(b, wide.n, wide.rank), 1, DTYPE(dtype));
    results[0] = exg_arg_ref(EMIT(
        b, cumprod_default, EMIT(b, cat_default, exg_arg_refs(b, ones, 2), -1), -1, DTYPE(dtype)));
}

void exg_lower_falling_vander(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_lower_vander(b, args, results);
    if (exg_builder_status(b) == EXG_OK && !exg_get_bool(&args[2])) {
        results[0] = exg_arg_ref(EMIT(b, flip_default, exg_get_ref(&results[0]), INTS(b, -1)));
    }
}

/* ---- convolutions ----------------------------------------------------------------------- */

static uint32_t image_dims(exg_builder *b, const exg_argument *weight)
{
    uint32_t rank = exg_lower_dims(b, exg_get_ref(weight)).rank;

    return rank > 2 ? rank - 2 : 1;
}

/* One number for all dims, or one each. */
static bool numbers(exg_builder *b, const exg_argument *arg, uint32_t count, int64_t *n)
{
    uint32_t given = exg_get_ints(arg, n, EXG_SHAPE_RANK_MAX);

    for (uint32_t i = given; given == 1 && i < count; i++) {
        n[i] = n[0];
    }
    if (given != 1 && given != count) {
        exg_lower_refuse(b, "a convolution wants one number, or one a dim");
    }
    return given == 1 || given == count;
}

/* (input, weight, bias, stride, padding "same" or "valid", dilation, groups); what "same"
 * cannot share evenly goes behind. */
void exg_lower_conv_padding(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t count = image_dims(b, &args[1]);
    exg_dims weight = exg_lower_dims(b, exg_get_ref(&args[1]));
    int64_t zeros[EXG_SHAPE_RANK_MAX] = {0};
    int64_t before[EXG_SHAPE_RANK_MAX] = {0};
    int64_t behind[2 * EXG_SHAPE_RANK_MAX] = {0}; /* more than that; as constant_pad_nd counts */
    int64_t stride[EXG_SHAPE_RANK_MAX];
    int64_t dilation[EXG_SHAPE_RANK_MAX];
    bool is_odd = false;
    exg_ref x = SELF;

    if (!numbers(b, &args[3], count, stride) || !numbers(b, &args[5], count, dilation)) {
        return;
    }
    if (strcmp(args[4].as_string, "same") == 0) {
        for (uint32_t i = 0; i < count; i++) {
            int64_t total = dilation[i] * (weight.n[2 + i] - 1);

            before[i] = total / 2;
            behind[2 * (count - 1 - i) + 1] = total % 2;
            is_odd = is_odd || total % 2 != 0;
        }
    }
    if (is_odd) {
        x = EMIT(b, constant_pad_nd_default, x, INTS_OF(b, behind, 2 * count), 0);
    }
    results[0] =
        exg_arg_ref(EMIT(b, convolution_default, x, args[1], args[2], INTS_OF(b, stride, count),
                         INTS_OF(b, before, count), INTS_OF(b, dilation, count),
                         exg_arg_bool(false), INTS_OF(b, zeros, count), args[6]));
}

/* (input, weight, bias, stride, padding, output_padding, groups, dilation) */
void exg_lower_conv_transpose(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t count = image_dims(b, &args[1]);
    int64_t n[4][EXG_SHAPE_RANK_MAX];

    if (numbers(b, &args[3], count, n[0]) && numbers(b, &args[4], count, n[1]) &&
        numbers(b, &args[5], count, n[2]) && numbers(b, &args[7], count, n[3])) {
        exg_argument bias = args[2];

        if (exg_lower_given(&bias)) { /* torch copies it into the result */
            bias = exg_arg_ref(exg_lower_cast(b, exg_get_ref(&bias), exg_lower_dtype(b, SELF)));
        }
        results[0] = exg_arg_ref(EMIT(b, convolution_default, args[0], args[1], bias,
                                      INTS_OF(b, n[0], count), INTS_OF(b, n[1], count),
                                      INTS_OF(b, n[3], count), exg_arg_bool(true),
                                      INTS_OF(b, n[2], count), args[6]));
    }
}
