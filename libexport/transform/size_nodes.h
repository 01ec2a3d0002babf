/* size_nodes.h - nodes that compute the sizes of a program from its inputs, as torch.export writes
 * them: aten.sym_size.int of a tensor, then Python's operators. */
#ifndef EXG_LIBEXPORT_TRANSFORM_SIZE_NODES_H
#define EXG_LIBEXPORT_TRANSFORM_SIZE_NODES_H

#include "libexport/transform/size_fit.h"

#include <exg/operators.h>

#define EXG_ROOT_NUMBER UINT32_MAX       /* the value is a number */
#define EXG_ROOT_OFFSET (UINT32_MAX - 1) /* where the tensor begins in its storage */

/* Where a symbol's number comes from: symbol * factor + addend is the size of a tensor, or a
 * number. */
typedef struct exg_size_root {
    const char *symbol;
    const char *text; /* the symbol as an expression */
    exg_value_id id;
    uint32_t dim; /* or one of those below */
    int64_t factor, addend;
} exg_size_root;

typedef struct exg_size_nodes {
    exg_program *program; /* whose values grow */
    exg_node *nodes;      /* in the place of its own */
    uint32_t node_count, node_capacity, value_capacity;
    const exg_operators *operators;
    const exg_symbols *hints; /* NULL: none */
    const exg_symbols *samples;
    uint32_t sample_count;
    exg_size_root *roots;
    uint32_t root_count, root_capacity;
    exg_map names; /* of values and nodes */
    exg_map made;  /* from an expression to its value */
    exg_expressions expressions;
    exg_error *err;
} exg_size_nodes;

/* For a program whose values and nodes have all of their names. NO_MEMORY. */
exg_status exg_size_nodes_begin(exg_size_nodes *s, exg_program *program,
                                const exg_operators *operators, exg_error *err);

/* The sizes of the tensor, which `meta` has as expressions, may be read from here on. NO_MEMORY. */
exg_status exg_size_nodes_read_tensor(exg_size_nodes *s, exg_value_id id,
                                      const exg_tensor_meta *meta);
exg_status exg_size_nodes_read_number(exg_size_nodes *s, exg_value_id id, const char *text);

/* The number `text`, computed by nodes that were not there yet: a constant, or SYM_INT, SYM_FLOAT,
 * SYM_BOOL of a value. UNSUPPORTED TRF-006: it cannot be computed here. */
exg_status exg_size_nodes_put(exg_size_nodes *s, const char *text, exg_argument *number);

exg_status exg_size_nodes_add(exg_size_nodes *s, const exg_node *node);

/* One more value of the program. NO_MEMORY. */
exg_status exg_size_nodes_value(exg_size_nodes *s, const exg_value *value, exg_value_id *id);

/* The size with its number for the hints, where they give one. */
exg_sym_int exg_size_nodes_size(const exg_size_nodes *s, const char *text);

#endif
