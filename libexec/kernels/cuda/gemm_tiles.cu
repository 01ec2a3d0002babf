/* gemm_tiles.cu - products of bfloat16 and float16 by matrix units (half_tiles.h), summed in f32:
 * of both operands the next part is on its way while this one is computed with.
 *
 * X: the dtype of both; RESULT, SELF, HAS_SELF as for gemm.cu; A_BY_DEPTH, B_BY_DEPTH.
 */
#include "libexec/kernels/cuda/half_tiles.h"

KERNEL(gemm_tiles, gemm_params)
{
    SHARED ALIGNED_16 half_bits a[2][A_BYTES];
    SHARED ALIGNED_16 half_bits b[2][B_BYTES];
    const int across = (int)((p.of.n + COLUMNS - 1) / COLUMNS);
    const int64_t row = (int64_t)(BLOCK_X / across) * ROWS;
    const int64_t column = (int64_t)(BLOCK_X % across) * COLUMNS;

    for (int64_t batch = BLOCK_Y; batch < p.of.batch; batch += 65535) {
        const int64_t matrix = matrix_at(&p.of, batch);
        const operand of_a = {(const half_bits *)p.of.a + batch * p.of.of_a.batch +
                                  row * p.of.of_a.row,
                              p.of.of_a.row, p.of.of_a.column, p.of.m - row, p.of.k};
        const half_bits *const b_at =
            (const half_bits *)p.of.b + (matrix < 0 ? 0 : matrix) * p.of.of_b.batch;
        const operand of_b = {b_at + column * p.of.of_b.column, p.of.of_b.column, p.of.of_b.row,
                              p.of.n - column, p.of.k};
        float sums[2][4][4] = {{{0}}};
        int turn = 0;

        load_part(a[0], &of_a, ROWS, A_IS_BY_DEPTH, 0);
        load_part(b[0], &of_b, COLUMNS, B_IS_BY_DEPTH, 0);
        COPIES_END();
        for (int64_t k = matrix < 0 ? p.of.k : 0; k < p.of.k; k += DEPTH) {
            if (k + DEPTH < p.of.k) {
                load_part(a[1 - turn], &of_a, ROWS, A_IS_BY_DEPTH, k + DEPTH);
                load_part(b[1 - turn], &of_b, COLUMNS, B_IS_BY_DEPTH, k + DEPTH);
            }
            COPIES_END();
            COPIES_WAIT(1);
            BARRIER();
            add_part(a[turn], b[turn], sums);
            BARRIER();
            turn = 1 - turn;
        }
        put_sums(&p, batch, row, column, sums);
    }
}
