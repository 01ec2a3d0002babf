/* gemm_packing.c - a matrix that is b of many products, as the tiles of gemm.c read it. */
#include "libexec/kernels/cpu/gemm.h"

#define PACKING_MIN 4096 /* elements of a matrix that is worth it */

exg_status exg_gemm_packing_plan(exg_kernel_call *call, const exg_matrix *b, int64_t m, int64_t n,
                                 int64_t k, exg_error *err)
{
    exg_gemm_packing *p = EXG_NEW(call->arena, exg_gemm_packing);
    exg_tensor *packed = &call->outputs[0];
    exg_compute compute;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *p = (exg_gemm_packing){*b, n, k, NULL};
    call->params = p;
    packed->rank = 3;
    packed->sizes[0] = 0;
    if (exg_gemm_bytes_packing_plan(call, p)) {
        return EXG_OK;
    }
    if (!exg_compute_of(b->dtype, &compute) || exg_dtype_bytes(b->dtype) < 2 ||
        (compute != EXG_COMPUTE_F32 && compute != EXG_COMPUTE_F64) || n < 2 || k < 1 ||
        n < PACKING_MIN / k || (m == 1 && b->row == 1)) {
        return EXG_OK;
    }
    p->loops =
        compute == EXG_COMPUTE_F64 ? EXG_LOOPS(exg_loops_gemm_f64) : EXG_LOOPS(exg_loops_gemm_f32);
    if (b->dtype == EXG_DTYPE_BF16 && EXG_GEMM_PAIRS() != NULL) {
        p->loops = EXG_GEMM_PAIRS();
    }
    packed->sizes[0] = exg_round_up(k, p->loops->group);
    packed->sizes[1] = exg_round_up(n, p->loops->columns);
    packed->sizes[2] = exg_dtype_bytes(b->dtype);
    return EXG_OK;
}

/* Panels of two-byte elements. */
static void pack_narrow(const exg_gemm_packing *p, int64_t columns, int64_t depth, uint16_t *to,
                        const uint16_t *from)
{
    int64_t width = p->loops->columns;

    for (int64_t j = 0; j < columns; j += width) {
        for (int64_t k = 0; k < depth; k++, to += width) {
            for (int64_t i = 0; i < width; i++) {
                to[i] = j + i < columns ? from[(j + i) * p->b.column + k * p->b.row] : 0;
            }
        }
    }
}

/* Where the panels from column j on begin, a multiple of their width, of the rows of a block of the
 * depth from k on. */
static int64_t panels_at(const exg_gemm_packing *p, int64_t k, int64_t j)
{
    int64_t depth = EXG_MIN(p->k - k, p->loops->depth);

    return (k * exg_round_up(p->n, p->loops->columns) + j * exg_round_up(depth, p->loops->group)) *
           exg_dtype_bytes(p->b.dtype);
}

typedef struct packing_run {
    const exg_gemm_packing *p;
    const char *b;
    char *panels;
} packing_run;

/* EXG_GEMM_COLUMNS columns over the whole depth. */
static void packing_block(void *context, uint32_t block)
{
    const packing_run *r = context;
    const exg_gemm_packing *p = r->p;
    int64_t bytes = exg_dtype_bytes(p->b.dtype);
    int64_t step = exg_round_up(EXG_GEMM_COLUMNS, p->loops->columns);
    int64_t j = block * step;
    int64_t columns = EXG_MIN(p->n - j, step);

    for (int64_t k = 0; k < p->k; k += p->loops->depth) {
        int64_t depth = EXG_MIN(p->k - k, p->loops->depth);
        char *to = r->panels + panels_at(p, k, j);
        const char *from = exg_matrix_at(r->b, &p->b, 0, k, j);

        if (bytes == p->loops->panel_bytes) {
            p->loops->pack(p->loops->columns, columns, depth, to, from, p->b.dtype, p->b.column,
                           p->b.row);
        } else {
            pack_narrow(p, columns, depth, (uint16_t *)(void *)to,
                        (const uint16_t *)(const void *)from);
        }
    }
}

void exg_gemm_packing_run(const exg_kernel_call *call, const void *b)
{
    packing_run r = {call->params, b, call->outputs[0].data};

    if (r.p->loops == NULL) {
        exg_gemm_bytes_packing_run(call, b);
        return;
    }
    exg_pool_run(call->pool, packing_block, &r,
                 exg_block_count(r.p->n, exg_round_up(EXG_GEMM_COLUMNS, r.p->loops->columns)));
}

/* Where the cell of row d and column j of a panel of B begins, in elements. */
static int64_t cell_at(const exg_gemm_loops *loops, int64_t d, int64_t j)
{
    const int64_t sides = loops->columns / loops->side;
    const int64_t cells = loops->group / loops->cell;
    const int64_t row =
        (d / loops->group * sides + j / loops->side) * cells + d % loops->group / loops->cell;

    return (row * loops->side + j % loops->side) * loops->cell;
}

void exg_gemm_packing_column(const exg_gemm_packing *packing, const void *panels, int64_t j,
                             void *column)
{
    const exg_gemm_loops *loops = packing->loops;
    const int64_t bytes = exg_dtype_bytes(packing->b.dtype);
    const int64_t width = loops->columns;
    char *to = column;

    for (int64_t k = 0; k < packing->k; k += loops->depth) {
        int64_t depth = EXG_MIN(packing->k - k, loops->depth);
        const char *panel = (const char *)panels + panels_at(packing, k, j / width * width);

        for (int64_t d = 0; d < depth; d += loops->cell) {
            const char *from = panel + cell_at(loops, d, j % width) * bytes;
            int64_t count = EXG_MIN(depth - d, loops->cell) * bytes;

            if (count == 4) { /* a copy of known length is a move */
                memcpy(to, from, 4);
            } else {
                memcpy(to, from, (size_t)count);
            }
            to += count;
        }
    }
}
