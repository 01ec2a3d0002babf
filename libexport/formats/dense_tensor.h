/* dense_tensor.h - what a reader of named tensors makes of each: a storage and a weight. */
#ifndef EXG_LIBEXPORT_FORMATS_DENSE_TENSOR_H
#define EXG_LIBEXPORT_FORMATS_DENSE_TENSOR_H

#include <exg/weights.h>
#include <stdbool.h>

/* A dense tensor with bytes of its own. */
typedef struct exg_dense {
    const char *name;
    exg_dtype dtype;
    uint32_t rank;
    const int64_t *shape;
    bool column_major;
    exg_byte_order byte_order;
    const uint8_t *data;
    uint64_t bytes;
    const char *encoding; /* of raw bytes, or NULL */
    exg_checksum checksum;
    const char *location; /* of a file beside, where the bytes begin at `offset`; NULL: `data` */
    uint64_t offset;
} exg_dense;

/* Makes raw bytes (U8) of elements that take fewer than 8 bits and lie packed, across rows: the
 * last size counts bytes, where rows are whole bytes; else there is one size, and the encoding
 * tells the shape: "F4[3, 2]". `shape` has room for a size more and is what `dense->shape` is. */
exg_status exg_dense_pack(exg_dense *dense, int64_t *shape, const char *name, uint32_t bits,
                          exg_arena *arena, exg_error *err);

/* Appends a storage of these bytes and the weight that is its tensor. */
exg_status exg_weights_add_dense(exg_weights *weights, const exg_dense *dense, exg_error *err);

/* Product of a shape, size by size, and the element size; false when it passes 63 bits, also
 * where a 0 that follows would have made it 0: other readers multiply in the same order. */
bool exg_shape_bytes(const int64_t *shape, uint32_t rank, exg_dtype dtype, uint64_t *bytes);

#endif
