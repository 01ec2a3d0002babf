/* sort.cu - lines of items in order of their keys, equal ones as they were, digit by digit from the
 * last (radix sort). A line that a block holds is sorted there, in one launch; of a longer one
 * blocks count the digits of a chunk each, and when the counts are summed up (scan.cu) each moves
 * its own.
 *
 * IN: the dtype of what is sorted, IS_FLOAT, IS_UNSIGNED; ELEMENT; IS_DESCENDING. WIDE: item.h.
 */
#include "libexec/kernels/cuda/block.h"
#include "libexec/kernels/cuda/item.h"

#ifdef IN
#include "libexec/kernels/cuda/key.h"

KERNEL(keys, cuda_sort_params)
{
    FOR_EACH(i, p.lines * p.size) {
        const int64_t line = quotient(i, p.size);
        const int64_t outer = quotient(line, p.inner);
        const int64_t at = i - line * p.size;
        const int64_t base = outer * p.size * p.inner + line - outer * p.inner;
        const order_key key = key_of(LOAD(IN)(p.in, base + at * p.inner));
        order_item *item = (order_item *)p.items + i;

#ifdef IS_DESCENDING
        item->key = ~key;
#else
        item->key = key;
#endif
        item->index = at;
    }
}

KERNEL(take, cuda_sort_params)
{
    FOR_EACH(i, p.lines * p.kept) {
        const int64_t line = quotient(i, p.kept);
        const int64_t outer = quotient(line, p.inner);
        const int64_t at = i - line * p.kept;
        const int64_t inner = line - outer * p.inner;
        const int64_t chosen = ((const order_item *)p.items)[line * p.size + at].index;
        const int64_t to = (outer * p.kept + at) * p.inner + inner;

        ((ELEMENT *)p.values)[to] =
            ((const ELEMENT *)p.in)[(outer * p.size + chosen) * p.inner + inner];
        ((int64_t *)p.indices)[to] = chosen;
    }
}
#else
/* A few, by insertion: a thread takes a line. */
KERNEL(sort_few, cuda_radix_params)
{
    FOR_EACH(line, p.lines) {
        order_item *items = (order_item *)p.from + line * p.size;

        for (int64_t k = 1; k < p.size; k++) {
            const order_item item = items[k];
            int64_t at = k;

            for (; at > 0 && items[at - 1].key > item.key; at--) {
                items[at] = items[at - 1];
            }
            items[at] = item;
        }
    }
}

#define DIGIT_BITS 8
#define DIGITS     (1 << DIGIT_BITS) /* and as many threads */
#define WARPS      (DIGITS / WARP)
#define EACH       8 /* items of a thread */
#define CHUNK      (DIGITS * EACH)

static inline int digit_of(order_item item, int shift)
{
    return (int)(item.key >> shift) & (DIGITS - 1);
}

/* Item j of the thread in its chunk: a warp has a stretch of it. */
static inline int place_of(int j)
{
    return (THREAD / WARP * EACH + j) * WARP + THREAD % WARP;
}

/* counts[w][d]: how many items of digit d warp w has; ranks: how many of them, of the item's own
 * digit, come before it. `count` items are there. */
static inline void rank_items(const order_item items[EACH], int count, int shift,
                              int counts[WARPS][DIGITS], int ranks[EACH])
{
    int *own = counts[THREAD / WARP];

    for (int w = 0; w < WARPS; w++) {
        counts[w][THREAD] = 0;
    }
    BARRIER();
    UNROLL
    for (int j = 0; j < EACH; j++) {
        const int is_there = place_of(j) < count;
        const int digit = digit_of(items[j], shift);
        const uint32_t equal = warp_equal(is_there ? digit : DIGITS, DIGIT_BITS + 1);
        const int before = bits_in(equal & (((uint32_t)1 << THREAD % WARP) - 1));

        ranks[j] = own[digit] + before;
        WARP_BARRIER();
        if (is_there && before == 0) {
            own[digit] += bits_in(equal);
        }
        WARP_BARRIER();
    }
    BARRIER();
}

/* How many the block has of the digit that is the thread's. */
static inline int total_of(int counts[WARPS][DIGITS])
{
    int total = 0;

    for (int w = 0; w < WARPS; w++) {
        total += counts[w][THREAD];
    }
    return total;
}

/* Counts become where a warp's items of a digit begin: those of the thread's at `start`. */
static inline void begin_at(int counts[WARPS][DIGITS], int start)
{
    for (int w = 0; w < WARPS; w++) {
        const int count = counts[w][THREAD];

        counts[w][THREAD] = start;
        start += count;
    }
    BARRIER();
}

DEFINE_BLOCK_SCAN(total, int, shuffle_i32, a + b, 0)

/* A line each block. */
KERNEL(sort_line, cuda_radix_params)
{
    SHARED order_item line[CHUNK];
    SHARED int counts[WARPS][DIGITS];
    const int size = (int)p.size;

    for (int64_t row = BLOCK_X; row < p.lines; row += BLOCKS_X) {
        order_item *memory = (order_item *)p.from + row * p.size;
        order_item items[EACH];
        int ranks[EACH];
        int all;

        UNROLL
        for (int j = 0; j < EACH; j++) {
            if (place_of(j) < size) {
                items[j] = memory[place_of(j)];
            }
        }
        NO_UNROLL
        for (int shift = p.first_bit; shift < p.end_bit; shift += DIGIT_BITS) {
            rank_items(items, size, shift, counts, ranks);
            begin_at(counts, block_total_before(total_of(counts), &all));
            UNROLL
            for (int j = 0; j < EACH; j++) {
                if (place_of(j) < size) {
                    line[counts[THREAD / WARP][digit_of(items[j], shift)] + ranks[j]] = items[j];
                }
            }
            BARRIER();
            UNROLL
            for (int j = 0; j < EACH; j++) {
                items[j] = line[place_of(j)];
            }
            BARRIER();
        }
        UNROLL
        for (int j = 0; j < EACH; j++) {
            if (place_of(j) < size) {
                memory[place_of(j)] = items[j];
            }
        }
    }
}

/* A chunk of a line, and where its count of a digit is: digit by digit, chunk by chunk. */
typedef struct chunk_of_line {
    int64_t line, chunk;
    int count;
} chunk_of_line;

static inline chunk_of_line chunk_at(const cuda_radix_params *p, int64_t block)
{
    const int64_t chunk = block % p->chunks;
    const int64_t left = p->size - chunk * CHUNK;
    const chunk_of_line found = {block / p->chunks, chunk, left < CHUNK ? (int)left : CHUNK};

    return found;
}

static inline int *count_at(const cuda_radix_params *p, const chunk_of_line *c)
{
    return (int *)p->counts + (c->line * DIGITS + THREAD) * p->chunks + c->chunk;
}

KERNEL(sort_count, cuda_radix_params)
{
    SHARED int counts[DIGITS];

    for (int64_t block = BLOCK_X; block < p.lines * p.chunks; block += BLOCKS_X) {
        const chunk_of_line c = chunk_at(&p, block);
        const order_item *items = (const order_item *)p.from + c.line * p.size + c.chunk * CHUNK;

        counts[THREAD] = 0;
        BARRIER();
        UNROLL
        for (int j = 0; j < EACH; j++) {
            if (place_of(j) < c.count) {
                (void)ADD_TO(&counts[digit_of(items[place_of(j)], p.first_bit)], 1);
            }
        }
        BARRIER();
        *count_at(&p, &c) = counts[THREAD];
        BARRIER();
    }
}

/* The counts are those up to and with a chunk's own. */
KERNEL(sort_move, cuda_radix_params)
{
    SHARED int counts[WARPS][DIGITS];

    for (int64_t block = BLOCK_X; block < p.lines * p.chunks; block += BLOCKS_X) {
        const chunk_of_line c = chunk_at(&p, block);
        const order_item *from = (const order_item *)p.from + c.line * p.size + c.chunk * CHUNK;
        order_item *to = (order_item *)p.to + c.line * p.size;
        order_item items[EACH];
        int ranks[EACH];

        UNROLL
        for (int j = 0; j < EACH; j++) {
            if (place_of(j) < c.count) {
                items[j] = from[place_of(j)];
            }
        }
        rank_items(items, c.count, p.first_bit, counts, ranks);
        begin_at(counts, *count_at(&p, &c) - total_of(counts));
        UNROLL
        for (int j = 0; j < EACH; j++) {
            if (place_of(j) < c.count) {
                to[counts[THREAD / WARP][digit_of(items[j], p.first_bit)] + ranks[j]] = items[j];
            }
        }
        BARRIER();
    }
}
#endif
