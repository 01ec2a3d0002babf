/* symbolic.h - operators on sizes, as the steps that compute them see them. */
#ifndef EXG_LIBEXPORT_OPERATORS_SYMBOLIC_H
#define EXG_LIBEXPORT_OPERATORS_SYMBOLIC_H

#include <exg/operators.h>

/* What exg_operator_evaluate() takes, EXG_SYMBOLIC_ARGUMENTS_MAX at most: of an operator of PyTorch
 * by the names in its schema, of one of Python in the order of the node. MALFORMED NOD-015, and as
 * exg_operator_normalize(). */
exg_status exg_operator_operands(const exg_operator *op, const exg_node *node, exg_argument *args,
                                 uint32_t *count, exg_error *err);

#endif
