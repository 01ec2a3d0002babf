/* encode.c - graphs, signatures and programs as JSON: sections 1.5 to 1.7. */
#include "libexport/formats/pt2/encode.h"

#include <string.h>

void exg_encode_strings(exg_text *out, const exg_string_map *map)
{
    exg_text_putc(out, '{');
    for (uint32_t i = 0; i < map->count; i++) {
        exg_json_put_key(out, map->items[i].key);
        exg_text_json_string(out, map->items[i].value);
    }
    exg_text_putc(out, '}');
}

static void put_texts(exg_text *out, const char *const *texts, uint32_t count)
{
    exg_text_putc(out, '[');
    for (uint32_t i = 0; i < count; i++) {
        exg_json_put_item(out);
        exg_text_json_string(out, texts[i]);
    }
    exg_text_putc(out, ']');
}

/* ---- graph ------------------------------------------------------------------------------ */

static void put_arguments(exg_text *out, const exg_graph *graph, const exg_argument *args,
                          uint32_t count)
{
    exg_text_putc(out, '[');
    for (uint32_t i = 0; i < count; i++) {
        exg_json_put_item(out);
        exg_encode_argument(out, graph, &args[i]);
    }
    exg_text_putc(out, ']');
}

static void put_node(exg_text *out, const exg_graph *graph, const exg_node *node)
{
    exg_text_puts(out, "{\"target\": ");
    exg_text_json_string(out, node->target);
    exg_text_puts(out, ", \"inputs\": [");
    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_json_put_item(out);
        exg_text_puts(out, "{\"name\": ");
        exg_text_json_string(out, node->inputs[i].name);
        exg_text_puts(out, ", \"arg\": ");
        exg_encode_argument(out, graph, &node->inputs[i].arg);
        if (node->inputs[i].kind == EXG_KIND_UNKNOWN) {
            exg_text_puts(out, ", \"kind\": null}");
        } else {
            exg_text_printf(out, ", \"kind\": %d}", (int)node->inputs[i].kind);
        }
    }
    exg_text_puts(out, "], \"outputs\": ");
    put_arguments(out, graph, node->outputs, node->output_count);
    exg_text_puts(out, ", \"metadata\": ");
    exg_encode_strings(out, &node->metadata);
    exg_text_puts(out, ", \"is_hop_single_tensor_return\": ");
    exg_text_puts(out, node->is_hop_single_tensor_return == EXG_UNSET  ? "null"
                       : node->is_hop_single_tensor_return == EXG_TRUE ? "true"
                                                                       : "false");
    exg_text_puts(out, ", \"name\": ");
    exg_json_put_text(out, node->name);
    exg_text_putc(out, '}');
}

/* The value tables, each value in those that tell of it. */
static void put_tables(exg_text *out, const exg_graph *graph)
{
    const exg_value *values = graph->values;
    uint32_t count = graph->value_count;

    exg_text_puts(out, ", \"tensor_values\": {");
    for (uint32_t i = 0; i < count; i++) {
        if (values[i].tensor != NULL) {
            exg_json_put_key(out, values[i].name);
            exg_encode_tensor_meta(out, values[i].tensor);
        }
    }
    exg_text_puts(out, "}, \"sym_int_values\": {");
    for (uint32_t i = 0; i < count; i++) {
        if (values[i].sym_int != NULL) {
            exg_json_put_key(out, values[i].name);
            exg_encode_sym_int(out, values[i].sym_int);
        }
    }
    exg_text_puts(out, "}, \"sym_bool_values\": {");
    for (uint32_t i = 0; i < count; i++) {
        if (values[i].sym_bool != NULL) {
            exg_json_put_key(out, values[i].name);
            exg_encode_sym_bool(out, values[i].sym_bool);
        }
    }
    exg_text_puts(out, "}, \"is_single_tensor_return\": ");
    exg_json_put_bool(out, graph->is_single_tensor_return);
    exg_text_puts(out, ", \"custom_obj_values\": {");
    for (uint32_t i = 0; i < count; i++) {
        if (values[i].custom_class != NULL) {
            exg_json_put_key(out, values[i].name);
            exg_text_puts(out, "{\"name\": ");
            exg_text_json_string(out, values[i].name);
            exg_text_puts(out, ", \"class_fqn\": ");
            exg_text_json_string(out, values[i].custom_class);
            exg_text_putc(out, '}');
        }
    }
    exg_text_puts(out, "}, \"sym_float_values\": {");
    for (uint32_t i = 0; i < count; i++) {
        if (values[i].sym_float != NULL) {
            exg_json_put_key(out, values[i].name);
            exg_encode_sym_float(out, values[i].sym_float);
        }
    }
    exg_text_putc(out, '}');
}

void exg_encode_graph(exg_text *out, const exg_graph *graph)
{
    exg_text_puts(out, "{\"inputs\": ");
    put_arguments(out, graph, graph->inputs, graph->input_count);
    exg_text_puts(out, ", \"outputs\": ");
    put_arguments(out, graph, graph->outputs, graph->output_count);
    exg_text_puts(out, ", \"nodes\": [");
    for (uint32_t i = 0; i < graph->node_count; i++) {
        exg_json_put_item(out);
        put_node(out, graph, &graph->nodes[i]);
    }
    exg_text_putc(out, ']');
    put_tables(out, graph);
    exg_text_putc(out, '}');
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
    exg_text_puts(out, "{\"name\": ");
    exg_text_json_string(out, name);
    exg_text_putc(out, '}');
}

static void put_object(exg_text *out, const exg_signature_argument *arg)
{
    exg_text_puts(out, "{\"name\": ");
    exg_text_json_string(out, arg->name);
    exg_text_puts(out, ", \"class_fqn\": ");
    exg_text_json_string(out, arg->as_string == NULL ? "" : arg->as_string);
    exg_text_putc(out, '}');
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
    exg_text_printf(out, "{\"%s\": ", exg_argument_tag(arg->kind));
    if (arg->kind == EXG_ARGUMENT_TENSOR) {
        put_named(out, arg->name);
    } else if (arg->kind == EXG_ARGUMENT_CUSTOM_OBJ) {
        put_object(out, arg);
    } else {
        exg_text_puts(out, "{\"as_name\": ");
        exg_text_json_string(out, arg->name);
        exg_text_putc(out, '}');
    }
    exg_text_putc(out, '}');
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
    exg_text_puts(out, "{\"arg\": ");
    if (object) {
        put_object(out, arg);
    } else {
        put_named(out, arg->name);
    }
    if (row->target != NULL) {
        exg_json_put_key(out, row->target);
        exg_text_json_string(out, target);
    }
    return EXG_OK;
}

static exg_status put_input_spec(exg_text *out, const exg_input_spec *spec, exg_error *err)
{
    const spec_row *row = &input_rows[spec->kind];

    if (spec->kind == EXG_INPUT_USER && is_constant(&spec->arg)) {
        exg_text_puts(out, "{\"constant_input\": {\"name\": ");
        exg_text_json_string(out, spec->arg.name);
        exg_text_puts(out, ", \"value\": ");
        put_constant(out, &spec->arg);
        exg_text_puts(out, "}}");
        return EXG_OK;
    }
    exg_text_printf(out, "{\"%s\": ", row->tag);
    if (spec->kind == EXG_INPUT_USER) {
        exg_text_puts(out, "{\"arg\": ");
        EXG_TRY(put_user_arg(out, &spec->arg, err));
    } else {
        EXG_TRY(put_spec(out, row, &spec->arg, spec->target, err));
        if (spec->kind == EXG_INPUT_BUFFER) {
            exg_json_put_key(out, "persistent");
            exg_json_put_bool(out, spec->persistent != EXG_FALSE);
        }
    }
    exg_text_puts(out, "}}");
    return EXG_OK;
}

static exg_status put_output_spec(exg_text *out, const exg_output_spec *spec, exg_error *err)
{
    const spec_row *row = &output_rows[spec->kind];

    exg_text_printf(out, "{\"%s\": ", row->tag);
    if (spec->kind == EXG_OUTPUT_USER) {
        exg_text_puts(out, "{\"arg\": ");
        EXG_TRY(put_user_arg(out, &spec->arg, err));
    } else {
        EXG_TRY(put_spec(out, row, &spec->arg, spec->target, err));
    }
    exg_text_puts(out, "}}");
    return EXG_OK;
}

exg_status exg_encode_signature(exg_text *out, const exg_signature *signature, exg_error *err)
{
    exg_text_puts(out, "{\"input_specs\": [");
    for (uint32_t i = 0; i < signature->input_count; i++) {
        exg_json_put_item(out);
        EXG_TRY_IN(err, put_input_spec(out, &signature->inputs[i], err),
                   "signature.input_specs[%u]", i);
    }
    exg_text_puts(out, "], \"output_specs\": [");
    for (uint32_t i = 0; i < signature->output_count; i++) {
        exg_json_put_item(out);
        EXG_TRY_IN(err, put_output_spec(out, &signature->outputs[i], err),
                   "signature.output_specs[%u]", i);
    }
    exg_text_puts(out, "]}");
    return EXG_OK;
}

/* ---- program -------------------------------------------------------------------------------- */

static void put_module_call(exg_text *out, const exg_graph *graph, const exg_module_call *call)
{
    exg_text_puts(out, "{\"fqn\": ");
    exg_text_json_string(out, call->fqn);
    exg_text_puts(out, ", \"signature\": ");
    if (!call->has_signature) {
        exg_text_puts(out, "null}");
        return;
    }
    exg_text_puts(out, "{\"inputs\": ");
    put_arguments(out, graph, call->inputs, call->input_count);
    exg_text_puts(out, ", \"outputs\": ");
    put_arguments(out, graph, call->outputs, call->output_count);
    exg_text_puts(out, ", \"in_spec\": ");
    exg_text_json_string(out, call->in_spec);
    exg_text_puts(out, ", \"out_spec\": ");
    exg_text_json_string(out, call->out_spec);
    exg_text_puts(out, ", \"forward_arg_names\": ");
    if (call->forward_arg_names == NULL) {
        exg_text_puts(out, "null");
    } else {
        put_texts(out, call->forward_arg_names, call->forward_arg_name_count);
    }
    exg_text_puts(out, "}}");
}

static exg_status put_graph_module(exg_text *out, const exg_program *program, exg_error *err)
{
    exg_text_puts(out, "{\"graph\": ");
    exg_encode_graph(out, program->graph);
    exg_text_puts(out, ", \"signature\": ");
    EXG_TRY(exg_encode_signature(out, &program->signature, err));
    exg_text_puts(out, ", \"module_call_graph\": [");
    for (uint32_t i = 0; i < program->module_call_count; i++) {
        exg_json_put_item(out);
        put_module_call(out, program->graph, &program->module_calls[i]);
    }
    exg_text_puts(out, "], \"metadata\": ");
    exg_encode_strings(out, &program->metadata);
    exg_text_puts(out, ", \"treespec_namedtuple_fields\": {");
    for (uint32_t i = 0; i < program->named_tuple_count; i++) {
        exg_json_put_key(out, program->named_tuples[i].type);
        exg_text_puts(out, "{\"field_names\": ");
        put_texts(out, program->named_tuples[i].field_names, program->named_tuples[i].field_count);
        exg_text_putc(out, '}');
    }
    exg_text_puts(out, "}}");
    return EXG_OK;
}

static void put_bound(exg_text *out, const char *key, bool has, int64_t value)
{
    exg_json_put_key(out, key);
    if (has) {
        exg_json_put_int(out, value);
    } else {
        exg_text_puts(out, "null");
    }
}

static void put_ranges(exg_text *out, const exg_program *program)
{
    exg_text_puts(out, ", \"range_constraints\": {");
    for (uint32_t i = 0; i < program->range_constraint_count; i++) {
        const exg_range_constraint *range = &program->range_constraints[i];

        exg_json_put_key(out, range->symbol);
        exg_text_putc(out, '{');
        put_bound(out, "min_val", range->has_min, range->min_val);
        put_bound(out, "max_val", range->has_max, range->max_val);
        exg_text_putc(out, '}');
    }
    exg_text_putc(out, '}');
}

exg_status exg_encode_program(const exg_program *program, exg_text *out, exg_error *err)
{
    exg_text_puts(out, "{\"graph_module\": ");
    EXG_TRY(put_graph_module(out, program, err));
    exg_text_puts(out, ", \"opset_version\": {");
    for (uint32_t i = 0; i < program->opset_count; i++) {
        exg_json_put_key(out, program->opsets[i].name_space);
        exg_json_put_int(out, program->opsets[i].version);
    }
    exg_text_putc(out, '}');
    put_ranges(out, program);
    exg_text_printf(out, ", \"schema_version\": {\"major\": %" PRId64 ", \"minor\": %" PRId64 "}",
                    program->schema_major, program->schema_minor);
    exg_text_puts(out, ", \"verifiers\": ");
    put_texts(out, program->verifiers, program->verifier_count);
    if (program->torch_version != NULL) {
        exg_text_puts(out, ", \"torch_version\": ");
        exg_text_json_string(out, program->torch_version);
    }
    exg_text_puts(out, ", \"guards_code\": ");
    put_texts(out, program->guards_code, program->guard_count);
    exg_text_putc(out, '}');
    return EXG_OK;
}
