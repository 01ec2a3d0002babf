/* patch.c - a patch makes B of A, to the byte, or says why not. What is expected are the files
 * themselves. */
#include "libexport/artifact/patch_file.h"
#include "libexport/base/little.h"
#include "libexport/base/xxh3.h"
#include "tests/export/exg_folder.h"
#include "tests/export/refusal.h"

#include <exg/formats.h>
#include <exg/patch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define ELEMENTS (1 << 20)

static exg_patch_info make(const char *a, const char *b)
{
    exg_patch_info info = {.size = sizeof(info)};
    exg_error err;

    exg_error_clear(&err);
    if (exg_patch_make(a, b, in_folder("p"), NULL, &info, &err) != EXG_OK) {
        fail_msg("%s %s: %s %s", a, b, err.code, err.message);
    }
    return info;
}

static void assert_refused(const char *a, exg_status status, const char *code)
{
    exg_error err;

    exg_error_clear(&err);
    assert_int_equal(exg_patch_apply(a, in_folder("p"), in_folder("out"), NULL, NULL, &err),
                     status);
    assert_string_equal(err.code, code);
    assert_null(fopen(in_folder("out"), "rb"));
}

static void assert_made(const char *a, const char *b)
{
    exg_error err;

    exg_error_clear(&err);
    if (exg_patch_apply(a, in_folder("p"), in_folder("out"), NULL, NULL, &err) != EXG_OK) {
        fail_msg("%s %s: %s %s", a, b, err.code, err.message);
    }
    assert_paths_equal(b, in_folder("out"));
    remove(in_folder("out"));
}

/* Every kind of file with every other, itself and an empty one. */
static void test_any_two_files(void **state)
{
    static const char *const files[] = {
        "fixtures/mlp.pt2",
        "fixtures/tied.pt2",
        "fixtures/archives/several.pt2",
        "fixtures/lm.core.dynamic.pt2",
        "fixtures/mlp.inputs.safetensors",
        "fixtures/weights/nested.pt",
        "fixtures/weights/saved/stream.pt",
        "fixtures/weights/little.gguf",
        "fixtures/weights/sharded.safetensors.index.json",
        "fixtures/bad/ZIP-END.pt2",
        "README.md",
    };
    const char *all[sizeof(files) / sizeof(files[0]) + 3];
    size_t count = sizeof(files) / sizeof(files[0]);
    exg_program *program;

    (void)state;
    memcpy(all, files, sizeof(files));
    write_file("empty", "", 0);
    all[count++] = strdup(in_folder("empty"));
    program = open_program("fixtures/tied.pt2");
    save_program(
        program, "zstd.exg",
        &(exg_save_options){.size = sizeof(exg_save_options), .compression = EXG_COMPRESSION_ZSTD});
    exg_program_destroy(program);
    all[count++] = strdup(in_folder("zstd.exg"));
    for (size_t a = 0; a < count; a++) {
        for (size_t b = 0; b < count; b++) {
            const exg_patch_info info = make(all[a], all[b]);

            assert_made(all[a], all[b]);
            assert_int_equal(info.equal_bytes + info.changed_bytes + info.new_bytes, info.b_bytes);
            if (a == b) {
                assert_int_equal(info.equal_bytes, info.b_bytes);
            }
        }
    }
    free((void *)(uintptr_t)all[count - 1]);
    free((void *)(uintptr_t)all[count - 2]);
}

static uint32_t next_number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Two tensors of bfloat16 as random numbers, each `every`th of the first `step` off. */
static void write_tensors(const char *name, const char *first, const char *second, uint32_t every,
                          int step, const char *note)
{
    int64_t shape[] = {ELEMENTS};
    exg_named_tensor items[2] = {{first, EXG_DTYPE_BF16, 1, shape, NULL, 2 * ELEMENTS},
                                 {second, EXG_DTYPE_BF16, 1, shape, NULL, 2 * ELEMENTS}};
    exg_string_pair pair = {"note", note};
    exg_string_map metadata = {&pair, note == NULL ? 0 : 1};
    uint16_t *numbers = malloc((size_t)4 * ELEMENTS);
    uint32_t seed = 1;
    exg_error err;

    exg_error_clear(&err);
    assert_non_null(numbers);
    for (uint32_t i = 0; i < 2 * ELEMENTS; i++) {
        numbers[i] = (uint16_t)((next_number(&seed) & 0x81ff) | 0x3c00);
        numbers[i] = (uint16_t)(numbers[i] + (i < ELEMENTS && i % every == 0 ? step : 0));
    }
    items[0].data = numbers;
    items[1].data = numbers + ELEMENTS;
    assert_int_equal(exg_tensor_file_save(in_folder(name), items, 2, &metadata, &err), EXG_OK);
    free(numbers);
}

static uint64_t patch_bytes(const char *b)
{
    const exg_patch_info info = make(in_folder("a.safetensors"), in_folder(b));

    assert_made(in_folder("a.safetensors"), in_folder(b));
    return info.patch_bytes;
}

/* What a patch takes: nearly nothing of what is there under another name, in another order or
 * behind a longer header; little of what changed a little. */
static void test_size(void **state)
{
    (void)state;
    write_tensors("a.safetensors", "down", "up", 1, 0, NULL);
    write_tensors("b.safetensors", "model.down", "model.up", 1, 0, "a note that moves all");
    assert_true(patch_bytes("b.safetensors") < 1000);
    write_tensors("b.safetensors", "down", "up", 50, 3, NULL);
    assert_true(patch_bytes("b.safetensors") < ELEMENTS / 32);
    write_tensors("b.safetensors", "model.down", "model.up", 50, -3, NULL);
    assert_true(patch_bytes("b.safetensors") < ELEMENTS / 16);
    write_tensors("b.safetensors", "down", "up", 1, 1, NULL);
    assert_true(patch_bytes("b.safetensors") < 2000);
}

static void test_another_base(void **state)
{
    (void)state;
    make("fixtures/mlp.pt2", "fixtures/tied.pt2");
    assert_refused("fixtures/tied.pt2", EXG_MISMATCH, "PAT-BASE");
    write_tensors("a.safetensors", "down", "up", 1, 0, NULL);
    write_tensors("b.safetensors", "down", "up", 7, 1, NULL);
    make(in_folder("a.safetensors"), in_folder("b.safetensors"));
    assert_refused(in_folder("b.safetensors"), EXG_MISMATCH, "PAT-BASE"); /* as long as A */
}

/* No byte of a patch can be another one, and no end can be missing. */
static void test_damage(void **state)
{
    size_t length;
    uint8_t *data;
    exg_error err;

    (void)state;
    make("fixtures/mlp.inputs.safetensors", "fixtures/tied.inputs.safetensors");
    data = read_file("p", &length);
    for (size_t i = 0; i < length; i++) {
        data[i] ^= (uint8_t)(1u << (i % 8));
        write_file("p", data, length);
        data[i] ^= (uint8_t)(1u << (i % 8));
        exg_error_clear(&err);
        if (exg_patch_apply("fixtures/mlp.inputs.safetensors", in_folder("p"), in_folder("out"),
                            NULL, NULL, &err) == EXG_OK) {
            fail_msg("byte %zu of %zu", i, length);
        }
        assert_memory_equal(err.code, "PAT-", 4);
        write_file("p", data, i);
        assert_refused("fixtures/mlp.inputs.safetensors", EXG_MALFORMED, "PAT-HEADER");
    }
    write_file("p", data, length);
    assert_made("fixtures/mlp.inputs.safetensors", "fixtures/tied.inputs.safetensors");
    free(data);
}

/* The patch with one record changed by `change`, and all checksums right again. */
static void rewrite(const uint8_t *patch, size_t length, void (*change)(uint8_t *record))
{
    uint8_t *data = malloc(length);
    uint64_t count = exg_little_get(patch + 96, 8);
    uint8_t *records = data + length - count * EXG_PATCH_RECORD_BYTES;

    assert_non_null(data);
    memcpy(data, patch, length);
    change(records);
    exg_little_put(data + 104, XXH3_64bits(records, count * EXG_PATCH_RECORD_BYTES), 8);
    exg_little_put(data + 120, XXH3_64bits(data, 120), 8);
    write_file("p", data, length);
    free(data);
}

static void from_past_the_end(uint8_t *record)
{
    exg_little_put(record + 8, UINT64_MAX - 1, 8);
}

static void length_that_wraps(uint8_t *record)
{
    exg_little_put(record, UINT64_MAX, 8);
}

static void length_zero(uint8_t *record)
{
    exg_little_put(record, 0, 8);
}

static void kind_unknown(uint8_t *record)
{
    record[56] = 4;
}

static void sparse_wide(uint8_t *record)
{
    record[56] = EXG_PATCH_SPARSE;
    record[57] = 8;
}

static void sparse_rest(uint8_t *record)
{
    record[56] = EXG_PATCH_SPARSE;
    record[57] = 4;
    exg_little_put(record, 4097, 8);
}

static void sparse_plane_too_many(uint8_t *record)
{
    record[56] = EXG_PATCH_SPARSE;
    record[57] = 1;
    exg_little_put(record + 24 + 8, 1, 4);
}

static void width_three(uint8_t *record)
{
    record[56] = EXG_PATCH_NEW;
    record[57] = 3;
}

static void planes_that_wrap(uint8_t *record)
{
    exg_little_put(record + 24, UINT32_MAX, 4);
}

static void something_behind(uint8_t *record)
{
    record[63] = 1;
}

/* Records that a checksum does not catch: their maker meant them so. */
static void test_hostile(void **state)
{
    static void (*const changes[])(uint8_t *) = {
        from_past_the_end, length_that_wraps, length_zero, kind_unknown, width_three,
        planes_that_wrap,  something_behind,  sparse_wide, sparse_rest,  sparse_plane_too_many};
    size_t length;
    uint8_t *data;

    (void)state;
    make("fixtures/mlp.pt2", "fixtures/mlp.pt2");
    data = read_file("p", &length);
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        rewrite(data, length, changes[i]);
        assert_refused("fixtures/mlp.pt2", EXG_MALFORMED, "PAT-RECORD");
    }
    data[64] ^= 1; /* of the SHA-256 of B */
    exg_little_put(data + 120, XXH3_64bits(data, 120), 8);
    write_file("p", data, length);
    assert_refused("fixtures/mlp.pt2", EXG_MALFORMED, "PAT-RESULT");
    data[8] = 2;
    write_file("p", data, length);
    assert_refused("fixtures/mlp.pt2", EXG_UNSUPPORTED, "PAT-VERSION");
    free(data);
}

/* Differences of elements go back, of every width and rest. 8 bits: every pair. */
static void test_differences(void **state)
{
    uint8_t a[67];
    uint8_t b[67];
    uint8_t d[67];
    uint32_t seed = 7;

    (void)state;
    for (int x = 0; x < 256; x++) {
        for (int y = 0; y < 256; y++) {
            const int step = (int8_t)(uint8_t)(y - x);

            a[0] = (uint8_t)x;
            b[0] = (uint8_t)y;
            exg_patch_subtract(a, b, 1, 1, d);
            assert_int_equal(d[0], step < 0 ? -2 * step - 1 : 2 * step);
            exg_patch_add(a, 1, 1, d);
            assert_int_equal(d[0], y);
        }
    }
    for (int round = 0; round < 2000; round++) {
        const uint32_t width = 1u << round % 4;
        const uint64_t length = next_number(&seed) % sizeof(a);

        for (size_t i = 0; i < sizeof(a); i++) {
            a[i] = (uint8_t)next_number(&seed);
            b[i] = (uint8_t)next_number(&seed);
        }
        exg_patch_subtract(a, b, width, length, d);
        exg_patch_add(a, width, length, d);
        assert_memory_equal(b, d, length);
    }
}

/* Of every width and number of elements, and of how many differ; no bit of a frame is another one.
 */
static void test_sparse(void **state)
{
    static uint8_t differences[4096], room[EXG_FRAME_BYTES], stored[EXG_FRAME_BYTES];
    static uint8_t a[4096], wanted[4096], out[4096];
    exg_packer *packer = NULL;
    exg_frame_reader *reader = NULL;
    uint32_t seed = 3;
    exg_error err;

    (void)state;
    assert_int_equal(exg_packer_create(&packer, &err), EXG_OK);
    assert_int_equal(exg_frame_reader_create(&reader, &err), EXG_OK);
    for (uint32_t round = 0; round < 3000; round++) {
        const uint32_t width = 1u << round % 3;
        const uint32_t count = 1 + next_number(&seed) % (sizeof(a) / width);
        const uint32_t every = 2 + next_number(&seed) % 100;
        exg_patch_record record = {
            .kind = EXG_PATCH_SPARSE, .width = width, .length = (uint64_t)count * width};
        uint32_t made;

        memset(differences, 0, sizeof(differences));
        for (uint32_t i = 0; i < count * width; i++) {
            a[i] = (uint8_t)next_number(&seed);
            if (next_number(&seed) % (every * width) == 0) {
                differences[i] = (uint8_t)next_number(&seed);
            }
        }
        memcpy(wanted, differences, sizeof(wanted));
        exg_patch_add(a, width, record.length, wanted);
        made = exg_patch_pack_sparse(packer, differences, width, (uint32_t)record.length, room,
                                     &record.frame, stored);
        if (made == 0) {
            continue; /* too many */
        }
        assert_int_equal(made, exg_frame_stored_bytes(&record.frame));
        assert_int_equal(
            exg_patch_record_expand(stored, &record, a, 0, record.length, out, reader, &err),
            EXG_OK);
        assert_memory_equal(out, wanted, record.length);
        stored[next_number(&seed) % made] ^= (uint8_t)(1u << round % 8);
        assert_int_equal(
            exg_patch_record_expand(stored, &record, a, 0, record.length, out, reader, &err),
            EXG_MALFORMED);
        assert_string_equal(err.code, "PAT-DATA");
    }
    exg_packer_destroy(packer);
    exg_frame_reader_destroy(reader);
}

static void test_describe(void **state)
{
    exg_patch_info said = {.size = sizeof(said)};
    exg_patch_info made = make("fixtures/mlp.pt2", "fixtures/tied.pt2");
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_int_equal(exg_patch_describe(in_folder("p"), &said, &err), EXG_OK);
    assert_memory_equal(&said, &made, sizeof(said));
    assert_int_equal(exg_patch_describe("README.md", &said, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "PAT-HEADER");
}

#ifdef REFUSES_MEMORY
static exg_status make_again(const char *name, void *user, exg_error *err)
{
    (void)name;
    (void)user;
    return exg_patch_make("fixtures/mlp.pt2", "fixtures/tied.pt2", in_folder("p"),
                          &(exg_patch_options){.size = sizeof(exg_patch_options), .threads = 1},
                          NULL, err);
}

static exg_status apply_again(const char *name, void *user, exg_error *err)
{
    (void)name;
    (void)user;
    return exg_patch_apply("fixtures/mlp.pt2", in_folder("p"), in_folder("out"),
                           &(exg_patch_options){.size = sizeof(exg_patch_options), .threads = 1},
                           NULL, err);
}

/* The patch is right whatever there was no memory for, or there is none. */
static void test_without_memory(void **state)
{
    (void)state;
    refuse_each(make_again, "make", NULL, 1);
    assert_made("fixtures/mlp.pt2", "fixtures/tied.pt2");
    refuse_each(apply_again, "apply", NULL, 1);
    assert_paths_equal("fixtures/tied.pt2", in_folder("out"));
}
#else
static void test_without_memory(void **state)
{
    (void)state;
    skip();
}
#endif

#define LONG_BYTES (40u << 20)

static uint64_t stop_at = 30u << 20;

/* Ends the process, as a kill does. */
static void stop_late(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    (void)total;
    if (done > stop_at) {
        _exit(7);
    }
}

static void flip(const char *name, long at)
{
    FILE *file = fopen(in_folder(name), "r+b");
    int byte;

    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    byte = fgetc(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_not_equal(fputc(byte ^ 1, file), EOF);
    fclose(file);
}

/* Killed when 30 of 40 MiB are written: nothing bears the name, and what is noted stays. */
static void stop_it(void)
{
    const exg_patch_options options = {
        .size = sizeof(options), .resume = true, .threads = 1, .progress = stop_late};
    pid_t child = fork();
    int how = 0;

    if (child == 0) {
        _exit(exg_patch_apply(in_folder("a"), in_folder("p"), in_folder("out"), &options, NULL,
                              NULL) == EXG_OK);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 7);
    assert_int_not_equal(access(in_folder("out"), F_OK), 0);
    assert_true(file_bytes("out.part") >= 16u << 20);
    assert_int_equal(access(in_folder("out.resume"), F_OK), 0);
}

static void finish(exg_status want)
{
    const exg_patch_options options = {.size = sizeof(options), .resume = true};
    exg_error err;

    exg_error_clear(&err);
    if (exg_patch_apply(in_folder("a"), in_folder("p"), in_folder("out"), &options, NULL, &err) !=
        want) {
        fail_msg("%s %s", err.code, err.message);
    }
    assert_int_not_equal(access(in_folder("out.part"), F_OK), 0);
    assert_int_not_equal(access(in_folder("out.resume"), F_OK), 0);
    assert_int_equal(access(in_folder("out"), F_OK), want == EXG_OK ? 0 : -1);
    if (want == EXG_OK) {
        assert_paths_equal(in_folder("b"), in_folder("out"));
        remove(in_folder("out"));
    }
}

static void test_resume(void **state)
{
    uint8_t *data = calloc(LONG_BYTES, 1);
    uint64_t random = 1;

    (void)state;
    assert_non_null(data);
    write_file("a", data, LONG_BYTES);
    for (size_t i = 0; i < LONG_BYTES; i++) { /* nothing that A has, and nothing to compress */
        random = random * UINT64_C(6364136223846793005) + 1;
        data[i] = (uint8_t)(random >> 56);
    }
    write_file("b", data, LONG_BYTES);
    free(data);
    (void)make(in_folder("a"), in_folder("b"));
    stop_it();
    flip("p", 1 << 20); /* of what is there it is not read again */
    finish(EXG_OK);
    finish(EXG_MALFORMED); /* and from the beginning it is */
    flip("p", 1 << 20);
    stop_it();
    flip("out.part", 1 << 20); /* damage is found, and written again */
    finish(EXG_OK);
    stop_it();
    (void)make(in_folder("b"), in_folder("a")); /* another patch takes nothing of it */
    assert_int_equal(rename(in_folder("a"), in_folder("c")), 0);
    assert_int_equal(rename(in_folder("b"), in_folder("a")), 0);
    assert_int_equal(rename(in_folder("c"), in_folder("b")), 0);
    finish(EXG_OK);
}

/* ---- making that was stopped ----------------------------------------------------------------- */

/* Makes "out" of "a" and "b"; false: it was stopped, as a kill does. */
static bool make_out(void (*progress)(void *, uint64_t, uint64_t), void *user)
{
    const exg_patch_options options = {
        .size = sizeof(options), .resume = true, .threads = 1, .progress = progress, .user = user};
    pid_t child = progress == stop_late ? fork() : 0;
    exg_error err;
    int how = 0;

    if (child == 0) {
        exg_error_clear(&err);
        if (exg_patch_make(in_folder("a"), in_folder("b"), in_folder("out"), &options, NULL,
                           &err) != EXG_OK) {
            fail_msg("%s %s", err.code, err.message);
        }
        return true;
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 7);
    return false;
}

/* The least that is told: where it went on. */
static void note_least(void *user, uint64_t done, uint64_t total)
{
    uint64_t *least = user;

    (void)total;
    *least = done < *least ? done : *least;
}

/* It goes on behind `least` bytes of B or later, or before, and makes the patch that it makes in
 * one go. */
static void assert_goes_on(uint64_t least, bool later)
{
    uint64_t from = UINT64_MAX;

    assert_true(make_out(note_least, &from));
    assert_true(later ? from > least : from <= least);
    assert_int_not_equal(access(in_folder("out.part"), F_OK), 0);
    assert_int_not_equal(access(in_folder("out.resume"), F_OK), 0);
    (void)make(in_folder("a"), in_folder("b"));
    assert_paths_equal(in_folder("p"), in_folder("out"));
    remove(in_folder("out"));
}

static void stop_making(void)
{
    assert_false(make_out(stop_late, NULL));
    assert_int_not_equal(access(in_folder("out"), F_OK), 0);
    assert_int_equal(access(in_folder("out.part"), F_OK), 0);
    assert_int_equal(access(in_folder("out.resume"), F_OK), 0);
}

#define SHORT_BYTES (8u << 20)

static void test_resume_of_making(void **state)
{
    uint8_t *data = calloc(SHORT_BYTES, 1);
    uint64_t random = 1;

    (void)state;
    stop_at = 6u << 20;
    assert_non_null(data);
    write_file("a", data, SHORT_BYTES);
    for (size_t i = 0; i < SHORT_BYTES; i++) { /* the first 2 MiB are equal */
        random = random * UINT64_C(6364136223846793005) + 1;
        data[i] = i < 2u << 20 ? 0 : (uint8_t)(random >> 56);
    }
    write_file("b", data, SHORT_BYTES);
    stop_making();
    assert_goes_on(5u << 20, true);
    stop_making();
    flip("out.part", 4096); /* of the first frame: the copies before it hold */
    assert_goes_on(3u << 20, false);
    stop_making();
    flip("out.resume", 100); /* of the first record */
    assert_goes_on(1u << 20, false);
    stop_making();
    remove(in_folder("out.part"));
    assert_goes_on(1u << 20, false);
    stop_making();
    data[SHORT_BYTES - 1] ^= 1; /* another B */
    write_file("b", data, SHORT_BYTES);
    assert_goes_on(1u << 20, false);
    free(data);
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resume),         cmocka_unit_test(test_resume_of_making),
        cmocka_unit_test(test_any_two_files),  cmocka_unit_test(test_size),
        cmocka_unit_test(test_another_base),   cmocka_unit_test(test_damage),
        cmocka_unit_test(test_hostile),        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_sparse),         cmocka_unit_test(test_describe),
        cmocka_unit_test(test_without_memory),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
