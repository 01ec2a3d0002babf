/* text.h - a text that grows.
 *
 * Memory faults stick: append freely, ask `failed`, or exg_text_string() for NULL, once at the
 * end. Numbers do not obey a locale. Threads: a text is used by one at a time.
 */
#ifndef EXG_TEXT_H
#define EXG_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct exg_text {
    char *data; /* always ends in NUL once something was appended; owned */
    size_t length;
    size_t capacity;
    bool failed;
    bool replaced; /* exg_text_json_string() met what is not UTF-8 */
} exg_text;

#define EXG_TEXT_EMPTY ((exg_text){NULL, 0, 0, false, false})

/* Frees the data; the text is empty again. */
void exg_text_free(exg_text *text);

/* Appends bytes, a string, a character. */
void exg_text_add(exg_text *text, const char *data, size_t length);
void exg_text_puts(exg_text *text, const char *string);
void exg_text_putc(exg_text *text, char c);
/* "1 node", "2 nodes": of a noun whose plural has an s. */
void exg_text_count(exg_text *text, uint64_t count, const char *noun);
void exg_text_printf(exg_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The shortest decimal that reads back as `value`, always with a point or an
 * exponent ("1.0", "1e-05"); inf, -inf and nan by these names (Python's repr). */
void exg_text_double(exg_text *text, double value);

/* The same as a JSON value: inf, -inf and nan as the strings "Infinity", "-Infinity"
 * and "NaN" that PyTorch's schema has for them. */
void exg_text_json_double(exg_text *text, double value);

/* strtod() with a point whatever the locale's decimal sign is. */
double exg_text_to_double(const char *text, char **end);

/* `string` in quotes with JSON's escapes, ASCII only (as Python's json.dumps);
 * bytes that are not UTF-8 become U+FFFD. Of NULL, a text without memory, `text` fails too. */
void exg_text_json_string(exg_text *text, const char *string);

/* The same of `length` bytes of UTF-8, in which NUL may be. */
void exg_text_json_bytes(exg_text *text, const char *bytes, size_t length);

/* `string` as it may go to a terminal: control characters and those that turn the
 * direction of writing as \xNN or \u{NNNN}, so that names from a file move no cursor
 * and hide nothing. With `lines` newlines and tabs stay. NULL as above. */
void exg_text_plain(exg_text *text, const char *string, bool lines);

/* For people, of three digits at least: "1 byte", "512 bytes", "1.54 kB", "623.1 MB" (powers of
 * 1000); "812 ns", "6.49 us", "1.20 s". */
void exg_text_bytes(exg_text *text, uint64_t bytes);
void exg_text_ns(exg_text *text, double ns);

/* Are `length` bytes UTF-8, without overlong forms and surrogates? */
bool exg_text_is_utf8(const char *bytes, size_t length);

/* The data of a text made apart, to be put into `text`, which fails where memory ran out for
 * `part`; "" then, and when it is empty. */
const char *exg_text_part(exg_text *text, const exg_text *part);

/* The data, or "" when empty, or NULL when memory ran out. Still owned. */
const char *exg_text_string(const exg_text *text);

#ifdef __cplusplus
}
#endif

#endif
