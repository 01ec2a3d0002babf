/* gguf_value.c - values of the metadata of GGUF, made of their texts. */
#include "libexport/formats/gguf_value.h"

#include "libexport/base/base64.h"
#include "libexport/base/little.h"
#include "libexport/formats/json.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *kind;
    uint32_t bytes;
} rows[] = {
#define EXG_GGUF_VALUE(id, kind, bytes) {kind, bytes},
#include "libexport/formats/gguf_value.def"
#undef EXG_GGUF_VALUE
};

const char *exg_gguf_value_kind(exg_gguf_value type)
{
    return rows[type].kind;
}

uint32_t exg_gguf_value_bytes(exg_gguf_value type)
{
    return rows[type].bytes;
}

/* The type called by the first `length` bytes of `kind`; COUNT: none is. */
static exg_gguf_value find_type(const char *kind, size_t length)
{
    int type = 0;

    while (type < EXG_GGUF_VALUE_COUNT &&
           (strlen(rows[type].kind) != length || memcmp(rows[type].kind, kind, length) != 0)) {
        type++;
    }
    return (exg_gguf_value)type;
}

static exg_status no_value(const char *kind, exg_error *err)
{
    return EXG_FAIL(err, USAGE, "GGUF-VALUE", "the text is no value of the kind %s", kind);
}

static void put_bytes(exg_text *out, const char *bytes, size_t length)
{
    exg_text_little(out, length, 8);
    exg_text_add(out, bytes, length);
}

static void put_real(exg_text *out, exg_gguf_value type, double value)
{
    float single = (float)value;
    uint32_t low;
    uint64_t bits;

    memcpy(&low, &single, sizeof(low));
    memcpy(&bits, &value, sizeof(bits));
    exg_text_little(out, type == EXG_GGUF_F32 ? low : bits, rows[type].bytes);
}

/* A number as it stands in a text: "-3", "0.25", "inf", "true". */
static bool put_number(exg_text *out, exg_gguf_value type, const char *text)
{
    bool is_real = type == EXG_GGUF_F32 || type == EXG_GGUF_F64;
    char *end = NULL;

    if (type == EXG_GGUF_BOOL) {
        exg_text_little(out, strcmp(text, "true") == 0, 1);
        return strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
    }
    if (is_real) {
        put_real(out, type, strtod(text, &end));
    } else {
        exg_text_little(
            out, text[0] == '-' ? (uint64_t)strtoll(text, &end, 10) : strtoull(text, &end, 10),
            rows[type].bytes);
    }
    return end != text && *end == '\0';
}

static exg_status put_base64(exg_text *out, const char *text, exg_error *err)
{
    size_t length = strlen(text);
    unsigned char *bytes = malloc(exg_base64_bytes_max(length) + 1);
    size_t count = 0;
    exg_status status = EXG_OK;

    if (bytes == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (exg_base64_decode(text, length, bytes, &count)) {
        put_bytes(out, (const char *)bytes, count);
    } else {
        status = no_value("bytes", err);
    }
    free(bytes);
    return status;
}

/* ---- lists -------------------------------------------------------------------------------- */

/* A string of JSON, with NUL in it or not. */
static void put_string(exg_text *out, exg_json value)
{
    const uint8_t *at = value.doc->strings + (value.doc->tape[value.at] & 0xffffffffffffff);
    uint32_t length;

    memcpy(&length, at, sizeof(length));
    put_bytes(out, (const char *)at + sizeof(length), length);
}

static exg_status put_json_number(exg_text *out, exg_gguf_value type, exg_json value,
                                  exg_error *err)
{
    bool is_real = type == EXG_GGUF_F32 || type == EXG_GGUF_F64;
    const char *text = "";
    int64_t whole;
    double real;

    switch (exg_json_type_of(value)) {
    case EXG_JSON_TRUE:
    case EXG_JSON_FALSE:
        exg_text_little(out, exg_json_type_of(value) == EXG_JSON_TRUE, rows[type].bytes);
        return EXG_OK;
    case EXG_JSON_STRING: /* "NaN", "-Infinity" */
        EXG_TRY(exg_json_string(value, &text, NULL, err));
        return put_number(out, type, text) ? EXG_OK : no_value(rows[type].kind, err);
    case EXG_JSON_INT:
    case EXG_JSON_HUGE_INT:
        memcpy(&whole, &value.doc->tape[value.at + 1], sizeof(whole));
        if (is_real) {
            put_real(out, type, (double)whole);
        } else {
            exg_text_little(out, (uint64_t)whole, rows[type].bytes);
        }
        return EXG_OK;
    default:
        EXG_TRY(exg_json_double(value, &real, err));
        put_real(out, type, real);
        return is_real ? EXG_OK : no_value(rows[type].kind, err);
    }
}

static exg_status put_list(exg_text *out, exg_gguf_value item, exg_json list, exg_error *err);

/* {"bytes": "<base64>"} in a list of texts, {"u8": [1, 2]} in a list of lists. */
static exg_status put_object(exg_text *out, exg_gguf_value type, exg_json value, exg_error *err)
{
    exg_json_walk walk = {0};
    exg_json member;
    const char *key;
    uint32_t length;
    exg_gguf_value item;
    const char *text = "";

    EXG_TRY(exg_json_object(value, &walk, err));
    if (!exg_json_next_member(&walk, &key, &length, &member)) {
        return no_value(rows[type].kind, err);
    }
    if (type == EXG_GGUF_STRING) {
        EXG_TRY(exg_json_string(member, &text, NULL, err));
        return put_base64(out, text, err);
    }
    item = find_type(key, length);
    return item == EXG_GGUF_VALUE_COUNT ? no_value("list", err) : put_list(out, item, member, err);
}

static exg_status put_item(exg_text *out, exg_gguf_value type, exg_json value, exg_error *err)
{
    if (type == EXG_GGUF_LIST || exg_json_type_of(value) == EXG_JSON_OBJECT) {
        return put_object(out, type, value, err);
    }
    if (type == EXG_GGUF_STRING) {
        if (exg_json_type_of(value) != EXG_JSON_STRING) {
            return no_value("str", err);
        }
        put_string(out, value);
        return EXG_OK;
    }
    return put_json_number(out, type, value, err);
}

static exg_status put_list(exg_text *out, exg_gguf_value item, exg_json list, exg_error *err)
{
    exg_json_walk walk = {0};
    exg_json value;

    EXG_TRY(exg_json_array(list, &walk, err));
    exg_text_little(out, (uint64_t)item, 4);
    exg_text_little(out, exg_json_count(list), 8);
    while (exg_json_next(&walk, &value)) {
        EXG_TRY(put_item(out, item, value, err));
    }
    return EXG_OK;
}

static exg_status put_text_list(exg_text *out, exg_gguf_value item, const char *text,
                                exg_error *err)
{
    exg_json_doc *doc = NULL;
    exg_status status;

    EXG_TRY(exg_json_parse(text, strlen(text), 0, EXG_JSON_KEYS_NOW, &doc, err));
    status = put_list(out, item, exg_json_root(doc), err);
    exg_json_free(doc);
    return status;
}

exg_status exg_gguf_value_put(exg_text *out, const char *kind, const char *text, exg_error *err)
{
    const char *bracket = kind == NULL ? NULL : strchr(kind, '[');
    exg_gguf_value type;

    if (kind == NULL || strcmp(kind, "bytes") == 0) {
        exg_text_little(out, EXG_GGUF_STRING, 4);
        if (kind != NULL) {
            return put_base64(out, text, err);
        }
        put_bytes(out, text, strlen(text));
        return EXG_OK;
    }
    type = find_type(kind, bracket == NULL ? strlen(kind) : (size_t)(bracket - kind));
    if (type == EXG_GGUF_VALUE_COUNT) { /* of another format: its text */
        return exg_gguf_value_put(out, NULL, text, err);
    }
    exg_text_little(out, bracket == NULL ? (uint64_t)type : EXG_GGUF_LIST, 4);
    if (bracket != NULL) {
        return put_text_list(out, type, text, err);
    }
    return put_number(out, type, text) ? EXG_OK : no_value(kind, err);
}
