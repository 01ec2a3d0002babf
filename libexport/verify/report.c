/* report.c - keeps what the rules find, and says where it is. */
#include "libexport/verify/verifier.h"

#include <assert.h>
#include <exg/module.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FINDINGS_MAX 1000 /* errors, and as many others: the rest is counted, not listed */
#define WHERE_MAX    300

static size_t put_path(const exg_model_path *path, char *text, size_t length)
{
    size_t used = path->within == NULL ? 0 : put_path(path->within, text, length);
    int more;

    if (used >= length) {
        return used;
    }
    if (used > 0 && path->part[0] != '[') {
        text[used++] = '.';
    }
    more = path->key != NULL
               ? snprintf(text + used, length - used, "%s[\"%.150s\"]", path->part, path->key)
           : path->index != EXG_NO_INDEX
               ? snprintf(text + used, length - used, "%s[%u]", path->part, path->index)
               : snprintf(text + used, length - used, "%s", path->part);
    return used + (more < 0 ? 0 : (size_t)more);
}

void exg_model_path_text(const exg_model_path *path, char *text, size_t length)
{
    (void)put_path(path, text, length);
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

void exg_found(exg_verifier *v, const char *code, const exg_model_path *path, const char *format,
               ...)
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
    exg_model_path_text(path, where, sizeof(where));
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
    for (; path != NULL; path = path->within) {
        if (path->node != NULL) {
            keep_source(v, path->node, item);
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
