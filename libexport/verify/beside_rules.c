/* beside_rules.c - files that hold weights are there, and as long as it is said (WGT-015). */
#include "libexport/base/checked.h"
#include "libexport/base/files.h"
#include "libexport/base/map.h"
#include "libexport/verify/verifier.h"
#include "libexport/weights/storage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A file, with the end of the last bytes that are named in it. */
typedef struct beside {
    const char *location;
    uint64_t end;
} beside;

static exg_status list_besides(exg_verifier *v, const exg_weights *weights, beside *besides,
                               uint32_t *count)
{
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
    uint64_t there = 0;

    exg_error_clear(&err);
    text[0] = '\0';
    if (exg_file_length_below(exg_weights_directory(weights), b->location,
                              exg_weights_reading(weights), &there, &err) != EXG_OK) {
        snprintf(text, length, "%s", err.message);
    } else if (there < b->end) {
        snprintf(text, length, "'%s' has %" PRIu64 " bytes, and weights are named up to %" PRIu64,
                 b->location, there, b->end);
    }
}

exg_status exg_verify_besides(exg_verifier *v, const exg_weights *weights, exg_error *err)
{
    beside *besides = EXG_NEW_ARRAY(v->found->arena, beside, weights->storage_count);
    uint32_t count = 0;
    exg_status status = EXG_OK;

    if (besides == NULL || list_besides(v, weights, besides, &count) != EXG_OK) {
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
