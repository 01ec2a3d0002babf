/* text.c - appending, and the two forms that need care: doubles and JSON. */

#include <exg/text.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void exg_text_free(exg_text *text)
{
    free(text->data);
    *text = EXG_TEXT_EMPTY;
}

static bool reserve(exg_text *text, size_t more)
{
    size_t need;
    size_t capacity;
    char *data;

    if (text->failed || more >= SIZE_MAX / 2 - text->length) {
        text->failed = true;
        return false;
    }
    need = text->length + more + 1;
    if (need <= text->capacity) {
        return true;
    }
    capacity = text->capacity < 64 ? 64 : text->capacity;
    while (capacity < need) {
        capacity *= 2;
    }
    data = realloc(text->data, capacity);
    if (data == NULL) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void exg_text_add(exg_text *text, const char *data, size_t length)
{
    if (reserve(text, length)) {
        if (length > 0) {
            memcpy(text->data + text->length, data, length);
        }
        text->length += length;
        text->data[text->length] = '\0';
    }
}

void exg_text_puts(exg_text *text, const char *string)
{
    exg_text_add(text, string, strlen(string));
}

void exg_text_putc(exg_text *text, char c)
{
    exg_text_add(text, &c, 1);
}

void exg_text_count(exg_text *text, uint64_t count, const char *noun)
{
    exg_text_printf(text, "%" PRIu64 " %s%s", count, noun, count == 1 ? "" : "s");
}

void exg_text_printf(exg_text *text, const char *format, ...)
{
    va_list args;
    va_list again;
    int length;

    va_start(args, format);
    va_copy(again, args);
    length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    text->failed = text->failed || length < 0;
    if (length >= 0 && reserve(text, (size_t)length)) {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

/* Shortest digits that round-trip, laid out as Python's repr does: fixed
 * notation for exponents in [-4, 16), else d.ddde[+-]XX. snprintf may print a
 * locale's decimal sign, so digits are taken one by one and the point is ours. */
void exg_text_double(exg_text *text, double value)
{
    char raw[40];
    char digits[32];
    int count = 0;
    int exponent = 0;
    const char *c;

    if (isnan(value) || isinf(value)) {
        exg_text_puts(text, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    for (int precision = 0; precision < 18; precision++) {
        snprintf(raw, sizeof(raw), "%.*e", precision, value);
        if (strtod(raw, NULL) == value) {
            break;
        }
    }
    for (c = raw; *c != 'e'; c++) {
        if (*c >= '0' && *c <= '9') {
            digits[count++] = *c;
        }
    }
    exponent = atoi(c + 1);
    if (signbit(value)) {
        exg_text_putc(text, '-');
    }
    if (exponent < -4 || exponent >= 16) {
        exg_text_putc(text, digits[0]);
        if (count > 1) {
            exg_text_putc(text, '.');
            exg_text_add(text, digits + 1, (size_t)(count - 1));
        }
        exg_text_printf(text, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    if (exponent < 0) {
        exg_text_puts(text, "0.");
        for (int i = exponent; i < -1; i++) {
            exg_text_putc(text, '0');
        }
        exg_text_add(text, digits, (size_t)count);
        return;
    }
    for (int i = 0; i <= exponent || i < count; i++) {
        if (i == exponent + 1) {
            exg_text_putc(text, '.');
        }
        exg_text_putc(text, i < count ? digits[i] : '0');
    }
    if (count <= exponent + 1) {
        exg_text_puts(text, ".0");
    }
}

void exg_text_json_double(exg_text *text, double value)
{
    if (isfinite(value)) {
        exg_text_double(text, value);
    } else {
        exg_text_puts(text, isnan(value) ? "\"NaN\""
                            : value > 0  ? "\"Infinity\""
                                         : "\"-Infinity\"");
    }
}

/* glibc's locale "C" is a constant: nothing is allocated, nothing can fail. */
double exg_text_to_double(const char *text, char **end)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double value;

    if (c == (locale_t)0) {
        return strtod(text, end);
    }
    value = strtod_l(text, end, c);
    freelocale(c);
    return value;
}

/* One code point of UTF-8, or U+FFFD and one byte for anything else. */
static uint32_t next_code_point(const unsigned char **cursor)
{
    static const uint32_t smallest[] = {0, 0x80, 0x800, 0x10000};
    const unsigned char *c = *cursor;
    uint32_t point;
    int tail;

    (*cursor)++;
    if (c[0] < 0x80) {
        return c[0];
    }
    if (c[0] >= 0xc2 && c[0] <= 0xdf) {
        tail = 1;
        point = c[0] & 0x1fu;
    } else if (c[0] >= 0xe0 && c[0] <= 0xef) {
        tail = 2;
        point = c[0] & 0x0fu;
    } else if (c[0] >= 0xf0 && c[0] <= 0xf4) {
        tail = 3;
        point = c[0] & 0x07u;
    } else {
        return 0xfffd;
    }
    for (int i = 1; i <= tail; i++) {
        if ((c[i] & 0xc0) != 0x80) {
            return 0xfffd;
        }
        point = point << 6 | (c[i] & 0x3fu);
    }
    if (point < smallest[tail] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) {
        return 0xfffd;
    }
    *cursor += tail;
    return point;
}

void exg_text_json_string(exg_text *text, const char *string)
{
    if (string == NULL) {
        text->failed = true;
        return;
    }
    text->replaced = text->replaced || !exg_text_is_utf8(string, strlen(string));
    exg_text_json_bytes(text, string, strlen(string));
}

void exg_text_json_bytes(exg_text *text, const char *bytes, size_t length)
{
    static const char escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    const unsigned char *c = (const unsigned char *)bytes;
    const unsigned char *end = c + length;

    exg_text_putc(text, '"');
    while (c < end) {
        uint32_t point = next_code_point(&c);
        const char *escape = NULL;

        for (const char *e = escapes; *e != '\0'; e += 2) {
            if ((uint32_t)*e == point) {
                escape = e + 1;
            }
        }
        if (escape != NULL) {
            exg_text_putc(text, '\\');
            exg_text_putc(text, *escape);
        } else if (point >= 0x20 && point < 0x7f) {
            exg_text_putc(text, (char)point);
        } else if (point < 0x10000) {
            exg_text_printf(text, "\\u%04x", (unsigned)point);
        } else {
            exg_text_printf(text, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((point - 0x10000) >> 10)),
                            (unsigned)(0xdc00 + ((point - 0x10000) & 0x3ff)));
        }
    }
    exg_text_putc(text, '"');
}

const char *exg_text_part(exg_text *text, const exg_text *part)
{
    text->failed = text->failed || part->failed;
    return part->failed || part->data == NULL ? "" : part->data;
}

const char *exg_text_string(const exg_text *text)
{
    if (text->failed) {
        return NULL;
    }
    return text->data == NULL ? "" : text->data;
}

/* C1 controls (U+0080..9F) and U+200E..F, 202A..E, 2066..9 turn the direction. */
static uint32_t hidden_character(const unsigned char *c)
{
    uint32_t code = c[0] == 0xc2 ? 0x80u + (c[1] & 0x3f) : 0;

    if (c[0] == 0xe2 && (c[1] == 0x80 || c[1] == 0x81)) {
        code = 0x2000u + (c[1] & 0x3fu) * 64 + (c[2] & 0x3fu);
    }
    return (code >= 0x80 && code < 0xa0) || code == 0x200e || code == 0x200f ||
                   (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069)
               ? code
               : 0;
}

void exg_text_plain(exg_text *text, const char *string, bool lines)
{
    if (string == NULL) {
        text->failed = true;
        return;
    }
    for (const unsigned char *c = (const unsigned char *)string; *c != '\0'; c++) {
        uint32_t hidden = *c >= 0xc2 && c[1] != '\0' ? hidden_character(c) : 0;

        if ((*c < 0x20 && !(lines && (*c == '\n' || *c == '\t'))) || *c == 0x7f) {
            exg_text_printf(text, "\\x%02x", (unsigned)*c);
        } else if (hidden != 0) {
            exg_text_printf(text, "\\u{%04x}", hidden);
            c += hidden < 0x100 ? 1 : 2;
        } else {
            exg_text_putc(text, (char)*c);
        }
    }
}

bool exg_text_is_utf8(const char *bytes, size_t length)
{
    const unsigned char *s = (const unsigned char *)bytes;

    for (size_t i = 0; i < length;) {
        uint64_t eight = 0x80;
        size_t tail;
        uint32_t point;

        if (length - i >= sizeof(eight)) { /* of ASCII, at a time */
            memcpy(&eight, s + i, sizeof(eight));
        }
        if ((eight & 0x8080808080808080u) == 0) {
            i += sizeof(eight);
            continue;
        }
        tail = s[i] < 0x80 ? 0 : s[i] >= 0xf0 ? 3 : s[i] >= 0xe0 ? 2 : 1;
        point = tail == 0 ? s[i] : s[i] & (0x3fu >> tail);
        if ((s[i] >= 0x80 && s[i] < 0xc2) || s[i] > 0xf4 || i + tail >= length) {
            return false;
        }
        for (size_t t = 1; t <= tail; t++) {
            if ((s[i + t] & 0xc0) != 0x80) {
                return false;
            }
            point = point << 6 | (s[i + t] & 0x3fu);
        }
        if ((tail == 2 && (point < 0x800 || (point >= 0xd800 && point < 0xe000))) ||
            (tail == 3 && (point < 0x10000 || point > 0x10ffff))) {
            return false;
        }
        i += tail + 1;
    }
    return true;
}

/* In the largest of `count` units of 1000 of the one before that leaves less than a thousand: which
 * it is. */
static size_t scale(double *number, size_t count)
{
    size_t unit = 0;

    while (*number >= 999.5 && unit + 1 < count) {
        *number /= 1000;
        unit++;
    }
    return unit;
}

void exg_text_bytes(exg_text *text, uint64_t bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    double number = (double)bytes;
    size_t unit = scale(&number, sizeof(units) / sizeof(units[0]));

    if (bytes == 1) {
        exg_text_puts(text, "1 byte");
        return;
    }
    exg_text_printf(text,
                    unit == 0        ? "%.0f %s"
                    : number < 9.995 ? "%.2f %s"
                                     : "%.1f %s",
                    number, units[unit]);
}

void exg_text_ns(exg_text *text, double ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    double number = ns;
    size_t unit = scale(&number, sizeof(units) / sizeof(units[0]));

    exg_text_printf(text,
                    unit == 0 || number >= 99.95 ? "%.0f %s"
                    : number < 9.995             ? "%.2f %s"
                                                 : "%.1f %s",
                    number, units[unit]);
}
