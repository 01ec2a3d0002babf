/* layout.h - where PyTorch has a tensor's elements. What a reshape aliases, and what as_strided
 * reads, depend on the strides a value has in PyTorch, which the program records; the strides of a
 * run are the planner's. Up to functionalize values have PyTorch's strides, and here operators that
 * speak of memory become views of the elements in the order in which they lie.
 */
#ifndef EXG_LIBEXPORT_TRANSFORM_LAYOUT_H
#define EXG_LIBEXPORT_TRANSFORM_LAYOUT_H

#include "libexport/transform/graph_segment.h"
#include "libexport/transform/rewrite.h"

/* Gives the new value of `old` the strides that are recorded for it, where its elements fill
 * memory in another order than row by row (channels_last). NO_MEMORY. */
exg_status exg_layout_adopt(exg_rewrite *r, exg_value_id old);

/* The same of all results of a node. */
exg_status exg_layout_adopt_results(exg_rewrite *r, const exg_node *node, const exg_operator *op);

/* `args` of a view: it never copies, so where the strides recorded for its tensor do not allow it
 * they are wrong, and the tensor is row-major. NO_MEMORY. */
exg_status exg_layout_allow_view(exg_rewrite *r, const exg_argument *args);

/* Is it as_strided or one of its kin? */
bool exg_layout_is_spoken_of(const exg_operator *op);

/* Emits such an operator. UNSUPPORTED OPR-010 where it reads memory that the program does not
 * tell about. */
exg_status exg_layout_emit(exg_rewrite *r, const exg_node *node, const exg_operator *op,
                           const exg_argument *args);

#endif
