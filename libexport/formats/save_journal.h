/* save_journal.h - how far a save came that was stopped, and what of it can be believed.
 *
 * PATH.resume notes what was appended to each file, some at a time, with the hash of it; so what is
 * found in a part is the work of this very save, or it is written again. Of files in a folder, each
 * with a plan of its own, the number is of that plan. Threads: one at a time.
 */
#ifndef EXG_LIBEXPORT_FORMATS_SAVE_JOURNAL_H
#define EXG_LIBEXPORT_FORMATS_SAVE_JOURNAL_H

#include "libexport/base/arena.h"
#include "libexport/base/files.h"

#include <exg/status.h>

typedef struct exg_save_journal exg_save_journal;

#define EXG_SAVE_PLAN_DIGITS 32

/* `plan` are digits that name the save: sources, options, order. The journal of another one
 * begins anew. IO (IO-BUSY). */
exg_status exg_save_journal_open(const char *path, const char plan[EXG_SAVE_PLAN_DIGITS],
                                 exg_arena *arena, exg_save_journal **journal, exg_error *err);

/* From now on it is about the file of this number; *keep bytes of `part` are as they were written.
 */
void exg_save_journal_begin(exg_save_journal *journal, uint64_t file, const char *part,
                            uint64_t *keep);

/* Of exg_writer_observe(). */
exg_writer_observe_fn exg_save_journal_note;

/* The file is whole: notes it. */
exg_status exg_save_journal_end(exg_save_journal *journal, exg_error *err);

/* `done`: removes it. NULL is allowed. */
void exg_save_journal_close(exg_save_journal *journal, bool done);

#endif
