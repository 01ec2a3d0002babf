/* cache.c - compiled code on disk, in $XDG_CACHE_HOME/exg or ~/.cache/exg.
 *
 * A file is a head and the code. Its name is the key of what was compiled; the head has the
 * code's length and checksum, so that a file cut short counts as none. Writers write beside
 * and rename: a reader sees all of a file or none of it.
 */
#include "libexec/device/cuda/cuda.h"
#include "libexport/base/files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define MAGIC          UINT64_C(0x316e696275436745) /* "EgCubin1" */
#define PATH_MAX_BYTES 1024

typedef struct cache_head {
    uint64_t magic;
    uint64_t key[2];
    uint64_t bytes;
    uint64_t checksum; /* XXH3 of the code */
} cache_head;

static bool is_directory(const char *path)
{
    struct stat s;

    return (mkdir(path, 0700) == 0 || errno == EEXIST) && stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* Code from there runs: nobody else is to write it. */
static bool is_own(const char *path)
{
    struct stat s;

    return lstat(path, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() &&
           (s.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* False: there is no place for a cache. */
static bool path_of(const uint64_t key[2], char *path)
{
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int length;

    if (cache != NULL && cache[0] == '/') {
        length = snprintf(path, PATH_MAX_BYTES, "%s", cache);
    } else if (home != NULL && home[0] == '/') {
        length = snprintf(path, PATH_MAX_BYTES, "%s/.cache", home);
    } else {
        return false;
    }
    if (length < 0 || length > PATH_MAX_BYTES - 64 || !is_directory(path)) {
        return false;
    }
    (void)snprintf(path + length, (size_t)(PATH_MAX_BYTES - length), "/exg");
    if (!is_directory(path) || !is_own(path)) {
        return false;
    }
    (void)snprintf(path + length, (size_t)(PATH_MAX_BYTES - length),
                   "/exg/%016" PRIx64 "%016" PRIx64 ".cubin", key[0], key[1]);
    return true;
}

bool exg_cuda_cache_find(const uint64_t key[2], void **code, size_t *bytes)
{
    char path[PATH_MAX_BYTES];
    exg_mapping file = {0};
    cache_head head;
    bool is_whole;

    *code = NULL;
    if (!path_of(key, path) || exg_file_map(path, false, &file, NULL) != EXG_OK) {
        return false;
    }
    is_whole = file.length > sizeof(head);
    if (is_whole) {
        memcpy(&head, file.data, sizeof(head));
        is_whole = head.magic == MAGIC && head.key[0] == key[0] && head.key[1] == key[1] &&
                   head.bytes == file.length - sizeof(head) &&
                   head.checksum == XXH3_64bits(file.data + sizeof(head), head.bytes);
    }
    if (is_whole) {
        *bytes = head.bytes;
        *code = malloc(head.bytes);
        if (*code != NULL) {
            memcpy(*code, file.data + sizeof(head), head.bytes);
        }
    }
    exg_mapping_release(&file);
    return *code != NULL;
}

static bool write_all(int file, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t part = write(file, (const char *)data + done, bytes - done);

        if (part <= 0) {
            return false;
        }
        done += (size_t)part;
    }
    return true;
}

/* Not synced: what a crash leaves of a file is known by its checksum. */
void exg_cuda_cache_keep(const uint64_t key[2], const void *code, size_t bytes)
{
    cache_head head = {MAGIC, {key[0], key[1]}, bytes, XXH3_64bits(code, bytes)};
    char path[PATH_MAX_BYTES];
    char part[PATH_MAX_BYTES + 8];
    bool is_written;
    int file;

    if (!path_of(key, path)) {
        return;
    }
    (void)snprintf(part, sizeof(part), "%s.XXXXXX", path);
    file = mkstemp(part);
    if (file < 0) {
        return;
    }
    is_written = write_all(file, &head, sizeof(head)) && write_all(file, code, bytes);
    is_written = close(file) == 0 && is_written;
    if (!is_written || rename(part, path) != 0) {
        (void)unlink(part);
    }
}
