/* equal.c - are two programs the same, and if not, where do they part?
 *
 * A difference is a MISMATCH that collects its path while unwinding, as faults do.
 * Values are compared by name: their ids may differ.
 */
#include "libexport/program/equal.h"

#include "libexport/base/arena.h"
#include "libexport/base/map.h"

#include <exg/weights.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIFFERENCE_BYTES 256
#define BLOCK_BYTES      (1u << 20)

#define DIFFER(err, ...) EXG_FAIL(err, MISMATCH, "EQL", __VA_ARGS__)

typedef struct scope {
    const exg_graph *a;
    const exg_graph *b;
    exg_error *err;
} scope;

static exg_status texts(const char *a, const char *b, const char *what, exg_error *err)
{
    if (a == b || (a != NULL && b != NULL && strcmp(a, b) == 0)) {
        return EXG_OK;
    }
    return DIFFER(err, "%s is %s%s%s and %s%s%s", what, a == NULL ? "" : "'",
                  a == NULL ? "absent" : a, a == NULL ? "" : "'", b == NULL ? "" : "'",
                  b == NULL ? "absent" : b, b == NULL ? "" : "'");
}

static exg_status numbers(int64_t a, int64_t b, const char *what, exg_error *err)
{
    return a == b ? EXG_OK : DIFFER(err, "%s is %" PRId64 " and %" PRId64, what, a, b);
}

/* Bit for bit, so that NaN equals itself and -0.0 is not 0.0. */
static exg_status doubles(double a, double b, const char *what, exg_error *err)
{
    return memcmp(&a, &b, sizeof(a)) == 0 ? EXG_OK
                                          : DIFFER(err, "%s is %.17g and %.17g", what, a, b);
}

static exg_status string_lists(const char *const *a, const char *const *b, uint32_t count_a,
                               uint32_t count_b, const char *what, exg_error *err)
{
    EXG_TRY_IN(err, numbers(count_a, count_b, "the count", err), "%s", what);
    for (uint32_t i = 0; i < count_a; i++) {
        EXG_TRY_IN(err, texts(a[i], b[i], "the text", err), "%s[%u]", what, i);
    }
    return EXG_OK;
}

static exg_status string_maps(const exg_string_map *a, const exg_string_map *b, const char *what,
                              exg_error *err)
{
    EXG_TRY_IN(err, numbers(a->count, b->count, "the count", err), "%s", what);
    for (uint32_t i = 0; i < a->count; i++) {
        EXG_TRY_IN(err, texts(a->items[i].key, b->items[i].key, "the key", err), "%s[%u]", what, i);
        EXG_TRY_IN(err, texts(a->items[i].value, b->items[i].value, "the text", err), "%s['%s']",
                   what, a->items[i].key);
    }
    return EXG_OK;
}

/* ---- arguments ------------------------------------------------------------------------------ */

static exg_status arguments(const scope *s, const exg_argument *a, const exg_argument *b);
static exg_status graphs(const exg_graph *a, const exg_graph *b, exg_error *err);

static exg_status ids(const scope *s, exg_value_id a, exg_value_id b)
{
    return texts(a == EXG_NO_VALUE ? NULL : s->a->values[a].name,
                 b == EXG_NO_VALUE ? NULL : s->b->values[b].name, "the value", s->err);
}

static exg_status syms(const scope *s, const exg_sym_argument *a, const exg_sym_argument *b,
                       exg_argument_kind kind)
{
    EXG_TRY(ids(s, a->value, b->value));
    if (a->value != EXG_NO_VALUE) {
        return EXG_OK;
    }
    if (kind == EXG_ARGUMENT_SYM_FLOAT || kind == EXG_ARGUMENT_SYM_FLOATS) {
        return doubles(a->as_float, b->as_float, "the number", s->err);
    }
    if (kind == EXG_ARGUMENT_SYM_BOOL || kind == EXG_ARGUMENT_SYM_BOOLS) {
        return numbers(a->as_bool, b->as_bool, "the truth", s->err);
    }
    return numbers(a->as_int, b->as_int, "the number", s->err);
}

/* Item `i` of two lists of one kind. */
static exg_status items(const scope *s, const exg_argument *a, const exg_argument *b, uint32_t i)
{
    exg_argument x = {.kind = EXG_ARGUMENT_NONE};
    exg_argument y = {.kind = EXG_ARGUMENT_NONE};

    switch (a->kind) {
    case EXG_ARGUMENT_INTS:
        return numbers(a->as_ints[i], b->as_ints[i], "the number", s->err);
    case EXG_ARGUMENT_FLOATS:
        return doubles(a->as_floats[i], b->as_floats[i], "the number", s->err);
    case EXG_ARGUMENT_BOOLS:
        return numbers(a->as_bools[i], b->as_bools[i], "the truth", s->err);
    case EXG_ARGUMENT_STRINGS:
        return texts(a->as_strings[i], b->as_strings[i], "the text", s->err);
    case EXG_ARGUMENT_TENSORS:
    case EXG_ARGUMENT_OPTIONAL_TENSORS:
        return ids(s, a->as_tensors[i], b->as_tensors[i]);
    case EXG_ARGUMENT_SYM_INTS:
    case EXG_ARGUMENT_SYM_FLOATS:
    case EXG_ARGUMENT_SYM_BOOLS:
        return syms(s, &a->as_syms[i], &b->as_syms[i], a->kind);
    case EXG_ARGUMENT_NESTED_TENSORS:
        x = (exg_argument){.kind = EXG_ARGUMENT_TENSORS,
                           .count = a->as_nested_tensors[i].count,
                           .as_tensors = a->as_nested_tensors[i].items};
        y = (exg_argument){.kind = EXG_ARGUMENT_TENSORS,
                           .count = b->as_nested_tensors[i].count,
                           .as_tensors = b->as_nested_tensors[i].items};
        return arguments(s, &x, &y);
    case EXG_ARGUMENT_INT_LISTS:
        x = (exg_argument){.kind = EXG_ARGUMENT_INTS,
                           .count = a->as_int_lists[i].count,
                           .as_ints = a->as_int_lists[i].items};
        y = (exg_argument){.kind = EXG_ARGUMENT_INTS,
                           .count = b->as_int_lists[i].count,
                           .as_ints = b->as_int_lists[i].items};
        return arguments(s, &x, &y);
    case EXG_ARGUMENT_FLOAT_LISTS:
        x = (exg_argument){.kind = EXG_ARGUMENT_FLOATS,
                           .count = a->as_float_lists[i].count,
                           .as_floats = a->as_float_lists[i].items};
        y = (exg_argument){.kind = EXG_ARGUMENT_FLOATS,
                           .count = b->as_float_lists[i].count,
                           .as_floats = b->as_float_lists[i].items};
        return arguments(s, &x, &y);
    case EXG_ARGUMENT_STRING_TO_ARGUMENT:
        EXG_TRY(texts(a->as_string_to_argument[i].key, b->as_string_to_argument[i].key, "the key",
                      s->err));
        return arguments(s, &a->as_string_to_argument[i].argument,
                         &b->as_string_to_argument[i].argument);
    default: /* no list: it has no items */
        return EXG_OK;
    }
}

static exg_status devices(const exg_device *a, const exg_device *b, exg_error *err)
{
    EXG_TRY(texts(a->type, b->type, "the device", err));
    return numbers(a->index, b->index, "the device index", err);
}

static exg_status leaves(const scope *s, const exg_argument *a, const exg_argument *b)
{
    switch (a->kind) {
    case EXG_ARGUMENT_TENSOR:
    case EXG_ARGUMENT_OPTIONAL_TENSOR:
        return ids(s, a->as_tensor, b->as_tensor);
    case EXG_ARGUMENT_INT:
        return numbers(a->as_int, b->as_int, "the number", s->err);
    case EXG_ARGUMENT_FLOAT:
        return doubles(a->as_float, b->as_float, "the number", s->err);
    case EXG_ARGUMENT_BOOL:
        return numbers(a->as_bool, b->as_bool, "the truth", s->err);
    case EXG_ARGUMENT_STRING:
    case EXG_ARGUMENT_OPERATOR:
        return texts(a->as_string, b->as_string, "the text", s->err);
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        return syms(s, &a->as_sym, &b->as_sym, a->kind);
    case EXG_ARGUMENT_SCALAR_TYPE:
        return texts(exg_dtype_name(a->as_scalar_type), exg_dtype_name(b->as_scalar_type),
                     "the dtype", s->err);
    case EXG_ARGUMENT_MEMORY_FORMAT:
        return texts(exg_memory_format_name(a->as_memory_format),
                     exg_memory_format_name(b->as_memory_format), "the memory format", s->err);
    case EXG_ARGUMENT_LAYOUT:
        return texts(exg_layout_name(a->as_layout), exg_layout_name(b->as_layout), "the layout",
                     s->err);
    case EXG_ARGUMENT_DEVICE:
        return devices(&a->as_device, &b->as_device, s->err);
    case EXG_ARGUMENT_COMPLEX:
        EXG_TRY(doubles(a->as_complex.real, b->as_complex.real, "the real part", s->err));
        return doubles(a->as_complex.imag, b->as_complex.imag, "the imaginary part", s->err);
    case EXG_ARGUMENT_GRAPH:
        EXG_TRY(texts(a->as_graph->name, b->as_graph->name, "the graph's name", s->err));
        EXG_TRY(numbers(a->as_graph->lifted_count, b->as_graph->lifted_count,
                        "the count of lifted tensors", s->err));
        EXG_TRY(string_maps(&a->as_graph->metadata, &b->as_graph->metadata, "metadata", s->err));
        EXG_TRY_IN(s->err, graphs(a->as_graph->graph, b->as_graph->graph, s->err), "%s",
                   a->as_graph->name);
        return EXG_OK;
    case EXG_ARGUMENT_CUSTOM_OBJ:
        EXG_TRY(texts(a->as_custom_obj->name, b->as_custom_obj->name, "the object", s->err));
        return texts(a->as_custom_obj->class_fqn, b->as_custom_obj->class_fqn, "the class", s->err);
    default: /* NONE, and lists, which are compared item by item */
        return EXG_OK;
    }
}

static bool is_list(exg_argument_kind kind)
{
    switch (kind) {
    case EXG_ARGUMENT_TENSORS:
    case EXG_ARGUMENT_INTS:
    case EXG_ARGUMENT_FLOATS:
    case EXG_ARGUMENT_STRINGS:
    case EXG_ARGUMENT_SYM_INTS:
    case EXG_ARGUMENT_BOOLS:
    case EXG_ARGUMENT_SYM_BOOLS:
    case EXG_ARGUMENT_OPTIONAL_TENSORS:
    case EXG_ARGUMENT_SYM_FLOATS:
    case EXG_ARGUMENT_NESTED_TENSORS:
    case EXG_ARGUMENT_INT_LISTS:
    case EXG_ARGUMENT_STRING_TO_ARGUMENT:
    case EXG_ARGUMENT_FLOAT_LISTS:
        return true;
    default: /* leaves */
        return false;
    }
}

static exg_status arguments(const scope *s, const exg_argument *a, const exg_argument *b)
{
    EXG_TRY(texts(exg_argument_tag(a->kind), exg_argument_tag(b->kind), "the kind", s->err));
    if (!is_list(a->kind)) {
        return leaves(s, a, b);
    }
    EXG_TRY(numbers(a->count, b->count, "the count", s->err));
    for (uint32_t i = 0; i < a->count; i++) {
        EXG_TRY_IN(s->err, items(s, a, b, i), "[%u]", i);
    }
    return EXG_OK;
}

static exg_status argument_lists(const scope *s, const exg_argument *a, const exg_argument *b,
                                 uint32_t count_a, uint32_t count_b, const char *what)
{
    EXG_TRY_IN(s->err, numbers(count_a, count_b, "the count", s->err), "%s", what);
    for (uint32_t i = 0; i < count_a; i++) {
        EXG_TRY_IN(s->err, arguments(s, &a[i], &b[i]), "%s[%u]", what, i);
    }
    return EXG_OK;
}

/* ---- graphs -----------------------------------------------------------------------------------
 */

static exg_status metas(const exg_tensor_meta *a, const exg_tensor_meta *b, exg_error *err)
{
    if ((a == NULL) != (b == NULL)) {
        return DIFFER(err, "only one has a tensor meta");
    }
    return a == NULL || exg_tensor_meta_equal(a, b) ? EXG_OK
                                                    : DIFFER(err, "the tensor metas differ");
}

static exg_status values(const exg_value *a, const exg_value *b, exg_error *err)
{
    EXG_TRY(metas(a->tensor, b->tensor, err));
    EXG_TRY(texts(a->custom_class, b->custom_class, "the class", err));
    if ((a->sym_int == NULL) != (b->sym_int == NULL) ||
        (a->sym_float == NULL) != (b->sym_float == NULL) ||
        (a->sym_bool == NULL) != (b->sym_bool == NULL)) {
        return DIFFER(err, "the value is of two sorts");
    }
    if (a->sym_int != NULL) {
        EXG_TRY(texts(a->sym_int->expr, b->sym_int->expr, "the expression", err));
        EXG_TRY(numbers(a->sym_int->has_hint, b->sym_int->has_hint, "has_hint", err));
        EXG_TRY(numbers(a->sym_int->value, b->sym_int->value, "the number", err));
    }
    if (a->sym_float != NULL) {
        EXG_TRY(texts(a->sym_float->expr, b->sym_float->expr, "the expression", err));
        EXG_TRY(numbers(a->sym_float->has_hint, b->sym_float->has_hint, "has_hint", err));
        EXG_TRY(doubles(a->sym_float->value, b->sym_float->value, "the number", err));
    }
    if (a->sym_bool != NULL) {
        EXG_TRY(texts(a->sym_bool->expr, b->sym_bool->expr, "the expression", err));
        EXG_TRY(numbers(a->sym_bool->has_hint, b->sym_bool->has_hint, "has_hint", err));
        EXG_TRY(numbers(a->sym_bool->value, b->sym_bool->value, "the truth", err));
    }
    return EXG_OK;
}

static exg_status value_tables(const scope *s)
{
    exg_arena *scratch = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_map names;
    exg_status status = scratch == NULL ? EXG_OUT_OF_MEMORY(s->err)
                                        : numbers(s->a->value_count, s->b->value_count,
                                                  "the count of values", s->err);

    exg_map_init(&names, scratch);
    for (uint32_t i = 0; status == EXG_OK && i < s->b->value_count; i++) {
        status = exg_map_put(&names, s->b->values[i].name, i) ? EXG_OK : EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; status == EXG_OK && i < s->a->value_count; i++) {
        uint32_t other = exg_map_find(&names, s->a->values[i].name);

        status = other == EXG_MAP_NONE
                     ? DIFFER(s->err, "only one has a value %s", s->a->values[i].name)
                     : values(&s->a->values[i], &s->b->values[other], s->err);
        if (status != EXG_OK) {
            exg_error_within(s->err, status, "values['%s']", s->a->values[i].name);
        }
    }
    exg_arena_destroy(scratch);
    return status;
}

static exg_status nodes(const scope *s, const exg_node *a, const exg_node *b)
{
    EXG_TRY(texts(a->target, b->target, "target", s->err));
    EXG_TRY(texts(a->name, b->name, "name", s->err));
    EXG_TRY(numbers(a->input_count, b->input_count, "the count of inputs", s->err));
    for (uint32_t i = 0; i < a->input_count; i++) {
        EXG_TRY_IN(s->err, texts(a->inputs[i].name, b->inputs[i].name, "name", s->err),
                   "inputs[%u]", i);
        EXG_TRY_IN(s->err, numbers(a->inputs[i].kind, b->inputs[i].kind, "kind", s->err),
                   "inputs[%u]", i);
        EXG_TRY_IN(s->err, arguments(s, &a->inputs[i].arg, &b->inputs[i].arg), "inputs[%u].arg", i);
    }
    EXG_TRY(argument_lists(s, a->outputs, b->outputs, a->output_count, b->output_count, "outputs"));
    EXG_TRY(string_maps(&a->metadata, &b->metadata, "metadata", s->err));
    return numbers(a->is_hop_single_tensor_return, b->is_hop_single_tensor_return,
                   "is_hop_single_tensor_return", s->err);
}

static exg_status graphs(const exg_graph *a, const exg_graph *b, exg_error *err)
{
    scope s = {a, b, err};

    EXG_TRY(argument_lists(&s, a->inputs, b->inputs, a->input_count, b->input_count, "inputs"));
    EXG_TRY(numbers(a->node_count, b->node_count, "the count of nodes", err));
    for (uint32_t i = 0; i < a->node_count; i++) {
        EXG_TRY_IN(err, nodes(&s, &a->nodes[i], &b->nodes[i]), "nodes[%u]", i);
    }
    EXG_TRY(
        argument_lists(&s, a->outputs, b->outputs, a->output_count, b->output_count, "outputs"));
    EXG_TRY(numbers(a->is_single_tensor_return, b->is_single_tensor_return,
                    "is_single_tensor_return", err));
    return value_tables(&s);
}

/* ---- signature and tables
 * ------------------------------------------------------------------------ */

static exg_status signature_arguments(const exg_signature_argument *a,
                                      const exg_signature_argument *b, exg_error *err)
{
    EXG_TRY(texts(exg_argument_tag(a->kind), exg_argument_tag(b->kind), "the kind", err));
    EXG_TRY(texts(a->name, b->name, "the name", err));
    EXG_TRY(numbers(a->is_token, b->is_token, "is_token", err));
    switch (a->kind) {
    case EXG_ARGUMENT_INT:
        return numbers(a->as_int, b->as_int, "the number", err);
    case EXG_ARGUMENT_FLOAT:
        return doubles(a->as_float, b->as_float, "the number", err);
    case EXG_ARGUMENT_BOOL:
        return numbers(a->as_bool, b->as_bool, "the truth", err);
    case EXG_ARGUMENT_STRING:
    case EXG_ARGUMENT_CUSTOM_OBJ:
        return texts(a->as_string, b->as_string, "the text", err);
    default: /* a value's name is all there is */
        return EXG_OK;
    }
}

static exg_status signatures(const exg_signature *a, const exg_signature *b, exg_error *err)
{
    EXG_TRY(numbers(a->input_count, b->input_count, "the count of inputs", err));
    for (uint32_t i = 0; i < a->input_count; i++) {
        const exg_input_spec *x = &a->inputs[i];
        const exg_input_spec *y = &b->inputs[i];

        EXG_TRY_IN(
            err, texts(exg_input_kind_name(x->kind), exg_input_kind_name(y->kind), "the kind", err),
            "inputs[%u]", i);
        EXG_TRY_IN(err, signature_arguments(&x->arg, &y->arg, err), "inputs[%u].arg", i);
        EXG_TRY_IN(err, texts(x->target, y->target, "target", err), "inputs[%u]", i);
        EXG_TRY_IN(err, numbers(x->persistent, y->persistent, "persistent", err), "inputs[%u]", i);
        EXG_TRY_IN(err, numbers(x->implicit, y->implicit, "implicit", err), "inputs[%u]", i);
    }
    EXG_TRY(numbers(a->output_count, b->output_count, "the count of outputs", err));
    for (uint32_t i = 0; i < a->output_count; i++) {
        const exg_output_spec *x = &a->outputs[i];
        const exg_output_spec *y = &b->outputs[i];

        EXG_TRY_IN(
            err,
            texts(exg_output_kind_name(x->kind), exg_output_kind_name(y->kind), "the kind", err),
            "outputs[%u]", i);
        EXG_TRY_IN(err, signature_arguments(&x->arg, &y->arg, err), "outputs[%u].arg", i);
        EXG_TRY_IN(err, texts(x->target, y->target, "target", err), "outputs[%u]", i);
    }
    EXG_TRY(texts(a->assertion_dep_token, b->assertion_dep_token, "assertion_dep_token", err));
    return numbers(a->assertion_dep_index, b->assertion_dep_index, "assertion_dep_index", err);
}

static exg_status module_calls(const exg_program *a, const exg_program *b, exg_error *err)
{
    scope s = {a->graph, b->graph, err};

    EXG_TRY(numbers(a->module_call_count, b->module_call_count, "the count", err));
    for (uint32_t i = 0; i < a->module_call_count; i++) {
        const exg_module_call *x = &a->module_calls[i];
        const exg_module_call *y = &b->module_calls[i];

        EXG_TRY_IN(err, texts(x->fqn, y->fqn, "fqn", err), "[%u]", i);
        EXG_TRY_IN(err, numbers(x->has_signature, y->has_signature, "has_signature", err), "[%u]",
                   i);
        EXG_TRY_IN(err, texts(x->in_spec, y->in_spec, "in_spec", err), "[%u]", i);
        EXG_TRY_IN(err, texts(x->out_spec, y->out_spec, "out_spec", err), "[%u]", i);
        EXG_TRY_IN(
            err, argument_lists(&s, x->inputs, y->inputs, x->input_count, y->input_count, "inputs"),
            "[%u]", i);
        EXG_TRY_IN(
            err,
            argument_lists(&s, x->outputs, y->outputs, x->output_count, y->output_count, "outputs"),
            "[%u]", i);
        EXG_TRY_IN(err,
                   string_lists(x->forward_arg_names, y->forward_arg_names,
                                x->forward_arg_name_count, y->forward_arg_name_count,
                                "forward_arg_names", err),
                   "[%u]", i);
    }
    return EXG_OK;
}

static exg_status input_metadata(const exg_program *a, const exg_program *b, exg_error *err)
{
    EXG_TRY(numbers(a->input_metadata_count, b->input_metadata_count,
                    "the count of inputs with metadata", err));
    for (uint32_t i = 0; i < a->input_metadata_count; i++) {
        const exg_input_metadata *x = &a->input_metadata[i];
        const exg_input_metadata *y = &b->input_metadata[i];

        EXG_TRY_IN(err, texts(x->input, y->input, "the input", err), "input_metadata[%u]", i);
        EXG_TRY_IN(err, string_maps(&x->metadata, &y->metadata, "metadata", err),
                   "input_metadata[%u]", i);
    }
    return EXG_OK;
}

static exg_status small_tables(const exg_program *a, const exg_program *b, exg_error *err)
{
    EXG_TRY(string_maps(&a->metadata, &b->metadata, "metadata", err));
    EXG_TRY(string_lists(a->verifiers, b->verifiers, a->verifier_count, b->verifier_count,
                         "verifiers", err));
    EXG_TRY(string_lists(a->guards_code, b->guards_code, a->guard_count, b->guard_count,
                         "guards_code", err));
    EXG_TRY(numbers(a->named_tuple_count, b->named_tuple_count, "the count of named tuples", err));
    for (uint32_t i = 0; i < a->named_tuple_count; i++) {
        const exg_named_tuple *x = &a->named_tuples[i];
        const exg_named_tuple *y = &b->named_tuples[i];

        EXG_TRY_IN(err, texts(x->type, y->type, "type", err), "named_tuples[%u]", i);
        EXG_TRY_IN(err,
                   string_lists(x->field_names, y->field_names, x->field_count, y->field_count,
                                "field_names", err),
                   "named_tuples[%u]", i);
    }
    EXG_TRY(numbers(a->opset_count, b->opset_count, "the count of opsets", err));
    for (uint32_t i = 0; i < a->opset_count; i++) {
        EXG_TRY_IN(err, texts(a->opsets[i].name_space, b->opsets[i].name_space, "the name", err),
                   "opsets[%u]", i);
        EXG_TRY_IN(err, numbers(a->opsets[i].version, b->opsets[i].version, "the version", err),
                   "opsets[%u]", i);
    }
    EXG_TRY(numbers(a->range_constraint_count, b->range_constraint_count,
                    "the count of range constraints", err));
    for (uint32_t i = 0; i < a->range_constraint_count; i++) {
        const exg_range_constraint *x = &a->range_constraints[i];
        const exg_range_constraint *y = &b->range_constraints[i];

        EXG_TRY_IN(err, texts(x->symbol, y->symbol, "the symbol", err), "range_constraints[%u]", i);
        if (x->has_min != y->has_min || x->has_max != y->has_max || x->min_val != y->min_val ||
            x->max_val != y->max_val) {
            return DIFFER(err, "the range of %s differs", x->symbol);
        }
    }
    return input_metadata(a, b, err);
}

/* ---- weights
 * ---------------------------------------------------------------------------------------- */

static exg_status bytes(exg_weights *a, uint32_t storage_a, exg_weights *b, uint32_t storage_b,
                        exg_error *err)
{
    uint64_t length = a->storages[storage_a].length;
    uint8_t *x;
    exg_status status = EXG_OK;

    EXG_TRY(numbers((int64_t)length, (int64_t)b->storages[storage_b].length, "the storage length",
                    err));
    EXG_TRY(numbers(a->storages[storage_a].byte_order, b->storages[storage_b].byte_order,
                    "the byte order", err));
    x = malloc(2 * (size_t)BLOCK_BYTES);
    if (x == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint64_t at = 0; at < length && status == EXG_OK; at += BLOCK_BYTES) {
        uint64_t part = length - at < BLOCK_BYTES ? length - at : BLOCK_BYTES;

        status = exg_storage_read(a, storage_a, at, part, x, err);
        if (status == EXG_OK) {
            status = exg_storage_read(b, storage_b, at, part, x + BLOCK_BYTES, err);
        }
        if (status == EXG_OK && memcmp(x, x + BLOCK_BYTES, (size_t)part) != 0) {
            status =
                DIFFER(err, "the bytes differ in the MiB from offset %llu", (unsigned long long)at);
        }
    }
    free(x);
    return status;
}

/* Storages stand for each other: shared here means shared there. */
static exg_status pair_storages(uint32_t *partners, uint32_t a, uint32_t b, exg_error *err)
{
    if (partners[a] == UINT32_MAX) {
        partners[a] = b;
        return EXG_OK;
    }
    return partners[a] == b ? EXG_OK : DIFFER(err, "storages are shared differently");
}

static exg_status weight(const exg_weights *wa, const exg_weights *wb, uint32_t i,
                         uint32_t *partners_a, uint32_t *partners_b, exg_error *err)
{
    const exg_weight *a = &wa->items[i];
    const exg_weight *b = &wb->items[i];

    EXG_TRY(texts(a->fqn, b->fqn, "fqn", err));
    EXG_TRY(numbers(a->table, b->table, "the table", err));
    EXG_TRY(numbers(a->is_param, b->is_param, "is_param", err));
    EXG_TRY(numbers(a->use_pickle, b->use_pickle, "use_pickle", err));
    EXG_TRY(metas(a->meta, b->meta, err));
    EXG_TRY(pair_storages(partners_a, a->storage, b->storage, err));
    return pair_storages(partners_b, b->storage, a->storage, err);
}

static exg_status weights(exg_weights *a, exg_weights *b, bool compare_bytes, exg_error *err)
{
    uint32_t total = a->storage_count + b->storage_count;
    uint32_t *partners = malloc((total + 1) * sizeof(uint32_t));
    exg_status status = partners == NULL ? EXG_OUT_OF_MEMORY(err)
                                         : numbers(a->count, b->count, "the count of weights", err);

    for (uint32_t i = 0; status == EXG_OK && i < total; i++) {
        partners[i] = UINT32_MAX;
    }
    for (uint32_t i = 0; status == EXG_OK && i < a->count; i++) {
        bool fresh = partners[a->items[i].storage] == UINT32_MAX;

        status = weight(a, b, i, partners, partners + a->storage_count, err);
        if (status == EXG_OK && compare_bytes && fresh) {
            status = bytes(a, a->items[i].storage, b, b->items[i].storage, err);
        }
        if (status != EXG_OK) {
            exg_error_within(err, status, "weights['%s']", a->items[i].fqn);
        }
    }
    free(partners);
    return status;
}

/* ---- sample inputs, extra files, where a program comes from ---------------------------------- */

static exg_status samples(const exg_program *a, const exg_program *b, bool compare_bytes,
                          exg_error *err)
{
    EXG_TRY(
        numbers(a->sample_input_count, b->sample_input_count, "the count of sample inputs", err));
    for (uint32_t i = 0; i < a->sample_input_count; i++) {
        const exg_sample_input *x = &a->sample_inputs[i];
        const exg_sample_input *y = &b->sample_inputs[i];
        exg_argument p = {.kind = x->kind};
        exg_argument q = {.kind = y->kind};

        EXG_TRY_IN(err, texts(x->keyword, y->keyword, "the keyword", err), "sample_inputs[%u]", i);
        EXG_TRY_IN(err, numbers(x->kind, y->kind, "the kind", err), "sample_inputs[%u]", i);
        if (x->kind == EXG_ARGUMENT_TENSOR) {
            EXG_TRY_IN(err, metas(x->meta, y->meta, err), "sample_inputs[%u]", i);
            if (compare_bytes) {
                EXG_TRY_IN(err, bytes(a->weights, x->storage, b->weights, y->storage, err),
                           "sample_inputs[%u]", i);
            }
            continue;
        }
        memcpy(&p.as_int, &x->as_int, sizeof(p.as_int)); /* the unions have one form */
        memcpy(&q.as_int, &y->as_int, sizeof(q.as_int));
        if (x->kind == EXG_ARGUMENT_STRING) {
            p.as_string = x->as_string;
            q.as_string = y->as_string;
        }
        EXG_TRY_IN(err, arguments(&(scope){NULL, NULL, err}, &p, &q), "sample_inputs[%u]", i);
    }
    return EXG_OK;
}

static exg_status extra_files(const exg_program *a, const exg_program *b, bool compare_bytes,
                              exg_error *err)
{
    EXG_TRY(numbers(a->extra_file_count, b->extra_file_count, "the count of extra files", err));
    for (uint32_t i = 0; i < a->extra_file_count; i++) {
        const exg_extra_file *x = &a->extra_files[i];
        const exg_extra_file *y = &b->extra_files[i];

        EXG_TRY_IN(err, texts(x->name, y->name, "the name", err), "extra_files[%u]", i);
        if (compare_bytes) {
            EXG_TRY_IN(err, bytes(a->weights, x->storage, b->weights, y->storage, err),
                       "extra_files['%s']", x->name);
        }
    }
    return EXG_OK;
}

static exg_status origins(const exg_program *a, const exg_program *b, exg_error *err)
{
    EXG_TRY(texts(a->name, b->name, "the name", err));
    EXG_TRY(numbers(a->origin, b->origin, "the origin", err));
    EXG_TRY(numbers(a->schema_major, b->schema_major, "the schema's major version", err));
    EXG_TRY(numbers(a->schema_minor, b->schema_minor, "the schema's minor version", err));
    return texts(a->torch_version, b->torch_version, "torch_version", err);
}

exg_status exg_program_compare(const exg_program *a, const exg_program *b, bool compare_bytes,
                               exg_error *err)
{
    EXG_TRY(origins(a, b, err));
    EXG_TRY(samples(a, b, compare_bytes, err));
    EXG_TRY(extra_files(a, b, compare_bytes, err));
    EXG_TRY_IN(err, graphs(a->graph, b->graph, err), "graph");
    EXG_TRY_IN(err, signatures(&a->signature, &b->signature, err), "signature");
    EXG_TRY_IN(err, module_calls(a, b, err), "module_calls");
    EXG_TRY(small_tables(a, b, err));
    return weights(a->weights, b->weights, compare_bytes, err);
}

bool exg_graph_equal(const exg_graph *a, const exg_graph *b)
{
    return graphs(a, b, NULL) == EXG_OK;
}

bool exg_program_equal(const exg_program *a, const exg_program *b, bool compare_bytes,
                       char *difference)
{
    exg_error err;
    exg_status status;

    exg_error_clear(&err);
    status = exg_program_compare(a, b, compare_bytes, &err);
    if (difference != NULL) {
        snprintf(difference, DIFFERENCE_BYTES, "%s%s%s", err.where,
                 err.where[0] == '\0' ? "" : ": ", err.message);
    }
    return status == EXG_OK;
}
