/* pipeline.h - a program in stages along one mesh dim: a rank runs its own, and hands what the next
 * ones need to the next.
 *
 *   stages.c        which nodes each stage has
 *   micro_batch.c   the program of some of the rows
 *   pipeline.c      what one rank runs of both
 */
#ifndef EXG_LIBEXEC_SHARDING_PIPELINE_H
#define EXG_LIBEXEC_SHARDING_PIPELINE_H

#include "libexec/sharding/partitioner.h"

/* Where the program is cut. */
typedef struct exg_stages {
    uint32_t count;
    uint32_t *of_nodes;   /* by node of the program; EXG_STAGE_FREE */
    double *ns;           /* by stage: its work on all rows, what it sends and receives */
    double *weight_bytes; /* by stage: read for the first time in it */
    double *sent_bytes;   /* by stage: to the next, of all rows */
    uint32_t *nodes;      /* by stage: how many */
} exg_stages;

/* Of the ways in which the longest stage takes hardly longer, and the largest has hardly more bytes
 * of weights, than it has to, the one in which least crosses. In `arena`. */
exg_status exg_stages_find(const exg_program *functional, const exg_operators *operators,
                           const exg_partition_goal *goal, uint32_t mesh_dim, uint32_t count,
                           exg_arena *arena, exg_stages *stages, exg_error *err);

/* The program of the rows of place `place` of `count`, and how its outputs lie then: whole, in
 * rows of a dim, or as summands. UNSUPPORTED PLC-012: a node needs all rows. */
exg_status exg_micro_batch(const exg_program *functional, const exg_operators *operators,
                           const exg_partition_goal *goal, uint32_t count, uint32_t place,
                           const uint32_t *stages, exg_arena *arena, exg_program **out,
                           exg_placement *outputs, uint32_t **stages_out, exg_error *err);

/* A micro-batch, placed along the other mesh dims. */
typedef struct exg_pipelined {
    exg_program *program;
    uint32_t *stages; /* by node; EXG_STAGE_FREE; EXG_NO_STAGE: of what it reads */
} exg_pipelined;

/* Stage k is rank k's modulo the ranks, of which there are no more than stages. */
typedef struct exg_pipeline_shape {
    uint32_t mesh_dim, ranks, stages, batches;
    uint32_t used; /* stages up to the last that has a node */
} exg_pipeline_shape;

/* In each of which a rank runs a stage of a micro-batch, or waits. */
uint32_t exg_pipeline_ticks(const exg_pipeline_shape *shape);

/* What rank `rank` of them runs of all micro-batches. `outputs`: how theirs lie. */
exg_status exg_pipeline_build(const exg_program *functional, const exg_operators *operators,
                              const exg_pipeline_shape *shape, uint32_t rank,
                              const exg_pipelined *batches, const exg_placement *outputs,
                              exg_program **local, exg_error *err);

#endif
