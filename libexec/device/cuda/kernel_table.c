/* kernel_table.c - the device's kernels by the names of the host's. */
#include "libexec/device/cuda/kernel_table.h"

#include <string.h>

static const exg_kernel *const rows[] = {
#define EXG_CUDA_ROW(name) &exg_cuda_##name,
    EXG_CUDA_KERNELS(EXG_CUDA_ROW)
#undef EXG_CUDA_ROW
};

/* By name: the plugin is a library of its own, where the host's kernels have no address. */
const exg_kernel *exg_cuda_kernel_of(const exg_kernel *kernel)
{
    if ((kernel->flags & EXG_KERNEL_EXCHANGES) != 0) { /* they ask the device's links */
        return kernel;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i]->name, kernel->name) == 0) {
            return rows[i];
        }
    }
    return NULL;
}
