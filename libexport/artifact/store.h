/* store.h - the parts of a store: its folder, its lock, its notes, its objects. */
#ifndef EXG_LIBEXPORT_ARTIFACT_STORE_H
#define EXG_LIBEXPORT_ARTIFACT_STORE_H

#include "libexport/artifact/store_entry.h"

#include <exg/store.h>
#include <limits.h>

#define EXG_STORE_DIGITS (2 * EXG_SHA256_BYTES)

struct exg_store {
    char *folder;
    int mark;         /* the file that says what the folder is, which is locked, too */
    exg_arena *arena; /* of one call */
};

typedef enum exg_store_lock { EXG_STORE_SHARED, EXG_STORE_ALONE } exg_store_lock;

/* Shared by those who add and read, alone for who removes objects. Waits, and empties the arena. */
exg_status exg_store_lock_take(exg_store *store, exg_store_lock how, exg_error *err);
exg_status exg_store_lock_give(exg_store *store, exg_status status); /* gives `status` */

/* USAGE (STO-NAME) unless a file may be called so. */
exg_status exg_store_check_name(const char *name, exg_error *err);

/* Where the note of a file is; NULL: no memory. Where an object is; false: that is too long. */
char *exg_store_note_path(const exg_store *store, const char *name);
bool exg_store_object_path(const exg_store *store, const uint8_t *sha256, char path[PATH_MAX]);

/* The folders that lead to `path`, below the store's. IO. */
exg_status exg_store_make_folders(const exg_store *store, char *path, exg_error *err);

/* What is noted of a file, in the arena. USAGE (STO-NAME), MALFORMED (STO-ENTRY), IO. */
exg_status exg_store_read_note(exg_store *store, const char *name, exg_store_note *note,
                               exg_error *err);

/* The bytes of an object, as long as they should be. MALFORMED (STO-OBJECT). From any thread. */
exg_status exg_store_open_object(const exg_store *store, const exg_store_object *object,
                                 exg_mapping *mapping, exg_error *err);

/* Is the object what its name says? As above. */
exg_status exg_store_check_object(const exg_store *store, const exg_store_object *object,
                                  exg_error *err);

/* errno says why something was not done to `path`. IO, NO_MEMORY. */
exg_status exg_store_refused(const char *what, const char *path, exg_error *err);

#endif
