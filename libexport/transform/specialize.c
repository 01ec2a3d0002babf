/* specialize.c - the program with every size a number that is known before the run.
 *
 * Values keep their ids: metas are evaluated, operators on sizes are computed and
 * dropped, arguments that named a size become numbers. Graphs inside modes are
 * inlined before (inline.h).
 */
#include "libexport/base/arena.h"
#include "libexport/base/require.h"
#include "libexport/operators/symbolic.h"
#include "libexport/program/expression.h"
#include "libexport/transform/graph_segment.h"

#include <exg/transform.h>
#include <exg/weights.h>
#include <inttypes.h>
#include <string.h>

typedef struct specializer {
    const exg_program *in;
    const exg_operators *operators;
    const exg_symbols *symbols;
    exg_program *out;
    exg_arena *arena;
    exg_argument *numbers;       /* by value id; NONE: no number */
    exg_expressions expressions; /* in memory of this call */
    bool met_unknown;
    exg_error *err;
} specializer;

/* `expressions` NULL: reads it for this time alone. */
static exg_status evaluate_size(const exg_symbols *symbols, exg_expressions *expressions,
                                exg_sym_int *size, exg_error *err)
{
    const exg_expression *expr;

    if (size->expr != NULL) {
        if (expressions == NULL) {
            EXG_TRY(exg_symint_evaluate(size->expr, symbols, &size->value, err));
        } else {
            EXG_TRY(exg_expressions_find(expressions, size->expr, &expr, err));
            EXG_TRY(exg_expression_evaluate_int(expr, symbols, &size->value, err));
        }
        size->expr = NULL;
        size->has_hint = false;
    }
    return EXG_OK;
}

static void note_unknown(void *user, const char *name, size_t length)
{
    specializer *s = user;

    s->met_unknown = s->met_unknown || exg_symbols_find(s->symbols, name, length) == NULL;
}

/* Notes whether the size speaks of a symbol that has no number before the run. */
static exg_status look_for_unknown(specializer *s, const exg_sym_int *size)
{
    const exg_expression *expr;

    if (size->expr != NULL) {
        EXG_TRY(exg_expressions_find(&s->expressions, size->expr, &expr, s->err));
        exg_expression_visit(expr, note_unknown, s);
    }
    return EXG_OK;
}

static exg_status has_unknown(specializer *s, const exg_tensor_meta *meta, bool *found)
{
    s->met_unknown = false;
    EXG_TRY(look_for_unknown(s, &meta->storage_offset));
    for (uint32_t d = 0; d < meta->rank; d++) {
        EXG_TRY(look_for_unknown(s, &meta->sizes[d]));
        EXG_TRY(look_for_unknown(s, &meta->strides[d]));
    }
    *found = s->met_unknown;
    return EXG_OK;
}

exg_tensor_meta *exg_meta_copy(exg_arena *arena, const exg_tensor_meta *meta)
{
    exg_tensor_meta *copy = exg_arena_memdup(arena, meta, 1, sizeof(*meta));

    if (copy != NULL) {
        copy->sizes = exg_arena_memdup(arena, meta->sizes, meta->rank, sizeof(*meta->sizes));
        copy->strides = exg_arena_memdup(arena, meta->strides, meta->rank, sizeof(*meta->strides));
    }
    return copy == NULL || copy->sizes == NULL || copy->strides == NULL ? NULL : copy;
}

exg_status exg_meta_evaluate(const exg_tensor_meta *in, const exg_symbols *symbols,
                             exg_expressions *expressions, exg_arena *arena, exg_tensor_meta **out,
                             exg_error *err)
{
    exg_tensor_meta *meta = exg_meta_copy(arena, in);

    if (meta == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t d = 0; d < meta->rank; d++) {
        EXG_TRY_IN(err, evaluate_size(symbols, expressions, &meta->sizes[d], err), "sizes[%u]", d);
        EXG_TRY_IN(err, evaluate_size(symbols, expressions, &meta->strides[d], err), "strides[%u]",
                   d);
        if (meta->sizes[d].value < 0) {
            return EXG_FAIL(err, USAGE, "INP-006", "size %" PRId64 " with these inputs",
                            meta->sizes[d].value);
        }
    }
    EXG_TRY(evaluate_size(symbols, expressions, &meta->storage_offset, err));
    *out = meta;
    return EXG_OK;
}

static exg_status copy_values(specializer *s)
{
    const exg_graph *in = s->in->graph;
    exg_graph *out = s->out->graph;

    out->values = exg_arena_memdup(s->arena, in->values, in->value_count, sizeof(*in->values));
    s->numbers = EXG_NEW_ARRAY(s->arena, exg_argument, in->value_count);
    if (out->values == NULL || s->numbers == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    out->value_count = in->value_count;
    for (uint32_t v = 0; v < in->value_count; v++) {
        bool unknown = false;

        if (in->values[v].tensor == NULL) {
            continue;
        }
        EXG_TRY(has_unknown(s, in->values[v].tensor, &unknown));
        if (!unknown) {
            EXG_TRY_IN(s->err,
                       exg_meta_evaluate(in->values[v].tensor, s->symbols, &s->expressions,
                                         s->arena, &out->values[v].tensor, s->err),
                       "tensor_values[\"%s\"]", in->values[v].name);
        }
    }
    return EXG_OK;
}

/* Values that became numbers are none any more. */
static void drop_numbers(specializer *s)
{
    for (uint32_t v = 0; v < s->out->graph->value_count; v++) {
        if (s->numbers[v].kind != EXG_ARGUMENT_NONE) {
            s->out->graph->values[v].sym_int = NULL;
            s->out->graph->values[v].sym_float = NULL;
            s->out->graph->values[v].sym_bool = NULL;
        }
    }
}

void exg_meta_contiguous(exg_tensor_meta *meta)
{
    int64_t stride = 1;

    for (uint32_t d = meta->rank; d-- > 0;) {
        meta->strides[d] = exg_sym_int_of(stride);
        /* wraps only where the number of elements does, which shapes refuse */
        stride = (int64_t)((uint64_t)stride *
                           (uint64_t)(meta->sizes[d].value > 1 ? meta->sizes[d].value : 1));
    }
    meta->storage_offset = exg_sym_int_of(0);
}

const exg_weight *exg_input_weight(const exg_program *in, uint32_t i)
{
    const exg_input_spec *spec = &in->signature.inputs[i];
    const exg_weight *weight = NULL;

    if (spec->kind == EXG_INPUT_USER || spec->target == NULL) {
        return NULL;
    }
    if (spec->kind != EXG_INPUT_CONSTANT_TENSOR) {
        weight = exg_weights_find(in->weights, EXG_TABLE_STATE, spec->target);
    }
    return weight != NULL ? weight
                          : exg_weights_find(in->weights, EXG_TABLE_CONSTANTS, spec->target);
}

void exg_input_given(const exg_program *in, uint32_t i, exg_tensor_meta *meta)
{
    const exg_weight *weight = exg_input_weight(in, i);

    if (weight != NULL && weight->meta != NULL && weight->meta->rank == meta->rank) {
        memcpy(meta->strides, weight->meta->strides, meta->rank * sizeof(*meta->strides));
        meta->storage_offset = weight->meta->storage_offset;
        return;
    }
    exg_meta_contiguous(meta);
}

exg_status exg_input_meta(const exg_program *in, uint32_t i, const exg_symbols *symbols,
                          exg_arena *arena, exg_tensor_meta **meta, exg_error *err)
{
    const exg_value *value = &in->graph->values[in->graph->inputs[i].as_tensor];

    EXG_TRY_IN(err, exg_meta_evaluate(value->tensor, symbols, NULL, arena, meta, err),
               "tensor_values[\"%s\"]", value->name);
    return EXG_OK;
}

exg_status exg_input_number(const exg_program *in, uint32_t i, const exg_symbols *symbols,
                            exg_argument *number, exg_error *err)
{
    const exg_value *value = &in->graph->values[in->graph->inputs[i].as_sym.value];
    const char *text = exg_value_expression(value);

    if (in->graph->inputs[i].kind == EXG_ARGUMENT_SYM_FLOAT) {
        *number = exg_arg_float(value->sym_float == NULL ? 0 : value->sym_float->value);
        return text == NULL ? EXG_OK : exg_symfloat_evaluate(text, symbols, &number->as_float, err);
    }
    *number = exg_arg_int(value->sym_int == NULL ? 0 : value->sym_int->value);
    return text == NULL ? EXG_OK : exg_symint_evaluate(text, symbols, &number->as_int, err);
}

static bool is_number(const specializer *s, const exg_sym_argument *sym)
{
    return sym->value == EXG_NO_VALUE || s->numbers[sym->value].kind != EXG_ARGUMENT_NONE;
}

/* A list with numbers in the place of names; what only the run knows keeps its name. */
static exg_status resolve_list(specializer *s, const exg_argument *in, exg_argument *out)
{
    int64_t *items = EXG_NEW_ARRAY(s->arena, int64_t, in->count);
    bool all = true;

    if (items == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < in->count; i++) {
        const exg_sym_argument *sym = &in->as_syms[i];

        all = all && is_number(s, sym);
        items[i] = sym->value == EXG_NO_VALUE ? sym->as_int : exg_get_int(&s->numbers[sym->value]);
    }
    if (all) {
        out->kind = EXG_ARGUMENT_INTS;
        out->as_ints = items;
    }
    return EXG_OK;
}

/* An argument with sizes replaced by their numbers, where they are known. */
static exg_status resolve(specializer *s, const exg_argument *in, exg_argument *out)
{
    *out = *in;
    switch (in->kind) {
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        if (in->as_sym.value != EXG_NO_VALUE) {
            *out = is_number(s, &in->as_sym) ? s->numbers[in->as_sym.value] : *in;
            return EXG_OK;
        }
        *out = in->kind == EXG_ARGUMENT_SYM_INT     ? exg_arg_int(in->as_sym.as_int)
               : in->kind == EXG_ARGUMENT_SYM_FLOAT ? exg_arg_float(in->as_sym.as_float)
                                                    : exg_arg_bool(in->as_sym.as_bool);
        return EXG_OK;
    case EXG_ARGUMENT_SYM_INTS:
        return resolve_list(s, in, out);
    default:
        return EXG_OK;
    }
}

/* Was the tensor's meta evaluated? */
static bool has_numbers(const specializer *s, exg_value_id id)
{
    return s->out->graph->values[id].tensor != s->in->graph->values[id].tensor;
}

/* Can the operator on sizes be computed before the run? */
static bool is_known(const specializer *s, const exg_operator *op, const exg_node *node)
{
    bool known = op->id != EXG_OP_item_default && op->id != EXG_OP__local_scalar_dense_default;

    for (uint32_t i = 0; i < node->input_count; i++) {
        const exg_argument *arg = &node->inputs[i].arg;
        bool sym = arg->kind == EXG_ARGUMENT_SYM_INT || arg->kind == EXG_ARGUMENT_SYM_FLOAT ||
                   arg->kind == EXG_ARGUMENT_SYM_BOOL;

        known = known && (!sym || is_number(s, &arg->as_sym)) &&
                (arg->kind != EXG_ARGUMENT_TENSOR || has_numbers(s, arg->as_tensor));
    }
    return known;
}

/* Computes an operator on sizes. */
static exg_status evaluate_node(specializer *s, const exg_operator *op, const exg_node *node)
{
    exg_argument args[EXG_SYMBOLIC_ARGUMENTS_MAX];
    exg_argument result;
    exg_argument given[EXG_SYMBOLIC_ARGUMENTS_MAX];
    uint32_t count;

    EXG_TRY(exg_operator_operands(op, node, given, &count, s->err));
    for (uint32_t i = 0; i < count; i++) {
        EXG_TRY(resolve(s, &given[i], &args[i]));
    }
    EXG_TRY(exg_operator_evaluate(op, args, count, s->out->graph, &result, s->err));
    if (op->schema->return_count == 0 ||
        (node->output_count == 1 && node->outputs[0].kind == EXG_ARGUMENT_NONE)) {
        return EXG_OK;
    }
    if (node->output_count != 1 || (node->outputs[0].kind != EXG_ARGUMENT_SYM_INT &&
                                    node->outputs[0].kind != EXG_ARGUMENT_SYM_BOOL &&
                                    node->outputs[0].kind != EXG_ARGUMENT_SYM_FLOAT)) {
        return EXG_FAIL(s->err, MALFORMED, "NOD-015", "%s gives one size", op->target);
    }
    s->numbers[node->outputs[0].as_sym.value] = result;
    return EXG_OK;
}

static exg_status copy_node(specializer *s, const exg_node *in, exg_node *out)
{
    *out = *in;
    out->inputs = EXG_NEW_ARRAY(s->arena, exg_named_argument, in->input_count);
    if (out->inputs == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < in->input_count; i++) {
        out->inputs[i] = in->inputs[i];
        EXG_TRY_IN(s->err, resolve(s, &in->inputs[i].arg, &out->inputs[i].arg), "inputs[%u]", i);
    }
    return EXG_OK;
}

static exg_status copy_nodes(specializer *s)
{
    const exg_graph *in = s->in->graph;
    exg_graph *out = s->out->graph;

    out->nodes = EXG_NEW_ARRAY(s->arena, exg_node, in->node_count);
    if (out->nodes == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t n = 0; n < in->node_count; n++) {
        const exg_operator *op = exg_operators_find(s->operators, in->nodes[n].target);

        if (op != NULL && op->symbolic != NULL && is_known(s, op, &in->nodes[n])) {
            EXG_TRY_IN(s->err, evaluate_node(s, op, &in->nodes[n]), "graph.nodes[%u]", n);
        } else {
            EXG_TRY_IN(s->err, copy_node(s, &in->nodes[n], &out->nodes[out->node_count]),
                       "graph.nodes[%u]", n);
            out->node_count++;
        }
    }
    return EXG_OK;
}

/* A number among the inputs is a constant from here on, in graph and signature. */
static exg_status copy_inputs(specializer *s)
{
    const exg_graph *in = s->in->graph;
    exg_graph *out = s->out->graph;
    exg_signature *signature = &s->out->signature;

    *signature = s->in->signature;
    out->inputs = exg_arena_memdup(s->arena, in->inputs, in->input_count, sizeof(*in->inputs));
    signature->inputs = exg_arena_memdup(s->arena, s->in->signature.inputs, signature->input_count,
                                         sizeof(*signature->inputs));
    if (out->inputs == NULL || signature->inputs == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    out->input_count = in->input_count;
    for (uint32_t i = 0; i < in->input_count; i++) {
        exg_value_id id = in->inputs[i].as_sym.value;
        exg_argument_kind kind = in->inputs[i].kind;

        if (kind != EXG_ARGUMENT_SYM_INT && kind != EXG_ARGUMENT_SYM_FLOAT) {
            continue;
        }
        EXG_TRY(exg_input_number(s->in, i, s->symbols, &s->numbers[id], s->err));
        out->inputs[i] = s->numbers[id];
        signature->inputs[i].arg.kind = s->numbers[id].kind;
        signature->inputs[i].arg.as_int = s->numbers[id].as_int;
    }
    return EXG_OK;
}

static exg_status copy_outputs(specializer *s)
{
    const exg_graph *in = s->in->graph;
    exg_graph *out = s->out->graph;
    exg_signature *signature = &s->out->signature;

    out->outputs = EXG_NEW_ARRAY(s->arena, exg_argument, in->output_count);
    signature->outputs = exg_arena_memdup(s->arena, s->in->signature.outputs,
                                          signature->output_count, sizeof(*signature->outputs));
    if (out->outputs == NULL || signature->outputs == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    out->output_count = in->output_count;
    for (uint32_t i = 0; i < in->output_count; i++) {
        EXG_TRY_IN(s->err, resolve(s, &in->outputs[i], &out->outputs[i]), "graph.outputs[%u]", i);
        if (out->outputs[i].kind != in->outputs[i].kind && i < signature->output_count) {
            signature->outputs[i].arg.kind = out->outputs[i].kind;
            signature->outputs[i].arg.as_int = out->outputs[i].as_int;
        }
    }
    return EXG_OK;
}

static exg_status copy_graph(specializer *s)
{
    EXG_TRY(copy_values(s));
    EXG_TRY(copy_inputs(s));
    EXG_TRY(copy_nodes(s));
    EXG_TRY(copy_outputs(s));
    drop_numbers(s);
    return EXG_OK;
}

exg_status exg_specialize(const exg_verified *verified, const exg_symbols *symbols,
                          exg_program **out, exg_error *err)
{
    EXG_REQUIRE(err, verified, symbols, out);
    EXG_REQUIRE(err, verified->program, verified->operators);
    specializer s = {.operators = verified->operators, .symbols = symbols, .err = err};
    exg_program flat = *verified->program;
    exg_graph graph;
    exg_status status;

    *out = NULL;
    EXG_TRY(exg_program_create(exg_arena_allocator(verified->program->arena), EXG_ARENA_UNBOUNDED,
                               &s.out, err));
    s.arena = s.out->arena;
    flat.graph = &graph;
    s.in = &flat;
    s.out->graph = EXG_NEW(s.arena, exg_graph);
    exg_weights_release(s.out->weights);
    s.out->weights = exg_weights_retain(s.in->weights);
    s.out->name = exg_arena_strdup(s.arena, s.in->name);
    exg_expressions_init(&s.expressions, exg_arena_create(NULL, EXG_ARENA_UNBOUNDED));
    status = s.out->graph == NULL || s.expressions.arena == NULL
                 ? EXG_OUT_OF_MEMORY(err)
                 : exg_inline(verified->program->graph, s.arena, &graph, err);
    if (status == EXG_OK) {
        status = copy_graph(&s);
    }
    exg_arena_destroy(s.expressions.arena);
    if (status != EXG_OK) {
        exg_program_destroy(s.out);
        return status;
    }
    *out = s.out;
    return EXG_OK;
}
