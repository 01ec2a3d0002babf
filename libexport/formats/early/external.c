/* external.c - bytes beside an early file that stay there when it is written again (S002-73).
 *
 * The form names files, ranges and checksums. A file of that name in the folder that is written to
 * must hold the bytes already, which is so when the program is written beside the one that was
 * read; where there is none it is written. Nothing is ever replaced.
 */
#include "libexport/formats/early/early.h"
#include "libexport/weights/storage.h"

#include "libexport/base/files.h"
#include "libexport/weights/checksum.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- checksums ------------------------------------------------------------------------------ */

static exg_status digest(const void *bytes, uint64_t length, exg_checksum_kind kind,
                         char text[EXG_CHECKSUM_TEXT_MAX], exg_error *err)
{
    exg_hasher *hasher = exg_hasher_create(kind);

    if (hasher == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    exg_hasher_add(hasher, bytes, (size_t)length);
    exg_hasher_finish(hasher, text);
    return EXG_OK;
}

exg_status exg_early_checksum(exg_early_encoder *e, const void *bytes, uint64_t length,
                              const char **text)
{
    char digits[EXG_CHECKSUM_TEXT_MAX];

    EXG_TRY(digest(bytes, length, EXG_CHECKSUM_XXH3_128, digits, e->err));
    *text = exg_arena_printf(e->arena, "xxh3-128:%s", digits);
    return *text == NULL ? EXG_OUT_OF_MEMORY(e->err) : EXG_OK;
}

/* ---- may they stay? ------------------------------------------------------------------------- */

static exg_status holds(exg_early_encoder *e, const exg_weight *weight,
                        const exg_checksum *checksum, bool *is_so)
{
    char found[EXG_CHECKSUM_TEXT_MAX] = "";
    void *bytes = NULL;
    exg_status status;

    if (!exg_checksum_is_known(checksum)) { /* other weights took their place (weights.h) */
        *is_so = e->program->weights->storages[weight->storage].kind != EXG_STORAGE_MADE;
        return EXG_OK;
    }
    status = exg_early_big_endian(e, weight, &bytes);
    if (status == EXG_OK) {
        status = digest(bytes, e->program->weights->storages[weight->storage].length,
                        checksum->kind, found, e->err);
        *is_so = strcasecmp(found, checksum->text) == 0;
    }
    free(bytes);
    return status;
}

static exg_status keep(exg_early_encoder *e, const exg_weight *weight, exg_decoder *d,
                       exg_json data, bool *keeps)
{
    exg_storage place;
    const char *checksum = NULL;

    EXG_TRY(exg_early_place(d, data, &place, &checksum));
    if (place.length != e->program->weights->storages[weight->storage].length) {
        return EXG_OK;
    }
    EXG_TRY(holds(e, weight, &place.checksum, keeps));
    if (!*keeps) {
        return EXG_OK;
    }
    if (!exg_arena_reserve(e->arena, &e->kept, e->kept_count, &e->kept_capacity,
                           sizeof(exg_early_kept))) {
        return EXG_OUT_OF_MEMORY(e->err);
    }
    e->kept[e->kept_count++] = (exg_early_kept){weight, place.location, place.offset};
    return EXG_OK;
}

exg_status exg_early_keeps_place(exg_early_encoder *e, const exg_weight *weight, bool is_internal,
                                 exg_json data, bool *keeps)
{
    exg_decoder d;
    exg_status status;

    *keeps = is_internal && e->ranges == NULL;
    if (is_internal || e->moves_external) {
        return EXG_OK;
    }
    exg_decoder_init(&d, e->arena, e->err);
    status = keep(e, weight, &d, data, keeps);
    exg_decoder_free(&d);
    return status;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* Is the range in the file that is there? */
static exg_status compare(exg_early_encoder *e, const char *folder, const exg_early_kept *kept)
{
    uint64_t length = e->program->weights->storages[kept->weight->storage].length;
    exg_mapping mapping = {0};
    exg_error unread;
    void *bytes = NULL;
    int descriptor;
    bool same;

    EXG_TRY(exg_file_open_below(folder, kept->location,
                                exg_weights_reading(e->program->weights).follow_links, &descriptor,
                                e->err));
    same = exg_file_map_range(descriptor, kept->location, kept->offset, length, false, &mapping,
                              &unread) == EXG_OK;
    close(descriptor);
    if (same) {
        exg_status status = exg_early_big_endian(e, kept->weight, &bytes);

        same = status == EXG_OK && memcmp(bytes, mapping.data, (size_t)length) == 0;
        free(bytes);
        exg_mapping_release(&mapping);
        EXG_TRY(status);
    }
    return same ? EXG_OK
                : exg_error_fix(e->err,
                                EXG_FAIL(e->err, USAGE, "EAR-008",
                                         "%s is there and does not hold the bytes of '%s'",
                                         kept->location, kept->weight->fqn),
                                "write into another folder, or --weights internal");
}

/* The folders of a location, made where they are not; links are none. */
static exg_status make_folders(exg_early_encoder *e, const char *path, size_t from)
{
    char *part = exg_arena_strdup(e->arena, path);

    if (part == NULL) {
        return EXG_OUT_OF_MEMORY(e->err);
    }
    for (char *slash = strchr(part + from, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        struct stat st;

        *slash = '\0';
        if (mkdir(part, 0777) != 0 && (lstat(part, &st) != 0 || !S_ISDIR(st.st_mode))) {
            return EXG_FAIL(e->err, IO, "IO-OPEN", "%s is not a folder that can be written to",
                            part);
        }
        *slash = '/';
    }
    return EXG_OK;
}

/* Bytes of the file of kept[first]. */
static uint64_t end_of(const exg_early_encoder *e, uint32_t first)
{
    const exg_storage *storages = e->program->weights->storages;
    uint64_t end = 0;

    for (uint32_t i = first; i < e->kept_count; i++) {
        uint64_t last = e->kept[i].offset + storages[e->kept[i].weight->storage].length;

        end = strcmp(e->kept[i].location, e->kept[first].location) == 0 && last > end ? last : end;
    }
    return end;
}

/* The file of kept[first]: all its ranges, zeros between them. */
static exg_status write_ranges(exg_early_encoder *e, exg_writer *writer, uint32_t first)
{
    const exg_storage *storages = e->program->weights->storages;
    uint64_t end = end_of(e, first);

    EXG_TRY(exg_writer_reserve(writer, end, e->err));
    if (end > 0) { /* an empty range may lie there */
        EXG_TRY(exg_writer_put(writer, end - 1, "", 1, e->err));
    }
    for (uint32_t i = first; i < e->kept_count; i++) {
        const exg_early_kept *kept = &e->kept[i];
        void *bytes = NULL;
        exg_status status;

        if (strcmp(kept->location, e->kept[first].location) != 0) {
            continue;
        }
        status = exg_early_big_endian(e, kept->weight, &bytes);
        if (status == EXG_OK) {
            status = exg_writer_put(writer, kept->offset, bytes,
                                    storages[kept->weight->storage].length, e->err);
        }
        free(bytes);
        EXG_TRY_IN(e->err, status, "weights['%s']", kept->weight->fqn);
    }
    return EXG_OK;
}

static exg_status write_file(exg_early_encoder *e, const char *path, size_t folder, uint32_t first)
{
    exg_writer *writer = NULL;
    exg_status status;

    if (e->options->dry_run) { /* its folder may not be there either */
        return e->options->file == NULL
                   ? EXG_OK
                   : e->options->file(e->options->user, path, end_of(e, first), e->err);
    }
    EXG_TRY(make_folders(e, path, folder));
    EXG_TRY(exg_writer_open(path, &writer, e->err));
    status = write_ranges(e, writer, first);
    if (status != EXG_OK) {
        exg_writer_abort(writer);
        return status;
    }
    return exg_writer_commit(writer, e->err);
}

static exg_status write_missing(exg_early_encoder *e, const char *folder, const char **fresh,
                                uint32_t *count)
{
    exg_map seen;

    exg_map_init(&seen, e->arena);
    for (uint32_t i = 0; i < e->kept_count; i++) {
        const char *path;
        struct stat st;

        if (exg_map_find(&seen, e->kept[i].location) != EXG_MAP_NONE) {
            continue;
        }
        path = exg_arena_printf(e->arena, "%s%s", folder, e->kept[i].location);
        if (path == NULL || !exg_map_put(&seen, e->kept[i].location, i)) {
            return EXG_OUT_OF_MEMORY(e->err);
        }
        if (lstat(path, &st) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
            EXG_TRY(write_file(e, path, strlen(folder), i));
            fresh[(*count)++] = path;
        }
    }
    return EXG_OK;
}

exg_status exg_early_write_kept(exg_early_encoder *e, const char *path, const char ***fresh,
                                uint32_t *count)
{
    char *folder = exg_path_directory(path);
    exg_status status = EXG_OK;

    *count = 0;
    *fresh = EXG_NEW_ARRAY(e->arena, const char *, e->kept_count);
    if (folder == NULL || *fresh == NULL) {
        status = EXG_OUT_OF_MEMORY(e->err);
    }
    if (status == EXG_OK) {
        status = write_missing(e, folder, *fresh, count);
    }
    for (uint32_t i = 0; status == EXG_OK && i < e->kept_count; i++) {
        const char *there = exg_arena_printf(e->arena, "%s%s", folder, e->kept[i].location);

        if (there == NULL) {
            status = EXG_OUT_OF_MEMORY(e->err);
        } else if (!e->options->dry_run || access(there, F_OK) == 0) {
            status = compare(e, folder, &e->kept[i]);
        }
    }
    if (e->options->dry_run) {
        *count = 0; /* nothing to be removed */
    }
    free(folder);
    return status;
}
