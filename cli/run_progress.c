/* run_progress.c - a line on the terminal while one run lasts long: another thread looks at it. */
#include "cli/cli.h"

#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS 100000000

typedef struct watcher {
    const exg_session *session;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ends;
    bool ended;
} watcher;

/* Until the run has ended; true: it has. */
static bool wait_a_moment(watcher *w)
{
    struct timespec until;
    bool ended;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PERIOD_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_mutex_lock(&w->lock);
    if (!w->ended) {
        (void)pthread_cond_timedwait(&w->ends, &w->lock, &until);
    }
    ended = w->ended;
    (void)pthread_mutex_unlock(&w->lock);
    return ended;
}

static void *watch(void *user)
{
    watcher *w = user;

    while (!wait_a_moment(w)) {
        exg_run_progress p = {.size = sizeof(p)};

        exg_session_progress(w->session, &p);
        if (p.iterations > 0) {
            cli_progress_at(p.iterations, "turns of loops");
        } else if (p.step_count > 0) {
            cli_progress_of(p.step, p.step_count, "steps");
        }
    }
    return NULL;
}

exg_status cli_session_run(exg_session *session, const cli_inputs *inputs, bool shows,
                           exg_error *err)
{
    watcher w = {.session = session};
    bool watches = shows && isatty(STDERR_FILENO) && !cli_is_quiet() &&
                   pthread_mutex_init(&w.lock, NULL) == 0 &&
                   pthread_cond_init(&w.ends, NULL) == 0 &&
                   pthread_create(&w.thread, NULL, watch, &w) == 0;
    exg_status status = exg_session_run(session, inputs->items, inputs->count, err);

    if (watches) {
        (void)pthread_mutex_lock(&w.lock);
        w.ended = true;
        (void)pthread_cond_signal(&w.ends);
        (void)pthread_mutex_unlock(&w.lock);
        (void)pthread_join(w.thread, NULL);
        (void)pthread_cond_destroy(&w.ends);
        (void)pthread_mutex_destroy(&w.lock);
    }
    return cli_inputs_told(inputs, status, err);
}
