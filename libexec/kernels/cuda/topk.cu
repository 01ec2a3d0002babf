/* topk.cu - the first of a line in the order of its keys, KEPT_MAX or fewer, of equal ones those
 * that come first, without sorting the rest: a block takes a line. Digit by digit it finds the key
 * of the last one kept, from the counts of each digit among the keys that agree with it so far.
 *
 * IN, IS_FLOAT, IS_UNSIGNED: key.h; ELEMENT; IS_DESCENDING.
 */
#include "libexec/kernels/cuda/key.h"
#include "libexec/kernels/cuda/params.h"

#define DIGITS      256
#define BATCH       8 /* keys that a thread asks for at once */
#define THREADS_MAX 1024

typedef struct line_of {
    const cuda_sort_params *p;
    int64_t base;
} line_of;

static inline order_key key_at(const line_of *line, int64_t i)
{
    const order_key key = key_of(LOAD(IN)(line->p->in, line->base + i * line->p->inner));

#ifdef IS_DESCENDING
    return ~key;
#else
    return key;
#endif
}

/* Those of elements i, i + THREADS, ...: all are on their way before the first is looked at. Gives
 * how many there are. */
static inline int load_keys(const line_of *line, int64_t i, order_key keys[BATCH])
{
    const int64_t left = (line->p->size - i + THREADS - 1) / THREADS;
    const int count = left < BATCH ? (int)left : BATCH;

    UNROLL
    for (int b = 0; b < BATCH; b++) {
        keys[b] = b < count ? key_at(line, i + b * THREADS) : 0;
    }
    return count;
}

/* Keys below `key` in the digits of `mask` are kept, and `equal` of those that agree. */
typedef struct limit {
    order_key key, mask;
    int equal, all_equal; /* are all kept that agree? */
} limit;

static inline limit find_limit(const line_of *line)
{
    SHARED int counts[DIGITS];
    SHARED limit found;

    if (THREAD == 0) {
        found.key = found.mask = 0;
        found.equal = (int)line->p->kept;
        found.all_equal = 0;
    }
    NO_UNROLL
    for (int shift = KEY_BITS - 8; shift >= 0; shift -= 8) {
        limit so_far;

        for (int d = THREAD; d < DIGITS; d += THREADS) {
            counts[d] = 0;
        }
        BARRIER();
        so_far = found;
        if (so_far.all_equal) {
            break;
        }
        for (int64_t i = THREAD; i < line->p->size; i += BATCH * THREADS) {
            order_key keys[BATCH];
            const int count = load_keys(line, i, keys);

            UNROLL
            for (int b = 0; b < BATCH; b++) {
                if (b < count && (keys[b] & so_far.mask) == so_far.key) {
                    ADD_TO(&counts[keys[b] >> shift & (DIGITS - 1)], 1);
                }
            }
        }
        BARRIER();
        if (THREAD == 0) {
            int digit = 0;

            for (; counts[digit] < found.equal; digit++) {
                found.equal -= counts[digit];
            }
            found.key |= (order_key)digit << shift;
            found.mask |= (order_key)(DIGITS - 1) << shift;
            found.all_equal = counts[digit] == found.equal;
        }
        BARRIER();
    }
    BARRIER();
    return found;
}

KERNEL(topk, cuda_sort_params)
{
    SHARED order_key keys[KEPT_MAX];
    SHARED int64_t places[KEPT_MAX];
    SHARED int agreeing[THREADS_MAX]; /* of each thread's stretch, then of those before it */
    SHARED int taken;

    for (int64_t row = BLOCK_X; row < p.lines; row += BLOCKS_X) {
        const int64_t outer = row / p.inner;
        const line_of line = {&p, outer * p.size * p.inner + row % p.inner};
        const limit last = find_limit(&line);
        const int kept = (int)p.kept;

        if (THREAD == 0) {
            taken = 0;
        }
        BARRIER();
        for (int64_t i = THREAD; i < p.size; i += BATCH * THREADS) {
            order_key some[BATCH];
            const int count = load_keys(&line, i, some);

            UNROLL
            for (int b = 0; b < BATCH; b++) {
                const order_key digits = some[b] & last.mask;

                if (b < count &&
                    (digits < last.key || (last.all_equal && digits == last.key))) {
                    const int to = ADD_TO(&taken, 1);

                    keys[to] = some[b];
                    places[to] = i + b * THREADS;
                }
            }
        }
        if (!last.all_equal) { /* the first of them, in the order of the line */
            const int64_t stretch = (p.size + THREADS - 1) / THREADS;
            const int64_t first = THREAD * stretch;
            const int64_t end = first + stretch < p.size ? first + stretch : p.size;
            int before = 0;

            for (int64_t i = first; i < end; i++) {
                before += key_at(&line, i) == last.key;
            }
            agreeing[THREAD] = before;
            BARRIER();
            if (THREAD == 0) {
                int sum = 0;

                for (int t = 0; t < THREADS; t++) {
                    const int own = agreeing[t];

                    agreeing[t] = sum;
                    sum += own;
                }
            }
            BARRIER();
            before = agreeing[THREAD];
            for (int64_t i = first; i < end && before < last.equal; i++) {
                if (key_at(&line, i) == last.key) {
                    keys[kept - last.equal + before] = last.key;
                    places[kept - last.equal + before] = i;
                    before++;
                }
            }
        }
        BARRIER();
        for (int i = THREAD; i < kept; i += THREADS) { /* each finds its place among the others */
            int at = 0;
            int64_t to;

            for (int k = 0; k < kept; k++) {
                at += keys[k] < keys[i] || (keys[k] == keys[i] && places[k] < places[i]);
            }
            to = (outer * kept + at) * p.inner + row % p.inner;
            ((ELEMENT *)p.values)[to] = ((const ELEMENT *)p.in)[line.base + places[i] * p.inner];
            ((int64_t *)p.indices)[to] = places[i];
        }
        BARRIER();
    }
}
