/* gemm.cu - c = alpha * a * b + beta * self, a tile of TILE by TILE of c a block of 256
 * threads, each EACH by EACH of it; a and b pass through shared memory DEEP at a time.
 *
 * A, B, C, SELF: dtypes; HAS_SELF. Strides are any: a matrix may be transposed.
 */
#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/cuda/params.h"

#define TILE 64
#define EACH 4
#define DEEP 16
#define SIDE (TILE / EACH) /* threads along one side of the tile */

typedef COMPUTE(C) real;

#ifdef IS_REAL
#define MULTIPLY_ADD(x, y, z) ((real)fma(x, y, z))
#else
#define MULTIPLY_ADD(x, y, z) ((x) * (y) + (z))
#endif
#if defined(IS_REAL) && !defined(IS_DOUBLE)
#undef MULTIPLY_ADD
#define MULTIPLY_ADD(x, y, z) fmaf(x, y, z)
#endif

/* Rows [row, row + TILE), columns [k, k + DEEP) of a, transposed; zero outside. */
static inline void load_a(const cuda_gemm_params *p, real to[DEEP][TILE + 1], int64_t batch,
                          int64_t row, int64_t k)
{
    for (int i = THREAD; i < TILE * DEEP; i += THREADS) {
        /* neighbouring threads along what lies together */
        const int by_row = p->of_a.column == 1;
        const int r = by_row ? i / DEEP : i % TILE;
        const int d = by_row ? i % DEEP : i / TILE;

        to[d][r] = row + r < p->m && k + d < p->k
                       ? (real)LOAD(A)(p->a, batch * p->of_a.batch + (row + r) * p->of_a.row +
                                                 (k + d) * p->of_a.column)
                       : 0;
    }
}

static inline void load_b(const cuda_gemm_params *p, real to[DEEP][TILE + 1], int64_t batch,
                          int64_t k, int64_t column)
{
    for (int i = THREAD; i < TILE * DEEP; i += THREADS) {
        const int by_column = p->of_b.row == 1;
        const int d = by_column ? i % DEEP : i / TILE;
        const int c = by_column ? i / DEEP : i % TILE;

        to[d][c] = column + c < p->n && k + d < p->k
                       ? (real)LOAD(B)(p->b, batch * p->of_b.batch + (k + d) * p->of_b.row +
                                                 (column + c) * p->of_b.column)
                       : 0;
    }
}

static inline void finish(const cuda_gemm_params *p, int64_t batch, int64_t row, int64_t column,
                          real sum)
{
    real x = p->alpha == 1 ? sum : (real)p->alpha * sum;

#ifdef HAS_SELF
    const real self = (real)LOAD(SELF)(p->self, batch * p->of_self.batch + row * p->of_self.row +
                                                    column * p->of_self.column);

    x += p->beta == 1 ? self : (real)p->beta * self;
#endif
    STORE(C)(p->c, (batch * p->m + row) * p->n + column, x);
}

KERNEL(gemm, cuda_gemm_params)
{
    SHARED real a[DEEP][TILE + 1];
    SHARED real b[DEEP][TILE + 1];
    const int64_t tiles = (p.n + TILE - 1) / TILE;
    const int64_t row = BLOCK_X / tiles * TILE;
    const int64_t column = BLOCK_X % tiles * TILE;
    const int y = THREAD / SIDE;
    const int x = THREAD % SIDE;

    for (int64_t batch = BLOCK_Y; batch < p.batch; batch += 65535) {
        real sums[EACH][EACH];

        for (int i = 0; i < EACH * EACH; i++) {
            sums[i / EACH][i % EACH] = 0;
        }
        for (int64_t k = 0; k < p.k; k += DEEP) {
            load_a(&p, a, batch, row, k);
            load_b(&p, b, batch, k, column);
            BARRIER();
            for (int d = 0; d < DEEP; d++) {
                for (int i = 0; i < EACH; i++) {
                    for (int j = 0; j < EACH; j++) {
                        sums[i][j] = MULTIPLY_ADD(a[d][y + i * SIDE], b[d][x + j * SIDE],
                                                  sums[i][j]);
                    }
                }
            }
            BARRIER();
        }
        for (int i = 0; i < EACH; i++) {
            for (int j = 0; j < EACH; j++) {
                if (row + y + i * SIDE < p.m && column + x + j * SIDE < p.n) {
                    finish(&p, batch, row + y + i * SIDE, column + x + j * SIDE, sums[i][j]);
                }
            }
        }
    }
}
