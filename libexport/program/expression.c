/* expression.c - reads the expressions of symbolic sizes into terms.
 * Recursive descent, signs by their precedence (the table `signs`):
 *
 *   expr    signs ("if" signs "else" expr)?
 *   signs   operand (sign operand)*, the tighter ones first; one comparison alone
 *   operand "not"* unary, the first only around comparisons and what is weaker
 *   unary   "-" unary | power
 *   power   atom ("**" unary)?
 *   atom    number | name | name "(" arguments ")" | "(" expr ")"
 *
 * A name may have dots in it ("math.floor"): guards are Python's expressions.
 */
#include "libexport/program/expression.h"
#include "libexport/base/arena.h"
#include "libexport/base/scan.h"

#include <string.h>

#define DEPTH_MAX 64

typedef struct reader {
    exg_scan scan;
    exg_arena *arena;
    exg_expression *expression;
    exg_term *last_symbol;
    uint32_t depth;
    exg_status status; /* the first fault */
    exg_error *err;
} reader;

static exg_term *read_expr(reader *r);

/* ---- faults: NULL, and the status in the reader ------------------------------------------- */

static exg_term *syntax(reader *r, const char *expected)
{
    r->status =
        EXG_FAIL(r->err, MALFORMED, "SYM-001", "expression '%.120s': expected %s at position %zu",
                 r->expression->text, expected, (size_t)(r->scan.at - r->expression->text));
    return NULL;
}

static exg_term *too_deep(reader *r)
{
    r->status = EXG_FAIL(r->err, LIMIT, "SYM-010", "expression nests deeper than %d", DEPTH_MAX);
    return NULL;
}

/* ---- terms -------------------------------------------------------------------------------- */

static exg_term *new_term(reader *r, exg_term_kind kind, const char *text, size_t length)
{
    exg_term *term = EXG_NEW(r->arena, exg_term);

    if (term == NULL) {
        r->status = EXG_OUT_OF_MEMORY(r->err);
        return NULL;
    }
    term->kind = (uint8_t)kind;
    term->text = text;
    term->length = (uint32_t)length;
    return term;
}

static exg_term *new_symbol(reader *r, const char *name, size_t length)
{
    exg_term *term = new_term(r, EXG_TERM_SYMBOL, name, length);

    if (term == NULL) {
        return NULL;
    }
    if (r->last_symbol == NULL) {
        r->expression->symbols = term;
    } else {
        r->last_symbol->first = term;
    }
    r->last_symbol = term;
    return term;
}

/* Where the operands of a term are put. */
typedef struct operands {
    exg_term *of;
    exg_term *last;
} operands;

static void add_operand(operands *o, exg_term *operand)
{
    if (o->last == NULL) {
        o->of->first = operand;
    } else {
        o->last->next = operand;
    }
    o->last = operand;
    o->of->count++;
}

/* A sign in front of `operand`, which may be NULL: it could not be read. */
static exg_term *signed_term(reader *r, exg_term_kind kind, exg_term *operand)
{
    exg_term *term = operand == NULL ? NULL : new_term(r, kind, operand->text, 0);

    if (term != NULL) {
        add_operand(&(operands){term, NULL}, operand);
    }
    return term;
}

/* ---- atoms -------------------------------------------------------------------------------- */

/* Symbol('s77', positive=True, integer=True) after the name and "(". */
static exg_term *read_symbol(reader *r)
{
    const char *name, *word;
    size_t length;

    if (!exg_scan_take(&r->scan, "'")) {
        return syntax(r, "a quoted symbol");
    }
    name = r->scan.at;
    while (exg_is_word(*r->scan.at)) {
        r->scan.at++;
    }
    length = (size_t)(r->scan.at - name);
    if (length == 0 || !exg_scan_take(&r->scan, "'")) {
        return syntax(r, "the end of a symbol");
    }
    while (exg_scan_take(&r->scan, ",")) { /* assumptions, in any order; they do not matter here */
        (void)exg_scan_word(&r->scan, &word);
        if (!exg_scan_take(&r->scan, "=") ||
            !(exg_scan_take(&r->scan, "True") || exg_scan_take(&r->scan, "False"))) {
            return syntax(r, "an assumption");
        }
    }
    return exg_scan_take(&r->scan, ")") ? new_symbol(r, name, length) : syntax(r, "')'");
}

static exg_term *read_number(reader *r)
{
    const char *start = r->scan.at;
    int64_t value = 0;
    bool overflows = false;
    exg_term *term;

    for (; *r->scan.at >= '0' && *r->scan.at <= '9'; r->scan.at++) {
        overflows = __builtin_mul_overflow(value, 10, &value) || overflows;
        overflows = __builtin_add_overflow(value, *r->scan.at - '0', &value) || overflows;
    }
    term = new_term(r, EXG_TERM_NUMBER, start, 0);
    if (term == NULL) {
        return NULL;
    }
    term->number.i = value;
    term->overflows = overflows;
    if (*r->scan.at == '.' || *r->scan.at == 'e') {
        char *end;

        term->number = (exg_number){true, {.f = exg_text_to_double(start, &end)}};
        term->overflows = false;
        r->scan.at = end;
    }
    term->length = (uint32_t)(r->scan.at - start);
    return term;
}

/* Float('0.5', precision=53) after the name and "(". */
static exg_term *read_real(reader *r)
{
    exg_term *term;
    char *end;

    if (!exg_scan_take(&r->scan, "'")) {
        return syntax(r, "a quoted number");
    }
    term = new_term(r, EXG_TERM_REAL, r->scan.at, 0);
    if (term == NULL) {
        return NULL;
    }
    term->number = (exg_number){true, {.f = exg_text_to_double(r->scan.at, &end)}};
    if (end == r->scan.at) {
        return syntax(r, "a number");
    }
    r->scan.at = end;
    if (!exg_scan_take(&r->scan, "'")) {
        return syntax(r, "\"'\"");
    }
    if (exg_scan_take(&r->scan, ",")) {
        if (!(exg_scan_take(&r->scan, "precision") || exg_scan_take(&r->scan, "dps")) ||
            !exg_scan_take(&r->scan, "=") || !exg_scan_digits(&r->scan)) {
            return syntax(r, "a precision");
        }
    }
    return exg_scan_take(&r->scan, ")") ? term : syntax(r, "')'");
}

static bool is_word_of(const char *name, size_t length, const char *word)
{
    return strlen(word) == length && strncmp(name, word, length) == 0;
}

static exg_term *read_call(reader *r, const char *name, size_t length)
{
    operands args = {NULL, NULL};

    if (is_word_of(name, length, "Symbol")) {
        return read_symbol(r);
    }
    if (is_word_of(name, length, "Float")) {
        return read_real(r);
    }
    args.of = new_term(r, EXG_TERM_CALL, name, length);
    if (args.of == NULL) {
        return NULL;
    }
    args.of->function = exg_function_find(name, length);
    while (!exg_scan_take(&r->scan, ")")) {
        exg_term *arg;

        if (args.of->count > 0 && !exg_scan_take(&r->scan, ",")) {
            return syntax(r, "',' or ')'");
        }
        arg = read_expr(r);
        if (arg == NULL && r->status == EXG_MALFORMED && args.of->function == NULL) {
            r->scan.at = name; /* no call at all */
            return syntax(r, "a known function");
        }
        if (arg == NULL) {
            return NULL;
        }
        add_operand(&args, arg);
    }
    return args.of;
}

/* A name that is no call's. */
static exg_term *read_name(reader *r, const char *name, size_t length)
{
    exg_term *term;
    exg_number value;

    if (!exg_constant_find(name, length, &value)) {
        r->expression->is_srepr = false;
        return new_symbol(r, name, length);
    }
    r->expression->is_srepr = r->expression->is_srepr && (is_word_of(name, length, "true") ||
                                                          is_word_of(name, length, "false"));
    term = new_term(r, EXG_TERM_CONSTANT, name, length);
    if (term != NULL) {
        term->number = value;
    }
    return term;
}

static exg_term *read_atom(reader *r)
{
    const char *name;
    size_t length;

    if (exg_scan_take(&r->scan, "(")) {
        exg_term *inner = read_expr(r);

        r->expression->is_srepr = false;
        return inner == NULL || exg_scan_take(&r->scan, ")") ? inner : syntax(r, "')'");
    }
    name = r->scan.at;
    if ((*name >= '0' && *name <= '9') || *name == '.') {
        return read_number(r);
    }
    while (exg_is_word(*r->scan.at) ||
           (*r->scan.at == '.' && r->scan.at > name && exg_is_word(r->scan.at[1]))) {
        r->scan.at++;
    }
    length = (size_t)(r->scan.at - name);
    if (length == 0) {
        return syntax(r, "a number, a symbol or a function");
    }
    if (*r->scan.at == '(') {
        r->scan.at++;
        return read_call(r, name, length);
    }
    return read_name(r, name, length);
}

/* ---- signs -------------------------------------------------------------------------------- */

static exg_term *read_unary(reader *r);

/* An operand of a sign that stands in front of it, or behind "**". */
static exg_term *read_inner(reader *r)
{
    exg_term *term;

    r->depth++;
    term = read_unary(r);
    r->depth--;
    return term;
}

static exg_term *read_power(reader *r)
{
    exg_term *base = read_atom(r);
    operands chain = {NULL, NULL};
    exg_term *exponent;

    if (base == NULL || exg_scan_next(&r->scan) != '*' || r->scan.at[1] != '*') {
        return base;
    }
    r->scan.at += 2;
    r->expression->is_srepr = false;
    chain.of = new_term(r, EXG_TERM_CHAIN, base->text, 0);
    exponent = chain.of == NULL ? NULL : read_inner(r);
    if (exponent == NULL) {
        return NULL;
    }
    exponent->sign = EXG_FN_POW;
    add_operand(&chain, base);
    add_operand(&chain, exponent);
    return chain.of;
}

static exg_term *read_unary(reader *r)
{
    exg_term *term;

    if (r->depth >= DEPTH_MAX) {
        return too_deep(r);
    }
    if (!exg_scan_take(&r->scan, "-")) {
        return read_power(r);
    }
    term = signed_term(r, EXG_TERM_NEGATIVE, read_inner(r));
    if (term != NULL && term->first->kind != EXG_TERM_NUMBER) {
        r->expression->is_srepr = false;
    }
    return term;
}

/* What stands between operands, how tightly, and what begins with another, before that one. */
static const struct sign {
    const char *text;
    exg_function_kind kind;
    int level;
} signs[] = {
    {"+", EXG_FN_ADD, 9},        {"-", EXG_FN_SUB, 9},      {"*", EXG_FN_MUL, 10},
    {"//", EXG_FN_FLOORDIV, 10}, {"/", EXG_FN_TRUEDIV, 10}, {"%", EXG_FN_MOD, 10},
    {"<<", EXG_FN_LSHIFT, 8},    {">>", EXG_FN_RSHIFT, 8},  {"&", EXG_FN_BITAND, 7},
    {"^", EXG_FN_BITXOR, 6},     {"|", EXG_FN_BITOR, 5},    {"==", EXG_FN_EQ, 4},
    {"!=", EXG_FN_NE, 4},        {"<=", EXG_FN_LE, 4},      {">=", EXG_FN_GE, 4},
    {"<", EXG_FN_LT, 4},         {">", EXG_FN_GT, 4},       {"and", EXG_FN_AND, 2},
    {"or", EXG_FN_OR, 1},
};

enum { WEAKEST = 1, NOT = 3, COMPARISON = 4, TIGHTEST = 10 };

/* The sign that comes next, taken if its level is one of these. */
static const struct sign *take_sign(reader *r, int least, int most)
{
    char next = exg_scan_next(&r->scan);

    if (next == ',' || next == ')' || next == '\0') {
        return NULL;
    }
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
        if (signs[i].level >= least && signs[i].level <= most &&
            (exg_is_word(signs[i].text[0]) ? exg_scan_take_word(&r->scan, signs[i].text)
                                           : exg_scan_take(&r->scan, signs[i].text))) {
            return &signs[i];
        }
    }
    return NULL;
}

static exg_term *read_signs(reader *r, int least);

/* Any number of "not" in front of a comparison: one or two give the same. */
static exg_term *read_not(reader *r)
{
    uint32_t count = 1;
    exg_term *term;

    r->expression->is_srepr = false;
    while (exg_scan_take_word(&r->scan, "not")) {
        count++;
    }
    term = read_signs(r, COMPARISON);
    for (count = count > 2 ? 2 - count % 2 : count; count > 0; count--) {
        term = signed_term(r, EXG_TERM_NOT, term);
    }
    return term;
}

/* Operands joined by signs of level `least` and tighter. */
static exg_term *read_signs(reader *r, int least)
{
    bool negates = least <= NOT && exg_scan_take_word(&r->scan, "not");
    exg_term *left = negates ? read_not(r) : read_unary(r);
    operands chain = {NULL, NULL};
    const struct sign *last = NULL;
    const struct sign *sign;
    int most = negates ? NOT : TIGHTEST;

    while (left != NULL && (sign = take_sign(r, least, most)) != NULL) {
        exg_term *right = read_signs(r, sign->level + 1);

        r->expression->is_srepr = false;
        if (last == NULL || last->level != sign->level) {
            chain = (operands){new_term(r, EXG_TERM_CHAIN, left->text, 0), NULL};
            if (chain.of != NULL) {
                add_operand(&chain, left);
            }
            left = chain.of;
        }
        if (right == NULL || left == NULL) {
            return NULL;
        }
        right->sign = (uint8_t)sign->kind;
        add_operand(&chain, right);
        last = sign;
        most = sign->level == COMPARISON ? COMPARISON - 1 : sign->level; /* of those one alone */
    }
    return left;
}

static exg_term *read_choice(reader *r)
{
    exg_term *term = read_signs(r, WEAKEST);
    operands choice = {NULL, NULL};
    exg_term *condition, *other;

    if (term == NULL || !exg_scan_take_word(&r->scan, "if")) {
        return term;
    }
    r->expression->is_srepr = false;
    condition = read_signs(r, WEAKEST);
    if (condition == NULL) {
        return NULL;
    }
    if (!exg_scan_take_word(&r->scan, "else")) {
        return syntax(r, "'else'");
    }
    other = read_expr(r);
    choice.of = other == NULL ? NULL : new_term(r, EXG_TERM_CHOICE, term->text, 0);
    if (choice.of != NULL) {
        add_operand(&choice, term);
        add_operand(&choice, condition);
        add_operand(&choice, other);
    }
    return choice.of;
}

static exg_term *read_expr(reader *r)
{
    exg_term *term;

    if (r->depth >= DEPTH_MAX) {
        return too_deep(r);
    }
    r->depth++;
    term = read_choice(r);
    r->depth--;
    return term;
}

/* ---- interface ---------------------------------------------------------------------------- */

exg_status exg_expression_parse(exg_arena *arena, const char *text, exg_expression *expression,
                                exg_error *err)
{
    reader r = {.scan = {text, EXG_SCAN_BLANKS},
                .arena = arena,
                .expression = expression,
                .status = EXG_OK,
                .err = err};

    *expression = (exg_expression){.text = text, .is_srepr = true};
    expression->root = read_expr(&r);
    if (expression->root != NULL && exg_scan_next(&r.scan) != '\0') {
        expression->root = syntax(&r, "the end");
    }
    return r.status;
}

exg_status exg_expression_check(const exg_expression *expression, exg_error *err)
{
    exg_number number;

    return exg_expression_evaluate(expression, NULL, &number, err);
}

void exg_expression_visit(const exg_expression *expression,
                          void (*visit)(void *user, const char *name, size_t length), void *user)
{
    for (const exg_term *s = expression->symbols; s != NULL; s = s->first) {
        visit(user, s->text, s->length);
    }
}

const exg_term *exg_expression_symbol(const exg_expression *expression)
{
    return expression->root != NULL && expression->root->kind == EXG_TERM_SYMBOL ? expression->root
                                                                                 : NULL;
}

void exg_expression_rename(const exg_expression *expression, exg_text *out, exg_put_symbol *put,
                           void *user)
{
    const char *at = expression->text;

    for (const exg_term *s = expression->symbols; s != NULL; s = s->first) {
        exg_text_add(out, at, (size_t)(s->text - at));
        put(user, s, out);
        at = s->text + s->length;
    }
    exg_text_puts(out, at);
}

void exg_expressions_init(exg_expressions *expressions, exg_arena *arena)
{
    *expressions = (exg_expressions){.arena = arena};
    exg_map_init(&expressions->by_text, arena);
}

exg_status exg_expressions_find(exg_expressions *expressions, const char *text,
                                const exg_expression **found, exg_error *err)
{
    exg_expressions *e = expressions;
    uint32_t index = exg_map_find(&e->by_text, text);

    if (index == EXG_MAP_NONE) {
        index = e->count;
        if (!exg_arena_reserve(e->arena, &e->items, index, &e->capacity, sizeof(*e->items))) {
            return EXG_OUT_OF_MEMORY(err);
        }
        e->items[index] = EXG_NEW(e->arena, exg_expression);
        if (e->items[index] == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        EXG_TRY(exg_expression_parse(e->arena, text, e->items[index], err));
        if (!exg_map_put(&e->by_text, text, index)) {
            return EXG_OUT_OF_MEMORY(err);
        }
        e->count++;
    }
    *found = e->items[index];
    return EXG_OK;
}
