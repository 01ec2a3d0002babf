/* distances.c - between every row of one matrix and every row of another, a batch of them.
 *
 *   x (batch, p, m)   y (batch, r, m)   result (batch, p, r)
 *
 * Rows of y become columns first, so that neighbours are distances from one row of x. Sums are kept
 * in double.
 */
#include "libexec/kernels/cpu/common.h"
#include "libexec/kernels/loops/distance.h"

#include <math.h>

#define COLUMNS 256 /* results at a time */

typedef struct distances_params {
    exg_distance kind;
    int64_t batch, p, r, m;
    int64_t rows_of_block;
    exg_dtype dtype;
    exg_move move; /* of y */
    const exg_distance_loops *loops;
} distances_params;

static exg_distance kind_of(double p)
{
    return p == 0   ? EXG_DISTANCE_COUNT
           : p == 1 ? EXG_DISTANCE_SUM
           : p == 2 ? EXG_DISTANCE_SQUARES
                    : EXG_DISTANCE_GREATEST;
}

/* (x, y, p: 0, 1, 2 or infinity) */
static exg_status distances_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *x = &call->inputs[0];
    const exg_tensor *y = &call->inputs[1];
    distances_params *p = EXG_NEW(call->arena, distances_params);
    uint32_t bytes = exg_dtype_bytes(x->dtype);

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if ((x->dtype != EXG_DTYPE_F32 && x->dtype != EXG_DTYPE_F64) || y->dtype != x->dtype) {
        return exg_unsupported_dtype("distances", x->dtype, err);
    }
    p->kind = kind_of(exg_call_float(call, 2));
    p->dtype = x->dtype;
    p->p = x->sizes[x->rank - 2];
    p->r = y->sizes[y->rank - 2];
    p->m = x->sizes[x->rank - 1];
    p->batch = 1;
    for (uint32_t d = 0; d + 2 < x->rank; d++) {
        p->batch *= x->sizes[d];
    }
    exg_move_plan(&p->move, 3, (const int64_t[]){p->batch, p->m, p->r},
                  (const int64_t[]){p->m * p->r, p->r, 1}, (const int64_t[]){p->m * p->r, 1, p->m},
                  bytes);
    p->rows_of_block = exg_items_per_block(p->r * (p->m + 1), EXG_GRAIN);
    p->loops = EXG_LOOPS(exg_loops_distance);
    call->workspace_bytes = (uint64_t)(p->batch * p->m * p->r) * bytes;
    call->params = p;
    return EXG_OK;
}

/* Results [first, first + count) of a row of x. */
static void some_distances(const exg_kernel_call *call, int64_t row, int64_t first, int64_t count)
{
    const distances_params *p = call->params;
    const int64_t y = row / p->p * p->m * p->r + first;
    const int64_t to = row * p->r + first;
    double sums[COLUMNS] = {0};

    for (int64_t m = 0; m < p->m; m++) {
        const int64_t at = row * p->m + m;

        if (p->dtype == EXG_DTYPE_F64) {
            p->loops->f64[p->kind](count, sums, ((const double *)call->inputs[0].data)[at],
                                   (const double *)call->workspace + y + m * p->r);
        } else {
            p->loops->f32[p->kind](count, sums, ((const float *)call->inputs[0].data)[at],
                                   (const float *)call->workspace + y + m * p->r);
        }
    }
    for (int64_t k = 0; k < count; k++) {
        double sum = p->kind == EXG_DISTANCE_SQUARES ? sqrt(sums[k]) : sums[k];

        if (p->dtype == EXG_DTYPE_F64) {
            ((double *)call->outputs[0].data)[to + k] = sum;
        } else {
            ((float *)call->outputs[0].data)[to + k] = (float)sum;
        }
    }
}

static void distances_block(void *context, uint32_t block)
{
    const exg_kernel_call *call = context;
    const distances_params *p = call->params;
    int64_t end = EXG_MIN(((int64_t)block + 1) * p->rows_of_block, p->batch * p->p);

    for (int64_t row = (int64_t)block * p->rows_of_block; row < end; row++) {
        for (int64_t first = 0; first < p->r; first += COLUMNS) {
            some_distances(call, row, first, EXG_MIN(p->r - first, COLUMNS));
        }
    }
}

static void distances_run(const exg_kernel_call *call)
{
    const distances_params *p = call->params;
    exg_kernel_call own = *call;

    exg_move_run(&p->move, call->pool, call->workspace, call->inputs[1].data);
    exg_pool_run(call->pool, distances_block, &own,
                 exg_block_count(p->batch * p->p, p->rows_of_block));
}

const exg_kernel exg_kernel_distances = {
    .name = "distances",
    .prepare = distances_prepare,
    .run = distances_run,
};
