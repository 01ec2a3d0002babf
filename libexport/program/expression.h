/* expression.h - the expression of a symbolic size, read once.
 *
 * sympy's srepr ("Add(Symbol('s77', integer=True), Integer(1))") and Python's infix, which
 * guards are written in ("s77 + 1"), are read into the same terms. Those are evaluated
 * (evaluator.c), printed (print_expression.c) and given other symbols.
 *
 * Terms are in the arena and lead into the text, which must stay. Nothing is run as code.
 * Form: docs/pt2.md 1.2.
 */
#ifndef EXG_LIBEXPORT_PROGRAM_EXPRESSION_H
#define EXG_LIBEXPORT_PROGRAM_EXPRESSION_H

#include "libexport/base/map.h"

#include <exg/symint.h>
#include <exg/text.h>
#include <string.h>

typedef struct exg_number {
    bool is_float;
    union {
        int64_t i; /* a truth value is 0 or 1 */
        double f;
    };
} exg_number;

/* ---- functions (function.c, function.def)
 * -------------------------------------------------------- */

/* What a function or a sign gives. */
typedef enum exg_function_kind {
    EXG_FN_ADD,
    EXG_FN_SUB,
    EXG_FN_MUL,
    EXG_FN_POW,
    EXG_FN_MIN,
    EXG_FN_MAX,
    EXG_FN_MOD,
    EXG_FN_FLOORDIV,
    EXG_FN_MODULAR,
    EXG_FN_TRUEDIV,
    EXG_FN_RATIONAL, /* only printed */
    EXG_FN_TOFLOAT,
    EXG_FN_TRUNC,
    EXG_FN_ROUND,
    EXG_FN_ROUND_TO,
    EXG_FN_ABS,
    EXG_FN_REAL,
    EXG_FN_EQ,
    EXG_FN_NE,
    EXG_FN_LE,
    EXG_FN_GE,
    EXG_FN_LT,
    EXG_FN_GT,
    EXG_FN_AND,
    EXG_FN_OR,
    EXG_FN_NOT,
    EXG_FN_BITAND,
    EXG_FN_BITOR,
    EXG_FN_BITXOR,
    EXG_FN_LSHIFT,
    EXG_FN_RSHIFT,
    EXG_FN_WHERE,
    EXG_FN_CEILDIV,
    EXG_FN_FLOOR,
    EXG_FN_CEIL,
    EXG_FN_IDENTITY,
    EXG_FN_PAIR,
    EXG_FN_PIECEWISE
} exg_function_kind;

/* How str() of sympy writes a call. */
typedef enum exg_form {
    EXG_FORM_NAMED,    /* text(a, b) */
    EXG_FORM_LITERAL,  /* -3 */
    EXG_FORM_RATIO,    /* -1/2 */
    EXG_FORM_SUM,      /* a + b */
    EXG_FORM_PRODUCT,  /* a*b/c */
    EXG_FORM_POWER,    /* a**b */
    EXG_FORM_QUOTIENT, /* (a//b) */
    EXG_FORM_INFIX     /* a text b */
} exg_form;

/* How tightly what is written binds: sympy.printing.precedence. */
typedef enum exg_binding_strength {
    EXG_BINDS_LEAST = 10,
    EXG_BINDS_OR = 20,
    EXG_BINDS_AND = 30,
    EXG_BINDS_RELATION = 35,
    EXG_BINDS_ADD = 40,
    EXG_BINDS_MUL = 50,
    EXG_BINDS_POW = 60,
    EXG_BINDS_ATOM = 1000
} exg_binding_strength;

#define EXG_ARGUMENTS_MANY UINT32_MAX

typedef struct exg_function {
    const char *name;
    exg_function_kind kind;
    uint32_t least, most; /* arguments */
    exg_form form;
    const char *text; /* of the form */
    exg_binding_strength binds;
    double (*real)(double arg); /* EXG_FN_REAL */
} exg_function;

const exg_function *exg_function_find(const char *name, size_t length); /* NULL: not known */

/* What a name stands for ("True", "math.inf"); false: it is a symbol's. */
bool exg_constant_find(const char *name, size_t length, exg_number *out);

/* ---- terms ------------------------------------------------------------------------------ */

typedef enum exg_term_kind {
    EXG_TERM_NUMBER,   /* 3, 1.5 */
    EXG_TERM_REAL,     /* Float('1.5', precision=53) */
    EXG_TERM_CONSTANT, /* true, math.pi */
    EXG_TERM_SYMBOL,   /* s77, Symbol('s77', integer=True) */
    EXG_TERM_CALL,     /* name(a, b) */
    EXG_TERM_NEGATIVE, /* -a */
    EXG_TERM_NOT,      /* not a */
    EXG_TERM_CHAIN,    /* a + b - c: signs of one precedence, from left to right */
    EXG_TERM_CHOICE    /* a if b else c */
} exg_term_kind;

typedef struct exg_term {
    uint8_t kind;   /* exg_term_kind */
    uint8_t sign;   /* exg_function_kind; within a CHAIN: what joins it to what is left of it */
    bool overflows; /* NUMBER: it leaves 64 bits */
    uint32_t length;
    const char *text; /* of a NUMBER its digits, of a SYMBOL, CALL or CONSTANT its name */
    uint32_t count;   /* of operands */
    const struct exg_term *first; /* operand; of a SYMBOL: the next symbol in the text */
    const struct exg_term *next;  /* operand of the same term */
    union {
        exg_number number;            /* NUMBER, REAL, CONSTANT */
        const exg_function *function; /* CALL; NULL: none that we know */
    };
} exg_term;

typedef struct exg_expression {
    const char *text;
    const exg_term *root;
    const exg_term *symbols; /* the first; each time that one stands in the text */
    bool is_srepr;           /* calls within calls, without signs and bare names */
} exg_expression;

typedef void exg_put_symbol(void *user, const exg_term *symbol, exg_text *out);

/* Fills `expression`. MALFORMED SYM-001, LIMIT SYM-010 (nests too deep); then `symbols` are those
 * that were met before. NO_MEMORY. */
exg_status exg_expression_parse(exg_arena *arena, const char *text, exg_expression *expression,
                                exg_error *err);

/* Is it right for some numbers of its symbols, as far as can be told without them? As
 * exg_expression_evaluate(). */
exg_status exg_expression_check(const exg_expression *expression, exg_error *err);

void exg_expression_visit(const exg_expression *expression,
                          void (*visit)(void *user, const char *name, size_t length), void *user);

/* The term of the symbol that the expression is, by itself, or NULL. */
const exg_term *exg_expression_symbol(const exg_expression *expression);

/* print_expression.c: as str() of sympy shows it; the text itself where it is no srepr. `put`
 * writes each symbol; NULL: by its name. */
void exg_expression_print(const exg_expression *expression, exg_text *out, exg_put_symbol *put,
                          void *user);

/* The text with what `put` writes in the place of each symbol's name. */
void exg_expression_rename(const exg_expression *expression, exg_text *out, exg_put_symbol *put,
                           void *user);

/* evaluator.c: with numbers for the symbols, or, `symbols` NULL, only looked at. MALFORMED SYM-001,
 * SYM-002, SYM-011, LIMIT SYM-010. */
exg_status exg_expression_evaluate(const exg_expression *expression, const exg_symbols *symbols,
                                   exg_number *out, exg_error *err);
exg_status exg_expression_evaluate_int(const exg_expression *expression, const exg_symbols *symbols,
                                       int64_t *out, exg_error *err);

/* ---- many expressions ----------------------------------------------------------------------- */

/* Expressions by their text, each read once. Texts must stay. */
typedef struct exg_expressions {
    exg_arena *arena;
    exg_map by_text;
    exg_expression **items;
    uint32_t count;
    uint32_t capacity;
} exg_expressions;

void exg_expressions_init(exg_expressions *expressions, exg_arena *arena);

/* The expression of `text`. As exg_expression_parse(). */
exg_status exg_expressions_find(exg_expressions *expressions, const char *text,
                                const exg_expression **found, exg_error *err);

static inline double exg_number_real(exg_number n)
{
    return n.is_float ? n.f : (double)n.i;
}

/* The expression of a value that is a number, or NULL: it has none. */
static inline const char *exg_value_expression(const exg_value *value)
{
    return value->sym_int != NULL     ? value->sym_int->expr
           : value->sym_bool != NULL  ? value->sym_bool->expr
           : value->sym_float != NULL ? value->sym_float->expr
                                      : NULL;
}

/* How PyTorch names a number with a point that is read from data. */
#define EXG_REAL_SYMBOL "zuf"

static inline bool exg_symbol_is_real(const char *name)
{
    return strncmp(name, EXG_REAL_SYMBOL, sizeof(EXG_REAL_SYMBOL) - 1) == 0;
}

#endif
