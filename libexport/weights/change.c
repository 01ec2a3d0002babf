/* change.c - weights like others, with their bytes gone or turned around. */
#include "libexport/base/arena.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/weights/made_storage.h"
#include "libexport/weights/storage.h"

#include <string.h>

exg_status exg_weights_beside(exg_weights *of, exg_weights **made, exg_error *err)
{
    exg_status status = exg_weights_create(exg_arena_allocator(of->arena), made, err);

    if (status == EXG_OK) {
        status = exg_weights_set_directory(*made, exg_weights_directory(of), err);
    }
    if (status == EXG_OK) {
        status = exg_weights_retain_in(*made, of, err);
    }
    for (uint32_t i = 0; status == EXG_OK && i < of->storage_count; i++) {
        uint32_t index;

        status = exg_weights_add_storage(*made, &of->storages[i], &index, err);
    }
    for (uint32_t i = 0; status == EXG_OK && i < of->skipped_count; i++) {
        status = exg_weights_skip_code(*made, of->skipped[i].name, of->skipped[i].kind,
                                       of->skipped[i].code, err);
    }
    if (status != EXG_OK) {
        exg_weights_release(*made);
        *made = NULL;
    }
    return status;
}

exg_status exg_weights_like(exg_weights *of, exg_weights **made, exg_error *err)
{
    exg_status status = exg_weights_beside(of, made, err);

    for (uint32_t i = 0; status == EXG_OK && i < of->count; i++) {
        status = exg_weights_add(*made, &of->items[i], err);
    }
    if (status != EXG_OK) {
        exg_weights_release(*made);
        *made = NULL;
    }
    return status;
}

void exg_storage_make(exg_storage *storage, const exg_storage_maker *maker)
{
    *storage = (exg_storage){.kind = EXG_STORAGE_MADE,
                             .byte_order = storage->byte_order,
                             .length = storage->length,
                             .maker = *maker};
}

/* ---- bytes gone ----------------------------------------------------------------------------- */

/* One element, over and over. */
typedef struct splat {
    uint8_t element[16];
    uint32_t width;
} splat;

static exg_status read_splat(void *user, uint64_t offset, uint64_t length, void *out,
                             exg_error *err)
{
    const splat *s = user;

    (void)err;
    for (uint64_t i = 0; i < length; i++) {
        ((uint8_t *)out)[i] = s->element[(offset + i) % s->width];
    }
    return EXG_OK;
}

static exg_status make_splat(exg_weights *weights, const exg_weight *weight, double value,
                             exg_error *err)
{
    exg_storage *storage = &weights->storages[weight->storage];
    splat *s = EXG_NEW(weights->arena, splat);
    const char *name =
        exg_arena_printf(weights->arena, "%.17g as %s", value, exg_dtype_name(weight->meta->dtype));

    if (s == NULL || name == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    s->width = exg_dtype_bytes(weight->meta->dtype);
    exg_element_store(weight->meta->dtype, s->element, value);
    if (storage->byte_order == EXG_BIG_ENDIAN) {
        exg_bytes_swap(s->element, s->width, weight->meta->dtype);
    }
    exg_storage_make(storage, &(exg_storage_maker){read_splat, s, name});
    return EXG_OK;
}

exg_status exg_weights_splat(exg_weights *of, double value, exg_weights **made, exg_error *err)
{
    EXG_REQUIRE(err, of, made);
    exg_status status = exg_weights_like(of, made, err);

    for (uint32_t i = 0; status == EXG_OK && i < (*made)->count; i++) {
        const exg_weight *weight = &(*made)->items[i];

        if (weight->table == EXG_TABLE_STATE && !weight->use_pickle && weight->meta != NULL) {
            status = make_splat(*made, weight, value, err);
        }
    }
    if (status != EXG_OK) {
        exg_weights_release(*made);
        *made = NULL;
    }
    return status;
}

exg_status exg_weights_strip(exg_weights *of, exg_weights **made, exg_error *err)
{
    return exg_weights_splat(of, 0, made, err);
}

/* ---- byte order -------------------------------------------------------------------------------
 */

typedef struct turned {
    exg_weights *of;
    uint32_t storage;
    exg_dtype dtype;
} turned;

static exg_status read_turned_elements(void *user, uint64_t first, uint64_t count, void *out,
                                       exg_error *err)
{
    const turned *t = user;
    uint64_t width = exg_dtype_bytes(t->dtype);

    EXG_TRY(exg_storage_read(t->of, t->storage, first * width, count * width, out, err));
    exg_storage_forget(t->of, t->storage, first * width / EXG_FRAME_BYTES * EXG_FRAME_BYTES,
                       (first + count) * width);
    exg_bytes_swap(out, count * width, t->dtype);
    return EXG_OK;
}

static exg_status read_turned(void *user, uint64_t offset, uint64_t length, void *out,
                              exg_error *err)
{
    const turned *t = user;

    return exg_read_whole_elements(exg_dtype_bytes(t->dtype), offset, length, out,
                                   read_turned_elements, user, err);
}

static uint32_t component_bytes(exg_dtype dtype)
{
    return exg_dtype_bytes(dtype) / (exg_dtype_is_complex(dtype) ? 2 : 1);
}

/* Every view of a storage must turn the same bytes around: *width is that of the first,
 * or 0. */
static exg_status check_width(const exg_weights *of, const exg_weight *weight, uint8_t *width,
                              exg_error *err)
{
    uint32_t own = component_bytes(weight->meta->dtype);

    if (*width != 0 && *width != own) {
        return EXG_FAIL(err, UNSUPPORTED, "WGT-ORDER",
                        "%s shares bytes with elements of another width", weight->fqn);
    }
    if (of->storages[weight->storage].length % own != 0) {
        return EXG_FAIL(err, MALFORMED, "WGT-003", "the storage of %s ends inside an element",
                        weight->fqn);
    }
    *width = (uint8_t)own;
    return EXG_OK;
}

static exg_status turn(exg_weights *of, exg_weights *made, const exg_weight *weight, exg_error *err)
{
    exg_storage *storage = &made->storages[weight->storage];
    exg_storage_maker maker = {read_turned, NULL, "turned"};
    turned *t = EXG_NEW(made->arena, turned);

    if (t == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *t = (turned){of, weight->storage, weight->meta->dtype};
    maker.user = t;
    exg_storage_make(storage, &maker);
    return EXG_OK;
}

static exg_status turn_all(exg_weights *of, exg_byte_order order, exg_weights *made, exg_error *err)
{
    uint8_t *widths = EXG_NEW_ARRAY(made->arena, uint8_t, of->storage_count);

    if (widths == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < of->count; i++) {
        const exg_weight *weight = &of->items[i];
        exg_storage *storage = &made->storages[weight->storage];

        if (weight->use_pickle || weight->meta == NULL ||
            of->storages[weight->storage].byte_order == order) {
            continue;
        }
        EXG_TRY(check_width(of, weight, &widths[weight->storage], err));
        if (widths[weight->storage] > 1 && storage->byte_order != order) {
            EXG_TRY(turn(of, made, weight, err));
        }
        storage->byte_order = order;
    }
    return EXG_OK;
}

exg_status exg_weights_in_order(exg_weights *of, exg_byte_order order, exg_weights **made,
                                exg_error *err)
{
    EXG_REQUIRE(err, of, made);
    exg_status status;

    *made = NULL;
    EXG_TRY(EXG_CHECK_CHOICE(order, EXG_BIG_ENDIAN, "the byte order", err));
    EXG_TRY(exg_weights_like(of, made, err));
    status = turn_all(of, order, *made, err);
    if (status != EXG_OK) {
        exg_weights_release(*made);
        *made = NULL;
    }
    return status;
}
