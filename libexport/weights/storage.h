/* storage.h - what the files of this room and the formats share about storages. */
#ifndef EXG_LIBEXPORT_WEIGHTS_STORAGE_H
#define EXG_LIBEXPORT_WEIGHTS_STORAGE_H

#include "libexport/base/files.h"

#include <exg/weights.h>

static inline exg_byte_order exg_host_byte_order(void)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? EXG_LITTLE_ENDIAN : EXG_BIG_ENDIAN;
}

/* The plain bytes where they lie, in the byte order of the storage; NULL with OK when
 * they do not lie in memory as they are (frames). */
exg_status exg_storage_plain_bytes(exg_weights *weights, uint32_t storage, const uint8_t **data,
                                   exg_error *err);

/* The mapping goes to the weights, whose storages point into it; *mapping is empty
 * afterwards, on failure it stays with the caller. */
exg_status exg_weights_own_mapping(exg_weights *weights, exg_mapping *mapping, exg_error *err);

#endif
