/* slice.c - parts of tensors (exg/weights_edit.h). */
#include "libexport/base/arena.h"
#include "libexport/base/require.h"
#include "libexport/weights/storage.h"

#include <exg/text.h>
#include <exg/weights_edit.h>
#include <inttypes.h>
#include <string.h>

typedef struct slicer {
    exg_weights *of, *made;
    uint32_t *storages;      /* of `of` -> of `made`, or UINT32_MAX */
    const int64_t **offsets; /* by weight of `made` */
    exg_error *err;
} slicer;

static exg_status check_slice(const slicer *s, const exg_weight *weight,
                              const exg_weight_slice *slice)
{
    const exg_tensor_meta *meta = weight == NULL || weight->use_pickle ? NULL : weight->meta;
    bool fits = meta != NULL && meta->rank == slice->dims;

    for (uint32_t d = 0; fits && d < slice->dims; d++) {
        fits = slice->offsets[d] >= 0 && slice->sizes[d] >= 0 &&
               slice->sizes[d] <= meta->sizes[d].value &&
               slice->offsets[d] <= meta->sizes[d].value - slice->sizes[d];
    }
    if (!fits) {
        return exg_error_fix(
            s->err,
            EXG_FAIL(s->err, USAGE, "WGT-SLICE", "%s",
                     meta == NULL ? "there is no such tensor" : "the tensor has no such part"),
            "are these the weights of this program?");
    }
    if (weight->encoding != NULL) {
        return exg_error_fix(s->err,
                             EXG_FAIL(s->err, UNSUPPORTED, "WGT-SLICE",
                                      "%s is not taken apart: give it a float dtype",
                                      weight->encoding),
                             "--dtype f16");
    }
    return exg_tensor_meta_check_view(meta, s->of->storages[weight->storage].length, s->err);
}

static exg_status take_slice(slicer *s, const exg_weight_slice *slice)
{
    const exg_weight *found = exg_weights_find(s->of, EXG_TABLE_STATE, slice->name);
    exg_weight weight;
    exg_tensor_meta *meta;

    found = found != NULL ? found : exg_weights_find(s->of, EXG_TABLE_CONSTANTS, slice->name);
    EXG_TRY(check_slice(s, found, slice));
    weight = *found;
    meta = exg_arena_memdup(s->made->arena, weight.meta, 1, sizeof(*meta));
    if (meta == NULL || (meta->sizes = exg_arena_memdup(s->made->arena, meta->sizes, meta->rank,
                                                        sizeof(exg_sym_int))) == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    if (s->storages[weight.storage] == UINT32_MAX) {
        EXG_TRY(exg_weights_add_storage(s->made, &s->of->storages[weight.storage],
                                        &s->storages[weight.storage], s->err));
    }
    weight.storage = s->storages[weight.storage];
    weight.meta = meta;
    for (uint32_t d = 0; d < slice->dims; d++) {
        meta->storage_offset =
            exg_sym_int_of(meta->storage_offset.value + slice->offsets[d] * meta->strides[d].value);
        meta->sizes[d] = exg_sym_int_of(slice->sizes[d]);
    }
    s->offsets[s->made->count] = slice->offsets;
    return exg_weights_add(s->made, &weight, s->err);
}

static exg_status take_all(slicer *s, const exg_weight_slice *slices, uint32_t count)
{
    EXG_TRY(exg_weights_set_directory(s->made, exg_weights_directory(s->of), s->err));
    EXG_TRY(exg_weights_retain_in(s->made, s->of, s->err));
    s->storages = EXG_NEW_ARRAY(s->made->arena, uint32_t, s->of->storage_count);
    s->offsets = EXG_NEW_ARRAY(s->made->arena, const int64_t *, count);
    if (s->storages == NULL || s->offsets == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    memset(s->storages, 0xff, s->of->storage_count * sizeof(*s->storages));
    for (uint32_t i = 0; i < count; i++) {
        EXG_TRY_IN(s->err, take_slice(s, &slices[i]), "['%s']", slices[i].name);
    }
    for (uint32_t i = 0; i < s->of->metadata.count; i++) {
        EXG_TRY(exg_weights_add_metadata_as(s->made, s->of->metadata.items[i].key,
                                            exg_weights_metadata_kind(s->of, i),
                                            s->of->metadata.items[i].value, s->err));
    }
    return exg_weights_set_offsets(s->made, s->offsets, s->err);
}

exg_status exg_weights_set_offsets(exg_weights *weights, const int64_t *const *offsets,
                                   exg_error *err)
{
    EXG_REQUIRE(err, weights);
    EXG_REQUIRE(err, EXG_IF_ANY(weights->count, offsets));
    exg_text begins = EXG_TEXT_EMPTY;
    exg_status status;

    exg_text_putc(&begins, '{');
    for (uint32_t i = 0; i < weights->count; i++) {
        const exg_weight *weight = &weights->items[i];
        const char *before = "";

        exg_text_puts(&begins, i == 0 ? "" : ", ");
        exg_text_json_string(&begins, weight->fqn);
        exg_text_puts(&begins, ": {\"saved_offsets\": [");
        for (uint32_t d = 0; weight->meta != NULL && d < weight->meta->rank; d++, before = ", ") {
            exg_text_printf(&begins, "%s%" PRId64, before, offsets[i][d]);
        }
        exg_text_puts(&begins, "]}");
    }
    exg_text_putc(&begins, '}');
    status = exg_text_string(&begins) == NULL
                 ? EXG_OUT_OF_MEMORY(err)
                 : exg_weights_add_metadata(weights, "DCP_SHARDING_INFO", begins.data, err);
    exg_text_free(&begins);
    return status == EXG_OK ? exg_weights_add_metadata(weights, "DCP_VERSION", "1.0", err) : status;
}

exg_status exg_weights_slice(exg_weights *of, const exg_weight_slice *slices, uint32_t count,
                             exg_weights **made, exg_error *err)
{
    EXG_REQUIRE(err, of, EXG_IF_ANY(count, slices), made);
    slicer s = {.of = of, .err = err};
    exg_status status;

    *made = NULL;
    EXG_TRY(exg_weights_create(exg_arena_allocator(of->arena), &s.made, err));
    status = take_all(&s, slices, count);
    if (status != EXG_OK) {
        exg_weights_release(s.made);
        return status;
    }
    *made = s.made;
    return EXG_OK;
}
