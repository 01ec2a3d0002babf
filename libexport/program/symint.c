/* symint.c - reads and evaluates the expressions of symbolic sizes in one pass.
 * Recursive descent; each function reads one rule of the grammar:
 *
 *   expr    and ("or" and)*
 *   and     not ("and" not)*
 *   not     "not" not | truth
 *   truth   sum (("==" | "!=" | "<=" | ">=" | "<" | ">") sum)?
 *   sum     product (("+" | "-") product)*
 *   product unary (("*" | "//" | "/" | "%") unary)*
 *   unary   "-" unary | power
 *   power   atom ("**" unary)?
 *   atom    number | name | name "(" arguments ")" | "(" expr ")"
 */
#include "libexport/base/given.h"
#include "libexport/base/map.h"
#include "libexport/base/text.h"

#include <exg/symint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX        64
#define MANY             UINT32_MAX /* arguments: folded as they are read, so none is kept */
#define FIXED_MAX        2          /* arguments of a function that takes just so many */
#define SYMBOLS_MANY     17 /* from here on found by a map */
#define SYMBOL_BYTES_MAX 64

typedef struct number {
    bool is_float;
    int64_t i;
    double f;
} number;

typedef struct evaluator {
    const char *text;
    const char *at;
    const exg_symbols *symbols; /* NULL: only read */
    void (*visit)(void *user, const char *name, size_t length);
    void *user;
    uint32_t depth;
    bool condition; /* of the ExprCondPair read last */
    exg_error *err;
} evaluator;

static exg_status read_expr(evaluator *e, number *out);

static number integer(int64_t value)
{
    return (number){false, value, 0};
}

static number floating(double value)
{
    return (number){true, 0, value};
}

static double as_float(number n)
{
    return n.is_float ? n.f : (double)n.i;
}

static exg_status syntax(evaluator *e, const char *expected)
{
    return EXG_FAIL(e->err, MALFORMED, "SYM-001", "expression '%.120s': expected %s at position %zu",
                    e->text, expected, (size_t)(e->at - e->text));
}

static exg_status overflow(evaluator *e)
{
    return EXG_FAIL(e->err, LIMIT, "SYM-010", "expression '%.120s' leaves 64 bits", e->text);
}

static void skip_spaces(evaluator *e)
{
    while (*e->at == ' ') {
        e->at++;
    }
}

static bool take(evaluator *e, const char *token)
{
    size_t length = strlen(token);

    skip_spaces(e);
    if (strncmp(e->at, token, length) != 0) {
        return false;
    }
    e->at += length;
    return true;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* ---- functions ---------------------------------------------------------------- */

typedef enum function {
    FN_ADD, FN_MUL, FN_POW, FN_MIN, FN_MAX, FN_MOD, FN_FLOORDIV, FN_TRUEDIV, FN_TOFLOAT, FN_TRUNC,
    FN_SQRT, FN_EQ, FN_NE, FN_LE, FN_GE, FN_LT, FN_GT, FN_AND, FN_OR, FN_NOT, FN_CEILDIV, FN_FLOOR,
    FN_CEIL, FN_IDENTITY, FN_PAIR, FN_PIECEWISE
} function;

static const struct {
    const char *name;
    function fn;
    uint32_t least, most;
} functions[] = {
    {"Add", FN_ADD, 1, MANY},      {"Mul", FN_MUL, 1, MANY},
    {"Pow", FN_POW, 2, 2},                  {"PowByNatural", FN_POW, 2, 2},
    {"FloatPow", FN_POW, 2, 2},             {"Min", FN_MIN, 1, MANY},
    {"Max", FN_MAX, 1, MANY},      {"Mod", FN_MOD, 2, 2},
    {"PythonMod", FN_MOD, 2, 2},            {"FloorDiv", FN_FLOORDIV, 2, 2},
    {"CleanDiv", FN_FLOORDIV, 2, 2},        {"IntTrueDiv", FN_TRUEDIV, 2, 2},
    {"FloatTrueDiv", FN_TRUEDIV, 2, 2},     {"ToFloat", FN_TOFLOAT, 1, 1},
    {"TruncToInt", FN_TRUNC, 1, 1},         {"OpaqueUnaryFn_sqrt", FN_SQRT, 1, 1},
    {"Equality", FN_EQ, 2, 2},              {"Unequality", FN_NE, 2, 2},
    {"LessThan", FN_LE, 2, 2},              {"GreaterThan", FN_GE, 2, 2},
    {"StrictLessThan", FN_LT, 2, 2},        {"StrictGreaterThan", FN_GT, 2, 2},
    {"Eq", FN_EQ, 2, 2},                    {"Ne", FN_NE, 2, 2},
    {"And", FN_AND, 1, MANY},      {"Or", FN_OR, 1, MANY},
    {"Not", FN_NOT, 1, 1},                  {"CeilDiv", FN_CEILDIV, 2, 2},
    {"FloorToInt", FN_FLOOR, 1, 1},         {"CeilToInt", FN_CEIL, 1, 1},
    {"floor", FN_FLOOR, 1, 1},              {"ceiling", FN_CEIL, 1, 1},
    {"min", FN_MIN, 1, MANY},      {"max", FN_MAX, 1, MANY},
    {"Identity", FN_IDENTITY, 1, 1},        {"ExprCondPair", FN_PAIR, 2, 2},
    {"Piecewise", FN_PIECEWISE, 1, MANY},
};

static exg_status arithmetic(evaluator *e, char operation, number a, number b, number *out)
{
    bool wrapped = false;

    if (a.is_float || b.is_float) {
        double x = as_float(a);
        double y = as_float(b);

        *out = floating(operation == '+' ? x + y : operation == '-' ? x - y : x * y);
        return EXG_OK;
    }
    *out = integer(0);
    switch (operation) {
    case '+':
        wrapped = __builtin_add_overflow(a.i, b.i, &out->i);
        break;
    case '-':
        wrapped = __builtin_sub_overflow(a.i, b.i, &out->i);
        break;
    default:
        wrapped = __builtin_mul_overflow(a.i, b.i, &out->i);
    }
    return wrapped ? overflow(e) : EXG_OK;
}

/* Python's // and %, towards minus infinity. */
static exg_status divide(evaluator *e, bool remainder, number a, number b, number *out)
{
    int64_t quotient;

    if (a.is_float || b.is_float) {
        double floored = floor(as_float(a) / as_float(b));

        *out = floating(remainder ? as_float(a) - floored * as_float(b) : floored);
        return EXG_OK;
    }
    if (e->symbols == NULL) { /* only read: symbols have no numbers */
        *out = integer(1);
        return EXG_OK;
    }
    if (b.i == 0 || (a.i == INT64_MIN && b.i == -1)) {
        return EXG_FAIL(e->err, MALFORMED, "SYM-011", "expression '%.120s' divides by zero", e->text);
    }
    quotient = a.i / b.i - (a.i % b.i != 0 && (a.i < 0) != (b.i < 0));
    *out = integer(remainder ? a.i - quotient * b.i : quotient);
    return EXG_OK;
}

static exg_status power(evaluator *e, number a, number b, number *out)
{
    if (a.is_float || b.is_float || b.i < 0) {
        *out = floating(pow(as_float(a), as_float(b)));
        return EXG_OK;
    }
    *out = integer(1);
    for (int64_t i = 0; i < b.i && !(out->i >= -1 && out->i <= 1 && i > 1); i++) {
        EXG_TRY(arithmetic(e, '*', *out, a, out));
    }
    if (a.i == -1) {
        *out = integer(b.i % 2 == 0 ? 1 : -1);
    }
    return EXG_OK;
}

static bool compare(function fn, number a, number b)
{
    bool less = a.is_float || b.is_float ? as_float(a) < as_float(b) : a.i < b.i;
    bool equal = a.is_float || b.is_float ? as_float(a) == as_float(b) : a.i == b.i;

    switch (fn) {
    case FN_EQ:
        return equal;
    case FN_NE:
        return !equal;
    case FN_LE:
        return less || equal;
    case FN_LT:
        return less;
    case FN_GE:
        return !less;
    default:
        return !less && !equal;
    }
}

static exg_status to_integer(evaluator *e, double value, number *out)
{
    if (!(value >= -0x1p63 && value < 0x1p63)) {
        *out = integer(1);
        return e->symbols == NULL ? EXG_OK : overflow(e);
    }
    *out = integer((int64_t)value);
    return EXG_OK;
}

/* Takes one more argument of Add, Mul, Min, Max, And or Or into what the earlier ones gave. */
static exg_status fold(evaluator *e, function fn, number arg, number *out)
{
    if (fn == FN_ADD || fn == FN_MUL) {
        return arithmetic(e, fn == FN_ADD ? '+' : '*', *out, arg, out);
    }
    if (fn == FN_MIN || fn == FN_MAX) {
        *out = compare(fn == FN_MIN ? FN_LE : FN_GE, *out, arg) ? *out : arg;
    } else {
        out->i = fn == FN_AND ? (out->i && arg.i) : (out->i || arg.i);
    }
    return EXG_OK;
}

static exg_status apply(evaluator *e, function fn, const number *args, number *out)
{
    switch (fn) {
    case FN_POW:
        return power(e, args[0], args[1], out);
    case FN_MOD:
    case FN_FLOORDIV:
        return divide(e, fn == FN_MOD, args[0], args[1], out);
    case FN_CEILDIV: {
        number negated;

        EXG_TRY(arithmetic(e, '-', integer(0), args[0], &negated));
        EXG_TRY(divide(e, false, negated, args[1], &negated));
        return arithmetic(e, '-', integer(0), negated, out);
    }
    case FN_TRUEDIV:
        *out = floating(as_float(args[0]) / as_float(args[1]));
        return EXG_OK;
    case FN_TOFLOAT:
        *out = floating(as_float(args[0]));
        return EXG_OK;
    case FN_SQRT:
        *out = floating(sqrt(as_float(args[0])));
        return EXG_OK;
    case FN_TRUNC:
        return to_integer(e, trunc(as_float(args[0])), out);
    case FN_FLOOR:
        return to_integer(e, floor(as_float(args[0])), out);
    case FN_CEIL:
        return to_integer(e, ceil(as_float(args[0])), out);
    case FN_NOT:
        *out = integer(args[0].i == 0);
        return EXG_OK;
    case FN_ADD:
    case FN_MUL:
    case FN_MIN:
    case FN_MAX:
    case FN_AND:
    case FN_OR:
    case FN_PIECEWISE: /* folded while read */
    case FN_IDENTITY:
        *out = args[0];
        return EXG_OK;
    default:
        *out = integer(compare(fn, args[0], args[1]));
        return EXG_OK;
    }
}

/* ---- reading ------------------------------------------------------------------- */

static exg_status resolve(evaluator *e, const char *name, size_t length, number *out)
{
    const exg_symbol *symbol;

    if (e->visit != NULL) {
        e->visit(e->user, name, length);
    }
    *out = integer(1);
    if (e->symbols == NULL) {
        return EXG_OK;
    }
    symbol = exg_symbols_find(e->symbols, name, length);
    if (symbol == NULL) {
        return EXG_FAIL(e->err, MALFORMED, "SYM-002", "symbol '%.*s' has no value",
                        (int)(length < 64 ? length : 64), name);
    }
    *out = integer(symbol->value);
    return EXG_OK;
}

/* Symbol('s77', positive=True, integer=True) after the name and "(". */
static exg_status read_symbol(evaluator *e, number *out)
{
    const char *name;
    size_t length;

    if (!take(e, "'")) {
        return syntax(e, "a quoted symbol");
    }
    name = e->at;
    while (is_word(*e->at)) {
        e->at++;
    }
    length = (size_t)(e->at - name);
    if (length == 0 || !take(e, "'")) {
        return syntax(e, "the end of a symbol");
    }
    while (take(e, ",")) { /* assumptions, in any order; they do not matter here */
        skip_spaces(e);
        while (is_word(*e->at)) {
            e->at++;
        }
        if (!take(e, "=") || !(take(e, "True") || take(e, "False"))) {
            return syntax(e, "an assumption");
        }
    }
    return take(e, ")") ? resolve(e, name, length, out) : syntax(e, "')'");
}

static exg_status read_number(evaluator *e, number *out)
{
    const char *start = e->at;
    int64_t value = 0;
    bool wrapped = false;

    while (*e->at >= '0' && *e->at <= '9') {
        wrapped = __builtin_mul_overflow(value, 10, &value) || wrapped;
        wrapped = __builtin_add_overflow(value, *e->at - '0', &value) || wrapped;
        e->at++;
    }
    if (*e->at == '.' || *e->at == 'e') {
        char *end;

        *out = floating(exg_text_to_double(start, &end));
        e->at = end;
        return EXG_OK;
    }
    *out = integer(value);
    return wrapped ? overflow(e) : EXG_OK;
}

/* Float('0.5', precision=53) after the name and "(". */
static exg_status read_float(evaluator *e, number *out)
{
    char *end;

    if (!take(e, "'")) {
        return syntax(e, "a quoted number");
    }
    *out = floating(exg_text_to_double(e->at, &end));
    if (end == e->at) {
        return syntax(e, "a number");
    }
    e->at = end;
    if (!take(e, "'")) {
        return syntax(e, "\"'\"");
    }
    if (take(e, ",")) {
        number precision;

        if (!(take(e, "precision") || take(e, "dps")) || !take(e, "=")) {
            return syntax(e, "a precision");
        }
        skip_spaces(e);
        EXG_TRY(read_number(e, &precision));
    }
    return take(e, ")") ? EXG_OK : syntax(e, "')'");
}

static exg_status read_call(evaluator *e, const char *name, size_t length, number *out)
{
    number args[FIXED_MAX] = {0};
    uint32_t count = 0;
    uint32_t most;
    size_t row = 0;
    function fn;
    bool chosen = false; /* of a Piecewise: an earlier condition held */

    if (length == 6 && strncmp(name, "Symbol", 6) == 0) {
        return read_symbol(e, out);
    }
    if (length == 5 && strncmp(name, "Float", 5) == 0) {
        return read_float(e, out);
    }
    if (length == 7 && strncmp(name, "Integer", 7) == 0) {
        EXG_TRY(read_expr(e, out));
        return take(e, ")") ? EXG_OK : syntax(e, "')'");
    }
    while (row < sizeof(functions) / sizeof(functions[0]) &&
           (strlen(functions[row].name) != length ||
            strncmp(functions[row].name, name, length) != 0)) {
        row++;
    }
    if (row == sizeof(functions) / sizeof(functions[0])) {
        e->at = name;
        return syntax(e, "a known function");
    }
    fn = functions[row].fn;
    most = functions[row].most;
    for (; !take(e, ")"); count++) {
        number value;

        if (count > 0 && !take(e, ",")) {
            return syntax(e, "',' or ')'");
        }
        EXG_TRY(read_expr(e, &value));
        if (fn == FN_PIECEWISE) { /* the first pair whose condition holds */
            args[0] = chosen ? args[0] : value;
            chosen = chosen || e->condition;
        } else if (most == MANY && count > 0) {
            EXG_TRY(fold(e, fn, value, &args[0]));
        } else if (count < FIXED_MAX) {
            args[count] = value;
        }
    }
    if (count < functions[row].least || count > most) {
        return syntax(e, "another number of arguments");
    }
    if (fn == FN_PAIR) {
        e->condition = args[1].i != 0;
        *out = args[0];
        return EXG_OK;
    }
    return apply(e, fn, args, out);
}

static exg_status read_atom(evaluator *e, number *out)
{
    const char *name;

    skip_spaces(e);
    if (take(e, "(")) {
        EXG_TRY(read_expr(e, out));
        return take(e, ")") ? EXG_OK : syntax(e, "')'");
    }
    if ((*e->at >= '0' && *e->at <= '9') || *e->at == '.') {
        return read_number(e, out);
    }
    name = e->at;
    while (is_word(*e->at)) {
        e->at++;
    }
    if (e->at == name) {
        return syntax(e, "a number, a symbol or a function");
    }
    if (*e->at == '(') {
        size_t length = (size_t)(e->at - name);

        e->at++;
        return read_call(e, name, length, out);
    }
    if (strncmp(name, "true", 4) == 0 && e->at - name == 4) {
        *out = integer(1);
        return EXG_OK;
    }
    if (strncmp(name, "false", 5) == 0 && e->at - name == 5) {
        *out = integer(0);
        return EXG_OK;
    }
    return resolve(e, name, (size_t)(e->at - name), out);
}

static exg_status read_unary(evaluator *e, number *out)
{
    skip_spaces(e);
    if (e->depth >= DEPTH_MAX) {
        return EXG_FAIL(e->err, LIMIT, "SYM-010", "expression nests deeper than %d", DEPTH_MAX);
    }
    if (*e->at == '-') {
        exg_status status;

        e->at++;
        e->depth++;
        status = read_unary(e, out);
        e->depth--;
        EXG_TRY(status);
        return arithmetic(e, '-', integer(0), *out, out);
    }
    EXG_TRY(read_atom(e, out));
    skip_spaces(e);
    if (e->at[0] == '*' && e->at[1] == '*') {
        number exponent;
        exg_status status;

        e->at += 2;
        e->depth++;
        status = read_unary(e, &exponent);
        e->depth--;
        EXG_TRY(status);
        return power(e, *out, exponent, out);
    }
    return EXG_OK;
}

static exg_status read_product(evaluator *e, number *out)
{
    EXG_TRY(read_unary(e, out));
    for (;;) {
        number right;

        skip_spaces(e);
        if (take(e, "//") || (*e->at == '%' && take(e, "%"))) {
            bool remainder = e->at[-1] == '%';

            EXG_TRY(read_unary(e, &right));
            EXG_TRY(divide(e, remainder, *out, right, out));
        } else if (take(e, "*")) {
            EXG_TRY(read_unary(e, &right));
            EXG_TRY(arithmetic(e, '*', *out, right, out));
        } else if (take(e, "/")) {
            EXG_TRY(read_unary(e, &right));
            *out = floating(as_float(*out) / as_float(right));
        } else {
            return EXG_OK;
        }
    }
}

static exg_status read_sum(evaluator *e, number *out)
{
    EXG_TRY(read_product(e, out));
    for (;;) {
        number right;
        char operation;

        skip_spaces(e);
        operation = *e->at;
        if (operation != '+' && operation != '-') {
            return EXG_OK;
        }
        e->at++;
        EXG_TRY(read_product(e, &right));
        EXG_TRY(arithmetic(e, operation, *out, right, out));
    }
}

static exg_status read_comparison(evaluator *e, number *out)
{
    static const struct {
        const char *token;
        function fn;
    } rows[] = {{"==", FN_EQ}, {"!=", FN_NE}, {"<=", FN_LE}, {">=", FN_GE}, {"<", FN_LT}, {">", FN_GT}};

    EXG_TRY(read_sum(e, out));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (take(e, rows[i].token)) {
            number right;

            EXG_TRY(read_sum(e, &right));
            *out = integer(compare(rows[i].fn, *out, right));
            return EXG_OK;
        }
    }
    return EXG_OK;
}

static bool take_word(evaluator *e, const char *word)
{
    size_t length = strlen(word);

    skip_spaces(e);
    if (strncmp(e->at, word, length) != 0 || is_word(e->at[length])) {
        return false;
    }
    e->at += length;
    return true;
}

static bool is_true(number n)
{
    return n.is_float ? n.f != 0 : n.i != 0;
}

static exg_status read_not(evaluator *e, number *out)
{
    bool negates = false;
    bool any = false;

    while (take_word(e, "not")) {
        negates = !negates;
        any = true;
    }
    EXG_TRY(read_comparison(e, out));
    *out = any ? integer(is_true(*out) != negates) : *out;
    return EXG_OK;
}

static exg_status read_and(evaluator *e, number *out)
{
    EXG_TRY(read_not(e, out));
    while (take_word(e, "and")) {
        number right;

        EXG_TRY(read_not(e, &right));
        *out = integer(is_true(*out) && is_true(right));
    }
    return EXG_OK;
}

static exg_status read_or(evaluator *e, number *out)
{
    EXG_TRY(read_and(e, out));
    while (take_word(e, "or")) {
        number right;

        EXG_TRY(read_and(e, &right));
        *out = integer(is_true(*out) || is_true(right));
    }
    return EXG_OK;
}

static exg_status read_expr(evaluator *e, number *out)
{
    exg_status status;

    if (e->depth >= DEPTH_MAX) {
        return EXG_FAIL(e->err, LIMIT, "SYM-010", "expression nests deeper than %d", DEPTH_MAX);
    }
    e->depth++;
    status = read_or(e, out);
    e->depth--;
    return status;
}

static exg_status evaluate(evaluator *e, number *out)
{
    e->at = e->text;
    EXG_TRY(read_expr(e, out));
    skip_spaces(e);
    return *e->at == '\0' ? EXG_OK : syntax(e, "the end");
}

/* ---- interface ------------------------------------------------------------------ */

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

exg_status exg_symint_evaluate(const char *expr, const exg_symbols *symbols, int64_t *value,
                               exg_error *err)
{
    EXG_GIVEN(err, expr, value);
    evaluator e = {.text = expr, .symbols = symbols, .err = err};
    number result;

    EXG_TRY(evaluate(&e, &result));
    if (result.is_float) {
        return EXG_FAIL(err, MALFORMED, "SYM-001", "expression '%.120s' is no integer", expr);
    }
    *value = result.i;
    return EXG_OK;
}

exg_status exg_symfloat_evaluate(const char *expr, const exg_symbols *symbols, double *value,
                                 exg_error *err)
{
    EXG_GIVEN(err, expr, value);
    evaluator e = {.text = expr, .symbols = symbols, .err = err};
    number result;

    EXG_TRY(evaluate(&e, &result));
    *value = as_float(result);
    return EXG_OK;
}

exg_status exg_symint_visit(const char *expr,
                            void (*visit)(void *user, const char *name, size_t length), void *user,
                            exg_error *err)
{
    EXG_GIVEN(err, expr);
    evaluator e = {.text = expr, .visit = visit, .user = user, .err = err};
    number result;

    return evaluate(&e, &result);
}

static void count_symbols(void *user, const char *name, size_t length)
{
    (void)name;
    (void)length;
    ++*(uint32_t *)user;
}

bool exg_symint_lone_symbol(const char *expr, const char **name, size_t *length)
{
    const char *start = expr;
    uint32_t count = 0;

    if (exg_symint_visit(expr, count_symbols, &count, NULL) != EXG_OK || count != 1) {
        return false;
    }
    if (strncmp(start, "Symbol('", 8) == 0) {
        start += 8;
    }
    *name = start;
    while (is_word(*start)) {
        start++;
    }
    *length = (size_t)(start - *name);
    return *length > 0 && (*start == '\0' || (*start == '\'' && strchr(start, ')') != NULL &&
                                              strchr(start, ')')[1] == '\0')) &&
           !(**name >= '0' && **name <= '9');
}
