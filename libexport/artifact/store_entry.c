/* store_entry.c - a note of a store as JSON, and back. */
#include "libexport/artifact/store_entry.h"

#include "libexport/base/checked.h"
#include "libexport/base/hex.h"
#include "libexport/formats/json.h"

#include <exg/json_writer.h>
#include <string.h>

#define FORMAT 1

static void put_hash(exg_text *out, const uint8_t *sha256)
{
    char digits[2 * EXG_SHA256_BYTES + 1];

    exg_hex_put(sha256, EXG_SHA256_BYTES, digits);
    exg_json_put_text(out, digits);
}

void exg_store_note_write(const exg_store_note *note, exg_text *out)
{
    exg_json_put_open(out, '{');
    exg_json_member_int(out, "format", FORMAT);
    exg_json_member_uint(out, "bytes", note->bytes);
    exg_json_put_key(out, "sha256");
    put_hash(out, note->sha256);
    exg_json_member_open(out, "objects", '[');
    for (uint32_t i = 0; i < note->object_count; i++) {
        exg_json_put_open(out, '[');
        put_hash(out, note->objects[i].sha256);
        exg_json_put_uint(out, note->objects[i].bytes);
        exg_json_put_close(out, ']');
    }
    exg_json_put_close(out, ']');
    exg_json_member_open(out, "pieces", '[');
    for (uint32_t i = 0; i < note->piece_count; i++) {
        exg_json_put_open(out, '[');
        exg_json_put_uint(out, note->pieces[i].object);
        exg_json_put_uint(out, note->pieces[i].offset);
        exg_json_put_uint(out, note->pieces[i].length);
        exg_json_put_close(out, ']');
    }
    exg_json_put_close(out, ']');
    exg_json_put_close(out, '}');
    exg_text_putc(out, '\n');
}

static exg_status damaged(exg_error *err)
{
    return EXG_FAIL(err, MALFORMED, "STO-ENTRY", "the entry of the file is damaged");
}

static bool get_number(exg_json value, uint64_t *number)
{
    int64_t got = -1;

    if (exg_json_int(value, &got, NULL) != EXG_OK || got < 0) {
        return false;
    }
    *number = (uint64_t)got;
    return true;
}

static bool get_hash(exg_json value, uint8_t *sha256)
{
    const char *text;

    return exg_json_string(value, &text, NULL, NULL) == EXG_OK &&
           exg_hex_get(text, sha256, EXG_SHA256_BYTES);
}

static bool read_object(exg_json value, exg_store_object *object)
{
    exg_json_walk walk;
    exg_json item;

    return exg_json_array(value, &walk, NULL) == EXG_OK && exg_json_next(&walk, &item) &&
           get_hash(item, object->sha256) && exg_json_next(&walk, &item) &&
           get_number(item, &object->bytes) && !exg_json_next(&walk, &item);
}

static bool read_piece(exg_json value, const exg_store_note *note, exg_store_piece *piece)
{
    exg_json_walk walk;
    exg_json item;
    uint64_t object = 0;
    const bool is_read = exg_json_array(value, &walk, NULL) == EXG_OK &&
                         exg_json_next(&walk, &item) && get_number(item, &object) &&
                         exg_json_next(&walk, &item) && get_number(item, &piece->offset) &&
                         exg_json_next(&walk, &item) && get_number(item, &piece->length) &&
                         !exg_json_next(&walk, &item);

    piece->object = (uint32_t)object;
    return is_read && object < note->object_count &&
           exg_range_inside(piece->offset, piece->length, note->objects[object].bytes);
}

static exg_status read_lists(exg_json objects, exg_json pieces, exg_arena *arena,
                             exg_store_note *note, exg_error *err)
{
    exg_json_walk walk;
    exg_json value;
    uint64_t sum = 0;

    note->objects = EXG_NEW_ARRAY(arena, exg_store_object, exg_json_count(objects));
    note->pieces = EXG_NEW_ARRAY(arena, exg_store_piece, exg_json_count(pieces));
    if (note->objects == NULL || note->pieces == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (exg_json_array(objects, &walk, NULL) != EXG_OK) {
        return damaged(err);
    }
    while (exg_json_next(&walk, &value)) {
        if (!read_object(value, &note->objects[note->object_count++])) {
            return damaged(err);
        }
    }
    if (exg_json_array(pieces, &walk, NULL) != EXG_OK) {
        return damaged(err);
    }
    while (exg_json_next(&walk, &value)) {
        exg_store_piece *piece = &note->pieces[note->piece_count++];

        if (!read_piece(value, note, piece) || !exg_add_u64(sum, piece->length, &sum)) {
            return damaged(err);
        }
    }
    return sum == note->bytes ? EXG_OK : damaged(err);
}

static exg_status read_note(exg_json root, exg_arena *arena, exg_store_note *note, exg_error *err)
{
    exg_json format;
    exg_json bytes;
    exg_json sha256;
    exg_json objects;
    exg_json pieces;
    uint64_t number = 0;

    if (!exg_json_find(root, "format", &format) || !exg_json_find(root, "bytes", &bytes) ||
        !exg_json_find(root, "sha256", &sha256) || !exg_json_find(root, "objects", &objects) ||
        !exg_json_find(root, "pieces", &pieces) || !get_number(format, &number) ||
        number != FORMAT || !get_number(bytes, &note->bytes) || !get_hash(sha256, note->sha256)) {
        return damaged(err);
    }
    return read_lists(objects, pieces, arena, note, err);
}

exg_status exg_store_note_read(const void *text, size_t length, exg_arena *arena,
                               exg_store_note *note, exg_error *err)
{
    exg_json_doc *doc = NULL;
    exg_status status = exg_json_parse(text, length, 0, EXG_JSON_KEYS_NOW, &doc, err);

    *note = (exg_store_note){0};
    if (status == EXG_MALFORMED || status == EXG_LIMIT) {
        return damaged(err);
    }
    status = status == EXG_OK ? read_note(exg_json_root(doc), arena, note, err) : status;
    exg_json_free(doc);
    return status;
}
