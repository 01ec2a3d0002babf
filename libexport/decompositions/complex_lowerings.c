/* complex_lowerings.c - the rows of complex.def: what operators are of complex numbers. */
#include "libexport/decompositions/complex.h"

#include <exg/operator_id_new.h>

static exg_dtype_lowering *const lowerings[EXG_OPERATOR_COUNT] = {
#define EXG_COMPLEX(id, lowering) [EXG_OP_##id] = exg_complex_##lowering,
#include "libexport/operators/complex.def"

#undef EXG_COMPLEX
};

exg_dtype_lowering *exg_complex_lowering_of(exg_operator_id id)
{
    return lowerings[id];
}
