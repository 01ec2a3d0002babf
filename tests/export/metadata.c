/* metadata.c - what files of weights say of themselves, kept as it is; and what they hold that has
 * no place in a table of tensors. */
#include <exg/formats.h>

#include "tests/export/exg_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_weights *open_bytes(const void *data, size_t length, exg_error *err)
{
    exg_weights *weights = NULL;

    exg_error_clear(err);
    exg_ignore(exg_weights_open_memory(data, length, NULL, &weights, NULL, err));
    return weights;
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

static void it_keeps_the_types_of_gguf(void **state)
{
    static const struct {
        const char *key, *value, *kind;
    } want[] = {
        {"general.architecture", "test", NULL},
        {"one.uint8", "255", "u8"},
        {"list.uint8", "[0, 255]", "u8[2]"},
        {"one.int8", "127", "i8"},
        {"list.int8", "[-128, 127]", "i8[2]"},
        {"one.uint16", "65535", "u16"},
        {"list.uint16", "[0, 65535]", "u16[2]"},
        {"one.int16", "32767", "i16"},
        {"list.int16", "[-32768, 32767]", "i16[2]"},
        {"one.uint32", "4294967295", "u32"},
        {"list.uint32", "[0, 4294967295]", "u32[2]"},
        {"one.int32", "2147483647", "i32"},
        {"list.int32", "[-2147483648, 2147483647]", "i32[2]"},
        {"one.uint64", "18446744073709551615", "u64"},
        {"list.uint64", "[0, 18446744073709551615]", "u64[2]"},
        {"one.int64", "9223372036854775807", "i64"},
        {"list.int64", "[-9223372036854775808, 9223372036854775807]", "i64[2]"},
        {"one.float32", "0.100000001", "f32"},
        {"one.float64", "0.1", "f64"},
        {"one.bool", "true", "bool"},
        {"one.string", "caf\xc3\xa9", NULL},
        {"list.float32", "[0.100000001, \"Infinity\", \"NaN\"]", "f32[3]"},
        {"list.float64", "[0.1, -1e+300]", "f64[2]"},
        {"list.bool", "[true, false]", "bool[2]"},
        {"list.string", "[\"caf\\u00e9\", \"\", \"say \\\"x\\\"\\n\", \"a\\u0000b\"]", "str[4]"},
    };
    exg_weights *weights = NULL;

    (void)state;
    assert_int_equal(exg_weights_open("fixtures/weights/kinds.gguf", NULL, &weights, NULL, NULL),
                     EXG_OK);
    assert_int_equal(weights->metadata.count, sizeof(want) / sizeof(want[0]));
    for (uint32_t i = 0; i < weights->metadata.count; i++) {
        const exg_string_pair *got = &weights->metadata.items[i];
        const char *kind = exg_weights_metadata_kind(weights, i);

        assert_string_equal(got->key, want[i].key);
        assert_string_equal(got->value, want[i].value);
        assert_true((kind == NULL) == (want[i].kind == NULL));
        if (kind != NULL) {
            assert_string_equal(kind, want[i].kind);
        }
    }
    assert_null(exg_weights_metadata_kind(weights, weights->metadata.count));
    exg_weights_release(weights);
}

typedef struct bytes {
    uint8_t data[2000];
    size_t length;
} bytes;

static void put(bytes *b, uint64_t value, int width)
{
    for (int i = 0; i < width; i++) {
        b->data[b->length++] = (uint8_t)(value >> 8 * i);
    }
}

static void put_text(bytes *b, const char *text, size_t length)
{
    put(b, length, 8);
    memcpy(b->data + b->length, text, length);
    b->length += length;
}

static bytes gguf(uint64_t tensors, uint64_t pairs)
{
    bytes b = {"GGUF\3", 8};

    put(&b, tensors, 8);
    put(&b, pairs, 8);
    return b;
}

static void put_tensor(bytes *b, const char *name, size_t length, uint32_t rank, uint32_t type,
                       uint64_t offset)
{
    put_text(b, name, length);
    put(b, rank, 4);
    for (uint32_t d = 0; d < rank; d++) {
        put(b, 1, 8);
    }
    put(b, type, 4);
    put(b, offset, 8);
}

static void it_keeps_texts_that_are_none(void **state)
{
    bytes b = gguf(0, 5);
    exg_weights *weights;
    exg_error err;

    (void)state;
    put_text(&b, "nul", 3);
    put(&b, 8, 4);
    put_text(&b, "a\0b", 3);
    put_text(&b, "raw", 3);
    put(&b, 8, 4);
    put_text(&b, "\xff\xfe", 2);
    put_text(&b, "list", 4);
    put(&b, 9, 4);
    put(&b, 8, 4);
    put(&b, 2, 8);
    put_text(&b, "\xff", 1);
    put_text(&b, "x", 1);
    put_text(&b, "nested", 6);
    put(&b, 9, 4);
    put(&b, 9, 4);
    put(&b, 2, 8);
    put(&b, 0, 4);
    put(&b, 2, 8);
    put(&b, 0x0201, 2);
    put(&b, 8, 4);
    put(&b, 1, 8);
    put_text(&b, "y", 1);
    put_text(&b, "k\0", 2);
    put(&b, 7, 4);
    put(&b, 0, 1);
    weights = open_bytes(b.data, b.length, &err);
    assert_non_null(weights);
    assert_int_equal(weights->metadata.count, 5);
    assert_string_equal(weights->metadata.items[0].value, "YQBi");
    assert_string_equal(exg_weights_metadata_kind(weights, 0), "bytes");
    assert_string_equal(weights->metadata.items[1].value, "//4=");
    assert_string_equal(exg_weights_metadata_kind(weights, 1), "bytes");
    assert_string_equal(weights->metadata.items[2].value, "[{\"bytes\": \"/w==\"}, \"x\"]");
    assert_string_equal(weights->metadata.items[3].value, "[{\"u8\": [1, 2]}, {\"str\": [\"y\"]}]");
    assert_string_equal(exg_weights_metadata_kind(weights, 3), "list[2]");
    assert_string_equal(weights->metadata.items[4].key, "k\\u0000");
    exg_weights_release(weights);
}

/* A key twice with one value is one; with two nobody can say which counts. */
static void it_refuses_a_key_with_two_values(void **state)
{
    static const struct {
        uint32_t type[2];
        uint64_t value[2];
        const char *code;
    } rows[] = {
        {{4, 4}, {1, 1}, ""},
        {{4, 4}, {1, 2}, "GGUF-KEY"},
        {{4, 5}, {1, 1}, "GGUF-KEY"},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        bytes b = gguf(0, 3);
        exg_weights *weights;
        exg_error err;

        for (int i = 0; i < 3; i++) {
            put_text(&b, i == 1 ? "other" : "key", i == 1 ? 5 : 3);
            put(&b, rows[r].type[i == 2], 4);
            put(&b, rows[r].value[i == 2], 4);
        }
        weights = open_bytes(b.data, b.length, &err);
        assert_string_equal(err.code, rows[r].code);
        assert_true((weights != NULL) == (rows[r].code[0] == '\0'));
        exg_weights_release(weights);
    }
}

/* Types and ranks that are not known are listed; the rest is there. */
static void it_lists_tensors_of_gguf_that_it_cannot_give(void **state)
{
    bytes b = gguf(5, 0);
    exg_weights *weights;
    exg_error err;

    (void)state;
    put_tensor(&b, "w", 1, 1, 24, 0);
    put_tensor(&b, "later", 5, 1, 99, 32);
    put_tensor(&b, "nine", 4, 9, 24, 64);
    put_tensor(&b, "many", 4, 65, 24, 96);
    put_tensor(&b, "a\0b", 3, 1, 24, 128);
    b.length = (b.length + 31) / 32 * 32 + 160;
    weights = open_bytes(b.data, b.length, &err);
    assert_string_equal(err.message, "");
    assert_int_equal(weights->count, 3);
    assert_int_equal(weights->items[1].meta->rank, 9);
    assert_string_equal(weights->items[2].fqn, "a\\u0000b");
    assert_int_equal(weights->skipped_count, 2);
    assert_string_equal(weights->skipped[0].name, "later");
    assert_string_equal(weights->skipped[0].kind, "type 99 of GGUF");
    assert_string_equal(weights->skipped[1].kind, "I8 of 65 dimensions");
    exg_weights_release(weights);
}

/* ---- safetensors ------------------------------------------------------------------------------
 */

static exg_weights *open_header(const char *header, size_t data, exg_error *err)
{
    static uint8_t file[4000];
    size_t length = strlen(header);

    memset(file, 0, sizeof(file));
    file[0] = (uint8_t)length;
    file[1] = (uint8_t)(length >> 8);
    memcpy(file + 8, header, length);
    return open_bytes(file, 8 + length + data, err);
}

static void it_keeps_packed_elements_as_bytes(void **state)
{
    static const struct {
        const char *header;
        size_t data;
        uint32_t rank;
        int64_t shape[3];
        const char *encoding;
    } rows[] = {
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3,4],\"data_offsets\":[0,6]}}", 6, 2, {3, 2}, "F4"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[4,3],\"data_offsets\":[0,6]}}",
         6,
         1,
         {6},
         "F4[4, 3]"},
        {"{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[2,4],\"data_offsets\":[0,6]}}",
         6,
         2,
         {2, 3},
         "F6_E2M3"},
        {"{\"a\":{\"dtype\":\"F6_E3M2\",\"shape\":[4,1],\"data_offsets\":[0,3]}}",
         3,
         1,
         {3},
         "F6_E3M2[4, 1]"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[0,5],\"data_offsets\":[0,0]}}",
         0,
         1,
         {0},
         "F4[0, 5]"},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_error err;
        exg_weights *weights = open_header(rows[r].header, rows[r].data, &err);
        const exg_weight *weight;

        assert_non_null(weights);
        weight = &weights->items[0];
        assert_int_equal(weight->meta->dtype, EXG_DTYPE_U8);
        assert_string_equal(weight->encoding, rows[r].encoding);
        assert_int_equal(weight->meta->rank, rows[r].rank);
        for (uint32_t d = 0; d < rows[r].rank; d++) {
            assert_int_equal(weight->meta->sizes[d].value, rows[r].shape[d]);
        }
        assert_int_equal(weights->storages[0].length, rows[r].data);
        exg_weights_release(weights);
    }
}

static void it_keeps_what_safetensors_allows(void **state)
{
    exg_error err;
    exg_weights *weights = open_header(
        "{\"__metadata__\":{\"k\\u0000\":\"v\\u0000\",\"a\":\"1\",\"a\":\"2\"},"
        "\"x\\u0000y\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
        "\"wide\":{\"dtype\":\"U8\",\"shape\":[0,18446744073709551615],\"data_offsets\":[0,0]},"
        "\"b\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[1,2],\"more\":[]}}",
        2, &err);

    (void)state;
    assert_string_equal(err.message, "");
    assert_int_equal(weights->metadata.count, 2);
    assert_string_equal(weights->metadata.items[0].key, "k\\u0000");
    assert_string_equal(weights->metadata.items[0].value, "dgA=");
    assert_string_equal(exg_weights_metadata_kind(weights, 0), "bytes");
    assert_string_equal(weights->metadata.items[1].value, "2");
    assert_int_equal(weights->count, 2);
    assert_string_equal(weights->items[0].fqn, "x\\u0000y");
    assert_int_equal(weights->items[1].meta->dtype, EXG_DTYPE_I8); /* the last b */
    assert_int_equal(weights->skipped_count, 3);
    assert_string_equal(weights->skipped[0].name, "__metadata__['a']");
    assert_string_equal(weights->skipped[1].name, "b");
    assert_string_equal(weights->skipped[2].name, "wide");
    exg_weights_release(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_keeps_the_types_of_gguf),
        cmocka_unit_test(it_keeps_texts_that_are_none),
        cmocka_unit_test(it_refuses_a_key_with_two_values),
        cmocka_unit_test(it_lists_tensors_of_gguf_that_it_cannot_give),
        cmocka_unit_test(it_keeps_packed_elements_as_bytes),
        cmocka_unit_test(it_keeps_what_safetensors_allows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
