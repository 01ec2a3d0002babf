/* cuts.c - lengths cut into chunks, and which places along a dim they make alike. */
#include "libexec/sharding/cuts.h"

void exg_cuts_note(exg_cuts *cuts, int64_t length)
{
    for (uint32_t i = 0; cuts != NULL && i < cuts->count; i++) {
        if (cuts->lengths[i] == length) {
            return;
        }
    }
    if (cuts != NULL && cuts->count < EXG_CUTS_MAX) {
        cuts->lengths[cuts->count++] = length;
    } else if (cuts != NULL) {
        cuts->by_rank = true;
    }
}

bool exg_cuts_alike(const exg_cuts *cuts, uint32_t n, uint32_t a, uint32_t b)
{
    /* the first has what sums begin with */
    bool alike = a == b || (!cuts->by_rank && a > 0 && b > 0);

    for (uint32_t i = 0; alike && i < cuts->count; i++) {
        int64_t offset;
        int64_t sizes[2];

        exg_chunk(cuts->lengths[i], n, a, &offset, &sizes[0]);
        exg_chunk(cuts->lengths[i], n, b, &offset, &sizes[1]);
        alike = sizes[0] == sizes[1];
    }
    return alike;
}
