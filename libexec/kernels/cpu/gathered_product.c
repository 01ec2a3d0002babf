/* gathered_product.c - each of several products by a matrix that an index picks, where it is:
 *
 *   self (b, m, k)   mat2 (g, k, n)   index (b)   result (b, m, n)
 *
 * An index outside [0, g), or with `wraps` [-g, g), raises INDEX; its result is zero. Products of
 * one row (m = 1) by the same matrix are computed some at a time: it is read once for them.
 */
#include "libexec/kernels/cpu/gemm.h"

#define ROWS     8 /* of one matrix, at a time */
#define ROWS_MIN 3 /* fewer are multiplied one by one */

typedef struct gathered_params {
    exg_gemm gemm; /* one of them */
    exg_gemm rows; /* ROWS of them, by one matrix */
    bool has_rows;
    uint64_t rows_workspace, self_room, result_room, order_room; /* in the workspace */
    int64_t count, matrices;
    int64_t self_bytes, matrix_bytes, result_bytes; /* from one to the next */
    exg_dtype index_dtype;
    bool wraps;
} gathered_params;

/* Where so many bytes of the workspace are. */
static uint64_t room_for(exg_kernel_call *call, int64_t bytes)
{
    const uint64_t at = (call->workspace_bytes + 63) & ~UINT64_C(63);

    call->workspace_bytes = at + (uint64_t)bytes;
    return at;
}

/* Several rows by one matrix, as dense matrices in the workspace. */
static exg_status plan_rows(exg_kernel_call *call, gathered_params *p, exg_error *err)
{
    const exg_gemm *g = &p->gemm;

    p->has_rows = call->inputs[0].sizes[1] == 1 && p->count >= ROWS_MIN;
    if (!p->has_rows) {
        return EXG_OK;
    }
    p->rows = (exg_gemm){.batch = 1,
                         .m = ROWS,
                         .k = call->inputs[0].sizes[2],
                         .n = call->inputs[1].sizes[2],
                         .b = exg_matrix_of(&call->inputs[1]),
                         .c_dtype = g->c_dtype,
                         .alpha = 1};
    p->rows.a = (exg_matrix){call->inputs[0].dtype, 0, p->rows.k, 1, 0};
    p->rows_workspace = room_for(call, 0);
    EXG_TRY(exg_gemm_plan(&p->rows, call, err));
    p->self_room = room_for(call, ROWS * p->rows.k * exg_dtype_bytes(p->rows.a.dtype));
    p->result_room = room_for(call, ROWS * p->result_bytes);
    p->order_room = room_for(call, (p->matrices + 1 + p->count) * (int64_t)sizeof(int64_t));
    return EXG_OK;
}

static exg_status gathered_product_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *self = &call->inputs[0];
    const exg_tensor *mat2 = &call->inputs[1];
    const exg_tensor *index = &call->inputs[2];
    gathered_params *p = EXG_NEW(call->arena, gathered_params);
    const int64_t bytes = exg_dtype_bytes(self->dtype);

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_require_index("gathered_product", index->dtype, err));
    *p = (gathered_params){.count = self->sizes[0], .matrices = mat2->sizes[0]};
    p->gemm = (exg_gemm){.batch = 1,
                         .m = self->sizes[1],
                         .k = self->sizes[2],
                         .n = mat2->sizes[2],
                         .a = exg_matrix_of(self),
                         .b = exg_matrix_of(mat2),
                         .c_dtype = call->outputs[0].dtype,
                         .alpha = 1};
    p->self_bytes = self->strides[0] * bytes;
    p->matrix_bytes = mat2->strides[0] * (int64_t)exg_dtype_bytes(mat2->dtype);
    p->result_bytes =
        self->sizes[1] * mat2->sizes[2] * (int64_t)exg_dtype_bytes(call->outputs[0].dtype);
    p->index_dtype = index->dtype;
    p->wraps = exg_call_bool(call, 3);
    EXG_TRY(exg_gemm_plan(&p->gemm, call, err));
    EXG_TRY(plan_rows(call, p, err));
    call->takes_epilogue = false; /* which counts elements of all */
    call->params = p;
    return EXG_OK;
}

/* The matrix of product i, or -1. */
static int64_t matrix_at(const exg_kernel_call *call, int64_t i)
{
    const gathered_params *p = call->params;
    const int64_t given =
        exg_index_at(call->inputs[2].data, p->index_dtype, i * call->inputs[2].strides[0]);
    const int64_t at = given + (p->wraps && given < 0 ? p->matrices : 0);

    if (at < 0 || at >= p->matrices) {
        exg_raise_index(call, given, p->matrices);
        return -1;
    }
    return at;
}

static void multiply(const exg_kernel_call *call, int64_t i, int64_t matrix)
{
    const gathered_params *p = call->params;
    char *result = (char *)call->outputs[0].data + i * p->result_bytes;

    if (matrix < 0) {
        memset(result, 0, (size_t)p->result_bytes);
    } else {
        exg_gemm_run(&p->gemm, call, call->workspace, result,
                     (const char *)call->inputs[0].data + i * p->self_bytes,
                     (const char *)call->inputs[1].data + matrix * p->matrix_bytes, NULL);
    }
}

/* Row i of self, dense. */
static void bring_row(const exg_kernel_call *call, int64_t i, char *to)
{
    const gathered_params *p = call->params;
    const int64_t bytes = exg_dtype_bytes(p->rows.a.dtype);
    const int64_t step = call->inputs[0].strides[2] * bytes;
    const char *from = (const char *)call->inputs[0].data + i * p->self_bytes;

    if (step == bytes) {
        memcpy(to, from, (size_t)(p->rows.k * bytes));
        return;
    }
    for (int64_t k = 0; k < p->rows.k; k++) {
        memcpy(to + k * bytes, from + k * step, (size_t)bytes);
    }
}

/* `count` rows of self, up to ROWS, by one matrix. */
static void multiply_rows(const exg_kernel_call *call, const int64_t *rows, int64_t count,
                          int64_t matrix)
{
    const gathered_params *p = call->params;
    const int64_t row_bytes = p->rows.k * (int64_t)exg_dtype_bytes(p->rows.a.dtype);
    char *self = (char *)call->workspace + p->self_room;
    char *result = (char *)call->workspace + p->result_room;

    for (int64_t r = 0; r < count; r++) {
        bring_row(call, rows[r], self + r * row_bytes);
    }
    memset(self + count * row_bytes, 0, (size_t)((ROWS - count) * row_bytes));
    exg_gemm_run(&p->rows, call, (char *)call->workspace + p->rows_workspace, result, self,
                 (const char *)call->inputs[1].data + matrix * p->matrix_bytes, NULL);
    for (int64_t r = 0; r < count; r++) {
        memcpy((char *)call->outputs[0].data + rows[r] * p->result_bytes,
               result + r * p->result_bytes, (size_t)p->result_bytes);
    }
}

/* Sorted by their matrices. */
static void run_by_matrix(const exg_kernel_call *call)
{
    const gathered_params *p = call->params;
    int64_t *ends = (void *)((char *)call->workspace + p->order_room);
    int64_t *order = ends + p->matrices + 1;

    memset(ends, 0, (size_t)(p->matrices + 1) * sizeof(*ends));
    for (int64_t i = 0; i < p->count; i++) {
        ends[matrix_at(call, i) + 1]++; /* 0: of none */
    }
    for (int64_t m = 0; m < p->matrices; m++) {
        ends[m + 1] += ends[m];
    }
    for (int64_t i = p->count; i-- > 0;) {
        order[--ends[matrix_at(call, i) + 1]] = i; /* ends become beginnings */
    }
    for (int64_t m = -1; m < p->matrices; m++) {
        const int64_t end = m + 1 < p->matrices ? ends[m + 2] : p->count;

        for (int64_t at = ends[m + 1], count; at < end; at += count) {
            count = EXG_MIN(end - at, ROWS);
            if (m >= 0 && count >= ROWS_MIN) {
                multiply_rows(call, order + at, count, m);
            } else {
                count = 1;
                multiply(call, order[at], m);
            }
        }
    }
}

static void gathered_product_run(const exg_kernel_call *call)
{
    const gathered_params *p = call->params;

    if (p->has_rows) {
        run_by_matrix(call);
        return;
    }
    for (int64_t i = 0; i < p->count; i++) {
        multiply(call, i, matrix_at(call, i));
    }
}

const exg_kernel exg_kernel_gathered_product = {
    .name = "gathered_product",
    .prepare = gathered_product_prepare,
    .run = gathered_product_run,
    .flags = EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_RAISES,
};
