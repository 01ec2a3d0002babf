/* stream.c - asks the processor for its caches. */
#include "libexec/kernels/stream.h"

#include <stdatomic.h>
#ifdef EXG_HAVE_X86_64_LOOPS
#include <cpuid.h>
#endif

#define PAST_CACHES_MIN (1 << 20)
#define PAST_CACHES_MAX (32 << 20)

#ifdef EXG_HAVE_X86_64_LOOPS
/* Bytes of the last cache that a core uses, by a leaf of CPUID that lists caches; 0: unknown. */
static int64_t last_cache(uint32_t leaf)
{
    enum { TYPE = 31, DATA = 1, UNIFIED = 3 };
    int64_t bytes = 0;
    uint32_t a;
    uint32_t b;
    uint32_t c;
    uint32_t d;

    for (uint32_t at = 0; __get_cpuid_count(leaf, at, &a, &b, &c, &d) && (a & TYPE) != 0; at++) {
        if ((a & TYPE) == DATA || (a & TYPE) == UNIFIED) {
            bytes = (int64_t)((b >> 22) + 1) * ((b >> 12 & 1023) + 1) * ((b & 4095) + 1) *
                    ((int64_t)c + 1);
        }
    }
    return bytes;
}

static int64_t half_of_last_cache(void)
{
    int64_t bytes = last_cache(4); /* Intel's */

    bytes = bytes > 0 ? bytes : last_cache(0x8000001d); /* AMD's */
    return bytes > 0 ? bytes / 2 : PAST_CACHES_MAX;
}
#else
static int64_t half_of_last_cache(void)
{
    return PAST_CACHES_MAX;
}
#endif

/* Asked once; two threads that ask at the same time hear the same. */
int64_t exg_past_caches_bytes(void)
{
    static _Atomic int64_t known;
    int64_t bytes = atomic_load_explicit(&known, memory_order_relaxed);

    if (bytes == 0) {
        bytes = half_of_last_cache();
        bytes = bytes < PAST_CACHES_MIN   ? PAST_CACHES_MIN
                : bytes > PAST_CACHES_MAX ? PAST_CACHES_MAX
                                          : bytes;
        atomic_store_explicit(&known, bytes, memory_order_relaxed);
    }
    return bytes;
}
