/* spool.h - bytes that come one after the other, kept until they are read: in a file without a
 * name, in the folder that TMPDIR says, or /tmp.
 *
 * Threads: one at a time.
 */
#ifndef EXG_LIBEXPORT_BASE_SPOOL_H
#define EXG_LIBEXPORT_BASE_SPOOL_H

#include "libexport/base/files.h"

typedef struct exg_spool {
    int descriptor;
    uint64_t bytes, limit;
} exg_spool;

/* Room for `limit` bytes. IO. */
exg_status exg_spool_open(exg_spool *spool, uint64_t limit, exg_error *err);

/* Appends. LIMIT (SPL-LIMIT), IO. */
exg_status exg_spool_write(exg_spool *spool, const void *bytes, size_t length, exg_error *err);

/* All of it, mapped; closes the spool whatever comes of it. */
exg_status exg_spool_map(exg_spool *spool, exg_mapping *mapping, exg_error *err);

void exg_spool_close(exg_spool *spool);

#endif
