/* checkpoint.c - torch.save of tensors in dicts and lists: names joined with dots.
 *
 * {"model": {"w": tensor}, "step": 3} gives the tensor model.w and the metadata
 * step = 3. Tied tensors share their storage; views keep strides and offset.
 */
#include "libexport/formats/pt2/saved.h"
#include "libexport/formats/weights_file.h"

#include <exg/text.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX  64
#define VALUES_MAX (1u << 24) /* lists may hold themselves, */
#define LEAF_BYTES 512        /* and what is told once may be named often */

/* What every torch.save before PyTorch 1.6 begins with. */
static const uint8_t legacy[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c,
                                 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

typedef struct walker {
    exg_saved file;
    exg_text name;
    uint32_t left;   /* values that may still be visited */
    uint64_t budget; /* bytes that names and descriptions may still take */
    exg_error *err;
} walker;

/* A root folder with data.pkl, and nothing that makes it a program or TorchScript. */
static bool is_of_checkpoint(void *user, const char *name, size_t length)
{
    const char *slash = memchr(name, '/', length);
    const char *rest = slash == NULL ? "" : slash + 1;
    size_t left = slash == NULL ? 0 : length - (size_t)(rest - name);
    bool *found = user;

    *found = *found || (left == 8 && memcmp(rest, "data.pkl", 8) == 0);
    return !(left >= 7 && memcmp(rest, "models/", 7) == 0) &&
           !(left == 13 && memcmp(rest, "constants.pkl", 13) == 0);
}

bool exg_checkpoint_sniff(const uint8_t *data, uint64_t length)
{
    bool found = false;

    return (length >= sizeof(legacy) && memcmp(data, legacy, sizeof(legacy)) == 0) ||
           (exg_zip_names(data, length, is_of_checkpoint, &found) && found);
}

static exg_status no_memory(walker *w)
{
    return EXG_OUT_OF_MEMORY(w->err);
}

static exg_status spend(walker *w)
{
    uint64_t bytes = w->name.length + LEAF_BYTES;

    if (bytes > w->budget) {
        return EXG_FAIL(w->err, LIMIT, "PKL-LIMIT",
                        "the checkpoint names more than its size allows");
    }
    w->budget -= bytes;
    return EXG_OK;
}

static exg_status add_tensor(walker *w, const exg_pickle_tensor *tensor)
{
    const char *name = exg_text_string(&w->name);
    exg_weight weight = {.fqn = name, .table = EXG_TABLE_STATE, .is_param = tensor->is_param};

    if (name == NULL) {
        return no_memory(w);
    }
    EXG_TRY(spend(w));
    EXG_TRY_IN(w->err,
               exg_saved_meta(&w->file, tensor, w->file.archive.arena, &weight.meta,
                              &weight.storage, w->err),
               "['%s']", name);
    return exg_weights_add(w->file.weights, &weight, w->err);
}

/* Numbers and texts beside the tensors; whatever else is there says nothing of them. */
static exg_status add_metadata(walker *w, const exg_pickle_value *value)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    EXG_TRY(spend(w));
    switch (value->kind) {
    case EXG_PICKLE_BOOL:
        exg_text_puts(&text, value->as_bool ? "True" : "False");
        break;
    case EXG_PICKLE_INT:
        exg_text_printf(&text, "%" PRId64, value->as_int);
        break;
    case EXG_PICKLE_FLOAT:
        exg_text_double(&text, value->as_float);
        break;
    case EXG_PICKLE_STRING:
        if (!exg_pickle_is_name(value)) {
            return EXG_OK;
        }
        exg_text_puts(&text, value->as_text.data);
        break;
    default:
        return EXG_OK;
    }
    status = exg_text_string(&text) == NULL || exg_text_string(&w->name) == NULL
                 ? no_memory(w)
                 : exg_weights_add_metadata(w->file.weights, exg_text_string(&w->name),
                                            exg_text_string(&text), w->err);
    exg_text_free(&text);
    return status;
}

static exg_status walk(walker *w, const exg_pickle_value *value, int depth);

/* ".key" behind the name, and what is there. */
static exg_status step_into(walker *w, const exg_pickle_value *key, uint32_t place,
                            const exg_pickle_value *value, int depth)
{
    size_t length = w->name.length;
    exg_status status;

    if (key != NULL && key->kind != EXG_PICKLE_INT && !exg_pickle_is_name(key)) {
        return EXG_FAIL(w->err, UNSUPPORTED, "PKL-STATE",
                        "%s has a key that is neither text nor a number",
                        length == 0 ? "the checkpoint" : exg_text_string(&w->name));
    }
    exg_text_puts(&w->name, length == 0 ? "" : ".");
    if (key == NULL) {
        exg_text_printf(&w->name, "%u", place);
    } else if (key->kind == EXG_PICKLE_INT) {
        exg_text_printf(&w->name, "%" PRId64, key->as_int);
    } else {
        exg_text_puts(&w->name, key->as_text.data);
    }
    status = w->name.failed ? no_memory(w) : walk(w, value, depth);
    w->name.length = length;
    if (w->name.data != NULL) {
        w->name.data[length] = '\0';
    }
    return status;
}

static exg_status walk(walker *w, const exg_pickle_value *value, int depth)
{
    const exg_pickle_items *items = &value->as_items;

    if (w->left-- == 0 || depth == DEPTH_MAX) {
        w->left = 0;
        return EXG_FAIL(w->err, LIMIT, "PKL-LIMIT", "the checkpoint nests too deep or too much");
    }
    switch (value->kind) {
    case EXG_PICKLE_TENSOR:
        return add_tensor(w, &value->as_tensor);
    case EXG_PICKLE_DICT:
        for (uint32_t i = 0; i + 1 < items->count; i += 2) {
            EXG_TRY(step_into(w, items->items[i], 0, items->items[i + 1], depth + 1));
        }
        return EXG_OK;
    case EXG_PICKLE_TUPLE:
    case EXG_PICKLE_LIST:
        for (uint32_t i = 0; i < items->count; i++) {
            EXG_TRY(step_into(w, NULL, i, items->items[i], depth + 1));
        }
        return EXG_OK;
    default:
        return add_metadata(w, value);
    }
}

exg_status exg_checkpoint_read(const exg_source *source, exg_weights *weights, exg_error *err)
{
    walker w = {.name = EXG_TEXT_EMPTY, .left = VALUES_MAX, .budget = source->budget, .err = err};
    uint64_t inflate_left = source->budget;
    exg_arena *arena = exg_arena_create(source->allocator, source->budget);
    exg_status status = arena == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    if (status == EXG_OK) {
        status = exg_saved_open(source->data, source->length, 0, arena, &inflate_left, weights,
                                &w.file, err);
    }
    if (status == EXG_OK) {
        status = walk(&w, w.file.object, 0);
    }
    status = exg_arena_settle(arena, status, err);
    exg_text_free(&w.name);
    exg_arena_destroy(arena);
    return status;
}
