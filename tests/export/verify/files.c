/* files.c - what is looked at beside the program's own words: files of weights, bytes of bools, and
 * how many findings are listed. */
#include "tests/export/early_maker.h"
#include "tests/export/exg_folder.h"

#include <exg/emit.h>
#include <exg/verify.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static char first_message[300]; /* of what beside() found */

/* Opens the file and gives what is found of the files beside it: "CODE at PLACE", joined. */
static const char *beside(const char *name)
{
    static char said[500];
    exg_diagnostics found = {0};
    exg_operators *operators;
    exg_program *program = NULL;
    exg_file_info *info = NULL;
    exg_verified verified;
    exg_error err;
    exg_status status;

    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    assert_int_equal(exg_open(in_folder(name), NULL, &program, &info, NULL), EXG_OK);
    assert_int_equal(exg_verify(program, operators, &verified, &found, NULL), EXG_OK);
    found.count = 0; /* what was found before is another matter */
    status = exg_verify_file(program, in_folder(name), info, &found, &err);
    assert_int_equal(status, found.count == 0 ? EXG_OK : EXG_MALFORMED);
    said[0] = first_message[0] = '\0';
    for (uint32_t i = 0; i < found.count; i++) {
        snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s%s at %s", i > 0 ? ", " : "",
                 found.items[i].code, found.items[i].where);
    }
    if (found.count > 0) {
        assert_string_equal(err.code, found.items[0].code);
        assert_string_equal(err.where, found.items[0].where);
        assert_string_equal(err.message, found.items[0].message);
        snprintf(first_message, sizeof(first_message), "%s", err.message);
    }
    exg_diagnostics_free(&found);
    exg_file_info_free(info);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
    return said;
}

/* Cut after `length` bytes. */
static void cut(const char *name, size_t length)
{
    size_t all;
    uint8_t *data = read_file(name, &all);

    assert_true(length <= all);
    write_file(name, data, length);
    free(data);
}

#define INSIDE "{\"data_location\": \"Internal\", \"data\": {\"buffer\": \"P4AAAMAAAAA=\"}}"
#define BESIDE(location, offset)                                                                   \
    "{\"data_location\": \"External\", \"data\": {\"location\": \"" location                       \
    "\", \"offset\": \"" offset "\", \"length\": \"8\", \"checksum\": \"\"}}"
#define ONE_META                                                                                   \
    "{\"dtype\": \"f32\", \"sizes\": [], \"requires_grad\": true, \"device\": {\"type\": "         \
    "\"cpu\", \"index\": -1}, \"strides\": [], \"storage_offset\": {\"as_int\": 0}, "              \
    "\"layout\": \"strided\"}"

/* S002-66, S002-72: the end of a file is that of the last range in it, whichever that is; each file
 * is told by its name. */
static void files_are_as_long_as_it_says(void **state)
{
    static const struct {
        const char *first, *second;
        size_t lengths[2]; /* of a.bin and b.bin; 99: not there */
        const char *found;
    } rows[] = {
        {BESIDE("a.bin", "0"), BESIDE("a.bin", "8"), {16, 99}, ""},
        {BESIDE("a.bin", "0"), BESIDE("a.bin", "8"), {15, 99}, "WGT-015 at files[\"a.bin\"]"},
        {BESIDE("a.bin", "8"), BESIDE("a.bin", "0"), {16, 99}, ""},
        {BESIDE("a.bin", "8"), BESIDE("a.bin", "0"), {15, 99}, "WGT-015 at files[\"a.bin\"]"},
        {BESIDE("a.bin", "4"), BESIDE("a.bin", "4"), {12, 99}, ""},
        {BESIDE("a.bin", "0"), BESIDE("b.bin", "8"), {8, 16}, ""},
        {BESIDE("a.bin", "0"), BESIDE("b.bin", "8"), {8, 15}, "WGT-015 at files[\"b.bin\"]"},
        {BESIDE("a.bin", "0"),
         BESIDE("b.bin", "8"),
         {7, 99},
         "WGT-015 at files[\"a.bin\"], WGT-015 at files[\"b.bin\"]"},
        {INSIDE, BESIDE("b.bin", "0"), {99, 99}, "WGT-015 at files[\"b.bin\"]"},
        {INSIDE, INSIDE, {99, 99}, ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static const char *const names[] = {"a.bin", "b.bin"};
        char tensors[1024];
        const char *text;

        empty_folder();
        for (int k = 0; k < 2; k++) {
            if (rows[i].lengths[k] != 99) {
                write_file(names[k], "0123456789abcdef", rows[i].lengths[k]);
            }
        }
        snprintf(tensors, sizeof(tensors), "\"buffers\": {\"v\": {\"storage\": %s, \"meta\": %s}}",
                 rows[i].second, EARLY_META);
        text = early_with(early_json(INSIDE, rows[i].first), "\"buffers\": {}", tensors);
        text = early_with(text, EARLY_VALUE("w"), EARLY_VALUE("w") ", " EARLY_VALUE("v"));
        write_file("e.json", text, strlen(text));
        assert_string_equal(beside("e.json"), rows[i].found);
        if (rows[i].lengths[0] == 15) {
            assert_string_equal(first_message,
                                "'a.bin' has 15 bytes, and weights are named up to 16");
        }
    }
    empty_folder();
}

/* Compressed weights are as long as what is stored of them. */
static void compressed_files_are_shorter(void **state)
{
    exg_save_options options = {.size = sizeof(options),
                                .weights = EXG_WEIGHTS_EXTERNAL,
                                .external_name = "w.bin",
                                .compression = EXG_COMPRESSION_ZSTD};
    exg_program *program = open_program("fixtures/lm.core.static.pt2");
    size_t length;

    (void)state;
    save_program(program, "m.exg", &options);
    exg_program_destroy(program);
    assert_string_equal(beside("m.exg"), "");
    length = (size_t)file_bytes("w.bin");
    cut("w.bin", length - 1);
    assert_string_equal(beside("m.exg"), "WGT-015 at files[\"w.bin\"]");
    assert_int_equal(remove(in_folder("w.bin")), 0);
    assert_string_equal(beside("m.exg"), "WGT-015 at files[\"w.bin\"]");
    empty_folder();
}

/* S002-72: each damaged tensor is told, whichever is sound beside it. */
static void damage_is_told_of_each_tensor(void **state)
{
    static const char *const sums[] = {"crc32:a6669d7d", "crc32:00000000"};

    (void)state;
    write_file("a.bin", "01234567", 8);
    for (int order = 0; order < 4; order++) {
        const int wrong[2] = {order & 1, order >> 1};
        char tensors[1024], first[300], second[300];
        exg_diagnostics found = {0};
        exg_operators *operators;
        exg_program *program;
        exg_verified verified;
        exg_error err;
        const char *text;

        for (int k = 0; k < 2; k++) {
            snprintf(k == 0 ? first : second, sizeof(first),
                     "{\"data_location\": \"External\", \"data\": {\"location\": \"a.bin\", "
                     "\"offset\": \"%d\", \"length\": \"4\", \"checksum\": \"%s\"}}",
                     4 * k,
                     k == 0     ? sums[wrong[0]]
                     : wrong[1] ? sums[1]
                                : "crc32:4d0ca3eb");
        }
        snprintf(tensors, sizeof(tensors), "\"buffers\": {\"v\": {\"storage\": %s, \"meta\": %s}}",
                 second, ONE_META);
        text = early_with(early_json(INSIDE ", \"meta\": " EARLY_META, "%STORAGE%"), "%STORAGE%",
                          early_with("%S%, \"meta\": " ONE_META, "%S%", first));
        text = early_with(text, "\"buffers\": {}", tensors);
        text = early_with(
            text, EARLY_VALUES("x", "y", "w"),
            EARLY_VALUE("x") ", " EARLY_VALUE("y") ", {\"name\": \"w\", \"meta\": " ONE_META
                                                   "}, {\"name\": \"v\", \"meta\": " ONE_META "}");
        write_file("e.json", text, strlen(text));
        program = open_program(in_folder("e.json"));
        assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
        exg_ignore(exg_verify(program, operators, &verified, &found, NULL));
        found.count = 0;
        assert_int_equal(exg_verify_data(program, &found, NULL, &err),
                         order == 0 ? EXG_OK : EXG_MALFORMED);
        assert_int_equal(found.count, wrong[0] + wrong[1]);
        for (uint32_t i = 0; i < found.count; i++) {
            assert_string_equal(found.items[i].code, "ARC-012");
            assert_string_equal(found.items[i].where,
                                i == 0 && wrong[0] ? "weights[\"w\"]" : "weights[\"v\"]");
        }
        exg_diagnostics_free(&found);
        exg_operators_destroy(operators);
        exg_program_destroy(program);
    }
    empty_folder();
}

/* A damaged frame has a code of its own, and the finding that of the rule. */
static void a_damaged_frame_is_told_by_the_rule(void **state)
{
    exg_save_options options = {.size = sizeof(options), .compression = EXG_COMPRESSION_ZSTD};
    exg_program *program = open_program("fixtures/lm.core.static.pt2");
    exg_diagnostics found = {0};
    exg_operators *operators;
    exg_verified verified;
    exg_error err;
    size_t length, at = 0;
    uint8_t *data;

    (void)state;
    save_program(program, "m.exg", &options);
    exg_program_destroy(program);
    data = read_file("m.exg", &length);
    while (memcmp(data + at, "\x28\xb5\x2f\xfd", 4) != 0) {
        at++; /* to where a frame begins */
    }
    data[at] ^= 0x55;
    write_file("m.exg", data, length);
    free(data);
    program = open_program(in_folder("m.exg"));
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    assert_int_equal(exg_verify(program, operators, &verified, &found, NULL), EXG_OK);
    found.count = 0; /* what was found before is another matter */
    assert_int_equal(exg_verify_data(program, &found, NULL, &err), EXG_MALFORMED);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.items[0].code, "ARC-012");
    assert_non_null(strstr(found.items[0].message, "frame 0"));
    assert_string_equal(err.code, "EXG-022");
    program->weights->count = 0; /* bytes of no weight are told by their number */
    found.count = 0;
    assert_int_equal(exg_verify_data(program, &found, NULL, &err), EXG_MALFORMED);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.items[0].where, "storages[0]");
    exg_diagnostics_free(&found);
    exg_operators_destroy(operators);
    exg_program_destroy(program);
    empty_folder();
}

/* ---- bytes ---------------------------------------------------------------------------------- */

#define BOOLS 131075 /* two blocks and a little */

/* A program of two buffers on one storage of bools. */
static exg_program *make_bools(const exg_operators *operators, const uint8_t *bytes)
{
    exg_program *program;
    exg_tensor_meta meta;
    exg_argument y;
    exg_builder *b;
    exg_ref flags;

    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    meta = exg_builder_meta(b, EXG_DTYPE_B8, (int64_t[]){BOOLS}, 1);
    flags = exg_builder_weight(b, "flags", &meta, EXG_INPUT_BUFFER, bytes);
    exg_builder_weight(b, "again", &meta, EXG_INPUT_BUFFER, bytes);
    y = exg_arg_ref(EMIT(b, logical_not_default, flags));
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    exg_builder_call(b);
    assert_int_equal(exg_builder_finish(b, NULL), EXG_OK);
    program->weights->items[1].storage = program->weights->items[0].storage;
    return program;
}

/* Wherever the byte is; one finding a storage, whoever has it. */
static void bools_are_looked_at_to_their_end(void **state)
{
    static const size_t places[] = {0, 1, 65535, 65536, 131071, 131072, BOOLS - 1};
    uint8_t *bytes = calloc(1, BOOLS);
    exg_operators *operators;

    (void)state;
    assert_non_null(bytes);
    memset(bytes, 1, 3);
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    for (size_t i = 0; i <= sizeof(places) / sizeof(places[0]); i++) {
        bool is_bad = i < sizeof(places) / sizeof(places[0]);
        uint8_t before = bytes[is_bad ? places[i] : 0];
        exg_diagnostics found;
        exg_program *program;
        exg_verified verified;
        char message[64];

        bytes[is_bad ? places[i] : 0] = is_bad ? 2 : before;
        program = make_bools(operators, bytes);
        assert_int_equal(exg_verify(program, operators, &verified, &found, NULL), EXG_OK);
        found.count = 0;
        assert_int_equal(exg_verify_data(program, &found, NULL, NULL), EXG_OK);
        assert_int_equal(found.count, is_bad);
        if (is_bad) {
            snprintf(message, sizeof(message), "byte %zu of 'flags' is 2", places[i]);
            assert_string_equal(found.items[0].code, "WGT-014");
            assert_string_equal(found.items[0].where, "weights[\"flags\"]");
            assert_string_equal(found.items[0].message, message);
            bytes[places[i]] = before;
        }
        exg_diagnostics_free(&found);
        exg_program_destroy(program);
    }
    exg_operators_destroy(operators);
    free(bytes);
}

/* ---- many findings -------------------------------------------------------------------------- */

/* A thousand errors are listed and a thousand of the others; all are counted. */
static void a_thousand_of_each_are_listed(void **state)
{
    enum { MOST = 1000 };
    static const uint32_t counts[] = {MOST - 1, MOST, MOST + 1, 2 * MOST};
    static exg_value values[3 * MOST];
    static char names[2 * MOST][8];
    exg_sym_int size = {NULL, -1, false};
    exg_tensor_meta meta;
    exg_operators *operators;
    exg_program *program = open_program("fixtures/mlp.pt2");
    const uint32_t own = program->graph->value_count;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    meta = *program->graph->values[0].tensor;
    meta.rank = 1;
    meta.sizes = meta.strides = &size;
    memcpy(values, program->graph->values, own * sizeof(*values));
    for (uint32_t i = 0; i < 2 * MOST; i++) {
        snprintf(names[i], sizeof(names[i]), "v%u", i);
        values[own + i] = (exg_value){.name = names[i], .tensor = &meta};
    }
    program->graph->values = values;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        uint32_t listed = counts[i] < MOST ? counts[i] : MOST;
        exg_diagnostics found;
        exg_verified verified;

        program->graph->value_count = own + counts[i];
        assert_int_equal(exg_verify(program, operators, &verified, &found, NULL), EXG_MALFORMED);
        assert_int_equal(found.error_count, counts[i]);   /* WGT-011 */
        assert_int_equal(found.warning_count, counts[i]); /* VAL-007 */
        assert_int_equal(found.note_count, 0);
        assert_int_equal(found.count, 2 * listed);
        exg_diagnostics_free(&found);
    }
    exg_operators_destroy(operators);
    exg_program_destroy(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_as_long_as_it_says),
        cmocka_unit_test(compressed_files_are_shorter),
        cmocka_unit_test(damage_is_told_of_each_tensor),
        cmocka_unit_test(a_damaged_frame_is_told_by_the_rule),
        cmocka_unit_test(bools_are_looked_at_to_their_end),
        cmocka_unit_test(a_thousand_of_each_are_listed),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
