/* complex_norm.c - what is measured of complex numbers by their magnitudes or by both parts
 * alike; rows of complex.def. */
#include "libexport/operators/complex.h"

#include <math.h>
#include <string.h>

/* Norms that ask for magnitudes alone: of vectors all, of matrices those by rows, columns or
 * elements. (self, ord, dim, keepdim, dtype) */
void exg_complex_magnitudes(exg_builder *b, exg_operator_id id, const exg_argument *args,
                            exg_argument *results)
{
    const exg_function_schema *schema =
        exg_operators_get(exg_builder_operators(b), id)->schema;
    exg_argument real[5];
    bool of_vectors = id == EXG_OP_linalg_vector_norm_default;
    bool by_values = args[1].kind == EXG_ARGUMENT_STRING
                         ? strcmp(args[1].as_string, "fro") != 0
                         : fabs(exg_get_float(&args[1])) == 2;

    if (!of_vectors && by_values) {
        exg_lower_unsupported(b, "a norm by singular values of complex matrices");
        return;
    }
    memcpy(real, args, sizeof(real));
    real[0] = exg_arg_ref(EMIT(b, abs_default, args[0]));
    if (real[4].kind == EXG_ARGUMENT_SCALAR_TYPE) {
        real[4].as_scalar_type = exg_real_of(real[4].as_scalar_type);
    }
    results[0] = exg_arg_ref(exg_emit(b, id, real, schema->argument_count));
}

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
