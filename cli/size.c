/* size.c - sizes in bytes and other numbers, as options give them. */
#include "cli/cli.h"

#include <math.h>
#include <string.h>

exg_status cli_size(const char *option, const char *text, uint64_t *bytes, exg_error *err)
{
    static const char units[] = "KMGT";
    uint64_t value = 0;
    const char *c = text;
    const char *unit;

    for (; *c >= '0' && *c <= '9'; c++) {
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*c - '0'), &value)) {
            return EXG_FAIL(err, USAGE, "CLI-001", "%s '%s' passes 64 bits", option, text);
        }
    }
    unit = *c == '\0' ? NULL : strchr(units, *c);
    if (c == text || value == 0 || (*c != '\0' && (unit == NULL || c[1] != '\0'))) {
        return EXG_FAIL(err, USAGE, "CLI-001", "%s '%s': a size like 4096, 500M or 2G", option,
                        text);
    }
    for (const char *u = units; unit != NULL && u <= unit; u++) {
        if (__builtin_mul_overflow(value, 1024u, &value)) {
            return EXG_FAIL(err, USAGE, "CLI-001", "%s '%s' passes 64 bits", option, text);
        }
    }
    *bytes = value;
    return EXG_OK;
}

exg_status cli_splat(const cli_call *call, double *value, exg_error *err)
{
    char *end = NULL;

    *value = call->splat == NULL ? 0 : exg_text_to_double(call->splat, &end);
    if (call->splat != NULL && (end == call->splat || *end != '\0' || !isfinite(*value))) {
        return EXG_FAIL(err, USAGE, "CLI-001", "--splat '%s': a number", call->splat);
    }
    return EXG_OK;
}
