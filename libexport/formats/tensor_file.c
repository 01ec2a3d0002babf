/* tensor_file.c - opening and closing files of named tensors. */
#include "libexport/formats/tensor_file.h"

#include "libexport/base/checked.h"

#include <string.h>

bool exg_shape_bytes(const int64_t *shape, uint32_t rank, exg_dtype dtype, uint64_t *bytes)
{
    uint64_t product = exg_dtype_bytes(dtype);
    bool empty = false;
    bool fits = true;

    for (uint32_t d = 0; d < rank; d++) {
        if (shape[d] < 0) {
            return false;
        }
        empty = empty || shape[d] == 0;
        fits = fits && exg_mul_u64(product, (uint64_t)shape[d], &product);
    }
    if (!empty && (!fits || product > INT64_MAX)) {
        return false;
    }
    *bytes = empty ? 0 : product;
    return true;
}

const void *exg_tensor_aligned(exg_arena *arena, const uint8_t *data, uint64_t bytes,
                               exg_dtype dtype)
{
    uint32_t alignment = exg_dtype_bytes(dtype) / (exg_dtype_is_complex(dtype) ? 2 : 1);

    return (uintptr_t)data % alignment == 0 || bytes > SIZE_MAX
               ? data
               : exg_arena_memdup(arena, data, 1, (size_t)bytes);
}

static exg_status create(exg_tensor_file **file, exg_error *err)
{
    exg_arena *arena = exg_arena_create(EXG_ARENA_UNBOUNDED);
    exg_tensor_file *made = arena == NULL ? NULL : EXG_NEW(arena, exg_tensor_file);

    if (made != NULL) {
        made->private_ = EXG_NEW(arena, struct exg_tensor_file_private);
    }
    if (made == NULL || made->private_ == NULL) {
        exg_arena_destroy(arena);
        return EXG_OUT_OF_MEMORY(err);
    }
    made->private_->arena = arena;
    *file = made;
    return EXG_OK;
}

static exg_status read_any(const uint8_t *data, uint64_t length, exg_tensor_file *file,
                           exg_error *err)
{
    return exg_npy_sniff(data, length) ? exg_npy_read(data, length, file, err)
                                       : exg_safetensors_read(data, length, file, err);
}

exg_status exg_tensor_file_open(const char *path, exg_tensor_file **file, exg_error *err)
{
    exg_tensor_file *made = NULL;
    exg_status status;

    *file = NULL;
    EXG_TRY(create(&made, err));
    status = exg_file_map(path, &made->private_->mapping, err);
    if (status == EXG_OK) {
        status = read_any(made->private_->mapping.data, made->private_->mapping.length, made, err);
    }
    if (status != EXG_OK) {
        exg_tensor_file_close(made);
        return status;
    }
    *file = made;
    return EXG_OK;
}

exg_status exg_tensor_file_open_memory(const void *data, size_t length, exg_tensor_file **file,
                                       exg_error *err)
{
    exg_tensor_file *made = NULL;
    exg_status status;

    *file = NULL;
    EXG_TRY(create(&made, err));
    status = read_any(data, length, made, err);
    if (status != EXG_OK) {
        exg_tensor_file_close(made);
        return status;
    }
    *file = made;
    return EXG_OK;
}

void exg_tensor_file_close(exg_tensor_file *file)
{
    if (file != NULL) {
        exg_mapping_release(&file->private_->mapping);
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
