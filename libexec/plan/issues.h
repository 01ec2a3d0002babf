/* issues.h - the collectives that a plan issues, in their order, and whether those of all
 * ranks of a mesh fit: then no rank waits for what never comes.
 */
#ifndef EXG_LIBEXEC_PLAN_ISSUES_H
#define EXG_LIBEXEC_PLAN_ISSUES_H

#include "libexec/comm/collectives.h"
#include "libexec/plan/plan_internal.h"

#include <exg/device_mesh.h>

typedef struct exg_issue {
    const char *node, *kernel;
    exg_collective what; /* of the tensors here */
    exg_tensor in, out;
    uint32_t mesh_dim;
    uint32_t begun; /* of this plan, when it ends: itself and those before it, at least */
} exg_issue;

typedef struct exg_issues {
    exg_issue *items;
    uint32_t count;
} exg_issues;

/* Those of `plan`, in memory of the arena: the plan may go. */
exg_status exg_issues_of(const exg_plan *plan, exg_arena *arena, exg_issues *issues,
                         exg_error *err);

/* Are they the same on every rank, in one order, and does each rank send what each other
 * one expects? PEER COM-010 names the ranks and the nodes. `issues`: by rank. */
exg_status exg_issues_check(const exg_issues *issues, const exg_mesh_shape *mesh, exg_error *err);

#endif
