/* batch.h - a map without a loop: where its graph works element by element, its nodes run once, on
 * all examples. */
#ifndef EXG_LIBEXPORT_TRANSFORM_BATCH_H
#define EXG_LIBEXPORT_TRANSFORM_BATCH_H

#include "libexport/transform/segment_builder.h"

/* Emits a map (node of the flat graph) so, and sets its results. *done false: its graph has nodes
 * that need one example at a time, and nothing was emitted. */
exg_status exg_batch_map(exg_segment_builder *m, const exg_node *node, bool *done);

#endif
