/* text.h - calls and specs as Python would print them. */
#ifndef EXG_LIBEXEC_DISPATCH_TEXT_H
#define EXG_LIBEXEC_DISPATCH_TEXT_H

#include <exg/dispatch.h>
#include <exg/text.h>

void exg_print_placements(exg_text *text, const exg_placement *placements, uint32_t count);
void exg_print_spec(exg_text *text, const exg_dtensor_spec *spec);
void exg_print_object(exg_text *text, const exg_object *object);
void exg_print_op_schema(exg_text *text, const exg_op_schema *schema);
/* "[2, 4]" of a DTENSOR, "None" of all else, through lists. */
void exg_print_local_shapes(exg_text *text, const exg_object *object);

#endif
