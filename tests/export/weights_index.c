/* weights_index.c - a model in several files: what its index says, and what they hold. */
#include <exg/formats.h>

#include "tests/export/exg_folder.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char shard[] =
    "\x37\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}  \1\2";

static void it_refuses_an_index_that_lies(void **state)
{
    static const struct {
        const char *text;
        const char *code;
    } rows[] = {
        {"{\"weight_map\": {\"a\": \"1.safetensors\"}}", ""},
        {"{\"metadata\": {}, \"weight_map\": {}}", ""},
        {"{\"weight_map\": {\"b\": \"1.safetensors\"}}", "STF-INDEX"},
        {"{\"weight_map\": {\"a\": \"1.safetensors\", \"b\": \"1.safetensors\"}}", "STF-INDEX"},
        {"{\"weight_map\": {\"a\": \"2.safetensors\"}}", "IO-OPEN"},
        {"{\"weight_map\": {\"a\": \"link.safetensors\"}}", "WGT-LINK"},
        {"{\"weight_map\": {\"a\": \"../1.safetensors\"}}", "WGT-LOC"},
        {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", "WGT-LOC"},
        {"{\"weight_map\": {\"a\": \"x.index.json\"}}", "STF-SHARD"},
        {"{\"weight_map\": {\"a\": \"lfs.safetensors\"}}", "FMT-FOREIGN"},
        {"{\"weight_map\": {\"a\": \"./1.safetensors\"}}", ""},
        {"{\"weight_map\": {\"a\": \"././1.safetensors\"}}", ""},
        {"{\"metadata\": null, \"weight_map\": {\"a\": \"1.safetensors\"}}", ""},
        {"{\"weight_map\": {\"a\": \".\"}}", "WGT-LOC"},
        {"{\"weight_map\": {\"a\": \"./../1.safetensors\"}}", "WGT-LOC"},
        {"{\"weight_map\": {\"a\": \"./\"}}", "WGT-LOC"},
        {"{\"weight_map\": {\"a\": \"\"}}", "WGT-LOC"},
        {"{\"weight_map\": {\"a\": 1}}", "JSN-002"},
        {"{\"weight_map\": [\"a\"]}", "JSN-002"},
        {"{\"weight_map\": {\"a\": \"1.safetensors\"}", "JSN-001"},
        {"[\"weight_map\"]", "FMT-TENSORS"},
    };
    (void)state;
    write_file("1.safetensors", shard, sizeof(shard) - 1);
    write_file("lfs.safetensors", "version https://git-lfs.github.com/spec/v1\n", 43);
    assert_int_equal(symlink("/etc/passwd", in_folder("link.safetensors")), 0);
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_weights *weights = NULL;
        exg_error err;

        write_file("x.index.json", rows[r].text, strlen(rows[r].text));
        exg_error_clear(&err);
        if ((exg_weights_open(in_folder("x.index.json"), NULL, &weights, NULL, &err) == EXG_OK) !=
                (rows[r].code[0] == '\0') ||
            strcmp(err.code, rows[r].code) != 0) {
            fail_msg("%s: '%s' %s, expected '%s'", rows[r].text, err.code, err.message,
                     rows[r].code);
        }
        if (strncmp(err.code, "JSN-", 4) == 0) { /* not what JSON in general asks for */
            assert_non_null(strstr(err.fix, "fetch the index again"));
        }
        exg_weights_release(weights);
    }
    empty_folder();
}

/* Everything that does not fit is told at once, and counted. */
static void it_lists_all_that_does_not_fit(void **state)
{
    static const struct {
        const char *map;
        exg_status status;
        const char *says[4];
    } rows[] = {
        {"\"x\": \"1\", \"y\": \"1\", \"b\": \"2\"",
         EXG_MALFORMED,
         {"2 tensors that no file holds: x, y", "1 tensor that the index does not name: a", ""}},
        {"\"a\": \"2\", \"b\": \"1\", \"c\": \"2\"",
         EXG_MALFORMED,
         {"1 tensor that no file holds: c", "2 tensors in another file than the index names: b, a",
          ""}},
        {"\"a\": \"1\", \"b\": \"2\", \"c\": \"3\", \"d\": \"4\"",
         EXG_IO,
         {"2 of the 4 files that the index names cannot be opened: 3, 4", "", ""}},
        {"\"a\": \"1\", \"b\": \"2\", \"c\": \"dead\"",
         EXG_IO,
         {"1 of the 3 files", "a link to 'nowhere', where nothing is", ""}},
        {"\"x\": \"1\", \"y\": \"2\", \"c\": \"3\"", /* a file, and names in others */
         EXG_IO,
         {"1 of the 3 files that the index names cannot be opened: 3; and in the others 2 tensors "
          "that no file holds: x, y",
          "; 2 tensors that the index does not name: a, b", ""}},
        {"\"a\": \"3\", \"b\": \"2\", \"z\": \"1\"",
         EXG_IO,
         {"1 tensor that no file holds: z; 1 tensor in another file than the index names: a", "",
          ""}},
        {"\"a\": \"bad\", \"c\": \"3\"",
         EXG_IO,
         {"1 of the 2 files that the index names cannot be opened: 3 (", "", ""}},
        {"\"a\": \"1\", \"b\": \"2\"", EXG_OK, {"", "", ""}},
    };
    char second[sizeof(shard)];

    (void)state;
    memcpy(second, shard, sizeof(shard));
    second[10] = 'b';
    write_file("1", shard, sizeof(shard) - 1);
    write_file("2", second, sizeof(shard) - 1);
    write_file("bad", shard, sizeof(shard) - 2);
    assert_int_equal(symlink("nowhere", in_folder("dead")), 0);
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_weights *weights = NULL;
        char text[300];
        exg_error err;

        snprintf(text, sizeof(text), "{\"weight_map\": {%s}}", rows[r].map);
        write_file("x.index.json", text, strlen(text));
        exg_error_clear(&err);
        assert_int_equal(exg_weights_open(in_folder("x.index.json"), NULL, &weights, NULL, &err),
                         rows[r].status);
        for (size_t i = 0; i < 3; i++) {
            if (strstr(err.message, rows[r].says[i]) == NULL) {
                fail_msg("'%s' does not say '%s'", err.message, rows[r].says[i]);
            }
        }
        exg_weights_release(weights);
    }
    empty_folder();
}

/* 2000 names make no message of 2000, and the last kind of fault still finds its place. */
static void it_bounds_its_lists(void **state)
{
    static char text[100000];
    size_t length = (size_t)sprintf(text, "{\"weight_map\": {");
    exg_weights *weights = NULL;
    exg_error err;

    (void)state;
    write_file("1", shard, sizeof(shard) - 1);
    for (int i = 0; i < 2000; i++) {
        length +=
            (size_t)sprintf(text + length, "%s\"model.layers.%d.w\": \"1\"", i > 0 ? ", " : "", i);
    }
    length += (size_t)sprintf(text + length, "}}");
    write_file("x.index.json", text, length);
    exg_error_clear(&err);
    assert_int_equal(exg_weights_open(in_folder("x.index.json"), NULL, &weights, NULL, &err),
                     EXG_MALFORMED);
    assert_non_null(strstr(err.message, "2000 tensors that no file holds: model.layers.0.w, "));
    assert_non_null(strstr(err.message, ", ...; 1 tensor that the index does not name: a"));
    empty_folder();
}

/* What a shard holds and cannot give is in it all the same. */
static void it_counts_what_is_skipped_as_held(void **state)
{
    static const char later[] = "\x3a\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F5_E9\",\"shape\":[2],"
                                "\"data_offsets\":[0,2]}}  \1\2";
    static const char text[] = "{\"weight_map\": {\"a\": \"1\"}}";
    exg_weights *weights = NULL;

    (void)state;
    write_file("1", later, sizeof(later) - 1);
    write_file("x.index.json", text, sizeof(text) - 1);
    assert_int_equal(exg_weights_open(in_folder("x.index.json"), NULL, &weights, NULL, NULL),
                     EXG_OK);
    assert_int_equal(weights->skipped_count, 1);
    exg_weights_release(weights);
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_refuses_an_index_that_lies),
        cmocka_unit_test(it_lists_all_that_does_not_fit),
        cmocka_unit_test(it_bounds_its_lists),
        cmocka_unit_test(it_counts_what_is_skipped_as_held),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
