/* writer.c - writing side of files.h: a temporary file beside the target. */
#include "libexport/base/files.h"

#include "libexport/base/checked.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define BUFFER_BYTES (64u << 10)
#define PAGE_BYTES   UINT64_C(4096)
#define ATTEMPTS_MAX 100
#define LINKS_MAX    40 /* one after the other, as of the system */
#define NAME_ROOM    32 /* what a temporary name is longer */

struct exg_writer {
    int descriptor;
    char *path;      /* the target */
    char *temporary; /* what is written; "" while it has no name */
    char *directory; /* "" is the working directory */
    size_t temporary_capacity;
    bool kept;                /* when it is aborted */
    bool is_there;            /* under the target's name */
    exg_writer_told_fn *told; /* NULL: it is written */
    void *teller;
    uint64_t position;
    uint64_t replayed;              /* bytes from the beginning that are there already */
    exg_writer_observe_fn *observe; /* NULL: nobody */
    void *observer;
    size_t buffered;
    unsigned char buffer[BUFFER_BYTES];
};

static exg_status refused(const exg_writer *writer, const char *what, exg_error *err)
{
    bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
    exg_status status =
        EXG_FAIL(err, IO, "IO-WRITE", "cannot %s %s: %s", what, writer->path, strerror(errno));

    return full ? exg_error_fix(err, status, "what was there is unchanged: make room, try again")
                : status;
}

static void discard(exg_writer *writer)
{
    if (writer->descriptor >= 0) {
        close(writer->descriptor);
    }
    free(writer->path);
    free(writer->temporary);
    free(writer->directory);
    free(writer);
}

exg_status exg_file_check_room(const char *path, uint64_t bytes, exg_error *err)
{
    char *directory = exg_path_directory(path);
    struct statvfs disk;
    bool known;

    if (directory == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    known = statvfs(directory[0] == '\0' ? "." : directory, &disk) == 0;
    free(directory);
    if (known && bytes / disk.f_frsize > disk.f_bavail) {
        return EXG_FAIL(err, IO, "IO-ROOM",
                        "%" PRIu64 " bytes are to be written to %s, where there are %" PRIu64,
                        bytes, path, (uint64_t)disk.f_bavail * disk.f_frsize);
    }
    return EXG_OK;
}

/* ".name.<16 hex digits>.part" in the target's folder, of the name as much as leaves room. */
static void name_temporary(exg_writer *writer, uint64_t attempt)
{
    const char *name = strrchr(writer->path, '/');
    uint64_t nonce = (uint64_t)getpid() << 32 | attempt;

    if (getrandom(&nonce, sizeof(nonce), GRND_NONBLOCK) < 0) {
        nonce ^= (uint64_t)(uintptr_t)writer;
    }
    snprintf(writer->temporary, writer->temporary_capacity, "%s.%.*s.%016llx.part",
             writer->directory, NAME_MAX - NAME_ROOM, name == NULL ? writer->path : name + 1,
             (unsigned long long)nonce);
}

/* Without a name where that is possible, and where one can be given later: then it goes with
 * the process. The mode obeys the umask. */
static exg_status create_temporary(exg_writer *writer, exg_error *err)
{
    if (access("/proc/self/fd", X_OK) == 0) {
        writer->descriptor = open(writer->directory[0] == '\0' ? "." : writer->directory,
                                  O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    }
    for (uint64_t i = 0; writer->descriptor < 0 && i < ATTEMPTS_MAX; i++) {
        name_temporary(writer, i);
        writer->descriptor = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->descriptor < 0 && errno != EEXIST) {
            writer->temporary[0] = '\0';
            break;
        }
    }
    return writer->descriptor >= 0 ? EXG_OK : refused(writer, "create a file beside", err);
}

/* A name for a file that has none, so that it can be renamed over the target. */
static bool link_temporary(exg_writer *writer)
{
    char self[64];

    snprintf(self, sizeof(self), "/proc/self/fd/%d", writer->descriptor);
    for (uint64_t i = 0; i < ATTEMPTS_MAX && writer->temporary[0] == '\0'; i++) {
        name_temporary(writer, i);
        if (linkat(AT_FDCWD, self, AT_FDCWD, writer->temporary, AT_SYMLINK_FOLLOW) != 0) {
            writer->temporary[0] = '\0';
            if (errno != EEXIST) {
                break;
            }
        }
    }
    return writer->temporary[0] != '\0';
}

/* The target itself, where there is none yet: no other name comes first, and none can be left. */
static bool link_target(exg_writer *writer)
{
    char self[64];

    snprintf(self, sizeof(self), "/proc/self/fd/%d", writer->descriptor);
    writer->is_there = linkat(AT_FDCWD, self, AT_FDCWD, writer->path, AT_SYMLINK_FOLLOW) == 0;
    return writer->is_there;
}

static exg_status check_target(const char *path, exg_error *err)
{
    struct stat st;

    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        return EXG_FAIL(err, USAGE, "IO-KIND", "%s exists and is not a regular file", path);
    }
    return EXG_OK;
}

/* ---- links ----------------------------------------------------------------------------------- */

/* Where the link `path` leads, from the folder that it lies in; NULL without memory, or with errno
 * when it is no link. */
static char *follow_link(const char *path)
{
    char target[PATH_MAX];
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    char *directory = length < 0 || target[0] == '/' ? NULL : exg_path_directory(path);
    size_t room = directory == NULL ? 0 : strlen(directory) + (size_t)length + 1;
    char *followed = room == 0 ? NULL : malloc(room);

    if (length < 0) {
        return NULL;
    }
    target[length] = '\0';
    if (target[0] == '/') {
        return strdup(target);
    }
    if (followed != NULL) {
        snprintf(followed, room, "%s%s", directory, target);
    }
    free(directory);
    return followed;
}

static exg_status no_way(const char *path, const char *where, exg_error *err)
{
    return exg_error_fix(
        err,
        EXG_FAIL(err, IO, "IO-LINK", "%s is a link to %s, which cannot be written", path, where),
        "remove the link, or make the folder that it leads to");
}

static bool has_folder(const char *path)
{
    char *directory = exg_path_directory(path);
    bool has = directory != NULL && access(directory[0] == '\0' ? "." : directory, W_OK) == 0;

    free(directory);
    return has;
}

exg_status exg_path_written(const char *path, char **written, exg_error *err)
{
    struct stat st;
    char *now = strdup(path);
    exg_status status = now == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    int links = 0;

    while (status == EXG_OK && lstat(now, &st) == 0 && S_ISLNK(st.st_mode)) {
        char *next = follow_link(now);

        if (next == NULL || ++links > LINKS_MAX) {
            status = next == NULL ? EXG_OUT_OF_MEMORY(err) : no_way(path, "itself", err);
        }
        free(now);
        now = next;
    }
    if (status == EXG_OK && links > 0 && !has_folder(now)) {
        status = no_way(path, now, err);
    }
    if (status != EXG_OK) {
        free(now);
        now = NULL;
    }
    *written = now;
    return status;
}

/* A file that replaces another is as open to others as that one. */
static exg_status take_mode(exg_writer *writer, exg_error *err)
{
    struct stat st;

    struct stat own;

    return stat(writer->path, &st) != 0 ||
                   (fstat(writer->descriptor, &own) == 0 && own.st_ino == st.st_ino &&
                    own.st_dev == st.st_dev) ||
                   fchmod(writer->descriptor, st.st_mode & 0777) == 0
               ? EXG_OK
               : refused(writer, "set the mode of a file beside", err);
}

/* The file of an earlier try, or a new one. */
static exg_status open_part(exg_writer *writer, const char *part, exg_error *err)
{
    snprintf(writer->temporary, writer->temporary_capacity, "%s", part);
    writer->descriptor = open(part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    return writer->descriptor >= 0 ? EXG_OK : refused(writer, "open a part of", err);
}

/* It may be removed between opening and locking. */
exg_status exg_file_open_alone(const char *path, int *descriptor, exg_error *err)
{
    struct stat opened;
    struct stat there;

    for (;;) {
        *descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (*descriptor < 0 || fstat(*descriptor, &opened) != 0) {
            return EXG_FAIL(err, IO, "IO-WRITE", "cannot write %s: %s", path, strerror(errno));
        }
        if (flock(*descriptor, LOCK_EX | LOCK_NB) != 0) {
            close(*descriptor);
            *descriptor = -1;
            return EXG_FAIL(err, IO, "IO-BUSY", "another save holds %s", path);
        }
        if (stat(path, &there) == 0 && there.st_ino == opened.st_ino &&
            there.st_dev == opened.st_dev) {
            return EXG_OK;
        }
        close(*descriptor);
    }
}

/* The folder must be there all the same. */
static exg_status check_folder(exg_writer *writer, exg_error *err)
{
    return access(writer->directory[0] == '\0' ? "." : writer->directory, W_OK | X_OK) == 0
               ? EXG_OK
               : refused(writer, "create a file beside", err);
}

static exg_status create_writer(const char *path, const char *part, exg_writer_told_fn *told,
                                exg_writer **writer, exg_error *err)
{
    exg_writer *w = calloc(1, sizeof(*w));
    exg_status status;

    *writer = NULL;
    if (w == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    w->descriptor = -1;
    w->told = told;
    status = check_target(path, err);
    status = status == EXG_OK ? exg_path_written(path, &w->path, err) : status;
    if (status != EXG_OK) {
        discard(w);
        return status;
    }
    w->directory = exg_path_directory(w->path);
    w->temporary_capacity = strlen(part == NULL ? w->path : part) + NAME_ROOM;
    w->temporary = calloc(1, w->temporary_capacity);
    if (w->directory == NULL || w->temporary == NULL) {
        status = EXG_OUT_OF_MEMORY(err);
    }
    if (status == EXG_OK) {
        status = told != NULL   ? check_folder(w, err)
                 : part == NULL ? create_temporary(w, err)
                                : open_part(w, part, err);
    }
    if (status == EXG_OK && told == NULL) {
        status = take_mode(w, err);
    }
    if (status != EXG_OK) {
        discard(w);
        return status;
    }
    *writer = w;
    return EXG_OK;
}

exg_status exg_writer_open(const char *path, exg_writer **writer, exg_error *err)
{
    return create_writer(path, NULL, NULL, writer, err);
}

exg_status exg_writer_open_dry(const char *path, exg_writer_told_fn *told, void *user,
                               exg_writer **writer, exg_error *err)
{
    EXG_TRY(create_writer(path, NULL, told, writer, err));
    (*writer)->teller = user;
    return EXG_OK;
}

exg_status exg_writer_open_part(const char *path, const char *part, uint64_t keep,
                                exg_writer **writer, exg_error *err)
{
    exg_status status;
    struct stat st;

    EXG_TRY(create_writer(path, part, NULL, writer, err));
    (*writer)->kept = true;
    (*writer)->position = keep;
    if (fstat((*writer)->descriptor, &st) == 0 && (uint64_t)st.st_size == keep) {
        return EXG_OK; /* the times of a file that is whole stay, too */
    }
    if (ftruncate((*writer)->descriptor, (off_t)keep) != 0) {
        status = refused(*writer, "cut", err);
        exg_writer_abort(*writer);
        *writer = NULL;
        return status;
    }
    return EXG_OK;
}

/* pwrite in full. Long pieces set out for the disk at once, so that the sync at the end has
 * little to wait for: 1.7 times the speed of writing first and syncing then. */
static exg_status write_at(exg_writer *writer, uint64_t offset, const void *data, uint64_t length,
                           exg_error *err)
{
    const unsigned char *bytes = data;
    uint64_t first = offset;

    if (writer->told != NULL) {
        return EXG_OK;
    }
    while (length > 0) {
        size_t chunk = length > (1u << 30) ? (1u << 30) : (size_t)length;
        ssize_t written = pwrite(writer->descriptor, bytes, chunk, (off_t)offset);

        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0 && errno == EFAULT) {
            return EXG_FAIL(err, IO, "IO-CHANGED",
                            "the file that is read became shorter while %s was written",
                            writer->path);
        }
        if (written <= 0) {
            return refused(writer, "write", err);
        }
        bytes += written;
        offset += (uint64_t)written;
        length -= (uint64_t)written;
    }
    if (offset - first >= BUFFER_BYTES) { /* of no consequence where it is refused */
        (void)sync_file_range(writer->descriptor, (off_t)first, (off_t)(offset - first),
                              SYNC_FILE_RANGE_WRITE);
    }
    return EXG_OK;
}

static exg_status flush(exg_writer *writer, exg_error *err)
{
    size_t buffered = writer->buffered;

    writer->buffered = 0;
    return write_at(writer, writer->position - buffered, writer->buffer, buffered, err);
}

void exg_writer_replay(exg_writer *writer)
{
    assert(writer->buffered == 0);
    writer->replayed = writer->position;
    writer->position = 0;
}

uint64_t exg_writer_kept(const exg_writer *writer)
{
    return writer->replayed;
}

exg_status exg_writer_read(const exg_writer *writer, uint64_t offset, void *out, uint64_t length,
                           exg_error *err)
{
    assert(exg_range_inside(offset, length, writer->replayed));
    for (uint64_t at = 0; at < length;) {
        ssize_t got = pread(writer->descriptor, (uint8_t *)out + at, (size_t)(length - at),
                            (off_t)(offset + at));

        if (got == 0 || (got < 0 && errno != EINTR)) {
            return got == 0 ? EXG_FAIL(err, IO, "IO-CHANGED", "%s became shorter while it was read",
                                       writer->temporary)
                            : refused(writer, "read a part of", err);
        }
        at += got < 0 ? 0 : (uint64_t)got;
    }
    return EXG_OK;
}

void exg_writer_observe(exg_writer *writer, exg_writer_observe_fn *observe, void *user)
{
    writer->observe = observe;
    writer->observer = user;
}

/* What of `length` bytes is there already. */
static uint64_t pass_kept(exg_writer *writer, uint64_t length)
{
    uint64_t left = writer->position < writer->replayed ? writer->replayed - writer->position : 0;
    uint64_t passed = left < length ? left : length;

    writer->position += passed;
    return passed;
}

exg_status exg_writer_write(exg_writer *writer, const void *bytes, uint64_t all, exg_error *err)
{
    uint64_t passed = pass_kept(writer, all);
    uint64_t length = all - passed;
    const uint8_t *data = (const uint8_t *)bytes + passed;

    if (length == 0) {
        return EXG_OK;
    }
    if (writer->observe != NULL) {
        EXG_TRY(writer->observe(writer->observer, writer->position, data, length, err));
    }
    if (length > BUFFER_BYTES - writer->buffered) {
        EXG_TRY(flush(writer, err));
    }
    writer->position += length;
    if (length >= BUFFER_BYTES) {
        return write_at(writer, writer->position - length, data, length, err);
    }
    memcpy(writer->buffer + writer->buffered, data, (size_t)length);
    writer->buffered += (size_t)length;
    return EXG_OK;
}

exg_status exg_writer_align(exg_writer *writer, uint64_t alignment, exg_error *err)
{
    static const unsigned char zeros[4096];
    uint64_t end;

    assert(alignment != 0 && (alignment & (alignment - 1)) == 0);
    if (!exg_align_u64(writer->position, alignment, &end)) {
        return EXG_FAIL(err, LIMIT, "IO-SIZE", "the file would pass 64 bits");
    }
    while (writer->position < end) {
        uint64_t gap = end - writer->position;

        EXG_TRY(exg_writer_write(writer, zeros, gap < sizeof(zeros) ? gap : sizeof(zeros), err));
    }
    return EXG_OK;
}

/* Has an earlier try patched them? */
static bool holds(const exg_writer *writer, uint64_t offset, const uint8_t *data, size_t length)
{
    uint8_t found[4096];
    size_t at = 0;

    while (at < length) {
        size_t piece = length - at < sizeof(found) ? length - at : sizeof(found);
        ssize_t got = pread(writer->descriptor, found, piece, (off_t)(offset + at));

        if (got <= 0 || memcmp(found, data + at, (size_t)got) != 0) {
            return false;
        }
        at += (size_t)got;
    }
    return true;
}

exg_status exg_writer_patch(exg_writer *writer, uint64_t offset, const void *data, size_t length,
                            exg_error *err)
{
    assert(exg_range_inside(offset, length, writer->position));
    EXG_TRY(flush(writer, err));
    if (writer->kept && holds(writer, offset, data, length)) {
        return EXG_OK;
    }
    if (writer->observe != NULL) {
        EXG_TRY(writer->observe(writer->observer, offset, data, length, err));
    }
    return write_at(writer, offset, data, length, err);
}

exg_status exg_writer_clone(exg_writer *writer, int from, uint64_t offset, uint64_t length,
                            uint64_t *cloned, exg_error *err)
{
    struct file_clone_range range = {.src_fd = from,
                                     .src_offset = offset,
                                     .src_length = length & ~(PAGE_BYTES - 1),
                                     .dest_offset = writer->position};

    *cloned = 0;
    if (writer->told != NULL || range.src_length == 0 ||
        ((offset | writer->position) & (PAGE_BYTES - 1)) != 0) {
        return EXG_OK;
    }
    EXG_TRY(flush(writer, err));
    if (ioctl(writer->descriptor, FICLONERANGE, &range) == 0) {
        writer->position += range.src_length;
        *cloned = range.src_length;
    }
    return EXG_OK;
}

exg_status exg_writer_reserve(exg_writer *writer, uint64_t length, exg_error *err)
{
    EXG_TRY(flush(writer, err));
    if (!exg_add_u64(writer->position, length, &writer->position)) {
        return EXG_FAIL(err, LIMIT, "IO-SIZE", "the file would pass 64 bits");
    }
    return EXG_OK;
}

exg_status exg_writer_put(exg_writer *writer, uint64_t offset, const void *data, uint64_t length,
                          exg_error *err)
{
    assert(exg_range_inside(offset, length, writer->position));
    return write_at(writer, offset, data, length, err);
}

exg_status exg_writer_name(exg_writer *writer, const char *path, exg_error *err)
{
    size_t capacity = strlen(path) + NAME_ROOM;
    char *copy;
    char *temporary;

    EXG_TRY(check_target(path, err));
    copy = strdup(path);
    temporary =
        realloc(writer->temporary,
                capacity > writer->temporary_capacity ? capacity : writer->temporary_capacity);

    if (temporary != NULL) {
        writer->temporary = temporary;
    }
    if (copy == NULL || temporary == NULL) {
        free(copy);
        return EXG_OUT_OF_MEMORY(err);
    }
    if (capacity > writer->temporary_capacity) {
        writer->temporary_capacity = capacity;
    }
    free(writer->path);
    writer->path = copy;
    return EXG_OK;
}

uint64_t exg_writer_position(const exg_writer *writer)
{
    return writer->position;
}

/* A rename is safe only once the folder is on disk too; file systems that cannot
 * sync a folder are left to their own. */
static void sync_folder(const char *directory)
{
    int folder = open(directory[0] == '\0' ? "." : directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (folder >= 0) {
        (void)fsync(folder);
        close(folder);
    }
}

/* The bytes are safe and bear a name. */
static exg_status settle(exg_writer *writer, exg_error *err)
{
    EXG_TRY(flush(writer, err));
    if (fsync(writer->descriptor) != 0 && errno != EINVAL) {
        return refused(writer, "sync", err);
    }
    if (writer->temporary[0] == '\0' && !link_target(writer) && !link_temporary(writer)) {
        return refused(writer, "name a file beside", err);
    }
    return EXG_OK;
}

exg_status exg_writer_commit(exg_writer *writer, exg_error *err)
{
    exg_status status;
    int closed;

    if (writer->told != NULL) {
        status = writer->told(writer->teller, writer->path, writer->position, err);
        discard(writer);
        return status;
    }
    status = settle(writer, err);
    closed = close(writer->descriptor);
    writer->descriptor = -1;
    if (status == EXG_OK && closed != 0) {
        status = refused(writer, "close", err);
    }
    if (status == EXG_OK && !writer->is_there && rename(writer->temporary, writer->path) != 0) {
        status = refused(writer, "rename to", err);
    }
    if (status == EXG_OK) {
        sync_folder(writer->directory);
    } else if (writer->is_there) {
        unlink(writer->path);
    } else if (writer->temporary[0] != '\0' && !writer->kept) {
        unlink(writer->temporary);
    }
    discard(writer);
    return status;
}

exg_status exg_writer_suspend(exg_writer *writer, exg_error *err)
{
    exg_status status = settle(writer, err);

    discard(writer);
    return status;
}

void exg_writer_abort(exg_writer *writer)
{
    if (writer != NULL) {
        if (writer->temporary[0] != '\0' && !writer->kept) {
            unlink(writer->temporary);
        }
        discard(writer);
    }
}
