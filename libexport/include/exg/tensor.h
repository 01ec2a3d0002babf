/* tensor.h - a view of memory: what kernels read and write, what sessions take
 * and give.
 *
 * A plain struct over borrowed memory; copying it copies no data. Strides count
 * elements and may be 0 (broadcast); a session's outputs are row-major.
 */
#ifndef EXG_TENSOR_H
#define EXG_TENSOR_H

#include <exg/status.h>
#include <exg/types.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EXG_RANK_MAX 16

typedef struct exg_tensor {
    void *data;      /* first element; NULL in plans, and of absent operands */
    exg_dtype dtype; /* EXG_DTYPE_COUNT: an optional operand that is absent */
    uint32_t rank;
    int64_t sizes[EXG_RANK_MAX];
    int64_t strides[EXG_RANK_MAX];
} exg_tensor;

static inline bool exg_tensor_is_absent(const exg_tensor *tensor)
{
    return tensor->dtype == EXG_DTYPE_COUNT;
}

int64_t exg_tensor_numel(const exg_tensor *tensor);

/* Row-major without gaps; sizes of 1 may have any stride, empty tensors too. */
bool exg_tensor_is_contiguous(const exg_tensor *tensor);

/* Fills `strides` for a row-major tensor of its sizes. */
void exg_tensor_set_contiguous(exg_tensor *tensor);

#ifdef __cplusplus
}
#endif

#endif
