/* weight_product.c - a product by a weight that is dequantized for it is one by the weight as it is
 * stored:
 *
 *   x (w transposed) + bias,   w = (cast(q) - zero) * scale + offset
 *
 * q is of int8, uint8 or float8; zero, scale and offset are numbers, or tensors with an element a
 * row of w and group of its columns, or less. Each may be missing. However the sizes of q are cut
 * into groups and its dims are ordered on the way, the views are followed from w back to q.
 *
 * q may itself be computed: of two numbers in a byte, say, put side by side. What its elements can
 * be tells how many bits they take, whatever the order they are stored in: 16 values are half a
 * byte, which the kernel's packer makes of them, once.
 */
#include "libexport/transform/weight_product.h"
#include "libexport/operators/lower.h"
#include "libexport/transform/finder.h"
#include "libexport/transform/simplify.h"

#include <exg/operator_id_new.h>
#include <string.h>

#define GROUPS_MAX  4096 /* of a row */
#define GROUP_MIN   16   /* columns: fewer are better multiplied out */
#define DEEP        48   /* nodes between a byte that is stored and its number */
#define NARROW_DEEP 8    /* views of a factor that was made wider */
#define STRETCH     16   /* elements of a group of half bytes are whole ones of these */

/* ---- views ---------------------------------------------------------------------------------- */

/* What a dim goes along: rows of w, or its columns; `step` of those apart. */
typedef struct axis {
    bool is_row;
    int64_t size, step;
} axis;

typedef struct axes {
    uint32_t rank;
    axis of[EXG_SHAPE_RANK_MAX];
} axes;

/* Puts the next `size` elements along one dim, of *left ones of in->of[*at] and those that go on
 * after it; false where they do not lie along one. */
static bool take_axis(const axes *in, uint32_t *at, int64_t *left, int64_t size, axis *taken)
{
    int64_t have = 1;
    axis last = {0};

    while (have < size) {
        axis next;

        while (*left == 1) {
            if (++*at >= in->rank) {
                return false;
            }
            *left = in->of[*at].size;
        }
        next = in->of[*at];
        if (have > 1 && (next.is_row != last.is_row || *left != next.size ||
                         next.step * next.size != last.step)) {
            return false;
        }
        last = next;
        if (size % have == 0 && *left % (size / have) == 0) { /* a part of it, or all */
            *left /= size / have;
            last.step *= *left;
            have = size;
        } else if (size % (have * *left) == 0) {
            have *= *left;
            *left = 1;
        } else {
            return false;
        }
    }
    *taken = (axis){last.is_row, size, last.step};
    return true;
}

/* The same elements in other sizes. */
static bool regroup(axes *a, const exg_tensor_meta *to)
{
    axes made = {.rank = to->rank};
    uint32_t at = 0;
    int64_t left = a->rank == 0 ? 1 : a->of[0].size;

    if (to->rank > EXG_SHAPE_RANK_MAX) {
        return false;
    }
    for (uint32_t d = 0; d < to->rank; d++) {
        if (!take_axis(a, &at, &left, to->sizes[d].value, &made.of[d])) {
            return false;
        }
    }
    *a = made;
    return true;
}

static bool permute(axes *a, const exg_argument *dims)
{
    axes made = {.rank = a->rank};
    int64_t order[EXG_SHAPE_RANK_MAX];

    if (exg_get_ints(dims, order, EXG_SHAPE_RANK_MAX) != a->rank) {
        return false;
    }
    for (uint32_t d = 0; d < a->rank; d++) {
        made.of[order[d] < 0 ? order[d] + a->rank : order[d]] = a->of[d];
    }
    *a = made;
    return true;
}

static bool is_before(const axis *a, const axis *b)
{
    return a->is_row != b->is_row ? a->is_row : a->step > b->step;
}

/* The dims in order: those of size 1, then rows, then columns, each from the longest step on.
 * False: they are in order as they stand. */
static bool order_of(const axes *a, int64_t *order)
{
    uint32_t count = 0;
    uint32_t first;
    bool moves = false;

    for (uint32_t d = 0; d < a->rank; d++) {
        if (a->of[d].size == 1) {
            order[count++] = d;
        }
    }
    first = count;
    for (uint32_t d = 0; d < a->rank; d++) {
        uint32_t at = count;

        if (a->of[d].size == 1) {
            continue;
        }
        for (; at > first && is_before(&a->of[d], &a->of[order[at - 1]]); at--) {
            order[at] = order[at - 1];
            moves = true;
        }
        order[at] = d;
        count++;
    }
    return moves;
}

/* ---- what is stored ------------------------------------------------------------------------- */

typedef struct range {
    int64_t low, high;
} range;

static bool range_of(const exg_finder *f, exg_value_id id, uint32_t depth, range *r);

static bool range_of_all(const exg_finder *f, const exg_argument *list, uint32_t depth, range *r)
{
    *r = (range){INT64_MAX, INT64_MIN};
    for (uint32_t i = 0; i < list->count; i++) {
        range one;

        if (!range_of(f, list->as_tensors[i], depth, &one)) {
            return false;
        }
        r->low = one.low < r->low ? one.low : r->low;
        r->high = one.high > r->high ? one.high : r->high;
    }
    return list->count > 0;
}

/* Of what `op` makes of integers of `in` and a number. */
static bool range_of_result(exg_operator_id op, const exg_argument *arg, range in, range *r)
{
    const int64_t number = arg->kind == EXG_ARGUMENT_INT ? arg->as_int : -1;

    if (op == EXG_OP_bitwise_and_Scalar && number >= 0) {
        *r = (range){0, in.low >= 0 && in.high < number ? in.high : number};
        return true;
    }
    if (op == EXG_OP_bitwise_right_shift_Tensor_Scalar && number >= 0 && number < 8) {
        *r = (range){in.low >> number, in.high >> number};
        return true;
    }
    if (arg->kind == EXG_ARGUMENT_INT && (op == EXG_OP_sub_Scalar || op == EXG_OP_add_Scalar ||
                                          op == EXG_OP_sub_Tensor || op == EXG_OP_add_Tensor)) {
        const bool adds = op == EXG_OP_add_Scalar || op == EXG_OP_add_Tensor;

        *r = (range){in.low + (adds ? number : -number), in.high + (adds ? number : -number)};
        return number > -256 && number < 256;
    }
    return false;
}

/* The numbers a tensor of bytes may hold: those of its dtype, or fewer. */
static bool range_of(const exg_finder *f, exg_value_id id, uint32_t depth, range *r)
{
    const exg_tensor_meta *meta = exg_meta_of(f, id);
    const exg_node *node = f->makers[id];
    const exg_operator *op = node == NULL ? NULL : exg_operators_find(f->r.operators, node->target);
    range of_dtype = {0, 255};
    range in;

    if (meta->dtype != EXG_DTYPE_U8 && meta->dtype != EXG_DTYPE_I8) {
        return false;
    }
    if (meta->dtype == EXG_DTYPE_I8) {
        of_dtype = (range){-128, 127};
    }
    *r = of_dtype;
    if (op == NULL || depth == 0 || node->input_count == 0) {
        return true;
    }
    if (op->id == EXG_OP_cat_default) {
        return range_of_all(f, &node->inputs[0].arg, depth - 1, r);
    }
    if (exg_operand(node, 0) == EXG_NO_VALUE ||
        !range_of(f, exg_operand(node, 0), depth - 1, &in)) {
        return true;
    }
    if ((op->view != NULL && op->id != EXG_OP_view_dtype) || op->id == EXG_OP_clone_default ||
        op->id == EXG_OP__to_copy_default) {
        *r = in;
    } else if (node->input_count < 2 || !range_of_result(op->id, &node->inputs[1].arg, in, r)) {
        *r = of_dtype;
    }
    if (r->low < of_dtype.low || r->high > of_dtype.high) { /* it wraps */
        *r = of_dtype;
    }
    return true;
}

/* ---- the pattern ---------------------------------------------------------------------------- */

/* A number, or a tensor that is spread over a weight's elements. */
typedef struct factor {
    bool is_given;
    double number; /* where value is EXG_NO_VALUE */
    exg_value_id value;
    axes among; /* the dims of what it is spread over */
} factor;

typedef struct weight {
    axes dims; /* of q */
    exg_value_id q;
    factor zero, scale, offset;
    int64_t rows, depth, groups;
} weight;

/* x w, and what is added. */
typedef struct product {
    exg_value_id x, of;
    const exg_argument *bias;
    weight w;
} product;

static bool is_stored(exg_dtype dtype)
{
    return dtype == EXG_DTYPE_I8 || dtype == EXG_DTYPE_U8 || dtype == EXG_DTYPE_F8E4M3FN;
}

static bool is_real(exg_dtype dtype)
{
    return dtype == EXG_DTYPE_F32 || dtype == EXG_DTYPE_BF16 || dtype == EXG_DTYPE_F16;
}

static int64_t numel(const exg_finder *f, exg_value_id id)
{
    int64_t count = 0;

    return exg_tensor_meta_numel(exg_meta_of(f, id), &count) ? count : 0;
}

/* The other operand of a node whose operand 0 has the result's elements. */
static bool factor_of(const exg_finder *f, const exg_node *node, const axes *dims, factor *made)
{
    const exg_argument *arg = &node->inputs[1].arg;
    double alpha = 1;
    const exg_node *full;

    if (made->is_given ||
        (node->input_count > 2 && (!exg_number_of(&node->inputs[2].arg, &alpha) || alpha != 1))) {
        return false;
    }
    *made = (factor){.is_given = true, .value = EXG_NO_VALUE, .among = *dims};
    if (exg_number_of(arg, &made->number)) {
        return true;
    }
    made->value = exg_operand(node, 1);
    full = exg_made_by(f, made->value, EXG_OP_full_default);
    if (full != NULL && full->input_count > 1 &&
        exg_number_of(&full->inputs[1].arg, &made->number)) {
        made->value = EXG_NO_VALUE;
        return true;
    }
    return made->value != EXG_NO_VALUE && is_real(exg_meta_of(f, made->value)->dtype);
}

/* A number that is added where nothing is multiplied, or before that, is a zero point. */
static bool step_over_sum(const exg_finder *f, const exg_node *node, bool subtracts, weight *w)
{
    factor made = {0};

    if (w->zero.is_given || !factor_of(f, node, &w->dims, &made)) {
        return false;
    }
    if (made.value == EXG_NO_VALUE) {
        made.number = subtracts ? made.number : -made.number;
        w->zero = made;
        return w->scale.is_given || !w->offset.is_given;
    }
    if (subtracts) {
        w->zero = made;
        return w->scale.is_given || !w->offset.is_given;
    }
    if (w->scale.is_given || w->offset.is_given) {
        return false;
    }
    w->offset = made;
    return true;
}

/* Goes back over one node that computes; false where it is none of a weight's. */
static bool step_back(const exg_finder *f, const exg_node *node, exg_operator_id op, weight *w)
{
    switch (op) {
    case EXG_OP_mul_Tensor:
    case EXG_OP_mul_Scalar:
        return !w->zero.is_given && factor_of(f, node, &w->dims, &w->scale);
    case EXG_OP_add_Tensor:
    case EXG_OP_add_Scalar:
        return step_over_sum(f, node, false, w);
    case EXG_OP_sub_Tensor:
    case EXG_OP_sub_Scalar:
        return step_over_sum(f, node, true, w);
    default:
        return false;
    }
}

/* From the dims of a view's result to those of its operand; false: it is no view, or one that they
 * cannot follow. */
static bool follow_view(const exg_operator *op, const exg_node *node, const exg_tensor_meta *meta,
                        axes *dims)
{
    axes before = *dims;
    bool followed = op->id == EXG_OP_clone_default || op->id == EXG_OP_alias_default;

    if (op->id == EXG_OP_permute_default) {
        followed = permute(&before, &node->inputs[1].arg);
    } else if (op->id == EXG_OP_view_default || op->id == EXG_OP_unsqueeze_default ||
               op->id == EXG_OP_squeeze_dims) {
        followed = regroup(&before, meta);
    }
    if (followed) {
        *dims = before;
    }
    return followed;
}

/* From w, whose dims are known, to q, and on to what q is a view of. */
static bool match_weight(const exg_finder *f, exg_value_id id, weight *w)
{
    w->q = EXG_NO_VALUE;
    for (uint32_t deep = 0; deep < DEEP; deep++) {
        const exg_node *node = f->makers[id];
        const exg_operator *op =
            node == NULL ? NULL : exg_operators_find(f->r.operators, node->target);
        exg_value_id from = exg_operand(node, 0);
        const exg_tensor_meta *meta = from == EXG_NO_VALUE ? NULL : exg_meta_of(f, from);
        bool follows =
            op != NULL && meta != NULL && numel(f, from) == numel(f, id) &&
            (follow_view(op, node, meta, &w->dims) ||
             (w->q == EXG_NO_VALUE &&
              (op->id == EXG_OP__to_copy_default ||
               (is_real(meta->dtype) && node->input_count > 1 && step_back(f, node, op->id, w)))));

        if (!follows || (!is_real(meta->dtype) && !is_stored(meta->dtype))) {
            break;
        }
        w->q = is_stored(meta->dtype) ? from : EXG_NO_VALUE;
        id = from;
    }
    return w->q != EXG_NO_VALUE;
}

/* How many groups of a row a factor tells apart; 0: it is not by groups. */
static int64_t groups_of(const exg_finder *f, const factor *x, int64_t rows)
{
    const exg_tensor_meta *meta = x->value == EXG_NO_VALUE ? NULL : exg_meta_of(f, x->value);
    int64_t groups = 1;
    int64_t covered = 1;
    int64_t least = INT64_MAX;
    const uint32_t missing = meta == NULL ? 0 : x->among.rank - meta->rank;

    if (meta == NULL) {
        return 1;
    }
    if (meta->rank > x->among.rank) {
        return 0;
    }
    for (uint32_t d = 0; d < meta->rank; d++) {
        const axis *a = &x->among.of[missing + d];

        if (meta->sizes[d].value == 1 || a->size == 1) {
            continue;
        }
        if (meta->sizes[d].value != a->size) {
            return 0;
        }
        groups *= a->is_row ? 1 : a->size;
        covered *= a->is_row ? a->size : 1;
        least = !a->is_row && a->step < least ? a->step : least;
    }
    for (uint32_t d = 0; d < x->among.rank; d++) { /* all that are as far apart as a group is */
        const axis *a = &x->among.of[d];
        bool is_spread = d < missing || meta->sizes[d - missing].value == 1;

        if (a->size > 1 && !a->is_row && is_spread != (a->step < least)) {
            return 0;
        }
    }
    return covered == 1 || covered == rows ? groups : 0;
}

static bool fits(const exg_finder *f, weight *w)
{
    const factor *all[] = {&w->zero, &w->scale, &w->offset};

    w->groups = 1;
    for (uint32_t i = 0; i < 3; i++) {
        int64_t groups = all[i]->is_given ? groups_of(f, all[i], w->rows) : 1;

        if (groups == 0 || (groups > 1 && w->groups > 1 && groups != w->groups)) {
            return false;
        }
        w->groups = groups > 1 ? groups : w->groups;
    }
    return w->groups == 1 || (w->groups <= GROUPS_MAX && w->depth / w->groups >= GROUP_MIN);
}

/* ---- writing -------------------------------------------------------------------------------- */

/* A tensor whose dims go along `a`, as (rows, columns). */
static exg_ref in_order(exg_builder *b, exg_ref x, const axes *a, int64_t rows, int64_t columns)
{
    int64_t order[EXG_SHAPE_RANK_MAX];

    if (order_of(a, order)) {
        x = EMIT(b, permute_default, x, INTS_OF(b, order, a->rank));
        x = exg_lower_row_major(b, x);
    }
    return EMIT(b, reshape_default, x, INTS(b, rows, columns));
}

/* A value as it is before it was made wider: views of a narrower one. */
static exg_ref narrow(exg_finder *f, exg_value_id id, uint32_t depth)
{
    const exg_node *node = f->makers[id];
    const exg_operator *op = node == NULL ? NULL : exg_operators_find(f->r.operators, node->target);
    exg_value_id from = exg_operand(node, 0);
    exg_argument args[EXG_ARGUMENTS_MAX];
    exg_ref of;

    if (op == NULL || from == EXG_NO_VALUE || depth == 0) {
        return f->r.refs[id];
    }
    if (op->id == EXG_OP__to_copy_default) {
        return is_real(exg_meta_of(f, from)->dtype) && exg_meta_of(f, id)->dtype == EXG_DTYPE_F32
                   ? f->r.refs[from]
                   : f->r.refs[id];
    }
    if (op->view == NULL) {
        return f->r.refs[id];
    }
    of = narrow(f, from, depth - 1);
    if (of.id == f->r.refs[from].id || exg_operator_normalize(op, node, args, f->r.err) != EXG_OK) {
        return f->r.refs[id];
    }
    args[0] = exg_arg_ref(of);
    return exg_emit(f->r.builder, op->id, args, op->schema->argument_count);
}

/* A factor as (rows or 1, groups or 1); none for a number. */
static exg_argument spread(exg_finder *f, const weight *w, const factor *x)
{
    exg_builder *b = f->r.builder;
    const exg_tensor_meta *meta = x->value == EXG_NO_VALUE ? NULL : exg_meta_of(f, x->value);
    axes own = x->among;
    int64_t sizes[EXG_SHAPE_RANK_MAX];
    int64_t rows = 1;
    exg_ref ref;

    if (!x->is_given || meta == NULL) {
        return exg_arg_none();
    }
    for (uint32_t d = 0; d < own.rank; d++) {
        uint32_t missing = own.rank - meta->rank;

        sizes[d] = d < missing ? 1 : meta->sizes[d - missing].value;
        own.of[d].size = sizes[d];
        rows *= own.of[d].is_row ? sizes[d] : 1;
    }
    ref = narrow(f, x->value, NARROW_DEEP);
    ref = EMIT(b, reshape_default, ref, INTS_OF(b, sizes, own.rank));
    return exg_arg_ref(in_order(b, ref, &own, rows, groups_of(f, x, w->rows)));
}

/* The rows, before they were made wider for the product. */
static exg_ref rows_of(const exg_finder *f, exg_value_id id)
{
    exg_value_id from = exg_operand(exg_made_by(f, id, EXG_OP__to_copy_default), 0);

    return f->r.refs[from != EXG_NO_VALUE && exg_meta_of(f, id)->dtype == EXG_DTYPE_F32 &&
                             is_real(exg_meta_of(f, from)->dtype)
                         ? from
                         : id];
}

static exg_argument number_of(const factor *x, double otherwise)
{
    return exg_arg_float(x->is_given && x->value == EXG_NO_VALUE ? x->number : otherwise);
}

static exg_status write_product(exg_finder *f, const exg_node *node, const product *p)
{
    const weight *w = &p->w;
    exg_builder *b = f->r.builder;
    exg_argument args[11];
    range r;
    bool is_half;

    is_half = range_of(f, w->q, DEEP, &r) && r.high - r.low < 16 &&
              (w->groups == 1 || w->depth / w->groups % STRETCH == 0);
    args[0] = exg_arg_ref(rows_of(f, p->x));
    args[1] = exg_arg_ref(in_order(b, f->r.refs[w->q], &w->dims, w->rows, w->depth));
    args[2] = spread(f, w, &w->scale);
    args[3] = spread(f, w, &w->zero);
    args[4] = spread(f, w, &w->offset);
    args[5] = p->bias == NULL ? exg_arg_none() : exg_arg_ref(f->r.refs[p->bias->as_tensor]);
    args[6] = number_of(&w->scale, 1);
    args[7] = number_of(&w->zero, 0);
    args[8] = is_half ? exg_arg_int(r.low) : exg_arg_none();
    args[9] = DTYPE(exg_meta_of(f, p->of)->dtype);
    args[10] = DTYPE(exg_meta_of(f, node->outputs[0].as_tensor)->dtype);
    return exg_finder_set(f, node, exg_emit(b, EXG_OP_weight_product, args, 11));
}

/* Is the added tensor one element a column, times 1? */
static bool match_bias(const exg_finder *f, const exg_node *node, bool is_linear, int64_t columns,
                       const exg_argument **bias)
{
    const uint32_t at = is_linear ? 2 : 0;
    double one;

    *bias = NULL;
    if (is_linear && (node->input_count < 3 || exg_operand(node, 2) == EXG_NO_VALUE)) {
        return true;
    }
    *bias = &node->inputs[at].arg;
    for (uint32_t i = 3; i < node->input_count; i++) { /* beta, alpha */
        if (!exg_number_of(&node->inputs[i].arg, &one) || one != 1) {
            return false;
        }
    }
    return exg_operand(node, at) != EXG_NO_VALUE &&
           exg_meta_of(f, exg_operand(node, at))->rank == 1 &&
           exg_meta_of(f, exg_operand(node, at))->sizes[0].value == columns;
}

static bool match(const exg_finder *f, const exg_node *node, exg_operator_id op, product *p)
{
    const bool is_linear = op == EXG_OP_linear_default;
    const uint32_t first = op == EXG_OP_addmm_default ? 1 : 0;
    weight *w = &p->w;
    const exg_tensor_meta *meta;

    *p = (product){.x = exg_operand(node, first), .of = exg_operand(node, first + 1)};
    w->q = EXG_NO_VALUE;
    if (p->x == EXG_NO_VALUE || p->of == EXG_NO_VALUE || !is_real(exg_meta_of(f, p->x)->dtype) ||
        exg_meta_of(f, p->of)->rank != 2 || numel(f, p->of) == 0 || numel(f, p->x) == 0) {
        return false;
    }
    meta = exg_meta_of(f, p->of);
    w->rows = meta->sizes[is_linear ? 0 : 1].value;
    w->depth = meta->sizes[is_linear ? 1 : 0].value;
    w->dims.rank = 2;
    w->dims.of[0] = (axis){is_linear, meta->sizes[0].value, 1};
    w->dims.of[1] = (axis){!is_linear, meta->sizes[1].value, 1};
    return match_weight(f, p->of, w) && fits(f, w) &&
           (op == EXG_OP_mm_default || match_bias(f, node, is_linear, w->rows, &p->bias));
}

static exg_status write(exg_finder *f, const exg_node *node, const exg_operator *op, bool *written)
{
    product p;

    *written = (op->id == EXG_OP_linear_default || op->id == EXG_OP_mm_default ||
                op->id == EXG_OP_addmm_default) &&
               match(f, node, op->id, &p);
    return *written ? write_product(f, node, &p) : EXG_OK;
}

/* Is there a cast of what weights are stored in? Most programs have none. */
static bool may_have(const exg_program *program, const exg_operators *operators)
{
    const char *cast = exg_operators_get(operators, EXG_OP__to_copy_default)->target;
    const exg_graph *graph = program->graph;
    bool found = false;

    for (uint32_t n = 0; n < graph->node_count && !found; n++) {
        const exg_node *node = &graph->nodes[n];
        exg_value_id from = exg_operand(node, 0);

        found = strcmp(node->target, cast) == 0 && from != EXG_NO_VALUE &&
                is_stored(graph->values[from].tensor->dtype) &&
                graph->values[from].tensor->rank >= 2;
    }
    return found;
}

exg_status exg_find_weight_products(const exg_program *functional, const exg_operators *operators,
                                    exg_program **out, exg_error *err)
{
    exg_program *found = NULL;
    exg_status status;

    *out = NULL;
    if (!may_have(functional, operators)) {
        return EXG_OK;
    }
    EXG_TRY(exg_find(functional, operators, write, &found, err));
    status = exg_drop_dead(found, operators, out, err);
    exg_program_destroy(found);
    return status;
}
