/* frame.h - a line of a stack_trace that tells of a frame. */
#ifndef EXG_LIBEXPORT_PROGRAM_FRAME_H
#define EXG_LIBEXPORT_PROGRAM_FRAME_H

#include <exg/module.h>

/* Is [from, to) 'File "F", line N, in NAME'? Then sets the members for F, N and NAME, and the
 * others to nothing. */
bool exg_frame_match(const char *from, const char *to, exg_source_line *frame);

/* [*from, *to) without blanks at both ends. */
void exg_strip_blanks(const char **from, const char **to);

#endif
