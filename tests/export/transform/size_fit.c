/* size_fit.c - forms that are right for the numbers that were drawn and not for others are found
 * out. */
#include "libexport/transform/size_fit.h"
#include "libexport/transform/sampler.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define EIGHTH "FloorDiv(Symbol('s0', integer=True), Integer(8))"

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

/* A graph of one size, s0 // 8, as an input of a program without guards. */
static exg_sym_int size_of_text = {.expr = EIGHTH};
static exg_value value = {.name = "n", .sym_int = &size_of_text};
static exg_graph graph = {.values = &value, .value_count = 1};
static exg_program program = {.graph = &graph};
static const exg_verified verified = {.program = &program};

static void edges_lie_about_the_numbers_of_sizes(void **state)
{
    bool seen[64] = {false};
    exg_symbols drawn, edge;
    exg_sampler sampler;
    bool is_there = true;
    exg_error err;

    (void)state;
    assert_int_equal(exg_sampler_begin(&sampler, &verified, &graph, NULL, 0, arena, &err), EXG_OK);
    assert_int_equal(sampler.count, 1);
    memset(&drawn, 0, sizeof(drawn));
    assert_int_equal(exg_symbols_add(&drawn, arena, "s0", 2, 16, &err), EXG_OK);
    for (uint32_t i = 0; is_there; i++) {
        assert_int_equal(exg_sampler_edge(&sampler, &drawn, i, &edge, &is_there, &err), EXG_OK);
        if (is_there && edge.items[0].value < 64) {
            seen[edge.items[0].value] = true;
        }
    }
    for (int64_t n = 0; n < 64;
         n++) { /* the least, beside 16, about 8 and the next of its multiples */
        bool expected =
            n == 2 || n == 3 || (n >= 7 && n <= 9) || (n >= 15 && n <= 19) || (n >= 23 && n <= 25);

        assert_int_equal(seen[n], expected);
    }
}

static void a_form_of_multiples_is_no_form(void **state)
{
    exg_symbols samples[9] = {{0}};
    int64_t halves[9], rounded_up[9];
    const char *text;
    exg_size_fit fit;
    exg_error err;

    (void)state;
    for (int64_t k = 0; k < 9; k++) {
        int64_t n = k < 8 ? 8 * (k + 1) : 65;

        assert_int_equal(exg_symbols_add(&samples[k], arena, "s0", 2, n, &err), EXG_OK);
        halves[k] = n / 8;
        rounded_up[k] = (n + 7) / 8;
    }
    for (uint32_t count = 8; count <= 9; count++) {
        exg_size_fit_begin(&fit, arena, samples, count);
        assert_int_equal(exg_size_fit_add(&fit, EIGHTH, &err), EXG_OK);
        assert_int_equal(exg_size_fit_find(&fit, halves, &text, &err), EXG_OK);
        assert_string_equal(text, EIGHTH);
        assert_int_equal(exg_size_fit_find(&fit, rounded_up, &text, &err), EXG_OK);
        if (count == 8) {
            assert_string_equal(text, EIGHTH); /* as far as eight multiples say */
        } else {
            assert_null(text);
        }
    }
}

static void terms_that_say_the_same_are_one(void **state)
{
    exg_symbols samples[8] = {{0}};
    int64_t rest[8], sizes[8];
    const char *text;
    exg_size_fit fit;
    exg_error err;

    (void)state;
    for (int64_t k = 0; k < 8; k++) { /* even, so that a half is no term of its own */
        sizes[k] = 2 * (k + 3);
        assert_int_equal(exg_symbols_add(&samples[k], arena, "s0", 2, sizes[k], &err), EXG_OK);
        rest[k] = 3 * sizes[k] / 2 + 5;
    }
    exg_size_fit_begin(&fit, arena, samples, 8);
    assert_int_equal(exg_size_fit_add(&fit, "Symbol('s0', integer=True)", &err), EXG_OK);
    assert_int_equal(
        exg_size_fit_add(&fit, "FloorDiv(Symbol('s0', integer=True), Integer(2))", &err), EXG_OK);
    assert_int_equal(exg_size_fit_find(&fit, rest, &text, &err), EXG_OK);
    assert_non_null(text);
    for (uint32_t k = 0; k < 8; k++) {
        int64_t found;

        assert_int_equal(exg_symint_evaluate(text, &samples[k], &found, &err), EXG_OK);
        assert_int_equal(found, rest[k]);
    }
}

static void an_equality_is_made_to_hold(void **state)
{
    static exg_sym_int parts[2] = {{.expr = "Symbol('u0', integer=True)"},
                                   {.expr = "Symbol('u1', integer=True)"}};
    static exg_sym_bool sum = {
        .expr = "Eq(Add(Symbol('u0', integer=True), Symbol('u1', integer=True)), Integer(6))"};
    static exg_value values[3] = {{.name = "a", .sym_int = &parts[0]},
                                  {.name = "b", .sym_int = &parts[1]},
                                  {.name = "c", .sym_bool = &sum}};
    static exg_graph of = {.values = values, .value_count = 3};
    exg_named_argument input = {.name = "self",
                                .arg = {.kind = EXG_ARGUMENT_SYM_BOOL, .as_sym = {.value = 2}}};
    const exg_node check = {
        .target = "torch.ops.aten._assert_scalar.default", .inputs = &input, .input_count = 1};
    exg_symbols symbols = {0};
    exg_sampler sampler;
    exg_error err;

    (void)state;
    assert_int_equal(exg_sampler_begin(&sampler, &verified, &of, &check, 1, arena, &err), EXG_OK);
    assert_int_equal(exg_symbols_add(&symbols, arena, "u0", 2, 4, &err), EXG_OK);
    assert_int_equal(exg_symbols_add(&symbols, arena, "u1", 2, 5, &err), EXG_OK);
    assert_true(exg_sampler_admits(&sampler, &symbols));
    assert_int_equal(symbols.items[0].value + symbols.items[1].value, 6);
    symbols.items[0].value = symbols.items[1].value = 9; /* neither can make up for the other */
    assert_false(exg_sampler_admits(&sampler, &symbols));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_lie_about_the_numbers_of_sizes),
        cmocka_unit_test(a_form_of_multiples_is_no_form),
        cmocka_unit_test(terms_that_say_the_same_are_one),
        cmocka_unit_test(an_equality_is_made_to_hold),
    };

    return cmocka_run_group_tests_name("size_fit", tests, set_up, tear_down);
}
