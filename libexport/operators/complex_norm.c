/* complex_norm.c - what is measured of complex numbers; rows of complex.def. */
#include "libexport/operators/complex.h"

/* The parts vary each for itself. */
void exg_complex_variance(exg_builder *b, exg_operator_id id, const exg_argument *args,
                          exg_argument *results)
{
    exg_ref parts = EMIT(b, view_as_real_default, args[0]);
    exg_ref re = EMIT(b, select_int, parts, -1, 0);
    exg_ref im = EMIT(b, select_int, parts, -1, 1);

    (void)id;
    results[0] = exg_arg_ref(EMIT(b, add_Tensor,
                                  EMIT(b, var_correction, re, args[1], args[2], args[3]),
                                  EMIT(b, var_correction, im, args[1], args[2], args[3])));
}
