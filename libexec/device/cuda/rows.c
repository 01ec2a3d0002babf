/* rows.c - the device's kernels by the names of the host's. */
#include "libexec/device/cuda/rows.h"

#include <string.h>

static const exg_kernel *const rows[] = {
#define EXG_CUDA_ROW(name) &exg_cuda_##name,
    EXG_CUDA_KERNELS(EXG_CUDA_ROW)
#undef EXG_CUDA_ROW
};

/* By name: the plugin is a library of its own, where the host's kernels have no address. */
const exg_kernel *exg_cuda_kernel_of(const exg_kernel *kernel)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i]->name, kernel->name) == 0) {
            return rows[i];
        }
    }
    return NULL;
}

const char *exg_cuda_dtype(exg_dtype dtype)
{
    static const char *const names[EXG_DTYPE_COUNT] = {
#define EXG_DTYPE(id, number, early, torch, safetensors, numpy, bytes, kind) #id,
#include <exg/dtype.def>
#undef EXG_DTYPE
    };

    return names[dtype];
}

void exg_cuda_windows(const exg_tensor *a, const exg_tensor *b, cuda_window *of_a,
                      cuda_window *of_b)
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

cuda_window exg_cuda_window(const exg_tensor *tensor)
{
    cuda_window window;
    cuda_window same;

    exg_cuda_windows(tensor, tensor, &window, &same);
    return window;
}
