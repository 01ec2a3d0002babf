/* fused_products.c - products with several matrices that were made one, and whose result is only
 * ever read in parts: queries, keys and values, or a gate and what it lets through. Split among
 * ranks as it is, a rank's share of such a matrix is not its share of each part. So each part is
 * made a product of its own, with a slice of the matrix, which is a view: nothing is copied.
 */
#include "libexec/sharding/partitioner.h"
#include "libexport/operators/lower.h"
#include "libexport/program/uses.h"
#include "libexport/transform/simplify.h"

#include <exg/emit.h>

#define CHAIN_MAX 8 /* views between a product and where its result is read in parts */

/* A node that reads elements from `first` on, `length` of them, along a dim. */
typedef struct cut {
    exg_value_id of;
    uint32_t dim;
    int64_t first, length;
} cut;

/* All that read a value are cuts along one dim, which do not overlap. */
typedef struct parted {
    uint32_t cuts;
    uint32_t dim;
    int64_t length; /* of all cuts */
    bool is_odd;    /* they are not so */
} parted;

/* The product that one part of a result is. */
typedef struct part {
    struct part *next;
    int64_t first, length;
    exg_ref ref;
} part;

typedef struct pass {
    exg_rewrite r;
    const exg_graph *graph;
    exg_arena *arena;
    uint32_t *uses;         /* by value */
    const exg_node **maker; /* by value */
    parted *parted;         /* by value */
    part **parts;           /* by value: of a product's result */
    struct reading **later; /* by value: one that is written where it is first read itself, so
                             * that what belongs together lies together */
} pass;

/* What leads from a product to a value that is read in parts, last first. */
typedef struct chain {
    const exg_node *product;
    const exg_node *views[CHAIN_MAX];
    uint32_t count;
    uint32_t dims[CHAIN_MAX]; /* of each view's result: the dim along which parts lie */
} chain;

/* A node that reads a part which can be made alone: so many columns of a product, by way of what
 * lies between. */
typedef struct reading {
    const exg_node *node;
    cut cut;
    chain chain;
    int64_t first, length;
} reading;

static const exg_tensor_meta *meta_of(const pass *p, exg_value_id id)
{
    return p->graph->values[id].tensor;
}

static const exg_operator *operator_of(const pass *p, const exg_node *node)
{
    return node == NULL ? NULL : exg_operators_find(p->r.operators, node->target);
}

/* ---- where results are read in parts --------------------------------------------------------- */

static bool find_cut(const pass *p, const exg_node *node, cut *c)
{
    const exg_operator *op = operator_of(p, node);
    exg_argument args[EXG_ARGUMENTS_MAX];
    const exg_tensor_meta *meta;
    const exg_tensor_meta *result;
    exg_error err;

    if (op == NULL || (op->id != EXG_OP_slice_Tensor && op->id != EXG_OP_select_int) ||
        exg_operator_normalize(op, node, args, &err) != EXG_OK ||
        node->outputs[0].kind != EXG_ARGUMENT_TENSOR ||
        (op->id == EXG_OP_slice_Tensor && exg_get_int(&args[4]) != 1)) {
        return false;
    }
    c->of = args[0].as_tensor;
    meta = meta_of(p, c->of);
    result = meta_of(p, node->outputs[0].as_tensor);
    c->dim = exg_rule_dim(exg_get_int(&args[1]), meta->rank);
    c->first = args[2].kind == EXG_ARGUMENT_NONE ? 0 : exg_get_int(&args[2]);
    c->first += c->first < 0 ? meta->sizes[c->dim].value : 0;
    c->first = c->first < 0 ? 0 : c->first;
    c->length = op->id == EXG_OP_select_int ? 1 : result->sizes[c->dim].value;
    return c->length > 0;
}

static void note_cut(pass *p, const cut *c)
{
    parted *of = &p->parted[c->of];

    of->is_odd = of->is_odd || (of->cuts > 0 && of->dim != c->dim);
    of->dim = c->dim;
    of->length += c->length;
    of->cuts++;
}

static bool is_read_in_parts(const pass *p, exg_value_id id)
{
    const parted *of = &p->parted[id];

    return of->cuts > 1 && of->cuts == p->uses[id] && !of->is_odd &&
           of->length <= meta_of(p, id)->sizes[of->dim].value;
}

/* ---- from there back to a product ------------------------------------------------------------ */

/* The dim of `in` that begins where `dim` of `out` does, and of which that is a part, or that is a
 * part of it. */
static bool dim_before_view(const exg_tensor_meta *in, const exg_tensor_meta *out, uint32_t *dim)
{
    int64_t length = out->sizes[*dim].value;
    int64_t before = 1;
    int64_t product = 1;

    for (uint32_t d = 0; d < *dim; d++) {
        before *= out->sizes[d].value;
    }
    for (uint32_t d = 0; d < in->rank; d++) {
        int64_t size = in->sizes[d].value;

        if (product == before && size > 1 && (size % length == 0 || length % size == 0)) {
            *dim = d;
            return true;
        }
        product *= size;
    }
    return false;
}

/* Dims of size 1 that are named drop out. */
static bool dim_before_squeeze(const exg_argument *args, const exg_tensor_meta *in, uint32_t *dim)
{
    bool named[EXG_SHAPE_RANK_MAX] = {false};
    uint32_t at = 0;
    exg_error err;

    if (exg_dim_set(&args[1], in->rank, named, &err) != EXG_OK) {
        return false;
    }
    for (uint32_t d = 0; d < in->rank; d++) {
        bool drops = named[d] && in->sizes[d].value == 1;

        if (!drops && at++ == *dim) {
            *dim = d;
            return !named[d];
        }
    }
    return false;
}

/* Through which dim of its operand `dim` of the result of a view comes. */
static bool dim_before(const exg_operator *op, const exg_argument *args, const exg_tensor_meta *in,
                       const exg_tensor_meta *out, uint32_t *dim)
{
    int64_t dims[EXG_SHAPE_RANK_MAX];
    uint32_t own;

    switch (op->id) {
    case EXG_OP_view_default:
    case EXG_OP_reshape_default:
        return dim_before_view(in, out, dim);
    case EXG_OP_permute_default:
        (void)exg_get_ints(&args[1], dims, EXG_SHAPE_RANK_MAX);
        *dim = exg_rule_dim(dims[*dim], in->rank);
        return true;
    case EXG_OP_unsqueeze_default:
        own = exg_rule_dim(exg_get_int(&args[1]), out->rank);
        *dim -= *dim > own;
        return *dim < in->rank;
    case EXG_OP_squeeze_dims:
        return dim_before_squeeze(args, in, dim);
    case EXG_OP_clone_default:
    case EXG_OP_alias_default:
        return true;
    default:
        return false;
    }
}

/* The operands of a product and the dim of its weight that becomes the result's last. */
static bool find_product(exg_operator_id op, uint32_t *weight, uint32_t *weight_dim,
                         uint32_t *added)
{
    uint32_t activation;

    *added = op == EXG_OP_linear_default ? 2 : op == EXG_OP_addmm_default ? 0 : UINT32_MAX;
    *weight_dim = op == EXG_OP_linear_default ? 0 : 1;
    if (op == EXG_OP_bmm_default) {
        *weight = 1;
        *weight_dim = 2;
        return true;
    }
    return exg_product_operands(op, &activation, weight);
}

static bool is_weight(const pass *p, exg_value_id id)
{
    const exg_node *maker = p->maker[id];

    while (maker != NULL && exg_is_view_node(operator_of(p, maker), maker)) {
        id = maker->inputs[0].arg.as_tensor;
        maker = p->maker[id];
    }
    for (uint32_t i = 0; maker == NULL && i < p->graph->input_count; i++) {
        if (p->graph->inputs[i].kind == EXG_ARGUMENT_TENSOR &&
            p->graph->inputs[i].as_tensor == id) {
            return p->r.in->signature.inputs[i].kind != EXG_INPUT_USER;
        }
    }
    return false;
}

static bool is_product_of_weight(const pass *p, const exg_node *node)
{
    const exg_operator *op = operator_of(p, node);
    uint32_t weight;
    uint32_t dim;
    uint32_t added;

    return op != NULL && find_product(op->id, &weight, &dim, &added) &&
           weight < node->input_count && node->inputs[weight].arg.kind == EXG_ARGUMENT_TENSOR &&
           node->outputs[0].kind == EXG_ARGUMENT_TENSOR &&
           is_weight(p, node->inputs[weight].arg.as_tensor);
}

/* Parts along `dim` of the value are parts along the last dim of a product's result. */
static bool find_chain(const pass *p, exg_value_id id, uint32_t dim, chain *c)
{
    *c = (chain){0};
    for (;;) {
        const exg_node *node = p->maker[id];
        const exg_operator *op = operator_of(p, node);
        exg_argument args[EXG_ARGUMENTS_MAX];
        exg_value_id before;
        exg_error err;

        if (is_product_of_weight(p, node)) {
            c->product = node;
            return dim + 1 == meta_of(p, id)->rank;
        }
        if (op == NULL || c->count == CHAIN_MAX || op->schema->return_count != 1 ||
            node->inputs[0].arg.kind != EXG_ARGUMENT_TENSOR ||
            exg_operator_normalize(op, node, args, &err) != EXG_OK) {
            return false;
        }
        before = node->inputs[0].arg.as_tensor;
        c->views[c->count] = node;
        c->dims[c->count++] = dim;
        if (p->uses[before] != 1 ||
            !dim_before(op, args, meta_of(p, before), meta_of(p, id), &dim)) {
            return false;
        }
        id = before;
    }
}

/* ---- parts as products ----------------------------------------------------------------------- */

static exg_ref slice_last(pass *p, exg_ref of, uint32_t dim, int64_t first, int64_t length)
{
    return EMIT(p->r.builder, slice_Tensor, of, dim, exg_arg_int(first),
                exg_arg_int(first + length), 1);
}

/* The product that gives so many columns of the result, from `first` on; made once. */
static exg_status emit_part(pass *p, const exg_node *product, int64_t first, int64_t length,
                            exg_ref *ref)
{
    exg_value_id whole = product->outputs[0].as_tensor;
    exg_argument args[EXG_ARGUMENTS_MAX];
    const exg_operator *op;
    uint32_t weight;
    uint32_t dim;
    uint32_t added;
    part *made;

    for (made = p->parts[whole]; made != NULL; made = made->next) {
        if (made->first == first && made->length == length) {
            *ref = made->ref;
            return EXG_OK;
        }
    }
    made = EXG_NEW(p->arena, part);
    if (made == NULL) {
        return EXG_OUT_OF_MEMORY(p->r.err);
    }
    EXG_TRY(exg_rewrite_args(&p->r, product, &op, args));
    (void)find_product(op->id, &weight, &dim, &added);
    args[weight] = exg_arg_ref(slice_last(p, exg_get_ref(&args[weight]), dim, first, length));
    if (added != UINT32_MAX && args[added].kind == EXG_ARGUMENT_TENSOR) {
        exg_ref bias = exg_get_ref(&args[added]);
        const exg_tensor_meta *meta = exg_ref_meta(p->r.builder, bias);

        if (meta->rank > 0 && meta->sizes[meta->rank - 1].value > 1) {
            args[added] = exg_arg_ref(slice_last(p, bias, meta->rank - 1, first, length));
        }
    }
    *ref = exg_emit(p->r.builder, op->id, args, op->schema->argument_count);
    *made = (part){p->parts[whole], first, length, *ref};
    p->parts[whole] = made;
    return exg_builder_status(p->r.builder);
}

/* A view of a part, as it is one of the whole. */
static exg_status emit_view(pass *p, const exg_node *view, uint32_t dim, int64_t length,
                            exg_ref *ref)
{
    const exg_tensor_meta *whole = meta_of(p, view->outputs[0].as_tensor);
    exg_argument args[EXG_ARGUMENTS_MAX];
    int64_t sizes[EXG_SHAPE_RANK_MAX];
    const exg_operator *op;

    EXG_TRY(exg_rewrite_args(&p->r, view, &op, args));
    args[0] = exg_arg_ref(*ref);
    if (op->id == EXG_OP_view_default || op->id == EXG_OP_reshape_default) {
        for (uint32_t d = 0; d < whole->rank; d++) {
            sizes[d] = d == dim ? length : whole->sizes[d].value;
        }
        args[1] = INTS_OF(p->r.builder, sizes, whole->rank);
    }
    *ref = exg_emit(p->r.builder, op->id == EXG_OP_view_default ? EXG_OP_reshape_default : op->id,
                    args, op->schema->argument_count);
    return exg_builder_status(p->r.builder);
}

static bool find_reading(const pass *p, const exg_node *node, reading *r)
{
    const exg_tensor_meta *product;
    int64_t columns;
    int64_t all;

    r->node = node;
    if (!find_cut(p, node, &r->cut) || !is_read_in_parts(p, r->cut.of) ||
        !find_chain(p, r->cut.of, r->cut.dim, &r->chain)) {
        return false;
    }
    product = meta_of(p, r->chain.product->outputs[0].as_tensor);
    columns = product->sizes[product->rank - 1].value;
    all = meta_of(p, r->cut.of)->sizes[r->cut.dim].value;
    r->first = r->cut.first * columns / all;
    r->length = r->cut.length * columns / all;
    return r->cut.first * columns % all == 0 && r->cut.length * columns % all == 0;
}

/* In place of the node: the part, made alone. */
static exg_status write_part(pass *p, const reading *r)
{
    const chain *c = &r->chain;
    int64_t all = meta_of(p, r->cut.of)->sizes[r->cut.dim].value;
    exg_argument result;
    exg_ref ref = EXG_NO_REF;

    EXG_TRY(emit_part(p, c->product, r->first, r->length, &ref));
    for (uint32_t k = c->count; k-- > 0;) {
        const exg_tensor_meta *view = meta_of(p, c->views[k]->outputs[0].as_tensor);
        int64_t length = r->cut.length * view->sizes[c->dims[k]].value / all;

        EXG_TRY(emit_view(p, c->views[k], c->dims[k], length, &ref));
    }
    if (operator_of(p, r->node)->id == EXG_OP_select_int) {
        exg_builder_next_names(p->r.builder, &r->node->name, r->node->name != NULL);
        ref = EMIT(p->r.builder, select_int, ref, r->cut.dim, 0);
    }
    result = exg_arg_ref(ref);
    exg_rewrite_set(&p->r, r->node, &result);
    return exg_builder_status(p->r.builder);
}

static exg_ref read_value(void *user, exg_value_id id)
{
    pass *p = user;
    const reading *first = p->later[id];

    p->later[id] = NULL;
    return first != NULL && write_part(p, first) != EXG_OK ? EXG_NO_REF : p->r.refs[id];
}

/* ---- all ------------------------------------------------------------------------------------- */

static exg_status copy_nodes(pass *p)
{
    EXG_TRY(exg_rewrite_inputs(&p->r));
    for (uint32_t n = 0; n < p->graph->node_count; n++) {
        const exg_node *node = &p->graph->nodes[n];
        exg_argument args[EXG_ARGUMENTS_MAX];
        const exg_operator *op;
        reading r;

        if (find_reading(p, node, &r)) {
            reading **later = &p->later[node->outputs[0].as_tensor];

            *later = exg_arena_memdup(p->arena, &r, 1, sizeof(r));
            if (*later == NULL) {
                return EXG_OUT_OF_MEMORY(p->r.err);
            }
            continue;
        }
        EXG_TRY_IN(p->r.err, exg_rewrite_args(&p->r, node, &op, args), "graph.nodes[%u]", n);
        exg_builder_set_origin(p->r.builder, &node->metadata); /* parts that it reads had theirs */
        EXG_TRY_IN(p->r.err, exg_rewrite_copy(&p->r, node, op, args), "graph.nodes[%u]", n);
    }
    return exg_rewrite_outputs(&p->r);
}

static void survey(pass *p)
{
    for (uint32_t n = 0; n < p->graph->node_count; n++) {
        const exg_node *node = &p->graph->nodes[n];
        cut c;

        for (uint32_t o = 0; o < node->output_count; o++) {
            if (node->outputs[o].kind == EXG_ARGUMENT_TENSOR) {
                p->maker[node->outputs[o].as_tensor] = node;
            }
        }
        if (find_cut(p, node, &c)) {
            note_cut(p, &c);
        }
    }
}

/* Is there anything to be taken apart? Most programs have nothing. */
static bool finds_any(const pass *p)
{
    for (uint32_t n = 0; n < p->graph->node_count; n++) {
        reading r;

        if (find_reading(p, &p->graph->nodes[n], &r)) {
            return true;
        }
    }
    return false;
}

static exg_status run(pass *p, const exg_program *functional, const exg_operators *operators,
                      exg_program **apart, exg_error *err)
{
    const exg_graph *graph = functional->graph;
    exg_program *made = NULL;
    exg_status status;

    p->graph = graph;
    p->r = (exg_rewrite){.in = functional, .operators = operators, .err = err};
    p->uses = exg_graph_count_uses(p->arena, graph);
    p->maker = EXG_NEW_ARRAY(p->arena, const exg_node *, graph->value_count);
    p->parted = EXG_NEW_ARRAY(p->arena, parted, graph->value_count);
    p->parts = EXG_NEW_ARRAY(p->arena, part *, graph->value_count);
    p->later = EXG_NEW_ARRAY(p->arena, reading *, graph->value_count);
    if (p->uses == NULL || p->maker == NULL || p->parted == NULL || p->parts == NULL ||
        p->later == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    survey(p);
    if (!finds_any(p)) {
        return EXG_OK;
    }
    EXG_TRY(exg_rewrite_begin(&p->r, functional, operators, err));
    p->r.read = read_value;
    p->r.user = p;
    EXG_TRY(exg_rewrite_finish(&p->r, copy_nodes(p), &made));
    status = exg_drop_dead(made, operators, apart, err);
    exg_program_destroy(made);
    return status;
}

exg_status exg_take_products_apart(const exg_program *functional, const exg_operators *operators,
                                   exg_program **apart, exg_error *err)
{
    pass p = {.arena =
                  exg_arena_create(exg_arena_allocator(functional->arena), EXG_ARENA_UNBOUNDED)};
    exg_status status;

    *apart = NULL;
    status = p.arena == NULL ? EXG_OUT_OF_MEMORY(err) : run(&p, functional, operators, apart, err);
    exg_arena_destroy(p.arena);
    return status;
}
