/* exg.c - .exg files: what is saved comes back, equal bytes every time, and a damaged
 * file is refused. */
#include "tests/export/exg_folder.h"

#include <exg/formats.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void expect_equal(const exg_program *a, const exg_program *b, const char *name)
{
    char difference[256] = "";

    if (!exg_program_equal(a, b, true, difference)) {
        fail_msg("%s: %s", name, difference);
    }
}

/* fixture -> a.exg -> b.exg with `options`: equal programs, then equal bytes. (One data
 * file serves both when there is one: it is replaced by its equal.) */
static void round_trip(const char *fixture, const exg_save_options *options)
{
    exg_program *first = open_program(fixture);
    exg_program *second;
    exg_program *third;

    save_program(first, "a.exg", options);
    second = open_program(in_folder("a.exg"));
    expect_equal(first, second, fixture);
    for (uint32_t i = 0; i < second->weights->storage_count; i++) {
        exg_error err;

        if (exg_storage_check(second->weights, i, &err) != EXG_OK) {
            fail_msg("%s: %s: %s", fixture, err.where, err.message);
        }
    }
    assert_string_equal(first->name, second->name);
    assert_int_equal(first->sample_input_count, second->sample_input_count);
    assert_int_equal(first->extra_file_count, second->extra_file_count);
    save_program(second, "b.exg", options);
    assert_files_equal("a.exg", "b.exg");
    third = open_program(in_folder("b.exg"));
    expect_equal(first, third, fixture);
    exg_program_destroy(first);
    exg_program_destroy(second);
    exg_program_destroy(third);
    empty_folder();
}

static void each_fixture(const exg_save_options *options)
{
    DIR *d = opendir("fixtures");
    struct dirent *entry;
    unsigned count = 0;

    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) {
        size_t length = strlen(entry->d_name);
        char path[300];

        if (length > 4 && strcmp(entry->d_name + length - 4, ".pt2") == 0) {
            snprintf(path, sizeof(path), "fixtures/%s", entry->d_name);
            round_trip(path, options);
            count++;
        }
    }
    closedir(d);
    assert_true(count > 10);
}

static void it_gives_back_what_was_saved(void **state)
{
    (void)state;
    each_fixture(NULL);
}

static void it_gives_back_what_was_compressed(void **state)
{
    exg_save_options options = {.size = sizeof(options), .compression = EXG_COMPRESSION_ZSTD};

    (void)state;
    each_fixture(&options);
}

static void it_gives_back_what_was_put_beside(void **state)
{
    exg_save_options options = {.size = sizeof(options),
                                .compression = EXG_COMPRESSION_ZSTD,
                                .weights = EXG_WEIGHTS_EXTERNAL,
                                .external_name = "both.weights"};

    (void)state;
    each_fixture(&options);
    options.compression = EXG_COMPRESSION_NONE;
    each_fixture(&options);
}

static void it_keeps_compression_and_place_unless_told(void **state)
{
    exg_save_options zstd = {.size = sizeof(zstd), .compression = EXG_COMPRESSION_ZSTD};
    exg_save_options none = {.size = sizeof(none), .compression = EXG_COMPRESSION_NONE};
    exg_program *p = open_program("fixtures/lm.decode.pt2");
    exg_program *q;

    (void)state;
    save_program(p, "z.exg", &zstd);
    save_program(p, "n.exg", NULL);
    assert_true(file_bytes("z.exg") < file_bytes("n.exg"));
    q = open_program(in_folder("z.exg"));
    save_program(q, "kept.exg", NULL);
    assert_files_equal("z.exg", "kept.exg");
    save_program(q, "plain.exg", &none);
    assert_files_equal("n.exg", "plain.exg");
    exg_program_destroy(p);
    exg_program_destroy(q);
    empty_folder();
}

/* A saved file that stays mapped while it is replaced by itself. */
static void it_may_be_saved_onto_itself(void **state)
{
    exg_save_options options = {.size = sizeof(options),
                                .compression = EXG_COMPRESSION_ZSTD,
                                .weights = EXG_WEIGHTS_EXTERNAL};
    exg_program *p = open_program("fixtures/tied.pt2");
    exg_program *q;

    (void)state;
    save_program(p, "s.exg", NULL);
    q = open_program(in_folder("s.exg"));
    save_program(q, "s.exg", &options);
    expect_equal(p, q, "the mapped old file");
    exg_program_destroy(q);
    q = open_program(in_folder("s.exg"));
    expect_equal(p, q, "beside");
    save_program(q, "s.exg", NULL); /* external stays external */
    expect_equal(p, q, "the mapped old files");
    exg_program_destroy(q);
    q = open_program(in_folder("s.exg"));
    expect_equal(p, q, "again");
    assert_non_null(q->weights->storages[0].location);
    exg_program_destroy(q);
    exg_program_destroy(p);
    empty_folder();
}

static void it_stores_equal_storages_once(void **state)
{
    exg_save_options options = {.size = sizeof(options), .deduplicate = true};
    exg_program *p = open_program("fixtures/mlp.pt2");
    exg_program *q;
    exg_storage twin = p->weights->storages[p->weights->items[0].storage];
    exg_weight copy = p->weights->items[0];

    (void)state;
    copy.fqn = "twin";
    assert_int_equal(exg_weights_add_storage(p->weights, &twin, &copy.storage, NULL), EXG_OK);
    assert_int_equal(exg_weights_add(p->weights, &copy, NULL), EXG_OK);
    save_program(p, "two.exg", NULL);
    save_program(p, "one.exg", &options);
    q = open_program(in_folder("two.exg"));
    assert_int_not_equal(q->weights->items[0].storage,
                         q->weights->items[q->weights->count - 1].storage);
    exg_program_destroy(q);
    q = open_program(in_folder("one.exg"));
    assert_int_equal(q->weights->items[0].storage,
                     q->weights->items[q->weights->count - 1].storage);
    exg_program_destroy(q);
    exg_program_destroy(p);
    empty_folder();
}

static void count_progress(void *user, uint64_t done, uint64_t total)
{
    uint64_t *last = user;

    assert_true(done >= *last && done <= total);
    *last = done;
}

static void it_tells_progress_and_leaves_nothing_on_failure(void **state)
{
    exg_program *p = open_program("fixtures/mlp.pt2");
    uint64_t last = 0;
    exg_save_options options = {.size = sizeof(options), .progress = count_progress, .user = &last};
    exg_save_options bad = {
        .size = sizeof(bad), .weights = EXG_WEIGHTS_EXTERNAL, .external_name = "../w"};
    exg_error err;

    (void)state;
    save_program(p, "p.exg", &options);
    assert_true(last > 0);
    empty_folder();
    mkdir(in_folder("d.exg"), 0777);
    assert_int_equal(exg_save(p, in_folder("d.exg"), EXG_FORMAT_EXG, NULL, &err), EXG_USAGE);
    rmdir(in_folder("d.exg"));
    assert_int_equal(exg_save(p, in_folder("e.exg"), EXG_FORMAT_EXG, &bad, &err), EXG_USAGE);
    assert_string_equal(err.code, "EXG-053");
    bad.external_name = "e.exg";
    assert_int_equal(exg_save(p, in_folder("e.exg"), EXG_FORMAT_EXG, &bad, &err), EXG_USAGE);
    assert_int_equal(exg_save(p, in_folder("no/e.exg"), EXG_FORMAT_EXG, NULL, &err), EXG_IO);
    bad.external_name = "f.weights";
    mkdir(in_folder("f.weights"), 0777);
    assert_int_equal(exg_save(p, in_folder("f.exg"), EXG_FORMAT_EXG, &bad, &err), EXG_USAGE);
    rmdir(in_folder("f.weights"));
    assert_int_equal(empty_folder(), 0);
    exg_program_destroy(p);
}

/* ---- damage ------------------------------------------------------------------------------- */

/* Opens an exact copy; whatever opens is read whole. */
static exg_status open_bytes(const uint8_t *data, size_t length, exg_error *err)
{
    uint8_t *copy = malloc(length == 0 ? 1 : length);
    exg_program *p = NULL;
    exg_status status;

    assert_non_null(copy);
    memcpy(copy, data, length);
    exg_error_clear(err);
    status = exg_open_memory(copy, length, NULL, &p, NULL, err);
    if (status == EXG_OK) {
        for (uint32_t i = 0; status == EXG_OK && i < p->weights->storage_count; i++) {
            status = exg_storage_check(p->weights, i, err);
        }
    } else {
        assert_null(p);
        assert_true(err->code[0] != '\0');
    }
    exg_program_destroy(p);
    free(copy);
    return status;
}

static uint8_t *small_file(size_t *length)
{
    exg_save_options options = {.size = sizeof(options), .compression = EXG_COMPRESSION_ZSTD};
    exg_program *p = open_program("fixtures/convbn.eval.pt2");
    uint8_t *data;

    save_program(p, "small.exg", &options);
    exg_program_destroy(p);
    data = read_file("small.exg", length);
    empty_folder();
    return data;
}

static void it_refuses_every_prefix_and_a_longer_file(void **state)
{
    size_t length;
    uint8_t *data = small_file(&length);
    uint8_t *longer = calloc(1, length + 1);
    exg_error err;

    (void)state;
    assert_int_equal(open_bytes(data, length, &err), EXG_OK);
    for (size_t n = 0; n < length; n++) {
        exg_status status = open_bytes(data, n, &err);

        if (status != EXG_MALFORMED && status != EXG_UNSUPPORTED) {
            fail_msg("%zu of %zu bytes: status %d", n, length, (int)status);
        }
    }
    memcpy(longer, data, length);
    assert_int_equal(open_bytes(longer, length + 1, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "EXG-002");
    free(longer);
    free(data);
}

/* In the metadata a flip is refused by opening, in a payload by checking; between them
 * lie zeros nobody reads. */
static void it_finds_every_flipped_byte(void **state)
{
#ifdef __SANITIZE_ADDRESS__ /* every fourth: each takes milliseconds there */
    size_t step = 4;
#else
    size_t step = 1;
#endif
    size_t length;
    uint8_t *data = small_file(&length);
    size_t unseen = 0;
    exg_error err;

    (void)state;
    for (size_t i = 0; i < length; i += step) {
        data[i] ^= 0x11;
        unseen += open_bytes(data, length, &err) == EXG_OK;
        data[i] ^= 0x11;
    }
    assert_true(unseen < length / step / 8);
    print_message("%zu of %zu flipped bytes lie in padding\n", unseen, length / step);
    free(data);
}

static void it_names_the_damaged_storage_and_frame(void **state)
{
    exg_save_options options = {.size = sizeof(options), .compression = EXG_COMPRESSION_ZSTD};
    exg_program *p = open_program("fixtures/lm.decode.pt2");
    exg_program *q = NULL;
    size_t length;
    uint8_t *data;
    uint32_t framed = 0;
    exg_error err;

    (void)state;
    save_program(p, "big.exg", &options);
    data = read_file("big.exg", &length);
    assert_int_equal(exg_open_memory(data, length, NULL, &q, NULL, &err), EXG_OK);
    while (q->weights->storages[framed].kind != EXG_STORAGE_FRAMES) {
        framed++;
    }
    ((uint8_t *)(uintptr_t)q->weights->storages[framed].data)[5] ^= 1;
    assert_int_equal(exg_storage_check(q->weights, framed, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "EXG-022");
    assert_non_null(strstr(err.message, "frame 0"));
    assert_non_null(strstr(err.where, "storages["));
    exg_program_destroy(q);
    exg_program_destroy(p);
    free(data);
    empty_folder();
}

static void it_fails_cleanly_at_every_small_budget(void **state)
{
    size_t length;
    uint8_t *data = small_file(&length);
    exg_open_options options = {.size = sizeof(options), .memory_budget = 64};
    exg_program *p = NULL;
    exg_error err;
    exg_status status = EXG_LIMIT;

    (void)state;
    while (status != EXG_OK) {
        exg_error_clear(&err);
        assert_true(options.memory_budget < (16u << 20));
        status = exg_open_memory(data, length, &options, &p, NULL, &err);
        assert_true(status == EXG_OK || status == EXG_LIMIT);
        assert_string_equal(err.code, status == EXG_OK ? "" : "MEM-002");
        options.memory_budget += options.memory_budget / 64 + 16;
    }
    exg_program_destroy(p);
    free(data);
}

/* ---- external ----------------------------------------------------------------------------- */

static exg_status read_external(exg_error *err)
{
    exg_program *p = open_program(in_folder("x.exg"));
    exg_status status = EXG_OK;

    exg_error_clear(err);
    for (uint32_t i = 0; status == EXG_OK && i < p->weights->storage_count; i++) {
        status = exg_storage_check(p->weights, i, err);
    }
    exg_program_destroy(p);
    return status;
}

static void it_refuses_external_files_missing_changed_or_elsewhere(void **state)
{
    exg_save_options options = {
        .size = sizeof(options), .weights = EXG_WEIGHTS_EXTERNAL, .external_name = "x.weights"};
    exg_program *p = open_program("fixtures/mlp.pt2");
    size_t length;
    uint8_t *data;
    exg_error err;

    (void)state;
    save_program(p, "x.exg", &options);
    exg_program_destroy(p);
    assert_int_equal(read_external(&err), EXG_OK);
    data = read_file("x.weights", &length);
    unlink(in_folder("x.weights"));
    assert_int_equal(read_external(&err), EXG_IO);
    write_file("x.weights", data, 3);
    assert_int_equal(read_external(&err), EXG_MALFORMED);
    data[1] ^= 1;
    write_file("x.weights", data, length);
    assert_int_equal(read_external(&err), EXG_MALFORMED);
    unlink(in_folder("x.weights"));
    assert_int_equal(symlink("/etc/passwd", in_folder("x.weights")), 0);
    assert_int_equal(read_external(&err), EXG_UNSUPPORTED);
    assert_string_equal(err.code, "WGT-LINK");
    free(data);
    empty_folder();
}

static void it_refuses_locations_that_leave_the_folder(void **state)
{
    static const char *const wanted[] = {"../u/up.wts", "/tmp/abs.wt", "a/../../x.w",
                                         "a\\b.weight.", "./here.wgts"};
    exg_save_options options = {.size = sizeof(options), .weights = EXG_WEIGHTS_EXTERNAL};
    exg_program *p = open_program("fixtures/mlp.pt2");
    exg_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        size_t length;
        uint8_t *data;
        char name[12] = "zzzzzzzzzzz";

        name[strlen(wanted[i])] = '\0';
        options.external_name = name;
        save_program(p, "x.exg", &options);
        data = read_file("x.exg", &length);
        replace_location(data, length, name, wanted[i]);
        assert_int_equal(open_bytes(data, length, &err), EXG_MALFORMED);
        assert_string_equal(err.code, "WGT-LOC");
        free(data);
    }
    exg_program_destroy(p);
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_gives_back_what_was_saved),
        cmocka_unit_test(it_gives_back_what_was_compressed),
        cmocka_unit_test(it_gives_back_what_was_put_beside),
        cmocka_unit_test(it_keeps_compression_and_place_unless_told),
        cmocka_unit_test(it_may_be_saved_onto_itself),
        cmocka_unit_test(it_stores_equal_storages_once),
        cmocka_unit_test(it_tells_progress_and_leaves_nothing_on_failure),
        cmocka_unit_test(it_refuses_every_prefix_and_a_longer_file),
        cmocka_unit_test(it_finds_every_flipped_byte),
        cmocka_unit_test(it_names_the_damaged_storage_and_frame),
        cmocka_unit_test(it_fails_cleanly_at_every_small_budget),
        cmocka_unit_test(it_refuses_external_files_missing_changed_or_elsewhere),
        cmocka_unit_test(it_refuses_locations_that_leave_the_folder),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
