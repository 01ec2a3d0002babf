/* made_storage.h - storages whose bytes are made of others when they are read. */
#ifndef EXG_LIBEXPORT_WEIGHTS_MADE_STORAGE_H
#define EXG_LIBEXPORT_WEIGHTS_MADE_STORAGE_H

#include "libexport/weights/block.h"

#include <exg/weights.h>

/* What elements become: of a dtype, or in blocks. */
typedef struct exg_element_type {
    exg_dtype dtype;        /* of blocks U8 */
    const exg_block *block; /* NULL: plain elements */
} exg_element_type;

/* Makes `count` elements from the element `first` on. */
typedef exg_status exg_read_elements_fn(void *user, uint64_t first, uint64_t count, void *out,
                                        exg_error *err);

/* The bytes [offset, offset + length) by whole elements of `width` bytes, since a part of one
 * cannot be made. */
exg_status exg_read_whole_elements(uint32_t width, uint64_t offset, uint64_t length, void *out,
                                   exg_read_elements_fn *read, void *user, exg_error *err);

/* A storage of the elements of `weight` (of `of`, which stays as long as `made`), packed, as
 * elements of `to` (cast.h), or rows of its blocks, of which they are whole. An encoding of the
 * weight is one that exg_block_named() knows. `name` says which, as exg_storage_maker has it;
 * copied. LIMIT; reading it: UNSUPPORTED (WGT-BLOCK). */
exg_status exg_weights_add_cast(exg_weights *made, exg_weights *of, const exg_weight *weight,
                                exg_element_type to, const char *name, uint32_t *storage,
                                exg_error *err);

/* What blocks that have groups (block_groups.def) hold, taken apart. */
typedef enum exg_block_part {
    EXG_BLOCK_NUMBERS, /* I8, or U8 of two a byte where they are packed */
    EXG_BLOCK_SCALES,
    EXG_BLOCK_OFFSETS,
    EXG_BLOCK_PARTS
} exg_block_part;

/* A storage of a part of the blocks of `weight` (of `of`, which stays as long as `made`), whose
 * encoding has groups. LIMIT. */
exg_status exg_weights_add_block_part(exg_weights *made, exg_weights *of, const exg_weight *weight,
                                      exg_block_part part, uint32_t *storage, exg_error *err);

/* A storage of the elements of several weights of `made`, one after the other, which have one
 * dtype. `parts` and their metas stay as long as `made`. LIMIT. */
exg_status exg_weights_add_joined(exg_weights *made, const exg_weight *parts, uint32_t count,
                                  uint32_t *storage, exg_error *err);

#endif
