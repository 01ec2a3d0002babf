/* collective_trace.h - the collectives that a plan calls, in their order, and whether those of all
 * ranks of a mesh fit together: then no rank waits for a message that never comes.
 */
#ifndef EXG_LIBEXEC_PLAN_COLLECTIVE_TRACE_H
#define EXG_LIBEXEC_PLAN_COLLECTIVE_TRACE_H

#include "libexec/comm/collectives.h"
#include "libexec/comm/grid.h"
#include "libexec/plan/plan_internal.h"

#include <exg/dtensor.h>

typedef struct exg_traced_collective {
    const char *node, *kernel;
    exg_collective what; /* of the tensors here */
    exg_tensor in, out;
    uint32_t mesh_dim;
    uint32_t begun; /* of this plan, when it ends: itself and those before it, at least */
} exg_traced_collective;

typedef struct exg_collective_trace {
    exg_traced_collective *items;
    uint32_t count;
} exg_collective_trace;

/* Those of `plan`, in memory of the arena: the plan may go. */
exg_status exg_collective_trace_of(const exg_plan *plan, exg_arena *arena,
                                   exg_collective_trace *trace, exg_error *err);

/* Are they the same on every rank, in one order, and does each rank send what each other
 * one expects? PEER COM-010 names the ranks and the nodes. `traces`: by rank; `outer`: the mesh dim
 * of a pipeline, else 0. */
exg_status exg_collective_traces_check(const exg_collective_trace *traces,
                                       const exg_mesh_shape *mesh, uint32_t outer, exg_error *err);

/* The same of ranks that each have a program of their own, which meet along any lines of the mesh:
 * mesh_dim is an index of `lines` here. They are carried out on paper: each rank waits for those it
 * meets, and all come to their ends. PEER COM-010. */
exg_status exg_collective_traces_meet(const exg_collective_trace *traces,
                                      const exg_mesh_shape *mesh, const exg_mesh_line *lines,
                                      uint32_t line_count, exg_error *err);

#endif
