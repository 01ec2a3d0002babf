/* gemm_bytes.c - products of matrices of bytes, as int8 and uint8 are quantized to.
 *
 * A, and B where it was not packed once, become panels (loops.h) in the workspace,
 * a depth of the loops' after the other; a task is a tile of C over the whole depth, summed
 * in int32 on the stack and brought to its dtype from there.
 */
#include "libexec/kernels/cpu/gemm.h"

#define TILE_ROWS    EXG_GEMM_BYTES_ROWS
#define TILE_COLUMNS 96 /* a multiple of every panel */
#define PACKING_MIN  4096

typedef struct bytes_run {
    const exg_gemm *g;
    const exg_kernel_call *call;
    const char *a, *b, *self;
    char *c;
    char *a_panels, *b_panels;
} bytes_run;

bool exg_dtype_is_byte(exg_dtype dtype)
{
    return dtype == EXG_DTYPE_I8 || dtype == EXG_DTYPE_U8;
}

bool exg_gemm_is_of_bytes(const exg_gemm *g)
{
    return exg_dtype_is_byte(g->a.dtype) && exg_dtype_is_byte(g->b.dtype) &&
           g->batch * g->m * g->n * g->k > 0;
}

int64_t exg_gemm_bytes_row(const exg_gemm_bytes_loops *loops, bool is_a, int64_t depth)
{
    return exg_round_up(depth, loops->group) * (is_a ? loops->a_bytes : 1) + loops->sum_bytes;
}

int64_t exg_gemm_bytes_row_to(const exg_gemm_bytes_loops *loops, bool is_a, int64_t k)
{
    int64_t rest = k % loops->depth;

    return k / loops->depth * exg_gemm_bytes_row(loops, is_a, loops->depth) +
           (rest > 0 ? exg_gemm_bytes_row(loops, is_a, rest) : 0);
}

/* Of the panels of a matrix A with m rows. */
static int64_t a_panels_bytes(const exg_gemm *g)
{
    return exg_round_up(g->m, g->byte_loops->rows) *
           exg_gemm_bytes_row_to(g->byte_loops, true, g->k);
}

static int64_t b_panels_bytes(const exg_gemm *g)
{
    return exg_round_up(g->n, g->byte_loops->columns) *
           exg_gemm_bytes_row_to(g->byte_loops, false, g->k);
}

void exg_gemm_bytes_plan(exg_gemm *g, exg_kernel_call *call)
{
    g->path = EXG_GEMM_BYTES;
    g->byte_loops = EXG_LOOPS_BYTES(exg_loops_gemm_bytes);
    g->row_tiles = exg_ceil_div(g->m, TILE_ROWS);
    g->column_tiles = exg_ceil_div(g->n, TILE_COLUMNS);
    g->packed_b_offset = ((uint64_t)(g->batch * a_panels_bytes(g)) + 63) & ~UINT64_C(63);
    g->packed_bytes = g->packed_b_offset;
    if (!g->b_is_packed) {
        g->packed_bytes += (uint64_t)(g->batch * b_panels_bytes(g));
    }
    call->workspace_bytes += g->packed_bytes;
}

/* ---- panels ------------------------------------------------------------------------- */

int64_t exg_gemm_bytes_a_at(const exg_gemm_bytes_loops *loops, int64_t m, int64_t k, int64_t depth,
                            int64_t i)
{
    return exg_round_up(m, loops->rows) * exg_gemm_bytes_row_to(loops, true, k) +
           i * exg_gemm_bytes_row(loops, true, depth);
}

/* Where those of columns of B from `j`, over depth from k, begin. */
static int64_t b_panel_at(const exg_gemm_bytes_loops *loops, int64_t n, int64_t k, int64_t depth,
                          int64_t j)
{
    return exg_round_up(n, loops->columns) * exg_gemm_bytes_row_to(loops, false, k) +
           j * exg_gemm_bytes_row(loops, false, depth);
}

void exg_gemm_bytes_pack_rows(const exg_gemm_bytes_loops *loops, const exg_matrix *a, int64_t m,
                              int64_t k, int64_t i, const char *memory, char *panels)
{
    for (int64_t at = 0; at < k; at += loops->depth) {
        int64_t depth = EXG_MIN(k - at, loops->depth);

        loops->pack_a(
            EXG_MIN(m - i, TILE_ROWS), depth, panels + exg_gemm_bytes_a_at(loops, m, at, depth, i),
            exg_matrix_at(memory, a, 0, i, at), a->dtype == EXG_DTYPE_I8, a->row, a->column);
    }
}

static void pack_rows(void *context, uint32_t block)
{
    const bytes_run *r = context;
    const exg_gemm *g = r->g;
    int64_t batch = block / g->row_tiles;

    exg_gemm_bytes_pack_rows(g->byte_loops, &g->a, g->m, g->k, block % g->row_tiles * TILE_ROWS,
                             exg_matrix_at(r->a, &g->a, batch, 0, 0),
                             r->a_panels + batch * a_panels_bytes(g));
}

/* TILE_COLUMNS columns of b from j over the whole depth. */
static void pack_tile(const exg_gemm_bytes_loops *loops, const exg_matrix *b, int64_t n, int64_t k,
                      const char *memory, int64_t j, char *panels)
{
    for (int64_t at = 0; at < k; at += loops->depth) {
        int64_t depth = EXG_MIN(k - at, loops->depth);

        loops->pack_b(
            EXG_MIN(n - j, TILE_COLUMNS), depth, panels + b_panel_at(loops, n, at, depth, j),
            exg_matrix_at(memory, b, 0, at, j), b->dtype == EXG_DTYPE_I8, b->column, b->row);
    }
}

static void pack_columns(void *context, uint32_t block)
{
    const bytes_run *r = context;
    const exg_gemm *g = r->g;
    int64_t batch = block / g->column_tiles;

    pack_tile(g->byte_loops, &g->b, g->n, g->k, exg_matrix_at(r->b, &g->b, batch, 0, 0),
              block % g->column_tiles * TILE_COLUMNS, r->b_panels + batch * b_panels_bytes(g));
}

/* ---- tiles --------------------------------------------------------------------------- */

/* alpha, beta * self and the dtype, for `n` columns of one row. */
static void finish_row(const bytes_run *r, int64_t batch, int64_t i, int64_t j, uint32_t n,
                       int32_t *sums)
{
    const exg_gemm *g = r->g;
    const exg_convert_loops *convert = EXG_LOOPS(exg_loops_convert);
    int32_t self[TILE_COLUMNS] = {0};

    if (g->has_self) {
        convert->load[g->self.dtype](n, self, exg_matrix_at(r->self, &g->self, batch, i, j),
                                     g->self.column);
    }
    for (uint32_t k = 0; k < n && (g->has_self || g->alpha != 1); k++) {
        sums[k] = (int32_t)((uint32_t)(int64_t)g->alpha * (uint32_t)sums[k] +
                            (uint32_t)(int64_t)g->beta * (uint32_t)self[k]);
    }
    convert->store[g->c_dtype](
        n, r->c + ((batch * g->m + i) * g->n + j) * exg_dtype_bytes(g->c_dtype), 1, sums);
}

static void tile(void *context, uint32_t block)
{
    const bytes_run *r = context;
    const exg_gemm *g = r->g;
    const exg_gemm_bytes_loops *loops = g->byte_loops;
    int64_t tiles = g->row_tiles * g->column_tiles;
    int64_t batch = block / tiles;
    int64_t i = block % tiles / g->column_tiles * TILE_ROWS;
    int64_t j = block % tiles % g->column_tiles * TILE_COLUMNS;
    int64_t rows = EXG_MIN(g->m - i, TILE_ROWS);
    int64_t columns = EXG_MIN(g->n - j, TILE_COLUMNS);
    const char *a = r->a_panels + batch * a_panels_bytes(g);
    const char *b = r->b_panels + (g->b_is_packed ? 0 : batch * b_panels_bytes(g));
    _Alignas(64) int32_t sums[TILE_ROWS * TILE_COLUMNS];

    for (int64_t k = 0; k < g->k; k += loops->depth) {
        int64_t depth = EXG_MIN(g->k - k, loops->depth);

        loops->block(rows, columns, depth, a + exg_gemm_bytes_a_at(loops, g->m, k, depth, i),
                     g->a.dtype == EXG_DTYPE_I8, b + b_panel_at(loops, g->n, k, depth, j),
                     g->b.dtype == EXG_DTYPE_I8, sums, TILE_COLUMNS, k > 0);
    }
    for (int64_t row = 0; row < rows; row++) {
        finish_row(r, batch, i + row, j, (uint32_t)columns, sums + row * TILE_COLUMNS);
    }
}

void exg_gemm_bytes_run(const exg_gemm *g, const exg_kernel_call *call, void *workspace, void *c,
                        const void *a, const void *b, const void *self)
{
    bytes_run r = {g, call, a, b, self, c, workspace, NULL};

    r.b_panels = r.a_panels + g->packed_b_offset;
    if (g->b_is_packed) {
        r.b_panels = (char *)(uintptr_t)b;
    } else {
        exg_pool_run(call->pool, pack_columns, &r, (uint32_t)(g->batch * g->column_tiles));
    }
    exg_pool_run(call->pool, pack_rows, &r, (uint32_t)(g->batch * g->row_tiles));
    exg_pool_run(call->pool, tile, &r, (uint32_t)(g->batch * g->row_tiles * g->column_tiles));
}

/* ---- packing, once ----------------------------------------------------------------------- */

/* Whether the matrix is of bytes; sets the packed sizes if that pays. */
bool exg_gemm_bytes_packing_plan(exg_kernel_call *call, const exg_gemm_packing *p)
{
    const exg_gemm_bytes_loops *loops = EXG_LOOPS_BYTES(exg_loops_gemm_bytes);
    exg_tensor *packed = &call->outputs[0];

    if (exg_dtype_is_byte(p->b.dtype) && p->k > 0 && p->n >= PACKING_MIN / p->k) {
        packed->sizes[0] = exg_gemm_bytes_row_to(loops, false, p->k);
        packed->sizes[1] = exg_round_up(p->n, loops->columns);
        packed->sizes[2] = 1;
    }
    return exg_dtype_is_byte(p->b.dtype);
}

static void packing_block(void *context, uint32_t block)
{
    const bytes_run *r = context;
    const exg_gemm_packing *p = r->call->params;

    pack_tile(EXG_LOOPS_BYTES(exg_loops_gemm_bytes), &p->b, p->n, p->k, r->b,
              (int64_t)block * TILE_COLUMNS, r->b_panels);
}

void exg_gemm_bytes_packing_run(const exg_kernel_call *call, const void *b)
{
    const exg_gemm_packing *p = call->params;
    bytes_run r = {.call = call, .b = b, .b_panels = call->outputs[0].data};

    exg_pool_run(call->pool, packing_block, &r, exg_block_count(p->n, TILE_COLUMNS));
}
