/* packed.h - what zstd compressed, as a file without a name. */
#ifndef EXG_LIBEXPORT_FORMATS_PACKED_H
#define EXG_LIBEXPORT_FORMATS_PACKED_H

#include "libexport/base/files.h"

/* All frames of `data`, `limit` bytes at most. MALFORMED (PCK-DAMAGED), LIMIT (SPL-LIMIT,
 * PCK-WINDOW), IO. */
exg_status exg_unpack_zstd(const uint8_t *data, uint64_t length, uint64_t limit,
                           exg_mapping *mapping, exg_error *err);

#endif
