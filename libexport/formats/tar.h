/* tar.h - the members of a tar archive that lies in memory, as they come: of the first form, ustar,
 * GNU's long names and pax. */
#ifndef EXG_LIBEXPORT_FORMATS_TAR_H
#define EXG_LIBEXPORT_FORMATS_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct exg_tar_member {
    const char *name; /* not NUL-terminated; without ustar's prefix, which is of folders */
    size_t name_length;
    bool is_file;
    uint64_t offset, bytes; /* of its data, which is inside */
} exg_tar_member;

/* Is there a header whose sum is right at the beginning? */
bool exg_tar_sniff(const uint8_t *data, uint64_t length);

/* The member at *at (0: the first), and on; false: the archive ends, or is cut short. */
bool exg_tar_next(const uint8_t *data, uint64_t length, uint64_t *at, exg_tar_member *member);

#endif
