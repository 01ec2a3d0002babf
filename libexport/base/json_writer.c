/* json_writer.c - brackets, commas, keys and values of JSON. */
#include "libexport/base/arena.h"
#include "libexport/base/require.h"

#include <ctype.h>
#include <exg/json_writer.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* The comma in front of what is put now, where a value ends the text. */
static void separate(exg_text *text)
{
    char last = text->length == 0 ? '\0' : text->data[text->length - 1];

    if (last == '"' || last == '}' || last == ']' || isalnum((unsigned char)last)) {
        exg_text_puts(text, ", ");
    }
}

void exg_json_put_open(exg_text *text, char bracket)
{
    separate(text);
    exg_text_putc(text, bracket);
}

void exg_json_put_close(exg_text *text, char bracket)
{
    exg_text_putc(text, bracket);
}

void exg_json_put_key(exg_text *text, const char *key)
{
    separate(text);
    exg_text_json_string(text, key);
    exg_text_puts(text, ": ");
}

void exg_json_put_raw(exg_text *text, const char *json)
{
    separate(text);
    exg_text_puts(text, json);
}

void exg_json_put_null(exg_text *text)
{
    exg_json_put_raw(text, "null");
}

void exg_json_put_bool(exg_text *text, bool value)
{
    exg_json_put_raw(text, value ? "true" : "false");
}

void exg_json_put_int(exg_text *text, int64_t value)
{
    separate(text);
    exg_text_printf(text, "%" PRId64, value);
}

void exg_json_put_optional_int(exg_text *text, bool has, int64_t value)
{
    if (has) {
        exg_json_put_int(text, value);
    } else {
        exg_json_put_null(text);
    }
}

void exg_json_put_uint(exg_text *text, uint64_t value)
{
    separate(text);
    exg_text_printf(text, "%" PRIu64, value);
}

void exg_json_put_double(exg_text *text, double value)
{
    separate(text);
    exg_text_json_double(text, value);
}

/* A locale's decimal sign is a point here. */
void exg_json_put_fixed(exg_text *text, double value, int digits)
{
    char raw[400];
    char number[400];
    size_t length = 0;

    if (!isfinite(value)) {
        exg_json_put_double(text, value);
        return;
    }
    snprintf(raw, sizeof(raw), "%.*f", digits < 64 ? digits : 64, value);
    for (const char *c = raw; *c != '\0'; c++) {
        if (isdigit((unsigned char)*c) || *c == '-') {
            number[length++] = *c;
        } else if (length > 0 && number[length - 1] != '.') {
            number[length++] = '.';
        }
    }
    number[length] = '\0';
    exg_json_put_raw(text, number);
}

void exg_json_put_text(exg_text *text, const char *string)
{
    if (string == NULL) {
        exg_json_put_null(text);
    } else {
        separate(text);
        exg_text_json_string(text, string);
    }
}

void exg_json_member_open(exg_text *text, const char *key, char bracket)
{
    exg_json_put_key(text, key);
    exg_json_put_open(text, bracket);
}

void exg_json_member_null(exg_text *text, const char *key)
{
    exg_json_put_key(text, key);
    exg_json_put_null(text);
}

void exg_json_member_bool(exg_text *text, const char *key, bool value)
{
    exg_json_put_key(text, key);
    exg_json_put_bool(text, value);
}

void exg_json_member_int(exg_text *text, const char *key, int64_t value)
{
    exg_json_put_key(text, key);
    exg_json_put_int(text, value);
}

void exg_json_member_uint(exg_text *text, const char *key, uint64_t value)
{
    exg_json_put_key(text, key);
    exg_json_put_uint(text, value);
}

void exg_json_member_double(exg_text *text, const char *key, double value)
{
    exg_json_put_key(text, key);
    exg_json_put_double(text, value);
}

void exg_json_member_fixed(exg_text *text, const char *key, double value, int digits)
{
    exg_json_put_key(text, key);
    exg_json_put_fixed(text, value, digits);
}

void exg_json_member_text(exg_text *text, const char *key, const char *string)
{
    exg_json_put_key(text, key);
    exg_json_put_text(text, string);
}

exg_status exg_json_written(const exg_text *text, exg_error *err)
{
    EXG_REQUIRE(err, text);
    if (text->failed) {
        return EXG_OUT_OF_MEMORY(err);
    }
    return text->replaced ? EXG_FAIL(err, UNSUPPORTED, "FMT-TEXT",
                                     "the program holds a text that is not UTF-8")
                          : EXG_OK;
}
