/* auto_functionalized.h - operators that write, called on copies: what PyTorch makes of calls of
 * custom operators that write when a program is made functional. */
#ifndef EXG_LIBEXPORT_TRANSFORM_AUTO_FUNCTIONALIZED_H
#define EXG_LIBEXPORT_TRANSFORM_AUTO_FUNCTIONALIZED_H

#include "libexport/transform/rewrite.h"

/* torch.ops.higher_order.auto_functionalized, or _v2? */
bool exg_is_auto_functionalized(const char *target);

/* Emits what such a node is: copies of what would be written, the call on them (on views of them),
 * and the copies as results. Numbers of the node are known. UNSUPPORTED OPR-003, MALFORMED GRF-010,
 * NOD-004. */
exg_status exg_emit_auto_functionalized(exg_rewrite *r, const exg_node *node);

#endif
