/* store_export.c - a file put together of its objects. */
#include "libexport/artifact/store.h"
#include "libexport/base/hex.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/weights/message_digest.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PIECE_BYTES (1u << 20) /* at once */

typedef struct exporter {
    exg_store *store;
    exg_store_note note;
    exg_writer *writer;
    exg_message_digest digest;
    exg_store_change change;
    exg_error *err;
} exporter;

/* Whole pages are shared with the object where that is possible. */
static exg_status clone(exporter *e, const exg_store_piece *piece, uint64_t *cloned)
{
    char path[PATH_MAX];
    int object = exg_store_object_path(e->store, e->note.objects[piece->object].sha256, path)
                     ? open(path, O_RDONLY | O_CLOEXEC)
                     : -1;
    exg_status status = EXG_OK;

    *cloned = 0;
    if (object >= 0) {
        status = exg_writer_clone(e->writer, object, piece->offset, piece->length, cloned, e->err);
        close(object);
    }
    e->change.cloned_bytes += *cloned;
    return status;
}

static exg_status write_piece(exporter *e, const exg_mapping *mapping, const exg_store_piece *piece)
{
    const uint64_t end = piece->offset + piece->length;
    uint64_t cloned;

    EXG_TRY(clone(e, piece, &cloned));
    for (uint64_t at = piece->offset; at < end; at += PIECE_BYTES) {
        const uint64_t length = end - at < PIECE_BYTES ? end - at : PIECE_BYTES;
        const uint64_t there = cloned < length ? cloned : length;

        exg_message_digest_add(&e->digest, mapping->data + at, (size_t)length);
        EXG_TRY(exg_writer_write(e->writer, mapping->data + at + there, length - there, e->err));
        exg_mapping_forget(mapping, at, at + length);
        cloned -= there;
    }
    return EXG_OK;
}

static exg_status write_pieces(exporter *e)
{
    const exg_store_note *note = &e->note;
    exg_mapping rest = {0}; /* which many pieces are of */
    char found[EXG_STORE_DIGITS + 1];
    char wanted[EXG_STORE_DIGITS + 1];
    exg_status status = EXG_OK;

    exg_message_digest_begin(&e->digest, EXG_CHECKSUM_SHA256);
    for (uint32_t i = 0; i < note->piece_count && status == EXG_OK; i++) {
        const exg_store_piece *piece = &note->pieces[i];
        exg_mapping own = {0};
        exg_mapping *mapping = piece->object == 0 ? &rest : &own;

        if (mapping->data == NULL) {
            status =
                exg_store_open_object(e->store, &note->objects[piece->object], mapping, e->err);
        }
        status = status == EXG_OK ? write_piece(e, mapping, piece) : status;
        exg_mapping_release(&own);
    }
    exg_mapping_release(&rest);
    exg_message_digest_finish(&e->digest, found);
    EXG_TRY(status);
    exg_hex_put(note->sha256, EXG_SHA256_BYTES, wanted);
    if (strcmp(found, wanted) == 0) {
        return EXG_OK;
    }
    for (uint32_t i = 0; i < note->object_count; i++) { /* which of them? */
        EXG_TRY(exg_store_check_object(e->store, &note->objects[i], e->err));
    }
    return EXG_FAIL(e->err, MALFORMED, "STO-ENTRY", "the objects of the entry make another file");
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

static exg_status export_file(exporter *e, const char *name, const char *path, bool is_linked)
{
    exg_status status;

    EXG_TRY(exg_store_read_note(e->store, name, &e->note, e->err));
    e->change.bytes = e->note.bytes;
    e->change.linked = is_linked && link_whole(e->store, &e->note, path);
    if (e->change.linked) {
        return EXG_OK;
    }
    EXG_TRY(exg_file_check_room(path, e->note.bytes, e->err));
    EXG_TRY(exg_writer_open(path, &e->writer, e->err));
    status = write_pieces(e);
    if (status != EXG_OK) {
        exg_writer_abort(e->writer);
        return status == EXG_MALFORMED ? exg_error_within(e->err, status, "%s:", name) : status;
    }
    return exg_writer_commit(e->writer, e->err);
}

exg_status exg_store_export(exg_store *store, const char *name, const char *path, bool is_linked,
                            exg_store_change *change, exg_error *err)
{
    EXG_REQUIRE(err, store, name, path);
    exporter e = {.store = store, .err = err};

    EXG_TRY(exg_store_check_name(name, err));
    EXG_TRY(exg_store_lock_take(store, EXG_STORE_SHARED, err));
    EXG_TRY(exg_store_lock_give(store, export_file(&e, name, path, is_linked)));
    if (change != NULL) {
        exg_options_write(change, &e.change, sizeof(e.change));
    }
    return EXG_OK;
}
