/* symint.c - reads and evaluates the expressions of symbolic sizes in one pass.
 * Recursive descent; each function reads one rule of the grammar:
 *
 *   expr    or ("if" or "else" expr)?
 *   or      and ("or" and)*
 *   and     not ("and" not)*
 *   not     "not" not | truth
 *   truth   bits (("==" | "!=" | "<=" | ">=" | "<" | ">") bits)?
 *   bits    sum (("|" | "^" | "&" | "<<" | ">>") sum)*, weakest first
 *   sum     product (("+" | "-") product)*
 *   product unary (("*" | "//" | "/" | "%") unary)*
 *   unary   "-" unary | power
 *   power   atom ("**" unary)?
 *   atom    number | name | name "(" arguments ")" | "(" expr ")"
 *
 * A name may have dots in it ("math.floor"): guards are Python's expressions. What "and" and
 * "or" do not look at is read and not computed, as Python does.
 */
#include "libexport/base/given.h"
#include "libexport/base/map.h"
#include "libexport/base/text.h"
#include "libexport/program/evaluator.h"

#include <string.h>

#define DEPTH_MAX        64
#define SYMBOLS_MANY     17 /* from here on found by a map */
#define SYMBOL_BYTES_MAX 64

static exg_status read_expr(exg_evaluator *e, exg_number *out);

static exg_status syntax(exg_evaluator *e, const char *expected)
{
    return EXG_FAIL(e->err, MALFORMED, "SYM-001",
                    "expression '%.120s': expected %s at position %zu", e->text, expected,
                    (size_t)(e->at - e->text));
}

static void skip_spaces(exg_evaluator *e)
{
    while (*e->at == ' ') {
        e->at++;
    }
}

static bool take(exg_evaluator *e, const char *token)
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

/* ---- reading ------------------------------------------------------------------- */

static exg_status resolve(exg_evaluator *e, const char *name, size_t length, exg_number *out)
{
    const exg_symbol *symbol;

    if (e->visit != NULL) {
        e->visit(e->user, name, length);
    }
    *out = exg_number_int(1);
    if (e->symbols == NULL) {
        return EXG_OK;
    }
    symbol = exg_symbols_find(e->symbols, name, length);
    if (symbol == NULL) {
        return EXG_FAIL(e->err, MALFORMED, "SYM-002", "symbol '%.*s' has no value",
                        (int)(length < 64 ? length : 64), name);
    }
    *out = exg_number_int(symbol->value);
    return EXG_OK;
}

/* Symbol('s77', positive=True, integer=True) after the name and "(". */
static exg_status read_symbol(exg_evaluator *e, exg_number *out)
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

static exg_status read_number(exg_evaluator *e, exg_number *out)
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

        *out = exg_number_float(exg_text_to_double(start, &end));
        e->at = end;
        return EXG_OK;
    }
    *out = exg_number_int(value);
    return wrapped
               ? EXG_FAIL(e->err, LIMIT, "SYM-010", "expression '%.120s' leaves 64 bits", e->text)
               : EXG_OK;
}

/* Float('0.5', precision=53) after the name and "(". */
static exg_status read_float(exg_evaluator *e, exg_number *out)
{
    char *end;

    if (!take(e, "'")) {
        return syntax(e, "a quoted number");
    }
    *out = exg_number_float(exg_text_to_double(e->at, &end));
    if (end == e->at) {
        return syntax(e, "a number");
    }
    e->at = end;
    if (!take(e, "'")) {
        return syntax(e, "\"'\"");
    }
    if (take(e, ",")) {
        exg_number precision;

        if (!(take(e, "precision") || take(e, "dps")) || !take(e, "=")) {
            return syntax(e, "a precision");
        }
        skip_spaces(e);
        EXG_TRY(read_number(e, &precision));
    }
    return take(e, ")") ? EXG_OK : syntax(e, "')'");
}

/* The arguments of `function` up to ")", folded where there may be any number of them. */
static exg_status read_arguments(exg_evaluator *e, const exg_function *function, exg_number *args,
                                 uint32_t *count)
{
    bool chosen = false; /* of a Piecewise: an earlier condition held */

    for (*count = 0; !take(e, ")"); ++*count) {
        exg_number value;

        if (*count > 0 && !take(e, ",")) {
            return syntax(e, "',' or ')'");
        }
        EXG_TRY(read_expr(e, &value));
        if (function->kind == EXG_FN_PIECEWISE) { /* the first pair whose condition holds */
            args[0] = chosen ? args[0] : value;
            chosen = chosen || e->condition;
        } else if (function->most == EXG_ARGUMENTS_MANY && *count > 0) {
            EXG_TRY(exg_function_fold(e, function->kind, value, &args[0]));
        } else if (*count < EXG_ARGUMENTS_FIXED_MAX) {
            args[*count] = value;
        }
    }
    return *count < function->least || *count > function->most
               ? syntax(e, "another number of arguments")
               : EXG_OK;
}

static bool is_word_of(const char *name, size_t length, const char *word)
{
    return strlen(word) == length && strncmp(name, word, length) == 0;
}

static exg_status read_call(exg_evaluator *e, const char *name, size_t length, exg_number *out)
{
    const exg_function *function;
    exg_number args[EXG_ARGUMENTS_FIXED_MAX] = {0};
    uint32_t count;

    if (is_word_of(name, length, "Symbol")) {
        return read_symbol(e, out);
    }
    if (is_word_of(name, length, "Float")) {
        return read_float(e, out);
    }
    if (is_word_of(name, length, "Integer")) {
        EXG_TRY(read_expr(e, out));
        return take(e, ")") ? EXG_OK : syntax(e, "')'");
    }
    function = exg_function_find(name, length);
    if (function == NULL) {
        e->at = name;
        return syntax(e, "a known function");
    }
    EXG_TRY(read_arguments(e, function, args, &count));
    if (function->kind == EXG_FN_PAIR) {
        e->condition = exg_number_true(args[1]);
        *out = args[0];
        return EXG_OK;
    }
    return exg_function_apply(e, function, args, count, out);
}

static exg_status read_atom(exg_evaluator *e, exg_number *out)
{
    const char *name;
    size_t length;

    skip_spaces(e);
    if (take(e, "(")) {
        EXG_TRY(read_expr(e, out));
        return take(e, ")") ? EXG_OK : syntax(e, "')'");
    }
    if ((*e->at >= '0' && *e->at <= '9') || *e->at == '.') {
        return read_number(e, out);
    }
    name = e->at;
    while (is_word(*e->at) || (*e->at == '.' && e->at > name && is_word(e->at[1]))) {
        e->at++;
    }
    length = (size_t)(e->at - name);
    if (length == 0) {
        return syntax(e, "a number, a symbol or a function");
    }
    if (*e->at == '(') {
        e->at++;
        return read_call(e, name, length, out);
    }
    return exg_constant_find(name, length, out) ? EXG_OK : resolve(e, name, length, out);
}

static exg_status read_unary(exg_evaluator *e, exg_number *out)
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
        return exg_arithmetic(e, '-', exg_number_int(0), *out, out);
    }
    EXG_TRY(read_atom(e, out));
    skip_spaces(e);
    if (e->at[0] == '*' && e->at[1] == '*') {
        exg_number exponent;
        exg_status status;

        e->at += 2;
        e->depth++;
        status = read_unary(e, &exponent);
        e->depth--;
        EXG_TRY(status);
        return exg_operation(e, EXG_FN_POW, *out, exponent, out);
    }
    return EXG_OK;
}

static exg_status read_product(exg_evaluator *e, exg_number *out)
{
    EXG_TRY(read_unary(e, out));
    for (;;) {
        exg_number right;

        skip_spaces(e);
        if (take(e, "//") || (*e->at == '%' && take(e, "%"))) {
            exg_function_kind kind = e->at[-1] == '%' ? EXG_FN_MOD : EXG_FN_FLOORDIV;

            EXG_TRY(read_unary(e, &right));
            EXG_TRY(exg_operation(e, kind, *out, right, out));
        } else if (take(e, "*")) {
            EXG_TRY(read_unary(e, &right));
            EXG_TRY(exg_arithmetic(e, '*', *out, right, out));
        } else if (take(e, "/")) {
            EXG_TRY(read_unary(e, &right));
            EXG_TRY(exg_operation(e, EXG_FN_TRUEDIV, *out, right, out));
        } else {
            return EXG_OK;
        }
    }
}

static exg_status read_sum(exg_evaluator *e, exg_number *out)
{
    EXG_TRY(read_product(e, out));
    for (;;) {
        exg_number right;
        char operation;

        skip_spaces(e);
        operation = *e->at;
        if (operation != '+' && operation != '-') {
            return EXG_OK;
        }
        e->at++;
        EXG_TRY(read_product(e, &right));
        EXG_TRY(exg_arithmetic(e, operation, *out, right, out));
    }
}

typedef struct operation {
    const char *token;
    exg_function_kind kind;
} operation;

/* The operations on bits, the weakest first; a level of one has an empty second token. */
static exg_status read_bits(exg_evaluator *e, uint32_t level, exg_number *out)
{
    static const operation levels[][2] = {{{"|", EXG_FN_BITOR}, {"", EXG_FN_BITOR}},
                                          {{"^", EXG_FN_BITXOR}, {"", EXG_FN_BITXOR}},
                                          {{"&", EXG_FN_BITAND}, {"", EXG_FN_BITAND}},
                                          {{"<<", EXG_FN_LSHIFT}, {">>", EXG_FN_RSHIFT}}};
    const operation *row;

    if (level == sizeof(levels) / sizeof(levels[0])) {
        return read_sum(e, out);
    }
    EXG_TRY(read_bits(e, level + 1, out));
    for (;;) {
        exg_number right;

        row = levels[level];
        if (!take(e, row->token)) {
            row++;
            if (row->token[0] == '\0' || !take(e, row->token)) {
                return EXG_OK;
            }
        }
        EXG_TRY(read_bits(e, level + 1, &right));
        EXG_TRY(exg_operation(e, row->kind, *out, right, out));
    }
}

static exg_status read_comparison(exg_evaluator *e, exg_number *out)
{
    static const operation rows[] = {{"==", EXG_FN_EQ}, {"!=", EXG_FN_NE}, {"<=", EXG_FN_LE},
                                     {">=", EXG_FN_GE}, {"<", EXG_FN_LT},  {">", EXG_FN_GT}};

    EXG_TRY(read_bits(e, 0, out));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (take(e, rows[i].token)) {
            exg_number right;

            EXG_TRY(read_bits(e, 0, &right));
            return exg_operation(e, rows[i].kind, *out, right, out);
        }
    }
    return EXG_OK;
}

static bool take_word(exg_evaluator *e, const char *word)
{
    size_t length = strlen(word);

    skip_spaces(e);
    if (strncmp(e->at, word, length) != 0 || is_word(e->at[length])) {
        return false;
    }
    e->at += length;
    return true;
}

static exg_status read_not(exg_evaluator *e, exg_number *out)
{
    bool negates = false;
    bool any = false;

    while (take_word(e, "not")) {
        negates = !negates;
        any = true;
    }
    EXG_TRY(read_comparison(e, out));
    *out = any ? exg_number_int(exg_number_true(*out) != negates) : *out;
    return EXG_OK;
}

/* Reads with `read` what is computed only where `counts`. */
static exg_status read_where(exg_evaluator *e, bool counts,
                             exg_status (*read)(exg_evaluator *e, exg_number *out), exg_number *out)
{
    const exg_symbols *symbols = e->symbols;
    exg_status status;

    e->symbols = counts ? symbols : NULL;
    status = read(e, out);
    e->symbols = symbols;
    return status;
}

static exg_status read_and(exg_evaluator *e, exg_number *out)
{
    EXG_TRY(read_not(e, out));
    while (take_word(e, "and")) {
        exg_number right;

        EXG_TRY(read_where(e, exg_number_true(*out), read_not, &right));
        EXG_TRY(exg_function_fold(e, EXG_FN_AND, right, out));
    }
    return EXG_OK;
}

static exg_status read_or(exg_evaluator *e, exg_number *out)
{
    EXG_TRY(read_and(e, out));
    while (take_word(e, "or")) {
        exg_number right;

        EXG_TRY(read_where(e, !exg_number_true(*out), read_and, &right));
        EXG_TRY(exg_function_fold(e, EXG_FN_OR, right, out));
    }
    return EXG_OK;
}

/* "a if condition else b"; `a` is computed before it is known whether it counts. */
static exg_status read_choice(exg_evaluator *e, exg_number *out)
{
    exg_number condition;
    exg_number other;

    EXG_TRY(read_or(e, out));
    if (!take_word(e, "if")) {
        return EXG_OK;
    }
    EXG_TRY(read_or(e, &condition));
    if (!take_word(e, "else")) {
        return syntax(e, "'else'");
    }
    EXG_TRY(read_where(e, !exg_number_true(condition), read_expr, &other));
    *out = exg_number_true(condition) ? *out : other;
    return EXG_OK;
}

static exg_status read_expr(exg_evaluator *e, exg_number *out)
{
    exg_status status;

    if (e->depth >= DEPTH_MAX) {
        return EXG_FAIL(e->err, LIMIT, "SYM-010", "expression nests deeper than %d", DEPTH_MAX);
    }
    e->depth++;
    status = read_choice(e, out);
    e->depth--;
    return status;
}

static exg_status evaluate(exg_evaluator *e, exg_number *out)
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
    exg_evaluator e = {.text = expr, .symbols = symbols, .err = err};
    exg_number result;

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
    exg_evaluator e = {.text = expr, .symbols = symbols, .err = err};
    exg_number result;

    EXG_TRY(evaluate(&e, &result));
    *value = exg_number_real(result);
    return EXG_OK;
}

exg_status exg_symint_visit(const char *expr,
                            void (*visit)(void *user, const char *name, size_t length), void *user,
                            exg_error *err)
{
    EXG_GIVEN(err, expr);
    exg_evaluator e = {.text = expr, .visit = visit, .user = user, .err = err};
    exg_number result;

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
    return *length > 0 &&
           (*start == '\0' ||
            (*start == '\'' && strchr(start, ')') != NULL && strchr(start, ')')[1] == '\0')) &&
           !(**name >= '0' && **name <= '9');
}
