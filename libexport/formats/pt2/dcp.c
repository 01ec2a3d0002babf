/* dcp.c - what torch.distributed.checkpoint saves: a pickle called .metadata, which says of what
 * chunks every tensor is made, and files that hold each chunk as torch.save writes it.
 *
 * The folder opens as one set of whole tensors. A tensor of one chunk is used where it lies; one
 * of several is put together as it is read. Values that are no tensors are walked like those of
 * any checkpoint. Where ranks do not talk to each other when they save, each writes a __N.metadata
 * of what it has; what several of them have is taken from the first.
 */
#include "libexport/formats/packed.h"
#include "libexport/formats/pt2/chunks.h"
#include "libexport/formats/pt2/dcp_ranks.h"
#include "libexport/formats/pt2/saved.h"
#include "libexport/formats/weights_file.h"
#include "libexport/formats/window.h"

#include "libexport/base/checked.h"
#include "libexport/base/files.h"
#include "libexport/weights/storage.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SNIFF_BYTES  256
#define LISTED_BYTES 240 /* of the names of missing files in a message */

/* A file that holds chunks. */
typedef struct chunk_file {
    const uint8_t *data;
    uint64_t length;
    exg_window *window; /* of one that lies elsewhere; NULL: all of it is there */
} chunk_file;

/* A tensor or another value, and the chunks of it that all ranks have. */
typedef struct entry {
    const char *fqn;
    const exg_pickle_value *value; /* of the first that has it */
    const exg_pickle_value **chunks;
    uint32_t chunk_count, chunk_capacity;
} entry;

/* A value that is no tensor, of a rank after another that has it. */
typedef struct twin {
    const char *fqn, *rank;
} twin;

typedef struct reader {
    const char *folder;
    exg_weights *weights;
    exg_arena *arena;   /* of .metadata */
    exg_arena *scratch; /* of one tensor */
    exg_map files;      /* path -> place in `file_items` */
    chunk_file *file_items;
    uint32_t file_count, file_capacity;
    exg_map places; /* "name\n(0, 4)" -> place in `place_items` */
    const exg_pickle_value **place_items;
    uint32_t place_count, place_capacity;
    exg_map entries; /* name -> place in `entry_items` */
    entry *entry_items;
    uint32_t entry_count, entry_capacity;
    twin *twins;
    uint32_t twin_count, twin_capacity;
    exg_map chunks; /* "name\n(0, 4)\n(2, 2)": those that are known */
    uint64_t budget;
    uint64_t inflate_left;
    exg_error *err;
} reader;

static exg_status no_memory(reader *r)
{
    return exg_arena_fault(r->arena, r->err);
}

static exg_status damaged(reader *r, const char *what)
{
    return EXG_FAIL(r->err, MALFORMED, "DCP-METADATA", ".metadata %s", what);
}

/* An attribute of a dataclass, or NULL. */
static exg_pickle_value *member(const exg_pickle_value *object, const char *name)
{
    return object == NULL || object->kind != EXG_PICKLE_OBJECT
               ? NULL
               : exg_pickle_attribute(object->as_object->state, name);
}

static bool is_dict(const exg_pickle_value *value)
{
    return value != NULL && value->kind == EXG_PICKLE_DICT;
}

static bool is_sizes(const exg_pickle_value *value)
{
    if (value == NULL || value->kind != EXG_PICKLE_TUPLE) {
        return false;
    }
    for (uint32_t i = 0; i < value->as_items.count; i++) {
        if (value->as_items.items[i]->kind != EXG_PICKLE_INT ||
            value->as_items.items[i]->as_int < 0) {
            return false;
        }
    }
    return true;
}

/* ---- where chunks lie -------------------------------------------------------------------- */

/* A chunk is known by its tensor and its first element. NULL: out of memory. */
static const char *place_name(exg_arena *arena, const char *fqn, const exg_pickle_value *offsets)
{
    exg_text text = EXG_TEXT_EMPTY;
    const char *made = NULL;

    exg_text_printf(&text, "%s\n", fqn);
    if (offsets != NULL && offsets->kind == EXG_PICKLE_TUPLE) {
        exg_pickle_put(&text, offsets);
    }
    if (exg_text_string(&text) != NULL) {
        made = exg_arena_strdup(arena, exg_text_string(&text));
    }
    exg_text_free(&text);
    return made;
}

/* Of what lies in several places the first counts; of values that are no tensors those of later
 * ranks are known under "name\n__1.metadata". */
static exg_status add_place(reader *r, const exg_pickle_value *index, const exg_pickle_value *info,
                            const char *rank)
{
    const exg_pickle_value *fqn = member(index, "fqn");
    const exg_pickle_value *path = member(info, "relative_path");
    const char *name;

    if (fqn == NULL || !exg_pickle_is_name(fqn) || path == NULL || !exg_pickle_is_name(path)) {
        return damaged(r, "has a place in storage_data that is none");
    }
    name = place_name(r->arena, fqn->as_text.data, member(index, "offset"));
    if (name != NULL && exg_map_find(&r->places, name) != EXG_MAP_NONE) {
        if (name[strlen(name) - 1] != '\n') {
            return EXG_OK;
        }
        name = exg_arena_printf(r->arena, "%s%s", name, rank);
    }
    if (name == NULL ||
        !exg_arena_reserve(r->arena, &r->place_items, r->place_count, &r->place_capacity,
                           sizeof(*r->place_items)) ||
        !exg_map_put(&r->places, name, r->place_count)) {
        return no_memory(r);
    }
    r->place_items[r->place_count++] = info;
    return EXG_OK;
}

static exg_status add_file(reader *r, const char *path, const chunk_file *file)
{
    if (!exg_arena_reserve(r->arena, &r->file_items, r->file_count, &r->file_capacity,
                           sizeof(*r->file_items)) ||
        !exg_map_put(&r->files, path, r->file_count)) {
        return no_memory(r);
    }
    r->file_items[r->file_count++] = *file;
    return EXG_OK;
}

/* Of what lies elsewhere the places are fetched when all files are known. */
static exg_status add_window(reader *r, const char *path, exg_window *window)
{
    const chunk_file file = {exg_window_data(window), exg_window_length(window), window};
    exg_status status = add_file(r, path, &file);

    if (status != EXG_OK) {
        exg_window_destroy(window);
    }
    return status;
}

/* Maps the file, or adds it to those that are missing. */
static exg_status open_file(reader *r, const char *path, exg_text *missing, uint32_t *missing_count)
{
    chunk_file file = {0};
    exg_error why;
    exg_status status;

    if (exg_map_find(&r->files, path) != EXG_MAP_NONE) {
        return EXG_OK;
    }
    status =
        exg_source_find_below(r->folder, path, exg_weights_reading(r->weights), &file.window, &why);
    if (status == EXG_OK && file.window != NULL) {
        return add_window(r, path, file.window);
    }
    if (status == EXG_OK) {
        status = exg_weights_map_below(r->weights, r->folder, path, &file.data, &file.length, &why);
    }
    if (status == EXG_IO) {
        if (missing->length < LISTED_BYTES) {
            exg_text_printf(missing, "%s%s", missing->length == 0 ? "" : ", ", path);
        }
        ++*missing_count;
        return exg_map_put(&r->files, path, 0) ? EXG_OK : no_memory(r);
    }
    if (status != EXG_OK) {
        if (r->err != NULL) {
            *r->err = why;
        }
        return status;
    }
    return add_file(r, path, &file);
}

static exg_status open_files(reader *r)
{
    exg_text missing = EXG_TEXT_EMPTY;
    uint32_t count = 0;
    exg_status status = EXG_OK;

    for (uint32_t i = 0; i < r->place_count && status == EXG_OK; i++) {
        const exg_pickle_value *path = member(r->place_items[i], "relative_path");

        status = open_file(r, path->as_text.data, &missing, &count);
    }
    if (status == EXG_OK && count > 0) {
        status = exg_error_fix(
            r->err,
            EXG_FAIL(r->err, IO, "DCP-MISSING",
                     "%u of the files that .metadata names %s not there: %s%s", count,
                     count == 1 ? "is" : "are",
                     exg_text_string(&missing) == NULL ? "" : exg_text_string(&missing),
                     missing.length >= LISTED_BYTES ? ", ..." : ""),
            "put the files of every rank into the folder");
    }
    exg_text_free(&missing);
    return status;
}

static bool is_inside(const chunk_file *file, const exg_pickle_value *offset,
                      const exg_pickle_value *length)
{
    return offset != NULL && offset->kind == EXG_PICKLE_INT && length != NULL &&
           length->kind == EXG_PICKLE_INT && offset->as_int >= 0 && length->as_int >= 0 &&
           exg_range_inside((uint64_t)offset->as_int, (uint64_t)length->as_int, file->length);
}

/* The beginnings and ends of all places, in as few requests as it takes. */
static exg_status fetch_ends(reader *r)
{
    for (uint32_t i = 0; i < r->place_count; i++) {
        const exg_pickle_value *path = member(r->place_items[i], "relative_path");
        const exg_pickle_value *offset = member(r->place_items[i], "offset");
        const exg_pickle_value *length = member(r->place_items[i], "length");
        const chunk_file *file = &r->file_items[exg_map_find(&r->files, path->as_text.data)];

        if (file->window != NULL && is_inside(file, offset, length)) {
            exg_window_want_ends(file->window, (uint64_t)offset->as_int, (uint64_t)length->as_int);
        }
    }
    for (uint32_t i = 0; i < r->file_count; i++) {
        if (r->file_items[i].window != NULL) {
            EXG_TRY(exg_window_fetch(r->file_items[i].window, r->err));
        }
    }
    return EXG_OK;
}

/* Storages that lie in windows are read from there when they are read, if all went well. */
static exg_status close_windows(reader *r, exg_status status)
{
    for (uint32_t i = 0; i < r->file_count; i++) {
        exg_window *window = r->file_items[i].window;

        r->file_items[i].window = NULL;
        if (window != NULL && status == EXG_OK) {
            status = exg_window_give(window, r->weights, r->err);
        } else {
            exg_window_destroy(window);
        }
    }
    return status;
}

/* ---- what lies there --------------------------------------------------------------------- */

/* Undoes what extensions of torch.distributed.checkpoint did to a chunk, the last first; *known:
 * all of them are zstd. */
static exg_status transform(reader *r, const exg_pickle_value *transforms, const uint8_t **data,
                            uint64_t *length, bool *known)
{
    *known = transforms->kind == EXG_PICKLE_LIST;
    for (uint32_t i = 0; *known && i < transforms->as_items.count; i++) {
        const exg_pickle_value *name = transforms->as_items.items[i];

        *known = exg_pickle_is_name(name) && strncmp(name->as_text.data, "stream.zstd/1", 13) == 0;
    }
    for (uint32_t i = 0; *known && i < transforms->as_items.count; i++) {
        exg_mapping mapping = {0};
        exg_status status;

        EXG_TRY(exg_unpack_zstd(*data, *length, r->inflate_left, &mapping, r->err));
        r->inflate_left -= mapping.length;
        *data = mapping.data;
        *length = mapping.length;
        status = exg_weights_own_mapping(r->weights, &mapping, r->err);
        exg_mapping_release(&mapping); /* when it was not given away */
        EXG_TRY(status);
    }
    return EXG_OK;
}

/* The bytes of a place as they are in their file. */
static exg_status locate(reader *r, const char *name, const exg_pickle_value **info,
                         const uint8_t **data, uint64_t *bytes)
{
    uint32_t at = exg_map_find(&r->places, name);
    const exg_pickle_value *offset;
    const exg_pickle_value *length;
    const char *path;
    const chunk_file *file;

    if (at == EXG_MAP_NONE) {
        return EXG_FAIL(r->err, MALFORMED, "DCP-CHUNK", "no file holds the chunk at %s",
                        strchr(name, '\n') + 1);
    }
    *info = r->place_items[at];
    offset = member(*info, "offset");
    length = member(*info, "length");
    path = member(*info, "relative_path")->as_text.data;
    file = &r->file_items[exg_map_find(&r->files, path)];
    if (!is_inside(file, offset, length)) {
        return EXG_FAIL(r->err, MALFORMED, "DCP-CHUNK", "%s is too short for the chunk at %s", path,
                        strchr(name, '\n') + 1);
    }
    *data = file->data + offset->as_int;
    *bytes = (uint64_t)length->as_int;
    return file->window == NULL
               ? EXG_OK
               : exg_window_plan_inside(file->window, (uint64_t)offset->as_int, *bytes, r->err);
}

/* Opens what torch.save wrote at a place; *compressed: it is not as it was written. */
static exg_status open_place(reader *r, const char *fqn, const exg_pickle_value *offsets,
                             exg_saved *saved, const exg_pickle_value **compressed)
{
    const char *name = place_name(r->scratch, fqn, offsets);
    const exg_pickle_value *info = NULL;
    const exg_pickle_value *transforms;
    const uint8_t *data;
    uint64_t bytes;
    bool known = true;

    *compressed = NULL;
    if (name == NULL) {
        return no_memory(r);
    }
    EXG_TRY(locate(r, name, &info, &data, &bytes));
    transforms = member(info, "transform_descriptors");
    if (transforms != NULL && transforms->kind != EXG_PICKLE_NONE) {
        EXG_TRY(transform(r, transforms, &data, &bytes, &known));
    }
    if (!known) {
        *compressed = transforms;
        return EXG_OK;
    }
    return exg_saved_open(data, bytes, (uint64_t)member(info, "offset")->as_int, false, r->scratch,
                          &r->inflate_left, r->weights, saved, r->err);
}

static exg_status skip(reader *r, const char *fqn, const char *what, const exg_pickle_value *value)
{
    exg_text kind = EXG_TEXT_EMPTY;
    exg_status status;

    exg_text_puts(&kind, what);
    exg_pickle_put(&kind, value);
    status = exg_text_string(&kind) == NULL
                 ? no_memory(r)
                 : exg_weights_skip(r->weights, fqn, exg_text_string(&kind), r->err);
    exg_text_free(&kind);
    return status;
}

/* Numbers, texts, and what else is no tensor. */
static exg_status read_bytes(reader *r, const char *fqn)
{
    const exg_pickle_value *compressed;
    exg_saved saved;

    EXG_TRY(open_place(r, fqn, NULL, &saved, &compressed));
    return compressed != NULL ? skip(r, fqn, "a value that is written through ", compressed)
                              : exg_saved_walk(&saved, fqn, r->budget, r->err);
}

/* ---- tensors ----------------------------------------------------------------------------- */

/* The chunk as a weight, of the tensor's dtype and its own sizes. */
static exg_status read_chunk(reader *r, const char *fqn, const exg_pickle_value *chunk,
                             const exg_tensor_meta *meta, exg_chunk_part *part,
                             const exg_pickle_value **compressed)
{
    const exg_pickle_value *offsets = member(chunk, "offsets");
    const exg_pickle_value *sizes = member(chunk, "sizes");
    const exg_pickle_tensor *tensor;
    exg_saved saved;

    if (!is_sizes(offsets) || !is_sizes(sizes) || offsets->as_items.count != meta->rank ||
        sizes->as_items.count != meta->rank) {
        return damaged(r, "has a chunk that is none");
    }
    EXG_TRY(open_place(r, fqn, offsets, &saved, compressed));
    if (*compressed != NULL) {
        return EXG_OK;
    }
    if (saved.object == NULL || saved.object->kind != EXG_PICKLE_TENSOR ||
        saved.object->as_tensor->dtype != meta->dtype ||
        saved.object->as_tensor->sizes->count != meta->rank) {
        return EXG_FAIL(r->err, MALFORMED, "DCP-CHUNK", "a chunk is no tensor as .metadata says");
    }
    tensor = saved.object->as_tensor;
    for (uint32_t d = 0; d < meta->rank; d++) {
        if (tensor->sizes->items[d]->as_int != sizes->as_items.items[d]->as_int) {
            return EXG_FAIL(r->err, MALFORMED, "DCP-CHUNK",
                            "a chunk has not the sizes that .metadata says");
        }
        part->offsets[d] = offsets->as_items.items[d]->as_int;
        part->sizes[d] = sizes->as_items.items[d]->as_int;
    }
    part->weight.fqn = fqn;
    part->weight.encoding = tensor->encoding;
    return exg_saved_meta(&saved, tensor, r->weights->arena, &part->weight.meta,
                          &part->weight.storage, r->err);
}

/* torch.distributed.checkpoint's TensorProperties: pickled as (dtype, layout, requires_grad, ...).
 */
static bool read_properties(const exg_pickle_value *properties, exg_tensor_meta *meta)
{
    const exg_pickle_value *state = properties == NULL || properties->kind != EXG_PICKLE_OBJECT
                                        ? NULL
                                        : properties->as_object->state;
    const exg_pickle_value *dtype;
    const exg_pickle_value *grad = NULL;

    if (state != NULL && state->kind == EXG_PICKLE_TUPLE && state->as_items.count >= 3) {
        dtype = state->as_items.items[0];
        grad = state->as_items.items[2];
    } else {
        dtype = exg_pickle_get(state, "dtype");
        grad = exg_pickle_get(state, "requires_grad");
    }
    if (dtype == NULL || dtype->kind != EXG_PICKLE_GLOBAL ||
        dtype->as_global->tag != EXG_TAG_DTYPE) {
        return false;
    }
    meta->dtype = dtype->as_global->dtype;
    meta->requires_grad = grad != NULL && grad->kind == EXG_PICKLE_BOOL && grad->as_bool;
    return true;
}

static exg_status read_tensor(reader *r, const entry *e)
{
    const exg_pickle_value *value = e->value;
    const char *fqn = e->fqn;
    const exg_pickle_value *size = member(value, "size");
    const exg_pickle_value *compressed = NULL;
    exg_tensor_meta meta = {.layout = EXG_LAYOUT_STRIDED, .device = {"cpu", -1}};
    exg_chunk_tensor *tensor;

    if (!is_sizes(size) || !read_properties(member(value, "properties"), &meta)) {
        return damaged(r, "describes a tensor as PyTorch does not");
    }
    EXG_TRY(
        exg_chunk_tensor_create(r->weights, size->as_items.count, e->chunk_count, &tensor, r->err));
    for (uint32_t d = 0; d < size->as_items.count; d++) {
        tensor->sizes[d] = size->as_items.items[d]->as_int;
    }
    meta.rank = tensor->rank;
    meta.sizes = EXG_NEW_ARRAY(r->scratch, exg_sym_int, meta.rank);
    if (meta.sizes == NULL) {
        return no_memory(r);
    }
    for (uint32_t d = 0; d < meta.rank; d++) {
        meta.sizes[d] = exg_sym_int_of(tensor->sizes[d]);
    }
    for (uint32_t i = 0; i < tensor->count && compressed == NULL; i++) {
        EXG_TRY(read_chunk(r, fqn, e->chunks[i], &meta, &tensor->parts[i], &compressed));
    }
    return compressed != NULL ? skip(r, fqn, "a tensor that is written through ", compressed)
                              : exg_chunk_tensor_add(tensor, fqn, &meta, r->err);
}

static exg_status read_entry(reader *r, const entry *e)
{
    EXG_TRY_IN(r->err,
               member(e->value, "chunks") == NULL ? read_bytes(r, e->fqn) : read_tensor(r, e),
               "['%s']", e->fqn);
    exg_arena_reset(r->scratch);
    return EXG_OK;
}

/* ---- what every rank says ---------------------------------------------------------------- */

/* The same chunk may be there again, of what every rank has. */
static exg_status add_chunk(reader *r, entry *e, const exg_pickle_value *chunk)
{
    const exg_pickle_value *sizes = member(chunk, "sizes");
    const char *place = place_name(r->arena, e->fqn, member(chunk, "offsets"));
    const char *name = place == NULL ? NULL : place_name(r->arena, place, sizes);

    if (name == NULL) {
        return no_memory(r);
    }
    if (exg_map_find(&r->chunks, name) != EXG_MAP_NONE) {
        return EXG_OK;
    }
    if (!exg_map_put(&r->chunks, name, 0) ||
        !exg_arena_reserve(r->arena, &e->chunks, e->chunk_count, &e->chunk_capacity,
                           sizeof(*e->chunks))) {
        return no_memory(r);
    }
    e->chunks[e->chunk_count++] = chunk;
    return EXG_OK;
}

static exg_status new_entry(reader *r, const char *fqn, const exg_pickle_value *value)
{
    if (!exg_arena_reserve(r->arena, &r->entry_items, r->entry_count, &r->entry_capacity,
                           sizeof(*r->entry_items)) ||
        !exg_map_put(&r->entries, fqn, r->entry_count)) {
        return no_memory(r);
    }
    r->entry_items[r->entry_count++] = (entry){.fqn = fqn, .value = value};
    return EXG_OK;
}

/* Do two ranks say the same of a tensor, but for its chunks? */
static bool agree(const exg_pickle_value *a, const exg_pickle_value *b)
{
    exg_tensor_meta x = {0};
    exg_tensor_meta y = {0};
    const exg_pickle_value *sizes = member(a, "size");
    const exg_pickle_value *others = member(b, "size");

    if (!is_sizes(sizes) || !is_sizes(others) || sizes->as_items.count != others->as_items.count ||
        !read_properties(member(a, "properties"), &x) ||
        !read_properties(member(b, "properties"), &y) || x.dtype != y.dtype) {
        return false;
    }
    for (uint32_t d = 0; d < sizes->as_items.count; d++) {
        if (sizes->as_items.items[d]->as_int != others->as_items.items[d]->as_int) {
            return false;
        }
    }
    return true;
}

/* A value that a rank before has too. */
static exg_status add_twin(reader *r, const char *fqn, const char *rank)
{
    if (!exg_arena_reserve(r->arena, &r->twins, r->twin_count, &r->twin_capacity,
                           sizeof(*r->twins))) {
        return no_memory(r);
    }
    r->twins[r->twin_count++] = (twin){fqn, rank};
    return EXG_OK;
}

/* It is left out: without a word where it is the same. */
static exg_status tell_twin(reader *r, const twin *t)
{
    const exg_pickle_value *info;
    const char *first = exg_arena_printf(r->scratch, "%s\n", t->fqn);
    const char *name = exg_arena_printf(r->scratch, "%s\n%s", t->fqn, t->rank);
    const char *kind = exg_arena_printf(r->scratch, "another value of a later rank (%s)", t->rank);
    const uint8_t *a;
    const uint8_t *b;
    uint64_t length;
    uint64_t other;

    if (first == NULL || name == NULL || kind == NULL) {
        return no_memory(r);
    }
    EXG_TRY(locate(r, first, &info, &a, &length));
    EXG_TRY(locate(r, name, &info, &b, &other));
    return length == other && memcmp(a, b, (size_t)length) == 0
               ? EXG_OK
               : exg_weights_skip(r->weights, t->fqn, kind, r->err);
}

static exg_status add_entry(reader *r, const exg_pickle_value *key, const exg_pickle_value *value,
                            const char *rank)
{
    const exg_pickle_value *chunks = member(value, "chunks");
    uint32_t at;
    entry *e;

    if (!exg_pickle_is_name(key) || value->kind != EXG_PICKLE_OBJECT ||
        (chunks != NULL && chunks->kind != EXG_PICKLE_LIST)) {
        return damaged(r, "has an entry without a name, or that is none");
    }
    at = exg_map_find(&r->entries, key->as_text.data);
    if (at == EXG_MAP_NONE) {
        at = r->entry_count;
        EXG_TRY(new_entry(r, key->as_text.data, value));
    } else if (chunks == NULL && member(r->entry_items[at].value, "chunks") == NULL) {
        return add_twin(r, key->as_text.data, rank);
    } else if (!agree(r->entry_items[at].value, value)) {
        return EXG_FAIL(r->err, MALFORMED, "DCP-METADATA",
                        "%s says something else of '%s' than a rank before it", rank,
                        key->as_text.data);
    }
    e = &r->entry_items[at];
    for (uint32_t i = 0; chunks != NULL && i < chunks->as_items.count; i++) {
        EXG_TRY(add_chunk(r, e, chunks->as_items.items[i]));
    }
    return EXG_OK;
}

/* What one file of metadata says. */
static exg_status add_root(reader *r, const uint8_t *data, uint64_t length, const char *name)
{
    const exg_pickle_value *entries;
    const exg_pickle_value *places;
    exg_pickle pickle;

    EXG_TRY(exg_pickle_read(data, (size_t)length, NULL, r->arena, &pickle, r->err));
    entries = member(pickle.root, "state_dict_metadata");
    places = member(pickle.root, "storage_data");
    if (!is_dict(entries) || !is_dict(places)) {
        return damaged(r, "is none of torch.distributed.checkpoint: it lacks its two tables");
    }
    for (uint32_t i = 0; i + 1 < places->as_items.count; i += 2) {
        EXG_TRY(add_place(r, places->as_items.items[i], places->as_items.items[i + 1], name));
    }
    for (uint32_t i = 0; i + 1 < entries->as_items.count; i += 2) {
        EXG_TRY(add_entry(r, entries->as_items.items[i], entries->as_items.items[i + 1], name));
    }
    return exg_pickle_list_names(&pickle, exg_arena_printf(r->arena, "(%s)", name), NULL,
                                 r->weights, r->err);
}

static exg_status missing_rank(reader *r, int rank)
{
    char name[EXG_DCP_RANK_BYTES];

    exg_dcp_rank_name(rank, name);
    return exg_error_fix(
        r->err,
        EXG_FAIL(r->err, IO, "DCP-MISSING", "%s is not there, and later ranks have theirs", name),
        "put the files of every rank into the folder");
}

/* *is_there: there is such a file; and then it is added, if `adds`. */
static exg_status add_rank(reader *r, int rank, bool adds, bool *is_there)
{
    char name[EXG_DCP_RANK_BYTES];
    exg_opened opened;
    exg_error why;
    const uint8_t *data;
    uint64_t length;
    exg_status status;

    exg_error_clear(&why);
    exg_dcp_rank_name(rank, name);
    status = exg_source_open_below(r->folder, name, exg_weights_reading(r->weights), &opened, &why);
    *is_there = status != EXG_IO ||
                (strcmp(why.code, "IO-OPEN") != 0 && strcmp(why.code, "HTTP-MISSING") != 0);
    data = opened.source.data;
    length = opened.source.length;
    if (status == EXG_OK && adds) {
        status = exg_opened_give(&opened, r->weights, &why);
    }
    exg_opened_release(&opened); /* when it was not given away */
    if (status != EXG_OK) {
        if (*is_there && r->err != NULL) {
            *r->err = why;
        }
        return *is_there ? status : EXG_OK;
    }
    status = adds ? add_root(r, data, length, exg_arena_strdup(r->arena, name)) : EXG_OK;
    return status == EXG_OK ? EXG_OK : exg_error_within(r->err, status, "%s:", name);
}

/* A server lists no folder: of its ranks those up to the first that is not there. */
static exg_status add_ranks(reader *r, int given)
{
    bool lists = exg_weights_reading(r->weights).open_source == NULL;
    int count = INT_MAX;
    int rank = 0;
    bool is_there = true;

    if (lists) {
        EXG_TRY(exg_dcp_count_ranks(r->folder, &count, r->err));
    }
    while (rank < count) {
        EXG_TRY(add_rank(r, rank, true, &is_there));
        if (!is_there) {
            break;
        }
        rank++;
    }
    if (!is_there && !lists && rank > given) { /* and the one behind it */
        EXG_TRY(add_rank(r, rank + 1, false, &is_there));
        return is_there ? missing_rank(r, rank) : EXG_OK;
    }
    return is_there ? EXG_OK : missing_rank(r, rank);
}

/* ---- the folder -------------------------------------------------------------------------- */

static exg_status read_all(reader *r, const exg_source *source)
{
    const char *name = exg_path_name(source->path);
    int given = exg_dcp_rank_of(name);

    EXG_TRY(given >= 0 ? add_ranks(r, given) : add_root(r, source->data, source->length, name));
    EXG_TRY(open_files(r));
    EXG_TRY(fetch_ends(r));
    for (uint32_t i = 0; i < r->entry_count; i++) {
        EXG_TRY(read_entry(r, &r->entry_items[i]));
    }
    for (uint32_t i = 0; i < r->twin_count; i++) {
        EXG_TRY_IN(r->err, tell_twin(r, &r->twins[i]), "['%s']", r->twins[i].fqn);
    }
    return EXG_OK;
}

exg_status exg_dcp_read(const exg_source *source, exg_weights *weights, exg_error *err)
{
    reader r = {.weights = weights, .budget = source->budget, .inflate_left = source->budget};
    char *folder = source->path == NULL ? NULL : exg_path_directory(source->path);
    exg_status status;

    if (folder == NULL) {
        return source->path == NULL
                   ? EXG_FAIL(
                         err, UNSUPPORTED, "DCP-METADATA",
                         "a distributed checkpoint lies in files beside .metadata, and in memory "
                         "there are none")
                   : EXG_OUT_OF_MEMORY(err);
    }
    r.folder = folder;
    r.err = err;
    r.arena = exg_arena_create(source->allocator, source->budget);
    r.scratch = exg_arena_create(source->allocator, source->budget);
    status = r.arena == NULL || r.scratch == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    if (status == EXG_OK) {
        exg_map_init(&r.files, r.arena);
        exg_map_init(&r.places, r.arena);
        exg_map_init(&r.entries, r.arena);
        exg_map_init(&r.chunks, r.arena);
        status = read_all(&r, source);
        status = close_windows(&r, status);
    }
    exg_arena_destroy(r.scratch);
    exg_arena_destroy(r.arena);
    free(folder);
    return status;
}

bool exg_dcp_sniff(const uint8_t *data, uint64_t length)
{
    static const char sign[] = "torch.distributed.checkpoint.metadata";

    return length > 2 && data[0] == 0x80 &&
           memmem(data, length < SNIFF_BYTES ? (size_t)length : SNIFF_BYTES, sign,
                  sizeof(sign) - 1) != NULL;
}
