/* tensor.c - spans of tensors, and tensors compared. */
#include "libexec/kernels/kernel.h"
#include "libexport/base/checked.h"

#include <exg/tensor.h>
#include <string.h>

exg_span exg_tensor_span(const exg_tensor *t)
{
    int64_t item = exg_dtype_bytes(t->dtype);
    exg_span s = {0, 1};

    if (exg_tensor_numel(t) == 0) {
        return (exg_span){0, 0};
    }
    for (uint32_t d = 0; d < t->rank; d++) {
        int64_t reach = (t->sizes[d] - 1) * t->strides[d];

        *(reach < 0 ? &s.low : &s.high) += reach;
    }
    return (exg_span){s.low * item, s.high * item};
}

bool exg_tensor_end(const exg_tensor *view, int64_t offset, uint64_t *bytes)
{
    int64_t last = offset;

    *bytes = 0;
    for (uint32_t d = 0; d < view->rank; d++) {
        int64_t reach;

        if (view->sizes[d] == 0) {
            return true;
        }
        if (view->sizes[d] < 0 || view->strides[d] < 0 ||
            !exg_mul_i64(view->sizes[d] - 1, view->strides[d], &reach) ||
            !exg_add_i64(last, reach, &last)) {
            return false;
        }
    }
    return offset >= 0 && exg_add_i64(last, 1, &last) &&
           exg_mul_u64((uint64_t)last, exg_dtype_bytes(view->dtype), bytes);
}

bool exg_dims_equal(const int64_t *a, uint32_t a_rank, const int64_t *b, uint32_t b_rank)
{
    return a_rank == b_rank && memcmp(a, b, a_rank * sizeof(*a)) == 0;
}

bool exg_tensor_is_alike(const exg_tensor *a, const exg_tensor *b)
{
    return a->dtype == b->dtype && exg_dims_equal(a->sizes, a->rank, b->sizes, b->rank);
}

void exg_tensor_gather(const exg_tensor *view, const uint8_t *from, uint8_t *to)
{
    uint32_t item = exg_dtype_bytes(view->dtype);
    uint32_t outer = view->rank; /* dims before those that lie in one piece */
    int64_t index[EXG_RANK_MAX] = {0};
    int64_t count = exg_tensor_numel(view);
    int64_t piece = 1;

    while (outer > 0 && (view->sizes[outer - 1] == 1 || view->strides[outer - 1] == piece)) {
        piece *= view->sizes[--outer];
    }
    for (int64_t i = 0; i < count; i += piece) {
        int64_t offset = 0;

        for (uint32_t d = 0; d < outer; d++) {
            offset += index[d] * view->strides[d];
        }
        memcpy(to + i * item, from + offset * item, (size_t)(piece * item));
        for (uint32_t d = outer; d-- > 0 && ++index[d] == view->sizes[d];) {
            index[d] = 0;
        }
    }
}
