/* progress.c - how far a run is, as other threads see it. */
#include "libexec/session/session.h"

#include <string.h>

void exg_session_progress(const exg_session *session, exg_run_progress *progress)
{
    exg_run_progress own = {.size = sizeof(own)};
    size_t size = progress == NULL ? 0 : progress->size;

    if (session != NULL) {
        const exg_progress *p = &session->context.progress;

        own.step = atomic_load_explicit(&p->step, memory_order_relaxed);
        own.step_count = atomic_load_explicit(&p->step_count, memory_order_relaxed);
        own.segments = atomic_load_explicit(&p->segments, memory_order_relaxed);
        own.iterations = atomic_load_explicit(&p->iterations, memory_order_relaxed);
    }
    if (size > 0) {
        memcpy(progress, &own, size < sizeof(own) ? size : sizeof(own));
        progress->size = size;
    }
}
