/* weights_ranks.c - a folder with the weights of every rank. */
#include "libexport/base/arena.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"

#include <dirent.h>
#include <errno.h>
#include <exg/formats.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "shard-%05u-model-00001-of-00001.safetensors"

typedef struct folder {
    const char *path, *part;
    uint32_t count; /* of files */
    exg_arena *arena;
    exg_error *err;
} folder;

static const char *file_of(const folder *f, uint32_t rank)
{
    return exg_arena_printf(f->arena, "%s/" FILE_NAME, f->part, rank + 1);
}

static exg_status refused(const folder *f, const char *what, const char *path)
{
    return EXG_FAIL(f->err, IO, "IO-WRITE", "cannot %s %s: %s", what, path, strerror(errno));
}

/* A folder that is there is taken when nothing is in it. */
static exg_status check_place(const folder *f)
{
    DIR *there = opendir(f->path);
    struct dirent *entry;
    bool empty = true;

    if (there == NULL) {
        return errno == ENOENT
                   ? EXG_OK
                   : exg_error_fix(f->err,
                                   EXG_FAIL(f->err, USAGE, "IO-KIND", "%s is no folder: %s",
                                            f->path, strerror(errno)),
                                   "name a folder that is not there");
    }
    while ((entry = readdir(there)) != NULL) {
        empty = empty && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0);
    }
    closedir(there);
    return empty ? EXG_OK
                 : exg_error_fix(
                       f->err,
                       EXG_FAIL(f->err, USAGE, "IO-KIND", "the folder %s is not empty", f->path),
                       "name a folder that is not there");
}

/* Those of an earlier try, too. */
static void clean_up(const folder *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        const char *path = file_of(f, i);

        if (path != NULL) {
            unlink(path);
        }
    }
    rmdir(f->part);
}

/* Tells the file under the name that it gets. */
typedef struct teller {
    const folder *of;
    const exg_weights_save_options *given;
} teller;

static exg_status tell_file(void *user, const char *path, uint32_t tensors, uint64_t bytes,
                            exg_error *err)
{
    const teller *t = user;
    const char *named =
        exg_arena_printf(t->of->arena, "%s%s", t->of->path, path + strlen(t->of->part));

    return named == NULL ? EXG_OUT_OF_MEMORY(err)
                         : t->given->file(t->given->user, named, tensors, bytes, err);
}

static void tell_progress(void *user, uint64_t done, uint64_t total)
{
    const teller *t = user;

    t->given->progress(t->given->user, done, total);
}

static exg_status write_files(const folder *f, exg_weights *const *ranks,
                              const exg_weights_save_options *given)
{
    teller t = {f, given};
    exg_weights_save_options told = *given;
    const exg_weights_save_options *options = &told;

    told.file = given->file == NULL ? NULL : tell_file;
    told.progress = given->progress == NULL ? NULL : tell_progress;
    told.user = &t;
    for (uint32_t i = 0; i < f->count; i++) {
        const char *path = file_of(f, i);

        if (path == NULL) {
            return EXG_OUT_OF_MEMORY(f->err);
        }
        if (ranks[i]->count > 0) { /* as PyTorch has it, and its reader wants it */
            EXG_TRY(exg_weights_save(ranks[i], path, options, f->err));
        }
    }
    return EXG_OK;
}

static exg_status save(const folder *f, exg_weights *const *ranks,
                       const exg_weights_save_options *options)
{
    exg_status status;

    EXG_TRY(check_place(f));
    if (!options->dry_run && mkdir(f->part, 0777) != 0 && errno != EEXIST) {
        return refused(f, "make the folder", f->part);
    }
    status = write_files(f, ranks, options);
    if (status == EXG_OK && !options->dry_run && rename(f->part, f->path) != 0) {
        status = refused(f, "rename a folder to", f->path);
    }
    if (status != EXG_OK && !options->dry_run) {
        clean_up(f);
    }
    return status;
}

exg_status exg_weights_save_ranks(exg_weights *const *ranks, uint32_t count, const char *path,
                                  const exg_weights_save_options *given, exg_error *err)
{
    EXG_REQUIRE(err, EXG_IF_ANY(count, ranks), path);
    exg_weights_save_options options = {0};
    folder f = {.count = count, .err = err};
    size_t length = strlen(path);
    exg_status status;

    EXG_TRY(EXG_READ_OPTIONS(exg_weights_save_options, &options, given, err));
    options.size = sizeof(options);
    if (options.split > 0 || options.resume) {
        return EXG_FAIL(err, USAGE, "STF-SPLIT",
                        "files of ranks are neither split nor gone on with");
    }
    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    f.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    f.path = f.arena == NULL ? NULL : exg_arena_strndup(f.arena, path, length);
    f.part = f.path == NULL ? NULL : exg_arena_printf(f.arena, "%s.part", f.path);
    status = f.part == NULL ? EXG_OUT_OF_MEMORY(err) : save(&f, ranks, &options);
    exg_arena_destroy(f.arena);
    return status;
}
