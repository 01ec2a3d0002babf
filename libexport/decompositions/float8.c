/* float8.c - products of float8 numbers: computed in float32 and rounded once. What lies beyond
 * e4m3fn, which has no infinity, is its greatest number then, not NaN as in PyTorch's casts. */
#include "libexport/decompositions/complex.h"

#include <string.h>

#define EXG_ROWS "libexport/operators/quantized.def"
#include "libexport/operators/rows.h"

static exg_ref narrow(exg_builder *b, exg_ref x, exg_dtype dtype)
{
    return exg_lower_cast(b, dtype == EXG_DTYPE_F8E4M3FN ? EMIT(b, clamp_both, x, -448., 448.) : x,
                          dtype);
}

/* The same of float32. */
static void product(exg_builder *b, exg_operator_id id, const exg_argument *args,
                    exg_argument *results)
{
    uint32_t count = exg_operators_get(exg_builder_operators(b), id)->schema->argument_count;
    exg_dtype dtype = exg_lower_dtype(b, exg_get_ref(&args[0]));
    exg_argument wide[EXG_ARGUMENTS_MAX];

    for (uint32_t i = 0; i < count; i++) {
        wide[i] = args[i].kind == EXG_ARGUMENT_TENSOR
                      ? exg_arg_ref(exg_lower_wide(b, exg_get_ref(&args[i])))
                      : args[i];
    }
    results[0] = exg_arg_ref(narrow(b, exg_emit(b, id, wide, count), dtype));
}

exg_dtype_lowering *exg_float8_lowering_of(exg_operator_id id)
{
    return id == EXG_OP_mm_default || id == EXG_OP_addmm_default || id == EXG_OP_linear_default
               ? product
               : NULL;
}

/* ---- scaled products ------------------------------------------------------------------------ */

/* Elements of a block of scales: in float32 so many of a row, or of as many rows; of scales that
 * are powers of two. */
#define SQUARE 128
#define MX     32

/* A number, or one a row or column. */
static exg_ref factor(exg_builder *b, exg_ref scale)
{
    exg_ref x = exg_lower_cast(b, scale, EXG_DTYPE_F32);

    return exg_lower_numel(b, x) == 1 ? EMIT(b, view_default, x, exg_arg_ints(b, NULL, 0)) : x;
}

static int64_t blocks_of(int64_t size, int64_t block)
{
    return size / block + (size % block > 0);
}

static exg_ref repeated(exg_builder *b, exg_ref scale, uint32_t dim, int64_t block, int64_t size)
{
    int64_t count = exg_lower_dims(b, scale).n[dim];

    if (count == size) {
        return scale;
    }
    if (count != blocks_of(size, block)) {
        exg_lower_refuse(b, "scales of other blocks than the matrix has");
        return EXG_NO_REF;
    }
    scale = EMIT(b, repeat_interleave_self_int, scale, exg_arg_int(block), exg_arg_int(dim));
    return exg_lower_slice(b, scale, dim, 0, size);
}

/* x, or with its dims exchanged, times a scale a block: of some rows, or of one, and of `block`
 * elements of each. */
static exg_ref scaled(exg_builder *b, exg_ref x, exg_ref scale, int64_t block, bool is_turned)
{
    exg_dims dims = exg_lower_dims(b, x);

    if (exg_lower_dims(b, scale).rank != 2) {
        exg_lower_refuse(b, "scales of blocks that are no matrix");
        return EXG_NO_REF;
    }
    scale = exg_lower_cast(b, scale, EXG_DTYPE_F32);
    scale = repeated(b, scale, 0, block, dims.n[is_turned]);
    scale = repeated(b, scale, 1, block, dims.n[!is_turned]);
    return EMIT(b, mul_Tensor, exg_lower_wide(b, x),
                is_turned ? exg_lower_swapped(b, scale, 0, 1) : scale);
}

static exg_ref scaled_mx(exg_builder *b, exg_ref x, exg_ref scale, bool is_turned)
{
    exg_dims dims = exg_lower_dims(b, x);

    scale = exg_lower_from_tiles(b, scale, dims.n[is_turned], blocks_of(dims.n[!is_turned], MX));
    return scaled(b, x, scale, MX, is_turned);
}

static bool are_float8(exg_builder *b, const exg_argument *args)
{
    for (uint32_t i = 0; i < 2; i++) {
        exg_ref x = exg_get_ref(&args[i]);

        if (!exg_dtype_is_float8(exg_lower_dtype(b, x)) || exg_lower_dims(b, x).rank != 2) {
            exg_lower_refuse(b, "a scaled product of other than matrices of float8");
            return false;
        }
    }
    return true;
}

/* self times mat2, and the bias, in float32; times both scales where these are not in them. */
static exg_ref product_of(exg_builder *b, exg_ref self, exg_ref mat2, const exg_ref *scales,
                          const exg_argument *bias)
{
    exg_ref x = EMIT(b, mm_default, exg_lower_wide(b, self), exg_lower_wide(b, mat2));

    if (scales != NULL) {
        x = EMIT(b, mul_Tensor, x, EMIT(b, mul_Tensor, factor(b, scales[0]), factor(b, scales[1])));
    }
    return exg_lower_given(bias)
               ? EMIT(b, add_Tensor, x, exg_lower_cast(b, exg_get_ref(bias), EXG_DTYPE_F32))
               : x;
}

/* One for all, or one a row of self and a column of mat2? */
static bool are_plain(exg_builder *b, const exg_argument *args, const exg_ref *scales)
{
    exg_dims rows = exg_lower_dims(b, scales[0]);
    exg_dims columns = exg_lower_dims(b, scales[1]);

    return (exg_lower_numel(b, scales[0]) == 1 && exg_lower_numel(b, scales[1]) == 1) ||
           (rows.rank == 2 && columns.rank == 2 && rows.n[1] == 1 && columns.n[0] == 1 &&
            rows.n[0] == exg_lower_dims(b, exg_get_ref(&args[0])).n[0] &&
            columns.n[1] == exg_lower_dims(b, exg_get_ref(&args[1])).n[1]);
}

/* (self, mat2, scale_a, scale_b, bias?, scale_result?, out_dtype?, use_fast_accum) */
void exg_lower_scaled_mm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype out = exg_dtype_argument(&args[6], exg_lower_dtype(b, exg_get_ref(&args[0])));
    const exg_ref scales[2] = {exg_get_ref(&args[2]), exg_get_ref(&args[3])};
    exg_ref self = exg_get_ref(&args[0]);
    exg_ref mat2 = exg_get_ref(&args[1]);
    bool is_plain;
    exg_ref x;

    if (!are_float8(b, args)) {
        return;
    }
    is_plain = are_plain(b, args, scales);
    if (!is_plain && exg_lower_dtype(b, scales[0]) == EXG_DTYPE_F8E8M0FNU) {
        self = scaled_mx(b, self, scales[0], false);
        mat2 = scaled_mx(b, mat2, scales[1], true);
    } else if (!is_plain) {
        self = scaled(b, self, scales[0], SQUARE, false);
        mat2 = exg_lower_dims(b, scales[1]).rank == 2
                   ? scaled(b, mat2, exg_lower_swapped(b, scales[1], 0, 1), SQUARE, true)
                   : mat2;
    }
    x = product_of(b, self, mat2, is_plain ? scales : NULL, &args[4]);
    if (exg_lower_given(&args[5]) && exg_dtype_is_float8(out)) {
        x = EMIT(b, div_Tensor, x, factor(b, exg_get_ref(&args[5])));
    }
    results[0] = exg_arg_ref(narrow(b, x, out));
}

/* torch.nn.functional.ScalingType */
enum { BY_TENSOR, BY_ROW, BY_16, BY_32, BY_128, BY_SQUARE };

/* One side of a product, scaled where its scales are not left to the product. */
static exg_ref side(exg_builder *b, exg_ref x, exg_ref scale, int64_t recipe, bool is_turned)
{
    int64_t columns = blocks_of(exg_lower_dims(b, x).n[!is_turned], SQUARE);

    switch (recipe) {
    case BY_TENSOR:
    case BY_ROW:
        return x;
    case BY_32:
        return scaled_mx(b, x, scale, is_turned);
    case BY_SQUARE: /* in columns, filled up to a multiple of 4 */
        if (exg_lower_dims(b, scale).rank != 2 || exg_lower_dims(b, scale).n[0] < columns) {
            exg_lower_refuse(b, "scales of other blocks than the matrix has");
            return EXG_NO_REF;
        }
        scale = exg_lower_slice(b, exg_lower_swapped(b, scale, 0, 1), 1, 0, columns);
        return scaled(b, x, scale, SQUARE, is_turned);
    default:
        return scaled(b, x, scale, SQUARE, is_turned);
    }
}

/* What exg has: one tensor of scales a side; in tiles those of blocks of 32, and only those. */
static bool is_known(const exg_argument *scales, const exg_argument *recipe,
                     const exg_argument *swizzle)
{
    int64_t tiles = swizzle->count == 0 ? 0 : swizzle->as_ints[0];

    return scales->count == 1 && recipe->count == 1 && swizzle->count <= 1 &&
           recipe->as_ints[0] >= BY_TENSOR && recipe->as_ints[0] <= BY_SQUARE &&
           recipe->as_ints[0] != BY_16 && tiles == (recipe->as_ints[0] == BY_32);
}

/* (self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias?, out_dtype?,
 * contraction_dim, use_fast_accum) */
void exg_lower_scaled_mm_v2(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype out = exg_dtype_argument(&args[9], exg_lower_dtype(b, exg_get_ref(&args[0])));
    exg_ref scales[2];
    exg_ref x, self, mat2;
    bool is_plain;

    if (!is_known(&args[2], &args[3], &args[4]) || !is_known(&args[5], &args[6], &args[7]) ||
        (args[3].as_ints[0] <= BY_ROW) != (args[6].as_ints[0] <= BY_ROW)) {
        exg_lower_unsupported(b, "a scaled product with scales on two levels, or of blocks of 16");
        return;
    }
    if (!are_float8(b, args)) {
        return;
    }
    is_plain = args[3].as_ints[0] <= BY_ROW;
    scales[0] = exg_lower_item(&args[2], 0);
    scales[1] = exg_lower_item(&args[5], 0);
    self = side(b, exg_get_ref(&args[0]), scales[0], args[3].as_ints[0], false);
    mat2 = side(b, exg_get_ref(&args[1]), scales[1], args[6].as_ints[0], true);
    x = product_of(b, self, mat2, is_plain ? scales : NULL, &args[8]);
    results[0] = exg_arg_ref(narrow(b, x, out));
}
