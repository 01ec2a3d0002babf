/* plan_rank.h - what one rank of a mesh runs of a segment. */
#ifndef EXG_LIBEXEC_SESSION_PLAN_RANK_H
#define EXG_LIBEXEC_SESSION_PLAN_RANK_H

#include "libexec/session/executable.h"

/* What rank `rank` of the mesh runs, with its collectives over `grid`. `pattern` (may be NULL): by
 * mesh dim, what its ranks differ by. */
exg_status exg_executable_plan_rank(exg_session_context *context, exg_executable *executable,
                                    const exg_program *functional, uint32_t rank,
                                    const exg_grid *grid, exg_shard_pattern *pattern,
                                    struct exg_accelerator *device, exg_plan **plan,
                                    exg_error *err);

#endif
