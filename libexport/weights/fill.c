/* fill.c - weights like others, with the bytes of a third: by name, shape and dtype.
 *
 * A storage that is one tensor, under one name or several, reads from the file it comes
 * from when it is read itself. What is viewed in several ways is put together in memory.
 */
#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/base/require.h"
#include "libexport/weights/made_storage.h"
#include "libexport/weights/storage.h"

#include <exg/text.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES EXG_FRAME_BYTES
#define NONE        UINT32_MAX

typedef struct filler {
    exg_weights *of, *from, *made;
    exg_mismatches *mismatches;
    exg_map names;             /* of `from` */
    const exg_weight **givers; /* of each weight of `of`, or NULL */
    uint32_t *heads, *nexts;   /* storage -> its first weight with a giver -> the next, or NONE */
    bool partial;
    uint32_t given; /* how many */
    exg_error *err;
} filler;

const char *exg_mismatch_text(exg_mismatch_kind kind)
{
    static const char *const texts[] = {
#define EXG_MISMATCH_KIND(id, fault, text) [EXG_MISMATCH_##id] = text,
#include <exg/mismatch.def>
#undef EXG_MISMATCH_KIND
    };

    return (unsigned)kind < sizeof(texts) / sizeof(texts[0]) ? texts[kind] : "?";
}

bool exg_mismatch_is_fault(exg_mismatch_kind kind)
{
    static const bool faults[] = {
#define EXG_MISMATCH_KIND(id, fault, text) [EXG_MISMATCH_##id] = fault,
#include <exg/mismatch.def>
#undef EXG_MISMATCH_KIND
    };

    return (unsigned)kind < sizeof(faults) / sizeof(faults[0]) && faults[kind];
}

void exg_mismatches_free(exg_mismatches *mismatches)
{
    if (mismatches == NULL) {
        return;
    }
    for (uint32_t i = 0; i < mismatches->count; i++) {
        free(mismatches->items[i].name);
    }
    free(mismatches->items);
    *mismatches = (exg_mismatches){0};
}

exg_status exg_mismatches_add(exg_mismatches *list, exg_mismatch_kind kind, const char *name,
                              const char *detail, exg_error *err)
{
    exg_mismatch *items = realloc(list->items, (list->count + 1u) * sizeof(*items));
    char *copy = strdup(name);

    if (items != NULL) {
        list->items = items;
    }
    if (items == NULL || copy == NULL) {
        free(copy);
        return EXG_OUT_OF_MEMORY(err);
    }
    items[list->count] = (exg_mismatch){.kind = kind, .name = copy};
    snprintf(items[list->count].detail, sizeof(items[0].detail), "%s", detail);
    list->count++;
    list->fault_count += exg_mismatch_is_fault(kind);
    return EXG_OK;
}

static exg_status note(filler *f, exg_mismatch_kind kind, const char *name, const char *detail)
{
    return exg_mismatches_add(f->mismatches, kind, name, detail, f->err);
}

/* ---- by name, shape, dtype --------------------------------------------------------------------
 */

static bool is_plain(const exg_weight *weight)
{
    return weight->meta != NULL && !weight->use_pickle;
}

static void put_shape(exg_text *text, const exg_tensor_meta *meta)
{
    exg_text_putc(text, '[');
    for (uint32_t d = 0; d < meta->rank; d++) {
        exg_text_printf(text, "%s%" PRId64, d > 0 ? ", " : "", meta->sizes[d].value);
    }
    exg_text_putc(text, ']');
}

static exg_status compare(filler *f, const exg_weight *weight, const exg_weight *giver, bool *fits)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    *fits = false;
    if (giver->encoding != NULL) {
        return note(f, EXG_MISMATCH_ENCODED, weight->fqn, giver->encoding);
    }
    if (giver->meta->dtype != weight->meta->dtype) {
        exg_text_printf(&text, "%s, given %s", exg_dtype_name(weight->meta->dtype),
                        exg_dtype_name(giver->meta->dtype));
        status = note(f, EXG_MISMATCH_DTYPE, weight->fqn, text.failed ? "" : text.data);
    } else if (!exg_tensor_meta_same_shape(giver->meta, weight->meta)) {
        put_shape(&text, weight->meta);
        exg_text_puts(&text, ", given ");
        put_shape(&text, giver->meta);
        status = note(f, EXG_MISMATCH_SHAPE, weight->fqn, text.failed ? "" : text.data);
    } else {
        *fits = true;
        status = EXG_OK;
    }
    exg_text_free(&text);
    return status;
}

/* Is weight `i` its whole storage, row by row? */
static bool is_whole(const filler *f, uint32_t i)
{
    const exg_weight *weight = &f->of->items[i];
    uint64_t bytes = 0;

    return weight->meta->storage_offset.value == 0 && exg_tensor_meta_is_packed(weight->meta) &&
           exg_tensor_meta_bytes(weight->meta, &bytes, NULL) == EXG_OK &&
           bytes == f->of->storages[weight->storage].length;
}

/* Has the file the bytes of weight `i` under another name, as checkpoints have tied weights once?
 */
static bool is_given_tied(const filler *f, uint32_t i)
{
    bool given = false;

    for (uint32_t k = 0; !given && k < f->of->count; k++) {
        const exg_weight *other = &f->of->items[k];

        given = k != i && is_plain(other) && other->storage == f->of->items[i].storage &&
                is_whole(f, k) && exg_map_find(&f->names, other->fqn) != EXG_MAP_NONE;
    }
    return given;
}

static exg_status find_givers(filler *f)
{
    uint32_t taken = 0;

    for (uint32_t i = 0; i < f->from->count; i++) {
        if (is_plain(&f->from->items[i]) && !exg_map_put(&f->names, f->from->items[i].fqn, i)) {
            return EXG_OUT_OF_MEMORY(f->err);
        }
    }
    for (uint32_t i = 0; i < f->of->count; i++) {
        const exg_weight *weight = &f->of->items[i];
        uint32_t at = exg_map_find(&f->names, weight->fqn);
        bool fits = false;

        if (!is_plain(weight)) {
            continue;
        }
        if (at != EXG_MAP_NONE) {
            EXG_TRY(compare(f, weight, &f->from->items[at], &fits));
            taken++;
        } else if (weight->table == EXG_TABLE_STATE && !is_given_tied(f, i)) {
            EXG_TRY(
                note(f, f->partial ? EXG_MISMATCH_KEPT : EXG_MISMATCH_MISSING, weight->fqn, ""));
        }
        f->givers[i] = fits ? &f->from->items[at] : NULL;
        f->given += fits;
    }
    if (taken == f->names.count) {
        return EXG_OK;
    }
    exg_map_init(&f->names, f->made->arena);
    for (uint32_t i = 0; i < f->of->count; i++) {
        if (!exg_map_put(&f->names, f->of->items[i].fqn, i)) {
            return EXG_OUT_OF_MEMORY(f->err);
        }
    }
    for (uint32_t i = 0; i < f->from->count; i++) {
        if (exg_map_find(&f->names, f->from->items[i].fqn) == EXG_MAP_NONE) {
            EXG_TRY(note(f, EXG_MISMATCH_UNKNOWN, f->from->items[i].fqn, ""));
        }
    }
    return EXG_OK;
}

/* ---- a storage that is one tensor ---------------------------------------------------------------
 */

typedef struct giver {
    exg_weights *from;
    const exg_weight *weight;
} giver;

/* Pages of a mapped file that are not read again soon. */
static void forget(const giver *g, uint64_t first, uint64_t count)
{
    uint64_t width = exg_dtype_bytes(g->weight->meta->dtype);
    uint64_t at = ((uint64_t)g->weight->meta->storage_offset.value + first) * width;

    if (exg_tensor_meta_is_packed(g->weight->meta)) {
        exg_storage_forget(g->from, g->weight->storage, at / BLOCK_BYTES * BLOCK_BYTES,
                           at + count * width);
    }
}

static exg_status read_given_elements(void *user, uint64_t first, uint64_t count, void *out,
                                      exg_error *err)
{
    const giver *g = user;

    EXG_TRY(exg_weight_read_range(g->from, g->weight, first, count, out, err));
    forget(g, first, count);
    return EXG_OK;
}

static exg_status read_given(void *user, uint64_t offset, uint64_t length, void *out,
                             exg_error *err)
{
    const giver *g = user;

    return exg_read_whole_elements(exg_dtype_bytes(g->weight->meta->dtype), offset, length, out,
                                   read_given_elements, user, err);
}

/* Bytes that lie in memory as they are wanted, or in a mapped file, stay where they are. What has
 * a checksum is read by way of its own storage, which compares it. */
static exg_status find_in_place(filler *f, const exg_weight *from, const uint8_t **data)
{
    const exg_storage *storage = &f->from->storages[from->storage];

    *data = NULL;
    if (!exg_tensor_meta_is_packed(from->meta) || storage->checksum.kind != EXG_CHECKSUM_NONE) {
        return EXG_OK;
    }
    EXG_TRY_IN(f->err, exg_storage_plain_bytes(f->from, from->storage, data, f->err),
               "storages[%u]", from->storage);
    *data = *data == NULL ? NULL
                          : *data + (uint64_t)from->meta->storage_offset.value *
                                        exg_dtype_bytes(from->meta->dtype);
    return EXG_OK;
}

static exg_status fill_whole(filler *f, uint32_t i)
{
    const exg_weight *weight = &f->of->items[i];
    exg_storage *storage = &f->made->storages[weight->storage];
    exg_storage_maker maker = {read_given, NULL, "given"};
    const uint8_t *data;
    giver *g;

    EXG_TRY(find_in_place(f, f->givers[i], &data));
    if (data != NULL) {
        *storage = (exg_storage){.kind = EXG_STORAGE_MEMORY,
                                 .byte_order = f->from->storages[f->givers[i]->storage].byte_order,
                                 .length = storage->length,
                                 .data = data};
        return EXG_OK;
    }
    g = EXG_NEW(f->made->arena, giver);
    if (g == NULL) {
        return EXG_OUT_OF_MEMORY(f->err);
    }
    *g = (giver){f->from, f->givers[i]};
    maker.user = g;
    storage->byte_order = exg_host_byte_order();
    exg_storage_make(storage, &maker);
    return EXG_OK;
}

/* ---- a storage that is viewed in several ways
 * ---------------------------------------------------- */

/* The elements of `giver` to where the view of weight `i` has them. */
static exg_status scatter(filler *f, uint32_t i, uint8_t *storage)
{
    const exg_tensor_meta *meta = f->of->items[i].meta;
    uint32_t width = exg_dtype_bytes(meta->dtype);
    int64_t index[64] = {0}; /* a view has no more dimensions */
    int64_t at = meta->storage_offset.value;
    uint64_t bytes = 0;
    uint8_t *packed;
    exg_status status;

    EXG_TRY(
        exg_tensor_meta_check_view(meta, f->of->storages[f->of->items[i].storage].length, f->err));
    EXG_TRY(exg_tensor_meta_bytes(meta, &bytes, f->err));
    packed = malloc((size_t)bytes + 1);
    status = packed == NULL ? EXG_OUT_OF_MEMORY(f->err)
                            : exg_weight_read(f->from, f->givers[i], packed, bytes, f->err);
    for (uint64_t done = 0; status == EXG_OK && done < bytes; done += width) {
        memcpy(storage + (uint64_t)at * width, packed + done, width);
        for (uint32_t d = meta->rank; d-- > 0;) {
            at += meta->strides[d].value;
            if (++index[d] < meta->sizes[d].value) {
                break;
            }
            at -= index[d] * meta->strides[d].value;
            index[d] = 0;
        }
    }
    free(packed);
    return status;
}

static exg_status fill_views(filler *f, uint32_t storage)
{
    exg_storage *to = &f->made->storages[storage];
    uint8_t *data = malloc((size_t)to->length + 1);
    exg_weights *own = NULL;
    exg_status status;

    if (data == NULL || exg_weights_own(f->made, free, data, f->err) != EXG_OK) {
        free(data);
        return EXG_OUT_OF_MEMORY(f->err);
    }
    EXG_TRY(exg_weights_in_order(f->of, exg_host_byte_order(), &own, f->err));
    status = exg_storage_read(own, storage, 0, to->length, data, f->err);
    exg_weights_release(own);
    for (uint32_t i = f->heads[storage]; status == EXG_OK && i != NONE; i = f->nexts[i]) {
        status = scatter(f, i, data);
    }
    *to = (exg_storage){.kind = EXG_STORAGE_MEMORY,
                        .byte_order = exg_host_byte_order(),
                        .length = to->length,
                        .data = data};
    return status;
}

/* ---- all
 * ------------------------------------------------------------------------------------------ */

static exg_status fill_storage(filler *f, uint32_t storage)
{
    uint32_t first = f->heads[storage];
    bool alike = true;

    for (uint32_t i = first; i != NONE; i = f->nexts[i]) {
        const exg_tensor_meta *meta = f->of->items[i].meta;

        alike = alike && is_whole(f, i) &&
                exg_tensor_meta_same_shape(meta, f->of->items[first].meta) &&
                meta->dtype == f->of->items[first].meta->dtype;
    }
    if (first == NONE) {
        return EXG_OK;
    }
    return alike ? fill_whole(f, first) : fill_views(f, storage);
}

/* Lists the weights that are given by their storages, in order. */
static exg_status list_by_storage(filler *f)
{
    f->heads = EXG_NEW_ARRAY(f->made->arena, uint32_t, f->of->storage_count);
    f->nexts = EXG_NEW_ARRAY(f->made->arena, uint32_t, f->of->count);
    if (f->heads == NULL || f->nexts == NULL) {
        return EXG_OUT_OF_MEMORY(f->err);
    }
    for (uint32_t i = 0; i < f->of->storage_count; i++) {
        f->heads[i] = NONE;
    }
    for (uint32_t i = f->of->count; i-- > 0;) {
        if (f->givers[i] != NULL) {
            f->nexts[i] = f->heads[f->of->items[i].storage];
            f->heads[f->of->items[i].storage] = i;
        }
    }
    return EXG_OK;
}

/* Names that share bytes must have been given the same ones. */
static exg_status check_shared(filler *f)
{
    for (uint32_t i = 0; i < f->of->count; i++) {
        const exg_weight *weight = &f->of->items[i];
        bool shared =
            f->givers[i] != NULL && (f->heads[weight->storage] != i || f->nexts[i] != NONE);
        bool same = true;

        if (shared) {
            EXG_TRY(exg_weights_same_elements(f->from, f->givers[i], f->made, &f->made->items[i],
                                              &same, f->err));
        }
        if (!same) {
            EXG_TRY(note(f, EXG_MISMATCH_SHARED, weight->fqn, ""));
        }
    }
    return EXG_OK;
}

static exg_status fill(filler *f)
{
    exg_map_init(&f->names, f->made->arena);
    f->givers = EXG_NEW_ARRAY(f->made->arena, const exg_weight *, f->of->count);
    if (f->givers == NULL) {
        return EXG_OUT_OF_MEMORY(f->err);
    }
    EXG_TRY(find_givers(f));
    EXG_TRY(list_by_storage(f));
    for (uint32_t i = 0; f->mismatches->fault_count == 0 && i < f->of->storage_count; i++) {
        EXG_TRY(fill_storage(f, i));
    }
    if (f->mismatches->fault_count == 0) {
        EXG_TRY(check_shared(f));
    }
    if (f->mismatches->fault_count > 0) {
        return EXG_FAIL(f->err, MISMATCH, "WGT-FILL", "%u weights do not fit",
                        f->mismatches->fault_count);
    }
    if (f->partial && f->given == 0 &&
        f->of->count > 0) { /* partial as it may be, it is none of these files */
        return EXG_FAIL(f->err, MISMATCH, "WGT-FILL", "none of %u weights is in the file",
                        f->of->count);
    }
    return exg_weights_retain_in(f->made, f->from, f->err);
}

exg_status exg_weights_fill(exg_weights *of, exg_weights *from, bool partial, exg_weights **made,
                            exg_mismatches *mismatches, exg_error *err)
{
    EXG_REQUIRE(err, of, from, made);
    filler f = {.of = of, .from = from, .mismatches = mismatches, .partial = partial, .err = err};
    exg_status status;

    *mismatches = (exg_mismatches){0};
    *made = NULL;
    EXG_TRY(exg_weights_like(of, &f.made, err));
    status = fill(&f);
    if (status != EXG_OK) {
        exg_weights_release(f.made);
        return status;
    }
    *made = f.made;
    return EXG_OK;
}
