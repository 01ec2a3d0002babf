/* rows.h - declares the functions that rows of the table name, by the rows themselves:
 *
 *   #define EXG_ROWS "libexport/operators/pad.def"
 *   #include "libexport/operators/rows.h"
 *
 * A file that defines such functions asks for the rows that name them, and for no others: a new row
 * is then compiled where it is needed alone. A column that says NONE names one of exg_shape_NONE,
 * exg_lower_NONE, exg_view_NONE, exg_symbolic_NONE, which stand for NULL (operators.c). No include
 * guard.
 */
#include <exg/operators.h>

#define EXG_POINTWISE(id, schema, result, float_formula, int_formula, sharding)
#define EXG_INPLACE(id, functional)
#define EXG_OPERATOR(id, schema, shape, lowering, kernel, sharding)                                \
    exg_shape_function exg_shape_##shape;                                                          \
    exg_lowering exg_lower_##lowering;
#define EXG_VIEW(id, schema, view, lowering, sharding)                                             \
    exg_view_function exg_view_##view;                                                             \
    exg_lowering exg_lower_##lowering;
#define EXG_SYMBOLIC(id, target, schema, evaluate) exg_symbolic_function exg_symbolic_##evaluate;
#define EXG_SAME(id, schema, as)                   exg_lowering exg_lower_##id;
#define EXG_COPY(id, as)                           exg_lowering exg_lower_##id;
#define EXG_OUT(id, as)                            exg_lowering exg_lower_##id;
#define EXG_EACH(id, schema, as)                   exg_lowering exg_lower_##id;
#include EXG_ROWS
#undef EXG_POINTWISE
#undef EXG_OPERATOR
#undef EXG_VIEW
#undef EXG_INPLACE
#undef EXG_SYMBOLIC
#undef EXG_SAME
#undef EXG_COPY
#undef EXG_OUT
#undef EXG_EACH
#undef EXG_ROWS
