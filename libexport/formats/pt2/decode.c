/* decode.c - the machinery of decode.h: strings, scopes, structs, lists. */
#include "libexport/formats/pt2/decode.h"

#define XXH_INLINE_ALL
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct exg_interned {
    const char *text;
    uint32_t length;
    uint32_t scope; /* the scope in which it last named a value, 0 for none */
    exg_value_id value;
};

/* What a name meant before a scope gave it a meaning. */
typedef struct shadow {
    uint32_t string;
    uint32_t scope;
    exg_value_id value;
} shadow;

struct exg_scope {
    exg_scope *outer;
    uint32_t number;
    uint32_t count;
    uint32_t capacity;
    exg_value *values;
    shadow *shadows; /* one a value */
};

void exg_decoder_init(exg_decoder *d, exg_arena *arena, exg_error *err)
{
    *d = (exg_decoder){.arena = arena, .err = err};
}

static void free_scope(exg_decoder *d)
{
    exg_scope *scope = d->scope;

    d->scope = scope->outer;
    free(scope->values);
    free(scope->shadows);
    free(scope);
}

void exg_decoder_free(exg_decoder *d)
{
    while (d->scope != NULL) {
        free_scope(d);
    }
    free(d->strings);
    free(d->slots);
}

exg_status exg_decoder_out_of_memory(exg_decoder *d)
{
    return exg_arena_fault(d->arena, d->err);
}

/* ---- strings ------------------------------------------------------------------------ */

/* A slot is hash << 32 | index into strings + 1; 0 is free. */
static bool grow_slots(exg_decoder *d)
{
    uint32_t count = d->slot_count == 0 ? 4096 : d->slot_count * 4;
    uint64_t *slots = count <= d->slot_count ? NULL : calloc(count, sizeof(*slots));

    if (slots == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < d->slot_count; i++) {
        uint32_t at = (uint32_t)(d->slots[i] >> 32) & (count - 1);

        if (d->slots[i] != 0) {
            while (slots[at] != 0) {
                at = (at + 1) & (count - 1);
            }
            slots[at] = d->slots[i];
        }
    }
    free(d->slots);
    d->slots = slots;
    d->slot_count = count;
    return true;
}

/* Adds a string that is not there yet. */
static exg_status add_string(exg_decoder *d, exg_json value, const char *text, uint32_t length)
{
    const char *kept;

    if (memchr(text, '\0', length) != NULL) {
        return exg_json_fault(value, d->err, EXG_MALFORMED, "JSN-001",
                              "a string here holds a NUL character");
    }
    if (!exg_heap_reserve(&d->strings, d->string_count, &d->string_capacity,
                          sizeof(exg_interned))) {
        return EXG_OUT_OF_MEMORY(d->err);
    }
    kept = exg_arena_strndup(d->arena, text, length);
    if (kept == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    d->strings[d->string_count++] = (exg_interned){kept, length, 0, EXG_NO_VALUE};
    return EXG_OK;
}

/* The index of the one copy of `text`, which stands in or at `value`. */
static exg_status intern(exg_decoder *d, exg_json value, const char *text, uint32_t length,
                         uint32_t *index)
{
    uint32_t hash = (uint32_t)XXH3_64bits(text, length);
    uint32_t at;

    if (d->string_count >= d->slot_count / 2 && !grow_slots(d)) {
        return EXG_OUT_OF_MEMORY(d->err);
    }
    for (at = hash & (d->slot_count - 1); d->slots[at] != 0; at = (at + 1) & (d->slot_count - 1)) {
        const exg_interned *s = &d->strings[(uint32_t)d->slots[at] - 1];

        if (d->slots[at] >> 32 == hash && exg_decode_key_is(text, length, s->text, s->length)) {
            *index = (uint32_t)d->slots[at] - 1;
            return EXG_OK;
        }
    }
    EXG_TRY(add_string(d, value, text, length));
    *index = d->string_count - 1;
    d->slots[at] = (uint64_t)hash << 32 | d->string_count;
    return EXG_OK;
}

exg_status exg_decoder_keep(exg_decoder *d, exg_json value, const char *text, uint32_t length,
                            const char **kept)
{
    uint32_t index = 0;

    EXG_TRY(intern(d, value, text, length, &index));
    *kept = d->strings[index].text;
    return EXG_OK;
}

exg_status exg_decoder_text(exg_decoder *d, exg_json value, const char **text)
{
    const char *found;
    uint32_t length;

    if (exg_json_type_of(value) != EXG_JSON_STRING) {
        return exg_json_string(value, text, NULL, d->err);
    }
    found = exg_json_text_at(value.doc, value.at, &length);
    return exg_decoder_keep(d, value, found, length, text);
}

/* ---- scopes ------------------------------------------------------------------------- */

exg_status exg_decoder_enter(exg_decoder *d)
{
    exg_scope *scope = calloc(1, sizeof(*scope));

    if (scope == NULL) {
        return EXG_OUT_OF_MEMORY(d->err);
    }
    scope->outer = d->scope;
    scope->number = ++d->scope_count;
    d->scope = scope;
    return EXG_OK;
}

exg_status exg_decoder_leave(exg_decoder *d, exg_graph *graph)
{
    exg_scope *scope = d->scope;

    for (uint32_t i = scope->count; i-- > 0;) {
        exg_interned *s = &d->strings[scope->shadows[i].string];

        s->scope = scope->shadows[i].scope;
        s->value = scope->shadows[i].value;
    }
    graph->value_count = scope->count;
    graph->values = exg_arena_memdup(d->arena, scope->values, scope->count, sizeof(exg_value));
    free_scope(d);
    return graph->values == NULL ? exg_decoder_out_of_memory(d) : EXG_OK;
}

exg_value *exg_decoder_value_at(exg_decoder *d, exg_value_id id)
{
    return &d->scope->values[id];
}

uint32_t exg_decoder_value_count(const exg_decoder *d)
{
    return d->scope->count;
}

exg_status exg_decoder_value(exg_decoder *d, exg_json value, const char *name, uint32_t length,
                             exg_value_id *id)
{
    exg_scope *scope = d->scope;
    uint32_t capacity = scope->capacity;
    exg_interned *s;
    uint32_t index = 0;

    EXG_TRY(intern(d, value, name, length, &index));
    s = &d->strings[index];
    if (s->scope == scope->number) {
        *id = s->value;
        return EXG_OK;
    }
    if (scope->count == EXG_NO_VALUE - 1) {
        return EXG_FAIL(d->err, LIMIT, "MEM-002", "too many values");
    }
    if (!exg_heap_reserve(&scope->values, scope->count, &capacity, sizeof(exg_value))) {
        return EXG_OUT_OF_MEMORY(d->err);
    }
    if (!exg_heap_reserve(&scope->shadows, scope->count, &scope->capacity, sizeof(shadow))) {
        return EXG_OUT_OF_MEMORY(d->err);
    }
    scope->values[scope->count] = (exg_value){.name = s->text};
    scope->shadows[scope->count] = (shadow){index, s->scope, s->value};
    s->scope = scope->number;
    s->value = scope->count;
    *id = scope->count++;
    return EXG_OK;
}

/* ---- keys ------------------------------------------------------------------------------- */

/* An object with keys we do not know: they and all below them, strictly. */
static exg_status check_strangers(exg_decoder *d, exg_json value, uint64_t strangers)
{
    return strangers == 0 ? EXG_OK : exg_json_check_keys(value, d->err);
}

static exg_status duplicate(exg_decoder *d, exg_json value, const char *key)
{
    return exg_json_fault(value, d->err, EXG_MALFORMED, "JSN-001",
                          "key \"%s\" appears twice in one object", key);
}

/* ---- structs and unions ---------------------------------------------------------------- */

exg_status exg_decode_struct(exg_decoder *d, exg_json value, void *base, const exg_field *fields,
                             uint32_t count)
{
    exg_json_walk walk = {0};
    const char *key;
    uint32_t length;
    exg_json member;
    uint32_t next = 0; /* writers keep the order of the schema */
    uint32_t seen = 0;
    uint32_t strangers = 0;

    EXG_TRY(exg_json_object(value, &walk, d->err));
    while (exg_json_next_member(&walk, &key, &length, &member)) {
        uint32_t tried = 0;

        for (; tried < count; tried++, next = next + 1 == count ? 0 : next + 1) {
            if (exg_decode_key_is(key, length, fields[next].key, fields[next].key_length)) {
                break;
            }
        }
        if (tried == count) {
            strangers++;
            continue;
        }
        if ((seen & 1u << next) != 0) {
            return duplicate(d, value, key);
        }
        seen |= 1u << next;
        if ((fields[next].flags & EXG_FIELD_NULLABLE) == 0 || !exg_json_is_null(member)) {
            EXG_TRY_IN(d->err, fields[next].decode(d, member, base, &fields[next]), "%s",
                       fields[next].key);
        }
        next = next + 1 == count ? 0 : next + 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        if ((fields[i].flags & EXG_FIELD_REQUIRED) != 0 && (seen & 1u << i) == 0) {
            return exg_json_fault(value, d->err, EXG_MALFORMED, "JSN-002", "key '%s' is missing",
                                  fields[i].key);
        }
    }
    return check_strangers(d, value, strangers);
}

exg_status exg_decode_union(exg_decoder *d, exg_json value, const char **tag, uint32_t *tag_length,
                            exg_json *payload)
{
    exg_json_walk walk = {0};

    EXG_TRY(exg_json_object(value, &walk, d->err));
    if (!exg_json_next_member(&walk, tag, tag_length, payload) || walk.at < walk.end) {
        return exg_json_fault(value, d->err, EXG_MALFORMED, "JSN-003",
                              "a union holds exactly one key, this one has %u",
                              exg_json_count(value));
    }
    return EXG_OK;
}

exg_status exg_decode_unknown_tag(exg_decoder *d, exg_json value, const char *of, const char *tag)
{
    return exg_error_fix(
        d->err,
        exg_json_fault(value, d->err, EXG_MALFORMED, "JSN-003", "'%s' is no kind of %s", tag, of),
        "a newer schema may have it; this reader knows 8.20");
}

/* ---- lists ------------------------------------------------------------------------------ */

exg_status exg_decode_array(exg_decoder *d, exg_json value, size_t item_bytes, exg_item_fn *item,
                            void *items, uint32_t *count)
{
    exg_json_walk walk = {0};
    exg_json element;
    uint32_t made = 0;
    char *block;

    EXG_TRY(exg_json_array(value, &walk, d->err));
    block = exg_arena_alloc(d->arena, exg_json_count(value), item_bytes);
    if (block == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    while (exg_json_next(&walk, &element)) {
        EXG_TRY_IN(d->err, item(d, element, block + made * item_bytes), "[%u]", made);
        made++;
    }
    memcpy(items, &block, sizeof(block));
    *count = made;
    return EXG_OK;
}

exg_status exg_decode_map(exg_decoder *d, exg_json value, size_t item_bytes, exg_member_fn *member,
                          void *items, uint32_t *count)
{
    exg_json_walk walk = {0};
    exg_json element;
    const char *key;
    uint32_t length;
    uint32_t made = 0;
    char *block;

    EXG_TRY(exg_json_object(value, &walk, d->err));
    block = exg_arena_alloc(d->arena, exg_json_count(value), item_bytes);
    if (block == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    EXG_TRY(exg_json_check_own_keys(value, d->err));
    while (exg_json_next_member(&walk, &key, &length, &element)) {
        EXG_TRY_IN(d->err, member(d, key, length, element, block + made * item_bytes), "['%s']",
                   key);
        made++;
    }
    memcpy(items, &block, sizeof(block));
    *count = made;
    return EXG_OK;
}

/* ---- scalars ------------------------------------------------------------------------------ */

static void *member_of(void *base, const exg_field *field)
{
    return (char *)base + field->offset;
}

exg_status exg_field_list(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    uint32_t count = 0;

    EXG_TRY(
        exg_decode_array(d, value, field->item_bytes, field->item, member_of(base, field), &count));
    memcpy((char *)base + field->count_offset, &count, sizeof(count));
    return EXG_OK;
}

exg_status exg_field_map(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    uint32_t count = 0;

    EXG_TRY(
        exg_decode_map(d, value, field->item_bytes, field->member, member_of(base, field), &count));
    memcpy((char *)base + field->count_offset, &count, sizeof(count));
    return EXG_OK;
}

exg_status exg_field_text(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    const char **text = member_of(base, field);

    return exg_decoder_text(d, value, text);
}

exg_status exg_field_int(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    int64_t *out = member_of(base, field);

    return exg_json_int(value, out, d->err);
}

exg_status exg_field_bool(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    bool *out = member_of(base, field);

    return exg_json_bool(value, out, d->err);
}

exg_status exg_field_tristate(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    exg_tristate *out = member_of(base, field);
    bool set = false;

    EXG_TRY(exg_json_bool(value, &set, d->err));
    *out = set ? EXG_TRUE : EXG_FALSE;
    return EXG_OK;
}

exg_status exg_item_text(exg_decoder *d, exg_json value, void *item)
{
    const char **text = item;

    return exg_decoder_text(d, value, text);
}
