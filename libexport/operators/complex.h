/* complex.h - complex numbers as pairs of real ones. */
#ifndef EXG_LIBEXPORT_OPERATORS_COMPLEX_H
#define EXG_LIBEXPORT_OPERATORS_COMPLEX_H

#include "libexport/operators/lower.h"

/* float32 of complex64, and so on; other dtypes stay. complex64 of what is not wider. */
exg_dtype exg_real_of(exg_dtype dtype);
exg_dtype exg_complex_of(exg_dtype dtype);

/* A lowering of several operators is told which. */
typedef void exg_complex_lowering(exg_builder *b, exg_operator_id id, const exg_argument *args,
                                  exg_argument *results);

/* What an operator is of complex numbers, or NULL. */
exg_complex_lowering *exg_complex_lowering_of(exg_operator_id id);

/* Where `args` ask for a dtype that is not complex: the operator of the real parts of args[0]. */
bool exg_complex_as_real(exg_builder *b, exg_operator_id id, const exg_argument *args,
                         exg_argument *results);

/* A convolution whose bias is not of the dtype of its input. */
exg_complex_lowering exg_lower_other_bias;

/* The complex tensor of two real ones, which broadcast. */
exg_ref exg_lower_joined(exg_builder *b, exg_ref re, exg_ref im);

/* The two a value was joined from, as long as nothing was written since. */
bool exg_builder_parts(const exg_builder *b, exg_ref x, exg_ref parts[2]);
void exg_builder_set_parts(exg_builder *b, exg_ref x, exg_ref re, exg_ref im);

#define EXG_COMPLEX(id, lowering) exg_complex_lowering exg_complex_##lowering;
#include "libexport/operators/complex.def"
#undef EXG_COMPLEX

#endif
