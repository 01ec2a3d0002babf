/* store.c - the folder of a store, its lock, what it notes of files, its objects. */
#include "libexport/artifact/store.h"

#include "libexport/base/hex.h"
#include "libexport/base/require.h"

#include <dirent.h>
#include <errno.h>
#include <exg/formats.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK       "exg-store"
#define MARK_TEXT  "exg store 1\n"
#define NAME_BYTES 1000

exg_status exg_store_refused(const char *what, const char *path, exg_error *err)
{
    return errno == ENOMEM
               ? EXG_OUT_OF_MEMORY(err)
               : EXG_FAIL(err, IO, "IO-WRITE", "cannot %s %s: %s", what, path, strerror(errno));
}

/* ---- the folder ---------------------------------------------------------------------------------
 */

char *exg_store_note_path(const exg_store *store, const char *name)
{
    return exg_arena_printf(store->arena, "%s/files/%s.json", store->folder, name);
}

bool exg_store_object_path(const exg_store *store, const uint8_t *sha256, char path[PATH_MAX])
{
    char digits[EXG_STORE_DIGITS + 1];

    exg_hex_put(sha256, EXG_SHA256_BYTES, digits);
    return snprintf(path, PATH_MAX, "%s/objects/%.2s/%s", store->folder, digits, digits + 2) <
           PATH_MAX;
}

exg_status exg_store_make_folders(const exg_store *store, char *path, exg_error *err)
{
    for (char *c = path + strlen(store->folder) + 1; (c = strchr(c, '/')) != NULL; c++) {
        bool made;

        *c = '\0';
        made = mkdir(path, 0777) == 0 || errno == EEXIST;
        if (!made) {
            return exg_store_refused("make the folder", path, err);
        }
        *c = '/';
    }
    return EXG_OK;
}

static bool is_empty(const char *folder)
{
    DIR *directory = opendir(folder);
    uint32_t count = 0;

    while (directory != NULL && count < 3 && readdir(directory) != NULL) {
        count++;
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return directory != NULL && count == 2;
}

static exg_status make_store(const char *folder, const char *mark, exg_error *err)
{
    struct stat st;

    if (stat(mark, &st) == 0 || (mkdir(folder, 0777) != 0 && !is_empty(folder))) {
        return EXG_OK; /* it is there, or something else is */
    }
    return exg_file_write(mark, MARK_TEXT, strlen(MARK_TEXT), err);
}

static exg_status read_mark(exg_store *store, const char *mark, exg_error *err)
{
    char text[sizeof(MARK_TEXT) + 8] = "";

    store->mark = open(mark, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (store->mark < 0 || read(store->mark, text, sizeof(text) - 1) < 0 ||
        strncmp(text, "exg store ", 10) != 0) {
        return EXG_FAIL(err, MALFORMED, "STO-FOLDER", "%s is no store of exg", store->folder);
    }
    return strcmp(text, MARK_TEXT) == 0
               ? EXG_OK
               : EXG_FAIL(err, UNSUPPORTED, "STO-VERSION",
                          "%s is a store of a later version of exg", store->folder);
}

exg_status exg_store_open(const char *folder, bool make, exg_store **store, exg_error *err)
{
    EXG_REQUIRE(err, folder, store);
    exg_store *s = calloc(1, sizeof(*s));
    exg_status status = EXG_OK;
    char *mark;

    *store = NULL;
    if (s == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    s->mark = -1;
    s->folder = strdup(folder);
    s->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    mark = s->folder == NULL || s->arena == NULL
               ? NULL
               : exg_arena_printf(s->arena, "%s/%s", folder, MARK);
    status = mark == NULL ? EXG_OUT_OF_MEMORY(err) : make ? make_store(folder, mark, err) : EXG_OK;
    status = status == EXG_OK ? read_mark(s, mark, err) : status;
    if (status != EXG_OK) {
        exg_store_close(s);
        return status;
    }
    *store = s;
    return EXG_OK;
}

void exg_store_close(exg_store *store)
{
    if (store != NULL) {
        if (store->mark >= 0) {
            close(store->mark);
        }
        exg_arena_destroy(store->arena);
        free(store->folder);
        free(store);
    }
}

exg_status exg_store_lock_take(exg_store *store, exg_store_lock how, exg_error *err)
{
    exg_arena_reset(store->arena);
    while (flock(store->mark, how == EXG_STORE_ALONE ? LOCK_EX : LOCK_SH) != 0) {
        if (errno != EINTR) {
            return EXG_FAIL(err, IO, "IO-OPEN", "cannot lock %s: %s", store->folder,
                            strerror(errno));
        }
    }
    return EXG_OK;
}

exg_status exg_store_lock_give(exg_store *store, exg_status status)
{
    (void)flock(store->mark, LOCK_UN);
    return status;
}

exg_status exg_store_check_name(const char *name, exg_error *err)
{
    return exg_location_is_plain(name) && strlen(name) <= NAME_BYTES
               ? EXG_OK
               : EXG_FAIL(err, USAGE, "STO-NAME",
                          "'%.100s' is no name: a relative path without . and ..", name);
}

/* ---- notes --------------------------------------------------------------------------------------
 */

exg_status exg_store_read_note(exg_store *store, const char *name, exg_store_note *note,
                               exg_error *err)
{
    const char *path = exg_store_note_path(store, name);
    exg_mapping mapping = {0};
    struct stat st;
    exg_status status;

    if (path == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (lstat(path, &st) != 0) {
        return EXG_FAIL(err, USAGE, "STO-NAME", "the store has no '%s'", name);
    }
    EXG_TRY(exg_file_map(path, true, &mapping, err));
    status = exg_store_note_read(mapping.data, (size_t)mapping.length, store->arena, note, err);
    exg_mapping_release(&mapping);
    return status == EXG_OK ? EXG_OK : exg_error_within(err, status, "%s:", name);
}

/* ---- objects ------------------------------------------------------------------------------------
 */

exg_status exg_store_open_object(const exg_store *store, const exg_store_object *object,
                                 exg_mapping *mapping, exg_error *err)
{
    char digits[EXG_STORE_DIGITS + 1];
    char path[PATH_MAX];
    exg_status status = EXG_IO;

    *mapping = (exg_mapping){0};
    if (exg_store_object_path(store, object->sha256, path)) {
        status = exg_file_map(path, false, mapping, NULL);
    }
    if (status == EXG_OK && mapping->length == object->bytes) {
        return EXG_OK;
    }
    exg_mapping_release(mapping);
    exg_hex_put(object->sha256, EXG_SHA256_BYTES, digits);
    return EXG_FAIL(err, MALFORMED, "STO-OBJECT", "the object %s %s", digits,
                    status == EXG_OK ? "is not as long as it was" : "cannot be read");
}

exg_status exg_store_check_object(const exg_store *store, const exg_store_object *object,
                                  exg_error *err)
{
    char digits[EXG_STORE_DIGITS + 1];
    uint8_t found[EXG_SHA256_BYTES];
    exg_mapping mapping;

    EXG_TRY(exg_store_open_object(store, object, &mapping, err));
    exg_mapping_hash(&mapping, 0, mapping.length, found);
    exg_mapping_release(&mapping);
    exg_hex_put(object->sha256, EXG_SHA256_BYTES, digits);
    return memcmp(found, object->sha256, sizeof(found)) == 0
               ? EXG_OK
               : EXG_FAIL(err, MALFORMED, "STO-OBJECT", "the object %s is damaged", digits);
}
