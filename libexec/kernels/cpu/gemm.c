/* gemm.c - cuts a matrix product into tasks.
 *
 *   tiles    both operands packed into panels of the register tile: any strides, any
 *            dtype; a task is a tile of C over the whole depth. A is packed before
 *            when several tasks would pack it again, and so is B.
 *   stream, dot, axpy: of few rows (gemm_rows.c)
 *   turned   b is read where it is, a packed (gemm_turned.c)
 *   bytes    pairs of int8 or uint8 at a time (gemm_bytes.c)
 *   integer  a row of the result at a time (gemm_integer.c)
 *
 * How it is cut depends on sizes alone.
 */
#include "libexec/kernels/cpu/gemm.h"

#define TILE_COLUMNS   EXG_GEMM_COLUMNS
#define WIDE_TILE      4 /* times as wide */
#define TILE_ROWS_MIN  64
#define TASK_FLOPS_MIN (1 << 20)
#define PACK_ROWS      128  /* rows of A packed at a time within a task */
#define READY_ROWS     256  /* of a tile over ready panels of B: A stays in the second cache */
#define READY_COLUMNS  256  /* of such a tile of pairs */
#define TALL_ROWS      1024 /* of A: tasks enough without cutting columns */
#define WIDENED_ROWS   1024 /* where B is widened: once for so many */
#define FEW_ROWS       8    /* up to here bf16 is widened as it is multiplied */
#define PAIRS_ROWS     4    /* from here on b is packed for products of bf16 */
#define PANELS_MIN     2    /* of ready b in a tile */
#define PANELS_MAX     32
#define B_REUSE        200 /* rows of a tile for which packing B again is less than bringing it */

/* ---- plan ----------------------------------------------------------------------- */

static exg_matrix turned(exg_matrix m)
{
    return (exg_matrix){m.dtype, m.batch, m.column, m.row, m.count};
}

/* A product with one column is one with one row. */
static void swap_if_column(exg_gemm *g)
{
    exg_matrix a = g->a;

    if (g->n != 1 || g->m == 1 || g->pack_b != NULL || g->b_is_packed) {
        return;
    }
    g->a = turned(g->b);
    g->b = turned(a);
    g->self = turned(g->self);
    g->n = g->m;
    g->m = 1;
    g->is_swapped = true;
}

/* Matrices A there are. */
static int64_t a_count(const exg_gemm *g)
{
    return g->a.count > 0 ? g->a.count : g->batch;
}

/* Whether ready panels of b are of another dtype than its reals. */
static bool widens_b(const exg_gemm *g)
{
    return g->b_is_packed && exg_dtype_bytes(g->b.dtype) != g->loops->panel_bytes;
}

/* Whether few rows read ready panels of bf16 as they are. */
static bool is_narrow(const exg_gemm *g)
{
    return widens_b(g) && g->b.dtype == EXG_DTYPE_BF16 && g->rows_of_tile <= FEW_ROWS;
}

/* Rows of a tile over ready panels of b. */
static int64_t ready_rows(const exg_gemm *g)
{
    if (g->pack_a != NULL) {
        return PACK_ROWS;
    }
    if (widens_b(g)) {
        return WIDENED_ROWS;
    }
    if (g->loops == EXG_GEMM_PAIRS()) {
        return READY_ROWS;
    }
    return g->m < TALL_ROWS ? READY_ROWS : EXG_MIN(PACK_ROWS, exg_ceil_div(g->m, EXG_GEMM_TASKS));
}

/* Panels of ready b in a tile, at most. Products of pairs are so fast that their sums must stay in
 * the second cache, beside rows of A and columns of B. */
static int64_t ready_panels(const exg_gemm *g)
{
    if (g->loops == EXG_GEMM_PAIRS() && g->pack_a == NULL) {
        return EXG_MAX(READY_COLUMNS / g->loops->columns, PANELS_MIN);
    }
    return g->m < TALL_ROWS ? PANELS_MAX : 2 * PANELS_MAX;
}

/* Whether rows of A are read where they are: by few columns, where packing them is much of the
 * work, and where they do not fall on the same sets of a cache. */
static bool reads_rows(const exg_gemm *g)
{
    return g->pack_a == NULL && !g->packs_a_first && g->a.column == 1 &&
           g->m % g->loops->whole == 0 && g->k % g->loops->group == 0 &&
           exg_dtype_bytes(g->a.dtype) == g->loops->panel_bytes &&
           g->columns_of_tile <= g->loops->direct_columns &&
           g->a.row * (int64_t)g->loops->panel_bytes % g->loops->direct_sets != 0;
}

/* Workspace for what is packed before the tiles. */
static void plan_packing(exg_gemm *g)
{
    const int64_t row = exg_gemm_panel_bytes(g->loops, g->k);

    if (g->packs_a_first) {
        g->packed_bytes = (uint64_t)(exg_round_up(g->m, g->loops->rows) * row);
    }
    g->packed_b_offset = (g->packed_bytes + 63) & ~UINT64_C(63);
    if (g->packs_b_first) {
        g->packed_bytes = g->packed_b_offset + (uint64_t)(exg_round_up(g->n, g->loops->columns) *
                                                          g->batch / a_count(g) * row);
    }
}

/* b is packed already, or once for all: wide tiles, since packing A is all the work beside the
 * product; narrower ones only to have tasks. With rows enough for those a tile is as wide as C,
 * and packs its rows itself, near where they are read. */
static void plan_wide_tiles(exg_gemm *g)
{
    int64_t panels = exg_ceil_div(g->n, g->loops->columns);
    int64_t across;

    g->path = EXG_GEMM_TILES;
    g->row_tiles = exg_ceil_div(g->m, ready_rows(g));
    g->rows_of_tile = exg_round_up(exg_ceil_div(g->m, g->row_tiles), g->loops->rows);
    g->row_tiles = exg_ceil_div(g->m, g->rows_of_tile);
    across = exg_ceil_div(EXG_GEMM_TASKS, g->row_tiles * g->batch);
    across = EXG_MAX(EXG_MIN(across, exg_ceil_div(panels, PANELS_MIN)),
                     exg_ceil_div(panels, ready_panels(g)));
    g->columns_of_tile = exg_ceil_div(panels, across) * g->loops->columns;
    g->column_tiles = exg_ceil_div(g->n, g->columns_of_tile);
    g->packs_a_first = g->column_tiles > 1 && !reads_rows(g);
    g->packs_b_first = !g->b_is_packed && g->row_tiles > 1;
    plan_packing(g);
}

static void plan_tiles(exg_gemm *g)
{
    double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k;
    int64_t wanted = flops < TASK_FLOPS_MIN ? 1 : EXG_MAX(EXG_GEMM_TASKS / g->batch, 1);

    wanted = EXG_MIN(wanted, 1 + (int64_t)(flops / TASK_FLOPS_MIN));
    g->path = EXG_GEMM_TILES;
    g->columns_of_tile = exg_round_up(TILE_COLUMNS, g->loops->columns);
    if (g->m <= B_REUSE) { /* rows stay together: each reads B's panels once, where they are made */
        g->columns_of_tile = EXG_MIN(g->columns_of_tile,
                                     exg_round_up(exg_ceil_div(g->n, wanted), g->loops->columns));
    }
    if (g->packs_loops && g->m > B_REUSE) { /* fewer ends of rows, where B is short in memory */
        int64_t width = exg_round_up(exg_ceil_div(g->n, wanted), g->columns_of_tile);

        g->columns_of_tile = EXG_MIN(width, WIDE_TILE * g->columns_of_tile);
    }
    g->columns_of_tile = EXG_MIN(g->columns_of_tile, exg_round_up(g->n, g->loops->columns));
    g->column_tiles = exg_ceil_div(g->n, g->columns_of_tile);
    g->rows_of_tile = exg_ceil_div(g->m, exg_ceil_div(wanted, g->column_tiles));
    g->rows_of_tile = EXG_MAX(g->rows_of_tile, TILE_ROWS_MIN);
    g->rows_of_tile = EXG_MIN(exg_round_up(g->rows_of_tile, g->loops->rows), EXG_GEMM_ROWS_MAX);
    g->row_tiles = exg_ceil_div(g->m, g->rows_of_tile);
    g->packs_a_first = g->column_tiles > 1 && flops > TASK_FLOPS_MIN;
    g->packs_b_first = g->row_tiles > 1 && g->rows_of_tile < B_REUSE;
    plan_packing(g);
}

static void choose_path(exg_gemm *g)
{
    const bool are_pairs = g->loops == EXG_GEMM_PAIRS();
    const double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k;

    if (g->b_is_packed || (are_pairs && flops > TASK_FLOPS_MIN)) {
        plan_wide_tiles(g);
    } else if (g->pack_b != NULL || are_pairs || !exg_gemm_rows_plan(g)) {
        plan_tiles(g);
    }
}

/* Tiles begin with self where it is one row; of another dtype it is brought into the
 * workspace. */
static void plan_start(exg_gemm *g)
{
    exg_compute compute = EXG_COMPUTE_COUNT;

    g->starts = g->path == EXG_GEMM_TILES && g->has_self && g->alpha == 1 && g->beta == 1 &&
                g->k > 0 && exg_compute_of(g->self.dtype, &compute) && compute == g->compute &&
                g->self.batch == 0 && g->self.row == 0 && g->self.column == 1 && !is_narrow(g);
    g->widens_start = g->starts && exg_dtype_bytes(g->self.dtype) != exg_gemm_real_bytes(g);
    if (g->widens_start) {
        g->start_offset = (g->packed_bytes + 63) & ~UINT64_C(63);
        g->packed_bytes = g->start_offset + (uint64_t)g->n * exg_gemm_real_bytes(g);
    }
}

/* ---- room of a tile ---------------------------------------------------------------- */

/* Panels of A and B that a tile makes itself have room on the stack, as much as any may want
 * or little: what there is of a stack is touched, page by page, with every task. What they leave
 * holds the sums, where C is of another dtype: they do not go through memory. */
#define ROOM_SMALL (64 << 10)
#define A_ROOM     (PACK_ROWS * EXG_GEMM_K * sizeof(double))
#define B_ROOM     ((TILE_COLUMNS + 48) * EXG_GEMM_K * sizeof(double))
#define ROOM       ((int64_t)(A_ROOM + B_ROOM))

/* Bytes for `count` rows of A or columns of B, whole panels and lines. */
static int64_t room_of(const exg_gemm *g, int64_t count, uint32_t width)
{
    int64_t depth = EXG_MIN(g->k, g->loops->depth);

    return exg_round_up(exg_round_up(count, width) * exg_gemm_panel_bytes(g->loops, depth),
                        EXG_GEMM_LINE);
}

static int64_t room_of_a(const exg_gemm *g, int64_t rows)
{
    bool is_made = !g->packs_a_first && !reads_rows(g);

    return is_made ? room_of(g, EXG_MIN(rows, PACK_ROWS), g->loops->rows) : 0;
}

static int64_t room_of_b(const exg_gemm *g, int64_t columns)
{
    bool is_made = !g->packs_b_first && (!g->b_is_packed || widens_b(g));

    return is_made ? room_of(g, EXG_MIN(columns, TILE_COLUMNS), g->loops->columns) : 0;
}

static int64_t room_of_sums(const exg_gemm *g, int64_t rows, int64_t columns)
{
    return exg_round_up(rows, g->loops->whole) * exg_round_up(columns, g->loops->whole) *
           exg_gemm_real_bytes(g);
}

/* Whether sums of a tile are kept in what is left of its room. */
static bool has_near_sums(const exg_gemm *g)
{
    return g->path == EXG_GEMM_TILES && g->has_result && g->k > 0 &&
           room_of_a(g, g->rows_of_tile) + room_of_b(g, g->columns_of_tile) +
                   room_of_sums(g, g->rows_of_tile, g->columns_of_tile) <=
               ROOM;
}

static exg_status check_dtypes(exg_gemm *g, exg_error *err)
{
    exg_compute a;
    exg_compute b;

    if (!exg_compute_of(g->a.dtype, &a) || !exg_compute_of(g->b.dtype, &b) ||
        !exg_compute_of(g->c_dtype, &g->compute)) {
        return exg_unsupported_dtype("a matrix product", g->a.dtype, err);
    }
    if (a != b || a != g->compute || g->a.dtype == EXG_DTYPE_B8 ||
        (a == EXG_COMPUTE_F32 && exg_dtype_bytes(g->a.dtype) == 1) ||
        (b == EXG_COMPUTE_F32 && exg_dtype_bytes(g->b.dtype) == 1)) {
        return EXG_FAIL(err, UNSUPPORTED, "KRN-007", "no matrix product of %s and %s into %s",
                        exg_dtype_name(g->a.dtype), exg_dtype_name(g->b.dtype),
                        exg_dtype_name(g->c_dtype));
    }
    return EXG_OK;
}

/* bf16 is multiplied as it is where the machine does that well, and b is, or is worth being,
 * packed. */
static const exg_gemm_loops *loops_of(const exg_gemm *g)
{
    bool are_narrow = g->a.dtype == EXG_DTYPE_BF16 && g->b.dtype == EXG_DTYPE_BF16;
    bool packs = g->b_is_packed || ((g->pack_b == NULL || g->packs_loops) && g->m >= PAIRS_ROWS);

    if (are_narrow && packs && EXG_GEMM_PAIRS() != NULL) {
        return EXG_GEMM_PAIRS();
    }
    return g->compute == EXG_COMPUTE_F64 ? EXG_LOOPS(exg_loops_gemm_f64)
                                         : EXG_LOOPS(exg_loops_gemm_f32);
}

exg_status exg_gemm_plan(exg_gemm *g, exg_kernel_call *call, exg_error *err)
{
    EXG_TRY(check_dtypes(g, err));
    if (exg_gemm_is_of_bytes(g)) {
        exg_gemm_bytes_plan(g, call);
        return EXG_OK;
    }
    if (g->compute == EXG_COMPUTE_I32 || g->compute == EXG_COMPUTE_I64 || g->batch == 0 ||
        g->m == 0 || g->n == 0) { /* nothing to compute: nothing to cut */
        g->path = EXG_GEMM_INTEGER;
        return EXG_OK;
    }
    call->takes_epilogue = true;
    swap_if_column(g);
    if (!exg_gemm_turned_plan(g)) {
        g->loops = loops_of(g);
        choose_path(g);
    }
    plan_start(g);
    g->packed_bytes = (g->packed_bytes + 63) & ~UINT64_C(63);
    g->has_result = exg_dtype_bytes(g->c_dtype) != exg_gemm_real_bytes(g);
    g->is_near = g->path == EXG_GEMM_TURNED || has_near_sums(g);
    g->result_offset = g->packed_bytes;
    call->workspace_bytes += g->packed_bytes;
    if (g->has_result && !g->is_near) {
        call->workspace_bytes += (uint64_t)(g->batch * g->m * g->n) * exg_gemm_real_bytes(g);
    }
    return EXG_OK;
}

/* ---- tiles ------------------------------------------------------------------------ */

/* Where the panels of rows from `i` (a multiple of the panel's width) are, in A packed
 * block of depth by block of depth. */
static char *packed_rows(const exg_gemm_work *r, int64_t k, int64_t depth, int64_t i)
{
    int64_t padded = exg_round_up(r->g->m, r->g->loops->rows);

    return r->packed + padded * k * r->g->loops->panel_bytes +
           i * exg_gemm_panel_bytes(r->g->loops, depth);
}

/* Panels of rows [i, i + rows) of a, columns [k, k + depth). */
static void pack_a(const exg_gemm_work *r, int64_t batch, int64_t i, int64_t rows, int64_t k,
                   int64_t depth, char *panels)
{
    const exg_gemm *g = r->g;

    if (g->pack_a != NULL) {
        g->pack_a(g->pack_context, r->a, batch, i, rows, k, depth, panels);
    } else {
        g->loops->pack(g->loops->rows, rows, depth, panels, exg_matrix_at(r->a, &g->a, batch, i, k),
                       g->a.dtype, g->a.row, g->a.column);
    }
}

static void pack_block(void *context, uint32_t block)
{
    const exg_gemm_work *r = context;
    const exg_gemm *g = r->g;
    const int64_t depths = exg_ceil_div(g->k, g->loops->depth);
    const int64_t i = block / depths * PACK_ROWS;
    const int64_t k = block % depths * g->loops->depth;
    const int64_t depth = EXG_MIN(g->k - k, g->loops->depth);

    pack_a(r, r->batch, i, EXG_MIN(g->m - i, PACK_ROWS), k, depth, packed_rows(r, k, depth, i));
}

/* Panels of columns [j, j + columns) of b, rows [k, k + depth). */
static void pack_b(const exg_gemm_work *r, int64_t batch, int64_t k, int64_t depth, int64_t j,
                   int64_t columns, char *panels)
{
    const exg_gemm *g = r->g;

    if (g->pack_b != NULL) {
        g->pack_b(g->pack_context, r->b, batch, k, depth, j, columns, panels);
    } else {
        g->loops->pack(g->loops->columns, columns, depth, panels,
                       exg_matrix_at(r->b, &g->b, batch, k, j), g->b.dtype, g->b.column, g->b.row);
    }
}

/* Where they are when all of B is packed: block of depth by block of depth, for the
 * batches that share one A one after the other. */
static char *packed_columns(const exg_gemm_work *r, int64_t batch, int64_t k, int64_t depth,
                            int64_t j)
{
    int64_t padded = exg_round_up(r->g->n, r->g->loops->columns);

    return r->packed_b +
           padded * (batch / r->batch_step * exg_gemm_panel_bytes(r->g->loops, r->g->k) +
                     k * r->g->loops->panel_bytes) +
           j * exg_gemm_panel_bytes(r->g->loops, depth);
}

/* The same in what exg_gemm_packing_run made; elements of another dtype become reals. */
static const char *ready_columns(const exg_gemm_work *r, int64_t k, int64_t depth, int64_t j,
                                 int64_t columns, char *panels)
{
    const exg_gemm *g = r->g;
    int64_t padded = exg_round_up(g->n, g->loops->columns);
    const char *from = r->b + (k * padded + j * exg_round_up(depth, g->loops->group)) *
                                  exg_dtype_bytes(g->b.dtype);

    if (!widens_b(g)) {
        return from;
    }
    columns = exg_round_up(columns, g->loops->columns);
    EXG_LOOPS(exg_loops_convert)->load[g->b.dtype]((uint32_t)(columns * depth), panels, from, 1);
    return panels;
}

/* What is read of ready panels after those of depth [k, k + depth) of the tile from column j:
 * from `at` columns on, or with 0 the first of the next depth, or of the next tile. NULL where
 * panels of b are made near. */
static const char *next_columns(const exg_gemm_work *r, int64_t k, int64_t depth, int64_t j,
                                int64_t at)
{
    const exg_gemm *g = r->g;
    int64_t padded = exg_round_up(g->n, g->loops->columns);

    if (!g->b_is_packed) {
        return NULL;
    }
    k += at > 0 ? 0 : depth;
    if (k >= g->k) {
        k = 0;
        j = j + g->columns_of_tile < g->n ? j + g->columns_of_tile : 0;
    }
    depth = exg_round_up(EXG_MIN(g->k - k, g->loops->depth), g->loops->group);
    return r->b + (k * padded + (j + at) * depth) * exg_dtype_bytes(g->b.dtype);
}

static void pack_b_block(void *context, uint32_t block)
{
    const exg_gemm_work *r = context;
    const exg_gemm *g = r->g;
    int64_t batch = r->batch + block / g->column_tiles * r->batch_step;
    int64_t j = block % g->column_tiles * g->columns_of_tile;
    int64_t columns = EXG_MIN(g->n - j, g->columns_of_tile);

    for (int64_t k = 0; k < g->k; k += g->loops->depth) {
        int64_t depth = EXG_MIN(g->k - k, g->loops->depth);

        pack_b(r, batch, k, depth, j, columns, packed_columns(r, batch, k, depth, j));
    }
}

/* B's panels of one depth: ready, or packed now. */
static const char *panels_of_b(const exg_gemm_work *r, int64_t batch, int64_t k, int64_t depth,
                               int64_t j, int64_t columns, char *panels)
{
    if (r->g->b_is_packed) {
        return ready_columns(r, k, depth, j, columns, panels);
    }
    if (r->g->packs_b_first) {
        return packed_columns(r, batch, k, depth, j);
    }
    pack_b(r, batch, k, depth, j, columns, panels);
    return panels;
}

/* A tile of few rows over ready panels of bf16, read as they are. */
static void narrow_tile(const exg_gemm_work *r, int64_t batch, int64_t i, int64_t rows, int64_t j,
                        int64_t columns, char *room)
{
    const exg_gemm *g = r->g;
    int64_t stride = g->is_near ? columns : g->n;
    float *c = g->is_near ? (void *)room : exg_gemm_result_at(r, batch, i, j);
    int64_t padded = exg_round_up(g->n, g->loops->columns);
    _Alignas(64) char a_panels[(FEW_ROWS + 8) * EXG_GEMM_K * sizeof(float)];

    for (int64_t k = 0; k < g->k; k += g->loops->depth) {
        int64_t depth = EXG_MIN(g->k - k, g->loops->depth);
        const char *a = a_panels;

        if (g->packs_a_first) {
            a = packed_rows(r, k, depth, i);
        } else {
            pack_a(r, batch, i, rows, k, depth, a_panels);
        }
        g->loops->block_bf16(rows, columns, depth, a, r->b + (k * padded + j * depth) * 2, c,
                             stride, k > 0);
    }
    exg_gemm_finish(r, batch, i, rows, j, columns, c, stride);
}

static void wide_tile(const exg_gemm_work *r, int64_t batch, int64_t i, int64_t rows, int64_t j,
                      int64_t columns, char *room)
{
    const exg_gemm *g = r->g;
    char *a_panels = room;
    char *b_panels = a_panels + room_of_a(g, rows);
    char *sums = b_panels + room_of_b(g, columns);
    int64_t whole = g->is_near ? g->loops->whole : 1;
    int64_t stride = g->is_near ? exg_round_up(columns, whole) : g->n;
    char *c = g->is_near ? sums : exg_gemm_result_at(r, batch, i, j);
    int64_t most = exg_round_up(TILE_COLUMNS, g->loops->columns);
    int64_t step = g->b_is_packed && !widens_b(g) ? columns : most;
    bool is_direct = reads_rows(g);
    int64_t chunk = g->packs_a_first || is_direct ? READY_ROWS : PACK_ROWS;

    for (int64_t k = 0; k < g->k; k += g->loops->depth) {
        int64_t depth = EXG_MIN(g->k - k, g->loops->depth);

        for (int64_t at = 0; at < columns; at += step) {
            int64_t width = EXG_MIN(columns - at, step);
            const char *b = panels_of_b(r, batch, k, depth, j + at, width, b_panels);
            const char *next = next_columns(r, k, depth, j, at + step < columns ? at + step : 0);

            for (int64_t p = 0; p < rows; p += chunk) {
                int64_t count = EXG_MIN(rows - p, chunk);
                const char *panels = a_panels;

                if (is_direct) {
                    panels = exg_matrix_at(r->a, &g->a, batch, i + p, k);
                } else if (g->packs_a_first) {
                    panels = packed_rows(r, k, depth, i + p);
                } else if (at == 0 || rows > PACK_ROWS) {
                    pack_a(r, batch, i + p, count, k, depth, a_panels);
                }
                g->loops->block(
                    exg_round_up(count, whole),
                    r->start == NULL ? exg_round_up(width, whole) : width, depth, panels,
                    is_direct ? g->a.row : 0, b, c + (p * stride + at) * exg_gemm_real_bytes(g),
                    stride, k > 0,
                    r->start != NULL ? r->start + (j + at) * exg_gemm_real_bytes(g) : NULL, next);
            }
        }
    }
    exg_gemm_finish(r, batch, i, rows, j, columns, c, stride);
}

static void tile_in(const exg_gemm_work *r, int64_t batch, int64_t i, int64_t rows, int64_t j,
                    int64_t columns, char *room)
{
    (is_narrow(r->g) ? narrow_tile : wide_tile)(r, batch, i, rows, j, columns, room);
}

static __attribute__((noinline)) void tile(const exg_gemm_work *r, int64_t batch, int64_t i,
                                           int64_t rows, int64_t j, int64_t columns)
{
    _Alignas(64) char room[ROOM];

    tile_in(r, batch, i, rows, j, columns, room);
}

static __attribute__((noinline)) void small_tile(const exg_gemm_work *r, int64_t batch, int64_t i,
                                                 int64_t rows, int64_t j, int64_t columns)
{
    _Alignas(64) char room[ROOM_SMALL];

    tile_in(r, batch, i, rows, j, columns, room);
}

static void tile_block(void *context, uint32_t block)
{
    const exg_gemm_work *r = context;
    const exg_gemm *g = r->g;
    int64_t tiles = g->row_tiles * g->column_tiles;
    int64_t batch = r->batch + block / tiles * r->batch_step;
    int64_t i = block % tiles / g->column_tiles * g->rows_of_tile;
    int64_t j = block % tiles % g->column_tiles * g->columns_of_tile;
    int64_t rows = EXG_MIN(g->m - i, g->rows_of_tile);
    int64_t columns = EXG_MIN(g->n - j, g->columns_of_tile);
    int64_t room = room_of_a(g, rows) + room_of_b(g, columns);
    bool is_small = room + (g->is_near ? room_of_sums(g, rows, columns) : 0) <= ROOM_SMALL;

    (is_small ? small_tile : tile)(r, batch, i, rows, j, columns);
}

/* Batches that share an A go together; without packing before, all at once. */
static void run_tiles(exg_gemm_work *r, exg_pool *pool)
{
    const exg_gemm *g = r->g;
    bool packs = g->packs_a_first || g->packs_b_first;
    int64_t turns = packs ? a_count(g) : 1;
    uint32_t batches = (uint32_t)(g->batch / turns);

    r->batch_step = turns;
    for (r->batch = 0; r->batch < turns; r->batch++) {
        if (g->packs_a_first) {
            exg_pool_run(pool, pack_block, r,
                         exg_block_count(g->m, PACK_ROWS) * exg_block_count(g->k, g->loops->depth));
        }
        if (g->packs_b_first) {
            exg_pool_run(pool, pack_b_block, r, batches * (uint32_t)g->column_tiles);
        }
        exg_pool_run(pool, tile_block, r, batches * (uint32_t)(g->row_tiles * g->column_tiles));
    }
}

/* ---- run ------------------------------------------------------------------------------- */

static void set_zero(const exg_gemm_work *r)
{
    const exg_gemm *g = r->g;

    memset(r->result, 0, (size_t)(g->batch * g->m * g->n) * exg_gemm_real_bytes(g));
    for (int64_t batch = 0; batch < g->batch; batch++) {
        exg_gemm_finish(r, batch, 0, g->m, 0, g->n, exg_gemm_result_at(r, batch, 0, 0), g->n);
    }
}

void exg_gemm_run(const exg_gemm *g, const exg_kernel_call *call, void *workspace, void *c,
                  const void *a, const void *b, const void *self)
{
    exg_gemm_work r = {.g = g, .call = call, .self = self, .c = c, .packed = workspace};
    exg_pool *pool = call->pool;

    r.packed_b = (char *)workspace + g->packed_b_offset;
    r.a = g->is_swapped ? b : a;
    r.b = g->is_swapped ? a : b;
    r.start = g->starts ? self : NULL;
    if (g->widens_start) {
        r.start = r.packed + g->start_offset;
        EXG_LOOPS(exg_loops_convert)
            ->load[g->self.dtype]((uint32_t)g->n, r.packed + g->start_offset, self, 1);
    }
    r.result = g->has_result ? (char *)workspace + g->result_offset : c;
    if (g->batch * g->m * g->n == 0) {
        return;
    }
    if (g->path == EXG_GEMM_BYTES) {
        exg_gemm_bytes_run(g, call, workspace, c, a, b, self);
    } else if (g->path == EXG_GEMM_INTEGER) {
        exg_gemm_integer_run(g, call, c, r.a, r.b, self);
    } else if (g->k == 0) {
        set_zero(&r);
    } else if (g->path == EXG_GEMM_TILES) {
        run_tiles(&r, pool);
    } else if (g->path == EXG_GEMM_TURNED) {
        exg_gemm_turned_run(&r);
    } else {
        exg_gemm_rows_run(&r);
    }
}
