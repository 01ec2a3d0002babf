/* verify.c - runs the rules and keeps what they find. */
#include "libexport/verify/verifier.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FINDINGS_MAX 1000 /* of one file; the rest is counted, not listed */

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

static bool reserve(exg_verifier *v)
{
    exg_diagnostics *found = v->found;
    uint32_t capacity = v->capacity == 0 ? 16 : v->capacity * 2;
    exg_diagnostic *items;

    if (found->count < v->capacity) {
        return true;
    }
    items = EXG_NEW_ARRAY(found->arena, exg_diagnostic, capacity);
    if (items == NULL) {
        v->failed = true;
        return false;
    }
    if (found->count > 0) {
        memcpy(items, found->items, found->count * sizeof(*items));
    }
    found->items = items;
    v->capacity = capacity;
    return true;
}

void exg_found(exg_verifier *v, const char *code, const char *where, const char *format, ...)
{
    const rule_row *rule = find_rule(code);
    char message[400];
    va_list args;

    v->found->error_count += rule->severity == EXG_SEVERITY_ERROR;
    if (v->found->count >= FINDINGS_MAX || !reserve(v)) {
        return;
    }
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    for (char *c = message; *c != '\0'; c++) {
        *c = (unsigned char)*c < 0x20 ? ' ' : *c;
    }
    v->found->items[v->found->count] =
        (exg_diagnostic){.severity = rule->severity,
                         .code = rule->code,
                         .message = exg_arena_strdup(v->found->arena, message),
                         .where = exg_arena_strdup(v->found->arena, where == NULL ? "" : where),
                         .fix = rule->fix};
    if (v->found->items[v->found->count].message == NULL ||
        v->found->items[v->found->count].where == NULL) {
        v->failed = true;
        return;
    }
    v->found->count++;
}

const char *exg_where(exg_verifier *v, const char *format, ...)
{
    char text[300];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return exg_arena_strdup(v->found->arena, text);
}

void exg_diagnostics_free(exg_diagnostics *diagnostics)
{
    exg_arena_destroy(diagnostics->arena);
    memset(diagnostics, 0, sizeof(*diagnostics));
}

static void run_rules(exg_verifier *v)
{
    exg_verify_symbols(v);
    exg_verify_graph(v, v->program->graph, "graph");
    exg_verify_weights(v);
    if (v->found->error_count > 0) {
        return;
    }
    exg_verify_signature(v);
    exg_verify_nodes(v, v->program->graph, "graph");
    if (v->found->error_count > 0) {
        return;
    }
    exg_verify_shapes(v);
}

static exg_status first_error(const exg_diagnostics *found, exg_error *err)
{
    for (uint32_t i = 0; i < found->count; i++) {
        const exg_diagnostic *d = &found->items[i];

        if (d->severity == EXG_SEVERITY_ERROR) {
            exg_status status = EXG_FAIL(err, MALFORMED, d->code, "%s%s", d->message,
                                         found->error_count > 1 ? " (the first of several faults)" : "");

            (void)exg_error_fix(err, status, "%s", d->fix);
            return exg_error_within(err, status, "%s", d->where);
        }
    }
    return EXG_FAIL(err, MALFORMED, "VAL-001", "%u faults", found->error_count);
}

exg_status exg_verify(const exg_program *program, const exg_operators *operators,
                      exg_verified *verified, exg_diagnostics *diagnostics, exg_error *err)
{
    exg_diagnostics own = {0};
    exg_diagnostics *found = diagnostics == NULL ? &own : diagnostics;
    exg_verifier v = {.program = program, .operators = operators, .found = found};
    exg_status status = EXG_OK;

    memset(found, 0, sizeof(*found));
    *verified = (exg_verified){0};
    found->arena = exg_arena_create(EXG_ARENA_UNBOUNDED);
    if (found->arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    run_rules(&v);
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
