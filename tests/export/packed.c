/* packed.c - a model that lies packed in a file is opened as if it were not; fixtures/foreign has
 * what gzip, bz2, lzma, tarfile and zipfile of Python make, and zstd. */
#include "tests/export/exg_folder.h"
#include "tests/export/same_tensors.h"

#include <exg/export.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#define FIXTURES "fixtures/foreign/"

static const char *const packed[] = {"model.safetensors.gz",
                                     "model.safetensors.zst",
                                     "model.tar",
                                     "long.tar",
                                     "pax.tar",
                                     "model.zip",
                                     "deflated.zip",
#ifdef EXG_BZIP2
                                     "model.safetensors.bz2",
#endif
#ifdef EXG_LZMA
                                     "model.safetensors.xz",
                                     "model.tar.xz",
#endif
                                     "model.tar.gz"};

static exg_status open_it(const char *path, exg_error *err)
{
    exg_weights *weights = NULL;
    exg_status status;

    exg_error_clear(err);
    status = exg_weights_open(path, NULL, &weights, NULL, err);
    exg_weights_release(weights);
    return status;
}

static void test_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(packed) / sizeof(packed[0]); i++) {
        char path[100];

        snprintf(path, sizeof(path), FIXTURES "%s", packed[i]);
        assert_same_tensors(path, FIXTURES "plain.safetensors");
        assert_same_tensors(FIXTURES "plain.safetensors", path);
    }
}

/* Cut at any byte it is told, and never taken for another model. */
static void test_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(packed) / sizeof(packed[0]); i++) {
        size_t length;
        char path[100];
        uint8_t *data;
        FILE *file;

        snprintf(path, sizeof(path), FIXTURES "%s", packed[i]);
        file = fopen(path, "rb");
        assert_non_null(file);
        data = malloc(1 << 16);
        length = fread(data, 1, 1 << 16, file);
        fclose(file);
        for (size_t cut = 0; cut < length; cut += 1 + length / 200) {
            exg_error err;

            write_file("cut", data, cut);
            if (open_it(in_folder("cut"), &err) == EXG_OK) {
                assert_true(cut >= 600); /* of a tar, its last blocks are zeros */
                assert_non_null(strstr(path, ".tar"));
                assert_null(strstr(path, ".gz"));
                assert_null(strstr(path, ".xz"));
                assert_same_tensors(in_folder("cut"), FIXTURES "plain.safetensors");
            }
        }
        free(data);
    }
}

/* Every bit of what is compressed is looked at, by a checksum. */
static void test_damage(void **state)
{
    static const char *const names[] = {
#ifdef EXG_BZIP2
        "model.safetensors.bz2",
#endif
#ifdef EXG_LZMA
        "model.safetensors.xz",
#endif
        "model.safetensors.gz", "deflated.zip"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[100];
        uint8_t data[4096];
        size_t length;
        FILE *file;

        snprintf(path, sizeof(path), FIXTURES "%s", names[i]);
        file = fopen(path, "rb");
        assert_non_null(file);
        length = fread(data, 1, sizeof(data), file);
        fclose(file);
        for (size_t at = 0; at < length; at++) {
            exg_error err;

            data[at] ^= 0x10;
            write_file("damaged", data, length);
            if (open_it(in_folder("damaged"), &err) == EXG_OK) {
                assert_same_tensors(in_folder("damaged"), FIXTURES "plain.safetensors");
            }
            data[at] ^= 0x10;
        }
    }
}

/* A little that becomes much is refused before it is. */
static void test_bomb(void **state)
{
    static uint8_t zeros[1 << 20];
    exg_open_options options = {.size = sizeof(options), .memory_budget = 200u << 20};
    exg_weights *weights = NULL;
    exg_error err;
    gzFile file = gzopen(in_folder("bomb.safetensors.gz"), "wb9");

    (void)state;
    assert_non_null(file);
    /* "{" where a header would begin, so that nothing else is wrong at first */
    assert_int_equal(gzwrite(file, "\2\0\0\0\0\0\0\0{}", 10), 10);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(gzwrite(file, zeros, sizeof(zeros)), sizeof(zeros));
    }
    assert_int_equal(gzclose(file), Z_OK);
    assert_int_equal(open_it(in_folder("bomb.safetensors.gz"), &err), EXG_LIMIT);
    assert_string_equal(err.code, "SPL-LIMIT");
    assert_true(err.fix[0] != '\0');
    assert_int_equal(
        exg_weights_open(in_folder("bomb.safetensors.gz"), &options, &weights, NULL, &err),
        EXG_LIMIT);
    options.memory_budget = 400u << 20; /* then it is no safetensors file */
    assert_int_equal(
        exg_weights_open(in_folder("bomb.safetensors.gz"), &options, &weights, NULL, &err),
        EXG_MALFORMED);
    assert_string_equal(err.code, "STF-TILING");
}

static size_t read_bytes(const char *path, uint8_t *data, size_t room)
{
    FILE *file = fopen(path, "rb");
    size_t length;

    assert_non_null(file);
    length = fread(data, 1, room, file);
    fclose(file);
    return length;
}

static void assert_refused(const uint8_t *data, size_t length, exg_status want, const char *code)
{
    exg_error err;

    write_file("packed", data, length);
    assert_int_equal(open_it(in_folder("packed"), &err), want);
    assert_string_equal(err.code, code);
    assert_true(err.fix[0] != '\0');
}

/* What a window says that there is no memory for is refused before any is taken. */
static void test_window(void **state)
{
    static const uint8_t zstd[] = {0x28, 0xb5, 0x2f, 0xfd, 0, 0xa0, 1, 0, 0, 0}; /* of 1 GiB */

    (void)state;
    assert_refused(zstd, sizeof(zstd), EXG_LIMIT, "PCK-WINDOW");
#ifdef EXG_LZMA
    uint8_t data[4096];
    size_t length = read_bytes(FIXTURES "model.safetensors.xz", data, sizeof(data));
    size_t bytes = 4 * (data[12] + 1u); /* of the header of the block, with its CRC32 */
    uint32_t crc;

    assert_int_equal(data[14], 0x21);
    data[16] = 40; /* 4 GiB */
    crc = (uint32_t)crc32(0, data + 12, (uInt)bytes - 4);
    for (int i = 0; i < 4; i++) {
        data[12 + bytes - 4 + (size_t)i] = (uint8_t)(crc >> 8 * i);
    }
    assert_refused(data, length, EXG_LIMIT, "PCK-WINDOW");
#endif
}

/* Streams one behind the other are one file, zeros at the end are nothing, all else is damage. */
static void assert_streams(const char *path)
{
    uint8_t data[8192] = {0};
    size_t length = read_bytes(path, data, 4096);

    memcpy(data + length, data, length); /* twice the model: the second is no part of it */
    assert_refused(data, 2 * length, EXG_MALFORMED, "STF-TILING");
    memset(data + length, 0, 64);
    write_file("packed", data, length + 64);
    assert_same_tensors(in_folder("packed"), FIXTURES "plain.safetensors");
    data[length + 63] = 1;
    assert_refused(data, length + 64, EXG_MALFORMED, "PCK-DAMAGED");
}

static void test_streams(void **state)
{
    (void)state;
    assert_streams(FIXTURES "model.safetensors.gz");
#ifdef EXG_BZIP2
    assert_streams(FIXTURES "model.safetensors.bz2");
#endif
#ifdef EXG_LZMA
    assert_streams(FIXTURES "model.safetensors.xz");
#endif
}

/* The first bytes alone are damage, not a file of another kind. */
static void test_beginnings(void **state)
{
    uint8_t data[4096];

    (void)state;
    (void)data;
#ifdef EXG_BZIP2
    (void)read_bytes(FIXTURES "model.safetensors.bz2", data, sizeof(data));
    assert_refused(data, 4, EXG_MALFORMED, "PCK-DAMAGED");
#endif
#ifdef EXG_LZMA
    (void)read_bytes(FIXTURES "model.safetensors.xz", data, sizeof(data));
    assert_refused(data, 6, EXG_MALFORMED, "PCK-DAMAGED");
#endif
}

/* No room for what is unpacked. */
static void test_no_room(void **state)
{
    exg_error err;

    (void)state;
    assert_int_equal(setenv("TMPDIR", "/nowhere", 1), 0);
    assert_int_equal(open_it(FIXTURES "model.safetensors.gz", &err), EXG_IO);
    assert_string_equal(err.code, "IO-WRITE");
    assert_non_null(strstr(err.fix, "TMPDIR"));
    assert_int_equal(open_it(FIXTURES "model.tar", &err), EXG_OK); /* it is used where it lies */
    assert_int_equal(unsetenv("TMPDIR"), 0);
}

/* A program, packed twice. */
static void test_program(void **state)
{
    exg_program *got = NULL;
    exg_program *want = NULL;
    exg_error err;
    size_t length;
    uint8_t *data = NULL;
    FILE *file = fopen("fixtures/mlp.pt2", "rb");
    gzFile out = gzopen(in_folder("mlp.pt2.gz"), "wb");

    (void)state;
    assert_non_null(file);
    data = malloc(1 << 16);
    length = fread(data, 1, 1 << 16, file);
    fclose(file);
    assert_int_equal(gzwrite(out, data, (unsigned)length / 2), length / 2);
    assert_int_equal(gzclose(out), Z_OK);
    out = gzopen(in_folder("mlp.pt2.gz"), "ab"); /* members one behind the other */
    assert_int_equal(gzwrite(out, data + length / 2, (unsigned)(length - length / 2)),
                     length - length / 2);
    assert_int_equal(gzclose(out), Z_OK);
    free(data);
    assert_int_equal(exg_open("fixtures/mlp.pt2", NULL, &want, NULL, &err), EXG_OK);
    assert_int_equal(exg_open(in_folder("mlp.pt2.gz"), NULL, &got, NULL, &err), EXG_OK);
    assert_true(exg_program_equal(got, want, true, NULL));
    exg_program_destroy(got);
    exg_program_destroy(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same),   cmocka_unit_test(test_cut),
        cmocka_unit_test(test_damage),     cmocka_unit_test(test_bomb),
        cmocka_unit_test(test_window),     cmocka_unit_test(test_streams),
        cmocka_unit_test(test_beginnings), cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_program),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
