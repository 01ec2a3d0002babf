/* complex_lowerings.c - the rows of complex.def: what operators are of complex numbers. */
#include "libexport/decompositions/complex.h"

static const struct {
    exg_operator_id id;
    exg_dtype_lowering *lowering;
} rows[] = {
#define EXG_COMPLEX(id, lowering) {EXG_OP_##id, exg_complex_##lowering},
#include "libexport/operators/complex.def"
#undef EXG_COMPLEX
};

exg_dtype_lowering *exg_complex_lowering_of(exg_operator_id id)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].id == id) {
            return rows[i].lowering;
        }
    }
    return NULL;
}
