/* store_keep.c - what a store holds: listed, removed, looked at. */
#include "libexport/artifact/store.h"
#include "libexport/base/hex.h"
#include "libexport/base/map.h"
#include "libexport/base/options.h"
#include "libexport/base/pool.h"
#include "libexport/base/require.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- walking ------------------------------------------------------------------------------------
 */

typedef exg_status visit_fn(void *user, const char *name, const char *path, uint64_t bytes,
                            exg_error *err);

typedef struct folders {
    const char **items; /* names below the root */
    uint32_t count, capacity;
} folders;

static exg_status visit_entry(exg_store *store, const char *root, const char *folder,
                              const char *entry, folders *more, visit_fn *visit, void *user,
                              exg_error *err)
{
    const char *name = folder[0] == '\0' ? exg_arena_strdup(store->arena, entry)
                                         : exg_arena_printf(store->arena, "%s/%s", folder, entry);
    const char *path =
        name == NULL ? NULL : exg_arena_printf(store->arena, "%s/%s/%s", store->folder, root, name);
    struct stat st;

    if (path == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (lstat(path, &st) != 0) {
        return errno == ENOENT ? EXG_OK : exg_store_refused("examine", path, err);
    }
    if (!S_ISDIR(st.st_mode)) {
        return visit(user, name, path, (uint64_t)st.st_size, err);
    }
    if (!exg_arena_reserve(store->arena, &more->items, more->count, &more->capacity,
                           sizeof(*more->items))) {
        return EXG_OUT_OF_MEMORY(err);
    }
    more->items[more->count++] = name;
    return EXG_OK;
}

/* All files below "objects" or "files", by their names there. A folder that is not there is empty.
 */
static exg_status walk(exg_store *store, const char *root, visit_fn *visit, void *user,
                       exg_error *err)
{
    const char *first = "";
    folders all = {0};
    exg_status status = EXG_OK;

    for (uint32_t i = 0; status == EXG_OK && i <= all.count; i++) {
        const char *folder = i == 0 ? first : all.items[i - 1];
        const char *path = exg_arena_printf(store->arena, "%s/%s/%s", store->folder, root, folder);
        DIR *directory = path == NULL ? NULL : opendir(path);

        if (directory == NULL && (path == NULL || errno != ENOENT)) {
            return path == NULL ? EXG_OUT_OF_MEMORY(err) : exg_store_refused("open", path, err);
        }
        for (struct dirent *entry;
             directory != NULL && status == EXG_OK && (entry = readdir(directory)) != NULL;) {
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
                status = visit_entry(store, root, folder, entry->d_name, &all, visit, user, err);
            }
        }
        if (directory != NULL) {
            closedir(directory);
        }
    }
    return status;
}

/* ---- listing ------------------------------------------------------------------------------------
 */

typedef struct lister {
    exg_store *store;
    exg_store_list *list;
    uint32_t capacity;
} lister;

/* The name of a note's file without ".json"; NULL: what a save that was killed left. */
static char *name_of_note(exg_arena *arena, const char *file)
{
    const char *base = exg_path_name(file);
    const size_t length = strlen(file);

    return base[0] == '.' || length < 5 || strcmp(file + length - 5, ".json") != 0
               ? NULL
               : exg_arena_strndup(arena, file, length - 5);
}

static exg_status list_note(void *user, const char *file, const char *path, uint64_t bytes,
                            exg_error *err)
{
    lister *l = user;
    const char *name = name_of_note(l->list->arena, file);
    exg_store_entry entry = {.name = name};
    exg_store_note note;

    (void)path;
    (void)bytes;
    if (name == NULL) {
        return exg_arena_is_dry(l->list->arena) ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    }
    EXG_TRY(exg_store_read_note(l->store, name, &note, err));
    if (!exg_arena_reserve(l->list->arena, &l->list->items, l->list->count, &l->capacity,
                           sizeof(entry))) {
        return EXG_OUT_OF_MEMORY(err);
    }
    entry.bytes = note.bytes;
    exg_hex_put(note.sha256, EXG_SHA256_BYTES, entry.sha256);
    l->list->items[l->list->count++] = entry;
    return EXG_OK;
}

static exg_status count_object(void *user, const char *file, const char *path, uint64_t bytes,
                               exg_error *err)
{
    exg_store_list *list = user;

    (void)file;
    (void)path;
    (void)err;
    list->object_count++;
    list->object_bytes += bytes;
    return EXG_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const exg_store_entry *)a)->name, ((const exg_store_entry *)b)->name);
}

exg_status exg_store_names(exg_store *store, exg_store_list **list, exg_error *err)
{
    EXG_REQUIRE(err, store, list);
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_store_list *made = arena == NULL ? NULL : EXG_NEW(arena, exg_store_list);
    lister l = {.store = store, .list = made};
    exg_status status;

    *list = NULL;
    if (made == NULL) {
        exg_arena_destroy(arena);
        return EXG_OUT_OF_MEMORY(err);
    }
    *made = (exg_store_list){.size = sizeof(*made), .arena = arena};
    status = exg_store_lock_take(store, EXG_STORE_SHARED, err);
    if (status == EXG_OK) {
        status = walk(store, "files", list_note, &l, err);
        status = status == EXG_OK ? walk(store, "objects", count_object, made, err) : status;
        status = exg_store_lock_give(store, status);
    }
    if (status != EXG_OK) {
        exg_arena_destroy(arena);
        return status;
    }
    if (made->count > 0) {
        qsort(made->items, made->count, sizeof(*made->items), by_name);
    }
    *list = made;
    return EXG_OK;
}

void exg_store_list_free(exg_store_list *list)
{
    if (list != NULL) {
        exg_arena_destroy(list->arena);
    }
}

/* ---- removing -----------------------------------------------------------------------------------
 */

exg_status exg_store_remove(exg_store *store, const char *name, exg_error *err)
{
    EXG_REQUIRE(err, store, name);
    const char *path;
    exg_status status = EXG_OK;

    EXG_TRY(exg_store_check_name(name, err));
    EXG_TRY(exg_store_lock_take(store, EXG_STORE_SHARED, err));
    path = exg_store_note_path(store, name);
    if (path == NULL) {
        status = EXG_OUT_OF_MEMORY(err);
    } else if (unlink(path) != 0) {
        status = errno == ENOENT || errno == ENOTDIR
                     ? EXG_FAIL(err, USAGE, "STO-NAME", "the store has no '%s'", name)
                     : exg_store_refused("remove", path, err);
    }
    return exg_store_lock_give(store, status);
}

/* Objects by their names in the folder: "ab/cdef...". */
typedef struct needed {
    exg_store *store;
    exg_map names;
    exg_store_change change;
} needed;

static exg_status need_note(void *user, const char *file, const char *path, uint64_t bytes,
                            exg_error *err)
{
    needed *n = user;
    const char *name = name_of_note(n->store->arena, file);
    exg_store_note note;

    (void)bytes;
    if (name == NULL) { /* what a save that was killed left */
        return exg_arena_is_dry(n->store->arena) ? EXG_OUT_OF_MEMORY(err)
               : unlink(path) == 0               ? EXG_OK
                                                 : exg_store_refused("remove", path, err);
    }
    EXG_TRY(exg_store_read_note(n->store, name, &note, err)); /* else its objects would be lost */
    for (uint32_t i = 0; i < note.object_count; i++) {
        char digits[EXG_STORE_DIGITS + 1];
        char *key;

        exg_hex_put(note.objects[i].sha256, EXG_SHA256_BYTES, digits);
        key = exg_arena_printf(n->store->arena, "%.2s/%s", digits, digits + 2);
        if (key == NULL || !exg_map_put(&n->names, key, 0)) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    return EXG_OK;
}

static exg_status remove_unneeded(void *user, const char *file, const char *path, uint64_t bytes,
                                  exg_error *err)
{
    needed *n = user;

    if (exg_map_find(&n->names, file) != EXG_MAP_NONE) {
        return EXG_OK;
    }
    if (unlink(path) != 0) {
        return exg_store_refused("remove", path, err);
    }
    n->change.objects++;
    n->change.object_bytes += bytes;
    return EXG_OK;
}

exg_status exg_store_collect(exg_store *store, exg_store_change *change, exg_error *err)
{
    EXG_REQUIRE(err, store);
    needed n = {.store = store};
    exg_status status;

    EXG_TRY(exg_store_lock_take(store, EXG_STORE_ALONE, err));
    exg_map_init(&n.names, store->arena);
    status = walk(store, "files", need_note, &n, err);
    status = status == EXG_OK ? walk(store, "objects", remove_unneeded, &n, err) : status;
    status = exg_store_lock_give(store, status);
    if (status == EXG_OK && change != NULL) {
        exg_options_write(change, &n.change, sizeof(n.change));
    }
    return status;
}

/* ---- verifying ----------------------------------------------------------------------------------
 */

typedef struct verifier {
    exg_store *store;
    exg_map seen; /* objects by their digits */
    exg_store_object *objects;
    const char **names; /* the first file that needs each */
    uint32_t count, capacity, name_capacity;
    exg_error *faults; /* an object each */
    void (*fault)(void *user, const exg_error *fault);
    void *user;
    uint32_t fault_count;
    exg_error *first;
} verifier;

static void tell(verifier *v, const exg_error *fault)
{
    if (v->fault_count++ == 0 && v->first != NULL) {
        *v->first = *fault;
    }
    if (v->fault != NULL) {
        v->fault(v->user, fault);
    }
}

static exg_status note_object(verifier *v, const char *name, const exg_store_object *object,
                              exg_error *err)
{
    exg_arena *arena = v->store->arena;
    char digits[EXG_STORE_DIGITS + 1];
    char *key;

    exg_hex_put(object->sha256, EXG_SHA256_BYTES, digits);
    key = exg_arena_strdup(arena, digits);
    if (key == NULL ||
        !exg_arena_reserve(arena, &v->objects, v->count, &v->capacity, sizeof(*v->objects)) ||
        !exg_arena_reserve(arena, &v->names, v->count, &v->name_capacity, sizeof(*v->names))) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (exg_map_find(&v->seen, key) != EXG_MAP_NONE) {
        return EXG_OK;
    }
    v->names[v->count] = name;
    v->objects[v->count] = *object;
    return exg_map_put(&v->seen, key, v->count++) ? EXG_OK : EXG_OUT_OF_MEMORY(err);
}

static exg_status verify_note(void *user, const char *file, const char *path, uint64_t bytes,
                              exg_error *err)
{
    verifier *v = user;
    const char *name = name_of_note(v->store->arena, file);
    exg_store_note note;
    exg_error why;
    exg_status status;

    (void)path;
    (void)bytes;
    if (name == NULL) {
        return exg_arena_is_dry(v->store->arena) ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    }
    exg_error_clear(&why);
    status = exg_store_read_note(v->store, name, &note, &why);
    if (status != EXG_OK) {
        if (status == EXG_NO_MEMORY) {
            return EXG_OUT_OF_MEMORY(err);
        }
        tell(v, &why);
        return EXG_OK;
    }
    for (uint32_t i = 0; i < note.object_count; i++) {
        EXG_TRY(note_object(v, name, &note.objects[i], err));
    }
    return EXG_OK;
}

static void verify_object(void *context, uint32_t index)
{
    verifier *v = context;
    exg_error *err = &v->faults[index];
    exg_status status;

    exg_error_clear(err);
    status = exg_store_check_object(v->store, &v->objects[index], err);
    if (status != EXG_OK) {
        exg_ignore(exg_error_within(err, status, "%s:", v->names[index]));
    }
}

static exg_status verify_all(verifier *v, uint32_t threads, exg_error *err)
{
    exg_pool *pool = NULL;

    EXG_TRY(walk(v->store, "files", verify_note, v, err));
    v->faults = EXG_NEW_ARRAY(v->store->arena, exg_error, v->count);
    if (v->faults == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_pool_create(threads, &pool, err));
    exg_pool_run(pool, verify_object, v, v->count);
    exg_pool_destroy(pool);
    for (uint32_t i = 0; i < v->count; i++) {
        if (v->faults[i].status != EXG_OK) {
            tell(v, &v->faults[i]);
        }
    }
    return v->fault_count == 0 ? EXG_OK : EXG_MALFORMED;
}

exg_status exg_store_verify(exg_store *store, uint32_t threads,
                            void (*fault)(void *user, const exg_error *fault), void *user,
                            exg_error *err)
{
    EXG_REQUIRE(err, store);
    verifier v = {.store = store, .fault = fault, .user = user, .first = err};

    EXG_TRY(exg_store_lock_take(store, EXG_STORE_SHARED, err));
    exg_map_init(&v.seen, store->arena);
    return exg_store_lock_give(store, verify_all(&v, threads, err));
}
