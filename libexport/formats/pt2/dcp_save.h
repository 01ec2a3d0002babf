/* dcp_save.h - what torch.distributed.checkpoint saves: a file of chunks for every rank, and
 * .metadata, which says where they are. */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_DCP_SAVE_H
#define EXG_LIBEXPORT_FORMATS_PT2_DCP_SAVE_H

#include "libexport/formats/weights_save.h"

/* A file "__RANK_NUMBER.distcp" of chunks, one a tensor of `weights`: where each begins in its
 * whole is in their metadata (exg_weights_slice); without a word they are whole. */
extern const exg_weights_sink exg_dcp_sink;

#define EXG_DCP_METADATA ".metadata"

/* NULL: out of memory. */
const char *exg_dcp_file_name(const exg_rank_file *file, exg_arena *arena);

/* .metadata at `path`, of files that were written, or will be: what is in them follows from names,
 * dtypes and shapes. USAGE (DCP-CHUNK): chunks that do not go together. IO. */
exg_status exg_dcp_metadata_save(const exg_rank_file *files, uint32_t count, const char *path,
                                 exg_error *err);

#endif
