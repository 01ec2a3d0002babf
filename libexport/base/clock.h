/* clock.h - the one clock of waits, limits and measurements. */
#ifndef EXG_LIBEXPORT_BASE_CLOCK_H
#define EXG_LIBEXPORT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since some moment of the past; never goes back. */
static inline uint64_t exg_now_ns(void)
{
    struct timespec t = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
