/* pte.c - the constants of an ExecuTorch program.
 *
 *   u32 root | 'ET' digits | 'eh00' | u32 size | u64 FlatBuffer bytes | u64 segments at
 *   Program: version, execution_plan, constant_buffer, backend_delegate_data, segments,
 *            constant_segment, mutable_data_segments, named_data
 *   ExecutionPlan: name, container_meta_type, values, inputs, outputs, chains, operators, delegates
 *   Tensor: scalar_type, storage_offset, sizes, dim_order, requires_grad, data_buffer_idx,
 *           allocation_info, layout, shape_dynamism, extra_tensor_info
 *
 * A constant has the name that its writer kept, else that of its method and its place among the
 * values. What was given to a backend is its own and listed; values that others get at run time are
 * no constants.
 */
#include "libexport/formats/executorch.h"

#include "libexport/base/checked.h"
#include "libexport/base/map.h"
#include "libexport/formats/byte_text.h"
#include "libexport/formats/dense_tensor.h"
#include "libexport/formats/weights_file.h"

#include <inttypes.h>
#include <string.h>

#define HEADER_SIZE 32
#define TENSOR      5 /* among KernelTypes */
#define EXTERNAL    1 /* among TensorDataLocation */

/* Fields of tables. */
enum {
    PROGRAM_PLANS = 1,
    PROGRAM_BUFFERS,
    PROGRAM_INLINE,
    PROGRAM_SEGMENTS,
    PROGRAM_CONSTANTS,
    PROGRAM_MUTABLE,
    PROGRAM_NAMED
};
enum { PLAN_NAME = 0, PLAN_VALUES = 2, PLAN_DELEGATES = 7 };
enum {
    TENSOR_TYPE = 0,
    TENSOR_OFFSET,
    TENSOR_SIZES,
    TENSOR_BUFFER = 5,
    TENSOR_ALLOCATION,
    TENSOR_EXTRA = 9
};

typedef struct program {
    exg_et et;
    uint64_t root;
    exg_map names; /* of tensors */
} program;

/* A vector of tables. */
typedef struct tables {
    uint64_t first, count;
} tables;

bool exg_pte_sniff(const uint8_t *data, uint64_t length)
{
    return length >= 16 && memcmp(data + 4, "ET", 2) == 0 && data[6] >= '0' && data[6] <= '9' &&
           data[7] >= '0' && data[7] <= '9';
}

static bool tables_of(const exg_et *et, uint64_t table, uint32_t index, tables *all)
{
    return exg_et_vector(et, table, index, 4, &all->first, &all->count);
}

static bool table_at(const exg_et *et, const tables *all, uint64_t index, uint64_t *table)
{
    uint64_t at = all->first + 4 * index;
    uint64_t to;

    if (index >= all->count || !exg_et_number_at(et, at, 4, &to) || to == 0 ||
        to >= et->length - at) {
        return false;
    }
    *table = at + to;
    return true;
}

/* A text; NULL: none, or out of memory. */
static const char *text_of(exg_et *et, uint64_t table, uint32_t index)
{
    uint64_t at = 0;
    uint64_t length = 0;

    if (table == 0 || !exg_et_vector(et, table, index, 1, &at, &length) || at == 0) {
        return NULL;
    }
    return exg_byte_name(et->arena, (const char *)et->data + at, length);
}

/* ---- where bytes lie --------------------------------------------------------------------------
 */

/* [*at, *at + *bytes) of the file. */
static bool segment_at(const program *p, uint64_t index, uint64_t *at, uint64_t *bytes)
{
    const exg_et *et = &p->et;
    tables segments;
    uint64_t segment;

    if (!tables_of(et, p->root, PROGRAM_SEGMENTS, &segments) ||
        !table_at(et, &segments, index, &segment) || !exg_et_number(et, segment, 0, 8, at) ||
        !exg_et_number(et, segment, 1, 8, bytes) || et->segments > et->length ||
        !exg_range_inside(*at, *bytes, et->length - et->segments)) {
        return false;
    }
    *at += et->segments;
    return true;
}

/* Where the buffer `index` of SubsegmentOffsets begins, and what is behind it in its segment. */
static bool buffer_in(const program *p, uint64_t offsets_table, uint64_t index, uint64_t *at,
                      uint64_t *bytes)
{
    const exg_et *et = &p->et;
    uint64_t segment;
    uint64_t offsets;
    uint64_t count;
    uint64_t offset;

    if (!exg_et_number(et, offsets_table, 0, 4, &segment) ||
        !exg_et_vector(et, offsets_table, 1, 8, &offsets, &count) || index >= count ||
        !exg_et_number_at(et, offsets + 8 * index, 8, &offset) ||
        !segment_at(p, segment, at, bytes) || offset > *bytes) {
        return false;
    }
    *at += offset;
    *bytes -= offset;
    return true;
}

/* Of a file without segments. */
static bool buffer_inline(const program *p, uint64_t index, uint64_t *at, uint64_t *bytes)
{
    tables buffers;
    uint64_t buffer;

    return tables_of(&p->et, p->root, PROGRAM_BUFFERS, &buffers) &&
           table_at(&p->et, &buffers, index, &buffer) &&
           exg_et_vector(&p->et, buffer, 0, 1, at, bytes);
}

/* Of a tensor that has data: a constant, or one that begins as it is here. */
static bool find_buffer(const program *p, uint64_t tensor, uint64_t extra, uint64_t index,
                        uint64_t *at, uint64_t *bytes)
{
    const exg_et *et = &p->et;
    uint64_t allocation;
    uint64_t constants;
    uint64_t number = 0;
    tables mutable_;
    uint64_t table;

    if (!exg_et_table(et, tensor, TENSOR_ALLOCATION, &allocation) ||
        !exg_et_table(et, p->root, PROGRAM_CONSTANTS, &constants)) {
        return false;
    }
    if (allocation == 0) {
        return constants == 0 ? buffer_inline(p, index, at, bytes)
                              : buffer_in(p, constants, index, at, bytes);
    }
    return (extra == 0 || exg_et_number(et, extra, 0, 8, &number)) &&
           tables_of(et, p->root, PROGRAM_MUTABLE, &mutable_) &&
           table_at(et, &mutable_, number, &table) && buffer_in(p, table, index, at, bytes);
}

/* ---- tensors ----------------------------------------------------------------------------------
 */

static exg_status add_tensor(program *p, const char *name, exg_tensor_meta *meta, uint64_t at,
                             uint64_t there)
{
    exg_et *et = &p->et;
    exg_storage storage = {.kind = EXG_STORAGE_MEMORY, .byte_order = EXG_LITTLE_ENDIAN};
    exg_weight weight = {.meta = meta};
    uint64_t bytes = 0;

    EXG_TRY(exg_tensor_meta_bytes(meta, &bytes, et->err));
    if (bytes > there) {
        return exg_error_fix(
            et->err,
            EXG_FAIL(et->err, MALFORMED, "PTD-SEGMENT",
                     "the tensor takes %" PRIu64 " bytes, its segment has %" PRIu64, bytes, there),
            "the file may be cut short: copy it again and compare its size");
    }
    weight.fqn = exg_map_free_name(&p->names, et->arena, name);
    storage.data = et->data + at;
    storage.length = bytes;
    if (weight.fqn == NULL || !exg_map_put(&p->names, weight.fqn, 0)) {
        return EXG_OUT_OF_MEMORY(et->err);
    }
    EXG_TRY(exg_weights_add_storage(et->weights, &storage, &weight.storage, et->err));
    EXG_TRY(exg_tensor_meta_check_view(meta, bytes, et->err));
    return exg_weights_add(et->weights, &weight, et->err);
}

static exg_status read_tensor(program *p, uint64_t tensor, const char *name)
{
    exg_et *et = &p->et;
    exg_sym_int sizes[EXG_ET_RANK_MAX];
    exg_sym_int strides[EXG_ET_RANK_MAX];
    exg_tensor_meta meta = {
        .layout = EXG_LAYOUT_STRIDED, .sizes = sizes, .strides = strides, .device = {"cpu", -1}};
    const char *kept;
    uint64_t extra = 0;
    uint64_t buffer = 0;
    uint64_t type = 0;
    uint64_t location = 0;
    uint64_t offset = 0;
    uint64_t at = 0;
    uint64_t bytes = 0;

    if (!exg_et_table(et, tensor, TENSOR_EXTRA, &extra) ||
        !exg_et_number(et, tensor, TENSOR_BUFFER, 4, &buffer) ||
        !exg_et_number(et, tensor, TENSOR_TYPE, 1, &type) ||
        !exg_et_number(et, tensor, TENSOR_OFFSET, 4, &offset) ||
        (extra != 0 && !exg_et_number(et, extra, 2, 1, &location))) {
        return exg_et_damaged(et, tensor);
    }
    kept = text_of(et, extra, 1);
    name = kept == NULL || kept[0] == '\0' ? name : kept;
    if (location == EXTERNAL) {
        return exg_et_skip(et, name, "a tensor of a file beside (.ptd)");
    }
    if (buffer == 0) {
        return EXG_OK; /* made at run time */
    }
    if (offset != 0) { /* which ExecuTorch itself does not take */
        return exg_et_skip(et, name, "a tensor that begins inside of its buffer");
    }
    meta.dtype = exg_et_dtype(type);
    if (meta.dtype == EXG_DTYPE_COUNT) {
        return exg_et_skip(
            et, name, exg_arena_printf(et->arena, "scalar type %" PRIu64 " of ExecuTorch", type));
    }
    if (!exg_et_layout(et, tensor, TENSOR_SIZES, &meta, sizes, strides) ||
        !find_buffer(p, tensor, extra, buffer, &at, &bytes)) {
        return exg_error_within(et->err, exg_et_damaged(et, tensor), "['%s']", name);
    }
    EXG_TRY_IN(et->err, add_tensor(p, name, &meta, at, bytes), "['%s']", name);
    return EXG_OK;
}

/* ---- methods ----------------------------------------------------------------------------------
 */

static exg_status read_values(program *p, uint64_t plan, const char *method)
{
    exg_et *et = &p->et;
    tables values;

    if (!tables_of(et, plan, PLAN_VALUES, &values)) {
        return exg_et_damaged(et, plan);
    }
    for (uint64_t i = 0; i < values.count; i++) {
        const char *name = exg_arena_printf(et->arena, "%s.values.%" PRIu64, method, i);
        uint64_t value;
        uint64_t kind;
        uint64_t tensor;

        if (name == NULL) {
            return EXG_OUT_OF_MEMORY(et->err);
        }
        if (!table_at(et, &values, i, &value) || !exg_et_number(et, value, 0, 1, &kind) ||
            !exg_et_table(et, value, 1, &tensor)) {
            return exg_et_damaged(et, values.first);
        }
        EXG_TRY(kind == TENSOR && tensor != 0 ? read_tensor(p, tensor, name) : EXG_OK);
    }
    return EXG_OK;
}

static exg_status list_delegates(program *p, uint64_t plan, const char *method)
{
    exg_et *et = &p->et;
    tables delegates;

    if (!tables_of(et, plan, PLAN_DELEGATES, &delegates)) {
        return exg_et_damaged(et, plan);
    }
    for (uint64_t i = 0; i < delegates.count; i++) {
        const char *name = exg_arena_printf(et->arena, "%s.delegates.%" PRIu64, method, i);
        const char *backend;
        uint64_t delegate;

        if (!table_at(et, &delegates, i, &delegate)) {
            return exg_et_damaged(et, delegates.first);
        }
        backend = text_of(et, delegate, 0);
        EXG_TRY(name == NULL
                    ? EXG_OUT_OF_MEMORY(et->err)
                    : exg_et_skip(et, name,
                                  exg_arena_printf(et->arena, "what %s was given",
                                                   backend == NULL ? "a backend" : backend)));
    }
    return EXG_OK;
}

/* Data by name, of backends. */
static exg_status list_named(program *p)
{
    exg_et *et = &p->et;
    tables named;

    if (!tables_of(et, p->root, PROGRAM_NAMED, &named)) {
        return exg_et_damaged(et, p->root);
    }
    for (uint64_t i = 0; i < named.count; i++) {
        uint64_t data;
        uint64_t segment;
        uint64_t at;
        uint64_t bytes;
        const char *name;

        if (!table_at(et, &named, i, &data) || !exg_et_number(et, data, 1, 4, &segment) ||
            !segment_at(p, segment, &at, &bytes)) {
            return exg_et_damaged(et, named.first);
        }
        name = text_of(et, data, 0);
        EXG_TRY(exg_et_skip(
            et, name == NULL ? "" : name,
            exg_arena_printf(et->arena, "data of a backend, %" PRIu64 " bytes", bytes)));
    }
    return EXG_OK;
}

static exg_status read_all(program *p)
{
    exg_et *et = &p->et;
    tables plans;

    if (!exg_et_number_at(et, 0, 4, &p->root) || !tables_of(et, p->root, PROGRAM_PLANS, &plans)) {
        return exg_et_damaged(et, 0);
    }
    if (et->length >= HEADER_SIZE && memcmp(et->data + 8, "eh00", 4) == 0) {
        (void)exg_et_number_at(et, 24, 8, &et->segments);
    }
    for (uint64_t i = 0; i < plans.count; i++) {
        uint64_t plan;
        const char *method;

        if (!table_at(et, &plans, i, &plan)) {
            return exg_et_damaged(et, plans.first);
        }
        method = text_of(et, plan, PLAN_NAME);
        method = method == NULL ? "method" : method;
        EXG_TRY(read_values(p, plan, method));
        EXG_TRY(list_delegates(p, plan, method));
    }
    return list_named(p);
}

exg_status exg_pte_read(const exg_source *source, exg_weights *weights, exg_error *err)
{
    program p = {.et = {.data = source->data,
                        .length = source->length,
                        .segments = source->length,
                        .weights = weights,
                        .err = err}};
    exg_status status;

    p.et.arena = exg_arena_create(source->allocator, source->budget);
    exg_map_init(&p.names, p.et.arena);
    status = p.et.arena == NULL ? EXG_OUT_OF_MEMORY(err) : read_all(&p);
    status = p.et.arena == NULL ? status : exg_arena_settle(p.et.arena, status, err);
    exg_arena_destroy(p.et.arena);
    return status;
}
