/* nonzero.cu - masks: where one is set, row by row (another number of places than was counted
 * before raises INDEX and gives zeros); and whether all of one is, else PARAMETER. */
#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/cuda/params.h"

KERNEL(places, cuda_places_params)
{
    const int64_t *counts = (const int64_t *)p.counts;
    const int64_t found = p.numel > 0 ? counts[p.numel - 1] : 0;
    int64_t *out = (int64_t *)p.out;

    if (found != p.most) {
        FOR_EACH(i, p.most * p.rank) {
            out[i] = 0;
        }
        if (THREAD == 0 && BLOCK_X == 0) {
            raise_fault(p.fault, FAULT_INDEX, 0, -1);
        }
        return;
    }
    FOR_EACH(i, p.numel) {
        int64_t rest = i;

        if (((const uint8_t *)p.mask)[i] == 0) {
            continue;
        }
        for (int64_t d = p.rank - 1; d >= 0; d--) {
            out[(counts[i] - 1) * p.rank + d] = rest % p.sizes[d];
            rest /= p.sizes[d];
        }
    }
}

KERNEL(check, cuda_check_params)
{
    FOR_EACH(i, p.numel) {
        if (((const uint8_t *)p.mask)[i] == 0) {
            raise_fault(p.fault, FAULT_PARAMETER, 0, -1);
        }
    }
}
