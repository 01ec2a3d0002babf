/* verify.c - runs the rules and keeps what they find. */
#include "libexport/verify/verifier.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FINDINGS_MAX 1000 /* of one file; the rest is counted, not listed */
#define WHERE_MAX    300

typedef struct rule_row {
    const char *code;
    exg_severity severity;
    const char *fix;
} rule_row;

static const rule_row rules[] = {
#define EXG_RULE(code, severity, claim, fix) {code, EXG_SEVERITY_##severity, fix},
#include "libexport/verify/rule.def"
#undef EXG_RULE
};

static const rule_row *find_rule(const char *code)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (strcmp(rules[i].code, code) == 0) {
            return &rules[i];
        }
    }
    return &rules[0];
}

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

void exg_found(exg_verifier *v, const char *code, const exg_place *place, const char *format, ...)
{
    const rule_row *rule = find_rule(code);
    exg_diagnostics *found = v->found;
    char where[WHERE_MAX];
    char message[400];
    va_list args;
    exg_diagnostic *item;

    found->error_count += rule->severity == EXG_SEVERITY_ERROR;
    if (found->count >= FINDINGS_MAX) {
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
    for (char *c = message; *c != '\0'; c++) {
        *c = (unsigned char)*c < 0x20 ? ' ' : *c;
    }
    exg_place_text(place, where, sizeof(where));
    item = &found->items[found->count];
    *item = (exg_diagnostic){.severity = rule->severity,
                             .code = rule->code,
                             .message = exg_arena_strdup(found->arena, message),
                             .where = exg_arena_strdup(found->arena, where),
                             .fix = rule->fix};
    if (item->message == NULL || item->where == NULL) {
        v->failed = true;
        return;
    }
    found->count++;
}

void exg_diagnostics_free(exg_diagnostics *diagnostics)
{
    exg_arena_destroy(diagnostics->arena);
    memset(diagnostics, 0, sizeof(*diagnostics));
}

static void run_rules(exg_verifier *v)
{
    const exg_place *graph = EXG_AT(NULL, "graph");

    exg_verify_symbols(v);
    exg_verify_graph(v, v->program->graph, graph);
    exg_verify_weights(v);
    if (v->found->error_count > 0) {
        return;
    }
    exg_verify_signature(v);
    exg_verify_nodes(v, v->program->graph, graph);
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

static bool names_training(const exg_program *program)
{
    for (uint32_t i = 0; i < program->verifier_count; i++) {
        if (strcmp(program->verifiers[i], "TRAINING") == 0) {
            return true;
        }
    }
    return false;
}

exg_status exg_verify(const exg_program *program, const exg_operators *operators,
                      exg_verified *verified, exg_diagnostics *diagnostics, exg_error *err)
{
    exg_diagnostics own = {0};
    exg_diagnostics *found = diagnostics == NULL ? &own : diagnostics;
    exg_verifier v = {.program = program,
                      .operators = operators,
                      .found = found,
                      .functional_dialect = !names_training(program)};
    exg_status status = EXG_OK;

    memset(found, 0, sizeof(*found));
    *verified = (exg_verified){0};
    found->arena = exg_arena_create(EXG_ARENA_UNBOUNDED);
    v.arena = exg_arena_create(EXG_ARENA_UNBOUNDED);
    v.scratch = exg_arena_create(EXG_ARENA_UNBOUNDED);
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
