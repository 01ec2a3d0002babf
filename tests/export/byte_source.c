/* byte_source.c - files whose bytes a caller gives: the same as by path, and no more is read than
 * is needed. Sources here are files of which every read is counted. */
#include "tests/export/exg_folder.h"

#include <dirent.h>
#include <exg/export.h>
#include <exg/http.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SCHEME "held://"

/* What the sources of a test were asked for. */
static struct {
    uint32_t unit;
    atomic_uint reads, open;
    atomic_ullong bytes;
    uint64_t fails_from; /* reads that reach past it fail; 0: none */
    uint64_t length;     /* in the place of the file's; 0: that */
    bool in_memory;      /* the bytes are given, and no reading */
} told;

typedef struct held {
    int descriptor;
    uint64_t length;
    void *data; /* mapped, or NULL */
} held;

static exg_status read_held(void *user, uint64_t offset, uint64_t length, void *out, exg_error *err)
{
    const held *h = user;
    uint64_t there = offset < h->length ? h->length - offset : 0;

    there = there < length ? there : length;
    assert_true(length > 0);
    atomic_fetch_add(&told.reads, 1);
    atomic_fetch_add(&told.bytes, length);
    if (told.fails_from != 0 && offset + length > told.fails_from) {
        return EXG_FAIL(err, IO, "IO-READ", "as asked for");
    }
    memset(out, 0, (size_t)length);
    assert_int_equal(pread(h->descriptor, out, (size_t)there, (off_t)offset), (ssize_t)there);
    return EXG_OK;
}

static void close_held(void *user)
{
    held *h = user;

    if (h->data != NULL) {
        assert_int_equal(munmap(h->data, (size_t)h->length), 0);
    }
    close(h->descriptor);
    free(h);
    atomic_fetch_sub(&told.open, 1);
}

/* "held://PATH" is the file PATH. */
static exg_status open_held(void *user, const char *name, exg_byte_source *source, exg_error *err)
{
    held *h;
    struct stat st;

    (void)user;
    if (strncmp(name, SCHEME, strlen(SCHEME)) != 0) {
        return EXG_OK;
    }
    h = calloc(1, sizeof(*h));
    h->descriptor = open(name + strlen(SCHEME), O_RDONLY | O_CLOEXEC);
    if (h->descriptor < 0) {
        free(h);
        return EXG_FAIL(err, IO, "IO-OPEN", "cannot open %s", name);
    }
    assert_int_equal(fstat(h->descriptor, &st), 0);
    h->length = (uint64_t)st.st_size;
    atomic_fetch_add(&told.open, 1);
    *source = (exg_byte_source){.length = told.length != 0 ? told.length : h->length,
                                .read = read_held,
                                .close = close_held,
                                .user = h,
                                .unit = told.unit};
    if (told.in_memory && h->length > 0) {
        h->data = mmap(NULL, (size_t)h->length, PROT_READ, MAP_PRIVATE, h->descriptor, 0);
        assert_ptr_not_equal(h->data, MAP_FAILED);
        source->data = h->data;
        source->read = NULL;
    }
    return EXG_OK;
}

static exg_open_options held_options(uint32_t unit)
{
    memset(&told, 0, sizeof(told));
    told.unit = unit;
    return (exg_open_options){.size = sizeof(exg_open_options), .open_source = open_held};
}

static const char *held_name(const char *path)
{
    static char name[512];

    snprintf(name, sizeof(name), SCHEME "%s", path);
    return name;
}

/* ---- the same ------------------------------------------------------------------------------- */

static void assert_same_weights(exg_weights *got, exg_weights *want)
{
    char a[EXG_DIGEST_TEXT_MAX];
    char b[EXG_DIGEST_TEXT_MAX];
    exg_error err;
    exg_status status = exg_weights_digest(want, EXG_CHECKSUM_XXH3_128, 2, b, &err);

    if (exg_weights_digest(got, EXG_CHECKSUM_XXH3_128, 2, a, &err) != status) {
        fail_msg("%s: %s", err.code, err.message);
    }
    if (status == EXG_OK) {
        assert_string_equal(a, b);
    }
    assert_int_equal(got->count, want->count);
    assert_int_equal(got->skipped_count, want->skipped_count);
    assert_int_equal(got->metadata.count, want->metadata.count);
    for (uint32_t i = 0; i < got->skipped_count; i++) {
        assert_string_equal(got->skipped[i].name, want->skipped[i].name);
        assert_string_equal(got->skipped[i].kind, want->skipped[i].kind);
    }
    for (uint32_t i = 0; i < got->metadata.count; i++) {
        assert_string_equal(got->metadata.items[i].key, want->metadata.items[i].key);
        assert_string_equal(got->metadata.items[i].value, want->metadata.items[i].value);
    }
}

/* Opened by path and by a source: the same, or refused with the same code. Sources cannot be
 * listed, so what needs a folder is none of them. */
static void compare_by(const char *path, bool in_memory)
{
    const exg_open_options options = held_options(64);
    exg_weights *want = NULL;
    exg_weights *got = NULL;
    exg_weights_format format_want = EXG_WEIGHTS_FORMAT_COUNT;
    exg_weights_format format_got = EXG_WEIGHTS_FORMAT_COUNT;
    exg_error err_want;
    exg_error err_got;
    exg_status status;

    told.in_memory = in_memory;
    exg_error_clear(&err_want);
    exg_error_clear(&err_got);
    status = exg_weights_open(path, NULL, &want, &format_want, &err_want);
    if (exg_weights_open(held_name(path), &options, &got, &format_got, &err_got) != status ||
        strcmp(err_got.code, err_want.code) != 0) {
        fail_msg("%s: %s %s, by a source %s %s", path, err_want.code, err_want.message,
                 err_got.code, err_got.message);
    }
    if (status == EXG_OK) {
        assert_int_equal(format_got, format_want);
        assert_same_weights(got, want);
    }
    exg_weights_release(want);
    exg_weights_release(got);
    assert_int_equal(told.open, 0);
}

static void compare(const char *path)
{
    compare_by(path, false);
    compare_by(path, true);
}

static uint32_t compare_folder(const char *folder)
{
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    uint32_t count = 0;

    assert_non_null(directory);
    while ((entry = readdir(directory)) != NULL) {
        struct stat st;
        char path[400];

        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
            strcmp(entry->d_name, ".metadata") != 0) {
            compare(path);
            count++;
        }
    }
    closedir(directory);
    return count;
}

static void test_fixtures(void **state)
{
    (void)state;
    assert_true(compare_folder("fixtures") > 50);
    assert_true(compare_folder("fixtures/weights") > 20);
    assert_true(compare_folder("fixtures/weights/saved") > 10);
    assert_true(compare_folder("fixtures/bad") > 50);
    assert_true(compare_folder("fixtures/foreign") > 0);
}

/* Cut at any place, refused as by path: what is beyond the end must not be asked for. */
static void test_cut(void **state)
{
    static const char *const files[] = {
        "fixtures/mlp.pt2", "fixtures/weights/nested.pt", "fixtures/weights/little.gguf",
        "fixtures/weights/names.npz", "fixtures/weights/saved/sd15.pt"};

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char copy[300];
        struct stat st;

        snprintf(copy, sizeof(copy), "%s", in_folder("cut"));
        assert_int_equal(stat(files[i], &st), 0);
        for (off_t length = 1; length < st.st_size; length += 1 + st.st_size / 60) {
            uint8_t *data = malloc((size_t)st.st_size);
            int descriptor = open(files[i], O_RDONLY | O_CLOEXEC);

            assert_int_equal(pread(descriptor, data, (size_t)length, 0), length);
            close(descriptor);
            write_file("cut", data, (size_t)length);
            free(data);
            compare(copy);
        }
    }
}

/* ---- no more than is needed ------------------------------------------------------------------ */

#define TENSORS 24u
#define BYTES   (1u << 20)

static void make(const char *path, uint64_t split)
{
    exg_named_tensor items[TENSORS];
    char names[TENSORS][16];
    exg_weights_save_options options = {.size = sizeof(options), .split = split};
    exg_weights *weights = NULL;
    char plain[300];
    const int64_t shape[2] = {BYTES / 1024, 256};
    float *data = malloc(BYTES);
    exg_error err;

    snprintf(plain, sizeof(plain), "%s", in_folder("plain.safetensors"));
    for (uint32_t i = 0; i < BYTES / 4; i++) {
        data[i] = (float)i;
    }
    for (uint32_t i = 0; i < TENSORS; i++) {
        snprintf(names[i], sizeof(names[i]), "t%u", i);
        items[i] = (exg_named_tensor){names[i], EXG_DTYPE_F32, 2, shape, data, BYTES};
    }
    assert_int_equal(exg_tensor_file_save(plain, items, TENSORS, NULL, &err), EXG_OK);
    assert_int_equal(exg_weights_open(plain, NULL, &weights, NULL, &err), EXG_OK);
    assert_int_equal(exg_weights_save(weights, path, &options, &err), EXG_OK);
    exg_weights_release(weights);
    free(data);
}

/* Opening reads little; one tensor costs its bytes, whatever the format. */
static void check_needs(const char *name, uint64_t split, const char *opened)
{
    const exg_open_options options = held_options(0);
    exg_weights *weights = NULL;
    const exg_weight *weight;
    char path[300];
    void *out = malloc(BYTES);
    exg_error err;

    snprintf(path, sizeof(path), "%s", in_folder(name));
    make(path, split);
    snprintf(path, sizeof(path), "%s", in_folder(opened));
    compare(path);
    (void)held_options(0);
    assert_int_equal(exg_weights_open(held_name(path), &options, &weights, NULL, &err), EXG_OK);
    assert_int_equal(weights->count, TENSORS);
    print_message("  %s: opened with %u reads, %llu bytes\n", opened, told.reads, told.bytes);
    assert_true(told.bytes < TENSORS * BYTES / 12);
    told.bytes = 0;
    weight = exg_weights_find(weights, EXG_TABLE_STATE, "t7");
    assert_non_null(weight);
    assert_int_equal(exg_weight_read_range(weights, weight, 256, 512, out, &err), EXG_OK);
    assert_int_equal(((float *)out)[0], 256);
    if (weights->storages[weight->storage].checksum.kind == EXG_CHECKSUM_NONE) {
        assert_int_equal(told.bytes, 2048);
    }
    told.bytes = 0;
    assert_int_equal(exg_weight_read(weights, weight, out, BYTES, &err), EXG_OK);
    assert_int_equal(told.bytes, BYTES);
    exg_weights_release(weights);
    assert_int_equal(told.open, 0);
    free(out);
}

static void test_needs(void **state)
{
    (void)state;
    check_needs("one.safetensors", 0, "one.safetensors");
    check_needs("set.safetensors", 5u * BYTES, "set.safetensors.index.json");
    check_needs("one.gguf", 0, "one.gguf");
    check_needs("set.gguf", 5u * BYTES, "set-00002-of-00005.gguf");
    check_needs("one.npz", 0, "one.npz");
    check_needs("one.pt", 0, "one.pt");
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

static void test_faults(void **state)
{
    exg_open_options options = held_options(0);
    exg_weights *weights = NULL;
    char path[300];
    char out[1024];
    exg_error err;

    (void)state;
    snprintf(path, sizeof(path), "%s", in_folder("faults.safetensors"));
    make(path, 0);
    told.fails_from = 100;
    assert_int_equal(exg_weights_open(held_name(path), &options, &weights, NULL, &err), EXG_IO);
    assert_string_equal(err.code, "IO-READ");
    told.fails_from = 3u * BYTES;
    assert_int_equal(exg_weights_open(held_name(path), &options, &weights, NULL, &err), EXG_OK);
    assert_int_equal(exg_weight_read_range(weights, &weights->items[0], 0, 4, out, &err), EXG_OK);
    assert_int_equal(exg_weight_read_range(weights, &weights->items[20], 0, 4, out, &err), EXG_IO);
    assert_string_equal(err.code, "IO-READ");
    exg_weights_release(weights);
    assert_int_equal(exg_weights_open(held_name("/nowhere"), &options, &weights, NULL, &err),
                     EXG_IO);
    assert_int_equal(told.open, 0);
    /* A name of another kind is a file. */
    assert_int_equal(exg_weights_open(path, &options, &weights, NULL, &err), EXG_OK);
    exg_weights_release(weights);
}

/* What has to be read whole may not be large; what it is can be told all the same. */
static void test_whole(void **state)
{
    static const struct {
        const char *name, *text, *code;
    } rows[] = {{"whole.json", "{\"weight_map\": ", "SRC-WHOLE"},
                {"whole.7z", "7z\xbc\xaf\x27\x1c", "FMT-FOREIGN"},
                {"whole.onnx", "\x08\x07\x3a", "SRC-WHOLE"}};
    exg_open_options options = held_options(0);
    exg_weights *weights = NULL;
    exg_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char path[300];

        snprintf(path, sizeof(path), "%s", in_folder(rows[i].name));
        assert_int_equal(exg_file_write(path, rows[i].text, strlen(rows[i].text), &err), EXG_OK);
        (void)held_options(0);
        told.length = UINT64_C(1) << 40;
        assert_int_not_equal(exg_weights_open(held_name(path), &options, &weights, NULL, &err),
                             EXG_OK);
        assert_string_equal(err.code, rows[i].code);
        assert_true(told.bytes < 1u << 20);
    }
    assert_int_equal(told.open, 0);
}

/* A program's weights stay where they are too. */
static void test_program(void **state)
{
    const exg_open_options options = held_options(0);
    exg_program *got = NULL;
    exg_program *want = NULL;
    exg_error err;

    (void)state;
    assert_int_equal(exg_open("fixtures/lm.core.dynamic.pt2", NULL, &want, NULL, &err), EXG_OK);
    assert_int_equal(
        exg_open(held_name("fixtures/lm.core.dynamic.pt2"), &options, &got, NULL, &err), EXG_OK);
    assert_true(told.bytes < 1500000);
    assert_true(exg_program_equal(got, want, true, NULL));
    assert_same_weights(got->weights, want->weights);
    exg_program_destroy(got);
    exg_program_destroy(want);
    assert_int_equal(told.open, 0);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* What a process writes into a pipe, and a file. */
static void test_stream(void **state)
{
    exg_byte_source source = {0};
    exg_error err;
    FILE *pipe = popen("printf hello", "r");
    FILE *file = fopen("fixtures/mlp.pt2", "rb");

    (void)state;
    assert_non_null(pipe);
    assert_int_equal(exg_byte_source_of_stream(fileno(pipe), 5, &source, &err), EXG_OK);
    assert_int_equal(pclose(pipe), 0);
    assert_int_equal(source.length, 5);
    assert_memory_equal(source.data, "hello", 5);
    source.close(source.user);
    pipe = popen("printf hello 2>/dev/null", "r");
    assert_int_equal(exg_byte_source_of_stream(fileno(pipe), 4, &source, &err), EXG_LIMIT);
    assert_string_equal(err.code, "SPL-LIMIT");
    (void)pclose(pipe);
    assert_int_equal(exg_byte_source_of_stream(fileno(file), 0, &source, &err), EXG_OK);
    assert_true(source.length > 10000); /* a file is no stream */
    source.close(source.user);
    fclose(file);
    assert_int_equal(exg_byte_source_of_stream(-1, 5, &source, &err), EXG_IO);
}

/* Without a server: tests/cli/addresses.py has one. */
static void test_addresses(void **state)
{
    exg_byte_source source = {0};
    exg_http *http = NULL;
    exg_error err;
    exg_status status;

    (void)state;
    assert_int_equal(exg_http_create(NULL, &http, &err), EXG_OK);
    assert_int_equal(exg_http_open_source(http, "https.safetensors", &source, &err), EXG_OK);
    assert_null(source.read); /* a file */
    status = exg_http_open_source(http, "http://127.0.0.1:1/a.safetensors", &source, &err);
    assert_string_equal(err.code, status == EXG_IO ? "HTTP-CONNECT" : "HTTP-LOAD");
    assert_null(source.read);
    exg_http_destroy(http);
    exg_http_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixtures),  cmocka_unit_test(test_cut),
        cmocka_unit_test(test_needs),     cmocka_unit_test(test_faults),
        cmocka_unit_test(test_whole),     cmocka_unit_test(test_program),
        cmocka_unit_test(test_addresses), cmocka_unit_test(test_stream),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
