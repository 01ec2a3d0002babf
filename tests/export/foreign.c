/* foreign.c - what people give that is no model which is read: each is named, with what to do,
 * where weights are wanted and where a program is. And folders. */
#include "tests/export/exg_folder.h"

#include <exg/formats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_status open_weights(const char *path, exg_weights_format *format, exg_error *err)
{
    exg_weights *weights = NULL;
    exg_status status;

    exg_error_clear(err);
    status = exg_weights_open(path, NULL, &weights, format, err);
    exg_weights_release(weights);
    return status;
}

static exg_status open_as_program(const char *path, exg_error *err)
{
    exg_program *program = NULL;
    exg_status status;

    exg_error_clear(err);
    status = exg_open(path, NULL, &program, NULL, err);
    exg_program_destroy(program);
    return status;
}

/* ---- files --------------------------------------------------------------------------------- */

#define BYTES(text) (text), sizeof(text) - 1
#define ZEROS       "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"

static const struct {
    const char *name, *data;
    size_t length;
    const char *says;
} files[] = {
    {"x.safetensors",
     BYTES("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 44\n"),
     "a Git LFS pointer"},
    {"model.safetensors.index.json", BYTES("{\"metadata\": {}}"), "the index of a model"},
    {"x.json", BYTES("\xef\xbb\xbf{\"weight_map\": {}}"), "a byte order mark"},
    {"y.json", BYTES("\xff\xfe{\0\"\0"), "UTF-16"},
    {"x.safetensors", BYTES("\n<!DOCTYPE html>\n<html></html>"), "an HTML page"},
    {"x.pt", BYTES("\xef\xbb\xbf<HTML><body>Not Found</body>"), "an HTML page"},
    {"x.bin", BYTES("<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>"), "XML"},
    {"x.bin", BYTES("{\"error\": \"Repository not found\"}"), "an error of a server"},
    {"x.bin", BYTES(" {\"message\": \"Not Found\", \"status\": \"404\"}"), "an error of a server"},
    {"config.json", BYTES("{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 4096}"),
     "the configuration of a model"},
    {"generation_config.json", BYTES("{\"eos_token_id\": 2}"), "the configuration of a model"},
    {"model_index.json",
     BYTES("{\"_class_name\": \"P\", \"_diffusers_version\": \"0.30\", \"unet\": []}"),
     "a diffusers pipeline"},
    {"config.json", BYTES("{\"_class_name\": \"UNet\", \"_diffusers_version\": \"0.30\"}"),
     "the configuration of a model"},
    {"tokenizer.json", BYTES("{\"version\": \"1.0\", \"added_tokens\": []}"), "a tokenizer"},
    {"x.tflite", BYTES("\x1c\0\0\0TFL3" ZEROS), "TensorFlow Lite"},
    {"x.mlmodel", BYTES("\x08\x04\x12\x02\x0a\x00\xa2\x1f\x00"), "Core ML"},
    {"saved_model.pb", BYTES("\x08\x01\x12\x06\x0a\x04\x0a\x02hi"), "SavedModel"},
    {"frozen.pb",
     BYTES("\x0a\x0a\x0a\x01x\x12\x05"
           "Const"),
     "a frozen TensorFlow graph"},
    {"model.ckpt.index", BYTES(ZEROS ZEROS ZEROS "\x57\xfb\x80\x8b\x24\x75\x47\xdb"),
     "the index of a TensorFlow checkpoint"},
    {"checkpoint", BYTES("model_checkpoint_path: \"model.ckpt-1\"\n"), "TensorFlow checkpoints"},
    {"model.h5", BYTES("\x89HDF\r\n\x1a\n" ZEROS), "HDF5"},
    {"x.mat", BYTES("MATLAB 5.0 MAT-file, Platform: GLNXA64"), "MATLAB"},
    {"x.gguf", BYTES("FUGG\3\0\0\0" ZEROS), "GGUF whose magic number is turned around"},
    {"x.bin", BYTES("lmgg" ZEROS), "GGML"},
    {"x.bin", BYTES("fmgg" ZEROS), "GGMF"},
    {"x.bin", BYTES("tjgg" ZEROS), "GGJT"},
    {"x.bin", BYTES("algg" ZEROS), "an adapter for GGML"},
#ifndef EXG_BZIP2 /* packed.c */
    {"x.safetensors", BYTES("BZh91AY&SY" ZEROS), "bzip2"},
#endif
#ifndef EXG_LZMA
    {"x.xz",
     BYTES("\xfd"
           "7zXZ\0" ZEROS),
     "xz"},
#endif
    {"x.lz4", BYTES("\x04\x22\x4d\x18" ZEROS), "lz4"},
    {"x.7z", BYTES("7z\xbc\xaf\x27\x1c" ZEROS), "7z"},
    {"x.rar", BYTES("Rar!\x1a\x07" ZEROS), "RAR"},
    {"x.parquet", BYTES("PAR1" ZEROS), "Parquet"},
    {"x.arrow", BYTES("ARROW1\0\0" ZEROS), "Arrow"},
    {"x.so",
     BYTES("\x7f"
           "ELF\2" ZEROS),
     "compiled code"},
    {"flax_model.msgpack",
     BYTES("\x81\xa6params\x81\xa1w\xc7\x04\x01"
           "abcd"),
     "msgpack of Flax"},
    {"flax_model.msgpack",
     BYTES("\xde\x00\x01\xa1w\xc7\x08\x01"
           "abcdefgh"),
     "msgpack of Flax"},
    {"x.pkl", BYTES("\x80\x04\x95\x02\0\0\0\0\0\0\0]\x94."),
     "a pickle that torch.save did not make"},
    {"x.safetensors", BYTES("\x02\0\0\0\0"), "too short to be: 5 bytes"},
    {"x.safetensors", BYTES("\1\xe1\xf5\5\0\0\0\0{}" ZEROS), "100000001 bytes, at most"},
    {"x.safetensors", BYTES("\2\0\0\0\0\0\0\0xy" ZEROS), "no '{' begins it"},
    {"x.gguf", BYTES("GGFU\3\0\0\0" ZEROS), "called GGUF and does not begin so"},
    {"trainer_state.json", BYTES("{\"epoch\": 1.0, \"log_history\": []}"), "JSON, and neither"},
    {"vocab.json", BYTES("{\"a\": 0, \"b\": 1}"), "JSON, and neither"},
    {"x.safetensors", BYTES("Entry not found"), "text, and no model: 'Entry not found'"},
    {"x.bin", BYTES("Zugriff verw\xc3\xa4hrt\r\nnoch eine"), "'Zugriff verw\xc3\xa4hrt'"},
    {"x.npy", BYTES("1,2,3\n4,5,6\n"), "text, and no model: '1,2,3'"},
    {"x.safetensors", BYTES(ZEROS ZEROS), "zeros from its beginning"},
    {"x.pt", BYTES(ZEROS ZEROS), "zeros from its beginning"},
    {"x.png", BYTES("\x89PNG\r\n\x1a\n" ZEROS), "a picture"},
    {"x.bin", BYTES("\xff\xd8\xff\xe0" ZEROS), "a picture"},
    {"x.pdf", BYTES("%PDF-1.7\n\xe2\xe3"), "a PDF"},
    {"x.bin", BYTES("SQLite format 3\0\x10"), "SQLite"},
    {"x.npz", BYTES("\1\2\3\4" ZEROS), "called .npz and is none"},
    {"x.pt", BYTES("\x80\2\x8a\nl\xfc\x9c"), "called .pt and is none"},
};

static void it_names_what_is_foreign(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        for (int program = 0; program < 2; program++) {
            const char *path = in_folder(files[i].name);
            exg_error err;
            exg_status status;

            write_file(files[i].name, files[i].data, files[i].length);
            status = program ? open_as_program(path, &err) : open_weights(path, NULL, &err);
            if (status != EXG_UNSUPPORTED || strcmp(err.code, "FMT-FOREIGN") != 0 ||
                strstr(err.message, files[i].says) == NULL || err.fix[0] == '\0') {
                fail_msg("%zu %s as %s: %s %s", i, files[i].name, program ? "program" : "weights",
                         err.code, err.message);
            }
        }
        empty_folder();
    }
}

/* Archives that Python's own modules made: fixtures/foreign. */
static void it_looks_into_archives(void **state)
{
    static const struct {
        const char *path, *says;
    } rows[] = {
        {"fixtures/foreign/several.tar", "with several models in it: a.safetensors, and 2 more"},
        {"fixtures/foreign/notes.tar", "a tar archive, with no model in it"},
        {"fixtures/foreign/several.zip", "with several models in it: a.safetensors, and 1 more"},
        {"fixtures/foreign/model.keras", "a Keras model"},
        {"fixtures/foreign/model.package", "a torch.package"},
        {"fixtures/foreign/model.h5", "HDF5"},
        {"fixtures/foreign/model.pkl", "a pickle that torch.save did not make"},
    };
    exg_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (open_weights(rows[i].path, NULL, &err) != EXG_UNSUPPORTED ||
            strcmp(err.code, "FMT-FOREIGN") != 0 || strstr(err.message, rows[i].says) == NULL ||
            open_as_program(rows[i].path, &err) != EXG_UNSUPPORTED ||
            strcmp(err.code, "FMT-FOREIGN") != 0) {
            fail_msg("%s: %s %s", rows[i].path, err.code, err.message);
        }
    }
}

/* A file of weights is told as that where a program is wanted. */
static void it_tells_weights_from_programs(void **state)
{
    static const char *const paths[] = {"fixtures/weights/little.gguf",
                                        "fixtures/weights/sharded.safetensors.index.json",
                                        "fixtures/mlp.inputs.safetensors"};
    exg_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        assert_int_equal(open_as_program(paths[i], &err), EXG_UNSUPPORTED);
        assert_string_equal(err.code, "FMT-WEIGHTS");
    }
}

/* ---- folders ------------------------------------------------------------------------------- */

static const char shard[] =
    "\x37\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}  \1\2";

/* Files of a folder, each with what is in it: s safetensors, i an index of the first, t text. */
static void fill(const char *const *names)
{
    for (; *names != NULL; names++) {
        const char *name = *names + 2;
        char index[200];

        snprintf(index, sizeof(index), "{\"weight_map\": {\"a\": \"%s\"}}",
                 strstr(name, ".bin.") != NULL ? "p.bin" : "p.safetensors");
        switch (**names) {
        case 's':
            write_file(name, shard, sizeof(shard) - 1);
            break;
        case 'i':
            write_file(name, index, strlen(index));
            break;
        case 't':
            write_file(name, "text", 4);
            break;
        default:
            assert_int_equal(mkdir(in_folder(name), 0700), 0);
        }
    }
}

static const struct {
    const char *names[6];
    exg_weights_format format;
    exg_status status;
    const char *code, *says;
} models[] = {
    {{"s model.safetensors", "t config.json", "t pytorch_model.bin"},
     EXG_WEIGHTS_FORMAT_SAFETENSORS,
     EXG_OK,
     "",
     ""},
    {{"i model.safetensors.index.json", "s p.safetensors"},
     EXG_WEIGHTS_FORMAT_INDEX,
     EXG_OK,
     "",
     ""},
    {{"i pytorch_model.bin.index.json", "s p.bin"}, EXG_WEIGHTS_FORMAT_INDEX, EXG_OK, "", ""},
    {{"s diffusion_pytorch_model.safetensors", "s diffusion_pytorch_model.fp16.safetensors"},
     EXG_WEIGHTS_FORMAT_SAFETENSORS,
     EXG_OK,
     "",
     ""},
    {{"s diffusion_pytorch_model.fp16.safetensors"},
     EXG_WEIGHTS_FORMAT_SAFETENSORS,
     EXG_OK,
     "",
     ""},
    {{"s adapter_model.safetensors"}, EXG_WEIGHTS_FORMAT_SAFETENSORS, EXG_OK, "", ""},
    {{"s consolidated.safetensors", "t params.json"},
     EXG_WEIGHTS_FORMAT_SAFETENSORS,
     EXG_OK,
     "",
     ""},
    {{"s mine.safetensors", "t readme.md"}, EXG_WEIGHTS_FORMAT_SAFETENSORS, EXG_OK, "", ""},
    {{"s m-00001-of-00001.safetensors"}, EXG_WEIGHTS_FORMAT_INDEX, EXG_OK, "", ""},
    {{"s m-00001-of-00001.bin", "t training_args.bin"}, EXG_WEIGHTS_FORMAT_INDEX, EXG_OK, "", ""},
    {{"i model.safetensors.index.json", "s model.safetensors", "s p.safetensors"},
     0,
     EXG_UNSUPPORTED,
     "FMT-FOLDER",
     "2 models: model.safetensors.index.json, model.safetensors"},
    {{"s a.safetensors", "s b.safetensors"},
     0,
     EXG_UNSUPPORTED,
     "FMT-FOLDER",
     "a.safetensors, b.safetensors"},
    {{"t readme.md", "t config.json", "d weights"},
     0,
     EXG_UNSUPPORTED,
     "FMT-FOLDER",
     "config.json, readme.md, weights"},
    {{NULL}, 0, EXG_UNSUPPORTED, "FMT-FOLDER", "empty"},
    {{"t saved_model.pb", "d variables"}, 0, EXG_UNSUPPORTED, "FMT-FOREIGN", "SavedModel"},
    {{"t _CHECKPOINT_METADATA", "t manifest.ocdbt"}, 0, EXG_UNSUPPORTED, "FMT-FOREIGN", "orbax"},
    {{"t model_index.json", "d unet", "d vae"}, 0, EXG_UNSUPPORTED, "FMT-FOREIGN", "pipeline"},
    {{"t Manifest.json", "d Data"}, 0, EXG_UNSUPPORTED, "FMT-FOREIGN", "Core ML"},
};

static void it_opens_the_model_of_a_folder(void **state)
{
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        exg_weights_format format = EXG_WEIGHTS_FORMAT_COUNT;
        exg_weights_format sniffed = EXG_WEIGHTS_FORMAT_COUNT;
        exg_error err;
        exg_status status;

        assert_int_equal(make_folder(state), 0);
        fill(models[i].names);
        status = open_weights(in_folder(""), &format, &err);
        if (status != models[i].status || strcmp(err.code, models[i].code) != 0 ||
            strstr(err.message, models[i].says) == NULL ||
            (status == EXG_OK) != (err.fix[0] == '\0')) {
            fail_msg("%s: %s %s %s", models[i].names[0], exg_status_name(status), err.code,
                     err.message);
        }
        assert_int_equal(exg_weights_sniff(in_folder("."), NULL, &sniffed, NULL), status);
        if (status == EXG_OK) {
            assert_int_equal(format, models[i].format);
            assert_int_equal(sniffed, models[i].format);
        }
        assert_int_equal(remove_folder(state), 0);
    }
    assert_int_equal(make_folder(state), 0);
}

/* Parts without an index are known by their names; given by itself, one is a file like others. */
static void it_opens_parts_without_an_index(void **state)
{
    static const char *const rest[] = {"s m-00003-of-00003.safetensors", NULL};
    static const char *const first[] = {"s m-00001-of-00003.safetensors", NULL};
    exg_weights_format format = EXG_WEIGHTS_FORMAT_COUNT;
    exg_weights *weights;
    exg_error err;
    char other[sizeof(shard)];

    (void)state;
    fill(rest);
    assert_int_equal(open_weights(in_folder(""), &format, &err), EXG_IO);
    assert_string_equal(err.code, "IO-OPEN");
    assert_non_null(strstr(err.message, "m-00001-of-00003.safetensors, m-00002-of-00003"));
    fill(first);
    for (char name = 'a'; name <= 'c'; name++) { /* in the last there is "a", first twice */
        memcpy(other, shard, sizeof(shard));
        other[10] = name;
        write_file("m-00002-of-00003.safetensors", other, sizeof(shard) - 1);
        other[10] = name == 'a' ? 'b' : (char)(name + 1);
        write_file("m-00003-of-00003.safetensors", other, sizeof(shard) - 1);
        if (name == 'a') {
            assert_int_equal(open_weights(in_folder(""), &format, &err), EXG_MALFORMED);
            assert_string_equal(err.code, "WGT-NAME");
            continue;
        }
        assert_int_equal(exg_weights_open(in_folder(""), NULL, &weights, &format, &err), EXG_OK);
        assert_int_equal(format, EXG_WEIGHTS_FORMAT_INDEX);
        assert_int_equal(weights->count, 3);
        assert_int_equal(weights->items[1].fqn[0], name);
        exg_weights_release(weights);
    }
    assert_int_equal(
        exg_weights_open(in_folder("m-00002-of-00003.safetensors"), NULL, &weights, &format, &err),
        EXG_OK);
    assert_int_equal(weights->count, 1);
    exg_weights_release(weights);
    empty_folder();
}

static void it_opens_gguf_parts_and_programs_of_a_folder(void **state)
{
    exg_weights_format format = EXG_WEIGHTS_FORMAT_COUNT;
    exg_weights *weights;
    exg_program *program;
    exg_error err;

    (void)state;
    for (int i = 1; i <= 3; i++) {
        char name[64];
        char from[100];
        size_t length;
        FILE *file;
        static char data[4096];

        snprintf(name, sizeof(name), "m-0000%d-of-00003.gguf", i);
        snprintf(from, sizeof(from), "fixtures/weights/parts-0000%d-of-00003.gguf", i);
        file = fopen(from, "rb");
        assert_non_null(file);
        length = fread(data, 1, sizeof(data), file);
        fclose(file);
        write_file(name, data, length);
    }
    assert_int_equal(exg_weights_open(in_folder(""), NULL, &weights, &format, NULL), EXG_OK);
    assert_int_equal(format, EXG_WEIGHTS_FORMAT_GGUF);
    assert_int_equal(weights->count, 5);
    exg_weights_release(weights);
    write_file("other.gguf", "GGUF", 4);
    assert_int_equal(open_weights(in_folder(""), NULL, &err), EXG_UNSUPPORTED);
    assert_non_null(strstr(err.message, "2 models: m-00001-of-00003.gguf, other.gguf"));
    empty_folder();
    program = open_program("fixtures/mlp.pt2");
    save_program(program, "m.exg", NULL);
    exg_program_destroy(program);
    assert_int_equal(open_as_program(in_folder(""), &err), EXG_OK);
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_names_what_is_foreign),
        cmocka_unit_test(it_looks_into_archives),
        cmocka_unit_test(it_tells_weights_from_programs),
        cmocka_unit_test(it_opens_the_model_of_a_folder),
        cmocka_unit_test(it_opens_parts_without_an_index),
        cmocka_unit_test(it_opens_gguf_parts_and_programs_of_a_folder),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
