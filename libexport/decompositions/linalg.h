/* linalg.h - what the lowerings of linalg.def share. */
#ifndef EXG_LIBEXPORT_DECOMPOSITIONS_LINALG_H
#define EXG_LIBEXPORT_DECOMPOSITIONS_LINALG_H

#include "libexport/operators/lower.h"

/* The dims of an input that is of matrices, square ones if so; MALFORMED where it is not. */
exg_status exg_linalg_matrix(exg_shape_call *call, uint32_t position, bool is_square,
                             exg_dims *dims, exg_error *err);

/* Sizes of the matrices; 0 where there are none. */
int64_t exg_linalg_rows(const exg_builder *b, exg_ref x);
int64_t exg_linalg_columns(const exg_builder *b, exg_ref x);

/* Of real matrices the two are the same. */
exg_ref exg_linalg_transposed(exg_builder *b, exg_ref x);
exg_ref exg_linalg_adjoint(exg_builder *b, exg_ref x);
exg_ref exg_linalg_inverse(exg_builder *b, exg_ref a);

/* What PyTorch gives for a part that was not asked for: a tensor of size [0]. */
exg_ref exg_linalg_nothing(exg_builder *b, exg_dtype dtype);

#endif
