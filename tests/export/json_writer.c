/* json_writer.c - JSON as it is put together: brackets, commas, keys, values. */
#include <exg/json_writer.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void expect(exg_text *text, const char *expected)
{
    assert_string_equal(exg_text_string(text), expected);
    exg_text_free(text);
    *text = EXG_TEXT_EMPTY;
}

/* As Python's json.dumps of the same. */
static void commas_stand_between_values_alone(void **state)
{
    exg_text text = EXG_TEXT_EMPTY;

    (void)state;
    exg_json_put_open(&text, '{');
    exg_json_member_text(&text, "name", "a[");
    exg_json_member_open(&text, "empty", '[');
    exg_json_put_close(&text, ']');
    exg_json_put_key(&text, "list");
    exg_json_put_open(&text, '[');
    exg_json_put_int(&text, -2);
    exg_json_put_open(&text, '{');
    exg_json_put_close(&text, '}');
    exg_json_put_open(&text, '{');
    exg_json_member_null(&text, "x: ");
    exg_json_put_close(&text, '}');
    exg_json_put_text(&text, "{");
    exg_json_put_text(&text, "");
    exg_json_put_bool(&text, false);
    exg_json_put_open(&text, '[');
    exg_json_put_null(&text);
    exg_json_put_raw(&text, "1.5");
    exg_json_put_close(&text, ']');
    exg_json_put_close(&text, ']');
    exg_json_put_close(&text, '}');
    expect(&text,
           "{\"name\": \"a[\", \"empty\": [], \"list\": [-2, {}, {\"x: \": null}, \"{\", \"\", "
           "false, [null, 1.5]]}");
    exg_json_put_int(&text, 1); /* a line each */
    exg_text_putc(&text, '\n');
    exg_json_put_uint(&text, 2);
    exg_json_put_double(&text, 0.5);
    exg_json_put_optional_int(&text, true, 3);
    exg_json_put_optional_int(&text, false, 3);
    expect(&text, "1\n2, 0.5, 3, null");
}

static void values_are_json(void **state)
{
    exg_text text = EXG_TEXT_EMPTY;

    (void)state;
    exg_json_put_open(&text, '{');
    exg_json_member_int(&text, "a", INT64_MIN);
    exg_json_member_uint(&text, "b", UINT64_MAX);
    exg_json_member_double(&text, "c", 1e-5);
    exg_json_member_double(&text, "d", -INFINITY);
    exg_json_member_fixed(&text, "e", 2.5, 0);
    exg_json_member_fixed(&text, "f", -1234.5, 3);
    exg_json_member_fixed(&text, "g", NAN, 3);
    exg_json_member_bool(&text, "h\"", true);
    exg_json_member_text(&text, "i", NULL);
    exg_json_member_text(&text, "j", "\xc3\xa9\n");
    exg_json_put_close(&text, '}');
    expect(&text,
           "{\"a\": -9223372036854775808, \"b\": 18446744073709551615, \"c\": 1e-05, "
           "\"d\": \"-Infinity\", \"e\": 2, \"f\": -1234.500, \"g\": \"NaN\", \"h\\\"\": true, "
           "\"i\": null, \"j\": \"\\u00e9\\n\"}");
    exg_json_put_fixed(&text, -1e308, 2);
    assert_int_equal(strlen(exg_text_string(&text)), 313);
    exg_text_free(&text);
}

static void what_is_no_text_is_told(void **state)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_error err;

    (void)state;
    exg_json_put_text(&text, "fine");
    assert_int_equal(exg_json_written(&text, &err), EXG_OK);
    exg_json_put_text(&text, "\xff");
    assert_int_equal(exg_json_written(&text, &err), EXG_UNSUPPORTED);
    assert_string_equal(err.code, "FMT-TEXT");
    text.failed = true;
    assert_int_equal(exg_json_written(&text, &err), EXG_NO_MEMORY);
    exg_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_stand_between_values_alone),
        cmocka_unit_test(values_are_json),
        cmocka_unit_test(what_is_no_text_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
