/* history.h - what a DTensor was computed of: the nodes that gradients go back along. */
#ifndef EXG_LIBEXEC_DTENSOR_HISTORY_H
#define EXG_LIBEXEC_DTENSOR_HISTORY_H

#include <exg/dtensor.h>

typedef struct exg_history exg_history;

/* Output `output` of a step; `of` NULL: no gradient is wanted there. */
typedef struct exg_edge {
    exg_history *of;
    uint32_t output;
} exg_edge;

/* One step, or a leaf: what gathers a gradient. */
struct exg_history {
    uint32_t uses;   /* by DTensors and edges of one rank's thread */
    uint64_t number; /* later steps have more; 0: a leaf */
    exg_edge *inputs;
    uint32_t input_count, output_count;
    void *step; /* a step's own, let go with it */
    void (*let_go)(void *step);
    exg_dtensor **pending; /* gradients of the outputs, on the way back; else NULL */
    exg_dtensor *gradient; /* of a leaf */
    exg_placement placements[EXG_MESH_DIMS_MAX]; /* of a leaf's gradient */
    exg_history *next;                           /* of those to be freed */
};

/* A step of edges without ends and no use but the caller's; NULL: out of memory. */
exg_history *exg_history_create(uint32_t input_count, uint32_t output_count);
exg_history *exg_history_share(exg_history *h); /* one use more; NULL gives NULL */
void exg_history_release(exg_history *h);       /* one use less; NULL is allowed */

/* `t` is output `output` of `h` from now on, of which it makes a use. */
void exg_dtensor_set_history(exg_dtensor *t, exg_history *h, uint32_t output);

/* The placements of a gradient of what is placed as `t` is: the same, whole where that is Partial.
 */
void exg_gradient_placements(const exg_dtensor *t, exg_placement *to);

/* How the gradient of a redistribution of `source` is placed: as `source`, whole where
 * that is Partial and the gradient is not. */
void exg_redistributed_gradient(const exg_dtensor *source, const exg_dtensor *gradient,
                                exg_placement *to);

/* Has a part of these sizes those of a part of `t` placed as `to`? USAGE DTN-015. */
exg_status exg_gradient_fits(const exg_dtensor *t, const exg_placement *to, const int64_t *sizes,
                             uint32_t rank, exg_error *err);

#endif
