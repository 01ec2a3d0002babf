/* gathered_product.c - a product by matrices that an index picks from many reads them where they
 * are:
 *
 *   bmm(x, w[i]),   w (g, k, n), i (b): also of several dims, and of w turned
 *
 * As it stands a matrix is copied for each that is multiplied by it: one an expert and token.
 */
#include "libexport/transform/gathered_product.h"
#include "libexport/transform/finder.h"
#include "libexport/transform/simplify.h"

#include <exg/emit.h>
#include <exg/operator_id_new.h>

#define DEEP 6 /* views between the index and the product */

typedef struct gathered {
    exg_value_id from, index; /* matrices (g, ..); which ones */
    bool is_turned;           /* each is multiplied transposed */
    bool wraps;               /* negative indices count from the last */
} gathered;

static bool keeps_matrix(const exg_finder *f, exg_value_id from, exg_value_id to)
{
    const exg_tensor_meta *a = exg_meta_of(f, from);
    const exg_tensor_meta *b = exg_meta_of(f, to);
    int64_t of_a;
    int64_t of_b;

    return a->rank > 2 && b->rank > 2 && exg_tensor_meta_numel(a, &of_a) &&
           exg_tensor_meta_numel(b, &of_b) && of_a == of_b &&
           a->sizes[a->rank - 1].value == b->sizes[b->rank - 1].value &&
           a->sizes[a->rank - 2].value == b->sizes[b->rank - 2].value;
}

/* Does the permutation change the last two dims alone? */
static bool turns(const exg_argument *dims, uint32_t rank)
{
    int64_t order[EXG_SHAPE_RANK_MAX];
    bool is_so = rank > 2 && exg_get_ints(dims, order, EXG_SHAPE_RANK_MAX) == rank;

    for (uint32_t d = 0; is_so && d < rank; d++) {
        const int64_t from = order[d] < 0 ? order[d] + rank : order[d];

        is_so = from == (int64_t)(d < rank - 2 ? d : rank - 2 + (rank - 1 - d));
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
    *g = (gathered){.from = EXG_NO_VALUE};
    for (uint32_t deep = 0; deep < DEEP; deep++) {
        const exg_node *node = f->makers[id];
        const exg_operator *op =
            node == NULL ? NULL : exg_operators_find(f->r.operators, node->target);
        const exg_value_id from = exg_operand(node, 0);

        if (op == NULL || from == EXG_NO_VALUE) {
            return false;
        }
        if (op->id == EXG_OP_index_Tensor || op->id == EXG_OP_index_select_default) {
            return match_index(f, node, op->id, g);
        }
        if (op->id == EXG_OP_permute_default &&
            turns(&node->inputs[1].arg, exg_meta_of(f, id)->rank)) {
            g->is_turned = !g->is_turned;
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

static exg_status write(exg_finder *f, const exg_node *node, const exg_operator *op, bool *written)
{
    exg_builder *b = f->r.builder;
    gathered g;
    exg_ref matrices;

    *written = op->id == EXG_OP_bmm_default && match_gathered(f, exg_operand(node, 1), &g);
    if (!*written) {
        return EXG_OK;
    }
    matrices = f->r.refs[g.from];
    if (g.is_turned) {
        matrices = EMIT(b, permute_default, matrices, INTS(b, 0, 2, 1));
    }
    return exg_finder_set(f, node,
                          EMIT(b, gathered_product, f->r.refs[exg_operand(node, 0)], matrices,
                               EMIT(b, reshape_default, f->r.refs[g.index], INTS(b, -1)),
                               exg_arg_bool(g.wraps)));
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
