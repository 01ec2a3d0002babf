/* byte_source.h - bytes that lie elsewhere than in a file: on a server, in an object store.
 *
 * exg_open_options.open_source is asked for the bytes of a name before a file of that name is
 * looked for. Of them is read what is needed: of a model the header when it is opened, a tensor
 * when it is read. exg/http.h has one for http:// and https://.
 */
#ifndef EXG_BYTE_SOURCE_H
#define EXG_BYTE_SOURCE_H

#include <exg/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct exg_byte_source {
    uint64_t length;
    /* Fills `out` with the bytes [offset, offset + length), which are inside and not none, or
     * fails (IO). From any thread, several at a time. */
    exg_status (*read)(void *user, uint64_t offset, uint64_t length, void *out, exg_error *err);
    const void *data; /* all of them, where they are in memory until it is closed: then `read` is
                         not called; NULL: they are not */
    void (*close)(void *user); /* called once; may be NULL */
    void *user;
    uint32_t unit; /* bytes that are read at once at least, a power of two; 0: 16 KiB. More where a
                      read takes long, whatever its length */
    const char *identity; /* the same in every process as long as the bytes are, so that a save of
                             them can be resumed; NULL: nobody knows. Copied */
} exg_byte_source;

/* Fills *source, which is all zeros, with the bytes called `name`; one whose `read` and `data` stay
 * NULL is a file. Files that a model names (shards, the other parts) are asked for with the folder
 * of that model's name before theirs. IO when there is no such thing. */
typedef exg_status exg_open_source_fn(void *user, const char *name, exg_byte_source *source,
                                      exg_error *err);

/* All that comes from a descriptor, which stays open, at most `limit` bytes: a file is mapped from
 * its beginning on, what a pipe gives is kept in a file without a name, in the folder that TMPDIR
 * says or /tmp. The caller calls its `close`. IO, LIMIT (SPL-LIMIT). */
EXG_NODISCARD exg_status exg_byte_source_of_stream(int descriptor, uint64_t limit,
                                                   exg_byte_source *source, exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
