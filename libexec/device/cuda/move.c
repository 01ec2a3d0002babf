/* move.c - kernels that bring elements elsewhere: copy, cat, tril, triu. */
#include "libexec/device/cuda/rows.h"
#include "libexec/kernels/cpu/common.h"

/* `in` to a window of the same sizes on the output, from element `offset` of it. */
static exg_status add_copy(exg_kernel_call *call, uint32_t input, const exg_tensor *to,
                           int64_t offset, exg_error *err)
{
    const exg_tensor *in = &call->inputs[input];
    uint32_t bytes = exg_dtype_bytes(in->dtype);
    cuda_copy_params params = {.numel = exg_tensor_numel(to)};
    exg_cuda_launch *launch = NULL;

    if (params.numel == 0) {
        return EXG_OK;
    }
    exg_cuda_windows(in, to, &params.from, &params.to);
    EXG_TRY(EXG_CUDA_ADD(call, "copy", "copy", "i0 o0", params, &launch, err,
                         "-DELEMENT=element_%u", bytes));
    launch->slots[0].index = (uint8_t)input;
    launch->slots[1].offset = (uint64_t)offset * bytes;
    exg_cuda_grid(launch, params.numel);
    return EXG_OK;
}

static exg_status copy_prepare(exg_kernel_call *call, exg_error *err)
{
    EXG_TRY(exg_cuda_step_begin(call, err));
    return add_copy(call, 0, &call->outputs[0], 0, err);
}

EXG_CUDA_ROW_OF(copy, EXG_KERNEL_ANY_STRIDES);

static exg_status cat_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *out = &call->outputs[0];
    uint32_t dim = exg_call_dim(call, 1, out->rank);
    int64_t at = 0;

    if (call->input_count > UINT8_MAX) {
        return exg_cuda_refuse("cat of more than 255 tensors", err);
    }
    EXG_TRY(exg_cuda_step_begin(call, err));
    for (uint32_t i = 0; i < call->input_count; i++) {
        const exg_tensor *in = &call->inputs[i];
        exg_tensor to = *in;

        if (in->rank == 1 && in->sizes[0] == 0) {
            continue; /* an empty vector goes with everything */
        }
        if (in->dtype != out->dtype) {
            return exg_cuda_refuse("cat of several dtypes", err);
        }
        memcpy(to.strides, out->strides, sizeof(to.strides));
        EXG_TRY(add_copy(call, i, &to, at * out->strides[dim], err));
        at += in->sizes[dim];
    }
    return EXG_OK;
}

EXG_CUDA_ROW_OF(cat, EXG_KERNEL_ANY_STRIDES);

static exg_status triangle_prepare(exg_kernel_call *call, bool is_upper, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    cuda_triangle_params params = {.numel = exg_tensor_numel(in),
                                   .rows = in->sizes[in->rank - 2],
                                   .columns = in->sizes[in->rank - 1],
                                   .diagonal = exg_call_int(call, 1),
                                   .is_upper = is_upper};
    exg_cuda_launch *launch = NULL;

    EXG_TRY(exg_cuda_step_begin(call, err));
    if (params.numel == 0) {
        return EXG_OK;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "triangle", "triangle", "i0 o0", params, &launch, err,
                         "-DELEMENT=element_%u", exg_dtype_bytes(in->dtype)));
    exg_cuda_grid(launch, params.numel);
    return EXG_OK;
}

static exg_status tril_prepare(exg_kernel_call *call, exg_error *err)
{
    return triangle_prepare(call, false, err);
}

static exg_status triu_prepare(exg_kernel_call *call, exg_error *err)
{
    return triangle_prepare(call, true, err);
}

EXG_CUDA_ROW_OF(tril, 0);
EXG_CUDA_ROW_OF(triu, 0);
