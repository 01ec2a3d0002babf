/* operand.c - what kernel texts are told of an operand: its dtype, its sizes and strides. */
#include "libexec/device/cuda/operand.h"

#include <string.h>

const char *exg_cuda_dtype(exg_dtype dtype)
{
    static const char *const names[EXG_DTYPE_COUNT] = {
#define EXG_DTYPE(id, number, early, torch, safetensors, numpy, bytes, kind) [EXG_DTYPE_##id] = #id,
#include <exg/dtype.def>
#undef EXG_DTYPE
    };

    return names[dtype == EXG_DTYPE_U64 ? EXG_DTYPE_I64 : dtype]; /* as the host has it */
}

const char *exg_cuda_dtype_or(const exg_kernel_call *call, uint32_t input, exg_dtype otherwise)
{
    return exg_cuda_dtype(exg_cuda_has(call, input) ? call->inputs[input].dtype : otherwise);
}

bool exg_cuda_has(const exg_kernel_call *call, uint32_t input)
{
    return input < call->input_count && !exg_tensor_is_absent(&call->inputs[input]);
}

exg_status exg_cuda_refuse(const char *what, exg_error *err)
{
    return EXG_FAIL(err, UNSUPPORTED, "DEV-010", "CUDA leaves this to the host: %s", what);
}

void exg_cuda_views(const exg_tensor *a, const exg_tensor *b, cuda_view *of_a, cuda_view *of_b)
{
    int32_t rank = 0;

    memset(of_a, 0, sizeof(*of_a));
    memset(of_b, 0, sizeof(*of_b));
    for (uint32_t d = 0; d < a->rank; d++) {
        int64_t size = a->sizes[d];

        if (size == 1) {
            continue;
        }
        if (rank > 0 && of_a->strides[rank - 1] == a->strides[d] * size &&
            of_b->strides[rank - 1] == b->strides[d] * size) {
            of_a->sizes[rank - 1] *= size;
        } else {
            of_a->sizes[rank++] = size;
        }
        of_b->sizes[rank - 1] = of_a->sizes[rank - 1];
        of_a->strides[rank - 1] = a->strides[d];
        of_b->strides[rank - 1] = b->strides[d];
    }
    of_a->rank = of_b->rank = rank;
}

cuda_view exg_cuda_view(const exg_tensor *tensor)
{
    cuda_view view;
    cuda_view same;

    exg_cuda_views(tensor, tensor, &view, &same);
    return view;
}
