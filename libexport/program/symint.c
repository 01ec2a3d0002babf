/* symint.c - expressions by their text: read for one call alone. */
#include "libexport/base/arena.h"
#include "libexport/base/require.h"
#include "libexport/program/expression.h"

exg_status exg_symint_evaluate(const char *expr, const exg_symbols *symbols, int64_t *value,
                               exg_error *err)
{
    EXG_REQUIRE(err, expr, value);
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
    EXG_REQUIRE(err, expr, value);
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
    EXG_REQUIRE(err, expr);
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
