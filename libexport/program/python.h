/* python.h - what PyTorch asks of a program beyond the graph: names that generated Python code
 * can have, and how the program is called. */
#ifndef EXG_LIBEXPORT_PROGRAM_PYTHON_H
#define EXG_LIBEXPORT_PROGRAM_PYTHON_H

#include <exg/program.h>

/* Letters, digits and underscores, no digit first; "" is allowed, names none. */
bool exg_is_identifier(const char *name);

/* The module call entry of the root: user inputs in a tuple, one result or a tuple of them.
 * NO_MEMORY. */
exg_status exg_program_make_call(exg_program *program, exg_error *err);

/* Is every name an identifier, and is there a call? Early files bind parameters by their dotted
 * names and know of no calls. */
bool exg_program_suits_python(const exg_program *program);

/* Makes it so: in names other characters become '_', and a number is appended where the name is
 * taken; nodes and specs of the same name follow, the FQNs stay. NO_MEMORY. */
exg_status exg_program_suit_python(exg_program *program, exg_error *err);

#endif
