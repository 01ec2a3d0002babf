/* fuzz_expression.c - any text as an expression: read, looked at, evaluated, renamed, printed. */
#include "libexport/base/arena.h"
#include "libexport/program/expression.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

typedef struct visitor {
    const char *text, *end;
    exg_symbols *symbols;
    exg_arena *arena;
    uint32_t count;
} visitor;

static void on_symbol(void *user, const char *name, size_t length)
{
    visitor *v = user;

    if (length == 0 || name < v->text || name + length > v->end) {
        abort(); /* a symbol is a part of the text */
    }
    v->count++;
    if (exg_symbols_find(v->symbols, name, length) == NULL &&
        exg_symbols_add(v->symbols, v->arena, name, length, 3 + v->count, NULL) != EXG_OK) {
        abort();
    }
}

static void put_same(void *user, const exg_term *symbol, exg_text *out)
{
    (void)user;
    exg_text_add(out, symbol->text, symbol->length);
}

static void look_at(const exg_expression *e, visitor *v, exg_status status)
{
    exg_text same = EXG_TEXT_EMPTY;
    exg_text printed = EXG_TEXT_EMPTY;
    exg_number number;
    exg_error err;

    exg_expression_visit(e, on_symbol, v);
    exg_expression_rename(e, &same, put_same, NULL);
    if (strcmp(exg_text_string(&same), e->text) != 0) {
        abort(); /* other names alone change a text */
    }
    exg_expression_print(e, &printed, NULL, NULL);
    if (status == EXG_OK) {
        exg_error_clear(&err);
        if (exg_expression_evaluate(e, v->symbols, &number, &err) != EXG_OK &&
            (err.code[0] == '\0' || strcmp(err.code, "SYM-002") == 0)) {
            abort(); /* all symbols have a number */
        }
        exg_ignore(exg_expression_check(e, NULL));
        if (exg_expression_symbol(e) != NULL && v->count != 1) {
            abort();
        }
    } else if (e->root != NULL) {
        abort();
    }
    exg_text_free(&same);
    exg_text_free(&printed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    char *text = malloc(size + 1);
    exg_symbols symbols = {0};
    exg_expression expression;
    exg_error err;
    exg_status status;

    if (arena == NULL || text == NULL) {
        abort();
    }
    memcpy(text, data, size);
    text[size] = '\0';
    exg_error_clear(&err);
    status = exg_expression_parse(arena, text, &expression, &err);
    if (status != EXG_OK && err.code[0] == '\0') {
        abort();
    }
    look_at(&expression, &(visitor){text, text + strlen(text), &symbols, arena, 0}, status);
    exg_arena_destroy(arena);
    free(text);
    return 0;
}
