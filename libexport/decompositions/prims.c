/* prims.c - lowerings of prims.def. */
#include "libexport/operators/lower.h"

#define EXG_ROWS "libexport/operators/prims.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

/* Of integers towards 0. */
void exg_lower_prims_div(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    bool whole = exg_dtype_is_integral(exg_lower_dtype(b, SELF));

    results[0] =
        exg_arg_ref(whole ? EMIT(b, div_Tensor_mode, args[0], args[1], exg_arg_string("trunc"))
                          : EMIT(b, div_Tensor, args[0], args[1]));
}

/* sign(x) |x| ^ (1/3) */
void exg_lower_prims_cbrt(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref root = EMIT(b, pow_Tensor_Scalar, EMIT(b, abs_default, SELF), 1.0 / 3);

    results[0] = exg_arg_ref(EMIT(b, copysign_Tensor, root, SELF));
}

/* PyTorch gives bools, and records of integers what they are. */
void exg_lower_prims_signbit(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const exg_tensor_meta *recorded = exg_lower_recorded(b, 0);
    exg_ref x = EMIT(b, signbit_default, SELF);

    results[0] = exg_arg_ref(recorded == NULL ? x : exg_lower_cast(b, x, recorded->dtype));
}

void exg_lower_prims_convert_element_type(exg_builder *b, const exg_argument *args,
                                          exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, _to_copy_default, args[0], args[1]));
}

/* ---- reductions: (inp, dims, ..., output_dtype), over all dims where none is said ----------- */

static exg_argument dims_of(exg_builder *b, const exg_argument *args)
{
    int64_t all[EXG_SHAPE_RANK_MAX];
    exg_dims dims = exg_lower_dims(b, SELF);

    for (uint32_t d = 0; d < dims.rank; d++) {
        all[d] = d;
    }
    return exg_is_none(&args[1]) ? INTS_OF(b, all, dims.rank) : args[1];
}

static exg_argument stored(exg_builder *b, exg_ref x, const exg_argument *dtype)
{
    return exg_arg_ref(exg_lower_cast(b, x, exg_dtype_argument(dtype, exg_lower_dtype(b, x))));
}

void exg_lower_prims_sum(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, sum_dim_IntList, args[0], dims_of(b, args), false, args[2]));
}

/* From the last dim on, so that those before keep their places. */
void exg_lower_prims_prod(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument over = dims_of(b, args);
    exg_ref x = SELF;
    uint32_t rank = exg_lower_dims(b, x).rank;
    bool in_set[EXG_SHAPE_RANK_MAX];
    exg_error err;

    if (exg_dim_set(&over, rank, in_set, &err) != EXG_OK) {
        exg_builder_fail(b, &err);
        return;
    }
    for (uint32_t d = rank; d-- > 0;) {
        x = in_set[d] ? EMIT(b, prod_dim_int, x, (int)d, false, args[2]) : x;
    }
    results[0] = stored(b, x, &args[2]);
}

void exg_lower_prims_amax(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = stored(b, EMIT(b, amax_default, args[0], dims_of(b, args)), &args[2]);
}

void exg_lower_prims_amin(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = stored(b, EMIT(b, amin_default, args[0], dims_of(b, args)), &args[2]);
}

void exg_lower_prims_var(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = stored(b, EMIT(b, var_correction, args[0], dims_of(b, args), args[2]), &args[3]);
}

/* ---- creation ------------------------------------------------------------------------------- */

/* (length, start, step, dtype, ...) */
void exg_lower_prims_iota(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref steps = EMIT(b, arange_start_step, 0, args[0], 1, DTYPE(EXG_DTYPE_I64));

    steps = EMIT(b, add_Scalar, EMIT(b, mul_Scalar, steps, args[2]), args[1]);
    results[0] = stored(b, steps, &args[3]);
}

void exg_lower_prims_full(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, full_default, args[0], args[1], args[2]));
}

void exg_lower_prims_full_like(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, full_like_default, args[0], args[1], args[2]));
}

void exg_lower_prims_scalar_tensor(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, scalar_tensor_default, args[0], args[1]));
}

/* (shape, mean, std, dtype, ...) */
void exg_lower_prims_normal(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, normal_float_float, exg_get_float(&args[1]),
                                  exg_get_float(&args[2]), args[0], exg_arg_none(), args[3]));
}

/* (shape, low, high, dtype, ...) */
void exg_lower_prims_uniform(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = EMIT(b, zeros_default, args[0], args[3]);

    results[0] =
        exg_arg_ref(EMIT(b, uniform_default, x, exg_get_float(&args[1]), exg_get_float(&args[2])));
}

/* ---- Fourier transforms, not divided by their length ---------------------------------------- */

void exg_lower_prims_fft_r2c(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, _fft_r2c_default, args[0], args[1], 0, args[2]));
}

void exg_lower_prims_fft_c2r(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, _fft_c2r_default, args[0], args[1], 0, args[2]));
}

void exg_lower_prims_fft_c2c(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, _fft_c2c_default, args[0], args[1], 0, args[2]));
}

/* ---- views ---------------------------------------------------------------------------------- */

/* (a, dim, outer_length) */
void exg_lower_prims_split_dim(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] =
        exg_arg_ref(EMIT(b, unflatten_int, args[0], args[1], INTS(b, exg_get_int(&args[2]), -1)));
}

/* (a, shape, broadcast_dimensions): a's dim k is at the k-th of them, all others are new. */
void exg_lower_prims_broadcast_in_dim(exg_builder *b, const exg_argument *args,
                                      exg_argument *results)
{
    int64_t places[EXG_SHAPE_RANK_MAX];
    int64_t shape[EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&args[2], places, EXG_SHAPE_RANK_MAX);
    uint32_t rank = exg_get_ints(&args[1], shape, EXG_SHAPE_RANK_MAX);
    exg_ref x = SELF;
    uint32_t k = 0;

    if (count != exg_lower_dims(b, x).rank || rank > EXG_SHAPE_RANK_MAX) {
        exg_lower_refuse(b, "a place for each dim that is broadcast");
        return;
    }
    for (uint32_t d = 0; d < rank; d++) {
        if (k < count && places[k] == d) {
            k++;
        } else {
            x = EMIT(b, unsqueeze_default, x, (int)d);
        }
    }
    results[0] = exg_arg_ref(EMIT(b, expand_default, x, args[1]));
}
