/* placer.h - one rank's program of a mesh, its modes known or looked for. */
#ifndef EXG_LIBEXEC_SHARDING_PLACER_H
#define EXG_LIBEXEC_SHARDING_PLACER_H

#include "libexec/sharding/pipeline.h"

/* Where one mesh dim is placed, of the moves along each earlier one. */
typedef exg_decisions exg_decided[EXG_MESH_DIMS_MAX];

typedef struct exg_placer {
    const exg_program *functional;
    const exg_operators *operators;
    const exg_mesh_shape *mesh;
    exg_partition_goal goal;
    uint32_t rank;
    uint32_t named_inputs;        /* that patterns speak of */
    exg_decided *decided;         /* by mesh dim; NULL: not noted */
    uint32_t followed;            /* of moves along the first so many dims they stand */
    exg_shard_pattern *pattern;   /* by mesh dim; NULL: not noted */
    exg_choices *choices;         /* NULL: not noted */
    const exg_local_parts *parts; /* NULL: all is whole */
    const uint32_t *stages;       /* by node of `functional`; NULL: it is no pipeline */
    const exg_stages *cut;
    exg_arena *stage_arena;
    uint32_t *placed_stages; /* out: by node of what is placed */
    exg_partition_options options[EXG_MESH_DIMS_MAX];
} exg_placer;

/* ---- placer.c: in modes that are not AUTO ------------------------------------------------- */

/* Along mesh dim `d`, what the dims before have left. *uneven: it is not of the same sizes on every
 * rank, and there are dims behind. */
exg_status exg_placer_place_dim(const exg_placer *t, uint32_t d, const exg_program *whole,
                                exg_text *report, exg_partition_summary *sum, bool *uneven,
                                exg_stage_notes *stages, exg_program **made, exg_error *err);
/* Along all, its time and bytes with it. */
exg_status exg_placer_place(exg_placer *t, exg_text *report, exg_partition_summary *sum,
                            exg_program **local, exg_error *err);
/* The mesh dim along which it is a pipeline; ndim: none. */
uint32_t exg_placer_pipeline(const exg_placer *t);
exg_pipeline_shape exg_placer_shape(const exg_placer *t, uint32_t dim);

/* ---- search.c ------------------------------------------------------------------------------ */

/* Modes for the dims that are open: those of least predicted time that fit into the memory. */
exg_status exg_choose_modes(exg_placer *t, exg_error *err);
/* One other mode along one mesh dim: is any better? What cannot be placed so is left out. */
void exg_compare_modes(const exg_placer *t, const bool *decided_by_cost,
                       exg_partition_summary *best);
exg_status exg_check_memory(const exg_placer *t, const exg_partition_summary *summary,
                            exg_error *err);

#endif
