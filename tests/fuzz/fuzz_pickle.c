/* fuzz_pickle.c - any bytes as a pickle. */
#include "libexport/formats/pt2/pickle.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

/* Follows everything a value points to, some levels deep (values may be cyclic). */
static size_t walk(const exg_pickle_value *value, int depth)
{
    size_t sum = (size_t)value->kind;

    switch (value->kind) {
    case EXG_PICKLE_TUPLE:
    case EXG_PICKLE_LIST:
    case EXG_PICKLE_SET:
    case EXG_PICKLE_DICT:
        if (value->kind == EXG_PICKLE_DICT && value->as_items.count % 2 != 0) {
            abort();
        }
        for (uint32_t i = 0; i < value->as_items.count && i < 16 && depth > 0; i++) {
            sum += walk(value->as_items.items[i], depth - 1);
        }
        break;
    case EXG_PICKLE_STRING:
        sum += (size_t)value->as_text.data[value->as_text.length];
        break;
    case EXG_PICKLE_BYTES:
    case EXG_PICKLE_LONG:
        for (size_t i = 0; i < value->as_text.length; i++) {
            sum += (size_t)value->as_text.data[i];
        }
        break;
    case EXG_PICKLE_TENSOR:
        if (value->as_tensor->sizes->count != value->as_tensor->strides->count ||
            value->as_tensor->dtype >= EXG_DTYPE_COUNT) {
            abort();
        }
        for (uint32_t i = 0; i < value->as_tensor->sizes->count; i++) {
            sum += (size_t)value->as_tensor->sizes->items[i]->as_int;
        }
        sum += (size_t)value->as_tensor->storage->key[0];
        break;
    case EXG_PICKLE_OBJECT:
        if (depth > 0) {
            sum += walk(value->as_object->callee, depth - 1);
            if (value->as_object->state != NULL) {
                sum += walk(value->as_object->state, depth - 1);
            }
        }
        break;
    case EXG_PICKLE_NONE:
    case EXG_PICKLE_BOOL:
    case EXG_PICKLE_INT:
    case EXG_PICKLE_FLOAT:
    case EXG_PICKLE_COMPLEX:
    case EXG_PICKLE_GLOBAL:
    case EXG_PICKLE_STORAGE:
    case EXG_PICKLE_DEVICE:
        break;
    }
    return sum;
}

static void read_as(const uint8_t *data, size_t size, bool strict)
{
    exg_arena *arena = exg_arena_create(NULL, 64 * (uint64_t)size + 65536);
    exg_pickle_options options = {.strict = strict};
    exg_pickle pickle;
    exg_text text = EXG_TEXT_EMPTY;
    exg_error err;

    exg_error_clear(&err);
    if (arena != NULL) {
        if (exg_pickle_read(data, size, &options, arena, &pickle, &err) == EXG_OK) {
            size_t sum = walk(pickle.root, 5);

            exg_pickle_put(&text, pickle.root);
            __asm__ volatile("" : : "r"(sum)); /* everything was read */
        } else if (err.code[0] == '\0') {
            abort();
        }
    }
    exg_text_free(&text);
    exg_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_as(data, size, false);
    read_as(data, size, true);
    return 0;
}
