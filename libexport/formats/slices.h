/* slices.h - what HuggingFaceStorageWriter of torch.distributed.checkpoint saves: safetensors of
 * every rank, each with DCP_SHARDING_INFO in its metadata, which says where in the whole tensors
 * its own begin: {"w": {"saved_offsets": [2, 0]}}. */
#ifndef EXG_LIBEXPORT_FORMATS_SLICES_H
#define EXG_LIBEXPORT_FORMATS_SLICES_H

#include "libexport/formats/format.h"
#include "libexport/formats/json.h"

/* All files of the folder that are called as slices are, put together: `source` is one of them.
 * MALFORMED (DCP-CHUNK, STF-SLICE), IO. */
exg_status exg_slices_read(const exg_source *source, exg_weights *weights, exg_error *err);

/* DCP_SHARDING_INFO of a file that was read alone; NULL: it has none. */
const char *exg_slices_told(const exg_weights *weights);

/* Where a tensor of it begins, `rank` numbers from 0 on: {"saved_offsets": [2, 0]}. MALFORMED
 * (STF-SLICE). */
exg_status exg_slices_begin(exg_json tensor, uint32_t rank, int64_t *from, exg_error *err);

/* By what a file says so, and its name: are its tensors whole? Else UNSUPPORTED (STF-SLICE). */
exg_status exg_slices_check(const char *text, const char *path, exg_error *err);

#endif
