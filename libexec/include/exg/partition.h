/* partition.h - one global program becomes one local program a rank.
 *
 * Every value gets a placement, operator by operator, from the rows of the sharding
 * rules; where an operand is placed otherwise than the chosen row wants, a collective is
 * put in. Each rank's program has local sizes and knows no mesh but the collectives
 * in it, so it is planned and run like any other. Decisions do not depend on the
 * rank. Inputs are whole on every rank, of which a rank reads its own chunks
 * (views, no copies); user outputs are whole again.
 */
#ifndef EXG_PARTITION_H
#define EXG_PARTITION_H

#include <exg/device_mesh.h>
#include <exg/memory.h>
#include <exg/operators.h>
#include <exg/placement.h>
#include <exg/program.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum exg_partition_mode {
    EXG_PARTITION_REPLICATE, /* every rank computes everything */
    EXG_PARTITION_DATA,      /* user inputs split along dim 0 */
    EXG_PARTITION_TENSOR,    /* matrices of weights split: by column, then by row (Megatron) */
    EXG_PARTITION_FSDP,      /* user inputs split along dim 0, matrices of weights kept in pieces:
                            each is made whole just before it is read, and then let go */
    EXG_PARTITION_SEQUENCE,  /* user inputs split along dim 1, (batch, sequence, ...) */
    EXG_PARTITION_AUTO,      /* the cheapest of the above by predicted time */
    EXG_PARTITION_PATTERNS   /* weights and inputs as the patterns say, the rest follows */
} exg_partition_mode;

/* Weights whose FQN matches `pattern` (fnmatch: * ? [...]), or user inputs whose placeholder
 * does, are placed as `placement` says. */
typedef struct exg_partition_pattern {
    const char *pattern;
    exg_placement placement;
    bool of_inputs;
} exg_partition_pattern;

/* Of several in a row, each is as large as the first one says. */
typedef struct exg_partition_options {
    size_t size; /* sizeof(exg_partition_options) */
    exg_partition_mode mode;
    const exg_partition_pattern *patterns; /* the first that matches counts */
    uint32_t pattern_count;
} exg_partition_options;

/* A file of placements, {"weights": {"*.q.weight": "S(0)"}, "inputs": {"x": "S(0)"}}: sets mode,
 * patterns and their count; options->size is set before. Patterns are the arena's. IO CLI-005;
 * USAGE PLC-007, MALFORMED: what the file says wrongly. */
EXG_NODISCARD exg_status exg_partition_options_open(const char *path, exg_arena *arena,
                                                    exg_partition_options *options, exg_error *err);

/* What work and moves take: a device and its links, one a mesh dim. */
typedef struct exg_link {
    double message_ns;  /* one collective, whatever its size */
    double ns_per_byte; /* that a rank receives */
} exg_link;

typedef struct exg_costs {
    size_t size;           /* sizeof(exg_costs) */
    double ns_per_flop;    /* of a product */
    double ns_per_touched; /* byte read or written by any other operator */
    exg_link links[EXG_MESH_DIMS_MAX];
} exg_costs;

/* Of a core and threads beside it. `size`: sizeof(exg_costs). */
void exg_costs_init(exg_costs *costs, size_t size);

/* A table of costs as a file, {"ns_per_flop": 0.02, "ns_per_touched": 0.1, "links":
 * [{"message_ns": 6000, "ns_per_byte": 0.12}]}: one link a mesh dim, the last stands for all that
 * follow; what is absent is as exg_costs_init has it. costs->size is set before. IO CLI-005; USAGE
 * CLI-004, MALFORMED: what the file says wrongly. */
EXG_NODISCARD exg_status exg_costs_open(const char *path, exg_costs *costs, exg_error *err);

/* Writes such a file, with the first link. IO. */
EXG_NODISCARD exg_status exg_costs_save(const exg_costs *costs, const char *path, exg_error *err);

/* What a placement is measured by, and how it is told. */
typedef struct exg_partition_goal {
    size_t size;            /* sizeof(exg_partition_goal) */
    const exg_costs *costs; /* NULL: exg_costs_init() */
    /* Bytes a rank may take, LIMIT PLC-009; 0: any. Of placing: its weights and values. Of a
     * session: all it holds at once, weights read or mapped, what is made of them, state, values,
     * workspace, what loops keep; plans that were not used for long make room. Not counted:
     * descriptions (programs, plans), which grow with nodes, not with sizes. */
    uint64_t memory_limit;
    bool overlaps; /* moves go on beside computation (exg_plan_options.overlap) */
    bool json;     /* the report: a JSON array, one object a mesh dim, all nodes */
} exg_partition_goal;

/* Made by the library; later versions may have more at its end. */
typedef struct exg_partition_summary {
    size_t size;                                 /* that this library filled */
    exg_partition_mode modes[EXG_MESH_DIMS_MAX]; /* those taken, where AUTO was asked for */
    uint32_t all_gather_count, all_reduce_count, reduce_scatter_count, all_to_all_count,
        halo_count;         /* of all moves: parts of dims that are beside a rank's own */
    uint32_t split_count;   /* nodes with a result that is not replicated */
    uint32_t sharded_count; /* outputs that are in shards before they are made whole */
    uint32_t partial_count; /* that are summands before */
    uint64_t moved_bytes;   /* received by a rank, all collectives of a run */
    uint64_t weight_bytes;  /* that a rank reads */
    uint64_t value_bytes;   /* of all values alive at once, at most */
    double predicted_ns;    /* of a rank's run, by the costs */
    double hidden_ns;       /* of moves, beside computation: not in predicted_ns */
} exg_partition_summary;

static inline uint32_t exg_partition_moves(const exg_partition_summary *summary) /* of all kinds */
{
    return summary->all_gather_count + summary->all_reduce_count + summary->reduce_scatter_count +
           summary->all_to_all_count + summary->halo_count;
}

/* Rank `rank`'s program on `mesh`: placed along the first mesh dim by options[0], what that
 * leaves along the next by options[1], and so on. Where options say AUTO all strategies are
 * tried together, so none of them is predicted to take less (on meshes of many dims, and
 * programs of very many nodes, dim by dim). `goal`, `summary` and `report` may be NULL; the
 * report is a line a node that moves or splits something. The caller frees both. Memory is
 * counted for this rank; of uneven shards rank 0 has the longest. USAGE (a pattern matches
 * nothing, or splits a dimension that is not there), UNSUPPORTED, LIMIT. */
EXG_NODISCARD exg_status exg_partition(const exg_program *functional,
                                       const exg_operators *operators,
                                       const exg_partition_options *options,
                                       const exg_partition_goal *goal, const exg_mesh_shape *mesh,
                                       uint32_t rank, exg_program **local,
                                       exg_partition_summary **summary, char **report,
                                       exg_error *err);

/* A part of a weight: a box of its elements. */
typedef struct exg_weight_part {
    const char *fqn;
    uint32_t rank; /* the first that reads it */
    uint32_t dims;
    const int64_t *offsets, *sizes;
} exg_weight_part;

typedef exg_status exg_weight_part_fn(void *user, const exg_weight_part *part, exg_error *err);

/* What the ranks read of the weights when they are placed so: tells each part once, where the parts
 * of a weight are boxes that do not lie on each other and are all of it together. Of a weight of
 * which none is told every rank may read all. A fault of part() ends it. As exg_partition(). */
EXG_NODISCARD exg_status exg_partition_weights(const exg_program *functional,
                                               const exg_operators *operators,
                                               const exg_partition_options *options,
                                               const exg_partition_goal *goal,
                                               const exg_mesh_shape *mesh, exg_weight_part_fn *part,
                                               void *user, exg_error *err);

const char *exg_partition_mode_name(exg_partition_mode mode); /* "tensor" */

#ifdef __cplusplus
}
#endif

#endif
