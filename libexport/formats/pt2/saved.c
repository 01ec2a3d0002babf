/* saved.c - torch.save files: opening, storages, tensors. Form: docs/pt2.md section 2.6. */
#include "libexport/formats/pt2/saved.h"

#include "libexport/base/checked.h"
#include "libexport/formats/pt2/conjugate.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening ----------------------------------------------------------------------------- */

static exg_status find_root(exg_saved *file, exg_error *err)
{
    const char *first = file->archive.zip.count == 0 ? "" : file->archive.zip.entries[0].name;
    const char *slash = strchr(first, '/');

    if (slash == NULL) {
        return EXG_FAIL(err, MALFORMED, "PKL-002", "a torch.save file has a root folder");
    }
    file->archive.root = exg_arena_strndup(file->archive.arena, first, (size_t)(slash - first) + 1);
    return file->archive.root == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

static exg_status read_order(exg_saved *file, exg_error *err)
{
    const exg_zip_entry *entry = exg_archive_find(&file->archive, "byteorder");
    const uint8_t *data = NULL;

    if (entry == NULL) {
        return EXG_OK;
    }
    EXG_TRY(exg_archive_keep(&file->archive, entry, file->weights, &data, err));
    if (entry->bytes == 3 && memcmp(data, "big", 3) == 0) {
        file->archive.byte_order = EXG_BIG_ENDIAN;
    } else if (entry->bytes != 6 || memcmp(data, "little", 6) != 0) {
        return EXG_FAIL(err, MALFORMED, "ARC-011", "byteorder is not little or big");
    }
    return EXG_OK;
}

/* Notes which storages are named. */
static exg_status take_id(void *user, exg_pickle_value *id, exg_arena *arena,
                          exg_pickle_value *result, exg_error *err)
{
    exg_saved *file = user;

    EXG_TRY(exg_pickle_persistent(NULL, id, arena, result, err));
    return result->kind != EXG_PICKLE_STORAGE ||
                   exg_map_put(&file->keys, result->as_storage->key, 0)
               ? EXG_OK
               : EXG_OUT_OF_MEMORY(err);
}

static exg_status read_pickle(exg_saved *file, const char *record, bool strict, exg_error *err)
{
    exg_pickle_options options = {.strict = strict, .persistent = take_id, .user = file};
    const exg_zip_entry *pickle = exg_archive_find(&file->archive, record);
    const uint8_t *data = NULL;

    if (pickle == NULL) {
        return EXG_FAIL(err, MALFORMED, "PKL-002", "the record %s is missing", record);
    }
    EXG_TRY(exg_archive_keep(&file->archive, pickle, file->weights, &data, err));
    EXG_TRY(exg_archive_compare(&file->archive, pickle, data, err));
    return exg_pickle_read(data, (size_t)pickle->bytes, &options, file->archive.arena,
                           &file->pickle, err);
}

static exg_status open_zip(const uint8_t *data, uint64_t length, uint64_t base, bool strict,
                           exg_saved *file, exg_error *err)
{
    EXG_TRY(exg_zip_open(data, length, base, file->archive.arena, &file->archive.zip, err));
    EXG_TRY(find_root(file, err));
    EXG_TRY(read_order(file, err));
    return read_pickle(file, "data.pkl", strict, err);
}

exg_status exg_saved_open(const uint8_t *data, uint64_t length, uint64_t base, bool strict,
                          exg_arena *arena, uint64_t *inflate_left, exg_weights *weights,
                          exg_saved *file, exg_error *err)
{
    *file = (exg_saved){.archive = {.arena = arena, .inflate_left = inflate_left},
                        .weights = weights,
                        .records = "data/"};
    exg_map_init(&file->storages, arena);
    exg_map_init(&file->keys, arena);
    if (length == 0) {
        return EXG_OK;
    }
    if (!exg_zip_sniff(data, length)) {
        if (strict || !exg_stream_sniff(data, length)) {
            return exg_error_fix(
                err,
                EXG_FAIL(err, UNSUPPORTED, "PKL-002", "%s",
                         strict ? "this is not a zip archive: too old a torch.save"
                                : "this is no file of torch.save, or it is cut short"),
                strict ? "load it in PyTorch and save it again"
                       : "copy the file again and compare its size");
        }
        EXG_TRY(exg_stream_open(data, length, file, err));
    } else {
        EXG_TRY(open_zip(data, length, base, strict, file, err));
    }
    file->object = file->pickle.root;
    return EXG_OK;
}

exg_status exg_saved_open_constants(const exg_saved *outer, exg_saved *constants, exg_error *err)
{
    *constants =
        (exg_saved){.archive = outer->archive, .weights = outer->weights, .records = "constants/"};
    exg_map_init(&constants->storages, outer->archive.arena);
    exg_map_init(&constants->keys, outer->archive.arena);
    if (outer->is_stream || exg_archive_find(&outer->archive, "constants.pkl") == NULL) {
        return EXG_OK;
    }
    EXG_TRY_IN(err, read_pickle(constants, "constants.pkl", false, err), "constants.pkl");
    constants->object = constants->pickle.root;
    return EXG_OK;
}

/* ---- tensors ------------------------------------------------------------------------------- */

/* Of a storage in bytes; its record has exactly those. */
static exg_status check_bytes(const char *records, const exg_pickle_storage *storage,
                              uint64_t there, exg_error *err)
{
    uint64_t bytes = 0;

    if (!exg_mul_u64(storage->count,
                     storage->dtype == EXG_DTYPE_COUNT ? 1 : exg_dtype_bytes(storage->dtype),
                     &bytes) ||
        bytes != there) {
        return EXG_FAIL(
            err, MALFORMED, "WGT-003", "the record %s%s has %llu bytes, not those of %llu elements",
            records, storage->key, (unsigned long long)there, (unsigned long long)storage->count);
    }
    return EXG_OK;
}

exg_status exg_saved_storage(exg_saved *file, const exg_pickle_storage *storage, uint32_t *index,
                             exg_error *err)
{
    const exg_zip_entry *entry =
        file->is_stream ? NULL : exg_archive_find3(&file->archive, file->records, storage->key, "");

    *index = exg_map_find(&file->storages, storage->key);
    if (file->is_stream && *index != EXG_MAP_NONE) {
        return check_bytes(file->records, storage, file->weights->storages[*index].length, err);
    }
    if (entry == NULL) {
        return EXG_FAIL(err, MALFORMED, "WGT-001", "the record %s%s is missing", file->records,
                        storage->key);
    }
    EXG_TRY(check_bytes(file->records, storage, entry->bytes, err));
    if (*index != EXG_MAP_NONE) {
        return EXG_OK;
    }
    EXG_TRY(exg_archive_storage(&file->archive, entry, file->weights, file->archive.byte_order,
                                index, err));
    return exg_map_put(&file->storages, storage->key, *index) ? EXG_OK : EXG_OUT_OF_MEMORY(err);
}

/* "cuda:1" -> {"cuda", 1} */
static exg_status parse_device(exg_arena *arena, const char *location, exg_device *device,
                               exg_error *err)
{
    const char *colon = strchr(location, ':');
    char *end;

    device->index = -1;
    device->type = colon == NULL ? exg_arena_strdup(arena, location)
                                 : exg_arena_strndup(arena, location, (size_t)(colon - location));
    if (device->type == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (colon != NULL) {
        device->index = strtol(colon + 1, &end, 10);
        if (end == colon + 1 || *end != '\0' || device->index < 0) {
            return EXG_FAIL(err, MALFORMED, "PKL-001", "'%s' is not a device", location);
        }
    }
    return EXG_OK;
}

/* The view of a tensor: sizes, strides, offset. */
static exg_status read_view(const exg_pickle_tensor *tensor, exg_arena *arena,
                            exg_tensor_meta *meta, exg_error *err)
{
    uint32_t rank = tensor->sizes->count;
    int64_t offset = 0;

    meta->sizes = EXG_NEW_ARRAY(arena, exg_sym_int, rank);
    meta->strides = EXG_NEW_ARRAY(arena, exg_sym_int, rank);
    if (meta->sizes == NULL || meta->strides == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (tensor->storage->first > INT64_MAX ||
        !exg_add_i64(tensor->offset, (int64_t)tensor->storage->first, &offset)) {
        return EXG_FAIL(err, MALFORMED, "WGT-005", "the view passes 63 bits");
    }
    meta->rank = rank;
    meta->storage_offset = exg_sym_int_of(offset);
    for (uint32_t d = 0; d < rank; d++) {
        meta->sizes[d] = exg_sym_int_of(tensor->sizes->items[d]->as_int);
        meta->strides[d] = exg_sym_int_of(tensor->strides->items[d]->as_int);
    }
    return EXG_OK;
}

/* Elements that share bytes: the bytes are the tensor, the shape says nothing of them. */
static bool is_packed(const exg_pickle_tensor *tensor)
{
    return tensor->encoding != NULL &&
           (strcmp(tensor->encoding, "quint4x2") == 0 || strcmp(tensor->encoding, "quint2x4") == 0);
}

static exg_status read_bytes(const exg_pickle_tensor *tensor, exg_arena *arena,
                             exg_tensor_meta *meta, exg_error *err)
{
    meta->sizes = EXG_NEW_ARRAY(arena, exg_sym_int, 1);
    meta->strides = EXG_NEW_ARRAY(arena, exg_sym_int, 1);
    if (meta->sizes == NULL || meta->strides == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    meta->rank = 1;
    meta->storage_offset = exg_sym_int_of(0);
    meta->sizes[0] = exg_sym_int_of((int64_t)tensor->storage->count);
    meta->strides[0] = exg_sym_int_of(1);
    return EXG_OK;
}

exg_status exg_saved_meta(exg_saved *file, const exg_pickle_tensor *tensor, exg_arena *arena,
                          exg_tensor_meta **out, uint32_t *storage, exg_error *err)
{
    exg_tensor_meta *meta = EXG_NEW(arena, exg_tensor_meta);

    if (meta == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    meta->dtype = tensor->dtype;
    meta->layout = EXG_LAYOUT_STRIDED;
    meta->requires_grad = tensor->requires_grad;
    EXG_TRY((is_packed(tensor) ? read_bytes : read_view)(tensor, arena, meta, err));
    EXG_TRY(parse_device(arena, tensor->storage->location, &meta->device, err));
    EXG_TRY(exg_saved_storage(file, tensor->storage, storage, err));
    EXG_TRY(exg_tensor_meta_check_view(meta, file->weights->storages[*storage].length, err));
    if (tensor->is_conj || tensor->is_neg) {
        EXG_TRY(exg_storage_conjugate(file->weights, tensor->dtype, tensor->is_conj, tensor->is_neg,
                                      storage, err));
    }
    *out = meta;
    return EXG_OK;
}
