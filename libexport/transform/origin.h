/* origin.h - which node of the program another was made of.
 *
 * Passes hand a node's metadata to what they make of it. Before the first of those that lead to a
 * run, each node gets its own name there; what comes of a graph that it runs has the name of the
 * node too. */
#ifndef EXG_LIBEXPORT_TRANSFORM_ORIGIN_H
#define EXG_LIBEXPORT_TRANSFORM_ORIGIN_H

#include "libexport/base/arena.h"

#include <exg/program.h>

/* The name of the program's node that this one was made of; NULL: of none that is known. */
const char *exg_node_origin(const exg_node *node);

/* Notes `name` with the node, unless one is noted; its list of metadata is a new one in `arena`. */
exg_status exg_node_note_origin(exg_arena *arena, exg_node *node, const char *name, exg_error *err);

/* The same graph in *noted, each of its nodes with its name. */
exg_status exg_note_origins(const exg_graph *graph, exg_arena *arena, exg_graph **noted,
                            exg_error *err);

/* Names the node, and the user's line it comes from, in the error just set. */
exg_status exg_error_at_node(exg_error *err, exg_status status, const exg_node *node);

#endif
