/* stream.h - operands that come from memory and results that go there. */
#ifndef EXG_LIBEXEC_KERNELS_STREAM_H
#define EXG_LIBEXEC_KERNELS_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#define EXG_STREAM_BYTES (4 << 20) /* operands and results that are near up to here */

#define EXG_ASKED_AHEAD     4096  /* bytes between what is asked for and what is computed, */
#define EXG_ASKED_AHEAD_FAR 12288 /* where it comes as far as the second cache first */

/* The size of a result that no cache keeps until it is read: half the processor's last cache, since
 * operands want the other half; 32 MiB at most. */
int64_t exg_past_caches_bytes(void);

/* Asks for the lines of what comes next, so that they come meanwhile: for those that will be
 * written too, since they are read first. No address is wrong. */
static inline void exg_ask(const void *at, int64_t bytes)
{
    for (int64_t k = 0; k < bytes; k += 64) {
        __builtin_prefetch((const char *)at + k);
    }
}

/* The same for what comes in a while: as far as the second cache, to which many more lines are on
 * their way at a time. */
static inline void exg_ask_far(const void *at, int64_t bytes)
{
    for (int64_t k = 0; k < bytes; k += 64) {
        __builtin_prefetch((const char *)at + k, 0, 2);
    }
}

static inline void exg_ask_as(bool is_far, const void *at, int64_t bytes)
{
    if (is_far) {
        exg_ask_far(at, bytes);
    } else {
        exg_ask(at, bytes);
    }
}

#endif
