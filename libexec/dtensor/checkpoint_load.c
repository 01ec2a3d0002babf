/* checkpoint_load.c - DTensors filled from files (exg/checkpoint.h). */
#include "libexec/dtensor/spec.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"

#include <exg/checkpoint.h>
#include <exg/weights_edit.h>
#include <stdlib.h>
#include <string.h>

typedef struct loader {
    exg_device_mesh *mesh;
    const exg_checkpoint_tensor *tensors;
    uint32_t count;
    bool partial;
    uint32_t missing;
    exg_weights *weights;
    uint8_t *bytes; /* of one part */
    uint64_t room;
    exg_error *err;
} loader;

exg_status exg_checkpoint_check(const exg_device_mesh *mesh, const char *name, const exg_dtensor *t,
                                exg_error *err)
{
    EXG_REQUIRE(err, name, t);
    if (!exg_device_mesh_equal(mesh, t->mesh)) {
        return EXG_FAIL(err, USAGE, "DTN-011", "'%s' is on another mesh", name);
    }
    if (t->meta) {
        return EXG_FAIL(err, USAGE, "DTN-003", "'%s' is a meta tensor, without data", name);
    }
    EXG_TRY_IN(err, exg_dtensor_check_chunks(t, err), "['%s']", name);
    return EXG_OK;
}

static const exg_weight *find(const loader *l, const char *name)
{
    const exg_weight *found = exg_weights_find(l->weights, EXG_TABLE_STATE, name);

    return found != NULL ? found : exg_weights_find(l->weights, EXG_TABLE_CONSTANTS, name);
}

static bool fits(const exg_dtensor *t, const exg_weight *weight)
{
    const exg_tensor_meta *meta = weight->use_pickle ? NULL : weight->meta;
    bool same = meta != NULL && weight->encoding == NULL && meta->rank == t->rank &&
                meta->dtype == t->local.dtype;

    for (uint32_t d = 0; same && d < t->rank; d++) {
        same = meta->sizes[d].value == t->sizes[d];
    }
    return same;
}

static exg_status check_all(loader *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        const exg_checkpoint_tensor *tensor = &l->tensors[i];
        const exg_weight *weight;

        EXG_TRY(exg_checkpoint_check(l->mesh, tensor->name, tensor->dtensor, l->err));
        weight = find(l, tensor->name);
        l->missing += weight == NULL;
        if (weight == NULL ? !l->partial : !fits(tensor->dtensor, weight)) {
            return exg_error_fix(l->err,
                                 EXG_FAIL(l->err, MISMATCH, "WGT-FILL", "'%s' %s", tensor->name,
                                          weight == NULL ? "is not in the file"
                                                         : "has another shape or dtype in the "
                                                           "file"),
                                 "exg inspect FILE lists what is there; exg convert changes names "
                                 "and dtypes");
        }
    }
    return EXG_OK;
}

static exg_status reserve(loader *l, uint64_t bytes)
{
    if (bytes > l->room) {
        uint8_t *more = realloc(l->bytes, bytes);

        if (more == NULL) {
            return EXG_OUT_OF_MEMORY(l->err);
        }
        l->bytes = more;
        l->room = bytes;
    }
    return EXG_OK;
}

/* One box of this rank's part. */
static exg_status load_part(loader *l, exg_dtensor *t, const exg_write_item *item)
{
    const exg_weight_slice slice = {item->fqn, item->rank, item->offsets, item->sizes};
    exg_weights *one = NULL;
    uint64_t bytes;
    exg_tensor view;
    exg_status status;

    EXG_TRY(exg_dtensor_shard_at(t, item->offsets, &view, l->err));
    EXG_TRY(exg_weights_slice(l->weights, &slice, 1, &one, l->err));
    status = exg_tensor_meta_bytes(one->items[0].meta, &bytes, l->err);
    status = status == EXG_OK ? reserve(l, bytes) : status;
    status =
        status == EXG_OK ? exg_weight_read(one, &one->items[0], l->bytes, bytes, l->err) : status;
    status = status == EXG_OK ? exg_dtensor_copy_from_host(t, &view, l->bytes, l->err) : status;
    exg_weights_release(one);
    return status;
}

static exg_status load_tensor(loader *l, const exg_checkpoint_tensor *tensor)
{
    exg_write_item *items;
    uint32_t count = 0;
    exg_status status;

    EXG_TRY(exg_dtensor_write_items(tensor->dtensor, tensor->name, NULL, 0, &count, l->err));
    items = calloc(count > 0 ? count : 1, sizeof(*items));
    if (items == NULL) {
        return EXG_OUT_OF_MEMORY(l->err);
    }
    status = exg_dtensor_write_items(tensor->dtensor, tensor->name, items, count, &count, l->err);
    for (uint32_t i = 0; i < count && status == EXG_OK; i++) {
        bool empty = false;

        for (uint32_t d = 0; d < items[i].rank; d++) {
            empty = empty || items[i].sizes[d] == 0;
        }
        status = empty ? EXG_OK : load_part(l, tensor->dtensor, &items[i]);
    }
    free(items);
    return status;
}

static exg_status load_all(loader *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        if (find(l, l->tensors[i].name) != NULL) {
            EXG_TRY_IN(l->err, load_tensor(l, &l->tensors[i]), "['%s']", l->tensors[i].name);
        }
    }
    return EXG_OK;
}

static exg_status load(loader *l, const char *path, const exg_open_options *options)
{
    exg_status status = exg_weights_open(path, options, &l->weights, NULL, l->err);

    status = status == EXG_OK ? check_all(l) : status;
    EXG_TRY(exg_mesh_agree(l->mesh, status, l->err));
    return exg_mesh_agree(l->mesh, load_all(l), l->err);
}

exg_status exg_checkpoint_load(exg_device_mesh *mesh, const exg_checkpoint_tensor *tensors,
                               uint32_t count, const char *path,
                               const exg_checkpoint_load_options *given, exg_error *err)
{
    EXG_REQUIRE(err, mesh, EXG_IF_ANY(count, tensors), path);
    exg_checkpoint_load_options options = {0};
    exg_error own;
    loader l = {.mesh = mesh, .tensors = tensors, .count = count, .err = err == NULL ? &own : err};
    exg_status status;

    EXG_TRY(EXG_READ_OPTIONS(exg_checkpoint_load_options, &options, given, err));
    if (!exg_device_mesh_is_member(mesh)) {
        return EXG_OK;
    }
    l.partial = options.partial;
    status = load(&l, path, options.open);
    if (status == EXG_OK && options.missing != NULL) {
        *options.missing = l.missing;
    }
    exg_weights_release(l.weights);
    free(l.bytes);
    return status;
}
