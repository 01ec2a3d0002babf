/* vmap_nodes.h - values inside of calls of torch.vmap, with all examples. */
#ifndef EXG_CLI_VMAP_NODES_H
#define EXG_CLI_VMAP_NODES_H

#include "cli/inner_nodes.h"

/* Between the marks of a call nodes work on one example, and nobody behind it can read them. Each
 * tensor there that is wanted, by `path` and its name, is given by a further value behind the call:
 * all examples along dim 0, as they were when its node had run. Changes the graph's nodes and
 * values, in the arena. (*called)[id] is the name of what such a value gives, NULL of others;
 * *called is NULL where the graph has no call. NO_MEMORY. */
exg_status cli_vmap_nodes_show(exg_arena *arena, exg_graph *graph, const char *path,
                               cli_path_fn *is_wanted, void *user, const char *const **called,
                               exg_error *err);

/* Calls of torch.vmap around what comes after the node, of `depth` around the node. */
uint32_t cli_vmap_depth(const exg_node *node, uint32_t depth);

#endif
