/* spool.c - a file without a name. */
#include "libexport/base/spool.h"

#include "libexport/base/require.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK_BYTES (1u << 20)

static const char *folder(void)
{
    const char *named = getenv("TMPDIR");

    return named == NULL || named[0] == '\0' ? "/tmp" : named;
}

static exg_status refused(const char *what, exg_error *err)
{
    return exg_error_fix(err,
                         EXG_FAIL(err, IO, "IO-WRITE", "cannot %s a temporary file in %.200s: %s",
                                  what, folder(), strerror(errno)),
                         "make room there, or name another folder by TMPDIR");
}

/* Of file systems that know no files without a name: it is taken away at once. */
static int open_named(void)
{
    char path[4096];
    int descriptor = -1;

    if (snprintf(path, sizeof(path), "%s/exg-XXXXXX", folder()) < (int)sizeof(path)) {
        descriptor = mkostemp(path, O_CLOEXEC);
    }
    if (descriptor >= 0) {
        (void)unlink(path);
    }
    return descriptor;
}

exg_status exg_spool_open(exg_spool *spool, uint64_t limit, exg_error *err)
{
    *spool = (exg_spool){.descriptor = open(folder(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600),
                         .limit = limit};
    if (spool->descriptor < 0) {
        spool->descriptor = open_named();
    }
    return spool->descriptor < 0 ? refused("make", err) : EXG_OK;
}

exg_status exg_spool_write(exg_spool *spool, const void *bytes, size_t length, exg_error *err)
{
    if (length > spool->limit - spool->bytes) {
        return EXG_FAIL(err, LIMIT, "SPL-LIMIT", "there are more than %llu bytes",
                        (unsigned long long)spool->limit);
    }
    for (size_t at = 0; at < length;) {
        ssize_t done = write(spool->descriptor, (const uint8_t *)bytes + at, length - at);

        if (done < 0 && errno != EINTR) {
            return refused("write", err);
        }
        at += done < 0 ? 0 : (size_t)done;
    }
    spool->bytes += length;
    return EXG_OK;
}

exg_status exg_spool_map(exg_spool *spool, exg_mapping *mapping, exg_error *err)
{
    exg_status status = exg_file_map_range(spool->descriptor, "a temporary file", 0, spool->bytes,
                                           false, mapping, err);

    exg_spool_close(spool);
    return status;
}

void exg_spool_close(exg_spool *spool)
{
    if (spool->descriptor >= 0) {
        close(spool->descriptor);
    }
    spool->descriptor = -1;
}

/* ---- streams as sources -----------------------------------------------------------------------
 */

static void release_mapping(void *user)
{
    exg_mapping_release(user);
    free(user);
}

static exg_status take_all(int descriptor, exg_spool *spool, exg_error *err)
{
    uint8_t *chunk = malloc(CHUNK_BYTES);
    exg_status status = chunk == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    while (status == EXG_OK) {
        ssize_t got = read(descriptor, chunk, CHUNK_BYTES);

        if (got == 0) {
            break;
        }
        if (got > 0) {
            status = exg_spool_write(spool, chunk, (size_t)got, err);
        } else if (errno != EINTR) {
            status = EXG_FAIL(err, IO, "IO-READ", "cannot read the stream: %s", strerror(errno));
        }
    }
    free(chunk);
    return status;
}

static exg_status map_stream(int descriptor, uint64_t limit, exg_mapping *mapping, exg_error *err)
{
    struct stat st;
    exg_spool spool;
    exg_status status;

    if (fstat(descriptor, &st) == 0 && S_ISREG(st.st_mode)) {
        return exg_file_map_range(descriptor, "the stream", 0, (uint64_t)st.st_size, false, mapping,
                                  err);
    }
    EXG_TRY(exg_spool_open(&spool, limit, err));
    status = take_all(descriptor, &spool, err);
    status = status == EXG_OK ? exg_spool_map(&spool, mapping, err) : status;
    exg_spool_close(&spool);
    return status;
}

exg_status exg_byte_source_of_stream(int descriptor, uint64_t limit, exg_byte_source *source,
                                     exg_error *err)
{
    EXG_REQUIRE(err, source);
    exg_mapping *mapping = malloc(sizeof(*mapping));
    exg_status status;

    if (mapping == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = map_stream(descriptor, limit, mapping, err);
    if (status != EXG_OK) {
        free(mapping);
        return status;
    }
    *source = (exg_byte_source){.length = mapping->length,
                                .data = mapping->data,
                                .close = release_mapping,
                                .user = mapping};
    return EXG_OK;
}
