/* params.h - the parameters of kernel texts, which the host fills. Each struct begins with
 * the addresses of operands, in the order in which the host names them.
 */
#ifndef EXG_LIBEXEC_KERNELS_CUDA_PARAMS_H
#define EXG_LIBEXEC_KERNELS_CUDA_PARAMS_H

#include <stdint.h>

#define CUDA_RANK_MAX 16

/* Elements of a window in row-major order; strides count elements. */
typedef struct cuda_window {
    int64_t sizes[CUDA_RANK_MAX];
    int64_t strides[CUDA_RANK_MAX];
    int32_t rank;
} cuda_window;

/* The element at `position` of the window, elements from its first. */
static inline int64_t window_offset(const cuda_window *w, int64_t position)
{
    int64_t offset = 0;

    for (int d = w->rank - 1; d >= 0; d--) {
        offset += position % w->sizes[d] * w->strides[d];
        position /= w->sizes[d];
    }
    return offset;
}

/* ---- moving ---------------------------------------------------------------------------- */

typedef struct cuda_copy_params {
    const void *in;
    void *out;
    int64_t numel;
    cuda_window from, to;
} cuda_copy_params;

#endif
