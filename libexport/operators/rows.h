/* rows.h - the functions that the rows of operators.def name, declared by the rows
 * themselves. A column that says NONE names one of exg_shape_NONE, exg_lower_NONE,
 * exg_view_NONE, exg_symbolic_NONE, which stand for NULL (operators.c).
 */
#ifndef EXG_LIBEXPORT_OPERATORS_ROWS_H
#define EXG_LIBEXPORT_OPERATORS_ROWS_H

#include <exg/operators.h>

#define EXG_POINTWISE(id, schema, result, float_formula, int_formula, sharding)
#define EXG_INPLACE(id, schema, functional)
#define EXG_OPERATOR(id, schema, shape, lowering, kernel, sharding)                                \
    exg_shape_function exg_shape_##shape;                                                          \
    exg_lowering exg_lower_##lowering;
#define EXG_VIEW(id, schema, view, lowering, sharding)                                             \
    exg_view_function exg_view_##view;                                                             \
    exg_lowering exg_lower_##lowering;
#define EXG_SYMBOLIC(id, target, schema, evaluate) exg_symbolic_function exg_symbolic_##evaluate;
#include "libexport/operators/operators.def"
#undef EXG_POINTWISE
#undef EXG_OPERATOR
#undef EXG_VIEW
#undef EXG_INPLACE
#undef EXG_SYMBOLIC

#endif
