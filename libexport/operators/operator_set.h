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
    exg_operator **added; /* of libraries, numbered from EXG_OPERATOR_COUNT on */
    uint32_t added_count, added_capacity;
};

#endif
