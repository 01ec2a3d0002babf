/* process_groups.h - whom the collectives of a program meet that is already parallel.
 *
 * Such a program says what one rank does. Its collectives name process groups ("0", "tp"); which
 * ranks these are only a mesh says. Here names become lines of a rank's grid (bound_group.h), and
 * what nodes say of a group's size is compared with what it has.
 */
#ifndef EXG_LIBEXPORT_TRANSFORM_PROCESS_GROUPS_H
#define EXG_LIBEXPORT_TRANSFORM_PROCESS_GROUPS_H

#include "libexport/operators/bound_group.h"

#include <exg/operators.h>

/* A node that calls a collective, with the group as it names it. */
typedef struct exg_collective_node {
    const exg_graph *graph;
    const exg_node *node;
    const char *group_name; /* NULL: the group is given by its ranks (c10d_functional) */
    const int64_t *ranks;
    uint32_t rank_count;
} exg_collective_node;

/* Whom this rank meets in the group. Called for all nodes in their order; a fault is told at the
 * node. */
typedef exg_status exg_find_group(void *user, const exg_collective_node *call,
                                  exg_bound_group *group, exg_error *err);

/* A copy of the program whose groups are bound; NULL where it has none. UNSUPPORTED COM-013: a node
 * is for a group of another size. */
exg_status exg_program_bind_groups(const exg_program *program, const exg_operators *operators,
                                   exg_find_group *find, void *user, exg_program **bound,
                                   exg_error *err);

#endif
