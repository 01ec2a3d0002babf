/* print_custom.c - a node's "custom" metadata the way FX shows it: JSON read as a
 * flat dict, shown as Python, long values cut off.
 */
#include "libexport/base/scan.h"
#include "libexport/program/print.h"

#include <stdlib.h>
#include <string.h>

#define SHOWN_MAX 40 /* characters of a value */

typedef struct cursor {
    exg_scan scan;
    bool failed;
} cursor;

/* Past a character that has to come; never past the end. */
static bool take(cursor *c, const char *wanted)
{
    c->failed = c->failed || !exg_scan_take(&c->scan, wanted);
    return !c->failed;
}

static void put_utf8(exg_text *out, unsigned point)
{
    if (point < 0x80) {
        exg_text_putc(out, (char)point);
    } else if (point < 0x800) {
        exg_text_putc(out, (char)(0xc0 | point >> 6));
        exg_text_putc(out, (char)(0x80 | (point & 0x3f)));
    } else {
        exg_text_putc(out, (char)(point < 0x10000 ? 0xe0 | point >> 12 : 0xf0 | point >> 18));
        if (point >= 0x10000) {
            exg_text_putc(out, (char)(0x80 | (point >> 12 & 0x3f)));
        }
        exg_text_putc(out, (char)(0x80 | (point >> 6 & 0x3f)));
        exg_text_putc(out, (char)(0x80 | (point & 0x3f)));
    }
}

/* The four digits behind "\\u" at `at`; false where that is not there. */
static bool read_unit(const char *at, unsigned *unit)
{
    char digits[5] = {0};

    if (at[0] != '\\' || at[1] != 'u' || strspn(at + 2, "0123456789abcdefABCDEF") < 4) {
        return false;
    }
    memcpy(digits, at + 2, 4);
    *unit = (unsigned)strtoul(digits, NULL, 16);
    return true;
}

/* "\\u20ac", or two of them: a pair of surrogates is one character, half a pair is none. */
static void read_point(cursor *c, exg_text *out)
{
    unsigned point = 0, low = 0;

    c->failed = c->failed || !read_unit(c->scan.at, &point);
    if (c->failed) {
        return;
    }
    c->scan.at += 6;
    if (point >= 0xd800 && point < 0xe000) {
        c->failed = point >= 0xdc00 || !read_unit(c->scan.at, &low) || (low & 0xfc00) != 0xdc00;
        if (c->failed) {
            return;
        }
        c->scan.at += 6;
        point = 0x10000 + ((point & 0x3ff) << 10 | (low & 0x3ff));
    }
    put_utf8(out, point);
}

/* Another character that a backslash stands before. */
static void read_escape(cursor *c, exg_text *out)
{
    static const char escapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    const char *e = escapes;

    while (*e != '\0' && *e != c->scan.at[1]) {
        e += 2;
    }
    c->failed = c->failed || *e == '\0';
    if (!c->failed) {
        exg_text_putc(out, e[1]);
        c->scan.at += 2;
    }
}

/* A JSON string, decoded. */
static void read_string(cursor *c, exg_text *out)
{
    (void)take(c, "\"");
    while (!c->failed && *c->scan.at != '"') {
        if (*c->scan.at == '\0') {
            c->failed = true;
        } else if (*c->scan.at != '\\') {
            exg_text_putc(out, *c->scan.at++);
        } else if (c->scan.at[1] == 'u') {
            read_point(c, out);
        } else {
            read_escape(c, out);
        }
    }
    c->scan.at += !c->failed;
}

static void read_value(cursor *c, exg_text *out, int depth);

/* A list or dict, as Python writes it. */
static void read_container(cursor *c, exg_text *out, char closer, int depth)
{
    bool first = true;

    exg_text_putc(out, *c->scan.at++);
    while (exg_scan_next(&c->scan) != closer && !c->failed) {
        if (!first && !take(c, ",")) {
            return;
        }
        exg_text_puts(out, first ? "" : ", ");
        read_value(c, out, depth - 1);
        if (closer == '}') {
            if (!take(c, ":")) {
                return;
            }
            exg_text_puts(out, ": ");
            read_value(c, out, depth - 1);
        }
        first = false;
    }
    if (!c->failed) {
        exg_text_putc(out, *c->scan.at++);
    }
}

static void read_value(cursor *c, exg_text *out, int depth)
{
    static const char *const words[][2] = {{"true", "True"}, {"false", "False"}, {"null", "None"}};

    char next = exg_scan_next(&c->scan);

    if (depth == 0) {
        c->failed = true;
        return;
    }
    if (next == '"') {
        exg_text text = EXG_TEXT_EMPTY;

        read_string(c, &text);
        exg_print_python_string(out, exg_text_part(out, &text));
        exg_text_free(&text);
        return;
    }
    if (next == '{' || next == '[') {
        read_container(c, out, next == '{' ? '}' : ']', depth);
        return;
    }
    for (size_t i = 0; i < 3; i++) {
        if (exg_scan_take(&c->scan, words[i][0])) {
            exg_text_puts(out, words[i][1]);
            return;
        }
    }
    {
        size_t length = strspn(c->scan.at, "+-0123456789.eE");

        c->failed = length == 0;
        exg_text_add(out, c->scan.at, length);
        c->scan.at += length;
    }
}

/* Where the first characters end; those of UTF-8 have up to four bytes. */
static size_t end_of_shown(const exg_text *text)
{
    size_t at = 0;

    for (size_t count = 0; at < text->length; at++) {
        count += ((unsigned char)text->data[at] & 0xc0) != 0x80;
        if (count > SHOWN_MAX) {
            break;
        }
    }
    return at;
}

/* A value's repr, or the repr of the first characters of its str. */
static void print_value(cursor *c, exg_text *out)
{
    exg_text text = EXG_TEXT_EMPTY;
    bool quoted;
    const char *shown;
    size_t end;

    quoted = exg_scan_next(&c->scan) == '"';
    if (quoted) {
        read_string(c, &text);
    } else {
        read_value(c, &text, 16);
    }
    end = text.failed ? text.length : end_of_shown(&text);
    if (end < text.length) {
        text.length = end;
        text.data[end] = '\0';
        exg_text_puts(&text, "...");
        quoted = true;
    }
    shown = exg_text_part(out, &text);
    if (quoted) {
        exg_print_python_string(out, shown);
    } else {
        exg_text_puts(out, shown);
    }
    exg_text_free(&text);
}

void exg_print_custom(exg_text *out, const char *json)
{
    cursor c = {{json, EXG_SCAN_SPACES}, false};
    exg_text text = EXG_TEXT_EMPTY;
    bool first = true;

    (void)take(&c, "{");
    while (!c.failed && exg_scan_next(&c.scan) != '}') {
        exg_text key = EXG_TEXT_EMPTY;

        if (!first && !take(&c, ",")) {
            break;
        }
        read_string(&c, &key);
        exg_text_puts(&text, first ? "" : ", ");
        exg_print_python_string(&text, exg_text_part(&text, &key));
        exg_text_free(&key);
        if (take(&c, ":")) {
            exg_text_puts(&text, ": ");
            print_value(&c, &text);
        }
        first = false;
    }
    if (!c.failed && !first) {
        exg_text_printf(out, "Annotation: {%s} ", exg_text_part(out, &text));
    }
    exg_text_free(&text);
}
