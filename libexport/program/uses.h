/* uses.h - how often each value of a graph is used. */
#ifndef EXG_LIBEXPORT_PROGRAM_USES_H
#define EXG_LIBEXPORT_PROGRAM_USES_H

#include <exg/program.h>

/* By value: how often the graph's nodes and outputs take it, subgraphs not entered. In `arena`;
 * NULL: out of memory. */
uint32_t *exg_graph_count_uses(exg_arena *arena, const exg_graph *graph);

/* Nothing that a static meta states is below 0, and sums and products of it stay in 64 bits. */
bool exg_meta_is_countable(const exg_tensor_meta *meta);

/* Every value that a node or an output names is a tensor whose sizes are numbers to count with:
 * exg_specialize made the program, or it had no others. USAGE PLN-003. */
exg_status exg_check_specialized(const exg_program *program, exg_error *err);

#endif
