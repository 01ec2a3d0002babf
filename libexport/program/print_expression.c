/* print_expression.c - symbolic sizes the way sympy prints them.
 *
 * Each printer appends its text and answers how tightly it binds, so that whoever stands
 * around it can put parentheses.
 */
#include "libexport/base/arena.h"
#include "libexport/program/expression.h"
#include "libexport/program/print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct printer {
    exg_text *out;
    exg_put_symbol *put;
    void *user;
    const exg_term *root;
    bool failed; /* sympy writes no such srepr */
} printer;

static exg_binding_strength print_term(printer *p, const exg_term *term);

/* Puts parentheses around what was appended since `start`. */
static void wrap(exg_text *out, size_t start)
{
    exg_text_puts(out, "()");
    if (!out->failed) {
        memmove(out->data + start + 1, out->data + start, out->length - 2 - start);
        out->data[start] = '(';
        out->data[out->length - 1] = ')';
    }
}

static void print_bound(printer *p, const exg_term *term, exg_binding_strength outer)
{
    size_t start = p->out->length;

    if (print_term(p, term) < outer) {
        wrap(p->out, start);
    }
}

/* Fifteen digits as mpmath lays them out: zeros at the end where `all`. snprintf may print a
 * locale's decimal sign, so digits are taken one by one. */
static void put_digits(exg_text *out, double value, bool all)
{
    char raw[40], digits[20];
    int count = 0;
    int exponent;
    const char *c = raw;

    snprintf(raw, sizeof(raw), "%.14e", value);
    for (; *c != 'e'; c++) {
        if (*c >= '0' && *c <= '9') {
            digits[count++] = *c;
        }
    }
    exponent = (int)strtol(c + 1, NULL, 10);
    while (!all && count > 1 && digits[count - 1] == '0') {
        count--;
    }
    if (exponent < -4 || exponent >= 15) {
        exg_text_printf(out, "%c.%.*s%se%+d", digits[0], count - 1, digits + 1,
                        count == 1 ? "0" : "", exponent);
        return;
    }
    exg_text_puts(out, exponent < 0 ? "0." : "");
    for (int i = exponent; i < -1; i++) {
        exg_text_putc(out, '0');
    }
    for (int i = 0; i < count || (i <= exponent + 1 && !all); i++) {
        exg_text_puts(out, i == exponent + 1 && exponent >= 0 ? "." : "");
        exg_text_putc(out, i < count ? digits[i] : '0');
    }
    exg_text_puts(out, all && exponent == 14 ? "." : "");
}

static exg_binding_strength print_real(printer *p, const exg_term *term)
{
    double value = term->number.f;

    exg_text_puts(p->out, signbit(value) ? "-" : "");
    if (isfinite(value)) {
        put_digits(p->out, fabs(value), term == p->root && value != 0);
    } else {
        exg_text_puts(p->out, isnan(value) ? "nan" : "oo");
    }
    return value < 0 ? EXG_BINDS_ADD : EXG_BINDS_ATOM;
}

/* ---- numbers ------------------------------------------------------------------------------ */

/* Is it "3" or "-3"? */
static bool is_literal(const exg_term *term)
{
    return term->kind == EXG_TERM_NUMBER ||
           (term->kind == EXG_TERM_NEGATIVE && term->first->kind == EXG_TERM_NUMBER);
}

/* The digits as they are; a minus sign in front binds like a sum's. */
static exg_binding_strength print_literal(printer *p, const exg_term *term)
{
    const exg_term *digits = term->kind == EXG_TERM_NEGATIVE ? term->first : term;

    if (!is_literal(term)) {
        p->failed = true;
        return EXG_BINDS_ATOM;
    }
    exg_text_puts(p->out, digits != term ? "-" : "");
    exg_text_add(p->out, digits->text, digits->length);
    return digits != term ? EXG_BINDS_ADD : EXG_BINDS_ATOM;
}

/* The value of Integer(-3), or of -3 in Rational(-3, 2). */
static bool integer_of(const exg_term *term, int64_t *value)
{
    const exg_term *digits = term->kind == EXG_TERM_NEGATIVE ? term->first : term;

    *value = 0;
    return is_literal(term) && !digits->number.is_float && !digits->overflows &&
           !__builtin_mul_overflow(digits->number.i, digits != term ? -1 : 1, value);
}

static bool has_its_arguments(const exg_term *term)
{
    return term->count >= term->function->least && term->count <= term->function->most;
}

static bool is_form(const exg_term *term, exg_form form)
{
    return term->kind == EXG_TERM_CALL && term->function != NULL && term->function->form == form &&
           has_its_arguments(term);
}

static bool is_minus_one(const exg_term *term)
{
    int64_t value;

    return is_form(term, EXG_FORM_LITERAL) && integer_of(term->first, &value) && value == -1;
}

/* Rational(-1, 2): "-1/2". */
static exg_binding_strength print_ratio(printer *p, const exg_term *term)
{
    exg_binding_strength binds = print_literal(p, term->first);

    exg_text_putc(p->out, '/');
    (void)print_literal(p, term->first->next);
    return binds == EXG_BINDS_ADD ? EXG_BINDS_ADD : EXG_BINDS_MUL;
}

/* ---- arithmetic --------------------------------------------------------------------------- */

static exg_binding_strength print_sum(printer *p, const exg_term *term)
{
    exg_text *out = p->out;

    for (const exg_term *arg = term->first; arg != NULL; arg = arg->next) {
        size_t sign = out->length;
        size_t start;
        exg_binding_strength binds;

        exg_text_puts(out, arg == term->first ? "" : " + ");
        start = out->length;
        binds = print_term(p, arg);
        if (arg != term->first && !out->failed && out->data[start] == '-') { /* "- x" */
            out->data[sign + 1] = '-';
            memmove(out->data + start, out->data + start + 1, out->length - start);
            out->length--;
        } else if (binds < EXG_BINDS_ADD) {
            wrap(out, start);
        }
    }
    return EXG_BINDS_ADD;
}

/* A product as sign, numerator, denominator. */
typedef struct fraction {
    exg_text above, below;
    unsigned above_count, below_count;
    int64_t coefficient;
} fraction;

static void multiply(printer *p, fraction *f, const exg_term *number)
{
    int64_t value;

    p->failed = p->failed || !integer_of(number, &value) ||
                __builtin_mul_overflow(f->coefficient, value, &f->coefficient);
}

/* `factor` as printed by itself. */
static void add_factor(printer *p, exg_text *side, unsigned *count, const exg_term *factor)
{
    exg_text *out = p->out;

    exg_text_puts(side, (*count)++ == 0 ? "" : "*");
    p->out = side;
    print_bound(p, factor, EXG_BINDS_MUL);
    p->out = out;
}

static void read_factor(printer *p, fraction *f, const exg_term *factor)
{
    if (is_form(factor, EXG_FORM_LITERAL)) {
        multiply(p, f, factor->first);
    } else if (is_form(factor, EXG_FORM_RATIO) && is_literal(factor->first->next)) {
        multiply(p, f, factor->first);
        add_factor(p, &f->below, &f->below_count, factor->first->next);
    } else if (is_form(factor, EXG_FORM_POWER) &&
               is_minus_one(factor->first->next)) { /* belongs below the line */
        add_factor(p, &f->below, &f->below_count, factor->first);
    } else {
        add_factor(p, &f->above, &f->above_count, factor);
    }
}

static exg_binding_strength print_product(printer *p, const exg_term *term)
{
    fraction f = {EXG_TEXT_EMPTY, EXG_TEXT_EMPTY, 0, 0, 1};
    exg_text *out = p->out;
    bool negative;
    const char *above, *below;
    uint64_t size;

    for (const exg_term *factor = term->first; factor != NULL; factor = factor->next) {
        read_factor(p, &f, factor);
    }
    above = exg_text_part(out, &f.above);
    below = exg_text_part(out, &f.below);
    negative = f.coefficient < 0;
    size = negative ? -(uint64_t)f.coefficient : (uint64_t)f.coefficient;
    exg_text_puts(out, negative ? "-" : "");
    if (size != 1) {
        exg_text_printf(out, "%" PRIu64 "%s", size, f.above_count > 0 ? "*" : "");
    } else if (f.above_count == 0) {
        exg_text_putc(out, '1');
    }
    exg_text_puts(out, above);
    if (f.below_count > 0) {
        exg_text_printf(out, f.below_count > 1 ? "/(%s)" : "/%s", below);
    }
    exg_text_free(&f.above);
    exg_text_free(&f.below);
    return negative ? EXG_BINDS_ADD : EXG_BINDS_MUL;
}

static exg_binding_strength print_power(printer *p, const exg_term *term)
{
    const exg_term *exponent = term->first->next;
    size_t start;

    exg_text_puts(p->out, is_minus_one(exponent) ? "1/" : "");
    print_bound(p, term->first, EXG_BINDS_POW + 1);
    if (is_minus_one(exponent)) {
        return EXG_BINDS_POW;
    }
    exg_text_puts(p->out, "**");
    start = p->out->length;
    if (print_term(p, exponent) < EXG_BINDS_POW) {
        wrap(p->out, start);
    }
    return EXG_BINDS_POW;
}

static exg_binding_strength print_quotient(printer *p, const exg_term *term)
{
    exg_text_putc(p->out, '(');
    print_bound(p, term->first, EXG_BINDS_ATOM);
    exg_text_puts(p->out, "//");
    print_bound(p, term->first->next, EXG_BINDS_ATOM);
    exg_text_putc(p->out, ')');
    return EXG_BINDS_RELATION;
}

/* ---- calls -------------------------------------------------------------------------------- */

static void print_infix(printer *p, const exg_term *term, const char *sign)
{
    for (const exg_term *arg = term->first; arg != NULL; arg = arg->next) {
        exg_text_puts(p->out, arg == term->first ? "" : sign);
        print_bound(p, arg, EXG_BINDS_RELATION + 1); /* sympy is generous with parentheses here */
    }
}

static void print_named(printer *p, const exg_term *term, const char *name, size_t length)
{
    exg_text_add(p->out, name, length);
    exg_text_putc(p->out, '(');
    for (const exg_term *arg = term->first; arg != NULL; arg = arg->next) {
        exg_text_puts(p->out, arg == term->first ? "" : ", ");
        (void)print_term(p, arg);
    }
    exg_text_putc(p->out, ')');
}

static exg_binding_strength print_call(printer *p, const exg_term *term)
{
    const exg_function *function = term->function;

    if (function == NULL || function->form == EXG_FORM_NAMED) {
        print_named(p, term, function == NULL ? term->text : function->text,
                    function == NULL ? term->length : strlen(function->text));
        return function == NULL ? EXG_BINDS_ATOM : function->binds;
    }
    if (!has_its_arguments(term)) {
        p->failed = true;
        return EXG_BINDS_ATOM;
    }
    switch (function->form) {
    case EXG_FORM_LITERAL:
        return print_literal(p, term->first);
    case EXG_FORM_RATIO:
        return print_ratio(p, term);
    case EXG_FORM_SUM:
        return print_sum(p, term);
    case EXG_FORM_PRODUCT:
        return print_product(p, term);
    case EXG_FORM_POWER:
        return print_power(p, term);
    case EXG_FORM_QUOTIENT:
        return print_quotient(p, term);
    default:
        print_infix(p, term, function->text);
        return function->binds;
    }
}

static exg_binding_strength print_term(printer *p, const exg_term *term)
{
    switch (term->kind) {
    case EXG_TERM_REAL:
        return print_real(p, term);
    case EXG_TERM_CONSTANT:
        exg_text_puts(p->out, term->number.i != 0 ? "True" : "False");
        return EXG_BINDS_ATOM;
    case EXG_TERM_SYMBOL:
        p->put(p->user, term, p->out);
        return EXG_BINDS_ATOM;
    case EXG_TERM_CALL:
        return print_call(p, term);
    default: /* a srepr has no signs */
        return print_literal(p, term);
    }
}

/* ---- interface ---------------------------------------------------------------------------- */

static void put_name(void *user, const exg_term *symbol, exg_text *out)
{
    (void)user;
    exg_text_add(out, symbol->text, symbol->length);
}

void exg_expression_print(const exg_expression *expression, exg_text *out, exg_put_symbol *put,
                          void *user)
{
    exg_text text = EXG_TEXT_EMPTY;
    printer p = {&text, put == NULL ? put_name : put, user, expression->root, false};
    const char *printed;

    if (expression->root != NULL && expression->is_srepr) {
        (void)print_term(&p, expression->root);
    }
    printed = exg_text_part(out, &text);
    if (expression->root == NULL || !expression->is_srepr || p.failed) {
        exg_expression_rename(expression, out, p.put, user);
    } else {
        exg_text_puts(out, printed);
    }
    exg_text_free(&text);
}

void exg_print_renamed(exg_text *out, const char *expr, exg_put_symbol *put, void *user)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_expression expression = {.text = expr};

    if (arena == NULL || exg_expression_parse(arena, expr, &expression, NULL) == EXG_NO_MEMORY) {
        out->failed = true;
    }
    exg_expression_print(&expression, out, put, user);
    exg_arena_destroy(arena);
}

void exg_print_expression(exg_text *out, const char *expr)
{
    exg_print_renamed(out, expr, NULL, NULL);
}
