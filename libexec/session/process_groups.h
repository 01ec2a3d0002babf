/* process_groups.h - the groups of a program that is already parallel, as lines of its mesh.
 *
 * Each rank has a session of its own, with its own program, inputs and results; what they share are
 * the collectives that the programs call. Ranks meet to make their sessions, around each run, and
 * in those collectives.
 */
#ifndef EXG_LIBEXEC_SESSION_PROCESS_GROUPS_H
#define EXG_LIBEXEC_SESSION_PROCESS_GROUPS_H

#include "libexec/comm/grid.h"

#include <exg/session.h>

typedef struct exg_process_groups {
    exg_mesh_shape mesh;                     /* of one rank without dims */
    uint32_t rank;                           /* in it */
    exg_mesh_line lines[EXG_GRID_LINES_MAX]; /* of the grid beyond the dims of the mesh */
    uint32_t line_count;
    uint64_t digests[EXG_GRID_LINES_MAX]; /* of what is asked of a line, in its order */
    const exg_process_group *named;       /* the caller's */
    uint32_t named_count;
    bool *used;              /* by named: the program has it */
    const char *unnamed;     /* a group of the program that is not among them; NULL: none */
    uint64_t unnamed_digest; /* of the names of all such, in the order of their calls */
} exg_process_groups;

/* Reads the groups of the options, with `used` of as many: USAGE COM-014. */
exg_status exg_process_groups_read(exg_process_groups *groups, const exg_session_options *options,
                                   const exg_mesh_shape *mesh, uint32_t rank, exg_error *err);

/* A copy of the program with its groups bound; NULL where it has none. UNSUPPORTED COM-013, USAGE
 * COM-014. */
exg_status exg_process_groups_bind(exg_process_groups *groups, const exg_program *program,
                                   const exg_operators *operators, exg_program **bound,
                                   exg_error *err);

/* Called by every rank of the mesh with its own status so far: the grid of this rank, when all are
 * well, have the same groups and ask the same of each. PEER COM-009, USAGE COM-014. */
exg_status exg_process_groups_meet(exg_process_groups *groups, exg_device_mesh *mesh,
                                   exg_status status, exg_grid *grid, exg_error *err);

/* What a run of the plan moves. */
void exg_process_groups_count(const struct exg_plan *plan, const exg_grid *grid,
                              exg_partition_summary *summary);

/* Is each of the named groups the program's? USAGE COM-014. */
exg_status exg_process_groups_check_used(const exg_process_groups *groups, exg_error *err);

#endif
