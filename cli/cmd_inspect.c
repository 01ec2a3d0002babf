/* cmd_inspect.c - exg inspect FILE: what a file holds, of a program or of weights.
 *
 * Reads the description only; no weight byte is touched, so it is as quick on a
 * file of 100 GB as on a fixture. */
#include "cli/cli.h"
#include "cli/signature.h"
#include "libexport/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct target_count {
    const char *target;
    uint32_t count;
    bool known;
} target_count;

static int by_count(const void *a, const void *b)
{
    const target_count *x = a;
    const target_count *y = b;

    return x->count != y->count ? (x->count < y->count ? 1 : -1) : strcmp(x->target, y->target);
}

static uint32_t count_targets(const cli_program *p, target_count **counts)
{
    const exg_graph *graph = p->program->graph;
    uint32_t found = 0;

    *counts = calloc(graph->node_count + 1, sizeof(**counts));
    for (uint32_t n = 0; *counts != NULL && n < graph->node_count; n++) {
        uint32_t i = 0;

        while (i < found && strcmp((*counts)[i].target, graph->nodes[n].target) != 0) {
            i++;
        }
        if (i == found) {
            (*counts)[found].target = graph->nodes[n].target;
            (*counts)[found].known =
                exg_operators_find(p->operators, graph->nodes[n].target) != NULL;
            found++;
        }
        (*counts)[i].count++;
    }
    if (found > 0) {
        qsort(*counts, found, sizeof(**counts), by_count);
    }
    return found;
}

static void put_size(exg_text *text, const exg_sym_int *size)
{
    const char *name;
    size_t length;

    if (size->expr == NULL) {
        exg_text_printf(text, "%" PRId64, size->value);
    } else if (exg_symint_lone_symbol(size->expr, &name, &length)) {
        exg_text_add(text, name, length);
    } else {
        exg_text_puts(text, size->expr);
    }
}

static void put_shape(exg_text *text, const exg_tensor_meta *meta)
{
    exg_text_printf(text, "%s[", exg_dtype_short_name(meta->dtype));
    for (uint32_t d = 0; d < meta->rank; d++) {
        exg_text_puts(text, d > 0 ? ", " : "");
        put_size(text, &meta->sizes[d]);
    }
    exg_text_puts(text, "]");
}

static void put_value(exg_text *text, const exg_graph *graph, const exg_argument *arg)
{
    if (arg->kind == EXG_ARGUMENT_TENSOR && graph->values[arg->as_tensor].tensor != NULL) {
        exg_text_printf(text, "%s: ", graph->values[arg->as_tensor].name);
        put_shape(text, graph->values[arg->as_tensor].tensor);
    } else if (arg->kind == EXG_ARGUMENT_SYM_INT && arg->as_sym.value != EXG_NO_VALUE) {
        exg_text_printf(text, "%s: int", graph->values[arg->as_sym.value].name);
    } else {
        exg_text_puts(text, exg_argument_tag(arg->kind) + 3);
    }
}

static uint64_t storage_bytes(const exg_program *program)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < program->weights->storage_count; i++) {
        sum += program->weights->storages[i].length;
    }
    return sum;
}

static void print_text(const cli_call *call, const cli_program *p, const target_count *counts,
                       uint32_t count, exg_text *text)
{
    const exg_program *program = p->program;
    const exg_graph *graph = program->graph;

    exg_text_printf(text, "%s: %s%s%s, %" PRIu64 " bytes\n", call->paths[0],
                    exg_format_name(p->info.format), p->info.generation[0] ? " generation " : "",
                    p->info.generation, p->info.file_bytes);
    exg_text_printf(text, "written by PyTorch %s, schema %" PRId64 ".%" PRId64 ", dialect",
                    program->torch_version == NULL ? "(unknown)" : program->torch_version,
                    program->schema_major, program->schema_minor);
    for (uint32_t i = 0; i < program->verifier_count; i++) {
        exg_text_printf(text, " %s", program->verifiers[i]);
    }
    exg_text_printf(text, "\n%u nodes, %u weights, %" PRIu64 " bytes in %u storages\n",
                    graph->node_count, program->weights->count, storage_bytes(program),
                    program->weights->storage_count);
    exg_text_puts(text, "inputs\n");
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (program->signature.inputs[i].kind == EXG_INPUT_USER) {
            exg_text_puts(text, "  ");
            put_value(text, graph, &graph->inputs[i]);
            exg_text_putc(text, '\n');
        }
    }
    exg_text_puts(text, "outputs\n");
    for (uint32_t i = 0; i < graph->output_count; i++) {
        exg_text_puts(text, "  ");
        put_value(text, graph, &graph->outputs[i]);
        exg_text_printf(text, "  %s\n", exg_output_kind_name(program->signature.outputs[i].kind));
    }
    for (uint32_t i = 0; i < program->range_constraint_count; i++) {
        const exg_range_constraint *range = &program->range_constraints[i];

        exg_text_printf(text, "%s%s in [", i == 0 ? "sizes\n  " : "  ", range->symbol);
        if (range->has_min) {
            exg_text_printf(text, "%" PRId64, range->min_val);
        }
        exg_text_puts(text, ", ");
        if (range->has_max) {
            exg_text_printf(text, "%" PRId64, range->max_val);
        }
        exg_text_puts(text, "]\n");
    }
    exg_text_puts(text, "operators\n");
    for (uint32_t i = 0; i < count; i++) {
        exg_text_printf(text, "  %5u  %s%s\n", counts[i].count, counts[i].target,
                        counts[i].known ? "" : "  (not known here)");
    }
    for (uint32_t i = 0; call->weights_list && i < program->weights->count; i++) {
        const exg_weight *weight = &program->weights->items[i];

        exg_text_printf(text, "%s%s: ", i == 0 ? "weights\n  " : "  ", weight->fqn);
        if (weight->meta != NULL) {
            put_shape(text, weight->meta);
        }
        exg_text_printf(text, " storage %u%s\n", weight->storage,
                        weight->use_pickle ? " (pickled, kept raw)" : "");
    }
}

static void print_json(const cli_call *call, const cli_program *p, const target_count *counts,
                       uint32_t count, exg_text *text)
{
    const exg_program *program = p->program;
    const exg_graph *graph = program->graph;

    exg_text_puts(text, "{\"file\": ");
    exg_text_json_string(text, call->paths[0]);
    exg_text_printf(text, ", \"format\": \"%s\", \"bytes\": %" PRIu64 ", \"torch_version\": ",
                    exg_format_name(p->info.format), p->info.file_bytes);
    exg_text_json_string(text, program->torch_version == NULL ? "" : program->torch_version);
    exg_text_printf(text, ", \"schema_version\": [%" PRId64 ", %" PRId64 "], \"nodes\": %u, \"weights\": [",
                    program->schema_major, program->schema_minor, graph->node_count);
    for (uint32_t i = 0; i < program->weights->count; i++) {
        const exg_weight *weight = &program->weights->items[i];

        exg_text_puts(text, i > 0 ? ", {\"name\": " : "{\"name\": ");
        exg_text_json_string(text, weight->fqn);
        exg_text_printf(text, ", \"storage\": %u", weight->storage);
        if (weight->meta != NULL) {
            exg_text_printf(text, ", \"dtype\": \"%s\", \"shape\": [",
                            exg_dtype_name(weight->meta->dtype));
            for (uint32_t d = 0; d < weight->meta->rank; d++) {
                exg_text_printf(text, "%s%" PRId64, d > 0 ? ", " : "", weight->meta->sizes[d].value);
            }
            exg_text_puts(text, "]");
        }
        exg_text_puts(text, "}");
    }
    exg_text_puts(text, "], \"inputs\": [");
    for (uint32_t i = 0, shown = 0; i < graph->input_count; i++) {
        exg_text value = EXG_TEXT_EMPTY;

        if (program->signature.inputs[i].kind == EXG_INPUT_USER) {
            put_value(&value, graph, &graph->inputs[i]);
            exg_text_puts(text, shown++ > 0 ? ", " : "");
            exg_text_json_string(text, exg_text_string(&value));
        }
        exg_text_free(&value);
    }
    exg_text_puts(text, "], \"operators\": {");
    for (uint32_t i = 0; i < count; i++) {
        exg_text_puts(text, i > 0 ? ", " : "");
        exg_text_json_string(text, counts[i].target);
        exg_text_printf(text, ": %u", counts[i].count);
    }
    exg_text_puts(text, "}}\n");
}

static exg_status print_graph(const cli_call *call, const cli_program *p, exg_error *err)
{
    char *text;

    EXG_TRY(exg_program_print(p->program, &text, err));
    fputs(text, call->out);
    free(text);
    return EXG_OK;
}

exg_status cmd_inspect(const cli_call *call, exg_error *err)
{
    cli_program p;
    target_count *counts;
    uint32_t count;
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status = EXG_OK;

    if (cli_is_weights_file(call->paths[0])) {
        return cli_inspect_weights(call, err);
    }
    EXG_TRY(cli_open(call, &p, err));
    if (call->graph) {
        status = print_graph(call, &p, err);
        cli_close(&p);
        return status;
    }
    if (call->signature) {
        status = cli_print_signature(call->out, &p.program->signature, call->json, err);
        cli_close(&p);
        return status;
    }
    count = count_targets(&p, &counts);
    if (call->json) {
        print_json(call, &p, counts, count, &text);
    } else {
        print_text(call, &p, counts, count, &text);
    }
    if (counts == NULL || text.failed) {
        status = EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    } else {
        fputs(exg_text_string(&text), call->out);
    }
    exg_text_free(&text);
    free(counts);
    cli_close(&p);
    return status;
}
