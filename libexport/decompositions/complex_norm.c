/* complex_norm.c - what is measured of complex numbers; rows of complex.def. */
#include "libexport/decompositions/complex.h"

/* (input, normalized_shape, weight, eps): by the root of the mean of squares, which are complex */
void exg_complex_rms_norm(exg_builder *b, exg_operator_id id, const exg_argument *args,
                          exg_argument *results)
{
    int64_t dims[EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&args[1], dims, EXG_SHAPE_RANK_MAX);
    bool is_wide = exg_lower_dtype(b, exg_get_ref(&args[0])) == EXG_DTYPE_C128;
    double eps = !exg_is_none(&args[3]) ? exg_get_float(&args[3]) : is_wide ? 0x1p-52 : 0x1p-23;
    exg_ref size;

    (void)id;
    for (uint32_t d = 0; d < count; d++) {
        dims[d] = (int64_t)d - (int64_t)count;
    }
    size = EMIT(b, mean_dim, EMIT(b, square_default, args[0]), INTS_OF(b, dims, count),
                exg_arg_bool(true));
    size = EMIT(b, mul_Tensor, args[0], EMIT(b, rsqrt_default, EMIT(b, add_Scalar, size, eps)));
    results[0] = exg_arg_ref(exg_lower_given(&args[2]) ? EMIT(b, mul_Tensor, size, args[2]) : size);
}

/* The parts vary each for itself. */
void exg_complex_variance(exg_builder *b, exg_operator_id id, const exg_argument *args,
                          exg_argument *results)
{
    exg_ref parts = EMIT(b, view_as_real_default, args[0]);
    exg_ref re = EMIT(b, select_int, parts, -1, 0);
    exg_ref im = EMIT(b, select_int, parts, -1, 1);
    exg_ref var = EMIT(b, add_Tensor, EMIT(b, var_correction, re, args[1], args[2], args[3]),
                       EMIT(b, var_correction, im, args[1], args[2], args[3]));

    results[0] = exg_arg_ref(id == EXG_OP_std_correction ? EMIT(b, sqrt_default, var) : var);
}
