/* gemm.h - the matrix product behind mm, bmm, addmm, baddbmm, linear. */
#ifndef EXG_LIBEXEC_KERNELS_CPU_GEMM_H
#define EXG_LIBEXEC_KERNELS_CPU_GEMM_H

#include "libexec/kernels/cpu/common.h"

/* A matrix a batch of which lies `batch` apart; strides in elements, 0 broadcasts. */
typedef struct exg_matrix {
    exg_dtype dtype;
    int64_t batch, row, column;
    int64_t count; /* matrices there are: batch b takes b % count. 0: one each */
} exg_matrix;

/* The last two dimensions, and the one before as batch. */
static inline exg_matrix exg_matrix_of(const exg_tensor *t)
{
    exg_matrix m = {.dtype = t->dtype};

    m.row = t->strides[t->rank - 2];
    m.column = t->strides[t->rank - 1];
    m.batch = t->rank > 2 ? t->strides[t->rank - 3] : 0;
    return m;
}

static inline const char *exg_matrix_at(const char *base, const exg_matrix *m, int64_t batch,
                                        int64_t row, int64_t column)
{
    batch = m->count > 0 ? batch % m->count : batch;
    return base + (batch * m->batch + row * m->row + column * m->column) *
                      (int64_t)exg_dtype_bytes(m->dtype);
}

/* Packs columns [j, j + columns) of b, rows [k, k + depth), into panels (loops.h). */
typedef void exg_pack_b(const void *context, const void *b, int64_t batch, int64_t k, int64_t depth,
                        int64_t j, int64_t columns, void *panels);

/* Packs rows [i, i + rows) of a, columns [k, k + depth), into panels. */
typedef void exg_pack_a(const void *context, const void *a, int64_t batch, int64_t i, int64_t rows,
                        int64_t k, int64_t depth, void *panels);

/* c (batch, m, n) = alpha * a (batch, m, k) * b (batch, k, n) + beta * self; c dense. */
typedef struct exg_gemm {
    int64_t batch, m, n, k;
    exg_matrix a, b, self;
    exg_dtype c_dtype;
    bool has_self;
    double alpha, beta;
    exg_pack_b *pack_b; /* NULL: b is a matrix in memory */
    exg_pack_a *pack_a; /* the same of a; b is packed then */
    const void *pack_context;
    bool packs_loops; /* pack_b() makes panels of whatever loops, by their pack() */
    bool b_is_packed; /* b is what exg_gemm_packing_run made of it */
    /* chosen by the plan */
    enum {
        EXG_GEMM_TILES,
        EXG_GEMM_STREAM,
        EXG_GEMM_DOT,
        EXG_GEMM_AXPY,
        EXG_GEMM_NARROW,
        EXG_GEMM_TURNED,
        EXG_GEMM_BYTES,
        EXG_GEMM_INTEGER
    } path;
    const exg_gemm_loops *loops;
    const exg_gemm_bytes_loops *byte_loops;
    exg_compute compute;
    bool is_swapped;    /* computes the transpose: m and n, a and b have changed places */
    bool packs_a_first; /* all of A before the tiles */
    bool packs_b_first; /* all of B */
    int64_t rows_of_tile, columns_of_tile;
    int64_t row_tiles, column_tiles;
    uint64_t packed_bytes; /* in the workspace: packed A, or A in the real type */
    uint64_t packed_b_offset;
    uint64_t result_offset;      /* c in the real type, when its dtype is another */
    bool has_result;             /* sums are of another dtype than c */
    bool is_near;                /* sums of a tile are where the task is, until they are c's */
    bool brings_a;               /* of few rows: into the workspace, in the real type */
    int64_t slices, slice_depth; /* of one row: of the depth */
    uint64_t slices_offset;
    bool starts; /* self is one row, which tiles begin with */
    bool widens_start;
    uint64_t start_offset; /* that row in the real type, when its dtype is another */
} exg_gemm;

static inline uint32_t exg_gemm_real_bytes(const exg_gemm *g)
{
    return g->loops->real_bytes;
}

/* Chooses a path; the workspace it needs is added to the call's. UNSUPPORTED dtypes. */
exg_status exg_gemm_plan(exg_gemm *gemm, exg_kernel_call *call, exg_error *err);
/* With the call's pool and epilogue. */
void exg_gemm_run(const exg_gemm *gemm, const exg_kernel_call *call, void *workspace, void *c,
                  const void *a, const void *b, const void *self);

#define EXG_GEMM_COLUMNS  96        /* of b that a task packs at a time, up to whole panels */
#define EXG_GEMM_ROWS_MAX 2048      /* of A in a tile */
#define EXG_GEMM_TASKS    16        /* what a product should fall into, if it is large */
#define EXG_GEMM_LINE     64        /* bytes */
#define EXG_GEMM_MANY     INT64_MAX /* rows, or as many as there are of what is near */

/* A product that is being computed. */
typedef struct exg_gemm_work {
    const exg_gemm *g;
    const exg_kernel_call *call;
    const char *a;
    const char *b;
    const char *self;
    const char *start; /* what rows of c begin with, n reals, or NULL */
    char *c;
    char *packed;
    char *result;  /* c, or the workspace; not of tiles that are near */
    int64_t batch; /* where tasks begin: where A is packed first, that of A */
    int64_t batch_step;
    char *packed_b;
} exg_gemm_work;

/* Where the sums of C from (i, j) on are in the result, rows n reals apart. */
static inline void *exg_gemm_result_at(const exg_gemm_work *r, int64_t batch, int64_t i, int64_t j)
{
    return r->result + ((batch * r->g->m + i) * r->g->n + j) * exg_gemm_real_bytes(r->g);
}

/* gemm_finish.c: alpha, beta * self, the dtype and the call's epilogue over a part of C, whose sums
 * have rows `stride` reals apart. */
void exg_gemm_finish(const exg_gemm_work *r, int64_t batch, int64_t i, int64_t rows, int64_t j,
                     int64_t columns, void *sums, int64_t stride);

/* gemm_rows.c: false if it is not of few rows. */
bool exg_gemm_rows_plan(exg_gemm *gemm);
void exg_gemm_rows_run(exg_gemm_work *r);

/* gemm_turned.c: false if it is not of bf16 by a larger matrix that is dense along the depth, on a
 * machine whose loops turn sums. */
bool exg_gemm_turned_plan(exg_gemm *gemm);
void exg_gemm_turned_run(exg_gemm_work *r);

/* A matrix that is b of many products, as their tiles read it: panel after panel of a
 * depth of the loops' after the other, in its own dtype. */
typedef struct exg_gemm_packing {
    exg_matrix b;
    int64_t n, k;
    const exg_gemm_loops *loops; /* NULL: of bytes */
} exg_gemm_packing;

/* The loops that multiply bf16 as it is, or NULL. */
#define EXG_GEMM_PAIRS() EXG_LOOPS_PAIRS(exg_loops_gemm_pairs)

/* Bytes that one row of A, or column of B, takes in panels of `depth`. */
static inline int64_t exg_gemm_panel_bytes(const exg_gemm_loops *loops, int64_t depth)
{
    return exg_round_up(depth, loops->group) * loops->panel_bytes;
}

/* Sets the sizes of the call's output, the packed bytes; none when it does not pay for products
 * with m rows: one row reads a matrix that is dense along k as fast where it is. */
exg_status exg_gemm_packing_plan(exg_kernel_call *call, const exg_matrix *b, int64_t m, int64_t n,
                                 int64_t k, exg_error *err);
void exg_gemm_packing_run(const exg_kernel_call *call, const void *b);
/* Column j, dense, out of what that made; not of bytes. */
void exg_gemm_packing_column(const exg_gemm_packing *packing, const void *panels, int64_t j,
                             void *column);

/* gemm_bytes.c: the same for matrices of bytes. Bytes that one row of A, or column of B, takes in
 * panels of `depth`, and in all up to depth k. */
int64_t exg_gemm_bytes_row(const exg_gemm_bytes_loops *loops, bool is_a, int64_t depth);
int64_t exg_gemm_bytes_row_to(const exg_gemm_bytes_loops *loops, bool is_a, int64_t k);

#define EXG_GEMM_BYTES_ROWS 64 /* of A that a task packs at a time */

/* Those of A (m, k) from row `i` on, of the whole depth; where the panels of rows from `i`, over
 * `depth` from k on, begin among its panels. */
void exg_gemm_bytes_pack_rows(const exg_gemm_bytes_loops *loops, const exg_matrix *a, int64_t m,
                              int64_t k, int64_t i, const char *memory, char *panels);
int64_t exg_gemm_bytes_a_at(const exg_gemm_bytes_loops *loops, int64_t m, int64_t k, int64_t depth,
                            int64_t i);

bool exg_dtype_is_byte(exg_dtype dtype);
bool exg_gemm_is_of_bytes(const exg_gemm *gemm);
void exg_gemm_bytes_plan(exg_gemm *gemm, exg_kernel_call *call);
void exg_gemm_bytes_run(const exg_gemm *gemm, const exg_kernel_call *call, void *workspace, void *c,
                        const void *a, const void *b, const void *self);
bool exg_gemm_bytes_packing_plan(exg_kernel_call *call, const exg_gemm_packing *packing);
void exg_gemm_bytes_packing_run(const exg_kernel_call *call, const void *b);

/* gemm_integer.c: of integers, where that does not take them. */
void exg_gemm_integer_run(const exg_gemm *gemm, const exg_kernel_call *call, void *c, const void *a,
                          const void *b, const void *self);

#endif
