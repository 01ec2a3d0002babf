/* canonical_json.c - members in the order of their keys, no blanks. */
#include "libexport/artifact/canonical_json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct member {
    const char *key;
    uint32_t length;
    exg_json value;
} member;

/* By code points, as bytes of UTF-8 are. */
static int by_key(const void *a, const void *b)
{
    const member *x = a;
    const member *y = b;
    int order = memcmp(x->key, y->key, x->length < y->length ? x->length : y->length);

    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

static bool is_left_out(const exg_canonical *c, exg_json value)
{
    for (uint32_t i = 0; i < c->left_out_count; i++) {
        if (c->left_out[i] == value.at) {
            return true;
        }
    }
    return false;
}

static exg_status put_object(const exg_canonical *c, exg_json value, exg_error *err)
{
    member *members = EXG_NEW_ARRAY(c->arena, member, exg_json_count(value));
    uint32_t count = 0;
    exg_json_walk walk;
    member m;

    if (members == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_json_object(value, &walk, err));
    while (exg_json_next_member(&walk, &m.key, &m.length, &m.value)) {
        if (!is_left_out(c, m.value)) {
            members[count++] = m;
        }
    }
    if (count > 0) {
        qsort(members, count, sizeof(*members), by_key);
    }
    exg_text_putc(c->out, '{');
    for (uint32_t i = 0; i < count; i++) {
        exg_text_puts(c->out, i == 0 ? "" : ",");
        exg_text_json_bytes(c->out, members[i].key, members[i].length);
        exg_text_putc(c->out, ':');
        EXG_TRY(exg_json_put_canonical(c, members[i].value, err));
    }
    exg_text_putc(c->out, '}');
    return EXG_OK;
}

static exg_status put_array(const exg_canonical *c, exg_json value, exg_error *err)
{
    exg_json_walk walk;
    exg_json item;
    bool is_first = true;

    EXG_TRY(exg_json_array(value, &walk, err));
    exg_text_putc(c->out, '[');
    while (exg_json_next(&walk, &item)) {
        exg_text_puts(c->out, is_first ? "" : ",");
        is_first = false;
        EXG_TRY(exg_json_put_canonical(c, item, err));
    }
    exg_text_putc(c->out, ']');
    return EXG_OK;
}

static exg_status put_double(const exg_canonical *c, exg_json value, exg_error *err)
{
    double number;

    EXG_TRY(exg_json_double(value, &number, err));
    exg_text_double(c->out, number);
    return EXG_OK;
}

exg_status exg_json_put_canonical(const exg_canonical *c, exg_json value, exg_error *err)
{
    const exg_json_type type = exg_json_type_of(value);
    const char *text;
    uint32_t length;

    switch (type) {
    case EXG_JSON_OBJECT:
        return put_object(c, value, err);
    case EXG_JSON_ARRAY:
        return put_array(c, value, err);
    case EXG_JSON_DOUBLE:
        return put_double(c, value, err);
    case EXG_JSON_STRING:
        text = exg_json_text_at(value.doc, value.at, &length);
        exg_text_json_bytes(c->out, text, length);
        break;
    case EXG_JSON_INT:
        exg_text_printf(c->out, "%" PRId64, (int64_t)value.doc->tape[value.at + 1]);
        break;
    case EXG_JSON_HUGE_INT:
        exg_text_printf(c->out, "%" PRIu64, value.doc->tape[value.at + 1]);
        break;
    case EXG_JSON_TRUE:
    case EXG_JSON_FALSE:
    case EXG_JSON_NULL:
        exg_text_puts(c->out, type == EXG_JSON_TRUE    ? "true"
                              : type == EXG_JSON_FALSE ? "false"
                                                       : "null");
        break;
    }
    return EXG_OK;
}
