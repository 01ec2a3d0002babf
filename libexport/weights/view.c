/* view.c - tensors as views of storages: bounds, gathering, byte order. */
#include "libexport/base/require.h"
#include <exg/weights.h>

#include "libexport/base/arena.h"
#include "libexport/base/checked.h"
#include "libexport/weights/storage.h"

#include <exg/text.h>
#include <inttypes.h>
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
    EXG_REQUIRE(err, meta);
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

exg_status exg_tensor_meta_reach(const exg_tensor_meta *meta, uint64_t *first, uint64_t *end,
                                 exg_error *err)
{
    uint64_t bytes = exg_dtype_bytes(meta->dtype);
    uint64_t extent;

    EXG_TRY(view_extent(meta, &extent, err));
    *end = extent * bytes;
    *first = extent == 0 ? 0 : (uint64_t)meta->storage_offset.value * bytes;
    return EXG_OK;
}

bool exg_weight_is_of_floats(const exg_weight *weight)
{
    return weight->meta != NULL && !weight->use_pickle && weight->encoding == NULL &&
           exg_dtype_is_float(weight->meta->dtype);
}

const char *exg_weight_view_key(const exg_weight *weight, exg_arena *arena)
{
    const exg_tensor_meta *meta = weight->meta;
    exg_text text = EXG_TEXT_EMPTY;
    const char *key;

    exg_text_printf(&text, "%d %" PRIu32 " %" PRId64, (int)meta->dtype, weight->storage,
                    meta->storage_offset.value);
    for (uint32_t d = 0; d < meta->rank; d++) {
        exg_text_printf(&text, " %" PRId64 ":%" PRId64, meta->sizes[d].value,
                        meta->strides[d].value);
    }
    key = exg_text_string(&text) == NULL ? NULL : exg_arena_strdup(arena, text.data);
    exg_text_free(&text);
    return key;
}

exg_status exg_weights_share(const exg_weights *weights, exg_arena *arena, bool *shared,
                             exg_error *err)
{
    bool *used = EXG_NEW_ARRAY(arena, bool, weights->storage_count);

    *shared = false;
    if (used == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < weights->count && !*shared; i++) {
        uint32_t storage = weights->items[i].storage;

        if (storage < weights->storage_count && weights->items[i].meta != NULL) {
            *shared = used[storage] && weights->storages[storage].length > 0;
            used[storage] = true;
        }
    }
    return EXG_OK;
}

exg_status exg_tensor_meta_bytes(const exg_tensor_meta *meta, uint64_t *bytes, exg_error *err)
{
    EXG_REQUIRE(err, meta, bytes);
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

void exg_tensor_meta_pack(exg_tensor_meta *meta)
{
    int64_t step = 1;

    meta->storage_offset = exg_sym_int_of(0);
    for (uint32_t d = meta->rank; d-- > 0;) {
        meta->strides[d] = exg_sym_int_of(step);
        if (meta->sizes[d].value != 0 && !exg_mul_i64(step, meta->sizes[d].value, &step)) {
            step = 1;
        }
    }
}

bool exg_tensor_meta_is_packed(const exg_tensor_meta *meta)
{
    uint64_t expected = 1;

    for (uint32_t d = meta->rank; d-- > 0;) {
        if (meta->sizes[d].value != 1 && (uint64_t)meta->strides[d].value != expected) {
            return false;
        }
        expected *= (uint64_t)meta->sizes[d].value;
    }
    return true;
}

/* ---- gathering ----------------------------------------------------------------------------- */

/* A run of elements of a view, row by row. */
typedef struct run {
    const exg_tensor_meta *meta;
    uint32_t width;
    uint64_t first, count;
    int64_t index[RANK_MAX]; /* of the first */
    int64_t lowest, highest; /* elements of the storage it touches are between these */
} run;

/* Where the run begins, and what part of the storage covers it: up to the dimension in
 * which first and last differ they share an index, behind it every index may occur. */
static void place_run(run *r)
{
    uint64_t first = r->first;
    uint64_t last = r->first + r->count - 1;
    int64_t last_index[RANK_MAX];
    bool same = true;

    for (uint32_t d = r->meta->rank; d-- > 0;) {
        uint64_t size = (uint64_t)r->meta->sizes[d].value;

        r->index[d] = (int64_t)(first % size);
        last_index[d] = (int64_t)(last % size);
        first /= size;
        last /= size;
    }
    r->lowest = r->highest = r->meta->storage_offset.value;
    for (uint32_t d = 0; d < r->meta->rank; d++) {
        int64_t stride = r->meta->strides[d].value;

        r->lowest += same ? r->index[d] * stride : 0;
        r->highest += (same ? last_index[d] : r->meta->sizes[d].value - 1) * stride;
        same = same && r->index[d] == last_index[d];
    }
}

/* `count` elements that lie `stride` apart; constant widths become moves. */
static void copy_apart(uint8_t *out, const uint8_t *from, uint64_t count, uint64_t stride,
                       uint32_t width)
{
    if (stride == 1) {
        memcpy(out, from, (size_t)(count * width));
        return;
    }
    switch (width) {
    case 2:
        for (uint64_t i = 0; i < count; i++) {
            memcpy(out + i * 2, from + i * stride * 2, 2);
        }
        break;
    case 4:
        for (uint64_t i = 0; i < count; i++) {
            memcpy(out + i * 4, from + i * stride * 4, 4);
        }
        break;
    default:
        for (uint64_t i = 0; i < count; i++) {
            memcpy(out + i * width, from + i * stride * width, width);
        }
        break;
    }
}

/* `from` holds the storage from the element r->lowest on. */
static void gather(run *r, const uint8_t *from, uint8_t *out)
{
    uint32_t rank = r->meta->rank; /* not 0: such a view is packed */
    uint64_t row = (uint64_t)r->meta->sizes[rank - 1].value;
    uint64_t stride = (uint64_t)r->meta->strides[rank - 1].value;

    while (r->count > 0) {
        uint64_t left = row - (uint64_t)r->index[rank - 1];
        uint64_t part = left < r->count ? left : r->count;
        int64_t at = r->meta->storage_offset.value - r->lowest;

        for (uint32_t d = 0; d < rank; d++) {
            at += r->index[d] * r->meta->strides[d].value;
        }
        copy_apart(out, from + (uint64_t)at * r->width, part, stride, r->width);
        out += part * r->width;
        r->count -= part;
        r->index[rank - 1] = 0;
        for (uint32_t d = rank - 1; d-- > 0;) {
            if (++r->index[d] < r->meta->sizes[d].value) {
                break;
            }
            r->index[d] = 0;
        }
    }
}

/* From the storage where it is, or from a copy of the part that covers the run. */
static exg_status read_apart(exg_weights *weights, uint32_t storage, run *r, uint8_t *out,
                             exg_error *err)
{
    const uint8_t *data;
    uint8_t *copy;
    uint64_t bytes;
    exg_status status;

    place_run(r);
    EXG_TRY(exg_storage_plain_bytes(weights, storage, &data, err));
    if (data != NULL) {
        gather(r, data + (uint64_t)r->lowest * r->width, out);
        return EXG_OK;
    }
    bytes = (uint64_t)(r->highest - r->lowest + 1) * r->width;
    copy = bytes > SIZE_MAX ? NULL : malloc((size_t)bytes);
    if (copy == NULL) {
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory: %llu bytes",
                        (unsigned long long)bytes);
    }
    status = exg_storage_read(weights, storage, (uint64_t)r->lowest * r->width, bytes, copy, err);
    if (status == EXG_OK) {
        gather(r, copy, out);
    }
    free(copy);
    return status;
}

static exg_status check_weight(const exg_weights *weights, const exg_weight *weight,
                               uint64_t *bytes, exg_error *err)
{
    uint64_t length = weights->storages[weight->storage].length;

    if (weight->meta == NULL || weight->use_pickle) {
        return EXG_FAIL(err, USAGE, "WGT-013", "%s is an object, not plain tensor bytes",
                        weight->fqn);
    }
    EXG_TRY_IN(err, exg_tensor_meta_bytes(weight->meta, bytes, err), "%s", weight->fqn);
    if (*bytes > 0 && length == 0) {
        return EXG_FAIL(err, MALFORMED, "WGT-012", "the file holds no data for %s", weight->fqn);
    }
    EXG_TRY_IN(err, exg_tensor_meta_check_view(weight->meta, length, err), "%s", weight->fqn);
    return EXG_OK;
}

static exg_status read_run(exg_weights *weights, const exg_weight *weight, run *r, void *out,
                           exg_error *err)
{
    uint64_t bytes = r->count * r->width;

    if (bytes == 0) {
        return EXG_OK;
    }
    if (exg_tensor_meta_is_packed(r->meta)) {
        uint64_t at = (uint64_t)r->meta->storage_offset.value + r->first;

        EXG_TRY(exg_storage_read(weights, weight->storage, at * r->width, bytes, out, err));
    } else {
        const uint8_t *data; /* asked for so that the checksum is compared */

        EXG_TRY(exg_storage_map(weights, weight->storage, &data, err));
        EXG_TRY(read_apart(weights, weight->storage, r, out, err));
    }
    if (weights->storages[weight->storage].byte_order != exg_host_byte_order()) {
        exg_bytes_swap(out, bytes, r->meta->dtype);
    }
    return EXG_OK;
}

exg_status exg_weight_read_range(exg_weights *weights, const exg_weight *weight, uint64_t first,
                                 uint64_t count, void *out, exg_error *err)
{
    EXG_REQUIRE(err, weights, weight, EXG_IF_ANY(count, out));
    run r = {.meta = weight->meta, .first = first, .count = count};
    uint64_t bytes;

    EXG_TRY(check_weight(weights, weight, &bytes, err));
    r.width = exg_dtype_bytes(r.meta->dtype);
    if (!exg_range_inside(first, count, bytes / r.width)) {
        return EXG_FAIL(err, USAGE, "WGT-RANGE", "%s has %llu elements, not %llu from %llu on",
                        weight->fqn, (unsigned long long)(bytes / r.width),
                        (unsigned long long)count, (unsigned long long)first);
    }
    return read_run(weights, weight, &r, out, err);
}

exg_status exg_weight_read(exg_weights *weights, const exg_weight *weight, void *out,
                           uint64_t bytes, exg_error *err)
{
    EXG_REQUIRE(err, weights, weight, EXG_IF_ANY(bytes, out));
    run r = {.meta = weight->meta};
    uint64_t expected;

    EXG_TRY(check_weight(weights, weight, &expected, err));
    r.width = exg_dtype_bytes(r.meta->dtype);
    r.count = expected / r.width;
    if (bytes != expected) {
        return EXG_FAIL(err, USAGE, "WGT-RANGE", "%s takes %llu bytes, not %llu", weight->fqn,
                        (unsigned long long)expected, (unsigned long long)bytes);
    }
    return read_run(weights, weight, &r, out, err);
}

/* ---- two of them ------------------------------------------------------------------------- */

#define COMPARED_BYTES (UINT64_C(1) << 20) /* at once */

bool exg_tensor_meta_same_shape(const exg_tensor_meta *a, const exg_tensor_meta *b)
{
    for (uint32_t d = 0; a->rank == b->rank && d < a->rank; d++) {
        if (a->sizes[d].value != b->sizes[d].value) {
            return false;
        }
    }
    return a->rank == b->rank;
}

exg_status exg_weights_same_elements(exg_weights *of_a, const exg_weight *a, exg_weights *of_b,
                                     const exg_weight *b, bool *same, exg_error *err)
{
    uint64_t width = exg_dtype_bytes(a->meta->dtype);
    uint64_t step = COMPARED_BYTES / width;
    uint64_t bytes = 0;
    uint8_t *room;
    exg_status status = EXG_OK;

    *same = true;
    EXG_TRY(exg_tensor_meta_bytes(a->meta, &bytes, err));
    if (a == b) {
        return EXG_OK;
    }
    room = malloc(2 * COMPARED_BYTES);
    if (room == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint64_t at = 0; status == EXG_OK && *same && at < bytes / width; at += step) {
        uint64_t count = bytes / width - at < step ? bytes / width - at : step;

        status = exg_weight_read_range(of_a, a, at, count, room, err);
        status = status == EXG_OK
                     ? exg_weight_read_range(of_b, b, at, count, room + COMPARED_BYTES, err)
                     : status;
        *same =
            status == EXG_OK && memcmp(room, room + COMPARED_BYTES, (size_t)(count * width)) == 0;
    }
    free(room);
    return status;
}
