/* operator_id_new.h - numbers that were given since operator_id.h was last put together: with a
 * release they move there. Few files include this one, so that a new row does not compile
 * everything again; who emits a new operator includes it too.
 *
 * A new operator is two lines, in the order in which they are given: a number above
 * EXG_OPERATOR_COUNT, and its name, of the type of the others:
 *
 *     EXG_NEW_square_default,
 *     #define EXG_OP_square_default ((exg_operator_id)EXG_NEW_square_default)
 */
#ifndef EXG_OPERATOR_ID_NEW_H
#define EXG_OPERATOR_ID_NEW_H

#include <exg/operator_id.h>

enum {
    EXG_OPERATOR_LAST = EXG_OP_sym_constrain_range_for_size_default, /* of operator_id.h */
    EXG_NEW_operator_pos,
    EXG_NEW_operator_lshift,
    EXG_NEW_operator_rshift,
    EXG_NEW_sym_int,
    EXG_NEW__sym_sqrt,
    EXG_NEW_math_floor,
    EXG_NEW_math_ceil,
    EXG_NEW_builtins_round,
    EXG_NEW_dim_default,
    EXG_NEW_promote_types_default,
    EXG_NEW__neg_view_default,
    EXG_OPERATOR_COUNT /* one more than the last */
};

#define EXG_OP_operator_pos          ((exg_operator_id)EXG_NEW_operator_pos)
#define EXG_OP_operator_lshift       ((exg_operator_id)EXG_NEW_operator_lshift)
#define EXG_OP_operator_rshift       ((exg_operator_id)EXG_NEW_operator_rshift)
#define EXG_OP_sym_int               ((exg_operator_id)EXG_NEW_sym_int)
#define EXG_OP__sym_sqrt             ((exg_operator_id)EXG_NEW__sym_sqrt)
#define EXG_OP_math_floor            ((exg_operator_id)EXG_NEW_math_floor)
#define EXG_OP_math_ceil             ((exg_operator_id)EXG_NEW_math_ceil)
#define EXG_OP_builtins_round        ((exg_operator_id)EXG_NEW_builtins_round)
#define EXG_OP_dim_default           ((exg_operator_id)EXG_NEW_dim_default)
#define EXG_OP_promote_types_default ((exg_operator_id)EXG_NEW_promote_types_default)
#define EXG_OP__neg_view_default     ((exg_operator_id)EXG_NEW__neg_view_default)

#endif
