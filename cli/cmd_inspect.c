/* cmd_inspect.c - exg inspect FILE: what a file holds, of a program or of weights.
 *
 * Reads the description only; no weight byte is touched, so it is as quick on a
 * file of 100 GB as on a fixture. Nothing is verified: what breaks rules is shown too. */
#include "cli/inspect.h"
#include "cli/signature.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void put_value(exg_text *text, const exg_graph *graph, const exg_argument *arg,
                      const exg_signature_argument *named)
{
    if (arg->kind == EXG_ARGUMENT_TENSOR && graph->values[arg->as_tensor].tensor != NULL) {
        exg_text_plain(text, graph->values[arg->as_tensor].name, false);
        exg_text_puts(text, ": ");
        cli_put_shape(text, graph->values[arg->as_tensor].tensor);
    } else if (arg->kind == EXG_ARGUMENT_SYM_INT && arg->as_sym.value != EXG_NO_VALUE) {
        exg_text_plain(text, graph->values[arg->as_sym.value].name, false);
        exg_text_puts(text, ": int");
    } else {
        exg_text_printf(text, "%s%s%s", named->name == NULL ? "" : named->name,
                        named->name == NULL || named->name[0] == '\0' ? "" : ": ",
                        exg_argument_tag(arg->kind) + 3);
    }
}

/* Where it is said otherwise than by its name. */
static void put_path(exg_text *text, const char *path, const char *name)
{
    if (path != NULL && (name == NULL || strcmp(path, name) != 0)) {
        exg_text_puts(text, "  (");
        exg_text_plain(text, path, false);
        exg_text_putc(text, ')');
    }
}

static void put_signature(exg_text *text, const exg_program *program, const char *const *paths)
{
    const exg_graph *graph = program->graph;
    const exg_signature *signature = &program->signature;
    const char *name;
    uint32_t index;

    exg_text_puts(text, "inputs\n");
    for (uint32_t i = 0; i < graph->input_count && i < signature->input_count; i++) {
        if (signature->inputs[i].kind == EXG_INPUT_USER) {
            exg_text_puts(text, "  ");
            put_value(text, graph, &graph->inputs[i], &signature->inputs[i].arg);
            put_path(text, paths[i], signature->inputs[i].arg.name);
            exg_text_putc(text, '\n');
        }
    }
    exg_text_puts(text, "outputs\n");
    for (uint32_t i = 0; i < graph->output_count && i < signature->output_count; i++) {
        const exg_output_spec *spec = &signature->outputs[i];

        exg_text_puts(text, "  ");
        put_value(text, graph, &graph->outputs[i], &spec->arg);
        exg_text_printf(text, "  %s%s", exg_output_kind_name(spec->kind),
                        spec->target == NULL ? "" : " ");
        exg_text_plain(text, spec->target == NULL ? "" : spec->target, false);
        exg_text_putc(text, '\n');
    }
    if (exg_signature_assertion_dep_token(signature, &index, &name)) {
        exg_text_printf(text, "token of assertions\n  output %" PRIu32 ": ", index);
        exg_text_plain(text, name, false);
        exg_text_putc(text, '\n');
    }
    for (uint32_t i = 0; i < program->range_constraint_count; i++) {
        const exg_range_constraint *range = &program->range_constraints[i];

        exg_text_puts(text, i == 0 ? "sizes\n  " : "  ");
        exg_text_plain(text, range->symbol, false);
        exg_text_puts(text, " in [");
        if (range->has_min) {
            exg_text_printf(text, "%" PRId64, range->min_val);
        }
        exg_text_puts(text, ", ");
        if (range->has_max) {
            exg_text_printf(text, "%" PRId64, range->max_val);
        }
        exg_text_puts(text, "]\n");
    }
}

/* The other programs of the archive, and what in it is no part of this one. */
static void put_archive(exg_text *text, const cli_program *p)
{
    uint32_t listed = 0;

    for (uint32_t i = 0; p->info->program_count > 1 && i < p->info->program_count; i++) {
        exg_text_puts(text, i == 0 ? "programs of the archive\n  " : "  ");
        exg_text_plain(text, p->info->program_names[i], false);
        exg_text_puts(text, strcmp(p->info->program_names[i], p->program->name) == 0
                                ? "  (this one)\n"
                                : "\n");
    }
    for (uint32_t i = 0; i < p->program->extra_file_count; i++) {
        const exg_extra_file *file = &p->program->extra_files[i];

        if (strncmp(file->name, EXG_SAMPLES_FOLDER, strlen(EXG_SAMPLES_FOLDER)) == 0) {
            continue; /* every archive has it */
        }
        exg_text_puts(text, listed++ == 0 ? "files beside it\n  " : "  ");
        exg_text_plain(text, file->name, false);
        exg_text_puts(text, "  ");
        exg_text_bytes(text, p->program->weights->storages[file->storage].length);
        exg_text_putc(text, '\n');
    }
}

/* Which releases of PyTorch lay an archive out so (docs/pt2.md). */
static const char *layout_of(const exg_file_info *info)
{
    switch (info->generation[0]) {
    case 'B':
        return " in the layout of PyTorch 2.2 to 2.7";
    case 'C':
        return " in the layout of PyTorch 2.8";
    default:
        return "";
    }
}

static void put_summary(exg_text *text, const cli_inspection *i)
{
    const exg_program *program = i->p->program;

    exg_text_plain(text, i->call->paths[0], false);
    exg_text_printf(text, ": %s%s, ", exg_format_name(i->p->info->format), layout_of(i->p->info));
    exg_text_bytes(text, i->p->info->file_bytes);
    exg_text_puts(text, "\nwritten by PyTorch ");
    exg_text_plain(text, program->torch_version == NULL ? "(unknown)" : program->torch_version,
                   false);
    exg_text_printf(text, ", schema %" PRId64 ".%" PRId64 ", dialect", program->schema_major,
                    program->schema_minor);
    for (uint32_t v = 0; v < program->verifier_count; v++) {
        exg_text_putc(text, ' ');
        exg_text_plain(text, program->verifiers[v], false);
    }
    exg_text_putc(text, '\n');
    exg_text_count(text, program->graph->node_count, "node");
    exg_text_puts(text, ", ");
    exg_text_count(text, i->found->modules[0].parameters, "parameter");
    exg_text_puts(text, ", ");
    exg_text_count(text, i->found->modules[0].buffers, "number");
    exg_text_puts(text, " in buffers\n");
    exg_text_count(text, program->weights->count, "weight");
    exg_text_puts(text, " in ");
    exg_text_count(text, i->found->storage_count, "storage");
    exg_text_puts(text, "\nmemory: weights ");
    exg_text_bytes(text, i->found->storage_bytes);
    if (i->found->activations_known) {
        exg_text_puts(text, ", activations at most ");
        exg_text_bytes(text, i->found->activation_bytes);
        exg_text_puts(text, " at the recorded sizes");
    }
    exg_text_putc(text, '\n');
    put_signature(text, program, i->paths);
    exg_text_puts(text, "operators\n");
    for (uint32_t o = 0; o < i->found->operator_count; o++) {
        exg_text_printf(text, "  %5u  ", i->found->operators[o].count);
        exg_text_plain(text, i->found->operators[o].target, false);
        exg_text_printf(text, "%s\n", i->found->operators[o].known ? "" : "  (not known here)");
    }
    put_archive(text, i->p);
}

static exg_status put_graph(exg_text *text, const cli_inspection *i, exg_error *err)
{
    char *printed;

    if (i->call->json) {
        cli_json_begin(text);
        cli_put_nodes_json(text, i->p->program->graph);
        cli_json_end(text);
        return EXG_OK;
    }
    EXG_TRY(i->call->fx ? exg_program_print_graph(i->p->program, &printed, err)
                        : exg_program_print(i->p->program, &printed, err));
    exg_text_plain(text, printed, true);
    exg_text_puts(text, i->call->fx ? "\n" : "");
    free(printed);
    return EXG_OK;
}

static exg_status show(exg_text *text, const cli_inspection *i, exg_error *err)
{
    const cli_call *call = i->call;
    bool table = call->tree || call->weights_list;

    if (call->html != NULL) {
        return cli_put_program_page(text, i, err);
    }
    if (call->node != NULL) {
        return cli_put_node(text, i, err);
    }
    if (call->graph) {
        return put_graph(text, i, err);
    }
    if (call->model_explorer) {
        cli_put_explorer(text, i);
    } else if (call->dot) {
        cli_put_dot(text, i);
    } else if (table && call->json) {
        cli_json_begin(text);
        EXG_TRY(cli_put_tables_json(text, i, err));
        cli_json_end(text);
    } else if (call->json) {
        cli_json_begin(text);
        EXG_TRY(cli_put_summary_json(text, i, err));
        cli_json_end(text);
    } else if (!table) {
        put_summary(text, i);
    }
    if (call->tree && !call->json) {
        cli_put_tree(text, i);
    }
    return call->weights_list && !call->json ? cli_put_weights(text, i, err) : EXG_OK;
}

static exg_status check_options(const cli_call *call, exg_error *err)
{
    static const char *const sorts[] = {"file", "name", "size"};

    for (size_t s = 0; call->sort != NULL && s <= sizeof(sorts) / sizeof(sorts[0]); s++) {
        if (s == sizeof(sorts) / sizeof(sorts[0])) {
            return EXG_FAIL(err, USAGE, "CLI-001", "--sort '%s': file, name or size", call->sort);
        }
        if (strcmp(call->sort, sorts[s]) == 0) {
            break;
        }
    }
    return EXG_OK;
}

static exg_status inspect_program(const cli_call *call, exg_error *err)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_text text = EXG_TEXT_EMPTY;
    exg_inspection *found = NULL;
    const char **paths = NULL;
    cli_program p = {0};
    exg_status status = arena == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    status = status == EXG_OK ? cli_open(call, &p, err) : status;
    if (status == EXG_OK && call->signature) {
        status = cli_print_signature(call->out, &p.program->signature, call->json, err);
    } else if (status == EXG_OK) {
        status = exg_program_inspect(p.program, p.operators, &found, err);
        status = status == EXG_OK ? exg_input_paths(p.program, arena, &paths, err) : status;
        if (status == EXG_OK) {
            const cli_inspection i = {call, &p, arena, found, p.program->weights, paths};

            cli_note_filter(&i);
            status = show(&text, &i, err);
        }
        status = status == EXG_OK ? cli_deliver(call, &text, err) : status;
    }
    exg_inspection_free(found);
    cli_close(&p);
    exg_text_free(&text);
    exg_arena_destroy(arena);
    return status;
}

static exg_status inspect_file(const cli_call *call, exg_error *err)
{
    bool weights_alone = cli_is_weights_file(call, call->paths[0]);

    EXG_TRY(check_options(call, err));
    if (call->digest != NULL) {
        return cli_digest_weights(call, err);
    }
    return weights_alone ? cli_inspect_weights(call, err) : inspect_program(call, err);
}

/* Of several files one after the other; with --json an object a line. */
exg_status cmd_inspect(const cli_call *call, exg_error *err)
{
    if (call->html != NULL && call->files.count > 1) {
        return EXG_FAIL(err, USAGE, "CLI-001", "--html is a page of one file, and here are %u",
                        call->files.count);
    }
    for (uint32_t i = 0; i < call->files.count; i++) {
        cli_call own = *call;

        own.paths[0] = call->files.items[i];
        if (i > 0) {
            EXG_TRY(cli_check_needs(&own, 'i', err));
            fputs(call->json ? "" : "\n", call->out);
        }
        EXG_TRY(inspect_file(&own, err));
    }
    return EXG_OK;
}
