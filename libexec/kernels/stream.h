/* stream.h - operands that come from memory and results that go there. */
#ifndef EXG_LIBEXEC_KERNELS_STREAM_H
#define EXG_LIBEXEC_KERNELS_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define EXG_STREAM_BYTES      (4 << 20)  /* operands and results that are near up to here */
#define EXG_PAST_CACHES_BYTES (32 << 20) /* a result no cache keeps until it is read */

/* Asks for the lines of what comes next, so that they come meanwhile: for those that will be
 * written too, since they are read first. No address is wrong. */
static inline void exg_ask(const void *at, int64_t bytes)
{
    for (int64_t k = 0; k < bytes; k += 64) {
        __builtin_prefetch((const char *)at + k);
    }
}

/* A copy past the caches: a line that is written whole is not read first. Others see it after
 * a full fence. */
static inline void exg_copy_past_caches(void *to_, const void *from_, size_t bytes)
{
#ifdef __SSE2__
    char *to = to_;
    const char *from = from_;
    size_t head = -(uintptr_t)to & 63;
    size_t i;

    head = head < bytes ? head : bytes;
    memcpy(to, from, head);
    for (i = head; i + 64 <= bytes; i += 64) {
        for (size_t k = i; k < i + 64; k += 16) {
            _mm_stream_si128((__m128i *)(void *)(to + k),
                             _mm_loadu_si128((const __m128i *)(const void *)(from + k)));
        }
    }
    memcpy(to + i, from + i, bytes - i);
#else
    memcpy(to_, from_, bytes);
#endif
}

#endif
