/* gemm_integer.c - products of integers, a row of the result at a time. */
#include "libexec/kernels/cpu/gemm.h"

typedef struct integer_run {
    const exg_gemm *g;
    const char *a;
    const char *b;
    const char *self;
    char *c;
} integer_run;

#define INTEGER_COLUMNS 512

/* Columns [j, j + n) of one row, in the compute type; sums wrap. */
static void integer_columns(const integer_run *r, int64_t batch, int64_t i, int64_t j, uint32_t n)
{
    const exg_gemm *g = r->g;
    const exg_convert_loops *convert = EXG_LOOPS(exg_loops_convert);
    bool is_long = g->compute == EXG_COMPUTE_I64;
    union {
        int32_t i32[INTEGER_COLUMNS];
        int64_t i64[INTEGER_COLUMNS];
    } row;
    union {
        int32_t i32;
        int64_t i64;
    } x;
    uint64_t sums[INTEGER_COLUMNS] = {0};

    for (int64_t k = 0; k < g->k; k++) {
        convert->load[g->a.dtype](1, &x, exg_matrix_at(r->a, &g->a, batch, i, k), 1);
        convert->load[g->b.dtype](n, &row, exg_matrix_at(r->b, &g->b, batch, k, j), g->b.column);
        for (uint32_t c = 0; c < n; c++) {
            sums[c] += is_long ? (uint64_t)x.i64 * (uint64_t)row.i64[c]
                               : (uint64_t)((int64_t)x.i32 * row.i32[c]);
        }
    }
    if (g->has_self) {
        convert->load[g->self.dtype](n, &row, exg_matrix_at(r->self, &g->self, batch, i, j),
                                     g->self.column);
    }
    for (uint32_t c = 0; c < n; c++) {
        uint64_t sum = sums[c] * (uint64_t)(int64_t)g->alpha;

        if (g->has_self) {
            sum += (uint64_t)(int64_t)g->beta * (uint64_t)(is_long ? row.i64[c] : row.i32[c]);
        }
        if (is_long) {
            row.i64[c] = (int64_t)sum;
        } else {
            row.i32[c] = (int32_t)sum;
        }
    }
    convert->store[g->c_dtype](
        n, r->c + ((batch * g->m + i) * g->n + j) * exg_dtype_bytes(g->c_dtype), 1, &row);
}

static void integer_row(void *context, uint32_t block)
{
    const integer_run *r = context;
    const exg_gemm *g = r->g;

    for (int64_t j = 0; j < g->n; j += INTEGER_COLUMNS) {
        integer_columns(r, block / g->m, block % g->m, j,
                        (uint32_t)EXG_MIN(g->n - j, INTEGER_COLUMNS));
    }
}

void exg_gemm_integer_run(const exg_gemm *g, const exg_kernel_call *call, void *c, const void *a,
                          const void *b, const void *self)
{
    integer_run r = {g, a, b, self, c};

    exg_pool_run(call->pool, integer_row, &r, (uint32_t)(g->batch * g->m));
}
