/* weights_ranks.c - a folder with the weights of every rank. */
#include "libexport/base/arena.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"

#include <dirent.h>
#include <errno.h>
#include <exg/formats.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHOLE_NAME "model-00001-of-00001.safetensors"
#define PART_NAME  "shard-%05u-" WHOLE_NAME

typedef struct folder {
    const char *path, *part;
    uint32_t count; /* of ranks */
    bool alone;     /* one of them has all */
    int lock;       /* the folder `part`, open; or -1 */
    exg_arena *arena;
    exg_error *err;
} folder;

static const char *file_of(const folder *f, uint32_t rank)
{
    return f->alone ? exg_arena_printf(f->arena, "%s/" WHOLE_NAME, f->part)
                    : exg_arena_printf(f->arena, "%s/" PART_NAME, f->part, rank + 1);
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

/* Takes away what this save, or one that was stopped, has left; what else is there stays. */
static void empty_part(const folder *f)
{
    int copy = dup(f->lock);
    DIR *there = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;

    if (there == NULL) {
        close(copy);
        return;
    }
    rewinddir(there);
    while ((entry = readdir(there)) != NULL) {
        const char *name = entry->d_name + (entry->d_name[0] == '.');

        if (strncmp(name, "shard-", 6) == 0 || strncmp(name, "model-", 6) == 0) {
            unlinkat(f->lock, entry->d_name, 0);
        }
    }
    closedir(there);
}

/* Makes FOLDER.part, or takes that of a save that was stopped; locked until it is closed. */
static exg_status open_part(folder *f)
{
    struct stat opened;
    struct stat there;

    if (mkdir(f->part, 0777) != 0 && errno != EEXIST) {
        return refused(f, "make the folder", f->part);
    }
    f->lock = open(f->part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->lock < 0) {
        return refused(f, "open the folder", f->part);
    }
    if (flock(f->lock, LOCK_EX | LOCK_NB) != 0 || fstat(f->lock, &opened) != 0 ||
        stat(f->part, &there) != 0 || opened.st_ino != there.st_ino ||
        opened.st_dev != there.st_dev) {
        return EXG_FAIL(f->err, IO, "IO-BUSY", "another save holds %s", f->part);
    }
    empty_part(f);
    return EXG_OK;
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

static exg_status save(folder *f, exg_weights *const *ranks,
                       const exg_weights_save_options *options)
{
    exg_status status;

    EXG_TRY(check_place(f));
    if (options->dry_run) {
        return write_files(f, ranks, options);
    }
    status = open_part(f);
    if (status == EXG_OK) {
        status = write_files(f, ranks, options);
        if (status == EXG_OK && rename(f->part, f->path) != 0) {
            status = refused(f, "rename a folder to", f->path);
        }
        if (status != EXG_OK) {
            empty_part(f);
            rmdir(f->part);
        }
    }
    if (f->lock >= 0) {
        close(f->lock);
    }
    return status;
}

exg_status exg_weights_save_ranks(exg_weights *const *ranks, uint32_t count, const char *path,
                                  const exg_weights_save_options *given, exg_error *err)
{
    EXG_REQUIRE(err, EXG_IF_ANY(count, ranks), path);
    exg_weights_save_options options = {0};
    folder f = {.count = count, .lock = -1, .err = err};
    size_t length = strlen(path);
    exg_status status;

    EXG_TRY(EXG_READ_OPTIONS(exg_weights_save_options, &options, given, err));
    options.size = sizeof(options);
    if (options.split > 0 || options.resume) {
        return EXG_FAIL(err, USAGE, "STF-SPLIT",
                        "files of ranks are neither split nor gone on with");
    }
    for (uint32_t i = 0, some = 0; i < count; i++) {
        some += ranks[i]->count > 0;
        f.alone = some == 1;
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
