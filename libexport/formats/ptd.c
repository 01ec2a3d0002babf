/* ptd.c - the named data of an ExecuTorch program.
 *
 *   u32 root | 'FT' digits | 'FH01' | u32 size | u64 FlatBuffer at, bytes | u64 segments at, bytes
 *   FlatTensor: version, segments [DataSegment], named_data [NamedData]
 *   DataSegment: offset, size          NamedData: key, segment_index, tensor_layout
 *   TensorLayout: scalar_type, sizes [int32], dim_order [uint8], outermost first
 *
 * Tensors of one segment share their storage. What has no layout is a backend's and listed.
 */
#include "libexport/formats/executorch.h"

#include "libexport/base/arena.h"
#include "libexport/base/checked.h"
#include "libexport/formats/byte_text.h"
#include "libexport/formats/dense_tensor.h"
#include "libexport/formats/weights_file.h"

#include <inttypes.h>
#include <string.h>

#define HEADER_SIZE 48

bool exg_ptd_sniff(const uint8_t *data, uint64_t length)
{
    return length >= HEADER_SIZE && memcmp(data + 4, "FT", 2) == 0 &&
           memcmp(data + 8, "FH01", 4) == 0;
}

static exg_status read_data(exg_et *r, uint64_t data, const uint32_t *storages, uint64_t count)
{
    exg_sym_int sizes[EXG_ET_RANK_MAX];
    exg_sym_int strides[EXG_ET_RANK_MAX];
    exg_tensor_meta meta = {
        .layout = EXG_LAYOUT_STRIDED, .sizes = sizes, .strides = strides, .device = {"cpu", -1}};
    exg_weight weight = {.meta = &meta};
    uint64_t length;
    uint64_t segment;
    uint64_t type;
    uint64_t key;
    uint64_t layout;

    if (!exg_et_vector(r, data, 0, 1, &key, &length) || !exg_et_number(r, data, 1, 4, &segment) ||
        !exg_et_table(r, data, 2, &layout) || segment >= count) {
        return exg_et_damaged(r, data);
    }
    weight.fqn = exg_byte_name(r->arena, (const char *)r->data + key, length);
    weight.storage = storages[segment];
    if (weight.fqn == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    if (layout == 0) {
        return exg_et_skip(r, weight.fqn,
                           exg_arena_printf(r->arena, "data of a backend, %" PRIu64 " bytes",
                                            r->weights->storages[weight.storage].length));
    }
    if (!exg_et_number(r, layout, 0, 1, &type) ||
        !exg_et_layout(r, layout, 1, &meta, sizes, strides)) {
        return exg_error_within(r->err, exg_et_damaged(r, layout), "['%s']", weight.fqn);
    }
    meta.dtype = exg_et_dtype(type);
    if (meta.dtype == EXG_DTYPE_COUNT) {
        return exg_et_skip(
            r, weight.fqn,
            exg_arena_printf(r->arena, "scalar type %" PRIu64 " of ExecuTorch", type));
    }
    EXG_TRY_IN(
        r->err,
        exg_tensor_meta_check_view(&meta, r->weights->storages[weight.storage].length, r->err),
        "['%s']", weight.fqn);
    return exg_weights_add(r->weights, &weight, r->err);
}

/* A storage each. */
static exg_status read_segments(exg_et *r, uint64_t first, uint64_t count, uint32_t *storages)
{
    for (uint64_t i = 0; i < count; i++) {
        exg_storage storage = {.kind = EXG_STORAGE_MEMORY, .byte_order = EXG_LITTLE_ENDIAN};
        uint64_t offset = 0;
        uint64_t segment = first + 4 * i;
        uint64_t to;

        if (!exg_et_number_at(r, segment, 4, &to) || to >= r->length - segment ||
            !exg_et_number(r, segment + to, 0, 8, &offset) ||
            !exg_et_number(r, segment + to, 1, 8, &storage.length)) {
            return exg_et_damaged(r, segment);
        }
        if (!exg_range_inside(offset, storage.length, r->length - r->segments)) {
            return exg_error_fix(r->err,
                                 EXG_FAIL(r->err, MALFORMED, "PTD-SEGMENT",
                                          "segment %" PRIu64 " of the data ends behind the file",
                                          i),
                                 "the file may be cut short: copy it again and compare its size");
        }
        storage.data = r->data + r->segments + offset;
        EXG_TRY(exg_weights_add_storage(r->weights, &storage, &storages[i], r->err));
    }
    return EXG_OK;
}

static exg_status read_all(exg_et *r)
{
    uint32_t *storages;
    uint64_t root;
    uint64_t segment_count;
    uint64_t data_count;
    uint64_t segments;
    uint64_t data;

    if (!exg_et_number_at(r, 0, 4, &root) || !exg_et_number_at(r, 32, 8, &r->segments) ||
        r->segments > r->length || !exg_et_vector(r, root, 1, 4, &segments, &segment_count) ||
        !exg_et_vector(r, root, 2, 4, &data, &data_count)) {
        return exg_et_damaged(r, 0);
    }
    storages = EXG_NEW_ARRAY(r->arena, uint32_t, (size_t)segment_count);
    if (storages == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    EXG_TRY(read_segments(r, segments, segment_count, storages));
    for (uint64_t i = 0; i < data_count; i++) {
        uint64_t at = data + 4 * i;
        uint64_t to;

        if (!exg_et_number_at(r, at, 4, &to) || to >= r->length - at) {
            return exg_et_damaged(r, at);
        }
        EXG_TRY(read_data(r, at + to, storages, segment_count));
    }
    return EXG_OK;
}

exg_status exg_ptd_read(const exg_source *source, exg_weights *weights, exg_error *err)
{
    exg_et r = {.data = source->data, .length = source->length, .weights = weights, .err = err};
    exg_status status;

    r.arena = exg_arena_create(source->allocator, source->budget);
    status = r.arena == NULL ? EXG_OUT_OF_MEMORY(err) : read_all(&r);
    status = r.arena == NULL ? status : exg_arena_settle(r.arena, status, err);
    exg_arena_destroy(r.arena);
    return status;
}
