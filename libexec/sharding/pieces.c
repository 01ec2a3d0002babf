/* pieces.c - weights that ranks along an earlier mesh dim hold in pieces and gather when they read
 * them. Any piece of a weight is as good as another, so which one a rank holds is left open while
 * later dims are placed along: of what it needs there, however unevenly that is split.
 */
#include "libexec/comm/grid.h"
#include "libexec/sharding/partitioner.h"
#include "libexport/operators/lower.h"

#include <exg/emit.h>

#include <string.h>

/* What the largest of so many pieces of a dim is, over what each were if they were equal. */
static double unevenness(int64_t length, uint32_t pieces)
{
    int64_t offset;
    int64_t largest;

    exg_chunk(length, pieces, 0, &offset, &largest);
    return (double)largest * pieces / (double)length;
}

#define MUCH_MORE_EVEN 1.1

int32_t exg_dim_of_pieces(const exg_partitioner *p, const exg_tensor_meta *meta)
{
    uint32_t pieces = p->n;
    int32_t best = 0;

    for (uint32_t d = p->mesh_dim + 1; p->mesh != NULL && d < p->mesh->ndim; d++) {
        exg_partition_mode mode = p->placing[d].mode;

        pieces *= mode == EXG_PARTITION_TENSOR || mode == EXG_PARTITION_EXPERT ||
                          mode == EXG_PARTITION_FSDP
                      ? p->mesh->sizes[d]
                      : 1;
    }
    for (int32_t d = 1; d < (int32_t)meta->rank; d++) {
        if (meta->sizes[d].value > 1 && unevenness(meta->sizes[d].value, pieces) * MUCH_MORE_EVEN <
                                            unevenness(meta->sizes[best].value, pieces)) {
            best = d;
        }
    }
    return best;
}

/* What is known of the values of a program before it is placed. */
typedef struct finder {
    exg_partitioner *p;
    const exg_graph *graph;
    bool *is_weight;      /* by value: a weight, or a view of one */
    exg_value_id *source; /* by value: that it is a slice of, or the slice that it gathers */
    int64_t *dim, *first; /* by value: of that slice */
    uint32_t *made;       /* by value: the node that gives it */
    bool *is_read;        /* by value: by another node than a gather */
} finder;

static const exg_tensor_meta *meta_of(const finder *f, exg_value_id id)
{
    return f->graph->values[id].tensor;
}

/* The node's argument `at`, as it is written there. */
static int64_t int_at(const exg_node *node, uint32_t at)
{
    return at < node->input_count && node->inputs[at].arg.kind == EXG_ARGUMENT_INT
               ? node->inputs[at].arg.as_int
               : -1;
}

static exg_value_id first_operand(const exg_node *node)
{
    return node->input_count > 0 && node->inputs[0].arg.kind == EXG_ARGUMENT_TENSOR
               ? node->inputs[0].arg.as_tensor
               : EXG_NO_VALUE;
}

static void note_read(void *user, exg_value_id *id)
{
    bool *is_read = user;

    is_read[*id] = true;
}

/* Which rows a rank has is settled where they are looked up in its piece. */
static void find_readers(finder *f)
{
    for (uint32_t o = 0; o < f->graph->output_count; o++) {
        exg_argument_visit_values(&f->graph->outputs[o], note_read, f->is_read);
    }
    for (uint32_t i = 0; i < f->graph->node_count; i++) {
        const exg_node *node = &f->graph->nodes[i];
        const exg_operator *op = exg_operators_find(f->p->r.operators, node->target);

        for (uint32_t a = 0;
             (op == NULL || op->id != EXG_OP_exg_all_gather) && a < node->input_count; a++) {
            exg_argument_visit_values(&node->inputs[a].arg, note_read, f->is_read);
        }
    }
}

/* Is `piece` the rank's own of `of`, and `whole` all of it again? No rank has all: its piece would
 * be `of` itself. */
static bool is_piece(const finder *f, exg_value_id of, exg_value_id piece, exg_value_id whole,
                     uint32_t mesh_dim)
{
    const exg_tensor_meta *meta = meta_of(f, of);
    bool same = meta->rank == meta_of(f, whole)->rank;
    uint32_t ranks = f->p->mesh->sizes[mesh_dim];
    int64_t length = meta->sizes[f->dim[piece]].value;
    int64_t offset;
    int64_t largest;
    int64_t own;

    for (uint32_t d = 0; same && d < meta->rank; d++) {
        same = meta->sizes[d].value == meta_of(f, whole)->sizes[d].value;
    }
    exg_chunk(length, ranks, 0, &offset, &largest);
    exg_chunk(length, ranks, exg_mesh_shape_coordinate(f->p->mesh, f->p->mesh_rank, mesh_dim),
              &offset, &own);
    return same && largest < length && f->first[piece] == offset &&
           meta_of(f, piece)->sizes[f->dim[piece]].value == own;
}

/* Does it gather along an earlier mesh dim what is a piece of a weight, and read for nothing else?
 */
static exg_status note_gather(finder *f, uint32_t index, exg_value_id in, exg_value_id out)
{
    const exg_node *node = &f->graph->nodes[index];
    uint32_t mesh_dim = (uint32_t)int_at(node, node->input_count - 1);
    exg_value_id of = f->source[in];
    exg_gathered *g;

    if (of == EXG_NO_VALUE || (f->p->in_pieces >> mesh_dim & 1) == 0 || f->is_read[in] ||
        f->dim[in] != int_at(node, 1) || !is_piece(f, of, in, out, mesh_dim)) {
        return EXG_OK;
    }
    g = EXG_NEW(f->p->scratch, exg_gathered);
    if (g == NULL) {
        return EXG_OUT_OF_MEMORY(f->p->r.err);
    }
    *g = (exg_gathered){.of = of,
                        .dim = int_at(node, 1),
                        .mesh_dim = mesh_dim,
                        .inner = f->p->gathered[f->made[in]]};
    f->p->gathered[index] = g;
    f->p->is_left_out[index] = f->p->is_left_out[f->made[in]] = true;
    f->is_weight[out] = f->p->forms[out].is_weight = true;
    f->source[out] = f->source[of]; /* of a piece of a piece, gathered twice */
    f->dim[out] = f->dim[of];
    f->first[out] = f->first[of];
    return EXG_OK;
}

static exg_status take_node(finder *f, uint32_t index)
{
    const exg_node *node = &f->graph->nodes[index];
    const exg_operator *op = exg_operators_find(f->p->r.operators, node->target);
    exg_value_id in = first_operand(node);
    exg_value_id out = exg_result_of(node);

    if (op == NULL || in == EXG_NO_VALUE || out == EXG_NO_VALUE || !f->is_weight[in]) {
        return EXG_OK;
    }
    f->made[out] = index;
    f->is_weight[out] = op->view != NULL;
    if (op->id == EXG_OP_slice_Tensor) {
        f->source[out] = in;
        f->dim[out] = int_at(node, 1);
        f->first[out] = int_at(node, 2);
    }
    return op->id == EXG_OP_exg_all_gather ? note_gather(f, index, in, out) : EXG_OK;
}

exg_status exg_find_pieces(exg_partitioner *p)
{
    const exg_graph *graph = p->r.in->graph;
    uint32_t values = graph->value_count;
    finder f = {.p = p,
                .graph = graph,
                .is_weight = EXG_NEW_ARRAY(p->scratch, bool, values),
                .source = EXG_NEW_ARRAY(p->scratch, exg_value_id, values),
                .dim = EXG_NEW_ARRAY(p->scratch, int64_t, values),
                .first = EXG_NEW_ARRAY(p->scratch, int64_t, values),
                .made = EXG_NEW_ARRAY(p->scratch, uint32_t, values),
                .is_read = EXG_NEW_ARRAY(p->scratch, bool, values)};

    p->gathered = EXG_NEW_ARRAY(p->scratch, const exg_gathered *, graph->node_count);
    p->is_left_out = EXG_NEW_ARRAY(p->scratch, bool, graph->node_count);
    if (f.is_weight == NULL || f.source == NULL || f.dim == NULL || f.made == NULL ||
        f.first == NULL || f.is_read == NULL || p->gathered == NULL || p->is_left_out == NULL) {
        return EXG_OUT_OF_MEMORY(p->r.err);
    }
    for (uint32_t v = 0; v < values; v++) {
        f.is_weight[v] = p->forms[v].is_weight;
        f.source[v] = EXG_NO_VALUE;
    }
    find_readers(&f);
    for (uint32_t i = 0; p->mesh != NULL && i < graph->node_count; i++) {
        EXG_TRY(take_node(&f, i));
    }
    return EXG_OK;
}

/* A gather of pieces: it is emitted where it is read, of what is read. */
void exg_take_gathered(exg_partitioner *p, uint32_t index)
{
    const exg_gathered *g = p->gathered[index];

    if (g != NULL) {
        exg_forms *f = &p->forms[exg_result_of(&p->r.in->graph->nodes[index])];

        *f = p->forms[g->of];
        f->gathered = g;
    }
}

static bool is_slice(const exg_node_call *n)
{
    return n->call.op->id == EXG_OP_slice_Tensor;
}

/* A view of a weight in pieces is one of the whole, of which pieces are read; not where other
 * pieces are to be gathered first, along a dim that the view may not have. */
static exg_status view_whole(exg_partitioner *p, exg_node_call *n)
{
    const exg_forms *of = n->call.op->view != NULL && n->operands[0] != EXG_NO_VALUE
                              ? &p->forms[n->operands[0]]
                              : NULL;
    exg_argument results[EXG_RESULTS_MAX];

    if (of == NULL || !of->has_whole || (!of->in_pieces && !is_slice(n)) ||
        (of->gathered != NULL && !is_slice(n)) || n->call.operand_count != 1 ||
        n->call.result_count != 1) {
        return EXG_OK;
    }
    EXG_TRY(exg_node_call_replace(n, p->r.out->arena, &of->whole));
    EXG_TRY(exg_emit_all(p->r.builder, n->call.op->id, n->args, n->call.op->schema->argument_count,
                         results));
    p->forms[n->results[0]].has_whole = true;
    p->forms[n->results[0]].whole = exg_get_ref(&results[0]);
    return exg_builder_status(p->r.builder);
}

/* A view of a weight in pieces is cut itself, into pieces that lie as the weight's do; some of a
 * weight into pieces of its own, where it is none of those: the weight need not be made whole for
 * it. */
static bool is_cut_anew(const exg_partitioner *p, const exg_node_call *n,
                        const exg_strategy *strategy, exg_placement *placement)
{
    const exg_forms *of = &p->forms[n->operands[0]];
    bool is_there = false;

    if (!p->forms[n->results[0]].has_whole) {
        return false;
    }
    if (of->split_before != 0) {
        *placement = of->items[0].placement;
        return true;
    }
    for (uint32_t i = 0; i < of->count; i++) {
        is_there = is_there || exg_same_place(of->items[i].placement, strategy->operands[0]);
    }
    *placement = is_there ? strategy->results[0] : exg_shard(0);
    return is_there ? placement->kind == EXG_SHARD
                    : of->in_pieces && is_slice(n) && n->call.results[0]->sizes[0].value > 1;
}

static void cut_anew(exg_partitioner *p, const exg_node_call *n, exg_placement placement)
{
    exg_forms *f = &p->forms[n->results[0]];

    exg_add_form(p, n->results[0], placement,
                 exg_cut_chunk(p, f->whole, n->call.results[0], placement));
    f->is_weight = p->forms[n->operands[0]].is_weight;
    f->in_pieces = p->forms[n->operands[0]].in_pieces;
    f->gathered = p->forms[n->operands[0]].gathered;
    if (is_slice(n) &&
        exg_get_int(&n->args[1]) != placement.dim) { /* the part along that dim comes behind it */
        f->split_before = p->forms[n->operands[0]].split_before;
    }
}

exg_status exg_view_pieces(exg_partitioner *p, exg_node_call *n, const exg_strategy *strategy,
                           bool *is_placed)
{
    exg_placement placement;

    EXG_TRY(view_whole(p, n));
    *is_placed = n->call.result_count == 1 && is_cut_anew(p, n, strategy, &placement);
    if (*is_placed) {
        cut_anew(p, n, placement);
    }
    return EXG_OK;
}
