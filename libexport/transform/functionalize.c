/* functionalize.c - writes and aliases become values.
 *
 * Every tensor is a base, or a view of another tensor. A base has a current value;
 * a write to it, or through a chain of views, makes the next one: the view's new
 * content is scattered into its parent, the parent's into its own, down to the
 * base. A view read after such a write is taken again from the current value.
 * A weight that lies in another one is a view of it. What was written of the inputs
 * comes out as mutation outputs.
 */
#include "libexport/base/given.h"
#include <exg/emit.h>
#include "libexport/operators/lower.h"
#include "libexport/transform/stretch.h"
#include "libexport/weights/storage.h"

#include <exg/transform.h>
#include <exg/weights.h>
#include <string.h>

#define NO_TENSOR UINT32_MAX

typedef struct tensor {
    bool known;
    uint32_t parent; /* old value id this is a view of, or NO_TENSOR: a base */
    uint32_t base;   /* old value id of the base */
    const exg_operator *view;
    exg_argument *args;  /* of the view, normalized; args[0] is replaced when read */
    exg_ref ref;         /* the new value, as of `version` */
    uint32_t version;    /* of a base: counts its writes */
} tensor;

/* The bytes of its storage that an input reaches over. */
typedef struct place {
    const exg_weight *weight; /* NULL: no weight, or an empty one */
    uint64_t first, end;
} place;

typedef struct functionalizer {
    exg_rewrite r;
    tensor *tensors; /* by old value id */
    place *places;   /* by input */
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

/* ---- reading ------------------------------------------------------------------- */

static exg_ref current(functionalizer *f, uint32_t id);

/* The tensor's view of `parent`. */
static exg_ref view_of(exg_builder *b, const tensor *t, exg_ref parent)
{
    exg_argument args[EXG_REWRITE_ARGS_MAX];
    uint32_t count = t->view->schema->argument_count;
    exg_operator_id op = t->view->id == EXG_OP_view_default ? EXG_OP_reshape_default : t->view->id;

    memcpy(args, t->args, count * sizeof(args[0]));
    args[0] = exg_arg_ref(parent);
    return exg_emit(b, op, args, count);
}

/* The new value of an old one, with all writes so far. */
static exg_ref current(functionalizer *f, uint32_t id)
{
    tensor *t = &f->tensors[id];
    uint32_t version;

    if (!t->known) {
        return EXG_NO_REF;
    }
    version = f->tensors[t->base].version;
    if (t->version != version) { /* never a base */
        t->ref = view_of(f->r.builder, t, current(f, t->parent));
        t->version = version;
    }
    return t->ref;
}

static exg_ref read_current(void *user, exg_value_id id)
{
    return current(user, id);
}

/* ---- writing ------------------------------------------------------------------- */

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
        return EMIT(b, view_as_complex_default, content);
    case EXG_OP_view_as_complex_default:
        return EMIT(b, view_as_real_default, content);
    case EXG_OP_view_dtype:
        return EMIT(b, view_dtype, content, DTYPE(exg_ref_meta(b, parent)->dtype));
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

/* Whether `content` is what the tensor holds now: elements that share memory hold what one of them
 * was given, and are read anew. */
static bool write_tensor(functionalizer *f, uint32_t id, exg_ref content)
{
    tensor *t = &f->tensors[id];
    bool holds = true;

    if (t->parent == NO_TENSOR) {
        t->version++;
    } else {
        holds = write_tensor(f, t->parent, put_view(f, t, current(f, t->parent), content)) &&
                !may_share_elements(t->view);
    }
    if (holds) {
        t->ref = content;
        t->version = f->tensors[t->base].version;
    }
    return holds;
}

/* ---- what is known of values ------------------------------------------------------- */

static void set_base(functionalizer *f, exg_value_id id, exg_ref ref)
{
    f->tensors[id] =
        (tensor){.known = true, .parent = NO_TENSOR, .base = id, .ref = ref, .version = 0};
}

static exg_status set_view(functionalizer *f, exg_value_id id, exg_value_id parent,
                           const exg_operator *view, const exg_argument *args, exg_ref ref)
{
    uint32_t count = view->schema->argument_count;
    exg_argument *kept = exg_arena_memdup(f->r.out->arena, args, count, sizeof(*args));

    if (kept == NULL) {
        return EXG_OUT_OF_MEMORY(f->r.err);
    }
    f->tensors[id] = (tensor){.known = true,
                              .parent = parent,
                              .base = f->tensors[parent].base,
                              .view = view,
                              .args = kept,
                              .ref = ref,
                              .version = f->tensors[f->tensors[parent].base].version};
    return EXG_OK;
}

/* ---- inputs ----------------------------------------------------------------------- */

static exg_status find_places(functionalizer *f)
{
    const exg_program *in = f->r.in;
    bool shared = false;

    f->places = EXG_NEW_ARRAY(f->r.out->arena, place, in->graph->input_count);
    if (f->places == NULL) {
        return EXG_OUT_OF_MEMORY(f->r.err);
    }
    EXG_TRY(exg_weights_share(in->weights, f->r.out->arena, &shared, f->r.err));
    for (uint32_t i = 0; shared && i < in->graph->input_count; i++) {
        const exg_weight *weight = exg_input_weight(in, i);
        place *p = &f->places[i];

        if (weight != NULL && weight->meta != NULL) {
            EXG_TRY(exg_tensor_meta_reach(weight->meta, &p->first, &p->end, f->r.err));
            p->weight = p->first < p->end ? weight : NULL;
        }
    }
    return EXG_OK;
}

/* The greatest weight that an input is part of, the first of equals; perhaps itself. */
static uint32_t whole_of(const functionalizer *f, uint32_t input)
{
    const place *own = &f->places[input];
    uint32_t found = input;

    for (uint32_t i = 0; own->weight != NULL && i < f->r.in->graph->input_count; i++) {
        const place *other = &f->places[i];
        const place *best = &f->places[found];

        if (other->weight != NULL && other->weight->storage == own->weight->storage &&
            other->weight->meta->dtype == own->weight->meta->dtype && other->first <= own->first &&
            other->end >= own->end && exg_tensor_meta_is_packed(other->weight->meta) &&
            (other->end - other->first > best->end - best->first || i < found)) {
            found = i;
        }
    }
    return found;
}

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

    EXG_TRY(find_places(f));
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (graph->inputs[i].kind == EXG_ARGUMENT_TENSOR) {
            set_base(f, graph->inputs[i].as_tensor, f->r.refs[graph->inputs[i].as_tensor]);
        }
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        uint32_t whole = whole_of(f, i);

        if (whole != i) {
            EXG_TRY(bind_part(f, i, whole));
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
    const exg_argument alias_args[] = {args[0]};
    exg_argument twin_args[EXG_REWRITE_ARGS_MAX];

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
        return set_view(f, node->outputs[0].as_tensor, self,
                        exg_operators_get(f->r.operators, EXG_OP_alias_default), alias_args,
                        current(f, self));
    }
    return EXG_OK;
}

static exg_status functionalize_node(functionalizer *f, const exg_node *node)
{
    exg_argument args[EXG_REWRITE_ARGS_MAX];
    const exg_operator *op;

    EXG_TRY(exg_rewrite_args(&f->r, node, &op, args));
    if (op->functional != EXG_OPERATOR_COUNT) {
        return write_in_place(f, node, op, args);
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

/* Another input that lies where a written weight does would see the write; where it is no view of
 * one with it, the program is refused rather than run wrong. */
static exg_status check_not_shared(const functionalizer *f, uint32_t input)
{
    const exg_graph *graph = f->r.in->graph;
    const place *own = &f->places[input];

    for (uint32_t i = 0; own->weight != NULL && i < graph->input_count; i++) {
        const place *other = &f->places[i];

        if (other->weight == NULL || other->weight->storage != own->weight->storage ||
            other->first >= own->end || own->first >= other->end) {
            continue;
        }
        if (f->tensors[graph->inputs[i].as_tensor].base !=
            f->tensors[graph->inputs[input].as_tensor].base) {
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
    static const exg_output_kind kinds[] = {
        [EXG_INPUT_USER] = EXG_OUTPUT_USER_INPUT_MUTATION,
        [EXG_INPUT_PARAMETER] = EXG_OUTPUT_PARAMETER_MUTATION,
        [EXG_INPUT_BUFFER] = EXG_OUTPUT_BUFFER_MUTATION,
        [EXG_INPUT_CONSTANT_TENSOR] = EXG_OUTPUT_BUFFER_MUTATION};
    const exg_graph *graph = f->r.in->graph;

    for (uint32_t i = 0; i < graph->input_count; i++) {
        const exg_input_spec *spec = &f->r.in->signature.inputs[i];
        exg_argument arg;

        if (graph->inputs[i].kind != EXG_ARGUMENT_TENSOR ||
            f->tensors[f->tensors[graph->inputs[i].as_tensor].base].version == 0) {
            continue;
        }
        if (spec->kind > EXG_INPUT_CONSTANT_TENSOR) {
            return EXG_FAIL(f->r.err, UNSUPPORTED, "FUN-003", "a write to the %s input '%s'",
                            exg_input_kind_name(spec->kind), spec->arg.name);
        }
        EXG_TRY(check_not_shared(f, i));
        arg = exg_arg_ref(current(f, graph->inputs[i].as_tensor));
        exg_builder_output(f->r.builder, &arg, kinds[spec->kind],
                           exg_arena_strdup(f->r.out->arena, spec->kind == EXG_INPUT_USER
                                                                 ? spec->arg.name
                                                                 : spec->target));
    }
    return exg_builder_status(f->r.builder);
}

exg_status exg_functionalize(const exg_program *decomposed, const exg_operators *operators,
                             exg_program **out, exg_error *err)
{
    EXG_GIVEN(err, decomposed, operators, out);
    functionalizer f = {0};
    const exg_graph *graph = decomposed->graph;
    exg_status status;

    *out = NULL;
    EXG_TRY(exg_rewrite_begin(&f.r, decomposed, operators, err));
    exg_builder_set_lowering(f.r.builder, true);
    f.r.read = read_current;
    f.r.user = &f;
    f.tensors = EXG_NEW_ARRAY(f.r.out->arena, tensor, graph->value_count);
    status = f.tensors == NULL ? EXG_OUT_OF_MEMORY(err) : exg_rewrite_inputs(&f.r);
    status = status == EXG_OK ? take_given(&f) : status;
    status = status == EXG_OK ? bind_inputs(&f) : status;
    for (uint32_t n = 0; status == EXG_OK && n < graph->node_count; n++) {
        status = functionalize_node(&f, &graph->nodes[n]);
        if (status != EXG_OK) {
            (void)exg_error_within(err, status, "graph.nodes[%u]", n);
        }
    }
    status = status == EXG_OK ? add_mutations(&f) : status;
    status = status == EXG_OK ? exg_rewrite_outputs(&f.r) : status;
    return exg_rewrite_finish(&f.r, status, out);
}
