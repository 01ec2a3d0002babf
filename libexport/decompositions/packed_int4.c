/* packed_int4.c - lowerings of quantized.def: weights of four bits, two a byte. As PyTorch packs
 * them for processors with AVX-512: rows by 64, in a byte of column k rows j and j + 32; of the
 * rest of the rows, rows 2j and 2j + 1. A file does not say for which processor it was packed. */
#include "libexport/operators/lower.h"

#define EXG_ROWS "libexport/operators/quantized.def"
#include "libexport/operators/rows.h"

#define SELF  exg_get_ref(&args[0])
#define BLOCK 64

/* The rows of whole blocks. */
static int64_t whole(int64_t rows)
{
    return rows / BLOCK * BLOCK;
}

/* Half bytes of `bytes`, as one more dim of two before or after the last. */
static exg_ref halves(exg_builder *b, exg_ref bytes, int dim)
{
    exg_ref both[2] = {EMIT(b, bitwise_and_Scalar, bytes, 15),
                       EMIT(b, bitwise_right_shift_Tensor_Scalar, bytes, 4)};

    return EMIT(b, stack_default, exg_arg_refs(b, both, 2), dim);
}

/* Rows (N, K / 2) of packed bytes -> (K, N) of 0 ... 15. */
static exg_ref unpacked(exg_builder *b, exg_ref packed, int64_t rows, int64_t depth)
{
    int64_t in_blocks = whole(rows);
    exg_ref parts[2];
    uint32_t count = 0;

    if (in_blocks > 0) {
        exg_ref x = exg_lower_slice(b, packed, 0, 0, in_blocks);

        x = EMIT(b, reshape_default, x, INTS(b, in_blocks / BLOCK, depth, BLOCK / 2));
        x = EMIT(b, permute_default, halves(b, x, 2), INTS(b, 1, 0, 2, 3));
        parts[count++] = EMIT(b, reshape_default, x, INTS(b, depth, in_blocks));
    }
    if (rows > in_blocks) {
        exg_ref x = exg_lower_slice(b, packed, 0, in_blocks, rows - in_blocks);

        x = EMIT(b, reshape_default, x, INTS(b, depth, (rows - in_blocks) / 2));
        parts[count++] =
            EMIT(b, reshape_default, halves(b, x, 2), INTS(b, depth, rows - in_blocks));
    }
    return EMIT(b, cat_default, exg_arg_refs(b, parts, count), 1);
}

/* (..., 2, n) along dim -> one byte of the two. */
static exg_ref together(exg_builder *b, exg_ref x, int dim)
{
    exg_ref high = EMIT(b, bitwise_left_shift_Tensor_Scalar, EMIT(b, select_int, x, dim, 1), 4);

    return EMIT(b, bitwise_or_Tensor, EMIT(b, select_int, x, dim, 0), high);
}

/* (self (N, K) of 0 ... 15, innerKTiles) -> (N, K / 2) of bytes */
void exg_lower_pack_int4(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    exg_ref columns, parts[2];
    uint32_t count = 0;
    int64_t in_blocks;

    if (in.rank != 2 || in.n[0] < 1 || in.n[0] % 2 != 0 || in.n[1] % 2 != 0) {
        exg_lower_refuse(b, "four-bit weights of an odd number of rows or columns");
        return;
    }
    in_blocks = whole(in.n[0]);
    columns = exg_lower_swapped(b, exg_lower_cast(b, SELF, EXG_DTYPE_U8), 0, 1);
    if (in_blocks > 0) {
        exg_ref x = exg_lower_slice(b, columns, 1, 0, in_blocks);

        x = EMIT(b, reshape_default, x, INTS(b, in.n[1], in_blocks / BLOCK, 2, BLOCK / 2));
        x = EMIT(b, permute_default, together(b, x, 2), INTS(b, 1, 0, 2));
        parts[count++] = EMIT(b, reshape_default, x, INTS(b, in_blocks, in.n[1] / 2));
    }
    if (in.n[0] > in_blocks) {
        int64_t rest = in.n[0] - in_blocks;
        exg_ref x = exg_lower_slice(b, columns, 1, in_blocks, rest);

        x = together(b, EMIT(b, reshape_default, x, INTS(b, in.n[1], rest / 2, 2)), 2);
        parts[count++] = EMIT(b, reshape_default, x, INTS(b, rest, in.n[1] / 2));
    }
    results[0] = exg_arg_ref(EMIT(b, cat_default, exg_arg_refs(b, parts, count), 0));
}

/* (self (M, K), mat2 (N, K / 2) packed, group, (K / group, N, 2) of scale and what is added to
 * (number - 8) times the scale) */
void exg_lower_weight_int4pack_mm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    exg_dims packed = exg_lower_dims(b, exg_get_ref(&args[1]));
    exg_dims grid = exg_lower_dims(b, exg_get_ref(&args[3]));
    exg_ref scales = exg_get_ref(&args[3]);
    int64_t group = exg_get_int(&args[2]);
    exg_ref w;

    if (in.rank != 2 || packed.rank != 2 || grid.rank != 3 || packed.n[1] * 2 != in.n[1] ||
        packed.n[0] < 1 || packed.n[0] % 2 != 0 || group < 1 || grid.n[0] * group != in.n[1] ||
        grid.n[1] != packed.n[0] || grid.n[2] != 2) {
        exg_lower_refuse(b, "four-bit weights whose groups do not fit");
        return;
    }
    w = unpacked(b, exg_get_ref(&args[1]), packed.n[0], in.n[1]);
    w = EMIT(b, reshape_default, w, INTS(b, grid.n[0], group, grid.n[1]));
    w = EMIT(b, sub_Scalar, exg_lower_cast(b, w, EXG_DTYPE_F32), 8.);
    w = EMIT(b, mul_Tensor, w, EMIT(b, unsqueeze_default, EMIT(b, select_int, scales, 2, 0), 1));
    w = EMIT(b, add_Tensor, w, EMIT(b, unsqueeze_default, EMIT(b, select_int, scales, 2, 1), 1));
    w = EMIT(b, reshape_default, w, INTS(b, in.n[1], packed.n[0]));
    w = EMIT(b, mm_default, exg_lower_wide(b, SELF), w);
    results[0] = exg_arg_ref(exg_lower_cast(b, w, exg_lower_dtype(b, SELF)));
}
