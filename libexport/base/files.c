/* files.c - reading side: mapping and confined opening. */
#include "libexport/base/files.h"

#include "libexport/base/checked.h"

#include <errno.h>
#include <exg/text.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/openat2.h>
#include <sys/syscall.h>
#endif

static const uint8_t nothing[1];

static exg_status refused(exg_error *err, const char *code, const char *what, const char *path)
{
    return EXG_FAIL(err, IO, code, "cannot %s %s: %s", what, path, strerror(errno));
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

exg_status exg_file_map_range(int descriptor, const char *name, uint64_t offset, uint64_t length,
                              bool copies, exg_mapping *mapping, exg_error *err)
{
    struct stat st;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t start = offset - offset % page;
    void *base;

    exg_status status;

    *mapping = (exg_mapping){nothing, 0, NULL, 0, false};
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
    *mapping = (exg_mapping){nothing, 0, NULL, 0, false};
    if (descriptor < 0) {
        return refused(err, "IO-OPEN", "open", path);
    }
    return map_whole(descriptor, path, copies, mapping, err);
}

exg_status exg_file_map_below(const char *directory, const char *location, bool copies,
                              exg_mapping *mapping, exg_error *err)
{
    int descriptor;

    *mapping = (exg_mapping){nothing, 0, NULL, 0, false};
    EXG_TRY(exg_file_open_below(directory, location, &descriptor, err));
    return map_whole(descriptor, location, copies, mapping, err);
}

void exg_mapping_release(exg_mapping *mapping)
{
    if (mapping->base != NULL) {
        munmap(mapping->base, mapping->base_length);
    }
    *mapping = (exg_mapping){nothing, 0, NULL, 0, false};
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

/* Component by component without following any link: for kernels (and sandboxes)
 * without openat2. */
static int open_walking(int folder, const char *location)
{
    int at = dup(folder);

    while (at >= 0) {
        size_t length = strcspn(location, "/");
        bool last = location[length] == '\0';
        char name[256];
        int next;
        int saved;

        if (length >= sizeof(name)) {
            close(at);
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(name, location, length);
        name[length] = '\0';
        next = openat(at, name,
                      O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (last ? 0 : O_DIRECTORY));
        saved = errno;
        close(at);
        errno = saved;
        if (last) {
            return next;
        }
        at = next;
        location += length + 1;
    }
    return -1;
}

static int open_below(int folder, const char *location)
{
#if defined(__linux__) && defined(SYS_openat2)
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    int descriptor = (int)syscall(SYS_openat2, folder, location, &how, sizeof(how));

    if (descriptor >= 0 || (errno != ENOSYS && errno != EPERM && errno != EAGAIN)) {
        return descriptor;
    }
#endif
    return open_walking(folder, location);
}

exg_status exg_file_open_below(const char *directory, const char *location, int *descriptor,
                               exg_error *err)
{
    int folder;

    *descriptor = -1;
    if (!exg_location_is_plain(location)) {
        return exg_error_fix(err,
                             EXG_FAIL(err, MALFORMED, "WGT-LOC",
                                      "external location '%s' may leave its folder", location),
                             "a location is relative and has no empty, . or .. part");
    }
    folder = open(directory[0] == '\0' ? "." : directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return refused(err, "IO-OPEN", "open folder", directory);
    }
    *descriptor = open_below(folder, location);
    close(folder);
    if (*descriptor < 0 && (errno == EXDEV || errno == ELOOP)) {
        return EXG_FAIL(err, MALFORMED, "WGT-LOC",
                        "external location '%s' is a link out of its folder", location);
    }
    if (*descriptor < 0) {
        bool missing = errno == ENOENT;
        exg_status status = refused(err, "IO-OPEN", "open external file", location);

        return missing ? exg_error_fix(err, status,
                                       "it belongs in the folder of the file that names it")
                       : status;
    }
    return EXG_OK;
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
