/* resume.h - a save that was stopped goes on where it was.
 *
 * While a program is saved to PATH with options.resume, unfinished files are PATH.part and
 * PATH.part-00001, ..., and PATH.resume tells which storages they hold, after each one. A
 * later save of the same program with the same options believes that only as far as the
 * bytes in the files agree. That it is the same program its checksums tell, or the files that the
 * bytes come from, or the bytes. PATH.resume is locked meanwhile: a second save to PATH is refused
 * (IO-BUSY).
 */
#ifndef EXG_LIBEXPORT_FORMATS_EXG_RESUME_H
#define EXG_LIBEXPORT_FORMATS_EXG_RESUME_H

#include "libexport/formats/exg/save.h"

/* Opens the journal of a save to `path`, whose metadata is `flat`, numbers still zero. One
 * of another save is begun again. */
exg_status exg_resume_open(exg_saver *s, const char *path, const exg_flat *flat,
                           exg_resume **resume);

/* Closes it, and removes it when the save is done. NULL is allowed. */
void exg_resume_close(exg_resume *resume, bool done);

/* How many of the storages [first, end) with the location flag `beside` lie whole, in
 * order, in the file `path`: those are filled in. *position is where they end, or 0. */
uint32_t exg_resume_count(exg_resume *resume, exg_saver *s, const char *path, uint32_t first,
                          uint32_t end, bool beside, uint64_t *position);

/* Fills in what the journal says of the storages beside in [first, end); does it know all? */
bool exg_resume_fill(exg_resume *resume, exg_saver *s, uint32_t first, uint32_t end);

/* stored[index] is written. */
exg_status exg_resume_note(exg_resume *resume, exg_saver *s, uint32_t index);

#endif
