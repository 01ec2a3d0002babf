/* weights_ranks.c - weights saved, in a folder with those of every rank, or as one model. */
#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/base/options.h"
#include "libexport/base/prefix.h"
#include "libexport/base/require.h"
#include "libexport/formats/pt2/dcp_save.h"

#include <dirent.h>
#include <errno.h>
#include <exg/formats.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHOLE_NAME "model-00001-of-00001.safetensors"
#define PART_NAME  "shard-%05u-" WHOLE_NAME
#define RANK_MARK  "{rank}"

typedef struct exg_ranks_save {
    exg_arena *arena;
    const char *path, *part;
    const char *pattern;       /* of the names of files, with {rank} in it; or NULL */
    bool has_metadata;         /* files of chunks, and .metadata; else safetensors */
    bool alone;                /* one rank has all */
    int lock;                  /* the folder `part`, open; or -1 */
    bool resumes;              /* what is written stays when it is stopped */
    exg_map files;             /* then: their names */
    exg_save_journal *journal; /* and what they are gone on with by, in this process; or NULL */
    exg_error *err;
} folder;

/* With two digits, as Meta's and Megatron-LM's files have them. */
static const char *fill_pattern(const folder *f, uint32_t rank)
{
    const char *name = f->pattern;
    const char *mark;

    while (name != NULL && (mark = strstr(name, RANK_MARK)) != NULL) {
        name = exg_arena_printf(f->arena, "%.*s%02u%s", (int)(mark - name), name, rank,
                                mark + strlen(RANK_MARK));
    }
    return name;
}

static const char *file_of(const folder *f, const exg_rank_file *file)
{
    const char *name = f->has_metadata      ? exg_dcp_file_name(file, f->arena)
                       : f->pattern != NULL ? fill_pattern(f, file->rank)
                       : f->alone           ? WHOLE_NAME
                                            : exg_arena_printf(f->arena, PART_NAME, file->rank + 1);

    return name == NULL ? NULL : exg_arena_printf(f->arena, "%s/%s", f->part, name);
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

/* Is it a name that a save gives, but for what follows the number? */
static bool is_ours(const folder *f, const char *name)
{
    static const char *const beginnings[] = {"shard-", "model-", "__", "metadata"};
    size_t length = f->pattern == NULL ? 0 : (size_t)(strstr(f->pattern, RANK_MARK) - f->pattern);

    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++) {
        if (exg_behind(name, beginnings[i]) != NULL) {
            return true;
        }
    }
    return f->pattern != NULL && strncmp(name, f->pattern, length) == 0 &&
           strspn(name + length, "0123456789") > 1;
}

typedef enum kept {
    KEEP_NOTHING,
    KEEP_FILES,    /* of f->files */
    KEEP_JOURNALS, /* and what they are gone on with by */
    KEEP_ALL       /* of other processes, too */
} kept;

/* Is it one of f->files, or its journal? No link is. */
static bool is_kept(const folder *f, const char *name, kept what)
{
    static const char end[] = ".resume";
    size_t length = strlen(name);
    char whole[NAME_MAX + 1];
    struct stat st;

    if (what == KEEP_NOTHING || fstatat(f->lock, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(st.st_mode)) {
        return false;
    }
    if (what >= KEEP_JOURNALS && length > strlen(end) && length <= NAME_MAX &&
        strcmp(name + length - strlen(end), end) == 0) {
        length -= strlen(end);
    }
    snprintf(whole, sizeof(whole), "%.*s", (int)length, name);
    return what == KEEP_ALL || exg_map_find(&f->files, whole) != EXG_MAP_NONE;
}

/* Takes away what this save, or one that was stopped, has left, but what is to be kept; what else
 * is there stays. */
static void empty_part(const folder *f, kept what)
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

        if (is_ours(f, name) && !is_kept(f, entry->d_name, what)) {
            unlinkat(f->lock, entry->d_name, 0);
        }
    }
    closedir(there);
}

/* Makes FOLDER.part, or takes that of a save that was stopped; locked until it is closed. */
static exg_status open_part(folder *f, kept what)
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
    empty_part(f, what);
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

static exg_status write_file(const folder *f, const exg_rank_file *file,
                             const exg_weights_save_options *given)
{
    teller t = {f, given};
    exg_weights_save_options told = *given;
    const char *path = file_of(f, file);

    if (path == NULL) {
        return EXG_OUT_OF_MEMORY(f->err);
    }
    told.file = given->file == NULL ? NULL : tell_file;
    told.progress = given->progress == NULL ? NULL : tell_progress;
    told.user = &t;
    return exg_weights_save_as(file->weights, f->has_metadata ? &exg_dcp_sink : NULL, path,
                               f->journal, &told, f->err);
}

/* ---- one after another ------------------------------------------------------------------------
 */

static void destroy(folder *f)
{
    exg_save_journal_close(f->journal, false);
    if (f->lock >= 0) {
        close(f->lock);
    }
    exg_arena_destroy(f->arena);
}

/* Of "FOLDER/.metadata" and "FOLDER/NAME.{rank}.pt" the folder. */
static exg_status name_folder(folder *f, const char *path, exg_error *err)
{
    const char *name = exg_path_name(path);
    bool is_pattern = strstr(name, RANK_MARK) != NULL;
    size_t length = strlen(path);

    *f = (folder){.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED),
                  .has_metadata = strcmp(name, EXG_DCP_METADATA) == 0,
                  .lock = -1,
                  .err = err};
    length -= f->has_metadata || is_pattern ? strlen(name) : 0;
    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    if (length == 0 || strcmp(path, "/") == 0) {
        exg_arena_destroy(f->arena);
        return exg_error_fix(
            err, EXG_FAIL(err, USAGE, "IO-KIND", "%s lies in no folder that can be made", path),
            "name a folder that is not there: FOLDER/%s", name);
    }
    f->path = f->arena == NULL ? NULL : exg_arena_strndup(f->arena, path, length);
    f->part = f->path == NULL ? NULL : exg_arena_printf(f->arena, "%s.part", f->path);
    f->pattern = is_pattern && f->arena != NULL ? exg_arena_strdup(f->arena, name) : NULL;
    if (f->part == NULL || (is_pattern && f->pattern == NULL)) {
        exg_arena_destroy(f->arena);
        return EXG_OUT_OF_MEMORY(err);
    }
    return EXG_OK;
}

static exg_status begin(folder *f)
{
    EXG_TRY(check_place(f));
    return open_part(f, f->resumes ? KEEP_ALL : KEEP_NOTHING);
}

static exg_status name_files(folder *f, const exg_rank_file *files, uint32_t count)
{
    exg_map_init(&f->files, f->arena);
    for (uint32_t i = 0; i < count; i++) {
        const char *path = file_of(f, &files[i]);

        if (path == NULL || !exg_map_put(&f->files, exg_path_name(path), i)) {
            return EXG_OUT_OF_MEMORY(f->err);
        }
    }
    return !f->has_metadata || exg_map_put(&f->files, EXG_DCP_METADATA, count)
               ? EXG_OK
               : EXG_OUT_OF_MEMORY(f->err);
}

/* What was written goes, but what can be gone on with. */
static void give_up(const folder *f)
{
    if (!f->resumes) {
        empty_part(f, KEEP_NOTHING);
    }
    exg_save_journal_close(f->journal, rmdir(f->part) == 0);
}

/* It gets its name. */
static exg_status end(folder *f, exg_status status)
{
    if (status == EXG_OK && f->resumes) {
        empty_part(f, KEEP_FILES);
        exg_save_journal_close(f->journal, true);
        f->journal = NULL;
    }
    if (status == EXG_OK && rename(f->part, f->path) != 0) {
        status = refused(f, "rename a folder to", f->path);
    }
    if (status != EXG_OK) {
        give_up(f);
        f->journal = NULL;
    }
    return status;
}

static const char *metadata_of(const folder *f)
{
    return exg_arena_printf(f->arena, "%s/" EXG_DCP_METADATA, f->part);
}

static exg_status write_metadata(const folder *f, const exg_rank_file *files, uint32_t count)
{
    const char *path = metadata_of(f);

    return path == NULL ? EXG_OUT_OF_MEMORY(f->err)
                        : exg_dcp_metadata_save(files, count, path, f->err);
}

/* What is in the folder, as one model at `path`. */
static exg_status join(const folder *f, const char *path, const exg_weights_save_options *options)
{
    const char *from = metadata_of(f);
    exg_weights *weights = NULL;
    exg_status status;

    if (from == NULL) {
        return EXG_OUT_OF_MEMORY(f->err);
    }
    EXG_TRY(exg_weights_open(from, NULL, &weights, NULL, f->err));
    status = exg_weights_save(weights, path, options, f->err);
    exg_weights_release(weights);
    return status;
}

static exg_status check_options(const exg_weights_save_options *given,
                                exg_weights_save_options *options, exg_error *err)
{
    EXG_TRY(EXG_READ_OPTIONS(exg_weights_save_options, options, given, err));
    options->size = sizeof(*options);
    return options->split > 0
               ? exg_error_fix(err,
                               EXG_FAIL(err, USAGE, "STF-SPLIT", "files of ranks are not split"),
                               "leave --split out")
               : EXG_OK;
}

/* By whoever writes a distributed checkpoint piece by piece. */
static exg_status want_metadata(const folder *f)
{
    return f->has_metadata
               ? EXG_OK
               : exg_error_fix(f->err,
                               EXG_FAIL(f->err, USAGE, "TNS-NAME",
                                        "'%s' is no " EXG_DCP_METADATA
                                        " in a folder: others are written by one process",
                                        f->path),
                               "name FOLDER/" EXG_DCP_METADATA);
}

static exg_status begin_several(const char *path, bool resumes, exg_ranks_save **save,
                                exg_error *err)
{
    folder named;
    exg_status status;

    *save = NULL;
    EXG_TRY(name_folder(&named, path, err));
    named.resumes = resumes;
    status = want_metadata(&named);
    status = status == EXG_OK ? begin(&named) : status;
    *save = status == EXG_OK ? EXG_NEW(named.arena, folder) : NULL;
    if (*save == NULL) {
        status = status == EXG_OK ? EXG_OUT_OF_MEMORY(err) : status;
        destroy(&named);
        return status;
    }
    **save = named;
    return EXG_OK;
}

exg_status exg_ranks_save_begin(const char *path, exg_ranks_save **save, exg_error *err)
{
    EXG_REQUIRE(err, path, save);
    return begin_several(path, false, save, err);
}

exg_status exg_ranks_save_resume(const char *path, exg_ranks_save **save, exg_error *err)
{
    EXG_REQUIRE(err, path, save);
    return begin_several(path, true, save, err);
}

/* Each file has a plan of its own, so one journal does for every save to this place. */
static exg_status open_journal(folder *f, const char *path)
{
    static const char plan[EXG_SAVE_PLAN_DIGITS + 1] = "00000000000000000000000000000000";

    return path == NULL ? EXG_OUT_OF_MEMORY(f->err)
                        : exg_save_journal_open(path, plan, f->arena, &f->journal, f->err);
}

exg_status exg_ranks_save_file(const exg_rank_file *file, const char *path,
                               const exg_weights_save_options *given, exg_error *err)
{
    EXG_REQUIRE(err, file, path);
    EXG_REQUIRE(err, file->weights);
    exg_weights_save_options options = {0};
    const char *whole = NULL;
    exg_status status;
    folder f;

    EXG_TRY(check_options(given, &options, err));
    EXG_TRY(name_folder(&f, path, err));
    status = want_metadata(&f);
    if (status == EXG_OK && options.resume) { /* beside it: no other process writes there */
        whole = file_of(&f, file);
        status = open_journal(&f, whole);
    }
    status = status == EXG_OK ? write_file(&f, file, &options) : status;
    if (status != EXG_OK && whole != NULL && access(whole, F_OK) != 0) { /* nothing to go on with */
        exg_save_journal_close(f.journal, true);
        f.journal = NULL;
    }
    destroy(&f);
    return status;
}

exg_status exg_ranks_save_end(exg_ranks_save *save, const exg_rank_file *files, uint32_t count,
                              exg_error *err)
{
    EXG_REQUIRE(err, save, EXG_IF_ANY(count, files));
    folder f = *save;
    exg_status status;

    f.err = err;
    status = name_files(&f, files, count);
    status = status == EXG_OK ? write_metadata(&f, files, count) : status;
    status = end(&f, status);
    destroy(&f);
    return status;
}

exg_status exg_ranks_save_join(exg_ranks_save *save, const exg_rank_file *files, uint32_t count,
                               const char *path, const exg_weights_save_options *options,
                               exg_error *err)
{
    EXG_REQUIRE(err, save, EXG_IF_ANY(count, files), path);
    folder f = *save;
    exg_status status;

    f.err = err;
    status = write_metadata(&f, files, count);
    status = status == EXG_OK ? join(&f, path, options) : status;
    f.resumes = f.resumes && status != EXG_OK; /* they go when they were put together */
    give_up(&f);
    destroy(&f);
    return status;
}

void exg_ranks_save_abort(exg_ranks_save *save)
{
    if (save != NULL) {
        folder f = *save;

        give_up(&f);
        destroy(&f);
    }
}

/* ---- all of them ------------------------------------------------------------------------------
 */

/* A rank that has nothing has no file, as PyTorch has it, and its reader wants it; but where all
 * are one of a series. */
static exg_status choose_files(folder *f, exg_weights *const *ranks, uint32_t count,
                               exg_rank_file **files, uint32_t *some)
{
    exg_rank_file *chosen = EXG_NEW_ARRAY(f->arena, exg_rank_file, count);

    *files = chosen;
    *some = 0;
    for (uint32_t i = 0; chosen != NULL && i < count; i++) {
        if (ranks[i]->count > 0 || f->pattern != NULL) {
            chosen[(*some)++] = (exg_rank_file){i, 0, ranks[i]};
        }
    }
    f->alone = *some == 1;
    return chosen == NULL ? EXG_OUT_OF_MEMORY(f->err) : EXG_OK;
}

static exg_status write_all(folder *f, const exg_rank_file *files, uint32_t count,
                            const exg_weights_save_options *options)
{
    for (uint32_t i = 0; i < count; i++) {
        EXG_TRY(write_file(f, &files[i], options));
    }
    return f->has_metadata && !options->dry_run ? write_metadata(f, files, count) : EXG_OK;
}

static exg_status begin_again(folder *f, const exg_rank_file *files, uint32_t count)
{
    f->resumes = true;
    EXG_TRY(name_files(f, files, count));
    EXG_TRY(check_place(f));
    EXG_TRY(open_part(f, KEEP_JOURNALS));
    return open_journal(f, f->path);
}

static exg_status save_all(folder *f, exg_weights *const *ranks, uint32_t count,
                           const exg_weights_save_options *options)
{
    exg_rank_file *files;
    uint32_t some;

    EXG_TRY(choose_files(f, ranks, count, &files, &some));
    if (options->dry_run) {
        EXG_TRY(check_place(f));
        return write_all(f, files, some, options);
    }
    EXG_TRY(options->resume ? begin_again(f, files, some) : begin(f));
    return end(f, write_all(f, files, some, options));
}

exg_status exg_weights_save_ranks(exg_weights *const *ranks, uint32_t count, const char *path,
                                  const exg_weights_save_options *given, exg_error *err)
{
    EXG_REQUIRE(err, EXG_IF_ANY(count, ranks), path);
    exg_weights_save_options options = {0};
    exg_status status;
    folder f;

    EXG_TRY(check_options(given, &options, err));
    EXG_TRY(name_folder(&f, path, err));
    status = save_all(&f, ranks, count, &options);
    destroy(&f);
    return status;
}

exg_status exg_weights_save(exg_weights *weights, const char *path,
                            const exg_weights_save_options *options, exg_error *err)
{
    EXG_REQUIRE(err, weights, path);
    return exg_weights_format_from_path(path) == EXG_WEIGHTS_FORMAT_DCP
               ? exg_weights_save_ranks(&weights, 1, path, options, err)
               : exg_weights_save_as(weights, NULL, path, NULL, options, err);
}
