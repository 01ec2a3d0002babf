/* scan.c - parts of a text, taken one after the other. */
#include "libexport/base/scan.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void tokens_are_taken_behind_spaces(void **state)
{
    exg_scan scan = {"  ( <= ab", EXG_SCAN_BLANKS};

    (void)state;
    assert_int_equal(exg_scan_next(&scan), '(');
    assert_false(exg_scan_take(&scan, ")"));
    assert_true(exg_scan_take(&scan, "("));
    assert_false(exg_scan_take(&scan, "<=="));
    assert_true(exg_scan_take(&scan, "<="));
    assert_true(exg_scan_take(&scan, "ab"));
    assert_false(exg_scan_take(&scan, "b")); /* the end is not passed */
    assert_int_equal(exg_scan_next(&scan), '\0');
}

static void only_what_is_named_is_space(void **state)
{
    exg_scan blanks = {" \n1", EXG_SCAN_BLANKS};
    exg_scan spaces = {" \t\r\n1", EXG_SCAN_SPACES};

    (void)state;
    assert_int_equal(exg_scan_next(&blanks), '\n');
    assert_int_equal(exg_scan_next(&spaces), '1');
}

static void words_are_whole(void **state)
{
    exg_scan scan = {" and andy _1-", EXG_SCAN_BLANKS};
    const char *word;

    (void)state;
    assert_false(exg_scan_take_word(&scan, "an"));
    assert_true(exg_scan_take_word(&scan, "and"));
    assert_false(exg_scan_take_word(&scan, "and"));
    assert_int_equal(exg_scan_word(&scan, &word), 4);
    assert_memory_equal(word, "andy", 4);
    assert_int_equal(exg_scan_word(&scan, &word), 2);
    assert_int_equal(exg_scan_word(&scan, &word), 0);
    assert_true(exg_scan_take(&scan, "-"));
    scan.at = " 042 x";
    assert_int_equal(exg_scan_digits(&scan), 3);
    assert_int_equal(exg_scan_digits(&scan), 0);
}

static void quotes_end_where_they_began(void **state)
{
    static const char *const rows[] = {"'", "'a", "'a\"", "\"a'", "'a\\'b'", "a", ""};
    exg_scan scan = {" 'it is' \"it's\"", EXG_SCAN_BLANKS};
    const char *text;
    size_t length;

    (void)state;
    assert_true(exg_scan_quoted(&scan, &text, &length));
    assert_true(length == 5 && memcmp(text, "it is", 5) == 0);
    assert_true(exg_scan_quoted(&scan, &text, &length));
    assert_true(length == 4 && memcmp(text, "it's", 4) == 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        scan.at = rows[i];
        assert_false(exg_scan_quoted(&scan, &text, &length));
        assert_ptr_equal(scan.at, rows[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_taken_behind_spaces),
        cmocka_unit_test(only_what_is_named_is_space),
        cmocka_unit_test(words_are_whole),
        cmocka_unit_test(quotes_end_where_they_began),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
