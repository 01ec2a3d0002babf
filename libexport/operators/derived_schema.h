/* derived_schema.h - schemas that follow from that of another row: of the form of an operator that
 * writes in place, into out=, or copies what a view gives. PyTorch makes them by one rule, so a row
 * names the other one alone. What the rule does not give is written down in the row.
 */
#ifndef EXG_LIBEXPORT_OPERATORS_DERIVED_SCHEMA_H
#define EXG_LIBEXPORT_OPERATORS_DERIVED_SCHEMA_H

#include <exg/operators.h>
#include <exg/text.h>

/* Appends the schema of the row `id` (its name, "_", and its overload or "default"), made of `of`.
 * MALFORMED SCH-001: the row is named otherwise. */
typedef exg_status exg_schema_form(exg_text *text, const char *id, const exg_function_schema *of,
                                   exg_error *err);

exg_schema_form exg_schema_inplace; /* name_: writes argument 0, and gives it unless it is a list */
exg_schema_form exg_schema_out;     /* one tensor a result, of its name, else out, or out0, out1; a
                                       list for a list, and then it gives nothing */
exg_schema_form exg_schema_copy;    /* name_copy: aliases nothing */

#endif
