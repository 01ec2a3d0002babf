/* kept_nodes.h - nodes that stay as they are in every stage of a program: branches, loops, reads of
 * numbers from tensors, operators whose results' sizes are in the data, assertions on sizes,
 * collectives, and operators that are not PyTorch's where nothing is written.
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
    uint32_t *outputs; /* by value id, of what kept nodes read; EXG_NO_VALUE: no output */
} exg_kept_nodes;

/* In `arena`, over the texts of the program. Modes and wrappers are inlined. MALFORMED GRF-010,
 * LIMIT, NO_MEMORY. */
exg_status exg_kept_nodes_take(const exg_program *program, const exg_operators *operators,
                               exg_arena *arena, exg_kept_nodes **kept, exg_error *err);

/* The expression of a value that is a number, or NULL: it has none. */
const char *exg_value_expression(const exg_value *value);

#endif
