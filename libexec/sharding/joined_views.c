/* joined_views.c - dims that a view joins and a later view parts again, with nothing between but an
 * order of dims: batch and heads, as torch.nn.MultiheadAttention writes them. A part of the heads
 * is no part of what both are joined to. So they are left apart: the first view parts all that the
 * second one will, and the order is one of those dims.
 */
#include "libexec/sharding/partitioner.h"
#include "libexport/operators/lower.h"
#include "libexport/transform/finder.h"

#include <exg/emit.h>

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
    exg_builder_next_names(b, &node->name, node->name != NULL);
    x = EMIT(b, permute_default, x, INTS_OF(b, parts, count));
    *written = true;
    return exg_finder_set(f, node, x);
}

exg_status exg_part_joined_views(const exg_program *functional, const exg_operators *operators,
                                 exg_program **parted, exg_error *err)
{
    return exg_find(functional, operators, part_view, parted, err);
}
