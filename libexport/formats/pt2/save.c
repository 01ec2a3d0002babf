/* save.c - .pt2 written: the records of docs/pt2.md 2.2 in torch's order, generation D.
 *
 * A storage that several weights of a table share is one record; a .pt2 cannot share
 * between state and constants, compress, or keep bytes outside, so frames and external
 * storages are written plain. Bytes become little endian. A model's sample inputs are the
 * record they came in, kept among the extra files. Records of several programs are numbered on
 * from one to the next.
 */
#include "libexport/formats/early/early.h"
#include "libexport/formats/format.h"
#include "libexport/formats/pt2/encode.h"
#include "libexport/formats/pt2/release.h"
#include "libexport/formats/pt2/zip_writer.h"

#include "libexport/base/arena.h"
#include "libexport/base/files.h"
#include "libexport/program/python.h"
#include "libexport/weights/storage.h"

#include <stdlib.h>
#include <string.h>

enum { TABLES = 2 };

typedef struct saver {
    const exg_program *const *programs;
    uint32_t count;
    const exg_program *program;  /* at hand */
    uint32_t numbers[TABLES][3]; /* of the next records, by table and kind */
    exg_map extras;              /* names of those that are written -> program */
    const exg_save_options *options;
    exg_zip_writer zip;
    exg_arena *arena;
    exg_pool *pool;
    uint8_t *block; /* EXG_FRAME_BYTES, a multiple of every element's size */
    uint64_t done, total;
    exg_error *err;
} saver;

typedef struct table_row {
    exg_weight_table table;
    const char *folder;
    const char *tensor; /* how its records of tensors are called, before a number */
    const char *config;
} table_row;

static const table_row tables[TABLES] = {
    {EXG_TABLE_STATE, "data/weights/", "weight_", "_weights_config.json"},
    {EXG_TABLE_CONSTANTS, "data/constants/", "tensor_", "_constants_config.json"},
};

/* ---- bytes -------------------------------------------------------------------------------- */

/* A storage on its way into the member at hand. */
typedef struct passage {
    saver *s;
    exg_dtype swapped; /* what big endian bytes are; EXG_DTYPE_COUNT: they stay as they are */
} passage;

static exg_status write_block(void *user, const uint8_t *bytes, uint64_t length, exg_error *err)
{
    const passage *p = user;
    saver *s = p->s;

    if (p->swapped != EXG_DTYPE_COUNT) {
        memcpy(s->block, bytes, (size_t)length);
        exg_bytes_swap(s->block, length, p->swapped);
        bytes = s->block;
    }
    EXG_TRY(exg_zip_write(&s->zip, bytes, length, err));
    s->done += length;
    if (s->options->progress != NULL) {
        s->options->progress(s->options->user, s->done, s->total);
    }
    return EXG_OK;
}

/* Its checksum is compared on the way: the member gets one of its own. */
static exg_status write_storage(saver *s, uint32_t storage, exg_dtype dtype)
{
    bool is_big = s->program->weights->storages[storage].byte_order == EXG_BIG_ENDIAN;
    passage p = {s, is_big ? dtype : EXG_DTYPE_COUNT};

    return exg_storage_stream(s->program->weights, storage, s->pool, write_block, &p, s->err);
}

static exg_status put_storage(saver *s, const char *name, uint32_t storage, exg_dtype dtype)
{
    EXG_TRY(exg_zip_begin(&s->zip, name, s->program->weights->storages[storage].length, s->err));
    EXG_TRY_IN(s->err, write_storage(s, storage, dtype), "%s", name);
    return exg_zip_end(&s->zip, name, s->err);
}

static exg_status put_text(saver *s, const char *name, const exg_text *text)
{
    EXG_TRY(exg_json_written(text, s->err));
    return exg_zip_put(&s->zip, name, exg_text_string(text), text->length, s->err);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Objects that were pickled keep the name that says how: a zip is a torchbind object's,
 * anything else an opaque one. */
static exg_status name_stem(saver *s, const table_row *row, const exg_weight *weight,
                            const char **stem)
{
    char head[2] = {0, 0};
    uint64_t length = s->program->weights->storages[weight->storage].length;

    *stem = row->tensor;
    if (weight->meta == NULL) {
        EXG_TRY(exg_storage_read_with(s->program->weights, weight->storage, 0,
                                      length < 2 ? length : 2, head, NULL, s->err));
        *stem = memcmp(head, "PK", 2) == 0 ? "custom_obj_" : "opaque_obj_";
    }
    return EXG_OK;
}

/* The number of the next record of this name. */
static uint32_t *counter(uint32_t counters[3], const char *stem)
{
    return &counters[stem[0] == 'c' ? 0 : stem[0] == 'o' ? 1 : 2];
}

static void put_payload_meta(exg_text *config, const exg_weight *weight, const char *path_name)
{
    exg_json_member_open(config, weight->fqn, '{');
    exg_json_member_text(config, "path_name", path_name);
    exg_json_member_bool(config, "is_param", weight->is_param);
    exg_json_member_bool(config, "use_pickle", weight->use_pickle);
    exg_json_put_key(config, "tensor_meta");
    if (weight->meta == NULL) {
        exg_json_put_null(config);
    } else {
        exg_encode_plain(config, EXG_MODEL_TENSOR_META, weight->meta);
    }
    exg_json_put_close(config, '}');
}

static exg_status put_weight(saver *s, const table_row *row, const exg_weight *weight,
                             const char **paths, uint32_t counters[3], exg_text *config)
{
    const char *path = paths[weight->storage];

    if (path == NULL) {
        const char *stem = NULL;
        const char *name;

        EXG_TRY(name_stem(s, row, weight, &stem));
        path = exg_arena_printf(s->arena, "%s%u", stem, (*counter(counters, stem))++);
        name = exg_arena_printf(s->arena, "%s%s", row->folder, path == NULL ? "" : path);
        if (path == NULL || name == NULL) {
            return EXG_OUT_OF_MEMORY(s->err);
        }
        EXG_TRY(put_storage(s, name, weight->storage,
                            weight->meta == NULL || weight->use_pickle ? EXG_DTYPE_COUNT
                                                                       : weight->meta->dtype));
        paths[weight->storage] = path;
    }
    put_payload_meta(config, weight, path);
    return EXG_OK;
}

static exg_status put_table(saver *s, const table_row *row)
{
    const exg_weights *weights = s->program->weights;
    const char **paths = EXG_NEW_ARRAY(s->arena, const char *, weights->storage_count);
    const char *name =
        exg_arena_printf(s->arena, "%s%s%s", row->folder, s->program->name, row->config);
    exg_text config = EXG_TEXT_EMPTY;
    exg_status status = paths == NULL || name == NULL ? EXG_OUT_OF_MEMORY(s->err) : EXG_OK;

    exg_json_put_open(&config, '{');
    exg_json_member_open(&config, "config", '{');
    for (uint32_t i = 0; i < weights->count && status == EXG_OK; i++) {
        if (weights->items[i].table == row->table) {
            status =
                put_weight(s, row, &weights->items[i], paths, s->numbers[row - tables], &config);
        }
    }
    exg_json_put_close(&config, '}');
    exg_json_put_close(&config, '}');
    if (status == EXG_OK) {
        status = put_text(s, name, &config);
    }
    exg_text_free(&config);
    return status;
}

/* ---- the rest ------------------------------------------------------------------------------- */

/* The schema of the release that shall read it, where that is older. */
static exg_status set_minor(const saver *s, exg_program *program)
{
    int64_t minor;

    if (s->options->release != NULL) {
        EXG_TRY(exg_pt2_minor_of(s->options->release, &minor, s->err));
        EXG_TRY(exg_pt2_check_minor(program, minor, s->err));
        program->schema_minor = minor < program->schema_minor ? minor : program->schema_minor;
    }
    return EXG_OK;
}

static exg_status put_model(saver *s)
{
    const char *name = exg_arena_printf(s->arena, "models/%s.json", s->program->name);
    exg_text json = EXG_TEXT_EMPTY;
    exg_program program = *s->program;
    exg_status status = name == NULL ? EXG_OUT_OF_MEMORY(s->err) : set_minor(s, &program);

    status = status == EXG_OK ? exg_encode_program(&program, &json, s->err) : status;

    if (status == EXG_OK) {
        status = put_text(s, name, &json);
    }
    exg_text_free(&json);
    return status;
}

/* Reads a block of the same place of both. */
static exg_status same_block(saver *s, exg_weights *weights[2], const uint32_t storages[2],
                             uint64_t at, uint64_t part, bool *same)
{
    uint8_t *blocks[2] = {s->block, s->block + EXG_FRAME_BYTES / 2};

    for (int i = 0; i < 2; i++) {
        EXG_TRY(exg_storage_read(weights[i], storages[i], at, part, blocks[i], s->err));
    }
    *same = memcmp(blocks[0], blocks[1], (size_t)part) == 0;
    return EXG_OK;
}

/* Is an extra file what the program `other` has under this name? */
static exg_status check_extra(saver *s, const exg_extra_file *file, uint32_t other)
{
    const exg_program *before = s->programs[other];
    exg_weights *weights[2] = {s->program->weights, before->weights};
    uint32_t storages[2] = {file->storage, 0};
    uint64_t length = weights[0]->storages[file->storage].length;
    bool same = false;

    for (uint32_t i = 0; i < before->extra_file_count; i++) {
        if (strcmp(before->extra_files[i].name, file->name) == 0) {
            storages[1] = before->extra_files[i].storage;
            same = weights[1]->storages[storages[1]].length == length;
        }
    }
    for (uint64_t at = 0; same && at < length; at += EXG_FRAME_BYTES / 2) {
        uint64_t part = length - at < EXG_FRAME_BYTES / 2 ? length - at : EXG_FRAME_BYTES / 2;

        EXG_TRY(same_block(s, weights, storages, at, part, &same));
    }
    return same ? EXG_OK
                : EXG_FAIL(s->err, UNSUPPORTED, "FMT-EXTRA",
                           "the programs '%s' and '%s' have other files under the name %s",
                           before->name, s->program->name, file->name);
}

/* Of one program: its sample inputs, which are a record of their own, or the others. */
static exg_status put_extra_files(saver *s, uint32_t index, bool samples)
{
    const exg_program *program = s->program;
    const char *name = exg_arena_printf(s->arena, EXG_SAMPLES_FOLDER "%s.pt", program->name);
    bool has_samples = false;

    if (name == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < program->extra_file_count; i++) {
        const exg_extra_file *file = &program->extra_files[i];
        uint32_t before = exg_map_find(&s->extras, file->name);
        bool is_samples = strcmp(file->name, name) == 0;

        has_samples = has_samples || is_samples;
        if (is_samples != samples) {
            continue;
        }
        if (before != EXG_MAP_NONE) {
            EXG_TRY(check_extra(s, file, before));
            continue;
        }
        if (!exg_map_put(&s->extras, file->name, index)) {
            return EXG_OUT_OF_MEMORY(s->err);
        }
        EXG_TRY(put_storage(s, file->name, file->storage, EXG_DTYPE_COUNT));
    }
    return samples && !has_samples ? exg_zip_put(&s->zip, name, "", 0, s->err) : EXG_OK;
}

static exg_status put_program(saver *s, uint32_t index)
{
    s->program = s->programs[index];
    for (size_t i = 0; i < TABLES; i++) {
        EXG_TRY(put_table(s, &tables[i]));
    }
    EXG_TRY(put_model(s));
    return put_extra_files(s, index, true);
}

static exg_status put_records(saver *s)
{
    static const char *const marks[][2] = {
        {"archive_format", "pt2"},
        {"archive_version", "0"},
        {".data/version", "6\n"},
        {"byteorder", "little"},
    };

    for (uint32_t p = 0; p < s->count; p++) {
        exg_status status = put_program(s, p);

        if (status != EXG_OK) {
            return s->count == 1 ? status
                                 : exg_error_within(s->err, status, "%s", s->program->name);
        }
    }
    for (uint32_t p = 0; p < s->count; p++) {
        s->program = s->programs[p];
        EXG_TRY(put_extra_files(s, p, false));
    }
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        EXG_TRY(exg_zip_put(&s->zip, marks[i][0], marks[i][1], strlen(marks[i][1]), s->err));
    }
    return exg_zip_finish(&s->zip, s->err);
}

/* The root folder is the file's name up to its last point, as torch has it. */
static const char *root_of(exg_arena *arena, const char *path)
{
    char stem[EXG_STEM_MAX + 1];

    exg_path_stem(path, stem);
    return exg_arena_printf(arena, "%s/", stem);
}

static uint64_t count_bytes(const exg_program *const *programs, uint32_t count)
{
    uint64_t total = 0;

    for (uint32_t p = 0; p < count; p++) {
        for (uint32_t i = 0; i < programs[p]->weights->storage_count; i++) {
            total += programs[p]->weights->storages[i].length;
        }
    }
    return total;
}

static exg_status check_options(const exg_save_options *options, exg_error *err)
{
    if (options->compression == EXG_COMPRESSION_ZSTD || options->weights == EXG_WEIGHTS_EXTERNAL) {
        return exg_error_fix(err,
                             EXG_FAIL(err, UNSUPPORTED, "PT2-003",
                                      ".pt2 files hold their weights inside, as they are"),
                             "write .exg to compress weights or keep them outside");
    }
    if (options->release != NULL) { /* before the first byte */
        int64_t minor;

        return exg_pt2_minor_of(options->release, &minor, err);
    }
    return EXG_OK;
}

static exg_status save(const exg_program *const *programs, uint32_t count, const char *path,
                       const exg_save_options *options, exg_error *err)
{
    saver s = {.programs = programs, .count = count, .options = options, .err = err};
    exg_status status;

    EXG_TRY(check_options(options, err));
    s.total = count_bytes(programs, count);
    s.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    s.block = malloc(EXG_FRAME_BYTES);
    exg_map_init(&s.extras, s.arena);
    s.zip.arena = s.arena;
    s.zip.root = s.arena == NULL ? NULL : root_of(s.arena, path);
    status = s.block == NULL || s.zip.root == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    status = status == EXG_OK ? exg_pool_create(options->threads, &s.pool, err) : status;
    status = status == EXG_OK ? exg_save_open(options, path, &s.zip.file, err) : status;
    if (status == EXG_OK) {
        status = put_records(&s);
        if (status == EXG_OK) {
            status = exg_writer_commit(s.zip.file, err);
        } else {
            exg_writer_abort(s.zip.file);
        }
    }
    exg_zip_writer_free(&s.zip);
    exg_pool_destroy(s.pool);
    free(s.block);
    exg_arena_destroy(s.arena);
    return status;
}

/* PyTorch makes Python code of programs, and opens the one called "model": those it could not take
 * are made so that it can, in copies. */
static exg_status suit_python(const exg_program *const *programs, uint32_t count,
                              const exg_program **suited, exg_program **copies, exg_error *err)
{
    for (uint32_t p = 0; p < count; p++) {
        bool is_early = programs[p]->origin == EXG_ORIGIN_EARLY;
        bool suits;

        suited[p] = programs[p];
        EXG_TRY(exg_program_suits_python(programs[p], &suits, err));
        if (suits) {
            continue;
        }
        EXG_TRY(exg_program_copy(programs[p], &copies[p], err));
        if (is_early) {
            EXG_TRY(exg_early_make_current(copies[p], err));
            copies[p]->name = count == 1 ? "model" : copies[p]->name;
        }
        EXG_TRY(exg_program_suit_python(copies[p], err));
        suited[p] = copies[p];
    }
    return EXG_OK;
}

exg_status exg_pt2_save(const exg_program *const *programs, uint32_t count, const char *path,
                        const exg_save_options *options, exg_error *err)
{
    const exg_program **suited = calloc(count, sizeof(*suited));
    exg_program **copies = calloc(count, sizeof(*copies));
    exg_status status = suited == NULL || copies == NULL
                            ? EXG_OUT_OF_MEMORY(err)
                            : suit_python(programs, count, suited, copies, err);

    status = status == EXG_OK ? save(suited, count, path, options, err) : status;
    for (uint32_t p = 0; copies != NULL && p < count; p++) {
        exg_program_destroy(copies[p]);
    }
    free(copies);
    free(suited);
    return status;
}
