/* partitioner.h - one mesh dim being placed: what the files of this room share. */
#ifndef EXG_LIBEXEC_SHARDING_PARTITIONER_H
#define EXG_LIBEXEC_SHARDING_PARTITIONER_H

#include "libexec/sharding/cost.h"
#include "libexec/sharding/rules.h"
#include "libexec/sharding/shard_pattern.h"
#include "libexport/transform/rewrite.h"

#include <exg/text.h>

#define EXG_FORMS_MAX 6
#define EXG_NO_STAGE  UINT32_MAX
/* Beside a node's stage: each that reads it computes it for itself. */
#define EXG_STAGE_FREE 0x80000000u

typedef struct exg_form {
    exg_placement placement;
    exg_ref ref; /* of a strided shard the whole */
} exg_form;

typedef struct exg_forms {
    exg_form items[EXG_FORMS_MAX];
    uint32_t count;
    bool is_weight; /* a weight, or a view of one */
    bool in_pieces; /* made of weights kept in pieces: whole only while it is read */
    bool has_whole;
    uint32_t split_before; /* bit by earlier mesh dim: along it the same dim is split, too */
    exg_ref whole;         /* of which a rank reads pieces */
    const struct exg_gathered
        *gathered; /* NULL: forms are as they say; otherwise this is to come */
} exg_forms;

/* What ranks along an earlier mesh dim hold in pieces, as one of them reads it: `of`, a weight or a
 * view of one, is cut along `dim`, and gathered. */
typedef struct exg_gathered {
    exg_value_id of;
    int64_t dim;
    uint32_t mesh_dim;
    const struct exg_gathered *inner; /* of each piece, gathered first; NULL: none */
} exg_gathered;

/* How the operands of the moves along one mesh dim are placed along a later one, move by move.
 * Ranks that meet in such a move may have other sizes, and programs, than each other; they place
 * its operand alike. */
typedef struct exg_decisions {
    exg_arena *arena;
    exg_placement *operands;
    uint32_t count, capacity;
} exg_decisions;

/* What a value, or what is made of it alone, is read as. */
typedef enum exg_use {
    EXG_READ_OTHERWISE,
    EXG_READ_AS_TABLE, /* rows are looked up in it */
    EXG_READ_AS_FILTERS,
    EXG_READ_AS_MATRICES
} exg_use;

/* The nodes that read a value; the end of the program counts as one. */
typedef struct exg_readers {
    uint32_t *nodes;
    uint32_t count, capacity;
} exg_readers;

typedef struct exg_partitioner {
    exg_rewrite r;
    const exg_partition_options *options;
    const exg_partition_options *placing; /* by mesh dim */
    const exg_graph *whole;               /* as it was before any mesh dim was placed along */
    const exg_costs *costs;
    exg_partition_mode mode;
    uint32_t mesh_dim, n, rank; /* along that dim */
    const exg_mesh_shape *mesh; /* NULL: there is no other dim */
    uint32_t mesh_rank;
    uint32_t
        in_pieces;    /* bit by mesh dim: along it ranks have pieces of weights, and gather them */
    exg_forms *forms; /* by old value id */
    exg_partition_summary summary;
    exg_text *report; /* NULL: none wanted */
    bool json;
    bool overlaps;                     /* moves go on beside computation */
    uint32_t reported;                 /* nodes, of JSON */
    exg_text moves;                    /* of the node being placed, as reported */
    const char *why;                   /* its operands must be placed as they are */
    bool uneven;                       /* something is split unevenly */
    exg_decisions *decisions;          /* by earlier mesh dim */
    uint32_t followed;                 /* earlier dims whose decisions are followed */
    uint32_t taken[EXG_MESH_DIMS_MAX]; /* decisions, of each */
    exg_shard_pattern *pattern;        /* of this dim; NULL: not noted */
    exg_shard_pattern *patterns;       /* by mesh dim */
    uint32_t named_inputs;
    exg_readers *readers;   /* by value; NULL: no pattern speaks of modules */
    exg_use *uses;          /* by value */
    exg_placement *outputs; /* NULL: they are made whole */
    const exg_local_parts *local;
    struct exg_stage_notes *stages;
    uint32_t *chosen; /* by node: the strategy; NULL: none is chosen */
    uint32_t *parts;  /* by node: into how many what it makes may be split, several ranks having
                       * each; 0: no fewer than ranks; NULL: of no node */
    const exg_gathered **gathered; /* by node: a gather of pieces; NULL: it is none */
    bool *is_left_out; /* by node: a gather of pieces, and what only such gathers read */
    exg_arena *scratch;
} exg_partitioner;

/* A node with its tensor operands, flat, in schema order, and the strategies that it has. */
typedef struct exg_node_call {
    exg_rule_call call;
    exg_argument *args;
    exg_value_id *operands; /* EXG_NO_VALUE: absent */
    const exg_tensor_meta **metas;
    exg_value_id *results;
    const exg_tensor_meta **result_metas;
} exg_node_call;

/* decisions.c: a move along an earlier mesh dim, `mesh_dim`: what the ranks that meet there have
 * decided of its operand stands; where nothing is followed, *operand is noted. PLC-003. */
exg_status exg_follow_decision(exg_partitioner *p, uint32_t mesh_dim, exg_placement *operand);
exg_status exg_no_such_move(const exg_partitioner *p);

/* forms.c: forms and moves. */
void exg_add_form(exg_partitioner *p, exg_value_id id, exg_placement placement, exg_ref ref);
/* Time of a move along the mesh dim. */
double exg_link_cost(const exg_partitioner *p, exg_placement from, exg_placement to, double bytes);
/* From which it is least to have it as wanted, and what that costs. */
const exg_form *exg_cheapest_form(const exg_partitioner *p, exg_value_id id, exg_placement want,
                                  double *cost);
bool exg_splits_evenly(const exg_partitioner *p, const exg_tensor_meta *meta,
                       exg_placement placement);
exg_ref exg_cut_chunk(exg_partitioner *p, exg_ref whole, const exg_tensor_meta *meta,
                      exg_placement place);
/* The rank's own of the dim that is split. */
int64_t exg_own_size(const exg_partitioner *p, const exg_tensor_meta *meta, exg_placement place);
/* The value in the wanted form, moved there if need be. PLC-002. */
exg_status exg_in_form(exg_partitioner *p, exg_value_id id, exg_placement want, exg_ref *ref);

/* pieces.c: sets p->gathered and p->is_left_out: such a gather is emitted where it is read. */
exg_status exg_find_pieces(exg_partitioner *p);

/* node_call.c: of node `index`, in the partitioner's scratch; `n` stays where it is. One that is
 * left out reads and gives nothing. */
exg_status exg_node_call_of(exg_partitioner *p, uint32_t index, exg_node_call *n);
/* Puts the moved operands back into the arguments. */
exg_status exg_node_call_replace(exg_node_call *n, exg_arena *arena, const exg_ref *refs);
/* Is its result a view of a weight? */
bool exg_node_call_is_weight(const exg_partitioner *p, const exg_node_call *n);
/* The tensors of a node's outputs, those of a list one by one: how many, and the one at `index`;
 * with `made`, what was emitted for it. */
uint32_t exg_node_result_count(const exg_node *node);
exg_value_id exg_node_result(const exg_node *node, const exg_argument *made, uint32_t index);

/* pieces.c: the dim along which a weight is held in pieces: the first, which is gathered as it
 * lies, unless it is too short for that, as a number of experts may be. Along later mesh dims the
 * same one may be split. */
int32_t exg_dim_of_pieces(const exg_partitioner *p, const exg_tensor_meta *meta);

/* pieces.c, too: where such a gather, at node `index`, is placed: what reads it finds what it is
 * of.
 */
void exg_take_gathered(exg_partitioner *p, uint32_t index);
/* *is_placed: the node is a view of a weight in pieces, which is cut into pieces itself. */
exg_status exg_view_pieces(exg_partitioner *p, exg_node_call *n, const exg_strategy *strategy,
                           bool *is_placed);

/* beam.c: sets p->chosen: weights are split wherever they can be, and few bytes are moved. */
exg_status exg_choose_together(exg_partitioner *p);

/* shared_heads.c: sets p->parts, where there are fewer heads of keys and values than ranks. */
exg_status exg_find_shared_heads(exg_partitioner *p);
/* Adds strategies in which a node is split into so many parts; 0 and 1 add none. */
exg_status exg_add_shared_parts(exg_rule_call *call, uint32_t parts);

/* joined_views.c: the same program, in which dims that are joined and parted again stay apart. */
exg_status exg_part_joined_views(const exg_program *functional, const exg_operators *operators,
                                 exg_program **parted, exg_error *err);

/* fused_products.c: the same program, in which products that are only read in parts are several;
 * NULL: it has none such. */
exg_status exg_take_products_apart(const exg_program *functional, const exg_operators *operators,
                                   exg_program **apart, exg_error *err);

/* In which stage of a pipeline nodes are: those that are placed, and those they become. */
typedef struct exg_stage_notes {
    const uint32_t *of; /* EXG_NO_STAGE: of what is read; NULL: not noted */
    exg_arena *arena;
    uint32_t *made;
    uint32_t capacity;
} exg_stage_notes;

/* stages.c: the nodes that were added from `from` on are of the stage of node `node`. */
exg_status exg_stage_note(exg_stage_notes *notes, const exg_rewrite *r, uint32_t from,
                          uint32_t node);

/* One mesh dim: which, how many ranks along it, which of them. */
typedef struct exg_partitioned_dim {
    uint32_t dim, size, place;
    const exg_mesh_shape *mesh;           /* NULL: there is no other dim */
    uint32_t rank;                        /* of the mesh */
    uint32_t in_pieces;                   /* bit by mesh dim, where the mode is FSDP */
    const exg_partition_options *placing; /* by mesh dim; NULL: there is no other dim */
    const exg_program *whole;             /* as it was before any dim was placed along */
    uint32_t named_inputs;                /* the first that patterns of inputs speak of */
    exg_decisions *decisions;     /* by earlier mesh dim; NULL: neither followed nor noted */
    uint32_t followed;            /* the first so many are followed, those of the others noted */
    bool uneven;                  /* out */
    exg_shard_pattern *patterns;  /* out, by mesh dim; may be NULL */
    exg_choices *choices;         /* in and out; may be NULL */
    uint32_t before;              /* the first of the ranks alike along the dims before */
    exg_placement *outputs;       /* out: as they come to lie; NULL: they are made whole */
    const exg_local_parts *parts; /* what it holds is out; NULL: all is whole */
    exg_stage_notes stages;       /* in and out */
} exg_partitioned_dim;

/* place.c: places `functional` along one mesh dim, in a mode that is not AUTO. */
exg_status exg_partition_along(const exg_program *functional, const exg_operators *operators,
                               const exg_partition_options *options, const exg_partition_goal *goal,
                               exg_partitioned_dim *along, exg_text *report,
                               exg_partition_summary *summary, exg_program **local, exg_error *err);

/* What patterns know an input by: a weight's FQN, a user input's placeholder. */
const char *exg_partition_input_name(const exg_input_spec *spec);

/* constraints.c: patterns compared with what they are of. */
bool exg_pattern_of_input(const exg_partition_pattern *pattern, const exg_input_spec *spec,
                          exg_use use);
/* By value; in the arena. NULL: no memory. */
exg_use *exg_find_uses(const exg_program *program, const exg_operators *operators,
                       exg_arena *arena);
/* Is it a weight of several experts, (E, d, f)? */
bool exg_is_of_experts(const exg_input_spec *spec, const exg_tensor_meta *meta, exg_use use);
exg_status exg_find_experts(const exg_program *program, const exg_operators *operators, bool *found,
                            exg_error *err);
/* The placement that patterns give result `id` of a node; NULL: none speaks of it. */
const exg_partition_pattern *exg_pattern_of_result(const exg_partitioner *p, uint32_t node,
                                                   exg_value_id id);
const exg_partition_pattern *exg_pattern_of_output(const exg_partitioner *p, uint32_t output);
/* By value the nodes that read it, where patterns speak of modules; NO_MEMORY. */
exg_status exg_find_readers(exg_partitioner *p);

/* report.c: what was decided, told. */
void exg_report_move(exg_partitioner *p, exg_value_id id, exg_placement from, exg_placement to);
void exg_report_node(exg_partitioner *p, const exg_node *node, const exg_strategy *strategy,
                     uint32_t operands, uint32_t results, double ns);

/* Why nothing is split where `mode` was asked for; NULL: nothing was. */
const char *exg_why_unsplit(exg_partition_mode mode);

/* footprint.c: bytes of weights that a placed program reads, and of values alive at once. */
exg_status exg_partition_footprint(const exg_program *local, const exg_operators *operators,
                                   exg_partition_summary *summary, exg_error *err);

#define EXG_BOXES_MAX 8

/* What a placed program reads of a weight. */
typedef struct exg_partition_box {
    bool read;
    bool whole; /* no box, or several that lie on each other or are not in a row */
    int64_t offsets[EXG_SHAPE_RANK_MAX], sizes[EXG_SHAPE_RANK_MAX]; /* of the first */
    /* Boxes, which differ along one dim alone; 0 of them are told where there is one. */
    uint32_t count, dim;
    int64_t firsts[EXG_BOXES_MAX], lengths[EXG_BOXES_MAX];
} exg_partition_box;

/* One for each input of the graph. */
exg_status exg_partition_boxes(const exg_program *local, const exg_operators *operators,
                               exg_partition_box *boxes, exg_error *err);

/* sizes.c */
/* Is its result a view of its first operand? */
bool exg_is_view_node(const exg_operator *op, const exg_node *node);
double exg_meta_bytes(const exg_tensor_meta *meta);

/* predict.c: the tensor that a node gives first; EXG_NO_VALUE: none. */
exg_value_id exg_result_of(const exg_node *node);

/* Counts the moves of a placed program, and the time that it is taken to need. */
exg_status exg_partition_predict(const exg_program *local, const exg_operators *operators,
                                 const exg_partition_goal *goal, const exg_mesh_shape *mesh,
                                 exg_partition_summary *summary, exg_error *err);

/* Multiplications and additions of a product; 0: it is none. */
double exg_operator_flops(const exg_operator *op, const exg_tensor_meta *const *operands,
                          uint32_t count, const exg_tensor_meta *result);

/* Does it read no more of its first operand than it gives? NULL: no operator. */
bool exg_operator_looks_up(const exg_operator *op);

/* Time of an operator that is no move, on operands of these sizes (NULL: absent). */
double exg_predict_work(const exg_costs *costs, const exg_operator *op,
                        const exg_tensor_meta *const *operands, uint32_t count,
                        const exg_tensor_meta *result);

/* Values that the node with the most of them reads. */
uint32_t exg_most_operands(const exg_graph *graph);

/* Which operands of a product are the activation and the weight; false: no product. */
bool exg_product_operands(exg_operator_id op, uint32_t *activation, uint32_t *weight);

#endif
