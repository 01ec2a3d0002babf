/* reduce.c - sum, mean, prod, amax, amin, any, all, var, std over any dimensions; softmax. */
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/kernel_table.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/kernels/cpu/common.h"

#define FEW_TERMS  64 /* up to here one thread takes an output */
#define BLOCKS_MAX (1 << 20)

/* The dimensions of a mask, or the others, as a view. */
static cuda_view window_of(const exg_tensor *in, uint32_t mask, bool inside, int64_t *count)
{
    exg_tensor part = {.dtype = in->dtype};

    *count = 1;
    for (uint32_t d = 0; d < in->rank; d++) {
        if (((mask >> d & 1) != 0) == inside) {
            part.sizes[part.rank] = in->sizes[d];
            part.strides[part.rank++] = in->strides[d];
            *count *= in->sizes[d];
        }
    }
    return exg_cuda_view(&part);
}

static exg_status reduce(exg_kernel_call *call, const char *kind, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    exg_dtype out = call->outputs[0].dtype;
    uint32_t mask = exg_call_dim_mask(call, 1, in->rank);
    bool is_var = strcmp(kind, "VAR") == 0 || strcmp(kind, "STD") == 0;
    bool of_input = kind[0] == 'A'; /* AMAX, AMIN, ANY, ALL: in the input's type */
    cuda_reduce_params params = {0};
    exg_compute loaded;
    exg_compute stored;
    exg_compute compute;
    exg_cuda_launch *launch = NULL;
    bool by_thread;

    if (!exg_compute_of(in->dtype, &loaded) || !exg_compute_of(out, &stored)) {
        return exg_unsupported_dtype("a reduction", in->dtype, err);
    }
    compute = of_input ? loaded : stored;
    if ((strcmp(kind, "MEAN") == 0 || is_var) && compute > EXG_COMPUTE_F64) {
        return exg_unsupported_dtype("mean or var", out, err);
    }
    if (is_var) {
        params.correction = exg_call_is_none(call, 2) ? 1 : exg_call_float(call, 2);
    }
    params.kept = window_of(in, mask, false, &params.outputs);
    params.walked = window_of(in, mask, true, &params.terms);
    by_thread = params.terms <= FEW_TERMS;
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (params.outputs == 0) {
        return EXG_OK;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "reduce", "reduce", "i0 o0", params, &launch, err,
                         "-DIN=%s -DOUT=%s -D%s %s %s", exg_cuda_dtype(in->dtype),
                         exg_cuda_dtype(out), kind, compute <= EXG_COMPUTE_F64 ? "-DREAL" : "",
                         by_thread ? "-DBY_THREAD" : ""));
    exg_cuda_grid(launch, params.outputs);
    if (!by_thread) {
        launch->blocks[0] = (uint32_t)EXG_MIN(params.outputs, BLOCKS_MAX);
    }
    return EXG_OK;
}

#define REDUCTION(name, kind)                                                                      \
    static exg_status name##_prepare(exg_kernel_call *call, exg_error *err)                        \
    {                                                                                              \
        return reduce(call, #kind, err);                                                           \
    }                                                                                              \
    EXG_CUDA_KERNEL(name, EXG_KERNEL_ANY_STRIDES)

REDUCTION(sum, SUM);
REDUCTION(mean, MEAN);
REDUCTION(prod, PROD);
REDUCTION(amax, AMAX);
REDUCTION(amin, AMIN);
REDUCTION(any, ANY);
REDUCTION(all, ALL);
REDUCTION(var, VAR);
REDUCTION(std, STD);

/* ---- softmax ----------------------------------------------------------------------------- */

static exg_status softmax(exg_kernel_call *call, const char *is_log, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    exg_around around = exg_around_dim(in, exg_call_dim(call, 1, in->rank));
    cuda_softmax_params params = {
        .rows = around.outer * around.inner, .size = around.size, .inner = around.inner};
    exg_cuda_launch *launch = NULL;

    EXG_TRY(exg_require_float("softmax", in->dtype, err));
    EXG_TRY(exg_require_float("softmax", call->outputs[0].dtype, err));
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (params.rows * params.size == 0) {
        return EXG_OK;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "softmax", "softmax", "i0 o0", params, &launch, err,
                         "-DIN=%s -DOUT=%s %s %s", exg_cuda_dtype(in->dtype),
                         exg_cuda_dtype(call->outputs[0].dtype),
                         in->dtype == EXG_DTYPE_F64 ? "-DIS_DOUBLE" : "", is_log));
    launch->blocks[0] = (uint32_t)EXG_MIN(params.rows, BLOCKS_MAX);
    return EXG_OK;
}

static exg_status softmax_prepare(exg_kernel_call *call, exg_error *err)
{
    return softmax(call, "", err);
}

static exg_status log_softmax_prepare(exg_kernel_call *call, exg_error *err)
{
    return softmax(call, "-DIS_LOG", err);
}

EXG_CUDA_KERNEL(softmax, EXG_KERNEL_IN_PLACE);
EXG_CUDA_KERNEL(log_softmax, EXG_KERNEL_IN_PLACE);
