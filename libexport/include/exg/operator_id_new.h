/* operator_id_new.h - numbers that were given since operator_id.h was last put together: with a
 * release they move there. Few files include this one, so that a new row does not compile
 * everything again; who emits a new operator includes it too.
 */
#ifndef EXG_OPERATOR_ID_NEW_H
#define EXG_OPERATOR_ID_NEW_H

#include <exg/operator_id.h>

enum {
    EXG_OPERATOR_LAST = EXG_OP_sym_constrain_range_for_size_default, /* of operator_id.h */
    EXG_OPERATOR_COUNT /* one more than the last number; new ones go above it, in order */
};

#endif
