/* symint.c - expressions over sizes: both spellings, Python's division, no code. */
#include <exg/symint.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define S(name) "Symbol('" name "', positive=True, integer=True)"
#define A       S("s77")
#define B       S("s27")
#define N       "Symbol('u0', integer=True)"

static exg_symbol numbers[] = {
    {"s77", 17},
    {"s27", 5},
    {"u0", -7},
    {"big", INT64_MAX},
};
static const exg_symbols symbols = {numbers, 4, 4};

typedef struct golden {
    const char *expr;
    int64_t value;
} golden;

static void check(const golden *rows, size_t count)
{
    for (size_t r = 0; r < count; r++) {
        int64_t value = -1;
        exg_error err;

        if (exg_symint_evaluate(rows[r].expr, &symbols, &value, &err) != EXG_OK) {
            fail_msg("%s: %s", rows[r].expr, err.message);
        }
        if (value != rows[r].value) {
            fail_msg("%s is %lld, not %lld", rows[r].expr, (long long)rows[r].value,
                     (long long)value);
        }
    }
}

#define CHECK(rows) check(rows, sizeof(rows) / sizeof((rows)[0]))

static void sympys_spelling_is_read(void **state)
{
    static const golden rows[] = {
        {"Integer(-3)", -3},
        {"s77 > 2*s27 and s27 >= 5", 1},
        {"s77 < s27 or not s27 != 5", 1},
        {"not s77 > 1 and 1 or 0", 0},
        {"max(1, s77 // 2)*min(s27, 3)", 24},
        {A, 17},
        {"Add(" A ", " B ", Integer(1))", 23},
        {"Add(Mul(Integer(-1), " B "), " A ")", 12},
        {"Mul(Integer(3), Pow(" A ", Integer(2)))", 867},
        {"FloorDiv(Add(Mul(Integer(2), " A "), Integer(1)), Integer(3))", 11},
        {"Mod(" A ", " B ")", 2},
        {"Max(" A ", " B ", Integer(40))", 40},
        {"Min(" A ", " B ")", 5},
        {"CeilDiv(" A ", Integer(4))", 5},
        {"TruncToInt(IntTrueDiv(" A ", Integer(4)))", 4},
        {"CeilToInt(IntTrueDiv(" A ", Integer(4)))", 5},
        {"TruncToInt(OpaqueUnaryFn_sqrt(ToFloat(" A ")))", 4},
        {"Identity(" B ")", 5},
    };

    (void)state;
    CHECK(rows);
}

/* NAME(1, 2, ..., count) is `value`; a symbol at the end, so that nothing stops before it. */
static void check_long(const char *name, const char *item, uint32_t count, int64_t value)
{
    size_t room = strlen(name) + (size_t)count * (strlen(item) + 8) + 8;
    char *expr = malloc(room);
    size_t used = (size_t)snprintf(expr, room, "%s(", name);
    int64_t got = 0;
    exg_error err;

    assert_non_null(expr);
    for (uint32_t i = 1; i < count; i++) {
        used += (size_t)snprintf(expr + used, room - used, item, i);
        used += (size_t)snprintf(expr + used, room - used, ", ");
    }
    snprintf(expr + used, room - used, "s77)");
    if (exg_symint_evaluate(expr, &symbols, &got, &err) != EXG_OK || got != value) {
        fail_msg("%s of %u is %lld, not %lld", name, count, (long long)got, (long long)value);
    }
    free(expr);
}

static void lists_of_any_length_are_read(void **state)
{
    static const uint32_t counts[] = {16, 17, 64, 1000, 100000};

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        int64_t n = counts[i] - 1;

        check_long("Add", "Integer(%u)", counts[i], n * (n + 1) / 2 + 17);
        check_long("Mul", "Integer(1 + 0*%u)", counts[i], 17);
        check_long("Max", "%u", counts[i], n > 17 ? n : 17);
        check_long("Min", "s77 + %u", counts[i], 17);
        check_long("And", "s77 > -%u", counts[i], 1);
        check_long("And", "s77 != %u", counts[i], n < 17);
        check_long("Or", "s77 < -%u", counts[i], 1);
        check_long("Or", "s77 == %u", counts[i], 1);
    }
    for (uint32_t count = 17; count <= 1000; count += 983) { /* the last pair alone holds */
        char expr[60000] = "Piecewise(";
        size_t used = strlen(expr);
        int64_t value;

        for (uint32_t i = 0; i < count; i++) {
            used += (size_t)snprintf(expr + used, sizeof(expr) - used,
                                     "ExprCondPair(%u, s77 == %u), ", i, 100000 + i);
        }
        snprintf(expr + used, sizeof(expr) - used, "ExprCondPair(s27, true))");
        assert_int_equal(exg_symint_evaluate(expr, &symbols, &value, NULL), EXG_OK);
        assert_int_equal(value, 5);
    }
}

static void infix_is_read(void **state)
{
    static const golden rows[] = {
        {"s77", 17},
        {"2*s77 + 1", 35},
        {"-s77 - 1", -18},
        {"s77*(s27 + 1)", 102},
        {"s77//4", 4},
        {"s77 % 4", 1},
        {"2**3**2", 512},
        {"-2**2", -4},
        {"((s77 - 1)//2) + 1", 9},
        {"1 + 2 * 3 - 4", 3},
        {"7 - 3 - 2", 2},
        {"s77 > s27", 1},
        {"s77 == 18", 0},
        {"Mod(s77, 3)", 2},
        {"Max(1, s27)", 5},
        {"s77 | 2 > 3", 1}, /* as Python reads it */
        {"s77 & 3 | 8 ^ 12", 5},
        {"1 << 2 + 1", 8},
        {"s77 >> 1 << 2", 32},
        {"u0 >> 1", -4},
        {"s77 if s27 > 5 else s27 if s77 else 1", 5},
        {"abs(u0) + round(s77/2) + round(s27/2) + math.ceil(s77/4)", 22},
        {"math.log2(torch.sym_float(s77 - 1)) == 4.0", 1},
        {"torch._sym_sqrt(torch.sym_float(s77 - 1)) == 4.0 and True", 1},
        {"s27 == 0 or s77 % s27 == 2", 1},
        {"s27 != 5 and s77 // 0 == 1", 0},
        {"s77 < math.inf and not s77 > math.inf", 1},
    };

    (void)state;
    CHECK(rows);
}

static void division_goes_towards_minus_infinity(void **state)
{
    static const golden rows[] = {
        {"FloorDiv(" N ", Integer(2))", -4},
        {"Mod(" N ", Integer(2))", 1},
        {"PythonMod(" N ", Integer(3))", 2},
        {"Mod(Integer(7), Integer(-3))", -2},
        {"FloorDiv(Integer(7), Integer(-3))", -3},
        {"u0 // 2", -4},
        {"u0 % 4", 1},
        {"FloorDiv(Integer(-8), Integer(2))", -4},
        {"Mod(Integer(-8), Integer(2))", 0},
    };

    (void)state;
    CHECK(rows);
}

static void truth_values_are_one_and_zero(void **state)
{
    static const golden rows[] = {
        {"Equality(" A ", Integer(17))", 1},
        {"Ne(" A ", Integer(17))", 0},
        {"LessThan(" A ", Integer(17))", 1},
        {"StrictLessThan(" A ", Integer(17))", 0},
        {"GreaterThan(" A ", " B ")", 1},
        {"And(StrictGreaterThan(" A ", Integer(3)), StrictLessThan(" B ", Integer(4)))", 0},
        {"Or(StrictGreaterThan(" A ", Integer(3)), StrictLessThan(" B ", Integer(4)))", 1},
        {"Not(Equality(" A ", Integer(17)))", 0},
    };

    (void)state;
    CHECK(rows);
}

static void piecewise_takes_the_first_branch_that_holds(void **state)
{
#define PIECES(condition)                                                                          \
    "Piecewise(ExprCondPair(Integer(1), " condition "), ExprCondPair(Integer(2), true))"
    static const golden rows[] = {
        {PIECES("StrictGreaterThan(" A ", Integer(3))"), 1},
        {PIECES("StrictGreaterThan(" A ", Integer(30))"), 2},
        {"Add(" PIECES("Equality(" B ", Integer(5))") ", Integer(10))", 11},
        {"Piecewise(ExprCondPair(Integer(1), StrictGreaterThan(" B ", Integer(30))), "
         "ExprCondPair(Integer(2), Equality(" B ", Integer(5))), ExprCondPair(Integer(3), true))",
         2},
    };

    (void)state;
    CHECK(rows);
}

static void expect(const char *expr, exg_status status, const char *code)
{
    int64_t value;
    exg_error err;
    exg_status got = exg_symint_evaluate(expr, &symbols, &value, &err);

    if (got != status || strcmp(err.code, code) != 0) {
        fail_msg("%.60s: %s %s, not %s", expr, exg_status_name(got), got == EXG_OK ? "" : err.code,
                 code);
    }
    /* the message begins with the expression, unless that is too deep to be said */
    if (status != EXG_OK && strstr(err.message, "nests deeper") == NULL) {
        char begins[160];

        snprintf(begins, sizeof(begins), "expression '%.120s'", expr);
        if (strncmp(err.message, begins, strlen(begins)) != 0) {
            fail_msg("%s", err.message);
        }
    }
}

static void what_leaves_64_bits_is_a_limit(void **state)
{
    static const char *const rows[] = {
        "big + 1",
        "Add(big, big)",
        "big * 2",
        "-big - 2",
        "2**63",
        "Pow(Integer(10), Integer(19))",
        "99999999999999999999",
        "Integer(9223372036854775808)",
    };
    int64_t value;

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_error err;
        exg_status status = exg_symint_evaluate(rows[r], &symbols, &value, &err);

        if (status != EXG_LIMIT && status != EXG_MALFORMED) {
            fail_msg("%s is %lld", rows[r], (long long)value);
        }
    }
    expect("big + 1", EXG_LIMIT, "SYM-010");
    expect("2**63", EXG_LIMIT, "SYM-010");
    assert_int_equal(exg_symint_evaluate("big", &symbols, &value, NULL), EXG_OK);
    assert_true(value == INT64_MAX);
}

static void division_by_zero_is_named(void **state)
{
    (void)state;
    expect("s77 // 0", EXG_MALFORMED, "SYM-011");
    expect("s77 % (s27 - 5)", EXG_MALFORMED, "SYM-011");
    expect("FloorDiv(Integer(-9223372036854775807) - 1, Integer(-1))", EXG_MALFORMED, "SYM-011");
}

static void a_symbol_without_a_number_is_named(void **state)
{
    int64_t value;
    exg_error err;

    (void)state;
    assert_int_equal(exg_symint_evaluate("s77 + s99", &symbols, &value, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "SYM-002");
    assert_non_null(strstr(err.message, "s99"));
}

static void depth_is_limited(void **state)
{
    char deep[4096];
    size_t used = 0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        deep[used++] = '(';
    }
    deep[used++] = '1';
    for (int i = 0; i < 1000; i++) {
        deep[used++] = ')';
    }
    deep[used] = '\0';
    expect(deep, EXG_LIMIT, "SYM-010");
    memset(deep, '-', 2000);
    deep[2000] = '1';
    deep[2001] = '\0';
    expect(deep, EXG_LIMIT, "SYM-010");
    used = 0;
    for (int i = 0; i < 1000; i++) {
        memcpy(deep + used, "Not(", 4);
        used += 4;
    }
    deep[used] = '\0';
    expect(deep, EXG_LIMIT, "SYM-010");
    used = 0;
    for (int i = 0; i < 1000; i++) {
        memcpy(deep + used, "2**", 3);
        used += 3;
    }
    memcpy(deep + used, "1", 2);
    expect(deep, EXG_LIMIT, "SYM-010");
}

static void anything_but_the_grammar_is_refused(void **state)
{
    static const char *const rows[] = {
        "",
        " ",
        "__import__('os').system('true')",
        "exec('1')",
        "eval(s77)",
        "open('/etc/passwd')",
        "s77.__class__",
        "lambda: 1",
        "s77 if s77",
        "[1, 2]",
        "{1}",
        "\"s77\"",
        "'s77'",
        "Symbol(s77)",
        "Symbol('s77'",
        "Symbol('s77', positive=system)",
        "Add()",
        "Add(1,)",
        "Mod(1)",
        "Mod(1, 2, 3)",
        "Not(1, 1)",
        "Add(1, 2, 3",
        "Add(1, 2, 3,)",
        "Add(1 2)",
        "Integer('3')",
        "Integer()",
        "1 +",
        "+",
        "* 2",
        "(1",
        "1)",
        "1 2",
        "s77 s27",
        "1;2",
        "1 # comment",
        "s77\n+ 1",
        "Piecewise()",
        "add(1, 2)",
        "Add (1, 2) extra",
        "s77 = 3",
        "\xc3\xa9",
        "0x10",
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        int64_t value;
        exg_error err;
        exg_status status = exg_symint_evaluate(rows[r], &symbols, &value, &err);

        if (status == EXG_OK) {
            fail_msg("'%s' is taken for %lld", rows[r], (long long)value);
        }
    }
    expect("__import__('os').system('true')", EXG_MALFORMED, "SYM-001");
}

static void count_symbol(void *user, const char *name, size_t length)
{
    char *text = user;

    snprintf(text + strlen(text), 100 - strlen(text), "%.*s,", (int)length, name);
}

static void every_symbol_is_visited(void **state)
{
    char seen[100] = "";
    const char *name;
    size_t length;

    (void)state;
    assert_int_equal(
        exg_symint_visit("Add(" A ", FloorDiv(" B ", Integer(0)))", count_symbol, seen, NULL),
        EXG_OK); /* reading divides nothing */
    assert_string_equal(seen, "s77,s27,");
    assert_true(exg_symint_lone_symbol(A, &name, &length));
    assert_true(length == 3 && strncmp(name, "s77", 3) == 0);
    assert_true(exg_symint_lone_symbol("s27", &name, &length));
    assert_true(length == 3 && strncmp(name, "s27", 3) == 0);
    assert_false(exg_symint_lone_symbol("s27 + 1", &name, &length));
    assert_false(exg_symint_lone_symbol("Integer(3)", &name, &length));
    assert_false(exg_symint_lone_symbol("3", &name, &length));
}

static void floats_are_evaluated(void **state)
{
    double value;

    (void)state;
    assert_int_equal(exg_symfloat_evaluate("Mul(Float('1.5', precision=53), ToFloat(" A "))",
                                           &symbols, &value, NULL),
                     EXG_OK);
    assert_true(value == 25.5);
    assert_int_equal(exg_symfloat_evaluate("s77/s27", &symbols, &value, NULL), EXG_OK);
    assert_true(value == 17.0 / 5.0);
    assert_int_equal(exg_symfloat_evaluate("Pow(" B ", Integer(-1))", &symbols, &value, NULL),
                     EXG_OK);
    assert_true(value == 0.2);
}

/* Of every name: what it gives, and that it takes no argument more or fewer than it has. */
static void every_function_gives_what_python_s_gives(void **state)
{
    static const struct {
        const char *name;
        const char *given;
        int fewest, most; /* 0: any number */
        double value;
    } rows[] = {
#define EXG_SYMINT_FUNCTION(name, given, fewest, most, value) {name, given, fewest, most, value},
#include "tests/export/transform/symint_function.def"
#undef EXG_SYMINT_FUNCTION
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        char expr[100];
        char *end;
        double value;
        exg_error err;

        snprintf(expr, sizeof(expr), "%s(%s)", rows[r].name, rows[r].given);
        if (exg_symfloat_evaluate(expr, &symbols, &value, &err) != EXG_OK ||
            !(fabs(value - rows[r].value) <= 4e-15 * fabs(rows[r].value))) {
            fail_msg("%s is %.17g", expr, value);
        }
        for (int more = 1; more <= 2 && rows[r].most > 0; more++) {
            char list[60] = "";
            int given = rows[r].most + more;

            for (int i = 0; i < given; i++) {
                snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s1",
                         i > 0 ? ", " : "");
            }
            snprintf(expr, sizeof(expr), "%s(%s)", rows[r].name, list);
            expect(expr, EXG_MALFORMED, "SYM-001");
        }
        snprintf(expr, sizeof(expr), "%s(%s)", rows[r].name, rows[r].given);
        end = rows[r].fewest > 1 ? strrchr(expr, ',') : strchr(expr, '(') + 1;
        snprintf(end, sizeof(expr) - (size_t)(end - expr), ")");
        if (rows[r].most == 0 || rows[r].fewest == rows[r].most) {
            expect(expr, EXG_MALFORMED, "SYM-001");
        }
    }
}

static void constants_have_their_values(void **state)
{
    static const struct {
        const char *expr;
        double value;
    } rows[] = {
        {"true", 1},
        {"True", 1},
        {"false", 0},
        {"False", 0},
        {"math.inf", INFINITY},
        {"inf", INFINITY},
        {"math.pi", 3.141592653589793},
        {"pi", 3.141592653589793},
        {"-3.5", -3.5},
        {"1e3", 1000},
    };
    double value;

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        assert_int_equal(exg_symfloat_evaluate(rows[r].expr, &symbols, &value, NULL), EXG_OK);
        assert_true(value == rows[r].value);
    }
    assert_int_equal(exg_symfloat_evaluate("math.nan", &symbols, &value, NULL), EXG_OK);
    assert_true(isnan(value));
}

static void arithmetic_of_reals_and_of_wide_integers(void **state)
{
    static const struct {
        const char *expr;
        double value;
    } rows[] = {
        {"1.5 + 2", 3.5},
        {"1.5 - 2", -0.5},
        {"1.5 * 2", 3},
        {"7.5 // 2", 3},
        {"7.5 % 2", 1.5},
        {"-7.5 // 2", -4},
        {"-7.5 % 2", 0.5},
        {"2 ** 0.5", 1.4142135623730951},
        {"2.0 ** 3", 8},
        {"(-1) ** 7", -1},
        {"(-1) ** 8", 1},
        {"0 ** 0", 1},
        {"1 ** 1000000", 1},
        {"0 ** 1000000", 0},
        {"(-2) ** 3", -8},
        {"round(2.5)", 2},
        {"round(2.25, 1)", 2.2},
        {"round(7, 1)", 7},
        {"RoundDecimal(1.005, 0)", 1},
        {"abs(-2.5)", 2.5},
        {"1 << 62", 0x1p62},
        {"0 << 63", 0},
        {"-8 >> 1", -4},
        {"-8 >> 70", -1},
        {"8 >> 70", 0},
        {"1.5 == 1.5", 1},
        {"1.5 != 1.5", 0},
        {"1.5 <= 1.5", 1},
        {"1.5 < 1.5", 0},
        {"1.5 >= 2", 0},
        {"2.5 > 1", 1},
        {"max(1.5, 2)", 2},
        {"min(1.5, 2)", 1.5},
        {"9007199254740993 == 9007199254740992", 0}, /* integers are not compared as reals */
        {"9007199254740993 > 9007199254740992", 1},
    };
    static const char *const outside[] = {"1 << 63",    "4 << 62",       "int(1e19)",
                                          "int(-1e19)", "abs(-big - 1)", "CeilDiv(-big - 1, 1)"};
    static const char *const undefined[] = {"1 << -1",        "1 >> -1",        "1.5 & 1",
                                            "1 | 1.5",        "round(1.5, -1)", "round(1.5, 16)",
                                            "round(1.5, 1.5)"};
    double value;

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_error err;

        if (exg_symfloat_evaluate(rows[r].expr, &symbols, &value, &err) != EXG_OK ||
            value != rows[r].value) {
            fail_msg("%s is %.17g", rows[r].expr, value);
        }
    }
    for (size_t r = 0; r < sizeof(outside) / sizeof(outside[0]); r++) {
        expect(outside[r], EXG_LIMIT, "SYM-010");
    }
    for (size_t r = 0; r < sizeof(undefined) / sizeof(undefined[0]); r++) {
        expect(undefined[r], EXG_MALFORMED, "SYM-011");
    }
    expect("1.5", EXG_MALFORMED, "SYM-001"); /* no integer */
    assert_int_equal(exg_symfloat_evaluate("int(-9223372036854775808.0)", &symbols, &value, NULL),
                     EXG_OK);
    assert_true(value == -0x1p63);
}

/* What is only read computes nothing: no symbol has a number then. */
static void reading_computes_nothing(void **state)
{
    static const char *const rows[] = {"s1 // 0", "1 % s1",    "1 << s1",       "1 << -1",
                                       "1.5 & 1", "int(1e30)", "round(1.5, 99)"};

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        char seen[100] = "";

        assert_int_equal(exg_symint_visit(rows[r], count_symbol, seen, NULL), EXG_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sympys_spelling_is_read),
        cmocka_unit_test(lists_of_any_length_are_read),
        cmocka_unit_test(infix_is_read),
        cmocka_unit_test(division_goes_towards_minus_infinity),
        cmocka_unit_test(truth_values_are_one_and_zero),
        cmocka_unit_test(piecewise_takes_the_first_branch_that_holds),
        cmocka_unit_test(what_leaves_64_bits_is_a_limit),
        cmocka_unit_test(division_by_zero_is_named),
        cmocka_unit_test(a_symbol_without_a_number_is_named),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(anything_but_the_grammar_is_refused),
        cmocka_unit_test(every_symbol_is_visited),
        cmocka_unit_test(floats_are_evaluated),
        cmocka_unit_test(every_function_gives_what_python_s_gives),
        cmocka_unit_test(constants_have_their_values),
        cmocka_unit_test(arithmetic_of_reals_and_of_wide_integers),
        cmocka_unit_test(reading_computes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
