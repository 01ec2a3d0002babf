/* scatter.c - lowerings of scatter.def: many places written or read at once, and
 * combined there. */
#include "libexport/operators/lower.h"

#include <string.h>

#define EXG_ROWS "libexport/operators/index.def"
#include "libexport/operators/rows.h"
#define EXG_ROWS "libexport/operators/scatter.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

/* scatter.reduce(self, dim, index, src, reduce: "add" or "multiply") */
static exg_ref scattered(exg_builder *b, const exg_argument *args, exg_ref src)
{
    return exg_lower_is_word(&args[4], "add")
               ? EMIT(b, scatter_add_default, SELF, args[1], args[2], src)
               : EMIT(b, scatter_prod, SELF, args[1], args[2], src);
}

void exg_lower_scatter_reduce_src(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(scattered(b, args, exg_get_ref(&args[3])));
}

static exg_ref full_of(exg_builder *b, exg_ref like, exg_argument value, exg_dtype dtype)
{
    exg_dims dims = exg_lower_dims(b, like);

    return EMIT(b, full_default, INTS_OF(b, dims.n, dims.rank), value, DTYPE(dtype));
}

void exg_lower_scatter_reduce_value(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref src = full_of(b, exg_get_ref(&args[2]), args[3], exg_lower_dtype(b, SELF));

    results[0] = exg_arg_ref(scattered(b, args, src));
}

/* (self, dim, index, src, reduce, include_self): what self holds where something is
 * written counts, or is replaced by what changes nothing. */
void exg_lower_scatter_reduce_two(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, SELF);
    bool is_float = exg_dtype_is_float(dtype);
    bool mean = exg_lower_is_word(&args[4], "mean");
    bool sum = mean || exg_lower_is_word(&args[4], "sum");
    bool prod = exg_lower_is_word(&args[4], "prod");
    bool most = exg_lower_is_word(&args[4], "amax");
    exg_ref index = exg_get_ref(&args[2]);
    exg_ref x = SELF;

    if (!exg_get_bool(&args[5]) && (sum || prod)) {
        x = EMIT(b, scatter_value, x, args[1], index, prod ? 1 : 0);
    } else if (!exg_get_bool(&args[5])) {
        /* the first one written stands in for self: any of them does */
        x = EMIT(b, scatter_src, x, args[1], index, args[3]);
    }
    x = sum    ? EMIT(b, scatter_add_default, x, args[1], index, args[3])
        : prod ? EMIT(b, scatter_prod, x, args[1], index, args[3])
        : most ? EMIT(b, scatter_amax, x, args[1], index, args[3])
               : EMIT(b, scatter_amin, x, args[1], index, args[3]);
    if (mean) {
        exg_ref ones = full_of(b, index, exg_arg_int(1), dtype);
        exg_ref count = full_of(b, SELF, exg_arg_int(exg_get_bool(&args[5])), dtype);

        count = EMIT(b, scatter_add_default, count, args[1], index, ones);
        count = EMIT(b, clamp_min_default, count, 1);
        x = is_float ? EMIT(b, div_Tensor, x, count) : EMIT(b, div_floor, x, count);
    }
    results[0] = exg_arg_ref(x);
}

/* (self, index, source, accumulate): places of the flat tensor */
void exg_lower_put(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    exg_ref index =
        exg_lower_from_start(b, exg_lower_flat(b, exg_get_ref(&args[1])), exg_lower_numel(b, SELF));
    exg_ref source = exg_lower_flat(b, exg_get_ref(&args[2]));

    index = exg_get_bool(&args[3])
                ? EMIT(b, scatter_add_default, exg_lower_flat(b, SELF), 0, index, source)
                : EMIT(b, scatter_src, exg_lower_flat(b, SELF), 0, index, source);
    results[0] = exg_arg_ref(exg_lower_shaped(b, index, &in));
}

/* (self, mask, source): source in order where the mask says so */
void exg_lower_masked_scatter(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims dims[2] = {exg_lower_dims(b, SELF), exg_lower_dims(b, exg_get_ref(&args[1]))};
    exg_ref source = exg_lower_flat(b, exg_get_ref(&args[2]));
    int64_t most = exg_lower_numel(b, source) - 1;
    exg_dims out;
    exg_ref mask;
    exg_ref place;
    exg_ref x;

    if (exg_broadcast(&dims[0], &dims[1], &out, NULL) != EXG_OK ||
        exg_lower_dtype(b, exg_get_ref(&args[1])) != EXG_DTYPE_B8) {
        exg_lower_refuse(b, "a mask that does not broadcast, or is none of bools");
        return;
    }
    x = EMIT(b, expand_default, SELF, INTS_OF(b, out.n, out.rank));
    mask = EMIT(b, expand_default, exg_get_ref(&args[1]), INTS_OF(b, out.n, out.rank));
    if (most < 0) {
        results[0] = exg_arg_ref(EMIT(b, clone_default, x));
        return;
    }
    place = EMIT(b, cumsum_default, exg_lower_cast(b, exg_lower_flat(b, mask), EXG_DTYPE_I64), 0);
    place = EMIT(b, clamp_both, EMIT(b, sub_Scalar, place, 1), 0, exg_arg_int(most));
    place = exg_lower_shaped(b, EMIT(b, index_select_default, source, 0, place), &out);
    results[0] = exg_arg_ref(EMIT(b, where_self, mask, place, x));
}

/* Is one of the indices a mask? */
static bool has_mask(const exg_builder *b, const exg_argument *indices)
{
    for (uint32_t i = 0; i < indices->count; i++) {
        if (indices->as_tensors[i] != EXG_NO_VALUE &&
            exg_lower_dtype(b, exg_lower_item(indices, i)) == EXG_DTYPE_B8) {
            return true;
        }
    }
    return false;
}

/* (self, indices, values, accumulate): where the only index is a mask of the first dims
 * and the values are the same for every place it names, nothing need be counted. */
void exg_lower_index_put(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    exg_ref values = exg_get_ref(&args[2]);
    exg_dims of_values = exg_lower_dims(b, values);
    exg_dims mask;
    exg_ref x;

    if (!has_mask(b, &args[1])) {
        results[0] = exg_arg_ref(EMIT(b, index_put, args[0], args[1], args[2], args[3]));
        return;
    }
    mask = exg_lower_dims(b, exg_lower_item(&args[1], 0));
    if (args[1].count != 1 || mask.rank > in.rank ||
        (exg_lower_numel(b, values) != 1 && of_values.rank > in.rank - mask.rank)) {
        exg_lower_unsupported(b, "index_put of as many values as a mask has places");
        return;
    }
    for (uint32_t d = mask.rank; d < in.rank; d++) {
        mask.n[d] = 1;
    }
    mask.rank = in.rank;
    if (exg_lower_numel(b, values) == 1) {
        values = EMIT(b, reshape_default, values, exg_arg_ints(b, NULL, 0));
    }
    x = exg_get_bool(&args[3]) ? EMIT(b, add_Tensor, SELF, values) : values;
    results[0] = exg_arg_ref(
        EMIT(b, where_self, exg_lower_shaped(b, exg_lower_item(&args[1], 0), &mask), x, SELF));
}

/* ---- embeddings ------------------------------------------------------------------------- */

/* (weight, indices, max_norm, norm_type): rows named are no longer than max_norm */
void exg_lower_embedding_renorm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    double most = exg_get_float(&args[2]);
    exg_ref index = exg_lower_flat(b, exg_get_ref(&args[1]));
    exg_ref rows = EMIT(b, index_select_default, SELF, 0, index);
    exg_ref norm =
        EMIT(b, linalg_vector_norm_default, rows, args[3], INTS(b, 1), exg_arg_bool(true));
    exg_ref factor = EMIT(b, reciprocal_default, EMIT(b, add_Scalar, norm, 1e-7));
    exg_ref shorter = EMIT(b, mul_Tensor, rows, EMIT(b, mul_Scalar, factor, most));

    rows = EMIT(b, where_self, EMIT(b, gt_Scalar, norm, most), shorter, rows);
    results[0] = exg_arg_ref(EMIT(b, index_copy_default, SELF, 0, index, rows));
}
