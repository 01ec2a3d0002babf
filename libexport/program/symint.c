/* symint.c - numbers for symbols, and expressions over them by their text. */
#include "libexport/base/arena.h"
#include "libexport/base/given.h"
#include "libexport/base/map.h"
#include "libexport/program/expression.h"

#include <string.h>

#define SYMBOLS_MANY     17 /* from here on found by a map */
#define SYMBOL_BYTES_MAX 64

const exg_symbol *exg_symbols_find(const exg_symbols *symbols, const char *name, size_t length)
{
    char key[SYMBOL_BYTES_MAX];

    if (symbols == NULL) {
        return NULL;
    }
    if (symbols->by_name != NULL && length < sizeof(key)) {
        uint32_t index;

        memcpy(key, name, length);
        key[length] = '\0';
        index = exg_map_find(symbols->by_name, key);
        return index == EXG_MAP_NONE ? NULL : &symbols->items[index];
    }
    for (uint32_t i = 0; i < symbols->count; i++) {
        if (strncmp(symbols->items[i].name, name, length) == 0 &&
            symbols->items[i].name[length] == '\0') {
            return &symbols->items[i];
        }
    }
    return NULL;
}

static bool index_symbols(exg_symbols *symbols, exg_arena *arena)
{
    uint32_t from = symbols->count - 1;

    if (symbols->by_name == NULL) {
        if (symbols->count < SYMBOLS_MANY) {
            return true;
        }
        symbols->by_name = EXG_NEW(arena, exg_map);
        if (symbols->by_name == NULL) {
            return false;
        }
        exg_map_init(symbols->by_name, arena);
        from = 0;
    }
    for (uint32_t i = from; i < symbols->count; i++) {
        if (!exg_map_put(symbols->by_name, symbols->items[i].name, i)) {
            return false;
        }
    }
    return true;
}

exg_status exg_symbols_add(exg_symbols *symbols, exg_arena *arena, const char *name, size_t length,
                           int64_t value, exg_error *err)
{
    EXG_GIVEN(err, symbols, arena, name);
    const char *copy = exg_arena_strndup(arena, name, length);

    if (copy == NULL || !exg_arena_reserve(arena, &symbols->items, symbols->count,
                                           &symbols->capacity, sizeof(exg_symbol))) {
        return EXG_OUT_OF_MEMORY(err);
    }
    symbols->items[symbols->count++] = (exg_symbol){copy, value};
    return index_symbols(symbols, arena) ? EXG_OK : EXG_OUT_OF_MEMORY(err);
}

/* ---- by text: read for this call alone ---------------------------------------------------- */

exg_status exg_symint_evaluate(const char *expr, const exg_symbols *symbols, int64_t *value,
                               exg_error *err)
{
    EXG_GIVEN(err, expr, value);
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_expression expression;
    exg_status status = arena == NULL ? EXG_OUT_OF_MEMORY(err)
                                      : exg_expression_parse(arena, expr, &expression, err);

    if (status == EXG_OK) {
        status = exg_expression_evaluate_int(&expression, symbols, value, err);
    }
    exg_arena_destroy(arena);
    return status;
}

exg_status exg_symfloat_evaluate(const char *expr, const exg_symbols *symbols, double *value,
                                 exg_error *err)
{
    EXG_GIVEN(err, expr, value);
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_expression expression;
    exg_number number;
    exg_status status = arena == NULL ? EXG_OUT_OF_MEMORY(err)
                                      : exg_expression_parse(arena, expr, &expression, err);

    if (status == EXG_OK) {
        status = exg_expression_evaluate(&expression, symbols, &number, err);
    }
    if (status == EXG_OK) {
        *value = exg_number_real(number);
    }
    exg_arena_destroy(arena);
    return status;
}

exg_status exg_symint_visit(const char *expr,
                            void (*visit)(void *user, const char *name, size_t length), void *user,
                            exg_error *err)
{
    EXG_GIVEN(err, expr);
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_expression expression = {0};
    exg_status status = arena == NULL ? EXG_OUT_OF_MEMORY(err)
                                      : exg_expression_parse(arena, expr, &expression, err);

    if (visit != NULL) {
        exg_expression_visit(&expression, visit, user);
    }
    if (status == EXG_OK) {
        status = exg_expression_check(&expression, err);
    }
    exg_arena_destroy(arena);
    return status;
}

bool exg_symint_lone_symbol(const char *expr, const char **name, size_t *length)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_expression expression = {0};
    const exg_term *symbol =
        arena != NULL && exg_expression_parse(arena, expr, &expression, NULL) == EXG_OK
            ? exg_expression_symbol(&expression)
            : NULL;

    if (symbol != NULL) {
        *name = symbol->text;
        *length = symbol->length;
    }
    exg_arena_destroy(arena);
    return symbol != NULL;
}
