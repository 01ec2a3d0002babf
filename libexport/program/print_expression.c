/* print_expression.c - symbolic sizes the way sympy prints them.
 *
 * One pass over srepr text: Name(argument, ...), numbers, quoted strings, keyword
 * arguments. Each printer appends its text and answers how tightly it binds, so
 * that whoever stands around it can put parentheses.
 */
#include "libexport/program/print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64

/* sympy.printing.precedence */
enum { LEAST = 10, OR = 20, AND = 30, RELATION = 35, ADD = 40, MUL = 50, POW = 60, ATOM = 1000 };

typedef struct reader {
    const char *at;
    bool failed;
    int depth;
} reader;

static int print_term(reader *r, exg_text *out);

static void skip_spaces(reader *r)
{
    r->at += strspn(r->at, " ");
}

static bool take(reader *r, char c)
{
    skip_spaces(r);
    if (*r->at != c) {
        return false;
    }
    r->at++;
    return true;
}

static void expect(reader *r, char c)
{
    if (!take(r, c)) {
        r->failed = true;
    }
}

static size_t name_length(const char *at)
{
    size_t n = 0;

    while ((at[n] >= 'a' && at[n] <= 'z') || (at[n] >= 'A' && at[n] <= 'Z') || at[n] == '_' ||
           at[n] == '.' || (n > 0 && at[n] >= '0' && at[n] <= '9')) {
        n++;
    }
    return n;
}

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

static void print_bound(reader *r, exg_text *out, int outer)
{
    size_t start = out->length;

    if (print_term(r, out) < outer) {
        wrap(out, start);
    }
}

/* Skips ", keyword=value" parts up to the closing parenthesis. */
static void finish_literal(reader *r)
{
    while (!r->failed && take(r, ',')) {
        skip_spaces(r);
        r->at += strcspn(r->at, ",)");
    }
    expect(r, ')');
}

/* 'text' or "text" */
static void print_quoted(reader *r, exg_text *out)
{
    char quote;
    size_t length;

    skip_spaces(r);
    quote = *r->at;
    if (quote != '\'' && quote != '"') {
        r->failed = true;
        return;
    }
    length = strcspn(r->at + 1, quote == '"' ? "\"" : "'");
    if (r->at[length + 1] != quote) {
        r->failed = true;
        return;
    }
    exg_text_add(out, r->at + 1, length);
    r->at += length + 2;
}

static void print_number(reader *r, exg_text *out)
{
    size_t length;

    skip_spaces(r);
    length = strspn(r->at, "+-0123456789.eE");
    if (length == 0) {
        r->failed = true;
    }
    exg_text_add(out, r->at, length);
    r->at += length;
}

/* A minus sign in front binds like a sum's. */
static int print_signed(reader *r, exg_text *out)
{
    size_t start = out->length;

    print_number(r, out);
    return !out->failed && out->length > start && out->data[start] == '-' ? ADD : ATOM;
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

/* Float('0.1', precision=53) */
static int print_real(reader *r, exg_text *out)
{
    exg_text quoted = EXG_TEXT_EMPTY;
    double value;

    print_quoted(r, &quoted);
    finish_literal(r);
    value = exg_text_to_double(exg_text_part(out, &quoted), NULL);
    exg_text_free(&quoted);
    exg_text_puts(out, signbit(value) ? "-" : "");
    if (isfinite(value)) {
        put_digits(out, fabs(value), r->depth == 1 && value != 0);
    } else {
        exg_text_puts(out, isnan(value) ? "nan" : "oo");
    }
    return value < 0 ? ADD : ATOM;
}

/* Rational(-1, 2): "-1/2". */
static int print_ratio(reader *r, exg_text *out)
{
    int binds = print_signed(r, out);

    expect(r, ',');
    exg_text_putc(out, '/');
    print_number(r, out);
    expect(r, ')');
    return binds == ADD ? ADD : MUL;
}

static int print_add(reader *r, exg_text *out)
{
    bool first = true;

    do {
        size_t start;
        size_t sign = out->length;
        int binds;

        exg_text_puts(out, first ? "" : " + ");
        start = out->length;
        binds = print_term(r, out);
        if (!first && !out->failed && out->data[start] == '-') { /* "+ -x" is "- x" */
            out->data[sign + 1] = '-';
            memmove(out->data + start, out->data + start + 1, out->length - start);
            out->length--;
        } else if (binds < ADD) {
            wrap(out, start);
        }
        first = false;
    } while (!r->failed && take(r, ','));
    expect(r, ')');
    return ADD;
}

/* A product as sign, numerator, denominator. */
typedef struct product {
    exg_text above, below;
    unsigned above_count, below_count;
    long long coefficient;
} product;

static void factor_text(exg_text *side, unsigned *count, const exg_text *text)
{
    exg_text_puts(side, (*count)++ == 0 ? "" : "*");
    exg_text_puts(side, exg_text_part(side, text));
}

/* Does the term at hand begin `word`( ? Then it is taken. */
static bool take_call(reader *r, const char *word)
{
    size_t length = strlen(word);

    skip_spaces(r);
    if (strncmp(r->at, word, length) != 0 || r->at[length] != '(') {
        return false;
    }
    r->at += length + 1;
    return true;
}

/* Does ", Integer(-1))" follow? Then it is taken. */
static bool take_minus_one(reader *r)
{
    reader ahead = *r;
    bool found = take(&ahead, ',') && take_call(&ahead, "Integer") && take(&ahead, '-') &&
                 take(&ahead, '1') && take(&ahead, ')') && take(&ahead, ')');

    r->at = found ? ahead.at : r->at;
    return found;
}

/* Pow(x, Integer(-1)) belongs below the line. */
static bool is_reciprocal(const reader *r)
{
    reader ahead = *r;
    exg_text base = EXG_TEXT_EMPTY;
    bool found = false;

    if (take_call(&ahead, "Pow")) {
        print_term(&ahead, &base);
        found = !ahead.failed && take_minus_one(&ahead);
    }
    exg_text_free(&base);
    return found;
}

static void read_factor(reader *r, product *p)
{
    exg_text text = EXG_TEXT_EMPTY;
    char *end;

    if (take_call(r, "Integer")) {
        long long value = strtoll(r->at, &end, 10);

        if (__builtin_mul_overflow(p->coefficient, value, &p->coefficient)) {
            r->failed = true;
        }
        r->at = end;
        expect(r, ')');
    } else if (take_call(r, "Rational")) {
        long long value = strtoll(r->at, &end, 10);

        if (__builtin_mul_overflow(p->coefficient, value, &p->coefficient)) {
            r->failed = true;
        }
        r->at = end;
        expect(r, ',');
        print_number(r, &text);
        factor_text(&p->below, &p->below_count, &text);
        expect(r, ')');
    } else if (is_reciprocal(r)) {
        (void)take_call(r, "Pow");
        print_bound(r, &text, MUL);
        factor_text(&p->below, &p->below_count, &text);
        r->at = strchr(r->at, ')') + 1; /* of Integer(-1) */
        expect(r, ')');
    } else {
        print_bound(r, &text, MUL);
        factor_text(&p->above, &p->above_count, &text);
    }
    exg_text_free(&text);
}

static int print_mul(reader *r, exg_text *out)
{
    product p = {EXG_TEXT_EMPTY, EXG_TEXT_EMPTY, 0, 0, 1};
    bool negative;
    const char *above;
    const char *below;

    do {
        read_factor(r, &p);
    } while (!r->failed && take(r, ','));
    expect(r, ')');
    above = exg_text_part(out, &p.above);
    below = exg_text_part(out, &p.below);
    negative = p.coefficient < 0;
    exg_text_puts(out, negative ? "-" : "");
    if (p.coefficient != 1 && p.coefficient != -1) {
        exg_text_printf(out, "%lld%s", p.coefficient < 0 ? -p.coefficient : p.coefficient,
                        p.above_count > 0 ? "*" : "");
    } else if (p.above_count == 0) {
        exg_text_putc(out, '1');
    }
    exg_text_puts(out, above);
    if (p.below_count > 0) {
        exg_text_printf(out, p.below_count > 1 ? "/(%s)" : "/%s", below);
    }
    exg_text_free(&p.above);
    exg_text_free(&p.below);
    return negative ? ADD : MUL;
}

static int print_pow(reader *r, exg_text *out)
{
    size_t start = out->length;

    if (print_term(r, out) <= POW) {
        wrap(out, start);
    }
    if (take_minus_one(r)) {
        exg_text base = EXG_TEXT_EMPTY;

        exg_text_puts(&base, out->failed ? "" : out->data + start);
        out->length = start;
        exg_text_printf(out, "1/%s", exg_text_part(out, &base));
        exg_text_free(&base);
        return POW;
    }
    expect(r, ',');
    exg_text_puts(out, "**");
    start = out->length;
    if (print_term(r, out) < POW) {
        wrap(out, start);
    }
    expect(r, ')');
    return POW;
}

static int print_floor_div(reader *r, exg_text *out)
{
    exg_text_putc(out, '(');
    print_bound(r, out, ATOM);
    expect(r, ',');
    exg_text_puts(out, "//");
    print_bound(r, out, ATOM);
    expect(r, ')');
    exg_text_putc(out, ')');
    return RELATION;
}

static int print_infix(reader *r, exg_text *out, const char *symbol, int binds)
{
    bool first = true;

    do {
        exg_text_puts(out, first ? "" : symbol);
        print_bound(r, out, RELATION + 1); /* sympy is generous with parentheses here */
        first = false;
    } while (!r->failed && take(r, ','));
    expect(r, ')');
    return binds;
}

static int print_call(reader *r, exg_text *out, const char *name, size_t length)
{
    bool first = true;

    exg_text_add(out, name, length);
    exg_text_putc(out, '(');
    while (!r->failed && !take(r, ')')) {
        if (!first) {
            expect(r, ',');
            exg_text_puts(out, ", ");
        }
        print_term(r, out);
        first = false;
    }
    exg_text_putc(out, ')');
    return ATOM;
}

/* What is not Name(a, b): its printer, the sign between, how it binds. */
static const struct form {
    const char *name;
    enum { LITERAL, QUOTED, REAL, RATIO, PLUS, TIMES, POWER, FLOOR, INFIX, RENAMED } kind;
    const char *text;
    int binds;
} forms[] = {
    {"Symbol", QUOTED, NULL, ATOM},
    {"Integer", LITERAL, NULL, ATOM},
    {"Float", REAL, NULL, ATOM},
    {"Rational", RATIO, NULL, MUL},
    {"Add", PLUS, NULL, ADD},
    {"Mul", TIMES, NULL, MUL},
    {"Pow", POWER, NULL, POW},
    {"FloorDiv", FLOOR, NULL, RELATION},
    {"CleanDiv", FLOOR, NULL, RELATION},
    {"LessThan", INFIX, " <= ", RELATION},
    {"GreaterThan", INFIX, " >= ", RELATION},
    {"StrictLessThan", INFIX, " < ", RELATION},
    {"StrictGreaterThan", INFIX, " > ", RELATION},
    {"And", INFIX, " & ", AND},
    {"Or", INFIX, " | ", OR},
    {"Equality", RENAMED, "Eq", ATOM},
    {"Unequality", RENAMED, "Ne", ATOM},
    {"ExprCondPair", RENAMED, "", ATOM},
    {"Identity", RENAMED, "", LEAST},
    {"Mod", RENAMED, "Mod", RELATION}, /* PyTorch's own binding, below a sum's */
    {"PythonMod", RENAMED, "PythonMod", RELATION},
    {"ModularIndexing", RENAMED, "ModularIndexing", RELATION},
    {"Where", RENAMED, "Where", RELATION},
    {"FloatTrueDiv", RENAMED, "FloatTrueDiv", RELATION},
    {"IntTrueDiv", RENAMED, "IntTrueDiv", RELATION},
    {"PowByNatural", RENAMED, "PowByNatural", MUL},
    {"FloatPow", RENAMED, "FloatPow", POW},
};

static int print_form(reader *r, exg_text *out, const struct form *form)
{
    switch (form->kind) {
    case LITERAL: {
        int binds = print_signed(r, out);

        finish_literal(r);
        return binds;
    }
    case QUOTED:
        print_quoted(r, out);
        finish_literal(r);
        return ATOM;
    case PLUS:
        return print_add(r, out);
    case TIMES:
        return print_mul(r, out);
    case POWER:
        return print_pow(r, out);
    case FLOOR:
        return print_floor_div(r, out);
    case INFIX:
        return print_infix(r, out, form->text, form->binds);
    case REAL:
        return print_real(r, out);
    case RATIO:
        return print_ratio(r, out);
    case RENAMED:
        print_call(r, out, form->text, strlen(form->text));
        return form->binds;
    }
    return ATOM;
}

static int print_named(reader *r, exg_text *out)
{
    size_t length = name_length(r->at);
    const char *name = r->at;

    if (length == 0) {
        return print_signed(r, out);
    }
    r->at += length;
    if (!take(r, '(')) {
        bool truth = length == 4 && strncmp(name, "true", 4) == 0;
        bool falsity = length == 5 && strncmp(name, "false", 5) == 0;

        if (!truth && !falsity) {
            r->failed = true; /* a bare name: not srepr */
        }
        exg_text_puts(out, truth ? "True" : "False");
        return ATOM;
    }
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (strlen(forms[i].name) == length && strncmp(forms[i].name, name, length) == 0) {
            return print_form(r, out, &forms[i]);
        }
    }
    return print_call(r, out, name, length);
}

static int print_term(reader *r, exg_text *out)
{
    int binds;

    if (r->failed || r->depth == DEPTH_MAX) {
        r->failed = true;
        return ATOM;
    }
    r->depth++;
    skip_spaces(r);
    binds = print_named(r, out);
    r->depth--;
    return binds;
}

void exg_print_expression(exg_text *out, const char *expr)
{
    reader r = {expr, false, 0};
    exg_text text = EXG_TEXT_EMPTY;
    const char *printed;

    print_term(&r, &text);
    skip_spaces(&r);
    printed = exg_text_part(out, &text);
    exg_text_puts(out, r.failed || *r.at != '\0' ? expr : printed);
    exg_text_free(&text);
}
