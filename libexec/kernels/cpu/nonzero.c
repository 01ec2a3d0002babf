/* nonzero.c - where a mask is set, row by row. The number of places was counted before; a
 * mask that has another number is a fault of the data (masks of one index that differ). */
#include "libexec/kernels/cpu/common.h"

static exg_status places_prepare(exg_kernel_call *call, exg_error *err)
{
    return call->inputs[0].dtype == EXG_DTYPE_B8
               ? EXG_OK
               : exg_unsupported_dtype("places", call->inputs[0].dtype, err);
}

static void places_run(const exg_kernel_call *call)
{
    const exg_tensor *mask = &call->inputs[0];
    const uint8_t *set = mask->data;
    int64_t *out = call->outputs[0].data;
    int64_t most = call->outputs[0].sizes[0];
    int64_t count = exg_tensor_numel(mask);
    int64_t index[EXG_RANK_MAX] = {0};
    int64_t found = 0;

    for (int64_t i = 0; i < count; i++) {
        if (set[i] != 0) {
            if (found < most) {
                memcpy(out + found * mask->rank, index, mask->rank * sizeof(*index));
            }
            found++;
        }
        for (uint32_t d = mask->rank; d-- > 0 && ++index[d] == mask->sizes[d];) {
            index[d] = 0;
        }
    }
    if (found != most) {
        exg_raise(call, EXG_FAULT_INDEX);
        memset(out, 0, (size_t)(most * mask->rank) * sizeof(*out));
    }
}

const exg_kernel exg_kernel_places = {
    .name = "places",
    .prepare = places_prepare,
    .run = places_run,
    .flags = EXG_KERNEL_RAISES,
};
