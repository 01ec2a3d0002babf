/* create.c - tensors from numbers: full, scalar_tensor, arange, draws. */
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/kernel_table.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/kernels/cpu/common.h"

exg_status exg_cuda_add_fill(exg_kernel_call *call, const uint64_t element[2], exg_error *err)
{
    const exg_tensor *out = &call->outputs[0];
    cuda_fill_params params = {.numel = exg_tensor_numel(out), .element = {element[0], element[1]}};
    exg_cuda_launch *launch = NULL;

    if (params.numel == 0) {
        return EXG_OK;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "create", "fill", "o0", params, &launch, err, "-DELEMENT=element_%u",
                         exg_dtype_bytes(out->dtype)));
    exg_cuda_grid(launch, params.numel);
    return EXG_OK;
}

static exg_status fill(exg_kernel_call *call, uint32_t position, exg_error *err)
{
    exg_dtype dtype = call->outputs[0].dtype;
    uint64_t element[2] = {0, 0};

    if (!exg_call_element(call, position, dtype, element)) {
        return exg_unsupported_dtype("full", dtype, err);
    }
    EXG_TRY(exg_cuda_step_begin(call, err));
    return exg_cuda_add_fill(call, element, err);
}

static exg_status full_prepare(exg_kernel_call *call, exg_error *err)
{
    return fill(call, 1, err);
}

static exg_status scalar_tensor_prepare(exg_kernel_call *call, exg_error *err)
{
    return fill(call, 0, err);
}

EXG_CUDA_KERNEL(full, 0);
EXG_CUDA_KERNEL(scalar_tensor, 0);

static exg_status arange_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *out = &call->outputs[0];
    cuda_arange_params params = {.numel = exg_tensor_numel(out),
                                 .start = exg_call_float(call, 0),
                                 .step = exg_call_float(call, 2),
                                 .int_start = exg_call_int(call, 0),
                                 .int_step = exg_call_int(call, 2)};
    exg_compute compute;
    exg_cuda_launch *launch = NULL;

    if (!exg_compute_of(out->dtype, &compute)) {
        return exg_unsupported_dtype("arange", out->dtype, err);
    }
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (params.numel == 0) {
        return EXG_OK;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "create", "arange", "o0", params, &launch, err, "-DOUT=%s %s",
                         exg_cuda_dtype(out->dtype),
                         compute <= EXG_COMPUTE_F64 ? "-DIS_FLOAT" : ""));
    exg_cuda_grid(launch, params.numel);
    return EXG_OK;
}

EXG_CUDA_KERNEL(arange, 0);

static exg_status draw(exg_kernel_call *call, const char *kind, bool is_bits, exg_error *err)
{
    exg_dtype dtype = call->outputs[0].dtype;
    cuda_draw_params params = {.numel = exg_tensor_numel(&call->outputs[0]),
                               .stream = (uint32_t)exg_call_int(call, 1),
                               .digits = dtype == EXG_DTYPE_F16    ? 11
                                         : dtype == EXG_DTYPE_BF16 ? 8
                                                                   : 24};
    bool is_wide = exg_dtype_bytes(dtype) == 8;
    exg_cuda_launch *launch = NULL;

    if (is_bits ? dtype != EXG_DTYPE_I64 : exg_require_float("random", dtype, NULL) != EXG_OK) {
        return exg_unsupported_dtype("random numbers", dtype, err);
    }
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (params.numel == 0) {
        return EXG_OK;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "random", "draw", "o0 r", params, &launch, err, "-DOUT=%s -D%s %s",
                         exg_cuda_dtype(dtype), kind, is_wide ? "-DIS_WIDE" : ""));
    exg_cuda_grid(launch, (params.numel + 1) / 2);
    return EXG_OK;
}

static exg_status draw_uniform_prepare(exg_kernel_call *call, exg_error *err)
{
    return draw(call, "UNIFORM", false, err);
}

static exg_status draw_normal_prepare(exg_kernel_call *call, exg_error *err)
{
    return draw(call, "NORMAL", false, err);
}

static exg_status draw_bits_prepare(exg_kernel_call *call, exg_error *err)
{
    return draw(call, "BITS", true, err);
}

EXG_CUDA_KERNEL(draw_uniform, 0);
EXG_CUDA_KERNEL(draw_normal, 0);
EXG_CUDA_KERNEL(draw_bits, 0);

/* Each element its own distribution. */
static exg_status draw_each(exg_kernel_call *call, const char *distribution, exg_error *err)
{
    exg_dtype dtype = call->outputs[0].dtype;
    bool is_of_two = call->input_count > 1;
    cuda_draw_each_params params = {.numel = exg_tensor_numel(&call->outputs[0]),
                                    .stream = (uint32_t)exg_call_int(call, call->input_count)};
    exg_cuda_launch *launch = NULL;

    EXG_TRY(exg_require_float("random numbers", dtype, err));
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (params.numel == 0) {
        return EXG_OK;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "random", "draw_each", is_of_two ? "i0 i1 o0 r f" : "i0 iz o0 r f",
                         params, &launch, err, "-DOUT=%s -DDISTRIBUTION=exg_draw_%s",
                         exg_cuda_dtype(dtype), distribution));
    exg_cuda_grid(launch, params.numel);
    return EXG_OK;
}

#define DRAW_EACH(name)                                                                            \
    static exg_status draw_##name##_prepare(exg_kernel_call *call, exg_error *err)                 \
    {                                                                                              \
        return draw_each(call, #name, err);                                                        \
    }                                                                                              \
    EXG_CUDA_KERNEL(draw_##name, 0)

DRAW_EACH(bernoulli);
DRAW_EACH(binomial);
DRAW_EACH(gamma);
DRAW_EACH(poisson);
