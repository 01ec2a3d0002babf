/* json.h - JSON as a C program likes to read it.
 *
 * exg_json_parse() checks a whole text at once (UTF-8, grammar, depth; no key
 * twice in one object and no NUL in keys unless told to leave that) and keeps it as a tape of
 * 64-bit words in file order, made by simdjson behind this face. An exg_json is a place on the
 * tape, to be passed by value. Integers are exact int64, doubles exact; strings
 * end in NUL and live as long as the document.
 *
 * Bare NaN, Infinity and -Infinity, which old files hold, are accepted, and so
 * are the strings of these names, but only where a double is asked for.
 *
 * Getters that take `err` fail with JSN-002 (wrong type), JSN-006 (does not fit)
 * or JSN-001, and tell the offset of the value.
 * Threads: a document is never written after parsing.
 */
#ifndef EXG_LIBEXPORT_FORMATS_JSON_H
#define EXG_LIBEXPORT_FORMATS_JSON_H

#include <exg/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EXG_JSON_DEPTH_MAX       512
#define EXG_JSON_COUNT_SATURATED 0xffffffu /* of the count on the tape */

/* One word is type << 56 | payload. A number takes a second word, a container's
 * payload is the word after its end | count << 32, a string's is its place among
 * the strings: uint32 length, bytes, NUL. */
typedef struct exg_json_doc {
    const uint64_t *tape;
    const uint8_t *strings;
    const char *text; /* as given, a copy */
    size_t length;
    uint64_t file_offset; /* of the text, or EXG_NO_OFFSET */
    void *buffers;        /* tape, strings and the parser's scratch, in one mapping */
    size_t buffer_bytes;
    char *rewritten; /* the text without bare NaN, when it had any */
} exg_json_doc;

typedef struct exg_json {
    const exg_json_doc *doc;
    size_t at;
} exg_json;

typedef enum exg_json_type {
    EXG_JSON_NULL = 'n',
    EXG_JSON_TRUE = 't',
    EXG_JSON_FALSE = 'f',
    EXG_JSON_INT = 'l',
    EXG_JSON_HUGE_INT = 'u', /* past int64, not past uint64 */
    EXG_JSON_DOUBLE = 'd',
    EXG_JSON_STRING = '"',
    EXG_JSON_ARRAY = '[',
    EXG_JSON_OBJECT = '{'
} exg_json_type;

/* EXG_JSON_KEYS_LATER leaves the check of keys to the reader, who sees most of
 * them anyway: exg_json_check_keys() on what it does not. */
typedef enum exg_json_keys { EXG_JSON_KEYS_NOW, EXG_JSON_KEYS_LATER } exg_json_keys;

/* Parses a copy of `text`. `file_offset` is added to offsets in errors. MALFORMED
 * (JSN-001), LIMIT (JSN-007 depth, JSN-008 size), NO_MEMORY. */
exg_status exg_json_parse(const void *text, size_t length, uint64_t file_offset, exg_json_keys keys,
                          exg_json_doc **doc, exg_error *err);
/* The whole of a file, or of a pipe. IO CLI-005. */
exg_status exg_json_open(const char *path, exg_json_doc **doc, exg_error *err);
void exg_json_free(exg_json_doc *doc); /* NULL is allowed */

static inline exg_json exg_json_root(const exg_json_doc *doc)
{
    exg_json root = {doc, 1};

    return root;
}

static inline exg_json_type exg_json_type_of(exg_json value)
{
    return (exg_json_type)(value.doc->tape[value.at] >> 56);
}

static inline bool exg_json_is_null(exg_json value)
{
    return exg_json_type_of(value) == EXG_JSON_NULL;
}

/* Offset of the value in the file (or in the text), for messages: slow. */
uint64_t exg_json_offset(exg_json value);

/* Fills `err` for a value that does not fit; `status` is its status. */
exg_status exg_json_fault(exg_json value, exg_error *err, exg_status status, const char *code,
                          const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ---- scalars ------------------------------------------------------------------ */

exg_status exg_json_number_fault(exg_json value, exg_error *err);

static inline exg_status exg_json_int(exg_json value, int64_t *out, exg_error *err)
{
    if (exg_json_type_of(value) != EXG_JSON_INT) {
        return exg_json_number_fault(value, err);
    }
    __builtin_memcpy(out, &value.doc->tape[value.at + 1], sizeof(*out));
    return EXG_OK;
}

exg_status exg_json_bool(exg_json value, bool *out, exg_error *err);
exg_status exg_json_double(exg_json value, double *out, exg_error *err); /* not from integers */

/* A string without NUL; `length` may be NULL. Borrowed from the document. */
exg_status exg_json_string(exg_json value, const char **text, size_t *length, exg_error *err);

/* ---- containers ---------------------------------------------------------------- */

typedef struct exg_json_walk {
    const exg_json_doc *doc;
    size_t at;
    size_t end;
} exg_json_walk;

/* The member of an object called `key`; false when there is none (or no object). */
bool exg_json_find(exg_json object, const char *key, exg_json *member);

static inline size_t exg_json_after(const exg_json_doc *doc, size_t at)
{
    uint64_t word = doc->tape[at];

    switch ((char)(word >> 56)) {
    case '{':
    case '[':
        return (size_t)(word & UINT32_MAX);
    case 'l':
    case 'u':
    case 'd':
        return at + 2;
    default:
        return at + 1;
    }
}

static inline const char *exg_json_text_at(const exg_json_doc *doc, size_t at, uint32_t *length)
{
    const uint8_t *s = doc->strings + (doc->tape[at] & ((UINT64_C(1) << 56) - 1));

    __builtin_memcpy(length, s, sizeof(*length));
    return (const char *)s + sizeof(*length);
}

/* Elements or members; of anything else 0. */
uint32_t exg_json_count_long(exg_json value);

static inline uint32_t exg_json_count(exg_json value)
{
    uint32_t count = (uint32_t)(value.doc->tape[value.at] >> 32) & EXG_JSON_COUNT_SATURATED;

    return exg_json_type_of(value) != EXG_JSON_ARRAY && exg_json_type_of(value) != EXG_JSON_OBJECT
               ? 0
           : count < EXG_JSON_COUNT_SATURATED ? count
                                              : exg_json_count_long(value);
}

/* Start a walk in file order; JSN-002 when the value is something else. */
exg_status exg_json_walk_fault(exg_json value, exg_json_type expected, exg_error *err);

static inline exg_status exg_json_start_walk(exg_json value, exg_json_type type,
                                             exg_json_walk *walk, exg_error *err)
{
    bool fits = exg_json_type_of(value) == type;

    walk->doc = value.doc; /* of anything else an empty walk */
    walk->at = fits ? value.at + 1 : 0;
    walk->end = fits ? exg_json_after(value.doc, value.at) - 1 : 0;
    return fits ? EXG_OK : exg_json_walk_fault(value, type, err);
}

static inline exg_status exg_json_array(exg_json value, exg_json_walk *walk, exg_error *err)
{
    return exg_json_start_walk(value, EXG_JSON_ARRAY, walk, err);
}

static inline exg_status exg_json_object(exg_json value, exg_json_walk *walk, exg_error *err)
{
    return exg_json_start_walk(value, EXG_JSON_OBJECT, walk, err);
}

/* The next element; false at the end. */
static inline bool exg_json_next(exg_json_walk *walk, exg_json *value)
{
    if (walk->at >= walk->end) {
        return false;
    }
    value->doc = walk->doc;
    value->at = walk->at;
    walk->at = exg_json_after(walk->doc, walk->at);
    return true;
}

/* The next member; false at the end. `key` is borrowed and holds no NUL. */
static inline bool exg_json_next_member(exg_json_walk *walk, const char **key, uint32_t *key_length,
                                        exg_json *value)
{
    if (walk->at >= walk->end) {
        return false;
    }
    *key = exg_json_text_at(walk->doc, walk->at, key_length);
    value->doc = walk->doc;
    value->at = walk->at + 1;
    walk->at = exg_json_after(walk->doc, walk->at + 1);
    return true;
}

/* Are no two keys of one object equal, in `value` and all below it, and has none a
 * NUL? JSN-001. The other looks at `value` alone. */
exg_status exg_json_check_keys(exg_json value, exg_error *err);
exg_status exg_json_check_own_keys(exg_json value, exg_error *err);

/* ---- for json.cpp ---------------------------------------------------------------- */

/* Bare NaN and Infinity become strings that begin with NUL. NULL with *failed
 * false when there are none. */
char *exg_json_without_bare_nan(const char *text, size_t length, size_t padding, size_t *new_length,
                                bool *failed);

/* Offset of tape word `word`, or of the first thing that is no JSON when that comes
 * before (`word` SIZE_MAX asks for it). `length` when the text ends too early. */
size_t exg_json_locate(const char *text, size_t length, size_t word);

#ifdef __cplusplus
}
#endif

#endif
