/* matmul.c - mm, bmm, addmm, baddbmm, linear, as one product of matrices of any strides: by
 * cuBLASLt where it is there and takes it, else by gemm.cu.
 */
#include "libexec/device/cuda/blas.h"
#include "libexec/kernels/cpu/common.h"

#define TILE        64 /* of gemm.cu */
#define BATCHES_MAX 65535

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
        computes[0] != computes[2] || a == EXG_DTYPE_B8 || a == EXG_DTYPE_U64 ||
        (computes[0] == EXG_COMPUTE_F32 && (exg_dtype_bytes(a) == 1 || exg_dtype_bytes(b) == 1))) {
        return exg_unsupported_dtype("a matrix product", a, err);
    }
    return EXG_OK;
}

/* With the epilogue in it where it can be; else that follows. */
static exg_status by_library(exg_kernel_call *call, uint32_t a, uint32_t b, uint32_t self,
                             const cuda_gemm_params *params, bool *taken, exg_error *err)
{
    exg_dtype dtype = call->outputs[0].dtype;
    bool has_self = exg_cuda_has(call, self) && params->beta != 0;
    exg_cuda_product product = {.of = *params,
                                .dtype = dtype,
                                .c_dtype = dtype,
                                .a = {EXG_CUDA_INPUT, (uint8_t)a, 0},
                                .b = {EXG_CUDA_INPUT, (uint8_t)b, 0},
                                .c = {EXG_CUDA_OUTPUT, 0, 0}};
    exg_cuda_product whole;
    exg_cuda_epilogue e;

    *taken = false;
    if (call->inputs[a].dtype != dtype || call->inputs[b].dtype != dtype ||
        (has_self && call->inputs[self].dtype != dtype)) {
        return EXG_OK;
    }
    if (has_self) {
        product.addends[product.addend_count++] = (exg_cuda_addend){
            {EXG_CUDA_INPUT, (uint8_t)self, 0}, params->of_self, params->beta};
    }
    if (exg_cuda_read_epilogue(call, params->n, &e)) {
        whole = product;
        whole.activation = e.activation;
        if (e.adds) {
            whole.addends[whole.addend_count++] = (exg_cuda_addend){
                e.added,
                {e.adds_row ? 0 : params->m * params->n, e.adds_row ? 0 : params->n, 1},
                1
            };
        }
        EXG_TRY(exg_cuda_blas_add(call, &whole, taken, err));
        if (*taken) {
            return EXG_OK;
        }
    }
    EXG_TRY(exg_cuda_blas_add(call, &product, taken, err));
    return *taken ? exg_cuda_add_epilogue(call, err) : EXG_OK;
}

/* Operands a, b and self by number; self may be absent. */
static exg_status gemm(exg_kernel_call *call, uint32_t a, uint32_t b, uint32_t self,
                       cuda_gemm_params *params, exg_error *err)
{
    exg_dtype dtype = call->outputs[0].dtype;
    bool has_self = exg_cuda_has(call, self) && params->beta != 0;
    int64_t tiles = exg_ceil_div(params->m, TILE) * exg_ceil_div(params->n, TILE);
    exg_cuda_launch *launch = NULL;
    bool taken;

    EXG_TRY(check(call->inputs[a].dtype, call->inputs[b].dtype, dtype, err));
    if (tiles > INT32_MAX) {
        return exg_cuda_refuse("a product of so many tiles", err);
    }
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (params->batch * params->m * params->n == 0) {
        return EXG_OK;
    }
    call->takes_epilogue = true;
    EXG_TRY(by_library(call, a, b, self, params, &taken, err));
    if (taken) {
        return EXG_OK;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "gemm", "gemm", "i0 i1 i2 o0 e", *params, &launch, err,
                         "-DA=%s -DB=%s -DRESULT=%s %s%s %s",
                         exg_cuda_dtype(call->inputs[a].dtype),
                         exg_cuda_dtype(call->inputs[b].dtype), exg_cuda_dtype(dtype),
                         has_self ? "-DHAS_SELF -DSELF=" : "",
                         has_self ? exg_cuda_dtype(call->inputs[self].dtype) : "",
                         !exg_dtype_is_float(dtype) ? "-DIS_INTEGER"
                         : dtype == EXG_DTYPE_F64   ? "-DIS_DOUBLE"
                                                    : ""));
    launch->slots[0].index = (uint8_t)a;
    launch->slots[1].index = (uint8_t)b;
    launch->slots[2].index = (uint8_t)self;
    launch->blocks[0] = (uint32_t)tiles;
    launch->blocks[1] = (uint32_t)EXG_MIN(params->batch, BATCHES_MAX);
    return EXG_OK;
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

EXG_CUDA_ROW_OF(mm, EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_SEES_EPILOGUE);
EXG_CUDA_ROW_OF(bmm, EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_SEES_EPILOGUE);
EXG_CUDA_ROW_OF(addmm, EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_SEES_EPILOGUE);
EXG_CUDA_ROW_OF(baddbmm, EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_SEES_EPILOGUE);

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

EXG_CUDA_ROW_OF(linear, EXG_KERNEL_ANY_STRIDES_1 | EXG_KERNEL_SEES_EPILOGUE);
