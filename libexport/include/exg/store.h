/* store.h - a folder that keeps model files, and what they have in common once.
 *
 * A file is cut where its tensors begin and end. The bytes of each are an object, named by their
 * SHA-256 and kept once, whichever files have them: a base and its fine-tunes, one model in several
 * formats. What comes out is what went in, to the byte: its SHA-256 is kept and compared. The
 * layout of the folder is plain: schema/README.md, "Stores". Several processes may use a store at
 * once. One that is killed leaves objects that nobody names at most, until exg_store_collect().
 * Threads: a store is used by one at a time.
 */
#ifndef EXG_STORE_H
#define EXG_STORE_H

#include <exg/status.h>
#include <exg/weights.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct exg_store exg_store;

/* `make`: where there is no such folder, or an empty one, it becomes a store. The caller closes
 * *store. IO, MALFORMED (STO-FOLDER: no store), UNSUPPORTED (STO-VERSION). */
EXG_NODISCARD exg_status exg_store_open(const char *folder, bool make, exg_store **store,
                                        exg_error *err);
void exg_store_close(exg_store *store); /* NULL is allowed */

/* What adding, exporting and collecting did, in bytes. The caller sets `size`. */
typedef struct exg_store_change {
    size_t size;           /* sizeof(exg_store_change); then: how much of it was filled */
    uint64_t bytes;        /* of the file that was added, or exported */
    uint64_t object_bytes; /* of objects that were written, or removed */
    uint32_t objects;      /* how many */
    bool linked;           /* what was exported is a link to an object */
    uint64_t cloned_bytes; /* of what was exported: shared with objects, till one of them changes */
} exg_store_change;

/* Keeps the file `path` under `name`: a relative path without "." and "..", of at most 1000 bytes.
 * The file stays. `threads` 0: every core; `change` may be NULL. USAGE (STO-NAME: no such name, or
 * other bytes are kept under it), IO. */
EXG_NODISCARD exg_status exg_store_add(exg_store *store, const char *name, const char *path,
                                       uint32_t threads, exg_store_change *change, exg_error *err);

/* Writes the file called `name` to `path`, atomically, not before its SHA-256 is right. Tensors
 * that begin on a page of 4096 bytes are shared with the store where the file system can do that
 * (Btrfs, XFS), the rest is copied. `link`: where it is one object, as a hard link to that, if the
 * file system has it so: whoever writes to the file then writes to the store. `change` may be NULL.
 * USAGE (STO-NAME), MALFORMED (STO-OBJECT: an object is damaged or missing; STO-ENTRY: what is
 * noted of the file is), IO. */
EXG_NODISCARD exg_status exg_store_export(exg_store *store, const char *name, const char *path,
                                          bool link, exg_store_change *change, exg_error *err);

/* Forgets the name; objects stay until exg_store_collect(), which removes those that no name needs,
 * and waits until nobody else uses the store. */
EXG_NODISCARD exg_status exg_store_remove(exg_store *store, const char *name, exg_error *err);
EXG_NODISCARD exg_status exg_store_collect(exg_store *store, exg_store_change *change,
                                           exg_error *err);

typedef struct exg_store_entry {
    const char *name;
    uint64_t bytes;
    char sha256[EXG_DIGEST_TEXT_MAX];
} exg_store_entry;

/* Made by the library; later versions may have more at its end. */
typedef struct exg_store_list {
    size_t size;            /* that this library filled */
    exg_store_entry *items; /* by name */
    uint32_t count;
    uint64_t object_bytes; /* of all objects */
    uint32_t object_count;
    exg_arena *arena;
} exg_store_list;

/* What the store keeps. The caller frees *list. An entry that cannot be read is a fault
 * (STO-ENTRY). */
EXG_NODISCARD exg_status exg_store_names(exg_store *store, exg_store_list **list, exg_error *err);
void exg_store_list_free(exg_store_list *list); /* NULL is allowed */

/* Reads every object and every entry, and tells each fault to `fault`, which may be NULL. MALFORMED
 * (the first of them) where there was one. */
EXG_NODISCARD exg_status exg_store_verify(exg_store *store, uint32_t threads,
                                          void (*fault)(void *user, const exg_error *fault),
                                          void *user, exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
