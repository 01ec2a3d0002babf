/* json_writer.h - JSON into a text, as Python's json.dumps writes it: ", " and ": ", ASCII, one
 * line.
 *
 *   exg_json_put_open(text, '{');
 *   exg_json_member_text(text, "name", name);
 *   exg_json_put_key(text, "sizes");
 *   exg_json_put_open(text, '[');
 *   exg_json_put_int(text, 2);
 *   exg_json_put_int(text, 3);
 *   exg_json_put_close(text, ']');
 *   exg_json_put_close(text, '}');            {"name": "x", "sizes": [2, 3]}
 *
 * Whatever is put has the comma in front of it that is due there: the text tells, by whether a
 * value ends it. Memory faults stick in the text.
 */
#ifndef EXG_JSON_WRITER_H
#define EXG_JSON_WRITER_H

#include <exg/status.h>
#include <exg/text.h>

#ifdef __cplusplus
extern "C" {
#endif

/* '{' or '[', and what ends it. */
void exg_json_put_open(exg_text *text, char bracket);
void exg_json_put_close(exg_text *text, char bracket);

/* The next value is the member `key` of an object. */
void exg_json_put_key(exg_text *text, const char *key);

void exg_json_put_null(exg_text *text);
void exg_json_put_bool(exg_text *text, bool value);
void exg_json_put_int(exg_text *text, int64_t value);
void exg_json_put_optional_int(exg_text *text, bool has, int64_t value); /* else null */
void exg_json_put_uint(exg_text *text, uint64_t value);
void exg_json_put_double(exg_text *text, double value);            /* as exg_text_json_double() */
void exg_json_put_fixed(exg_text *text, double value, int digits); /* "%.*f" */
void exg_json_put_text(exg_text *text, const char *string);        /* NULL becomes null */
void exg_json_put_raw(exg_text *text, const char *json);           /* a value as it is */

/* A key and its value, or the bracket that begins it. */
void exg_json_member_open(exg_text *text, const char *key, char bracket);
void exg_json_member_null(exg_text *text, const char *key);
void exg_json_member_bool(exg_text *text, const char *key, bool value);
void exg_json_member_int(exg_text *text, const char *key, int64_t value);
void exg_json_member_uint(exg_text *text, const char *key, uint64_t value);
void exg_json_member_double(exg_text *text, const char *key, double value);
void exg_json_member_fixed(exg_text *text, const char *key, double value, int digits);
void exg_json_member_text(exg_text *text, const char *key, const char *string);

/* How the whole went. NO_MEMORY, UNSUPPORTED. */
EXG_NODISCARD exg_status exg_json_written(const exg_text *text, exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
