/* complex.h - complex numbers as pairs of real ones. */
#ifndef EXG_LIBEXPORT_DECOMPOSITIONS_COMPLEX_H
#define EXG_LIBEXPORT_DECOMPOSITIONS_COMPLEX_H

#include "libexport/operators/dtype_lowering.h"
#include "libexport/operators/lower.h"

/* Where `args` ask for a dtype that is not complex: the operator of the real parts of args[0]. */
bool exg_complex_as_real(exg_builder *b, exg_operator_id id, const exg_argument *args,
                         exg_argument *results);

/* The complex tensor of two real ones, which broadcast. */
exg_ref exg_lower_joined(exg_builder *b, exg_ref re, exg_ref im);

#define EXG_COMPLEX(id, lowering) exg_dtype_lowering exg_complex_##lowering;
#include "libexport/operators/complex.def"
#undef EXG_COMPLEX

#endif
