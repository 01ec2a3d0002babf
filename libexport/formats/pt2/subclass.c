/* subclass.c - weights of tensor subclasses, which torch.export.save() pickles: their inner tensors
 * in their place. Nothing of a pickle is run (saved_walk.h). */
#include "libexport/base/arena.h"
#include "libexport/base/require.h"
#include "libexport/formats/weights_file.h"
#include "libexport/weights/storage.h"

#include <stdlib.h>

/* The plain bytes of a storage, which stay as long as `made`. */
static exg_status bytes_of(exg_weights *of, uint32_t storage, exg_weights *made, exg_source *source,
                           exg_error *err)
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
        EXG_TRY(exg_weights_add_bytes(made, bytes, length, EXG_LITTLE_ENDIAN, &unused, err));
        EXG_TRY(exg_storage_read(of, storage, 0, length, bytes, err));
        source->data = bytes;
    }
    source->length = length;
    source->budget = exg_default_budget(length);
    return EXG_OK;
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

/* What is inside of one; what cannot be read stays a pickle. */
static exg_status unwrap(exg_weights *of, const exg_weight *weight, exg_weights *made,
                         exg_error *err)
{
    exg_weights *inner = NULL;
    exg_source source = {0};
    exg_status status = bytes_of(of, weight->storage, made, &source, err);

    if (status == EXG_OK) {
        status = exg_weights_create(exg_arena_allocator(of->arena), &inner, err);
    }
    if (status == EXG_OK) {
        status = exg_checkpoint_sniff(source.data, source.length)
                     ? exg_checkpoint_read(&source, inner, err)
                     : EXG_MALFORMED;
        status = status == EXG_OK                              ? add_inner(made, weight, inner, err)
                 : status == EXG_NO_MEMORY || status == EXG_IO ? status
                                                               : exg_weights_add(made, weight, err);
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
