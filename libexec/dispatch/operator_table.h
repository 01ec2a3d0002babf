/* operator_table.h - operators by key, with what was registered for them. */
#ifndef EXG_LIBEXEC_DISPATCH_OPERATOR_TABLE_H
#define EXG_LIBEXEC_DISPATCH_OPERATOR_TABLE_H

#include <exg/dispatch.h>

/* One operator as it is dispatched. */
typedef struct exg_dispatch_op {
    const char *key;
    uint32_t index;
    const exg_operator *op;   /* NULL: libexport does not know it */
    exg_dispatch_row callers; /* what was registered */
} exg_dispatch_op;

/* The row of an operator, made where there is none yet. */
exg_status exg_dispatch_row_of(exg_dispatcher *d, const char *key, exg_dispatch_op **row,
                               exg_error *err);
exg_status exg_dispatch_row_of_op(exg_dispatcher *d, const exg_operator *op, exg_dispatch_op **row,
                                  exg_error *err);

#endif
