/* sort.cu - lines of items in order of their keys, equal ones as they were: short runs by
 * insertion, then runs merged two by two, each item finding its place among the other run's.
 * IN: the dtype of what is sorted, IS_FLOAT, IS_UNSIGNED; ELEMENT; IS_DESCENDING.
 */
#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/cuda/params.h"

#ifdef IN
#include "libexec/kernels/cuda/key.h"

KERNEL(keys, cuda_sort_params)
{
    FOR_EACH(i, p.lines * p.size) {
        const int64_t line = i / p.size;
        const int64_t base = line / p.inner * p.size * p.inner + line % p.inner;
        const uint64_t key = key_of(LOAD(IN)(p.in, base + i % p.size * p.inner));
        cuda_item *item = (cuda_item *)p.items + i;

#ifdef IS_DESCENDING
        item->key = ~key;
#else
        item->key = key;
#endif
        item->index = i % p.size;
    }
}

KERNEL(take, cuda_sort_params)
{
    FOR_EACH(i, p.lines * p.kept) {
        const int64_t line = i / p.kept;
        const int64_t outer = line / p.inner;
        const int64_t chosen = ((const cuda_item *)p.items)[line * p.size + i % p.kept].index;
        const int64_t to = (outer * p.kept + i % p.kept) * p.inner + line % p.inner;

        ((ELEMENT *)p.values)[to] =
            ((const ELEMENT *)p.in)[(outer * p.size + chosen) * p.inner + line % p.inner];
        ((int64_t *)p.indices)[to] = chosen;
    }
}
#else
/* Each run of `width` by itself. */
KERNEL(runs, cuda_merge_params)
{
    const int64_t runs = (p.size + p.width - 1) / p.width;

    FOR_EACH(i, p.lines * runs) {
        cuda_item *items = (cuda_item *)p.from + i / runs * p.size + i % runs * p.width;
        const int64_t left = p.size - i % runs * p.width;
        const int64_t count = left < p.width ? left : p.width;

        for (int64_t k = 1; k < count; k++) {
            const cuda_item item = items[k];
            int64_t at = k;

            for (; at > 0 && items[at - 1].key > item.key; at--) {
                items[at] = items[at - 1];
            }
            items[at] = item;
        }
    }
}

/* How many of `count` items in order have a key below `key`, or at most that. */
static inline int64_t count_below(const cuda_item *items, int64_t count, uint64_t key, int equal)
{
    int64_t low = 0;

    while (low < count) {
        const int64_t middle = low + (count - low) / 2;

        if (items[middle].key < key || (equal && items[middle].key == key)) {
            low = middle + 1;
        } else {
            count = middle;
        }
    }
    return low;
}

KERNEL(merge, cuda_merge_params)
{
    FOR_EACH(i, p.lines * p.size) {
        const int64_t k = i % p.size;
        const cuda_item *line = (const cuda_item *)p.from + (i - k);
        const int64_t low = k / (2 * p.width) * 2 * p.width;
        const int64_t middle = low + p.width < p.size ? low + p.width : p.size;
        const int64_t high = middle + p.width < p.size ? middle + p.width : p.size;
        const uint64_t key = line[k].key;
        const int64_t others = k < middle
                                   ? count_below(line + middle, high - middle, key, 0) - low
                                   : count_below(line + low, middle - low, key, 1) - middle;

        ((cuda_item *)p.to)[i - k + low + k + others] = line[k];
    }
}
#endif
