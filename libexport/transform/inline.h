/* inline.h - higher-order operators that only set a mode around a graph. */
#ifndef EXG_LIBEXPORT_TRANSFORM_INLINE_H
#define EXG_LIBEXPORT_TRANSFORM_INLINE_H

#include "libexport/base/arena.h"

#include <exg/operators.h>

/* wrap_with_set_grad_enabled, wrap_with_autocast? */
bool exg_is_wrapper(const char *target);

/* The graph without them: their graphs' nodes stand in their place. Arrays that do not
 * change are shared with `graph`, the rest lies in `arena`. MALFORMED (NOD-016), LIMIT. */
exg_status exg_inline(const exg_graph *graph, exg_arena *arena, exg_graph *out, exg_error *err);

#endif
