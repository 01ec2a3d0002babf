/* vmap.h - torch.vmap as torch.export leaves it: marks where a call begins and ends, between them
 * operators on one example. */
#ifndef EXG_LIBEXPORT_TRANSFORM_VMAP_H
#define EXG_LIBEXPORT_TRANSFORM_VMAP_H

#include "libexport/base/arena.h"

#include <exg/operators.h>

/* Is the target one of the marks? */
bool exg_is_vmap_mark(const char *target);

/* The graph with a map in the place of each call; calls within calls stay in the map's graph.
 * Arrays that do not change are shared with `graph`, the rest is in `arena`. MALFORMED
 * (GRF-010), UNSUPPORTED (OPR-003). */
exg_status exg_unmark_vmap(const exg_graph *graph, exg_arena *arena, exg_graph *out,
                           exg_error *err);

#endif
