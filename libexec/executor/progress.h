/* progress.h - how far a run is, for other threads to look at. */
#ifndef EXG_LIBEXEC_EXECUTOR_PROGRESS_H
#define EXG_LIBEXEC_EXECUTOR_PROGRESS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct exg_progress {
    _Atomic uint32_t step, step_count; /* of the plan under way */
    _Atomic uint64_t segments, iterations;
} exg_progress;

static inline void exg_progress_begin(exg_progress *progress)
{
    atomic_store_explicit(&progress->step, 0, memory_order_relaxed);
    atomic_store_explicit(&progress->step_count, 0, memory_order_relaxed);
    atomic_store_explicit(&progress->segments, 0, memory_order_relaxed);
    atomic_store_explicit(&progress->iterations, 0, memory_order_relaxed);
}

/* NULL: nobody looks. */
static inline void exg_progress_step(exg_progress *progress, uint32_t step, uint32_t count)
{
    if (progress != NULL) {
        atomic_store_explicit(&progress->step, step, memory_order_relaxed);
        atomic_store_explicit(&progress->step_count, count, memory_order_relaxed);
    }
}

static inline void exg_progress_count(_Atomic uint64_t *counter)
{
    (void)atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

#endif
