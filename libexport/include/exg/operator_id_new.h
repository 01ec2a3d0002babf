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
    EXG_OPERATOR_COUNT                                               /* one more than the last */
};

#endif
