/* codes.c - each error that is set has a code of the tables (rule.def, fault.def): linked with
 * --wrap=exg_error_set, by which every fault that a test sees comes this way first. */
#include <exg/status.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

exg_status __real_exg_error_set(exg_error *err, const char *file, int line, exg_status status,
                                const char *code, const char *format, ...);
exg_status __wrap_exg_error_set(exg_error *err, const char *file, int line, exg_status status,
                                const char *code, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* "EQL" is no fault: two programs are not equal, which the caller asked. */
static bool is_listed(const char *code)
{
    static const char *const codes[] = {
#define EXG_RULE(code, severity, keeper, claim, fix) code,
#include "libexport/verify/rule.def"
#undef EXG_RULE
#define EXG_FAULT(code, meaning, fix) code,
#include "libexport/base/fault.def"
#undef EXG_FAULT
    };

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (strcmp(codes[i], code) == 0) {
            return true;
        }
    }
    return false;
}

exg_status __wrap_exg_error_set(exg_error *err, const char *file, int line, exg_status status,
                                const char *code, const char *format, ...)
{
    char text[sizeof(err->message)];
    va_list args;

    if (strstr(file, "tests/") == NULL && strcmp(code, "EQL") != 0 && !is_listed(code)) {
        fprintf(stderr, "%s:%d: no table has the code '%s'\n", file, line, code);
        abort();
    }
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return __real_exg_error_set(err, file, line, status, code, "%s", text);
}
