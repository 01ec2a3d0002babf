/* gemm.cu - c = alpha * a * b + beta * self, in tiles (tile.h).
 *
 * A, B, RESULT, SELF: dtypes; HAS_SELF; or a weight for B (gemm.h). Strides are any: a matrix may
 * be transposed.
 */
#include "libexec/kernels/cuda/gemm.h"

/* Rows [row, row + TILE), columns [k, k + DEEP) of a, transposed; zero outside. */
static inline void load_a(const GEMM_PARAMS *p, strip *to, int64_t batch, int64_t row,
                          int64_t k)
{
    for (int i = THREAD; i < TILE * DEEP; i += THREADS) {
        /* neighbouring threads along what is together */
        const int by_row = p->of_a.column == 1;
        const int r = by_row ? i / DEEP : i % TILE;
        const int d = by_row ? i % DEEP : i / TILE;

        to[d][r] = row + r < p->m && k + d < p->k
                       ? (real)LOAD(A)(p->a, batch * p->of_a.batch + (row + r) * p->of_a.row +
                                                 (k + d) * p->of_a.column)
                       : 0;
    }
}

static inline void load_b(const GEMM_PARAMS *p, strip *to, int64_t batch, int64_t k,
                          int64_t column)
{
    for (int i = THREAD; i < TILE * DEEP; i += THREADS) {
        const int by_column = p->of_b.row == 1;
        const int d = by_column ? i % DEEP : i / TILE;
        const int c = by_column ? i / DEEP : i % TILE;

        to[d][c] = column + c < p->n && k + d < p->k
                       ? (real)second(p, batch, k + d, column + c)
                       : 0;
    }
}

KERNEL(gemm, gemm_params)
{
    SHARED strip a[DEEP];
    SHARED strip b[DEEP];
    const int64_t tiles = (p.of.n + TILE - 1) / TILE;
    const int64_t row = BLOCK_X / tiles * TILE;
    const int64_t column = BLOCK_X % tiles * TILE;

    for (int64_t batch = BLOCK_Y; batch < p.of.batch; batch += 65535) {
        const int64_t matrix = matrix_at(&p.of, batch);
        real sums[EACH][EACH] = {{0}};

        for (int64_t k = matrix < 0 ? p.of.k : 0; k < p.of.k; k += DEEP) {
            load_a(&p.of, a, batch, row, k);
            load_b(&p.of, b, matrix, k, column);
            BARRIER();
            add_products(a, b, sums);
            BARRIER();
        }
        for (int i = 0; i < EACH * EACH; i++) {
            put_sum(&p, batch, row + THREAD / SIDE + i / EACH * SIDE,
                    column + THREAD % SIDE + i % EACH * SIDE, sums[i / EACH][i % EACH]);
        }
    }
}
