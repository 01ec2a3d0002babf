/* fuzz_store.c - any bytes as what a store notes of a file. */
#include "libexport/artifact/store_entry.h"
#include "libexport/base/checked.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_store_note note;
    exg_error err;
    uint64_t sum = 0;

    exg_error_clear(&err);
    if (arena == NULL) {
        return 0;
    }
    if (exg_store_note_read(data, size, arena, &note, &err) != EXG_OK) {
        if (err.code[0] == '\0') {
            abort();
        }
    } else {
        for (uint32_t i = 0; i < note.piece_count; i++) {
            const exg_store_piece *piece = &note.pieces[i];

            if (piece->object >= note.object_count ||
                !exg_range_inside(piece->offset, piece->length,
                                  note.objects[piece->object].bytes)) {
                abort();
            }
            sum += piece->length;
        }
        if (sum != note.bytes) {
            abort();
        }
    }
    exg_arena_destroy(arena);
    return 0;
}
