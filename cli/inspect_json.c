/* inspect_json.c - the same as data: a summary, and the nodes. */
#include "cli/inspect.h"
#include "cli/signature.h"

#include <inttypes.h>

/* "dtype": "float32", "shape": [1, "s27"] */
static void put_meta(exg_text *text, const exg_tensor_meta *meta)
{
    exg_json_member_text(text, "dtype", exg_dtype_name(meta->dtype));
    exg_json_member_open(text, "shape", '[');
    for (uint32_t d = 0; d < meta->rank; d++) {
        const exg_sym_int *size = &meta->sizes[d];
        exg_text expression = EXG_TEXT_EMPTY;

        if (size->expr == NULL) {
            exg_json_put_int(text, size->value);
        } else {
            exg_print_expression(&expression, size->expr);
            exg_json_put_text(text, exg_text_part(text, &expression));
            exg_text_free(&expression);
        }
    }
    exg_json_put_close(text, ']');
}

static void put_spec(exg_text *text, const exg_graph *graph, const exg_argument *arg,
                     const char *kind, const exg_signature_argument *named, const char *target,
                     const char *path)
{
    bool is_tensor = arg->kind == EXG_ARGUMENT_TENSOR;

    exg_json_put_open(text, '{');
    exg_json_member_text(text, "name",
                         is_tensor ? graph->values[arg->as_tensor].name : named->name);
    exg_json_member_text(text, "kind", kind);
    exg_json_member_text(text, "target", target);
    if (path != NULL) {
        exg_json_member_text(text, "path", path);
    }
    if (is_tensor && graph->values[arg->as_tensor].tensor != NULL) {
        put_meta(text, graph->values[arg->as_tensor].tensor);
    }
    exg_json_put_close(text, '}');
}

/* Nothing here was verified: lists of the signature may be shorter than the graph's. */
static void put_signature(exg_text *text, const exg_program *program, const char *const *paths)
{
    const exg_graph *graph = program->graph;
    const exg_signature *signature = &program->signature;

    exg_json_member_open(text, "inputs", '[');
    for (uint32_t i = 0; i < graph->input_count && i < signature->input_count; i++) {
        const exg_input_spec *spec = &signature->inputs[i];

        put_spec(text, graph, &graph->inputs[i], exg_input_kind_name(spec->kind), &spec->arg,
                 spec->target, paths[i]);
    }
    exg_json_put_close(text, ']');
    exg_json_member_open(text, "outputs", '[');
    for (uint32_t i = 0; i < graph->output_count && i < signature->output_count; i++) {
        const exg_output_spec *spec = &signature->outputs[i];

        put_spec(text, graph, &graph->outputs[i], exg_output_kind_name(spec->kind), &spec->arg,
                 spec->target, NULL);
    }
    exg_json_put_close(text, ']');
    cli_put_assertion_token(text, signature);
}

static void put_ranges(exg_text *text, const exg_program *program)
{
    exg_json_member_open(text, "sizes", '{');
    for (uint32_t r = 0; r < program->range_constraint_count; r++) {
        const exg_range_constraint *range = &program->range_constraints[r];

        exg_json_member_open(text, range->symbol, '[');
        exg_json_put_optional_int(text, range->has_min, range->min_val);
        exg_json_put_optional_int(text, range->has_max, range->max_val);
        exg_json_put_close(text, ']');
    }
    exg_json_put_close(text, '}');
}

static exg_status put_weights(exg_text *text, const cli_inspection *i, exg_error *err)
{
    static const char *const kinds[] = {"parameter", "buffer", "constant"};
    uint32_t count;
    const exg_weight **shown = cli_weights_shown(i, &count);

    text->failed = text->failed || shown == NULL;
    exg_json_member_open(text, "weights", '[');
    for (uint32_t w = 0; shown != NULL && w < count; w++) {
        const exg_weight *weight = shown[w];

        exg_json_put_open(text, '{');
        exg_json_member_text(text, "name", weight->fqn);
        exg_json_member_uint(text, "storage", weight->storage);
        exg_json_member_text(text, "kind", kinds[i->found->kinds[weight - i->weights->items]]);
        if (weight->meta != NULL) {
            put_meta(text, weight->meta);
        }
        EXG_TRY(cli_put_statistics_json(text, i, weight, err));
        exg_json_put_close(text, '}');
    }
    exg_json_put_close(text, ']');
    return EXG_OK;
}

void cli_put_modules_json(exg_text *text, const cli_inspection *i)
{
    uint32_t most = i->call->has_depth ? (uint32_t)i->call->depth : UINT32_MAX;

    exg_json_member_open(text, "modules", '[');
    for (uint32_t m = 0; m < i->found->module_count; m++) {
        const exg_module_summary *module = &i->found->modules[m];

        if (module->depth > most) {
            continue;
        }
        exg_json_put_open(text, '{');
        exg_json_member_text(text, "path", module->path);
        exg_json_member_text(text, "type", module->type);
        exg_json_member_uint(text, "parameters", module->parameters);
        exg_json_member_uint(text, "buffers", module->buffers);
        exg_json_member_uint(text, "bytes", module->bytes);
        exg_json_put_close(text, '}');
    }
    exg_json_put_close(text, ']');
}

static void put_archive(exg_text *text, const cli_program *p)
{
    exg_json_member_open(text, "programs", '[');
    for (uint32_t i = 0; i < p->info->program_count; i++) {
        exg_json_put_text(text, p->info->program_names[i]);
    }
    exg_json_put_close(text, ']');
    exg_json_member_open(text, "extra_files", '[');
    for (uint32_t i = 0; i < p->program->extra_file_count; i++) {
        const exg_extra_file *file = &p->program->extra_files[i];

        exg_json_put_open(text, '{');
        exg_json_member_text(text, "name", file->name);
        exg_json_member_uint(text, "bytes", p->program->weights->storages[file->storage].length);
        exg_json_put_close(text, '}');
    }
    exg_json_put_close(text, ']');
}

static void put_origin(exg_text *text, const exg_program *program)
{
    exg_json_member_text(text, "torch_version",
                         program->torch_version == NULL ? "" : program->torch_version);
    exg_json_member_open(text, "schema_version", '[');
    exg_json_put_int(text, program->schema_major);
    exg_json_put_int(text, program->schema_minor);
    exg_json_put_close(text, ']');
    exg_json_member_open(text, "dialects", '[');
    for (uint32_t v = 0; v < program->verifier_count; v++) {
        exg_json_put_text(text, program->verifiers[v]);
    }
    exg_json_put_close(text, ']');
}

exg_status cli_put_summary_json(exg_text *text, const cli_inspection *i, exg_error *err)
{
    const exg_program *program = i->p->program;
    const exg_inspection *found = i->found;

    exg_json_member_text(text, "file", i->call->paths[0]);
    exg_json_member_text(text, "file_format", exg_format_name(i->p->info->format));
    exg_json_member_uint(text, "bytes", i->p->info->file_bytes);
    put_origin(text, program);
    exg_json_member_uint(text, "nodes", program->graph->node_count);
    exg_json_member_uint(text, "parameters", found->modules[0].parameters);
    exg_json_member_uint(text, "buffers", found->modules[0].buffers);
    exg_json_member_uint(text, "storage_bytes", found->storage_bytes);
    exg_json_put_key(text, "activation_bytes");
    if (found->activations_known) {
        exg_json_put_uint(text, found->activation_bytes);
    } else {
        exg_json_put_null(text);
    }
    put_signature(text, program, i->paths);
    put_ranges(text, program);
    exg_json_member_open(text, "operators", '{');
    for (uint32_t o = 0; o < found->operator_count; o++) {
        exg_json_member_uint(text, found->operators[o].target, found->operators[o].count);
    }
    exg_json_put_close(text, '}');
    cli_put_modules_json(text, i);
    EXG_TRY(put_weights(text, i, err));
    put_archive(text, i->p);
    return EXG_OK;
}

exg_status cli_put_tables_json(exg_text *text, const cli_inspection *i, exg_error *err)
{
    if (i->call->tree) {
        cli_put_modules_json(text, i);
    }
    if (i->call->weights_list || i->call->filter != NULL || i->call->sort != NULL) {
        return put_weights(text, i, err);
    }
    return EXG_OK;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static void put_text_member(exg_text *text, const char *name, const char *part, uint32_t length)
{
    exg_text copy = EXG_TEXT_EMPTY;

    exg_text_add(&copy, part, length);
    exg_json_member_text(text, name, exg_text_part(text, &copy));
    exg_text_free(&copy);
}

static void put_argument(exg_text *text, const exg_graph *graph, const exg_argument *arg)
{
    exg_text shown = EXG_TEXT_EMPTY;

    exg_print_argument(&shown, graph, arg);
    exg_json_put_text(text, exg_text_part(text, &shown));
    exg_text_free(&shown);
}

typedef struct result_list {
    exg_text *text;
    const exg_graph *graph;
} result_list;

static void put_result(void *user, exg_value_id *id)
{
    result_list *list = user;

    if (*id != EXG_NO_VALUE) {
        const exg_value *value = &list->graph->values[*id];

        exg_json_put_open(list->text, '{');
        exg_json_member_text(list->text, "name", value->name);
        if (value->tensor != NULL) {
            put_meta(list->text, value->tensor);
        }
        exg_json_put_close(list->text, '}');
    }
}

void cli_put_results_json(exg_text *text, const exg_graph *graph, exg_argument *arg)
{
    result_list list = {text, graph};

    exg_argument_visit_values(arg, put_result, &list);
}

void cli_put_node_json(exg_text *text, const exg_graph *graph, const exg_node *node)
{
    exg_module_frame module = exg_node_module(node);
    exg_source_line source;

    (void)exg_node_source_line(node, &source);
    exg_json_put_open(text, '{');
    exg_json_member_text(text, "name", node->name);
    exg_json_member_text(text, "target", node->target);
    exg_json_member_open(text, "arguments", '[');
    for (uint32_t a = 0; a < node->input_count; a++) {
        exg_json_put_open(text, '[');
        exg_json_put_text(text, node->inputs[a].name == NULL ? "" : node->inputs[a].name);
        put_argument(text, graph, &node->inputs[a].arg);
        exg_json_put_close(text, ']');
    }
    exg_json_put_close(text, ']');
    exg_json_member_open(text, "results", '[');
    for (uint32_t o = 0; o < node->output_count; o++) {
        exg_argument copy = node->outputs[o];

        cli_put_results_json(text, graph, &copy);
    }
    exg_json_put_close(text, ']');
    put_text_member(text, "module", module.path, module.path_length);
    put_text_member(text, "type", module.type, module.type_length);
    put_text_member(text, "source", source.text, source.text_length);
    exg_json_put_close(text, '}');
}

void cli_put_nodes_json(exg_text *text, const exg_graph *graph)
{
    exg_json_member_open(text, "nodes", '[');
    for (uint32_t n = 0; n < graph->node_count; n++) {
        cli_put_node_json(text, graph, &graph->nodes[n]);
    }
    exg_json_put_close(text, ']');
}
