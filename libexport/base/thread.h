/* thread.h - threads that compute. */
#ifndef EXG_LIBEXPORT_BASE_THREAD_H
#define EXG_LIBEXPORT_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* What kernels find on any thread of ours, whatever the system's default is; callers' threads
 * are asked for half of it (exg/session.h). */
#define EXG_THREAD_STACK_BYTES (2 << 20)

/* pthread_create with that stack, or the system's default where that is larger. */
static inline bool exg_thread_start(pthread_t *thread, void *(*run)(void *), void *context)
{
    pthread_attr_t attributes;
    size_t bytes = 0;
    bool started;

    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    started = pthread_attr_getstacksize(&attributes, &bytes) == 0 &&
              (bytes >= EXG_THREAD_STACK_BYTES ||
               pthread_attr_setstacksize(&attributes, EXG_THREAD_STACK_BYTES) == 0) &&
              pthread_create(thread, &attributes, run, context) == 0;
    pthread_attr_destroy(&attributes);
    return started;
}

#endif
