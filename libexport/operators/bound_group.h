/* bound_group.h - a process group as a collective names it once it is known whom it meets.
 *
 * The name of a group in a program ("0", "tp") says nothing of a mesh. Where a session is made,
 * transform/process_groups.c puts a text in its place that says it, so that shapes and lowerings
 * follow from arguments alone: as sizes do.
 */
#ifndef EXG_LIBEXPORT_OPERATORS_BOUND_GROUP_H
#define EXG_LIBEXPORT_OPERATORS_BOUND_GROUP_H

#include <exg/operators.h>

/* The ranks that meet along one line of a rank's grid: a dim of the mesh, or several. */
typedef struct exg_bound_group {
    uint32_t line;
    uint32_t size; /* ranks */
} exg_bound_group;

#define EXG_BOUND_GROUP_TEXT 40

/* Writes it; what it is put in has EXG_BOUND_GROUP_TEXT bytes. */
void exg_bound_group_write(const exg_bound_group *group, char *text);

/* Is `text` what was written so? */
bool exg_bound_group_read(const char *text, exg_bound_group *group);

/* Is it a collective of a process group, named or given by its ranks? */
bool exg_operator_has_group(const exg_operator *op);

/* The position of the parameter of that name; schema->argument_count: there is none. */
uint32_t exg_operator_parameter(const exg_operator *op, const char *name);

/* Is it one of those, or does it wait for one? Then it is no less needed where nobody takes what it
 * gives: other ranks meet it. */
bool exg_operator_meets_ranks(const exg_operator *op);

#endif
