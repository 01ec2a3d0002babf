/* joined_views.c - dims that a view joins and a later view parts again. A part of one of them is no
 * part of what they are joined to, so they are left apart. Between the views is
 * an order of dims: batch and heads, as torch.nn.MultiheadAttention writes them. The first view
 * parts all that the second one will, and the order is one of those dims;
 * a product, whose rows are joined for it: it has as many dims as the rows had; or
 * a product with the matrices of several experts, which are joined to one, and that is a copy of
 * them: it is a product of each.
 */
#include "libexec/sharding/partitioner.h"
#include "libexport/operators/lower.h"
#include "libexport/transform/finder.h"
#include "libexport/weights/storage.h"

#include <exg/emit.h>

#include <string.h>

/* ---- orders of dims -------------------------------------------------------------------------- */

/* A shape whose dims are parts of the dims of two others, of which each is one part or several. */
typedef struct refined {
    int64_t sizes[EXG_SHAPE_RANK_MAX];
    uint32_t rank;
    uint32_t begins[EXG_SHAPE_RANK_MAX + 1]; /* of each dim of the second shape: its first part */
} refined;

static bool add_dim(refined *r, int64_t size)
{
    if (r->rank == EXG_SHAPE_RANK_MAX) {
        return false;
    }
    r->sizes[r->rank++] = size;
    return true;
}

/* `b` is a view of `a`. False: the bounds of their dims do not lie within each other. */
static bool refine(const exg_tensor_meta *a, const exg_tensor_meta *b, refined *r)
{
    int64_t left = 1; /* of the dim of a that was begun */
    uint32_t i = 0;

    *r = (refined){0};
    for (uint32_t o = 0; o < b->rank; o++) {
        int64_t open = b->sizes[o].value;

        r->begins[o] = r->rank;
        if (open < 1) {
            return false;
        }
        while (open > 1) {
            int64_t size;

            while (left == 1 && i < a->rank) {
                left = a->sizes[i++].value;
            }
            size = left < open ? left : open;
            if (size < 2 || left % size != 0 || open % size != 0 || !add_dim(r, size)) {
                return false;
            }
            left /= size;
            open /= size;
        }
        if (b->sizes[o].value == 1 && !add_dim(r, 1)) {
            return false;
        }
    }
    r->begins[b->rank] = r->rank;
    return left == 1;
}

/* view(permute(view(x))), of which nobody else reads what is between. */
static exg_status part_view(exg_finder *f, const exg_node *node, const exg_operator *op,
                            bool *written)
{
    exg_builder *b = f->r.builder;
    const exg_node *order = exg_made_by(f, exg_operand(node, 0), EXG_OP_permute_default);
    const exg_node *joins = exg_made_by(f, exg_operand(order, 0), EXG_OP_view_default);
    exg_argument args[EXG_ARGUMENTS_MAX];
    int64_t dims[EXG_SHAPE_RANK_MAX];
    int64_t parts[EXG_SHAPE_RANK_MAX];
    uint32_t rank;
    uint32_t count = 0;
    exg_ref x;
    refined r;

    if (op->id != EXG_OP_view_default || joins == NULL || f->uses[exg_operand(node, 0)] != 1 ||
        f->uses[exg_operand(order, 0)] != 1 ||
        !refine(exg_meta_of(f, exg_operand(joins, 0)), exg_meta_of(f, exg_operand(order, 0)), &r) ||
        r.rank == exg_meta_of(f, exg_operand(order, 0))->rank) {
        return EXG_OK;
    }
    EXG_TRY(exg_rewrite_args(&f->r, order, &op, args));
    rank = exg_get_ints(&args[1], dims, EXG_SHAPE_RANK_MAX);
    for (uint32_t o = 0; o < rank; o++) {
        uint32_t d = exg_rule_dim(dims[o], rank);

        for (uint32_t k = r.begins[d]; k < r.begins[d + 1]; k++) {
            parts[count++] = k;
        }
    }
    x = f->r.refs[exg_operand(joins, 0)];
    x = EMIT(b, reshape_default, x, INTS_OF(b, r.sizes, r.rank));
    exg_builder_set_origin(b, &node->metadata); /* whose work it is */
    exg_builder_next_names(b, &node->name, node->name != NULL);
    x = EMIT(b, permute_default, x, INTS_OF(b, parts, count));
    *written = true;
    return exg_finder_set(f, node, x);
}

/* ---- rows of products ------------------------------------------------------------------------ */

/* The operands of a product of rows with one matrix, as of linear. */
typedef struct rows_by_matrix {
    exg_value_id rows, matrix, bias;
    bool turned; /* the matrix is as mm has it */
} rows_by_matrix;

static bool find_product(const exg_node *node, const exg_operator *op, rows_by_matrix *of)
{
    exg_argument args[EXG_ARGUMENTS_MAX];
    const bool adds = op->id == EXG_OP_addmm_default;
    double beta = 1;
    double alpha = 1;
    exg_error err;

    if ((op->id != EXG_OP_linear_default && op->id != EXG_OP_mm_default && !adds) ||
        exg_operator_normalize(op, node, args, &err) != EXG_OK ||
        (adds && (!exg_number_of(&args[3], &beta) || !exg_number_of(&args[4], &alpha) ||
                  beta != 1 || alpha != 1))) {
        return false;
    }
    *of = (rows_by_matrix){.rows = args[adds].as_tensor,
                           .matrix = args[1 + adds].as_tensor,
                           .bias = adds ? args[0].as_tensor : EXG_NO_VALUE,
                           .turned = op->id != EXG_OP_linear_default};
    if (op->id == EXG_OP_linear_default && args[2].kind == EXG_ARGUMENT_TENSOR) {
        of->bias = args[2].as_tensor;
    }
    return true;
}

/* `seen` is view(product(view(x))): rows are joined, and parted as x has them. The product with x
 * itself, whose result may have another bias. */
static exg_status take_rows(exg_finder *f, const exg_node *seen, exg_value_id bias, exg_ref *made)
{
    exg_builder *b = f->r.builder;
    const exg_value_id product = exg_operand(seen, 0);
    const exg_node *maker = product == EXG_NO_VALUE ? NULL : f->makers[product];
    const exg_node *joins;
    const exg_tensor_meta *result = exg_meta_of(f, seen->outputs[0].as_tensor);
    const exg_tensor_meta *x;
    int64_t sizes[EXG_SHAPE_RANK_MAX];
    int64_t rows = 1;
    uint32_t dims = 0;
    rows_by_matrix of;
    exg_ref weight;

    if (maker == NULL || f->uses[product] != 1 ||
        !find_product(maker, exg_operators_find(f->r.operators, maker->target), &of)) {
        return EXG_OK;
    }
    joins = exg_made_by(f, of.rows, EXG_OP_view_default);
    if (joins == NULL || exg_meta_of(f, of.rows)->rank != 2 ||
        (of.bias != EXG_NO_VALUE && (bias != EXG_NO_VALUE || exg_meta_of(f, of.bias)->rank != 1))) {
        return EXG_OK;
    }
    x = exg_meta_of(f, exg_operand(joins, 0));
    while (dims + 1 < result->rank && dims + 1 < x->rank &&
           x->sizes[dims].value == result->sizes[dims].value &&
           rows < exg_meta_of(f, product)->sizes[0].value) {
        sizes[dims] = x->sizes[dims].value;
        rows *= sizes[dims++];
    }
    if (dims < 2 || rows != exg_meta_of(f, product)->sizes[0].value) {
        return EXG_OK;
    }
    sizes[dims] = exg_meta_of(f, of.rows)->sizes[1].value;
    bias = of.bias == EXG_NO_VALUE ? bias : of.bias;
    *made = EMIT(b, reshape_default, f->r.refs[exg_operand(joins, 0)], INTS_OF(b, sizes, dims + 1));
    weight = f->r.refs[of.matrix];
    weight = of.turned ? EMIT(b, permute_default, weight, INTS(b, 1, 0)) : weight;
    exg_builder_set_origin(b, &maker->metadata);
    exg_builder_next_names(b, &maker->name, maker->name != NULL);
    *made = EMIT(b, linear_default, *made, weight,
                 bias == EXG_NO_VALUE ? exg_arg_none() : exg_arg_ref(f->r.refs[bias]));
    return exg_builder_status(b);
}

/* `product` is bmm(x, expand(matrix)): the same matrix each time. */
static exg_status take_repeated(exg_finder *f, const exg_node *product, exg_value_id bias,
                                exg_ref *made)
{
    exg_builder *b = f->r.builder;
    const exg_node *seen = exg_made_by(f, exg_operand(product, 1), EXG_OP_view_default);
    const exg_node *repeat = exg_made_by(
        f, exg_operand(seen == NULL ? product : seen, seen == NULL), EXG_OP_expand_default);
    const exg_tensor_meta *matrix;
    const exg_tensor_meta *all;

    if (repeat == NULL) {
        return EXG_OK;
    }
    matrix = exg_meta_of(f, exg_operand(repeat, 0));
    all = exg_meta_of(f, exg_operand(product, 1));
    if (matrix->rank < 2 || matrix->sizes[matrix->rank - 2].value != all->sizes[1].value ||
        matrix->sizes[matrix->rank - 1].value != all->sizes[2].value) {
        return EXG_OK;
    }
    for (uint32_t d = 0; d + 2 < matrix->rank; d++) {
        if (matrix->sizes[d].value != 1) {
            return EXG_OK;
        }
    }
    *made = EMIT(b, reshape_default, f->r.refs[exg_operand(repeat, 0)],
                 INTS(b, all->sizes[1].value, all->sizes[2].value));
    *made = EMIT(b, permute_default, *made, INTS(b, 1, 0));
    exg_builder_set_origin(b, &product->metadata);
    exg_builder_next_names(b, &product->name, product->name != NULL);
    *made = EMIT(b, linear_default, f->r.refs[exg_operand(product, 0)], *made,
                 bias == EXG_NO_VALUE ? exg_arg_none() : exg_arg_ref(f->r.refs[bias]));
    return exg_builder_status(b);
}

/* `node`, a call of `op`, is a product, or one in the sizes that it is seen in. */
static exg_status take_product(exg_finder *f, const exg_node *node, const exg_operator *op,
                               exg_value_id bias, exg_ref *made)
{
    const exg_node *repeated = op->id == EXG_OP_bmm_default ? node : NULL;

    *made = EXG_NO_REF;
    if (op->id == EXG_OP_view_default) {
        EXG_TRY(take_rows(f, node, bias, made));
        repeated = exg_made_by(f, exg_operand(node, 0), EXG_OP_bmm_default);
    }
    return made->id != EXG_NO_VALUE || repeated == NULL ? EXG_OK
                                                        : take_repeated(f, repeated, bias, made);
}

static exg_status part_product(exg_finder *f, const exg_node *node, const exg_operator *op,
                               bool *written)
{
    exg_ref made;

    EXG_TRY(take_product(f, node, op, EXG_NO_VALUE, &made));
    *written = made.id != EXG_NO_VALUE;
    return *written ? exg_finder_set(f, node, made) : EXG_OK;
}

/* What makes it, but for views in the same sizes. */
static const exg_node *before_views(const exg_finder *f, exg_value_id id)
{
    const exg_node *view = exg_made_by(f, id, EXG_OP_view_default);
    exg_value_id of = exg_operand(view, 0);

    while (view != NULL && f->makers[of] != NULL && f->uses[of] == 1 &&
           exg_tensor_meta_same_shape(exg_meta_of(f, of), exg_meta_of(f, id))) {
        id = of;
        view = exg_made_by(f, id, EXG_OP_view_default);
        of = exg_operand(view, 0);
    }
    return f->makers[id];
}

/* A product, to which a bias is added. */
static exg_status part_biased(exg_finder *f, const exg_node *node, const exg_operator *op,
                              bool *written)
{
    const exg_value_id product = exg_operand(node, 0);
    const exg_value_id bias = exg_operand(node, 1);
    const exg_node *maker;
    const exg_tensor_meta *result;
    exg_argument args[EXG_ARGUMENTS_MAX];
    double alpha = 0;
    exg_ref made;

    if (op->id != EXG_OP_add_Tensor || product == EXG_NO_VALUE || bias == EXG_NO_VALUE) {
        return EXG_OK;
    }
    maker = before_views(f, product);
    result = exg_meta_of(f, node->outputs[0].as_tensor);
    if (maker == NULL || f->uses[product] != 1 ||
        exg_operator_normalize(op, node, args, f->r.err) != EXG_OK ||
        !exg_number_of(&args[2], &alpha) || alpha != 1 || exg_meta_of(f, bias)->rank != 1 ||
        exg_meta_of(f, bias)->dtype != result->dtype ||
        exg_meta_of(f, bias)->sizes[0].value != result->sizes[result->rank - 1].value ||
        !exg_tensor_meta_same_shape(exg_meta_of(f, product), result)) {
        return EXG_OK;
    }
    EXG_TRY(take_product(f, maker, exg_operators_find(f->r.operators, maker->target), bias, &made));
    if (made.id == EXG_NO_VALUE ||
        !exg_tensor_meta_same_shape(exg_ref_meta(f->r.builder, made), result)) {
        return EXG_OK;
    }
    *written = true;
    return exg_finder_set(f, node, made);
}

/* view(view(x)), as x is. */
static exg_status part_seen(exg_finder *f, const exg_node *node, const exg_operator *op,
                            bool *written)
{
    const exg_node *joins = exg_made_by(f, exg_operand(node, 0), EXG_OP_view_default);
    const exg_value_id x = exg_operand(joins, 0);
    rows_by_matrix of;

    if (op->id != EXG_OP_view_default || joins == NULL ||
        !exg_tensor_meta_same_shape(exg_meta_of(f, x),
                                    exg_meta_of(f, node->outputs[0].as_tensor)) ||
        (f->makers[x] != NULL &&
         find_product(f->makers[x], exg_operators_find(f->r.operators, f->makers[x]->target),
                      &of))) {
        return EXG_OK; /* rows of a product are parted otherwise */
    }
    *written = true;
    return exg_finder_set(f, node, f->r.refs[x]);
}

/* ---- products of several matrices ------------------------------------------------------------ */

/* Where the dims of a value lie in what it is an order of: one after the other, -1 where none is
 * of more than one element. */
static void find_order(const exg_finder *f, exg_value_id id, int32_t *place)
{
    const exg_node *node = id == EXG_NO_VALUE ? NULL : f->makers[id];
    const exg_tensor_meta *meta = exg_meta_of(f, id);
    int32_t at[EXG_SHAPE_RANK_MAX]; /* by dim of `id`: the dim of what is looked at */

    for (uint32_t d = 0; d < meta->rank; d++) {
        at[d] = meta->sizes[d].value == 1 ? -1 : (int32_t)d;
    }
    while (node != NULL) {
        const exg_operator *op = exg_operators_find(f->r.operators, node->target);
        exg_argument args[EXG_ARGUMENTS_MAX];
        int64_t order[EXG_SHAPE_RANK_MAX];
        exg_error err;

        if ((op->id != EXG_OP_permute_default && op->id != EXG_OP_unsqueeze_default) ||
            exg_operator_normalize(op, node, args, &err) != EXG_OK) {
            break;
        }
        uint32_t rank = op->id == EXG_OP_permute_default
                            ? exg_get_ints(&args[1], order, EXG_SHAPE_RANK_MAX)
                            : exg_meta_of(f, node->outputs[0].as_tensor)->rank;

        for (uint32_t d = 0; d < meta->rank; d++) {
            if (at[d] >= 0 && op->id == EXG_OP_permute_default) {
                at[d] = (int32_t)exg_rule_dim(order[at[d]], rank);
            } else if (at[d] >= 0) {
                at[d] -= at[d] > (int32_t)exg_rule_dim(exg_get_int(&args[1]), rank);
            }
        }
        id = args[0].as_tensor;
        node = f->makers[id];
    }
    memcpy(place, at, sizeof(at));
}

#define COLUMNS_MIN 8 /* of a product that is worth its own */

/* Matrices (experts, depth, columns) that are seen as (depth, experts, columns). */
typedef struct matrices {
    int64_t dims[EXG_SHAPE_RANK_MAX]; /* of what is seen: in the order in which it lies */
    uint32_t rank;
    int64_t count, depth, columns;
} matrices;

/* The last dims of `id` are one dim behind `depth`: do some of them lie before those of the depth?
 */
static bool find_matrices(const exg_finder *f, exg_value_id id, int64_t depth, matrices *m)
{
    const exg_tensor_meta *meta = exg_meta_of(f, id);
    int32_t place[EXG_SHAPE_RANK_MAX];
    int32_t first = EXG_SHAPE_RANK_MAX; /* of the depth */
    uint32_t deep = 0;
    uint32_t several;

    *m = (matrices){.count = 1, .depth = 1, .columns = 1, .rank = meta->rank};
    while (deep < meta->rank && m->depth < depth) {
        m->depth *= meta->sizes[deep++].value;
    }
    find_order(f, id, place);
    for (uint32_t d = 0; d < deep; d++) {
        first = place[d] >= 0 && place[d] < first ? place[d] : first;
    }
    for (several = deep; several < meta->rank && place[several] < first; several++) {
        m->count *= meta->sizes[several].value;
    }
    for (uint32_t d = several; d < meta->rank; d++) {
        m->columns *= meta->sizes[d].value;
    }
    for (uint32_t d = 0; d < meta->rank; d++) {
        m->dims[d] = d < several - deep ? d + deep : d < several ? d - (several - deep) : d;
    }
    return m->depth == depth && m->count > 1 && m->columns >= COLUMNS_MIN;
}

/* view(bmm(x, view(clone(order of matrices)))), in which all matrices are one. */
static exg_status part_matrices(exg_finder *f, const exg_node *node, const exg_operator *op,
                                bool *written)
{
    exg_builder *b = f->r.builder;
    const exg_node *product = exg_made_by(f, exg_operand(node, 0), EXG_OP_bmm_default);
    const exg_node *joins = exg_made_by(f, exg_operand(product, 1), EXG_OP_view_default);
    const exg_node *copy = exg_made_by(f, exg_operand(joins, 0), EXG_OP_clone_default);
    const exg_tensor_meta *x;
    int64_t sizes[EXG_SHAPE_RANK_MAX];
    exg_dims result;
    matrices m;
    exg_ref rows;
    exg_ref made;

    if (op->id != EXG_OP_view_default || copy == NULL || f->uses[exg_operand(node, 0)] != 1) {
        return EXG_OK;
    }
    x = exg_meta_of(f, exg_operand(product, 0));
    if (x->sizes[0].value != 1 || !find_matrices(f, exg_operand(copy, 0), x->sizes[2].value, &m)) {
        return EXG_OK;
    }
    EXG_TRY(exg_dims_of(exg_meta_of(f, node->outputs[0].as_tensor), &result, f->r.err));
    memcpy(sizes, (int64_t[]){m.count, x->sizes[1].value, m.depth}, 3 * sizeof(*sizes));
    rows = EMIT(b, expand_default, f->r.refs[exg_operand(product, 0)], INTS_OF(b, sizes, 3));
    made = EMIT(b, permute_default, f->r.refs[exg_operand(copy, 0)], INTS_OF(b, m.dims, m.rank));
    made = EMIT(b, reshape_default, made, INTS(b, m.count, m.depth, m.columns));
    exg_builder_set_origin(b, &product->metadata);
    exg_builder_next_names(b, &product->name, product->name != NULL);
    made = EMIT(b, bmm_default, rows, made);
    made = EMIT(b, permute_default, made, INTS(b, 1, 0, 2));
    made = EMIT(b, reshape_default, made, INTS_OF(b, result.n, result.rank));
    *written = true;
    return exg_finder_set(f, node, made);
}

/* What it sees may lie otherwise than it did. */
static exg_status keep_view(exg_finder *f, const exg_node *node, const exg_operator *op,
                            bool *written)
{
    exg_argument args[EXG_ARGUMENTS_MAX];

    if (op->id != EXG_OP_view_default) {
        return EXG_OK;
    }
    *written = true;
    EXG_TRY(exg_rewrite_args(&f->r, node, &op, args));
    return exg_rewrite_copy(&f->r, node, op, args);
}

static exg_status part_any(exg_finder *f, const exg_node *node, const exg_operator *op,
                           bool *written)
{
    static exg_finder_write *const parts[] = {part_view,     part_product, part_biased,
                                              part_matrices, part_seen,    keep_view};

    for (uint32_t k = 0; !*written && k < sizeof(parts) / sizeof(parts[0]); k++) {
        EXG_TRY(parts[k](f, node, op, written));
    }
    return EXG_OK;
}

exg_status exg_part_joined_views(const exg_program *functional, const exg_operators *operators,
                                 exg_program **parted, exg_error *err)
{
    return exg_find(functional, operators, part_any, parted, err);
}
