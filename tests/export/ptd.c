/* ptd.c - an ExecuTorch data file, every byte of whose table is damaged in turn: nothing outside of
 * it is touched, and what opens is whole. What its own writer made is in weights_file.c. */
#include <exg/formats.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define DATA    "fixtures/weights/named.ptd"
#define PROGRAM "fixtures/weights/program.pte"

static uint8_t *read_fixture(const char *path, size_t *length)
{
    uint8_t *data = malloc(8192);
    FILE *file = fopen(path, "rb");

    assert_non_null(file);
    *length = fread(data, 1, 8192, file);
    fclose(file);
    assert_true(*length > 100 && *length < 8192);
    return data;
}

static exg_status open_copy(const uint8_t *data, size_t length, exg_weights **weights,
                            exg_error *err)
{
    exg_error_clear(err);
    return exg_weights_open_memory(data, length, NULL, weights, NULL, err);
}

static void it_shares_segments_and_lists_blobs(void **state)
{
    size_t length;
    uint8_t *data = read_fixture(DATA, &length);
    exg_weights *weights;
    exg_error err;

    (void)state;
    assert_int_equal(open_copy(data, length, &weights, &err), EXG_OK);
    assert_int_equal(weights->count, 4);
    assert_int_equal(exg_weights_find(weights, EXG_TABLE_STATE, "rows")->storage,
                     exg_weights_find(weights, EXG_TABLE_STATE, "tied")->storage);
    assert_int_equal(exg_weights_find(weights, EXG_TABLE_STATE, "turned")->meta->strides[2].value,
                     6);
    assert_int_equal(weights->skipped_count, 1);
    assert_string_equal(weights->skipped[0].name, "delegate");
    assert_string_equal(weights->skipped[0].kind, "data of a backend, 4 bytes");
    exg_weights_release(weights);
    free(data);
}

static void damage(const char *path)
{
    static const uint8_t flips[] = {0x01, 0x80, 0xff};
    size_t length;
    uint8_t *data = read_fixture(path, &length);
    uint32_t refused = 0;

    for (size_t at = 0; at < length; at++) {
        for (size_t f = 0; f < sizeof(flips); f++) {
            exg_weights *weights = NULL;
            exg_error err;

            data[at] ^= flips[f];
            if (open_copy(data, length, &weights, &err) != EXG_OK) {
                assert_true(err.code[0] != '\0' && err.message[0] != '\0');
                refused++;
            }
            for (uint32_t i = 0; weights != NULL && i < weights->count; i++) {
                uint64_t bytes = 0;
                void *out;

                assert_int_equal(exg_tensor_meta_bytes(weights->items[i].meta, &bytes, NULL),
                                 EXG_OK);
                out = malloc(bytes + 1);
                assert_int_equal(exg_weight_read(weights, &weights->items[i], out, bytes, NULL),
                                 EXG_OK);
                free(out);
            }
            exg_weights_release(weights);
            data[at] ^= flips[f];
        }
    }
    assert_true(refused > 100);
    free(data);
}

static void it_stands_any_damage_of_its_table(void **state)
{
    (void)state;
    damage(DATA);
    damage(PROGRAM);
}

/* What has no place yet, and what is made at run time, is no constant. */
static void it_gives_the_constants_of_a_program(void **state)
{
    size_t length;
    uint8_t *data = read_fixture(PROGRAM, &length);
    exg_weights *weights;
    exg_error err;
    float bias[3];

    (void)state;
    assert_int_equal(open_copy(data, length, &weights, &err), EXG_OK);
    assert_int_equal(weights->count, 7);
    assert_int_equal(weights->skipped_count, 0);
    assert_null(exg_weights_find(weights, EXG_TABLE_STATE, "forward.values.4"));
    assert_int_equal(exg_weight_read(weights,
                                     exg_weights_find(weights, EXG_TABLE_STATE, "forward.values.1"),
                                     bias, sizeof(bias), &err),
                     EXG_OK);
    exg_weights_release(weights);
    free(data);
}

static void it_tells_a_cut_file(void **state)
{
    size_t length;
    uint8_t *data = read_fixture(DATA, &length);
    exg_weights *weights = NULL;
    exg_error err;

    (void)state;
    assert_int_equal(open_copy(data, length - 1, &weights, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "PTD-SEGMENT");
    assert_int_equal(open_copy(data, 100, &weights, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "PTD-TABLE");
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_shares_segments_and_lists_blobs),
        cmocka_unit_test(it_gives_the_constants_of_a_program),
        cmocka_unit_test(it_stands_any_damage_of_its_table),
        cmocka_unit_test(it_tells_a_cut_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
