/* finder.h - a pass that looks for patterns backwards from a node, and writes others in its
 * place. What a pattern leaves unused stays, for exg_simplify to drop. */
#ifndef EXG_LIBEXPORT_TRANSFORM_FINDER_H
#define EXG_LIBEXPORT_TRANSFORM_FINDER_H

#include "libexport/transform/rewrite.h"

typedef struct exg_finder {
    exg_rewrite r;
    const exg_node **makers; /* by old value */
    uint32_t *uses;          /* by old value */
} exg_finder;

/* Writes something in place of `node`, a call of `op`, or leaves *written false. */
typedef exg_status exg_finder_write(exg_finder *f, const exg_node *node, const exg_operator *op,
                                    bool *written);

/* The program with every node copied that `write` left. */
exg_status exg_find(const exg_program *functional, const exg_operators *operators,
                    exg_finder_write *write, exg_program **out, exg_error *err);

/* `made`, seen in the sizes of the node's result, in its place. */
exg_status exg_finder_set(exg_finder *f, const exg_node *node, exg_ref made);

const exg_tensor_meta *exg_meta_of(const exg_finder *f, exg_value_id id);

/* The node that makes `id`, if it is a call of `op`; NULL also for EXG_NO_VALUE. */
const exg_node *exg_made_by(const exg_finder *f, exg_value_id id, exg_operator_id op);

/* The tensor that is a node's argument, or EXG_NO_VALUE. */
exg_value_id exg_operand(const exg_node *node, uint32_t i);

bool exg_number_of(const exg_argument *arg, double *value);

#endif
