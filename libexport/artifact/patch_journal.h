/* patch_journal.h - how far the making of a patch came that was stopped.
 *
 * PATH.resume has the record of every window that is done, in their order, with a checksum; its
 * frame lies in PATH.part, and is compared with the record's. Threads: one at a time.
 */
#ifndef EXG_LIBEXPORT_ARTIFACT_PATCH_JOURNAL_H
#define EXG_LIBEXPORT_ARTIFACT_PATCH_JOURNAL_H

#include "libexport/artifact/patch_file.h"
#include "libexport/base/arena.h"

typedef struct exg_patch_journal exg_patch_journal;

/* Is it what the window of this number becomes? */
typedef bool exg_patch_fits_fn(void *user, uint32_t window, const exg_patch_record *record);

/* Of a patch between the files that `header` has the hashes of; what is noted of others, and what
 * does not fit, is forgotten. *records (in the arena), *count: the windows that are done; *keep: so
 * many bytes of `part` are those of a patch until there, 0 or more than a header. IO (IO-BUSY). */
exg_status exg_patch_journal_open(const char *path, const char *part,
                                  const exg_patch_header *header, exg_patch_fits_fn *fits,
                                  void *user, exg_arena *arena, exg_patch_journal **journal,
                                  exg_patch_record **records, uint32_t *count, uint64_t *keep,
                                  exg_error *err);

exg_status exg_patch_journal_note(exg_patch_journal *journal, const exg_patch_record *record,
                                  exg_error *err);

/* `done`: removes it. NULL is allowed. */
void exg_patch_journal_close(exg_patch_journal *journal, bool done);

#endif
