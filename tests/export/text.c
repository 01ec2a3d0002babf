/* text.c - what may go to a terminal. */
#include <exg/text.h>
#include <math.h>
#include <stddef.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void expect_plain(const char *string, bool lines, const char *expected)
{
    exg_text text = EXG_TEXT_EMPTY;

    exg_text_plain(&text, string, lines);
    assert_string_equal(exg_text_string(&text), expected);
    exg_text_free(&text);
}

static void controls_are_shown_not_sent(void **state)
{
    (void)state;
    expect_plain("blocks.0.weight", false, "blocks.0.weight");
    expect_plain("a\033[2Jb\rc\nd\177", false, "a\\x1b[2Jb\\x0dc\\x0ad\\x7f");
    expect_plain("a\n\tb\033", true, "a\n\tb\\x1b");
    expect_plain("\xc2\x9b"
                 "31m",
                 false, "\\u{009b}31m"); /* a C1 control: CSI */
}

static void turned_writing_is_shown_other_letters_stay(void **state)
{
    (void)state;
    expect_plain("a\xe2\x80\xae"
                 "b\xe2\x81\xa6"
                 "c\xe2\x80\x8f",
                 false, "a\\u{202e}b\\u{2066}c\\u{200f}");
    expect_plain("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xe2\x80\x93", false,
                 "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xe2\x80\x93");
}

static void cut_characters_end_it(void **state)
{
    (void)state;
    expect_plain("a\xe2", false, "a\xe2");
    expect_plain("a\xe2\x80", false, "a\xe2\x80");
    expect_plain("a\xc2", false, "a\xc2");
    expect_plain("", false, "");
}

static void bytes_of_json_may_hold_nul(void **state)
{
    exg_text text = EXG_TEXT_EMPTY;

    (void)state;
    exg_text_json_bytes(&text, "a\0\xc3\xa9\xf0\x9f\x98\x80x", 8);
    assert_string_equal(exg_text_string(&text), "\"a\\u0000\\u00e9\\ud83d\\ude00\"");
    exg_text_free(&text);
}

static void counts_have_their_plural(void **state)
{
    exg_text text = EXG_TEXT_EMPTY;

    (void)state;
    exg_text_count(&text, 0, "node");
    exg_text_count(&text, 1, "node");
    exg_text_count(&text, 2, "node");
    assert_string_equal(exg_text_string(&text), "0 nodes1 node2 nodes");
    exg_text_free(&text);
    assert_string_equal(exg_text_string(&text), "");
    assert_string_equal(exg_text_part(&(exg_text){0}, &text), "");
}

/* Python's repr() and json.dumps(). */
static void doubles_are_the_shortest_that_read_back(void **state)
{
    exg_text text = EXG_TEXT_EMPTY;

    (void)state;
    exg_text_double(&text, 0.1);
    exg_text_puts(&text, " ");
    exg_text_json_double(&text, 1);
    exg_text_puts(&text, " ");
    exg_text_json_double(&text, 1e-5);
    exg_text_puts(&text, " ");
    exg_text_json_double(&text, -INFINITY);
    assert_string_equal(exg_text_string(&text), "0.1 1.0 1e-05 \"-Infinity\"");
    exg_text_free(&text);
}

static void utf8_is_known_by_its_bytes(void **state)
{
    (void)state;
    assert_true(exg_text_is_utf8("gr\xc3\xbc\xc3\x9f", 6));
    assert_false(exg_text_is_utf8("\xc0\xaf", 2));     /* overlong */
    assert_false(exg_text_is_utf8("\xed\xa0\x80", 3)); /* a surrogate */
    assert_false(exg_text_is_utf8("\xc3", 1));         /* cut */
}

/* A text that ran out of memory gives NULL: what takes it must not look whole. */
static void a_text_of_a_failed_one_fails(void **state)
{
    exg_text plain = EXG_TEXT_EMPTY;
    exg_text json = EXG_TEXT_EMPTY;

    (void)state;
    exg_text_plain(&plain, NULL, false);
    exg_text_json_string(&json, NULL);
    assert_null(exg_text_string(&plain));
    assert_null(exg_text_string(&json));
    exg_text_free(&plain);
    exg_text_free(&json);
}

/* Written down by hand: three digits at least, powers of 1000, the next unit where this one has
 * four. */
static void quantities_have_units_for_people(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } sizes[] = {{0, "0 bytes"},          {1, "1 byte"},
                 {999, "999 bytes"},      {1000, "1.00 kB"},
                 {65536, "65.5 kB"},      {999499, "999.5 kB"},
                 {999500, "1.00 MB"},     {623054848, "623.1 MB"},
                 {7000000000, "7.00 GB"}, {UINT64_MAX, "18446744.1 TB"}};
    static const struct {
        double ns;
        const char *text;
    } times[] = {{0, "0 ns"},        {176, "176 ns"},     {6492, "6.49 us"}, {39830, "39.8 us"},
                 {727641, "728 us"}, {999500, "1.00 ms"}, {1.5e9, "1.50 s"}, {3600e9, "3600 s"}};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        exg_text text = EXG_TEXT_EMPTY;

        exg_text_bytes(&text, sizes[i].bytes);
        assert_string_equal(exg_text_string(&text), sizes[i].text);
        exg_text_free(&text);
    }
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        exg_text text = EXG_TEXT_EMPTY;

        exg_text_ns(&text, times[i].ns);
        assert_string_equal(exg_text_string(&text), times[i].text);
        exg_text_free(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(controls_are_shown_not_sent),
        cmocka_unit_test(turned_writing_is_shown_other_letters_stay),
        cmocka_unit_test(cut_characters_end_it),
        cmocka_unit_test(bytes_of_json_may_hold_nul),
        cmocka_unit_test(counts_have_their_plural),
        cmocka_unit_test(doubles_are_the_shortest_that_read_back),
        cmocka_unit_test(utf8_is_known_by_its_bytes),
        cmocka_unit_test(a_text_of_a_failed_one_fails),
        cmocka_unit_test(quantities_have_units_for_people),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
