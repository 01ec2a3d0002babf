/* inspect_json.c - the same as data: a summary, and the nodes. */
#include "cli/inspect.h"
#include "cli/signature.h"
#include "libexport/program/print.h"

#include <inttypes.h>

static void put_member(exg_text *text, const char *name, const char *string)
{
    exg_text_printf(text, "\"%s\": ", name);
    if (string == NULL) {
        exg_text_puts(text, "null");
    } else {
        exg_text_json_string(text, string);
    }
}

/* "dtype": "float32", "shape": [1, "s27"] */
static void put_meta(exg_text *text, const exg_tensor_meta *meta)
{
    exg_text_printf(text, ", \"dtype\": \"%s\", \"shape\": [", exg_dtype_name(meta->dtype));
    for (uint32_t d = 0; d < meta->rank; d++) {
        const exg_sym_int *size = &meta->sizes[d];

        exg_text_puts(text, d > 0 ? ", " : "");
        if (size->expr == NULL) {
            exg_text_printf(text, "%" PRId64, size->value);
        } else {
            exg_text expression = EXG_TEXT_EMPTY;

            exg_print_expression(&expression, size->expr);
            exg_text_json_string(text, exg_text_string(&expression));
            exg_text_free(&expression);
        }
    }
    exg_text_puts(text, "]");
}

static void put_spec(exg_text *text, const exg_graph *graph, const exg_argument *arg,
                     const char *kind, const exg_signature_argument *named, const char *target)
{
    bool is_tensor = arg->kind == EXG_ARGUMENT_TENSOR;

    exg_text_putc(text, '{');
    put_member(text, "name", is_tensor ? graph->values[arg->as_tensor].name : named->name);
    exg_text_puts(text, ", ");
    put_member(text, "kind", kind);
    exg_text_puts(text, ", ");
    put_member(text, "target", target);
    if (is_tensor && graph->values[arg->as_tensor].tensor != NULL) {
        put_meta(text, graph->values[arg->as_tensor].tensor);
    }
    exg_text_putc(text, '}');
}

/* Nothing here was verified: lists of the signature may be shorter than the graph's. */
static void put_signature(exg_text *text, const exg_program *program)
{
    const exg_graph *graph = program->graph;
    const exg_signature *signature = &program->signature;

    exg_text_puts(text, ", \"inputs\": [");
    for (uint32_t i = 0; i < graph->input_count && i < signature->input_count; i++) {
        const exg_input_spec *spec = &signature->inputs[i];

        exg_text_puts(text, i > 0 ? ", " : "");
        put_spec(text, graph, &graph->inputs[i], exg_input_kind_name(spec->kind), &spec->arg,
                 spec->target);
    }
    exg_text_puts(text, "], \"outputs\": [");
    for (uint32_t i = 0; i < graph->output_count && i < signature->output_count; i++) {
        const exg_output_spec *spec = &signature->outputs[i];

        exg_text_puts(text, i > 0 ? ", " : "");
        put_spec(text, graph, &graph->outputs[i], exg_output_kind_name(spec->kind), &spec->arg,
                 spec->target);
    }
    exg_text_puts(text, "], ");
    cli_put_assertion_token(text, signature);
}

static void put_ranges(exg_text *text, const exg_program *program)
{
    exg_text_puts(text, ", \"sizes\": {");
    for (uint32_t r = 0; r < program->range_constraint_count; r++) {
        const exg_range_constraint *range = &program->range_constraints[r];

        exg_text_puts(text, r > 0 ? ", " : "");
        exg_text_json_string(text, range->symbol);
        exg_text_puts(text, ": [");
        exg_text_printf(text, range->has_min ? "%" PRId64 : "null", range->min_val);
        exg_text_puts(text, ", ");
        exg_text_printf(text, range->has_max ? "%" PRId64 : "null", range->max_val);
        exg_text_puts(text, "]");
    }
    exg_text_puts(text, "}");
}

static void put_weights(exg_text *text, const cli_inspection *i)
{
    static const char *const kinds[] = {"parameter", "buffer", "constant"};
    uint32_t count;
    const exg_weight **shown = cli_weights_shown(i, &count);

    text->failed = text->failed || shown == NULL;
    exg_text_puts(text, "\"weights\": [");
    for (uint32_t w = 0; shown != NULL && w < count; w++) {
        const exg_weight *weight = shown[w];

        exg_text_puts(text, w > 0 ? ", {" : "{");
        put_member(text, "name", weight->fqn);
        exg_text_printf(text, ", \"storage\": %u, \"kind\": \"%s\"", weight->storage,
                        kinds[i->found->kinds[weight - i->p->program->weights->items]]);
        if (weight->meta != NULL) {
            put_meta(text, weight->meta);
        }
        exg_text_puts(text, "}");
    }
    exg_text_puts(text, "]");
}

static void put_modules(exg_text *text, const cli_inspection *i)
{
    uint32_t most = i->call->has_depth ? (uint32_t)i->call->depth : UINT32_MAX;
    uint32_t put = 0;

    exg_text_puts(text, "\"modules\": [");
    for (uint32_t m = 0; m < i->found->module_count; m++) {
        if (i->found->modules[m].depth > most) {
            continue;
        }
        exg_text_puts(text, put++ > 0 ? ", {" : "{");
        put_member(text, "path", i->found->modules[m].path);
        exg_text_puts(text, ", ");
        put_member(text, "type", i->found->modules[m].type);
        exg_text_printf(text,
                        ", \"parameters\": %" PRIu64 ", \"buffers\": %" PRIu64
                        ", \"bytes\": %" PRIu64 "}",
                        i->found->modules[m].parameters, i->found->modules[m].buffers,
                        i->found->modules[m].bytes);
    }
    exg_text_puts(text, "]");
}

static void put_archive(exg_text *text, const cli_program *p)
{
    exg_text_puts(text, ", \"programs\": [");
    for (uint32_t i = 0; i < p->info->program_count; i++) {
        exg_text_puts(text, i > 0 ? ", " : "");
        exg_text_json_string(text, p->info->program_names[i]);
    }
    exg_text_puts(text, "], \"extra_files\": [");
    for (uint32_t i = 0; i < p->program->extra_file_count; i++) {
        const exg_extra_file *file = &p->program->extra_files[i];

        exg_text_puts(text, i > 0 ? ", {" : "{");
        put_member(text, "name", file->name);
        exg_text_printf(text, ", \"bytes\": %" PRIu64 "}",
                        p->program->weights->storages[file->storage].length);
    }
    exg_text_puts(text, "]");
}

void cli_put_summary_json(exg_text *text, const cli_inspection *i)
{
    const exg_program *program = i->p->program;

    exg_text_putc(text, '{');
    put_member(text, "file", i->call->paths[0]);
    exg_text_printf(text, ", \"format\": \"%s\", \"bytes\": %" PRIu64 ", ",
                    exg_format_name(i->p->info->format), i->p->info->file_bytes);
    put_member(text, "torch_version", program->torch_version == NULL ? "" : program->torch_version);
    exg_text_printf(text, ", \"schema_version\": [%" PRId64 ", %" PRId64 "], \"dialects\": [",
                    program->schema_major, program->schema_minor);
    for (uint32_t v = 0; v < program->verifier_count; v++) {
        exg_text_puts(text, v > 0 ? ", " : "");
        exg_text_json_string(text, program->verifiers[v]);
    }
    exg_text_printf(text,
                    "], \"nodes\": %u, \"parameters\": %" PRIu64 ", \"buffers\": %" PRIu64
                    ", \"storage_bytes\": %" PRIu64,
                    program->graph->node_count, i->found->modules[0].parameters,
                    i->found->modules[0].buffers, i->found->storage_bytes);
    exg_text_puts(text, ", \"activation_bytes\": ");
    exg_text_printf(text, i->found->activations_known ? "%" PRIu64 : "null",
                    i->found->activation_bytes);
    put_signature(text, program);
    put_ranges(text, program);
    exg_text_puts(text, ", \"operators\": {");
    for (uint32_t o = 0; o < i->found->operator_count; o++) {
        exg_text_puts(text, o > 0 ? ", " : "");
        exg_text_json_string(text, i->found->operators[o].target);
        exg_text_printf(text, ": %u", i->found->operators[o].count);
    }
    exg_text_puts(text, "}");
    exg_text_puts(text, ", ");
    put_modules(text, i);
    exg_text_puts(text, ", ");
    put_weights(text, i);
    put_archive(text, i->p);
    exg_text_puts(text, "}");
}

void cli_put_tables_json(exg_text *text, const cli_inspection *i)
{
    exg_text_putc(text, '{');
    if (i->call->tree) {
        put_modules(text, i);
    }
    exg_text_puts(text, i->call->tree && i->call->weights_list ? ", " : "");
    if (i->call->weights_list) {
        put_weights(text, i);
    }
    exg_text_puts(text, "}\n");
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static void put_text_member(exg_text *text, const char *name, const char *part, uint32_t length)
{
    exg_text copy = EXG_TEXT_EMPTY;

    exg_text_printf(text, ", \"%s\": ", name);
    exg_text_add(&copy, part, length);
    exg_text_json_string(text, exg_text_string(&copy));
    exg_text_free(&copy);
}

static void put_argument(exg_text *text, const exg_graph *graph, const exg_argument *arg)
{
    exg_text shown = EXG_TEXT_EMPTY;

    exg_print_argument(&shown, graph, arg);
    exg_text_json_string(text, exg_text_string(&shown));
    exg_text_free(&shown);
}

typedef struct result_list {
    exg_text *text;
    const exg_graph *graph;
    uint32_t count;
} result_list;

static void put_result(void *user, exg_value_id *id)
{
    result_list *list = user;

    if (*id != EXG_NO_VALUE) {
        const exg_value *value = &list->graph->values[*id];

        exg_text_puts(list->text, list->count++ > 0 ? ", {" : "{");
        put_member(list->text, "name", value->name);
        if (value->tensor != NULL) {
            put_meta(list->text, value->tensor);
        }
        exg_text_puts(list->text, "}");
    }
}

void cli_put_node_json(exg_text *text, const exg_graph *graph, const exg_node *node)
{
    exg_module_frame module = exg_node_module(node);
    result_list list = {text, graph, 0};
    exg_source_line source;

    (void)exg_node_source_line(node, &source);
    exg_text_putc(text, '{');
    put_member(text, "name", node->name);
    exg_text_puts(text, ", ");
    put_member(text, "target", node->target);
    exg_text_puts(text, ", \"arguments\": [");
    for (uint32_t a = 0; a < node->input_count; a++) {
        exg_text_puts(text, a > 0 ? ", [" : "[");
        exg_text_json_string(text, node->inputs[a].name == NULL ? "" : node->inputs[a].name);
        exg_text_puts(text, ", ");
        put_argument(text, graph, &node->inputs[a].arg);
        exg_text_puts(text, "]");
    }
    exg_text_puts(text, "], \"results\": [");
    for (uint32_t o = 0; o < node->output_count; o++) {
        exg_argument copy = node->outputs[o];

        exg_argument_visit_values(&copy, put_result, &list);
    }
    exg_text_puts(text, "]");
    put_text_member(text, "module", module.path, module.path_length);
    put_text_member(text, "type", module.type, module.type_length);
    put_text_member(text, "source", source.text, source.text_length);
    exg_text_puts(text, "}");
}

void cli_put_nodes_json(exg_text *text, const cli_inspection *i)
{
    const exg_graph *graph = i->p->program->graph;

    exg_text_putc(text, '[');
    for (uint32_t n = 0; n < graph->node_count; n++) {
        exg_text_puts(text, n > 0 ? ", " : "");
        cli_put_node_json(text, graph, &graph->nodes[n]);
    }
    exg_text_putc(text, ']');
}
