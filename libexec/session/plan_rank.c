/* plan_rank.c - what one rank of a mesh runs of a segment: placed, then planned. */
#include "libexec/session/plan_rank.h"

#include <string.h>

exg_status exg_executable_plan_rank(exg_session_context *e, exg_executable *b,
                                    const exg_program *functional, uint32_t rank,
                                    const exg_grid *grid, exg_shard_pattern *pattern,
                                    struct exg_accelerator *device, exg_plan **plan, exg_error *err)
{
    bool first = rank == e->first_rank && b->report == NULL; /* again, for the proof: not noted */
    exg_partition_options options[EXG_MESH_DIMS_MAX];
    exg_partition_goal goal = e->partitioning.goal;
    exg_program *local = NULL;
    exg_partition_summary placed;
    exg_status status;

    goal.overlaps = exg_plan_overlaps(&e->plan, grid, device);
    memcpy(options, e->partitioning.options, sizeof(options));
    for (uint32_t d = 0; !first && d < e->mesh.ndim; d++) { /* AUTO is decided */
        options[d].mode = b->partition.modes[d];
        options[d].microbatches =
            options[d].mode == EXG_PARTITION_PIPELINE ? b->partition.microbatches : 0;
    }
    status = exg_partition_noting(functional, e->operators, options, &goal, &e->mesh, rank,
                                  b->named_inputs, pattern, &b->choices,
                                  b->parts.inputs == NULL ? NULL : &b->parts, &local, &placed,
                                  first ? &b->report : NULL, err);
    b->partition = first && status == EXG_OK ? placed : b->partition;
    status = status == EXG_OK ? exg_plan_rank(local, e->operators, &e->plan, grid, device,
                                              b->in_place, plan, err)
                              : status;
    exg_program_destroy(local);
    if (status == EXG_OK) { /* the plan has weights whole; nodes cut the rank's part out */
        (*plan)->summary.weight_bytes = placed.weight_bytes;
    }
    return status;
}
