/* evaluator.c - what operations and functions on sizes give: PyTorch's sympy functions
 * (torch/utils/_sympy/functions.py) and Python's by the names its guards are printed with. */
#include "libexport/program/expression.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* What is evaluated. */
typedef struct evaluator {
    const char *text;
    const exg_symbols *symbols; /* NULL: only looked at, no number counts */
    bool condition;             /* of the ExprCondPair evaluated last */
    exg_error *err;
} evaluator;

static exg_number number_int(int64_t value)
{
    return (exg_number){false, {.i = value}};
}

static exg_number number_float(double value)
{
    return (exg_number){true, {.f = value}};
}

static bool number_true(exg_number n)
{
    return n.is_float ? n.f != 0 : n.i != 0;
}

static exg_status overflow(evaluator *e)
{
    return EXG_FAIL(e->err, LIMIT, "SYM-010", "expression '%.120s' leaves 64 bits", e->text);
}

static exg_status arithmetic(evaluator *e, exg_function_kind sign, exg_number a, exg_number b,
                             exg_number *out)
{
    bool wrapped = false;

    if (a.is_float || b.is_float) {
        double x = exg_number_real(a);
        double y = exg_number_real(b);

        *out = number_float(sign == EXG_FN_ADD ? x + y : sign == EXG_FN_SUB ? x - y : x * y);
        return EXG_OK;
    }
    *out = number_int(0);
    switch (sign) {
    case EXG_FN_ADD:
        wrapped = __builtin_add_overflow(a.i, b.i, &out->i);
        break;
    case EXG_FN_SUB:
        wrapped = __builtin_sub_overflow(a.i, b.i, &out->i);
        break;
    default:
        wrapped = __builtin_mul_overflow(a.i, b.i, &out->i);
    }
    return wrapped ? overflow(e) : EXG_OK;
}

static exg_status undefined(evaluator *e, const char *what)
{
    return EXG_FAIL(e->err, MALFORMED, "SYM-011", "expression '%.120s' %s", e->text, what);
}

/* Python's // and %, towards minus infinity. */
static exg_status divide(evaluator *e, bool remainder, exg_number a, exg_number b, exg_number *out)
{
    int64_t quotient;

    if (a.is_float || b.is_float) {
        double floored = floor(exg_number_real(a) / exg_number_real(b));

        *out =
            number_float(remainder ? exg_number_real(a) - floored * exg_number_real(b) : floored);
        return EXG_OK;
    }
    if (e->symbols == NULL) { /* only read: symbols have no numbers */
        *out = number_int(1);
        return EXG_OK;
    }
    if (b.i == 0 || (a.i == INT64_MIN && b.i == -1)) {
        return undefined(e, "divides by zero");
    }
    quotient = a.i / b.i - (a.i % b.i != 0 && (a.i < 0) != (b.i < 0));
    *out = number_int(remainder ? a.i - quotient * b.i : quotient);
    return EXG_OK;
}

static exg_status power(evaluator *e, exg_number a, exg_number b, exg_number *out)
{
    if (a.is_float || b.is_float || b.i < 0) {
        *out = number_float(pow(exg_number_real(a), exg_number_real(b)));
        return EXG_OK;
    }
    *out = number_int(1);
    for (int64_t i = 0; i < b.i && !(out->i >= -1 && out->i <= 1 && i > 1); i++) {
        EXG_TRY(arithmetic(e, EXG_FN_MUL, *out, a, out));
    }
    if (a.i == -1) {
        *out = number_int(b.i % 2 == 0 ? 1 : -1);
    }
    return EXG_OK;
}

static bool compare(exg_function_kind kind, exg_number a, exg_number b)
{
    bool real = a.is_float || b.is_float;
    double x = exg_number_real(a);
    double y = exg_number_real(b);

    switch (kind) {
    case EXG_FN_EQ:
        return real ? x == y : a.i == b.i;
    case EXG_FN_NE:
        return real ? x != y : a.i != b.i;
    case EXG_FN_LE:
        return real ? x <= y : a.i <= b.i;
    case EXG_FN_LT:
        return real ? x < y : a.i < b.i;
    case EXG_FN_GE:
        return real ? x >= y : a.i >= b.i;
    default:
        return real ? x > y : a.i > b.i;
    }
}

static exg_status to_integer(evaluator *e, double value, exg_number *out)
{
    if (!(value >= -0x1p63 && value < 0x1p63)) {
        *out = number_int(1);
        return e->symbols == NULL ? EXG_OK : overflow(e);
    }
    *out = number_int((int64_t)value);
    return EXG_OK;
}

/* Of real numbers alone: integers stay as they are, whole to the last bit. */
static exg_status to_whole(evaluator *e, double (*whole)(double), exg_number arg, exg_number *out)
{
    *out = arg;
    return arg.is_float ? to_integer(e, whole(arg.f), out) : EXG_OK;
}

/* Python's round(x, digits): the nearest decimal, of two the even one. */
static exg_status round_to(evaluator *e, exg_number x, exg_number digits, exg_number *out)
{
    long double scale = 1;

    if (e->symbols == NULL || !x.is_float) {
        *out = x;
        return EXG_OK;
    }
    if (digits.is_float || digits.i < 0 || digits.i > DBL_DIG) {
        return undefined(e, "rounds to digits out of range");
    }
    for (int64_t i = 0; i < digits.i; i++) {
        scale *= 10;
    }
    *out = number_float((double)(rintl(x.f * scale) / scale));
    return EXG_OK;
}

static exg_status bits(evaluator *e, exg_function_kind kind, exg_number a, exg_number b,
                       exg_number *out)
{
    bool shifts = kind == EXG_FN_LSHIFT || kind == EXG_FN_RSHIFT;

    if (e->symbols == NULL) {
        *out = number_int(1);
        return EXG_OK;
    }
    if (a.is_float || b.is_float) {
        return undefined(e, "takes bits of a real number");
    }
    if (shifts && b.i < 0) {
        return undefined(e, "shifts by a negative number");
    }
    switch (kind) {
    case EXG_FN_BITAND:
        *out = number_int(a.i & b.i);
        return EXG_OK;
    case EXG_FN_BITOR:
        *out = number_int(a.i | b.i);
        return EXG_OK;
    case EXG_FN_BITXOR:
        *out = number_int(a.i ^ b.i);
        return EXG_OK;
    case EXG_FN_LSHIFT:
        if (b.i > 62) {
            *out = number_int(0);
            return a.i == 0 ? EXG_OK : overflow(e);
        }
        return arithmetic(e, EXG_FN_MUL, a, number_int((int64_t)1 << b.i), out);
    default:
        *out = number_int(a.i >> (b.i > 63 ? 63 : b.i));
        return EXG_OK;
    }
}

/* What a function of two arguments gives, or a sign between them. */
static exg_status operate(evaluator *e, exg_function_kind kind, exg_number a, exg_number b,
                          exg_number *out)
{
    switch (kind) {
    case EXG_FN_ADD:
    case EXG_FN_SUB:
    case EXG_FN_MUL:
        return arithmetic(e, kind, a, b, out);
    case EXG_FN_MIN:
    case EXG_FN_MAX:
        *out = compare(kind == EXG_FN_MIN ? EXG_FN_LE : EXG_FN_GE, a, b) ? a : b;
        return EXG_OK;
    case EXG_FN_AND:
        *out = number_int(number_true(a) && number_true(b));
        return EXG_OK;
    case EXG_FN_OR:
        *out = number_int(number_true(a) || number_true(b));
        return EXG_OK;
    case EXG_FN_POW:
        return power(e, a, b, out);
    case EXG_FN_MOD:
    case EXG_FN_FLOORDIV:
        return divide(e, kind == EXG_FN_MOD, a, b, out);
    case EXG_FN_CEILDIV:
        EXG_TRY(arithmetic(e, EXG_FN_SUB, number_int(0), a, &a));
        EXG_TRY(divide(e, false, a, b, &a));
        return arithmetic(e, EXG_FN_SUB, number_int(0), a, out);
    case EXG_FN_TRUEDIV:
        *out = number_float(exg_number_real(a) / exg_number_real(b));
        return EXG_OK;
    case EXG_FN_ROUND_TO:
        return round_to(e, a, b, out);
    case EXG_FN_BITAND:
    case EXG_FN_BITOR:
    case EXG_FN_BITXOR:
    case EXG_FN_LSHIFT:
    case EXG_FN_RSHIFT:
        return bits(e, kind, a, b, out);
    default:
        *out = number_int(compare(kind, a, b));
        return EXG_OK;
    }
}

static exg_status apply(evaluator *e, const exg_function *function, const exg_number *args,
                        uint32_t count, exg_number *out)
{
    switch (function->kind) {
    case EXG_FN_TOFLOAT:
        *out = number_float(exg_number_real(args[0]));
        return EXG_OK;
    case EXG_FN_REAL:
        *out = number_float(function->real(exg_number_real(args[0])));
        return EXG_OK;
    case EXG_FN_TRUNC:
        return to_whole(e, trunc, args[0], out);
    case EXG_FN_FLOOR:
        return to_whole(e, floor, args[0], out);
    case EXG_FN_CEIL:
        return to_whole(e, ceil, args[0], out);
    case EXG_FN_ROUND:
        return count == 2 ? round_to(e, args[0], args[1], out) : to_whole(e, rint, args[0], out);
    case EXG_FN_ABS:
        *out = args[0].is_float ? number_float(fabs(args[0].f)) : args[0];
        return !args[0].is_float && args[0].i < 0
                   ? arithmetic(e, EXG_FN_SUB, number_int(0), args[0], out)
                   : EXG_OK;
    case EXG_FN_NOT:
        *out = number_int(!number_true(args[0]));
        return EXG_OK;
    case EXG_FN_WHERE:
        *out = number_true(args[0]) ? args[1] : args[2];
        return EXG_OK;
    case EXG_FN_MODULAR:
        EXG_TRY(divide(e, false, args[0], args[1], out));
        return divide(e, true, *out, args[2], out);
    case EXG_FN_PAIR:
        e->condition = number_true(args[1]);
        *out = args[0];
        return EXG_OK;
    case EXG_FN_IDENTITY:
        *out = args[0];
        return EXG_OK;
    default:
        return operate(e, function->kind, args[0], args[1], out);
    }
}

/* ---- terms -------------------------------------------------------------------------------- */

static exg_status evaluate(evaluator *e, const exg_term *term, exg_number *out);

static exg_status unexpected(evaluator *e, const char *expected, const char *at)
{
    return EXG_FAIL(e->err, MALFORMED, "SYM-001",
                    "expression '%.120s': expected %s at position %zu", e->text, expected,
                    (size_t)(at - e->text));
}

static exg_status evaluate_symbol(evaluator *e, const exg_term *term, exg_number *out)
{
    const exg_symbol *symbol = exg_symbols_find(e->symbols, term->text, term->length);

    *out = number_int(symbol == NULL ? 1 : symbol->value);
    return symbol != NULL || e->symbols == NULL
               ? EXG_OK
               : EXG_FAIL(e->err, MALFORMED, "SYM-002", "symbol '%.*s' has no value",
                          (int)(term->length < 64 ? term->length : 64), term->text);
}

/* What is computed only where `counts`. */
static exg_status evaluate_where(evaluator *e, bool counts, const exg_term *term, exg_number *out)
{
    const exg_symbols *symbols = e->symbols;
    exg_status status;

    e->symbols = counts ? symbols : NULL;
    status = evaluate(e, term, out);
    e->symbols = symbols;
    return status;
}

/* What "and" and "or" do not look at is not computed, as Python does. */
static exg_status evaluate_chain(evaluator *e, const exg_term *term, exg_number *out)
{
    EXG_TRY(evaluate(e, term->first, out));
    for (const exg_term *operand = term->first->next; operand != NULL; operand = operand->next) {
        bool counts = operand->sign == EXG_FN_AND  ? number_true(*out)
                      : operand->sign == EXG_FN_OR ? !number_true(*out)
                                                   : true;
        exg_number right;

        EXG_TRY(evaluate_where(e, counts, operand, &right));
        EXG_TRY(operate(e, operand->sign, *out, right, out));
    }
    return EXG_OK;
}

/* "a if condition else b"; `a` is computed before it is known whether it counts. */
static exg_status evaluate_choice(evaluator *e, const exg_term *term, exg_number *out)
{
    const exg_term *condition = term->first->next;
    exg_number truth, other;

    EXG_TRY(evaluate(e, term->first, out));
    EXG_TRY(evaluate(e, condition, &truth));
    EXG_TRY(evaluate_where(e, !number_true(truth), condition->next, &other));
    *out = number_true(truth) ? *out : other;
    return EXG_OK;
}

/* The first pair whose condition holds. */
static exg_status evaluate_pieces(evaluator *e, const exg_term *term, exg_number *out)
{
    bool chosen = false;

    for (const exg_term *piece = term->first; piece != NULL; piece = piece->next) {
        exg_number value;

        EXG_TRY(evaluate(e, piece, &value));
        *out = chosen ? *out : value;
        chosen = chosen || e->condition;
    }
    return EXG_OK;
}

#define ARGUMENTS_FIXED_MAX 3 /* of a function that takes just so many */

static exg_status evaluate_call(evaluator *e, const exg_term *term, exg_number *out)
{
    const exg_function *function = term->function;
    exg_number args[ARGUMENTS_FIXED_MAX] = {{false, {0}}}; /* what is not given is 0 */
    uint32_t count = 0;

    if (function == NULL || function->kind == EXG_FN_RATIONAL) {
        return unexpected(e, "a known function", term->text);
    }
    if (term->count < function->least || term->count > function->most) {
        return unexpected(e, "another number of arguments", term->text);
    }
    if (function->kind == EXG_FN_PIECEWISE) {
        return evaluate_pieces(e, term, out);
    }
    for (const exg_term *arg = term->first; arg != NULL; arg = arg->next) {
        exg_number value;

        EXG_TRY(evaluate(e, arg, &value));
        if (function->most == EXG_ARGUMENTS_MANY && arg != term->first) {
            EXG_TRY(operate(e, function->kind, args[0], value, &args[0]));
        } else {
            args[count++] = value;
        }
    }
    if (function->most == EXG_ARGUMENTS_MANY) {
        *out = args[0];
        return EXG_OK;
    }
    return apply(e, function, args, count, out);
}

static exg_status evaluate(evaluator *e, const exg_term *term, exg_number *out)
{
    switch (term->kind) {
    case EXG_TERM_NUMBER:
        *out = term->number;
        return term->overflows ? overflow(e) : EXG_OK;
    case EXG_TERM_REAL:
    case EXG_TERM_CONSTANT:
        *out = term->number;
        return EXG_OK;
    case EXG_TERM_SYMBOL:
        return evaluate_symbol(e, term, out);
    case EXG_TERM_CALL:
        return evaluate_call(e, term, out);
    case EXG_TERM_NEGATIVE:
        EXG_TRY(evaluate(e, term->first, out));
        return arithmetic(e, EXG_FN_SUB, number_int(0), *out, out);
    case EXG_TERM_NOT:
        EXG_TRY(evaluate(e, term->first, out));
        *out = number_int(!number_true(*out));
        return EXG_OK;
    case EXG_TERM_CHAIN:
        return evaluate_chain(e, term, out);
    case EXG_TERM_CHOICE:
        return evaluate_choice(e, term, out);
    }
    return EXG_OK;
}

exg_status exg_expression_evaluate(const exg_expression *expression, const exg_symbols *symbols,
                                   exg_number *out, exg_error *err)
{
    evaluator e = {.text = expression->text, .symbols = symbols, .err = err};

    return evaluate(&e, expression->root, out);
}

exg_status exg_expression_evaluate_int(const exg_expression *expression, const exg_symbols *symbols,
                                       int64_t *out, exg_error *err)
{
    exg_number number;

    EXG_TRY(exg_expression_evaluate(expression, symbols, &number, err));
    if (number.is_float) {
        return EXG_FAIL(err, MALFORMED, "SYM-001", "expression '%.120s' is not an integer",
                        expression->text);
    }
    *out = number.i;
    return EXG_OK;
}
