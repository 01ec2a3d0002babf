/* weights_index.c - a model in several files: safetensors, or torch.save's .bin.
 *
 *   {"metadata": {...}, "weight_map": {"tensor name": "file beside the index", ...}}
 *
 * Every tensor lies in the file the index names for it, and the files hold no others. Where a
 * folder is given that has the files and no index, they are known by their names.
 */
#include "libexport/base/arena.h"
#include "libexport/base/files.h"
#include "libexport/base/map.h"
#include "libexport/base/own_fix.h"
#include "libexport/formats/json.h"
#include "libexport/formats/model_folder.h"
#include "libexport/formats/name_list.h"
#include "libexport/formats/weights_file.h"
#include "libexport/weights/storage.h"

#include <exg/text.h>
#include <stdlib.h>
#include <string.h>

#define LISTED_BYTES 80 /* of names in a message, which has room for three such lists */

typedef struct reader {
    const char *folder;
    exg_arena *arena; /* scratch */
    exg_weights *weights;
    exg_error *err;
    exg_map files;      /* file name -> number */
    exg_map tensors;    /* tensor name -> number of its file */
    const char **paths; /* of the files */
    const char *named;  /* whence they are known */
    uint32_t file_count;
    bool *is_missing;                   /* a file each */
    exg_name_list missing;              /* of the files, */
    exg_error why;                      /* and why the first is */
    exg_map held;                       /* names that the files hold */
    exg_name_list unheld, extra, moved; /* tensors that do not fit */
} reader;

bool exg_weights_index_sniff(const uint8_t *data, uint64_t length)
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
    exg_opened opened;
    exg_status status =
        exg_source_open_below(r->folder, name, exg_weights_reading(r->weights), &opened, r->err);

    opened.source.allocator = exg_arena_allocator(r->weights->arena);
    if (status == EXG_OK) {
        status = exg_weights_read_shard(&opened.source, r->weights, r->err);
    }
    if (status == EXG_OK) {
        status = exg_opened_give(&opened, r->weights, r->err);
    }
    exg_opened_release(&opened); /* when it was not given away */
    return status;
}

static exg_status note_name(reader *r, uint32_t file, const char *name)
{
    uint32_t expected = exg_map_find(&r->tensors, name);

    if (expected == EXG_MAP_NONE) {
        exg_name_list_add(&r->extra, name);
    } else if (expected != file) {
        exg_name_list_add(&r->moved, name);
    }
    return exg_map_put(&r->held, name, file) ? EXG_OK : EXG_OUT_OF_MEMORY(r->err);
}

/* What the shard `file` added: its tensors begin at `first`, what it holds and cannot give at
 * `skipped`. */
static exg_status note_shard(reader *r, uint32_t file, uint32_t first, uint32_t skipped)
{
    for (uint32_t i = first; i < r->weights->count; i++) {
        EXG_TRY(note_name(r, file, r->weights->items[i].fqn));
    }
    for (uint32_t i = skipped; i < r->weights->skipped_count; i++) {
        const char *name = r->weights->skipped[i].name;

        if (exg_map_find(&r->tensors, name) != EXG_MAP_NONE) { /* else it is no tensor */
            EXG_TRY(note_name(r, file, name));
        }
    }
    return EXG_OK;
}

/* Are the files there, all of them? */
static exg_status look_for_files(reader *r)
{
    exg_status status = EXG_OK;

    r->is_missing = EXG_NEW_ARRAY(r->arena, bool, r->file_count);
    if (r->is_missing == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    for (uint32_t i = 0; i < r->file_count && status == EXG_OK; i++) {
        exg_error why;

        exg_error_clear(&why);
        status =
            exg_source_look_below(r->folder, r->paths[i], exg_weights_reading(r->weights), &why);
        if (status == EXG_IO) {
            r->why = r->missing.count == 0 ? why : r->why;
            r->is_missing[i] = true;
            exg_name_list_add(&r->missing, r->paths[i]);
            status = EXG_OK;
        } else if (status != EXG_OK && r->err != NULL) {
            *r->err = why;
        }
    }
    return status;
}

/* Those that are not, with why the first is not, behind what does not fit in the others. */
static exg_status tell_missing(reader *r, const exg_text *misfits)
{
    bool fits = misfits->length == 0;
    const char *names = exg_text_string(&r->missing.text);

    return names == NULL
               ? EXG_OUT_OF_MEMORY(r->err)
               : exg_error_fix(r->err,
                               EXG_FAIL(r->err, IO, "IO-OPEN",
                                        "%u of the %u files that %s cannot be opened: %s%s%s%s%s",
                                        r->missing.count, r->file_count, r->named, names,
                                        fits ? " (" : "", fits ? r->why.message : "",
                                        fits ? ")" : "; and in the others ",
                                        fits ? "" : misfits->data),
                               "%s", r->why.fix);
}

/* "2 tensors that no file holds: a, b" behind what was told before. */
static void tell(exg_text *text, const exg_name_list *of, const char *what)
{
    if (of->count > 0) {
        exg_text_puts(text, text->length > 0 ? "; " : "");
        exg_text_count(text, of->count, "tensor");
        exg_text_printf(text, " %s: %s", what, exg_text_part(text, &of->text));
    }
}

/* All that does not fit, in one message. Of files that are not there nothing is known. */
static exg_status check_fit(reader *r, exg_json map)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_json_walk walk = {0};
    exg_json element;
    const char *key;
    uint32_t length;
    exg_status status;

    EXG_TRY(exg_json_object(map, &walk, r->err));
    while (exg_json_next_member(&walk, &key, &length, &element)) {
        if (exg_map_find(&r->held, key) == EXG_MAP_NONE &&
            !r->is_missing[exg_map_find(&r->tensors, key)]) {
            exg_name_list_add(&r->unheld, key);
        }
    }
    tell(&text, &r->unheld, "that no file holds");
    tell(&text, &r->extra, "that the index does not name");
    tell(&text, &r->moved, "in another file than the index names");
    status = exg_text_string(&text) == NULL ? EXG_OUT_OF_MEMORY(r->err)
             : r->missing.count > 0         ? tell_missing(r, &text)
             : text.length == 0
                 ? EXG_OK
                 : exg_error_fix(r->err,
                                 EXG_FAIL(r->err, MALFORMED, "STF-INDEX",
                                          "the index does not fit its files: %s", text.data),
                                 "index and files must be of one version of the model: fetch both "
                                 "again");
    exg_text_free(&text);
    return status;
}

static exg_status read_shards(reader *r)
{
    const exg_text none = EXG_TEXT_EMPTY;

    for (uint32_t i = 0; i < r->file_count; i++) {
        uint32_t first = r->weights->count;
        uint32_t skipped = r->weights->skipped_count;
        exg_status status;

        if (r->is_missing[i]) {
            continue;
        }
        status = read_shard(r, r->paths[i]);
        if (status != EXG_OK) {
            return r->missing.count > 0 ? tell_missing(r, &none)
                                        : exg_error_within(r->err, status, "%s", r->paths[i]);
        }
        EXG_TRY(note_shard(r, i, first, skipped));
    }
    return EXG_OK;
}

/* ---- the index ----------------------------------------------------------------------------- */

/* `location` without its "." parts, which say nothing: "./a" is "a". */
static const char *without_dots(exg_arena *arena, const char *location)
{
    char *plain = exg_arena_strdup(arena, location);
    char *to = plain;

    while (plain != NULL && *location != '\0') {
        size_t length = strcspn(location, "/");

        length += location[length] == '/';
        if (length != 2 || memcmp(location, "./", 2) != 0) {
            memcpy(to, location, length);
            to += length;
        }
        location += length;
    }
    if (plain != NULL) {
        *to = '\0';
    }
    return plain;
}

static exg_status read_entry(reader *r, const char *tensor, exg_json value)
{
    const char *name = "";
    uint32_t file;

    EXG_TRY(exg_json_string(value, &name, NULL, r->err));
    name = without_dots(r->arena, name);
    if (name == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    file = exg_map_find(&r->files, name);
    if (file == EXG_MAP_NONE) {
        file = r->file_count++;
        r->paths[file] = name;
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

    if (!exg_json_find(root, "metadata", &metadata) || exg_json_is_null(metadata)) {
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
    r->paths = EXG_NEW_ARRAY(r->arena, const char *, exg_json_count(map));
    if (r->paths == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    while (exg_json_next_member(&walk, &key, &length, &element)) {
        EXG_TRY_IN(r->err, read_entry(r, key, element), "weight_map['%s']", key);
    }
    EXG_TRY(look_for_files(r));
    EXG_TRY(read_shards(r));
    return check_fit(r, map);
}

exg_status exg_weights_index_read(const exg_source *source, exg_weights *weights, exg_error *err)
{
    reader r = {.weights = weights,
                .named = "the index names",
                .missing = EXG_NAME_LIST_EMPTY(LISTED_BYTES),
                .unheld = EXG_NAME_LIST_EMPTY(LISTED_BYTES),
                .extra = EXG_NAME_LIST_EMPTY(LISTED_BYTES),
                .moved = EXG_NAME_LIST_EMPTY(LISTED_BYTES),
                .err = err};
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
    exg_map_init(&r.held, r.arena);
    status = folder == NULL || r.arena == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    if (status == EXG_OK) {
        status =
            exg_json_parse(source->data, (size_t)source->length, 0, EXG_JSON_KEYS_NOW, &doc, err);
    }
    if (status == EXG_OK) {
        status = read_index(&r, exg_json_root(doc));
    }
    if (status == EXG_MALFORMED && err != NULL && !exg_error_has_own_fix(err)) { /* of its JSON */
        status = exg_error_fix(err, status,
                               "fetch the index again, or write it anew: exg convert MODEL "
                               "NAME.safetensors --split SIZE");
    }
    exg_json_free(doc);
    status = exg_arena_settle(r.arena, status, err);
    exg_text_free(&r.missing.text);
    exg_text_free(&r.unheld.text);
    exg_text_free(&r.extra.text);
    exg_text_free(&r.moved.text);
    exg_arena_destroy(r.arena);
    free(folder);
    return status;
}

/* ---- parts without an index -------------------------------------------------------------------
 */

static exg_status name_parts(reader *r, const char *name)
{
    size_t stem = exg_model_part_stem(name);
    uint32_t count = (uint32_t)strtoul(name + stem + strlen("-00000-of-"), NULL, 10);

    r->paths = EXG_NEW_ARRAY(r->arena, const char *, count);
    for (uint32_t i = 0; r->paths != NULL && i < count; i++) {
        r->paths[i] = exg_arena_printf(r->arena, "%.*s-%05u%s", (int)stem, name, i + 1,
                                       name + stem + strlen("-00000"));
        if (r->paths[i] == NULL) {
            return EXG_OUT_OF_MEMORY(r->err);
        }
    }
    r->file_count = count;
    return r->paths == NULL ? EXG_OUT_OF_MEMORY(r->err) : EXG_OK;
}

static exg_status read_parts(reader *r, const char *name)
{
    const exg_text none = EXG_TEXT_EMPTY;

    EXG_TRY(name_parts(r, name));
    EXG_TRY(look_for_files(r));
    if (r->missing.count > 0) {
        return tell_missing(r, &none);
    }
    for (uint32_t i = 0; i < r->file_count; i++) {
        EXG_TRY_IN(r->err, read_shard(r, r->paths[i]), "%s", r->paths[i]);
    }
    return EXG_OK;
}

exg_status exg_weights_parts_read(const exg_source *source, exg_weights *weights, exg_error *err)
{
    reader r = {.weights = weights,
                .named = "the names of the parts tell of",
                .missing = EXG_NAME_LIST_EMPTY(2 * LISTED_BYTES),
                .err = err};
    char *folder = exg_path_directory(source->path);
    exg_status status;

    r.folder = folder;
    r.arena = exg_arena_create(source->allocator, source->budget);
    status = folder == NULL || r.arena == NULL ? EXG_OUT_OF_MEMORY(err)
                                               : read_parts(&r, exg_path_name(source->path));
    status = r.arena == NULL ? status : exg_arena_settle(r.arena, status, err);
    exg_text_free(&r.missing.text);
    exg_arena_destroy(r.arena);
    free(folder);
    return status;
}
