/* dcp.c - what torch.distributed.checkpoint saves: a pickle called .metadata, which says of what
 * chunks every tensor is made, and files that hold each chunk as torch.save writes it.
 *
 * The folder opens as one set of whole tensors. A tensor of one chunk is used where it lies; one
 * of several is put together as it is read. Values that are no tensors are walked like those of
 * any checkpoint.
 */
#include "libexport/formats/pt2/chunks.h"
#include "libexport/formats/pt2/saved.h"
#include "libexport/formats/weights_file.h"

#include "libexport/base/checked.h"
#include "libexport/base/files.h"
#include "libexport/weights/storage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SNIFF_BYTES  256
#define LISTED_BYTES 240 /* of the names of missing files in a message */

/* A file that holds chunks. */
typedef struct chunk_file {
    const uint8_t *data;
    uint64_t length;
} chunk_file;

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

static exg_status add_place(reader *r, const exg_pickle_value *index, const exg_pickle_value *info)
{
    const exg_pickle_value *fqn = member(index, "fqn");
    const exg_pickle_value *path = member(info, "relative_path");
    const char *name;

    if (fqn == NULL || !exg_pickle_is_name(fqn) || path == NULL || !exg_pickle_is_name(path)) {
        return damaged(r, "has a place in storage_data that is none");
    }
    name = place_name(r->arena, fqn->as_text.data, member(index, "offset"));
    if (name == NULL ||
        !exg_arena_reserve(r->arena, &r->place_items, r->place_count, &r->place_capacity,
                           sizeof(*r->place_items)) ||
        !exg_map_put(&r->places, name, r->place_count)) {
        return no_memory(r);
    }
    r->place_items[r->place_count++] = info;
    return EXG_OK;
}

/* Maps the file, or adds it to those that are missing. */
static exg_status open_file(reader *r, const char *path, exg_text *missing, uint32_t *missing_count)
{
    exg_mapping mapping;
    chunk_file file;
    exg_error why;
    exg_status status;

    if (exg_map_find(&r->files, path) != EXG_MAP_NONE) {
        return EXG_OK;
    }
    status = exg_file_map_below(r->folder, path, exg_weights_reading(r->weights), &mapping, &why);
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
    file = (chunk_file){mapping.data, mapping.length};
    status = exg_weights_own_mapping(r->weights, &mapping, r->err);
    if (status != EXG_OK) {
        exg_mapping_release(&mapping);
        return status;
    }
    if (!exg_arena_reserve(r->arena, &r->file_items, r->file_count, &r->file_capacity,
                           sizeof(*r->file_items)) ||
        !exg_map_put(&r->files, path, r->file_count)) {
        return no_memory(r);
    }
    r->file_items[r->file_count++] = file;
    return EXG_OK;
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

/* ---- what lies there --------------------------------------------------------------------- */

/* Opens what torch.save wrote at a place; *compressed: it is not as it was written. */
static exg_status open_place(reader *r, const char *fqn, const exg_pickle_value *offsets,
                             exg_saved *saved, const exg_pickle_value **compressed)
{
    const char *name = place_name(r->scratch, fqn, offsets);
    uint32_t at = name == NULL ? EXG_MAP_NONE : exg_map_find(&r->places, name);
    const exg_pickle_value *info = at == EXG_MAP_NONE ? NULL : r->place_items[at];
    const exg_pickle_value *offset = member(info, "offset");
    const exg_pickle_value *length = member(info, "length");
    const exg_pickle_value *transforms = member(info, "transform_descriptors");
    const chunk_file *file;

    *compressed = NULL;
    if (name == NULL) {
        return no_memory(r);
    }
    if (info == NULL) {
        return EXG_FAIL(r->err, MALFORMED, "DCP-CHUNK", "no file holds the chunk at %s",
                        strchr(name, '\n') + 1);
    }
    file = &r->file_items[exg_map_find(&r->files, member(info, "relative_path")->as_text.data)];
    if (offset == NULL || offset->kind != EXG_PICKLE_INT || length == NULL ||
        length->kind != EXG_PICKLE_INT || offset->as_int < 0 || length->as_int < 0 ||
        !exg_range_inside((uint64_t)offset->as_int, (uint64_t)length->as_int, file->length)) {
        return EXG_FAIL(r->err, MALFORMED, "DCP-CHUNK", "%s is too short for the chunk at %s",
                        member(info, "relative_path")->as_text.data, strchr(name, '\n') + 1);
    }
    if (transforms != NULL && transforms->kind != EXG_PICKLE_NONE &&
        !(transforms->kind == EXG_PICKLE_LIST && transforms->as_items.count == 0)) {
        *compressed = transforms;
        return EXG_OK;
    }
    return exg_saved_open(file->data + offset->as_int, (uint64_t)length->as_int,
                          (uint64_t)offset->as_int, false, r->scratch, &r->inflate_left, r->weights,
                          saved, r->err);
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

static exg_status read_tensor(reader *r, const char *fqn, const exg_pickle_value *value)
{
    const exg_pickle_value *size = member(value, "size");
    const exg_pickle_value *chunks = member(value, "chunks");
    const exg_pickle_value *compressed = NULL;
    exg_tensor_meta meta = {.layout = EXG_LAYOUT_STRIDED, .device = {"cpu", -1}};
    exg_chunk_tensor *tensor;

    if (!is_sizes(size) || chunks->kind != EXG_PICKLE_LIST ||
        !read_properties(member(value, "properties"), &meta)) {
        return damaged(r, "describes a tensor as PyTorch does not");
    }
    EXG_TRY(exg_chunk_tensor_create(r->weights, size->as_items.count, chunks->as_items.count,
                                    &tensor, r->err));
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
        EXG_TRY(
            read_chunk(r, fqn, chunks->as_items.items[i], &meta, &tensor->parts[i], &compressed));
    }
    return compressed != NULL ? skip(r, fqn, "a tensor that is written through ", compressed)
                              : exg_chunk_tensor_add(tensor, fqn, &meta, r->err);
}

static exg_status read_entry(reader *r, const exg_pickle_value *key, const exg_pickle_value *value)
{
    if (!exg_pickle_is_name(key) || value->kind != EXG_PICKLE_OBJECT) {
        return damaged(r, "has an entry without a name, or that is none");
    }
    EXG_TRY_IN(r->err,
               member(value, "chunks") == NULL ? read_bytes(r, key->as_text.data)
                                               : read_tensor(r, key->as_text.data, value),
               "['%s']", key->as_text.data);
    exg_arena_reset(r->scratch);
    return EXG_OK;
}

/* ---- the folder -------------------------------------------------------------------------- */

static exg_status read_all(reader *r, const exg_pickle_value *root)
{
    const exg_pickle_value *entries = member(root, "state_dict_metadata");
    const exg_pickle_value *places = member(root, "storage_data");

    if (!is_dict(entries) || !is_dict(places)) {
        return damaged(r, "is none of torch.distributed.checkpoint: it lacks its two tables");
    }
    for (uint32_t i = 0; i + 1 < places->as_items.count; i += 2) {
        EXG_TRY(add_place(r, places->as_items.items[i], places->as_items.items[i + 1]));
    }
    EXG_TRY(open_files(r));
    for (uint32_t i = 0; i + 1 < entries->as_items.count; i += 2) {
        EXG_TRY(read_entry(r, entries->as_items.items[i], entries->as_items.items[i + 1]));
    }
    return EXG_OK;
}

exg_status exg_dcp_read(const exg_source *source, exg_weights *weights, exg_error *err)
{
    reader r = {.weights = weights, .budget = source->budget, .inflate_left = source->budget};
    char *folder = source->path == NULL ? NULL : exg_path_directory(source->path);
    exg_pickle pickle;
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
        status = exg_pickle_read(source->data, (size_t)source->length, NULL, r.arena, &pickle, err);
    }
    if (status == EXG_OK) {
        status = read_all(&r, pickle.root);
    }
    if (status == EXG_OK) {
        status = exg_pickle_list_names(&pickle, "(.metadata)", NULL, weights, err);
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
