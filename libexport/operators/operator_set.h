/* operator_set.h - operators as they are found: what operators.c makes of the table. */
#ifndef EXG_LIBEXPORT_OPERATORS_OPERATOR_SET_H
#define EXG_LIBEXPORT_OPERATORS_OPERATOR_SET_H

#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/operators/aten.h"
#include "libexport/operators/dtype_lowering.h"

#include <exg/operators.h>

struct exg_operators {
    exg_arena *arena;
    exg_operator *items;            /* by number */
    exg_dtype_lowerings *of_dtypes; /* likewise */
    exg_aten *aten;                 /* likewise; NULL: what is emitted is for our kernels */
    exg_map by_target;
    const exg_operator **by_address; /* of their targets, which nodes that we make have: a hash */
    exg_operator **added;            /* of libraries, numbered from EXG_OPERATOR_COUNT on */
    uint32_t added_count, added_capacity;
};

#define EXG_ADDRESSES 8192 /* places of the hash, a power of two, most of them free */

/* The place of the operator whose target this very text is, or the free one where it belongs. */
const exg_operator **exg_operators_by_address(const exg_operators *operators, const char *target);

#endif
