/* window.h - bytes that lie elsewhere, where readers look for them.
 *
 * A window is address space for all bytes of a source. Those that were asked for are there, the
 * others are zeros: who reads asks first. A reader that knows what it needs as it goes on asks
 * itself (GGUF); for the others exg_window_plan() has asked. Storages that begin in a window are
 * read from the source when they are read.
 *
 * Threads: one at a time until exg_window_give(); then as those of weights.
 */
#ifndef EXG_LIBEXPORT_FORMATS_WINDOW_H
#define EXG_LIBEXPORT_FORMATS_WINDOW_H

#include "libexport/formats/format.h"

#include <exg/byte_source.h>
#include <exg/weights.h>

/* A window on `source`, which it closes, also when this fails. NO_MEMORY. */
exg_status exg_window_create(const exg_byte_source *source, exg_window **window, exg_error *err);
void exg_window_destroy(exg_window *window); /* NULL is allowed */

const uint8_t *exg_window_data(const exg_window *window);
uint64_t exg_window_length(const exg_window *window);
uint64_t exg_window_unit(const exg_window *window); /* bytes that are fetched at once at least */

/* Are all bytes there, since the source has them in memory? */
bool exg_window_is_whole(const exg_window *window);

/* The part of [offset, offset + length) that is inside is fetched next. */
void exg_window_want(exg_window *window, uint64_t offset, uint64_t length);

/* Fetches what is wanted and not there. IO, LIMIT (SRC-WHOLE: more than a model is opened with). */
exg_status exg_window_fetch(exg_window *window, exg_error *err);

/* Both; where any of it is not there, `ahead` bytes at once if those are more. */
exg_status exg_window_need(exg_window *window, uint64_t offset, uint64_t length, uint64_t ahead,
                           exg_error *err);

/* Fetches what opening touches, by the format: window_plan.c. */
exg_status exg_window_plan(exg_window *window, exg_error *err);

/* The same of what lies inside: an archive, or anything else, of which it is all. Of several places
 * at once the ends are wanted first, so that one fetch brings them. */
void exg_window_want_ends(exg_window *window, uint64_t offset, uint64_t length);
exg_status exg_window_plan_inside(exg_window *window, uint64_t offset, uint64_t length,
                                  exg_error *err);

/* The weights keep the window (also when this fails), and read from it. */
exg_status exg_window_give(exg_window *window, exg_weights *weights, exg_error *err);

#endif
