/* saved.c - files of torch.save: what PyTorch wrote (fixtures/weights/saved), and what would do
 * harm. */
#include <exg/formats.h>

#include "libexport/formats/pt2/pickle.h"
#include "tests/export/exg_folder.h"
#include "tests/export/same_tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define FIXTURES "fixtures/weights/saved/"

static exg_weights *open_weights(const char *path)
{
    exg_weights *weights = NULL;
    exg_weights_format format;
    exg_error err;

    exg_error_clear(&err);
    if (exg_weights_open(path, NULL, &weights, &format, &err) != EXG_OK) {
        fail_msg("%s: %s %s %s", path, err.code, err.where, err.message);
    }
    assert_int_equal(format, EXG_WEIGHTS_FORMAT_CHECKPOINT);
    return weights;
}

static const exg_skipped *skipped_of(const exg_weights *weights, const char *name)
{
    for (uint32_t i = 0; i < weights->skipped_count; i++) {
        if (strcmp(weights->skipped[i].name, name) == 0) {
            return &weights->skipped[i];
        }
    }
    return NULL;
}

static const char *metadata_of(const exg_weights *weights, const char *key)
{
    for (uint32_t i = 0; i < weights->metadata.count; i++) {
        if (strcmp(weights->metadata.items[i].key, key) == 0) {
            return weights->metadata.items[i].value;
        }
    }
    return "(none)";
}

static void it_reads_what_torch_saved(void **state)
{
    static const char *const names[] = {"sd15",       "yolo",   "omegaconf",  "numpy_everywhere",
                                        "quantized",  "sparse", "conjugated", "keys",
                                        "parameters", "stream", "tar",        "attack"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[200];
        char want[200];

        snprintf(path, sizeof(path), FIXTURES "%s.pt", names[i]);
        snprintf(want, sizeof(want), FIXTURES "%s.expected.safetensors", names[i]);
        assert_same_tensors(path, want);
    }
}

static void it_lists_what_is_no_tensor(void **state)
{
    static const struct {
        const char *file;
        const char *name;
        const char *kind;
        exg_skipped_code code;
    } rows[] = {
        {"sd15", "callbacks", "pytorch_lightning.callbacks.model_checkpoint.ModelCheckpoint",
         EXG_CODE_FOREIGN},
        {"yolo", "model", "models.yolo.DetectionModel", EXG_CODE_FOREIGN},
        {"yolo", "model.model.0", "models.common.Block", EXG_CODE_FOREIGN}, /* the first of them */
        {"yolo", "model.stride", "a tensor that state_dict() leaves out", EXG_CODE_NONE},
        {"yolo", "model.grid", "a tensor that state_dict() leaves out", EXG_CODE_NONE},
        {"yolo", "opt", "argparse.Namespace", EXG_CODE_NONE},
        {"omegaconf", "cfg._content.a", "omegaconf.nodes.AnyNode", EXG_CODE_FOREIGN},
        {"numpy_everywhere", "texts", "an array of NumPy of U1", EXG_CODE_NONE},
        {"attack", "x", "posix.system('touch /tmp/exg-was-here')", EXG_CODE_DANGEROUS},
        {"attack", "attack/other.pkl", "a second pickle, not read", EXG_CODE_FOREIGN},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        const exg_open_options strict = {.size = sizeof(strict), .strict = true};
        exg_weights *weights;
        const exg_skipped *skipped;
        exg_error err;
        char path[200];

        snprintf(path, sizeof(path), FIXTURES "%s.pt", rows[r].file);
        weights = open_weights(path);
        skipped = skipped_of(weights, rows[r].name);
        assert_non_null(skipped);
        assert_string_equal(skipped->kind, rows[r].kind);
        assert_int_equal(skipped->code, rows[r].code);
        exg_weights_release(weights);
        assert_int_equal(exg_weights_open(path, &strict, &weights, NULL, &err), EXG_UNSUPPORTED);
        assert_string_equal(err.code, "WGT-SKIP");
    }
}

static void it_tells_numbers_and_texts(void **state)
{
    static const char *const rows[][3] = {
        {"yolo", "model.names.0", "cat"},
        {"yolo", "opt.imgsz", "[640, 640]"},
        {"yolo", "opt.path", "PurePosixPath('runs', 'exp')"},
        {"yolo", "date", "None"},
        {"numpy_everywhere", "text", "h\xc3\xa9llo"},
        {"quantized", "c.axis", "0"},
        {"quantized", "c.qscheme", "torch.per_channel_affine"},
        {"sparse", "coo.layout", "torch.sparse_coo"},
        {"sparse", "coo.size", "(4, 4)"},
        {"parameters", "p.note", "x"},
        {"stream", "step", "5"},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_weights *weights;
        char path[200];

        snprintf(path, sizeof(path), FIXTURES "%s.pt", rows[r][0]);
        weights = open_weights(path);
        assert_string_equal(metadata_of(weights, rows[r][1]), rows[r][2]);
        exg_weights_release(weights);
    }
}

/* What is made of a file keeps what Python would run. */
static void it_keeps_the_code_of_what_is_skipped(void **state)
{
    exg_weights *weights = open_weights(FIXTURES "attack.pt");
    exg_weights *made;
    exg_error err;

    (void)state;
    assert_int_equal(exg_weights_skip_code(weights, "y", "a.B", EXG_CODE_FOREIGN, &err), EXG_OK);
    assert_int_equal(exg_weights_in_order(weights, EXG_BIG_ENDIAN, &made, &err), EXG_OK);
    assert_int_equal(made->skipped_count, 3);
    assert_int_equal(skipped_of(made, "x")->code, EXG_CODE_DANGEROUS);
    assert_int_equal(skipped_of(made, "y")->code, EXG_CODE_FOREIGN);
    exg_weights_release(made);
    exg_weights_release(weights);
}

/* ---- streams, which are easily made ------------------------------------------------------ */

#define HEAD "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02}."
#define STORAGE                                                                                    \
    "(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"                                         \
    "7X\x03\0\0\0cpuK\x02NtQ"
#define TENSOR "ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE "K\0K\x02\x85K\x01\x85\x89}tR"
#define KEYS                                                                                       \
    "\x80\x02]X\x01\0\0\0"                                                                         \
    "7a."
#define DATA "\x02\0\0\0\0\0\0\0\0\0\x80?\0\0\0@"

static exg_status open_bytes(const void *data, size_t length, exg_weights **weights, exg_error *err)
{
    *weights = NULL;
    exg_error_clear(err);
    return exg_weights_open_memory(data, length, NULL, weights, NULL, err);
}

/* The bytes of a stream are where they lie. */
static void it_copies_no_storage(void **state)
{
    static const char file[] = HEAD "\x80\x02}X\x01\0\0\0w" TENSOR "s." KEYS DATA;
    exg_weights *weights;
    exg_error err;
    float numbers[2];

    (void)state;
    assert_int_equal(open_bytes(file, sizeof(file) - 1, &weights, &err), EXG_OK);
    assert_int_equal(weights->count, 1);
    assert_ptr_equal(weights->storages[0].data, file + sizeof(file) - 1 - 8);
    assert_int_equal(exg_weight_read(weights, &weights->items[0], numbers, 8, &err), EXG_OK);
    assert_true(numbers[0] == 1 && numbers[1] == 2);
    exg_weights_release(weights);
}

/* What PyTorch wrote before 0.4: views of storages, tensors whose state is set later. */
static void it_reads_the_oldest_forms(void **state)
{
    static const char view[] =
        HEAD "\x80\x02"
             "ctorch._utils\n_rebuild_tensor\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0"
             "\0\0"
             "7X\x03\0\0\0cpuK\x02X\x01\0\0\0vK\x01K\x01\x87tQK\0K\x01\x85K\x01\x85tR." KEYS DATA;
    static const char set[] =
        HEAD "\x80\x02"
             "ctorch.cuda\nFloatTensor\n)\x81(" STORAGE "K\x01K\x01\x85K\x01\x85tb." KEYS DATA;
    const struct {
        const char *bytes;
        size_t length;
    } rows[] = {{view, sizeof(view) - 1}, {set, sizeof(set) - 1}};

    (void)state;
    for (size_t r = 0; r < 2; r++) {
        exg_weights *weights;
        exg_error err;
        float number = 0;

        if (open_bytes(rows[r].bytes, rows[r].length, &weights, &err) != EXG_OK) {
            fail_msg("row %zu: %s %s", r, err.code, err.message);
        }
        assert_int_equal(weights->count, 1);
        assert_int_equal(exg_weight_read(weights, &weights->items[0], &number, 4, &err), EXG_OK);
        assert_true(number == 2);
        exg_weights_release(weights);
    }
}

static void it_refuses_a_stream_that_is_damaged(void **state)
{
    static const struct {
        const char *bytes;
        size_t length;
        const char *code;
    } rows[] = {
#define ROW(bytes, code) {bytes, sizeof(bytes) - 1, code}
        ROW(HEAD "\x80\x02}X\x01\0\0\0w" TENSOR "s." KEYS, "PKL-STREAM"),
        ROW(HEAD "\x80\x02}X\x01\0\0\0w" TENSOR "s." KEYS "\x02\0\0\0\0\0\0\0\0\0\x80?\0\0\0",
            "PKL-STREAM"),
        ROW(HEAD "\x80\x02}X\x01\0\0\0w" TENSOR "s." KEYS "\xff\xff\xff\xff\xff\xff\xff\xff",
            "PKL-STREAM"),
        ROW(HEAD "\x80\x02}X\x01\0\0\0w" TENSOR "s." KEYS "\x01\0\0\0\0\0\0\0\0\0\x80?", "WGT-003"),
        ROW(HEAD "\x80\x02}X\x01\0\0\0w" TENSOR "s.\x80\x02].", "WGT-001"),
        ROW(HEAD "\x80\x02}X\x01\0\0\0w" TENSOR "s.\x80\x02]X\x01\0\0\0"
                 "8a.",
            "PKL-STREAM"),
        ROW(HEAD "\x80\x02}X\x01\0\0\0w" TENSOR "s.\x80\x02N.", "PKL-STREAM"),
        ROW(HEAD "\x80\x02}X\x01\0\0\0w" TENSOR "s.", "PKL-001"),
        ROW("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02K\x07.",
            "PKL-STREAM"),
        ROW("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19K\x01.", "PKL-STREAM"),
#undef ROW
    };
    exg_weights *weights;
    exg_error err;

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        assert_int_not_equal(open_bytes(rows[r].bytes, rows[r].length, &weights, &err), EXG_OK);
        if (strcmp(err.code, rows[r].code) != 0) {
            fail_msg("row %zu: %s %s", r, err.code, err.message);
        }
    }
}

/* Of each file every beginning is refused: none is a smaller model. */
static void it_refuses_every_prefix_of_older_files(void **state)
{
    static const char *const names[] = {FIXTURES "stream.pt", FIXTURES "tar.pt"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char data[12000];
        FILE *file = fopen(names[i], "rb");
        size_t length;
        exg_weights *weights;
        exg_error err;

        assert_non_null(file);
        length = fread(data, 1, sizeof(data), file);
        fclose(file);
        while (length > 0 && data[length - 1] == 0) {
            length--; /* blocks of zeros end a tar archive */
        }
        for (size_t n = 0; n<length; n += length> 4096 ? 7 : 1) {
            uint8_t *copy = malloc(n + 1);

            memcpy(copy, data, n);
            assert_int_not_equal(open_bytes(copy, n, &weights, &err), EXG_OK);
            free(copy);
        }
    }
}

/* What is thrown away, or is a key, or comes twice, is told or told apart. */
static void it_hides_nothing(void **state)
{
    static const char popped[] = HEAD "\x80\x02"
                                      "cos\nsystem\nX\x02\0\0\0ls\x85R0}."
                                      "\x80\x02].";
    static const char twice[] =
        HEAD "\x80\x02}(X\x01\0\0\0aK\x01X\x01\0\0\0aK\x02K\x01K\x03I01\nK\x04X\x01\0\0\0"
             "1K\x05u."
             "\x80\x02].";
    static const char behind[] = HEAD "\x80\x02}."
                                      "\x80\x02].junk";
    static const char clash[] = HEAD "\x80\x02}(K\x01" TENSOR "X\x01\0\0\0"
                                     "1" TENSOR "X\x03\0\0\0"
                                     "1_1" TENSOR "u." KEYS DATA;
    exg_weights *weights;
    exg_error err;

    (void)state;
    assert_int_equal(open_bytes(popped, sizeof(popped) - 1, &weights, &err), EXG_OK);
    assert_int_equal(weights->skipped_count, 1);
    assert_string_equal(weights->skipped[0].name, "(data.pkl)");
    assert_string_equal(weights->skipped[0].kind, "os.system('ls')");
    assert_int_equal(weights->skipped[0].code, EXG_CODE_DANGEROUS);
    exg_weights_release(weights);
    assert_int_equal(open_bytes(twice, sizeof(twice) - 1, &weights, &err), EXG_OK);
    assert_string_equal(metadata_of(weights, "a"), "2");
    assert_string_equal(metadata_of(weights, "True"), "4"); /* 1 and True are one key */
    assert_string_equal(metadata_of(weights, "1"), "5");    /* "1" is another */
    assert_int_equal(weights->metadata.count, 3);
    exg_weights_release(weights);
    assert_int_equal(open_bytes(behind, sizeof(behind) - 1, &weights, &err), EXG_OK);
    assert_string_equal(weights->skipped[0].kind, "4 bytes behind its end, not read");
    exg_weights_release(weights);
    assert_int_equal(open_bytes(clash, sizeof(clash) - 1, &weights, &err), EXG_OK);
    assert_int_equal(weights->count, 3);
    assert_non_null(exg_weights_find(weights, EXG_TABLE_STATE, "1"));
    assert_non_null(exg_weights_find(weights, EXG_TABLE_STATE, "1_1"));
    assert_non_null(exg_weights_find(weights, EXG_TABLE_STATE, "1_1_1"));
    exg_weights_release(weights);
}

/* Few bytes that name one thing without end. */
static void it_limits_what_a_few_bytes_name(void **state)
{
    char laughs[1000];
    size_t at = sizeof(HEAD) - 1;
    exg_weights *weights;
    exg_error err;

    (void)state;
    memcpy(laughs, HEAD, at);
    memcpy(laughs + at, "\x80\x02" TENSOR, sizeof("\x80\x02" TENSOR) - 1);
    at += sizeof("\x80\x02" TENSOR) - 1;
    for (uint8_t i = 0; i < 30; i++) { /* lists of twice the list before */
        const uint8_t step[] = {'q', i, '0', '(', 'h', i, 'h', i, 'l'};

        memcpy(laughs + at, step, sizeof(step));
        at += sizeof(step);
    }
    memcpy(laughs + at, "." KEYS DATA, sizeof("." KEYS DATA) - 1);
    at += sizeof("." KEYS DATA) - 1;
    assert_int_equal(open_bytes(laughs, at, &weights, &err), EXG_LIMIT);
    assert_string_equal(err.code, "PKL-LIMIT");
}

/* Deeper than any stack: the walk has its own. */
static void it_nests_as_deep_as_the_file(void **state)
{
    const size_t depth = 20000;
    char *deep = malloc(depth * 2 + 200);
    size_t at = sizeof(HEAD) - 1;
    exg_weights *weights;
    exg_error err;
    exg_status status;

    (void)state;
    memcpy(deep, HEAD, at);
    memset(deep + at, ']', depth);
    at += depth;
    memcpy(deep + at, TENSOR, sizeof(TENSOR) - 1);
    at += sizeof(TENSOR) - 1;
    memset(deep + at, 'a', depth);
    at += depth;
    memcpy(deep + at, "." KEYS DATA, sizeof("." KEYS DATA) - 1);
    at += sizeof("." KEYS DATA) - 1;
    status = open_bytes(deep, at, &weights, &err);
    if (status != EXG_OK) {
        fail_msg("%s %s", err.code, err.message);
    }
    assert_int_equal(weights->count, 1);
    assert_int_equal(strlen(weights->items[0].fqn), depth * 2 - 1);
    exg_weights_release(weights);
    free(deep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_reads_what_torch_saved),
        cmocka_unit_test(it_lists_what_is_no_tensor),
        cmocka_unit_test(it_tells_numbers_and_texts),
        cmocka_unit_test(it_keeps_the_code_of_what_is_skipped),
        cmocka_unit_test(it_copies_no_storage),
        cmocka_unit_test(it_reads_the_oldest_forms),
        cmocka_unit_test(it_refuses_a_stream_that_is_damaged),
        cmocka_unit_test(it_refuses_every_prefix_of_older_files),
        cmocka_unit_test(it_hides_nothing),
        cmocka_unit_test(it_limits_what_a_few_bytes_name),
        cmocka_unit_test(it_nests_as_deep_as_the_file),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
