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
#define INTEGER_TERMS   8 /* of a row of the result at a time */

typedef union integers {
    int32_t i32[INTEGER_COLUMNS];
    int64_t i64[INTEGER_COLUMNS];
} integers;

/* `count` elements of a, from (i, k) on, each of eight bytes. */
static void factors_of(const integer_run *r, int64_t batch, int64_t i, int64_t k, int64_t count,
                       int64_t *factors)
{
    const exg_gemm *g = r->g;
    const exg_convert_loops *convert = EXG_LOOPS(exg_loops_convert);
    int32_t narrow[INTEGER_TERMS];
    bool is_long = g->compute == EXG_COMPUTE_I64;

    convert->load[g->a.dtype]((uint32_t)count, is_long ? (void *)factors : narrow,
                              exg_matrix_at(r->a, &g->a, batch, i, k), g->a.column);
    for (int64_t t = 0; t < count && !is_long; t++) {
        factors[t] = narrow[t];
    }
}

/* sums += a's row i times columns [j, j + n) of b. */
static void add_products(const integer_run *r, int64_t batch, int64_t i, int64_t j, uint32_t n,
                         int64_t *sums)
{
    const exg_gemm *g = r->g;
    const exg_convert_loops *convert = EXG_LOOPS(exg_loops_convert);
    const exg_row_integer_loops *rows = EXG_LOOPS(exg_loops_row_integer);
    bool is_long = g->compute == EXG_COMPUTE_I64;
    const exg_integer_loops *loops = is_long ? &rows->i64 : &rows->i32;
    bool is_direct = exg_compute_is_storage(g->b.dtype) && g->b.column == 1;
    int64_t stride = is_direct ? g->b.row : (int64_t)sizeof(integers) / (is_long ? 8 : 4);
    int64_t factors[INTEGER_TERMS];
    integers brought[INTEGER_TERMS];

    for (int64_t k = 0; k < g->k; k += INTEGER_TERMS) {
        int64_t terms = EXG_MIN(g->k - k, INTEGER_TERMS);

        factors_of(r, batch, i, k, terms, factors);
        for (int64_t t = 0; t < terms && !is_direct; t++) {
            convert->load[g->b.dtype](n, &brought[t], exg_matrix_at(r->b, &g->b, batch, k + t, j),
                                      g->b.column);
        }
        loops->add_products(
            n, sums, is_direct ? exg_matrix_at(r->b, &g->b, batch, k, j) : (const void *)brought,
            stride, terms, factors);
    }
}

/* Columns [j, j + n) of one row, in the compute type; sums wrap. */
static void integer_columns(const integer_run *r, int64_t batch, int64_t i, int64_t j, uint32_t n)
{
    const exg_gemm *g = r->g;
    const exg_convert_loops *convert = EXG_LOOPS(exg_loops_convert);
    bool is_long = g->compute == EXG_COMPUTE_I64;
    int64_t sums[INTEGER_COLUMNS] = {0};
    integers row;

    add_products(r, batch, i, j, n, sums);
    if (g->has_self) {
        convert->load[g->self.dtype](n, &row, exg_matrix_at(r->self, &g->self, batch, i, j),
                                     g->self.column);
    }
    for (uint32_t c = 0; c < n; c++) {
        uint64_t sum = (uint64_t)sums[c] * (uint64_t)(int64_t)g->alpha;

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
