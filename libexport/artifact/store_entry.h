/* store_entry.h - what a store notes of a file (schema/README.md, "Stores"). */
#ifndef EXG_LIBEXPORT_ARTIFACT_STORE_ENTRY_H
#define EXG_LIBEXPORT_ARTIFACT_STORE_ENTRY_H

#include "libexport/artifact/file_hash.h"
#include "libexport/base/arena.h"

#include <exg/text.h>

/* The bytes [offset, offset + length) of an object. */
typedef struct exg_store_piece {
    uint32_t object;
    uint64_t offset, length;
} exg_store_piece;

typedef struct exg_store_object {
    uint8_t sha256[EXG_SHA256_BYTES];
    uint64_t bytes;
} exg_store_object;

typedef struct exg_store_note {
    uint64_t bytes;
    uint8_t sha256[EXG_SHA256_BYTES]; /* of the file */
    exg_store_object *objects;
    exg_store_piece *pieces; /* end to end */
    uint32_t object_count, object_capacity;
    uint32_t piece_count, piece_capacity;
} exg_store_note;

void exg_store_note_write(const exg_store_note *note, exg_text *out);

/* In the arena. MALFORMED (STO-ENTRY) unless the pieces lie in objects and make up the file. */
exg_status exg_store_note_read(const void *text, size_t length, exg_arena *arena,
                               exg_store_note *note, exg_error *err);

#endif
