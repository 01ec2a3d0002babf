/* made_storage.h - storages whose bytes are made of others when they are read. */
#ifndef EXG_LIBEXPORT_WEIGHTS_MADE_STORAGE_H
#define EXG_LIBEXPORT_WEIGHTS_MADE_STORAGE_H

#include <exg/weights.h>

/* Makes `count` elements from the element `first` on. */
typedef exg_status exg_read_elements_fn(void *user, uint64_t first, uint64_t count, void *out,
                                        exg_error *err);

/* The bytes [offset, offset + length) by whole elements of `width` bytes, since a part of one
 * cannot be made. */
exg_status exg_read_whole_elements(uint32_t width, uint64_t offset, uint64_t length, void *out,
                                   exg_read_elements_fn *read, void *user, exg_error *err);

/* A storage of the elements of `weight` (of `of`, which stays as long as `made`), packed, as
 * elements of `to` (cast.h). `name` says which, as exg_storage_maker has it; copied. LIMIT. */
exg_status exg_weights_add_cast(exg_weights *made, exg_weights *of, const exg_weight *weight,
                                exg_dtype to, const char *name, uint32_t *storage, exg_error *err);

/* The same of a weight whose encoding exg_block_decoder_named() knows: its rows are whole blocks.
 */
exg_status exg_weights_add_decoded(exg_weights *made, exg_weights *of, const exg_weight *weight,
                                   exg_dtype to, const char *name, uint32_t *storage,
                                   exg_error *err);

#endif
