/* encode.c - graphs, signatures and programs as JSON: sections 1.5 to 1.7. */
#include "libexport/formats/pt2/encode.h"

#include <string.h>

void exg_encode_strings(exg_text *out, const exg_string_map *map)
{
    exg_json_put_open(out, '{');
    for (uint32_t i = 0; i < map->count; i++) {
        exg_json_member_text(out, map->items[i].key, map->items[i].value);
    }
    exg_json_put_close(out, '}');
}

static void put_texts(exg_text *out, const char *const *texts, uint32_t count)
{
    exg_json_put_open(out, '[');
    for (uint32_t i = 0; i < count; i++) {
        exg_json_put_text(out, texts[i]);
    }
    exg_json_put_close(out, ']');
}

/* ---- graph ------------------------------------------------------------------------------ */

static void put_arguments(exg_text *out, const exg_graph *graph, const exg_argument *args,
                          uint32_t count)
{
    exg_json_put_open(out, '[');
    for (uint32_t i = 0; i < count; i++) {
        exg_encode_argument(out, graph, &args[i]);
    }
    exg_json_put_close(out, ']');
}

static void put_node(exg_text *out, const exg_graph *graph, const exg_node *node)
{
    exg_json_put_open(out, '{');
    exg_json_member_text(out, "target", node->target);
    exg_json_put_key(out, "inputs");
    exg_json_put_open(out, '[');
    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_json_put_open(out, '{');
        exg_json_member_text(out, "name", node->inputs[i].name);
        exg_json_put_key(out, "arg");
        exg_encode_argument(out, graph, &node->inputs[i].arg);
        if (node->inputs[i].kind == EXG_KIND_UNKNOWN) {
            exg_json_member_null(out, "kind");
        } else {
            exg_json_member_int(out, "kind", node->inputs[i].kind);
        }
        exg_json_put_close(out, '}');
    }
    exg_json_put_close(out, ']');
    exg_json_put_key(out, "outputs");
    put_arguments(out, graph, node->outputs, node->output_count);
    exg_json_put_key(out, "metadata");
    exg_encode_strings(out, &node->metadata);
    if (node->is_hop_single_tensor_return == EXG_UNSET) {
        exg_json_member_null(out, "is_hop_single_tensor_return");
    } else {
        exg_json_member_bool(out, "is_hop_single_tensor_return",
                             node->is_hop_single_tensor_return == EXG_TRUE);
    }
    exg_json_member_text(out, "name", node->name);
    exg_json_put_close(out, '}');
}

/* The value tables, each value in those that tell of it. */
static void put_tables(exg_text *out, const exg_graph *graph)
{
    const exg_value *values = graph->values;
    uint32_t count = graph->value_count;

    exg_json_put_key(out, "tensor_values");
    exg_json_put_open(out, '{');
    for (uint32_t i = 0; i < count; i++) {
        if (values[i].tensor != NULL) {
            exg_json_put_key(out, values[i].name);
            exg_encode_tensor_meta(out, values[i].tensor);
        }
    }
    exg_json_put_close(out, '}');
    exg_json_put_key(out, "sym_int_values");
    exg_json_put_open(out, '{');
    for (uint32_t i = 0; i < count; i++) {
        if (values[i].sym_int != NULL) {
            exg_json_put_key(out, values[i].name);
            exg_encode_sym_int(out, values[i].sym_int);
        }
    }
    exg_json_put_close(out, '}');
    exg_json_put_key(out, "sym_bool_values");
    exg_json_put_open(out, '{');
    for (uint32_t i = 0; i < count; i++) {
        if (values[i].sym_bool != NULL) {
            exg_json_put_key(out, values[i].name);
            exg_encode_sym_bool(out, values[i].sym_bool);
        }
    }
    exg_json_put_close(out, '}');
    exg_json_member_bool(out, "is_single_tensor_return", graph->is_single_tensor_return);
    exg_json_put_key(out, "custom_obj_values");
    exg_json_put_open(out, '{');
    for (uint32_t i = 0; i < count; i++) {
        if (values[i].custom_class != NULL) {
            exg_json_put_key(out, values[i].name);
            exg_json_put_open(out, '{');
            exg_json_member_text(out, "name", values[i].name);
            exg_json_member_text(out, "class_fqn", values[i].custom_class);
            exg_json_put_close(out, '}');
        }
    }
    exg_json_put_close(out, '}');
    exg_json_put_key(out, "sym_float_values");
    exg_json_put_open(out, '{');
    for (uint32_t i = 0; i < count; i++) {
        if (values[i].sym_float != NULL) {
            exg_json_put_key(out, values[i].name);
            exg_encode_sym_float(out, values[i].sym_float);
        }
    }
    exg_json_put_close(out, '}');
}

void exg_encode_graph(exg_text *out, const exg_graph *graph)
{
    exg_json_put_open(out, '{');
    exg_json_put_key(out, "inputs");
    put_arguments(out, graph, graph->inputs, graph->input_count);
    exg_json_put_key(out, "outputs");
    put_arguments(out, graph, graph->outputs, graph->output_count);
    exg_json_put_key(out, "nodes");
    exg_json_put_open(out, '[');
    for (uint32_t i = 0; i < graph->node_count; i++) {
        put_node(out, graph, &graph->nodes[i]);
    }
    exg_json_put_close(out, ']');
    put_tables(out, graph);
    exg_json_put_close(out, '}');
}

/* ---- signature --------------------------------------------------------------------------- */

static bool is_constant(const exg_signature_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_NONE || arg->kind == EXG_ARGUMENT_INT ||
           arg->kind == EXG_ARGUMENT_FLOAT || arg->kind == EXG_ARGUMENT_STRING ||
           arg->kind == EXG_ARGUMENT_BOOL;
}

/* A constant in its union: an Argument, which ConstantValue is a part of. */
static void put_constant(exg_text *out, const exg_signature_argument *arg)
{
    exg_argument value = {.kind = arg->kind};

    switch (arg->kind) {
    case EXG_ARGUMENT_INT:
        value.as_int = arg->as_int;
        break;
    case EXG_ARGUMENT_FLOAT:
        value.as_float = arg->as_float;
        break;
    case EXG_ARGUMENT_BOOL:
        value.as_bool = arg->as_bool;
        break;
    case EXG_ARGUMENT_STRING:
        value.as_string = arg->as_string;
        break;
    default: /* None has no more to say */
        break;
    }
    exg_encode_argument(out, NULL, &value);
}

static void put_named(exg_text *out, const char *name)
{
    exg_json_put_open(out, '{');
    exg_json_member_text(out, "name", name);
    exg_json_put_close(out, '}');
}

static void put_object(exg_text *out, const exg_signature_argument *arg)
{
    exg_json_put_open(out, '{');
    exg_json_member_text(out, "name", arg->name);
    exg_json_member_text(out, "class_fqn", arg->as_string == NULL ? "" : arg->as_string);
    exg_json_put_close(out, '}');
}

/* The Argument of a user's input or output. A SymBool has no place there (S004-05). */
static exg_status put_user_arg(exg_text *out, const exg_signature_argument *arg, exg_error *err)
{
    if (arg->kind == EXG_ARGUMENT_SYM_BOOL) {
        return EXG_FAIL(err, UNSUPPORTED, "PT2-001",
                        "a .pt2 signature cannot hold the symbolic bool '%s'", arg->name);
    }
    if (is_constant(arg)) {
        put_constant(out, arg);
        return EXG_OK;
    }
    exg_json_put_open(out, '{');
    exg_json_put_key(out, exg_argument_tag(arg->kind));
    if (arg->kind == EXG_ARGUMENT_TENSOR) {
        put_named(out, arg->name);
    } else if (arg->kind == EXG_ARGUMENT_CUSTOM_OBJ) {
        put_object(out, arg);
    } else {
        exg_json_put_open(out, '{');
        exg_json_member_text(out, "as_name", arg->name);
        exg_json_put_close(out, '}');
    }
    exg_json_put_close(out, '}');
    return EXG_OK;
}

/* Tag of a kind, and the key its target stands under, or NULL. */
typedef struct spec_row {
    const char *tag;
    const char *target;
} spec_row;

static const spec_row input_rows[] = {
    [EXG_INPUT_USER] = {"user_input", NULL},
    [EXG_INPUT_PARAMETER] = {"parameter", "parameter_name"},
    [EXG_INPUT_BUFFER] = {"buffer", "buffer_name"},
    [EXG_INPUT_CONSTANT_TENSOR] = {"tensor_constant", "tensor_constant_name"},
    [EXG_INPUT_CUSTOM_OBJ] = {"custom_obj", "custom_obj_name"},
    [EXG_INPUT_TOKEN] = {"token", NULL},
};

static const spec_row output_rows[] = {
    [EXG_OUTPUT_USER] = {"user_output", NULL},
    [EXG_OUTPUT_LOSS] = {"loss_output", NULL},
    [EXG_OUTPUT_BUFFER_MUTATION] = {"buffer_mutation", "buffer_name"},
    [EXG_OUTPUT_PARAMETER_MUTATION] = {"parameter_mutation", "parameter_name"},
    [EXG_OUTPUT_GRADIENT_TO_PARAMETER] = {"gradient_to_parameter", "parameter_name"},
    [EXG_OUTPUT_GRADIENT_TO_USER_INPUT] = {"gradient_to_user_input", "user_input_name"},
    [EXG_OUTPUT_USER_INPUT_MUTATION] = {"user_input_mutation", "user_input_name"},
    [EXG_OUTPUT_TOKEN] = {"token", NULL},
};

/* A spec whose argument is named and nothing else, with its target. */
static exg_status put_spec(exg_text *out, const spec_row *row, const exg_signature_argument *arg,
                           const char *target, exg_error *err)
{
    bool object = arg->kind == EXG_ARGUMENT_CUSTOM_OBJ;

    if (!object && arg->kind != EXG_ARGUMENT_TENSOR) {
        return EXG_FAIL(err, UNSUPPORTED, "PT2-001", "a %s cannot be %s in a .pt2 signature",
                        row->tag, exg_argument_tag(arg->kind));
    }
    if (row->target != NULL && target == NULL) {
        return EXG_FAIL(err, UNSUPPORTED, "PT2-001", "a %s without a target cannot be said",
                        row->tag);
    }
    exg_json_put_open(out, '{');
    exg_json_put_key(out, "arg");
    if (object) {
        put_object(out, arg);
    } else {
        put_named(out, arg->name);
    }
    if (row->target != NULL) {
        exg_json_member_text(out, row->target, target);
    }
    return EXG_OK;
}

static exg_status put_input_spec(exg_text *out, const exg_input_spec *spec, exg_error *err)
{
    const spec_row *row = &input_rows[spec->kind];

    if (spec->kind == EXG_INPUT_USER && is_constant(&spec->arg)) {
        exg_json_put_open(out, '{');
        exg_json_put_key(out, "constant_input");
        exg_json_put_open(out, '{');
        exg_json_member_text(out, "name", spec->arg.name);
        exg_json_put_key(out, "value");
        put_constant(out, &spec->arg);
        exg_json_put_close(out, '}');
        exg_json_put_close(out, '}');
        return EXG_OK;
    }
    exg_json_put_open(out, '{');
    exg_json_put_key(out, row->tag);
    if (spec->kind == EXG_INPUT_USER) {
        exg_json_put_open(out, '{');
        exg_json_put_key(out, "arg");
        EXG_TRY(put_user_arg(out, &spec->arg, err));
    } else {
        EXG_TRY(put_spec(out, row, &spec->arg, spec->target, err));
        if (spec->kind == EXG_INPUT_BUFFER) {
            exg_json_member_bool(out, "persistent", spec->persistent != EXG_FALSE);
        }
    }
    exg_json_put_close(out, '}');
    exg_json_put_close(out, '}');
    return EXG_OK;
}

static exg_status put_output_spec(exg_text *out, const exg_output_spec *spec, exg_error *err)
{
    const spec_row *row = &output_rows[spec->kind];

    exg_json_put_open(out, '{');
    exg_json_put_key(out, row->tag);
    if (spec->kind == EXG_OUTPUT_USER) {
        exg_json_put_open(out, '{');
        exg_json_put_key(out, "arg");
        EXG_TRY(put_user_arg(out, &spec->arg, err));
    } else {
        EXG_TRY(put_spec(out, row, &spec->arg, spec->target, err));
    }
    exg_json_put_close(out, '}');
    exg_json_put_close(out, '}');
    return EXG_OK;
}

exg_status exg_encode_signature(exg_text *out, const exg_signature *signature, exg_error *err)
{
    exg_json_put_open(out, '{');
    exg_json_put_key(out, "input_specs");
    exg_json_put_open(out, '[');
    for (uint32_t i = 0; i < signature->input_count; i++) {
        EXG_TRY_IN(err, put_input_spec(out, &signature->inputs[i], err),
                   "signature.input_specs[%u]", i);
    }
    exg_json_put_close(out, ']');
    exg_json_put_key(out, "output_specs");
    exg_json_put_open(out, '[');
    for (uint32_t i = 0; i < signature->output_count; i++) {
        EXG_TRY_IN(err, put_output_spec(out, &signature->outputs[i], err),
                   "signature.output_specs[%u]", i);
    }
    exg_json_put_close(out, ']');
    exg_json_put_close(out, '}');
    return EXG_OK;
}

/* ---- program -------------------------------------------------------------------------------- */

static void put_module_call(exg_text *out, const exg_graph *graph, const exg_module_call *call)
{
    exg_json_put_open(out, '{');
    exg_json_member_text(out, "fqn", call->fqn);
    exg_json_put_key(out, "signature");
    if (!call->has_signature) {
        exg_json_put_null(out);
        exg_json_put_close(out, '}');
        return;
    }
    exg_json_put_open(out, '{');
    exg_json_put_key(out, "inputs");
    put_arguments(out, graph, call->inputs, call->input_count);
    exg_json_put_key(out, "outputs");
    put_arguments(out, graph, call->outputs, call->output_count);
    exg_json_member_text(out, "in_spec", call->in_spec);
    exg_json_member_text(out, "out_spec", call->out_spec);
    exg_json_put_key(out, "forward_arg_names");
    if (call->forward_arg_names == NULL) {
        exg_json_put_null(out);
    } else {
        put_texts(out, call->forward_arg_names, call->forward_arg_name_count);
    }
    exg_json_put_close(out, '}');
    exg_json_put_close(out, '}');
}

static exg_status put_graph_module(exg_text *out, const exg_program *program, exg_error *err)
{
    exg_json_put_open(out, '{');
    exg_json_put_key(out, "graph");
    exg_encode_graph(out, program->graph);
    exg_json_put_key(out, "signature");
    EXG_TRY(exg_encode_signature(out, &program->signature, err));
    exg_json_put_key(out, "module_call_graph");
    exg_json_put_open(out, '[');
    for (uint32_t i = 0; i < program->module_call_count; i++) {
        put_module_call(out, program->graph, &program->module_calls[i]);
    }
    exg_json_put_close(out, ']');
    exg_json_put_key(out, "metadata");
    exg_encode_strings(out, &program->metadata);
    exg_json_put_key(out, "treespec_namedtuple_fields");
    exg_json_put_open(out, '{');
    for (uint32_t i = 0; i < program->named_tuple_count; i++) {
        exg_json_put_key(out, program->named_tuples[i].type);
        exg_json_put_open(out, '{');
        exg_json_put_key(out, "field_names");
        put_texts(out, program->named_tuples[i].field_names, program->named_tuples[i].field_count);
        exg_json_put_close(out, '}');
    }
    exg_json_put_close(out, '}');
    exg_json_put_close(out, '}');
    return EXG_OK;
}

static void put_bound(exg_text *out, const char *key, bool has, int64_t value)
{
    exg_json_put_key(out, key);
    if (has) {
        exg_json_put_int(out, value);
    } else {
        exg_json_put_null(out);
    }
}

static void put_ranges(exg_text *out, const exg_program *program)
{
    exg_json_put_key(out, "range_constraints");
    exg_json_put_open(out, '{');
    for (uint32_t i = 0; i < program->range_constraint_count; i++) {
        const exg_range_constraint *range = &program->range_constraints[i];

        exg_json_put_key(out, range->symbol);
        exg_json_put_open(out, '{');
        put_bound(out, "min_val", range->has_min, range->min_val);
        put_bound(out, "max_val", range->has_max, range->max_val);
        exg_json_put_close(out, '}');
    }
    exg_json_put_close(out, '}');
}

exg_status exg_encode_program(const exg_program *program, exg_text *out, exg_error *err)
{
    exg_json_put_open(out, '{');
    exg_json_put_key(out, "graph_module");
    EXG_TRY(put_graph_module(out, program, err));
    exg_json_put_key(out, "opset_version");
    exg_json_put_open(out, '{');
    for (uint32_t i = 0; i < program->opset_count; i++) {
        exg_json_member_int(out, program->opsets[i].name_space, program->opsets[i].version);
    }
    exg_json_put_close(out, '}');
    put_ranges(out, program);
    exg_json_put_key(out, "schema_version");
    exg_json_put_open(out, '{');
    exg_json_member_int(out, "major", program->schema_major);
    exg_json_member_int(out, "minor", program->schema_minor);
    exg_json_put_close(out, '}');
    exg_json_put_key(out, "verifiers");
    put_texts(out, program->verifiers, program->verifier_count);
    if (program->torch_version != NULL) {
        exg_json_member_text(out, "torch_version", program->torch_version);
    }
    exg_json_put_key(out, "guards_code");
    put_texts(out, program->guards_code, program->guard_count);
    exg_json_put_close(out, '}');
    return EXG_OK;
}
