/* weight_pages.h - the pages of mapped weights that a plan reads, said to the system before they
 * are: it brings those alone, not what lies around them in the file, which may be other ranks'. */
#ifndef EXG_LIBEXEC_EXECUTOR_WEIGHT_PAGES_H
#define EXG_LIBEXEC_EXECUTOR_WEIGHT_PAGES_H

#include "libexec/plan/plan_internal.h"

#include <exg/weights.h>

/* Of a buffer: `rows` runs of bytes, `pitch` apart. */
typedef struct exg_page_rows {
    bool is_read;      /* by a step that reads all of it; else rows are looked up */
    bool is_irregular; /* all between the first and the last byte */
    uint64_t first, run, pitch, rows, end;
} exg_page_rows;

/* By buffer, in the plan's arena; NULL: no memory. */
exg_page_rows *exg_page_rows_find(const exg_plan *plan);

/* `storage` is read so next. */
void exg_page_rows_expect(const exg_page_rows *rows, exg_weights *weights, uint32_t storage);

#endif
