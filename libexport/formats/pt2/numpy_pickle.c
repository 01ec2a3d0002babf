/* numpy_pickle.c - how numpy.ndarray, numpy.generic and numpy.dtype are pickled. */
#include "libexport/formats/pt2/numpy_pickle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANK_MAX 64

/* numpy.dtype: its letters, and the order of its bytes. */
typedef struct array_dtype {
    exg_dtype dtype; /* EXG_DTYPE_COUNT: another */
    exg_byte_order order;
    const char *letters; /* "f4", or "" */
} array_dtype;

/* "f4" is "<f4", "b1" is "|b1". */
static void find_letters(array_dtype *found)
{
    char descr[8];

    for (const char *order = "<|"; *order != '\0' && found->dtype == EXG_DTYPE_COUNT; order++) {
        if (snprintf(descr, sizeof(descr), "%c%s", *order, found->letters) < (int)sizeof(descr)) {
            found->dtype = exg_dtype_from_numpy(descr);
        }
    }
}

static bool read_dtype(const exg_pickle_value *value, array_dtype *found)
{
    const exg_pickle_object *object = value->as_object;
    const exg_pickle_items *state;
    const exg_pickle_value *what;

    *found = (array_dtype){EXG_DTYPE_COUNT, EXG_LITTLE_ENDIAN, ""};
    if (value->kind != EXG_PICKLE_OBJECT || object->callee->kind != EXG_PICKLE_GLOBAL ||
        object->callee->as_global->tag != EXG_TAG_NUMPY_DTYPE || object->arguments == NULL ||
        object->arguments->kind != EXG_PICKLE_TUPLE || object->arguments->as_items.count == 0) {
        return false;
    }
    what = object->arguments->as_items.items[0];
    if (exg_pickle_is_name(what)) {
        found->letters = what->as_text.data;
    }
    if (what->kind == EXG_PICKLE_GLOBAL && strcmp(what->as_global->module, "ml_dtypes") == 0) {
        found->letters = what->as_global->name;
        found->dtype = exg_dtype_from_name(found->letters);
    } else {
        find_letters(found);
    }
    if (object->state != NULL && object->state->kind == EXG_PICKLE_TUPLE) {
        state = &object->state->as_items;
        if (state->count > 1 && state->items[1]->kind == EXG_PICKLE_STRING &&
            state->items[1]->as_text.length == 1 && state->items[1]->as_text.data[0] == '>') {
            found->order = EXG_BIG_ENDIAN;
        }
    }
    return found->letters[0] != '\0';
}

static bool is_raw(const exg_pickle_value *value)
{
    return value->kind == EXG_PICKLE_BYTES || value->kind == EXG_PICKLE_STRING;
}

/* UTF-32 without its zeros at the end. */
static void put_utf32(exg_text *text, const exg_pickle_text *raw, exg_byte_order order)
{
    size_t end = raw->length / 4;

    for (size_t i = 0; i < end; i++) {
        const uint8_t *b = (const uint8_t *)raw->data + 4 * i;
        uint32_t c = order == EXG_BIG_ENDIAN
                         ? (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3]
                         : (uint32_t)b[3] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[1] << 8 | b[0];

        if (c == 0) {
            return;
        }
        if (c < 0x80) {
            exg_text_putc(text, (char)c);
        } else if (c < 0x800) {
            exg_text_printf(text, "%c%c", (int)(0xc0 | c >> 6), (int)(0x80 | (c & 63)));
        } else if (c < 0x10000 && (c < 0xd800 || c > 0xdfff)) {
            exg_text_printf(text, "%c%c%c", (int)(0xe0 | c >> 12), (int)(0x80 | (c >> 6 & 63)),
                            (int)(0x80 | (c & 63)));
        } else if (c >= 0x10000 && c < 0x110000) {
            exg_text_printf(text, "%c%c%c%c", (int)(0xf0 | c >> 18), (int)(0x80 | (c >> 12 & 63)),
                            (int)(0x80 | (c >> 6 & 63)), (int)(0x80 | (c & 63)));
        } else {
            exg_text_printf(text, "\\u%08x", c);
        }
    }
}

/* Arrays of `shape` with `raw` as their bytes. */
static exg_status read_array(const exg_pickle_value *shape, const exg_pickle_value *dtype,
                             bool column_major, exg_pickle_value *raw, exg_arena *arena,
                             exg_numpy *numpy, exg_text *text, exg_error *err)
{
    uint32_t rank = shape == NULL ? 0 : shape->as_items.count;
    int64_t *sizes = EXG_NEW_ARRAY(arena, int64_t, rank);
    array_dtype of;
    uint64_t bytes;

    if (sizes == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (!read_dtype(dtype, &of)) {
        return EXG_OK;
    }
    snprintf(numpy->descr, sizeof(numpy->descr), "%s", of.letters);
    for (uint32_t d = 0; d < rank; d++) {
        if (shape->as_items.items[d]->kind != EXG_PICKLE_INT) {
            return EXG_OK;
        }
        sizes[d] = shape->as_items.items[d]->as_int;
    }
    if (raw->kind == EXG_PICKLE_LIST) {
        numpy->form = EXG_NUMPY_OBJECTS;
        numpy->objects = raw;
    } else if (is_raw(raw) && of.letters[0] == 'U' && rank == 0) {
        put_utf32(text, &raw->as_text, of.order);
        numpy->form = EXG_NUMPY_TEXT;
    } else if (is_raw(raw) && of.dtype != EXG_DTYPE_COUNT && rank <= RANK_MAX &&
               exg_shape_bytes(sizes, rank, of.dtype, &bytes) && bytes == raw->as_text.length) {
        numpy->form = EXG_NUMPY_DENSE;
        numpy->dense = (exg_dense){.dtype = of.dtype,
                                   .rank = rank,
                                   .shape = sizes,
                                   .column_major = column_major,
                                   .byte_order = of.order,
                                   .data = (const uint8_t *)raw->as_text.data,
                                   .bytes = bytes};
    }
    return EXG_OK;
}

/* ndarray.__setstate__: (version, shape, dtype, is Fortran's, data) */
static exg_status read_state(const exg_pickle_value *state, exg_arena *arena, exg_numpy *numpy,
                             exg_text *text, exg_error *err)
{
    exg_pickle_value **s = state == NULL ? NULL : state->as_items.items;

    if (state == NULL || state->kind != EXG_PICKLE_TUPLE || state->as_items.count != 5 ||
        s[1]->kind != EXG_PICKLE_TUPLE) {
        return EXG_OK;
    }
    return read_array(s[1], s[2],
                      (s[3]->kind == EXG_PICKLE_BOOL && s[3]->as_bool) ||
                          (s[3]->kind == EXG_PICKLE_INT && s[3]->as_int != 0),
                      s[4], arena, numpy, text, err);
}

exg_status exg_numpy_read(const exg_pickle_object *object, exg_arena *arena, exg_numpy *numpy,
                          exg_text *text, exg_error *err)
{
    const exg_pickle_value *arguments = object->arguments;
    exg_pickle_value **a;
    uint32_t count;

    *numpy = (exg_numpy){.form = EXG_NUMPY_NONE};
    if (arguments == NULL || arguments->kind != EXG_PICKLE_TUPLE) {
        return EXG_OK;
    }
    a = arguments->as_items.items;
    count = arguments->as_items.count;
    switch (object->callee->as_global->tag) {
    case EXG_TAG_NUMPY_SCALAR:
        return count == 2 ? read_array(NULL, a[0], false, a[1], arena, numpy, text, err) : EXG_OK;
    case EXG_TAG_NUMPY_FROMBUFFER:
        return count == 4 && a[2]->kind == EXG_PICKLE_TUPLE && exg_pickle_is_name(a[3])
                   ? read_array(a[2], a[1], a[3]->as_text.data[0] == 'F', a[0], arena, numpy, text,
                                err)
                   : EXG_OK;
    default:
        return read_state(object->state, arena, numpy, text, err);
    }
}
