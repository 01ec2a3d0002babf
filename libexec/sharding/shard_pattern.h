/* shard_pattern.h - what the programs of the ranks of a mesh differ by. */
#ifndef EXG_LIBEXEC_SHARDING_SHARD_PATTERN_H
#define EXG_LIBEXEC_SHARDING_SHARD_PATTERN_H

#include <exg/partition.h>

#define EXG_SHARD_PATTERN_MAX 32

/* What the programs of the ranks along one mesh dim differ by: the lengths that were cut into
 * chunks there, or more. */
typedef struct exg_shard_pattern {
    int64_t lengths[EXG_SHARD_PATTERN_MAX];
    uint32_t count;
    bool by_rank; /* each rank has one of its own */
} exg_shard_pattern;

void exg_shard_pattern_note(exg_shard_pattern *pattern, int64_t length); /* NULL is allowed */

/* Have places `a` and `b` of `n` along the dim programs that move the same? */
bool exg_equal_shards(const exg_shard_pattern *pattern, uint32_t n, uint32_t a, uint32_t b);

/* What placing is asked for, by mesh dim, and the goal, whose costs are there. It points into
 * itself. */
typedef struct exg_partitioning {
    exg_partition_options options[EXG_MESH_DIMS_MAX];
    exg_partition_goal goal;
    exg_costs costs;
} exg_partitioning;

/* From what callers give; `options` and `goal` may be NULL. USAGE OPT-001, OPT-002, PLC-010. */
exg_status exg_partitioning_read(exg_partitioning *placing, const exg_partition_options *options,
                                 const exg_partition_goal *goal, const exg_mesh_shape *mesh,
                                 exg_error *err);

/* constraints.c: does every pattern match something of the program? USAGE PLC-005. */
exg_status exg_partition_check_patterns(const exg_program *program, const exg_operators *operators,
                                        const exg_partition_options *options, uint32_t ndim,
                                        exg_error *err);

/* What was chosen for the nodes of a program along a mesh dim, in a mode: it is the same for all
 * ranks that are alike along the dims before, and takes longer than to follow it. */
typedef struct exg_choice {
    exg_partition_mode mode;
    uint32_t before;    /* the first rank of those */
    uint32_t *of_nodes; /* NULL: nothing yet */
    uint32_t count, capacity;
} exg_choice;

typedef struct exg_choices {
    struct exg_arena *arena;
    /* Of the first rank's, and the last others'; as they are by themselves, and where what other
     * ranks have decided is followed. */
    exg_choice by_dim[EXG_MESH_DIMS_MAX][2][2];
    const struct exg_stages *stages; /* of a pipeline, pipeline.h; NULL: not found yet */
} exg_choices;

/* Is it handed to the caller? */
bool exg_is_user_output(exg_output_kind kind);

/* Where a rank has its own parts of user inputs, and user outputs stay in parts: how they lie, by
 * input or output of the graph and, of each, by mesh dim. In a pipeline all are whole. */
typedef struct exg_local_parts {
    exg_placement *inputs;
    exg_placement *outputs; /* NULL: they are made whole */
    uint32_t ndim;
} exg_local_parts;

/* exg_partition (partitioning.c) of a program that may be a piece of another: patterns of inputs
 * speak of the first `named_inputs`, and may match nothing. And by mesh dim what its ranks differ
 * by; `pattern` may be NULL, and `choices`, which are of this program and these options. `parts`
 * NULL: inputs and outputs are whole on every rank. */
exg_status exg_partition_noting(const exg_program *functional, const exg_operators *operators,
                                const exg_partition_options *options,
                                const exg_partition_goal *goal, const exg_mesh_shape *mesh,
                                uint32_t rank, uint32_t named_inputs, exg_shard_pattern *pattern,
                                exg_choices *choices, const exg_local_parts *parts,
                                exg_program **local, exg_partition_summary *summary, char **report,
                                exg_error *err);

#endif
