/* locale.c - numbers do not obey a locale: a program is opened, printed and written under a
 * decimal comma as under a point (S002-44). The locale is made by tests.cmake with localedef. */
#include "tests/export/exg_folder.h"
#include <exg/json_writer.h>

#include <exg/operators.h>
#include <exg/symint.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static int comma(void **state)
{
    char text[16];

    assert_int_equal(make_folder(state), 0);
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL) {
        fail_msg("the locale is not there");
    }
    snprintf(text, sizeof(text), "%.1f", 0.5);
    assert_string_equal(text, "0,5"); /* it has a comma: the tests below mean something */
    return 0;
}

static void it_reads_and_writes_numbers_with_a_point(void **state)
{
    exg_text text = EXG_TEXT_EMPTY;
    char *end;
    double value = 0;

    (void)state;
    assert_true(exg_text_to_double("0.5,", &end) == 0.5);
    assert_string_equal(end, ",");
    exg_text_double(&text, 0.1);
    exg_text_double(&text, 1e-320);
    assert_string_equal(exg_text_string(&text), "0.11e-320");
    exg_json_put_fixed(&text, -2.25, 1);
    assert_string_equal(exg_text_string(&text), "0.11e-320, -2.2");
    exg_text_free(&text);
    assert_int_equal(
        exg_symfloat_evaluate("Mul(Float('0.5', precision=53), Integer(3))", NULL, &value, NULL),
        EXG_OK);
    assert_true(value == 1.5);
    assert_int_equal(exg_symfloat_evaluate("0.25 + 1.0", NULL, &value, NULL), EXG_OK);
    assert_true(value == 1.25);
}

/* Schema defaults, JSON numbers, printing. */
static void it_opens_and_writes_programs_as_elsewhere(void **state)
{
    static const char *const files[] = {"tests/export/data/kinds.pt2",
                                        "fixtures/lm.core.dynamic.pt2"};

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        exg_program *here = open_program(files[i]);
        exg_program *there;
        char *text[2];

        assert_int_equal(exg_save(here, in_folder("comma.pt2"), EXG_FORMAT_PT2, NULL, NULL),
                         EXG_OK);
        assert_int_equal(exg_program_print(here, &text[0], NULL), EXG_OK);
        assert_non_null(setlocale(LC_ALL, "C"));
        there = open_program(files[i]);
        assert_int_equal(exg_program_print(there, &text[1], NULL), EXG_OK);
        assert_string_equal(text[0], text[1]);
        assert_true(exg_program_equal(here, there, false, NULL));
        assert_int_equal(rename(in_folder("comma.pt2"), in_folder("kept")), 0);
        assert_int_equal(exg_save(there, in_folder("comma.pt2"), EXG_FORMAT_PT2, NULL, NULL),
                         EXG_OK);
        assert_files_equal("kept", "comma.pt2");
        assert_non_null(setlocale(LC_ALL, "de_DE.UTF-8"));
        free(text[0]);
        free(text[1]);
        exg_program_destroy(here);
        exg_program_destroy(there);
    }
}

static void it_knows_the_defaults_of_operators(void **state)
{
    exg_operators *operators = NULL;
    const exg_operator *op;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    op = exg_operators_find(operators, "torch.ops.aten.leaky_relu.default");
    assert_non_null(op);
    assert_true(op->schema->arguments[1].default_value.as_float == 0.01);
    exg_operators_destroy(operators);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_reads_and_writes_numbers_with_a_point),
        cmocka_unit_test(it_opens_and_writes_programs_as_elsewhere),
        cmocka_unit_test(it_knows_the_defaults_of_operators),
    };

    return cmocka_run_group_tests(tests, comma, remove_folder);
}
