/* upsample.c - lowerings of upsample.def: what resample.def does, told a size and a factor for
 * every dim apart; and back, dim by dim: what an output took from the inputs it gives to them. */
#include "libexport/operators/lower.h"

#define EXG_ROWS "libexport/operators/upsample.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

#define DIMS_MAX 3 /* of an image */

/* Factors, where there is one for each of `count` dims from args[at] on. */
static exg_argument factors_of(exg_builder *b, const exg_argument *args, uint32_t at,
                               uint32_t count)
{
    double *factors = EXG_NEW_ARRAY(exg_builder_arena(b), double, count);

    for (uint32_t k = 0; factors != NULL && k < count; k++) {
        if (exg_is_none(&args[at + k])) {
            return exg_arg_none();
        }
        factors[k] = exg_get_float(&args[at + k]);
    }
    return factors == NULL
               ? exg_arg_none()
               : (exg_argument){.kind = EXG_ARGUMENT_FLOATS, .as_floats = factors, .count = count};
}

/* By the operator of the same name that takes a size or factors. */
static exg_ref resized(exg_builder *b, exg_operator_id vec, exg_ref x, exg_argument size,
                       const exg_argument *corners, exg_argument factors)
{
    exg_argument given[4] = {exg_arg_ref(x), exg_is_none(&factors) ? size : exg_arg_none()};
    uint32_t count = 2;

    if (corners != NULL) {
        given[count++] = *corners;
    }
    given[count++] = factors;
    return exg_emit(b, vec, given, count);
}

/* (self, output_size, [align_corners,] a factor a dim) */
static void forward(exg_builder *b, exg_operator_id vec, bool corners, const exg_argument *args,
                    exg_argument *results)
{
    uint32_t rank = exg_lower_dims(b, SELF).rank;
    uint32_t at = corners ? 3 : 2;

    if (rank < 3 || rank > 2 + DIMS_MAX || exg_get_ints(&args[1], NULL, 0) != rank - 2) {
        exg_lower_refuse(b, "a size for every dim of an image");
        return;
    }
    results[0] = exg_arg_ref(resized(b, vec, SELF, args[1], corners ? &args[2] : NULL,
                                     factors_of(b, args, at, rank - 2)));
}

/* One dim of an image as lines of `in`, each of which has a one elsewhere: (1, in, 1, in) made
 * (1, in, 1, out) says what every output takes of every input. */
static exg_ref taken(exg_builder *b, exg_operator_id vec, int64_t in, int64_t out,
                     const exg_argument *corners, const exg_argument *factor, exg_dtype dtype)
{
    exg_ref lines = EMIT(b, eye_m, exg_arg_int(in), exg_arg_int(in), DTYPE(dtype));
    const exg_argument both[2] = {exg_arg_float(1), *factor};

    lines = EMIT(b, reshape_default, lines, INTS(b, 1, in, 1, in));
    lines = resized(b, vec, lines, INTS(b, 1, out), corners, factors_of(b, both, 0, 2));
    return EMIT(b, reshape_default, lines, INTS(b, in, out));
}

/* Which input every output is. */
static exg_ref picked(exg_builder *b, exg_operator_id vec, int64_t in, int64_t out,
                      const exg_argument *factor)
{
    exg_ref places = exg_lower_steps(b, in, EXG_DTYPE_F64, 0, 1);
    const exg_argument both[2] = {exg_arg_float(1), *factor};

    places = EMIT(b, reshape_default, places, INTS(b, 1, 1, 1, in));
    places = resized(b, vec, places, INTS(b, 1, out), NULL, factors_of(b, both, 0, 2));
    return exg_lower_cast(b, exg_lower_flat(b, places), EXG_DTYPE_I64);
}

/* (grad_output, output_size, input_size, [align_corners,] a factor a dim); `vec` is of two dims. */
static void backward(exg_builder *b, exg_operator_id vec, bool corners, bool picks,
                     const exg_argument *args, exg_argument *results)
{
    exg_dims dims = exg_lower_dims(b, SELF);
    exg_ref g = exg_lower_wide(b, SELF);
    exg_dtype dtype = exg_lower_dtype(b, g);
    int64_t in[EXG_SHAPE_RANK_MAX];
    uint32_t rank = exg_get_ints(&args[2], in, EXG_SHAPE_RANK_MAX);

    if (rank != dims.rank || rank < 3 || rank > 2 + DIMS_MAX) {
        exg_lower_refuse(b, "the gradient of an image of other dims than it says");
        return;
    }
    for (uint32_t d = 2; d < rank; d++) {
        const exg_argument *factor = &args[(corners ? 4 : 3) + d - 2];
        const int64_t out = dims.n[d];

        if (picks) {
            g = exg_lower_added(b, g, d, in[d], picked(b, vec, in[d], out, factor));
            continue;
        }
        g = EMIT(b, matmul_default, exg_lower_swapped(b, g, d, rank - 1),
                 EMIT(b, t_default,
                      taken(b, vec, in[d], out, corners ? &args[3] : NULL, factor, dtype)));
        g = exg_lower_swapped(b, g, d, rank - 1);
    }
    results[0] =
        exg_arg_ref(exg_lower_cast(b, EMIT(b, clone_default, g), exg_lower_dtype(b, SELF)));
}

#define BACK(name, vec, corners, picks)                                                            \
    void exg_lower_resized_##name##_backward(exg_builder *b, const exg_argument *args,             \
                                             exg_argument *results)                                \
    {                                                                                              \
        backward(b, EXG_OP_##vec, corners, picks, args, results);                                  \
    }
BACK(nearest, upsample_nearest2d_vec, false, true)
BACK(nearest_exact, _upsample_nearest_exact2d_vec, false, true)
BACK(linear, upsample_bilinear2d_vec, true, false)
BACK(cubic, upsample_bicubic2d_vec, true, false)
BACK(linear_aa, _upsample_bilinear2d_aa_vec, true, false)
BACK(cubic_aa, _upsample_bicubic2d_aa_vec, true, false)
BACK(lanczos_aa, _upsample_lanczos2d_aa_vec, true, false)

void exg_lower_resized_nearest(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    forward(b, EXG_OP_upsample_nearest2d_vec, false, args, results);
}

void exg_lower_resized_nearest_exact(exg_builder *b, const exg_argument *args,
                                     exg_argument *results)
{
    forward(b, EXG_OP__upsample_nearest_exact2d_vec, false, args, results);
}

void exg_lower_resized_linear(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    forward(b, EXG_OP_upsample_bilinear2d_vec, true, args, results);
}

void exg_lower_resized_cubic(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    forward(b, EXG_OP_upsample_bicubic2d_vec, true, args, results);
}
