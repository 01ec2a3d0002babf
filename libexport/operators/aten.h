/* aten.h - a program in PyTorch's own operators: its core ATen stays as it is, what is made for our
 * kernels (exg::) is said in ATen, and so is what is no core operator as far as it can be.
 */
#ifndef EXG_LIBEXPORT_OPERATORS_ATEN_H
#define EXG_LIBEXPORT_OPERATORS_ATEN_H

#include <exg/operators.h>

typedef struct exg_aten {
    bool stays;             /* a core ATen operator that gives values of its own */
    exg_lowering *spelling; /* what it is in ATen; NULL: no row of aten.def */
} exg_aten;

/* The table for such a program; a builder over it emits what converters of PyTorch's programs
 * know. The caller destroys it. NO_MEMORY. */
exg_status exg_operators_create_aten(exg_operators **operators, exg_error *err);

/* Of such a table; NULL of one for our kernels. */
const exg_aten *exg_operators_aten(const exg_operators *operators, exg_operator_id id);

/* Is it none of PyTorch's? */
bool exg_operator_is_own(const exg_operator *op);

/* May it stand in such a program as it is? One of PyTorch's that neither writes nor aliases. */
bool exg_operator_may_stay(const exg_operator *op);

#endif
