/* subclass.c - weights of tensor subclasses, which torch.export.save() pickles: their inner tensors
 * in their place, and back. Nothing of a pickle is run (saved_walk.h). */
#include "libexport/formats/pt2/subclass.h"
#include "libexport/base/arena.h"
#include "libexport/base/require.h"
#include "libexport/formats/pt2/zip.h"
#include "libexport/formats/weights_file.h"
#include "libexport/weights/storage.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

/* The plain bytes of a storage, which stay as long as `of` and `inner`. */
static exg_status bytes_of(exg_weights *of, uint32_t storage, exg_weights *inner,
                           exg_source *source, exg_error *err)
{
    uint64_t length = of->storages[storage].length;
    uint32_t unused;
    void *bytes;

    EXG_TRY(exg_storage_map(of, storage, &source->data, err));
    if (source->data == NULL) {
        bytes = malloc(length == 0 ? 1 : (size_t)length);
        if (bytes == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        EXG_TRY(exg_weights_add_bytes(inner, bytes, length, EXG_LITTLE_ENDIAN, &unused, err));
        EXG_TRY(exg_storage_read(of, storage, 0, length, bytes, err));
        source->data = bytes;
    }
    source->length = length;
    source->budget = exg_default_budget(length);
    return EXG_OK;
}

/* What is inside of the pickle of `weight`: tensors, and the rest as metadata, as long as `of`.
 * NULL, where it cannot be read. */
static exg_status open_pickle(exg_weights *of, const exg_weight *weight, exg_weights **inner,
                              exg_error *err)
{
    exg_source source = {0};
    exg_status status;
    bool is_unreadable = false;

    EXG_TRY(exg_weights_create(exg_arena_allocator(of->arena), inner, err));
    status = bytes_of(of, weight->storage, *inner, &source, err);
    if (status == EXG_OK) {
        status = exg_checkpoint_sniff(source.data, source.length)
                     ? exg_checkpoint_read(&source, *inner, err)
                     : EXG_MALFORMED;
        is_unreadable = status != EXG_OK && status != EXG_NO_MEMORY && status != EXG_IO;
    }
    if (status != EXG_OK) {
        exg_weights_release(*inner);
        *inner = NULL;
    }
    return is_unreadable ? EXG_OK : status;
}

/* Adds the tensors of `inner`, whose names go on that of `weight`. */
static exg_status add_inner(exg_weights *made, const exg_weight *weight, exg_weights *inner,
                            exg_error *err)
{
    uint32_t first = made->storage_count;
    uint32_t index;

    for (uint32_t s = 0; s < inner->storage_count; s++) {
        EXG_TRY(exg_weights_add_storage(made, &inner->storages[s], &index, err));
    }
    for (uint32_t i = 0; i < inner->count; i++) {
        exg_weight part = inner->items[i];

        part.fqn = exg_arena_printf(made->arena, "%s.%s", weight->fqn, part.fqn);
        if (part.fqn == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        part.table = weight->table;
        part.is_param = weight->is_param;
        part.storage += first;
        EXG_TRY(exg_weights_add(made, &part, err));
    }
    return exg_weights_retain_in(made, inner, err);
}

/* The tensors of one; what cannot be read stays a pickle. */
static exg_status unwrap(exg_weights *of, const exg_weight *weight, exg_weights *made,
                         exg_error *err)
{
    exg_weights *inner;
    exg_status status;

    EXG_TRY(open_pickle(of, weight, &inner, err));
    status =
        inner == NULL ? exg_weights_add(made, weight, err) : add_inner(made, weight, inner, err);
    exg_weights_release(inner);
    return status;
}

/* The class is what the walk lists at the root. */
static exg_status copy_attributes(const exg_weights *inner, exg_arena *arena, const char **type,
                                  exg_string_map *made, exg_error *err)
{
    const exg_string_map *of = &inner->metadata;

    for (uint32_t i = 0; *type == NULL && i < inner->skipped_count; i++) {
        if (strcmp(inner->skipped[i].name, "(root)") == 0) {
            *type = exg_arena_strdup(arena, inner->skipped[i].kind);
        }
    }
    made->items = EXG_NEW_ARRAY(arena, exg_string_pair, of->count);
    for (uint32_t i = 0; made->items != NULL && i < of->count; i++) {
        exg_string_pair *pair = &made->items[made->count++];

        pair->key = exg_arena_strdup(arena, of->items[i].key);
        pair->value = exg_arena_strdup(arena, of->items[i].value);
        if (pair->key == NULL || pair->value == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    return made->items == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

exg_status exg_weight_attributes(exg_weights *of, const exg_weight *weight, exg_arena *arena,
                                 const char **type, exg_string_map *attributes, exg_error *err)
{
    exg_weights *inner;
    exg_status status = EXG_OK;

    *type = NULL;
    *attributes = (exg_string_map){0};
    EXG_TRY(open_pickle(of, weight, &inner, err));
    if (inner != NULL) {
        status = copy_attributes(inner, arena, type, attributes, err);
    }
    exg_weights_release(inner);
    return status;
}

bool exg_weights_has_subclasses(const exg_weights *weights)
{
    for (uint32_t i = 0; i < weights->count; i++) {
        if (weights->items[i].use_pickle && weights->items[i].meta != NULL) {
            return true;
        }
    }
    return false;
}

exg_status exg_weights_unwrap(exg_weights *of, exg_weights **made, exg_error *err)
{
    EXG_REQUIRE(err, of, made);
    exg_status status = exg_weights_beside(of, made, err);

    for (uint32_t i = 0; status == EXG_OK && i < of->count; i++) {
        const exg_weight *weight = &of->items[i];

        status = weight->use_pickle && weight->meta != NULL ? unwrap(of, weight, *made, err)
                                                            : exg_weights_add(*made, weight, err);
    }
    if (status != EXG_OK) {
        exg_weights_release(*made);
        *made = NULL;
    }
    return status;
}

/* ---- the way back ---------------------------------------------------------------------------- */

/* A pickle whose tensors get other bytes where they lie. */
typedef struct wrapping {
    uint8_t *bytes; /* a copy */
    uint64_t length;
    exg_zip zip;
    exg_weights *inside; /* the tensors, which point into it */
    bool *done;          /* by storage of `inside` */
} wrapping;

/* The member that [at, at + length) of the pickle lies in, or NULL. */
static exg_zip_entry *member_of(wrapping *w, const uint8_t *at, uint64_t length)
{
    uint64_t first = (uint64_t)(at - w->bytes);

    for (uint32_t i = 0; i < w->zip.count; i++) {
        exg_zip_entry *entry = &w->zip.entries[i];

        if (!entry->deflated && first >= entry->data_offset && length <= entry->bytes &&
            first - entry->data_offset <= entry->bytes - length) {
            return entry;
        }
    }
    return NULL;
}

/* The bytes of storage `from` of `inner` in the place of those of storage `to`. */
static exg_status put_bytes(wrapping *w, uint32_t to, exg_weights *inner, uint32_t from,
                            const char *name, exg_error *err)
{
    const exg_storage *old = &w->inside->storages[to];
    uint64_t length = old->length;
    uint8_t *at = old->kind == EXG_STORAGE_MEMORY ? (uint8_t *)(uintptr_t)old->data : NULL;
    const bool is_inside = at != NULL && at >= w->bytes && at <= w->bytes + w->length &&
                           length <= w->length - (uint64_t)(at - w->bytes);
    exg_zip_entry *entry = is_inside ? member_of(w, at, length) : NULL;

    if (length == 0 || w->done[to]) {
        return EXG_OK;
    }
    w->done[to] = true;
    if (entry == NULL || inner->storages[from].length != length ||
        inner->storages[from].byte_order != old->byte_order) {
        return EXG_FAIL(err, UNSUPPORTED, "WGT-013",
                        "the pickle of '%s' does not hold its bytes as they are", name);
    }
    EXG_TRY(exg_storage_read(inner, from, 0, length, at, err));
    exg_zip_seal(w->bytes, w->length, entry,
                 libdeflate_crc32(0, w->bytes + entry->data_offset, (size_t)entry->bytes));
    return EXG_OK;
}

static exg_status put_tensors(wrapping *w, const exg_weight *weight, exg_weights *inner,
                              exg_error *err)
{
    w->done = EXG_NEW_ARRAY(w->inside->arena, bool, w->inside->storage_count);
    if (w->done == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < w->inside->count; i++) {
        const exg_weight *part = &w->inside->items[i];
        const char *name = exg_arena_printf(w->inside->arena, "%s.%s", weight->fqn, part->fqn);
        const exg_weight *giver =
            name == NULL ? NULL : exg_weights_find(inner, weight->table, name);

        if (name == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        if (giver != NULL) {
            EXG_TRY(put_bytes(w, part->storage, inner, giver->storage, weight->fqn, err));
        }
    }
    return EXG_OK;
}

/* Storage of `made` that is the pickle of `weight`: the same with the tensors of `inner`. */
static exg_status wrap(exg_weights *of, const exg_weight *weight, exg_weights *inner,
                       exg_weights *made, exg_error *err)
{
    wrapping w = {.length = of->storages[weight->storage].length};
    exg_source source = {.length = w.length, .budget = exg_default_budget(w.length)};
    exg_status status = EXG_OK;

    w.bytes = malloc(w.length == 0 ? 1 : (size_t)w.length);
    if (w.bytes == NULL || exg_weights_own(made, free, w.bytes, err) != EXG_OK) {
        free(w.bytes);
        return EXG_OUT_OF_MEMORY(err);
    }
    source.data = w.bytes;
    EXG_TRY(exg_storage_read(of, weight->storage, 0, w.length, w.bytes, err));
    EXG_TRY(exg_weights_create(exg_arena_allocator(of->arena), &w.inside, err));
    if (exg_checkpoint_sniff(w.bytes, w.length) &&
        exg_checkpoint_read(&source, w.inside, NULL) == EXG_OK && w.inside->count > 0) {
        status = exg_zip_open(w.bytes, w.length, 0, w.inside->arena, &w.zip, err);
        status = status == EXG_OK ? put_tensors(&w, weight, inner, err) : status;
    }
    exg_weights_release(w.inside);
    made->storages[weight->storage] = (exg_storage){.kind = EXG_STORAGE_MEMORY,
                                                    .byte_order = EXG_LITTLE_ENDIAN,
                                                    .length = w.length,
                                                    .data = w.bytes};
    return status;
}

exg_status exg_weights_wrap(exg_weights *of, exg_weights *inner, exg_weights **made, exg_error *err)
{
    EXG_REQUIRE(err, of, inner, made);
    exg_status status = exg_weights_like(of, made, err);

    if (status == EXG_OK) {
        status = exg_weights_retain_in(*made, inner, err);
    }
    for (uint32_t i = 0; status == EXG_OK && i < of->count; i++) {
        const exg_weight *weight = &of->items[i];
        const exg_weight *giver = exg_weights_find(inner, weight->table, weight->fqn);

        if (weight->use_pickle && weight->meta != NULL) {
            status = wrap(of, weight, inner, *made, err);
        } else if (giver != NULL && !weight->use_pickle) {
            (*made)->storages[weight->storage] = inner->storages[giver->storage];
        }
    }
    if (status != EXG_OK) {
        exg_weights_release(*made);
        *made = NULL;
    }
    return status;
}
