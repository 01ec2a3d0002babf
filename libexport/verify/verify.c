/* verify.c - runs the rules and keeps what they find. */
#include "libexport/base/given.h"
#include "libexport/verify/verifier.h"

#include <assert.h>
#include <exg/module.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FINDINGS_MAX 1000 /* errors, and as many others: the rest is counted, not listed */
#define WHERE_MAX    300

static size_t put_place(const exg_place *place, char *text, size_t length)
{
    size_t used = place->within == NULL ? 0 : put_place(place->within, text, length);
    int more;

    if (used >= length) {
        return used;
    }
    if (used > 0 && place->part[0] != '[') {
        text[used++] = '.';
    }
    more = place->key != NULL
               ? snprintf(text + used, length - used, "%s[\"%.150s\"]", place->part, place->key)
           : place->index != EXG_NO_INDEX
               ? snprintf(text + used, length - used, "%s[%u]", place->part, place->index)
               : snprintf(text + used, length - used, "%s", place->part);
    return used + (more < 0 ? 0 : (size_t)more);
}

void exg_place_text(const exg_place *place, char *text, size_t length)
{
    (void)put_place(place, text, length);
    text[length - 1] = '\0';
}

/* A copy on one line: a name read from a file may hold anything. */
static const char *printable(exg_arena *arena, const char *text)
{
    char *copy = exg_arena_strdup(arena, text);

    for (char *c = copy; c != NULL && *c != '\0'; c++) {
        *c = (unsigned char)*c < 0x20 || *c == 0x7f ? ' ' : *c;
    }
    return copy;
}

static void keep_source(exg_verifier *v, const exg_node *node, exg_diagnostic *item)
{
    exg_source_line source;

    if (exg_node_source_line(node, &source)) {
        item->source_file = exg_arena_strndup(v->found->arena, source.file, source.file_length);
        item->source_text = exg_arena_strndup(v->found->arena, source.code, source.code_length);
        item->source_line = source.line;
        v->failed = v->failed || item->source_file == NULL || item->source_text == NULL;
    }
}

static void count(exg_diagnostics *found, exg_severity severity)
{
    switch (severity) {
    case EXG_SEVERITY_ERROR:
        found->error_count++;
        break;
    case EXG_SEVERITY_WARNING:
        found->warning_count++;
        break;
    case EXG_SEVERITY_NOTE:
        found->note_count++;
        break;
    }
}

void exg_found(exg_verifier *v, const char *code, const exg_place *place, const char *format, ...)
{
    const exg_rule *rule = exg_rule_find(code);
    exg_diagnostics *found = v->found;
    char where[WHERE_MAX];
    char message[400];
    va_list args;
    exg_diagnostic *item;

    assert(rule != NULL);
    count(found, rule->severity);
    if ((rule->severity == EXG_SEVERITY_ERROR
             ? found->error_count
             : found->warning_count + found->note_count) > FINDINGS_MAX) {
        return;
    }
    if (!exg_arena_reserve(found->arena, &found->items, found->count, &v->capacity,
                           sizeof(*item))) {
        v->failed = true;
        return;
    }
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    exg_place_text(place, where, sizeof(where));
    item = &found->items[found->count];
    *item = (exg_diagnostic){.severity = rule->severity,
                             .code = rule->code,
                             .message = printable(found->arena, message),
                             .where = printable(found->arena, where),
                             .fix = rule->fix,
                             .source_file = "",
                             .source_text = ""};
    if (item->message == NULL || item->where == NULL) {
        v->failed = true;
        return;
    }
    found->count++;
    for (; place != NULL; place = place->within) {
        if (place->node != NULL) {
            keep_source(v, place->node, item);
            return;
        }
    }
}

void exg_diagnostics_free(exg_diagnostics *diagnostics)
{
    if (diagnostics != NULL) {
        exg_arena_destroy(diagnostics->arena);
        memset(diagnostics, 0, sizeof(*diagnostics));
    }
}

/* Dialects are an open set: extensions register theirs. */
static void check_dialects(exg_verifier *v)
{
    static const char *const known[] = {"TRAINING", "ATEN", "EDGE", ""};

    for (uint32_t i = 0; i < v->program->verifier_count; i++) {
        size_t k = 0;

        while (k < sizeof(known) / sizeof(known[0]) &&
               strcmp(known[k], v->program->verifiers[i]) != 0) {
            k++;
        }
        if (k == sizeof(known) / sizeof(known[0])) {
            exg_found(v, "DIA-001", EXG_AT_INDEX(NULL, "verifiers", i),
                      "the dialect '%s' is not known", v->program->verifiers[i]);
        }
    }
}

/* Every room runs, whatever the earlier ones found: a fault hides no other. A rule passes over
 * what it cannot trust, so that what follows from one fault alone is not told as another. */
static void run_rules(exg_verifier *v)
{
    const exg_place *graph = EXG_AT(NULL, "graph");

    check_dialects(v);
    exg_verify_symbols(v);
    exg_verify_graph(v, v->program->graph, NULL, graph);
    v->graphs_sound = v->found->error_count == 0;
    exg_verify_weights(v);
    exg_verify_signature(v);
    if (v->failed) {
        return;
    }
    exg_verify_calls(v);
    exg_verify_bindings(v);
    exg_verify_nodes(v, v->program->graph, graph);
    if (v->tells_all && !v->failed) {
        exg_verify_archive(v);
        exg_verify_metadata(v, v->program->graph, graph);
        exg_verify_uses(v, v->program->graph, graph);
    }
}

static exg_status first_error(const exg_diagnostics *found, exg_error *err)
{
    for (uint32_t i = 0; i < found->count; i++) {
        const exg_diagnostic *d = &found->items[i];

        if (d->severity == EXG_SEVERITY_ERROR) {
            exg_status status =
                EXG_FAIL(err, MALFORMED, d->code, "%s%s", d->message,
                         found->error_count > 1 ? " (the first of several faults)" : "");

            (void)exg_error_fix(err, status, "%s", d->fix);
            return exg_error_within(err, status, "%s", d->where);
        }
    }
    return EXG_FAIL(err, MALFORMED, "VAL-001", "%u faults", found->error_count);
}

static bool has_dialect(const exg_program *program, const char *dialect)
{
    for (uint32_t i = 0; i < program->verifier_count; i++) {
        if (strcmp(program->verifiers[i], dialect) == 0) {
            return true;
        }
    }
    return false;
}

exg_status exg_verify(const exg_program *program, const exg_operators *operators,
                      exg_verified *verified, exg_diagnostics *diagnostics, exg_error *err)
{
    EXG_GIVEN(err, program, operators, verified);
    exg_diagnostics own = {0};
    exg_diagnostics *found = diagnostics == NULL ? &own : diagnostics;
    exg_verifier v = {.program = program,
                      .operators = operators,
                      .found = found,
                      .functional_dialect = !has_dialect(program, "TRAINING"),
                      .edge_dialect = has_dialect(program, "EDGE"),
                      .tells_all = diagnostics != NULL};
    exg_status status = EXG_OK;

    memset(found, 0, sizeof(*found));
    *verified = (exg_verified){0};
    found->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    v.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    v.scratch = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    if (found->arena == NULL || v.arena == NULL || v.scratch == NULL) {
        exg_arena_destroy(v.arena);
        exg_arena_destroy(v.scratch);
        exg_diagnostics_free(found);
        return EXG_OUT_OF_MEMORY(err);
    }
    run_rules(&v);
    exg_arena_destroy(v.arena);
    exg_arena_destroy(v.scratch);
    if (v.failed) {
        status = EXG_OUT_OF_MEMORY(err);
    } else if (found->error_count > 0) {
        status = first_error(found, err);
    } else {
        *verified = (exg_verified){program, operators};
    }
    if (diagnostics == NULL) {
        exg_diagnostics_free(&own);
    }
    return status;
}
