/* stop.h - the wish that long work ends early: somebody's, or the clock's. */
#ifndef EXG_LIBEXPORT_BASE_STOP_H
#define EXG_LIBEXPORT_BASE_STOP_H

#include "libexport/base/clock.h"

#include <exg/status.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct exg_stop {
    atomic_bool asked;         /* by any thread or signal handler */
    _Atomic uint64_t limit_ns; /* of exg_now_ns(); 0: none */
} exg_stop;

static inline bool exg_stop_is_late(const exg_stop *stop)
{
    uint64_t limit = atomic_load_explicit(&stop->limit_ns, memory_order_relaxed);

    return limit != 0 && exg_now_ns() >= limit;
}

/* NULL: never. */
static inline bool exg_stop_is_due(const exg_stop *stop)
{
    return stop != NULL &&
           (atomic_load_explicit(&stop->asked, memory_order_relaxed) || exg_stop_is_late(stop));
}

/* LIMIT RUN-010, RUN-011 once `stop` is due. */
exg_status exg_stop_check(const exg_stop *stop, exg_error *err);

#endif
