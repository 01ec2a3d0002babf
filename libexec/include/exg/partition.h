/* partition.h - one global program becomes one local program a rank.
 *
 * Every value gets a placement, operator by operator, from the rows of the sharding
 * rules; where an operand is placed otherwise than the chosen row wants, a collective is
 * put in. Each rank's program has local sizes and knows no mesh but the collectives
 * in it, so it is planned and run like any other. Ranks that meet in a collective place
 * its operand alike, also where their own sizes differ. Inputs are whole on every rank, of
 * which a rank reads its own chunks (views, no copies); user outputs are whole again.
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
    EXG_PARTITION_TENSOR,    /* weights of products split, of all ways one that moves little: by
                            column, then by row (Megatron), tables, filters, experts */
    EXG_PARTITION_FSDP,      /* user inputs split along dim 0, matrices of weights kept in pieces:
                            each is made whole just before it is read, and then let go */
    EXG_PARTITION_SEQUENCE,  /* user inputs split along dim 1, (batch, sequence, ...) */
    EXG_PARTITION_EXPERT,  /* weights of several experts, (E, d, f), split by E; others as TENSOR */
    EXG_PARTITION_CONTEXT, /* user inputs split along dim 1, and what is made of them, in little
                          time: keys and values go around, or heads change hands for places */
    EXG_PARTITION_PIPELINE, /* nodes in stages, one a rank, which has the weights of its own; along
                           one mesh dim at most */
    EXG_PARTITION_AUTO,     /* the cheapest of the above but the last by predicted time */
    EXG_PARTITION_PATTERNS  /* weights and inputs as the patterns say, the rest follows */
} exg_partition_mode;

/* What a pattern is compared with. */
typedef enum exg_partition_subject {
    EXG_PARTITION_WEIGHTS,     /* names (FQNs) of weights */
    EXG_PARTITION_INPUTS,      /* placeholders of user inputs */
    EXG_PARTITION_TABLES,      /* names of weights that rows are looked up in */
    EXG_PARTITION_ACTIVATIONS, /* names of nodes; paths of modules: what others read of them */
    EXG_PARTITION_OUTPUTS,     /* names of outputs, which lie so before they are made whole */
    EXG_PARTITION_MODULES      /* paths of modules, of which nothing is said */
} exg_partition_subject;

/* What matches `pattern` (fnmatch: * ? [...]) is placed as `placement` says, a dim counted from the
 * end where it is negative. Of those with the same `key` one must match something, of no key (NULL)
 * each. */
typedef struct exg_partition_pattern {
    const char *pattern;
    exg_placement placement;
    exg_partition_subject of;
    const char *key;
} exg_partition_pattern;

/* Of several in a row, each is as large as the first one says. */
typedef struct exg_partition_options {
    size_t size; /* sizeof(exg_partition_options) */
    exg_partition_mode mode;
    const exg_partition_pattern *patterns; /* the first that matches counts */
    uint32_t pattern_count;
    /* Of PIPELINE: parts that the rows of the batch go through the stages in; 0: all at once. Of
     * AUTO: if it is to be a pipeline; 0: all at once, or one for each rank. USAGE PLC-011 in
     * another mode; UNSUPPORTED PLC-012 where rows depend on each other. */
    uint32_t microbatches;
    /* Of PIPELINE, and of AUTO: several are Megatron's interleaved schedule; 0: one. PLC-011 in
     * another mode. */
    uint32_t stages_per_rank;
} exg_partition_options;

/* A file of placements (docs/mesh.md), {"weights": {"*.q.weight": "S(0)"}, "inputs": {"x":
 * "S(0)"}}, or a plan by module, {"*.q_proj": "colwise"}, for dim `dim` of a mesh of `ndim`: sets
 * mode, patterns and their count; options->size is set before. Patterns are the arena's. IO
 * CLI-005; USAGE PLC-007, PLC-001, MALFORMED: what the file says wrongly. */
EXG_NODISCARD exg_status exg_partition_options_open(const char *path, uint32_t dim, uint32_t ndim,
                                                    exg_arena *arena,
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
    /* Of a product of several matrices (bmm), of attention, a convolution, a recurrent layer; 0: as
     * ns_per_flop. */
    double ns_per_batched_flop, ns_per_attention_flop, ns_per_convolution_flop,
        ns_per_recurrent_flop;
    double ns_per_node; /* of any operator that is not a view: to begin it */
    double cores;       /* that the ranks of the mesh have together; 0: each its own */
} exg_costs;

/* Of a core and threads beside it. `size`: sizeof(exg_costs). */
void exg_costs_init(exg_costs *costs, size_t size);

/* A table of costs as a file, {"note": "of what, measured how", "ns_per_flop": 0.02,
 * "ns_per_touched": 0.1, "links":
 * [{"message_ns": 6000, "ns_per_byte": 0.12}]}, and the other members by name: one link a mesh dim,
 * the last stands for all that follow; what is absent is as exg_costs_init has it. costs->size is
 * set before. IO CLI-005; USAGE CLI-004, MALFORMED: what the file says wrongly. */
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
    bool compares; /* with what another mode takes along one mesh dim: summary.cheaper_ns */
} exg_partition_goal;

/* Made by the library; later versions may have more at its end. */
typedef struct exg_partition_summary {
    size_t size;                                 /* that this library filled */
    exg_partition_mode modes[EXG_MESH_DIMS_MAX]; /* those taken, where AUTO was asked for */
    uint32_t all_gather_count, all_reduce_count, reduce_scatter_count, all_to_all_count,
        halo_count;           /* of all moves: parts of dims that are beside a rank's own */
    uint32_t split_count;     /* nodes with a result that is not replicated */
    uint32_t sharded_count;   /* outputs that are in shards before they are made whole */
    uint32_t partial_count;   /* that are summands before */
    uint64_t moved_bytes;     /* received by a rank, all collectives of a run */
    uint64_t weight_bytes;    /* that a rank reads */
    uint64_t value_bytes;     /* of all values alive at once, at most */
    double predicted_ns;      /* of a rank's run, by the costs */
    double hidden_ns;         /* of moves, beside computation: not in predicted_ns */
    uint32_t broadcast_count; /* of programs that are already parallel */
    /* Why what was asked for splits nothing along a mesh dim, in words; NULL: it does. */
    const char *unsplit[EXG_MESH_DIMS_MAX];
    uint64_t all_gather_bytes, all_reduce_bytes, reduce_scatter_bytes, all_to_all_bytes,
        halo_bytes;           /* of moved_bytes */
    double work_ns, moves_ns; /* one after another; what is hidden is in moves_ns */
    uint64_t largest_bytes;   /* of the move of most bytes, */
    char largest_move[100];   /* what moves so, and which collective that is; "" */
    /* Of a pipeline; 0: it is none. */
    uint32_t stages, used_stages, microbatches;
    uint32_t send_count;                  /* moves from stages to the next */
    uint64_t send_bytes, broadcast_bytes; /* of moved_bytes */
    double bubble_ns;                     /* of predicted_ns: the rank waits for other stages */
    double longest_ns;                    /* of the node that takes most of work_ns, */
    char longest_node[100];               /* its name; "" */
    /* With goal.compares: of the modes that differ from these along one mesh dim those that are
     * predicted to take the least, and less than predicted_ns, within the limit; 0: none do. */
    double cheaper_ns;
    uint64_t cheaper_bytes; /* of weights and values of a rank then */
    exg_partition_mode cheaper_modes[EXG_MESH_DIMS_MAX];
} exg_partition_summary;

static inline uint32_t exg_partition_moves(const exg_partition_summary *summary) /* of all kinds */
{
    return summary->all_gather_count + summary->all_reduce_count + summary->reduce_scatter_count +
           summary->all_to_all_count + summary->halo_count + summary->broadcast_count +
           summary->send_count;
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
 * of a weight are boxes that do not lie on each other and are all of it together. Where ranks read
 * several boxes, of matrices that were made one, each is told one of as many elements. Of a weight
 * of which none is told every rank may read all. A fault of part() ends it. As exg_partition(). */
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
