/* fill.c - a program's weights from another file: of convert, repack and run. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

/* "NAME-00001-of-00002.safetensors", or .bin; those of GGUF say it themselves. */
exg_status cli_check_whole(const char *path, exg_error *err)
{
    static const char form[] = "-00000-of-00000";
    const char *point = strrchr(path, '.');
    size_t length = point == NULL ? 0 : (size_t)(point - path);
    const char *tail = length < sizeof(form) ? "" : point + 1 - sizeof(form);
    unsigned number = 0;
    unsigned count = 0;
    int end = 0;

    if (point == NULL || (strcmp(point, ".safetensors") != 0 && strcmp(point, ".bin") != 0) ||
        sscanf(tail, "-%5u-of-%5u%n", &number, &count, &end) != 2 || end != (int)sizeof(form) - 1 ||
        count < 2) {
        return EXG_OK;
    }
    return exg_error_fix(err,
                         EXG_FAIL(err, USAGE, "CLI-010",
                                  "'%s' is by its name part %u of %u of a "
                                  "model",
                                  path, number, count),
                         "give the index of the parts (%s.index.json) or their folder, or another "
                         "name to this one",
                         point);
}

void cli_note_mismatches(const exg_mismatches *mismatches)
{
    exg_text text = EXG_TEXT_EMPTY;

    for (uint32_t i = 0; i < mismatches->count; i++) {
        const exg_mismatch *m = &mismatches->items[i];

        exg_text_puts(&text, exg_mismatch_is_fault(m->kind) ? "mismatch: " : "note: ");
        exg_text_plain(&text, m->name, false);
        exg_text_printf(&text, " %s%s%s\n", exg_mismatch_text(m->kind),
                        m->detail[0] == '\0' ? "" : ": ", m->detail);
    }
    cli_note(&text);
    exg_text_free(&text);
}

/* Of an archive of several programs those of the one of this name. */
static exg_status open_giver(const cli_call *call, const char *program, exg_weights **from,
                             exg_error *err)
{
    exg_open_options options = cli_open_options(call);
    cli_call other = *call;
    cli_programs all = {0};
    exg_status status = EXG_OK;

    EXG_TRY(cli_check_whole(call->weights_from, err));
    other.paths[0] = call->weights_from;
    other.program = NULL;
    options.program = NULL;
    if (!cli_is_weights_file(call, call->weights_from)) {
        EXG_TRY(cli_programs_list(&other, &all, err));
        options.program = all.names == NULL ? NULL : program;
    }
    status = exg_weights_open(call->weights_from, &options, from, NULL, err);
    cli_programs_free(&all);
    return status == EXG_OK ? EXG_OK : exg_error_within(err, status, "%s:", call->weights_from);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "state_dict." where every name that is missing is in the file with it before; else "". */
static const char *find_prefix(const exg_mismatches *mismatches, exg_arena *arena)
{
    char **unknown = EXG_NEW_ARRAY(arena, char *, mismatches->count);
    const char *missing = NULL;
    size_t count = 0;

    for (uint32_t i = 0; unknown != NULL && i < mismatches->count; i++) {
        if (mismatches->items[i].kind == EXG_MISMATCH_UNKNOWN) {
            unknown[count++] = mismatches->items[i].name;
        } else if (mismatches->items[i].kind == EXG_MISMATCH_MISSING) {
            missing = mismatches->items[i].name;
        }
    }
    if (missing == NULL || count == 0) {
        return "";
    }
    qsort(unknown, count, sizeof(*unknown), by_name);
    for (size_t u = 0; u < count; u++) {
        size_t length = strlen(unknown[u]);
        size_t tail = strlen(missing);
        const char *prefix;
        bool all = length > tail && strcmp(unknown[u] + length - tail, missing) == 0;

        prefix = all ? exg_arena_strndup(arena, unknown[u], length - tail) : NULL;
        for (uint32_t i = 0; prefix != NULL && all && i < mismatches->count; i++) {
            if (mismatches->items[i].kind == EXG_MISMATCH_MISSING) {
                char *name = exg_arena_printf(arena, "%s%s", prefix, mismatches->items[i].name);

                all = name != NULL && bsearch(&name, unknown, count, sizeof(*unknown), by_name);
            }
        }
        if (prefix != NULL && all) {
            return prefix;
        }
    }
    return "";
}

/* What would make them fit. */
static exg_status tell_way(const exg_mismatches *mismatches, exg_status status, exg_error *err)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    const char *prefix = arena == NULL ? "" : find_prefix(mismatches, arena);

    if (prefix[0] != '\0') {
        status = exg_error_fix(err, status, "all names are there with a prefix: --prefix-strip %s",
                               prefix);
    } else if (status == EXG_MISMATCH) {
        status = exg_error_fix(err, status,
                               "the list before it names each; --rename, "
                               "--prefix-strip, --dtype and --transpose change what "
                               "the file has, --partial leaves the rest as it is");
    }
    exg_arena_destroy(arena);
    return status;
}

/* Of tensor subclasses the tensors inside of them. */
static exg_status fill(const cli_call *call, exg_weights *of, exg_weights *from, exg_weights **made,
                       exg_mismatches *mismatches, exg_error *err)
{
    exg_weights *inner = NULL;
    exg_weights *filled = NULL;
    exg_status status;

    if (!exg_weights_has_subclasses(of)) {
        return exg_weights_fill(of, from, call->partial, made, mismatches, err);
    }
    status = exg_weights_unwrap(of, &inner, err);
    if (status == EXG_OK) {
        status = exg_weights_fill(inner, from, call->partial, &filled, mismatches, err);
    }
    if (status == EXG_OK) {
        status = exg_weights_wrap(of, filled, made, err);
    }
    exg_weights_release(filled);
    exg_weights_release(inner);
    return status;
}

/* What the giver has inside of its subclasses, in their place. */
static exg_status unwrap_giver(exg_weights **from, exg_error *err)
{
    exg_weights *inner;

    if (!exg_weights_has_subclasses(*from)) {
        return EXG_OK;
    }
    EXG_TRY(exg_weights_unwrap(*from, &inner, err));
    exg_weights_release(*from);
    *from = inner;
    return EXG_OK;
}

/* Blocks of GGML that the program then takes as they are stored. */
static exg_status take_blocks(exg_program *program, exg_weights **from, exg_error *err)
{
    exg_weights *rest;

    EXG_TRY(exg_program_take_blocks(program, *from, &rest, err));
    exg_weights_release(*from);
    *from = rest;
    return EXG_OK;
}

exg_status cli_fill_weights(const cli_call *call, exg_program *program, bool takes_blocks,
                            exg_error *err)
{
    exg_check_options options = {.size = sizeof(options), .threads = (uint32_t)call->threads};
    exg_weights *from;
    exg_weights *made = NULL;
    exg_mismatches mismatches = {0};
    cli_call edits = *call;
    exg_status status = EXG_OK;

    edits.deduplicate = false; /* that is about what is written */
    EXG_TRY(open_giver(call, program->name, &from, err));
    if (!call->no_check) { /* all of it, before any is written or computed with */
        status = exg_weights_check(from, &options, err);
    }
    if (status == EXG_OK) {
        status = unwrap_giver(&from, err);
    }
    if (status == EXG_OK) {
        status = cli_edit_weights(&edits, call->weights_from, &from, err);
    }
    if (status == EXG_OK && takes_blocks) {
        status = take_blocks(program, &from, err);
    }
    if (status == EXG_OK) {
        status = fill(call, program->weights, from, &made, &mismatches, err);
        cli_note_mismatches(&mismatches);
        status = status == EXG_OK ? status : tell_way(&mismatches, status, err);
    }
    exg_mismatches_free(&mismatches);
    exg_weights_release(from);
    if (status == EXG_OK) {
        exg_weights_release(program->weights);
        program->weights = made;
    }
    return status == EXG_OK ? status : exg_error_within(err, status, "%s:", call->weights_from);
}
