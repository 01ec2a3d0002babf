/* gathered_product.c - a product by matrices that an index picks from many reads them where they
 * are:
 *
 *   bmm(x, w[i]),   w (g, k, n), i (b): also of several dims, and of w turned
 *   the same of one row by several at once: w (g, n, k), i (b, parts), the picks as one matrix of
 *   parts * n columns
 *
 * As it stands a matrix is copied for each that is multiplied by it: one an expert and token.
 */
#include "libexport/transform/gathered_product.h"
#include "libexport/transform/finder.h"
#include "libexport/transform/simplify.h"

#include <exg/emit.h>
#include <exg/operator_id_new.h>

#define DEEP 8 /* views between the index and the product */

typedef struct gathered {
    exg_value_id from, index; /* matrices (g, ..); which ones */
    int64_t parts;            /* that are side by side in a matrix of the product */
    bool is_turned;           /* each is multiplied transposed */
    bool wraps;               /* negative indices count from the last */
} gathered;

static bool are_as_many(const exg_tensor_meta *a, const exg_tensor_meta *b)
{
    int64_t of_a;
    int64_t of_b;

    return exg_tensor_meta_numel(a, &of_a) && exg_tensor_meta_numel(b, &of_b) && of_a == of_b;
}

static bool keeps_matrix(const exg_finder *f, exg_value_id from, exg_value_id to)
{
    const exg_tensor_meta *a = exg_meta_of(f, from);
    const exg_tensor_meta *b = exg_meta_of(f, to);

    return a->rank > 2 && b->rank > 2 && are_as_many(a, b) &&
           a->sizes[a->rank - 1].value == b->sizes[b->rank - 1].value &&
           a->sizes[a->rank - 2].value == b->sizes[b->rank - 2].value;
}

/* A view that makes dims `at` and `at + 1` of (b, .., .., ..) one: how many there are of the first;
 * 1: it is another. */
static int64_t joined_at(const exg_finder *f, exg_value_id from, exg_value_id to, uint32_t at)
{
    const exg_tensor_meta *a = exg_meta_of(f, from);
    const exg_tensor_meta *b = exg_meta_of(f, to);
    bool is_so = a->rank == 4 && b->rank == 3 && are_as_many(a, b);

    for (uint32_t d = 0; is_so && d < 3; d++) {
        is_so = d == at || a->sizes[d < at ? d : d + 1].value == b->sizes[d].value;
    }
    return is_so ? a->sizes[at].value : 1;
}

/* Does the permutation bring the last dim before the `over` that come before it, and no more? */
static bool turns(const exg_argument *dims, uint32_t rank, uint32_t over)
{
    int64_t order[EXG_SHAPE_RANK_MAX];
    bool is_so = rank > over + 1 && exg_get_ints(dims, order, EXG_SHAPE_RANK_MAX) == rank;

    for (uint32_t d = 0; is_so && d < rank; d++) {
        const int64_t from = order[d] < 0 ? order[d] + rank : order[d];
        const uint32_t last = rank - 1 - over;

        is_so = from == (int64_t)(d < last ? d : d == last ? rank - 1 : d - 1);
    }
    return is_so;
}

/* Is it the node that picks the matrices? */
static bool match_index(const exg_finder *f, const exg_node *node, exg_operator_id op, gathered *g)
{
    const exg_argument *arg = &node->inputs[op == EXG_OP_index_Tensor ? 1 : 2].arg;
    double dim = 0;

    g->from = exg_operand(node, 0);
    if (op == EXG_OP_index_Tensor) {
        g->wraps = true;
        g->index = arg->count == 1 ? arg->as_tensors[0] : EXG_NO_VALUE;
    } else {
        g->index = node->input_count == 3 && exg_number_of(&node->inputs[1].arg, &dim) && dim == 0
                       ? exg_operand(node, 2)
                       : EXG_NO_VALUE;
    }
    return g->index != EXG_NO_VALUE && exg_meta_of(f, g->from)->rank == 3 &&
           exg_meta_of(f, g->index)->rank > 0 &&
           (exg_meta_of(f, g->index)->dtype == EXG_DTYPE_I64 ||
            exg_meta_of(f, g->index)->dtype == EXG_DTYPE_I32);
}

/* From the product's matrices back over views. */
static bool match_gathered(const exg_finder *f, exg_value_id id, gathered *g)
{
    bool are_columns = false; /* parts stand side by side, to be turned yet */

    *g = (gathered){.from = EXG_NO_VALUE, .parts = 1};
    for (uint32_t deep = 0; deep < DEEP; deep++) {
        const exg_node *node = f->makers[id];
        const exg_operator *op =
            node == NULL ? NULL : exg_operators_find(f->r.operators, node->target);
        const exg_value_id from = exg_operand(node, 0);
        int64_t parts = 1;

        if (op == NULL || from == EXG_NO_VALUE) {
            return false;
        }
        if (op->id == EXG_OP_view_default && g->parts == 1) {
            parts = joined_at(f, from, id, g->is_turned ? 1 : 2);
        }
        if (op->id == EXG_OP_index_Tensor || op->id == EXG_OP_index_select_default) {
            return !are_columns && match_index(f, node, op->id, g);
        }
        if (op->id == EXG_OP_permute_default &&
            turns(&node->inputs[1].arg, exg_meta_of(f, id)->rank, are_columns ? 2 : 1)) {
            g->is_turned = !g->is_turned;
            are_columns = false;
        } else if (parts > 1) {
            g->parts = parts;
            are_columns = !g->is_turned;
        } else if ((op->id != EXG_OP_view_default && op->id != EXG_OP_clone_default &&
                    op->id != EXG_OP_expand_default && op->id != EXG_OP_unsqueeze_default &&
                    op->id != EXG_OP_squeeze_dims && op->id != EXG_OP_alias_default) ||
                   !keeps_matrix(f, from, id)) {
            return false;
        }
        id = from;
    }
    return false;
}

/* Is there an index for each product, or part of one, and is each matrix as deep as rows of self
 * are long? Views of as many elements need not keep that. */
static bool fits(const exg_tensor_meta *self, const gathered *g, const exg_tensor_meta *from,
                 const exg_tensor_meta *index)
{
    int64_t picks;

    return exg_tensor_meta_numel(index, &picks) && picks == self->sizes[0].value * g->parts &&
           from->sizes[g->is_turned ? 2 : 1].value == self->sizes[2].value &&
           (g->parts == 1 || self->sizes[1].value == 1);
}

/* Of one row by parts of a matrix: a row for each. */
static exg_ref rows_for_parts(exg_builder *b, exg_ref self, const exg_tensor_meta *meta,
                              int64_t parts)
{
    const int64_t batch = meta->sizes[0].value;
    const int64_t depth = meta->sizes[2].value;

    return EMIT(b, reshape_default, EMIT(b, expand_default, self, INTS(b, batch, parts, depth)),
                INTS(b, batch * parts, 1, depth));
}

static exg_status write(exg_finder *f, const exg_node *node, const exg_operator *op, bool *written)
{
    exg_builder *b = f->r.builder;
    const exg_value_id self = exg_operand(node, 0);
    exg_ref matrices;
    exg_ref made;
    gathered g;

    *written = op->id == EXG_OP_bmm_default && match_gathered(f, exg_operand(node, 1), &g) &&
               fits(exg_meta_of(f, self), &g, exg_meta_of(f, g.from), exg_meta_of(f, g.index));
    if (!*written) {
        return EXG_OK;
    }
    matrices = f->r.refs[g.from];
    if (g.is_turned) {
        matrices = EMIT(b, permute_default, matrices, INTS(b, 0, 2, 1));
    }
    made = f->r.refs[self];
    if (g.parts > 1) {
        made = rows_for_parts(b, made, exg_meta_of(f, self), g.parts);
    }
    made = EMIT(b, gathered_product, made, matrices,
                EMIT(b, reshape_default, f->r.refs[g.index], INTS(b, -1)), exg_arg_bool(g.wraps));
    if (g.parts > 1) {
        made = EMIT(b, reshape_default, made, INTS(b, exg_meta_of(f, self)->sizes[0].value, 1, -1));
    }
    return exg_finder_set(f, node, made);
}

/* Is there a product of batches, and an index? */
static bool may_have(const exg_program *program, const exg_operators *operators)
{
    bool has_product = false;
    bool has_index = false;

    for (uint32_t n = 0; n < program->graph->node_count; n++) {
        const exg_operator *op = exg_operators_find(operators, program->graph->nodes[n].target);
        const exg_operator_id id = op == NULL ? EXG_OP_NONE : op->id;

        has_product = has_product || id == EXG_OP_bmm_default;
        has_index = has_index || id == EXG_OP_index_Tensor || id == EXG_OP_index_select_default;
    }
    return has_product && has_index;
}

exg_status exg_find_gathered_products(const exg_program *functional, const exg_operators *operators,
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
