/* gemm_finish.c - a product's last steps: what is added, the dtype, the epilogue. */
#include "libexec/kernels/cpu/gemm.h"
#include "libexec/kernels/pointwise.h"

#define FINISH_CHUNK 256
#define FINISH_ROWS  EXG_GEMM_ROWS_MAX /* whole, brought to their dtype at once */

typedef union finish_values {
    float f32[FINISH_CHUNK];
    double f64[FINISH_CHUNK];
} finish_values;

/* c = alpha c + beta self, where there is one */
static void scale_row(const exg_gemm *g, uint32_t n, char *c, const finish_values *self)
{
    for (uint32_t k = 0; k < n && g->compute == EXG_COMPUTE_F64; k++) {
        ((double *)c)[k] =
            g->alpha * ((double *)c)[k] + (self != NULL ? g->beta * self->f64[k] : 0);
    }
    for (uint32_t k = 0; k < n && g->compute == EXG_COMPUTE_F32; k++) {
        ((float *)c)[k] =
            (float)g->alpha * ((float *)c)[k] + (self != NULL ? (float)g->beta * self->f32[k] : 0);
    }
}

/* alpha, beta * self and the dtype, over a part of one row of C, whose sums are at `c`. */
static void finish_row(const exg_gemm_work *r, int64_t batch, int64_t i, int64_t j, int64_t count,
                       char *c)
{
    const exg_gemm *g = r->g;
    const exg_convert_loops *convert = EXG_LOOPS(exg_loops_convert);
    bool adds = g->has_self && !g->starts;
    bool scales = adds || g->alpha != 1;

    for (int64_t first = j; first < j + count; first += FINISH_CHUNK) {
        uint32_t n = (uint32_t)EXG_MIN(j + count - first, FINISH_CHUNK);
        int64_t at = (batch * g->m + i) * g->n + first;
        finish_values self;

        if (adds) {
            convert->load[g->self.dtype](
                n, &self, exg_matrix_at(r->self, &g->self, batch, i, first), g->self.column);
        }
        if (adds && g->alpha == 1 && g->beta == 1) {
            if (g->compute == EXG_COMPUTE_F64) {
                EXG_LOOPS(exg_loops_row_f64)->add(n, (double *)(void *)c, self.f64);
            } else {
                EXG_LOOPS(exg_loops_row_f32)->add(n, (float *)(void *)c, self.f32);
            }
        } else if (scales) {
            scale_row(g, n, c, adds ? &self : NULL);
        }
        if (g->has_result) {
            convert->store[g->c_dtype](n, r->c + at * exg_dtype_bytes(g->c_dtype), 1, c);
        }
        c += n * exg_gemm_real_bytes(g);
    }
}

void exg_gemm_finish(const exg_gemm_work *r, int64_t batch, int64_t i, int64_t rows, int64_t j,
                     int64_t columns, void *sums, int64_t stride)
{
    const exg_gemm *g = r->g;
    int64_t first = (batch * g->m + i) * g->n + j;

    if (g->has_result && columns == g->n && columns == stride && rows <= FINISH_ROWS &&
        (!g->has_self || g->starts) && g->alpha == 1) {
        EXG_LOOPS(exg_loops_convert)
            ->store[g->c_dtype]((uint32_t)(rows * columns),
                                r->c + first * exg_dtype_bytes(g->c_dtype), 1, sums);
    } else if ((g->has_self && !g->starts) || g->alpha != 1 || g->has_result) {
        for (int64_t row = 0; row < rows; row++) {
            finish_row(r, batch, i + row, j, columns,
                       (char *)sums + row * stride * exg_gemm_real_bytes(g));
        }
    }
    if (r->call->epilogue == NULL) {
        return;
    }
    if (columns == g->n) {
        exg_pointwise_epilogue(r->call, first, 1, rows * columns, 0);
    } else {
        exg_pointwise_epilogue(r->call, first, rows, columns, g->n);
    }
}
