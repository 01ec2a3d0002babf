/* json_scan.c - where in the text something stands: slow, for messages only, and
 * the pre-pass that takes bare NaN and Infinity out of old files.
 */
#include "libexport/formats/json.h"

#include <stdlib.h>
#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool ends_token(char c)
{
    return is_space(c) || c == ',' || c == ':' || c == ']' || c == '}' || c == '[' || c == '{' ||
           c == '"';
}

/* The end of the string that begins at `at`, or SIZE_MAX when it is not one. */
static size_t string_end(const char *text, size_t length, size_t at)
{
    for (size_t i = at + 1; i < length; i++) {
        if (text[i] == '"') {
            return i + 1;
        }
        if ((unsigned char)text[i] < 0x20) {
            return SIZE_MAX;
        }
        i += text[i] == '\\';
    }
    return SIZE_MAX;
}

static size_t token_end(const char *text, size_t length, size_t at)
{
    while (at < length && !ends_token(text[at])) {
        at++;
    }
    return at;
}

static bool token_is(const char *text, size_t from, size_t to, const char *word)
{
    return to - from == strlen(word) && memcmp(text + from, word, to - from) == 0;
}

static bool is_bare_nan(const char *text, size_t from, size_t to)
{
    return token_is(text, from, to, "NaN") || token_is(text, from, to, "Infinity") ||
           token_is(text, from, to, "-Infinity");
}

/* Tape words the scalar takes, 0 when it is none. Digits are not looked at in
 * detail: 'number' is what begins like one and holds nothing else. */
static size_t scalar_words(const char *text, size_t from, size_t to)
{
    if (token_is(text, from, to, "true") || token_is(text, from, to, "false") ||
        token_is(text, from, to, "null") || is_bare_nan(text, from, to)) {
        return 1;
    }
    for (size_t i = from; i < to; i++) {
        if (strchr("0123456789+-.eE", text[i]) == NULL || text[i] == '\0') {
            return 0;
        }
    }
    return to > from ? 2 : 0;
}

typedef enum expecting { VALUE, VALUE_OR_END, KEY, KEY_OR_END, COLON, COMMA_OR_END } expecting;

typedef struct scan {
    char closers[EXG_JSON_DEPTH_MAX]; /* of the open containers */
    size_t depth;
    expecting next;
    size_t word; /* of the token at hand */
} scan;

/* Takes a bracket; false when it does not belong here. */
static bool take_bracket(scan *s, char c)
{
    if (c == '{' || c == '[') {
        if ((s->next != VALUE && s->next != VALUE_OR_END) || s->depth == EXG_JSON_DEPTH_MAX) {
            return false;
        }
        s->closers[s->depth++] = c == '{' ? '}' : ']';
        s->next = c == '{' ? KEY_OR_END : VALUE_OR_END;
        return true;
    }
    if (s->depth == 0 || s->closers[s->depth - 1] != c || s->next == VALUE || s->next == KEY ||
        s->next == COLON) {
        return false;
    }
    s->depth--;
    s->next = COMMA_OR_END;
    return true;
}

static bool take_separator(scan *s, char c)
{
    if (c == ':' && s->next == COLON) {
        s->next = VALUE;
        return true;
    }
    if (c == ',' && s->next == COMMA_OR_END && s->depth > 0) {
        s->next = s->closers[s->depth - 1] == '}' ? KEY : VALUE;
        return true;
    }
    return false;
}

/* Takes a string or a scalar; its end, or SIZE_MAX when it does not belong here. */
static size_t take_token(scan *s, const char *text, size_t length, size_t at)
{
    bool key = s->next == KEY || s->next == KEY_OR_END;
    size_t end = text[at] == '"' ? string_end(text, length, at) : token_end(text, length, at);
    size_t words = text[at] == '"' ? 1 : end == SIZE_MAX ? 0 : scalar_words(text, at, end);

    if (end == SIZE_MAX || words == 0 || s->next == COLON || s->next == COMMA_OR_END ||
        (key && text[at] != '"')) {
        return SIZE_MAX;
    }
    s->next = key ? COLON : COMMA_OR_END;
    s->word += words;
    return end;
}

size_t exg_json_locate(const char *text, size_t length, size_t word)
{
    scan s = {.next = VALUE, .word = 1};
    size_t at = 0;

    for (;;) {
        while (at < length && is_space(text[at])) {
            at++;
        }
        if (at >= length) {
            return length;
        }
        if (s.depth == 0 && s.next == COMMA_OR_END) {
            return at; /* something after the end */
        }
        if (text[at] == ':' || text[at] == ',') {
            if (!take_separator(&s, text[at])) {
                return at;
            }
            at++;
            continue;
        }
        if (s.word == word) {
            return at;
        }
        if (strchr("{}[]", text[at]) != NULL && text[at] != '\0') {
            if (!take_bracket(&s, text[at])) {
                return at;
            }
            s.word++;
            at++;
        } else {
            size_t end = take_token(&s, text, length, at);

            if (end == SIZE_MAX) {
                return at;
            }
            at = end;
        }
    }
}

/* Copies `text` to `out` (NULL: only counts) and gives the length. */
static size_t rewrite(const char *text, size_t length, char *out, bool *found)
{
    static const char before[] = "\"\\u0000";
    size_t used = 0;
    size_t at = 0;

    while (at < length) {
        size_t end = at + 1;
        bool bare = false;

        if (text[at] == '"') {
            end = string_end(text, length, at);
            end = end == SIZE_MAX ? length : end;
        } else if (!ends_token(text[at])) {
            end = token_end(text, length, at);
            bare = is_bare_nan(text, at, end);
        }
        if (out != NULL && bare) {
            memcpy(out + used, before, sizeof(before) - 1);
            memcpy(out + used + sizeof(before) - 1, text + at, end - at);
            out[used + sizeof(before) - 1 + end - at] = '"';
        } else if (out != NULL) {
            memcpy(out + used, text + at, end - at);
        }
        used += end - at + (bare ? sizeof(before) : 0);
        *found = *found || bare;
        at = end;
    }
    return used;
}

char *exg_json_without_bare_nan(const char *text, size_t length, size_t padding, size_t *new_length,
                                bool *failed)
{
    bool found = false;
    char *out;

    *new_length = rewrite(text, length, NULL, &found);
    *failed = false;
    if (!found) {
        return NULL;
    }
    out = calloc(1, *new_length + padding);
    if (out == NULL) {
        *failed = true;
        return NULL;
    }
    rewrite(text, length, out, &found);
    return out;
}
