/* manifest.c - a folder walked, its files hashed on all cores. */
#include "libexport/artifact/manifest.h"

#include "libexport/base/pool.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What one hash is of. */
typedef struct piece {
    const char *path;
    uint64_t first, end;
    exg_status status;
    exg_error err;
} piece;

typedef struct walker {
    const char *model;
    const exg_manifest_options *options;
    exg_manifest *manifest;
    piece *pieces; /* beside the items */
    uint32_t piece_capacity;
    const char **folders; /* names of those that are to be walked; "" is the model */
    uint32_t folder_count, folder_capacity;
    exg_error *err;
} walker;

static bool is_left_out(const walker *w, const char *name)
{
    for (uint32_t i = 0; i < w->options->left_out_count; i++) {
        const char *other = w->options->left_out[i];
        size_t length = strlen(other);

        length -= length > 0 && other[length - 1] == '/';
        if (strncmp(name, other, length) == 0 && (name[length] == '\0' || name[length] == '/')) {
            return true;
        }
    }
    return false;
}

static exg_status add_piece(walker *w, const char *name, const char *path, uint64_t first,
                            uint64_t end)
{
    exg_manifest *m = w->manifest;

    if (name == NULL || path == NULL ||
        !exg_arena_reserve(m->arena, &w->pieces, m->count, &w->piece_capacity, sizeof(piece)) ||
        !exg_arena_reserve(m->arena, &m->items, m->count, &m->capacity,
                           sizeof(exg_manifest_item))) {
        return EXG_OUT_OF_MEMORY(w->err);
    }
    w->pieces[m->count] = (piece){.path = path, .first = first, .end = end};
    m->items[m->count++] = (exg_manifest_item){.name = name};
    return EXG_OK;
}

static exg_status add_file(walker *w, const char *name, const char *path, uint64_t bytes)
{
    const uint64_t shard = w->options->shard;

    if (shard == 0) {
        return add_piece(w, name, path, 0, bytes);
    }
    for (uint64_t at = 0; at < bytes; at += shard) {
        const uint64_t end = bytes - at < shard ? bytes : at + shard;

        EXG_TRY(add_piece(
            w, exg_arena_printf(w->manifest->arena, "%s:%" PRIu64 ":%" PRIu64, name, at, end), path,
            at, end));
    }
    return EXG_OK;
}

static exg_status add_entry(walker *w, const char *folder, const char *entry)
{
    exg_arena *arena = w->manifest->arena;
    const char *name = folder[0] == '\0' ? exg_arena_strdup(arena, entry)
                                         : exg_arena_printf(arena, "%s/%s", folder, entry);
    const char *path = exg_arena_printf(arena, "%s/%s", w->model, name == NULL ? "" : name);
    struct stat st;
    bool is_link;

    if (name == NULL || path == NULL) {
        return EXG_OUT_OF_MEMORY(w->err);
    }
    if (is_left_out(w, name)) {
        return EXG_OK;
    }
    if (lstat(path, &st) != 0) {
        return EXG_FAIL(w->err, IO, "IO-STAT", "cannot examine %s: %s", path, strerror(errno));
    }
    is_link = S_ISLNK(st.st_mode);
    if (is_link && (!w->options->follow_links || stat(path, &st) != 0 || S_ISDIR(st.st_mode))) {
        return EXG_FAIL(w->err, UNSUPPORTED, "SGN-LINK", "%s is a link%s", path,
                        w->options->follow_links ? " to no file" : "");
    }
    if (S_ISDIR(st.st_mode)) {
        if (!exg_arena_reserve(arena, &w->folders, w->folder_count, &w->folder_capacity,
                               sizeof(*w->folders))) {
            return EXG_OUT_OF_MEMORY(w->err);
        }
        w->folders[w->folder_count++] = name;
        return EXG_OK;
    }
    return S_ISREG(st.st_mode)
               ? add_file(w, name, path, (uint64_t)st.st_size)
               : EXG_FAIL(w->err, UNSUPPORTED, "IO-KIND", "%s is not a regular file", path);
}

static exg_status walk_folder(walker *w, const char *folder)
{
    char *path = exg_arena_printf(w->manifest->arena, "%s/%s", w->model, folder);
    DIR *directory = path == NULL ? NULL : opendir(path);
    exg_status status = EXG_OK;

    if (directory == NULL) {
        return path == NULL || errno == ENOMEM
                   ? EXG_OUT_OF_MEMORY(w->err)
                   : EXG_FAIL(w->err, IO, "IO-OPEN", "cannot open %s: %s", path, strerror(errno));
    }
    for (struct dirent *entry; status == EXG_OK && (entry = readdir(directory)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            status = add_entry(w, folder, entry->d_name);
        }
    }
    closedir(directory);
    return status;
}

static exg_status walk(walker *w)
{
    struct stat st;

    if (stat(w->model, &st) != 0) {
        return EXG_FAIL(w->err, IO, "IO-OPEN", "cannot open %s: %s", w->model, strerror(errno));
    }
    if (!S_ISDIR(st.st_mode)) {
        return add_file(w, ".", w->model, (uint64_t)st.st_size);
    }
    EXG_TRY(walk_folder(w, ""));
    for (uint32_t i = 0; i < w->folder_count; i++) {
        EXG_TRY(walk_folder(w, w->folders[i]));
    }
    return EXG_OK;
}

static exg_status hash_piece(const walker *w, uint32_t index, exg_error *err)
{
    const piece *p = &w->pieces[index];
    exg_mapping mapping;
    exg_status status;

    EXG_TRY(exg_file_map(p->path, false, &mapping, err));
    if (mapping.length < p->end || (w->options->shard == 0 && mapping.length != p->end)) {
        status = EXG_FAIL(err, IO, "IO-CHANGED", "%s was changed while it was read", p->path);
    } else {
        exg_mapping_hash(&mapping, p->first, p->end, w->manifest->items[index].sha256);
        status = exg_mapping_check(&mapping, p->path, err);
    }
    exg_mapping_release(&mapping);
    return status;
}

static void work(void *context, uint32_t index)
{
    walker *w = context;

    w->pieces[index].status = hash_piece(w, index, &w->pieces[index].err);
}

/* By the parts of the paths: "a/b" comes before "a-b". */
static int by_name(const void *a, const void *b)
{
    const char *x = ((const exg_manifest_item *)a)->name;
    const char *y = ((const exg_manifest_item *)b)->name;

    while (*x != '\0' && *x == *y) {
        x++;
        y++;
    }
    return *x == *y                                ? 0
           : *x == '\0' || *y == '\0'              ? (*x == '\0' ? -1 : 1)
           : *x == '/' || *y == '/'                ? (*x == '/' ? -1 : 1)
           : (unsigned char)*x < (unsigned char)*y ? -1
                                                   : 1;
}

exg_status exg_manifest_make(const char *model, const exg_manifest_options *options,
                             exg_manifest *manifest, exg_error *err)
{
    walker w = {.model = model, .options = options, .manifest = manifest, .err = err};
    exg_pool *pool = NULL;

    *manifest = (exg_manifest){.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED)};
    if (manifest->arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(walk(&w));
    EXG_TRY(exg_pool_create(options->threads, &pool, err));
    exg_pool_run(pool, work, &w, manifest->count);
    exg_pool_destroy(pool);
    for (uint32_t i = 0; i < manifest->count; i++) {
        if (w.pieces[i].status != EXG_OK) {
            if (err != NULL) {
                *err = w.pieces[i].err;
            }
            return w.pieces[i].status;
        }
    }
    if (manifest->count > 0) {
        qsort(manifest->items, manifest->count, sizeof(*manifest->items), by_name);
    }
    return EXG_OK;
}

void exg_manifest_free(exg_manifest *manifest)
{
    exg_arena_destroy(manifest->arena);
    *manifest = (exg_manifest){0};
}
