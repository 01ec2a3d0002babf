/* schema.c - reads function schemas, the one-line declarations of PyTorch's
 * operators ("aten::sum.dim_IntList(Tensor self, int[1]? dim, ...) -> Tensor").
 * Grammar: torch/_C schema text; only what operators of ATen use.
 */
#include "libexport/base/arena.h"
#include "libexport/base/require.h"
#include "libexport/base/scan.h"

#include <exg/operators.h>
#include <exg/text.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    exg_arena *arena;
    const char *text;
    exg_scan scan;
    exg_error *err;
} reader;

static exg_status expected(reader *r, const char *what)
{
    return EXG_FAIL(r->err, MALFORMED, "SCH-001", "schema '%s': expected %s at position %zu",
                    r->text, what, (size_t)(r->scan.at - r->text));
}

static exg_status take_word(reader *r, const char **word)
{
    size_t length = exg_scan_word(&r->scan, word);

    if (length == 0) {
        return expected(r, "a name");
    }
    *word = exg_arena_strndup(r->arena, *word, length);
    return *word == NULL ? EXG_OUT_OF_MEMORY(r->err) : EXG_OK;
}

static const struct {
    const char *name;
    exg_type_base base;
} type_rows[] = {
    {"Tensor", EXG_TYPE_TENSOR},
    {"Scalar", EXG_TYPE_SCALAR},
    {"int", EXG_TYPE_INT},
    {"SymInt", EXG_TYPE_SYM_INT},
    {"float", EXG_TYPE_FLOAT},
    {"bool", EXG_TYPE_BOOL},
    {"str", EXG_TYPE_STRING},
    {"ScalarType", EXG_TYPE_SCALAR_TYPE},
    {"Layout", EXG_TYPE_LAYOUT},
    {"Device", EXG_TYPE_DEVICE},
    {"MemoryFormat", EXG_TYPE_MEMORY_FORMAT},
    {"Generator", EXG_TYPE_GENERATOR},
    {"SymBool", EXG_TYPE_SYM_BOOL},
    {"QScheme", EXG_TYPE_OBJECT},
    {"Stream", EXG_TYPE_OBJECT},
    {"Storage", EXG_TYPE_OBJECT},
    {"__torch__", EXG_TYPE_OBJECT}, /* a class, with a path behind it */
};

/* Tensor(a!), Tensor(a -> *), Tensor(a|b): the alias set of a tensor, by its first letter; or
 * Tensor(a0!), as torch.library.custom_op numbers them, by its number. */
static exg_status read_alias(reader *r, exg_schema_argument *arg)
{
    if (*r->scan.at != '(') {
        return EXG_OK;
    }
    r->scan.at++;
    arg->alias = *r->scan.at;
    if (arg->alias < 'a' || arg->alias > 'z') {
        return expected(r, "an alias letter");
    }
    r->scan.at++;
    if (*r->scan.at >= '0' && *r->scan.at <= '9') {
        unsigned long number = strtoul(r->scan.at, (char **)&r->scan.at, 10);

        if (number > EXG_ARGUMENTS_MAX) {
            return expected(r, "the number of a parameter");
        }
        arg->alias = (char)(number + 1); /* no letter */
    }
    while (*r->scan.at == '|' && r->scan.at[1] >= 'a' && r->scan.at[1] <= 'z') {
        r->scan.at += 2;
    }
    if (*r->scan.at == '!') {
        arg->is_write = true;
        r->scan.at++;
    }
    (void)(exg_scan_take(&r->scan, "-> *") || exg_scan_take(&r->scan, "->*"));
    return exg_scan_take(&r->scan, ")") ? EXG_OK : expected(r, "')'");
}

static exg_status read_type(reader *r, exg_schema_argument *arg)
{
    const char *word;
    size_t row = 0;

    EXG_TRY(take_word(r, &word));
    while (row < sizeof(type_rows) / sizeof(type_rows[0]) &&
           strcmp(type_rows[row].name, word) != 0) {
        row++;
    }
    if (row == sizeof(type_rows) / sizeof(type_rows[0])) {
        return expected(r, "a known type");
    }
    arg->type.base = type_rows[row].base;
    while (strcmp(word, "__torch__") == 0 && (exg_is_word(*r->scan.at) || *r->scan.at == '.')) {
        r->scan.at++;
    }
    EXG_TRY(read_alias(r, arg));
    if (*r->scan.at == '?' && r->scan.at[1] == '[') {
        arg->type.is_element_optional = true;
        r->scan.at++;
    }
    if (*r->scan.at == '[') {
        r->scan.at++;
        arg->type.is_list = true;
        arg->type.list_length = (uint32_t)strtoul(r->scan.at, (char **)&r->scan.at, 10);
        if (!exg_scan_take(&r->scan, "]")) {
            return expected(r, "']'");
        }
        if (*r->scan.at == '(') { /* Tensor(a)[] is usual, Tensor[](a) is not */
            EXG_TRY(read_alias(r, arg));
        }
    }
    if (*r->scan.at == '?') {
        arg->type.is_optional = true;
        r->scan.at++;
    }
    return EXG_OK;
}

static exg_status read_number(reader *r, exg_argument *value)
{
    char *end;
    const char *start = r->scan.at;
    bool is_float = false;
    size_t length;

    (void)exg_text_to_double(start, &end);
    length = (size_t)(end - start);
    if (length == 0) {
        return expected(r, "a default value");
    }
    for (const char *c = start; c < end; c++) {
        is_float = is_float || *c == '.' || *c == 'e' || *c == 'n';
    }
    *value = is_float ? exg_arg_float(exg_text_to_double(start, NULL))
                      : exg_arg_int(strtoll(start, NULL, 10));
    r->scan.at = end;
    return EXG_OK;
}

/* In quotes of either kind; a backslash keeps the character after it. */
static exg_status read_string(reader *r, exg_argument *value)
{
    const char quote = *r->scan.at;
    const char *end = r->scan.at + 1;
    char *text;
    size_t length = 0;

    while (*end != quote && *end != '\0') {
        end += *end == '\\' && end[1] != '\0' ? 2 : 1;
    }
    if (*end == '\0') {
        return expected(r, quote == '"' ? "'\"'" : "\"'\"");
    }
    text = exg_arena_strndup(r->arena, r->scan.at + 1, (size_t)(end - r->scan.at - 1));
    if (text == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    for (const char *c = r->scan.at + 1; c < end; c++) {
        c += *c == '\\';
        text[length++] = *c;
    }
    text[length] = '\0';
    *value = exg_arg_string(text);
    r->scan.at = end + 1;
    return EXG_OK;
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'';
}

/* True, False, a number or a string. */
static exg_status read_one(reader *r, exg_argument *value)
{
    if (exg_scan_take(&r->scan, "True")) {
        *value = exg_arg_bool(true);
    } else if (exg_scan_take(&r->scan, "False")) {
        *value = exg_arg_bool(false);
    } else if (is_quote(*r->scan.at)) {
        return read_string(r, value);
    } else {
        return read_number(r, value);
    }
    return EXG_OK;
}

#define LIST_MAX 64

/* What was read, as the list that the type has; without a kind if they are of another. */
static bool set_list(reader *r, const exg_argument *items, exg_type_base base, exg_argument *list)
{
    uint32_t n = list->count;

    list->kind = base == EXG_TYPE_FLOAT    ? EXG_ARGUMENT_FLOATS
                 : base == EXG_TYPE_BOOL   ? EXG_ARGUMENT_BOOLS
                 : base == EXG_TYPE_STRING ? EXG_ARGUMENT_STRINGS
                                           : EXG_ARGUMENT_INTS;
    list->as_ints = EXG_NEW_ARRAY(r->arena, int64_t, n + 1); /* no item is larger */
    for (uint32_t i = 0; list->as_ints != NULL && i < n; i++) {
        exg_argument_kind kind = items[i].kind;

        if (list->kind == EXG_ARGUMENT_FLOATS && kind == EXG_ARGUMENT_FLOAT) {
            list->as_floats[i] = items[i].as_float;
        } else if (list->kind == EXG_ARGUMENT_FLOATS && kind == EXG_ARGUMENT_INT) {
            list->as_floats[i] = (double)items[i].as_int;
        } else if (list->kind == EXG_ARGUMENT_BOOLS && kind == EXG_ARGUMENT_BOOL) {
            list->as_bools[i] = items[i].as_bool;
        } else if (list->kind == EXG_ARGUMENT_STRINGS && kind == EXG_ARGUMENT_STRING) {
            list->as_strings[i] = items[i].as_string;
        } else if (list->kind == EXG_ARGUMENT_INTS && kind == EXG_ARGUMENT_INT) {
            list->as_ints[i] = items[i].as_int;
        } else {
            return false;
        }
    }
    return true;
}

/* [], [-2, -1], [1.5, 2], [True, False], ["a"] */
static exg_status read_list(reader *r, exg_type_base base, exg_argument *value)
{
    exg_argument items[LIST_MAX];
    uint32_t count = 0;

    while (!exg_scan_take(&r->scan, "]")) {
        if (count == LIST_MAX || (count > 0 && !exg_scan_take(&r->scan, ","))) {
            return expected(r, "',' or ']'");
        }
        (void)exg_scan_next(&r->scan);
        EXG_TRY(read_one(r, &items[count]));
        count++;
    }
    *value = (exg_argument){.count = count};
    if (!set_list(r, items, base, value)) {
        return expected(r, "items of the list's type");
    }
    return value->as_ints == NULL ? EXG_OUT_OF_MEMORY(r->err) : EXG_OK;
}

/* Device device="cuda:1" */
static exg_status read_device(reader *r, exg_argument *value)
{
    exg_argument text;
    char *colon;

    EXG_TRY(read_string(r, &text));
    colon = strchr(text.as_string, ':');
    *value = (exg_argument){.kind = EXG_ARGUMENT_DEVICE,
                            .as_device = {.type = text.as_string, .index = -1}};
    if (colon != NULL) {
        value->as_device.index = strtoll(colon + 1, NULL, 10);
        value->as_device.type =
            exg_arena_strndup(r->arena, text.as_string, (size_t)(colon - text.as_string));
    }
    return value->as_device.type == NULL ? EXG_OUT_OF_MEMORY(r->err) : EXG_OK;
}

/* ScalarType output_dtype=float32 */
static exg_status read_dtype(reader *r, exg_argument *value)
{
    const char *name;

    EXG_TRY(take_word(r, &name));
    *value = exg_arg_dtype(exg_dtype_from_name(name));
    return value->as_scalar_type == EXG_DTYPE_COUNT ? expected(r, "a dtype") : EXG_OK;
}

static exg_status read_default(reader *r, exg_schema_argument *arg)
{
    exg_argument *value = &arg->default_value;

    arg->has_default = true;
    if (exg_scan_take(&r->scan, "None")) {
        *value = exg_arg_none();
    } else if (exg_scan_take(&r->scan, "[")) {
        return read_list(r, arg->type.base, value);
    } else if (arg->type.base == EXG_TYPE_DEVICE && is_quote(*r->scan.at)) {
        return read_device(r, value);
    } else if (exg_scan_take(&r->scan, "strided")) {
        value->kind = EXG_ARGUMENT_LAYOUT;
        value->as_layout = EXG_LAYOUT_STRIDED;
    } else if (exg_scan_take(&r->scan, "contiguous_format")) {
        value->kind = EXG_ARGUMENT_MEMORY_FORMAT;
        value->as_memory_format = EXG_MEMORY_FORMAT_CONTIGUOUS;
    } else if (exg_scan_take(&r->scan, "Mean") || exg_scan_take(&r->scan, "mean")) {
        *value = exg_arg_int(1);
    } else if (arg->type.base == EXG_TYPE_SCALAR_TYPE && exg_is_word(*r->scan.at) &&
               *r->scan.at > '9') {
        return read_dtype(r, value);
    } else {
        EXG_TRY(read_one(r, value));
        if (arg->type.base == EXG_TYPE_FLOAT && value->kind == EXG_ARGUMENT_INT) {
            *value = exg_arg_float((double)value->as_int);
        }
        if (arg->type.base == EXG_TYPE_SCALAR_TYPE &&
            value->kind == EXG_ARGUMENT_INT) { /* ScalarType? dtype=4: c10's long */
            *value = exg_arg_dtype(EXG_DTYPE_I64);
        }
    }
    return EXG_OK;
}

static exg_status read_arguments(reader *r, exg_function_schema *schema)
{
    bool keyword_only = false;
    uint32_t count = 0;
    uint32_t capacity = 0;

    while (!exg_scan_take(&r->scan, ")")) {
        exg_schema_argument *arg;

        if (count > 0 || keyword_only) {
            if (!exg_scan_take(&r->scan, ",")) {
                return expected(r, "',' or ')'");
            }
        }
        if (!keyword_only && exg_scan_take(&r->scan, "*")) {
            keyword_only = true;
            continue;
        }
        if (!exg_arena_reserve(r->arena, &schema->arguments, count, &capacity,
                               sizeof(exg_schema_argument))) {
            return EXG_OUT_OF_MEMORY(r->err);
        }
        arg = &schema->arguments[count];
        EXG_TRY(read_type(r, arg));
        EXG_TRY(take_word(r, &arg->name));
        arg->keyword_only = keyword_only;
        arg->is_out = keyword_only && arg->is_write;
        if (exg_scan_take(&r->scan, "=")) {
            EXG_TRY(read_default(r, arg));
        }
        schema->is_mutable = schema->is_mutable || arg->is_write;
        schema->is_out_variant = schema->is_out_variant || arg->is_out;
        count++;
    }
    schema->argument_count = count;
    return EXG_OK;
}

static exg_status read_return(reader *r, exg_function_schema *schema, uint32_t *capacity)
{
    exg_schema_argument *ret;

    if (!exg_arena_reserve(r->arena, &schema->returns, schema->return_count, capacity,
                           sizeof(exg_schema_argument))) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    ret = &schema->returns[schema->return_count];
    EXG_TRY(read_type(r, ret));
    ret->name = "";
    if (exg_is_word(exg_scan_next(&r->scan))) {
        EXG_TRY(take_word(r, &ret->name));
    }
    schema->return_count++;
    return EXG_OK;
}

static exg_status read_returns(reader *r, exg_function_schema *schema)
{
    uint32_t capacity = 0;

    if (!exg_scan_take(&r->scan, "->")) {
        return expected(r, "'->'");
    }
    if (!exg_scan_take(&r->scan, "(")) {
        return read_return(r, schema, &capacity);
    }
    while (!exg_scan_take(&r->scan, ")")) {
        if (schema->return_count > 0 && !exg_scan_take(&r->scan, ",")) {
            return expected(r, "',' or ')'");
        }
        EXG_TRY(read_return(r, schema, &capacity));
    }
    return EXG_OK;
}

exg_status exg_function_schema_parse(exg_arena *arena, const char *text,
                                     exg_function_schema *schema, exg_error *err)
{
    EXG_REQUIRE(err, arena, text, schema);
    reader r = {arena, text, {text, EXG_SCAN_BLANKS}, err};
    size_t length;

    memset(schema, 0, sizeof(*schema));
    schema->text = exg_arena_strdup(arena, text);
    if (schema->text == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(take_word(&r, &schema->name_space));
    if (!exg_scan_take(&r.scan, "::")) {
        return expected(&r, "'::'");
    }
    EXG_TRY(take_word(&r, &schema->name));
    schema->overload = "";
    if (exg_scan_take(&r.scan, ".")) {
        EXG_TRY(take_word(&r, &schema->overload));
    }
    if (!exg_scan_take(&r.scan, "(")) {
        return expected(&r, "'('");
    }
    EXG_TRY(read_arguments(&r, schema));
    EXG_TRY(read_returns(&r, schema));
    if (exg_scan_next(&r.scan) != '\0') {
        return expected(&r, "the end");
    }
    length = strlen(schema->name);
    schema->is_inplace = schema->name[length - 1] == '_' && schema->argument_count > 0 &&
                         schema->arguments[0].is_write;
    return EXG_OK;
}
