/* python.h - what PyTorch asks of a program beyond the graph: names that generated Python code
 * can have, and how the program is called. */
#ifndef EXG_LIBEXPORT_PROGRAM_PYTHON_H
#define EXG_LIBEXPORT_PROGRAM_PYTHON_H

#include "libexport/base/map.h"

#include <exg/program.h>

/* Letters, digits and underscores, no digit first; "" is allowed, names none. */
bool exg_is_identifier(const char *name);

/* Can an argument of a function be called so: an identifier that is no keyword? */
bool exg_is_python_name(const char *name);

/* A leaf of a tree of arguments (libexport/verify/tree.h), as PyTorch writes it. */
#define EXG_TREE_LEAF "{\"type\": null, \"context\": null, \"children_spec\": []}"

/* The module call entry of the root: user inputs in a tuple, one result or a tuple of them.
 * NO_MEMORY. */
exg_status exg_program_make_call(exg_program *program, exg_error *err);

/* What a module in a GraphModule cannot be called: keywords and the names of its own attributes.
 * false: out of memory. */
bool exg_put_module_names(exg_map *taken);

/* Can a tensor of a GraphModule be called so, dots leading into modules? */
bool exg_is_module_path(const char *name);

/* Is it an item of nn_module_stack, "key,path,type"? Commas inside brackets do not count. */
bool exg_is_stack_item(const char *item, size_t length);

/* Are there a call, and names that PyTorch can have; is it no early program? Those bind parameters
 * by their dotted names and know of no calls and ranges. NO_MEMORY. */
exg_status exg_program_suits_python(const exg_program *program, bool *suits, exg_error *err);

/* Makes it so: in names other characters become '_', and a number is appended where the name is
 * taken; nodes and specs of the same name follow, the FQNs stay. A symbol without a range gets
 * one. NO_MEMORY. */
exg_status exg_program_suit_python(exg_program *program, exg_error *err);

#endif
