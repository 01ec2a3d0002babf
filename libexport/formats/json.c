/* json.c - getters over the tape, and the check of keys. */
#include "libexport/formats/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define KEYS_COMPARED_DIRECTLY 8

static const char *type_name(exg_json_type type)
{
    switch (type) {
    case EXG_JSON_NULL:
        return "null";
    case EXG_JSON_TRUE:
    case EXG_JSON_FALSE:
        return "a boolean";
    case EXG_JSON_INT:
    case EXG_JSON_HUGE_INT:
        return "an integer";
    case EXG_JSON_DOUBLE:
        return "a float";
    case EXG_JSON_STRING:
        return "a string";
    case EXG_JSON_ARRAY:
        return "an array";
    case EXG_JSON_OBJECT:
        return "an object";
    }
    return "?";
}

uint64_t exg_json_offset(exg_json value)
{
    size_t at = exg_json_locate(value.doc->text, value.doc->length, value.at);

    return value.doc->file_offset == EXG_NO_OFFSET ? at : value.doc->file_offset + at;
}

exg_status exg_json_fault(exg_json value, exg_error *err, exg_status status, const char *code,
                          const char *format, ...)
{
    if (err != NULL) {
        char message[sizeof(err->message)];
        va_list args;

        va_start(args, format);
        vsnprintf(message, sizeof(message), format, args);
        va_end(args);
        exg_error_set(err, __FILE__, __LINE__, status, code, "%s", message);
        exg_error_at(err, status, exg_json_offset(value));
    }
    return status;
}

static exg_status wrong_type(exg_json value, const char *expected, exg_error *err)
{
    return exg_json_fault(value, err, EXG_MALFORMED, "JSN-002", "expected %s, found %s", expected,
                          type_name(exg_json_type_of(value)));
}

/* ---- scalars ------------------------------------------------------------------ */

exg_status exg_json_number_fault(exg_json value, exg_error *err)
{
    if (exg_json_type_of(value) == EXG_JSON_HUGE_INT) {
        return exg_json_fault(value, err, EXG_MALFORMED, "JSN-006",
                              "%llu does not fit a signed 64-bit integer",
                              (unsigned long long)value.doc->tape[value.at + 1]);
    }
    return wrong_type(value, "an integer", err);
}

exg_status exg_json_bool(exg_json value, bool *out, exg_error *err)
{
    exg_json_type type = exg_json_type_of(value);

    if (type != EXG_JSON_TRUE && type != EXG_JSON_FALSE) {
        return wrong_type(value, "a boolean", err);
    }
    *out = type == EXG_JSON_TRUE;
    return EXG_OK;
}

exg_status exg_json_double(exg_json value, double *out, exg_error *err)
{
    static const struct {
        const char *name;
        double value;
    } rows[] = {
        {"NaN", __builtin_nan("")}, {"Infinity", __builtin_inf()}, {"-Infinity", -__builtin_inf()}};
    exg_json_type type = exg_json_type_of(value);

    if (type == EXG_JSON_DOUBLE) {
        memcpy(out, &value.doc->tape[value.at + 1], sizeof(*out));
        return EXG_OK;
    }
    if (type == EXG_JSON_STRING) {
        uint32_t length;
        const char *text = exg_json_text_at(value.doc, value.at, &length);

        if (length > 0 && text[0] == '\0') { /* it was bare */
            text++;
            length--;
        }
        for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
            if (length == strlen(rows[r].name) && memcmp(text, rows[r].name, length) == 0) {
                *out = rows[r].value;
                return EXG_OK;
            }
        }
    }
    return wrong_type(value, "a float", err);
}

exg_status exg_json_string(exg_json value, const char **text, size_t *length, exg_error *err)
{
    uint32_t found;
    const char *s;

    if (exg_json_type_of(value) != EXG_JSON_STRING) {
        return wrong_type(value, "a string", err);
    }
    s = exg_json_text_at(value.doc, value.at, &found);
    if (memchr(s, '\0', found) != NULL) {
        return s[0] == '\0' && value.doc->rewritten != NULL
                   ? exg_json_fault(value, err, EXG_MALFORMED, "JSN-002",
                                    "expected a string, found a bare %s", s + 1)
                   : exg_json_fault(value, err, EXG_MALFORMED, "JSN-001",
                                    "the string holds a NUL character");
    }
    *text = s;
    if (length != NULL) {
        *length = found;
    }
    return EXG_OK;
}

/* ---- containers ---------------------------------------------------------------- */

uint32_t exg_json_count_long(exg_json value)
{
    exg_json_walk walk = {value.doc, value.at + 1, exg_json_after(value.doc, value.at) - 1};
    bool object = exg_json_type_of(value) == EXG_JSON_OBJECT;
    uint32_t count = 0;

    for (; walk.at < walk.end; count++) {
        walk.at = exg_json_after(walk.doc, walk.at + object);
    }
    return count;
}

exg_status exg_json_walk_fault(exg_json value, exg_json_type expected, exg_error *err)
{
    return wrong_type(value, type_name(expected), err);
}

bool exg_json_find(exg_json object, const char *key, exg_json *member)
{
    exg_json_walk walk = {0};
    const char *found;
    uint32_t length;

    if (exg_json_object(object, &walk, NULL) != EXG_OK) {
        return false;
    }
    while (exg_json_next_member(&walk, &found, &length, member)) {
        if (strcmp(found, key) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- keys ----------------------------------------------------------------------- */

typedef struct key_set {
    uint32_t *slots; /* tape index of a key, 0 = free */
    size_t capacity; /* power of two */
} key_set;

static exg_status bad_key(const exg_json_doc *doc, size_t at, exg_error *err)
{
    uint32_t length;
    const char *key = exg_json_text_at(doc, at, &length);

    if (memchr(key, '\0', length) != NULL) {
        return exg_json_fault((exg_json){doc, at}, err, EXG_MALFORMED, "JSN-001",
                              "a key holds a NUL character");
    }
    return exg_json_fault((exg_json){doc, at}, err, EXG_MALFORMED, "JSN-001",
                          "key \"%s\" appears twice in one object", key);
}

static bool same_key(const exg_json_doc *doc, size_t a, size_t b)
{
    uint32_t a_length;
    uint32_t b_length;
    const char *a_text = exg_json_text_at(doc, a, &a_length);
    const char *b_text = exg_json_text_at(doc, b, &b_length);

    return a_length == b_length && memcmp(a_text, b_text, a_length) == 0;
}

/* Length and the first four bytes: tells most keys apart. */
static uint64_t digest_of(const exg_json_doc *doc, size_t at, bool *has_nul)
{
    uint32_t length;
    uint32_t head = 0;
    const char *text = exg_json_text_at(doc, at, &length);

    memcpy(&head, text, length < sizeof(head) ? length : sizeof(head));
    *has_nul = memchr(text, '\0', length) != NULL;
    return (uint64_t)length << 32 | head;
}

static exg_status check_few_keys(const exg_json_doc *doc, size_t at, uint32_t count, exg_error *err)
{
    uint64_t digests[KEYS_COMPARED_DIRECTLY];
    size_t keys[KEYS_COMPARED_DIRECTLY];

    at++;
    for (uint32_t i = 0; i < count; i++) {
        bool has_nul;

        keys[i] = at;
        digests[i] = digest_of(doc, at, &has_nul);
        if (has_nul) {
            return bad_key(doc, at, err);
        }
        for (uint32_t j = 0; j < i; j++) {
            if (digests[i] == digests[j] && same_key(doc, keys[i], keys[j])) {
                return bad_key(doc, at, err);
            }
        }
        at = exg_json_after(doc, at + 1);
    }
    return EXG_OK;
}

static exg_status check_many_keys(const exg_json_doc *doc, size_t at, uint32_t count, key_set *set,
                                  exg_error *err)
{
    size_t capacity = 16;

    while (capacity < 2 * (size_t)count) {
        capacity *= 2;
    }
    if (capacity > set->capacity) {
        free(set->slots);
        set->capacity = capacity;
        set->slots = malloc(capacity * sizeof(*set->slots));
        if (set->slots == NULL) {
            return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
        }
    }
    memset(set->slots, 0, capacity * sizeof(*set->slots));
    at++;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t length;
        const char *key = exg_json_text_at(doc, at, &length);
        size_t slot = (size_t)XXH3_64bits(key, length) & (capacity - 1);

        if (memchr(key, '\0', length) != NULL) {
            return bad_key(doc, at, err);
        }
        for (; set->slots[slot] != 0; slot = (slot + 1) & (capacity - 1)) {
            if (same_key(doc, set->slots[slot], at)) {
                return bad_key(doc, at, err);
            }
        }
        set->slots[slot] = (uint32_t)at;
        at = exg_json_after(doc, at + 1);
    }
    return EXG_OK;
}

exg_status exg_json_check_keys(exg_json value, exg_error *err)
{
    const exg_json_doc *doc = value.doc;
    size_t end = exg_json_after(doc, value.at);
    key_set set = {NULL, 0};
    exg_status status = EXG_OK;

    for (size_t at = value.at; status == EXG_OK && at < end;) {
        char type = (char)(doc->tape[at] >> 56);

        if (type == '{') {
            uint32_t count = exg_json_count((exg_json){doc, at});

            status = count <= KEYS_COMPARED_DIRECTLY ? check_few_keys(doc, at, count, err)
                                                     : check_many_keys(doc, at, count, &set, err);
        }
        at += type == 'l' || type == 'u' || type == 'd' ? 2 : 1;
    }
    free(set.slots);
    return status;
}

exg_status exg_json_check_own_keys(exg_json value, exg_error *err)
{
    uint32_t count = exg_json_count(value);
    key_set set = {NULL, 0};
    exg_status status;

    if (exg_json_type_of(value) != EXG_JSON_OBJECT) {
        return EXG_OK;
    }
    status = count <= KEYS_COMPARED_DIRECTLY
                 ? check_few_keys(value.doc, value.at, count, err)
                 : check_many_keys(value.doc, value.at, count, &set, err);
    free(set.slots);
    return status;
}
