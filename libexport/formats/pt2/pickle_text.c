/* pickle_text.c - values of a pickle as text, and by name. */
#include "libexport/formats/pt2/pickle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX      8  /* of a text; deeper is "..." */
#define DECIMAL_BYTES  64 /* longer integers are given in hexadecimal */
#define DECIMAL_DIGITS 170

bool exg_pickle_is_name(const exg_pickle_value *value)
{
    return value->kind == EXG_PICKLE_STRING &&
           memchr(value->as_text.data, '\0', value->as_text.length) == NULL &&
           exg_text_is_utf8(value->as_text.data, value->as_text.length);
}

exg_pickle_value *exg_pickle_get(const exg_pickle_value *dict, const char *key)
{
    uint32_t count = dict == NULL || dict->kind != EXG_PICKLE_DICT ? 0 : dict->as_items.count;

    for (uint32_t i = count; i >= 2; i -= 2) {
        const exg_pickle_value *k = dict->as_items.items[i - 2];

        if (k->kind == EXG_PICKLE_STRING && k->as_text.length == strlen(key) &&
            memcmp(k->as_text.data, key, k->as_text.length) == 0) {
            return dict->as_items.items[i - 1];
        }
    }
    return NULL;
}

exg_pickle_value *exg_pickle_attribute(const exg_pickle_value *state, const char *name)
{
    exg_pickle_value *found = NULL;

    if (state != NULL && state->kind == EXG_PICKLE_TUPLE) { /* (attributes, slots) */
        for (uint32_t i = 0; i < state->as_items.count && found == NULL; i++) {
            found = exg_pickle_get(state->as_items.items[i], name);
        }
        return found;
    }
    return exg_pickle_get(state, name);
}

bool exg_pickle_is_plain(const exg_pickle_value *value, int depth, uint32_t *left)
{
    if (*left == 0 || depth == 0) {
        return false;
    }
    --*left;
    switch (value->kind) {
    case EXG_PICKLE_TUPLE:
    case EXG_PICKLE_LIST:
    case EXG_PICKLE_SET:
        for (uint32_t i = 0; i < value->as_items.count; i++) {
            if (!exg_pickle_is_plain(value->as_items.items[i], depth - 1, left)) {
                return false;
            }
        }
        return !value->open;
    case EXG_PICKLE_GLOBAL:
        return value->as_global->tag != EXG_TAG_FOREIGN;
    case EXG_PICKLE_DICT:
    case EXG_PICKLE_STORAGE:
    case EXG_PICKLE_TENSOR:
    case EXG_PICKLE_OBJECT:
        return false;
    default:
        return true;
    }
}

/* ---- leaves ------------------------------------------------------------------------------ */

/* Bytes as they are where they are UTF-8 and no control characters, else \xNN. */
static void put_bytes(exg_text *text, const char *data, size_t length, bool is_text)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)data[i];

        if (c == '\'' || c == '\\') {
            exg_text_printf(text, "\\%c", c);
        } else if (c < 0x20 || c == 0x7f || (c > 0x7f && !is_text)) {
            exg_text_printf(text, "\\x%02x", c);
        } else {
            exg_text_putc(text, (char)c);
        }
    }
}

static void put_quoted(exg_text *text, const exg_pickle_text *of, const char *prefix)
{
    bool is_text = prefix[0] == '\0' && exg_text_is_utf8(of->data, of->length);

    exg_text_printf(text, "%s'", prefix);
    put_bytes(text, of->data, of->length, is_text);
    exg_text_putc(text, '\'');
}

/* A name out of a pickle, which may be any bytes. */
static void put_name(exg_text *text, const char *name)
{
    exg_text_is_utf8(name, strlen(name)) ? exg_text_puts(text, name)
                                         : put_bytes(text, name, strlen(name), false);
}

/* Little-endian bytes in two's complement, in decimal. */
static void put_decimal(exg_text *text, const exg_pickle_text *of)
{
    uint8_t bytes[DECIMAL_BYTES];
    char digits[DECIMAL_DIGITS];
    size_t at = sizeof(digits);
    bool is_negative = (of->data[of->length - 1] & 0x80) != 0;
    unsigned carry = is_negative;
    bool left = true;

    for (size_t i = 0; i < of->length; i++) {
        unsigned b = (uint8_t)of->data[i];

        b = (is_negative ? (~b & 0xff) : b) + carry;
        bytes[i] = (uint8_t)b;
        carry = b >> 8;
    }
    while (left && at > 1) {
        unsigned rest = 0;

        left = false;
        for (size_t i = of->length; i-- > 0;) {
            unsigned b = rest << 8 | bytes[i];

            bytes[i] = (uint8_t)(b / 10);
            rest = b % 10;
            left = left || bytes[i] != 0;
        }
        digits[--at] = (char)('0' + rest);
    }
    if (is_negative) {
        digits[--at] = '-';
    }
    exg_text_add(text, digits + at, sizeof(digits) - at);
}

static void put_long(exg_text *text, const exg_pickle_text *of)
{
    if (of->length <= DECIMAL_BYTES) {
        put_decimal(text, of);
        return;
    }
    exg_text_puts(text, "0x");
    for (size_t i = of->length; i-- > 0;) {
        exg_text_printf(text, "%02x", (uint8_t)of->data[i]);
    }
}

static void put_complex(exg_text *text, const exg_pickle_value *value)
{
    exg_text_putc(text, '(');
    exg_text_double(text, value->as_complex.real);
    if (!(value->as_complex.imag < 0)) {
        exg_text_putc(text, '+');
    }
    exg_text_double(text, value->as_complex.imag);
    exg_text_puts(text, "j)");
}

static void put_leaf(exg_text *text, const exg_pickle_value *value)
{
    switch (value->kind) {
    case EXG_PICKLE_NONE:
        exg_text_puts(text, "None");
        break;
    case EXG_PICKLE_BOOL:
        exg_text_puts(text, value->as_bool ? "True" : "False");
        break;
    case EXG_PICKLE_INT:
        exg_text_printf(text, "%" PRId64, value->as_int);
        break;
    case EXG_PICKLE_LONG:
        put_long(text, &value->as_text);
        break;
    case EXG_PICKLE_FLOAT:
        exg_text_double(text, value->as_float);
        break;
    case EXG_PICKLE_COMPLEX:
        put_complex(text, value);
        break;
    case EXG_PICKLE_STRING:
        put_quoted(text, &value->as_text, "");
        break;
    case EXG_PICKLE_BYTES:
        put_quoted(text, &value->as_text, "b");
        break;
    case EXG_PICKLE_DEVICE:
        put_name(text, value->as_text.data);
        break;
    default:
        exg_pickle_put_kind(text, value);
        break;
    }
}

void exg_pickle_put_kind(exg_text *text, const exg_pickle_value *value)
{
    static const char *const names[] = {[EXG_PICKLE_NONE] = "None",
                                        [EXG_PICKLE_BOOL] = "bool",
                                        [EXG_PICKLE_INT] = "int",
                                        [EXG_PICKLE_LONG] = "int",
                                        [EXG_PICKLE_FLOAT] = "float",
                                        [EXG_PICKLE_COMPLEX] = "complex",
                                        [EXG_PICKLE_STRING] = "str",
                                        [EXG_PICKLE_BYTES] = "bytes",
                                        [EXG_PICKLE_TUPLE] = "tuple",
                                        [EXG_PICKLE_LIST] = "list",
                                        [EXG_PICKLE_SET] = "set",
                                        [EXG_PICKLE_DICT] = "dict",
                                        [EXG_PICKLE_STORAGE] = "storage",
                                        [EXG_PICKLE_TENSOR] = "tensor",
                                        [EXG_PICKLE_DEVICE] = "torch.device"};

    if (value->kind == EXG_PICKLE_OBJECT && value->as_object->callee->kind != EXG_PICKLE_OBJECT) {
        value = value->as_object->callee;
    }
    if (value->kind == EXG_PICKLE_GLOBAL) {
        put_name(text, value->as_global->module);
        exg_text_putc(text, '.');
        put_name(text, value->as_global->name);
        return;
    }
    exg_text_puts(text,
                  value->kind == EXG_PICKLE_OBJECT ? "the result of a result" : names[value->kind]);
}

/* ---- whole values ------------------------------------------------------------------------ */

static void put(exg_text *text, const exg_pickle_value *value, int depth);

/* The items with commas; of pairs the keys, too. */
static void put_items(exg_text *text, const exg_pickle_items *items, bool pairs, bool names,
                      int depth)
{
    uint32_t step = pairs ? 2 : 1;

    for (uint32_t i = 0; i + step <= items->count && text->length <= EXG_PICKLE_TEXT_MAX;
         i += step) {
        exg_text_puts(text, i > 0 ? ", " : "");
        if (pairs && names && exg_pickle_is_name(items->items[i])) {
            exg_text_printf(text, "%s=", items->items[i]->as_text.data);
        } else if (pairs) {
            put(text, items->items[i], depth);
            exg_text_puts(text, ": ");
        }
        put(text, items->items[i + step - 1], depth);
    }
}

/* "Shard(dim=0)", "PosixPath('a', 'b')" */
static void put_object(exg_text *text, const exg_pickle_object *object, int depth)
{
    const exg_pickle_value *callee = object->callee;
    bool has_arguments = object->arguments != NULL && object->arguments->kind == EXG_PICKLE_TUPLE &&
                         object->arguments->as_items.count > 0;

    if (callee->kind == EXG_PICKLE_GLOBAL) {
        put_name(text, callee->as_global->name);
    }
    exg_text_putc(text, '(');
    if (has_arguments) {
        put_items(text, &object->arguments->as_items, false, false, depth);
    }
    if (object->state != NULL && object->state->kind == EXG_PICKLE_DICT) {
        exg_text_puts(text, has_arguments ? ", " : "");
        put_items(text, &object->state->as_items, true, true, depth);
    }
    exg_text_putc(text, ')');
}

static void put_bracketed(exg_text *text, const exg_pickle_value *value, int depth)
{
    static const char *const open[] = {[EXG_PICKLE_TUPLE] = "(",
                                       [EXG_PICKLE_LIST] = "[",
                                       [EXG_PICKLE_SET] = "{",
                                       [EXG_PICKLE_DICT] = "{"};
    static const char *const close[] = {[EXG_PICKLE_TUPLE] = ")",
                                        [EXG_PICKLE_LIST] = "]",
                                        [EXG_PICKLE_SET] = "}",
                                        [EXG_PICKLE_DICT] = "}"};

    if (value->kind == EXG_PICKLE_SET && value->as_items.count == 0) {
        exg_text_puts(text, "set()");
        return;
    }
    exg_text_puts(text, open[value->kind]);
    put_items(text, &value->as_items, value->kind == EXG_PICKLE_DICT, false, depth);
    if (value->kind == EXG_PICKLE_TUPLE && value->as_items.count == 1) {
        exg_text_putc(text, ',');
    }
    exg_text_puts(text, close[value->kind]);
}

static void put(exg_text *text, const exg_pickle_value *value, int depth)
{
    if (depth == 0) {
        exg_text_puts(text, "...");
        return;
    }
    switch (value->kind) {
    case EXG_PICKLE_TUPLE:
    case EXG_PICKLE_LIST:
    case EXG_PICKLE_SET:
    case EXG_PICKLE_DICT:
        put_bracketed(text, value, depth - 1);
        break;
    case EXG_PICKLE_OBJECT:
        put_object(text, value->as_object, depth - 1);
        break;
    default:
        put_leaf(text, value);
        break;
    }
}

void exg_pickle_put(exg_text *text, const exg_pickle_value *value)
{
    put(text, value, DEPTH_MAX);
}

void exg_pickle_put_plain(exg_text *text, const exg_pickle_value *value)
{
    if (exg_pickle_is_name(value)) {
        exg_text_puts(text, value->as_text.data);
    } else if (value->kind == EXG_PICKLE_STRING) {
        put_bytes(text, value->as_text.data, value->as_text.length,
                  exg_text_is_utf8(value->as_text.data, value->as_text.length));
    } else {
        exg_pickle_put(text, value);
    }
}
