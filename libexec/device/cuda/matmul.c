/* matmul.c - mm, bmm, addmm, baddbmm, linear, as one product of matrices of any strides. */
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/device/cuda/product.h"
#include "libexec/kernels/cpu/common.h"

/* The last two dimensions, and the one before as batch. */
static cuda_matrix matrix_of(const exg_tensor *t)
{
    return (cuda_matrix){t->rank > 2 ? t->strides[t->rank - 3] : 0, t->strides[t->rank - 2],
                         t->strides[t->rank - 1]};
}

/* A tensor that broadcasts to (batch, m, n). */
static cuda_matrix broadcast_matrix(const exg_tensor *t)
{
    cuda_matrix m = {0};
    int64_t *strides[] = {&m.column, &m.row, &m.batch};

    for (uint32_t d = 0; d < t->rank; d++) {
        uint32_t from = t->rank - 1 - d;

        *strides[d] = t->sizes[from] == 1 ? 0 : t->strides[from];
    }
    return m;
}

/* The host's own rule: one compute type, no bools, no f8. */
static exg_status check(exg_dtype a, exg_dtype b, exg_dtype c, exg_error *err)
{
    exg_compute computes[3];

    if (!exg_compute_of(a, &computes[0]) || !exg_compute_of(b, &computes[1]) ||
        !exg_compute_of(c, &computes[2]) || computes[0] != computes[1] ||
        computes[0] != computes[2] || a == EXG_DTYPE_B8 ||
        (computes[0] == EXG_COMPUTE_F32 && (exg_dtype_bytes(a) == 1 || exg_dtype_bytes(b) == 1))) {
        return exg_unsupported_dtype("a matrix product", a, err);
    }
    return EXG_OK;
}

/* Operands a, b and self by number; self may be absent, and is added beta times. */
static exg_status gemm(exg_kernel_call *call, uint32_t a, uint32_t b, uint32_t self,
                       const cuda_gemm_params *params, exg_error *err)
{
    exg_cuda_product product = {.of = *params,
                                .a_dtype = call->inputs[a].dtype,
                                .b_dtype = call->inputs[b].dtype,
                                .c_dtype = call->outputs[0].dtype,
                                .a = {EXG_CUDA_INPUT, (uint8_t)a, 0},
                                .b = {EXG_CUDA_INPUT, (uint8_t)b, 0},
                                .c = {EXG_CUDA_OUTPUT, 0, 0}};

    EXG_TRY(check(product.a_dtype, product.b_dtype, product.c_dtype, err));
    if (exg_cuda_has(call, self) && params->beta != 0) {
        product.addends[product.addend_count++] =
            (exg_cuda_addend){.at = {EXG_CUDA_INPUT, (uint8_t)self, 0},
                              .dtype = call->inputs[self].dtype,
                              .matrix = params->of_self,
                              .factor = params->beta};
    }
    call->takes_epilogue = true;
    EXG_TRY(exg_cuda_step_begin(call, err));
    return exg_cuda_add_product(call, &product, err);
}

/* (batch, m, k) by (batch, k, n). */
static exg_status product(exg_kernel_call *call, uint32_t a, uint32_t b, uint32_t self, double beta,
                          double alpha, exg_error *err)
{
    const exg_tensor *x = &call->inputs[a];
    const exg_tensor *y = &call->inputs[b];
    cuda_gemm_params params = {.batch = x->rank > 2 ? x->sizes[0] : 1,
                               .m = x->sizes[x->rank - 2],
                               .k = x->sizes[x->rank - 1],
                               .n = y->sizes[y->rank - 1],
                               .of_a = matrix_of(x),
                               .of_b = matrix_of(y),
                               .alpha = alpha,
                               .beta = beta};

    if (exg_cuda_has(call, self)) {
        params.of_self = broadcast_matrix(&call->inputs[self]);
    }
    return gemm(call, a, b, self, &params, err);
}

#define NO_SELF 9 /* no product has so many operands */

static exg_status mm_prepare(exg_kernel_call *call, exg_error *err)
{
    return product(call, 0, 1, NO_SELF, 0, 1, err);
}

static exg_status bmm_prepare(exg_kernel_call *call, exg_error *err)
{
    return product(call, 0, 1, NO_SELF, 0, 1, err);
}

static exg_status addmm_prepare(exg_kernel_call *call, exg_error *err)
{
    return product(call, 1, 2, 0, exg_call_float(call, 3), exg_call_float(call, 4), err);
}

static exg_status baddbmm_prepare(exg_kernel_call *call, exg_error *err)
{
    return product(call, 1, 2, 0, exg_call_float(call, 3), exg_call_float(call, 4), err);
}

/* (batch, m, k) by as many of the matrices (g, k, n), where those are. */
static exg_status gathered_product_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *x = &call->inputs[0];
    const exg_tensor *y = &call->inputs[1];
    const exg_tensor *index = &call->inputs[2];
    exg_cuda_product product = {.of = {.batch = x->sizes[0],
                                       .m = x->sizes[1],
                                       .k = x->sizes[2],
                                       .n = y->sizes[2],
                                       .of_a = matrix_of(x),
                                       .of_b = matrix_of(y),
                                       .alpha = 1,
                                       .matrices = y->sizes[0],
                                       .index_stride = index->strides[0],
                                       .wraps = exg_call_bool(call, 3)},
                                .a_dtype = x->dtype,
                                .b_dtype = y->dtype,
                                .c_dtype = call->outputs[0].dtype,
                                .a = {EXG_CUDA_INPUT, 0, 0},
                                .b = {EXG_CUDA_INPUT, 1, 0},
                                .c = {EXG_CUDA_OUTPUT, 0, 0},
                                .index = index};

    EXG_TRY(check(product.a_dtype, product.b_dtype, product.c_dtype, err));
    EXG_TRY(exg_require_index("gathered_product", index->dtype, err));
    call->takes_epilogue = true;
    EXG_TRY(exg_cuda_step_begin(call, err));
    return exg_cuda_add_product(call, &product, err);
}

EXG_CUDA_KERNEL(gathered_product, EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_SEES_EPILOGUE);
EXG_CUDA_KERNEL(mm, EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_SEES_EPILOGUE);
EXG_CUDA_KERNEL(bmm, EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_SEES_EPILOGUE);
EXG_CUDA_KERNEL(addmm, EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_SEES_EPILOGUE);
EXG_CUDA_KERNEL(baddbmm, EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_SEES_EPILOGUE);

/* input (..., k) contiguous, weight (n, k) of any strides; all rows of input are one matrix. */
static exg_status linear_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *input = &call->inputs[0];
    const exg_tensor *weight = &call->inputs[1];
    bool is_vector = weight->rank == 1; /* (k): the result has no last dimension */
    cuda_gemm_params params = {.batch = 1,
                               .m = 1,
                               .k = input->sizes[input->rank - 1],
                               .n = is_vector ? 1 : weight->sizes[0],
                               .alpha = 1,
                               .beta = 1};

    for (uint32_t d = 0; d + 1 < input->rank; d++) {
        params.m *= input->sizes[d];
    }
    params.of_a = (cuda_matrix){0, params.k, 1};
    params.of_b =
        (cuda_matrix){0, weight->strides[weight->rank - 1], is_vector ? 0 : weight->strides[0]};
    params.of_self = (cuda_matrix){0, 0, 1};
    return gemm(call, 0, 1, 2, &params, err);
}

EXG_CUDA_KERNEL(linear, EXG_KERNEL_ANY_STRIDES_1 | EXG_KERNEL_SEES_EPILOGUE);
