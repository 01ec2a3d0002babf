/* stop.h - the wish that long work ends early: somebody's, or the clock's. */
#ifndef EXG_LIBEXPORT_BASE_STOP_H
#define EXG_LIBEXPORT_BASE_STOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef struct exg_stop {
    atomic_bool asked;         /* by any thread or signal handler */
    _Atomic uint64_t limit_ns; /* on CLOCK_MONOTONIC; 0: none */
} exg_stop;

static inline bool exg_stop_is_late(const exg_stop *stop)
{
    uint64_t limit = atomic_load_explicit(&stop->limit_ns, memory_order_relaxed);
    struct timespec t;

    if (limit == 0 || clock_gettime(CLOCK_MONOTONIC, &t) != 0) {
        return false;
    }
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec >= limit;
}

/* NULL: never. */
static inline bool exg_stop_is_due(const exg_stop *stop)
{
    return stop != NULL && (atomic_load_explicit(&stop->asked, memory_order_relaxed) ||
                            exg_stop_is_late(stop));
}

#endif
