/* search.cu - how many edges of a sorted line are before each value, halved as the host halves.
 * IN: the dtype of both; OUT: of the counts.
 */
#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/cuda/params.h"

KERNEL(search, cuda_search_params)
{
    FOR_EACH(i, p.lines * p.width) {
        const int64_t line = p.own_edges ? i / p.width * p.size : 0;
        const COMPUTE(IN) value = LOAD(IN)(p.values, i);
        int64_t low = 0;
        int64_t high = p.size;

        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            const COMPUTE(IN) edge = LOAD(IN)(p.edges, line + middle);

            if (p.is_right ? edge > value : edge >= value) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        STORE(OUT)(p.out, i, (COMPUTE(OUT))low);
    }
}
