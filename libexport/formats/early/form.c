/* form.c - how an early file says what it says: the order of its lists and members, the spelling
 * of targets, enums by name or by number, null members, unknown keys, white space (S002-77, -83,
 * -108, -111).
 *
 * exg_program.early_form is the text of the file without the bytes that stand in it. Written
 * again, three texts lie beside each other: the form, what we write of the program that the form
 * says (base), and what we write of the program at hand (ours). Where ours is base nothing was
 * changed and the form stands, letter by letter; where it is not, ours does. What stands in the
 * form alone is unknown, and kept.
 */
#include "libexport/formats/early/early.h"

#include <stdlib.h>
#include <string.h>

#define FEW 12 /* members that are looked through one by one */

/* The form is read along its text and its tape at once: `at` is where the walk is. */
typedef struct merger {
    exg_early_encoder *e;
    exg_arena *arena;
    const char *at;
    exg_text *out;
} merger;

typedef struct span {
    const char *text;
    size_t length;
} span;

/* ---- the text of the form ------------------------------------------------------------------- */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static const char *after_string(const char *at)
{
    for (at++; *at != '"'; at++) {
        at += *at == '\\';
    }
    return at + 1;
}

/* Behind the value that begins at `at`. */
static const char *after_value(const char *at)
{
    size_t depth = 0;

    do {
        if (*at == '"') {
            at = after_string(at);
        } else if (*at == '{' || *at == '[') {
            depth++;
            at++;
        } else if (*at == '}' || *at == ']') {
            depth--;
            at++;
        } else if (depth > 0) {
            at++;
        } else {
            while (strchr(",]} \t\r\n", *at) == NULL) { /* also at the end, where NUL is */
                at++;
            }
        }
    } while (depth > 0);
    return at;
}

static void skip_space(merger *m)
{
    while (is_space(*m->at)) {
        m->at++;
    }
}

/* From the bracket or comma to the next value: white space and, in an object, the key. */
static span open_item(merger *m, bool has_key)
{
    const char *from = m->at;

    skip_space(m);
    if (has_key) {
        m->at = after_string(m->at);
        skip_space(m);
        m->at++; /* the colon */
        skip_space(m);
    }
    return (span){from, (size_t)(m->at - from)};
}

/* The white space behind a value, its comma or bracket taken. */
static span close_item(merger *m)
{
    const char *from = m->at;

    skip_space(m);
    m->at++;
    return (span){from, (size_t)(m->at - from - 1)};
}

static void put_span(merger *m, span s)
{
    exg_text_add(m->out, s.text, s.length);
}

static void keep_value(merger *m)
{
    const char *from = m->at;

    m->at = after_value(from);
    put_span(m, (span){from, (size_t)(m->at - from)});
}

/* ---- trees ---------------------------------------------------------------------------------- */

/* A tree, or a place where there is none: doc NULL. */
static bool is_there(exg_json value)
{
    return value.doc != NULL;
}

static bool is_object(exg_json value)
{
    return is_there(value) && exg_json_type_of(value) == EXG_JSON_OBJECT;
}

static bool is_list(exg_json value)
{
    return is_there(value) && exg_json_type_of(value) == EXG_JSON_ARRAY;
}

/* Only a storage has these two, of these types: what else could hold them holds its own. */
static bool is_storage(exg_json value)
{
    exg_json location;
    exg_json data;

    return is_object(value) && exg_json_find(value, "data_location", &location) &&
           exg_json_type_of(location) == EXG_JSON_STRING && exg_json_find(value, "data", &data) &&
           exg_json_type_of(data) == EXG_JSON_OBJECT;
}

/* Two values that we wrote, neither of which is a list or an object: those are merged. */
static bool is_same(exg_json a, exg_json b)
{
    exg_json_type type = exg_json_type_of(a);
    const char *texts[2];
    uint32_t lengths[2];

    if (type != exg_json_type_of(b)) {
        return false;
    }
    switch (type) {
    case EXG_JSON_INT:
    case EXG_JSON_HUGE_INT:
    case EXG_JSON_DOUBLE:
        return a.doc->tape[a.at + 1] == b.doc->tape[b.at + 1];
    case EXG_JSON_STRING:
        texts[0] = exg_json_text_at(a.doc, a.at, &lengths[0]);
        texts[1] = exg_json_text_at(b.doc, b.at, &lengths[1]);
        return lengths[0] == lengths[1] && memcmp(texts[0], texts[1], lengths[0]) == 0;
    case EXG_JSON_ARRAY:
    case EXG_JSON_OBJECT:
        return false;
    default:
        return true;
    }
}

/* An object that is asked for many of its members. */
typedef struct members {
    exg_json object; /* or nothing */
    exg_map map;     /* of more than a few */
} members;

static exg_status index_members(merger *m, exg_json object, members *index)
{
    exg_json_walk walk;
    const char *key;
    uint32_t length;
    exg_json child;

    *index = (members){.object = object};
    exg_map_init(&index->map, m->arena);
    if (!is_there(object) || exg_json_count(object) <= FEW) {
        return EXG_OK;
    }
    EXG_TRY(exg_json_object(object, &walk, m->e->err));
    while (exg_json_next_member(&walk, &key, &length, &child)) {
        if (child.at >= EXG_MAP_NONE || !exg_map_put(&index->map, key, (uint32_t)child.at)) {
            return EXG_OUT_OF_MEMORY(m->e->err);
        }
    }
    return EXG_OK;
}

static exg_json find(const members *index, const char *key)
{
    exg_json found = {0};

    if (index->map.count > 0) {
        uint32_t at = exg_map_find(&index->map, key);

        return at == EXG_MAP_NONE ? found : (exg_json){index->object.doc, at};
    }
    return is_there(index->object) && exg_json_find(index->object, key, &found) ? found
                                                                                : (exg_json){0};
}

/* The weight whose number stands for its bytes (EXG_EARLY_WITH_NUMBERS); else none. */
static const exg_weight *weight_of(merger *m, exg_json storage)
{
    exg_json buffer;
    const char *number = "";
    unsigned long index;

    if (m->e->bytes == EXG_EARLY_WITHOUT_BYTES || !exg_json_find(storage, "data", &buffer) ||
        !exg_json_find(buffer, "buffer", &buffer) ||
        exg_json_string(buffer, &number, NULL, NULL) != EXG_OK || number[0] == '\0') {
        return NULL;
    }
    index = strtoul(number, NULL, 10);
    return index < m->e->program->weights->count ? &m->e->program->weights->items[index] : NULL;
}

/* ---- ours, where the form does not stand ---------------------------------------------------- */

static exg_status put_tree(merger *m, exg_json value)
{
    const char *text = NULL;
    uint32_t length;
    int64_t integer = 0;
    double number = 0;
    exg_json_walk walk;
    exg_json item;

    if (is_storage(value)) {
        return exg_early_put_storage(m->e, m->out, weight_of(m, value));
    }
    switch (exg_json_type_of(value)) {
    case EXG_JSON_NULL:
    case EXG_JSON_HUGE_INT: /* we write none of either */
        exg_json_put_null(m->out);
        return EXG_OK;
    case EXG_JSON_TRUE:
    case EXG_JSON_FALSE:
        exg_json_put_bool(m->out, exg_json_type_of(value) == EXG_JSON_TRUE);
        return EXG_OK;
    case EXG_JSON_INT:
        EXG_TRY(exg_json_int(value, &integer, m->e->err));
        exg_json_put_int(m->out, integer);
        return EXG_OK;
    case EXG_JSON_DOUBLE:
        EXG_TRY(exg_json_double(value, &number, m->e->err));
        exg_json_put_double(m->out, number);
        return EXG_OK;
    case EXG_JSON_STRING:
        EXG_TRY(exg_json_string(value, &text, NULL, m->e->err));
        exg_json_put_text(m->out, text);
        return EXG_OK;
    case EXG_JSON_ARRAY:
        exg_json_put_open(m->out, '[');
        EXG_TRY(exg_json_array(value, &walk, m->e->err));
        while (exg_json_next(&walk, &item)) {
            EXG_TRY(put_tree(m, item));
        }
        exg_json_put_close(m->out, ']');
        return EXG_OK;
    case EXG_JSON_OBJECT:
        exg_json_put_open(m->out, '{');
        EXG_TRY(exg_json_object(value, &walk, m->e->err));
        while (exg_json_next_member(&walk, &text, &length, &item)) {
            exg_json_put_key(m->out, text);
            EXG_TRY(put_tree(m, item));
        }
        exg_json_put_close(m->out, '}');
        return EXG_OK;
    }
    return EXG_OK;
}

static exg_status put_ours(merger *m, exg_json ours)
{
    m->at = after_value(m->at);
    return put_tree(m, ours);
}

/* ---- storages ------------------------------------------------------------------------------- */

/* The form's members, of which `key`'s value is written by `put`. */
static exg_status keep_but(merger *m, exg_json form, const char *key, const exg_weight *weight,
                           exg_status (*put)(merger *m, exg_json value, const exg_weight *weight))
{
    exg_json_walk walk;
    exg_json child;
    const char *name;
    uint32_t length;

    EXG_TRY(exg_json_object(form, &walk, m->e->err));
    exg_text_putc(m->out, '{');
    m->at++;
    while (exg_json_next_member(&walk, &name, &length, &child)) {
        put_span(m, open_item(m, true));
        if (strcmp(name, key) == 0) {
            EXG_TRY(put(m, child, weight));
        } else {
            keep_value(m);
        }
        put_span(m, close_item(m));
        exg_text_putc(m->out, m->at[-1]);
    }
    return EXG_OK;
}

static exg_status put_buffer(merger *m, exg_json value, const exg_weight *weight)
{
    (void)value;
    m->at = after_value(m->at);
    return exg_early_put_buffer(m->e, m->out, weight);
}

static exg_status put_data(merger *m, exg_json value, const exg_weight *weight)
{
    return keep_but(m, value, "buffer", weight, put_buffer);
}

/* Bytes stay where the form has them, inside or in a file, unless the options want them elsewhere
 * or they are no longer what the form says of them. */
static exg_status merge_storage(merger *m, exg_json form, exg_json ours)
{
    const exg_weight *weight = weight_of(m, ours);
    exg_json data;
    exg_json buffer;
    bool is_internal;
    bool keeps;

    if (!exg_json_find(form, "data", &data)) {
        return put_ours(m, ours);
    }
    is_internal = exg_json_find(data, "buffer", &buffer);
    if (weight == NULL) { /* a form is being made, or a structure: nothing of the bytes */
        if (is_internal) {
            return keep_but(m, form, "data", NULL, put_data);
        }
        if (m->e->moves_external) {
            return put_ours(m, ours);
        }
        keep_value(m);
        return EXG_OK;
    }
    EXG_TRY(exg_early_keeps_place(m->e, weight, is_internal, data, &keeps));
    if (!keeps) {
        return put_ours(m, ours);
    }
    if (is_internal) {
        return keep_but(m, form, "data", weight, put_data);
    }
    keep_value(m);
    return EXG_OK;
}

/* ---- the three beside each other ------------------------------------------------------------ */

static exg_status merge(merger *m, exg_json form, exg_json base, exg_json ours);

/* A member of the form: is it written? *has_value: then what. */
typedef enum fate { KEPT, OURS, MERGED, GONE } fate;

static fate fate_of(const char *key, exg_json base, exg_json ours)
{
    if (is_there(ours)) {
        return is_there(base) ? MERGED : OURS;
    }
    return is_there(base) || strcmp(key, EXG_EARLY_CARRY) == 0 ? GONE : KEPT;
}

/* The bracket of the form; where nothing is in it, also the other one, which is not put. */
static void begin(merger *m, exg_json form)
{
    exg_text_putc(m->out, *m->at++);
    if (exg_json_count(form) == 0) {
        put_span(m, close_item(m));
    }
}

static exg_status put_item(merger *m, fate what, bool is_first, span lead, exg_json form,
                           exg_json base, exg_json ours)
{
    if (what == GONE) {
        m->at = after_value(m->at);
        (void)close_item(m);
        return EXG_OK;
    }
    if (!is_first) {
        exg_text_putc(m->out, ',');
    }
    put_span(m, lead);
    if (what == KEPT) {
        keep_value(m);
    } else {
        EXG_TRY(what == OURS ? put_ours(m, ours) : merge(m, form, base, ours));
    }
    put_span(m, close_item(m));
    return EXG_OK;
}

/* Members of ours that neither the form nor the base has. */
static exg_status put_new_members(merger *m, const members *form, const members *base,
                                  exg_json ours, bool is_first)
{
    exg_json_walk walk;
    const char *key;
    uint32_t length;
    exg_json child;

    EXG_TRY(exg_json_object(ours, &walk, m->e->err));
    while (exg_json_next_member(&walk, &key, &length, &child)) {
        exg_json known = find(base, key);

        if (is_there(find(form, key)) || (is_there(known) && is_same(known, child))) {
            continue;
        }
        exg_text_puts(m->out, is_first ? "" : ", ");
        exg_text_json_string(m->out, key);
        exg_text_puts(m->out, ": ");
        EXG_TRY(put_tree(m, child));
        is_first = false;
    }
    return EXG_OK;
}

static exg_status merge_object(merger *m, exg_json form, exg_json base, exg_json ours)
{
    members index[3];
    exg_json_walk walk;
    const char *key;
    uint32_t length;
    exg_json child;
    bool is_first = true;

    EXG_TRY(index_members(m, form, &index[0]));
    EXG_TRY(index_members(m, base, &index[1]));
    EXG_TRY(index_members(m, ours, &index[2]));
    EXG_TRY(exg_json_object(form, &walk, m->e->err));
    begin(m, form);
    while (exg_json_next_member(&walk, &key, &length, &child)) {
        span lead = open_item(m, true);
        exg_json known = find(&index[1], key);
        exg_json own = find(&index[2], key);
        fate what = fate_of(key, known, own);

        EXG_TRY(put_item(m, what, is_first, lead, child, known, own));
        is_first = is_first && what == GONE;
    }
    EXG_TRY(put_new_members(m, &index[0], &index[1], ours, is_first));
    exg_text_putc(m->out, '}');
    return EXG_OK;
}

/* ---- lists ---------------------------------------------------------------------------------- */

/* The two tables of values: an entry is known by its name, whatever its place. */
static bool is_table(exg_json list)
{
    exg_json_walk walk;
    exg_json item;
    exg_json name;

    (void)exg_json_array(list, &walk, NULL);
    return exg_json_next(&walk, &item) && is_object(item) && exg_json_find(item, "name", &name) &&
           exg_json_count(item) > 1;
}

typedef struct table {
    exg_json *items;
    const char **names;
    uint32_t count;
    exg_map map; /* name -> place */
} table;

static exg_status index_table(merger *m, exg_json list, table *t)
{
    exg_json_walk walk;
    exg_json name;

    t->count = 0;
    t->items = EXG_NEW_ARRAY(m->arena, exg_json, exg_json_count(list));
    t->names = EXG_NEW_ARRAY(m->arena, const char *, exg_json_count(list));
    exg_map_init(&t->map, m->arena);
    if (t->items == NULL || t->names == NULL) {
        return EXG_OUT_OF_MEMORY(m->e->err);
    }
    EXG_TRY(exg_json_array(list, &walk, m->e->err));
    while (exg_json_next(&walk, &t->items[t->count])) {
        t->names[t->count] = "";
        if (exg_json_find(t->items[t->count], "name", &name)) {
            EXG_TRY(exg_json_string(name, &t->names[t->count], NULL, m->e->err));
        }
        if (!exg_map_put(&t->map, t->names[t->count], t->count)) {
            return EXG_OUT_OF_MEMORY(m->e->err);
        }
        t->count++;
    }
    return EXG_OK;
}

/* Ours of the base's entry `at`: that of its name; or, renamed, the new one in its place. */
static exg_json counterpart(const table *base, const table *ours, uint32_t at)
{
    uint32_t found = exg_map_find(&ours->map, base->names[at]);

    if (found == EXG_MAP_NONE && base->count == ours->count &&
        exg_map_find(&base->map, ours->names[at]) == EXG_MAP_NONE) {
        found = at;
    }
    return found == EXG_MAP_NONE ? (exg_json){0} : ours->items[found];
}

static exg_status put_new_entries(merger *m, const table *base, const table *ours, bool is_first)
{
    for (uint32_t i = 0; i < ours->count; i++) {
        bool is_new = exg_map_find(&base->map, ours->names[i]) == EXG_MAP_NONE &&
                      (base->count != ours->count ||
                       exg_map_find(&ours->map, base->names[i]) != EXG_MAP_NONE);

        if (is_new) {
            exg_text_puts(m->out, is_first ? "" : ", ");
            EXG_TRY(put_tree(m, ours->items[i]));
            is_first = false;
        }
    }
    return EXG_OK;
}

static exg_status merge_table(merger *m, exg_json form, exg_json base, exg_json ours)
{
    table tables[3];
    bool is_first = true;

    EXG_TRY(index_table(m, form, &tables[0]));
    EXG_TRY(index_table(m, base, &tables[1]));
    EXG_TRY(index_table(m, ours, &tables[2]));
    begin(m, form);
    for (uint32_t i = 0; i < tables[0].count; i++) {
        span lead = open_item(m, false);
        uint32_t at = exg_map_find(&tables[1].map, tables[0].names[i]);
        exg_json known = at == EXG_MAP_NONE ? (exg_json){0} : tables[1].items[at];
        exg_json own = at == EXG_MAP_NONE ? (exg_json){0} : counterpart(&tables[1], &tables[2], at);
        fate what = fate_of("", known, own);

        EXG_TRY(put_item(m, what, is_first, lead, tables[0].items[i], known, own));
        is_first = is_first && what == GONE;
    }
    EXG_TRY(put_new_entries(m, &tables[1], &tables[2], is_first));
    exg_text_putc(m->out, ']');
    return EXG_OK;
}

static exg_status merge_list(merger *m, exg_json form, exg_json base, exg_json ours)
{
    exg_json_walk walks[3];
    exg_json items[3];
    bool is_first = true;

    if (is_table(base)) {
        return merge_table(m, form, base, ours);
    }
    if (exg_json_count(form) != exg_json_count(ours) ||
        exg_json_count(form) != exg_json_count(base)) {
        return put_ours(m, ours);
    }
    EXG_TRY(exg_json_array(form, &walks[0], m->e->err));
    EXG_TRY(exg_json_array(base, &walks[1], m->e->err));
    EXG_TRY(exg_json_array(ours, &walks[2], m->e->err));
    begin(m, form);
    while (exg_json_next(&walks[0], &items[0]) && exg_json_next(&walks[1], &items[1]) &&
           exg_json_next(&walks[2], &items[2])) {
        span lead = open_item(m, false);

        EXG_TRY(put_item(m, MERGED, is_first, lead, items[0], items[1], items[2]));
        is_first = false;
    }
    exg_text_putc(m->out, ']');
    return EXG_OK;
}

static exg_status merge(merger *m, exg_json form, exg_json base, exg_json ours)
{
    if (is_storage(base) && is_storage(ours)) {
        return merge_storage(m, form, ours);
    }
    if (is_object(form) && is_object(base) && is_object(ours)) {
        return merge_object(m, form, base, ours);
    }
    if (is_list(form) && is_list(base) && is_list(ours)) {
        return merge_list(m, form, base, ours);
    }
    if (is_same(base, ours)) {
        keep_value(m);
        return EXG_OK;
    }
    return put_ours(m, ours);
}

static exg_status merge_text(exg_early_encoder *e, exg_json form, exg_json base, exg_json ours,
                             exg_text *out)
{
    merger m = {e, exg_arena_create(NULL, EXG_ARENA_UNBOUNDED), form.doc->text, out};
    exg_status status = m.arena == NULL ? EXG_OUT_OF_MEMORY(e->err) : EXG_OK;

    if (status == EXG_OK) {
        put_span(&m, open_item(&m, false));
        status = merge(&m, form, base, ours);
        exg_text_add(out, m.at, (size_t)(form.doc->text + form.doc->length - m.at));
    }
    exg_arena_destroy(m.arena);
    return status;
}

/* ---- a form is made and stands -------------------------------------------------------------- */

exg_status exg_early_keep_form(exg_json root, bool to_branches, exg_program *program,
                               exg_error *err)
{
    exg_arena *scratch = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_early_encoder e = {.program = program,
                           .arena = scratch,
                           .to_branches = to_branches,
                           .bytes = EXG_EARLY_WITHOUT_BYTES,
                           .err = err};
    exg_text form = EXG_TEXT_EMPTY;
    exg_json_doc *own = NULL;
    exg_status status =
        scratch == NULL ? EXG_OUT_OF_MEMORY(err) : exg_early_encode_parsed(&e, &own);

    if (status == EXG_OK) {
        status = merge_text(&e, root, exg_json_root(own), exg_json_root(own), &form);
    }
    if (status == EXG_OK && form.failed) {
        status = EXG_OUT_OF_MEMORY(err);
    }
    /* What we would write anyway needs no form. */
    if (status == EXG_OK &&
        (form.length != own->length + 1 || memcmp(form.data, own->text, own->length) != 0)) {
        program->early_form = exg_arena_strndup(program->arena, form.data, form.length);
        status = program->early_form == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    }
    exg_text_free(&form);
    exg_json_free(own);
    exg_arena_destroy(scratch);
    return status;
}

/* What is written, without a form, of the program that the form says. */
static exg_status parse_base(exg_early_encoder *e, exg_json root, exg_json_doc **doc)
{
    exg_program *said = NULL;
    exg_early_encoder base = {.arena = e->arena,
                              .is_plain = true,
                              .to_branches = true,
                              .bytes = EXG_EARLY_WITHOUT_BYTES,
                              .err = e->err};
    exg_status status = exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &said, e->err);

    if (status == EXG_OK) {
        status = exg_early_decode(root, EXG_EARLY_WITHOUT_BYTES, NULL, said, e->err);
    }
    if (status == EXG_OK) {
        base.program = said;
        status = exg_early_encode_parsed(&base, doc);
    }
    exg_program_destroy(said);
    return status;
}

exg_status exg_early_put_form(exg_early_encoder *e, const exg_text *own, exg_text *out)
{
    const char *text = e->program->early_form;
    exg_json_doc *form = NULL;
    exg_json_doc *base = NULL;
    exg_json_doc *ours = NULL;
    exg_status status =
        exg_json_parse(text, strlen(text), EXG_NO_OFFSET, EXG_JSON_KEYS_NOW, &form, e->err);

    if (status == EXG_OK) {
        status = parse_base(e, exg_json_root(form), &base);
    }
    if (status == EXG_OK) {
        status =
            exg_json_parse(own->data, own->length, EXG_NO_OFFSET, EXG_JSON_KEYS_NOW, &ours, e->err);
    }
    if (status == EXG_OK) {
        status = merge_text(e, exg_json_root(form), exg_json_root(base), exg_json_root(ours), out);
    }
    exg_json_free(form);
    exg_json_free(base);
    exg_json_free(ours);
    return status;
}
