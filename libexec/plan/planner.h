/* planner.h - the planner at work: what planner.c, group.c and finish.c share. */
#ifndef EXG_LIBEXEC_PLAN_PLANNER_H
#define EXG_LIBEXEC_PLAN_PLANNER_H

#include "libexec/plan/plan_internal.h"
#include "libexport/base/map.h"

#define EXG_GROUP_NODES_MAX 16
#define EXG_GROUP_LOADS_MAX 8

/* Pointwise nodes of one iteration space that will be one step. */
typedef struct exg_group {
    uint32_t nodes[EXG_GROUP_NODES_MAX]; /* indices into graph.nodes */
    uint32_t node_count;
    exg_value_id loads[EXG_GROUP_LOADS_MAX]; /* values from outside */
    uint32_t load_count;
    uint32_t rank;
    int64_t sizes[EXG_RANK_MAX];
} exg_group;

/* What is said of a node in each of its steps. */
typedef struct exg_noted {
    const exg_string_pair *metadata; /* the node's; NULL: of none yet */
    const char *module, *origin, *source;
} exg_noted;

typedef struct exg_planner {
    const exg_program *program;
    const exg_graph *graph;
    const exg_operators *operators;
    exg_plan *plan;
    exg_arena *arena;
    exg_arena *scratch;      /* of the pointwise program being built */
    exg_location *locations; /* by value id; buffer EXG_NO_BUFFER: none yet */
    uint32_t *value_uses;    /* by value id: uses to come, outputs included */
    uint32_t *plain_uses;    /* by value id: readers that want it row-major */
    uint32_t *buffer_uses;   /* by buffer: uses to come of the values in it */
    uint32_t *group_of;      /* by value id: 1 + index into group.nodes, of the open group */
    exg_group group;
    exg_map written[2];       /* of state, and of user inputs: those that outputs write, by name */
    const uint32_t *in_place; /* as exg_plan_rank() is given it */
    uint32_t *taken_from;     /* by graph output: the user input whose memory it takes */
    bool *is_taken;           /* by graph input: it is such a one */
    bool *constant;           /* by value id: the same in every run */
    bool folds;               /* steps being added are folded */
    const exg_node *origin;   /* steps being added come from it; NULL: from no node */
    exg_noted noted;          /* of the last one */
    uint32_t buffer_capacity, step_capacity, buffer_uses_capacity;
    const struct exg_grid *grid;
    struct exg_accelerator *device; /* NULL: the host */
    bool no_fusion, no_reuse, overlaps, outputs_apart;
    exg_error *err;
} exg_planner;

/* The device's kernel for the host's; the host's where it has none. NULL for NULL. */
const exg_kernel *exg_planner_kernel(const exg_planner *p, const exg_kernel *kernel);

/* constant_folding.c: says which values are the same in every run. */
exg_status exg_planner_find_constants(exg_planner *p);
bool exg_planner_is_constant(const exg_planner *p, const exg_node *node);
/* Adds the step that packs what the kernel asks for, if that is constant and nothing else
 * reads it, or can read what was packed; *packed's buffer is EXG_NO_BUFFER when it is not. */
exg_status exg_planner_pack(exg_planner *p, const exg_kernel *kernel, const exg_argument *args,
                            uint32_t arg_count, const exg_location *operands, uint32_t count,
                            bool channels_last, exg_location *packed);
/* Brings the folded steps to the front, what they leave into constants. */
exg_status exg_planner_order(exg_planner *p);

/* overlap.c: parts collectives into a beginning and an end, and moves these to where they
 * cost least. */
exg_status exg_planner_overlap(exg_planner *p);

/* pairs.c: steps that the device can ask for as one come to stand beside each other. */
void exg_planner_pair(exg_planner *p);

/* Is operand `i` handed over with whatever strides it has? */
bool exg_kernel_takes_strides(const exg_kernel *kernel, uint32_t i, bool channels_last);

/* Prepares the kernel; what the device's does not take the host's does. */
exg_status exg_planner_prepare(exg_planner *p, exg_step *step);

/* window.c: where the view is of what is at `source`. */
exg_status exg_planner_view(exg_planner *p, const exg_operator *op, const exg_argument *args,
                            const exg_location *source, exg_location *to);
/* Is operand 0 of node `index`, which reads it last, a window that its result will replace? Then it
 * may be computed there. */
bool exg_planner_is_window(exg_planner *p, uint32_t index, exg_value_id operand,
                           exg_value_id result);
/* A node that replaces a window by what is there, or joins what is side by side there, gives that
 * as it is, and *kept is set. */
exg_status exg_planner_keep_window(exg_planner *p, const exg_node *node, const exg_operator *op,
                                   const exg_argument *args, bool *kept);

/* group.c: adds a pointwise node to the open group, or opens one. */
exg_status exg_planner_group(exg_planner *p, uint32_t node);
/* Makes a step of the open group, if there is one. */
exg_status exg_planner_close(exg_planner *p);
/* Closes the group before another step, when the last one finishes its result with it. */
exg_status exg_planner_part(exg_planner *p);
/* Closes the group when `value` is computed in it. */
exg_status exg_planner_need(exg_planner *p, exg_value_id value);

/* finish.c: outputs and write-backs. */
exg_status exg_planner_outputs(exg_planner *p);

#endif
