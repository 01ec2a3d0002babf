/* batch.c - a map's graph is recorded with sizes of one example. Here each of its nodes runs once:
 * values that differ between examples have them along dims of their own, before the recorded ones.
 *
 *     map(k -> map(q -> k <= q), q)         k: [K] of level 0, q: [Q] of level 1
 *     le(k[:, None], q)                     [K, Q]
 *
 * A level is a map that is open; a value has dims of those levels that it depends on, the outer
 * first. Only what is the same for an element wherever it lies is written so: pointwise operators,
 * casts, constants, a few views, and elements looked up in a tensor that is the same for all
 * examples. A graph with any other node stays a loop, in which it takes the memory of one example.
 */
#include "libexport/transform/batch.h"
#include "libexport/operators/shape.h"
#include "libexport/transform/layout.h"
#include "libexport/transform/origin.h"
#include "libexport/transform/vmap.h"

#include <exg/emit.h>
#include <exg/operator_id_new.h>
#include <exg/tensor.h>
#include <string.h>

#define LEVELS_MAX 8

/* The graph of a map. Arrays are by value id, but for `inner`. */
typedef struct level {
    exg_graph graph;        /* written out */
    exg_program program;    /* the outer one's, with this graph */
    uint32_t *levels;       /* bits: on which it depends */
    exg_ref *refs;          /* with the dims of its levels */
    exg_argument *numbers;  /* NONE: no number */
    struct level **inner;   /* by node: of a map */
    bool *scalar_reads;     /* none */
    exg_value_id *operands; /* as the graph takes them, of the graph around; NO_VALUE: a number */
    uint32_t operand_count, sliced_count, depth;
} level;

/* Values of the graph around a map. */
typedef struct scope {
    exg_segment_builder m; /* refs, numbers */
    const level *level;    /* NULL: the flat graph, whose values depend on no level */
} scope;

static uint32_t levels_of(const scope *s, exg_value_id id)
{
    return s->level == NULL ? 0 : s->level->levels[id];
}

static uint32_t count_of(uint32_t levels)
{
    return (uint32_t)__builtin_popcount(levels);
}

/* ---- what is written so ------------------------------------------------------------------- */

typedef enum way {
    WAY_NONE,
    WAY_POINTWISE,
    WAY_ONE,      /* of one tensor, element by element */
    WAY_CONSTANT, /* of tensors at most the dtype and the device are read */
    WAY_LOOKUP,
    WAY_DIMS, /* of one tensor, whose dims are told by number */
    WAY_EXPAND,
    WAY_CHECK
} way;

/* What an operator is another name of. */
static exg_operator_id written_as(exg_operator_id id)
{
    switch ((uint32_t)id) {
#define EXG_SAME(id, schema, as)                                                                   \
    case EXG_OP_##id:                                                                              \
        return EXG_OP_##as;
#define EXG_COPY(id, as)
#include "libexport/operators/same.def"
#undef EXG_SAME
#undef EXG_COPY
    default:
        return id;
    }
}

static way way_of(const exg_operators *operators, const exg_operator *op)
{
    switch ((uint32_t)written_as(op->id)) {
    case EXG_OP_clone_default:
    case EXG_OP_detach_default:
    case EXG_OP_to_dtype:
    case EXG_OP_to_dtype_layout:
    case EXG_OP_to_device:
    case EXG_OP__to_copy_default:
    case EXG_OP_ones_like_default:
    case EXG_OP_zeros_like_default:
    case EXG_OP_full_like_default:
        return WAY_ONE;
    case EXG_OP_new_ones_default:
    case EXG_OP_new_zeros_default:
    case EXG_OP_new_full_default:
    case EXG_OP_full_default:
    case EXG_OP_ones_default:
    case EXG_OP_zeros_default:
    case EXG_OP_scalar_tensor_default:
        return WAY_CONSTANT;
    case EXG_OP_index_Tensor:
        return WAY_LOOKUP;
    case EXG_OP_unsqueeze_default:
    case EXG_OP_movedim_int:
    case EXG_OP_transpose_int:
        return WAY_DIMS;
    case EXG_OP_expand_default:
        return WAY_EXPAND;
    case EXG_OP__assert_tensor_metadata_default:
        return WAY_CHECK;
    default:
        return op->functional == EXG_OP_NONE && op->stream == EXG_NOT_DRAWN &&
                       exg_operators_get(operators, written_as(op->id))->pointwise !=
                           EXG_POINTWISE_NOT
                   ? WAY_POINTWISE
                   : WAY_NONE;
    }
}

/* ---- reading ------------------------------------------------------------------------------ */

static const exg_tensor_meta *one_of(const level *l, const exg_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_TENSOR && arg->as_tensor != EXG_NO_VALUE
               ? l->graph.values[arg->as_tensor].tensor
               : NULL;
}

/* Tensors of several dtypes promote by whether they have dims, which examples along dims of their
 * own would change. */
static bool promotes_alike(const level *l, const exg_node *node)
{
    const exg_tensor_meta *first = NULL;
    bool same = true;
    bool ranked = true;
    bool plain = true;

    for (uint32_t i = 0; i < node->input_count; i++) {
        const exg_tensor_meta *meta = one_of(l, &node->inputs[i].arg);

        if (meta != NULL) {
            first = first == NULL ? meta : first;
            same = same && meta->dtype == first->dtype;
            ranked = ranked && meta->rank > 0;
            plain = plain && meta->rank == 0;
        }
    }
    return same || ranked || plain;
}

/* Of elements looked up by numbers along the first dims of what is the same for all. */
static bool looks_up(const level *l, const exg_node *node)
{
    const exg_argument *indices = node->input_count == 2 ? &node->inputs[1].arg : NULL;
    const exg_tensor_meta *self = node->input_count == 2 ? one_of(l, &node->inputs[0].arg) : NULL;
    bool fits =
        self != NULL && l->levels[node->inputs[0].arg.as_tensor] == 0 &&
        (indices->kind == EXG_ARGUMENT_TENSORS || indices->kind == EXG_ARGUMENT_OPTIONAL_TENSORS) &&
        indices->count > 0 && indices->count <= self->rank;

    for (uint32_t i = 0; fits && i < indices->count; i++) {
        exg_argument index = {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = indices->as_tensors[i]};
        const exg_tensor_meta *meta = one_of(l, &index);

        fits = meta != NULL && (meta->dtype == EXG_DTYPE_I64 || meta->dtype == EXG_DTYPE_I32);
    }
    return fits;
}

typedef struct union_of {
    const uint32_t *levels;
    uint32_t bits;
} union_of;

static void add_levels(void *user, exg_value_id *id)
{
    union_of *u = user;

    u->bits |= *id == EXG_NO_VALUE ? 0 : u->levels[*id];
}

static exg_status read_node(const scope *s, level *l, uint32_t n, bool *fits);

/* Lists of operands, as the graph takes them: numbers at once, of tensors the ids. */
static exg_status read_operands(const scope *s, level *l, const exg_argument *given, bool *fits)
{
    exg_segment_builder m = s->m;
    exg_argument list;

    m.err = NULL;
    *fits = *fits && exg_segment_builder_resolve(&m, given, &list) == EXG_OK;
    if (!*fits) {
        return EXG_OK;
    }
    for (uint32_t i = 0; i < (list.kind == EXG_ARGUMENT_TENSOR ? 1 : list.count); i++) {
        bool is_list =
            list.kind == EXG_ARGUMENT_TENSORS || list.kind == EXG_ARGUMENT_OPTIONAL_TENSORS;
        exg_value_id id = is_list                            ? list.as_tensors[i]
                          : list.kind == EXG_ARGUMENT_TENSOR ? list.as_tensor
                                                             : EXG_NO_VALUE;
        exg_argument number = list.kind == EXG_ARGUMENT_INTS ? exg_arg_int(list.as_ints[i])
                              : id == EXG_NO_VALUE           ? exg_arg_none()
                                                             : s->m.numbers[id];
        const exg_argument *input = &l->graph.inputs[l->operand_count];

        if (l->operand_count >= l->graph.input_count ||
            (id == EXG_NO_VALUE && number.kind == EXG_ARGUMENT_NONE) ||
            (input->kind == EXG_ARGUMENT_TENSOR) != (number.kind == EXG_ARGUMENT_NONE)) {
            *fits = false;
            return EXG_OK;
        }
        if (input->kind == EXG_ARGUMENT_TENSOR) {
            l->levels[input->as_tensor] = levels_of(s, id);
        } else if (input->as_sym.value != EXG_NO_VALUE) {
            l->numbers[input->as_sym.value] = number;
        }
        l->operands[l->operand_count++] = number.kind == EXG_ARGUMENT_NONE ? id : EXG_NO_VALUE;
    }
    return EXG_OK;
}

static exg_status start(const scope *s, const exg_graph *graph, level **made)
{
    exg_arena *arena = s->m.r.out->arena;
    level *l = EXG_NEW(arena, level);

    *made = l;
    if (l == NULL) {
        return EXG_OUT_OF_MEMORY(s->m.err);
    }
    EXG_TRY(exg_inline(graph, arena, &l->graph, s->m.err));
    l->depth = s->level == NULL ? 0 : s->level->depth + 1;
    l->program = *s->m.r.in;
    l->program.graph = &l->graph;
    l->levels = EXG_NEW_ARRAY(arena, uint32_t, l->graph.value_count + 1);
    l->refs = EXG_NEW_ARRAY(arena, exg_ref, l->graph.value_count + 1);
    l->numbers = EXG_NEW_ARRAY(arena, exg_argument, l->graph.value_count + 1);
    l->scalar_reads = EXG_NEW_ARRAY(arena, bool, l->graph.value_count + 1);
    l->inner = EXG_NEW_ARRAY(arena, level *, l->graph.node_count + 1);
    l->operands = EXG_NEW_ARRAY(arena, exg_value_id, l->graph.input_count + 1);
    if (l->levels == NULL || l->refs == NULL || l->numbers == NULL || l->scalar_reads == NULL ||
        l->inner == NULL || l->operands == NULL) {
        return EXG_OUT_OF_MEMORY(s->m.err);
    }
    for (uint32_t v = 0; v < l->graph.value_count; v++) {
        l->refs[v] = EXG_NO_REF;
    }
    return EXG_OK;
}

/* The builder of the graph around, for arguments of this one. */
static scope inside(const scope *s, level *l, exg_flat_graph *flat)
{
    scope in = {.m = s->m, .level = l};

    *flat = *s->m.flat;
    flat->graph = l->graph;
    flat->scalar_reads = l->scalar_reads;
    in.m.flat = flat;
    in.m.numbers = l->numbers;
    in.m.r.in = &l->program;
    in.m.r.refs = l->refs;
    return in;
}

/* Whether a map is written without a loop, and what its values depend on. */
static exg_status read_map(const scope *s, const exg_node *node, level **made, bool *fits)
{
    exg_flat_graph flat;
    scope in;
    level *l;

    *fits = node->input_count == 3 && node->inputs[0].arg.kind == EXG_ARGUMENT_GRAPH &&
            (s->level == NULL || s->level->depth + 1 < LEVELS_MAX);
    if (!*fits) {
        return EXG_OK;
    }
    EXG_TRY(start(s, node->inputs[0].arg.as_graph->graph, made));
    l = *made;
    EXG_TRY(read_operands(s, l, &node->inputs[1].arg, fits));
    l->sliced_count = l->operand_count;
    EXG_TRY(read_operands(s, l, &node->inputs[2].arg, fits));
    *fits = *fits && l->sliced_count > 0 && l->operand_count == l->graph.input_count;
    for (uint32_t i = 0; *fits && i < l->sliced_count; i++) {
        *fits = l->graph.inputs[i].kind == EXG_ARGUMENT_TENSOR;
        if (*fits) {
            l->levels[l->graph.inputs[i].as_tensor] |= 1u << l->depth;
        }
    }
    in = inside(s, l, &flat);
    for (uint32_t n = 0; *fits && n < l->graph.node_count; n++) {
        EXG_TRY(read_node(&in, l, n, fits));
    }
    for (uint32_t o = 0; *fits && o < l->graph.output_count; o++) {
        *fits = one_of(l, &l->graph.outputs[o]) != NULL;
    }
    return EXG_OK;
}

/* Ids of a map's results. */
static const exg_value_id *results_of(const exg_node *node, uint32_t *count)
{
    const exg_argument *output = &node->outputs[0];

    *count = 0;
    if (node->output_count != 1 ||
        (output->kind != EXG_ARGUMENT_TENSOR && output->kind != EXG_ARGUMENT_TENSORS)) {
        return NULL;
    }
    *count = output->kind == EXG_ARGUMENT_TENSOR ? 1 : output->count;
    return output->kind == EXG_ARGUMENT_TENSOR ? &output->as_tensor : output->as_tensors;
}

static exg_status read_inner(const scope *s, level *l, uint32_t n, bool *fits)
{
    const exg_node *node = &l->graph.nodes[n];
    const exg_value_id *results;
    uint32_t count;
    level *inner;

    EXG_TRY(read_map(s, node, &l->inner[n], fits));
    inner = l->inner[n];
    results = results_of(node, &count);
    *fits = *fits && results != NULL && count == inner->graph.output_count;
    for (uint32_t o = 0; *fits && o < count; o++) {
        exg_value_id from = inner->graph.outputs[o].as_tensor;

        if (results[o] != EXG_NO_VALUE) {
            l->levels[results[o]] = inner->levels[from] & ~(1u << inner->depth);
        }
    }
    return EXG_OK;
}

static exg_status read_node(const scope *s, level *l, uint32_t n, bool *fits)
{
    const exg_node *node = &l->graph.nodes[n];
    const exg_operator *op = exg_operators_find(s->m.r.operators, node->target);
    const way is = op == NULL ? WAY_NONE : way_of(s->m.r.operators, op);
    exg_segment_builder m = s->m;
    exg_argument known;
    union_of all = {l->levels, 0};

    if (exg_higher_order_of(node->target) == EXG_HIGHER_ORDER_MAP) {
        return read_inner(s, l, n, fits);
    }
    m.err = NULL;
    *fits = is == WAY_CHECK ||
            (is != WAY_NONE && node->output_count == 1 && one_of(l, &node->outputs[0]) != NULL &&
             one_of(l, &node->outputs[0])->rank + LEVELS_MAX <= EXG_RANK_MAX);
    for (uint32_t i = 0; *fits && i < node->input_count; i++) {
        exg_argument copy = node->inputs[i].arg; /* the visitor writes nothing */
        const exg_argument *arg = &copy;

        *fits = exg_segment_builder_resolve(&m, arg, &known) == EXG_OK;
        exg_argument_visit_values(&copy, add_levels, &all);
        /* sizes and strides are those of one example */
        *fits = *fits && (is != WAY_CHECK || arg->kind != EXG_ARGUMENT_SYM_INTS) &&
                (is != WAY_CHECK || arg->kind != EXG_ARGUMENT_INTS) &&
                (is != WAY_POINTWISE ||
                 (arg->kind != EXG_ARGUMENT_TENSORS && arg->kind != EXG_ARGUMENT_OPTIONAL_TENSORS));
    }
    *fits =
        *fits && (is != WAY_POINTWISE || promotes_alike(l, node)) &&
        (is != WAY_LOOKUP || looks_up(l, node)) &&
        (is == WAY_CONSTANT || (node->input_count > 0 && one_of(l, &node->inputs[0].arg) != NULL));
    if (*fits && is != WAY_CHECK) {
        l->levels[node->outputs[0].as_tensor] = is == WAY_CONSTANT ? 0 : all.bits;
    }
    return EXG_OK;
}

/* ---- emitting ----------------------------------------------------------------------------- */

/* A tensor with its examples where one has them that has dims of the levels `bits`, and `rank` of
 * its own after them. */
static exg_ref align(exg_builder *b, exg_ref ref, uint32_t own, uint32_t bits, uint32_t rank)
{
    const exg_tensor_meta *meta = exg_ref_meta(b, ref);
    uint32_t at = 0;

    if (meta == NULL || bits == 0) {
        return ref;
    }
    for (uint32_t r = meta->rank - count_of(own); r < rank; r++) {
        ref = EMIT(b, unsqueeze_default, ref, (int)count_of(own));
    }
    for (uint32_t bit = 0; bit < LEVELS_MAX; bit++) {
        if ((bits >> bit & 1) != 0) {
            ref = (own >> bit & 1) != 0 ? ref : EMIT(b, unsqueeze_default, ref, (int)at);
            at++;
        }
    }
    return ref;
}

/* What a node reads. */
typedef struct reading {
    const scope *s;
    bool aligns;        /* else as it is */
    exg_value_id whole; /* but for this one; NO_VALUE: none */
    uint32_t bits, rank;
} reading;

static void find_dims(void *user, exg_value_id *id)
{
    reading *r = user;
    const exg_tensor_meta *meta;
    uint32_t bits;

    if (*id == EXG_NO_VALUE || *id == r->whole) {
        return;
    }
    bits = r->s->level->levels[*id];
    meta = exg_ref_meta(r->s->m.r.builder, r->s->m.r.refs[*id]);
    r->bits |= bits;
    if (meta != NULL && meta->rank - count_of(bits) > r->rank) {
        r->rank = meta->rank - count_of(bits);
    }
}

static exg_ref read_value(void *user, exg_value_id id)
{
    const reading *r = user;
    const scope *s = r->s;

    return r->aligns && id != r->whole
               ? align(s->m.r.builder, s->m.r.refs[id], s->level->levels[id], r->bits, r->rank)
               : s->m.r.refs[id];
}

/* Dims by number are counted from the first that is not a level's; a new shape begins with those
 * that are as they were. */
static void tell_dims(const scope *s, const exg_node *node, way is, exg_argument *args)
{
    exg_builder *b = s->m.r.builder;
    const uint32_t bits = s->level->levels[node->inputs[0].arg.as_tensor];
    const exg_tensor_meta *meta = exg_ref_meta(b, exg_get_ref(&args[0]));
    int64_t sizes[EXG_RANK_MAX];
    int64_t rank;

    if (meta == NULL || bits == 0) {
        return;
    }
    rank = meta->rank - count_of(bits) +
           (written_as(exg_operators_find(s->m.r.operators, node->target)->id) ==
            EXG_OP_unsqueeze_default);
    for (uint32_t i = 1; is == WAY_DIMS && i < node->input_count; i++) {
        int64_t dim = exg_get_int(&args[i]);

        args[i] = exg_arg_int((dim < 0 ? dim + rank : dim) + count_of(bits));
    }
    if (is == WAY_EXPAND && args[1].kind == EXG_ARGUMENT_INTS &&
        args[1].count + LEVELS_MAX <= EXG_RANK_MAX) {
        for (uint32_t d = 0; d < args[1].count + count_of(bits); d++) {
            sizes[d] = d < count_of(bits) ? -1 : args[1].as_ints[d - count_of(bits)];
        }
        args[0] = exg_arg_ref(align(b, exg_get_ref(&args[0]), bits, bits, args[1].count));
        args[1] = exg_arg_ints(b, sizes, args[1].count + count_of(bits));
    }
}

static exg_status emit_node(const scope *s, const exg_node *node)
{
    const exg_operator *op = exg_operators_find(s->m.r.operators, node->target);
    const way is = way_of(s->m.r.operators, op);
    exg_segment_builder m = s->m;
    exg_builder *b = m.r.builder;
    reading r = {.s = s,
                 .aligns = is == WAY_POINTWISE || is == WAY_LOOKUP,
                 .whole = is == WAY_LOOKUP ? node->inputs[0].arg.as_tensor : EXG_NO_VALUE};
    exg_argument args[EXG_ARGUMENTS_MAX];
    exg_argument results[EXG_RESULTS_MAX];
    exg_node known = *node;

    known.inputs = EXG_NEW_ARRAY(m.r.out->arena, exg_named_argument, node->input_count);
    if (known.inputs == NULL) {
        return EXG_OUT_OF_MEMORY(m.err);
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_argument copy = node->inputs[i].arg; /* the visitor writes nothing */

        known.inputs[i] = node->inputs[i];
        EXG_TRY(exg_segment_builder_resolve(&m, &copy, &known.inputs[i].arg));
        exg_argument_visit_values(&copy, find_dims, &r);
    }
    m.r.read = read_value;
    m.r.user = &r;
    EXG_TRY(exg_rewrite_args(&m.r, &known, &op, args));
    EXG_TRY(exg_check_bools(op, args, exg_builder_graph(b), m.err));
    if (is != WAY_CHECK) {
        exg_builder_next_names(b, &s->level->graph.values[node->outputs[0].as_tensor].name, 1);
    }
    if (is == WAY_DIMS || is == WAY_EXPAND) {
        tell_dims(s, node, is, args);
    }
    EXG_TRY(exg_emit_all(b, op->id, args, op->schema->argument_count, results));
    if (is != WAY_CHECK) {
        s->m.r.refs[node->outputs[0].as_tensor] = exg_get_ref(&results[0]);
    }
    return EXG_OK;
}

/* How many examples there are, which all that is sliced must have. */
static exg_status count_examples(const scope *s, const exg_node *node, const level *l,
                                 int64_t *count)
{
    for (uint32_t i = 0; i < l->sliced_count; i++) {
        const exg_value_id id = l->operands[i];
        const exg_tensor_meta *meta = exg_ref_meta(s->m.r.builder, s->m.r.refs[id]);
        const uint32_t at = count_of(levels_of(s, id));

        if (meta == NULL || meta->rank <= at || (i > 0 && meta->sizes[at].value != *count)) {
            EXG_TRY(exg_builder_status(s->m.r.builder));
            return EXG_FAIL(s->m.err, MALFORMED, "GRF-010",
                            "the graphs of %s take or give other values", node->target);
        }
        *count = meta->sizes[at].value;
    }
    return EXG_OK;
}

/* A result of the map's graph, with the examples along the first dim of its own. What is the same
 * for all is in memory once, of torch.vmap: nothing may write it there. */
static exg_ref whole(exg_builder *b, const level *l, exg_value_id id, int64_t count, bool of_vmap)
{
    const uint32_t outer = l->levels[id] & ~(1u << l->depth);
    exg_ref ref = l->refs[id];
    const exg_tensor_meta *meta;
    int64_t sizes[EXG_RANK_MAX];

    if ((l->levels[id] >> l->depth & 1) != 0) {
        return ref;
    }
    ref = EMIT(b, unsqueeze_default, ref, (int)count_of(outer));
    meta = exg_ref_meta(b, ref);
    for (uint32_t d = 0; meta != NULL && d < meta->rank && d < EXG_RANK_MAX; d++) {
        sizes[d] = d == count_of(outer) ? count : meta->sizes[d].value;
    }
    if (meta != NULL) {
        ref = EMIT(b, expand_default, ref, exg_arg_ints(b, sizes, meta->rank));
    }
    return of_vmap ? ref : EMIT(b, clone_default, ref);
}

/* Results of the map become values of the graph around it. */
static exg_status emit_map(const scope *s, const exg_node *node, level *l)
{
    exg_builder *b = s->m.r.builder;
    exg_flat_graph flat;
    const scope in = inside(s, l, &flat);
    const exg_value_id *results;
    uint32_t result_count;
    int64_t count = 0;

    EXG_TRY(count_examples(s, node, l, &count));
    for (uint32_t i = 0; i < l->operand_count; i++) {
        if (l->operands[i] != EXG_NO_VALUE) {
            l->refs[l->graph.inputs[i].as_tensor] = s->m.r.refs[l->operands[i]];
        }
    }
    for (uint32_t n = 0; n < l->graph.node_count; n++) {
        const exg_node *of = &l->graph.nodes[n];
        exg_status status =
            l->inner[n] != NULL ? emit_map(&in, of, l->inner[n]) : emit_node(&in, of);

        if (status != EXG_OK) {
            return exg_error_at_node(s->m.err, status, of);
        }
    }
    results = results_of(node, &result_count);
    for (uint32_t o = 0; o < result_count; o++) {
        if (results[o] != EXG_NO_VALUE) {
            s->m.r.refs[results[o]] =
                whole(b, l, l->graph.outputs[o].as_tensor, count, exg_is_vmap_map(node));
        }
    }
    return exg_builder_status(b);
}

exg_status exg_batch_map(exg_segment_builder *m, const exg_node *node, bool *done)
{
    const scope s = {.m = *m};
    const exg_value_id *results;
    uint32_t count;
    level *l;

    EXG_TRY(read_map(&s, node, &l, done));
    results = results_of(node, &count);
    *done = *done && results != NULL && count == l->graph.output_count;
    if (!*done) {
        return EXG_OK;
    }
    EXG_TRY(emit_map(&s, node, l));
    for (uint32_t o = 0; o < count; o++) {
        if (results[o] != EXG_NO_VALUE) {
            EXG_TRY(exg_layout_adopt(&m->r, results[o]));
        }
    }
    return EXG_OK;
}
