/* extents.h - which bytes of a file are whose: the stored bytes of its tensors, and what lies
 * between them.
 *
 * A file of no known kind, and one whose tensors cannot be found, is one extent that belongs to
 * nobody. So is what a zip archive compresses. Nothing of a tensor is read.
 */
#ifndef EXG_LIBEXPORT_ARTIFACT_EXTENTS_H
#define EXG_LIBEXPORT_ARTIFACT_EXTENTS_H

#include "libexport/base/arena.h"
#include "libexport/base/files.h"

typedef struct exg_extent {
    const char *name; /* of the first tensor that lies there; NULL: what lies between */
    uint64_t offset, length;
    uint32_t width; /* bytes of an element; 1 where that says nothing */
} exg_extent;

typedef struct exg_extents {
    exg_mapping mapping; /* the file */
    exg_extent *items;   /* end to end, in the order of the file; none is empty */
    uint32_t count, capacity;
    exg_arena *arena;
} exg_extents;

/* IO, NO_MEMORY; exg_extents_free() in any case. */
exg_status exg_extents_read(const char *path, exg_extents *extents, exg_error *err);
void exg_extents_free(exg_extents *extents); /* all zeros are allowed */

#endif
