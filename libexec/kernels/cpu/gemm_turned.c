/* gemm_turned.c - products by a matrix that is dense along the depth, as weights of linear layers
 * are: it stays where it is, and what is multiplied by it is packed.
 *
 * The transpose of C is b's transpose times a's: rows of the one are read as rows of A are
 * elsewhere, and a becomes panels. Their sums are turned as they leave. How it is cut depends on
 * sizes alone.
 */
#include "libexec/kernels/cpu/gemm.h"

#define ROWS_MIN    2   /* of a: one is multiplied as it is */
#define PART        256 /* rows of a that go together: what b brings is used so many times */
#define DEPTH       8192
#define SETS_BYTES  2048      /* rows of b so far apart fall on the same sets of a cache */
#define SETS_ROWS   64        /* of a that bear it: they wait for memory anyway */
#define PART_BYTES  (1 << 20) /* of them in the second cache */
#define TASK_SUMS   (1 << 15)
#define PACKED_ROWS 64 /* of a, in a task */

/* Rows of a that go together, whole panels. */
static int64_t part_of(const exg_gemm *g)
{
    const int64_t fit = PART_BYTES / (g->k * 2) / g->loops->columns * g->loops->columns;
    const int64_t most = EXG_MAX(EXG_MIN(fit, PART), 2 * g->loops->columns);

    return EXG_MIN(exg_round_up(g->m, g->loops->columns), most);
}

static bool fits(const exg_gemm *g, const exg_gemm_loops *loops)
{
    const bool are_plain = !g->b_is_packed && g->pack_a == NULL && g->pack_b == NULL;

    return are_plain && loops != NULL && loops->turn != NULL && g->a.dtype == EXG_DTYPE_BF16 &&
           g->b.dtype == EXG_DTYPE_BF16 && g->b.row == 1 && g->k > 0 && g->k % loops->group == 0 &&
           g->m >= ROWS_MIN && g->m <= g->n &&
           (g->m <= SETS_ROWS || g->b.column * (int64_t)loops->panel_bytes % SETS_BYTES != 0);
}

bool exg_gemm_turned_plan(exg_gemm *g)
{
    int64_t parts;

    if (!fits(g, EXG_GEMM_PAIRS())) {
        return false;
    }
    g->path = EXG_GEMM_TURNED;
    g->loops = EXG_GEMM_PAIRS();
    g->rows_of_tile = part_of(g);
    g->row_tiles = exg_ceil_div(g->m, g->rows_of_tile);
    parts = g->row_tiles * g->batch;
    g->columns_of_tile = 2 * g->loops->whole;
    while (2 * g->columns_of_tile * g->rows_of_tile <= TASK_SUMS &&
           parts * (g->n / (2 * g->columns_of_tile)) >= EXG_GEMM_TASKS) {
        g->columns_of_tile *= 2;
    }
    g->column_tiles = exg_ceil_div(g->n, g->columns_of_tile);
    g->packed_bytes = (uint64_t)(g->batch * exg_round_up(g->m, g->loops->columns) *
                                 exg_gemm_panel_bytes(g->loops, g->k));
    return true;
}

/* Where the panels of rows of a from i on begin, over the block of the depth from k on. */
static char *panels_at(const exg_gemm_work *r, int64_t batch, int64_t k, int64_t i)
{
    const exg_gemm *g = r->g;
    const int64_t padded = exg_round_up(g->m, g->loops->columns);
    const int64_t depth = EXG_MIN(g->k - k, DEPTH);

    return r->packed +
           (batch * padded * g->k + k * padded + i * depth) * (int64_t)g->loops->panel_bytes;
}

static void pack_block(void *context, uint32_t block)
{
    const exg_gemm_work *r = context;
    const exg_gemm *g = r->g;
    const int64_t blocks = exg_ceil_div(g->m, PACKED_ROWS);
    const int64_t batch = block / blocks;
    const int64_t i = block % blocks * PACKED_ROWS;

    for (int64_t k = 0; k < g->k; k += DEPTH) {
        g->loops->pack(g->loops->columns, EXG_MIN(g->m - i, PACKED_ROWS), EXG_MIN(g->k - k, DEPTH),
                       panels_at(r, batch, k, i), exg_matrix_at(r->a, &g->a, batch, i, k),
                       g->a.dtype, g->a.row, g->a.column);
    }
}

/* Sums of `columns` of b by `rows` of a; of the columns the last may be no whole tile. */
static void multiply(const exg_gemm_work *r, int64_t batch, int64_t i, int64_t rows, int64_t j,
                     int64_t columns, float *sums)
{
    const exg_gemm *g = r->g;
    const int64_t whole = g->loops->whole;
    const int64_t step = 2 * whole;
    const int64_t padded = exg_round_up(rows, whole);
    _Alignas(64) char last[2 * 16 * DEPTH * sizeof(uint16_t)];

    for (int64_t k = 0; k < g->k; k += DEPTH) {
        const int64_t depth = EXG_MIN(g->k - k, DEPTH);

        for (int64_t at = 0; at < columns; at += step) {
            const int64_t count = EXG_MIN(columns - at, step);
            const void *from = exg_matrix_at(r->b, &g->b, batch, k, j + at);
            bool is_followed = depth == g->b.column && j + at + 2 * step <= g->n;
            int64_t stride = g->b.column;

            if (count % whole != 0) {
                g->loops->pack(g->loops->rows, count, depth, last, from, g->b.dtype, g->b.column,
                               g->b.row);
                from = last;
                stride = 0;
            }
            g->loops->block(
                exg_round_up(count, whole), padded, depth, from, stride, panels_at(r, batch, k, i),
                sums + at * g->rows_of_tile, g->rows_of_tile, k > 0, NULL,
                is_followed ? exg_matrix_at(r->b, &g->b, batch, k, j + at + step) : NULL);
        }
    }
}

static void turned_block(void *context, uint32_t block)
{
    const exg_gemm_work *r = context;
    const exg_gemm *g = r->g;
    const int64_t tiles = g->row_tiles * g->column_tiles;
    const int64_t batch = block / tiles;
    const int64_t j = block % tiles / g->row_tiles * g->columns_of_tile;
    const int64_t i = block % tiles % g->row_tiles * g->rows_of_tile;
    const int64_t rows = EXG_MIN(g->m - i, g->rows_of_tile);
    const int64_t columns = EXG_MIN(g->n - j, g->columns_of_tile);
    const int64_t stride = g->has_result ? columns : g->n;
    _Alignas(64) float sums[TASK_SUMS];
    _Alignas(64) float turned[TASK_SUMS];
    float *c = g->has_result ? turned : exg_gemm_result_at(r, batch, i, j);

    multiply(r, batch, i, rows, j, columns, sums);
    g->loops->turn(columns, rows, sums, g->rows_of_tile, c, stride);
    exg_gemm_finish(r, batch, i, rows, j, columns, c, stride);
}

void exg_gemm_turned_run(exg_gemm_work *r)
{
    const exg_gemm *g = r->g;
    exg_pool *pool = r->call->pool;

    exg_pool_run(pool, pack_block, r, (uint32_t)g->batch * exg_block_count(g->m, PACKED_ROWS));
    exg_pool_run(pool, turned_block, r, (uint32_t)(g->batch * g->row_tiles * g->column_tiles));
}
