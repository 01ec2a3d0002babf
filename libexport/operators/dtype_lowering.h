/* dtype_lowering.h - what operators are made of where their dtype has no kernel; defined in
 * libexport/decompositions.
 */
#ifndef EXG_LIBEXPORT_OPERATORS_DTYPE_LOWERING_H
#define EXG_LIBEXPORT_OPERATORS_DTYPE_LOWERING_H

#include <exg/operators.h>

/* A lowering of several operators is told which. */
typedef void exg_dtype_lowering(exg_builder *b, exg_operator_id id, const exg_argument *args,
                                exg_argument *results);

/* What an operator is made of by the dtypes of its arguments; NULL: as of any. */
typedef struct exg_dtype_lowerings {
    exg_dtype_lowering *of_complex;    /* numbers */
    exg_dtype_lowering *of_float8;     /* tensors, where it is not what its kernel does */
    exg_dtype_lowering *of_other_bias; /* of a convolution: of another dtype than its input */
    exg_dtype_lowering *of_sparse; /* of a product: its first matrix made of indices and values */
} exg_dtype_lowerings;

const exg_dtype_lowerings *exg_operators_dtype_lowerings(const exg_operators *operators,
                                                         exg_operator_id id);

/* ---- for the table --------------------------------------------------------------------- */

/* What an operator is of complex numbers, or NULL. */
exg_dtype_lowering *exg_complex_lowering_of(exg_operator_id id);

/* What an operator is of float8 tensors where it is not what its kernel does, or NULL. */
exg_dtype_lowering *exg_float8_lowering_of(exg_operator_id id);

/* A product by a sparse matrix, of which the builder has the parts. */
exg_dtype_lowering exg_lower_sparse_product;

/* A convolution whose bias is not of the dtype of its input. */
exg_dtype_lowering exg_lower_other_bias;

#endif
