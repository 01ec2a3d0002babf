/* matmul.c - mm, bmm, addmm, baddbmm, linear: operands as matrices of gemm.h. */
#include "libexec/kernels/cpu/gemm.h"

/* A tensor that broadcasts to (batch, m, n). */
static exg_matrix broadcast_matrix(const exg_tensor *t)
{
    exg_matrix m = {.dtype = t->dtype};
    int64_t *strides[] = {&m.column, &m.row, &m.batch};

    for (uint32_t d = 0; d < t->rank; d++) {
        uint32_t from = t->rank - 1 - d;

        *strides[d] = t->sizes[from] == 1 ? 0 : t->strides[from];
    }
    return m;
}

static exg_status prepare(exg_kernel_call *call, const exg_tensor *a, const exg_tensor *b,
                          const exg_tensor *self, double beta, double alpha, exg_error *err)
{
    exg_gemm *g = EXG_NEW(call->arena, exg_gemm);

    if (g == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    g->batch = a->rank > 2 ? a->sizes[0] : 1;
    g->m = a->sizes[a->rank - 2];
    g->k = a->sizes[a->rank - 1];
    g->n = b->sizes[b->rank - 1];
    g->a = exg_matrix_of(a);
    g->b = exg_matrix_of(b);
    g->b_is_packed = call->packed != NULL;
    g->c_dtype = call->outputs[0].dtype;
    g->alpha = alpha;
    if (self != NULL && beta != 0) {
        g->has_self = true;
        g->beta = beta;
        g->self = broadcast_matrix(self);
    }
    call->params = g;
    return exg_gemm_plan(g, call, err);
}

/* The second matrix, packed or where it is. */
static const void *second(const exg_kernel_call *call, uint32_t operand)
{
    return call->packed != NULL ? call->packed->data : call->inputs[operand].data;
}

static exg_status mm_prepare(exg_kernel_call *call, exg_error *err)
{
    return prepare(call, &call->inputs[0], &call->inputs[1], NULL, 0, 1, err);
}

static void mm_run(const exg_kernel_call *call)
{
    exg_gemm_run(call->params, call, call->workspace, call->outputs[0].data, call->inputs[0].data,
                 second(call, 1), NULL);
}

static exg_status addmm_prepare(exg_kernel_call *call, exg_error *err)
{
    return prepare(call, &call->inputs[1], &call->inputs[2], &call->inputs[0],
                   exg_call_float(call, 3), exg_call_float(call, 4), err);
}

static void addmm_run(const exg_kernel_call *call)
{
    exg_gemm_run(call->params, call, call->workspace, call->outputs[0].data, call->inputs[1].data,
                 second(call, 2), call->inputs[0].data);
}

/* Packs the matrix that is operand OPERAND of a product. */
#define MATRIX_PACKER(packer, operand)                                                             \
    static exg_status packer##_prepare(exg_kernel_call *call, exg_error *err)                      \
    {                                                                                              \
        const exg_tensor *b = &call->inputs[operand];                                              \
        exg_matrix matrix = exg_matrix_of(b);                                                      \
                                                                                                   \
        return exg_gemm_packing_plan(call, &matrix, call->inputs[operand - 1].sizes[0],            \
                                     b->sizes[1], b->sizes[0], err);                               \
    }                                                                                              \
    static void packer##_run(const exg_kernel_call *call)                                          \
    {                                                                                              \
        exg_gemm_packing_run(call, call->inputs[operand].data);                                    \
    }                                                                                              \
    static const exg_kernel packer = {                                                             \
        .name = #packer, .prepare = packer##_prepare, .run = packer##_run}

MATRIX_PACKER(mm_pack, 1);
MATRIX_PACKER(addmm_pack, 2);

#define PRODUCT_KERNEL(kernel, prepares, runs, packer_, packs_)                                    \
    const exg_kernel exg_kernel_##kernel = {                                                       \
        .name = #kernel,                                                                           \
        .prepare = prepares,                                                                       \
        .run = runs,                                                                               \
        .flags = EXG_KERNEL_ANY_STRIDES,                                                           \
        .packer = packer_,                                                                         \
        .packs = packs_,                                                                           \
    }

PRODUCT_KERNEL(mm, mm_prepare, mm_run, &mm_pack, 1);
PRODUCT_KERNEL(bmm, mm_prepare, mm_run, NULL, 0);
PRODUCT_KERNEL(addmm, addmm_prepare, addmm_run, &addmm_pack, 2);
PRODUCT_KERNEL(baddbmm, addmm_prepare, addmm_run, NULL, 0);

/* ---- linear ----------------------------------------------------------------------- */

/* The weight, transposed. */
static exg_matrix weight_matrix(const exg_tensor *weight)
{
    return (exg_matrix){weight->dtype, 0, weight->strides[weight->rank - 1],
                        weight->rank == 1 ? 0 : weight->strides[0], 0};
}

/* Of all dims but the last. */
static int64_t rows_of(const exg_tensor *input)
{
    int64_t rows = 1;

    for (uint32_t d = 0; d + 1 < input->rank; d++) {
        rows *= input->sizes[d];
    }
    return rows;
}

/* input (..., k) contiguous, weight (n, k) of any strides; all rows of input are one matrix. */
static exg_status linear_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *input = &call->inputs[0];
    const exg_tensor *weight = &call->inputs[1];
    const exg_tensor *bias = call->input_count > 2 ? &call->inputs[2] : NULL;
    bool is_vector = weight->rank == 1; /* (k): the result has no last dimension */
    exg_gemm *g = EXG_NEW(call->arena, exg_gemm);

    if (g == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    g->batch = 1;
    g->k = input->sizes[input->rank - 1];
    g->m = rows_of(input);
    g->n = is_vector ? 1 : weight->sizes[0];
    g->a = (exg_matrix){input->dtype, 0, g->k, 1, 0};
    g->b = weight_matrix(weight);
    g->b_is_packed = call->packed != NULL;
    g->c_dtype = call->outputs[0].dtype;
    g->alpha = 1;
    if (bias != NULL && !exg_tensor_is_absent(bias)) {
        g->has_self = true;
        g->beta = 1;
        g->self = (exg_matrix){bias->dtype, 0, 0, 1, 0};
    }
    call->params = g;
    return exg_gemm_plan(g, call, err);
}

static void linear_run(const exg_kernel_call *call)
{
    exg_gemm_run(call->params, call, call->workspace, call->outputs[0].data, call->inputs[0].data,
                 second(call, 1), call->input_count > 2 ? call->inputs[2].data : NULL);
}

static exg_status linear_pack_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *weight = &call->inputs[1];
    exg_matrix b = weight_matrix(weight);

    return exg_gemm_packing_plan(call, &b, rows_of(&call->inputs[0]),
                                 weight->rank == 1 ? 1 : weight->sizes[0],
                                 weight->sizes[weight->rank - 1], err);
}

static void linear_pack_run(const exg_kernel_call *call)
{
    exg_gemm_packing_run(call, call->inputs[1].data);
}

static const exg_kernel linear_pack = {
    .name = "linear_pack", .prepare = linear_pack_prepare, .run = linear_pack_run};

const exg_kernel exg_kernel_linear = {
    .name = "linear",
    .prepare = linear_prepare,
    .run = linear_run,
    .flags = EXG_KERNEL_ANY_STRIDES_1,
    .packer = &linear_pack,
    .packs = 1,
};
