/* zip.h - the members of a zip archive that lies in memory.
 *
 * Opening believes nothing: the end records, the central directory and every
 * local header are bounded and must agree; members do not overlap and no byte
 * belongs to nobody; names are safe and unique without case (ARC-001, -009, -014,
 * -016). Stored members are used where they lie; deflated ones are inflated into
 * memory of the caller. Member bytes are not touched by opening.
 *
 * Memory: entries and names live in the arena; `data` is borrowed.
 * Form: APPNOTE 6.3; docs/pt2.md 2.1.
 */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_ZIP_H
#define EXG_LIBEXPORT_FORMATS_PT2_ZIP_H

#include "libexport/base/arena.h"
#include "libexport/base/map.h"

#include <exg/status.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct exg_zip_entry {
    const char *name;
    uint64_t header_offset; /* of the local header */
    uint64_t data_offset;
    uint64_t stored_bytes; /* in the file */
    uint64_t bytes;        /* plain */
    uint32_t crc;          /* of the plain bytes */
    uint16_t flags;
    bool deflated;
} exg_zip_entry;

typedef struct exg_zip {
    const uint8_t *data;
    uint64_t length;
    uint64_t base;          /* of `data` in the file, for offsets in errors */
    exg_zip_entry *entries; /* in the order of the central directory; folders left out */
    uint32_t count;
    exg_map by_name;
} exg_zip;

/* Does the archive begin and end like a zip? No check beyond that. */
bool exg_zip_sniff(const uint8_t *data, uint64_t length);

/* Calls visit() with the name of each member, folders left out, while it says true; the
 * rest of the archive may be damaged. false: this is not a zip archive with a whole directory, or
 * visit() said no. Takes no memory. */
bool exg_zip_names(const uint8_t *data, uint64_t length,
                   bool (*visit)(void *user, const char *name, size_t length), void *user);

/* Indexes the archive. MALFORMED (ZIP-*, ARC-*), UNSUPPORTED (ZIP-METHOD, ZIP-CRYPT,
 * ZIP-DISKS), NO_MEMORY. */
exg_status exg_zip_open(const uint8_t *data, uint64_t length, uint64_t base, exg_arena *arena,
                        exg_zip *zip, exg_error *err);

/* The same of an archive whose names are keys, and no paths: any, but none with NUL (ARC-014). They
 * may not be UTF-8. Of several of one name exg_zip_find() finds the last. */
exg_status exg_zip_open_keys(const uint8_t *data, uint64_t length, exg_arena *arena, exg_zip *zip,
                             exg_error *err);

/* ---- of an archive that is not there as a whole ---------------------------------------------- */

/* Where the central directory lies; false: the end records, in the last EXG_ZIP_END_MAX bytes, tell
 * of none. No other byte is touched. */
#define EXG_ZIP_END_MAX (65535u + 22 + 20 + 56)
bool exg_zip_directory(const uint8_t *data, uint64_t length, uint64_t *offset, uint64_t *bytes);

/* The members as the central directory has them, folders too; their headers are not looked at,
 * `data_offset` is 0 and there is no map. As exg_zip_open_keys(). */
exg_status exg_zip_list(const uint8_t *data, uint64_t length, exg_arena *arena, exg_zip *zip,
                        exg_error *err);

#define EXG_ZIP_LOCAL_BYTES 30 /* of a local header, before its name */

/* The bytes of the local header of one of them; 0: there is none. */
uint64_t exg_zip_local_bytes(const exg_zip *zip, const exg_zip_entry *entry);

/* May a member be called so, beside those that were taken before? ARC-014, ARC-009. */
exg_status exg_zip_take_name(exg_map *folded, const char *name, exg_error *err);

/* The entry called `name`, or NULL. */
const exg_zip_entry *exg_zip_find(const exg_zip *zip, const char *name);

/* The plain bytes. Of a stored member: a pointer into the archive and *owned NULL.
 * Of a deflated one: malloc'ed, to be freed through *owned; LIMIT (ZIP-LIMIT) when it takes
 * more than `limit` bytes, MALFORMED (ARC-017) when it does not end properly. */
exg_status exg_zip_read(const exg_zip *zip, const exg_zip_entry *entry, uint64_t limit,
                        const uint8_t **data, void **owned, exg_error *err);

/* The bytes of a member of the archive were changed where they lie: `crc` is theirs from now on, in
 * the entry, the local header, the descriptor and the directory. */
void exg_zip_seal(uint8_t *data, uint64_t length, exg_zip_entry *entry, uint32_t crc);

/* Compares the crc of `data`, the member's plain bytes: ARC-012. */
exg_status exg_zip_check_crc(const exg_zip *zip, const exg_zip_entry *entry, const uint8_t *data,
                             exg_error *err);

#endif
