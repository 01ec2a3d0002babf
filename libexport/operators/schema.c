/* schema.c - reads function schemas, the one-line declarations of PyTorch's
 * operators ("aten::sum.dim_IntList(Tensor self, int[1]? dim, ...) -> Tensor").
 * Grammar: torch/_C schema text; only what operators of ATen use.
 */
#include "libexport/base/arena.h"
#include "libexport/base/given.h"
#include "libexport/base/text.h"

#include <exg/operators.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    exg_arena *arena;
    const char *text;
    const char *at;
    exg_error *err;
} reader;

static exg_status expected(reader *r, const char *what)
{
    return EXG_FAIL(r->err, MALFORMED, "SCH-001", "schema '%s': expected %s at position %zu",
                    r->text, what, (size_t)(r->at - r->text));
}

static void skip_spaces(reader *r)
{
    while (*r->at == ' ') {
        r->at++;
    }
}

static bool take(reader *r, const char *token)
{
    size_t length = strlen(token);

    skip_spaces(r);
    if (strncmp(r->at, token, length) != 0) {
        return false;
    }
    r->at += length;
    return true;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static exg_status take_word(reader *r, const char **word)
{
    const char *start;

    skip_spaces(r);
    start = r->at;
    while (is_word(*r->at)) {
        r->at++;
    }
    if (r->at == start) {
        return expected(r, "a name");
    }
    *word = exg_arena_strndup(r->arena, start, (size_t)(r->at - start));
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

/* Tensor(a!), Tensor(a -> *), Tensor(a|b): the alias set of a tensor, by its first letter. */
static exg_status read_alias(reader *r, exg_schema_argument *arg)
{
    if (*r->at != '(') {
        return EXG_OK;
    }
    r->at++;
    arg->alias = *r->at;
    if (arg->alias < 'a' || arg->alias > 'z') {
        return expected(r, "an alias letter");
    }
    r->at++;
    while (*r->at == '|' && r->at[1] >= 'a' && r->at[1] <= 'z') {
        r->at += 2;
    }
    if (*r->at == '!') {
        arg->is_write = true;
        r->at++;
    }
    if (take(r, "-> *") || take(r, "->*")) {
        skip_spaces(r);
    }
    return take(r, ")") ? EXG_OK : expected(r, "')'");
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
    while (strcmp(word, "__torch__") == 0 && (is_word(*r->at) || *r->at == '.')) {
        r->at++;
    }
    EXG_TRY(read_alias(r, arg));
    if (*r->at == '?' && r->at[1] == '[') {
        arg->type.is_element_optional = true;
        r->at++;
    }
    if (*r->at == '[') {
        r->at++;
        arg->type.is_list = true;
        arg->type.list_length = (uint32_t)strtoul(r->at, (char **)&r->at, 10);
        if (!take(r, "]")) {
            return expected(r, "']'");
        }
        if (*r->at == '(') { /* Tensor(a)[] is usual, Tensor[](a) is not */
            EXG_TRY(read_alias(r, arg));
        }
    }
    if (*r->at == '?') {
        arg->type.is_optional = true;
        r->at++;
    }
    return EXG_OK;
}

static exg_status read_number(reader *r, exg_argument *value)
{
    char *end;
    const char *start = r->at;
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
    r->at = end;
    return EXG_OK;
}

/* [], [0], [-2, -1], [0, 1]: lists of ints are all that occurs. */
static exg_status read_list(reader *r, exg_argument *value)
{
    int64_t items[8];
    uint32_t count = 0;

    while (!take(r, "]")) {
        if (count == 8 || (count > 0 && !take(r, ","))) {
            return expected(r, "',' or ']'");
        }
        skip_spaces(r);
        items[count++] = strtoll(r->at, (char **)&r->at, 10);
    }
    value->kind = EXG_ARGUMENT_INTS;
    value->count = count;
    value->as_ints = exg_arena_memdup(r->arena, items, count, sizeof(items[0]));
    return value->as_ints == NULL ? EXG_OUT_OF_MEMORY(r->err) : EXG_OK;
}

/* In quotes; a backslash keeps the character after it. */
static exg_status read_string(reader *r, exg_argument *value)
{
    const char *end = r->at + 1;
    char *text;
    size_t length = 0;

    while (*end != '"' && *end != '\0') {
        end += *end == '\\' && end[1] != '\0' ? 2 : 1;
    }
    if (*end == '\0') {
        return expected(r, "'\"'");
    }
    text = exg_arena_strndup(r->arena, r->at + 1, (size_t)(end - r->at - 1));
    if (text == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    for (const char *c = r->at + 1; c < end; c++) {
        c += *c == '\\';
        text[length++] = *c;
    }
    text[length] = '\0';
    *value = exg_arg_string(text);
    r->at = end + 1;
    return EXG_OK;
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
    if (take(r, "None")) {
        *value = exg_arg_none();
    } else if (take(r, "True")) {
        *value = exg_arg_bool(true);
    } else if (take(r, "False")) {
        *value = exg_arg_bool(false);
    } else if (take(r, "[")) {
        return read_list(r, value);
    } else if (*r->at == '"') {
        return read_string(r, value);
    } else if (take(r, "contiguous_format")) {
        value->kind = EXG_ARGUMENT_MEMORY_FORMAT;
        value->as_memory_format = EXG_MEMORY_FORMAT_CONTIGUOUS;
    } else if (take(r, "Mean") || take(r, "mean")) {
        *value = exg_arg_int(1);
    } else if (arg->type.base == EXG_TYPE_SCALAR_TYPE && is_word(*r->at) && *r->at > '9') {
        return read_dtype(r, value);
    } else {
        EXG_TRY(read_number(r, value));
        if (arg->type.base == EXG_TYPE_FLOAT && value->kind == EXG_ARGUMENT_INT) {
            *value = exg_arg_float((double)value->as_int);
        }
        if (arg->type.base == EXG_TYPE_SCALAR_TYPE) { /* ScalarType? dtype=4: c10's long */
            *value = exg_arg_dtype(EXG_DTYPE_I64);
        }
    }
    return EXG_OK;
}

static exg_status grow(reader *r, exg_schema_argument **items, uint32_t count)
{
    exg_schema_argument *more;

    if (count % 8 != 0) {
        return EXG_OK;
    }
    more = EXG_NEW_ARRAY(r->arena, exg_schema_argument, count + 8);
    if (more == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    if (count > 0) {
        memcpy(more, *items, count * sizeof(*more));
    }
    *items = more;
    return EXG_OK;
}

static exg_status read_arguments(reader *r, exg_function_schema *schema)
{
    bool keyword_only = false;
    uint32_t count = 0;

    while (!take(r, ")")) {
        exg_schema_argument *arg;

        if (count > 0 || keyword_only) {
            if (!take(r, ",")) {
                return expected(r, "',' or ')'");
            }
        }
        if (!keyword_only && take(r, "*")) {
            keyword_only = true;
            continue;
        }
        EXG_TRY(grow(r, &schema->arguments, count));
        arg = &schema->arguments[count];
        EXG_TRY(read_type(r, arg));
        EXG_TRY(take_word(r, &arg->name));
        arg->keyword_only = keyword_only;
        arg->is_out = keyword_only && arg->is_write;
        if (take(r, "=")) {
            EXG_TRY(read_default(r, arg));
        }
        schema->is_mutable = schema->is_mutable || arg->is_write;
        schema->is_out_variant = schema->is_out_variant || arg->is_out;
        count++;
    }
    schema->argument_count = count;
    return EXG_OK;
}

static exg_status read_return(reader *r, exg_function_schema *schema)
{
    exg_schema_argument *ret;

    EXG_TRY(grow(r, &schema->returns, schema->return_count));
    ret = &schema->returns[schema->return_count];
    EXG_TRY(read_type(r, ret));
    skip_spaces(r);
    ret->name = "";
    if (is_word(*r->at)) {
        EXG_TRY(take_word(r, &ret->name));
    }
    schema->return_count++;
    return EXG_OK;
}

static exg_status read_returns(reader *r, exg_function_schema *schema)
{
    if (!take(r, "->")) {
        return expected(r, "'->'");
    }
    if (!take(r, "(")) {
        return read_return(r, schema);
    }
    while (!take(r, ")")) {
        if (schema->return_count > 0 && !take(r, ",")) {
            return expected(r, "',' or ')'");
        }
        EXG_TRY(read_return(r, schema));
    }
    return EXG_OK;
}

exg_status exg_function_schema_parse(exg_arena *arena, const char *text,
                                     exg_function_schema *schema, exg_error *err)
{
    EXG_GIVEN(err, arena, text, schema);
    reader r = {arena, text, text, err};
    size_t length;

    memset(schema, 0, sizeof(*schema));
    schema->text = exg_arena_strdup(arena, text);
    if (schema->text == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(take_word(&r, &schema->name_space));
    if (!take(&r, "::")) {
        return expected(&r, "'::'");
    }
    EXG_TRY(take_word(&r, &schema->name));
    schema->overload = "";
    if (take(&r, ".")) {
        EXG_TRY(take_word(&r, &schema->overload));
    }
    if (!take(&r, "(")) {
        return expected(&r, "'('");
    }
    EXG_TRY(read_arguments(&r, schema));
    EXG_TRY(read_returns(&r, schema));
    skip_spaces(&r);
    if (*r.at != '\0') {
        return expected(&r, "the end");
    }
    length = strlen(schema->name);
    schema->is_inplace = schema->name[length - 1] == '_' && schema->argument_count > 0 &&
                         schema->arguments[0].is_write;
    return EXG_OK;
}
