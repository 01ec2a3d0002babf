/* state.c - torch.save files inside archives: state dicts of generations B and C,
 * example inputs of all. Form: docs/pt2.md sections 2.5 and 2.6.
 */
#include "libexport/formats/pt2/archive.h"
#include "libexport/formats/pt2/samples.h"
#include "libexport/formats/pt2/saved.h"

#include <stdlib.h>
#include <string.h>

#define LEAVES_MAX 65536u
#define DEPTH_MAX  64

static exg_status open_saved(exg_archive *outer, const exg_zip_entry *entry, exg_weights *weights,
                             exg_saved *file, exg_error *err)
{
    const uint8_t *data = NULL;

    EXG_TRY(exg_archive_keep(outer, entry, weights, &data, err));
    return exg_saved_open(data, entry->bytes, outer->zip.base + entry->data_offset, true,
                          outer->arena, outer->inflate_left, weights, file, err);
}

/* ---- state dicts ------------------------------------------------------------------------------
 */

static exg_status add_tensor(exg_saved *file, exg_weight_table table, const char *name,
                             const exg_pickle_tensor *tensor, exg_error *err)
{
    exg_weight weight = {.fqn = name, .table = table, .is_param = tensor->is_param};

    EXG_TRY(exg_saved_meta(file, tensor, file->archive.arena, &weight.meta, &weight.storage, err));
    return exg_weights_add(file->weights, &weight, err);
}

static exg_status read_state(exg_archive *archive, const exg_zip_entry *entry,
                             exg_weight_table table, exg_weights *weights, exg_error *err)
{
    exg_saved file;
    exg_map names;

    EXG_TRY(open_saved(archive, entry, weights, &file, err));
    if (file.object == NULL) {
        return EXG_OK;
    }
    if (file.object->kind != EXG_PICKLE_DICT) {
        return EXG_FAIL(err, UNSUPPORTED, "PKL-STATE", "the state is not a dict");
    }
    exg_map_init(&names, archive->arena);
    for (uint32_t i = 0; i < file.object->as_items.count; i += 2) {
        const exg_pickle_value *key = file.object->as_items.items[i];
        const exg_pickle_value *value = file.object->as_items.items[i + 1];

        if (!exg_pickle_is_name(key) || value->kind != EXG_PICKLE_TENSOR) {
            return EXG_FAIL(err, UNSUPPORTED, "PKL-STATE", "the state holds more than tensors");
        }
        if (exg_map_find(&names, key->as_text.data) != EXG_MAP_NONE) {
            return EXG_FAIL(err, MALFORMED, "PKL-STATE", "the state holds %s twice",
                            key->as_text.data);
        }
        if (!exg_map_put(&names, key->as_text.data, i)) {
            return EXG_OUT_OF_MEMORY(err);
        }
        EXG_TRY_IN(err, add_tensor(&file, table, key->as_text.data, value->as_tensor, err),
                   "['%s']", key->as_text.data);
    }
    return EXG_OK;
}

exg_status exg_state_read(exg_archive *archive, const char *program, exg_weights *weights,
                          exg_error *err)
{
    static const struct {
        exg_weight_table table;
        const char *folder;
        const char *rootless;
    } rows[] = {{EXG_TABLE_STATE, "data/weights/", "serialized_state_dict.pt"},
                {EXG_TABLE_CONSTANTS, "data/constants/", "serialized_constants.pt"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const exg_zip_entry *entry =
            archive->generation == EXG_GENERATION_B
                ? exg_archive_find(archive, rows[i].rootless)
                : exg_archive_find3(archive, rows[i].folder, program, ".pt");

        if (entry == NULL) {
            return EXG_FAIL(err, MALFORMED, "ARC-006", "the record of the %s is missing",
                            rows[i].table == EXG_TABLE_STATE ? "state dict" : "constants");
        }
        EXG_TRY_IN(err, read_state(archive, entry, rows[i].table, weights, err), "%s",
                   exg_archive_name(archive, entry));
    }
    return EXG_OK;
}

/* ---- example inputs -----------------------------------------------------------------------------
 */

typedef struct leaf {
    const char *keyword;
    const exg_pickle_value *value;
} leaf;

typedef struct leaves {
    leaf *items;
    uint32_t count;
} leaves;

/* Gathers the leaves below `value`; false when something is no leaf we can keep. */
static bool flatten(leaves *found, const char *keyword, const exg_pickle_value *value, int depth)
{
    uint32_t step = value->kind == EXG_PICKLE_DICT ? 2 : 1;

    if (depth == 0) {
        return false;
    }
    switch (value->kind) {
    case EXG_PICKLE_TUPLE:
    case EXG_PICKLE_LIST:
    case EXG_PICKLE_DICT:
        for (uint32_t i = step - 1; i < value->as_items.count; i += step) {
            if (!flatten(found, keyword, value->as_items.items[i], depth - 1)) {
                return false;
            }
        }
        return true;
    case EXG_PICKLE_STRING:
        if (!exg_pickle_is_name(value)) {
            return false;
        }
        break;
    case EXG_PICKLE_NONE:
    case EXG_PICKLE_BOOL:
    case EXG_PICKLE_INT:
    case EXG_PICKLE_FLOAT:
    case EXG_PICKLE_TENSOR:
        break;
    case EXG_PICKLE_LONG:
    case EXG_PICKLE_COMPLEX:
    case EXG_PICKLE_BYTES:
    case EXG_PICKLE_SET:
    case EXG_PICKLE_GLOBAL:
    case EXG_PICKLE_STORAGE:
    case EXG_PICKLE_DEVICE:
    case EXG_PICKLE_OBJECT:
        return false;
    }
    if (found->count == LEAVES_MAX) {
        return false;
    }
    found->items[found->count++] = (leaf){keyword, value};
    return true;
}

/* (args, kwargs) */
static bool is_call(const exg_pickle_value *value)
{
    const exg_pickle_items *pair = &value->as_items;

    return value->kind == EXG_PICKLE_TUPLE && pair->count == 2 &&
           pair->items[0]->kind == EXG_PICKLE_TUPLE && pair->items[1]->kind == EXG_PICKLE_DICT;
}

/* Positional leaves, then those of each keyword. */
static bool flatten_call(leaves *found, const exg_pickle_value *call)
{
    const exg_pickle_items *pair = &call->as_items;

    if (!is_call(call) || !flatten(found, NULL, pair->items[0], DEPTH_MAX)) {
        return false;
    }
    for (uint32_t i = 0; i < pair->items[1]->as_items.count; i += 2) {
        const exg_pickle_value *key = pair->items[1]->as_items.items[i];

        if (!exg_pickle_is_name(key) ||
            !flatten(found, key->as_text.data, pair->items[1]->as_items.items[i + 1], DEPTH_MAX)) {
            return false;
        }
    }
    return true;
}

static exg_status keep_leaf(exg_saved *file, const leaf *from, exg_arena *arena,
                            exg_sample_input *to, exg_error *err)
{
    const exg_pickle_value *value = from->value;

    to->keyword = exg_arena_strdup(arena, from->keyword);
    if (from->keyword != NULL && to->keyword == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    to->kind = EXG_ARGUMENT_NONE;
    switch (value->kind) {
    case EXG_PICKLE_BOOL:
        to->kind = EXG_ARGUMENT_BOOL;
        to->as_bool = value->as_bool;
        return EXG_OK;
    case EXG_PICKLE_INT:
        to->kind = EXG_ARGUMENT_INT;
        to->as_int = value->as_int;
        return EXG_OK;
    case EXG_PICKLE_FLOAT:
        to->kind = EXG_ARGUMENT_FLOAT;
        to->as_float = value->as_float;
        return EXG_OK;
    case EXG_PICKLE_STRING:
        to->kind = EXG_ARGUMENT_STRING;
        to->as_string = exg_arena_strdup(arena, value->as_text.data);
        return to->as_string == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    case EXG_PICKLE_TENSOR:
        to->kind = EXG_ARGUMENT_TENSOR;
        return exg_saved_meta(file, value->as_tensor, arena, &to->meta, &to->storage, err);
    default: /* NONE; flatten() lets nothing else through */
        return EXG_OK;
    }
}

static exg_status keep_leaves(exg_saved *file, exg_program *program, exg_error *err)
{
    leaves found = {malloc(LEAVES_MAX * sizeof(leaf)), 0};
    exg_status status = EXG_OK;

    if (found.items == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (flatten_call(&found, file->object)) {
        program->sample_inputs = EXG_NEW_ARRAY(program->arena, exg_sample_input, found.count);
        status = program->sample_inputs == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
        for (uint32_t i = 0; i < found.count && status == EXG_OK; i++) {
            status =
                keep_leaf(file, &found.items[i], program->arena, &program->sample_inputs[i], err);
        }
        program->sample_input_count = status == EXG_OK ? found.count : 0;
    }
    free(found.items);
    return status;
}

exg_status exg_samples_read(exg_archive *archive, const char *name, exg_program *program,
                            exg_error *err)
{
    const exg_zip_entry *entry =
        archive->generation == EXG_GENERATION_B
            ? exg_archive_find(archive, "serialized_example_inputs.pt")
            : exg_archive_find3(archive, "data/sample_inputs/", name, ".pt");
    exg_saved file;
    exg_status status;

    if (entry == NULL) {
        return EXG_OK;
    }
    status = open_saved(archive, entry, program->weights, &file, err);
    if (status == EXG_OK && file.object != NULL) {
        status = keep_leaves(&file, program, err);
    }
    if (status == EXG_UNSUPPORTED || status == EXG_LIMIT) {
        exg_error_clear(err); /* they are an example: a program stands without them */
        return EXG_OK;
    }
    if (status != EXG_OK) {
        return exg_error_within(err, status, "%s", exg_archive_name(archive, entry));
    }
    return EXG_OK;
}

static exg_samples_form form_of(const exg_pickle_value *value)
{
    leaves found = {malloc(LEAVES_MAX * sizeof(leaf)), 0};
    exg_samples_form form = !is_call(value) ? EXG_SAMPLES_OTHER
                            : found.items == NULL || !flatten_call(&found, value)
                                ? EXG_SAMPLES_UNREAD
                            : found.count == 0 ? EXG_SAMPLES_NONE
                                               : EXG_SAMPLES_CALL;

    free(found.items);
    return form;
}

exg_samples_form exg_samples_form_of(const uint8_t *data, uint64_t length)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    uint64_t inflate_left = length; /* torch.save deflates nothing */
    exg_samples_form form = EXG_SAMPLES_UNREAD;
    exg_weights *weights = NULL;
    exg_saved file;

    if (arena != NULL && exg_weights_create(NULL, &weights, NULL) == EXG_OK &&
        exg_saved_open(data, length, 0, true, arena, &inflate_left, weights, &file, NULL) ==
            EXG_OK &&
        file.object != NULL) {
        form = form_of(file.object);
    }
    exg_weights_release(weights);
    exg_arena_destroy(arena);
    return form;
}
