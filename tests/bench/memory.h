/* memory.h - what the memory gives: the fastest of reading, triad, triad past the caches and
 * memcpy, in bytes that the program moves, over arrays that no cache keeps and that are
 * allocated as a session's memory is.
 */
#ifndef EXG_TESTS_BENCH_MEMORY_H
#define EXG_TESTS_BENCH_MEMORY_H

#include "libexport/base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define MEMORY_BYTES ((size_t)256 << 20) /* of an array */
#define MEMORY_WAYS  4

typedef double memory_vector __attribute__((vector_size(64), aligned(64), may_alias));

static memory_vector *memory_arrays[3];
static size_t memory_count; /* vectors of a thread's part */
static volatile double memory_sink;

static void memory_read(void *context, uint32_t block)
{
    const memory_vector *a = memory_arrays[0] + block * memory_count;
    memory_vector sums[4] = {{0}};

    (void)context;
    for (size_t i = 0; i < memory_count; i += 4) {
        for (size_t k = 0; k < 4; k++) {
            sums[k] += a[i + k];
        }
    }
    sums[0] += sums[1] + sums[2] + sums[3];
    memory_sink = sums[0][0] + sums[0][1] + sums[0][2] + sums[0][3];
}

static void memory_triad(void *context, uint32_t block)
{
    memory_vector *a = memory_arrays[0] + block * memory_count;
    const memory_vector *b = memory_arrays[1] + block * memory_count;
    const memory_vector *c = memory_arrays[2] + block * memory_count;

    (void)context;
    for (size_t i = 0; i < memory_count; i++) {
        a[i] = b[i] + 3.0 * c[i];
    }
}

static void memory_triad_past_caches(void *context, uint32_t block)
{
#ifdef __SSE2__
    double *a = (double *)(memory_arrays[0] + block * memory_count);
    const double *b = (const double *)(memory_arrays[1] + block * memory_count);
    const double *c = (const double *)(memory_arrays[2] + block * memory_count);
    const __m128d three = _mm_set1_pd(3.0);

    (void)context;
    for (size_t i = 0; i < memory_count * 8; i += 2) {
        _mm_stream_pd(a + i, _mm_add_pd(_mm_load_pd(b + i), _mm_mul_pd(three, _mm_load_pd(c + i))));
    }
    _mm_sfence();
#else
    memory_triad(context, block);
#endif
}

static void memory_copy(void *context, uint32_t block)
{
    (void)context;
    memcpy(memory_arrays[0] + block * memory_count, memory_arrays[1] + block * memory_count,
           memory_count * sizeof(memory_vector));
}

/* One pass; gives the bytes it moves. */
static double memory_pass(exg_pool *pool, uint32_t threads, uint32_t way)
{
    static const struct {
        void (*run)(void *context, uint32_t block);
        double arrays; /* that it moves */
    } ways[MEMORY_WAYS] = {
        {memory_read, 1}, {memory_triad, 3}, {memory_triad_past_caches, 3}, {memory_copy, 2}};

    for (int k = 0; k < 3 && memory_arrays[k] == NULL; k++) {
        memory_arrays[k] = exg_allocate(NULL, MEMORY_BYTES);
        if (memory_arrays[k] == NULL) {
            abort();
        }
        memset(memory_arrays[k], 0, MEMORY_BYTES);
    }
    memory_count = MEMORY_BYTES / threads / sizeof(memory_vector) & ~(size_t)3;
    exg_pool_run(pool, ways[way].run, NULL, threads);
    return ways[way].arrays * (double)(threads * memory_count * sizeof(memory_vector));
}

#endif
