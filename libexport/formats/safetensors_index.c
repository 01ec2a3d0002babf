/* safetensors_index.c - a model in several safetensors files.
 *
 *   {"metadata": {...}, "weight_map": {"tensor name": "file beside the index", ...}}
 *
 * Every tensor lies in the file the index names for it, and the files hold no others.
 */
#include "libexport/base/arena.h"
#include "libexport/base/files.h"
#include "libexport/base/map.h"
#include "libexport/formats/json.h"
#include "libexport/formats/weights_file.h"
#include "libexport/weights/storage.h"

#include <exg/text.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LISTED 6 /* names in a message */

typedef struct reader {
    const char *folder;
    exg_arena *arena; /* scratch */
    exg_weights *weights;
    exg_error *err;
    exg_map files;      /* file name -> number */
    exg_map tensors;    /* tensor name -> number of its file */
    const char **names; /* of the files */
    uint32_t file_count;
} reader;

bool exg_safetensors_index_sniff(const uint8_t *data, uint64_t length)
{
    uint64_t at = 0;

    while (at < length && strchr(" \t\r\n", data[at]) != NULL && data[at] != '\0') {
        at++;
    }
    return at < length && data[at] == '{' && memmem(data, (size_t)length, "\"weight_map\"", 12);
}

/* ---- shards -------------------------------------------------------------------------------- */

static exg_status read_shard(reader *r, const char *name)
{
    exg_mapping mapping;
    exg_source source;
    uint32_t pairs = r->weights->metadata.count;
    exg_status status;

    EXG_TRY(exg_file_map_below(r->folder, name, exg_weights_copies_files(r->weights), &mapping,
                               r->err));
    source = (exg_source){mapping.data, mapping.length, name, exg_default_budget(mapping.length),
                          exg_arena_allocator(r->weights->arena)};
    status = exg_weights_own_mapping(r->weights, &mapping, r->err);
    exg_mapping_release(&mapping); /* when it was not given away */
    EXG_TRY(status);
    if (!exg_safetensors_sniff(source.data, source.length)) {
        return EXG_FAIL(r->err, MALFORMED, "STF-HEADER", "this is not a safetensors file");
    }
    EXG_TRY(exg_safetensors_read(&source, r->weights, r->err));
    r->weights->metadata.count = pairs; /* the index speaks for all */
    return EXG_OK;
}

/* Every tensor of the shard `file`, which begin at `first`, is named for it. */
static exg_status check_shard(reader *r, uint32_t file, uint32_t first)
{
    for (uint32_t i = first; i < r->weights->count; i++) {
        const char *name = r->weights->items[i].fqn;
        uint32_t expected = exg_map_find(&r->tensors, name);

        if (expected != file) {
            return EXG_FAIL(r->err, MALFORMED, "STF-INDEX", "the index %s '%s'",
                            expected == EXG_MAP_NONE ? "does not name" : "names another file for",
                            name);
        }
    }
    return EXG_OK;
}

/* A name in a list of those that do not fit: "a, b, ..." */
static void list(exg_text *text, uint32_t count, const char *name)
{
    if (count <= LISTED) {
        exg_text_puts(text, count > 1 ? ", " : "");
        exg_text_puts(text, count == LISTED ? "..." : name);
    }
}

/* Are the files there, all of them? */
static exg_status check_files(reader *r)
{
    exg_text names = EXG_TEXT_EMPTY;
    uint32_t missing = 0;
    exg_status status = EXG_OK;

    for (uint32_t i = 0; i < r->file_count && status == EXG_OK; i++) {
        int descriptor;

        status = exg_file_open_below(r->folder, r->names[i], &descriptor, r->err);
        if (status == EXG_OK) {
            close(descriptor);
        } else if (status == EXG_IO) {
            list(&names, ++missing, r->names[i]);
            status = EXG_OK;
        }
    }
    if (status == EXG_OK && missing > 0) {
        status = exg_text_string(&names) == NULL
                     ? EXG_OUT_OF_MEMORY(r->err)
                     : exg_error_fix(r->err,
                                     EXG_FAIL(r->err, IO, "IO-OPEN",
                                              "%u of the %u files that the index names cannot be "
                                              "opened: %s",
                                              missing, r->file_count, names.data),
                                     "they belong in the folder of the index");
    }
    exg_text_free(&names);
    return status;
}

/* Names of the index that no file has. */
static exg_status tell_missing(reader *r, exg_json map)
{
    exg_text names = EXG_TEXT_EMPTY;
    exg_json_walk walk = {0};
    exg_json element;
    const char *key;
    uint32_t length;
    uint32_t missing = 0;
    exg_map held;
    exg_status status = exg_json_object(map, &walk, r->err);

    exg_map_init(&held, r->arena);
    for (uint32_t i = 0; i < r->weights->count && status == EXG_OK; i++) {
        status =
            exg_map_put(&held, r->weights->items[i].fqn, i) ? EXG_OK : EXG_OUT_OF_MEMORY(r->err);
    }
    while (status == EXG_OK && exg_json_next_member(&walk, &key, &length, &element)) {
        if (exg_map_find(&held, key) == EXG_MAP_NONE) {
            list(&names, ++missing, key);
        }
    }
    if (status == EXG_OK) {
        status = exg_text_string(&names) == NULL
                     ? EXG_OUT_OF_MEMORY(r->err)
                     : EXG_FAIL(r->err, MALFORMED, "STF-INDEX",
                                "the index names %u tensors that no file holds: %s", missing,
                                names.data);
    }
    exg_text_free(&names);
    return status;
}

static exg_status read_shards(reader *r)
{
    EXG_TRY(check_files(r));
    for (uint32_t i = 0; i < r->file_count; i++) {
        uint32_t first = r->weights->count;

        EXG_TRY_IN(r->err, read_shard(r, r->names[i]), "%s", r->names[i]);
        EXG_TRY_IN(r->err, check_shard(r, i, first), "%s", r->names[i]);
    }
    return EXG_OK;
}

/* ---- the index ----------------------------------------------------------------------------- */

static exg_status read_entry(reader *r, const char *tensor, exg_json value)
{
    const char *name = "";
    uint32_t file;

    EXG_TRY(exg_json_string(value, &name, NULL, r->err));
    file = exg_map_find(&r->files, name);
    if (file == EXG_MAP_NONE) {
        file = r->file_count++;
        r->names[file] = name;
        if (!exg_map_put(&r->files, name, file)) {
            return EXG_OUT_OF_MEMORY(r->err);
        }
    }
    return exg_map_put(&r->tensors, tensor, file) ? EXG_OK : EXG_OUT_OF_MEMORY(r->err);
}

static exg_status read_metadata(reader *r, exg_json root)
{
    exg_json_walk walk = {0};
    exg_json metadata;
    exg_json element;
    const char *key;
    uint32_t length;

    if (!exg_json_find(root, "metadata", &metadata)) {
        return EXG_OK;
    }
    EXG_TRY_IN(r->err, exg_json_object(metadata, &walk, r->err), "metadata");
    while (exg_json_next_member(&walk, &key, &length, &element)) {
        if (exg_json_type_of(element) == EXG_JSON_STRING) { /* total_size counts itself */
            const char *text = "";

            EXG_TRY_IN(r->err, exg_json_string(element, &text, NULL, r->err), "metadata");
            EXG_TRY(exg_weights_add_metadata(r->weights, key, text, r->err));
        }
    }
    return EXG_OK;
}

static exg_status read_index(reader *r, exg_json root)
{
    exg_json_walk walk = {0};
    exg_json map;
    exg_json element;
    const char *key;
    uint32_t length;

    if (!exg_json_find(root, "weight_map", &map)) {
        return EXG_FAIL(r->err, MALFORMED, "STF-INDEX", "the index has no weight_map");
    }
    EXG_TRY(read_metadata(r, root));
    EXG_TRY_IN(r->err, exg_json_object(map, &walk, r->err), "weight_map");
    r->names = EXG_NEW_ARRAY(r->arena, const char *, exg_json_count(map));
    if (r->names == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    while (exg_json_next_member(&walk, &key, &length, &element)) {
        EXG_TRY_IN(r->err, read_entry(r, key, element), "weight_map['%s']", key);
    }
    EXG_TRY(read_shards(r));
    return r->weights->count == exg_json_count(map) ? EXG_OK : tell_missing(r, map);
}

exg_status exg_safetensors_index_read(const exg_source *source, exg_weights *weights,
                                      exg_error *err)
{
    reader r = {.weights = weights, .err = err};
    exg_json_doc *doc = NULL;
    char *folder;
    exg_status status;

    if (source->path == NULL) {
        return EXG_FAIL(err, UNSUPPORTED, "STF-INDEX", "an index in memory has no files beside it");
    }
    folder = exg_path_directory(source->path);
    r.folder = folder;
    r.arena = exg_arena_create(source->allocator, source->budget);
    exg_map_init(&r.files, r.arena);
    exg_map_init(&r.tensors, r.arena);
    status = folder == NULL || r.arena == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    if (status == EXG_OK) {
        status =
            exg_json_parse(source->data, (size_t)source->length, 0, EXG_JSON_KEYS_NOW, &doc, err);
    }
    if (status == EXG_OK) {
        status = read_index(&r, exg_json_root(doc));
    }
    exg_json_free(doc);
    status = exg_arena_settle(r.arena, status, err);
    exg_arena_destroy(r.arena);
    free(folder);
    return status;
}
