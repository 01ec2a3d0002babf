/* file_rules.c - how the file is made, beside what it says (ARC-010, ARC-013), and whether the
 * files are there that it names (WGT-015). */
#include "libexport/base/checked.h"
#include "libexport/base/files.h"
#include "libexport/base/map.h"
#include "libexport/base/require.h"
#include "libexport/verify/verifier.h"
#include "libexport/weights/storage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void check_archive(exg_verifier *v, const char *path, const exg_file_info *info)
{
    const exg_model_path *archive = EXG_AT(NULL, "archive");

    if (info->loose_count > 0) {
        exg_found(v, "ARC-010", archive, "'%s'%s stored at a multiple of 64 bytes",
                  info->loose_member, info->loose_count > 1 ? " and others are not" : " is not");
    }
    if (exg_format_from_path(path) != EXG_FORMAT_PT2) {
        exg_found(v, "ARC-013", archive, "the name is '%s'", path);
    }
}

/* ---- files beside the program ------------------------------------------------------------- */

/* A file, with the end of the last bytes that are named in it. */
typedef struct beside {
    const char *location;
    uint64_t end;
} beside;

static exg_status list_besides(exg_verifier *v, beside *besides, uint32_t *count)
{
    const exg_weights *weights = v->program->weights;
    exg_map places;

    exg_map_init(&places, v->found->arena);
    for (uint32_t i = 0; i < weights->storage_count; i++) {
        const exg_storage *s = &weights->storages[i];
        uint64_t length = s->kind == EXG_STORAGE_FRAMES ? s->frames->stored_length : s->length;
        uint64_t end = UINT64_MAX;
        uint32_t at = exg_map_find(&places, s->location);

        if (s->location == NULL) {
            continue;
        }
        if (at == EXG_MAP_NONE) {
            at = (*count)++;
            besides[at].location = s->location;
            if (!exg_map_put(&places, s->location, at)) {
                return EXG_NO_MEMORY;
            }
        }
        (void)exg_add_u64(s->offset, length, &end);
        besides[at].end = end > besides[at].end ? end : besides[at].end;
    }
    return EXG_OK;
}

/* What is wrong with it, or "". */
static void look_at(const exg_weights *weights, const beside *b, char *text, size_t length)
{
    exg_error err;
    struct stat st;
    int descriptor;

    exg_error_clear(&err);
    text[0] = '\0';
    if (exg_file_open_below(exg_weights_directory(weights), b->location,
                            exg_weights_reading(weights).follow_links, &descriptor,
                            &err) != EXG_OK) {
        snprintf(text, length, "%s", err.message);
        return;
    }
    if (fstat(descriptor, &st) != 0 || (uint64_t)st.st_size < b->end) {
        snprintf(text, length, "'%s' has %lld bytes, and weights are named up to %" PRIu64,
                 b->location, (long long)st.st_size, b->end);
    }
    close(descriptor);
}

/* Weights in files that are not there cannot be run: told without reading any. */
static exg_status check_besides(exg_verifier *v, exg_error *err)
{
    const exg_weights *weights = v->program->weights;
    beside *besides = EXG_NEW_ARRAY(v->found->arena, beside, weights->storage_count);
    uint32_t count = 0;
    exg_status status = EXG_OK;

    if (besides == NULL || list_besides(v, besides, &count) != EXG_OK) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < count; i++) {
        char text[300];

        look_at(weights, &besides[i], text, sizeof(text));
        if (text[0] == '\0') {
            continue;
        }
        exg_found(v, "WGT-015", EXG_AT_KEY(NULL, "files", besides[i].location), "%s", text);
        if (status == EXG_OK) {
            status = EXG_FAIL(err, MALFORMED, "WGT-015", "%s", text);
            status = exg_error_within(err, status, "files[\"%s\"]", besides[i].location);
        }
    }
    return status;
}

exg_status exg_verify_file(const exg_program *program, const char *path, const exg_file_info *info,
                           exg_diagnostics *diagnostics, exg_error *err)
{
    EXG_REQUIRE(err, program, path, info, diagnostics);
    exg_verifier v = {.program = program,
                      .found = diagnostics,
                      .capacity = diagnostics->count,
                      .tells_all = true};
    exg_status status = check_besides(&v, err);

    if (info->format == EXG_FORMAT_PT2) {
        check_archive(&v, path, info);
    }
    return v.failed ? EXG_OUT_OF_MEMORY(err) : status;
}
