/* zip_writer.h - a zip archive written member by member, as torch lays it out.
 *
 * Members are stored, their bytes begin at multiples of 64, checksums are right, and the
 * archive ends with zip64 records. Times and modes are zero: equal members, equal bytes.
 * Checksums are put into the headers at the end, so that what is appended is known beforehand.
 * Memory: one buffer for the directory, and the names. Threads: one at a time.
 * Form: APPNOTE 6.3; docs/pt2.md 2.1.
 */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_ZIP_WRITER_H
#define EXG_LIBEXPORT_FORMATS_PT2_ZIP_WRITER_H

#include "libexport/base/arena.h"
#include "libexport/base/files.h"
#include "libexport/base/map.h"

#include <exg/status.h>
#include <exg/text.h>

typedef struct exg_zip_writer {
    exg_writer *file;    /* borrowed; NULL: what would be written is counted */
    uint64_t at;         /* bytes of the archive so far; it begins where the file was then */
    const char *root;    /* "m/": stands before every name; borrowed */
    exg_arena *arena;    /* of names; borrowed */
    exg_map names;       /* taken, by the reader's rules */
    bool takes_any_name; /* names are keys, no paths: of NumPy's archives */
    exg_text directory;
    exg_text patches; /* u64 where, u32 what: checksums of local headers */
    uint64_t count;
    uint64_t header;       /* of the member at hand */
    uint64_t data, length; /* where its bytes begin, how many there will be */
    uint32_t crc;
} exg_zip_writer;

/* A member of exactly `length` bytes begins; they come by exg_zip_write(). */
exg_status exg_zip_begin(exg_zip_writer *zip, const char *name, uint64_t length, exg_error *err);
exg_status exg_zip_write(exg_zip_writer *zip, const void *data, uint64_t length, exg_error *err);
/* Without a file: so many bytes more. */
void exg_zip_count(exg_zip_writer *zip, uint64_t length);
exg_status exg_zip_end(exg_zip_writer *zip, const char *name, exg_error *err);

/* The three in one. */
exg_status exg_zip_put(exg_zip_writer *zip, const char *name, const void *data, uint64_t length,
                       exg_error *err);

/* The directory and the end records. */
exg_status exg_zip_finish(exg_zip_writer *zip, exg_error *err);
void exg_zip_writer_free(exg_zip_writer *zip); /* not the file */

#endif
