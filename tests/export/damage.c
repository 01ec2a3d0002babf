/* damage.c - a bit that turned over in a file is told by whoever moves the bytes: no way out
 * of a damaged file gives a sound one. */
#include <exg/formats.h>

#include "tests/export/exg_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A file in memory of the test's own, and the program in it. */
typedef struct damaged {
    uint8_t *data;
    size_t length;
    exg_program *program;
} damaged;

static damaged open_copy(const uint8_t *data, size_t length)
{
    damaged d = {.data = malloc(length), .length = length};

    memcpy(d.data, data, length);
    assert_int_equal(exg_open_memory(d.data, length, NULL, &d.program, NULL, NULL), EXG_OK);
    return d;
}

static void close_copy(damaged *d)
{
    exg_program_destroy(d->program);
    free(d->data);
}

static void take(exg_program *program, exg_weights *made)
{
    exg_weights_release(program->weights);
    program->weights = made;
}

/* ---- ways out ---------------------------------------------------------------------------------
 */

static exg_status save_as(const exg_program *p, exg_format format, exg_save_options options,
                          exg_error *err)
{
    options.size = sizeof(options);
    return exg_save(p, in_folder("out"), format, &options, err);
}

static exg_status to_pt2(exg_program *p, exg_error *err)
{
    return save_as(p, EXG_FORMAT_PT2, (exg_save_options){0}, err);
}

static exg_status to_exg(exg_program *p, exg_error *err)
{
    return save_as(p, EXG_FORMAT_EXG, (exg_save_options){.align = 128}, err);
}

static exg_status to_frames(exg_program *p, exg_error *err)
{
    return save_as(p, EXG_FORMAT_EXG,
                   (exg_save_options){.compression = EXG_COMPRESSION_ZSTD, .deduplicate = true},
                   err);
}

static exg_status to_files_beside(exg_program *p, exg_error *err)
{
    return save_as(p, EXG_FORMAT_EXG,
                   (exg_save_options){.weights = EXG_WEIGHTS_EXTERNAL, .split = 4096}, err);
}

static exg_status to_resumed(exg_program *p, exg_error *err)
{
    exg_status status = save_as(p, EXG_FORMAT_EXG, (exg_save_options){.resume = true}, err);

    empty_folder(); /* OUT.part is what resuming leaves */
    return status;
}

static exg_status to_json(exg_program *p, exg_error *err)
{
    return save_as(p, EXG_FORMAT_EARLY_JSON, (exg_save_options){0}, err);
}

static exg_status to_json_beside(exg_program *p, exg_error *err)
{
    return save_as(p, EXG_FORMAT_EARLY_JSON, (exg_save_options){.weights = EXG_WEIGHTS_EXTERNAL},
                   err);
}

static exg_status to_safetensors(exg_program *p, exg_error *err)
{
    return exg_weights_save(p->weights, in_folder("out.safetensors"), NULL, err);
}

static exg_status to_big_endian(exg_program *p, exg_error *err)
{
    exg_weights *made;

    EXG_TRY(exg_weights_in_order(p->weights, EXG_BIG_ENDIAN, &made, err));
    take(p, made);
    return to_exg(p, err);
}

static exg_status to_big_endian_and_back(exg_program *p, exg_error *err)
{
    exg_weights *made;

    EXG_TRY(exg_weights_in_order(p->weights, EXG_BIG_ENDIAN, &made, err));
    take(p, made);
    return to_pt2(p, err);
}

static exg_status to_stripped(exg_program *p, exg_error *err)
{
    exg_weights *made;

    EXG_TRY(exg_weights_strip(p->weights, &made, err));
    take(p, made);
    return to_pt2(p, err);
}

static exg_status to_digest(exg_program *p, exg_error *err)
{
    char text[EXG_DIGEST_TEXT_MAX];

    return exg_weights_digest(p->weights, EXG_CHECKSUM_XXH3_128, 0, text, err);
}

static exg_status to_values(exg_program *p, exg_error *err)
{
    for (uint32_t i = 0; i < p->weights->count; i++) {
        uint64_t bytes = 0;
        uint8_t *data;
        exg_status status;

        if (p->weights->items[i].meta == NULL || p->weights->items[i].use_pickle) {
            continue;
        }
        EXG_TRY(exg_tensor_meta_bytes(p->weights->items[i].meta, &bytes, err));
        data = malloc(bytes + 1);
        status = exg_weight_read_range(p->weights, &p->weights->items[i], 0, bytes > 0, data, err);
        free(data);
        EXG_TRY(status);
    }
    return EXG_OK;
}

typedef enum outgoing { ALL, RECORDS, WEIGHTS, NOT_STATE } outgoing;

static const struct way {
    const char *name;
    exg_status (*go)(exg_program *p, exg_error *err);
    outgoing what;
} ways[] = {
    {"pt2", to_pt2, RECORDS},
    {"exg", to_exg, ALL},
    {"frames", to_frames, ALL},
    {"beside", to_files_beside, ALL},
    {"resumed", to_resumed, ALL},
    {"json", to_json, ALL},
    {"json beside", to_json_beside, ALL},
    {"safetensors", to_safetensors, WEIGHTS},
    {"big endian", to_big_endian, ALL},
    {"big endian and back", to_big_endian_and_back, RECORDS},
    {"stripped", to_stripped, NOT_STATE},
    {"digest", to_digest, WEIGHTS},
    {"values", to_values, WEIGHTS},
};

/* Are the bytes of the storage among what goes out? */
static bool goes_out(const exg_program *p, uint32_t storage, outgoing what)
{
    bool is_weight = false;
    bool is_state = false;
    bool is_record = false; /* what a .pt2 is made of; sample inputs are in one */

    for (uint32_t i = 0; i < p->weights->count; i++) {
        const exg_weight *weight = &p->weights->items[i];

        if (weight->storage == storage) {
            is_weight = is_weight || (weight->meta != NULL && !weight->use_pickle);
            is_state = is_state || weight->table == EXG_TABLE_STATE;
            is_record = true;
        }
    }
    for (uint32_t i = 0; i < p->extra_file_count; i++) {
        is_record = is_record || p->extra_files[i].storage == storage;
    }
    switch (what) {
    case WEIGHTS:
        return is_weight;
    case RECORDS:
        return is_record;
    case NOT_STATE:
        return is_record && !is_state;
    default:
        return true;
    }
}

/* Turns a bit of the storage over and tries one way out; false: nothing goes out there. */
static bool damage(damaged *d, uint32_t storage, const struct way *way, const char *name)
{
    const exg_storage *s = &d->program->weights->storages[storage];
    exg_error err;
    exg_status status;

    if (s->length == 0 || s->data == NULL || !goes_out(d->program, storage, way->what)) {
        return false;
    }
    exg_error_clear(&err);
    d->data[s->data - d->data + (s->frames == NULL ? (ptrdiff_t)s->length / 2 : 0)] ^= 0x40;
    status = way->go(d->program, &err);
    if (status != EXG_MALFORMED || empty_folder() != 0) {
        fail_msg("%s, storage %u, %s: %d %s", name, storage, way->name, (int)status, err.message);
    }
    assert_string_equal(err.code, s->frames == NULL ? "ARC-012" : "EXG-022");
    return true;
}

/* Every storage of the file, by every way out. */
static void damage_each(const char *name, const uint8_t *data, size_t length)
{
    damaged first = open_copy(data, length);
    uint32_t count = first.program->weights->storage_count;
    uint32_t tried = 0;

    close_copy(&first);
    for (uint32_t i = 0; i < count; i++) {
        for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
            damaged d = open_copy(data, length);

            tried += damage(&d, i, &ways[w], name);
            close_copy(&d);
        }
    }
    assert_true(tried > 0);
}

static void a_damaged_program_goes_nowhere(void **state)
{
    static const char *const paths[] = {
        "fixtures/mlp.pt2",         "fixtures/mlp.layout-2.2.pt2", "fixtures/mlp.layout-2.8.pt2",
        "fixtures/examples.pt2",    "fixtures/tied.pt2",           "fixtures/constants.pt2",
        "fixtures/bad/ARC-019.pt2", /* an extra file */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        size_t length;
        uint8_t *data = read_path(paths[i], &length);

        damage_each(paths[i], data, length);
        free(data);
    }
}

static void a_damaged_exg_goes_nowhere(void **state)
{
    exg_save_options options = {.size = sizeof(options)};
    exg_program *p = open_program("fixtures/lm.core.dynamic.pt2");

    (void)state;
    for (int zstd = 0; zstd < 2; zstd++) {
        size_t length;
        uint8_t *data;

        options.compression = zstd == 1 ? EXG_COMPRESSION_ZSTD : EXG_COMPRESSION_NONE;
        save_program(p, "kept", &options);
        data = read_file("kept", &length);
        empty_folder();
        damage_each(zstd == 1 ? "zstd" : "plain", data, length);
        free(data);
    }
    exg_program_destroy(p);
}

/* From a damaged file into a sound program. */
static void damaged_weights_do_not_fill(void **state)
{
    exg_program *p = open_program("fixtures/mlp.pt2");
    size_t length;
    uint8_t *data = read_path("fixtures/mlp.pt2", &length);
    damaged d = open_copy(data, length);
    const exg_storage *storage = &d.program->weights->storages[0];
    exg_mismatches mismatches;
    exg_weights *made;
    exg_error err;

    (void)state;
    d.data[storage->data - d.data] ^= 1;
    assert_int_equal(
        exg_weights_fill(p->weights, d.program->weights, false, &made, &mismatches, &err),
        EXG_OK); /* reads nothing yet */
    exg_mismatches_free(&mismatches);
    take(p, made);
    assert_int_equal(to_pt2(p, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "ARC-012");
    assert_int_equal(to_exg(p, &err), EXG_MALFORMED);
    assert_int_equal(to_safetensors(p, &err), EXG_MALFORMED);
    assert_int_equal(empty_folder(), 0);
    exg_program_destroy(p);
    close_copy(&d);
    free(data);
}

/* Files of tensors with checksums: by every way that a tensor takes out of them. */
static void damaged_tensors_go_nowhere(void **state)
{
    static const char *const paths[] = {"fixtures/weights/stored.npz",
                                        "fixtures/weights/nested.pt"};

    (void)state;
    for (size_t f = 0; f < 2; f++) {
        size_t length;
        uint8_t *data = read_path(paths[f], &length);
        uint32_t count = 1;

        for (uint32_t i = 0; i < count; i++) {
            exg_tensor_file *file;
            exg_weights *weights;
            exg_error err;

            assert_int_equal(exg_weights_open_memory(data, length, NULL, &weights, NULL, NULL),
                             EXG_OK);
            count = weights->storage_count;
            if (weights->storages[i].length > 0) {
                uint8_t *byte = data + (weights->storages[i].data - data);

                *byte ^= 1;
                assert_int_equal(
                    exg_weights_save(weights, in_folder("out.safetensors"), NULL, &err),
                    EXG_MALFORMED);
                assert_string_equal(err.code, "ARC-012");
                assert_int_equal(exg_tensor_file_open_memory(data, length, &file, &err),
                                 EXG_MALFORMED);
                assert_string_equal(err.code, "ARC-012");
                *byte ^= 1;
            }
            exg_weights_release(weights);
        }
        assert_int_equal(empty_folder(), 0);
        free(data);
    }
}

/* A name in the pickle is data too. */
static void a_damaged_pickle_is_not_read(void **state)
{
    size_t length;
    uint8_t *data = read_path("fixtures/weights/nested.pt", &length);
    uint8_t *name = memmem(data, length, "parameter", 9);
    exg_weights *weights;
    exg_error err;

    (void)state;
    assert_non_null(name);
    *name = 'q';
    assert_int_equal(exg_weights_open_memory(data, length, NULL, &weights, NULL, &err),
                     EXG_MALFORMED);
    assert_string_equal(err.code, "ARC-012");
    free(data);
}

/* Where the caller says so what is read is not looked at; what is written from it is. */
static void trusted_weights_are_read_as_they_are(void **state)
{
    const exg_open_options options = {.size = sizeof(options), .no_check = true};
    size_t length;
    uint8_t *data = read_path("fixtures/mlp.pt2", &length);
    damaged d = open_copy(data, length);
    ptrdiff_t at = d.program->weights->storages[0].data - d.data;
    exg_program *p;
    exg_error err;

    (void)state;
    data[at] ^= 1;
    assert_int_equal(exg_open_memory(data, length, &options, &p, NULL, &err), EXG_OK);
    assert_int_equal(to_values(p, &err), EXG_OK);
    assert_int_equal(to_pt2(p, &err), EXG_MALFORMED);
    exg_program_destroy(p);
    close_copy(&d);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_damaged_program_goes_nowhere),
        cmocka_unit_test(a_damaged_exg_goes_nowhere),
        cmocka_unit_test(damaged_weights_do_not_fill),
        cmocka_unit_test(damaged_tensors_go_nowhere),
        cmocka_unit_test(a_damaged_pickle_is_not_read),
        cmocka_unit_test(trusted_weights_are_read_as_they_are),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
