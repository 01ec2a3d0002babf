/* store_add.c - a file cut into objects, of which those that are new are written. */
#include "libexport/artifact/extents.h"
#include "libexport/artifact/store.h"
#include "libexport/base/hex.h"
#include "libexport/base/options.h"
#include "libexport/base/pool.h"
#include "libexport/base/require.h"
#include "libexport/weights/message_digest.h"

#include <exg/formats.h>
#include <string.h>
#include <sys/stat.h>

#define LEAST       4096u      /* bytes of a tensor that is an object of its own */
#define PIECE_BYTES (1u << 20) /* at once */

/* What one object is made of: ranges of the file. */
typedef struct recipe {
    const exg_extent **parts;
    uint32_t count;
} recipe;

typedef struct adder {
    exg_store *store;
    exg_extents extents;
    exg_store_note note;
    recipe *recipes; /* an object each */
    exg_store_change change;
    exg_error *err;
} adder;

/* A tensor of some size is an object; all else of the file is one together. */
static bool stands_alone(const exg_extent *extent)
{
    return extent->name != NULL && extent->length >= LEAST;
}

static exg_status cut_file(adder *a)
{
    exg_arena *arena = a->store->arena;
    const uint32_t count = a->extents.count;
    exg_store_note *note = &a->note;
    recipe *rest;

    note->bytes = a->extents.mapping.length;
    note->objects = EXG_NEW_ARRAY(arena, exg_store_object, count + 1);
    note->pieces = EXG_NEW_ARRAY(arena, exg_store_piece, count + 1);
    a->recipes = EXG_NEW_ARRAY(arena, recipe, count + 1);
    rest = a->recipes;
    if (note->objects == NULL || note->pieces == NULL || a->recipes == NULL) {
        return EXG_OUT_OF_MEMORY(a->err);
    }
    *rest = (recipe){EXG_NEW_ARRAY(arena, const exg_extent *, count + 1), 0};
    note->objects[note->object_count++].bytes = 0;
    for (uint32_t i = 0; i < count && rest->parts != NULL; i++) {
        const exg_extent *extent = &a->extents.items[i];
        exg_store_piece piece = {0, note->objects[0].bytes, extent->length};

        if (stands_alone(extent)) {
            const exg_extent **part = EXG_NEW(arena, const exg_extent *);

            if (part == NULL) {
                return EXG_OUT_OF_MEMORY(a->err);
            }
            *part = extent;
            piece = (exg_store_piece){note->object_count, 0, extent->length};
            a->recipes[note->object_count] = (recipe){part, 1};
            note->objects[note->object_count++].bytes = extent->length;
        } else {
            rest->parts[rest->count++] = extent;
            note->objects[0].bytes += extent->length;
        }
        note->pieces[note->piece_count++] = piece;
    }
    return rest->parts == NULL ? EXG_OUT_OF_MEMORY(a->err) : EXG_OK;
}

/* The last one is the whole file. */
static void hash_object(void *context, uint32_t index)
{
    adder *a = context;
    const exg_mapping *mapping = &a->extents.mapping;
    exg_message_digest digest;
    char text[EXG_STORE_DIGITS + 1];

    if (index == a->note.object_count) {
        exg_mapping_hash(mapping, 0, mapping->length, a->note.sha256);
        return;
    }
    exg_message_digest_begin(&digest, EXG_CHECKSUM_SHA256);
    for (uint32_t p = 0; p < a->recipes[index].count; p++) {
        const exg_extent *part = a->recipes[index].parts[p];

        exg_message_digest_add(&digest, mapping->data + part->offset, (size_t)part->length);
        exg_mapping_forget(mapping, part->offset, part->offset + part->length);
    }
    exg_message_digest_finish(&digest, text);
    (void)exg_hex_get(text, a->note.objects[index].sha256, EXG_SHA256_BYTES);
}

static exg_status write_parts(adder *a, const recipe *of, exg_writer *writer)
{
    const exg_mapping *mapping = &a->extents.mapping;

    for (uint32_t p = 0; p < of->count; p++) {
        const uint64_t end = of->parts[p]->offset + of->parts[p]->length;

        for (uint64_t at = of->parts[p]->offset; at < end; at += PIECE_BYTES) {
            const uint64_t length = end - at < PIECE_BYTES ? end - at : PIECE_BYTES;

            EXG_TRY(exg_writer_write(writer, mapping->data + at, length, a->err));
            exg_mapping_forget(mapping, at, at + length);
        }
    }
    return EXG_OK;
}

/* Is it there already, as it is? One that was damaged is written again. */
static bool is_there(const adder *a, uint32_t index)
{
    const exg_mapping *file = &a->extents.mapping;
    const recipe *of = &a->recipes[index];
    exg_mapping mapping;
    uint64_t at = 0;
    bool same = true;

    if (exg_store_open_object(a->store, &a->note.objects[index], &mapping, NULL) != EXG_OK) {
        return false;
    }
    for (uint32_t p = 0; p < of->count && same; p++) {
        const exg_extent *part = of->parts[p];

        for (uint64_t i = 0; i < part->length && same; i += PIECE_BYTES) {
            const uint64_t length = part->length - i < PIECE_BYTES ? part->length - i : PIECE_BYTES;

            same = memcmp(mapping.data + at, file->data + part->offset + i, (size_t)length) == 0;
            exg_mapping_forget(&mapping, at, at + length);
            exg_mapping_forget(file, part->offset + i, part->offset + i + length);
            at += length;
        }
    }
    exg_mapping_release(&mapping);
    return same;
}

static exg_status write_object(adder *a, uint32_t index)
{
    const exg_store_object *object = &a->note.objects[index];
    exg_writer *writer = NULL;
    char path[PATH_MAX];
    exg_status status;

    if (!exg_store_object_path(a->store, object->sha256, path)) {
        return EXG_FAIL(a->err, USAGE, "STO-NAME", "the path of the store is too long");
    }
    if (is_there(a, index)) {
        return EXG_OK;
    }
    EXG_TRY(exg_store_make_folders(a->store, path, a->err));
    EXG_TRY(exg_writer_open(path, &writer, a->err));
    status = write_parts(a, &a->recipes[index], writer);
    if (status != EXG_OK) {
        exg_writer_abort(writer);
        return status;
    }
    EXG_TRY(exg_writer_commit(writer, a->err));
    (void)chmod(path, 0444); /* other files may be links to it */
    a->change.objects++;
    a->change.object_bytes += object->bytes;
    return EXG_OK;
}

static exg_status write_note(adder *a, const char *name)
{
    char *path = exg_store_note_path(a->store, name);
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status =
        path == NULL ? EXG_OUT_OF_MEMORY(a->err) : exg_store_make_folders(a->store, path, a->err);

    exg_store_note_write(&a->note, &text);
    status =
        status == EXG_OK && exg_text_string(&text) == NULL ? EXG_OUT_OF_MEMORY(a->err) : status;
    status = status == EXG_OK ? exg_file_write(path, text.data, text.length, a->err) : status;
    exg_text_free(&text);
    return status;
}

/* A name that is taken is so by the same bytes. */
static exg_status check_taken(adder *a, const char *name)
{
    exg_store_note there;
    const char *path = exg_store_note_path(a->store, name);
    struct stat st;

    if (path == NULL) {
        return EXG_OUT_OF_MEMORY(a->err);
    }
    if (lstat(path, &st) != 0) {
        return EXG_OK;
    }
    EXG_TRY(exg_store_read_note(a->store, name, &there, a->err));
    return memcmp(there.sha256, a->note.sha256, sizeof(there.sha256)) == 0
               ? EXG_OK
               : EXG_FAIL(a->err, USAGE, "STO-NAME", "another file is kept as '%s'", name);
}

static exg_status add_file(adder *a, const char *name, const char *path, uint32_t threads)
{
    exg_pool *pool = NULL;

    EXG_TRY(exg_extents_read(path, &a->extents, a->err));
    EXG_TRY(cut_file(a));
    EXG_TRY(exg_pool_create(threads, &pool, a->err));
    exg_pool_run(pool, hash_object, a, a->note.object_count + 1);
    exg_pool_destroy(pool);
    EXG_TRY(exg_mapping_check(&a->extents.mapping, path, a->err));
    EXG_TRY(check_taken(a, name));
    for (uint32_t i = 0; i < a->note.object_count; i++) {
        EXG_TRY(write_object(a, i));
    }
    EXG_TRY(exg_mapping_check(&a->extents.mapping, path, a->err)); /* as it was hashed */
    a->change.bytes = a->note.bytes;
    return write_note(a, name);
}

exg_status exg_store_add(exg_store *store, const char *name, const char *path, uint32_t threads,
                         exg_store_change *change, exg_error *err)
{
    EXG_REQUIRE(err, store, name, path);
    adder a = {.store = store, .err = err};
    exg_status status;

    EXG_TRY(exg_store_check_name(name, err));
    EXG_TRY(exg_store_lock_take(store, EXG_STORE_SHARED, err));
    status = exg_store_lock_give(store, add_file(&a, name, path, threads));
    exg_extents_free(&a.extents);
    if (status == EXG_OK && change != NULL) {
        exg_options_write(change, &a.change, sizeof(a.change));
    }
    return status;
}
