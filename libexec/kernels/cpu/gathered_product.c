/* gathered_product.c - each of several products by a matrix that an index picks, where it is:
 *
 *   self (b, m, k)   mat2 (g, k, n)   index (b)   result (b, m, n)
 *
 * An index outside [0, g), or with `wraps` [-g, g), raises INDEX; its result is zero.
 */
#include "libexec/kernels/cpu/gemm.h"

typedef struct gathered_params {
    exg_gemm gemm; /* one of them */
    int64_t count, matrices;
    int64_t self_bytes, matrix_bytes, result_bytes; /* from one to the next */
    exg_dtype index_dtype;
    bool wraps;
} gathered_params;

static exg_matrix matrix_of(const exg_tensor *t)
{
    return (exg_matrix){t->dtype, 0, t->strides[1], t->strides[2], 0};
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
                         .a = matrix_of(self),
                         .b = matrix_of(mat2),
                         .c_dtype = call->outputs[0].dtype,
                         .alpha = 1};
    p->self_bytes = self->strides[0] * bytes;
    p->matrix_bytes = mat2->strides[0] * (int64_t)exg_dtype_bytes(mat2->dtype);
    p->result_bytes = p->gemm.m * p->gemm.n * (int64_t)exg_dtype_bytes(p->gemm.c_dtype);
    p->index_dtype = index->dtype;
    p->wraps = exg_call_bool(call, 3);
    EXG_TRY(exg_gemm_plan(&p->gemm, call, err));
    call->takes_epilogue = false; /* which counts elements of all */
    call->params = p;
    return EXG_OK;
}

static void gathered_product_run(const exg_kernel_call *call)
{
    const gathered_params *p = call->params;
    const char *self = call->inputs[0].data;
    const char *matrices = call->inputs[1].data;
    const char *index = call->inputs[2].data;
    const int64_t step = call->inputs[2].strides[0];
    char *result = call->outputs[0].data;

    for (int64_t i = 0; i < p->count; i++) {
        const int64_t given = exg_index_at(index, p->index_dtype, i * step);
        const int64_t at = given + (p->wraps && given < 0 ? p->matrices : 0);

        if (at < 0 || at >= p->matrices) {
            exg_raise_index(call, given, p->matrices);
            memset(result + i * p->result_bytes, 0, (size_t)p->result_bytes);
        } else {
            exg_gemm_run(&p->gemm, call, call->workspace, result + i * p->result_bytes,
                         self + i * p->self_bytes, matrices + at * p->matrix_bytes, NULL);
        }
    }
}

const exg_kernel exg_kernel_gathered_product = {
    .name = "gathered_product",
    .prepare = gathered_product_prepare,
    .run = gathered_product_run,
    .flags = EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_RAISES,
};
