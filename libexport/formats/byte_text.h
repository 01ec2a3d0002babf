/* byte_text.h - texts of files, which may hold anything, as the C strings of a table of weights. */
#ifndef EXG_LIBEXPORT_FORMATS_BYTE_TEXT_H
#define EXG_LIBEXPORT_FORMATS_BYTE_TEXT_H

#include <exg/weights.h>
#include <stdint.h>

/* A name as it is; NUL as "\u0000" and bytes that are not UTF-8 as "\xNN", spelled out. In the
 * arena; NULL: out of memory. */
const char *exg_byte_name(exg_arena *arena, const char *bytes, uint64_t length);

/* A value of metadata: a text, or of the kind "bytes" (weights.h). */
exg_status exg_byte_metadata(exg_weights *weights, const char *key, const char *bytes,
                             uint64_t length, exg_error *err);

#endif
