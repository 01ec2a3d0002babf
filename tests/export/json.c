/* json.c - the JSON reader keeps what the text says and refuses what is no JSON. */
#include "libexport/formats/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_json_doc *parse(const char *text)
{
    exg_json_doc *doc = NULL;
    exg_error err;

    if (exg_json_parse(text, strlen(text), EXG_NO_OFFSET, EXG_JSON_KEYS_NOW, &doc, &err) !=
        EXG_OK) {
        fail_msg("%s: %s", text, err.message);
    }
    return doc;
}

static void it_gives_every_scalar_exactly(void **state)
{
    exg_json_doc *doc = parse("[9223372036854775807, -9223372036854775808, 0.1, -0.0, 1e300, true,"
                              " null, \"a\\u00e9\\ud83d\\ude00\\n\", 123456789012345678]");
    exg_json_walk walk = {0};
    exg_json v;
    int64_t i = 0;
    double d = 0;
    bool b = false;
    const char *s;
    size_t length = 0;

    (void)state;
    assert_int_equal(exg_json_count(exg_json_root(doc)), 9);
    assert_int_equal(exg_json_array(exg_json_root(doc), &walk, NULL), EXG_OK);
    assert_true(exg_json_next(&walk, &v) && exg_json_int(v, &i, NULL) == EXG_OK && i == INT64_MAX);
    assert_true(exg_json_next(&walk, &v) && exg_json_int(v, &i, NULL) == EXG_OK && i == INT64_MIN);
    assert_true(exg_json_next(&walk, &v) && exg_json_double(v, &d, NULL) == EXG_OK && d == 0.1);
    assert_true(exg_json_next(&walk, &v) && exg_json_double(v, &d, NULL) == EXG_OK && signbit(d));
    assert_true(exg_json_next(&walk, &v) && exg_json_double(v, &d, NULL) == EXG_OK && d == 1e300);
    assert_true(exg_json_next(&walk, &v) && exg_json_bool(v, &b, NULL) == EXG_OK && b);
    assert_true(exg_json_next(&walk, &v) && exg_json_is_null(v));
    assert_true(exg_json_next(&walk, &v) && exg_json_string(v, &s, &length, NULL) == EXG_OK);
    assert_string_equal(s, "a\xc3\xa9\xf0\x9f\x98\x80\n");
    assert_int_equal(length, 8);
    assert_true(exg_json_next(&walk, &v) && exg_json_int(v, &i, NULL) == EXG_OK);
    assert_true(i == 123456789012345678);
    assert_false(exg_json_next(&walk, &v));
    exg_json_free(doc);
}

static void it_keeps_members_in_file_order(void **state)
{
    exg_json_doc *doc = parse("{\"z\": 1, \"a\": {\"b\": []}, \"\": 2}");
    static const char *const expected[] = {"z", "a", ""};
    exg_json_walk walk = {0};
    exg_json v;
    const char *key;
    uint32_t length;

    (void)state;
    assert_int_equal(exg_json_object(exg_json_root(doc), &walk, NULL), EXG_OK);
    for (int i = 0; i < 3; i++) {
        assert_true(exg_json_next_member(&walk, &key, &length, &v));
        assert_string_equal(key, expected[i]);
    }
    assert_false(exg_json_next_member(&walk, &key, &length, &v));
    assert_true(exg_json_find(exg_json_root(doc), "a", &v));
    assert_int_equal(exg_json_type_of(v), EXG_JSON_OBJECT);
    assert_false(exg_json_find(exg_json_root(doc), "b", &v));
    exg_json_free(doc);
}

static void it_refuses_what_is_no_json(void **state)
{
    static const struct {
        const char *text;
        const char *code;
        uint64_t offset;
    } rows[] = {
        {"", "JSN-001", 0},
        {"  ", "JSN-001", 2},
        {"{", "JSN-001", 1},
        {"[1,]", "JSN-001", 3},
        {"[1 2]", "JSN-001", 3},
        {"{\"a\" 1}", "JSN-001", 5},
        {"{\"a\": 1,}", "JSN-001", 8},
        {"{1: 2}", "JSN-001", 1},
        {"[tru]", "JSN-001", 1},
        {"[\"a]", "JSN-001", 1},
        {"[1] x", "JSN-001", 4},
        {"[\"\n\"]", "JSN-001", 1},
        {"[1]]", "JSN-001", 3},
        {"\xef\xbb\xbf[]", "JSN-001", 0},
        {"[\"\\ud800\"]", "JSN-001", EXG_NO_OFFSET},
        {"[01]", "JSN-001", EXG_NO_OFFSET},
        {"[1e999]", "JSN-001", EXG_NO_OFFSET},
        {"[123456789012345678901234567890]", "JSN-001", EXG_NO_OFFSET},
        {"[\"\xff\"]", "JSN-001", EXG_NO_OFFSET},
        {"[\"\xc0\x80\"]", "JSN-001", EXG_NO_OFFSET},
        {"{\"a\": 1, \"a\": 2}", "JSN-001", EXG_NO_OFFSET},
        {"{\"x\": {\"a\": 1, \"b\": [], \"a\": 2}}", "JSN-001", EXG_NO_OFFSET},
        {"{\"a\\u0000\": 1}", "JSN-001", EXG_NO_OFFSET},
        {"{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"c\":1}",
         "JSN-001", EXG_NO_OFFSET},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_json_doc *doc = NULL;
        exg_error err;
        exg_status status = exg_json_parse(rows[r].text, strlen(rows[r].text), EXG_NO_OFFSET,
                                           EXG_JSON_KEYS_NOW, &doc, &err);

        if (status != EXG_MALFORMED || strcmp(err.code, rows[r].code) != 0 ||
            (rows[r].offset != EXG_NO_OFFSET && err.offset != rows[r].offset)) {
            fail_msg("row %zu: %s: %s %s at %llu", r, rows[r].text, err.code, err.message,
                     (unsigned long long)err.offset);
        }
        assert_null(doc);
    }
}

static void it_says_where_a_value_of_the_wrong_type_stands(void **state)
{
    exg_json_doc *doc = NULL;
    static const char text[] = "{\"a\": [1, 2.5, \"x\"], \"b\": {\"c\": 18446744073709551615}}";
    exg_json v;
    exg_json_walk walk = {0};
    exg_error err;
    int64_t i = 0;

    (void)state;
    assert_int_equal(exg_json_parse(text, strlen(text), 1000, EXG_JSON_KEYS_NOW, &doc, &err),
                     EXG_OK);
    assert_true(exg_json_find(exg_json_root(doc), "a", &v));
    assert_int_equal(exg_json_array(v, &walk, &err), EXG_OK);
    assert_true(exg_json_next(&walk, &v) && exg_json_next(&walk, &v));
    assert_int_equal(exg_json_int(v, &i, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "JSN-002");
    assert_int_equal(err.offset, 1000 + 10);
    assert_true(exg_json_next(&walk, &v));
    assert_int_equal(exg_json_int(v, &i, &err), EXG_MALFORMED);
    assert_int_equal(err.offset, 1000 + 15);
    assert_true(exg_json_find(exg_json_root(doc), "b", &v) && exg_json_find(v, "c", &v));
    assert_int_equal(exg_json_int(v, &i, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "JSN-006");
    assert_int_equal(err.offset, 1000 + 32);
    exg_json_free(doc);
}

static void it_takes_nan_where_a_float_is_asked_for_and_nowhere_else(void **state)
{
    static const char *const texts[] = {"[NaN, Infinity, -Infinity]",
                                        "[\"NaN\",\"Infinity\" , \"-Infinity\"]",
                                        "[NaN,\"Infinity\",\n-Infinity]"};

    (void)state;
    for (int t = 0; t < 3; t++) {
        exg_json_doc *doc = parse(texts[t]);
        exg_json_walk walk = {0};
        exg_json v;
        exg_error err;
        double d[3];
        const char *s;

        assert_int_equal(exg_json_array(exg_json_root(doc), &walk, NULL), EXG_OK);
        for (int i = 0; i < 3; i++) {
            assert_true(exg_json_next(&walk, &v));
            assert_int_equal(exg_json_double(v, &d[i], NULL), EXG_OK);
        }
        assert_true(isnan(d[0]) && d[1] == INFINITY && d[2] == -INFINITY);
        if (t == 0) {
            assert_int_equal(exg_json_string(v, &s, NULL, &err), EXG_MALFORMED);
            assert_int_equal(err.offset, 16);
        }
        exg_json_free(doc);
    }
}

static void it_limits_depth(void **state)
{
    char text[4096];
    exg_json_doc *doc = NULL;
    exg_error err;

    (void)state;
    memset(text, '[', 600);
    memset(text + 600, ']', 600);
    assert_int_equal(exg_json_parse(text, 1200, EXG_NO_OFFSET, EXG_JSON_KEYS_NOW, &doc, &err),
                     EXG_LIMIT);
    assert_string_equal(err.code, "JSN-007");
    memset(text, '[', 500);
    memset(text + 500, ']', 500);
    assert_int_equal(exg_json_parse(text, 1000, EXG_NO_OFFSET, EXG_JSON_KEYS_NOW, &doc, &err),
                     EXG_OK);
    exg_json_free(doc);
}

static void it_refuses_every_prefix_and_survives_every_flipped_byte(void **state)
{
    static const char text[] =
        "{\"a\": [1, -2.5e3, true, null], \"b\": {\"c\\n\": \"d\"}, \"e\": NaN}";
    size_t length = strlen(text);

    (void)state;
    for (size_t n = 0; n < length; n++) {
        char *copy = malloc(n + 1);
        exg_json_doc *doc = NULL;

        memcpy(copy, text, n);
        assert_int_not_equal(exg_json_parse(copy, n, EXG_NO_OFFSET, EXG_JSON_KEYS_NOW, &doc, NULL),
                             EXG_OK);
        free(copy);
    }
    for (size_t n = 0; n < length * 8; n++) {
        char copy[sizeof(text)];
        exg_json_doc *doc = NULL;
        exg_error err;

        memcpy(copy, text, length);
        copy[n / 8] = (char)(copy[n / 8] ^ 1 << (n % 8));
        if (exg_json_parse(copy, length, EXG_NO_OFFSET, EXG_JSON_KEYS_NOW, &doc, &err) == EXG_OK) {
            exg_json_free(doc);
        }
    }
}

static void it_reads_strings_with_nul_only_to_refuse_them(void **state)
{
    exg_json_doc *doc = parse("\"a\\u0000b\"");
    const char *s;
    exg_error err;

    (void)state;
    assert_int_equal(exg_json_string(exg_json_root(doc), &s, NULL, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "JSN-001");
    exg_json_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_gives_every_scalar_exactly),
        cmocka_unit_test(it_keeps_members_in_file_order),
        cmocka_unit_test(it_refuses_what_is_no_json),
        cmocka_unit_test(it_says_where_a_value_of_the_wrong_type_stands),
        cmocka_unit_test(it_takes_nan_where_a_float_is_asked_for_and_nowhere_else),
        cmocka_unit_test(it_limits_depth),
        cmocka_unit_test(it_refuses_every_prefix_and_survives_every_flipped_byte),
        cmocka_unit_test(it_reads_strings_with_nul_only_to_refuse_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
