/* dense_tensor.c - a dense tensor of a file as a storage and a weight. */
#include "libexport/formats/dense_tensor.h"

#include "libexport/base/arena.h"
#include "libexport/base/checked.h"

#include <exg/text.h>
#include <inttypes.h>
#include <string.h>

#define RANK_MAX 64

bool exg_shape_bytes(const int64_t *shape, uint32_t rank, exg_dtype dtype, uint64_t *bytes)
{
    uint64_t product = 1;

    for (uint32_t d = 0; d < rank; d++) {
        if (shape[d] < 0 || !exg_mul_u64(product, (uint64_t)shape[d], &product)) {
            return false;
        }
    }
    return exg_mul_u64(product, exg_dtype_bytes(dtype), bytes) && *bytes <= INT64_MAX;
}

/* Strides of a dense tensor; of an empty one the sizes 0 count as 1. */
static void fill_dimensions(const exg_dense *dense, exg_sym_int *sizes, exg_sym_int *strides)
{
    uint64_t step = 1;

    for (uint32_t i = 0; i < dense->rank; i++) {
        uint32_t d = dense->column_major ? i : dense->rank - 1 - i;
        uint64_t size = (uint64_t)dense->shape[d];

        sizes[d] = exg_sym_int_of(dense->shape[d]);
        strides[d] = exg_sym_int_of((int64_t)step);
        if (dense->bytes > 0 || size <= UINT32_MAX) {
            step = (step * (size == 0 ? 1 : size)) & INT64_MAX;
        }
    }
}

exg_status exg_dense_pack(exg_dense *dense, int64_t *shape, const char *name, uint32_t bits,
                          exg_arena *arena, exg_error *err)
{
    uint32_t last = dense->rank - 1;
    exg_text text = EXG_TEXT_EMPTY;

    dense->dtype = EXG_DTYPE_U8;
    dense->encoding = name;
    if (dense->rank > 0 && shape[last] <= INT64_MAX / 8 && (uint64_t)shape[last] * bits % 8 == 0) {
        shape[last] = (int64_t)((uint64_t)shape[last] * bits / 8);
        return EXG_OK;
    }
    exg_text_printf(&text, "%s[", name);
    for (uint32_t d = 0; d < dense->rank; d++) {
        exg_text_printf(&text, "%s%" PRId64, d == 0 ? "" : ", ", shape[d]);
    }
    exg_text_puts(&text, "]");
    dense->encoding = text.failed ? NULL : exg_arena_strdup(arena, exg_text_string(&text));
    exg_text_free(&text);
    dense->rank = 1;
    shape[0] = (int64_t)dense->bytes;
    return dense->encoding == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

exg_status exg_weights_add_dense(exg_weights *weights, const exg_dense *dense, exg_error *err)
{
    exg_sym_int sizes[RANK_MAX];
    exg_sym_int strides[RANK_MAX];
    bool is_beside = dense->location != NULL;
    exg_storage storage = {.kind = is_beside ? EXG_STORAGE_EXTERNAL : EXG_STORAGE_MEMORY,
                           .byte_order = dense->byte_order,
                           .length = dense->bytes,
                           .data = dense->data,
                           .location = dense->location,
                           .offset = dense->offset,
                           .checksum = dense->checksum};
    exg_tensor_meta meta = {.dtype = dense->dtype,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = dense->rank,
                            .sizes = sizes,
                            .strides = strides,
                            .device = {"cpu", -1}};
    exg_weight weight = {.fqn = dense->name, .meta = &meta, .encoding = dense->encoding};

    if (dense->rank > RANK_MAX) {
        return EXG_FAIL(err, LIMIT, "WGT-011", "%u dimensions, at most %d are supported",
                        dense->rank, RANK_MAX);
    }
    fill_dimensions(dense, sizes, strides);
    EXG_TRY(exg_weights_add_storage(weights, &storage, &weight.storage, err));
    return exg_weights_add(weights, &weight, err);
}
