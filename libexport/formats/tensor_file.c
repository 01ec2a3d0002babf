/* tensor_file.c - every tensor of a file in memory, row by row: what inputs want. */
#include "libexport/base/require.h"
#include <exg/formats.h>

#include "libexport/base/arena.h"
#include "libexport/formats/format.h"

#include <string.h>

struct exg_tensor_file_private {
    exg_arena *arena; /* owns the file's structs, and copies of what cannot lie as it is */
    exg_weights *weights;
};

/* An element is not read from where an element may not lie. */
static bool is_aligned(const void *data, exg_dtype dtype)
{
    uint32_t alignment = exg_dtype_bytes(dtype) / (exg_dtype_is_complex(dtype) ? 2 : 1);

    return (uintptr_t)data % alignment == 0;
}

static exg_status load(exg_weights *weights, const exg_weight *weight, exg_arena *arena,
                       exg_named_tensor *tensor, exg_error *err)
{
    const exg_tensor_meta *meta = weight->meta;
    int64_t *shape = EXG_NEW_ARRAY(arena, int64_t, meta->rank);
    const uint8_t *data = NULL;
    void *copy;

    if (shape == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t d = 0; d < meta->rank; d++) {
        shape[d] = meta->sizes[d].value;
    }
    *tensor = (exg_named_tensor){.name = weight->fqn, .dtype = meta->dtype, .rank = meta->rank};
    tensor->shape = shape;
    EXG_TRY(exg_tensor_meta_bytes(meta, &tensor->bytes, err));
    EXG_TRY(exg_tensor_meta_check_view(meta, weights->storages[weight->storage].length, err));
    EXG_TRY(exg_storage_map(weights, weight->storage, &data, err));
    if (data != NULL && tensor->bytes > 0 && exg_tensor_meta_is_packed(meta)) {
        tensor->data = data + (uint64_t)meta->storage_offset.value * exg_dtype_bytes(meta->dtype);
        if (is_aligned(tensor->data, meta->dtype)) {
            return EXG_OK;
        }
    }
    copy = tensor->bytes > SIZE_MAX ? NULL : exg_arena_alloc(arena, 1, (size_t)tensor->bytes);
    if (copy == NULL) {
        return EXG_FAIL(err, LIMIT, "TNS-LIMIT",
                        "%llu bytes are more than a file like this may "
                        "unfold to",
                        (unsigned long long)tensor->bytes);
    }
    tensor->data = copy;
    return exg_weight_read(weights, weight, copy, tensor->bytes, err);
}

static exg_status load_all(exg_weights *weights, exg_tensor_file *file, exg_error *err)
{
    exg_arena *arena = file->private_->arena;

    file->metadata = weights->metadata;
    file->items = EXG_NEW_ARRAY(arena, exg_named_tensor, weights->count);
    if (file->items == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < weights->count; i++) {
        const exg_weight *weight = &weights->items[i];

        if (weight->meta != NULL && !weight->use_pickle) {
            EXG_TRY_IN(err, load(weights, weight, arena, &file->items[file->count], err), "['%s']",
                       weight->fqn);
            file->count++;
        } else {
            EXG_TRY(exg_weights_skip(weights, weight->fqn, "an object, no plain tensor", err));
        }
    }
    file->skipped = weights->skipped;
    file->skipped_count = weights->skipped_count;
    return EXG_OK;
}

/* Takes over `weights`. The one tensor of an .npy has no name of its own. */
static exg_status make_file(exg_weights *weights, exg_weights_format format, exg_tensor_file **file,
                            exg_error *err)
{
    uint64_t stored = 0;
    exg_arena *arena;
    exg_tensor_file *made = NULL;
    exg_status status;

    for (uint32_t i = 0; i < weights->storage_count; i++) {
        stored += weights->storages[i].length;
    }
    arena = exg_arena_create(NULL, exg_default_budget(stored));
    made = arena == NULL ? NULL : EXG_NEW(arena, exg_tensor_file);
    if (made != NULL) {
        made->private_ = EXG_NEW(arena, struct exg_tensor_file_private);
    }
    if (made == NULL || made->private_ == NULL) {
        exg_arena_destroy(arena);
        exg_weights_release(weights);
        return EXG_OUT_OF_MEMORY(err);
    }
    *made->private_ = (struct exg_tensor_file_private){arena, weights};
    status = load_all(weights, made, err);
    if (status != EXG_OK) {
        exg_tensor_file_close(made);
        return status;
    }
    for (uint32_t i = 0; format == EXG_WEIGHTS_FORMAT_NPY && i < made->count; i++) {
        made->items[i].name = "";
    }
    *file = made;
    return EXG_OK;
}

exg_status exg_tensor_file_open(const char *path, exg_tensor_file **file, exg_error *err)
{
    EXG_REQUIRE(err, path, file);
    exg_weights_format format;
    exg_weights *weights;

    *file = NULL;
    EXG_TRY(exg_weights_open(path, NULL, &weights, &format, err));
    return make_file(weights, format, file, err);
}

exg_status exg_tensor_file_open_memory(const void *data, size_t length, exg_tensor_file **file,
                                       exg_error *err)
{
    EXG_REQUIRE(err, EXG_IF_ANY(length, data), file);
    exg_weights_format format;
    exg_weights *weights;

    *file = NULL;
    EXG_TRY(exg_weights_open_memory(data, length, NULL, &weights, &format, err));
    return make_file(weights, format, file, err);
}

void exg_tensor_file_close(exg_tensor_file *file)
{
    if (file != NULL) {
        exg_weights_release(file->private_->weights);
        exg_arena_destroy(file->private_->arena);
    }
}

const exg_named_tensor *exg_tensor_file_find(const exg_tensor_file *file, const char *name)
{
    for (uint32_t i = 0; i < file->count; i++) {
        if (strcmp(file->items[i].name, name) == 0) {
            return &file->items[i];
        }
    }
    return NULL;
}
