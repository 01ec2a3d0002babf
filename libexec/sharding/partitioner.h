/* partitioner.h - one mesh dim being placed: what place.c, report.c and search.c share. */
#ifndef EXG_LIBEXEC_SHARDING_PARTITIONER_H
#define EXG_LIBEXEC_SHARDING_PARTITIONER_H

#include "libexec/sharding/cost.h"
#include "libexec/sharding/rules.h"
#include "libexec/sharding/shard_pattern.h"
#include "libexport/transform/rewrite.h"

#include <exg/text.h>

#define EXG_FORMS_MAX 6

typedef struct exg_form {
    exg_placement placement;
    exg_ref ref;
} exg_form;

typedef struct exg_forms {
    exg_form items[EXG_FORMS_MAX];
    uint32_t count;
    bool is_weight; /* a weight, or a view of one */
    bool in_pieces; /* made of weights kept in pieces: whole only while it is read */
} exg_forms;

typedef struct exg_partitioner {
    exg_rewrite r;
    const exg_partition_options *options;
    const exg_costs *costs;
    exg_partition_mode mode;
    uint32_t mesh_dim, n, rank; /* along that dim */
    exg_forms *forms;           /* by old value id */
    exg_partition_summary summary;
    exg_text *report; /* NULL: none wanted */
    bool json;
    bool overlaps;     /* moves go on beside computation */
    uint32_t reported; /* nodes, of JSON */
    exg_text moves;    /* of the node being placed, as reported */
    const char *why;   /* its operands must be placed as they are */
    bool even_only;    /* nothing is split unevenly, so every rank has a program of these sizes */
    bool uneven;       /* something is */
    exg_shard_pattern *pattern; /* NULL: not noted */
    uint32_t named_inputs;
    exg_arena *scratch;
} exg_partitioner;

/* One mesh dim: which, how many ranks along it, which of them. */
typedef struct exg_partitioned_dim {
    uint32_t dim, size, place;
    uint32_t named_inputs; /* the first that patterns of inputs speak of */
    bool even_only;
    bool uneven;                /* out */
    exg_shard_pattern *pattern; /* out; may be NULL */
} exg_partitioned_dim;

/* place.c: places `functional` along one mesh dim, in a mode that is not AUTO. */
exg_status exg_partition_along(const exg_program *functional, const exg_operators *operators,
                               const exg_partition_options *options, const exg_partition_goal *goal,
                               exg_partitioned_dim *along, exg_text *report,
                               exg_partition_summary *summary, exg_program **local, exg_error *err);

/* What patterns know an input by: a weight's FQN, a user input's placeholder. */
const char *exg_partition_input_name(const exg_input_spec *spec);
bool exg_partition_pattern_matches(const exg_partition_pattern *pattern,
                                   const exg_input_spec *spec);

/* report.c: what was decided, told. */
void exg_report_move(exg_partitioner *p, exg_value_id id, exg_placement from, exg_placement to);
void exg_report_node(exg_partitioner *p, const char *name, const char *target,
                     const exg_strategy *strategy, uint32_t operands, uint32_t results, double ns);

/* footprint.c: bytes of weights that a placed program reads, and of values alive at once. */
exg_status exg_partition_footprint(const exg_program *local, const exg_operators *operators,
                                   exg_partition_summary *summary, exg_error *err);

/* What a placed program reads of a weight. */
typedef struct exg_partition_box {
    bool read;
    bool whole; /* no box, or not always the same */
    int64_t offsets[EXG_SHAPE_RANK_MAX], sizes[EXG_SHAPE_RANK_MAX];
} exg_partition_box;

/* One for each input of the graph. */
exg_status exg_partition_boxes(const exg_program *local, const exg_operators *operators,
                               exg_partition_box *boxes, exg_error *err);

/* sizes.c */
/* Is its result a view of its first operand? */
bool exg_is_view_node(const exg_operator *op, const exg_node *node);
bool exg_is_exchange(exg_operator_id id); /* between ranks: a row of collective.def */
double exg_meta_bytes(const exg_tensor_meta *meta);

/* predict.c: counts the moves of a placed program, and the time that it is taken to need. */
exg_status exg_partition_predict(const exg_program *local, const exg_operators *operators,
                                 const exg_partition_goal *goal, const exg_mesh_shape *mesh,
                                 exg_partition_summary *summary, exg_error *err);

/* Time of an operator that is no move, on operands of these sizes (NULL: absent). */
double exg_predict_work(const exg_costs *costs, const exg_operator *op,
                        const exg_tensor_meta *const *operands, uint32_t count,
                        const exg_tensor_meta *result);

/* Which operands of a product are the activation and the weight; false: no product. */
bool exg_product_operands(exg_operator_id op, uint32_t *activation, uint32_t *weight);

#endif
