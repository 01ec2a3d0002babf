/* checkpoint.c - files of torch.save: opening, and what lies in them beside their pickle. */
#include "libexport/base/files.h"
#include "libexport/formats/pt2/saved.h"
#include "libexport/formats/weights_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A root folder with data.pkl, and nothing that makes it a program. */
static bool is_of_checkpoint(void *user, const char *name, size_t length)
{
    const char *slash = memchr(name, '/', length);
    const char *rest = slash == NULL ? "" : slash + 1;
    size_t left = slash == NULL ? 0 : length - (size_t)(rest - name);
    bool *found = user;

    *found = *found || (left == 8 && memcmp(rest, "data.pkl", 8) == 0);
    return !(left >= 7 && memcmp(rest, "models/", 7) == 0);
}

bool exg_checkpoint_sniff(const uint8_t *data, uint64_t length)
{
    bool found = false;

    return exg_stream_sniff(data, length) ||
           (exg_zip_names(data, length, is_of_checkpoint, &found) && found);
}

/* ---- what is not read -------------------------------------------------------------------- */

/* Does torch.load read it? Of the storages those that the pickle names. */
static bool is_read(const exg_saved *file, const char *name)
{
    static const char *const records[] = {"data.pkl",
                                          "byteorder",
                                          "version",
                                          ".format_version",
                                          ".data/version",
                                          ".storage_alignment",
                                          ".data/serialization_id"};

    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        if (strcmp(name, records[i]) == 0) {
            return true;
        }
    }
    return strncmp(name, "data/", 5) == 0 && exg_map_find(&file->keys, name + 5) != EXG_MAP_NONE;
}

static bool is_pickle(const exg_zip *zip, const exg_zip_entry *entry)
{
    const uint8_t *data = zip->data + entry->data_offset;
    size_t length = strlen(entry->name);

    return (length > 4 && strcmp(entry->name + length - 4, ".pkl") == 0) ||
           (!entry->deflated && entry->bytes > 2 && data[0] == 0x80 && data[1] >= 2 &&
            data[1] <= 5 && data[entry->bytes - 1] == '.');
}

/* Of a TorchScript archive its code, which nothing here runs. */
static bool is_code(const exg_saved *file, const char *name)
{
    return exg_archive_find(&file->archive, "constants.pkl") != NULL &&
           (strncmp(name, "code/", 5) == 0 || strncmp(name, "extra/", 6) == 0 ||
            strcmp(name, "bytecode.pkl") == 0);
}

static exg_status list_code(exg_saved *file, uint32_t records, exg_error *err)
{
    char kind[80];

    snprintf(kind, sizeof(kind), "TorchScript, %" PRIu32 " records, not run", records);
    return exg_weights_skip_code(file->weights, "(code)", kind, EXG_CODE_FOREIGN, err);
}

static bool is_constant(const exg_saved *constants, const char *name)
{
    return constants->object != NULL &&
           (strcmp(name, "constants.pkl") == 0 ||
            (strncmp(name, "constants/", 10) == 0 &&
             exg_map_find(&constants->keys, name + 10) != EXG_MAP_NONE));
}

static exg_status list_members(exg_saved *file, const exg_saved *constants, exg_error *err)
{
    const exg_zip *zip = &file->archive.zip;
    size_t root = strlen(file->archive.root);
    uint32_t code = 0;

    for (uint32_t i = 0; i < zip->count; i++) {
        const exg_zip_entry *entry = &zip->entries[i];
        bool is_inside = strncmp(entry->name, file->archive.root, root) == 0;

        if (is_inside && is_code(file, entry->name + root)) {
            code++;
        } else if (!is_inside || (!is_read(file, entry->name + root) &&
                                  !is_constant(constants, entry->name + root))) {
            bool pickle = is_pickle(zip, entry);

            EXG_TRY(exg_weights_skip_code(file->weights, entry->name,
                                          pickle ? "a second pickle, not read"
                                                 : "a record that torch.load does not read",
                                          pickle ? EXG_CODE_FOREIGN : EXG_CODE_NONE, err));
        }
    }
    return code == 0 ? EXG_OK : list_code(file, code, err);
}

/* Behind the end of the pickle in its record, or of a stream. */
static exg_status list_behind(exg_saved *file, exg_error *err)
{
    const exg_zip_entry *pickle =
        file->is_stream ? NULL : exg_archive_find(&file->archive, "data.pkl");
    uint64_t behind = pickle == NULL ? file->behind : pickle->bytes - file->pickle.length;
    char kind[80];

    if (behind == 0) {
        return EXG_OK;
    }
    snprintf(kind, sizeof(kind), "%" PRIu64 " bytes behind its end, not read", behind);
    return exg_weights_skip(file->weights, pickle == NULL ? "(file)" : pickle->name, kind, err);
}

/* Tensors that TorchScript's code names by their place, as "CONSTANTS.c0": all the weights of a
 * frozen module. */
static exg_status walk_constants(const exg_saved *file, exg_saved *constants, uint64_t budget,
                                 exg_error *err)
{
    EXG_TRY(exg_saved_open_constants(file, constants, err));
    return exg_saved_walk(constants, "constants", budget, err);
}

/* What is no container is called as its file is. */
static bool is_alone(const exg_pickle_value *value)
{
    switch (value->kind) {
    case EXG_PICKLE_DICT:
    case EXG_PICKLE_LIST:
    case EXG_PICKLE_TUPLE:
    case EXG_PICKLE_SET:
        return false;
    case EXG_PICKLE_OBJECT:
        return value->as_object->callee->kind == EXG_PICKLE_GLOBAL &&
               value->as_object->callee->as_global->tag != EXG_TAG_FOREIGN;
    default:
        return true;
    }
}

/* ---- reading ----------------------------------------------------------------------------- */

exg_status exg_checkpoint_read(const exg_source *source, exg_weights *weights, exg_error *err)
{
    uint64_t inflate_left = source->budget;
    exg_arena *arena = exg_arena_create(source->allocator, source->budget);
    exg_status status = arena == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    char name[EXG_STEM_MAX + 1] = "";
    exg_saved file;
    exg_saved constants;

    if (status == EXG_OK) {
        status = exg_saved_open(source->data, source->length, 0, false, arena, &inflate_left,
                                weights, &file, err);
    }
    if (status == EXG_OK) {
        if (source->path != NULL && file.object != NULL && is_alone(file.object)) {
            exg_path_stem(source->path, name);
        }
        status = exg_saved_walk(&file, name, source->budget, err);
    }
    if (status == EXG_OK) {
        status = walk_constants(&file, &constants, source->budget, err);
    }
    if (status == EXG_OK && !file.is_stream) {
        status = list_members(&file, &constants, err);
    }
    if (status == EXG_OK) {
        status = list_behind(&file, err);
    }
    status = arena == NULL ? status : exg_arena_settle(arena, status, err);
    exg_arena_destroy(arena);
    return status;
}
