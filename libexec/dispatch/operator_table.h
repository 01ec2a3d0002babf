/* operator_table.h - operators by key, with what was registered for them. */
#ifndef EXG_LIBEXEC_DISPATCH_OPERATOR_TABLE_H
#define EXG_LIBEXEC_DISPATCH_OPERATOR_TABLE_H

#include <exg/dispatch.h>

/* One operator as it is dispatched. */
typedef struct exg_op_entry {
    const char *key;
    uint32_t index;
    const exg_operator *op;           /* NULL: libexport does not know it */
    exg_op_registration registration; /* what was registered */
} exg_op_entry;

/* The entry of an operator, made where there is none yet. */
exg_status exg_op_entry_of(exg_dispatcher *d, const char *key, exg_op_entry **op_entry,
                           exg_error *err);
exg_status exg_op_entry_of_operator(exg_dispatcher *d, const exg_operator *op,
                                    exg_op_entry **op_entry, exg_error *err);

#endif
