/* source.c - where the bytes of a file come from, and what of memory it may take. */
#include "libexport/base/arena.h"
#include "libexport/base/checked.h"
#include "libexport/formats/model_folder.h"
#include "libexport/formats/window.h"
#include "libexport/weights/storage.h"

#include <exg/text.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAULTS_MAX 1000 /* that are told of one file */

uint64_t exg_default_budget(uint64_t length)
{
    uint64_t budget;

    if (!exg_mul_u64(length, 64, &budget) || !exg_add_u64(budget, 64u << 20, &budget)) {
        return UINT64_MAX - 1;
    }
    return budget;
}

void exg_source_limit(exg_source *source, exg_open_options options)
{
    source->allocator = options.allocator;
    source->budget =
        options.memory_budget != 0 ? options.memory_budget : exg_default_budget(source->length);
}

exg_reading exg_source_reading(const exg_open_options *options)
{
    return (exg_reading){options->copies_files, options->follow_links, options->open_source,
                         options->source_user};
}

exg_status exg_source_fault(const exg_source *source, exg_status status, const exg_error *err)
{
    exg_faults *faults = source->faults;

    if (status != EXG_MALFORMED || faults == NULL || err == NULL || faults->count >= FAULTS_MAX) {
        return status;
    }
    if (faults->count++ == 0) {
        faults->first = *err;
    }
    faults->tell(faults->user, err);
    return EXG_OK;
}

/* ---- elsewhere ---------------------------------------------------------------------------------
 */

/* What the caller's function has of this name; NULL: nothing. */
static exg_status find_elsewhere(const char *name, exg_reading reading, exg_window **window,
                                 exg_error *err)
{
    exg_byte_source bytes = {0};

    *window = NULL;
    if (reading.open_source == NULL) {
        return EXG_OK;
    }
    EXG_TRY(reading.open_source(reading.source_user, name, &bytes, err));
    return bytes.read == NULL && bytes.data == NULL ? EXG_OK
                                                    : exg_window_create(&bytes, window, err);
}

/* With what opening it touches; *found: it is there. */
static exg_status open_elsewhere(const char *name, exg_reading reading, exg_opened *opened,
                                 bool *found, exg_error *err)
{
    *found = false;
    EXG_TRY(find_elsewhere(name, reading, &opened->source.window, err));
    if (opened->source.window == NULL) {
        return EXG_OK;
    }
    *found = true;
    opened->source.data = exg_window_data(opened->source.window);
    opened->source.length = exg_window_length(opened->source.window);
    return exg_window_plan(opened->source.window, err);
}

exg_status exg_source_need(const exg_source *source, uint64_t offset, uint64_t length,
                           uint64_t ahead, exg_error *err)
{
    return source->window == NULL ? EXG_OK
                                  : exg_window_need(source->window, offset, length, ahead, err);
}

/* ---- opening -----------------------------------------------------------------------------------
 */

static void use_mapping(exg_opened *opened)
{
    opened->source.data = opened->mapping.data;
    opened->source.length = opened->mapping.length;
}

exg_status exg_source_open(const char *path, const exg_open_options *options, exg_opened *opened,
                           exg_error *err)
{
    bool found;

    *opened = (exg_opened){.path = strdup(path)};
    if (opened->path == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(open_elsewhere(path, exg_source_reading(options), opened, &found, err));
    if (found) { /* of an address, what is asked of the server is no part of the name */
        opened->path[strstr(path, "://") == NULL ? strlen(path) : strcspn(path, "?#")] = '\0';
    } else {
        free(opened->path);
        opened->path = NULL;
        EXG_TRY(exg_model_file(path, &opened->path, err));
        opened->source.is_part =
            strcmp(opened->path, path) != 0 && exg_model_part_stem(exg_path_name(opened->path)) > 0;
        EXG_TRY(exg_file_map(opened->path, options->copies_files, &opened->mapping, err));
        use_mapping(opened);
    }
    opened->source.path = opened->path;
    exg_source_limit(&opened->source, *options);
    return exg_source_unpack(opened, err);
}

void exg_opened_replace(exg_opened *opened, exg_mapping *mapping)
{
    exg_window_destroy(opened->source.window);
    exg_mapping_release(&opened->mapping);
    opened->source.window = NULL;
    opened->mapping = *mapping;
    *mapping = (exg_mapping){0};
    use_mapping(opened);
}

void exg_opened_release(exg_opened *opened)
{
    exg_window_destroy(opened->source.window);
    exg_mapping_release(&opened->mapping);
    free(opened->path);
    *opened = (exg_opened){0};
}

exg_status exg_opened_give(exg_opened *opened, exg_weights *weights, exg_error *err)
{
    exg_window *window = opened->source.window;

    if (window == NULL) {
        return exg_weights_own_mapping(weights, &opened->mapping, err);
    }
    opened->source.window = NULL;
    return exg_window_give(window, weights, err);
}

/* ---- what another file names -------------------------------------------------------------------
 */

exg_status exg_source_open_below(const char *folder, const char *location, exg_reading reading,
                                 exg_opened *opened, exg_error *err)
{
    exg_text name = EXG_TEXT_EMPTY;
    bool found = false;
    exg_status status = EXG_OK;

    *opened = (exg_opened){.path = strdup(location)};
    exg_text_printf(&name, "%s%s", folder, location);
    if (opened->path == NULL || exg_text_string(&name) == NULL) {
        status = EXG_OUT_OF_MEMORY(err);
    } else if (reading.open_source != NULL && !exg_location_is_plain(location)) {
        status = exg_location_refuse(location, err);
    } else {
        status = open_elsewhere(name.data, reading, opened, &found, err);
    }
    if (status == EXG_OK && !found) {
        status = exg_file_map_below(folder, location, reading, &opened->mapping, err);
        use_mapping(opened);
    }
    exg_text_free(&name);
    opened->source.path = opened->path;
    opened->source.budget = exg_default_budget(opened->source.length);
    return status;
}

exg_status exg_source_find_below(const char *folder, const char *location, exg_reading reading,
                                 exg_window **window, exg_error *err)
{
    exg_text name = EXG_TEXT_EMPTY;
    exg_status status;

    *window = NULL;
    if (reading.open_source == NULL) {
        return EXG_OK;
    }
    if (!exg_location_is_plain(location)) {
        return exg_location_refuse(location, err);
    }
    exg_text_printf(&name, "%s%s", folder, location);
    status = exg_text_string(&name) == NULL ? EXG_OUT_OF_MEMORY(err)
                                            : find_elsewhere(name.data, reading, window, err);
    exg_text_free(&name);
    return status;
}

exg_status exg_source_look_below(const char *folder, const char *location, exg_reading reading,
                                 exg_error *err)
{
    exg_opened opened;
    exg_status status;
    int descriptor;

    if (reading.open_source == NULL) {
        EXG_TRY(exg_file_open_below(folder, location, reading.follow_links, &descriptor, err));
        close(descriptor);
        return EXG_OK;
    }
    status = exg_source_open_below(folder, location, reading, &opened, err);
    exg_opened_release(&opened);
    return status;
}
