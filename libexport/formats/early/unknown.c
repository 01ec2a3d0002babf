/* unknown.c - keys of an early file that no schema has, kept and written again (S002-108).
 *
 * They stand in metadata["exg.unknown"] as what is left of the file when all that is known is
 * taken away, lists being objects by index: {"graph": {"nodes": {"3": {"new": [1, 2]}}}}.
 * What became of a place that is no longer there, or below a storage, is not told.
 */
#include "libexport/formats/early/early.h"

#include <stdio.h>
#include <string.h>

static exg_status put_value(exg_text *out, exg_json value, exg_error *err)
{
    const char *text = NULL;
    uint32_t length;
    int64_t integer = 0;
    double number = 0;
    exg_json_walk walk;
    exg_json item;

    switch (exg_json_type_of(value)) {
    case EXG_JSON_NULL:
        exg_text_puts(out, "null");
        return EXG_OK;
    case EXG_JSON_TRUE:
    case EXG_JSON_FALSE:
        exg_json_put_bool(out, exg_json_type_of(value) == EXG_JSON_TRUE);
        return EXG_OK;
    case EXG_JSON_INT:
        EXG_TRY(exg_json_int(value, &integer, err));
        exg_json_put_int(out, integer);
        return EXG_OK;
    case EXG_JSON_HUGE_INT:
        exg_text_printf(out, "%" PRIu64, value.doc->tape[value.at + 1]);
        return EXG_OK;
    case EXG_JSON_DOUBLE:
        EXG_TRY(exg_json_double(value, &number, err));
        exg_text_json_double(out, number);
        return EXG_OK;
    case EXG_JSON_STRING:
        EXG_TRY(exg_json_string(value, &text, NULL, err));
        exg_text_json_string(out, text);
        return EXG_OK;
    case EXG_JSON_ARRAY:
        exg_text_putc(out, '[');
        EXG_TRY(exg_json_array(value, &walk, err));
        while (exg_json_next(&walk, &item)) {
            exg_json_put_item(out);
            EXG_TRY(put_value(out, item, err));
        }
        exg_text_putc(out, ']');
        return EXG_OK;
    case EXG_JSON_OBJECT:
        exg_text_putc(out, '{');
        EXG_TRY(exg_json_object(value, &walk, err));
        while (exg_json_next_member(&walk, &text, &length, &item)) {
            exg_json_put_key(out, text);
            EXG_TRY(put_value(out, item, err));
        }
        exg_text_putc(out, '}');
        return EXG_OK;
    }
    return EXG_OK;
}

/* Where the members of an object lie; of anything else there are none. */
static exg_status index_members(exg_map *map, exg_arena *arena, exg_json value, exg_error *err)
{
    exg_json_walk walk = {0};
    const char *key;
    uint32_t length;
    exg_json child;

    exg_map_init(map, arena);
    if (exg_json_type_of(value) == EXG_JSON_OBJECT) {
        EXG_TRY(exg_json_object(value, &walk, err));
    }
    while (exg_json_next_member(&walk, &key, &length, &child)) {
        if (child.at >= EXG_MAP_NONE || !exg_map_put(map, key, (uint32_t)child.at)) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    return EXG_OK;
}

/* ---- found ---------------------------------------------------------------------------------- */

typedef struct finder {
    exg_arena *arena;
    exg_text *out;
    exg_error *err;
} finder;

static exg_status find_below(finder *f, exg_json given, exg_json written, bool *found);

/* `child` of the file under `key`, and what is written there; *found grows. */
static exg_status find_at(finder *f, const char *key, exg_json child, exg_json written, bool *found)
{
    size_t before = f->out->length;
    bool below = false;

    exg_json_put_key(f->out, key);
    EXG_TRY(find_below(f, child, written, &below));
    if (!below && !f->out->failed) {
        f->out->length = before;
        f->out->data[before] = '\0';
    }
    *found |= below;
    return EXG_OK;
}

static exg_status find_in_object(finder *f, exg_json given, exg_json written, bool *found)
{
    exg_json_walk walk;
    const char *key;
    uint32_t length;
    exg_json child;
    exg_map known;

    EXG_TRY(index_members(&known, f->arena, written, f->err));
    EXG_TRY(exg_json_object(given, &walk, f->err));
    while (exg_json_next_member(&walk, &key, &length, &child)) {
        uint32_t at = exg_map_find(&known, key);

        if (at != EXG_MAP_NONE) {
            EXG_TRY(find_at(f, key, child, (exg_json){written.doc, at}, found));
        } else if (!exg_json_is_null(child) && strcmp(key, EXG_EARLY_CARRY) != 0) {
            exg_json_put_key(f->out, key);
            EXG_TRY(put_value(f->out, child, f->err));
            *found = true;
        }
    }
    return EXG_OK;
}

static exg_status find_in_list(finder *f, exg_json given, exg_json written, bool *found)
{
    exg_json_walk walk;
    exg_json_walk beside;
    exg_json child;
    exg_json other;
    char key[16];

    EXG_TRY(exg_json_array(given, &walk, f->err));
    EXG_TRY(exg_json_array(written, &beside, f->err));
    for (unsigned i = 0; exg_json_next(&walk, &child) && exg_json_next(&beside, &other); i++) {
        snprintf(key, sizeof(key), "%u", i);
        EXG_TRY(find_at(f, key, child, other, found));
    }
    return EXG_OK;
}

/* What `given` has and `written` has not, as an object; *found tells whether there is any. */
static exg_status find_below(finder *f, exg_json given, exg_json written, bool *found)
{
    exg_json_type type = exg_json_type_of(given);
    exg_json location;

    if (type != exg_json_type_of(written) || exg_json_find(given, "data_location", &location)) {
        return EXG_OK; /* of a storage the bytes' place is not compared */
    }
    exg_text_putc(f->out, '{');
    if (type == EXG_JSON_OBJECT) {
        EXG_TRY(find_in_object(f, given, written, found));
    } else if (type == EXG_JSON_ARRAY) {
        EXG_TRY(find_in_list(f, given, written, found));
    }
    exg_text_putc(f->out, '}');
    return EXG_OK;
}

exg_status exg_early_find_unknown(exg_json root, const exg_program *program, exg_text *out,
                                  exg_error *err)
{
    exg_arena *scratch = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_early_encoder e = {.program = program,
                           .arena = scratch,
                           .to_branches = true,
                           .bytes = EXG_EARLY_WITHOUT_BYTES,
                           .err = err};
    finder f = {scratch, out, err};
    exg_json_doc *doc = NULL;
    bool found = false;
    exg_status status =
        scratch == NULL ? EXG_OUT_OF_MEMORY(err) : exg_early_encode_parsed(&e, &doc);

    if (status == EXG_OK) {
        status = find_below(&f, root, exg_json_root(doc), &found);
    }
    if (status == EXG_OK && out->failed) {
        status = EXG_OUT_OF_MEMORY(err);
    }
    if (!found && out->length > 0) {
        exg_text_free(out);
    }
    exg_json_free(doc);
    exg_arena_destroy(scratch);
    return status;
}

/* ---- put back ------------------------------------------------------------------------------- */

typedef struct merger {
    exg_arena *arena;
    exg_text *out;
    exg_error *err;
} merger;

static exg_status merge(merger *m, exg_json written, exg_json unknown);

/* `child` as written, with what was unknown below `key`. */
static exg_status merge_at(merger *m, exg_json child, const char *key, exg_json unknown,
                           const exg_map *members)
{
    uint32_t at = exg_map_find(members, key);

    return at == EXG_MAP_NONE ? put_value(m->out, child, m->err)
                              : merge(m, child, (exg_json){unknown.doc, at});
}

static exg_status merge_object(merger *m, exg_json written, exg_json unknown,
                               const exg_map *members)
{
    exg_json_walk walk;
    const char *key;
    uint32_t length;
    exg_json child;
    exg_map known;

    EXG_TRY(index_members(&known, m->arena, written, m->err));
    exg_text_putc(m->out, '{');
    EXG_TRY(exg_json_object(written, &walk, m->err));
    while (exg_json_next_member(&walk, &key, &length, &child)) {
        exg_json_put_key(m->out, key);
        EXG_TRY(merge_at(m, child, key, unknown, members));
    }
    EXG_TRY(exg_json_object(unknown, &walk, m->err));
    while (exg_json_next_member(&walk, &key, &length, &child)) {
        if (exg_map_find(&known, key) == EXG_MAP_NONE) {
            exg_json_put_key(m->out, key);
            EXG_TRY(put_value(m->out, child, m->err));
        }
    }
    exg_text_putc(m->out, '}');
    return EXG_OK;
}

static exg_status merge_list(merger *m, exg_json written, exg_json unknown, const exg_map *members)
{
    exg_json_walk walk;
    exg_json child;
    char key[16];

    exg_text_putc(m->out, '[');
    EXG_TRY(exg_json_array(written, &walk, m->err));
    for (unsigned i = 0; exg_json_next(&walk, &child); i++) {
        snprintf(key, sizeof(key), "%u", i);
        exg_json_put_item(m->out);
        EXG_TRY(merge_at(m, child, key, unknown, members));
    }
    exg_text_putc(m->out, ']');
    return EXG_OK;
}

static exg_status merge(merger *m, exg_json written, exg_json unknown)
{
    exg_map members;

    EXG_TRY(index_members(&members, m->arena, unknown, m->err));
    if (members.count > 0 && exg_json_type_of(written) == EXG_JSON_OBJECT) {
        return merge_object(m, written, unknown, &members);
    }
    if (members.count > 0 && exg_json_type_of(written) == EXG_JSON_ARRAY) {
        return merge_list(m, written, unknown, &members);
    }
    return put_value(m->out, written, m->err);
}

exg_status exg_early_put_unknown(exg_text *json, const char *unknown, exg_error *err)
{
    exg_json_doc *written = NULL;
    exg_json_doc *kept = NULL;
    exg_text merged = EXG_TEXT_EMPTY;
    merger m = {exg_arena_create(NULL, EXG_ARENA_UNBOUNDED), &merged, err};
    exg_status status = json->failed || m.arena == NULL
                            ? EXG_OUT_OF_MEMORY(err)
                            : exg_json_parse(json->data, json->length, EXG_NO_OFFSET,
                                             EXG_JSON_KEYS_NOW, &written, err);

    if (status == EXG_OK) {
        status =
            exg_json_parse(unknown, strlen(unknown), EXG_NO_OFFSET, EXG_JSON_KEYS_NOW, &kept, err);
    }
    if (status == EXG_OK) {
        status = merge(&m, exg_json_root(written), exg_json_root(kept));
    }
    exg_json_free(written);
    exg_json_free(kept);
    exg_arena_destroy(m.arena);
    if (status == EXG_OK) {
        exg_text_free(json);
        *json = merged;
        return EXG_OK;
    }
    exg_text_free(&merged);
    return exg_error_within(err, status, "metadata['" EXG_EARLY_UNKNOWN "']");
}
