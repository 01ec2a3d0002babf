/* attention.c - products that say less than they mean.
 *
 *   softmax(q k^T * scale + mask) v     is attention, which needs no matrix of scores
 *   a weight repeated for every batch   is one product of all rows, whose weight is packed
 *
 * Exporters and run_decompositions() write both as bmm between views and copies. Operands are
 * looked for behind what only moves elements; what the pattern leaves unused is dropped later.
 * Attention is recognised where nothing else reads the scores. A row whose keys are all masked is
 * NaN as softmax makes it, or 0 where the program says so (PyTorch's _safe_softmax).
 */
#include "libexport/transform/attention.h"
#include "libexport/transform/finder.h"

#include <exg/emit.h>
#include <math.h>

typedef struct attention {
    exg_value_id query, key, value; /* key transposed: (.., depth, keys) */
    exg_value_id mask;              /* or EXG_NO_VALUE */
    double scale;
    bool is_safe; /* rows without keys are 0 */
} attention;

/* ---- what stands where ---------------------------------------------------------------------- */

static bool same_sizes(const exg_tensor_meta *a, const exg_tensor_meta *b)
{
    bool same = a->rank == b->rank && a->dtype == b->dtype;

    for (uint32_t d = 0; same && d < a->rank; d++) {
        same = a->sizes[d].value == b->sizes[d].value;
    }
    return same;
}

/* The value that `id` is a copy of, element by element at the same place. */
static exg_value_id behind(const exg_finder *f, exg_value_id id)
{
    static const exg_operator_id copies[] = {EXG_OP_clone_default, EXG_OP_expand_default,
                                             EXG_OP_alias_default, EXG_OP_view_default};
    bool found = id != EXG_NO_VALUE;

    while (found) {
        found = false;
        for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]) && !found; i++) {
            exg_value_id from = exg_operand(exg_made_by(f, id, copies[i]), 0);

            found = from != EXG_NO_VALUE && same_sizes(exg_meta_of(f, from), exg_meta_of(f, id));
            id = found ? from : id;
        }
    }
    return id;
}

/* The (a, b, rows, columns) that `id`, (a b, rows, columns) or the other way round, is a view of.
 */
static exg_value_id regrouped(const exg_finder *f, exg_value_id id)
{
    exg_value_id from = exg_operand(exg_made_by(f, behind(f, id), EXG_OP_view_default), 0);
    const exg_tensor_meta *a;
    const exg_tensor_meta *b;

    if (from == EXG_NO_VALUE) {
        return EXG_NO_VALUE;
    }
    a = exg_meta_of(f, from)->rank == 4 ? exg_meta_of(f, from) : exg_meta_of(f, id);
    b = a == exg_meta_of(f, id) ? exg_meta_of(f, from) : exg_meta_of(f, id);
    return a->rank == 4 && b->rank == 3 &&
                   a->sizes[0].value * a->sizes[1].value == b->sizes[0].value &&
                   a->sizes[2].value == b->sizes[1].value && a->sizes[3].value == b->sizes[2].value
               ? behind(f, from)
               : EXG_NO_VALUE;
}

/* A number, or a tensor filled with one. */
static bool constant_of(const exg_finder *f, const exg_argument *arg, double *value)
{
    const exg_node *full = arg->kind == EXG_ARGUMENT_TENSOR
                               ? exg_made_by(f, arg->as_tensor, EXG_OP_full_default)
                               : NULL;

    return exg_number_of(arg, value) ||
           (full != NULL && full->input_count >= 2 && exg_number_of(&full->inputs[1].arg, value));
}

/* What is left of `id` without factors that are one number, which go into *scale. */
static exg_value_id unscaled(const exg_finder *f, exg_value_id id, double *scale)
{
    static const struct {
        exg_operator_id op;
        bool divides;
    } rows[] = {
        {EXG_OP_mul_Tensor, false},
        {EXG_OP_mul_Scalar, false},
        {EXG_OP_div_Tensor, true},
        {EXG_OP_div_Scalar, true},
    };

    id = behind(f, id);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && id != EXG_NO_VALUE; i++) {
        const exg_node *node = exg_made_by(f, id, rows[i].op);
        exg_value_id from = exg_operand(node, 0);
        double factor = 0;

        if (from != EXG_NO_VALUE && f->uses[id] == 1 && node->input_count == 2 &&
            same_sizes(exg_meta_of(f, from), exg_meta_of(f, id)) &&
            constant_of(f, &node->inputs[1].arg, &factor) && isfinite(factor) && factor != 0) {
            *scale = rows[i].divides ? *scale / factor : *scale * factor;
            return behind(f, from);
        }
    }
    return id;
}

/* ---- the pattern ---------------------------------------------------------------------------- */

/* q k^T, times a number: bmm behind a view, nothing else reading it. */
static bool match_scores(const exg_finder *f, exg_value_id id, attention *a)
{
    const exg_node *product;
    exg_value_id scores;

    a->scale = 1;
    scores = regrouped(f, unscaled(f, id, &a->scale));
    product = exg_made_by(f, scores, EXG_OP_bmm_default);
    if (product == NULL || f->uses[scores] != 1) {
        return false;
    }
    a->query = unscaled(f, regrouped(f, exg_operand(product, 0)), &a->scale);
    a->key = unscaled(f, regrouped(f, exg_operand(product, 1)), &a->scale);
    return a->query != EXG_NO_VALUE && a->key != EXG_NO_VALUE;
}

static bool broadcasts(const exg_tensor_meta *mask, const exg_tensor_meta *scores)
{
    bool fits = mask->rank <= scores->rank && mask->dtype == scores->dtype;

    for (uint32_t d = 0; fits && d < mask->rank; d++) {
        int64_t size = mask->sizes[d].value;

        fits = size == 1 || size == scores->sizes[d + scores->rank - mask->rank].value;
    }
    return fits;
}

/* Scores, and a mask added on either side. */
static bool match_sum(const exg_finder *f, exg_value_id id, attention *a)
{
    const exg_node *sum = exg_made_by(f, id, EXG_OP_add_Tensor);
    double alpha = 1;

    a->mask = EXG_NO_VALUE;
    if (sum == NULL) {
        return match_scores(f, id, a);
    }
    if (sum->input_count > 2 && (!exg_number_of(&sum->inputs[2].arg, &alpha) || alpha != 1)) {
        return false;
    }
    for (uint32_t side = 0; side < 2; side++) {
        exg_value_id scores = exg_operand(sum, side);
        exg_value_id mask = exg_operand(sum, 1 - side);

        if (scores != EXG_NO_VALUE && mask != EXG_NO_VALUE && f->uses[scores] == 1 &&
            same_sizes(exg_meta_of(f, scores), exg_meta_of(f, id)) &&
            broadcasts(exg_meta_of(f, mask), exg_meta_of(f, id)) && match_scores(f, scores, a)) {
            a->mask = mask;
            return true;
        }
    }
    return false;
}

/* not any(not (scores == -inf)), along the last dim: of a row whose keys are all masked. */
static bool is_all_masked(const exg_finder *f, exg_value_id id, exg_value_id scores)
{
    const exg_node *any = exg_made_by(
        f, exg_operand(exg_made_by(f, id, EXG_OP_logical_not_default), 0), EXG_OP_any_dims);
    const exg_node *equal = exg_made_by(
        f, exg_operand(exg_made_by(f, exg_operand(any, 0), EXG_OP_logical_not_default), 0),
        EXG_OP_eq_Scalar);
    double value = 0;

    return equal != NULL && exg_operand(equal, 0) == scores &&
           exg_number_of(&equal->inputs[1].arg, &value) && value == -INFINITY &&
           any->input_count == 3 && any->inputs[1].arg.kind == EXG_ARGUMENT_INTS &&
           any->inputs[1].arg.count == 1 &&
           (any->inputs[1].arg.as_ints[0] == -1 ||
            any->inputs[1].arg.as_ints[0] == (int64_t)exg_meta_of(f, scores)->rank - 1) &&
           exg_get_bool(&any->inputs[2].arg);
}

/* A softmax along the last dim of what is left in *scores. */
static bool match_weights(const exg_finder *f, exg_value_id id, exg_value_id *scores, bool *is_safe)
{
    const exg_node *choice = exg_made_by(f, id, EXG_OP_where_self);
    const exg_node *softmax;
    double zero = 1;
    double dim = 0;

    *is_safe = choice != NULL;
    if (*is_safe && (choice->input_count != 3 || f->uses[id] != 1 ||
                     !constant_of(f, &choice->inputs[1].arg, &zero) || zero != 0)) {
        return false;
    }
    id = *is_safe ? exg_operand(choice, 2) : id;
    softmax = exg_made_by(f, id, EXG_OP__softmax_default);
    *scores = exg_operand(softmax, 0);
    return *scores != EXG_NO_VALUE && f->uses[id] == 1 &&
           f->uses[*scores] == (*is_safe ? 2u : 1u) && exg_meta_of(f, id)->rank == 4 &&
           same_sizes(exg_meta_of(f, id), exg_meta_of(f, *scores)) &&
           exg_number_of(&softmax->inputs[1].arg, &dim) && (dim == -1 || dim == 3) &&
           (!*is_safe || is_all_masked(f, exg_operand(choice, 0), *scores));
}

/* Is bmm `node` the last product of an attention? */
static bool match(const exg_finder *f, const exg_node *node, attention *a)
{
    const exg_tensor_meta *metas[3];
    exg_value_id weights = regrouped(f, exg_operand(node, 0));
    exg_value_id scores = EXG_NO_VALUE;

    a->value = regrouped(f, exg_operand(node, 1));
    if (weights == EXG_NO_VALUE || a->value == EXG_NO_VALUE ||
        !match_weights(f, weights, &scores, &a->is_safe) || !match_sum(f, scores, a)) {
        return false;
    }
    metas[0] = exg_meta_of(f, a->query);
    metas[1] = exg_meta_of(f, a->key);
    metas[2] = exg_meta_of(f, a->value);
    for (int i = 0; i < 3; i++) {
        if (metas[i]->rank != 4 || metas[i]->dtype != exg_meta_of(f, scores)->dtype ||
            metas[i]->sizes[0].value != metas[0]->sizes[0].value ||
            metas[i]->sizes[1].value != metas[0]->sizes[1].value) {
            return false;
        }
    }
    return true;
}

/* ---- writing it ----------------------------------------------------------------------------- */

static exg_status write_attention(exg_finder *f, const exg_node *node, const attention *a)
{
    exg_builder *b = f->r.builder;
    const exg_ref *refs = f->r.refs;
    exg_argument args[7] = {
        exg_arg_ref(refs[a->query]),
        exg_arg_ref(EMIT(b, permute_default, refs[a->key], INTS(b, 0, 1, 3, 2))),
        exg_arg_ref(refs[a->value]),
        a->mask == EXG_NO_VALUE ? exg_arg_none() : exg_arg_ref(refs[a->mask]),
        exg_arg_bool(false),
        exg_arg_float(a->scale),
        exg_arg_bool(false),
    };

    return exg_finder_set(
        f, node, exg_emit(b, a->is_safe ? EXG_OP_attention : EXG_OP_attention_of_softmax, args, 7));
}

/* A matrix that is the same for every batch: the expanded operand, or EXG_NO_VALUE. */
static exg_value_id repeated(const exg_finder *f, const exg_node *node)
{
    exg_value_id right = behind(f, exg_operand(node, 1));
    exg_value_id from = exg_operand(exg_made_by(f, right, EXG_OP_expand_default), 0);

    return from != EXG_NO_VALUE && exg_meta_of(f, from)->rank == 2 &&
                   exg_meta_of(f, right)->rank == 3
               ? from
               : EXG_NO_VALUE;
}

static exg_status write_product(exg_finder *f, const exg_node *node, exg_value_id matrix)
{
    exg_builder *b = f->r.builder;
    const exg_tensor_meta *left = exg_meta_of(f, exg_operand(node, 0));
    exg_ref rows = EMIT(b, reshape_default, f->r.refs[exg_operand(node, 0)],
                        INTS(b, left->sizes[0].value * left->sizes[1].value, left->sizes[2].value));

    return exg_finder_set(f, node, EMIT(b, mm_default, rows, f->r.refs[matrix]));
}

static exg_status write(exg_finder *f, const exg_node *node, const exg_operator *op, bool *written)
{
    exg_value_id matrix;
    attention a;

    if (op->id != EXG_OP_bmm_default) {
        return EXG_OK;
    }
    matrix = repeated(f, node);
    *written = true;
    if (match(f, node, &a)) {
        return write_attention(f, node, &a);
    }
    if (matrix != EXG_NO_VALUE) {
        return write_product(f, node, matrix);
    }
    *written = false;
    return EXG_OK;
}

exg_status exg_find_attention(const exg_program *functional, const exg_operators *operators,
                              exg_program **out, exg_error *err)
{
    return exg_find(functional, operators, write, out, err);
}
