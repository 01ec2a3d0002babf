/* symint.h - expressions over symbols, evaluated; never run as code.
 *
 * The text of a SymInt is sympy's srepr ("Add(Mul(Integer(2), Symbol('s77', ...)),
 * Integer(1))") or infix ("2*s77 + 1"). Both are read by one closed grammar with a
 * depth limit; any other name is an error. Form: docs/pt2.md 1.2.
 */
#ifndef EXG_SYMINT_H
#define EXG_SYMINT_H

#include <exg/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers for symbols. Names are borrowed. */
typedef struct exg_symbol {
    const char *name; /* "s77" */
    int64_t value;
} exg_symbol;

typedef struct exg_symbols {
    exg_symbol *items;
    uint32_t count;
    uint32_t capacity;
    struct exg_map *by_name; /* exg_symbols_add() keeps it once there are many; may be NULL */
} exg_symbols;

const exg_symbol *exg_symbols_find(const exg_symbols *symbols, const char *name, size_t length);

/* Gives one more symbol a number; the name is copied into `arena`, which holds the
 * items too. NO_MEMORY. */
EXG_NODISCARD exg_status exg_symbols_add(exg_symbols *symbols, exg_arena *arena, const char *name,
                                         size_t length, int64_t value, exg_error *err);

/* The value of `expr`, without symbols where `symbols` is NULL; a truth value is 0 or 1. MALFORMED
 * SYM-001 (text), SYM-002 (a symbol without a number), LIMIT SYM-010 (leaves 64 bits, or too deep),
 * NO_MEMORY. */
EXG_NODISCARD exg_status exg_symint_evaluate(const char *expr, const exg_symbols *symbols,
                                             int64_t *value, exg_error *err);
EXG_NODISCARD exg_status exg_symfloat_evaluate(const char *expr, const exg_symbols *symbols,
                                               double *value, exg_error *err);

/* Calls `visit` for every symbol of `expr`; the name is not terminated. Checks the
 * text on the way, so it also serves as the syntax check. */
EXG_NODISCARD exg_status exg_symint_visit(const char *expr,
                                          void (*visit)(void *user, const char *name,
                                                        size_t length),
                                          void *user, exg_error *err);

/* Is `expr` one symbol by itself? Then its name, in place and not terminated. */
bool exg_symint_lone_symbol(const char *expr, const char **name, size_t *length);

#ifdef __cplusplus
}
#endif

#endif
