/* beside.c - data files beside a program: which storages, which names.
 *
 * A name carries the hash of what the file holds, so that no program that is there ever
 * meets the data of another: "<stem>-<16 digits>.weights", of several files
 * "<stem>-<16 digits>-00001-of-00003.weights".
 */
#include "libexport/base/xxh3.h"
#include "libexport/formats/exg/save.h"

#include <stdio.h>
#include <string.h>

#define FILES_MAX 99999u

/* Slashes cannot be in the name of a file, so nothing else is meant by them. */
static const char unknown_hash[] = "////////////////";

static bool goes_beside(const exg_saver *s, uint32_t i)
{
    if (s->options->weights == EXG_WEIGHTS_KEEP) {
        return s->weights->storages[s->source[i]].location != NULL;
    }
    return s->options->weights == EXG_WEIGHTS_EXTERNAL;
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

static exg_status give_name(exg_saver *s, const char *path, uint32_t i, const char *hash)
{
    exg_beside *beside = &s->besides[i];
    char stem[EXG_STEM_MAX + 1];

    exg_path_stem(path, stem);
    beside->name = s->options->external_name;
    if (beside->name == NULL) {
        const char *which = s->beside_count == 1 ? ""
                                                 : exg_arena_printf(s->arena, "-%05u-of-%05u",
                                                                    i + 1, s->beside_count);

        beside->name =
            which == NULL ? NULL : exg_arena_printf(s->arena, "%s-%s%s.weights", stem, hash, which);
    }
    beside->path =
        beside->name == NULL
            ? NULL
            : exg_arena_printf(s->arena, "%.*s%s", (int)(base_of(path) - path), path, beside->name);
    if (beside->path == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t k = beside->first; k < beside->end; k++) {
        if (s->stored[k].location != NULL) {
            s->stored[k].location = beside->name;
        }
    }
    return EXG_OK;
}

static exg_status check_given_name(exg_saver *s, const char *path)
{
    const char *name = s->options->external_name;

    if (name == NULL) {
        return EXG_OK;
    }
    if (!exg_location_is_plain(name) || strchr(name, '/') != NULL ||
        strcmp(name, base_of(path)) == 0 || s->beside_count > 1) {
        return exg_error_fix(s->err,
                             EXG_FAIL(s->err, USAGE, "EXG-053",
                                      "'%s' cannot hold the weights of %s", name, base_of(path)),
                             "give a file name without folders, other than the program's");
    }
    return EXG_OK;
}

/* As many storages as fit in a file; one that is larger has a file of its own. */
static exg_status cut(exg_saver *s)
{
    uint64_t limit = s->options->split == 0 ? UINT64_MAX : s->options->split;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < s->count; i++) {
        uint64_t more = s->stored[i].length;

        if (!goes_beside(s, i)) {
            continue;
        }
        if (s->beside_count == 0 || (bytes > 0 && more > limit - bytes)) {
            if (s->beside_count == FILES_MAX) {
                return exg_error_fix(
                    s->err, EXG_FAIL(s->err, LIMIT, "EXG-054", "more than %u files", FILES_MAX),
                    "split by a larger size");
            }
            s->besides[s->beside_count++].first = i;
            bytes = 0;
        }
        s->besides[s->beside_count - 1].end = i + 1;
        s->stored[i].location = unknown_hash;
        bytes = more > limit - bytes ? limit : bytes + more;
    }
    return EXG_OK;
}

exg_status exg_besides_plan(exg_saver *s, const char *path)
{
    s->besides = EXG_NEW_ARRAY(s->arena, exg_beside, s->count);
    if (s->besides == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    EXG_TRY(cut(s));
    if (s->beside_count > 0) {
        EXG_TRY(check_given_name(s, path));
    }
    for (uint32_t i = 0; i < s->beside_count; i++) {
        EXG_TRY(give_name(s, path, i, unknown_hash));
    }
    return EXG_OK;
}

/* Of where the bytes lie and what they are; the hashes of frames follow from both. */
exg_status exg_beside_name(exg_saver *s, const char *path, uint32_t beside)
{
    XXH3_state_t *state = XXH3_createState();
    char hash[17];

    if (state == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    XXH3_64bits_reset(state);
    for (uint32_t i = s->besides[beside].first; i < s->besides[beside].end; i++) {
        const exg_stored *stored = &s->stored[i];
        uint64_t facts[] = {stored->offset, stored->stored_length, stored->hash_low,
                            stored->hash_high, stored->element_bytes};

        if (stored->location != NULL) {
            XXH3_64bits_update(state, facts, sizeof(facts));
        }
        for (uint32_t k = 0; stored->location != NULL && k < stored->frame_count; k++) {
            XXH3_64bits_update(state, &stored->frames->items[k].checksum, sizeof(uint64_t));
        }
    }
    snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)XXH3_64bits_digest(state));
    XXH3_freeState(state);
    return give_name(s, path, beside, hash);
}
