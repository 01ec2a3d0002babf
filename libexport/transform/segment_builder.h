/* segment_builder.h - a segment while it is made. */
#ifndef EXG_LIBEXPORT_TRANSFORM_SEGMENT_BUILDER_H
#define EXG_LIBEXPORT_TRANSFORM_SEGMENT_BUILDER_H

#include "libexport/transform/flat_graph.h"

typedef struct exg_segment_builder {
    exg_rewrite r; /* refs by value id of the flat graph */
    exg_graph_segment *segment;
    exg_flat_graph *flat;
    exg_argument *numbers;      /* by value id; NONE: no number */
    exg_ref *replayed;          /* of the replayed views */
    const exg_argument *answer; /* what the first node waits for, or NULL */
    uint32_t at;
    exg_ref number; /* that the segment waits for */
    exg_ref *checks;
    uint32_t check_capacity;
    exg_error *err;
} exg_segment_builder;

/* An argument with numbers in the place of their names. An element that kernels read
 * becomes the tensor that holds it. */
exg_status exg_segment_builder_resolve(exg_segment_builder *m, const exg_argument *in,
                                       exg_argument *out);

/* One more output of the segment; gives its index. */
uint32_t exg_segment_builder_output(exg_segment_builder *m, exg_ref ref);

/* set_source.c: aten.set_.source_Tensor. UNSUPPORTED OPR-002. */
exg_status exg_segment_builder_set(exg_segment_builder *m, const exg_node *node);

/* loop.c: the loop at which the segment ends. */
exg_status exg_segment_builder_loop(exg_segment_builder *m);

/* graph_segment.c */
exg_status exg_graph_segment_new(const exg_allocator *allocator, uint32_t depth,
                                 exg_graph_segment **segment, exg_error *err);

/* The segment from `state` (NULL: the beginning) on; `answer` is the number the first node
 * waits for, or NULL. */
exg_status exg_graph_segment_make(exg_graph_segment *s, exg_flat_graph *flat,
                                  const exg_state *state, const exg_argument *answer,
                                  exg_error *err);

#endif
