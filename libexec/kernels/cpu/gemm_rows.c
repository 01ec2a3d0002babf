/* gemm_rows.c - matrix products of few rows or columns, which read what is long where it is.
 *
 *   stream   up to 128 rows, b dense along n
 *   dot      both operands dense along k: no packing, memory speed
 *   axpy     one row, b dense along n; slices of the depth where b is far
 *   narrow   dot with few columns, by many rows of A
 *
 * How they are cut depends on sizes alone.
 */
#include "libexec/kernels/cpu/gemm.h"

#define DOT_ROWS_MAX       40
#define DOT_ROWS_WIDENED   24    /* where b is widened for every few of them */
#define NARROW_MAX         4     /* columns: more of a vector of them are none */
#define NARROW_ROWS        512   /* of a task */
#define DOT_ELEMENTS       65536 /* of b in a task */
#define STREAM_ROWS_MAX    128
#define STREAM_ROWS_FEW    16   /* where rows of b fall on the same sets of a cache */
#define STREAM_SMALL       8192 /* elements of b that are near wherever they fall */
#define STREAM_COLUMNS     960  /* of a task of few rows: long stretches of memory */
#define STREAM_COLUMNS_MIN 192
#define SETS_BYTES         4096
#define WAITING_ROWS       6    /* of A: what they do takes less than bringing b does */
#define WAITING_DEPTH      24   /* rows of b at a time for them, along which memory is foreseen */
#define AXPY_COLUMNS       1024 /* of a task where b is near */
#define AXPY_FAR_BYTES     (4 << 20) /* b is near up to here */
#define AXPY_SLICES        8

/* ---- plan ------------------------------------------------------------------------------ */

/* Rows up to which b is read where it is. Not many by few columns: packing those and reading
 * rows of A where they are is less. */
static int64_t stream_rows_max(const exg_gemm *g)
{
    bool is_spread = g->b.row * (int64_t)g->loops->real_bytes % SETS_BYTES != 0;
    bool is_wide = g->n > EXG_GEMM_DIRECT_COLUMNS;

    return is_wide && (is_spread || g->k * g->n <= STREAM_SMALL) ? STREAM_ROWS_MAX
                                                                 : STREAM_ROWS_FEW;
}

/* Rows of b that all rows of A pass by, some columns at a time: those stay in the first cache.
 * Rows that begin anywhere take more lines of it. */
static int64_t stream_depth(const exg_gemm *g)
{
    if (g->m <= WAITING_ROWS) {
        return WAITING_DEPTH;
    }
    return g->b.row * (int64_t)g->loops->real_bytes % EXG_GEMM_LINE == 0 ? g->loops->depth
                                                                         : g->loops->depth / 2;
}

/* Slices of the depth: each reads stretches of b that are as long as its rows. */
static void plan_axpy(exg_gemm *g)
{
    bool is_far = g->n > AXPY_COLUMNS && g->k * exg_dtype_bytes(g->b.dtype) > AXPY_FAR_BYTES / g->n;

    g->slice_depth = is_far ? exg_round_up(exg_ceil_div(g->k, AXPY_SLICES), 4) : g->k;
    g->slices = is_far ? exg_ceil_div(g->k, g->slice_depth) : 1;
    g->columns_of_tile = is_far ? EXG_GEMM_AXPY_COLUMNS : AXPY_COLUMNS;
    g->slices_offset = (g->packed_bytes + 63) & ~UINT64_C(63);
    if (g->slices > 1) {
        g->packed_bytes =
            g->slices_offset + (uint64_t)(g->batch * g->slices * g->n) * g->loops->real_bytes;
    }
}

static void plan_stream(exg_gemm *g)
{
    /* rows that go together, evenly by fours: panels of A are as wide */
    int64_t rows = exg_round_up(exg_ceil_div(g->m, exg_ceil_div(g->m, g->loops->stream_rows)), 4);

    g->columns_of_tile = STREAM_COLUMNS;
    if (g->m > STREAM_ROWS_FEW) { /* fewer columns make tasks enough */
        g->columns_of_tile = EXG_MAX(g->n / EXG_GEMM_TASKS, STREAM_COLUMNS_MIN);
        g->columns_of_tile = exg_round_up(g->columns_of_tile, g->loops->columns);
    }
    g->rows_of_tile = EXG_MIN(rows, g->loops->stream_rows);
    g->packed_bytes =
        (uint64_t)(g->batch * exg_round_up(g->m, g->rows_of_tile) * g->k) * g->loops->real_bytes;
}

static bool has_few_columns(const exg_gemm *g)
{
    return g->n <= NARROW_MAX && g->b.row == 1 && g->a.column == 1 && g->pack_a == NULL &&
           exg_dtype_bytes(g->b.dtype) == g->loops->real_bytes;
}

bool exg_gemm_rows_plan(exg_gemm *g)
{
    bool a_is_dense = g->a.column == 1 || g->k == 1;
    bool b_is_real = exg_dtype_bytes(g->b.dtype) == g->loops->real_bytes;

    if (g->m <= (b_is_real ? DOT_ROWS_MAX : DOT_ROWS_WIDENED) && (g->b.row == 1 || g->k == 1)) {
        g->path = EXG_GEMM_DOT;
    } else if (g->m == 1 && g->b.column == 1) {
        g->path = EXG_GEMM_AXPY;
    } else if (g->b.column == 1 && b_is_real && g->m <= stream_rows_max(g)) {
        g->path = EXG_GEMM_STREAM;
    } else if (has_few_columns(g)) {
        g->path = EXG_GEMM_NARROW;
        g->columns_of_tile = g->n;
        g->column_tiles = 1;
        g->rows_of_tile = EXG_MIN(EXG_MAX(DOT_ELEMENTS / EXG_MAX(g->k, 1), 8), NARROW_ROWS);
        g->row_tiles = exg_ceil_div(g->m, g->rows_of_tile);
        return true;
    } else {
        return false;
    }
    g->row_tiles = 1;
    g->rows_of_tile = g->m;
    g->brings_a = !a_is_dense || exg_dtype_bytes(g->a.dtype) != g->loops->real_bytes;
    if (g->path == EXG_GEMM_STREAM) {
        plan_stream(g);
    } else if (g->brings_a) {
        g->packed_bytes = (uint64_t)(g->batch * g->m * g->k) * g->loops->real_bytes;
    }
    if (g->path == EXG_GEMM_DOT) {
        g->columns_of_tile = exg_round_up(EXG_MAX(DOT_ELEMENTS / EXG_MAX(g->k, 1), 4), 4);
    } else if (g->path == EXG_GEMM_AXPY) {
        plan_axpy(g);
    }
    g->column_tiles = exg_ceil_div(g->n, g->columns_of_tile);
    return true;
}

/* ---- few rows -------------------------------------------------------------------------- */

/* Where the packed rows of depth k on are. */
static char *stream_rows(const exg_gemm_work *r, int64_t batch, int64_t k)
{
    return r->packed + (batch * r->g->k + k) * exg_round_up(r->g->m, r->g->rows_of_tile) *
                           r->g->loops->real_bytes;
}

/* Packs all rows of one A of the batch. */
static void stream_pack(void *context, uint32_t batch)
{
    const exg_gemm_work *r = context;
    const exg_gemm *g = r->g;
    int64_t step = stream_depth(g);

    for (int64_t k = 0; k < g->k; k += step) {
        int64_t depth = EXG_MIN(g->k - k, step);

        g->loops->pack((uint32_t)g->rows_of_tile, g->m, depth, stream_rows(r, batch, k),
                       exg_matrix_at(r->a, &g->a, batch, 0, k), g->a.dtype, g->a.row, g->a.column);
    }
}

static void stream_block(void *context, uint32_t block)
{
    const exg_gemm_work *r = context;
    const exg_gemm *g = r->g;
    int64_t batch = block / g->column_tiles;
    int64_t j = block % g->column_tiles * g->columns_of_tile;
    int64_t columns = EXG_MIN(g->n - j, g->columns_of_tile);
    char *c = exg_gemm_result_at(r, batch, 0, j);
    int64_t step = stream_depth(g);

    for (int64_t k = 0; k < g->k; k += step) {
        g->loops->stream(g->m, columns, EXG_MIN(g->k - k, step), stream_rows(r, batch, k),
                         g->rows_of_tile, exg_matrix_at(r->b, &g->b, batch, k, j), g->b.row, c,
                         g->n, k > 0);
    }
    exg_gemm_finish(r, batch, 0, g->m, j, columns, c, g->n);
}

/* a, dense and real. */
static const char *rows_of_a(const exg_gemm_work *r, int64_t batch)
{
    const exg_gemm *g = r->g;

    return g->brings_a ? r->packed + batch * g->m * g->k * g->loops->real_bytes
                       : exg_matrix_at(r->a, &g->a, batch, 0, 0);
}

static void bring_a(const exg_gemm_work *r)
{
    const exg_gemm *g = r->g;

    for (int64_t row = 0; g->brings_a && row < g->batch * g->m; row++) {
        EXG_LOOPS(exg_loops_convert)
            ->load[g->a.dtype]((uint32_t)g->k, r->packed + row * g->k * g->loops->real_bytes,
                               exg_matrix_at(r->a, &g->a, row / g->m, row % g->m, 0), g->a.column);
    }
}

static void dot_block(void *context, uint32_t block)
{
    const exg_gemm_work *r = context;
    const exg_gemm *g = r->g;
    int64_t batch = block / g->column_tiles;
    int64_t j = block % g->column_tiles * g->columns_of_tile;
    int64_t columns = EXG_MIN(g->n - j, g->columns_of_tile);
    void *c = exg_gemm_result_at(r, batch, 0, j);

    g->loops->dot(g->m, columns, g->k, rows_of_a(r, batch), g->brings_a ? g->k : g->a.row,
                  exg_matrix_at(r->b, &g->b, batch, 0, j), g->b.dtype, g->b.column, c, g->n);
    exg_gemm_finish(r, batch, 0, g->m, j, columns, c, g->n);
}

/* Rows of A are columns of b's transpose times A's; the sums are turned as they leave. */
static void narrow_block(void *context, uint32_t block)
{
    const exg_gemm_work *r = context;
    const exg_gemm *g = r->g;
    const int64_t batch = block / g->row_tiles;
    const int64_t row = block % g->row_tiles * g->rows_of_tile;
    const int64_t rows = EXG_MIN(g->m - row, g->rows_of_tile);
    void *const c = exg_gemm_result_at(r, batch, row, 0);
    union {
        float f32[NARROW_MAX * NARROW_ROWS];
        double f64[NARROW_MAX * NARROW_ROWS];
    } sums;

    g->loops->dot(g->n, rows, g->k, exg_matrix_at(r->b, &g->b, batch, 0, 0), g->b.column,
                  exg_matrix_at(r->a, &g->a, batch, row, 0), g->a.dtype, g->a.row, &sums, rows);
    for (int64_t i = 0; i < rows * g->n; i++) {
        const int64_t from = i % g->n * rows + i / g->n;

        if (g->compute == EXG_COMPUTE_F64) {
            ((double *)c)[i] = sums.f64[from];
        } else {
            ((float *)c)[i] = sums.f32[from];
        }
    }
    exg_gemm_finish(r, batch, row, rows, 0, g->n, c, g->n);
}

/* ---- one row --------------------------------------------------------------------------- */

/* Where columns from j of a slice are: of the only one, in the result. */
static char *slice_at(const exg_gemm_work *r, int64_t batch, int64_t slice, int64_t j)
{
    const exg_gemm *g = r->g;
    char *slices = g->slices > 1 ? r->packed + g->slices_offset : r->result;

    return slices + ((batch * g->slices + slice) * g->n + j) * g->loops->real_bytes;
}

static void axpy_block(void *context, uint32_t block)
{
    const exg_gemm_work *r = context;
    const exg_gemm *g = r->g;
    int64_t j = block % g->column_tiles * g->columns_of_tile;
    int64_t slice = block / g->column_tiles % g->slices;
    int64_t batch = block / g->column_tiles / g->slices;
    int64_t k = slice * g->slice_depth;
    int64_t columns = EXG_MIN(g->n - j, g->columns_of_tile);

    g->loops->axpy(columns, EXG_MIN(g->k - k, g->slice_depth),
                   rows_of_a(r, batch) + k * g->loops->real_bytes,
                   exg_matrix_at(r->b, &g->b, batch, k, j), g->b.dtype, g->b.row,
                   slice_at(r, batch, slice, j));
    if (g->slices == 1) {
        exg_gemm_finish(r, batch, 0, 1, j, columns, exg_gemm_result_at(r, batch, 0, j), g->n);
    }
}

static void sum_slices(void *context, uint32_t block)
{
    const exg_gemm_work *r = context;
    const exg_gemm *g = r->g;
    int64_t tiles = exg_ceil_div(g->n, AXPY_COLUMNS);
    int64_t batch = block / tiles;
    int64_t j = block % tiles * AXPY_COLUMNS;
    int64_t columns = EXG_MIN(g->n - j, AXPY_COLUMNS);
    void *c = exg_gemm_result_at(r, batch, 0, j);

    memcpy(c, slice_at(r, batch, 0, j), (size_t)columns * g->loops->real_bytes);
    for (int64_t slice = 1; slice < g->slices; slice++) {
        const void *part = slice_at(r, batch, slice, j);

        if (g->compute == EXG_COMPUTE_F64) {
            EXG_LOOPS(exg_loops_row_f64)->add(columns, c, part);
        } else {
            EXG_LOOPS(exg_loops_row_f32)->add(columns, c, part);
        }
    }
    exg_gemm_finish(r, batch, 0, 1, j, columns, c, g->n);
}

void exg_gemm_rows_run(exg_gemm_work *r)
{
    const exg_gemm *g = r->g;
    exg_pool *pool = r->call->pool;
    uint32_t tiles = (uint32_t)(g->batch * g->column_tiles);

    if (g->path == EXG_GEMM_STREAM) {
        exg_pool_run(pool, stream_pack, r, (uint32_t)g->batch);
        exg_pool_run(pool, stream_block, r, tiles);
        return;
    }
    if (g->path == EXG_GEMM_NARROW) {
        exg_pool_run(pool, narrow_block, r, (uint32_t)(g->batch * g->row_tiles));
        return;
    }
    bring_a(r);
    if (g->path == EXG_GEMM_DOT) {
        exg_pool_run(pool, dot_block, r, tiles);
        return;
    }
    exg_pool_run(pool, axpy_block, r, tiles * (uint32_t)g->slices);
    if (g->slices > 1) {
        exg_pool_run(pool, sum_slices, r, (uint32_t)(g->batch * exg_ceil_div(g->n, AXPY_COLUMNS)));
    }
}
