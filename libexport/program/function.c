/* function.c - the functions and constants of symbolic expressions, by name. */
#include "libexport/program/expression.h"

#include <math.h>
#include <string.h>

#define MANY EXG_ARGUMENTS_MANY

static const exg_function functions[] = {
#define EXG_FUNCTION(name, kind, least, most)                                                      \
    {name, EXG_FN_##kind, least, most, EXG_FORM_NAMED, name, EXG_BINDS_ATOM, NULL},
#define EXG_PRINTED_FUNCTION(name, kind, least, most, form, text, binds)                           \
    {name, EXG_FN_##kind, least, most, EXG_FORM_##form, text, EXG_BINDS_##binds, NULL},
#define EXG_REAL_FUNCTION(name, function)                                                          \
    {name, EXG_FN_REAL, 1, 1, EXG_FORM_NAMED, name, EXG_BINDS_ATOM, function},
#include "libexport/program/function.def"
#undef EXG_FUNCTION
#undef EXG_PRINTED_FUNCTION
#undef EXG_REAL_FUNCTION
};

static bool is_name(const char *known, const char *name, size_t length)
{
    return known[0] == name[0] && strncmp(known, name, length) == 0 && known[length] == '\0';
}

const exg_function *exg_function_find(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        if (is_name(functions[i].name, name, length)) {
            return &functions[i];
        }
    }
    return NULL;
}

bool exg_constant_find(const char *name, size_t length, exg_number *out)
{
    static const struct {
        const char *name;
        exg_number value;
    } constants[] = {
        {"true", {false, {.i = 1}}},
        {"True", {false, {.i = 1}}},
        {"false", {false, {.i = 0}}},
        {"False", {false, {.i = 0}}},
        {"math.inf", {true, {.f = INFINITY}}},
        {"inf", {true, {.f = INFINITY}}},
        {"math.nan", {true, {.f = NAN}}},
        {"math.pi", {true, {.f = 0x1.921fb54442d18p+1}}},
        {"pi", {true, {.f = 0x1.921fb54442d18p+1}}},
    };

    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
        if (is_name(constants[i].name, name, length)) {
            *out = constants[i].value;
            return true;
        }
    }
    return false;
}
