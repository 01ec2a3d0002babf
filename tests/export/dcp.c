/* dcp.c - folders of torch.distributed.checkpoint and of DeepSpeed, and tensors put together of
 * chunks. */
#include <exg/formats.h>
#include <exg/weights_edit.h>

#include "libexport/formats/pt2/chunks.h"
#include "libexport/weights/storage.h"
#include "tests/export/exg_folder.h"
#include "tests/export/same_tensors.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define FIXTURE "fixtures/weights/saved/dcp"

static const char *const files[] = {".metadata", "__0_0.distcp", "__1_0.distcp"};

static exg_status open_folder(const char *path, exg_weights **weights, exg_error *err)
{
    *weights = NULL;
    exg_error_clear(err);
    return exg_weights_open(path, NULL, weights, NULL, err);
}

static void it_opens_a_folder_as_whole_tensors(void **state)
{
    exg_weights_format format;
    exg_weights *weights;
    exg_error err;

    (void)state;
    assert_same_tensors(FIXTURE, FIXTURE ".expected.safetensors");
    assert_same_tensors(FIXTURE "/.metadata", FIXTURE ".expected.safetensors");
    assert_int_equal(exg_weights_sniff(FIXTURE, NULL, &format, &err), EXG_OK);
    assert_int_equal(format, EXG_WEIGHTS_FORMAT_DCP);
    assert_int_equal(open_folder(FIXTURE, &weights, &err), EXG_OK);
    assert_int_equal(weights->skipped_count, 0);
    assert_string_equal(weights->metadata.items[0].key, "optim.lr");
    assert_string_equal(weights->metadata.items[0].value, "0.5");
    assert_string_equal(weights->metadata.items[1].value, "(0.9, 0.99)");
    exg_weights_release(weights);
}

/* A chunk that is all of a tensor is used where it lies. */
static void it_copies_no_chunk_that_is_whole(void **state)
{
    exg_weights *weights;
    const exg_weight *weight;
    exg_error err;

    (void)state;
    assert_int_equal(open_folder(FIXTURE, &weights, &err), EXG_OK);
    weight = exg_weights_find(weights, EXG_TABLE_STATE, "model.bias");
    assert_non_null(weight);
    assert_int_equal(weights->storages[weight->storage].kind, EXG_STORAGE_MEMORY);
    weight = exg_weights_find(weights, EXG_TABLE_STATE, "model.columns");
    assert_int_equal(weights->storages[weight->storage].kind, EXG_STORAGE_MADE);
    exg_weights_release(weights);
}

/* The fixture in the test's folder, `from` in a file of it replaced by `to` of the same length. */
static void copy_changed(const char *changed, const char *from, const char *to, size_t keep)
{
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[200];
        uint8_t data[16384];
        FILE *file;
        size_t length;

        snprintf(path, sizeof(path), FIXTURE "/%s", files[i]);
        file = fopen(path, "rb");
        assert_non_null(file);
        length = fread(data, 1, sizeof(data), file);
        fclose(file);
        if (strcmp(files[i], changed) == 0) {
            size_t replaced = 0;

            for (size_t at = 0; from != NULL && at + strlen(from) <= length; at++) {
                if (memcmp(data + at, from, strlen(from)) == 0) {
                    memcpy(data + at, to, strlen(from));
                    replaced++;
                }
            }
            assert_true(from == NULL || replaced > 0);
            length = keep < length ? keep : length;
        }
        write_file(files[i], data, length);
    }
}

static void it_refuses_what_is_not_whole(void **state)
{
    static const struct {
        const char *file, *from, *to;
        size_t keep;
        exg_status status;
        const char *code;
    } rows[] = {
        {".metadata", "__1_0.distcp", "__9_0.distcp", SIZE_MAX, EXG_IO, "DCP-MISSING"},
        {".metadata", "__1_0.distcp", "../_0.distcp", SIZE_MAX, EXG_MALFORMED, "WGT-LOC"},
        {".metadata", "storage_data", "storage_dat_", SIZE_MAX, EXG_MALFORMED, "DCP-METADATA"},
        {".metadata", "state_dict_metadata", "state_dict_metadat_", SIZE_MAX, EXG_MALFORMED,
         "DCP-METADATA"},
        {".metadata", "relative_path", "relative_pat_", SIZE_MAX, EXG_MALFORMED, "DCP-METADATA"},
        {".metadata", "properties", "propertie_", SIZE_MAX, EXG_MALFORMED, "DCP-METADATA"},
        {".metadata", "model.rows", "model.cows", SIZE_MAX, EXG_OK, ""}, /* only another name */
        {".metadata", "bfloat16", "float16\n", SIZE_MAX, EXG_MALFORMED, "DCP-METADATA"},
        {".metadata", NULL, NULL, 300, EXG_MALFORMED, "PKL-001"},
        {"__0_0.distcp", NULL, NULL, 2000, EXG_MALFORMED, "DCP-CHUNK"},
        {"__1_0.distcp", NULL, NULL, 0, EXG_MALFORMED, "DCP-CHUNK"},
        {"__1_0.distcp", "data.pkl", "data.pkx", SIZE_MAX, EXG_MALFORMED, "PKL-002"},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_weights *weights;
        exg_error err;
        exg_status status;

        empty_folder();
        copy_changed(rows[r].file, rows[r].from, rows[r].to, rows[r].keep);
        status = open_folder(in_folder("."), &weights, &err);
        exg_weights_release(weights);
        if (status != rows[r].status || strcmp(err.code, rows[r].code) != 0) {
            fail_msg("row %zu: %s %s %s", r, exg_status_name(status), err.code, err.message);
        }
    }
    empty_folder();
}

static void it_names_every_file_that_is_missing(void **state)
{
    exg_weights *weights;
    exg_error err;

    (void)state;
    copy_changed("", NULL, NULL, SIZE_MAX);
    assert_int_equal(unlink(in_folder("__0_0.distcp")), 0);
    assert_int_equal(unlink(in_folder("__1_0.distcp")), 0);
    assert_int_equal(open_folder(in_folder("."), &weights, &err), EXG_IO);
    assert_string_equal(err.code, "DCP-MISSING");
    assert_non_null(strstr(err.message, "__0_0.distcp"));
    assert_non_null(strstr(err.message, "__1_0.distcp"));
    assert_non_null(strstr(err.message, "2 of the files"));
    empty_folder();
}

/* ---- other forms ------------------------------------------------------------------------- */

#define FORMS "fixtures/weights/saved/dcp_"

static void it_opens_what_other_writers_save(void **state)
{
    static const struct {
        const char *path, *same;
    } rows[] = {{FORMS "zstd", FORMS "zstd.expected.safetensors"},
                {FORMS "ranks", FORMS "ranks.expected.safetensors"},
                {FORMS "ranks/__1.metadata", FORMS "ranks.expected.safetensors"},
                {FORMS "slices", FORMS "slices.expected.safetensors"},
                {FORMS "slices/shard-00002-model-00001-of-00001.safetensors",
                 FORMS "slices.expected.safetensors"}};
    exg_weights *weights;
    exg_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_same_tensors(rows[i].path, rows[i].same);
        assert_same_tensors(rows[i].same, rows[i].path);
    }
    /* Of the two values of "rng" one is told, of those that are the same nothing. */
    assert_int_equal(open_folder(FORMS "ranks", &weights, &err), EXG_OK);
    assert_int_equal(weights->skipped_count, 1);
    assert_string_equal(weights->skipped[0].name, "rng");
    exg_weights_release(weights);
    assert_int_equal(open_folder(FORMS "slices", &weights, &err), EXG_OK);
    assert_int_equal(weights->skipped_count, 0);
    assert_int_equal(weights->metadata.count, 1);
    assert_string_equal(weights->metadata.items[0].key, "format");
    exg_weights_release(weights);
}

/* Runs a line of shell in a copy of a form, and opens that. */
static exg_status open_after(const char *form, const char *line, exg_weights **weights,
                             exg_error *err)
{
    char command[600];

    empty_folder();
    snprintf(command, sizeof(command),
             "cp " FORMS "%s/* " FORMS "%s/.[m]* %s 2>/dev/null; cd %s && %s", form, form,
             in_folder(""), in_folder(""), line);
    if (system(command) != 0) {
        fail_msg("%s", command);
    }
    return open_folder(in_folder("."), weights, err);
}

#define SHARD(n) "shard-0000" #n "-model-00001-of-00001.safetensors"

static void it_refuses_other_forms_in_part(void **state)
{
    static const struct {
        const char *form, *line;
        exg_status status;
        const char *code, *says;
    } rows[] = {
        {"ranks", "true", EXG_OK, "", ""},
        {"ranks", "rm __0.metadata", EXG_IO, "DCP-MISSING", "__0.metadata"},
        {"ranks", "rm __1.metadata", EXG_MALFORMED, "DCP-CHUNK", "elements"},
        {"ranks", "rm __1_0.distcp", EXG_IO, "DCP-MISSING", "__1_0.distcp"},
        {"ranks", "sed -i s/half/int8/ __1.metadata; sed -i s/float16/float64/ __1.metadata",
         EXG_MALFORMED, "", ""},
        {"zstd", "truncate -s 2000 __1_0.distcp", EXG_MALFORMED, "DCP-CHUNK", "too short"},
        {"zstd", "sed -i s/zstd/lzma/ .metadata", EXG_OK, "", ""},
        {"zstd", "cp __0_0.distcp __1_0.distcp", EXG_MALFORMED, "", ""},
        {"slices", "rm " SHARD(1), EXG_UNSUPPORTED, "STF-SLICE", "one rank"},
        {"slices", "rm " SHARD(2), EXG_UNSUPPORTED, "STF-SLICE", "one rank"},
        {"slices", "mv " SHARD(1) " x.safetensors; rm " SHARD(2), EXG_UNSUPPORTED, "STF-SLICE",
         "one rank"},
        {"slices", "mv " SHARD(2) " x.safetensors; rm " SHARD(1), EXG_UNSUPPORTED, "STF-SLICE",
         "is a slice"},
        {"slices", "cp " SHARD(2) " " SHARD(3), EXG_MALFORMED, "DCP-CHUNK", "on each other"},
        {"slices", "cp " SHARD(2) " " SHARD(3) "; rm " SHARD(1), EXG_MALFORMED, "DCP-CHUNK",
         "on each other"},
        {"slices", "sed -i s/saved_offsets/saved_offsetz/ " SHARD(2), EXG_MALFORMED, "STF-SLICE",
         "no saved_offsets"},
        {"slices", "truncate -s 1000 " SHARD(2), EXG_MALFORMED, "STF-OFFSETS", SHARD(2)},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_weights *weights;
        exg_error err;
        exg_status status = open_after(rows[r].form, rows[r].line, &weights, &err);

        exg_weights_release(weights);
        if (status != rows[r].status ||
            (rows[r].code[0] != '\0' && strcmp(err.code, rows[r].code) != 0) ||
            (strstr(err.message, rows[r].says) == NULL &&
             strstr(err.where, rows[r].says) == NULL)) {
            fail_msg("row %zu: %s %s %s", r, exg_status_name(status), err.code, err.message);
        }
    }
    empty_folder();
}

/* A rank may have nothing to save; that its file is not there is told all the same. */
static void it_tells_of_ranks_that_are_not_there(void **state)
{
    exg_weights *weights;
    exg_error err;

    (void)state;
    assert_int_equal(open_after("slices", "mv " SHARD(2) " " SHARD(4), &weights, &err), EXG_OK);
    assert_int_equal(weights->skipped_count, 2);
    assert_string_equal(weights->skipped[0].name, "shard-00002");
    assert_string_equal(weights->skipped[1].name, "shard-00003");
    exg_weights_release(weights);
    empty_folder();
}

/* In memory there are no files beside it. */
static void it_needs_the_folder(void **state)
{
    size_t length;
    uint8_t *data;
    exg_weights *weights;
    exg_error err;

    (void)state;
    copy_changed("", NULL, NULL, SIZE_MAX);
    data = read_file(".metadata", &length);
    assert_int_equal(exg_weights_open_memory(data, length, NULL, &weights, NULL, &err),
                     EXG_UNSUPPORTED);
    assert_string_equal(err.code, "DCP-METADATA");
    free(data);
    empty_folder();
}

/* ---- DeepSpeed ------------------------------------------------------------------------------- */

#define ZERO "fixtures/weights/zero/"

static void it_puts_the_ranks_of_zero_together(void **state)
{
    static const char *const stages[] = {"stage2", "stage3"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char path[200];
        char tagged[200];
        char want[200];
        exg_weights_format format;

        snprintf(path, sizeof(path), ZERO "%s", stages[i]);
        snprintf(tagged, sizeof(tagged), ZERO "%s/global_step2", stages[i]);
        snprintf(want, sizeof(want), ZERO "%s.expected.safetensors", stages[i]);
        assert_same_tensors(path, want);
        assert_same_tensors(tagged, want);
        assert_int_equal(exg_weights_sniff(path, NULL, &format, NULL), EXG_OK);
        assert_int_equal(format, EXG_WEIGHTS_FORMAT_ZERO);
    }
}

/* The files of a stage in the test's folder, but for one; `from` in another becomes `to`. */
static void copy_stage(int stage, const char *without, const char *changed, const char *from,
                       const char *to)
{
    static const char *const names[][4] = {
        {"mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt",
         "zero_pp_rank_1_mp_rank_00_optim_states.pt", NULL},
        {"zero_pp_rank_0_mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt",
         "zero_pp_rank_1_mp_rank_00_optim_states.pt", "zero_pp_rank_1_mp_rank_00_model_states.pt"}};

    empty_folder();
    for (size_t i = 0; i < 4; i++) {
        const char *name = names[stage - 2][i];
        char path[200];
        uint8_t data[16384];
        size_t length;
        FILE *file;

        if (name == NULL || (without != NULL && strcmp(name, without) == 0)) {
            continue;
        }
        snprintf(path, sizeof(path), ZERO "stage%d/global_step2/%s", stage, name);
        file = fopen(path, "rb");
        assert_non_null(file);
        length = fread(data, 1, sizeof(data), file);
        fclose(file);
        for (size_t at = 0;
             changed != NULL && strstr(name, changed) != NULL && at + strlen(from) <= length;
             at++) {
            if (memcmp(data + at, from, strlen(from)) == 0) {
                memcpy(data + at, to, strlen(from));
            }
        }
        /* The checksum of the pickle, whose bytes are others now, is left out. */
        for (size_t at = 0; changed != NULL && at + 20 < length; at++) {
            if (memcmp(data + at, "PK\3\4", 4) == 0) {
                memset(data + at + 14, 0, 4);
            } else if (memcmp(data + at, "PK\1\2", 4) == 0) {
                memset(data + at + 16, 0, 4);
            } else if (memcmp(data + at, "PK\7\10", 4) == 0) {
                memset(data + at + 4, 0, 4);
            }
        }
        write_file(name, data, length);
    }
}

static void it_refuses_ranks_that_do_not_fit(void **state)
{
    static const struct {
        int stage;
        const char *without, *changed, *from, *to;
        exg_status status;
        const char *code, *message;
    } rows[] = {
        {2, NULL, NULL, NULL, NULL, EXG_OK, "", ""},
        {3, NULL, NULL, NULL, NULL, EXG_OK, "", ""},
        {2, "zero_pp_rank_1_mp_rank_00_optim_states.pt", NULL, NULL, NULL, EXG_IO, "ZERO-MISSING",
         "zero_pp_rank_1_mp_rank_00_optim_states.pt"},
        {3, "zero_pp_rank_0_mp_rank_00_optim_states.pt", NULL, NULL, NULL, EXG_IO, "ZERO-MISSING",
         "zero_pp_rank_0_mp_rank_00_optim_states.pt"},
        {3, "zero_pp_rank_1_mp_rank_00_model_states.pt", NULL, NULL, NULL, EXG_IO, "ZERO-MISSING",
         "zero_pp_rank_1_mp_rank_00_model_states.pt"},
        {2, NULL, "optim", "zero_stage", "zero_stagX", EXG_MALFORMED, "ZERO-STATE", "ZeRO"},
        {2, NULL, "optim", "single_partition_of_fp32_groups", "single_partition_of_fp32_grouXX",
         EXG_MALFORMED, "ZERO-STATE", "float32"},
        {2, NULL, "model", "param_shapes", "param_shapeX", EXG_MALFORMED, "ZERO-STATE", "shapes"},
        {2, NULL, "model", "buffer_names", "buffer_nameX", EXG_MALFORMED, "ZERO-STATE", "buffers"},
        {3, NULL, "model", "frozen_param_fragments", "frozen_param_fragmentX", EXG_MALFORMED,
         "ZERO-STATE", "fragment"},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_weights *weights;
        exg_error err;
        exg_status status;

        copy_stage(rows[r].stage, rows[r].without, rows[r].changed, rows[r].from, rows[r].to);
        status = open_folder(in_folder("."), &weights, &err);
        exg_weights_release(weights);
        if (status != rows[r].status || strcmp(err.code, rows[r].code) != 0 ||
            strstr(err.message, rows[r].message) == NULL) {
            fail_msg("row %zu: %s %s %s", r, exg_status_name(status), err.code, err.message);
        }
    }
    empty_folder();
}

/* ---- chunks ------------------------------------------------------------------------------ */

typedef struct box {
    int64_t offsets[2], sizes[2];
} box;

/* A tensor of 4 rows and 6 columns that count from 0, cut at the boxes. */
static exg_status add_boxes(exg_weights *weights, const box *boxes, uint32_t count, exg_error *err)
{
    exg_sym_int whole[] = {exg_sym_int_of(4), exg_sym_int_of(6)};
    exg_tensor_meta meta = {
        .dtype = EXG_DTYPE_I32, .rank = 2, .sizes = whole, .device = {"cpu", -1}};
    exg_chunk_tensor *tensor;

    assert_int_equal(exg_chunk_tensor_create(weights, 2, count, &tensor, err), EXG_OK);
    tensor->sizes[0] = 4;
    tensor->sizes[1] = 6;
    for (uint32_t i = 0; i < count; i++) {
        const box *b = &boxes[i];
        uint64_t numel = (uint64_t)(b->sizes[0] * b->sizes[1]);
        int32_t *data = malloc(numel * sizeof(*data) + 1);
        exg_chunk_part *part = &tensor->parts[i];
        exg_tensor_meta *own = calloc(1, sizeof(*own));
        exg_sym_int *numbers = calloc(4, sizeof(*numbers));

        for (int64_t r = 0; r < b->sizes[0]; r++) {
            for (int64_t c = 0; c < b->sizes[1]; c++) {
                data[r * b->sizes[1] + c] = (int32_t)((b->offsets[0] + r) * 6 + b->offsets[1] + c);
            }
        }
        *own = meta;
        own->sizes = numbers;
        own->strides = numbers + 2;
        own->sizes[0] = exg_sym_int_of(b->sizes[0]);
        own->sizes[1] = exg_sym_int_of(b->sizes[1]);
        own->strides[0] = exg_sym_int_of(b->sizes[1]);
        own->strides[1] = exg_sym_int_of(1);
        assert_int_equal(exg_weights_own(weights, free, own, err), EXG_OK);
        assert_int_equal(exg_weights_own(weights, free, numbers, err), EXG_OK);
        memcpy(part->offsets, b->offsets, sizeof(b->offsets));
        memcpy(part->sizes, b->sizes, sizeof(b->sizes));
        part->weight.meta = own;
        assert_int_equal(exg_weights_add_bytes(weights, data, numel * sizeof(*data),
                                               exg_host_byte_order(), &part->weight.storage, err),
                         EXG_OK);
    }
    return exg_chunk_tensor_add(tensor, "w", &meta, err);
}

static const struct {
    uint32_t count;
    box boxes[5];
    const char *fault; /* in the message; NULL: none */
} cuts[] = {
    {1, {{{0, 0}, {4, 6}}}, NULL},
    {2, {{{0, 0}, {1, 6}}, {{1, 0}, {3, 6}}}, NULL},
    {2, {{{0, 2}, {4, 4}}, {{0, 0}, {4, 2}}}, NULL},
    {4, {{{0, 0}, {3, 5}}, {{0, 5}, {3, 1}}, {{3, 0}, {1, 1}}, {{3, 1}, {1, 5}}}, NULL},
    {3, {{{0, 0}, {4, 6}}, {{4, 0}, {0, 6}}, {{0, 6}, {4, 0}}}, NULL}, /* ranks without a row */
    {2, {{{0, 0}, {2, 6}}, {{3, 0}, {1, 6}}}, "hold 18 elements, the tensor has 24"},
    {2, {{{0, 0}, {2, 6}}, {{1, 0}, {2, 6}}}, "lie on each other"},
    {2, {{{0, 0}, {4, 6}}, {{0, 0}, {4, 6}}}, "lie on each other"},
    {2, {{{0, 0}, {2, 6}}, {{2, 0}, {3, 6}}}, "outside of its tensor"},
    {2, {{{0, 0}, {2, 6}}, {{2, 1}, {2, 6}}}, "outside of its tensor"},
    {0, {{{0, 0}, {0, 0}}}, "hold 0 elements"},
};

static void it_puts_chunks_together(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        exg_weights *weights;
        exg_error err;
        exg_status status;
        int32_t all[24];

        assert_int_equal(exg_weights_create(NULL, &weights, &err), EXG_OK);
        status = add_boxes(weights, cuts[i].boxes, cuts[i].count, &err);
        if (cuts[i].fault != NULL) {
            assert_int_equal(status, EXG_MALFORMED);
            assert_string_equal(err.code, "DCP-CHUNK");
            assert_non_null(strstr(err.message, cuts[i].fault));
            exg_weights_release(weights);
            continue;
        }
        assert_int_equal(status, EXG_OK);
        for (uint64_t first = 0; first < 96; first++) { /* also parts of elements */
            for (uint64_t length = 1; length <= 96 - first; length += 5) {
                uint8_t bytes[96];
                int32_t want[24];

                for (int32_t k = 0; k < 24; k++) {
                    want[k] = k;
                }
                assert_int_equal(exg_storage_read(weights, weights->items[0].storage, first, length,
                                                  bytes, &err),
                                 EXG_OK);
                assert_memory_equal(bytes, (const uint8_t *)want + first, length);
            }
        }
        assert_int_equal(exg_weight_read(weights, &weights->items[0], all, sizeof(all), &err),
                         EXG_OK);
        assert_int_equal(all[23], 23);
        exg_weights_release(weights);
    }
}

/* ---- writing ----------------------------------------------------------------------------------
 */

#define SOURCE "fixtures/mlp.inputs.safetensors" /* one tensor, x */

/* The rows [first, end) of `x`; end 0: all that are left. */
static exg_weights *rows(exg_weights *of, int64_t first, int64_t end)
{
    const exg_tensor_meta *meta = exg_weights_find(of, EXG_TABLE_STATE, "x")->meta;
    const int64_t offsets[] = {first, 0};
    const int64_t sizes[] = {(end == 0 ? meta->sizes[0].value : end) - first, meta->sizes[1].value};
    const exg_weight_slice slice = {"x", 2, offsets, sizes};
    exg_weights *made = NULL;

    assert_int_equal(meta->rank, 2);
    assert_int_equal(exg_weights_slice(of, &slice, 1, &made, NULL), EXG_OK);
    return made;
}

/* What two ranks have of it, in three files. */
typedef struct three {
    exg_weights *of;
    exg_rank_file files[3];
} three;

static three open_three(void)
{
    three t = {NULL, {{0, 0, NULL}, {1, 0, NULL}, {1, 1, NULL}}};
    exg_error err;

    assert_int_equal(open_folder(SOURCE, &t.of, &err), EXG_OK);
    t.files[0].weights = rows(t.of, 0, 1);
    t.files[1].weights = rows(t.of, 1, 2);
    t.files[2].weights = rows(t.of, 2, 0);
    return t;
}

static void close_three(three *t)
{
    for (size_t i = 0; i < 3; i++) {
        exg_weights_release(t->files[i].weights);
    }
    exg_weights_release(t->of);
}

static void clear_folder(const char *name)
{
    static const char *const names[] = {".metadata", "__0_0.distcp", "__1_0.distcp",
                                        "__1_1.distcp"};
    char path[200];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", name, names[i]);
        unlink(in_folder(path));
    }
    assert_int_equal(rmdir(in_folder(name)), 0);
}

static void it_writes_what_it_reads(void **state)
{
    exg_weights *of;
    exg_weights *parts[2];
    exg_error err;

    (void)state;
    assert_int_equal(open_folder(SOURCE, &of, &err), EXG_OK);
    parts[0] = rows(of, 0, 1);
    parts[1] = rows(of, 1, 0);
    assert_int_equal(exg_weights_save_ranks(parts, 2, in_folder("r/.metadata"), NULL, &err),
                     EXG_OK);
    assert_same_tensors(in_folder("r"), SOURCE);
    assert_int_equal(access(in_folder("r/__1_0.distcp"), F_OK), 0);
    assert_int_equal(exg_weights_save(of, in_folder("r/.metadata"), NULL, &err), EXG_USAGE);
    assert_string_equal(err.code, "IO-KIND");
    assert_same_tensors(in_folder("r"), SOURCE);
    clear_folder("r");
    assert_int_equal(exg_weights_save(of, in_folder("r/.metadata"), NULL, &err), EXG_OK);
    assert_same_tensors(in_folder("r"), SOURCE);
    assert_int_equal(access(in_folder("r/__1_0.distcp"), F_OK), -1);
    clear_folder("r");
    assert_int_equal(exg_weights_save(of, ".metadata", NULL, &err), EXG_USAGE);
    assert_int_equal(exg_weights_save(of, "/.metadata", NULL, &err), EXG_USAGE);
    exg_weights_release(parts[0]);
    exg_weights_release(parts[1]);
    exg_weights_release(of);
    assert_int_equal(exg_weights_format_from_path("a/.metadata"), EXG_WEIGHTS_FORMAT_DCP);
    assert_int_equal(exg_weights_format_from_path("a.metadata"), EXG_WEIGHTS_FORMAT_COUNT);
}

/* One begins, all write, the one ends it. */
static void several_processes_write(void **state)
{
    char path[200];
    three t = open_three();
    exg_ranks_save *save = NULL;
    exg_ranks_save *other = NULL;
    exg_error err;

    (void)state;
    snprintf(path, sizeof(path), "%s", in_folder("r/.metadata"));
    assert_int_equal(exg_ranks_save_begin(in_folder("r"), &save, &err), EXG_USAGE);
    assert_string_equal(err.code, "TNS-NAME");
    assert_int_equal(exg_ranks_save_file(&t.files[0], in_folder("r"), NULL, &err), EXG_USAGE);
    assert_int_equal(exg_ranks_save_file(&t.files[0], path, NULL, &err), EXG_IO); /* not begun */
    assert_int_equal(exg_ranks_save_begin(path, &save, &err), EXG_OK);
    assert_int_equal(exg_ranks_save_begin(path, &other, &err), EXG_IO);
    assert_string_equal(err.code, "IO-BUSY");
    for (size_t i = 3; i-- > 0;) {
        assert_int_equal(exg_ranks_save_file(&t.files[i], path, NULL, &err), EXG_OK);
    }
    assert_int_equal(access(in_folder("r"), F_OK), -1);
    assert_int_equal(exg_ranks_save_end(save, t.files, 3, &err), EXG_OK);
    assert_same_tensors(in_folder("r"), SOURCE);
    assert_int_equal(access(in_folder("r/__1_1.distcp"), F_OK), 0);
    assert_int_equal(access(in_folder("r.part"), F_OK), -1);
    clear_folder("r");

    assert_int_equal(exg_ranks_save_begin(path, &save, &err), EXG_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(exg_ranks_save_file(&t.files[i], path, NULL, &err), EXG_OK);
    }
    assert_int_equal(exg_ranks_save_join(save, t.files, 3, in_folder("m.safetensors"), NULL, &err),
                     EXG_OK);
    assert_same_tensors(in_folder("m.safetensors"), SOURCE);
    assert_int_equal(access(in_folder("r"), F_OK), -1);
    assert_int_equal(access(in_folder("r.part"), F_OK), -1);
    assert_int_equal(unlink(in_folder("m.safetensors")), 0);
    close_three(&t);
}

/* Nothing of what was written stays. */
static void it_leaves_nothing_of_what_it_gives_up(void **state)
{
    char path[200];
    three t = open_three();
    exg_ranks_save *save = NULL;
    exg_error err;

    (void)state;
    snprintf(path, sizeof(path), "%s", in_folder("r/.metadata"));
    assert_int_equal(exg_ranks_save_begin(path, &save, &err), EXG_OK);
    assert_int_equal(exg_ranks_save_file(&t.files[0], path, NULL, &err), EXG_OK);
    exg_ranks_save_abort(save);
    exg_ranks_save_abort(NULL);
    assert_int_equal(access(in_folder("r.part"), F_OK), -1);

    /* Another dtype than the other's */
    t.files[1].weights->items[0].meta->dtype = EXG_DTYPE_I32;
    assert_int_equal(exg_ranks_save_begin(path, &save, &err), EXG_OK);
    assert_int_equal(exg_ranks_save_file(&t.files[0], path, NULL, &err), EXG_OK);
    assert_int_equal(exg_ranks_save_end(save, t.files, 2, &err), EXG_USAGE);
    assert_string_equal(err.code, "DCP-CHUNK");
    assert_int_equal(access(in_folder("r.part"), F_OK), -1);
    assert_int_equal(access(in_folder("r"), F_OK), -1);
    assert_int_equal(empty_folder(), 0);
    close_three(&t);
}

static void make_old(const char *path)
{
    assert_int_equal(utimensat(AT_FDCWD, path, (const struct timespec[2]){{0, 0}, {0, 0}}, 0), 0);
}

static bool is_old(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_mtim.tv_sec == 0;
}

/* Saved up to `count` files, and given up. */
static void save_some(const three *t, const char *path, size_t count)
{
    const exg_weights_save_options options = {.size = sizeof(options), .resume = true};
    exg_ranks_save *save = NULL;
    exg_error err;

    assert_int_equal(exg_ranks_save_resume(path, &save, &err), EXG_OK);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(exg_ranks_save_file(&t->files[i], path, &options, &err), EXG_OK);
    }
    exg_ranks_save_abort(save);
}

/* What processes wrote of a save that was stopped is not written again, where it is the same. */
static void several_processes_go_on(void **state)
{
    const exg_weights_save_options options = {.size = sizeof(options), .resume = true};
    const exg_weights_save_options too_large = {
        .size = sizeof(too_large), .resume = true, .align = 3};
    char path[200];
    three t = open_three();
    three other = open_three();
    exg_ranks_save *save = NULL;
    exg_error err;

    (void)state;
    snprintf(path, sizeof(path), "%s", in_folder("r/.metadata"));
    save_some(&t, path, 0); /* nothing to go on with */
    assert_int_equal(access(in_folder("r.part"), F_OK), -1);
    for (int joins = 0; joins < 2; joins++) {
        save_some(&t, path, 3);
        assert_int_equal(access(in_folder("r"), F_OK), -1);
        for (size_t i = 0; i < 3; i++) {
            static const char *const names[] = {"r.part/__0_0.distcp", "r.part/__1_0.distcp",
                                                "r.part/__1_1.distcp"};

            make_old(in_folder(names[i]));
        }
        write_file("r.part/__9_0.distcp", "x", 1); /* of a save of more ranks */
        assert_int_equal(truncate(in_folder("r.part/__1_1.distcp"), 100), 0);
        exg_weights_release(t.files[1].weights); /* the same bytes of other storages; others */
        t.files[1].weights = rows(other.of, joins, joins + 1);
        assert_int_equal(exg_ranks_save_resume(path, &save, &err), EXG_OK);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(exg_ranks_save_file(&t.files[i], path, &options, &err), EXG_OK);
        }
        assert_true(is_old(in_folder("r.part/__0_0.distcp")));
        assert_int_equal(is_old(in_folder("r.part/__1_0.distcp")), joins == 1);
        assert_false(is_old(in_folder("r.part/__1_1.distcp")));
        if (joins == 0) {
            exg_weights_release(t.files[1].weights);
            t.files[1].weights = rows(t.of, 1, 2);
            assert_int_equal(exg_ranks_save_file(&t.files[1], path, &options, &err), EXG_OK);
            assert_int_equal(exg_ranks_save_end(save, t.files, 3, &err), EXG_OK);
            assert_same_tensors(in_folder("r"), SOURCE);
            clear_folder("r"); /* nothing else is in it */
        } else {               /* what cannot be put together stays, too */
            assert_int_equal(
                exg_ranks_save_join(save, t.files, 3, in_folder("m.safetensors"), &too_large, &err),
                EXG_USAGE);
            assert_int_equal(access(in_folder("r.part/__1_0.distcp"), F_OK), 0);
            make_old(in_folder("r.part/.metadata"));
            assert_int_equal(exg_ranks_save_resume(path, &save, &err), EXG_OK);
            assert_int_equal(
                exg_ranks_save_join(save, t.files, 3, in_folder("m.safetensors"), &options, &err),
                EXG_OK);
            assert_same_tensors(in_folder("m.safetensors"), SOURCE);
            assert_int_equal(access(in_folder("r.part"), F_OK), -1);
            assert_int_equal(unlink(in_folder("m.safetensors")), 0);
        }
    }
    assert_int_equal(empty_folder(), 0);
    close_three(&t);
    close_three(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_opens_a_folder_as_whole_tensors),
        cmocka_unit_test(it_copies_no_chunk_that_is_whole),
        cmocka_unit_test(it_refuses_what_is_not_whole),
        cmocka_unit_test(it_names_every_file_that_is_missing),
        cmocka_unit_test(it_opens_what_other_writers_save),
        cmocka_unit_test(it_refuses_other_forms_in_part),
        cmocka_unit_test(it_tells_of_ranks_that_are_not_there),
        cmocka_unit_test(it_needs_the_folder),
        cmocka_unit_test(it_puts_the_ranks_of_zero_together),
        cmocka_unit_test(it_refuses_ranks_that_do_not_fit),
        cmocka_unit_test(it_puts_chunks_together),
        cmocka_unit_test(it_writes_what_it_reads),
        cmocka_unit_test(several_processes_write),
        cmocka_unit_test(several_processes_go_on),
        cmocka_unit_test(it_leaves_nothing_of_what_it_gives_up),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
