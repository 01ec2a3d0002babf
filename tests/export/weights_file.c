/* weights_file.c - files of weights: what their own writers made (fixtures/weights), and
 * what breaks a rule. */
#include <exg/formats.h>
#include <exg/weights_edit.h>

#include "libexport/weights/storage.h"
#include "tests/export/exg_folder.h"
#include "tests/export/same_tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char fixtures[] = "fixtures/weights";

static exg_weights *open_weights(const char *path, exg_weights_format *format)
{
    exg_weights *weights = NULL;
    exg_error err;

    exg_error_clear(&err);
    if (exg_weights_open(path, NULL, &weights, format, &err) != EXG_OK) {
        fail_msg("%s: %s %s %s", path, err.code, err.where, err.message);
    }
    return weights;
}

static const exg_weight *weight_of(const exg_weights *weights, const char *name)
{
    const exg_weight *weight = exg_weights_find(weights, EXG_TABLE_STATE, name);

    if (weight == NULL) {
        fail_msg("no tensor %s", name);
    }
    return weight;
}

static void copy_file(const char *path, const char *name)
{
    size_t length;
    uint8_t *data = read_path(path, &length);

    write_file(name, data, length);
    free(data);
}

static const struct {
    const char *file;
    const char *expected;
    exg_weights_format format;
} files[] = {
    {"stored.npz", "stored", EXG_WEIGHTS_FORMAT_NPZ},
    {"deflated.npz", "deflated", EXG_WEIGHTS_FORMAT_NPZ},
    {"names.npz", "names", EXG_WEIGHTS_FORMAT_NPZ},
    {"nested.pt", "nested", EXG_WEIGHTS_FORMAT_CHECKPOINT},
    {"no_crc.pt", "no_crc", EXG_WEIGHTS_FORMAT_CHECKPOINT},
    {"little.gguf", "little", EXG_WEIGHTS_FORMAT_GGUF},
    {"big.gguf", "big", EXG_WEIGHTS_FORMAT_GGUF},
    {"parts-00001-of-00003.gguf", "parts", EXG_WEIGHTS_FORMAT_GGUF},
    {"parts-00003-of-00003.gguf", "parts", EXG_WEIGHTS_FORMAT_GGUF},
    {"sharded.safetensors.index.json", "sharded", EXG_WEIGHTS_FORMAT_INDEX},
    {"binary.bin.index.json", "binary", EXG_WEIGHTS_FORMAT_INDEX},
    {"kinds.onnx", "onnx", EXG_WEIGHTS_FORMAT_ONNX},
    {"external.onnx", "external", EXG_WEIGHTS_FORMAT_ONNX},
    {"named.ptd", "ptd", EXG_WEIGHTS_FORMAT_PTD},
    {"program.pte", "program", EXG_WEIGHTS_FORMAT_PTE},
    {"scripted.pt", "scripted", EXG_WEIGHTS_FORMAT_CHECKPOINT},
};

static void it_reads_what_their_own_writers_made(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[200];
        char want[200];
        exg_weights_format format;

        snprintf(path, sizeof(path), "%s/%s", fixtures, files[i].file);
        snprintf(want, sizeof(want), "%s/%s.expected.safetensors", fixtures, files[i].expected);
        assert_same_tensors(path, want);
        exg_weights_release(open_weights(path, &format));
        assert_int_equal(format, files[i].format);
        assert_int_equal(exg_weights_sniff(path, NULL, &format, NULL), EXG_OK);
        assert_int_equal(format, files[i].format);
    }
}

/* One tensor, called after its file; and what is beside arrays that are tensors. */
static void it_reads_arrays_of_every_kind(void **state)
{
    static const char *const kinds[] = {
        "text (<U2)",
        "text (|S2)",
        "dates (<M8[D])",
        "times (<m8[s])",
        "records ([('a', '<i4'), ('b', '>f8')])",
        "records ([('a', [('b', '<f4', (2,))])])",
        "void (|V3)",
        "objects in a pickle (|O)",
        "long doubles (<f16)",
        "an 8-bit type of ml_dtypes, which NumPy does not name (<V1)"};
    static const char *const names[] = {"brain", "small", "kinds"};
    exg_weights *weights = open_weights("fixtures/weights/kinds.npz", NULL);

    (void)state;
    assert_int_equal(weights->skipped_count, sizeof(kinds) / sizeof(kinds[0]));
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        assert_string_equal(weights->skipped[i].kind, kinds[i]);
    }
    exg_weights_release(weights);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[200];
        char want[200];
        char made[8][EXG_DIGEST_TEXT_MAX];

        snprintf(path, sizeof(path), "%s/%s.%s", fixtures, names[i], i < 2 ? "npy" : "npz");
        snprintf(want, sizeof(want), "%s/%s.expected.safetensors", fixtures, names[i]);
        for (int w = 0; w < 2; w++) {
            weights = open_weights(w == 0 ? path : want, NULL);
            assert_int_equal(exg_weights_digest(weights, EXG_CHECKSUM_SHA256, 1, made[w], NULL),
                             EXG_OK);
            exg_weights_release(weights);
        }
        assert_string_equal(made[0], made[1]);
    }
}

/* Headers as NumPy reads them: spellings of other writers, and what is no header. */
static void it_reads_headers_as_numpy_does(void **state)
{
    static const struct {
        const char *descr, *shape;
        exg_dtype dtype;
        uint32_t skipped;
        const char *code;
    } rows[] = {
        {"'<f4'", "(2,)", EXG_DTYPE_F32, 0, ""},
        {"'f4'", "(2,)", EXG_DTYPE_F32, 0, ""},
        {"'=f4'", "(2L,)", EXG_DTYPE_F32, 0, ""},
        {"'|f4'", "(1L, 2L)", EXG_DTYPE_F32, 0, ""},
        {"u'<f4'", "(2,)", EXG_DTYPE_F32, 0, ""},
        {"\"float32\"", "(2, )", EXG_DTYPE_F32, 0, ""},
        {"'single'", "(2,)", EXG_DTYPE_F32, 0, ""},
        {"'f'", "(2,)", EXG_DTYPE_F32, 0, ""},
        {"'d'", "(1,)", EXG_DTYPE_F64, 0, ""},
        {"'int64'", "(1,)", EXG_DTYPE_I64, 0, ""},
        {"'l'", "(1,)", EXG_DTYPE_I64, 0, ""},
        {"'b'", "(8,)", EXG_DTYPE_I8, 0, ""},
        {"'?'", "(8,)", EXG_DTYPE_B8, 0, ""},
        {"'<b1'", "(8,)", EXG_DTYPE_B8, 0, ""},
        {"'>u1'", "(8,)", EXG_DTYPE_U8, 0, ""},
        {"'complex64'", "(1,)", EXG_DTYPE_C64, 0, ""},
        {"'<V2'", "(4,)", EXG_DTYPE_BF16, 0, ""},
        {"'bfloat16'", "(4,)", EXG_DTYPE_BF16, 0, ""},
        {"'<f1'", "(8,)", EXG_DTYPE_F8E5M2, 0, ""},
        {"'float8_e4m3fn'", "(8,)", EXG_DTYPE_F8E4M3FN, 0, ""},
        {"'|V2'", "(4,)", 0, 1, ""},
        {"'V2'", "(4,)", 0, 1, ""},
        {"'<V1'", "(8,)", 0, 1, ""},
        {"'S3'", "(1,)", 0, 1, ""},
        {"'i8,f4'", "(1,)", 0, 1, ""},
        {"[('a', '<f4'), ('b', '<f4')]", "(1,)", 0, 1, ""},
        {"('<f4', (2,))", "(1,)", 0, 1, ""},
        {"'float_'", "(1,)", 0, 0, "NPY-DTYPE"},
        {"'<f3'", "(1,)", 0, 0, "NPY-DTYPE"},
        {"''", "(1,)", 0, 0, "NPY-DTYPE"},
        {"[('a', '<f4'", "(1,)", 0, 0, "NPY-HEADER"},
        {"4", "(1,)", 0, 0, "NPY-HEADER"},
        {"'<f4'", "[2]", 0, 0, "NPY-HEADER"},
        {"'<f4'", "(2)", 0, 0, "NPY-HEADER"},
        {"'<f4'", "(-2,)", 0, 0, "NPY-HEADER"},
        {"'<f4'", "(2LL,)", 0, 0, "NPY-HEADER"},
        {"'<f4'", "(3,)", 0, 0, "NPY-SIZE"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t file[200] = "\x93NUMPY\1";
        exg_weights *weights = NULL;
        exg_error err;
        int length = snprintf((char *)file + 10, sizeof(file) - 10,
                              "{'descr': %s, 'fortran_order': False, 'shape': %s, }\n",
                              rows[i].descr, rows[i].shape);

        file[8] = (uint8_t)length;
        memset(file + 10 + length, 0, 8);
        exg_error_clear(&err);
        exg_ignore(exg_weights_open_memory(file, 18 + (size_t)length, NULL, &weights, NULL, &err));
        if (strcmp(err.code, rows[i].code) != 0 ||
            (weights != NULL &&
             (weights->skipped_count != rows[i].skipped || weights->count != 1 - rows[i].skipped ||
              (weights->count == 1 && weights->items[0].meta->dtype != rows[i].dtype)))) {
            fail_msg("%s %s: %s %s", rows[i].descr, rows[i].shape, err.code, err.message);
        }
        exg_weights_release(weights);
    }
}

static void it_writes_them_as_safetensors_in_one_file_or_several(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        static const uint64_t splits[] = {0, 1, 20, 1u << 20};
        char path[200];

        snprintf(path, sizeof(path), "%s/%s", fixtures, files[i].file);
        for (size_t s = 0; s < sizeof(splits) / sizeof(splits[0]); s++) {
            exg_weights_save_options options = {.size = sizeof(options), .split = splits[s]};
            exg_weights *weights = open_weights(path, NULL);
            bool split = splits[s] > 0 && splits[s] < 1000;

            assert_int_equal(exg_weights_save(weights, in_folder("m.safetensors"), &options, NULL),
                             EXG_OK);
            assert_same_tensors(in_folder(split ? "m.safetensors.index.json" : "m.safetensors"),
                                path);
            assert_int_equal(access(in_folder("m.safetensors"), F_OK) == 0, !split);
            exg_weights_release(weights);
            empty_folder();
        }
    }
}

static void it_keeps_views_and_sharing_of_a_checkpoint(void **state)
{
    exg_weights *weights = open_weights("fixtures/weights/nested.pt", NULL);
    const exg_weight *whole = weight_of(weights, "model.weight");
    const exg_weight *turned = weight_of(weights, "model.turned");
    const exg_weight *corner = weight_of(weights, "model.corner");

    (void)state;
    assert_int_equal(weight_of(weights, "model.tied")->storage, whole->storage);
    assert_int_equal(turned->storage, whole->storage);
    assert_int_equal(turned->meta->sizes[0].value, 4);
    assert_int_equal(turned->meta->strides[0].value, 1);
    assert_int_equal(turned->meta->strides[1].value, 4);
    assert_int_equal(corner->storage, whole->storage);
    assert_int_equal(corner->meta->storage_offset.value, 6);
    assert_true(weight_of(weights, "model.parameter")->is_param);
    assert_false(whole->is_param);
    assert_int_equal(weights->metadata.count, 2);
    assert_string_equal(weights->metadata.items[0].key, "steps.1");
    assert_string_equal(weights->metadata.items[0].value, "7");
    assert_string_equal(weights->metadata.items[1].value, "0.5");
    exg_weights_release(weights);
}

static void it_names_the_encoding_of_quantised_tensors(void **state)
{
    exg_weights *weights = open_weights("fixtures/weights/little.gguf", NULL);
    const exg_weight *packed = weight_of(weights, "Q4_0");

    (void)state;
    assert_string_equal(packed->encoding, "Q4_0");
    assert_int_equal(packed->meta->dtype, EXG_DTYPE_U8);
    assert_int_equal(packed->meta->sizes[0].value, 2);
    assert_int_equal(packed->meta->sizes[1].value, 2 * 18); /* 64 elements: two blocks */
    assert_null(weight_of(weights, "f32")->encoding);
    assert_int_equal(exg_weights_save(weights, in_folder("g.safetensors"), NULL, NULL), EXG_OK);
    exg_weights_release(weights);
    weights = open_weights(in_folder("g.safetensors"), NULL);
    assert_string_equal(weights->metadata.items[weights->metadata.count - 1].value, "Q4_0");
    exg_weights_release(weights);
    empty_folder();
}

static void it_gives_the_weights_of_a_program(void **state)
{
    exg_weights_format format;
    exg_weights *weights = open_weights("fixtures/tied.pt2", &format);
    const exg_weight *encode = weight_of(weights, "encode.weight");

    (void)state;
    assert_int_equal(format, EXG_WEIGHTS_FORMAT_COUNT);
    assert_int_equal(encode->storage, weight_of(weights, "decode.weight")->storage);
    exg_weights_release(weights);
}

static void it_refuses_every_prefix(void **state)
{
    (void)state;
    for (size_t i = 0; i + 1 < sizeof(files) / sizeof(files[0]); i++) {
        char path[200];
        exg_weights *weights = NULL;
        uint8_t data[4096];
        size_t length;
        FILE *f;

        snprintf(path, sizeof(path), "%s/%s", fixtures, files[i].file);
        f = fopen(path, "rb");
        assert_non_null(f);
        length = fread(data, 1, sizeof(data), f);
        fclose(f);
        for (size_t n = 0; n < length; n++) {
            uint8_t *copy = malloc(n + 1); /* so that the sanitizer sees its end */
            exg_error err;

            memcpy(copy, data, n);
            exg_error_clear(&err);
            if (exg_weights_open_memory(copy, n, NULL, &weights, NULL, &err) == EXG_OK) {
                /* zeros behind the last tensor of a GGUF may be left out, and fields behind the
                 * graph of an ONNX model */
                assert_true(files[i].format == EXG_WEIGHTS_FORMAT_GGUF ||
                            files[i].format == EXG_WEIGHTS_FORMAT_ONNX);
                assert_true(n > length - 32);
                exg_weights_release(weights);
            } else {
                assert_string_not_equal(err.code, "");
                assert_null(weights);
            }
            free(copy);
        }
    }
}

/* ---- GGUF by hand --------------------------------------------------------------------------- */

typedef struct bytes {
    uint8_t data[1024];
    size_t length;
} bytes;

static void put(bytes *b, uint64_t value, unsigned width)
{
    for (unsigned i = 0; i < width; i++) {
        b->data[b->length++] = (uint8_t)(value >> (8 * i));
    }
}

static void put_text(bytes *b, const char *text)
{
    put(b, strlen(text), 8);
    memcpy(b->data + b->length, text, strlen(text));
    b->length += strlen(text);
}

#define LAST (UINT64_MAX - 31) /* aligned */

typedef struct gguf_case {
    uint32_t version;
    uint64_t tensors, pairs;
    uint32_t alignment; /* 0: not told */
    const char *name[2];
    uint64_t size[2];
    uint32_t type[2];
    uint64_t offset[2];
    const char *code;
} gguf_case;

static void it_refuses_gguf_that_breaks_a_rule(void **state)
{
    /* clang-format off */
    static const gguf_case rows[] = {
        {3, 2, 0, 0, {"a", "b"}, {4, 4}, {0, 0}, {0, 32}, ""},
        {2, 2, 0, 0, {"a", "b"}, {4, 4}, {0, 0}, {32, 0}, ""},
        {3, 2, 1, 8, {"a", "b"}, {4, 2}, {0, 0}, {0, 16}, ""},
        {3, 2, 0, 0, {"a", "b"}, {64, 32}, {2, 8}, {0, 64}, "GGUF-PLACE"},
        {3, 2, 0, 0, {"a", "b"}, {4, 4}, {0, 0}, {0, 16}, "GGUF-PLACE"},
        {3, 2, 0, 0, {"a", "b"}, {12, 4}, {0, 0}, {0, 32}, "GGUF-PLACE"},
        {3, 2, 0, 0, {"a", "b"}, {4, 4}, {0, 0}, {0, LAST}, "GGUF-PLACE"},
        {3, 2, 0, 0, {"a", "b"}, {4, UINT64_MAX}, {0, 0}, {0, 32}, "GGUF-SHAPE"},
        {3, 2, 0, 0, {"a", "b"}, {4, INT64_MAX}, {0, 0}, {0, 32}, "GGUF-SHAPE"},
        {3, 2, 0, 0, {"a", "b"}, {31, 4}, {2, 0}, {0, 32}, "GGUF-SHAPE"},
        {3, 2, 0, 0, {"a", "b"}, {LAST, 4}, {2, 0}, {0, 32}, "GGUF-SHAPE"},
        {3, 2, 0, 0, {"a", "b"}, {4, 4}, {0, 99}, {0, 32}, ""},
        {3, 2, 0, 0, {"a", "a"}, {4, 4}, {0, 0}, {0, 32}, "WGT-NAME"},
        {3, 2, 0, 0, {"a", "b\xff"}, {4, 4}, {0, 0}, {0, 32}, "WGT-NAME"},
        {3, 2, 1, 12, {"a", "b"}, {4, 4}, {0, 0}, {0, 32}, "GGUF-ALIGN"},
        {3, 2, 1, 0, {"a", "b"}, {4, 4}, {0, 0}, {0, 32}, "GGUF-CUT"},
        {1, 2, 0, 0, {"a", "b"}, {4, 4}, {0, 0}, {0, 32}, "GGUF-VERSION"},
        {3, UINT64_MAX, 0, 0, {"a", "b"}, {4, 4}, {0, 0}, {0, 32}, "GGUF-COUNT"},
        {3, 2, 2, 32, {"a", "b"}, {4, 4}, {0, 0}, {0, 32}, ""}, /* a key twice */
        {3, 2, 1u << 30, 0, {"a", "b"}, {4, 4}, {0, 0}, {0, 32}, "GGUF-COUNT"},
    };
    /* clang-format on */

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        bytes b = {{0}, 0};
        exg_weights *weights = NULL;
        uint8_t *copy;
        exg_error err;
        uint32_t align = rows[r].alignment == 0 ? 32 : rows[r].alignment;

        memcpy(b.data, "GGUF", 4);
        b.length = 4;
        put(&b, rows[r].version, 4);
        put(&b, rows[r].tensors, 8);
        put(&b, rows[r].pairs, 8);
        for (uint64_t k = 0; rows[r].alignment != 0 && k < rows[r].pairs; k++) {
            put_text(&b, "general.alignment");
            put(&b, 4, 4);
            put(&b, rows[r].alignment, 4);
        }
        for (int t = 0; t < 2; t++) {
            put_text(&b, rows[r].name[t]);
            put(&b, 1, 4);
            put(&b, rows[r].size[t], 8);
            put(&b, rows[r].type[t], 4);
            put(&b, rows[r].offset[t], 8);
        }
        b.length = (b.length + align - 1) / align * align + 48;
        copy = malloc(b.length);
        memcpy(copy, b.data, b.length);
        exg_error_clear(&err);
        if ((exg_weights_open_memory(copy, b.length, NULL, &weights, NULL, &err) == EXG_OK) !=
                (rows[r].code[0] == '\0') ||
            strcmp(err.code, rows[r].code) != 0) {
            fail_msg("row %zu: '%s' %s, expected '%s'", r, err.code, err.message, rows[r].code);
        }
        exg_weights_release(weights);
        free(copy);
    }
}

/* ---- saving --------------------------------------------------------------------------------- */

/* A split model written over another: refused, and the old one is whole; or it takes its place,
 * and nothing of the old one is left for readers that look at names. */
static void names_say_the_format_and_formats_what_they_hold(void **state)
{
    static const struct {
        const char *name;
        exg_weights_format format;
        bool has_metadata;
    } rows[] = {
        {"a.safetensors", EXG_WEIGHTS_FORMAT_SAFETENSORS, true},
        {"b/c.GGUF", EXG_WEIGHTS_FORMAT_GGUF, true},
        {"x.npz", EXG_WEIGHTS_FORMAT_NPZ, false},
        {"x.npy", EXG_WEIGHTS_FORMAT_NPY, false},
        {"x.pt", EXG_WEIGHTS_FORMAT_CHECKPOINT, false},
        {"x.PTH", EXG_WEIGHTS_FORMAT_CHECKPOINT, false},
        {"x.ckpt", EXG_WEIGHTS_FORMAT_CHECKPOINT, false},
        {"pytorch_model.bin", EXG_WEIGHTS_FORMAT_CHECKPOINT, false},
        {"x.exg", EXG_WEIGHTS_FORMAT_CONTAINER, true},
        {"x.pt2", EXG_WEIGHTS_FORMAT_COUNT, false},
        {".npz", EXG_WEIGHTS_FORMAT_COUNT, false},
        {"npz", EXG_WEIGHTS_FORMAT_COUNT, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(exg_weights_format_from_path(rows[i].name), rows[i].format);
        assert_int_equal(exg_weights_format_has_metadata(rows[i].format), rows[i].has_metadata);
    }
}

static void it_never_mixes_two_split_models(void **state)
{
    exg_weights_save_options options = {.size = sizeof(options), .split = 20};
    exg_weights *a = open_weights("fixtures/weights/nested.pt", NULL);
    exg_weights *b = open_weights("fixtures/weights/little.gguf", NULL);
    exg_error err;
    int of_b;

    (void)state;
    assert_int_equal(exg_weights_save(b, in_folder("m.safetensors"), &options, NULL), EXG_OK);
    assert_int_equal(exg_weights_save(b, in_folder("m.safetensors"), &options, NULL), EXG_OK);
    of_b = empty_folder();
    assert_int_equal(exg_weights_save(a, in_folder("m.safetensors"), &options, NULL), EXG_OK);
    assert_int_equal(exg_weights_save(b, in_folder("m.safetensors"), &options, &err), EXG_USAGE);
    assert_string_equal(err.code, "STF-BESIDE");
    assert_same_tensors(in_folder("m.safetensors.index.json"), "fixtures/weights/nested.pt");
    options.force = true;
    assert_int_equal(exg_weights_save(b, in_folder("m.safetensors"), &options, NULL), EXG_OK);
    assert_same_tensors(in_folder("m.safetensors.index.json"), "fixtures/weights/little.gguf");
    assert_int_equal(empty_folder(), of_b);
    exg_weights_release(a);
    exg_weights_release(b);
}

/* One file and several, in either order; and those of another writer. Other names stay. */
static void it_leaves_no_other_form_of_a_model_beside(void **state)
{
    static const char *const foreign[] = {"m-00001-of-00002.safetensors",
                                          "m.safetensors.index.json"};
    exg_weights_save_options whole = {.size = sizeof(whole)};
    exg_weights_save_options split = {.size = sizeof(split), .split = 20};
    exg_weights *a = open_weights("fixtures/weights/nested.pt", NULL);
    exg_error err;

    (void)state;
    assert_int_equal(exg_weights_save(a, in_folder("m.safetensors"), &whole, NULL), EXG_OK);
    assert_int_equal(exg_weights_save(a, in_folder("m.safetensors"), &split, &err), EXG_USAGE);
    assert_string_equal(err.code, "STF-BESIDE");
    assert_int_equal(empty_folder(), 1);
    assert_int_equal(exg_weights_save(a, in_folder("m.safetensors"), &split, NULL), EXG_OK);
    assert_int_equal(exg_weights_save(a, in_folder("m.safetensors"), &whole, &err), EXG_USAGE);
    assert_string_equal(err.code, "STF-BESIDE");
    assert_int_equal(access(in_folder("m.safetensors"), F_OK), -1);
    whole.force = true;
    assert_int_equal(exg_weights_save(a, in_folder("m.safetensors"), &whole, NULL), EXG_OK);
    assert_int_equal(empty_folder(), 1);
    for (size_t i = 0; i < 2; i++) {
        whole.force = false;
        write_file(foreign[i], "x", 1);
        write_file("m-1-of-2.safetensors", "x", 1);
        write_file("mm-00001-of-00002.safetensors", "x", 1);
        assert_int_equal(exg_weights_save(a, in_folder("m.safetensors"), &whole, &err), EXG_USAGE);
        whole.force = true;
        assert_int_equal(exg_weights_save(a, in_folder("m.safetensors"), &whole, NULL), EXG_OK);
        assert_int_equal(empty_folder(), 3);
    }
    exg_weights_release(a);
}

/* Keys are unique in what is written, as they must be in what is read. */
static void it_writes_every_metadata_under_a_name_of_its_own(void **state)
{
    static const char *const keys[] = {"a", "a", "a", "a_1", "encoding:Q8_0", "total_size", "b"};
    static const char *const values[] = {"1", "2", "1", "x", "other", "7", "3"};
    exg_weights_save_options options = {.size = sizeof(options)};

    (void)state;
    for (uint64_t split = 0; split <= 20; split += 20) {
        exg_weights *a = open_weights("fixtures/weights/little.gguf", NULL);
        exg_weights *b;
        uint32_t before = a->metadata.count;

        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
            assert_int_equal(exg_weights_add_metadata(a, keys[i], values[i], NULL), EXG_OK);
        }
        assert_int_equal(a->metadata.count, before + 6); /* one was said twice */
        assert_string_equal(a->metadata.items[before + 1].key, "a_1");
        assert_string_equal(a->metadata.items[before + 2].key, "a_1_1");
        options.split = split;
        assert_int_equal(exg_weights_save(a, in_folder("m.safetensors"), &options, NULL), EXG_OK);
        b = open_weights(in_folder(split > 0 ? "m.safetensors.index.json" : "m.safetensors"), NULL);
        assert_int_equal(b->metadata.count,
                         a->metadata.count + 3); /* encodings of two tensors, format */
        exg_weights_release(a);
        exg_weights_release(b);
        empty_folder();
    }
}

/* Views, tied tensors, blocks, metadata with their kinds: all of it comes back. And it is no
 * program. */
static void a_container_keeps_all_of_the_weights(void **state)
{
    static const char *const sources[] = {"fixtures/weights/nested.pt",
                                          "fixtures/weights/kinds.gguf",
                                          "fixtures/weights/blocks.gguf"};

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        exg_weights_save_options options = {.size = sizeof(options),
                                            .compression = i < 3 ? EXG_COMPRESSION_ZSTD
                                                                 : EXG_COMPRESSION_NONE};
        exg_weights *a = open_weights(sources[i % 3], NULL);
        exg_weights_format format;
        exg_program *program = NULL;
        exg_weights *b;
        exg_error err;

        exg_error_clear(&err);
        assert_int_equal(exg_weights_save(a, in_folder("w.exg"), &options, &err), EXG_OK);
        b = open_weights(in_folder("w.exg"), &format);
        assert_int_equal(format, EXG_WEIGHTS_FORMAT_CONTAINER);
        assert_same_tensors(in_folder("w.exg"), sources[i % 3]);
        assert_int_equal(b->count, a->count);
        for (uint32_t k = 0; k < a->count; k++) {
            const char *encoding = a->items[k].encoding;

            assert_string_equal(b->items[k].encoding == NULL ? "" : b->items[k].encoding,
                                encoding == NULL ? "" : encoding);
            for (uint32_t j = 0; j < k; j++) {
                assert_int_equal(b->items[j].storage == b->items[k].storage,
                                 a->items[j].storage == a->items[k].storage);
            }
        }
        assert_int_equal(b->metadata.count, a->metadata.count);
        for (uint32_t k = 0; k < a->metadata.count; k++) {
            const char *kind = exg_weights_metadata_kind(a, k);
            const char *got = exg_weights_metadata_kind(b, k);

            assert_string_equal(b->metadata.items[k].key, a->metadata.items[k].key);
            assert_string_equal(b->metadata.items[k].value, a->metadata.items[k].value);
            assert_string_equal(got == NULL ? "" : got, kind == NULL ? "" : kind);
        }
        assert_int_equal(exg_open(in_folder("w.exg"), NULL, &program, NULL, &err), EXG_UNSUPPORTED);
        assert_string_equal(err.code, "FMT-WEIGHTS");
        assert_null(program);
        exg_weights_release(a);
        exg_weights_release(b);
        empty_folder();
    }
}

static void what_a_container_alone_can_do_is_refused_elsewhere(void **state)
{
    exg_weights_save_options packed = {.size = sizeof(packed), .compression = EXG_COMPRESSION_ZSTD};
    exg_weights_save_options once = {.size = sizeof(once), .deduplicate = true};
    exg_weights_save_options split = {.size = sizeof(split), .split = 10};
    exg_weights_save_options none = {.size = sizeof(none),
                                     .compression = (exg_compression)(EXG_COMPRESSION_ZSTD + 1)};
    exg_weights *a = open_weights("fixtures/weights/nested.pt", NULL);

    (void)state;
    assert_int_equal(exg_weights_save(a, in_folder("w.pt"), &packed, NULL), EXG_USAGE);
    assert_int_equal(exg_weights_save(a, in_folder("w.gguf"), &once, NULL), EXG_USAGE);
    assert_int_equal(exg_weights_save(a, in_folder("w.exg"), &split, NULL), EXG_USAGE);
    assert_int_equal(exg_weights_save(a, in_folder("w.exg"), &none, NULL), EXG_USAGE);
    assert_int_equal(exg_weights_save(a, in_folder("w.pt2"), NULL, NULL), EXG_USAGE);
    assert_int_equal(empty_folder(), 0);
    exg_weights_release(a);
}

/* The rows [first, first + count) of `x`, which is all of the file. */
static exg_weights *rows_of_x(exg_weights *of, int64_t first, int64_t count)
{
    const exg_tensor_meta *meta = weight_of(of, "x")->meta;
    const int64_t offsets[] = {first, 0};
    const int64_t sizes[] = {count, meta->sizes[1].value};
    const exg_weight_slice slice = {"x", 2, offsets, sizes};
    exg_weights *made = NULL;
    exg_error err;

    exg_error_clear(&err);
    assert_int_equal(meta->rank, 2);
    assert_int_equal(exg_weights_slice(of, &slice, 1, &made, &err), EXG_OK);
    return made;
}

#define WHOLE    "model-00001-of-00001.safetensors"
#define SHARD(n) "shard-0000" n "-" WHOLE

/* A folder that is not there, or empty, and gives the whole again. */
static void it_writes_a_folder_of_ranks(void **state)
{
    exg_weights_save_options options = {.size = sizeof(options)};
    exg_weights *of = open_weights("fixtures/mlp.inputs.safetensors", NULL);
    exg_weights *a = rows_of_x(of, 0, 1);
    exg_weights *b = rows_of_x(of, 1, weight_of(of, "x")->meta->sizes[0].value - 1);
    exg_weights *none = NULL;
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_int_equal(exg_weights_create(NULL, &none, &err), EXG_OK);
    assert_int_equal(
        exg_weights_save_ranks((exg_weights *[]){a, none, b}, 3, in_folder("r/"), &options, &err),
        EXG_OK);
    assert_same_tensors(in_folder("r"), "fixtures/mlp.inputs.safetensors");
    assert_int_equal(access(in_folder("r/" SHARD("2")), F_OK), -1);
    assert_int_equal(access(in_folder("r.part"), F_OK), -1);
    assert_int_equal(exg_weights_save_ranks(&a, 1, in_folder("r"), &options, &err), EXG_USAGE);
    assert_string_equal(err.code, "IO-KIND");
    assert_int_equal(unlink(in_folder("r/" SHARD("1"))), 0);
    assert_int_equal(unlink(in_folder("r/" SHARD("3"))), 0);
    assert_int_equal(exg_weights_save_ranks(&a, 1, in_folder("r"), &options, &err), EXG_OK);
    assert_int_equal(exg_weights_save_ranks(&a, 1, in_folder("no/r"), &options, &err), EXG_IO);
    assert_int_equal(mkdir(in_folder("t.part"), 0700), 0); /* of a save that was stopped */
    write_file("t.part/" SHARD("4"), "x", 1);
    assert_int_equal(exg_weights_save_ranks(&a, 1, in_folder("t"), &options, &err), EXG_OK);
    assert_int_equal(access(in_folder("t/" SHARD("4")), F_OK), -1);
    assert_int_equal(unlink(in_folder("t/" WHOLE)), 0);
    assert_int_equal(rmdir(in_folder("t")), 0);
    write_file("file", "x", 1);
    assert_int_equal(exg_weights_save_ranks(&a, 1, in_folder("file"), &options, &err), EXG_USAGE);
    options.split = 10;
    assert_int_equal(exg_weights_save_ranks(&a, 1, in_folder("s"), &options, &err), EXG_USAGE);
    assert_int_equal(unlink(in_folder("r/" WHOLE)), 0);
    assert_int_equal(rmdir(in_folder("r")), 0);
    empty_folder();
    exg_weights_release(of);
    exg_weights_release(a);
    exg_weights_release(b);
    exg_weights_release(none);
}

/* A part stands for the whole, or it is refused. */
static void it_takes_no_part_for_the_whole(void **state)
{
    static const char *const slices[] = {
        "fixtures/weights/slices/shard-00001-model-00001-of-00001.safetensors",
        "fixtures/weights/slices/shard-00002-model-00001-of-00001.safetensors"};
    exg_weights *weights;
    exg_error err;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        copy_file(slices[i], exg_path_name(slices[i]));
        assert_int_equal(
            exg_weights_open(in_folder(exg_path_name(slices[i])), NULL, &weights, NULL, &err),
            EXG_UNSUPPORTED);
        assert_string_equal(err.code, "STF-SLICE");
        empty_folder();
        /* What one process saved is called so, and whole. */
        copy_file(slices[i], "model-00001-of-00001.safetensors");
        assert_int_equal(exg_weights_open(in_folder("model-00001-of-00001.safetensors"), NULL,
                                          &weights, NULL, &err),
                         i == 0 ? EXG_OK : EXG_UNSUPPORTED);
        exg_weights_release(weights);
    }
    copy_file("fixtures/weights/parts-00002-of-00003.gguf", "p-00002-of-00003.gguf");
    assert_int_equal(
        exg_weights_open(in_folder("p-00002-of-00003.gguf"), NULL, &weights, NULL, &err), EXG_IO);
    assert_string_equal(err.code, "GGUF-SPLIT");
    assert_non_null(strstr(err.message, "p-00001-of-00003.gguf, p-00003-of-00003.gguf"));
    copy_file("fixtures/weights/parts-00001-of-00003.gguf", "p-00001-of-00003.gguf");
    copy_file("fixtures/weights/parts-00001-of-00003.gguf", "p-00003-of-00003.gguf");
    assert_int_equal(
        exg_weights_open(in_folder("p-00002-of-00003.gguf"), NULL, &weights, NULL, &err),
        EXG_MALFORMED);
    assert_string_equal(err.code, "GGUF-SPLIT");
    copy_file("fixtures/weights/parts-00001-of-00003.gguf", "model.gguf");
    assert_int_equal(exg_weights_open(in_folder("model.gguf"), NULL, &weights, NULL, &err),
                     EXG_MALFORMED);
    assert_string_equal(err.code, "GGUF-SPLIT");
    empty_folder();
}

static void it_leaves_nothing_when_a_split_model_cannot_be_written(void **state)
{
    exg_weights_save_options options = {.size = sizeof(options), .split = 20};
    exg_weights *a = open_weights("fixtures/weights/nested.pt", NULL);

    (void)state;
    assert_int_equal(mkdir(in_folder("m.safetensors.index.json"), 0700), 0);
    assert_int_equal(exg_weights_save(a, in_folder("m.safetensors"), &options, NULL), EXG_USAGE);
    assert_int_equal(rmdir(in_folder("m.safetensors.index.json")), 0);
    assert_int_equal(empty_folder(), 0);
    exg_weights_release(a);
}

/* One element that a view repeats. */
static exg_status save_repeated(int64_t count, bool expands, exg_error *err)
{
    static float one = 1;
    exg_weights_save_options options = {.size = sizeof(options), .expands = expands};
    exg_storage storage = {.kind = EXG_STORAGE_MEMORY,
                           .data = (const uint8_t *)&one,
                           .length = sizeof(one),
                           .byte_order = exg_host_byte_order()};
    exg_sym_int sizes[] = {exg_sym_int_of(count)};
    exg_sym_int strides[] = {exg_sym_int_of(0)};
    exg_tensor_meta meta = {.dtype = EXG_DTYPE_F32, .rank = 1, .sizes = sizes, .strides = strides};
    exg_weight weight = {.fqn = "w", .meta = &meta};
    exg_weights *weights;
    exg_status status;

    assert_int_equal(exg_weights_create(NULL, &weights, NULL), EXG_OK);
    assert_int_equal(exg_weights_add_storage(weights, &storage, &weight.storage, NULL), EXG_OK);
    assert_int_equal(exg_weights_add(weights, &weight, NULL), EXG_OK);
    status = exg_weights_save(weights, in_folder("r.safetensors"), &options, err);
    exg_weights_release(weights);
    return status;
}

static void a_few_bytes_fill_no_disk(void **state)
{
    exg_error err;

    (void)state;
    assert_int_equal(save_repeated(1000, false, &err), EXG_OK);
    assert_int_equal(empty_folder(), 1);
    assert_int_equal(save_repeated(INT64_C(1) << 36, false, &err), EXG_LIMIT);
    assert_string_equal(err.code, "STF-EXPAND");
    assert_true(err.fix[0] != '\0');
    assert_int_equal(save_repeated(INT64_C(1) << 58, true, &err), EXG_IO); /* no disk has that */
    assert_string_equal(err.code, "IO-ROOM");
    assert_int_equal(empty_folder(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_reads_what_their_own_writers_made),
        cmocka_unit_test(it_reads_arrays_of_every_kind),
        cmocka_unit_test(it_reads_headers_as_numpy_does),
        cmocka_unit_test(it_writes_them_as_safetensors_in_one_file_or_several),
        cmocka_unit_test(it_keeps_views_and_sharing_of_a_checkpoint),
        cmocka_unit_test(it_names_the_encoding_of_quantised_tensors),
        cmocka_unit_test(it_gives_the_weights_of_a_program),
        cmocka_unit_test(it_refuses_every_prefix),
        cmocka_unit_test(it_refuses_gguf_that_breaks_a_rule),
        cmocka_unit_test(names_say_the_format_and_formats_what_they_hold),
        cmocka_unit_test(it_never_mixes_two_split_models),
        cmocka_unit_test(it_leaves_no_other_form_of_a_model_beside),
        cmocka_unit_test(it_writes_every_metadata_under_a_name_of_its_own),
        cmocka_unit_test(a_container_keeps_all_of_the_weights),
        cmocka_unit_test(what_a_container_alone_can_do_is_refused_elsewhere),
        cmocka_unit_test(it_writes_a_folder_of_ranks),
        cmocka_unit_test(it_takes_no_part_for_the_whole),
        cmocka_unit_test(it_leaves_nothing_when_a_split_model_cannot_be_written),
        cmocka_unit_test(a_few_bytes_fill_no_disk),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
