/* vmap.h - torch.vmap as torch.export leaves it: marks where a call begins and ends, between them
 * operators on one example. */
#ifndef EXG_LIBEXPORT_TRANSFORM_VMAP_H
#define EXG_LIBEXPORT_TRANSFORM_VMAP_H

#include "libexport/base/arena.h"

#include <exg/operators.h>

/* Is the target one of the marks? */
bool exg_is_vmap_mark(const char *target);

/* Has the mark, a node of `graph` whose values are known, the arguments and results of its kind? */
bool exg_vmap_mark_is_sound(const exg_graph *graph, const exg_node *node);

/* Nodes of a graph in their order: `*open`, 0 at first, counts the calls that are open. false: the
 * mark ends a call, or takes an example, where none is. */
bool exg_vmap_mark_fits(const char *target, uint32_t *open);

/* The graph with a map in the place of each call; calls within calls stay in the map's graph.
 * Arrays that do not change are shared with `graph`, the rest is in `arena`. MALFORMED
 * (GRF-010), UNSUPPORTED (OPR-003). */
exg_status exg_unmark_vmap(const exg_graph *graph, exg_arena *arena, exg_graph *out,
                           exg_error *err);

/* Is the map one of those? */
bool exg_is_vmap_map(const exg_node *node);

#endif
