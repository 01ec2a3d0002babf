/* weights_faults.c - of a damaged header all faults are told, each once. */
#include <exg/formats.h>

#include "tests/export/exg_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

typedef struct told {
    char codes[1200][16];
    char where[1200][40];
    uint32_t count;
} told;

static void take_fault(void *user, const exg_error *fault)
{
    told *t = user;

    assert_int_equal(fault->status, EXG_MALFORMED);
    snprintf(t->codes[t->count], sizeof(t->codes[0]), "%s", fault->code);
    snprintf(t->where[t->count++], sizeof(t->where[0]), "%.39s", fault->where);
}

static void open_and_tell(const char *path, told *t)
{
    exg_open_options options = {.size = sizeof(options), .fault = take_fault, .fault_user = t};
    exg_weights *weights = NULL;
    exg_error err;

    t->count = 0;
    assert_int_equal(exg_weights_open(path, &options, &weights, NULL, &err), EXG_MALFORMED);
    assert_null(weights);
    assert_true(t->count > 0);
    assert_string_equal(err.code, t->codes[0]); /* the first of them */
    assert_int_equal(exg_weights_open(path, NULL, &weights, NULL, &err), EXG_MALFORMED);
    assert_string_equal(err.code, t->codes[0]); /* as without */
}

static void write_safetensors(const char *name, const char *header, size_t data)
{
    static uint8_t file[200000];
    size_t length = strlen(header);

    memset(file, 0, sizeof(file));
    for (int i = 0; i < 8; i++) {
        file[i] = (uint8_t)(length >> 8 * i);
    }
    memcpy(file + 8, header, length);
    write_file(name, file, 8 + length + data);
}

static void it_tells_all_faults_of_a_header(void **state)
{
    static told t;
    static const char *const codes[] = {"STF-SIZE", "STF-SHAPE", "STF-KEY", "JSN-002",
                                        "STF-TILING"};
    static const char *const where[] = {"['b']", "['c'].shape", "['d']", "__metadata__['k']", ""};
    char *many = malloc(100000);
    size_t at = 1;

    (void)state;
    write_safetensors("all.safetensors",
                      "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                      "\"b\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[8,16]},"
                      "\"c\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[16,24]},"
                      "\"d\":{\"dtype\":\"F32\"},\"__metadata__\":{\"k\":3},"
                      "\"e\":{\"dtype\":\"I8\",\"shape\":[8],\"data_offsets\":[12,20]}}",
                      24);
    open_and_tell(in_folder("all.safetensors"), &t);
    assert_int_equal(t.count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_string_equal(t.codes[i], codes[i]);
        assert_string_equal(t.where[i], where[i]);
    }
    /* What is cut off is told once. */
    write_safetensors("cut.safetensors",
                      "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                      "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]},"
                      "\"c\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]}}",
                      10);
    open_and_tell(in_folder("cut.safetensors"), &t);
    assert_int_equal(t.count, 1);
    assert_string_equal(t.codes[0], "STF-OFFSETS");
    /* Not without end. */
    many[0] = '{';
    for (int i = 0; i < 1500; i++) {
        at += (size_t)snprintf(many + at, 100000 - at, "%s\"t%d\":{\"dtype\":\"F32\"}",
                               i == 0 ? "" : ",", i);
    }
    memcpy(many + at, "}", 2);
    write_safetensors("many.safetensors", many, 0);
    open_and_tell(in_folder("many.safetensors"), &t);
    assert_int_equal(t.count, 1001);
    free(many);
    empty_folder();
}

/* Adds to a number of 8 bytes that lies `at` bytes behind the name of a tensor. */
static void change_behind(uint8_t *data, size_t length, const char *name, size_t at, uint64_t by)
{
    const uint8_t *found = memmem(data, length, name, strlen(name));
    uint64_t value;

    assert_non_null(found);
    at += (size_t)(found - data) + strlen(name);
    memcpy(&value, data + at, 8);
    value += by;
    memcpy(data + at, &value, 8);
}

/* The offsets of two tensors, and the rows of a third. */
static void it_tells_all_faults_of_gguf(void **state)
{
    static const char *const codes[] = {"GGUF-SHAPE", "GGUF-PLACE", "GGUF-PLACE"};
    static told t;
    size_t length;
    uint8_t *data = read_path("fixtures/weights/little.gguf", &length);

    (void)state;
    change_behind(data, length, "i8", 4 + 8 + 4, 1);           /* rank, a size, type: the offset */
    change_behind(data, length, "Q8_0", 4 + 16 + 4, 1u << 20); /* two sizes */
    change_behind(data, length, "Q4_0", 4, 1);                 /* elements of a row */
    write_file("all.gguf", data, length);
    free(data);
    open_and_tell(in_folder("all.gguf"), &t);
    assert_int_equal(t.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_string_equal(t.codes[i], codes[i]);
    }
    assert_string_equal(t.where[0], "['Q4_0']");
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_tells_all_faults_of_a_header),
        cmocka_unit_test(it_tells_all_faults_of_gguf),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
