/* random.h - numbers by position: Philox 4x32, ten rounds (Salmon, Moraes, Dror, Shaw,
 * "Parallel random numbers: as easy as 1, 2, 3", SC 2011). A block of four words follows
 * from the key and the counter alone, so any element can be drawn by anyone.
 */
#ifndef EXG_LIBEXEC_KERNELS_RANDOM_H
#define EXG_LIBEXEC_KERNELS_RANDOM_H

#include <stdint.h>

/* What a run draws from. */
typedef struct exg_random_source {
    uint64_t seed;
    uint64_t run; /* counted from 0 */
} exg_random_source;

/* Four words at a counter of four and a key of two. */
static inline void exg_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]};
    uint32_t k0 = key[0];
    uint32_t k1 = key[1];

    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53 * c[0];
        uint64_t b = (uint64_t)0xCD9E8D57 * c[2];
        uint32_t c1 = c[1];
        uint32_t c3 = c[3];

        c[0] = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c[1] = (uint32_t)b;
        c[2] = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c[3] = (uint32_t)a;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    out[0] = c[0];
    out[1] = c[1];
    out[2] = c[2];
    out[3] = c[3];
}

/* Block `index` (below 2^61) of stream `stream` (below 2^31) of a run. The counter holds the
 * index, the stream and the lower half of the run's number; its upper half changes the key. */
static inline void exg_random_block(const exg_random_source *source, uint32_t stream,
                                    uint64_t index, uint32_t out[4])
{
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), stream,
                                 (uint32_t)source->run};
    const uint32_t key[2] = {(uint32_t)source->seed,
                             (uint32_t)(source->seed >> 32) ^ (uint32_t)(source->run >> 32)};

    exg_philox(counter, key, out);
}

#endif
