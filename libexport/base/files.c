/* files.c - reading side: mapping and confined opening. */
#include "libexport/base/files.h"

#include "libexport/base/checked.h"
#include "libexport/base/own_fix.h"

#include <errno.h>
#include <exg/text.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t nothing[1];

static exg_status refused(exg_error *err, const char *code, const char *what, const char *path)
{
    return EXG_FAIL(err, IO, code, "cannot %s %s: %s", what, path, strerror(errno));
}

/* Where a link leads, on the way to `path`, that leads nowhere; false: there is none. */
static bool find_broken_link(const char *path, char target[PATH_MAX])
{
    char part[PATH_MAX];

    for (size_t i = 1; i < sizeof(part) && path[i - 1] != '\0'; i++) {
        struct stat st;
        ssize_t length;

        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        memcpy(part, path, i);
        part[i] = '\0';
        if (lstat(part, &st) != 0 || !S_ISLNK(st.st_mode) || stat(part, &st) == 0) {
            continue;
        }
        length = readlink(part, target, PATH_MAX - 1);
        if (length >= 0) {
            target[length] = '\0';
            return true;
        }
    }
    return false;
}

/* errno says why `path`, called `name`, is not opened; a link is told as what it is. */
static exg_status cannot_open(const char *path, const char *name, exg_error *err)
{
    int why = errno;
    char target[PATH_MAX];

    if ((why == ENOENT || why == ELOOP) && find_broken_link(path, target)) {
        exg_status status =
            EXG_FAIL(err, IO, "IO-OPEN", "cannot open %s: it is a link to '%s', %s", name, target,
                     why == ELOOP ? "which leads back to itself" : "where nothing is");

        return exg_error_fix(err, status, "fetch the file again, or put it in the link's place");
    }
    errno = why;
    return refused(err, "IO-OPEN", "open", name);
}

/* Fills memory with what the file has from `offset` on. */
static exg_status read_range(int descriptor, const char *name, uint64_t offset, void *to,
                             size_t length, exg_error *err)
{
    for (size_t at = 0; at < length;) {
        ssize_t got = pread(descriptor, (uint8_t *)to + at, length - at, (off_t)(offset + at));

        if (got < 0 && errno != EINTR) {
            return refused(err, "IO-READ", "read", name);
        }
        if (got == 0) {
            return EXG_FAIL(err, IO, "IO-CHANGED", "%s became shorter while it was read", name);
        }
        at += got < 0 ? 0 : (size_t)got;
    }
    return EXG_OK;
}

static uint64_t nanoseconds(struct timespec time)
{
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static exg_file_identity identity_of(const struct stat *st)
{
    return (exg_file_identity){(uint64_t)st->st_dev, (uint64_t)st->st_ino, (uint64_t)st->st_size,
                               nanoseconds(st->st_mtim), nanoseconds(st->st_ctim)};
}

exg_status exg_file_map_range(int descriptor, const char *name, uint64_t offset, uint64_t length,
                              bool copies, exg_mapping *mapping, exg_error *err)
{
    struct stat st;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t start = offset - offset % page;
    void *base;

    exg_status status;

    *mapping = (exg_mapping){.data = nothing};
    if (fstat(descriptor, &st) != 0) {
        return refused(err, "IO-STAT", "examine", name);
    }
    if (!S_ISREG(st.st_mode)) {
        return EXG_FAIL(err, UNSUPPORTED, "IO-KIND", "%s is not a regular file", name);
    }
    if (!exg_range_inside(offset, length, (uint64_t)st.st_size)) {
        return EXG_FAIL(err, MALFORMED, "IO-RANGE",
                        "%s has %llu bytes, %llu at offset %llu were asked for", name,
                        (unsigned long long)st.st_size, (unsigned long long)length,
                        (unsigned long long)offset);
    }
    mapping->identity = identity_of(&st);
    if (length == 0) {
        return EXG_OK;
    }
    if (length > SIZE_MAX - page) {
        return EXG_FAIL(err, LIMIT, "IO-SIZE", "%s is too large for this machine", name);
    }
    base = copies ? mmap(NULL, (size_t)(offset - start + length), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                  : mmap(NULL, (size_t)(offset - start + length), PROT_READ, MAP_PRIVATE,
                         descriptor, (off_t)start);
    if (base == MAP_FAILED) {
        return copies ? EXG_OUT_OF_MEMORY(err) : refused(err, "IO-MAP", "map", name);
    }
    status = copies
                 ? read_range(descriptor, name, start, base, (size_t)(offset - start + length), err)
                 : EXG_OK;
    if (status != EXG_OK) {
        munmap(base, (size_t)(offset - start + length));
        return status;
    }
    if (copies) { /* as a mapped file is */
        (void)mprotect(base, (size_t)(offset - start + length), PROT_READ);
    }
    mapping->is_copy = copies;
    mapping->base = base;
    mapping->base_length = (size_t)(offset - start + length);
    mapping->data = (const uint8_t *)base + (offset - start);
    mapping->length = length;
    return EXG_OK;
}

/* The whole of an open file, which is closed. */
static exg_status map_whole(int descriptor, const char *name, bool copies, exg_mapping *mapping,
                            exg_error *err)
{
    struct stat st;
    exg_status status;

    if (fstat(descriptor, &st) != 0) {
        status = refused(err, "IO-STAT", "examine", name);
    } else {
        uint64_t length = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;

        status = exg_file_map_range(descriptor, name, 0, length, copies, mapping, err);
    }
    close(descriptor);
    return status;
}

exg_status exg_file_map(const char *path, bool copies, exg_mapping *mapping, exg_error *err)
{
    int descriptor;

    do {
        descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } while (descriptor < 0 && errno == EINTR);
    *mapping = (exg_mapping){.data = nothing};
    if (descriptor < 0) {
        return cannot_open(path, path, err);
    }
    return map_whole(descriptor, path, copies, mapping, err);
}

exg_status exg_file_map_below(const char *directory, const char *location, exg_reading reading,
                              exg_mapping *mapping, exg_error *err)
{
    int descriptor;

    *mapping = (exg_mapping){.data = nothing};
    EXG_TRY(exg_file_open_below(directory, location, reading.follow_links, &descriptor, err));
    return map_whole(descriptor, location, reading.copies, mapping, err);
}

exg_status exg_mapping_check(const exg_mapping *mapping, const char *path, exg_error *err)
{
    exg_file_identity now;
    struct stat st;

    if (stat(path, &st) != 0) {
        return refused(err, "IO-STAT", "examine", path);
    }
    now = identity_of(&st);
    return memcmp(&now, &mapping->identity, sizeof(now)) == 0
               ? EXG_OK
               : EXG_FAIL(err, IO, "IO-CHANGED", "%s was changed while it was read", path);
}

/* Who reads a page is given those around it, too: 64 KiB of them, from a multiple of that on. */
#define AROUND ((uintptr_t)64 << 10)

void exg_mapping_forget(const exg_mapping *mapping, uint64_t first, uint64_t end)
{
    const uintptr_t base = (uintptr_t)mapping->base;
    const uintptr_t last = base + mapping->base_length;
    uintptr_t from = ((uintptr_t)mapping->data + (uintptr_t)first) & ~(AROUND - 1);
    uintptr_t to = ((uintptr_t)mapping->data + (uintptr_t)end + AROUND - 1) & ~(AROUND - 1);

    from = from < base ? base : from;
    to = to > last ? last : to;
    if (mapping->base != NULL && !mapping->is_copy && from < to) {
        (void)madvise((void *)from, to - from, MADV_DONTNEED); /* private, read only */
    }
}

void exg_pages_read_apart(const void *data, uint64_t length, bool apart)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)data + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)data + (uintptr_t)length) & ~(page - 1);

    if (first < end) {
        (void)madvise((void *)first, end - first, apart ? MADV_RANDOM : MADV_NORMAL);
    }
}

/* Memory with a part of what is no file. */
static exg_status copy_part(const exg_byte_source *source, const char *name, uint64_t offset,
                            uint64_t length, exg_mapping *mapping, exg_error *err)
{
    void *base;
    exg_status status;

    if (!exg_range_inside(offset, length, source->length)) {
        return EXG_FAIL(err, MALFORMED, "IO-RANGE",
                        "%s has %llu bytes, %llu at offset %llu were asked for", name,
                        (unsigned long long)source->length, (unsigned long long)length,
                        (unsigned long long)offset);
    }
    if (length == 0) {
        return EXG_OK;
    }
    base = mmap(NULL, (size_t)length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = EXG_OK;
    if (source->data != NULL) {
        memcpy(base, (const uint8_t *)source->data + offset, (size_t)length);
    } else {
        status = source->read(source->user, offset, length, base, err);
    }
    if (status != EXG_OK) {
        munmap(base, (size_t)length);
        return status;
    }
    *mapping = (exg_mapping){.data = base,
                             .length = length,
                             .base = base,
                             .base_length = (size_t)length,
                             .is_copy = true};
    return EXG_OK;
}

/* What reading.open_source has of the name; its `read` is NULL where it is a file. */
static exg_status open_part(const char *directory, const char *location, exg_reading reading,
                            exg_byte_source *source, exg_error *err)
{
    exg_text name = EXG_TEXT_EMPTY;
    exg_status status;

    exg_text_printf(&name, "%s%s", directory, location);
    status = exg_text_string(&name) == NULL ? EXG_OUT_OF_MEMORY(err)
             : !exg_location_is_plain(location)
                 ? exg_location_refuse(location, err)
                 : reading.open_source(reading.source_user, name.data, source, err);
    exg_text_free(&name);
    return status;
}

exg_status exg_file_map_part(const char *directory, const char *location, exg_reading reading,
                             uint64_t offset, uint64_t length, exg_mapping *mapping, exg_error *err)
{
    exg_byte_source source = {0};
    int descriptor;
    exg_status status;

    *mapping = (exg_mapping){.data = nothing};
    if (reading.open_source != NULL) {
        EXG_TRY(open_part(directory, location, reading, &source, err));
    }
    if (source.read == NULL && source.data == NULL) {
        EXG_TRY(exg_file_open_below(directory, location, reading.follow_links, &descriptor, err));
        status =
            exg_file_map_range(descriptor, location, offset, length, reading.copies, mapping, err);
        close(descriptor);
        return status;
    }
    status = copy_part(&source, location, offset, length, mapping, err);
    if (source.close != NULL) {
        source.close(source.user);
    }
    return status;
}

exg_status exg_file_length_below(const char *directory, const char *location, exg_reading reading,
                                 uint64_t *length, exg_error *err)
{
    exg_byte_source source = {0};
    struct stat st;
    int descriptor;
    exg_status status = EXG_OK;

    if (reading.open_source != NULL) {
        EXG_TRY(open_part(directory, location, reading, &source, err));
    }
    *length = source.length;
    if (source.read == NULL && source.data == NULL) {
        EXG_TRY(exg_file_open_below(directory, location, reading.follow_links, &descriptor, err));
        if (fstat(descriptor, &st) != 0) {
            status = EXG_FAIL(err, IO, "IO-STAT", "cannot tell the length of '%s'", location);
        }
        *length = status == EXG_OK ? (uint64_t)st.st_size : 0;
        close(descriptor);
    }
    if (source.close != NULL) {
        source.close(source.user);
    }
    return status;
}

void exg_mapping_release(exg_mapping *mapping)
{
    if (mapping->base != NULL) {
        munmap(mapping->base, mapping->base_length);
    }
    *mapping = (exg_mapping){.data = nothing};
}

bool exg_location_is_plain(const char *location)
{
    const char *c = location;

    if (strchr(location, '\\') != NULL || !exg_text_is_utf8(location, strlen(location))) {
        return false;
    }
    for (;;) {
        size_t length = strcspn(c, "/");

        if (length == 0 || (length == 1 && c[0] == '.') ||
            (length == 2 && c[0] == '.' && c[1] == '.')) {
            return false;
        }
        if (c[length] == '\0') {
            return true;
        }
        c += length + 1;
    }
}

exg_status exg_location_refuse(const char *location, exg_error *err)
{
    return exg_error_fix(err,
                         EXG_FAIL(err, MALFORMED, "WGT-LOC",
                                  "external location '%s' may leave its folder", location),
                         "a location is relative and has no empty, . or .. part");
}

void exg_path_stem(const char *path, char stem[EXG_STEM_MAX + 1])
{
    const char *slash = strrchr(path, '/');
    const char *base = slash == NULL ? path : slash + 1;
    const char *dot = strrchr(base, '.');
    size_t length = dot == NULL || dot == base ? strlen(base) : (size_t)(dot - base);
    size_t made = 0;

    for (size_t i = 0; i < length && made < EXG_STEM_MAX;) {
        unsigned char lead = (unsigned char)base[i];
        size_t bytes = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
        bool kept = lead != '\\' && bytes <= length - i && exg_text_is_utf8(base + i, bytes);

        bytes = kept ? bytes : 1;
        if (bytes > EXG_STEM_MAX - made) {
            break;
        }
        memcpy(stem + made, kept ? base + i : "_", bytes);
        made += bytes;
        i += bytes;
    }
    stem[made] = '\0';
    if (strcmp(stem, ".") == 0 || strcmp(stem, "..") == 0) {
        memset(stem, '_', made);
    }
}

/* ---- files that another one names ------------------------------------------------------------
 * A location is plain by name, and where its links lead is looked at by the system: the file is
 * opened below a folder that is allowed, component by component, without following a link. So
 * nothing that changes meanwhile leads out of it. */

/* Opens `rest` below the folder `root`. */
static int open_walking(const char *root, const char *rest)
{
    int at = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);

    while (at >= 0) {
        size_t length = strcspn(rest, "/");
        bool last = rest[length] == '\0';
        char name[NAME_MAX + 1];
        int next;
        int saved;

        if (length >= sizeof(name)) {
            close(at);
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(name, rest, length);
        name[length] = '\0';
        next =
            openat(at, name,
                   O_CLOEXEC | O_NOFOLLOW | (last ? O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY));
        saved = errno;
        close(at);
        errno = saved;
        if (last) {
            return next;
        }
        at = next;
        rest += length + 1;
    }
    return -1;
}

/* What is left of `path` below the folder `root`, or NULL. */
static const char *below(const char *path, const char *root)
{
    size_t length = strlen(root);

    length -= length > 0 && root[length - 1] == '/';
    return strncmp(path, root, length) == 0 && path[length] == '/' ? path + length + 1 : NULL;
}

/* Cuts `folder`, one of a snapshot in a cache of huggingface_hub
 * (".../models--OWNER--NAME/snapshots/REVISION/..."), to the folder of the repository, whose
 * snapshots hold links into its "blobs". false: it is none. */
static bool cut_to_repository(char *folder)
{
    static const char *const kinds[] = {"/models--", "/datasets--", "/spaces--"};
    char *found = NULL;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        for (char *at = folder; (at = strstr(at, kinds[i])) != NULL; at++) {
            found = found == NULL || at > found ? at : found;
        }
    }
    if (found == NULL) {
        return false;
    }
    found += 1 + strcspn(found + 1, "/");
    if (strncmp(found, "/snapshots/", 11) != 0) {
        return false;
    }
    *found = '\0';
    return true;
}

/* The file that `path` is without its links, if it may be opened: in the folder `root` (without
 * links too), or among the blobs of the repository that `root` is a snapshot of. */
static exg_status open_allowed(const char *location, const char *path, char *root, int *descriptor,
                               exg_error *err)
{
    const char *rest = below(path, root);

    if (rest == NULL && cut_to_repository(root)) {
        rest = below(path, root);
        rest = rest != NULL && strncmp(rest, "blobs/", 6) == 0 ? rest : NULL;
    }
    if (rest == NULL) {
        return exg_error_fix(err,
                             EXG_FAIL(err, UNSUPPORTED, "WGT-LINK",
                                      "'%s' is a link out of its folder, to %s", location, path),
                             "put the file in its place, or --follow-links where you trust who "
                             "made the link");
    }
    *descriptor = open_walking(root, rest);
    return *descriptor < 0 ? cannot_open(path, location, err) : EXG_OK;
}

exg_status exg_file_open_below(const char *directory, const char *location, bool follow_links,
                               int *descriptor, exg_error *err)
{
    char path[PATH_MAX];
    char whole[PATH_MAX];
    char root[PATH_MAX];
    int length;

    *descriptor = -1;
    if (!exg_location_is_plain(location)) {
        return exg_location_refuse(location, err);
    }
    directory = directory[0] == '\0' ? "." : directory;
    if (realpath(directory, root) == NULL) {
        return refused(err, "IO-OPEN", "open folder", directory);
    }
    length = snprintf(path, sizeof(path), "%s/%s", directory, location);
    errno = ENAMETOOLONG;
    if (length < 0 || (size_t)length >= sizeof(path) || realpath(path, whole) == NULL) {
        bool missing = errno == ENOENT;
        exg_status status = cannot_open(path, location, err);

        return missing && err != NULL && !exg_error_has_own_fix(err)
                   ? exg_error_fix(err, status,
                                   "it belongs in the folder of the file that names it")
                   : status;
    }
    if (!follow_links) {
        return open_allowed(location, whole, root, descriptor, err);
    }
    *descriptor = open(whole, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return *descriptor < 0 ? cannot_open(whole, location, err) : EXG_OK;
}

const char *exg_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

char *exg_path_directory(const char *path)
{
    const char *slash = strrchr(path, '/');

    return strndup(path, slash == NULL ? 0 : (size_t)(slash - path) + 1);
}
