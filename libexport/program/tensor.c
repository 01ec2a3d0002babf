/* tensor.c - sizes and strides of views of memory. */
#include <exg/tensor.h>

int64_t exg_tensor_numel(const exg_tensor *tensor)
{
    int64_t numel = 1;

    for (uint32_t d = 0; d < tensor->rank; d++) {
        numel *= tensor->sizes[d];
    }
    return numel;
}

bool exg_tensor_is_contiguous(const exg_tensor *tensor)
{
    int64_t stride = 1;

    for (uint32_t d = tensor->rank; d-- > 0;) {
        if (tensor->sizes[d] == 0) {
            return true;
        }
    }
    for (uint32_t d = tensor->rank; d-- > 0;) {
        if (tensor->sizes[d] != 1) {
            if (tensor->strides[d] != stride) {
                return false;
            }
            stride *= tensor->sizes[d];
        }
    }
    return true;
}

void exg_tensor_set_contiguous(exg_tensor *tensor)
{
    int64_t stride = 1;

    for (uint32_t d = tensor->rank; d-- > 0;) {
        tensor->strides[d] = stride;
        stride *= tensor->sizes[d] > 0 ? tensor->sizes[d] : 1;
    }
}
