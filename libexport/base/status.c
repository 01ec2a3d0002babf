/* status.c - filling and decorating errors. */
#include "libexport/base/own_fix.h"
#include "libexport/base/require.h"

#include <exg/verify.h>

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int exit_code;
    const char *meaning;
} status_rows[] = {
#define EXG_STATUS(name, exit_code, meaning) [EXG_##name] = {#name, exit_code, meaning},
#include <exg/status.def>
#undef EXG_STATUS
};

const char *exg_status_name(exg_status status)
{
    return status < EXG_STATUS_COUNT ? status_rows[status].name : "?";
}

const char *exg_status_meaning(exg_status status)
{
    return status < EXG_STATUS_COUNT ? status_rows[status].meaning : "?";
}

int exg_status_exit_code(exg_status status)
{
    return status < EXG_STATUS_COUNT ? status_rows[status].exit_code : 70;
}

void exg_error_clear(exg_error *err)
{
    if (err != NULL) {
        memset(err, 0, sizeof(*err));
        err->offset = EXG_NO_OFFSET;
    }
}

/* One line always: a name read from a file may hold anything. */
static void keep_printable(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c != '\0'; c++) {
        if (*c < 0x20 || *c == 0x7f) {
            *c = ' ';
        }
    }
}

/* What gets out of any fault of this code. */
static const char *fix_of(const char *code)
{
    const exg_code *fault = exg_code_find(code);
    const exg_rule *rule = fault == NULL ? exg_rule_find(code) : NULL;

    return fault != NULL ? fault->fix : rule != NULL ? rule->fix : "";
}

exg_status exg_error_set(exg_error *err, const char *file, int line, exg_status status,
                         const char *code, const char *format, ...)
{
    if (err != NULL) {
        va_list args;

        exg_error_clear(err);
        err->status = status;
        snprintf(err->code, sizeof(err->code), "%s", code);
        snprintf(err->fix, sizeof(err->fix), "%s", fix_of(code));
        err->source_file = file;
        err->source_line = line;
        va_start(args, format);
        vsnprintf(err->message, sizeof(err->message), format, args);
        va_end(args);
        keep_printable(err->message);
    }
    return status;
}

bool exg_error_has_own_fix(const exg_error *err)
{
    return strcmp(err->fix, fix_of(err->code)) != 0;
}

exg_status exg_error_fix(exg_error *err, exg_status status, const char *format, ...)
{
    if (err != NULL) {
        va_list args;

        va_start(args, format);
        vsnprintf(err->fix, sizeof(err->fix), format, args);
        va_end(args);
        keep_printable(err->fix);
    }
    return status;
}

exg_status exg_error_source(exg_error *err, exg_status status, const char *format, ...)
{
    if (err != NULL) {
        va_list args;

        va_start(args, format);
        vsnprintf(err->source, sizeof(err->source), format, args);
        va_end(args);
        keep_printable(err->source);
    }
    return status;
}

exg_status exg_error_within(exg_error *err, exg_status status, const char *format, ...)
{
    if (err != NULL) {
        char outer[sizeof(err->where)];
        char inner[sizeof(err->where)];
        va_list args;

        va_start(args, format);
        vsnprintf(outer, sizeof(outer), format, args);
        va_end(args);
        memcpy(inner, err->where, sizeof(inner));
        if (inner[0] == '\0') {
            size_t length = strlen(outer);

            length -= length > 0 && outer[length - 1] == ':' ? 1 : 0;
            snprintf(err->where, sizeof(err->where), "%.*s", (int)length, outer);
        } else {
            size_t left = sizeof(err->where) - 1;
            size_t length = strlen(outer) < left ? strlen(outer) : left;
            bool is_file = length > 0 && outer[length - 1] == ':';

            memcpy(err->where, outer, length);
            snprintf(err->where + length, sizeof(err->where) - length, "%s%s",
                     is_file           ? " "
                     : inner[0] == '[' ? ""
                                       : ".",
                     inner);
        }
        keep_printable(err->where);
    }
    return status;
}

exg_status exg_error_at(exg_error *err, exg_status status, uint64_t offset)
{
    if (err != NULL) {
        err->offset = offset;
    }
    return status;
}

/* The last word of the part of `names` before comma number `index`. */
static const char *name_of(const char *names, size_t index, int *length)
{
    const char *at = names;
    int depth = 0;

    for (; *at != '\0' && (*at != ',' || depth > 0 || index > 0); at++) {
        depth += (*at == '(') - (*at == ')');
        index -= *at == ',' && depth == 0;
    }
    while (at > names && at[-1] == ')') {
        at--;
    }
    for (*length = 0; at > names && (isalnum((unsigned char)at[-1]) || at[-1] == '_'); at--) {
        ++*length;
    }
    return at;
}

exg_status exg_require(const char *file, int line, const char *function, const char *names,
                       const void *const *pointers, size_t count, exg_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (pointers[i] == NULL) {
            int length;
            const char *name = name_of(names, i, &length);
            exg_status status = exg_error_set(err, file, line, EXG_USAGE, "ARG-001",
                                              "%s: '%.*s' is NULL", function, length, name);

            return exg_error_fix(err, status, "look at the status of the call that makes it");
        }
    }
    return EXG_OK;
}
