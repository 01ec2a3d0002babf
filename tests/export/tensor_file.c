/* tensor_file.c - safetensors and npy: strict to read, the same bytes to write. */
#include <exg/formats.h>

#include "libexport/base/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_status open_copy(const void *data, size_t length, exg_tensor_file **file, void **copy,
                            exg_error *err)
{
    *copy = malloc(length + 1);
    memcpy(*copy, data, length);
    exg_error_clear(err);
    return exg_tensor_file_open_memory(*copy, length, file, err);
}

/* Header and data as a file in a static buffer. */
static size_t safetensors(char *out, const char *header, size_t data)
{
    size_t length = strlen(header);

    memset(out, 0, 8);
    out[0] = (char)length;
    out[1] = (char)(length >> 8);
    memcpy(out + 8, header, length);
    for (size_t i = 0; i < data; i++) {
        out[8 + length + i] = (char)i;
    }
    return 8 + length + data;
}

static void it_reads_files_of_the_reference_writer(void **state)
{
    exg_tensor_file *file = NULL;
    const exg_named_tensor *x;
    exg_error err;

    (void)state;
    assert_int_equal(exg_tensor_file_open("fixtures/mlp.inputs.safetensors", &file, &err), EXG_OK);
    assert_int_equal(file->count, 1);
    x = exg_tensor_file_find(file, "x");
    assert_non_null(x);
    assert_null(exg_tensor_file_find(file, "y"));
    assert_int_equal(x->dtype, EXG_DTYPE_F32);
    assert_int_equal(x->rank, 2);
    assert_int_equal(x->shape[0], 3);
    assert_int_equal(x->shape[1], 8);
    assert_int_equal(x->bytes, 96);
    exg_tensor_file_close(file);
    exg_tensor_file_close(NULL);
}

static const struct {
    const char *header;
    size_t data;
    exg_status status;
    const char *code;
} headers[] = {
    {"{}", 0, EXG_OK, ""},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}   ", 4, EXG_OK, ""},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\","
     "\"shape\":[0,9],\"data_offsets\":[4,4]}}",
     4, EXG_OK, ""},
    {"{}", 1, EXG_MALFORMED, "STF-TILING"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, EXG_MALFORMED,
     "STF-TILING"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2, EXG_MALFORMED,
     "STF-TILING"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\","
     "\"shape\":[2],\"data_offsets\":[1,3]}}",
     3, EXG_MALFORMED, "STF-TILING"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, EXG_MALFORMED,
     "STF-SIZE"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 4, EXG_MALFORMED,
     "STF-OFFSETS"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, EXG_MALFORMED,
     "STF-OFFSETS"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, EXG_MALFORMED,
     "STF-OFFSETS"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, EXG_MALFORMED,
     "STF-SHAPE"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[9223372036854775807,4],\"data_offsets\":[0,4]}}", 4,
     EXG_MALFORMED, "STF-SIZE"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4611686018427387904,4611686018427387904,0],"
     "\"data_offsets\":[0,0]}}",
     0, EXG_MALFORMED, "STF-SIZE"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0,4611686018427387904,4611686018427387904],"
     "\"data_offsets\":[0,0]}}",
     0, EXG_OK, ""},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[8],\"data_offsets\":[0,4]}}", 4, EXG_OK, ""},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[7],\"data_offsets\":[0,4]}}", 4, EXG_MALFORMED,
     "STF-SIZE"},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[6],\"data_offsets\":[0,4]}}", 4, EXG_MALFORMED,
     "STF-SIZE"},
    {"{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[4,1],\"data_offsets\":[0,3]}}", 3, EXG_OK, ""},
    {"{\"a\":[\"F32\",[1],[0,4]]}", 4, EXG_OK, ""},
    {"{\"a\":[\"F32\",[1],[0,4],1]}", 4, EXG_MALFORMED, "JSN-002"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0,18446744073709551615],\"data_offsets\":[0,0]}}", 0,
     EXG_OK, ""},
    {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
     EXG_MALFORMED, "STF-KEY"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":NaN}}", 4, EXG_MALFORMED,
     "JSN-001"},
    {"{\"__metadata__\":null}", 0, EXG_OK, ""},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, EXG_MALFORMED, "STF-KEY"},
    {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, EXG_OK, ""},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 0, EXG_MALFORMED, "STF-KEY"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, EXG_OK, ""},
    {"{\"__metadata__\":{\"a\":1}}", 0, EXG_MALFORMED, "JSN-002"},
    {"{\"a\":{},\"a\":{}}", 0, EXG_MALFORMED, "STF-KEY"},
    {"[]", 0, EXG_UNSUPPORTED, "FMT-TENSORS"},
    {" {}", 0, EXG_OK, ""},
    {"\t\n{}", 0, EXG_OK, ""},
    {"  ", 0, EXG_UNSUPPORTED, "FMT-TENSORS"},
    {"{", 0, EXG_MALFORMED, "STF-HEADER"},
    {"{]", 0, EXG_MALFORMED, "JSN-001"},
};

static void it_refuses_headers_that_break_a_rule(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof(headers) / sizeof(headers[0]); r++) {
        char buffer[1024];
        size_t length = safetensors(buffer, headers[r].header, headers[r].data);
        exg_tensor_file *file = NULL;
        void *copy;
        exg_error err;
        exg_status status = open_copy(buffer, length, &file, &copy, &err);

        if (status != headers[r].status || strcmp(err.code, headers[r].code) != 0) {
            fail_msg("%s: %s %s %s", headers[r].header, exg_status_name(status), err.code,
                     err.message);
        }
        exg_tensor_file_close(file);
        free(copy);
    }
}

static void it_refuses_every_prefix_of_both_forms(void **state)
{
    static const char npy[] = "\x93NUMPY\x01\x00\x47\x00{'descr': '<f4', 'fortran_order': False, "
                              "'shape': (2,), }             \n\0\0\x80?\0\0\0@";
    char buffer[1024];
    size_t length =
        safetensors(buffer, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);

    (void)state;
    for (size_t n = 0; n <= length; n++) {
        exg_tensor_file *file = NULL;
        void *copy;
        exg_error err;

        assert_int_equal(open_copy(buffer, n, &file, &copy, &err) == EXG_OK, n == length);
        exg_tensor_file_close(file);
        free(copy);
    }
    length = sizeof(npy) - 1;
    for (size_t n = 0; n <= length; n++) {
        exg_tensor_file *file = NULL;
        void *copy;
        exg_error err;

        if ((open_copy(npy, n, &file, &copy, &err) == EXG_OK) != (n == length)) {
            fail_msg("%zu of %zu: %s %s", n, length, err.code, err.message);
        }
        exg_tensor_file_close(file);
        free(copy);
    }
}

/* A version 1 npy with its header padded, and `count` bytes 0, 1, 2, ... */
static size_t npy(char *out, const char *header, size_t count)
{
    size_t length = strlen(header);

    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)length;
    out[9] = (char)(length >> 8);
    memcpy(out + 10, header, length);
    for (size_t i = 0; i < count; i++) {
        out[10 + length + i] = (char)i;
    }
    return 10 + length + count;
}

static void it_reads_npy_in_every_order(void **state)
{
    char buffer[512];
    exg_tensor_file *file = NULL;
    void *copy;
    exg_error err;
    size_t length = npy(buffer, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", 6);

    (void)state;
    assert_int_equal(open_copy(buffer, length, &file, &copy, &err), EXG_OK);
    assert_int_equal(file->count, 1);
    assert_string_equal(file->items[0].name, "");
    assert_int_equal(file->items[0].dtype, EXG_DTYPE_U8);
    assert_memory_equal(file->items[0].data, "\0\2\4\1\3\5", 6);
    exg_tensor_file_close(file);
    free(copy);
    length = npy(buffer, "{'shape': (3,), 'fortran_order': False, 'descr': '>i2'}", 6);
    assert_int_equal(open_copy(buffer, length, &file, &copy, &err), EXG_OK);
    assert_int_equal(file->items[0].dtype, EXG_DTYPE_I16);
    assert_int_equal(((const int16_t *)file->items[0].data)[1], 0x0203);
    exg_tensor_file_close(file);
    free(copy);
    length = npy(buffer, "{'descr': '<c16', 'fortran_order': False, 'shape': (), }", 16);
    assert_int_equal(open_copy(buffer, length, &file, &copy, &err), EXG_OK);
    assert_int_equal(file->items[0].dtype, EXG_DTYPE_C128);
    assert_int_equal(file->items[0].rank, 0);
    exg_tensor_file_close(file);
    free(copy);
}

/* As numpy.load() does; but it is told. */
static void it_lists_what_is_behind_an_array(void **state)
{
    char buffer[512];
    size_t length = npy(buffer, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 13);
    exg_tensor_file *file = NULL;
    void *copy;
    exg_error err;

    (void)state;
    assert_int_equal(open_copy(buffer, length, &file, &copy, &err), EXG_OK);
    assert_int_equal(file->count, 1);
    assert_int_equal(file->items[0].bytes, 8);
    assert_memory_equal(file->items[0].data, buffer + length - 13, 8);
    assert_int_equal(file->skipped_count, 1);
    assert_string_equal(file->skipped[0].kind,
                        "5 bytes behind the array, which NumPy does not read");
    exg_tensor_file_close(file);
    free(copy);
}

/* Tensors are given, the rest is told. */
static void it_lists_what_is_no_tensor(void **state)
{
    exg_tensor_file *file = NULL;
    exg_error err;

    (void)state;
    assert_int_equal(exg_tensor_file_open("fixtures/weights/saved/sd15.pt", &file, &err), EXG_OK);
    assert_true(file->count > 0 && file->skipped_count > 0);
    assert_non_null(file->skipped[0].name);
    exg_tensor_file_close(file);
}

static void it_refuses_npy_that_breaks_a_rule(void **state)
{
    static const struct {
        const char *header;
        size_t data;
        const char *code;
    } rows[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 7, "NPY-SIZE"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2)}", 8, "NPY-HEADER"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", 8, "NPY-HEADER"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 8,
         "NPY-HEADER"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296)}", 8,
         "NPY-SIZE"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", 8, "NPY-HEADER"},
        {"{'descr': '<f4', 'fortran_order': False}", 8, "NPY-HEADER"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 8,
         "NPY-HEADER"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", 8, "NPY-HEADER"},
        {"{'descr': '?f4', 'fortran_order': False, 'shape': (2,)}", 8, "NPY-DTYPE"},
        {"{'descr': [('a', '<f4'], 'fortran_order': False, 'shape': (2,)", 8, "NPY-HEADER"},
        {"__import__('os').system('ls')", 0, "NPY-HEADER"},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        char buffer[512];
        size_t length = npy(buffer, rows[r].header, rows[r].data);
        exg_tensor_file *file = NULL;
        void *copy;
        exg_error err;

        if (open_copy(buffer, length, &file, &copy, &err) == EXG_OK ||
            strcmp(err.code, rows[r].code) != 0) {
            fail_msg("%s: %s %s", rows[r].header, err.code, err.message);
        }
        free(copy);
    }
}

static void it_writes_what_it_reads(void **state)
{
    static const int64_t shape[] = {2, 3};
    static const float data[] = {1, 2, 3, 4, 5, 6};
    static const uint8_t flags[] = {1, 0, 1};
    static const int64_t three = 3;
    static const int64_t passing[] = {INT64_C(1) << 62, INT64_C(1) << 62, 0};
    exg_named_tensor items[] = {
        {"b", EXG_DTYPE_F32, 2, shape, data, sizeof(data)},
        {"a\n\"", EXG_DTYPE_B8, 1, &three, flags, 3},
    };
    exg_string_pair pair = {"format", "pt"};
    exg_string_map metadata = {&pair, 1};
    char path[] = "/tmp/exg-test-XXXXXX.safetensors";
    exg_tensor_file *file = NULL;
    exg_error err;

    (void)state;
    close(mkstemps(path, (int)strlen(".safetensors")));
    assert_int_equal(exg_tensor_file_save(path, items, 2, &metadata, &err), EXG_OK);
    assert_int_equal(exg_tensor_file_open(path, &file, &err), EXG_OK);
    assert_int_equal(file->count, 2);
    assert_string_equal(file->items[0].name, "b");
    assert_string_equal(file->items[1].name, "a\n\"");
    assert_memory_equal(file->items[0].data, data, sizeof(data));
    assert_memory_equal(file->items[1].data, flags, 3);
    assert_int_equal((uintptr_t)file->items[0].data % 64, 0);
    assert_int_equal(file->metadata.count, 1);
    assert_string_equal(file->metadata.items[0].value, "pt");
    exg_tensor_file_close(file);
    items[1].name = "b";
    assert_int_equal(exg_tensor_file_save(path, items, 2, NULL, &err), EXG_USAGE);
    items[1].name = NULL;
    assert_int_equal(exg_tensor_file_save(path, items, 2, NULL, &err), EXG_USAGE);
    assert_string_equal(err.code, "STF-NAME");
    items[1].name = "c\xff";
    assert_int_equal(exg_tensor_file_save(path, items, 2, NULL, &err), EXG_USAGE);
    assert_string_equal(err.code, "STF-NAME");
    items[1].name = "c";
    items[1].bytes = 4;
    assert_int_equal(exg_tensor_file_save(path, items, 2, NULL, &err), EXG_USAGE);
    items[1].dtype = EXG_DTYPE_C128;
    assert_int_equal(exg_tensor_file_save(path, items, 2, NULL, &err), EXG_UNSUPPORTED);
    items[1].dtype = EXG_DTYPE_B8;
    items[1].bytes = 0;
    items[1].rank = 3;
    items[1].shape = passing;
    assert_int_equal(exg_tensor_file_save(path, items, 2, NULL, &err), EXG_UNSUPPORTED);
    assert_string_equal(err.code, "STF-SIZE");
    assert_int_equal(exg_tensor_file_open(path, &file, &err), EXG_OK); /* the old one is there */
    assert_int_equal(file->count, 2);
    exg_tensor_file_close(file);
    unlink(path);
}

/* What is read of them is what numpy put there; tests/interop lets numpy read them. */
static void it_writes_arrays_of_numpy(void **state)
{
    static const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x7c00}; /* 1 - 2i, ... */
    static const int64_t two = 2;
    exg_named_tensor half = {"h", EXG_DTYPE_C32, 1, &two, halves, sizeof(halves)};
    exg_tensor_file *want = NULL;
    exg_tensor_file *got = NULL;
    char path[] = "/tmp/exg-test-XXXXXX.npz";
    exg_error err;

    (void)state;
    close(mkstemps(path, 4));
    assert_int_equal(exg_tensor_file_open("fixtures/weights/stored.npz", &want, &err), EXG_OK);
    assert_int_equal(exg_tensor_file_save(path, want->items, want->count, NULL, &err), EXG_OK);
    assert_int_equal(exg_tensor_file_open(path, &got, &err), EXG_OK);
    assert_int_equal(got->count, want->count);
    for (uint32_t i = 0; i < want->count; i++) {
        assert_string_equal(got->items[i].name, want->items[i].name);
        assert_int_equal(got->items[i].dtype, want->items[i].dtype);
        assert_int_equal(got->items[i].rank, want->items[i].rank);
        assert_int_equal(got->items[i].bytes, want->items[i].bytes);
        assert_memory_equal(got->items[i].data, want->items[i].data, want->items[i].bytes);
    }
    exg_tensor_file_close(got);
    assert_int_equal(exg_tensor_file_save(path, &half, 1, NULL, &err), EXG_OK);
    assert_int_equal(exg_tensor_file_open(path, &got, &err), EXG_OK);
    assert_int_equal(got->items[0].dtype, EXG_DTYPE_C64);
    assert_true(((const float *)got->items[0].data)[0] == 1.0f);
    assert_true(((const float *)got->items[0].data)[1] == -2.0f);
    assert_true(((const float *)got->items[0].data)[2] == 0x1p-24f);
    assert_true(((const float *)got->items[0].data)[3] > 1e38f);
    exg_tensor_file_close(got);
    half.dtype = EXG_DTYPE_BF16;
    half.bytes = 4;
    assert_int_equal(exg_tensor_file_save(path, &half, 1, NULL, &err), EXG_UNSUPPORTED);
    assert_string_equal(err.code, "NPY-DTYPE");
    path[strlen(path) - 1] = 'y';
    assert_int_equal(exg_tensor_file_save(path, want->items, 2, NULL, &err), EXG_USAGE);
    assert_string_equal(err.code, "NPY-COUNT");
    assert_int_equal(exg_tensor_file_save(path, want->items, 1, NULL, &err), EXG_OK);
    assert_int_equal(exg_tensor_file_open(path, &got, &err), EXG_OK);
    assert_int_equal(got->items[0].bytes, want->items[0].bytes);
    assert_memory_equal(got->items[0].data, want->items[0].data, want->items[0].bytes);
    exg_tensor_file_close(got);
    exg_tensor_file_close(want);
    unlink(path);
    path[strlen(path) - 1] = 'q';
    assert_int_equal(exg_tensor_file_save(path, &half, 1, NULL, &err), EXG_USAGE);
    assert_string_equal(err.code, "TNS-NAME");
    path[strlen(path) - 1] = 'z';
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_reads_files_of_the_reference_writer),
        cmocka_unit_test(it_refuses_headers_that_break_a_rule),
        cmocka_unit_test(it_refuses_every_prefix_of_both_forms),
        cmocka_unit_test(it_reads_npy_in_every_order),
        cmocka_unit_test(it_lists_what_is_behind_an_array),
        cmocka_unit_test(it_lists_what_is_no_tensor),
        cmocka_unit_test(it_refuses_npy_that_breaks_a_rule),
        cmocka_unit_test(it_writes_what_it_reads),
        cmocka_unit_test(it_writes_arrays_of_numpy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
