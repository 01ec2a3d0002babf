/* evaluator.c - what operations and functions on sizes give: PyTorch's sympy functions
 * (torch/utils/_sympy/functions.py) and Python's by the names its guards are printed with. */
#include "libexport/program/evaluator.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define MANY EXG_ARGUMENTS_MANY

/* A function of one real number under all its names. */
#define REAL(name)                                                                                 \
    {"OpaqueUnaryFn_" #name, EXG_FN_REAL, 1, 1, name},                                             \
    {                                                                                              \
        "math." #name, EXG_FN_REAL, 1, 1, name                                                     \
    }

static const exg_function functions[] = {
    {"Add", EXG_FN_ADD, 1, MANY, NULL},
    {"Mul", EXG_FN_MUL, 1, MANY, NULL},
    {"Pow", EXG_FN_POW, 2, 2, NULL},
    {"PowByNatural", EXG_FN_POW, 2, 2, NULL},
    {"FloatPow", EXG_FN_POW, 2, 2, NULL},
    {"Min", EXG_FN_MIN, 1, MANY, NULL},
    {"min", EXG_FN_MIN, 1, MANY, NULL},
    {"torch.sym_min", EXG_FN_MIN, 1, MANY, NULL},
    {"Max", EXG_FN_MAX, 1, MANY, NULL},
    {"max", EXG_FN_MAX, 1, MANY, NULL},
    {"torch.sym_max", EXG_FN_MAX, 1, MANY, NULL},
    {"Mod", EXG_FN_MOD, 2, 2, NULL},
    {"PythonMod", EXG_FN_MOD, 2, 2, NULL},
    {"FloorDiv", EXG_FN_FLOORDIV, 2, 2, NULL},
    {"CleanDiv", EXG_FN_FLOORDIV, 2, 2, NULL},
    {"CeilDiv", EXG_FN_CEILDIV, 2, 2, NULL},
    {"ModularIndexing", EXG_FN_MODULAR, 3, 3, NULL},
    {"IntTrueDiv", EXG_FN_TRUEDIV, 2, 2, NULL},
    {"FloatTrueDiv", EXG_FN_TRUEDIV, 2, 2, NULL},
    {"ToFloat", EXG_FN_TOFLOAT, 1, 1, NULL},
    {"float", EXG_FN_TOFLOAT, 1, 1, NULL},
    {"torch.sym_float", EXG_FN_TOFLOAT, 1, 1, NULL},
    {"TruncToInt", EXG_FN_TRUNC, 1, 1, NULL},
    {"int", EXG_FN_TRUNC, 1, 1, NULL},
    {"math.trunc", EXG_FN_TRUNC, 1, 1, NULL},
    {"torch.sym_int", EXG_FN_TRUNC, 1, 1, NULL},
    {"TruncToFloat", EXG_FN_REAL, 1, 1, trunc},
    {"FloorToInt", EXG_FN_FLOOR, 1, 1, NULL},
    {"floor", EXG_FN_FLOOR, 1, 1, NULL},
    {"math.floor", EXG_FN_FLOOR, 1, 1, NULL},
    {"CeilToInt", EXG_FN_CEIL, 1, 1, NULL},
    {"ceiling", EXG_FN_CEIL, 1, 1, NULL},
    {"math.ceil", EXG_FN_CEIL, 1, 1, NULL},
    {"RoundToInt", EXG_FN_ROUND, 1, 1, NULL},
    {"RoundDecimal", EXG_FN_ROUND_TO, 2, 2, NULL},
    {"round", EXG_FN_ROUND, 1, 2, NULL},
    {"Abs", EXG_FN_ABS, 1, 1, NULL},
    {"abs", EXG_FN_ABS, 1, 1, NULL},
    {"torch._sym_sqrt", EXG_FN_REAL, 1, 1, sqrt},
    {"exp", EXG_FN_REAL, 1, 1, exp},
    {"log", EXG_FN_REAL, 1, 1, log},
    REAL(sqrt),
    REAL(exp),
    REAL(log),
    REAL(log2),
    REAL(log10),
    REAL(cos),
    REAL(cosh),
    REAL(acos),
    REAL(sin),
    REAL(sinh),
    REAL(asin),
    REAL(tan),
    REAL(tanh),
    REAL(atan),
    REAL(asinh),
    REAL(acosh),
    REAL(atanh),
    {"Equality", EXG_FN_EQ, 2, 2, NULL},
    {"Eq", EXG_FN_EQ, 2, 2, NULL},
    {"Unequality", EXG_FN_NE, 2, 2, NULL},
    {"Ne", EXG_FN_NE, 2, 2, NULL},
    {"LessThan", EXG_FN_LE, 2, 2, NULL},
    {"GreaterThan", EXG_FN_GE, 2, 2, NULL},
    {"StrictLessThan", EXG_FN_LT, 2, 2, NULL},
    {"StrictGreaterThan", EXG_FN_GT, 2, 2, NULL},
    {"And", EXG_FN_AND, 1, MANY, NULL},
    {"Or", EXG_FN_OR, 1, MANY, NULL},
    {"Not", EXG_FN_NOT, 1, 1, NULL},
    {"torch.sym_not", EXG_FN_NOT, 1, 1, NULL},
    {"BitwiseFn_bitwise_and", EXG_FN_BITAND, 2, 2, NULL},
    {"BitwiseFn_bitwise_or", EXG_FN_BITOR, 2, 2, NULL},
    {"BitwiseFn_bitwise_xor", EXG_FN_BITXOR, 2, 2, NULL},
    {"LShift", EXG_FN_LSHIFT, 2, 2, NULL},
    {"RShift", EXG_FN_RSHIFT, 2, 2, NULL},
    {"Where", EXG_FN_WHERE, 3, 3, NULL},
    {"Identity", EXG_FN_IDENTITY, 1, 1, NULL},
    {"cast_symbool_to_symint_guardless", EXG_FN_IDENTITY, 1, 1, NULL},
    {"ExprCondPair", EXG_FN_PAIR, 2, 2, NULL},
    {"Piecewise", EXG_FN_PIECEWISE, 1, MANY, NULL},
};

static bool is_name(const char *known, const char *name, size_t length)
{
    return strncmp(known, name, length) == 0 && known[length] == '\0';
}

const exg_function *exg_function_find(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        if (is_name(functions[i].name, name, length)) {
            return &functions[i];
        }
    }
    return NULL;
}

bool exg_constant_find(const char *name, size_t length, exg_number *out)
{
    static const struct {
        const char *name;
        exg_number value;
    } constants[] = {
        {"true", {false, 1, 0}},
        {"True", {false, 1, 0}},
        {"false", {false, 0, 0}},
        {"False", {false, 0, 0}},
        {"math.inf", {true, 0, INFINITY}},
        {"inf", {true, 0, INFINITY}},
        {"math.nan", {true, 0, NAN}},
        {"math.pi", {true, 0, 0x1.921fb54442d18p+1}},
        {"pi", {true, 0, 0x1.921fb54442d18p+1}},
    };

    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
        if (is_name(constants[i].name, name, length)) {
            *out = constants[i].value;
            return true;
        }
    }
    return false;
}

static exg_status overflow(exg_evaluator *e)
{
    return EXG_FAIL(e->err, LIMIT, "SYM-010", "expression '%.120s' leaves 64 bits", e->text);
}

exg_status exg_arithmetic(exg_evaluator *e, char operation, exg_number a, exg_number b,
                          exg_number *out)
{
    bool wrapped = false;

    if (a.is_float || b.is_float) {
        double x = exg_number_real(a);
        double y = exg_number_real(b);

        *out = exg_number_float(operation == '+' ? x + y : operation == '-' ? x - y : x * y);
        return EXG_OK;
    }
    *out = exg_number_int(0);
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

static exg_status undefined(exg_evaluator *e, const char *what)
{
    return EXG_FAIL(e->err, MALFORMED, "SYM-011", "expression '%.120s' %s", e->text, what);
}

/* Python's // and %, towards minus infinity. */
static exg_status divide(exg_evaluator *e, bool remainder, exg_number a, exg_number b,
                         exg_number *out)
{
    int64_t quotient;

    if (a.is_float || b.is_float) {
        double floored = floor(exg_number_real(a) / exg_number_real(b));

        *out = exg_number_float(remainder ? exg_number_real(a) - floored * exg_number_real(b)
                                          : floored);
        return EXG_OK;
    }
    if (e->symbols == NULL) { /* only read: symbols have no numbers */
        *out = exg_number_int(1);
        return EXG_OK;
    }
    if (b.i == 0 || (a.i == INT64_MIN && b.i == -1)) {
        return undefined(e, "divides by zero");
    }
    quotient = a.i / b.i - (a.i % b.i != 0 && (a.i < 0) != (b.i < 0));
    *out = exg_number_int(remainder ? a.i - quotient * b.i : quotient);
    return EXG_OK;
}

static exg_status power(exg_evaluator *e, exg_number a, exg_number b, exg_number *out)
{
    if (a.is_float || b.is_float || b.i < 0) {
        *out = exg_number_float(pow(exg_number_real(a), exg_number_real(b)));
        return EXG_OK;
    }
    *out = exg_number_int(1);
    for (int64_t i = 0; i < b.i && !(out->i >= -1 && out->i <= 1 && i > 1); i++) {
        EXG_TRY(exg_arithmetic(e, '*', *out, a, out));
    }
    if (a.i == -1) {
        *out = exg_number_int(b.i % 2 == 0 ? 1 : -1);
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

static exg_status to_integer(exg_evaluator *e, double value, exg_number *out)
{
    if (!(value >= -0x1p63 && value < 0x1p63)) {
        *out = exg_number_int(1);
        return e->symbols == NULL ? EXG_OK : overflow(e);
    }
    *out = exg_number_int((int64_t)value);
    return EXG_OK;
}

/* Of real numbers alone: integers stay as they are, whole to the last bit. */
static exg_status to_whole(exg_evaluator *e, double (*whole)(double), exg_number arg,
                           exg_number *out)
{
    *out = arg;
    return arg.is_float ? to_integer(e, whole(arg.f), out) : EXG_OK;
}

/* Python's round(x, digits): the nearest decimal, of two the even one. */
static exg_status round_to(exg_evaluator *e, exg_number x, exg_number digits, exg_number *out)
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
    *out = exg_number_float((double)(rintl(x.f * scale) / scale));
    return EXG_OK;
}

static exg_status bits(exg_evaluator *e, exg_function_kind kind, exg_number a, exg_number b,
                       exg_number *out)
{
    bool shifts = kind == EXG_FN_LSHIFT || kind == EXG_FN_RSHIFT;

    if (e->symbols == NULL) {
        *out = exg_number_int(1);
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
        *out = exg_number_int(a.i & b.i);
        return EXG_OK;
    case EXG_FN_BITOR:
        *out = exg_number_int(a.i | b.i);
        return EXG_OK;
    case EXG_FN_BITXOR:
        *out = exg_number_int(a.i ^ b.i);
        return EXG_OK;
    case EXG_FN_LSHIFT:
        if (b.i > 62) {
            *out = exg_number_int(0);
            return a.i == 0 ? EXG_OK : overflow(e);
        }
        return exg_arithmetic(e, '*', a, exg_number_int((int64_t)1 << b.i), out);
    default:
        *out = exg_number_int(a.i >> (b.i > 63 ? 63 : b.i));
        return EXG_OK;
    }
}

exg_status exg_function_fold(exg_evaluator *e, exg_function_kind kind, exg_number arg,
                             exg_number *out)
{
    if (kind == EXG_FN_ADD || kind == EXG_FN_MUL) {
        return exg_arithmetic(e, kind == EXG_FN_ADD ? '+' : '*', *out, arg, out);
    }
    if (kind == EXG_FN_MIN || kind == EXG_FN_MAX) {
        *out = compare(kind == EXG_FN_MIN ? EXG_FN_LE : EXG_FN_GE, *out, arg) ? *out : arg;
        return EXG_OK;
    }
    *out = exg_number_int(kind == EXG_FN_AND ? exg_number_true(*out) && exg_number_true(arg)
                                             : exg_number_true(*out) || exg_number_true(arg));
    return EXG_OK;
}

exg_status exg_operation(exg_evaluator *e, exg_function_kind kind, exg_number a, exg_number b,
                         exg_number *out)
{
    switch (kind) {
    case EXG_FN_POW:
        return power(e, a, b, out);
    case EXG_FN_MOD:
    case EXG_FN_FLOORDIV:
        return divide(e, kind == EXG_FN_MOD, a, b, out);
    case EXG_FN_CEILDIV:
        EXG_TRY(exg_arithmetic(e, '-', exg_number_int(0), a, &a));
        EXG_TRY(divide(e, false, a, b, &a));
        return exg_arithmetic(e, '-', exg_number_int(0), a, out);
    case EXG_FN_TRUEDIV:
        *out = exg_number_float(exg_number_real(a) / exg_number_real(b));
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
        *out = exg_number_int(compare(kind, a, b));
        return EXG_OK;
    }
}

exg_status exg_function_apply(exg_evaluator *e, const exg_function *function,
                              const exg_number *args, uint32_t count, exg_number *out)
{
    switch (function->kind) {
    case EXG_FN_TOFLOAT:
        *out = exg_number_float(exg_number_real(args[0]));
        return EXG_OK;
    case EXG_FN_REAL:
        *out = exg_number_float(function->real(exg_number_real(args[0])));
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
        *out = args[0].is_float ? exg_number_float(fabs(args[0].f)) : args[0];
        return !args[0].is_float && args[0].i < 0
                   ? exg_arithmetic(e, '-', exg_number_int(0), args[0], out)
                   : EXG_OK;
    case EXG_FN_NOT:
        *out = exg_number_int(!exg_number_true(args[0]));
        return EXG_OK;
    case EXG_FN_WHERE:
        *out = exg_number_true(args[0]) ? args[1] : args[2];
        return EXG_OK;
    case EXG_FN_MODULAR:
        EXG_TRY(divide(e, false, args[0], args[1], out));
        return divide(e, true, *out, args[2], out);
    case EXG_FN_ADD:
    case EXG_FN_MUL:
    case EXG_FN_MIN:
    case EXG_FN_MAX:
    case EXG_FN_AND:
    case EXG_FN_OR:
    case EXG_FN_PIECEWISE: /* folded while read */
    case EXG_FN_IDENTITY:
        *out = args[0];
        return EXG_OK;
    default:
        return exg_operation(e, function->kind, args[0], args[1], out);
    }
}
