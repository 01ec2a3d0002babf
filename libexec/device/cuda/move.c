/* move.c - kernels that bring elements elsewhere. */
#include "libexec/device/cuda/rows.h"

/* ---- copy ------------------------------------------------------------------------------ */

static exg_status copy_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    const exg_tensor *out = &call->outputs[0];
    cuda_copy_params params = {.numel = exg_tensor_numel(out)};
    exg_cuda_launch *launch = NULL;

    EXG_TRY(exg_cuda_step_begin(call, err));
    if (params.numel == 0) {
        return EXG_OK;
    }
    exg_cuda_windows(in, out, &params.from, &params.to);
    EXG_TRY(exg_cuda_step_add(call, exg_cuda_text_find("libexec/kernels/cuda/copy.cu"), "copy",
                              &params, sizeof(params), &launch, err, "-DELEMENT=element_%u",
                              exg_dtype_bytes(in->dtype)));
    exg_cuda_slot_add(launch, EXG_CUDA_INPUT, 0);
    exg_cuda_slot_add(launch, EXG_CUDA_OUTPUT, 0);
    exg_cuda_grid(launch, params.numel);
    return EXG_OK;
}

const exg_kernel exg_cuda_copy = {
    .name = "copy",
    .prepare = copy_prepare,
    .run = exg_cuda_step_run,
    .flags = EXG_KERNEL_ANY_STRIDES,
};
