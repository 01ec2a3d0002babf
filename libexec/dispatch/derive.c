/* derive.c - the derivatives of operators, written in operators. */
#include "libexec/dispatch/tape.h"
#include "libexport/operators/lower.h"
#include "libexport/operators/registered.h"

#include <exg/emit.h>
#include <exg/operator_id_new.h>
#include <math.h>

/* One operator, differentiated by one of its tensors. */
typedef struct derivation {
    exg_builder *b;
    const exg_argument *args; /* by position */
    uint32_t arg_count;
    uint32_t item; /* in a list of tensors */
    const exg_ref *results, *gradients;
} derivation;

#define G          (x->gradients[0])
#define Y          (x->results[0])
#define A(i)       exg_get_ref(&x->args[i])
#define V(i)       (x->args[i])
#define S(op, ...) EMIT(x->b, op, __VA_ARGS__)

/* ---- what formulas are made of --------------------------------- */

static exg_dims dims_of(const derivation *x, uint32_t position)
{
    return exg_lower_dims(x->b, A(position));
}

static exg_dtype dtype_of(const derivation *x, uint32_t position)
{
    return exg_lower_dtype(x->b, A(position));
}

static exg_argument sizes_of(const derivation *x, uint32_t position)
{
    exg_dims dims = dims_of(x, position);

    return INTS_OF(x->b, dims.n, dims.rank);
}

static exg_ref shaped_as(const derivation *x, exg_ref ref, uint32_t position)
{
    return S(reshape_default, ref, sizes_of(x, position));
}

static exg_ref zeros_as(const derivation *x, uint32_t position)
{
    return S(full_default, sizes_of(x, position), 0, DTYPE(exg_lower_dtype(x->b, G)));
}

static exg_ref times(const derivation *x, exg_ref ref, exg_argument number)
{
    return exg_is_none(&number) || exg_get_float(&number) == 1 ? ref : S(mul_Scalar, ref, number);
}

/* The last two dims exchanged. */
static exg_ref turned(const derivation *x, exg_ref ref)
{
    uint32_t rank = exg_lower_dims(x->b, ref).rank;

    return rank < 2 ? ref : exg_lower_swapped(x->b, ref, rank - 2, rank - 1);
}

/* All dims but the last as one. */
static exg_ref rows_of(const derivation *x, exg_ref ref)
{
    exg_dims dims = exg_lower_dims(x->b, ref);
    int64_t rows = 1;

    for (uint32_t d = 0; d + 1 < dims.rank; d++) {
        rows *= dims.n[d];
    }
    return dims.rank == 2 ? ref
                          : S(reshape_default, ref,
                              INTS(x->b, rows, dims.rank == 0 ? 1 : dims.n[dims.rank - 1]));
}

static exg_ref power(const derivation *x)
{
    double exponent = exg_get_float(&V(1));

    return exponent == 0 ? zeros_as(x, 0)
                         : S(mul_Tensor, G,
                             S(mul_Scalar, S(pow_Tensor_Scalar, A(0), exponent - 1), exponent));
}

/* Where `a` is larger; half where it is the same. */
static exg_ref larger(const derivation *x, exg_ref a, exg_ref b)
{
    exg_ref half = S(masked_fill_Scalar, S(mul_Scalar, G, 0.5), S(ne_Tensor, a, b), 0);

    return S(add_Tensor, S(masked_fill_Scalar, G, S(le_Tensor, a, b), 0), half);
}

#define LOG_2            0.6931471805599453
#define LOG_10           2.302585092994046
#define TWO_OVER_ROOT_PI 1.1283791670955126

/* What lies inside, or what the result was taken from, alone. */
static exg_ref inside(const derivation *x, exg_ref where)
{
    return S(where_ScalarOther, where, G, 0);
}

/* ---- over dims --------------------------------- */

/* `ref`, of the sizes of a result from which dim `at` is gone, with one element along it. */
static exg_ref along(const derivation *x, exg_ref ref, const exg_argument *at, bool kept)
{
    bool is_number = dims_of(x, 0).rank == 0;

    return kept || is_number ? ref : S(unsqueeze_default, ref, *at);
}

/* Each gradient to the place that its element was taken from, of which the second result tells. */
static exg_ref put_back(const derivation *x, exg_ref gradient, const exg_argument *dim, bool kept)
{
    exg_ref places = along(x, x->results[1], dim, kept);

    return S(scatter_add_default, zeros_as(x, 0), *dim, places, along(x, gradient, dim, kept));
}

/* Of those before an element along the dim, and of those after it: zeros divide nothing. */
static exg_ref product_of_others(const derivation *x)
{
    exg_dims dims = dims_of(x, 0);
    exg_ref sides[2];
    uint32_t dim;

    if (dims.rank == 0) {
        return S(full_default, sizes_of(x, 0), 1, DTYPE(exg_lower_dtype(x->b, G)));
    }
    dim = exg_lower_dim(x->b, exg_get_int(&V(1)), dims.rank);
    for (uint32_t side = 0; side < 2; side++) {
        exg_argument turn = INTS(x->b, dim);
        exg_ref all = exg_lower_cast(x->b, A(0), exg_lower_dtype(x->b, G));
        exg_dims one = dims;
        exg_ref first;

        one.n[dim] = dims.n[dim] > 0 ? 1 : 0;
        first = S(full_default, INTS_OF(x->b, one.n, one.rank), 1, DTYPE(exg_lower_dtype(x->b, G)));
        all = side == 0 ? all : S(flip_default, all, turn);
        all = exg_lower_slice(x->b, all, dim, 0, dims.n[dim] > 0 ? dims.n[dim] - 1 : 0);
        all = S(cumprod_default,
                S(cat_default, exg_arg_refs(x->b, (exg_ref[]){first, all}, 2), dim), dim);
        sides[side] = side == 0 ? all : S(flip_default, all, turn);
    }
    return S(mul_Tensor, sides[0], sides[1]);
}

/* Which dims of argument 0 were reduced: argument 1, all where it says none. */
static uint32_t reduced_dims(const derivation *x, bool *reduced)
{
    exg_dims dims = dims_of(x, 0);
    int64_t given[EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&V(1), given, EXG_SHAPE_RANK_MAX);

    for (uint32_t d = 0; d < dims.rank; d++) {
        reduced[d] = count == 0;
    }
    for (uint32_t i = 0; i < count && dims.rank > 0; i++) {
        reduced[exg_lower_dim(x->b, given[i], dims.rank)] = true;
    }
    return dims.rank;
}

static int64_t reduced_count(const derivation *x)
{
    bool reduced[EXG_SHAPE_RANK_MAX] = {false};
    uint32_t rank = reduced_dims(x, reduced);
    exg_dims dims = dims_of(x, 0);
    int64_t count = 1;

    for (uint32_t d = 0; d < rank; d++) {
        count *= reduced[d] ? dims.n[d] : 1;
    }
    return count;
}

/* `ref`, of the sizes of the result, with size 1 where dims were reduced. */
static exg_ref kept(const derivation *x, exg_ref ref)
{
    bool reduced[EXG_SHAPE_RANK_MAX] = {false};
    exg_dims dims = dims_of(x, 0);

    (void)reduced_dims(x, reduced);
    for (uint32_t d = 0; d < dims.rank; d++) {
        dims.n[d] = reduced[d] ? 1 : dims.n[d];
    }
    return S(view_default, ref, INTS_OF(x->b, dims.n, dims.rank));
}

static exg_ref spread(const derivation *x, exg_ref ref)
{
    return S(expand_default, kept(x, ref), sizes_of(x, 0));
}

/* Shared by those that are the largest, or the smallest. */
static exg_ref to_extremes(const derivation *x)
{
    exg_ref here = S(eq_Tensor, A(0), spread(x, Y));
    exg_ref shares = exg_lower_cast(x->b, here, exg_lower_dtype(x->b, G));
    exg_ref count = S(sum_dim_IntList, shares, V(1), true);

    return S(mul_Tensor, spread(x, G), S(div_Tensor, shares, count));
}

/* 2 (x - mean) over one less than how many there are, or as the correction says. */
static exg_ref from_mean(const derivation *x, exg_ref gradient)
{
    double correction = exg_is_none(&V(2)) ? 1 : exg_get_float(&V(2));
    double count = (double)reduced_count(x) - correction;
    exg_ref gap = S(sub_Tensor, A(0), S(mean_dim, A(0), V(1), true));

    return S(mul_Tensor, spread(x, gradient), S(mul_Scalar, gap, 2 / (count < 0 ? 0 : count)));
}

/* The gradient of a square by that of its root, which has none at zero. */
static exg_ref over_twice(const derivation *x, exg_ref root)
{
    exg_ref slope = S(div_Tensor, G, S(mul_Scalar, root, 2));

    return S(masked_fill_Scalar, slope, S(eq_Scalar, root, 0), 0);
}

static exg_ref summed_after(const derivation *x)
{
    exg_argument dims = INTS(x->b, exg_get_int(&V(1)));

    return dims_of(x, 0).rank == 0
               ? G
               : S(flip_default, S(cumsum_default, S(flip_default, G, dims), V(1)), dims);
}

/* What stands in several places comes together. */
static exg_ref off_edges(const derivation *x)
{
    exg_dims in = dims_of(x, 0);
    int64_t n[2 * EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&V(1), n, 2 * EXG_SHAPE_RANK_MAX) / 2;
    exg_ref g = G;

    for (uint32_t k = 0; k < count && k < in.rank; k++) {
        uint32_t dim = in.rank - 1 - k;
        exg_ref places = exg_lower_steps(x->b, in.n[dim], EXG_DTYPE_I64, 0, 1);

        places = S(edge_pad, places, INTS(x->b, n[2 * k], n[2 * k + 1]), V(2));
        g = exg_lower_added(x->b, g, dim, in.n[dim], places);
    }
    return g;
}

/* The gradient of what each row of add_rows was added to, zeros for those left out; times the
 * number that the row was multiplied with. */
static exg_ref of_bags(const derivation *x, bool scaled)
{
    exg_ref more = S(constant_pad_nd_default, G, INTS(x->b, 0, 0, 0, 1), 0);
    exg_ref rows = S(index_select_default, more, 0,
                     S(clamp_max_default, A(2), exg_arg_int(exg_get_int(&V(4)))));

    return scaled && exg_lower_given(&V(3)) ? S(mul_Tensor, rows, S(unsqueeze_default, A(3), 1))
                                            : rows;
}

/* Of weighted_gather, for every channel: the places of all terms, (n, channels, terms * count), 0
 * where there is none. */
static exg_ref all_places(const derivation *x)
{
    exg_dims own = dims_of(x, 0);
    exg_dims places = dims_of(x, 1);
    exg_ref flat = S(view_default, S(clamp_min_default, A(1), exg_arg_int(0)),
                     INTS(x->b, places.n[0], 1, places.n[1] * places.n[2]));

    return S(expand_default, flat, INTS(x->b, own.n[0], own.n[1], places.n[1] * places.n[2]));
}

/* Each gradient to the places it came from, times their weights. */
static exg_ref to_places(const derivation *x)
{
    exg_dims own = dims_of(x, 0);
    exg_dims places = dims_of(x, 1);
    exg_ref weights = S(masked_fill_Scalar, A(2), S(lt_Scalar, A(1), exg_arg_int(0)), 0);
    exg_ref parts = S(mul_Tensor, S(unsqueeze_default, G, 2), S(unsqueeze_default, weights, 1));

    parts = S(reshape_default, parts, INTS(x->b, own.n[0], own.n[1], places.n[1] * places.n[2]));
    return S(scatter_add_default, zeros_as(x, 0), 2, all_places(x), parts);
}

static exg_ref by_weights(const derivation *x)
{
    exg_dims own = dims_of(x, 0);
    exg_dims places = dims_of(x, 1);
    exg_ref taken = S(view_default, S(gather_default, A(0), 2, all_places(x)),
                      INTS(x->b, own.n[0], own.n[1], places.n[1], places.n[2]));

    taken = S(sum_dim_IntList, S(mul_Tensor, taken, S(unsqueeze_default, G, 2)), INTS(x->b, 1));
    return S(masked_fill_Scalar, taken, S(lt_Scalar, A(1), exg_arg_int(0)), 0);
}

/* Of resample: each gradient to the elements it came from, term by term. */
static exg_ref sampled_back(const derivation *x)
{
    const exg_dims own = dims_of(x, 0);
    const exg_dims places = dims_of(x, 1);
    const uint32_t dim = exg_lower_dim(x->b, exg_get_int(&V(3)), own.rank);
    exg_ref sum = zeros_as(x, 0);

    for (int64_t t = 0; t < places.n[0]; t++) {
        exg_ref at = exg_lower_flat(x->b, exg_lower_slice(x->b, A(1), 0, t, 1));
        exg_ref weight = exg_lower_flat(x->b, exg_lower_slice(x->b, A(2), 0, t, 1));

        weight = exg_lower_along(x->b, weight, dim, own.rank);
        sum = S(index_add_default, sum, V(3), at, S(mul_Tensor, G, weight));
    }
    return sum;
}

static exg_argument only(exg_builder *b, uint32_t which)
{
    exg_argument mask = {.kind = EXG_ARGUMENT_BOOLS, .count = 3};
    bool *items = exg_arena_alloc(exg_builder_arena(b), 3, sizeof(*items));

    if (items == NULL) {
        mask.count = 0; /* wants nothing; the builder is out of memory too */
        return mask;
    }
    items[which] = true;
    mask.as_bools = items;
    return mask;
}

static exg_ref nth(const exg_argument *results, uint32_t which)
{
    return exg_get_ref(&results[which]);
}

/* Of the input, the weight, or the bias. */
static exg_ref through_layer_norm(const derivation *x, uint32_t which)
{
    exg_argument made[3] = {exg_arg_none(), exg_arg_none(), exg_arg_none()};

    (void)EMIT_ALL(x->b, native_layer_norm_backward_default, made, G, A(0), V(1), x->results[1],
                   x->results[2], V(2), V(3), only(x->b, which));
    return nth(made, which);
}

static exg_ref through_group_norm(const derivation *x, uint32_t which)
{
    exg_argument made[3] = {exg_arg_none(), exg_arg_none(), exg_arg_none()};

    (void)EMIT_ALL(x->b, native_group_norm_backward_default, made, G, A(0), x->results[1],
                   x->results[2], V(1), V(3), V(4), V(5), V(6), only(x->b, which));
    return nth(made, which);
}

/* The dims that are normalized: the last ones. */
static exg_argument last_dims(const derivation *x)
{
    int64_t dims[EXG_SHAPE_RANK_MAX];
    uint32_t rank = dims_of(x, 0).rank, count = (uint32_t)exg_get_int(&V(1));

    for (uint32_t i = 0; i < count && i < rank; i++) {
        dims[i] = rank - count + i;
    }
    return INTS_OF(x->b, dims, count < rank ? count : rank);
}

static exg_ref root_mean_square(const derivation *x)
{
    exg_ref mean = S(mean_dim, S(square_default, A(0)), last_dims(x), true);

    return S(rsqrt_default, S(add_Scalar, mean, V(3)));
}

static exg_ref over_root_mean_square(const derivation *x)
{
    return S(mul_Tensor, A(0), root_mean_square(x));
}

static exg_ref through_rms_norm(const derivation *x)
{
    exg_ref normal = over_root_mean_square(x);
    exg_ref g = exg_lower_given(&V(2)) ? S(mul_Tensor, G, A(2)) : G;
    exg_ref along = S(mean_dim, S(mul_Tensor, g, normal), last_dims(x), true);

    return S(mul_Tensor, S(sub_Tensor, g, S(mul_Tensor, normal, along)), root_mean_square(x));
}

static exg_ref through_convolution(const derivation *x, uint32_t which)
{
    exg_argument made[3] = {exg_arg_none(), exg_arg_none(), exg_arg_none()};
    exg_argument bias = exg_is_none(&V(2)) ? exg_arg_none() : sizes_of(x, 2);
    exg_argument args[11] = {exg_arg_ref(G),   V(0), V(1), bias, V(3), V(4), V(5), V(6), V(7), V(8),
                             only(x->b, which)};

    (void)exg_emit_all(x->b, EXG_OP_convolution_backward_default, args, 11, made);
    return nth(made, which);
}

/* ---- attention --------------------------------- */

/* Scores of (query, key, ...): what was added to them, or may not be seen. */
static exg_ref scores(const derivation *x, uint32_t causal, double scale)
{
    exg_ref all = S(mul_Scalar, S(matmul_default, A(0), turned(x, A(1))), scale);
    exg_dims dims = exg_lower_dims(x->b, all);
    double least = -1e30;

    if (exg_get_bool(&V(causal)) && dims.rank > 1) {
        exg_ref seen = S(tril_default,
                         S(full_default, INTS(x->b, dims.n[dims.rank - 2], dims.n[dims.rank - 1]),
                           1, DTYPE(exg_lower_dtype(x->b, all))));

        all = S(masked_fill_Scalar, all, S(eq_Scalar, seen, 0), least);
    }
    if (!exg_lower_given(&V(3))) {
        return all;
    }
    return dtype_of(x, 3) == EXG_DTYPE_B8 ? S(where_ScalarOther, A(3), all, least)
                                          : S(add_Tensor, all, A(3));
}

/* Of the query, the key, the value, or what was added to the scores. `causal`: where the arguments
 * say whether it is, with the scale and whether heads are grouped behind it. */
static exg_ref through_attention(const derivation *x, uint32_t causal, uint32_t which)
{
    exg_dims query = dims_of(x, 0);
    double scale = exg_is_none(&V(causal + 1)) ? 1 / sqrt((double)query.n[query.rank - 1])
                                               : exg_get_float(&V(causal + 1));
    bool drops = causal == 5 && exg_get_float(&V(4)) != 0;
    exg_ref weights, g;

    if (drops || exg_get_bool(&V(causal + 2))) {
        exg_lower_unsupported(x->b, "a derivative of attention with dropout or grouped heads");
        return EXG_NO_REF;
    }
    weights = S(_softmax_default, scores(x, causal, scale), -1, false);
    if (which == 2) {
        return S(matmul_default, turned(x, weights), G);
    }
    g = S(matmul_default, G, turned(x, A(2)));
    g = S(_softmax_backward_data_default, g, weights, -1, DTYPE(exg_lower_dtype(x->b, g)));
    return which == 3   ? g
           : which == 0 ? S(mul_Scalar, S(matmul_default, g, A(1)), scale)
                        : S(mul_Scalar, S(matmul_default, turned(x, g), A(0)), scale);
}

/* ---- places --------------------------------- */

/* Padding taken away again; where elements were taken away, zeros. */
static exg_argument less_padding(const derivation *x)
{
    int64_t pads[2 * EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&V(1), pads, 2 * EXG_SHAPE_RANK_MAX);

    for (uint32_t i = 0; i < count; i++) {
        pads[i] = -pads[i];
    }
    return INTS_OF(x->b, pads, count);
}

static exg_ref rolled_back(const derivation *x)
{
    int64_t shifts[EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&V(1), shifts, EXG_SHAPE_RANK_MAX);

    for (uint32_t i = 0; i < count; i++) {
        shifts[i] = -shifts[i];
    }
    return S(roll_default, G, INTS_OF(x->b, shifts, count), V(2));
}

static exg_ref permuted_back(const derivation *x)
{
    int64_t dims[EXG_SHAPE_RANK_MAX], back[EXG_SHAPE_RANK_MAX] = {0};
    uint32_t rank = exg_get_ints(&V(1), dims, EXG_SHAPE_RANK_MAX);

    for (uint32_t d = 0; d < rank; d++) {
        back[exg_lower_dim(x->b, dims[d], rank)] = d;
    }
    return S(permute_default, G, INTS_OF(x->b, back, rank));
}

/* What one of the tensors that were joined is of the gradient. */
static exg_ref piece_of(const derivation *x)
{
    exg_dims out = exg_lower_dims(x->b, G);
    uint32_t dim = exg_lower_dim(x->b, exg_get_int(&V(1)), out.rank);
    int64_t start = 0;

    for (uint32_t i = 0; i <= x->item; i++) {
        exg_dims dims = exg_lower_dims(x->b, exg_lower_item(&V(0), i));
        int64_t size = dims.rank == out.rank ? dims.n[dim] : 0; /* an empty vector may be there */

        if (i == x->item) {
            return exg_lower_slice(x->b, G, dim, start, size);
        }
        start += size;
    }
    return EXG_NO_REF;
}

/* ---- the table --------------------------------- */

#define EXG_UNDIFFERENTIATED(op)
#define EXG_DERIVATIVE(op, position, formula)                                                      \
    static exg_ref derive_##op##_##position(const derivation *x)                                   \
    {                                                                                              \
        return formula;                                                                            \
    }
#include "libexec/dispatch/derivatives.def"
#undef EXG_DERIVATIVE

static const struct {
    exg_operator_id op;
    uint32_t position;
    exg_ref (*derive)(const derivation *x);
} rows[] = {
#define EXG_DERIVATIVE(op, position, formula) {EXG_OP_##op, position, derive_##op##_##position},
#include "libexec/dispatch/derivatives.def"
#undef EXG_DERIVATIVE
#undef EXG_UNDIFFERENTIATED
};

static const exg_operator_id undifferentiated[] = {
#define EXG_DERIVATIVE(op, position, formula)
#define EXG_UNDIFFERENTIATED(op) EXG_OP_##op,
#include "libexec/dispatch/derivatives.def"
#undef EXG_DERIVATIVE
#undef EXG_UNDIFFERENTIATED
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

exg_differentiation exg_differentiation_of(const exg_operator *op)
{
    if (op->registered != NULL) {
        return op->registered->definition.derivative != NULL ? EXG_BY_ROWS : EXG_BY_PARTS;
    }
    for (size_t i = 0; i < COUNT(undifferentiated); i++) {
        if (undifferentiated[i] == op->id) {
            return EXG_NOT_AT_ALL;
        }
    }
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (rows[i].op == op->id) {
            return EXG_BY_ROWS;
        }
    }
    return EXG_BY_PARTS;
}

/* ---- emitting --------------------------------- */

/* Summed where the operand was broadcast, in its dtype. */
static exg_ref fit(exg_builder *b, exg_ref gradient, exg_ref operand)
{
    exg_dims from = exg_lower_dims(b, gradient), to = exg_lower_dims(b, operand);
    uint32_t lead = from.rank > to.rank ? from.rank - to.rank : 0;
    int64_t dims[EXG_SHAPE_RANK_MAX];
    uint32_t count = 0;

    for (uint32_t d = 0; d < from.rank; d++) {
        if (d < lead || (to.n[d - lead] == 1 && from.n[d] != 1)) {
            dims[count++] = d;
        }
    }
    if (count > 0) {
        gradient = EMIT(b, sum_dim_IntList, gradient, INTS_OF(b, dims, count), true);
        gradient = lead > 0 ? exg_lower_shaped(b, gradient, &to) : gradient;
    }
    return exg_lower_cast(b, gradient, exg_lower_dtype(b, operand));
}

static exg_ref derive(const exg_call *call, const derivation *x, uint32_t position)
{
    const exg_registered *registered = call->op->registered;
    exg_error err;

    if (registered != NULL && registered->definition.derivative != NULL) {
        return registered->definition.derivative(x->b, x->args, x->results, x->gradients, position);
    }
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (rows[i].op == call->op->id && rows[i].position == position) {
            return rows[i].derive(x);
        }
    }
    (void)EXG_FAIL(&err, UNSUPPORTED, "TAP-001", "%s has no derivative by its argument '%s'",
                   call->op_entry->key, call->op->schema->arguments[position].name);
    exg_builder_fail(x->b, &err);
    return EXG_NO_REF;
}

void exg_emit_derivatives(const exg_call *call, exg_builder *b, const exg_ref *refs,
                          const void *user, exg_argument *outputs)
{
    const exg_derivation_of *of = user;
    exg_argument args[EXG_ARGUMENTS_MAX];
    derivation x = {.b = b,
                    .args = args,
                    .arg_count = call->op->schema->argument_count,
                    .results = refs + of->operands,
                    .gradients = refs + of->operands + of->results};

    exg_call_arguments(b, call->op->schema, call->at, call->operands, of->operands, refs, args);
    for (uint32_t i = 0; i < of->operands; i++) {
        const exg_tensor_meta *meta = exg_ref_meta(b, refs[i]);
        exg_ref gradient;

        outputs[i] = exg_arg_none();
        if (of->edges[i].of == NULL || x.gradients[0].id == EXG_NO_VALUE) {
            continue;
        }
        if (meta != NULL && exg_dtype_is_complex(meta->dtype)) {
            exg_lower_unsupported(b, "a derivative by complex numbers");
            return;
        }
        x.item = call->operands[i].item;
        gradient = derive(call, &x, call->operands[i].position);
        if (gradient.id != EXG_NO_VALUE) {
            outputs[i] = exg_arg_ref(fit(b, gradient, refs[i]));
        }
    }
}
