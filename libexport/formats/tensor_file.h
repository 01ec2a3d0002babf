/* tensor_file.h - what the readers of named tensors share. */
#ifndef EXG_LIBEXPORT_FORMATS_TENSOR_FILE_H
#define EXG_LIBEXPORT_FORMATS_TENSOR_FILE_H

#include "libexport/base/arena.h"
#include "libexport/base/files.h"

#include <exg/formats.h>
#include <stdbool.h>

struct exg_tensor_file_private {
    exg_arena *arena; /* owns the file's structs */
    exg_mapping mapping;
};

/* Fill `file` (empty, with its arena) from `length` bytes that stay. */
exg_status exg_safetensors_read(const uint8_t *data, uint64_t length, exg_tensor_file *file,
                                exg_error *err);
exg_status exg_npy_read(const uint8_t *data, uint64_t length, exg_tensor_file *file,
                        exg_error *err);

bool exg_npy_sniff(const uint8_t *data, uint64_t length);

/* Product of a shape and the element size; false when it passes 63 bits. */
bool exg_shape_bytes(const int64_t *shape, uint32_t rank, exg_dtype dtype, uint64_t *bytes);

/* `data`, or a copy when it lies where an element may not; NULL without memory. */
const void *exg_tensor_aligned(exg_arena *arena, const uint8_t *data, uint64_t bytes,
                               exg_dtype dtype);

#endif
