/* candidate.c - the cheapest of many, in a heap. */
#include "libexec/sharding/candidate.h"

#include <stdbool.h>

/* Is `a` taken after `b`? Of equal ones the first that was found goes first. */
static inline bool comes_after(const exg_candidate *a, const exg_candidate *b)
{
    double x = a->cost + a->debt;
    double y = b->cost + b->debt;

    return x > y ||
           (x == y && (a->parent != b->parent ? a->parent > b->parent : a->option > b->option));
}

/* A heap whose first comes last: the one at `at` sinks to its place. */
static void sink(exg_candidate *heap, uint32_t count, uint32_t at)
{
    exg_candidate moved_one = heap[at];
    uint32_t child;

    while ((child = 2 * at + 1) < count) {
        child += child + 1 < count && comes_after(&heap[child + 1], &heap[child]);
        if (!comes_after(&heap[child], &moved_one)) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved_one;
}

/* Among the cheapest, which are no more than there is room for. */
uint32_t exg_candidate_keep(exg_candidate *heap, uint32_t count, uint32_t room, exg_candidate c)
{
    if (count < room) {
        heap[count++] = c;
        for (uint32_t i = count / 2; count == room && i-- > 0;) {
            sink(heap, count, i);
        }
        return count;
    }
    if (comes_after(&heap[0], &c)) {
        heap[0] = c;
        sink(heap, count, 0);
    }
    return count;
}

void exg_candidate_sort(exg_candidate *heap, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;) {
        sink(heap, count, i);
    }
    while (count > 1) {
        exg_candidate last = heap[--count];

        heap[count] = heap[0];
        heap[0] = last;
        sink(heap, count, 0);
    }
}
