/* store_export.c - a file put together of its objects. */
#include "libexport/artifact/store.h"
#include "libexport/base/hex.h"
#include "libexport/base/require.h"
#include "libexport/weights/message_digest.h"

#include <string.h>
#include <unistd.h>

#define PIECE_BYTES (1u << 20) /* at once */

static exg_status write_piece(exg_writer *writer, exg_message_digest *digest,
                              const exg_mapping *mapping, const exg_store_piece *piece,
                              exg_error *err)
{
    const uint64_t end = piece->offset + piece->length;

    for (uint64_t at = piece->offset; at < end; at += PIECE_BYTES) {
        const uint64_t length = end - at < PIECE_BYTES ? end - at : PIECE_BYTES;

        exg_message_digest_add(digest, mapping->data + at, (size_t)length);
        EXG_TRY(exg_writer_write(writer, mapping->data + at, length, err));
        exg_mapping_forget(mapping, at, at + length);
    }
    return EXG_OK;
}

static exg_status write_pieces(exg_store *store, const exg_store_note *note, exg_writer *writer,
                               exg_error *err)
{
    exg_mapping rest = {0}; /* which many pieces are of */
    exg_message_digest digest;
    char found[EXG_STORE_DIGITS + 1];
    char wanted[EXG_STORE_DIGITS + 1];
    exg_status status = EXG_OK;

    exg_message_digest_begin(&digest, EXG_CHECKSUM_SHA256);
    for (uint32_t i = 0; i < note->piece_count && status == EXG_OK; i++) {
        const exg_store_piece *piece = &note->pieces[i];
        exg_mapping own = {0};
        exg_mapping *mapping = piece->object == 0 ? &rest : &own;

        if (mapping->data == NULL) {
            status = exg_store_open_object(store, &note->objects[piece->object], mapping, err);
        }
        status = status == EXG_OK ? write_piece(writer, &digest, mapping, piece, err) : status;
        exg_mapping_release(&own);
    }
    exg_mapping_release(&rest);
    exg_message_digest_finish(&digest, found);
    EXG_TRY(status);
    exg_hex_put(note->sha256, EXG_SHA256_BYTES, wanted);
    if (strcmp(found, wanted) == 0) {
        return EXG_OK;
    }
    for (uint32_t i = 0; i < note->object_count; i++) { /* which of them? */
        EXG_TRY(exg_store_check_object(store, &note->objects[i], err));
    }
    return EXG_FAIL(err, MALFORMED, "STO-ENTRY", "the objects of the entry make another file");
}

/* Is the whole file one object, which could be linked to? */
static bool link_whole(exg_store *store, const exg_store_note *note, const char *path)
{
    const exg_store_object *object =
        note->piece_count == 1 ? &note->objects[note->pieces[0].object] : NULL;
    char from[PATH_MAX];

    return object != NULL && object->bytes == note->bytes &&
           exg_store_object_path(store, object->sha256, from) &&
           memcmp(object->sha256, note->sha256, sizeof(note->sha256)) == 0 &&
           exg_store_check_object(store, object, NULL) == EXG_OK && link(from, path) == 0;
}

static exg_status export_file(exg_store *store, const char *name, const char *path, bool is_linked,
                              exg_error *err)
{
    exg_writer *writer = NULL;
    exg_store_note note;
    exg_status status;

    EXG_TRY(exg_store_read_note(store, name, &note, err));
    if (is_linked && link_whole(store, &note, path)) {
        return EXG_OK;
    }
    EXG_TRY(exg_file_check_room(path, note.bytes, err));
    EXG_TRY(exg_writer_open(path, &writer, err));
    status = write_pieces(store, &note, writer, err);
    if (status != EXG_OK) {
        exg_writer_abort(writer);
        return status == EXG_MALFORMED ? exg_error_within(err, status, "%s:", name) : status;
    }
    return exg_writer_commit(writer, err);
}

exg_status exg_store_export(exg_store *store, const char *name, const char *path, bool is_linked,
                            exg_error *err)
{
    EXG_REQUIRE(err, store, name, path);

    EXG_TRY(exg_store_check_name(name, err));
    EXG_TRY(exg_store_lock_take(store, EXG_STORE_SHARED, err));
    return exg_store_lock_give(store, export_file(store, name, path, is_linked, err));
}
