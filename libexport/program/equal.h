/* equal.h - are two programs the same, and if not, why not. */
#ifndef EXG_LIBEXPORT_PROGRAM_EQUAL_H
#define EXG_LIBEXPORT_PROGRAM_EQUAL_H

#include <exg/program.h>

/* exg_program_equal() that tells a difference from a comparison that could not be made:
 * MISMATCH at the first difference; NO_MEMORY, and with `compare_bytes` IO, MALFORMED. */
exg_status exg_program_compare(const exg_program *a, const exg_program *b, bool compare_bytes,
                               exg_error *err);

#endif
