/* view.c - tensors as views of storages: bounds, gathering, byte order. */
#include <exg/weights.h>

#include "libexport/base/checked.h"

#include <stdlib.h>
#include <string.h>

#define RANK_MAX 64 /* dimensions a view may have; PyTorch itself stops there */

/* Elements from the start of the storage to the last one of the view; 0 when the
 * view is empty. */
static exg_status view_extent(const exg_tensor_meta *meta, uint64_t *extent, exg_error *err)
{
    int64_t last = meta->storage_offset.value;
    bool empty = false;

    if (!exg_tensor_meta_is_static(meta)) {
        return EXG_FAIL(err, MALFORMED, "WGT-002",
                        "a stored tensor needs concrete sizes, "
                        "strides and offset");
    }
    if (meta->rank > RANK_MAX) {
        return EXG_FAIL(err, LIMIT, "WGT-011", "%u dimensions, at most %d are supported",
                        meta->rank, RANK_MAX);
    }
    if (last < 0) {
        return EXG_FAIL(err, MALFORMED, "WGT-011", "storage offset %lld is negative",
                        (long long)last);
    }
    for (uint32_t d = 0; d < meta->rank; d++) {
        int64_t size = meta->sizes[d].value;
        int64_t stride = meta->strides[d].value;

        if (size < 0 || stride < 0) {
            return EXG_FAIL(err, MALFORMED, "WGT-011", "dimension %u has size %lld, stride %lld", d,
                            (long long)size, (long long)stride);
        }
        empty = empty || size == 0;
    }
    *extent = 0;
    for (uint32_t d = 0; !empty && d < meta->rank; d++) {
        int64_t step;

        if (!exg_mul_i64(meta->sizes[d].value - 1, meta->strides[d].value, &step) ||
            !exg_add_i64(last, step, &last)) {
            return EXG_FAIL(err, MALFORMED, "WGT-005", "the view passes 63 bits");
        }
    }
    if (!empty) {
        *extent = (uint64_t)last + 1;
    }
    return EXG_OK;
}

exg_status exg_tensor_meta_check_view(const exg_tensor_meta *meta, uint64_t length, exg_error *err)
{
    uint64_t extent;
    uint64_t bytes;

    EXG_TRY(view_extent(meta, &extent, err));
    if (!exg_mul_u64(extent, exg_dtype_bytes(meta->dtype), &bytes) || bytes > length) {
        return EXG_FAIL(err, MALFORMED, "WGT-005",
                        "the view needs %llu elements of %u bytes, the storage holds %llu bytes",
                        (unsigned long long)extent, exg_dtype_bytes(meta->dtype),
                        (unsigned long long)length);
    }
    return EXG_OK;
}

exg_status exg_tensor_meta_bytes(const exg_tensor_meta *meta, uint64_t *bytes, exg_error *err)
{
    int64_t numel;

    if (!exg_tensor_meta_is_static(meta)) {
        return EXG_FAIL(err, USAGE, "WGT-002", "a symbolic tensor has no size in bytes");
    }
    if (!exg_tensor_meta_numel(meta, &numel) ||
        !exg_mul_u64((uint64_t)numel, exg_dtype_bytes(meta->dtype), bytes)) {
        return EXG_FAIL(err, MALFORMED, "WGT-011", "the sizes multiply past 63 bits");
    }
    return EXG_OK;
}

void exg_bytes_swap(void *data, uint64_t bytes, exg_dtype dtype)
{
    uint32_t width = exg_dtype_bytes(dtype) / (exg_dtype_is_complex(dtype) ? 2 : 1);
    uint8_t *p = data;

    for (uint64_t i = 0; width > 1 && i + width <= bytes; i += width) {
        for (uint32_t b = 0; b < width / 2; b++) {
            uint8_t held = p[i + b];

            p[i + b] = p[i + width - 1 - b];
            p[i + width - 1 - b] = held;
        }
    }
}

static bool is_packed(const exg_tensor_meta *meta)
{
    int64_t expected = 1;

    for (uint32_t d = meta->rank; d-- > 0;) {
        if (meta->sizes[d].value != 1 && meta->strides[d].value != expected) {
            return false;
        }
        expected *= meta->sizes[d].value; /* its product was checked: it fits */
    }
    return true;
}

/* Copies the view's elements in row-major order; `from` is the storage's start. */
static void gather(const exg_tensor_meta *meta, const uint8_t *from, uint8_t *out, uint64_t bytes)
{
    uint32_t width = exg_dtype_bytes(meta->dtype);
    int64_t index[RANK_MAX] = {0};
    int64_t at = meta->storage_offset.value;

    if (is_packed(meta)) {
        memcpy(out, from + (uint64_t)at * width, (size_t)bytes);
        return;
    }
    for (uint64_t done = 0; done < bytes; done += width) {
        memcpy(out + done, from + (uint64_t)at * width, width);
        for (uint32_t d = meta->rank; d-- > 0;) {
            at += meta->strides[d].value;
            if (++index[d] < meta->sizes[d].value) {
                break;
            }
            at -= index[d] * meta->strides[d].value;
            index[d] = 0;
        }
    }
}

/* The storage's bytes up to `need`, in memory as they are or read into *owned. */
static exg_status storage_bytes(exg_weights *weights, uint32_t storage, uint64_t need,
                                const uint8_t **data, void **owned, exg_error *err)
{
    *owned = NULL;
    EXG_TRY(exg_storage_map(weights, storage, data, err));
    if (*data != NULL) {
        return EXG_OK;
    }
    *owned = need > SIZE_MAX ? NULL : malloc((size_t)need);
    if (*owned == NULL) {
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory: %llu bytes",
                        (unsigned long long)need);
    }
    *data = *owned;
    return exg_storage_read(weights, storage, 0, need, *owned, err);
}

exg_status exg_weight_read(exg_weights *weights, const exg_weight *weight, void *out,
                           uint64_t bytes, exg_error *err)
{
    const exg_storage *storage = &weights->storages[weight->storage];
    const uint8_t *data;
    void *owned;
    uint64_t extent;
    uint64_t expected;
    exg_status status;

    if (weight->meta == NULL || weight->use_pickle) {
        return EXG_FAIL(err, USAGE, "WGT-013", "%s is an object, not plain tensor bytes",
                        weight->fqn);
    }
    EXG_TRY_IN(err, exg_tensor_meta_bytes(weight->meta, &expected, err), "%s", weight->fqn);
    if (bytes != expected) {
        return EXG_FAIL(err, USAGE, "WGT-RANGE", "%s takes %llu bytes, not %llu", weight->fqn,
                        (unsigned long long)expected, (unsigned long long)bytes);
    }
    if (bytes > 0 && storage->length == 0) {
        return EXG_FAIL(err, MALFORMED, "WGT-012", "the file holds no data for %s", weight->fqn);
    }
    EXG_TRY_IN(err, exg_tensor_meta_check_view(weight->meta, storage->length, err), "%s",
               weight->fqn);
    if (bytes == 0) {
        return EXG_OK;
    }
    EXG_TRY(view_extent(weight->meta, &extent, err));
    status = storage_bytes(weights, weight->storage, extent * exg_dtype_bytes(weight->meta->dtype),
                           &data, &owned, err);
    if (status == EXG_OK) {
        gather(weight->meta, data, out, bytes);
        if (owned != NULL &&
            storage->byte_order !=
                (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? EXG_LITTLE_ENDIAN : EXG_BIG_ENDIAN)) {
            exg_bytes_swap(out, bytes, weight->meta->dtype);
        }
    }
    free(owned);
    return status;
}
