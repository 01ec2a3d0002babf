/* evaluator.h - numbers and functions of symbolic expressions. symint.c reads the text; what
 * its operations and functions give is here.
 */
#ifndef EXG_LIBEXPORT_PROGRAM_EVALUATOR_H
#define EXG_LIBEXPORT_PROGRAM_EVALUATOR_H

#include <exg/symint.h>

#define EXG_ARGUMENTS_MANY      UINT32_MAX /* folded as they are read, so none is kept */
#define EXG_ARGUMENTS_FIXED_MAX 3          /* of a function that takes just so many */

typedef struct exg_number {
    bool is_float;
    int64_t i; /* a truth value is 0 or 1 */
    double f;
} exg_number;

typedef struct exg_evaluator {
    const char *text;
    const char *at;
    const exg_symbols *symbols; /* NULL: only read, no number counts */
    void (*visit)(void *user, const char *name, size_t length);
    void *user;
    uint32_t depth;
    bool condition; /* of the ExprCondPair read last */
    exg_error *err;
} exg_evaluator;

typedef enum exg_function_kind {
    EXG_FN_ADD,
    EXG_FN_MUL,
    EXG_FN_POW,
    EXG_FN_MIN,
    EXG_FN_MAX,
    EXG_FN_MOD,
    EXG_FN_FLOORDIV,
    EXG_FN_MODULAR,
    EXG_FN_TRUEDIV,
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

/* A function by the name that sympy or Python writes. */
typedef struct exg_function {
    const char *name;
    exg_function_kind kind;
    uint32_t least, most;       /* arguments */
    double (*real)(double arg); /* EXG_FN_REAL */
} exg_function;

const exg_function *exg_function_find(const char *name, size_t length); /* NULL: not known */

/* What a name stands for ("True", "math.inf"); false: it is a symbol's. */
bool exg_constant_find(const char *name, size_t length, exg_number *out);

static inline exg_number exg_number_int(int64_t value)
{
    return (exg_number){false, value, 0};
}

static inline exg_number exg_number_float(double value)
{
    return (exg_number){true, 0, value};
}

static inline double exg_number_real(exg_number n)
{
    return n.is_float ? n.f : (double)n.i;
}

static inline bool exg_number_true(exg_number n)
{
    return n.is_float ? n.f != 0 : n.i != 0;
}

/* MALFORMED SYM-001, SYM-011 (a division by zero, a negative shift), LIMIT SYM-010. */
exg_status exg_arithmetic(exg_evaluator *e, char operation, exg_number a, exg_number b,
                          exg_number *out);

/* Takes one more argument of Add, Mul, Min, Max, And or Or into what the earlier ones gave. */
exg_status exg_function_fold(exg_evaluator *e, exg_function_kind kind, exg_number arg,
                             exg_number *out);

/* As many `args` as `function` was read with. */
exg_status exg_function_apply(exg_evaluator *e, const exg_function *function,
                              const exg_number *args, uint32_t count, exg_number *out);

/* One with two arguments that is written between them. */
exg_status exg_operation(exg_evaluator *e, exg_function_kind kind, exg_number a, exg_number b,
                         exg_number *out);

#endif
