/* join.c - the tensors of several weights as one. */
#include <exg/weights_edit.h>

#include "libexport/base/map.h"
#include "libexport/base/require.h"
#include "libexport/weights/storage.h"

/* Where it is in a folder of its own, it is opened there now. */
static exg_status join_storages(exg_weights *made, exg_weights *of, exg_error *err)
{
    for (uint32_t i = 0; i < of->storage_count; i++) {
        uint32_t index;

        if (of->storages[i].location != NULL) {
            EXG_TRY(exg_storage_locate(of, i, err));
        }
        EXG_TRY(exg_weights_add_storage(made, &of->storages[i], &index, err));
    }
    return EXG_OK;
}

static exg_status join(exg_weights *made, exg_weights *of, exg_map *names, exg_error *err)
{
    uint32_t first = made->storage_count;

    EXG_TRY(exg_weights_retain_in(made, of, err));
    EXG_TRY(join_storages(made, of, err));
    for (uint32_t i = 0; i < of->count; i++) {
        exg_weight weight = of->items[i];

        if (exg_map_find(names, weight.fqn) != EXG_MAP_NONE) {
            return exg_error_fix(
                err, EXG_FAIL(err, USAGE, "WGT-NAME", "two of the files hold %s", weight.fqn),
                "rename one beforehand, or leave it out");
        }
        weight.storage += first;
        EXG_TRY(exg_weights_add(made, &weight, err));
        if (!exg_map_put(names, made->items[made->count - 1].fqn, i)) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    for (uint32_t i = 0; i < of->metadata.count; i++) {
        const exg_string_pair *pair = &of->metadata.items[i];

        EXG_TRY(exg_weights_add_metadata_as(made, pair->key, exg_weights_metadata_kind(of, i),
                                            pair->value, err));
    }
    for (uint32_t i = 0; i < of->skipped_count; i++) {
        EXG_TRY(exg_weights_skip_code(made, of->skipped[i].name, of->skipped[i].kind,
                                      of->skipped[i].code, err));
    }
    return EXG_OK;
}

exg_status exg_weights_join(exg_weights *const *of, uint32_t count, exg_weights **made,
                            exg_error *err)
{
    EXG_REQUIRE(err, EXG_IF_ANY(count, of), made);
    exg_status status;
    exg_map names;

    *made = NULL;
    EXG_TRY(exg_weights_create(count == 0 ? NULL : exg_arena_allocator(of[0]->arena), made, err));
    exg_map_init(&names, (*made)->arena);
    status = EXG_OK;
    for (uint32_t i = 0; i < count && status == EXG_OK; i++) {
        status = join(*made, of[i], &names, err);
    }
    if (status != EXG_OK) {
        exg_weights_release(*made);
        *made = NULL;
    }
    return status;
}
