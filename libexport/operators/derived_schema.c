/* derived_schema.c - schemas made from that of another row, as texts: what is not changed stays as
 * it is written. */
#include "libexport/operators/derived_schema.h"

#include "libexport/base/require.h"

#include <string.h>

/* The parenthesis that closes the one at `open`. */
static const char *closing(const char *open)
{
    const char *at = open;
    int depth = 1;

    while (depth > 0) {
        at++;
        depth += (*at == '(') - (*at == ')');
    }
    return at;
}

/* From `from` to `end`, without the alias set behind any Tensor. */
static void put_plain(exg_text *text, const char *from, const char *end)
{
    const char *alias = strstr(from, "Tensor(");

    while (alias != NULL && alias < end) {
        alias += strlen("Tensor");
        exg_text_add(text, from, (size_t)(alias - from));
        from = closing(alias) + 1;
        alias = strstr(from, "Tensor(");
    }
    exg_text_add(text, from, (size_t)(end - from));
}

/* The i-th tensor that is written. */
static void put_written(exg_text *text, uint32_t i)
{
    exg_text_puts(text, "Tensor(");
    exg_text_putc(text, (char)('a' + i));
    exg_text_puts(text, "!)");
}

/* "aten::add.out(": named `name` and what follows it in `id`. */
static exg_status put_name(exg_text *text, const char *id, const exg_function_schema *of,
                           const char *suffix, exg_error *err)
{
    size_t length = strlen(of->name);
    size_t more = strlen(suffix);
    const char *overload = id + length + more + 1;

    if (strncmp(id, of->name, length) != 0 || strncmp(id + length, suffix, more) != 0 ||
        overload[-1] != '_') {
        return EXG_FAIL(err, MALFORMED, "SCH-001", "the row '%s' is not named after '%s%s'", id,
                        of->name, suffix);
    }
    exg_text_puts(text, of->name_space);
    exg_text_puts(text, "::");
    exg_text_puts(text, of->name);
    exg_text_puts(text, suffix);
    if (strcmp(overload, "default") != 0) {
        exg_text_putc(text, '.');
        exg_text_puts(text, overload);
    }
    exg_text_putc(text, '(');
    return EXG_OK;
}

exg_status exg_schema_inplace(exg_text *text, const char *id, const exg_function_schema *of,
                              exg_error *err)
{
    const char *open = strchr(of->text, '(');
    const char *first = open + sizeof("Tensor");

    EXG_TRY(put_name(text, id, of, "_", err));
    put_written(text, 0);
    put_plain(text, *first == '(' ? closing(first) + 1 : first, closing(open));
    exg_text_puts(text, ") -> ");
    if (of->arguments[0].type.is_list) {
        exg_text_puts(text, "()");
    } else {
        put_written(text, 0);
    }
    return EXG_OK;
}

exg_status exg_schema_out(exg_text *text, const char *id, const exg_function_schema *of,
                          exg_error *err)
{
    const char *open = strchr(of->text, '(');
    bool several = of->return_count > 1;
    bool list = of->return_count == 1 && of->returns[0].type.is_list;

    EXG_TRY(put_name(text, id, of, "", err));
    put_plain(text, open + 1, closing(open));
    if (of->argument_count == 0 || !of->arguments[of->argument_count - 1].keyword_only) {
        exg_text_puts(text, ", *");
    }
    for (uint32_t i = 0; i < of->return_count; i++) {
        exg_text_puts(text, ", ");
        put_written(text, i);
        exg_text_puts(text, list ? "[] " : " ");
        if (of->returns[i].name[0] != '\0') {
            exg_text_puts(text, of->returns[i].name);
        } else if (several) {
            exg_text_puts(text, "out");
            exg_text_putc(text, (char)('0' + i));
        } else {
            exg_text_puts(text, "out");
        }
    }
    if (list) {
        exg_text_puts(text, ") -> ()");
        return EXG_OK;
    }
    exg_text_puts(text, several ? ") -> (" : ") -> ");
    for (uint32_t i = 0; i < of->return_count; i++) {
        exg_text_puts(text, i > 0 ? ", " : "");
        put_written(text, i);
        exg_text_puts(text, of->returns[i].name[0] == '\0' ? "" : " ");
        exg_text_puts(text, of->returns[i].name);
    }
    exg_text_puts(text, several ? ")" : "");
    return EXG_OK;
}

exg_status exg_schema_copy(exg_text *text, const char *id, const exg_function_schema *of,
                           exg_error *err)
{
    const char *open = strchr(of->text, '(');

    EXG_TRY(put_name(text, id, of, "_copy", err));
    put_plain(text, open + 1, of->text + strlen(of->text));
    return EXG_OK;
}
