/* uses.h - how often each value of a graph is used. */
#ifndef EXG_LIBEXPORT_PROGRAM_USES_H
#define EXG_LIBEXPORT_PROGRAM_USES_H

#include <exg/program.h>

/* By value: how often the graph's nodes and outputs take it, subgraphs not entered. In `arena`;
 * NULL: out of memory. */
uint32_t *exg_graph_count_uses(exg_arena *arena, const exg_graph *graph);

#endif
