/* shard_pattern.c - lengths cut into chunks, and which places along a dim they make equal. */
#include "libexec/sharding/shard_pattern.h"

void exg_shard_pattern_note(exg_shard_pattern *pattern, int64_t length)
{
    for (uint32_t i = 0; pattern != NULL && i < pattern->count; i++) {
        if (pattern->lengths[i] == length) {
            return;
        }
    }
    if (pattern != NULL && pattern->count < EXG_SHARD_PATTERN_MAX) {
        pattern->lengths[pattern->count++] = length;
    } else if (pattern != NULL) {
        pattern->by_rank = true;
    }
}

bool exg_equal_shards(const exg_shard_pattern *pattern, uint32_t n, uint32_t a, uint32_t b)
{
    /* the first has what sums begin with */
    bool equal = a == b || (!pattern->by_rank && a > 0 && b > 0);

    for (uint32_t i = 0; equal && i < pattern->count; i++) {
        int64_t offset;
        int64_t sizes[2];

        exg_chunk(pattern->lengths[i], n, a, &offset, &sizes[0]);
        exg_chunk(pattern->lengths[i], n, b, &offset, &sizes[1]);
        equal = sizes[0] == sizes[1];
    }
    return equal;
}

bool exg_is_user_output(exg_output_kind kind)
{
    return kind == EXG_OUTPUT_USER || kind == EXG_OUTPUT_LOSS ||
           kind == EXG_OUTPUT_GRADIENT_TO_PARAMETER || kind == EXG_OUTPUT_GRADIENT_TO_USER_INPUT;
}
