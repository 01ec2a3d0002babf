/* expression.c - expressions as terms: what they are read into, what becomes of their symbols. */
#include "libexport/program/expression.h"
#include "libexport/base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define A "Symbol('s77', positive=True, integer=True)"
#define B "Symbol('s27', integer=True)"

static exg_arena *arena;

static int set_up(void **state)
{
    (void)state;
    arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    return arena == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    exg_arena_destroy(arena);
    return 0;
}

static exg_expression parse(const char *text)
{
    exg_expression expression;
    exg_error err;

    if (exg_expression_parse(arena, text, &expression, &err) != EXG_OK) {
        fail_msg("%s: %s", text, err.message);
    }
    return expression;
}

/* A term as a text: (kind or sign operand ...). */
static void show(const exg_term *term, exg_text *out)
{
    static const char *const names[] = {"", "", "", "", "call", "neg", "not", "chain", "choice"};

    if (term->kind <= EXG_TERM_SYMBOL) {
        exg_text_add(out, term->text, term->length);
        return;
    }
    exg_text_printf(out, "(%s", names[term->kind]);
    for (const exg_term *o = term->first; o != NULL; o = o->next) {
        exg_text_printf(out, term->kind == EXG_TERM_CHAIN && o != term->first ? " %d" : " ",
                        o->sign);
        show(o, out);
    }
    exg_text_putc(out, ')');
}

static void expect_terms(const char *text, const char *terms)
{
    exg_expression expression = parse(text);
    exg_text out = EXG_TEXT_EMPTY;

    show(expression.root, &out);
    assert_string_equal(exg_text_string(&out), terms);
    exg_text_free(&out);
}

static void signs_bind_as_python_s(void **state)
{
    static const struct {
        const char *text, *same; /* as Python's ast.unparse() would put parentheses */
    } rows[] = {
        {"a + b - c", "(a + b) - c"},
        {"a - b*c", "a - (b*c)"},
        {"a*b//c % d", "((a*b)//c) % d"},
        {"-a**-b", "-(a**(-b))"},
        {"a**b**c", "a**(b**c)"},
        {"a << b + c", "a << (b + c)"},
        {"a & b | c ^ d", "(a & b) | (c ^ d)"},
        {"a ^ b & c", "a ^ (b & c)"},
        {"a & b ^ c", "(a & b) ^ c"},
        {"a | b ^ c", "a | (b ^ c)"},
        {"a ^ b | c", "(a ^ b) | c"},
        {"a & b << c", "a & (b << c)"},
        {"a << b & c", "(a << b) & c"},
        {"a << b >> c", "(a << b) >> c"},
        {"a & b == c", "(a & b) == c"},
        {"a ^ b < c", "(a ^ b) < c"},
        {"a % b*c", "(a % b)*c"},
        {"a | b == c", "(a | b) == c"},
        {"not a == b and c or d", "((not (a == b)) and c) or d"},
        {"a or not b and c", "a or ((not b) and c)"},
        {"a if b or c else d if e else f", "a if (b or c) else (d if e else f)"},
    };

    (void)state;
    for (uint32_t bits = 0; bits < 64; bits++) { /* all truth values and some numbers */
        static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
        exg_symbol items[6];
        exg_symbols symbols = {.items = items, .count = 6};

        for (uint32_t i = 0; i < 6; i++) {
            items[i] = (exg_symbol){names[i], (bits >> i & 1) * (i + 1)};
        }
        for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
            exg_expression x = parse(rows[r].text), y = parse(rows[r].same);
            exg_number p, q;
            exg_status first = exg_expression_evaluate(&x, &symbols, &p, NULL);
            exg_status second = exg_expression_evaluate(&y, &symbols, &q, NULL);

            if (first != second || (first == EXG_OK && exg_number_real(p) != exg_number_real(q))) {
                fail_msg("%s is not %s", rows[r].text, rows[r].same);
            }
        }
    }
}

/* Of 0, 1 and -1 any power is had at once, however large; of others it soon is too large. */
static void powers_take_no_time(void **state)
{
    static const struct {
        const char *text;
        bool is_number;
        double value;
    } rows[] = {{"1**4611686018427387904", true, 1},    {"0**4611686018427387904", true, 0},
                {"(-1)**4611686018427387904", true, 1}, {"(-1)**4611686018427387903", true, -1},
                {"2**4611686018427387904", false, 0},   {"(-2)**62", true, 4611686018427387904.0},
                {"(-3)**4611686018427387904", false, 0}};
    const exg_symbols none = {0};

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_expression x = parse(rows[r].text);
        exg_number n;
        bool is_number = exg_expression_evaluate(&x, &none, &n, NULL) == EXG_OK;

        if (is_number != rows[r].is_number || (is_number && exg_number_real(n) != rows[r].value)) {
            fail_msg("%s is %g", rows[r].text, is_number ? exg_number_real(n) : 0);
        }
    }
}

/* What has one precedence is one term, however long it is: nothing recurses over it. */
static void chains_are_flat(void **state)
{
    enum { COUNT = 200000 };
    char *text = malloc(4 * COUNT + 1);
    exg_expression expression;
    int64_t value;

    (void)state;
    assert_non_null(text);
    expect_terms("a", "a");
    expect_terms("(a)", "a");
    expect_terms("-3", "(neg 3)");
    expect_terms("not not not a", "(not a)");
    expect_terms("not not a", "(not (not a))");
    expect_terms("Max(1, a)", "(call 1 a)");
    expect_terms("a if b else c", "(choice a b c)");
    for (size_t i = 0; i < COUNT; i++) {
        memcpy(text + 4 * i, i % 2 == 0 ? "1 + " : "2 - ", 4);
    }
    memcpy(text + 4 * (COUNT - 1), "2", 2);
    expression = parse(text);
    assert_int_equal(expression.root->kind, EXG_TERM_CHAIN);
    assert_int_equal(expression.root->count, COUNT);
    assert_int_equal(exg_expression_evaluate_int(&expression, NULL, &value, NULL), EXG_OK);
    assert_int_equal(value, 3 + (COUNT / 2 - 1)); /* 1 + 2, and -1 + 2 each time more */
    free(text);
}

static void what_python_refuses_is_refused(void **state)
{
    static const char *const rows[] = {
        "a < b < c",
        "not a == b == c",
        "a == not b",
        "a + not b",
        "a if b",
        "a ** ** b",
        "a and",
        "and a",
        "a nota",
        "a orb",
        "Float('1', precision=)",
        "Float(1, precision=53)",
        "Float('x', precision=53)",
        "Float('', precision=53)",
        "Float('1, precision=53)",
        "Float('1' precision=53)",
        "Float('1', precision 53)",
        "Float('1', precision=53",
        "Float('1', 53)",
        "a if b else",
        "a b",
    };
    exg_expression expression;
    exg_error err;

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        if (exg_expression_parse(arena, rows[r], &expression, &err) != EXG_MALFORMED ||
            strcmp(err.code, "SYM-001") != 0 || expression.root != NULL) {
            fail_msg("'%s' is taken", rows[r]);
        }
    }
}

static void put_bracketed(void *user, const exg_term *symbol, exg_text *out)
{
    exg_text_printf(out, "%s%.*s%s", (const char *)user, (int)symbol->length, symbol->text,
                    (const char *)user);
}

static void check_names(void (*put)(const exg_expression *, exg_text *, exg_put_symbol *, void *),
                        const char *text, const char *expected)
{
    exg_expression expression = parse(text);
    exg_text out = EXG_TEXT_EMPTY;

    put(&expression, &out, put_bracketed, "|");
    assert_string_equal(exg_text_string(&out), expected);
    exg_text_free(&out);
}

static void symbols_get_other_names(void **state)
{
    (void)state;
    check_names(exg_expression_rename, "2*s77 +  max(s77, u0)", "2*|s77| +  max(|s77|, |u0|)");
    check_names(exg_expression_rename, "Add(Symbol('s77', integer=True), Integer(1))",
                "Add(Symbol('|s77|', integer=True), Integer(1))");
    check_names(exg_expression_rename, "3 + math.pi", "3 + math.pi");
    check_names(exg_expression_print, "Add(" A ", Mul(Integer(-1), " B "))", "|s77| - |s27|");
    check_names(exg_expression_print, "Mul(Pow(" A ", Integer(-1)), " B ")", "|s27|/|s77|");
    check_names(exg_expression_print, "s77 + 1", "|s77| + 1"); /* no srepr: as it stands there */
}

static void note(void *user, const char *name, size_t length)
{
    char *seen = user;

    snprintf(seen + strlen(seen), 100 - strlen(seen), "%.*s,", (int)length, name);
}

/* In the order of the text, each time; those before a fault too. */
static void symbols_are_visited(void **state)
{
    exg_expression expression = parse("Add(" A ", s27 if u0 else " A ")");
    char seen[100] = "";

    (void)state;
    exg_expression_visit(&expression, note, seen);
    assert_string_equal(seen, "s77,s27,u0,s77,");
    seen[0] = '\0';
    assert_int_equal(exg_expression_parse(arena, "s77 + s27 +", &expression, NULL), EXG_MALFORMED);
    exg_expression_visit(&expression, note, seen);
    assert_string_equal(seen, "s77,s27,");
}

static void a_symbol_by_itself_is_told(void **state)
{
    static const char *const lone[] = {A, "s77", " s77 ", "(s77)"};
    static const char *const other[] = {"s77 + 1", "-s77",       "3",
                                        "math.pi", "Max(" A ")", "Integer(3)"};

    (void)state;
    for (size_t i = 0; i < sizeof(lone) / sizeof(lone[0]); i++) {
        exg_expression expression = parse(lone[i]);
        const exg_term *symbol = exg_expression_symbol(&expression);

        assert_non_null(symbol);
        assert_true(symbol->length == 3 && strncmp(symbol->text, "s77", 3) == 0);
    }
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
        exg_expression expression = parse(other[i]);

        assert_null(exg_expression_symbol(&expression));
    }
}

static void equal_texts_are_read_once(void **state)
{
    char copy[] = "s77 + 1";
    exg_expressions expressions;
    const exg_expression *a, *b, *c;

    (void)state;
    exg_expressions_init(&expressions, arena);
    assert_int_equal(exg_expressions_find(&expressions, "s77 + 1", &a, NULL), EXG_OK);
    assert_int_equal(exg_expressions_find(&expressions, "s77 + 2", &b, NULL), EXG_OK);
    assert_int_equal(exg_expressions_find(&expressions, copy, &c, NULL), EXG_OK);
    assert_true(a == c && a != b);
    assert_int_equal(exg_expressions_find(&expressions, "s77 +", &c, NULL), EXG_MALFORMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signs_bind_as_python_s),
        cmocka_unit_test(powers_take_no_time),
        cmocka_unit_test(chains_are_flat),
        cmocka_unit_test(what_python_refuses_is_refused),
        cmocka_unit_test(symbols_get_other_names),
        cmocka_unit_test(symbols_are_visited),
        cmocka_unit_test(a_symbol_by_itself_is_told),
        cmocka_unit_test(equal_texts_are_read_once),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
