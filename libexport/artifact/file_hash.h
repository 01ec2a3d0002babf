/* file_hash.h - the SHA-256 of files. */
#ifndef EXG_LIBEXPORT_ARTIFACT_FILE_HASH_H
#define EXG_LIBEXPORT_ARTIFACT_FILE_HASH_H

#include "libexport/base/files.h"

#define EXG_SHA256_BYTES 32

/* Of the bytes [first, end) of what is mapped; their pages are given back behind it. */
void exg_mapping_hash(const exg_mapping *mapping, uint64_t first, uint64_t end,
                      uint8_t digest[EXG_SHA256_BYTES]);

#endif
