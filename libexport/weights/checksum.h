/* checksum.h - the checksums a storage may carry, fed piece by piece. */
#ifndef EXG_LIBEXPORT_WEIGHTS_CHECKSUM_H
#define EXG_LIBEXPORT_WEIGHTS_CHECKSUM_H

#include <exg/weights.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest text: 64 hex digits and the NUL. */
#define EXG_CHECKSUM_TEXT_MAX 65

typedef struct exg_hasher exg_hasher;

/* NULL without memory, and for NONE and UNKNOWN. */
exg_hasher *exg_hasher_create(exg_checksum_kind kind);
void exg_hasher_add(exg_hasher *hasher, const void *data, size_t length);

/* The digits, lower case, into `text` (EXG_CHECKSUM_TEXT_MAX); frees the hasher. */
void exg_hasher_finish(exg_hasher *hasher, char *text);

/* Is there anything to compare with? */
bool exg_checksum_is_known(const exg_checksum *checksum);

/* What was `found` of all the bytes, with what the file says: MALFORMED (ARC-012). */
exg_status exg_checksum_compare(const exg_checksum *checksum, const char *found, exg_error *err);

/* All the checksums of a storage at once, but those of the kind `but`, which the caller compares
 * (exg_storage_compare); NONE: of all. Nothing but zeros compares nothing. */
typedef struct exg_checks {
    exg_hasher **hashers; /* of `checksum` and of each of `further`, or NULL */
    uint32_t count;
} exg_checks;

exg_status exg_checks_begin(exg_checks *checks, const exg_storage *storage, exg_checksum_kind but,
                            exg_error *err);
void exg_checks_add(exg_checks *checks, const void *data, size_t length);

/* MALFORMED (ARC-012). Frees it; where `status` is a fault already, nothing is compared. */
exg_status exg_checks_end(exg_checks *checks, const exg_storage *storage, exg_status status,
                          exg_error *err);

/* What was `found` with every checksum of that kind. MALFORMED (ARC-012). */
exg_status exg_storage_compare(const exg_storage *storage, exg_checksum_kind kind,
                               const char *found, exg_error *err);

/* The first text of an unknown kind: it can only be kept, where others are compared, and one of
 * ours
 * takes their place. NULL: there is none. */
const char *exg_storage_unknown_checksum(const exg_storage *storage);

/* The CRC-32 of the last `length` bytes of something, of which that of all is known and that
 * of the bytes before them. */
uint32_t exg_crc32_of_rest(uint32_t all, uint32_t head, uint64_t length);

#endif
