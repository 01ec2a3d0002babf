/* kept_nodes.h - nodes that stay as they are in every stage of a program: branches, loops, reads of
 * numbers from tensors, operators whose results' sizes are in the data, assertions on sizes,
 * collectives, operators that are not PyTorch's where nothing is written, and those of PyTorch's
 * that would be written out otherwise for other sizes.
 *
 * They are taken out of the program. What they read becomes its outputs, what they give its inputs,
 * and what is left is known as a whole before it runs.
 */
#ifndef EXG_LIBEXPORT_TRANSFORM_KEPT_NODES_H
#define EXG_LIBEXPORT_TRANSFORM_KEPT_NODES_H

#include <exg/operators.h>

typedef struct exg_kept_nodes {
    exg_program program; /* what is left: its graph and signature are below */
    exg_graph graph;     /* inputs and outputs: the program's own, then those of kept nodes */
    const exg_node *nodes;
    uint32_t node_count;
    uint32_t own_input_count, own_output_count;
    uint32_t source_count; /* nodes of the flat graph: what is left and what is kept */
    uint32_t *outputs;     /* by value id, of what kept nodes read; EXG_NO_VALUE: no output */
} exg_kept_nodes;

/* In `arena`, over the texts of the program. Modes and wrappers are inlined. `libraries`: the same
 * operators or more; what a library says of its own counts. `whole` (NULL: none):
 * nodes of the flat graph, by number, that stay as they are. What is left says in its metadata
 * which of them it is, and so do the nodes that are made of it. MALFORMED GRF-010, LIMIT,
 * NO_MEMORY. */
exg_status exg_kept_nodes_take(const exg_program *program, const exg_operators *operators,
                               const exg_operators *libraries, const bool *whole, exg_arena *arena,
                               exg_kept_nodes **kept, exg_error *err);

/* Which node of the flat graph it was made of, UINT32_MAX: it does not say; and the metadata
 * without that. */
uint32_t exg_node_source(const exg_node *node);
exg_status exg_node_forget_source(exg_arena *arena, exg_node *node, exg_error *err);

/* Marks the node and all that call its operator with open sizes; false: it cannot stay as it is, or
 * does so already. */
bool exg_kept_nodes_mark(const exg_program *program, const exg_operators *operators,
                         uint32_t source, exg_arena *arena, bool *whole);

#endif
