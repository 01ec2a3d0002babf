/* spool.c - a file without a name. */
#include "libexport/base/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
