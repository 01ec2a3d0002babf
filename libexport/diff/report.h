/* report.h - the differences that the rooms of a comparison find. */
#ifndef EXG_LIBEXPORT_DIFF_REPORT_H
#define EXG_LIBEXPORT_DIFF_REPORT_H

#include "libexport/diff/differ.h"

#include <exg/text.h>

/* Adds a difference; texts are copied, `values` may be NULL. */
void exg_differ_found(exg_differ *d, const exg_difference *difference);

/* A text in the scratch arena; "" (and failed) without memory. Frees `text`. */
const char *exg_differ_keep(exg_differ *d, exg_text *text);

#endif
