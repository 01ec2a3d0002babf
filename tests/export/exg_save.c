/* exg_save.c - how weights are stored: by any number of threads the same, in files that do
 * not meet the wrong program, and never from a damaged source. */
#include <exg/formats.h>
#include <exg/operators.h>
#include <exg/verify.h>

#include "libexport/weights/frames.h"

#include "tests/export/exg_folder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Bytes that follow from their place, some planes predictable. */
static uint8_t made_byte(uint64_t at)
{
    return (uint8_t)(at % 4 == 3 ? 0x3c + at / 4 % 3 : (at * 2654435761u) >> 11);
}

/* By words, for a sanitizer looks at each store. */
static exg_status read_made(void *user, uint64_t offset, uint64_t length, void *out, exg_error *err)
{
    uint8_t *to = out;
    uint64_t i = 0;

    (void)user;
    (void)err;
    for (; length - i >= sizeof(uint64_t); i += sizeof(uint64_t)) {
        uint64_t word = 0;

        for (uint64_t k = 0; k < sizeof(word); k++) {
            word |= (uint64_t)made_byte(offset + i + k) << 8 * k;
        }
        memcpy(to + i, &word, sizeof(word));
    }
    for (; i < length; i++) {
        to[i] = made_byte(offset + i);
    }
    return EXG_OK;
}

/* The program of a fixture whose first storages are of several frames. */
static exg_program *large_program(void)
{
    exg_program *p = open_program("fixtures/lm.decode.pt2");

    for (uint32_t i = 0; i < 3; i++) {
        exg_storage *s = &p->weights->storages[i];

        s->kind = EXG_STORAGE_MADE;
        s->maker.read = read_made;
        s->length = (i + 1) * (5u << 20) + 4 * i;
        s->checksum.kind = EXG_CHECKSUM_NONE;
    }
    return p;
}

static void assert_checks(const char *name)
{
    exg_program *p = open_program(in_folder(name));
    exg_error err;

    exg_error_clear(&err);
    if (exg_weights_check(p->weights, NULL, &err) != EXG_OK) {
        fail_msg("%s: %s %s %s", name, err.code, err.where, err.message);
    }
    exg_program_destroy(p);
}

/* Files whose names end so, none larger than `most` bytes. */
static uint32_t count_files(const char *end, uint64_t most)
{
    DIR *d = opendir(in_folder(""));
    uint32_t count = 0;

    for (struct dirent *entry = readdir(d); entry != NULL; entry = readdir(d)) {
        size_t length = strlen(entry->d_name);

        if (length > strlen(end) && strcmp(entry->d_name + length - strlen(end), end) == 0) {
            assert_true(file_bytes(entry->d_name) <= most);
            count++;
        }
    }
    closedir(d);
    return count;
}

static void it_writes_the_same_bytes_with_any_number_of_threads(void **state)
{
    static const exg_compression compressions[] = {EXG_COMPRESSION_NONE, EXG_COMPRESSION_ZSTD};
    exg_program *p = large_program();

    (void)state;
    for (size_t c = 0; c < 2; c++) {
        exg_save_options options = {
            .size = sizeof(options), .compression = compressions[c], .threads = 1};
        exg_program *q;

        save_program(p, "one.exg", &options);
        for (options.threads = 2; options.threads <= 5; options.threads++) {
            save_program(p, "many.exg", &options);
            assert_files_equal("one.exg", "many.exg");
        }
        assert_checks("one.exg");
        q = open_program(in_folder("one.exg"));
        for (uint32_t i = 0; i < 3; i++) {
            uint8_t got[4000];
            uint8_t want[4000];
            uint64_t at = q->weights->storages[i].length - sizeof(got);

            assert_int_equal(exg_storage_read(q->weights, i, at, sizeof(got), got, NULL), EXG_OK);
            read_made(NULL, at, sizeof(want), want, NULL);
            assert_memory_equal(got, want, sizeof(got));
        }
        exg_program_destroy(q);
    }
    exg_program_destroy(p);
    empty_folder();
}

static void it_cuts_weights_beside_into_files_of_a_size(void **state)
{
    exg_save_options options = {
        .size = sizeof(options), .weights = EXG_WEIGHTS_EXTERNAL, .split = 16u << 20};
    exg_program *p = large_program();
    exg_program *q;

    (void)state;
    save_program(p, "m.exg", &options);
    assert_true(count_files("-of-00003.weights", 17u << 20) == 3); /* of 5, 10, 15 MiB and less */
    assert_int_equal(count_files(".weights", 17u << 20), 3);
    assert_checks("m.exg");
    options.split = 1u << 30;
    empty_folder();
    save_program(p, "m.exg", &options);
    assert_int_equal(count_files(".weights", 33u << 20), 1);
    options.align = 1u << 16;
    options.weights = EXG_WEIGHTS_INTERNAL;
    save_program(p, "m.exg", &options);
    q = open_program(in_folder("m.exg"));
    for (uint32_t i = 1; i < q->weights->storage_count; i++) {
        assert_int_equal((q->weights->storages[i].data - q->weights->storages[0].data) % (1 << 16),
                         0);
    }
    exg_program_destroy(q);
    options.align = 96;
    assert_int_equal(exg_save(p, in_folder("n.exg"), EXG_FORMAT_EXG, &options, NULL), EXG_USAGE);
    exg_program_destroy(p);
    empty_folder();
}

/* Stopped after the new data is in place and before the new program is: the old program
 * still finds its own. */
static void it_never_lets_a_program_meet_the_data_of_another(void **state)
{
    exg_save_options options = {.size = sizeof(options), .weights = EXG_WEIGHTS_EXTERNAL};
    exg_program *a = open_program("fixtures/tied.pt2");
    exg_program *b = open_program("fixtures/mlp.pt2");
    size_t length;
    uint8_t *old;

    (void)state;
    save_program(a, "m.exg", &options);
    old = read_file("m.exg", &length);
    save_program(b, "m.exg", &options);
    assert_checks("m.exg");
    write_file("m.exg", old, length);
    assert_checks("m.exg");
    free(old);
    exg_program_destroy(a);
    exg_program_destroy(b);
    empty_folder();
}

static void it_refuses_to_take_damaged_bytes_along(void **state)
{
    static const char *const formats[] = {"d.pt2", "d.exg", "z.exg"};
    exg_program *p = open_program("fixtures/mlp.pt2");
    exg_save_options zstd = {.size = sizeof(zstd), .compression = EXG_COMPRESSION_ZSTD};
    const uint8_t *bytes;
    uint8_t *pattern;
    size_t length;

    (void)state;
    assert_int_equal(exg_storage_map(p->weights, 0, &bytes, NULL), EXG_OK);
    pattern = malloc(16);
    memcpy(pattern, bytes, 16);
    for (size_t f = 0; f < 3; f++) {
        uint8_t *data;
        uint8_t *at;
        exg_program *damaged;
        exg_error err;

        if (f == 0) {
            FILE *from = fopen("fixtures/mlp.pt2", "rb");
            uint8_t whole[65536];

            length = fread(whole, 1, sizeof(whole), from);
            fclose(from);
            write_file(formats[f], whole, length);
        } else {
            save_program(p, formats[f], f == 1 ? NULL : &zstd);
        }
        data = read_file(formats[f], &length);
        at = memmem(data, length, pattern, f == 2 ? 3 : 16); /* packed: the first plane */
        if (f < 2) {
            assert_non_null(at);
            at[5] ^= 4;
        } else {
            data[length - 1] ^= 4; /* the last storage */
        }
        write_file(formats[f], data, length);
        free(data);
        damaged = open_program(in_folder(formats[f]));
        assert_int_equal(exg_save(damaged, in_folder("out.exg"), EXG_FORMAT_EXG, NULL, &err),
                         EXG_MALFORMED);
        assert_true(strcmp(err.code, "ARC-012") == 0 || strcmp(err.code, "EXG-022") == 0);
        assert_int_equal(
            exg_weights_save(damaged->weights, in_folder("out.safetensors"), NULL, &err),
            EXG_MALFORMED);
        assert_int_equal(access(in_folder("out.exg"), F_OK), -1);
        assert_int_equal(access(in_folder("out.safetensors"), F_OK), -1);
        exg_program_destroy(damaged);
    }
    assert_int_equal(empty_folder(), 3);
    free(pattern);
    exg_program_destroy(p);
}

/* Rows of a compressed tensor come from their frames alone: all others are damaged here. */
static void it_inflates_only_the_frames_of_the_rows_wanted(void **state)
{
    exg_save_options options = {.size = sizeof(options), .compression = EXG_COMPRESSION_ZSTD};
    exg_program *p = large_program();
    exg_sym_int sizes[2] = {exg_sym_int_of(5 << 10), exg_sym_int_of(256)};
    exg_sym_int strides[2] = {exg_sym_int_of(256), exg_sym_int_of(1)};
    exg_tensor_meta rows = {.dtype = EXG_DTYPE_F32,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = 2,
                            .sizes = sizes,
                            .strides = strides,
                            .device = {"cpu", -1}};
    exg_weight weight = {.fqn = "rows", .meta = &rows};
    uint8_t *got = malloc(2u << 20);
    uint8_t *want = malloc(2u << 20);
    exg_frames *frames;

    (void)state;
    save_program(p, "z.exg", &options);
    exg_program_destroy(p);
    p = open_program(in_folder("z.exg"));
    while (p->weights->storages[weight.storage].length != (5u << 20)) {
        weight.storage++;
    }
    frames = p->weights->storages[weight.storage].frames;
    assert_int_equal(frames->count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        frames->items[i].checksum ^= i != 2 && i != 3;
    }
    for (uint64_t first = 2048; first < 4096; first += 100) { /* rows of 1 KiB: frames 2 and 3 */
        uint64_t count = 4096 - first < 1500 ? 4096 - first : 1500;

        assert_int_equal(
            exg_weight_read_range(p->weights, &weight, first * 256, count * 256, got, NULL),
            EXG_OK);
        read_made(NULL, first * 1024, count * 1024, want, NULL);
        assert_memory_equal(got, want, count * 1024);
    }
    assert_int_equal(exg_weight_read_range(p->weights, &weight, 2047 * 256, 512, got, NULL),
                     EXG_MALFORMED);
    assert_int_equal(exg_weight_read_range(p->weights, &weight, 4095 * 256, 512, got, NULL),
                     EXG_MALFORMED);
    assert_int_equal(exg_weight_read_range(p->weights, &weight, (5 << 18) - 1, 2, got, NULL),
                     EXG_USAGE);
    free(got);
    free(want);
    exg_program_destroy(p);
    empty_folder();
}

/* However they are stored, the digest is one; of other bits it is another. */
static void it_gives_one_digest_for_the_same_weights(void **state)
{
    static const exg_checksum_kind digests[] = {EXG_CHECKSUM_XXH3_128, EXG_CHECKSUM_SHA256};
    exg_save_options options = {.size = sizeof(options),
                                .compression = EXG_COMPRESSION_ZSTD,
                                .weights = EXG_WEIGHTS_EXTERNAL,
                                .deduplicate = true};
    exg_program *p = open_program("fixtures/views.pt2");
    exg_weights *big = NULL;
    exg_weights *zeros = NULL;
    exg_weights *tensors = NULL;
    exg_program *q;

    (void)state;
    save_program(p, "m.exg", &options);
    q = open_program(in_folder("m.exg"));
    assert_int_equal(exg_weights_in_order(p->weights, EXG_BIG_ENDIAN, &big, NULL), EXG_OK);
    assert_int_equal(exg_weights_strip(p->weights, &zeros, NULL), EXG_OK);
    assert_int_equal(exg_weights_save(p->weights, in_folder("m.safetensors"), NULL, NULL), EXG_OK);
    assert_int_equal(exg_weights_open(in_folder("m.safetensors"), NULL, &tensors, NULL, NULL),
                     EXG_OK);
    for (size_t k = 0; k < 2; k++) {
        exg_weights *all[] = {q->weights, big, tensors, zeros};
        char want[EXG_DIGEST_TEXT_MAX];
        char got[EXG_DIGEST_TEXT_MAX];

        assert_int_equal(exg_weights_digest(p->weights, digests[k], 1, want, NULL), EXG_OK);
        for (size_t i = 0; i < 4; i++) {
            assert_int_equal(exg_weights_digest(all[i], digests[k], 3, got, NULL), EXG_OK);
            assert_int_equal(strcmp(got, want) == 0, i < 3);
        }
    }
    assert_int_equal(exg_weights_digest(big, EXG_CHECKSUM_NONE, 1, (char[65]){0}, NULL), EXG_USAGE);
    exg_weights_release(big);
    exg_weights_release(zeros);
    exg_weights_release(tensors);
    exg_program_destroy(p);
    exg_program_destroy(q);
    empty_folder();
}

static void assert_check_fails(exg_status status, const char *code)
{
    exg_program *p = open_program(in_folder("m.exg"));
    exg_error err;

    exg_error_clear(&err);
    assert_int_equal(exg_weights_check(p->weights, NULL, &err), status);
    assert_string_equal(err.code, code);
    exg_program_destroy(p);
}

/* A file beside is told where it is missing or short, and not where it is all there. */
static void it_looks_for_files_beside(void **state)
{
    exg_save_options options = {
        .size = sizeof(options), .weights = EXG_WEIGHTS_EXTERNAL, .external_name = "m.weights"};
    exg_program *p = open_program("fixtures/mlp.pt2");
    size_t length;
    uint8_t *data;

    (void)state;
    save_program(p, "m.exg", &options);
    exg_program_destroy(p);
    data = read_file("m.weights", &length);
    for (int k = 0; k < 3; k++) { /* whole, short, not there */
        exg_diagnostics found = {0};
        exg_operators *operators;
        exg_verified verified;
        exg_file_info *info = NULL;
        exg_program *q;

        write_file("m.weights", data, k == 1 ? length - 1 : length);
        if (k == 2) {
            unlink(in_folder("m.weights"));
        }
        assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
        assert_int_equal(exg_open(in_folder("m.exg"), NULL, &q, &info, NULL), EXG_OK);
        assert_int_equal(exg_verify(q, operators, &verified, &found, NULL), EXG_OK);
        assert_int_equal(found.count, 0);
        assert_int_equal(exg_verify_file(q, in_folder("m.exg"), info, &found, NULL),
                         k == 0 ? EXG_OK : EXG_MALFORMED);
        assert_int_equal(found.count, k == 0 ? 0 : 1);
        assert_true(k == 0 || strcmp(found.items[0].code, "WGT-015") == 0);
        exg_diagnostics_free(&found);
        exg_file_info_free(info);
        exg_program_destroy(q);
        exg_operators_destroy(operators);
    }
    free(data);
    empty_folder();
}

/* S002-72: missing, another file, damaged, cut: four things. */
static void it_tells_a_missing_file_from_a_changed_and_a_damaged_one(void **state)
{
    exg_save_options options = {
        .size = sizeof(options), .weights = EXG_WEIGHTS_EXTERNAL, .external_name = "m.weights"};
    exg_program *p = open_program("fixtures/mlp.pt2");
    size_t length;
    uint8_t *data;

    (void)state;
    save_program(p, "m.exg", &options);
    assert_checks("m.exg");
    data = read_file("m.weights", &length);
    data[3] ^= 1;
    write_file("m.weights", data, length);
    assert_check_fails(EXG_MALFORMED, "ARC-012");
    memset(data, 77, length);
    write_file("m.weights", data, length);
    assert_check_fails(EXG_MALFORMED, "WGT-CHANGED");
    write_file("m.weights", data, 1);
    assert_check_fails(EXG_MALFORMED, "WGT-CHANGED");
    unlink(in_folder("m.weights"));
    assert_check_fails(EXG_IO, "IO-OPEN");
    free(data);
    exg_program_destroy(p);
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_writes_the_same_bytes_with_any_number_of_threads),
        cmocka_unit_test(it_cuts_weights_beside_into_files_of_a_size),
        cmocka_unit_test(it_never_lets_a_program_meet_the_data_of_another),
        cmocka_unit_test(it_refuses_to_take_damaged_bytes_along),
        cmocka_unit_test(it_inflates_only_the_frames_of_the_rows_wanted),
        cmocka_unit_test(it_gives_one_digest_for_the_same_weights),
        cmocka_unit_test(it_looks_for_files_beside),
        cmocka_unit_test(it_tells_a_missing_file_from_a_changed_and_a_damaged_one),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
