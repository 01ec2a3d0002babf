/* executorch.c - FlatBuffers of ExecuTorch, every step of which is bounded. */
#include "libexport/formats/executorch.h"

#include "libexport/base/checked.h"

#include <inttypes.h>

exg_status exg_et_damaged(exg_et *r, uint64_t at)
{
    return exg_error_at(
        r->err,
        EXG_FAIL(r->err, MALFORMED, "PTD-TABLE", "the table of tensors leads out of the file"), at);
}

/* ---- FlatBuffers ---------------------------------------------------------------------------- */

bool exg_et_number_at(const exg_et *r, uint64_t at, uint32_t bytes, uint64_t *value)
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
static bool field_at(const exg_et *r, uint64_t table, uint32_t index, uint64_t *field)
{
    uint64_t back;
    uint64_t size;
    uint64_t offset = 0;
    uint64_t names;

    *field = 0;
    if (!exg_et_number_at(r, table, 4, &back)) {
        return false;
    }
    names = (uint64_t)((int64_t)table - (int32_t)(uint32_t)back);
    if (!exg_et_number_at(r, names, 2, &size)) {
        return false;
    }
    if (size >= 6 + 2 * (uint64_t)index) {
        if (!exg_et_number_at(r, names + 4 + 2 * (uint64_t)index, 2, &offset)) {
            return false;
        }
    }
    *field = offset == 0 ? 0 : table + offset;
    return *field < r->length;
}

/* The number in a field, 0 where it is left out. */
bool exg_et_number(const exg_et *r, uint64_t table, uint32_t index, uint32_t bytes, uint64_t *value)
{
    uint64_t field;

    *value = 0;
    return field_at(r, table, index, &field) &&
           (field == 0 || exg_et_number_at(r, field, bytes, value));
}

/* What a field leads to: a table. */
bool exg_et_table(const exg_et *r, uint64_t table, uint32_t index, uint64_t *to)
{
    uint64_t offset;

    *to = 0;
    if (!field_at(r, table, index, to)) {
        return false;
    }
    if (*to == 0) {
        return true;
    }
    if (!exg_et_number_at(r, *to, 4, &offset) || offset == 0 || offset >= r->length - *to) {
        return false;
    }
    *to += offset;
    return true;
}

/* The same, a vector of `count` elements of so many bytes each; *to is the first. */
bool exg_et_vector(const exg_et *r, uint64_t table, uint32_t index, uint32_t bytes, uint64_t *to,
                   uint64_t *count)
{
    *count = 0;
    if (!exg_et_table(r, table, index, to)) {
        return false;
    }
    if (*to == 0) {
        return true;
    }
    if (!exg_et_number_at(r, *to, 4, count)) {
        return false;
    }
    *to += 4;
    return exg_range_inside(*to, *count * bytes, r->length);
}

/* ---- tensors -------------------------------------------------------------------------------- */

exg_dtype exg_et_dtype(uint64_t number)
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

exg_status exg_et_skip(exg_et *r, const char *name, const char *kind)
{
    return kind == NULL ? EXG_OUT_OF_MEMORY(r->err)
                        : exg_weights_skip(r->weights, name, kind, r->err);
}

bool exg_et_layout(const exg_et *r, uint64_t layout, uint32_t index, exg_tensor_meta *meta,
                   exg_sym_int *sizes, exg_sym_int *strides)
{
    uint64_t first;
    uint64_t order;
    uint64_t rank;
    uint64_t ordered;
    uint64_t step = 1;
    uint64_t seen = 0;

    if (!exg_et_vector(r, layout, index, 4, &first, &rank) ||
        !exg_et_vector(r, layout, index + 1, 1, &order, &ordered) || rank > EXG_ET_RANK_MAX ||
        (ordered != rank && ordered != 0)) {
        return false;
    }
    for (uint64_t d = 0; d < rank; d++) {
        uint64_t size;

        if (!exg_et_number_at(r, first + 4 * d, 4, &size) || size > INT32_MAX) {
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
