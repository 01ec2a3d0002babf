/* functionalize.c - writes and aliases become values.
 *
 * Every tensor is a base, or a view of another tensor. A write makes the next value of
 * the tensor that is written, the newest of its base: what is above it, down to the base,
 * lacks it until something other than a view of the newest is read or written. Then the newest
 * is put into its parent, that into its own, as far as they have that one above them in common;
 * and a view is taken again from there. So a chain of views of which each is written costs a
 * step for each, not its length.
 * A weight that is in another one is a view of it. What was written of the inputs
 * comes out as mutation outputs.
 */
#include "libexport/base/require.h"
#include "libexport/operators/lower.h"
#include "libexport/operators/registered.h"
#include "libexport/transform/graph_segment.h"
#include "libexport/transform/overlap.h"
#include "libexport/transform/weight_ranges.h"
#include <exg/emit.h>

#include <exg/transform.h>
#include <exg/weights.h>
#include <string.h>

#define NO_TENSOR UINT32_MAX

typedef struct tensor {
    bool known;
    bool may_share;  /* it, or what it is a view of, is a view whose elements may share memory */
    uint32_t parent; /* old value id this is a view of, or NO_TENSOR: a base */
    uint32_t base;   /* old value id of the base */
    uint32_t depth;  /* views down to the base */
    const exg_operator *view;
    exg_argument *args; /* of the view, normalized; args[0] is replaced when read */
    exg_ref ref;        /* the new value, as of `version` */
    uint32_t version;   /* a number of the base's writes */
    uint32_t writes;    /* of a base: how many there were */
    uint32_t newest;    /* of a base: the tensor that is up to date while those above it are not */
} tensor;

typedef struct functionalizer {
    exg_rewrite r;
    tensor *tensors; /* by old value id */
    uint32_t *named; /* by old value id: the tensor that it is another name of, or itself */
    uint32_t *path;  /* room for a chain of views */
    exg_weight_range *places; /* by input */
} functionalizer;

static exg_strided strided_of(const exg_builder *b, exg_ref ref)
{
    exg_strided s = {0};
    const exg_tensor_meta *meta = exg_ref_meta(b, ref);

    for (uint32_t i = 0; meta != NULL && i < meta->rank && i < EXG_SHAPE_RANK_MAX; i++) {
        s.sizes[i] = meta->sizes[i].value;
        s.rank = i + 1;
    }
    return s;
}

/* ---- views ----------------------------------------------------------------------- */

/* What `view` can be taken of: strides are those of what the run is given, and these views want
 * elements side by side. */
static exg_ref viewed(exg_builder *b, const exg_operator *view, const exg_argument *args, exg_ref x)
{
    const exg_tensor_meta *meta = exg_ref_meta(b, x);
    exg_strided in = {0};
    exg_strided out;

    if ((view->id != EXG_OP_view_dtype && view->id != EXG_OP_view_as_complex_default) ||
        meta == NULL || exg_strided_of(meta, &in, NULL) != EXG_OK ||
        view->view(args, &in, &out, NULL) == EXG_OK) {
        return x;
    }
    return exg_lower_row_major(b, x);
}

/* The tensor's view of `parent`. */
static exg_ref view_of(exg_builder *b, const tensor *t, exg_ref parent)
{
    exg_argument args[EXG_ARGUMENTS_MAX];
    uint32_t count = t->view->schema->argument_count;
    exg_operator_id op = t->view->id == EXG_OP_view_default ? EXG_OP_reshape_default : t->view->id;

    memcpy(args, t->args, count * sizeof(args[0]));
    args[0] = exg_arg_ref(viewed(b, t->view, args, parent));
    return exg_emit(b, op, args, count);
}

static exg_ref inverse_permute(exg_builder *b, exg_ref content, const exg_argument *dims)
{
    int64_t given[EXG_SHAPE_RANK_MAX];
    int64_t inverse[EXG_SHAPE_RANK_MAX] = {0};
    uint32_t rank = exg_get_ints(dims, given, EXG_SHAPE_RANK_MAX);

    for (uint32_t i = 0; i < rank; i++) {
        inverse[given[i] < 0 ? given[i] + rank : given[i]] = i;
    }
    return EMIT(b, permute_default, content, INTS_OF(b, inverse, rank));
}

static bool may_share_elements(const exg_operator *view)
{
    return view->id == EXG_OP_expand_default || view->id == EXG_OP_unfold_default ||
           view->id == EXG_OP_as_strided_default;
}

/* Of a view whose elements may share memory: those that `content` changes are written, the last one
 * last. */
static exg_ref put_changed(exg_builder *b, const tensor *t, exg_ref parent, exg_ref content)
{
    exg_strided sizes = strided_of(b, parent);
    int64_t count = exg_lower_numel(b, parent);
    exg_ref old = view_of(b, t, parent);
    exg_ref is_number = EMIT(b, logical_or_default, EMIT(b, eq_Tensor, content, content),
                             EMIT(b, eq_Tensor, old, old)); /* NaN stays NaN */
    exg_ref changed = EMIT(b, logical_and_default, EMIT(b, ne_Tensor, content, old), is_number);
    exg_ref places = EMIT(b, reshape_default, exg_lower_steps(b, count, EXG_DTYPE_I64, 0, 1),
                          INTS_OF(b, sizes.sizes, sizes.rank));
    exg_ref flat = exg_lower_flat(b, parent);
    exg_ref longer;

    if (count == 0) {
        return parent;
    }
    places = view_of(b, t, places);
    places = EMIT(b, where_ScalarOther, changed, places, exg_arg_int(count));
    longer = exg_lower_slice(b, flat, 0, 0, 1); /* a place for what stays as it is */
    longer = EMIT(b, cat_default, exg_arg_refs(b, (const exg_ref[]){flat, longer}, 2));
    longer = EMIT(b, scatter_src, longer, 0, exg_lower_flat(b, places), exg_lower_flat(b, content));
    return EMIT(b, reshape_default, exg_lower_slice(b, longer, 0, 0, count),
                INTS_OF(b, sizes.sizes, sizes.rank));
}

/* The parent's next value, when its view becomes `content`. One case a core view. */
static exg_ref put_view(functionalizer *f, const tensor *t, exg_ref parent, exg_ref content)
{
    exg_builder *b = f->r.builder;
    const exg_argument *a = t->args;
    exg_strided sizes = strided_of(b, parent);

    switch (t->view->id) {
    case EXG_OP_alias_default:
        return content;
    case EXG_OP_view_default:
    case EXG_OP_unsqueeze_default:
    case EXG_OP_squeeze_dims:
        return EMIT(b, reshape_default, content, INTS_OF(b, sizes.sizes, sizes.rank));
    case EXG_OP_view_as_real_default:
        a = (const exg_argument[]){exg_arg_ref(content)};
        content = viewed(b, exg_operators_get(f->r.operators, EXG_OP_view_as_complex_default), a,
                         content);
        return EMIT(b, view_as_complex_default, content);
    case EXG_OP_view_as_complex_default:
        return EMIT(b, view_as_real_default, content);
    case EXG_OP_view_dtype:
        a = (const exg_argument[]){exg_arg_ref(content), DTYPE(exg_ref_meta(b, parent)->dtype)};
        return EMIT(b, view_dtype, viewed(b, t->view, a, content), a[1]);
    case EXG_OP_permute_default:
        return inverse_permute(b, content, &a[1]);
    case EXG_OP_slice_Tensor:
        return EMIT(b, slice_scatter_default, parent, content, a[1], a[2], a[3], a[4]);
    case EXG_OP_select_int:
        return EMIT(b, select_scatter_default, parent, content, a[1], a[2]);
    case EXG_OP_diagonal_default:
        return EMIT(b, diagonal_scatter_default, parent, content, a[1], a[2], a[3]);
    case EXG_OP_as_strided_default:
    case EXG_OP_expand_default:
    case EXG_OP_unfold_default:
        return put_changed(b, t, parent, content);
    default:
        exg_lower_unsupported(b, "writes through this view");
        return EXG_NO_REF;
    }
}

/* ---- reading ------------------------------------------------------------------- */

static bool is_current(const functionalizer *f, const tensor *t)
{
    return t->version == f->tensors[t->base].writes;
}

/* What both are views of, or one of them. */
static uint32_t meet(const functionalizer *f, uint32_t a, uint32_t b)
{
    while (a != b) {
        if (f->tensors[a].depth >= f->tensors[b].depth) {
            a = f->tensors[a].parent;
        } else {
            b = f->tensors[b].parent;
        }
    }
    return a;
}

/* What was written below `id` goes into it. */
static void put_newest(functionalizer *f, uint32_t id)
{
    tensor *base = &f->tensors[f->tensors[id].base];

    while (base->newest != id) {
        const tensor *t = &f->tensors[base->newest];
        tensor *parent = &f->tensors[t->parent];

        parent->ref = put_view(f, t, parent->ref, t->ref);
        parent->version = base->writes;
        base->newest = t->parent;
    }
}

/* The new value of an old one, with all writes so far. */
static exg_ref current(functionalizer *f, uint32_t id)
{
    uint32_t at = f->named[id];
    const tensor *t = &f->tensors[at];
    uint32_t count = 0;

    if (!t->known) {
        return EXG_NO_REF;
    }
    if (!is_current(f, t)) {
        put_newest(f, meet(f, f->tensors[t->base].newest, at));
    }
    while (!is_current(f, &f->tensors[at])) {
        f->path[count++] = at;
        at = f->tensors[at].parent;
    }
    while (count > 0) {
        tensor *view = &f->tensors[f->path[--count]];

        view->ref = view_of(f->r.builder, view, f->tensors[view->parent].ref);
        view->version = f->tensors[view->base].writes;
    }
    return t->ref;
}

static exg_ref read_current(void *user, exg_value_id id)
{
    return current(user, id);
}

/* ---- a write --------------------------------------------------------------------- */

/* The tensor becomes `content`: what shares its memory is read anew. Elements that may share
 * memory hold what one of them was given, so that content goes on to what they are views of. */
static void write_tensor(functionalizer *f, exg_value_id written, exg_ref content)
{
    uint32_t id = f->named[written];
    tensor *t = &f->tensors[id];
    tensor *base = &f->tensors[t->base];
    uint32_t top;

    while (t->may_share) {
        content = put_view(f, t, current(f, t->parent), content);
        id = t->parent;
        t = &f->tensors[id];
    }
    top = meet(f, base->newest, id);
    if (top != id) { /* else all that is below it is written */
        put_newest(f, top);
        (void)current(f, t->parent); /* what is between them, as it was */
    }
    base->writes++;
    base->newest = id;
    t->ref = content;
    t->version = base->writes;
}

/* ---- what is known of values ------------------------------------------------------- */

static void set_base(functionalizer *f, exg_value_id id, exg_ref ref)
{
    f->tensors[id] =
        (tensor){.known = true, .parent = NO_TENSOR, .base = id, .newest = id, .ref = ref};
}

/* Does the view leave the elements in their order, so that its sizes are all there is to it? */
static bool is_reshape(const exg_operator *view)
{
    return view->id == EXG_OP_view_default || view->id == EXG_OP_unsqueeze_default ||
           view->id == EXG_OP_squeeze_dims;
}

/* Of a view of a view that is as easily said at once, the one view. */
static exg_status join_views(functionalizer *f, tensor *t)
{
    const tensor *parent = &f->tensors[t->parent];
    exg_builder *b = f->r.builder;

    if (parent->parent == NO_TENSOR) {
        return EXG_OK;
    }
    if (is_reshape(t->view) && is_reshape(parent->view)) {
        exg_strided sizes = strided_of(b, t->ref);

        t->view = exg_operators_get(f->r.operators, EXG_OP_view_default);
        t->args = EXG_NEW_ARRAY(f->r.out->arena, exg_argument, 2);
        if (t->args == NULL) {
            return EXG_OUT_OF_MEMORY(f->r.err);
        }
        t->args[1] = exg_arg_ints(b, sizes.sizes, sizes.rank);
        t->parent = parent->parent;
    } else if (t->view->id == EXG_OP_permute_default &&
               parent->view->id == EXG_OP_permute_default) {
        int64_t own[EXG_SHAPE_RANK_MAX];
        int64_t before[EXG_SHAPE_RANK_MAX];
        uint32_t rank = exg_get_ints(&t->args[1], own, EXG_SHAPE_RANK_MAX);

        (void)exg_get_ints(&parent->args[1], before, EXG_SHAPE_RANK_MAX);
        for (uint32_t i = 0; i < rank; i++) {
            own[i] = before[own[i] < 0 ? own[i] + rank : own[i]];
        }
        t->args[1] = exg_arg_ints(b, own, rank);
        t->parent = parent->parent;
    }
    return EXG_OK;
}

static exg_status set_view(functionalizer *f, exg_value_id id, exg_value_id parent,
                           const exg_operator *view, const exg_argument *args, exg_ref ref)
{
    uint32_t above = f->named[parent];
    const tensor *base = &f->tensors[f->tensors[above].base];
    tensor *t = &f->tensors[id];

    *t = (tensor){.known = true,
                  .parent = above,
                  .base = f->tensors[above].base,
                  .view = view,
                  .args = exg_arena_memdup(f->r.out->arena, args, view->schema->argument_count,
                                           sizeof(*args)),
                  .ref = ref,
                  .version = base->writes};
    if (t->args == NULL) {
        return EXG_OUT_OF_MEMORY(f->r.err);
    }
    EXG_TRY(join_views(f, t));
    t->depth = f->tensors[t->parent].depth + 1;
    t->may_share = may_share_elements(t->view) || f->tensors[t->parent].may_share;
    return EXG_OK;
}

/* ---- inputs ----------------------------------------------------------------------- */

static exg_status bind_part(functionalizer *f, uint32_t input, uint32_t whole)
{
    const exg_argument *inputs = f->r.in->graph->inputs;
    const exg_tensor_meta *meta = f->places[input].weight->meta;
    exg_value_id id = inputs[input].as_tensor;
    exg_builder *b = f->r.builder;
    exg_strided s;
    exg_argument args[4];

    EXG_TRY(exg_strided_of(meta, &s, f->r.err));
    args[0] = exg_arg_ref(f->r.refs[inputs[whole].as_tensor]);
    args[1] = exg_arg_ints(b, s.sizes, s.rank);
    args[2] = exg_arg_ints(b, s.strides, s.rank);
    args[3] = exg_arg_int((int64_t)((f->places[input].first - f->places[whole].first) /
                                    exg_dtype_bytes(meta->dtype)));
    return set_view(f, id, inputs[whole].as_tensor,
                    exg_operators_get(f->r.operators, EXG_OP_as_strided_default), args,
                    f->r.refs[id]);
}

/* From here on no alias is left, and strides are those of what the run is given. */
static exg_status take_given(functionalizer *f)
{
    const exg_graph *graph = f->r.in->graph;

    for (uint32_t i = 0; i < graph->input_count; i++) {
        exg_value *value;

        if (graph->inputs[i].kind != EXG_ARGUMENT_TENSOR) {
            continue;
        }
        value = &f->r.out->graph->values[f->r.refs[graph->inputs[i].as_tensor].id];
        value->tensor = exg_meta_copy(f->r.out->arena, value->tensor);
        if (value->tensor == NULL) {
            return EXG_OUT_OF_MEMORY(f->r.err);
        }
        exg_input_given(f->r.in, i, value->tensor);
    }
    return EXG_OK;
}

static exg_status bind_inputs(functionalizer *f)
{
    const exg_graph *graph = f->r.in->graph;

    EXG_TRY(exg_weight_ranges(f->r.in, f->r.out->arena, &f->places, f->r.err));
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (graph->inputs[i].kind == EXG_ARGUMENT_TENSOR) {
            set_base(f, graph->inputs[i].as_tensor, f->r.refs[graph->inputs[i].as_tensor]);
        }
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (f->places[i].whole != i) {
            EXG_TRY(bind_part(f, i, f->places[i].whole));
        }
    }
    return EXG_OK;
}

/* ---- calls of libraries ------------------------------------------------------------ */

/* A tensor that a call is given, and where its elements are in its base. */
typedef struct operand {
    uint32_t parameter, item; /* of the parameter's list */
    uint32_t base;
    bool is_written;
    bool is_placed; /* `places` is known */
    exg_strided places;
} operand;

/* Where the elements are, as PyTorch has them; not of a view that the strides of its base do not
 * allow. */
static bool find_places(functionalizer *f, uint32_t at, exg_strided *places)
{
    uint32_t count = 0;

    for (; f->tensors[at].parent != NO_TENSOR; at = f->tensors[at].parent) {
        f->path[count++] = at;
    }
    if (exg_strided_of(f->r.in->graph->values[at].tensor, places, NULL) != EXG_OK) {
        return false;
    }
    places->dtype = f->r.in->graph->values[at].tensor->dtype;
    while (count > 0) {
        const tensor *t = &f->tensors[f->path[--count]];
        exg_strided view = {.dtype = places->dtype};

        if (t->view->view(t->args, places, &view, NULL) != EXG_OK) {
            return false;
        }
        *places = view;
    }
    return true;
}

static void add_operand(functionalizer *f, exg_value_id id, bool is_written, operand *o)
{
    uint32_t at = f->named[id];

    o->is_written = is_written;
    o->base = f->tensors[at].base;
    o->is_placed = f->tensors[at].known && find_places(f, at, &o->places);
}

/* The tensors that a node is given; their number. */
static exg_status find_operands(functionalizer *f, const exg_function_schema *schema,
                                const exg_argument *args, operand **operands, uint32_t *count)
{
    uint32_t room = schema->argument_count + 1;

    for (uint32_t a = 0; a < schema->argument_count; a++) {
        room += args[a].count;
    }
    *operands = EXG_NEW_ARRAY(f->r.out->arena, operand, room);
    if (*operands == NULL) {
        return EXG_OUT_OF_MEMORY(f->r.err);
    }
    for (uint32_t a = 0; a < schema->argument_count; a++) {
        bool is_list =
            args[a].kind == EXG_ARGUMENT_TENSORS || args[a].kind == EXG_ARGUMENT_OPTIONAL_TENSORS;

        for (uint32_t i = 0; i < (is_list ? args[a].count : 1); i++) {
            exg_value_id id = is_list ? args[a].as_tensors[i] : exg_get_ref(&args[a]).id;

            if (schema->arguments[a].type.base == EXG_TYPE_TENSOR && id != EXG_NO_VALUE) {
                (*operands)[*count] = (operand){.parameter = a, .item = i};
                add_operand(f, id, schema->arguments[a].is_write, &(*operands)[(*count)++]);
            }
        }
    }
    return EXG_OK;
}

static bool share(const operand *a, const operand *b)
{
    return a == b ? a->is_placed && exg_shares_elements_itself(&a->places)
                  : a->base == b->base && (!a->is_placed || !b->is_placed ||
                                           exg_share_elements(&a->places, &b->places));
}

/* A library's kernel has each tensor for itself, without gaps, where PyTorch's has views of what
 * it is given: what it writes to one is not in another that shares its elements. */
static exg_status check_apart(functionalizer *f, const exg_node *node, const exg_operator *op)
{
    const exg_function_schema *schema = op->registered->schema;
    exg_argument args[EXG_ARGUMENTS_MAX];
    uint32_t count = 0;
    operand *operands;

    EXG_TRY(exg_operator_normalize(op, node, args, f->r.err));
    EXG_TRY(find_operands(f, schema, args, &operands, &count));
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; operands[i].is_written && j < count; j++) {
            const operand *a = &operands[i], *b = &operands[j];

            if (share(a, b)) {
                return EXG_FAIL(f->r.err, UNSUPPORTED, "FUN-004",
                                "%s writes tensor %u of '%s', which shares elements with %s %u of "
                                "'%s'",
                                op->registered->target, a->item,
                                schema->arguments[a->parameter].name,
                                a == b ? "itself, tensor" : "tensor", b->item,
                                schema->arguments[b->parameter].name);
            }
        }
    }
    return EXG_OK;
}

/* ---- nodes ------------------------------------------------------------------------- */

static exg_value_id old_first_input(const exg_node *node)
{
    return node->input_count > 0 && node->inputs[0].arg.kind == EXG_ARGUMENT_TENSOR
               ? node->inputs[0].arg.as_tensor
               : EXG_NO_VALUE;
}

/* The in-place operator's functional twin; its result, in self's dtype, is written
 * to self, and the node's result is self again. */
static exg_status write_in_place(functionalizer *f, const exg_node *node, const exg_operator *op,
                                 const exg_argument *args)
{
    exg_builder *b = f->r.builder;
    const exg_operator *functional = exg_operators_get(f->r.operators, op->functional);
    exg_value_id self = old_first_input(node);
    exg_argument twin_args[EXG_ARGUMENTS_MAX];

    if (self == EXG_NO_VALUE) {
        return EXG_FAIL(f->r.err, MALFORMED, "NOD-006", "%s without a tensor to write", op->target);
    }
    if (functional->id != EXG_OP_alias_default) {
        const exg_tensor_meta *meta = exg_ref_meta(b, exg_get_ref(&args[0]));
        exg_ref content;

        exg_operator_functional_args(op, functional, args, twin_args);
        content = exg_emit(b, functional->id, twin_args, functional->schema->argument_count);
        EXG_TRY(exg_builder_status(b));
        if (exg_ref_meta(b, content)->dtype != meta->dtype) {
            content = EMIT(b, _to_copy_default, content, DTYPE(meta->dtype));
        }
        write_tensor(f, self, content);
        EXG_TRY(exg_builder_status(b));
    }
    if (node->output_count == 1 && node->outputs[0].kind == EXG_ARGUMENT_TENSOR) {
        f->named[node->outputs[0].as_tensor] = f->named[self];
    }
    return EXG_OK;
}

static exg_status functionalize_node(functionalizer *f, const exg_node *node)
{
    exg_argument args[EXG_ARGUMENTS_MAX];
    const exg_operator *op;

    EXG_TRY(exg_rewrite_args(&f->r, node, &op, args));
    if (op->registered != NULL && op->registered->schema->is_mutable) {
        EXG_TRY(check_apart(f, node, op));
    }
    if (op->functional != EXG_OP_NONE) {
        return write_in_place(f, node, op, args);
    }
    if (op->id == EXG_OP_alias_default && old_first_input(node) != EXG_NO_VALUE) {
        f->named[node->outputs[0].as_tensor] = f->named[old_first_input(node)];
        return EXG_OK;
    }
    if (op->view != NULL) {
        args[0] = exg_arg_ref(viewed(f->r.builder, op, args, exg_get_ref(&args[0])));
    }
    EXG_TRY(exg_rewrite_emit(&f->r, node,
                             op->id == EXG_OP_view_default ? EXG_OP_reshape_default : op->id, args,
                             op->schema->argument_count));
    for (uint32_t o = 0; o < node->output_count; o++) {
        const exg_argument *output = &node->outputs[o];

        if (output->kind == EXG_ARGUMENT_TENSOR && op->view != NULL) {
            EXG_TRY(set_view(f, output->as_tensor, old_first_input(node), op, args,
                             f->r.refs[output->as_tensor]));
        } else if (output->kind == EXG_ARGUMENT_TENSOR) {
            set_base(f, output->as_tensor, f->r.refs[output->as_tensor]);
        } else if (output->kind == EXG_ARGUMENT_TENSORS) {
            for (uint32_t i = 0; i < output->count; i++) {
                set_base(f, output->as_tensors[i], f->r.refs[output->as_tensors[i]]);
            }
        }
    }
    return EXG_OK;
}

/* ---- mutation outputs -------------------------------------------------------------- */

static uint32_t base_of(const functionalizer *f, uint32_t input)
{
    return f->tensors[f->r.in->graph->inputs[input].as_tensor].base;
}

/* By the number of places that overlap: are they all views of one base? */
static bool *find_mixed(const functionalizer *f)
{
    uint32_t count = f->r.in->graph->input_count;
    bool *mixed = EXG_NEW_ARRAY(f->r.out->arena, bool, count + 1);
    uint32_t *first = EXG_NEW_ARRAY(f->r.out->arena, uint32_t, count + 1);

    for (uint32_t i = 0; mixed != NULL && first != NULL && i < count; i++) {
        uint32_t together = f->places[i].together;

        if (f->places[i].weight != NULL) {
            first[together] = first[together] == 0 ? i + 1 : first[together];
            mixed[together] |= base_of(f, first[together] - 1) != base_of(f, i);
        }
    }
    return first == NULL ? NULL : mixed;
}

/* Another input that is where a written weight is would see the write; where it is no view of
 * one with it, the program is refused rather than run wrong. */
static exg_status check_not_shared(const functionalizer *f, uint32_t input)
{
    const exg_weight_range *own = &f->places[input];

    for (uint32_t i = 0; i < f->r.in->graph->input_count; i++) {
        const exg_weight_range *other = &f->places[i];

        if (other->weight == NULL || other->weight->storage != own->weight->storage ||
            other->first >= own->end || own->first >= other->end) {
            continue;
        }
        if (base_of(f, i) != base_of(f, input)) {
            return EXG_FAIL(f->r.err, UNSUPPORTED, "FUN-002",
                            "'%s' is written and lies in one storage with '%s', of which it is no "
                            "part",
                            own->weight->fqn, other->weight->fqn);
        }
    }
    return EXG_OK;
}

static exg_status add_mutations(functionalizer *f)
{
    static const exg_output_kind kinds[] = {[EXG_INPUT_USER] = EXG_OUTPUT_USER_INPUT_MUTATION,
                                            [EXG_INPUT_PARAMETER] = EXG_OUTPUT_PARAMETER_MUTATION,
                                            [EXG_INPUT_BUFFER] = EXG_OUTPUT_BUFFER_MUTATION,
                                            [EXG_INPUT_CONSTANT_TENSOR] =
                                                EXG_OUTPUT_BUFFER_MUTATION};
    const exg_graph *graph = f->r.in->graph;
    const bool *mixed = find_mixed(f);

    if (mixed == NULL) {
        return EXG_OUT_OF_MEMORY(f->r.err);
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const exg_input_spec *spec = &f->r.in->signature.inputs[i];
        exg_argument arg;

        if (graph->inputs[i].kind != EXG_ARGUMENT_TENSOR || f->tensors[base_of(f, i)].writes == 0) {
            continue;
        }
        if (spec->kind > EXG_INPUT_CONSTANT_TENSOR) {
            return EXG_FAIL(f->r.err, UNSUPPORTED, "FUN-003", "a write to the %s input '%s'",
                            exg_input_kind_name(spec->kind), spec->arg.name);
        }
        if (f->places[i].weight != NULL && mixed[f->places[i].together]) {
            EXG_TRY(check_not_shared(f, i));
        }
        arg = exg_arg_ref(current(f, graph->inputs[i].as_tensor));
        exg_builder_output(
            f->r.builder, &arg, kinds[spec->kind],
            exg_rewrite_text(&f->r, spec->kind == EXG_INPUT_USER ? spec->arg.name : spec->target));
    }
    return exg_builder_status(f->r.builder);
}

static exg_status create_tables(functionalizer *f)
{
    exg_arena *arena = f->r.out->arena;
    uint32_t count = f->r.in->graph->value_count;

    f->tensors = EXG_NEW_ARRAY(arena, tensor, count);
    f->named = EXG_NEW_ARRAY(arena, uint32_t, count);
    f->path = EXG_NEW_ARRAY(arena, uint32_t, count);
    if (f->tensors == NULL || f->named == NULL || f->path == NULL) {
        return EXG_OUT_OF_MEMORY(f->r.err);
    }
    for (uint32_t v = 0; v < count; v++) {
        f->named[v] = v;
    }
    return EXG_OK;
}

static exg_status functionalize_all(functionalizer *f)
{
    const exg_graph *graph = f->r.in->graph;

    EXG_TRY(create_tables(f));
    EXG_TRY(exg_rewrite_inputs(&f->r));
    EXG_TRY(take_given(f));
    EXG_TRY(bind_inputs(f));
    for (uint32_t n = 0; n < graph->node_count; n++) {
        EXG_TRY_IN(f->r.err, functionalize_node(f, &graph->nodes[n]), "graph.nodes[%u]", n);
    }
    EXG_TRY(add_mutations(f));
    return exg_rewrite_outputs(&f->r);
}

exg_status exg_functionalize(const exg_program *decomposed, const exg_operators *operators,
                             exg_program **out, exg_error *err)
{
    EXG_REQUIRE(err, decomposed, operators, out);
    functionalizer f = {0};

    *out = NULL;
    EXG_TRY(exg_rewrite_begin(&f.r, decomposed, operators, err));
    exg_builder_set_lowering(f.r.builder, true);
    f.r.read = read_current;
    f.r.user = &f;
    return exg_rewrite_finish(&f.r, functionalize_all(&f), out);
}
