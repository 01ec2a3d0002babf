/* extents.c - where the tensors of a file lie in it. */
#include "libexport/artifact/extents.h"

#include "libexport/formats/weights_file.h"
#include "libexport/weights/frames.h"

#include <stdlib.h>
#include <string.h>

static exg_status add(exg_extents *extents, const exg_extent *extent, exg_error *err)
{
    if (!exg_arena_reserve(extents->arena, &extents->items, extents->count, &extents->capacity,
                           sizeof(exg_extent))) {
        return EXG_OUT_OF_MEMORY(err);
    }
    extents->items[extents->count++] = *extent;
    return EXG_OK;
}

/* What is stored of a weight lies in the mapped file, or elsewhere. */
static exg_status add_weight(exg_extents *extents, const exg_weights *weights,
                             const exg_weight *weight, const char *program, exg_error *err)
{
    const exg_mapping *mapping = &extents->mapping;
    const exg_storage *storage = &weights->storages[weight->storage];
    exg_extent extent = {.width = 1};

    if (storage->kind == EXG_STORAGE_FRAMES && storage->location == NULL) {
        extent.length = storage->frames->stored_length;
    } else if (storage->kind == EXG_STORAGE_MEMORY) {
        extent.length = storage->length;
        if (weight->encoding == NULL) {
            extent.width = (uint32_t)exg_dtype_bytes(weight->meta->dtype);
            extent.width /= exg_dtype_is_complex(weight->meta->dtype) ? 2 : 1;
        }
    }
    if (extent.length == 0 || storage->data == NULL || storage->data < mapping->data ||
        (uint64_t)(storage->data - mapping->data) > mapping->length ||
        extent.length > mapping->length - (uint64_t)(storage->data - mapping->data)) {
        return EXG_OK;
    }
    extent.offset = (uint64_t)(storage->data - mapping->data);
    extent.name = program == NULL ? exg_arena_strdup(extents->arena, weight->fqn)
                                  : exg_arena_printf(extents->arena, "%s:%s", program, weight->fqn);
    return extent.name == NULL ? EXG_OUT_OF_MEMORY(err) : add(extents, &extent, err);
}

/* `program`: whose they are, where a file has several. */
static exg_status add_weights(exg_extents *extents, const exg_weights *weights, const char *program,
                              exg_error *err)
{
    for (uint32_t i = 0; i < weights->count; i++) {
        const exg_weight *weight = &weights->items[i];

        if (weight->meta != NULL && !weight->use_pickle) {
            EXG_TRY(add_weight(extents, weights, weight, program, err));
        }
    }
    return EXG_OK;
}

/* What cannot be opened has no tensors that could be found; memory is another matter. */
static exg_status settle(exg_status status, const exg_error *why, exg_error *err)
{
    if (status == EXG_NO_MEMORY && err != NULL) {
        *err = *why;
    }
    return status == EXG_NO_MEMORY ? status : EXG_OK;
}

static exg_status add_file_of_weights(exg_extents *extents, exg_error *err)
{
    const exg_mapping *mapping = &extents->mapping;
    exg_weights *weights = NULL;
    exg_error why;
    exg_status status =
        exg_weights_open_memory(mapping->data, (size_t)mapping->length, NULL, &weights, NULL, &why);

    if (status != EXG_OK) {
        return settle(status, &why, err);
    }
    status = add_weights(extents, weights, NULL, err);
    exg_weights_release(weights);
    return status;
}

/* `name` NULL: of a file whose format holds one. */
static exg_status add_program(exg_extents *extents, const char *name, bool is_one, exg_error *err)
{
    const exg_open_options options = {.size = sizeof(options), .program = name};
    const exg_mapping *mapping = &extents->mapping;
    exg_program *program = NULL;
    exg_error why;
    exg_status status =
        exg_open_memory(mapping->data, (size_t)mapping->length, &options, &program, NULL, &why);

    if (status != EXG_OK) {
        return settle(status, &why, err);
    }
    status = add_weights(extents, program->weights, is_one ? NULL : name, err);
    exg_program_destroy(program);
    return status;
}

static exg_status add_programs(exg_extents *extents, const char *path, exg_error *err)
{
    exg_file_info *info = NULL;
    exg_error why;
    exg_status status = settle(exg_file_describe(path, NULL, &info, &why), &why, err);

    if (status == EXG_OK && info != NULL && info->program_count == 0) {
        status = add_program(extents, NULL, true, err);
    }
    for (uint32_t i = 0; status == EXG_OK && info != NULL && i < info->program_count; i++) {
        status = add_program(extents, info->program_names[i], info->program_count == 1, err);
    }
    exg_file_info_free(info);
    return status;
}

/* By place; of several at one place the longest, and of such the first that was found. */
static int by_place(const void *a, const void *b)
{
    const exg_extent *x = a;
    const exg_extent *y = b;

    return x->offset != y->offset   ? (x->offset > y->offset ? 1 : -1)
           : x->length != y->length ? (x->length < y->length ? 1 : -1)
                                    : strcmp(x->name, y->name);
}

/* From what was found, which may lie over one another, to what lies end to end. */
static exg_status lay_out(exg_extents *extents, exg_error *err)
{
    exg_extent *found = extents->items;
    uint32_t count = extents->count;
    uint64_t end = 0;

    if (count > 0) {
        qsort(found, count, sizeof(*found), by_place);
    }
    extents->items = NULL;
    extents->count = extents->capacity = 0;
    for (uint32_t i = 0; i <= count; i++) {
        const uint64_t next = i < count ? found[i].offset : extents->mapping.length;
        const exg_extent between = {.offset = end, .length = next - end, .width = 1};

        if (next < end) {
            continue;
        }
        if (next > end) {
            EXG_TRY(add(extents, &between, err));
        }
        if (i < count) {
            EXG_TRY(add(extents, &found[i], err));
            end = next + found[i].length;
        }
    }
    return EXG_OK;
}

exg_status exg_extents_read(const char *path, exg_extents *extents, exg_error *err)
{
    exg_weights_format format;

    *extents = (exg_extents){.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED)};
    if (extents->arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_file_map(path, false, &extents->mapping, err));
    format = exg_weights_find_format(extents->mapping.data, extents->mapping.length);
    if (format != EXG_WEIGHTS_FORMAT_COUNT) {
        EXG_TRY(add_file_of_weights(extents, err));
    } else if (exg_is_program(extents->mapping.data, extents->mapping.length)) {
        EXG_TRY(add_programs(extents, path, err));
    }
    return lay_out(extents, err);
}

void exg_extents_free(exg_extents *extents)
{
    exg_mapping_release(&extents->mapping);
    exg_arena_destroy(extents->arena);
    *extents = (exg_extents){0};
}
