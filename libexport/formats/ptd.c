/* ptd.c - the named data of an ExecuTorch program.
 *
 *   u32 root | 'FT' digits | 'FH01' | u32 size | u64 FlatBuffer at, bytes | u64 segments at, bytes
 *   FlatTensor: version, segments [DataSegment], named_data [NamedData]
 *   DataSegment: offset, size          NamedData: key, segment_index, tensor_layout
 *   TensorLayout: scalar_type, sizes [int32], dim_order [uint8], outermost first
 *
 * Tensors of one segment share their storage. What has no layout is a backend's and listed.
 */
#include "libexport/base/arena.h"
#include "libexport/base/checked.h"
#include "libexport/formats/byte_text.h"
#include "libexport/formats/dense_tensor.h"
#include "libexport/formats/weights_file.h"

#include <inttypes.h>
#include <string.h>

#define RANK_MAX    64
#define HEADER_SIZE 48

typedef struct reader {
    const uint8_t *data;
    uint64_t length;
    uint64_t segments; /* where they begin */
    exg_arena *arena;  /* scratch */
    exg_weights *weights;
    exg_error *err;
} reader;

/* A place in the FlatBuffer; 0: none, as a field that is left out. */
typedef uint64_t place;

bool exg_ptd_sniff(const uint8_t *data, uint64_t length)
{
    return length >= HEADER_SIZE && memcmp(data + 4, "FT", 2) == 0 &&
           memcmp(data + 8, "FH01", 4) == 0;
}

static exg_status damaged(reader *r, place at)
{
    return exg_error_at(
        r->err,
        EXG_FAIL(r->err, MALFORMED, "PTD-TABLE", "the table of tensors leads out of the file"), at);
}

/* ---- FlatBuffers ---------------------------------------------------------------------------- */

static bool number_at(const reader *r, place at, uint32_t bytes, uint64_t *value)
{
    *value = 0;
    if (!exg_range_inside(at, bytes, r->length)) {
        return false;
    }
    for (uint32_t i = 0; i < bytes; i++) {
        *value |= (uint64_t)r->data[at + i] << 8 * i;
    }
    return true;
}

/* Where the field `index` of a table is; false: the table is damaged. */
static bool field_at(const reader *r, place table, uint32_t index, place *field)
{
    uint64_t back;
    uint64_t size;
    uint64_t offset = 0;
    place names;

    *field = 0;
    if (!number_at(r, table, 4, &back)) {
        return false;
    }
    names = (place)((int64_t)table - (int32_t)(uint32_t)back);
    if (!number_at(r, names, 2, &size)) {
        return false;
    }
    if (size >= 6 + 2 * (uint64_t)index) {
        if (!number_at(r, names + 4 + 2 * (uint64_t)index, 2, &offset)) {
            return false;
        }
    }
    *field = offset == 0 ? 0 : table + offset;
    return *field < r->length;
}

/* The number in a field, 0 where it is left out. */
static bool number_of(const reader *r, place table, uint32_t index, uint32_t bytes, uint64_t *value)
{
    place field;

    *value = 0;
    return field_at(r, table, index, &field) && (field == 0 || number_at(r, field, bytes, value));
}

/* What a field leads to: a table. */
static bool table_of(const reader *r, place table, uint32_t index, place *to)
{
    uint64_t offset;

    *to = 0;
    if (!field_at(r, table, index, to) || *to == 0) {
        return *to == 0;
    }
    if (!number_at(r, *to, 4, &offset) || offset == 0 || offset >= r->length - *to) {
        return false;
    }
    *to += offset;
    return true;
}

/* The same, a vector of `count` elements of so many bytes each; *to is the first. */
static bool vector_of(const reader *r, place table, uint32_t index, uint32_t bytes, place *to,
                      uint64_t *count)
{
    *count = 0;
    if (!table_of(r, table, index, to)) {
        return false;
    }
    if (*to == 0) {
        return true;
    }
    if (!number_at(r, *to, 4, count)) {
        return false;
    }
    *to += 4;
    return exg_range_inside(*to, *count * bytes, r->length);
}

/* ---- tensors -------------------------------------------------------------------------------- */

static exg_dtype dtype_of(uint64_t number)
{
    switch (number) {
#define EXG_PTD_TYPE(number, dtype)                                                                \
    case number:                                                                                   \
        return EXG_DTYPE_##dtype;
#include "libexport/formats/ptd_type.def"
#undef EXG_PTD_TYPE
    default:
        return EXG_DTYPE_COUNT;
    }
}

static exg_status skip(reader *r, const char *name, const char *kind)
{
    return kind == NULL ? EXG_OUT_OF_MEMORY(r->err)
                        : exg_weights_skip(r->weights, name, kind, r->err);
}

/* Sizes, and the strides that the order of dimensions makes of them. false: they are none. */
static bool read_layout(const reader *r, place layout, exg_tensor_meta *meta, exg_sym_int *sizes,
                        exg_sym_int *strides)
{
    place first;
    place order;
    uint64_t rank;
    uint64_t ordered;
    uint64_t step = 1;
    uint64_t seen = 0;

    if (!vector_of(r, layout, 1, 4, &first, &rank) ||
        !vector_of(r, layout, 2, 1, &order, &ordered) || rank > RANK_MAX ||
        (ordered != rank && ordered != 0)) {
        return false;
    }
    for (uint64_t d = 0; d < rank; d++) {
        uint64_t size;

        if (!number_at(r, first + 4 * d, 4, &size) || size > INT32_MAX) {
            return false;
        }
        sizes[d] = exg_sym_int_of((int64_t)size);
    }
    for (uint64_t i = rank; i-- > 0;) {
        uint64_t d = ordered == 0 ? i : r->data[order + i];

        if (d >= rank || (seen >> d & 1) != 0) {
            return false;
        }
        seen |= UINT64_C(1) << d;
        strides[d] = exg_sym_int_of((int64_t)step);
        if (!exg_mul_u64(step, sizes[d].value == 0 ? 1 : (uint64_t)sizes[d].value, &step) ||
            step > INT64_MAX) {
            return false;
        }
    }
    meta->rank = (uint32_t)rank;
    return true;
}

static exg_status read_data(reader *r, place data, const uint32_t *storages, uint64_t count)
{
    exg_sym_int sizes[RANK_MAX];
    exg_sym_int strides[RANK_MAX];
    exg_tensor_meta meta = {
        .layout = EXG_LAYOUT_STRIDED, .sizes = sizes, .strides = strides, .device = {"cpu", -1}};
    exg_weight weight = {.meta = &meta};
    uint64_t length;
    uint64_t segment;
    uint64_t type;
    place key;
    place layout;

    if (!vector_of(r, data, 0, 1, &key, &length) || !number_of(r, data, 1, 4, &segment) ||
        !table_of(r, data, 2, &layout) || segment >= count) {
        return damaged(r, data);
    }
    weight.fqn = exg_byte_name(r->arena, (const char *)r->data + key, length);
    weight.storage = storages[segment];
    if (weight.fqn == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    if (layout == 0) {
        return skip(r, weight.fqn,
                    exg_arena_printf(r->arena, "data of a backend, %" PRIu64 " bytes",
                                     r->weights->storages[weight.storage].length));
    }
    if (!number_of(r, layout, 0, 1, &type) || !read_layout(r, layout, &meta, sizes, strides)) {
        return exg_error_within(r->err, damaged(r, layout), "['%s']", weight.fqn);
    }
    meta.dtype = dtype_of(type);
    if (meta.dtype == EXG_DTYPE_COUNT) {
        return skip(r, weight.fqn,
                    exg_arena_printf(r->arena, "scalar type %" PRIu64 " of ExecuTorch", type));
    }
    EXG_TRY_IN(
        r->err,
        exg_tensor_meta_check_view(&meta, r->weights->storages[weight.storage].length, r->err),
        "['%s']", weight.fqn);
    return exg_weights_add(r->weights, &weight, r->err);
}

/* A storage each. */
static exg_status read_segments(reader *r, place first, uint64_t count, uint32_t *storages)
{
    for (uint64_t i = 0; i < count; i++) {
        exg_storage storage = {.kind = EXG_STORAGE_MEMORY, .byte_order = EXG_LITTLE_ENDIAN};
        uint64_t offset = 0;
        place segment = first + 4 * i;
        uint64_t to;

        if (!number_at(r, segment, 4, &to) || to >= r->length - segment ||
            !number_of(r, segment + to, 0, 8, &offset) ||
            !number_of(r, segment + to, 1, 8, &storage.length)) {
            return damaged(r, segment);
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

static exg_status read_all(reader *r)
{
    uint32_t *storages;
    uint64_t root;
    uint64_t segment_count;
    uint64_t data_count;
    place segments;
    place data;

    if (!number_at(r, 0, 4, &root) || !number_at(r, 32, 8, &r->segments) ||
        r->segments > r->length || !vector_of(r, root, 1, 4, &segments, &segment_count) ||
        !vector_of(r, root, 2, 4, &data, &data_count)) {
        return damaged(r, 0);
    }
    storages = EXG_NEW_ARRAY(r->arena, uint32_t, (size_t)segment_count);
    if (storages == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    EXG_TRY(read_segments(r, segments, segment_count, storages));
    for (uint64_t i = 0; i < data_count; i++) {
        place at = data + 4 * i;
        uint64_t to;

        if (!number_at(r, at, 4, &to) || to >= r->length - at) {
            return damaged(r, at);
        }
        EXG_TRY(read_data(r, at + to, storages, segment_count));
    }
    return EXG_OK;
}

exg_status exg_ptd_read(const exg_source *source, exg_weights *weights, exg_error *err)
{
    reader r = {.data = source->data, .length = source->length, .weights = weights, .err = err};
    exg_status status;

    r.arena = exg_arena_create(source->allocator, source->budget);
    status = r.arena == NULL ? EXG_OUT_OF_MEMORY(err) : read_all(&r);
    status = r.arena == NULL ? status : exg_arena_settle(r.arena, status, err);
    exg_arena_destroy(r.arena);
    return status;
}
