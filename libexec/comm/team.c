/* team.c - threads woken by a generation count. Who waits gives way for a while, since the next
 * run often follows at once, then sleeps. */
#include "libexec/comm/team.h"

#include "libexport/base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#define SPINS 100 /* giving way */

typedef struct member {
    exg_team *team;
    uint32_t rank;
    pthread_t thread;
    bool runs;
} member;

struct exg_team {
    member *members; /* first..size-1 have threads */
    uint32_t size;
    uint32_t first;
    uint32_t started;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_cond_t done;
    _Atomic uint64_t generation; /* these three are written with the lock held */
    _Atomic uint32_t running;
    atomic_bool closing;
    void (*work)(void *context, uint32_t rank);
    void *context;
};

static void *serve(void *argument)
{
    member *m = argument;
    exg_team *team = m->team;
    uint64_t seen = 0;

    for (;;) {
        for (int i = 0; i < SPINS && team->generation == seen && !team->closing; i++) {
            sched_yield();
        }
        pthread_mutex_lock(&team->lock);
        while (team->generation == seen && !team->closing) {
            pthread_cond_wait(&team->wake, &team->lock);
        }
        if (team->closing) {
            break;
        }
        seen = team->generation;
        pthread_mutex_unlock(&team->lock);
        team->work(team->context, m->rank);
        pthread_mutex_lock(&team->lock);
        m->runs = false;
        if (--team->running == 0 || team->first == 0) {
            pthread_cond_signal(&team->done);
        }
        pthread_mutex_unlock(&team->lock);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

static exg_status create(uint32_t size, uint32_t first, exg_team **team, exg_error *err)
{
    exg_team *t = calloc(1, sizeof(*t));

    *team = NULL;
    if (t != NULL) {
        t->members = calloc(size, sizeof(*t->members));
    }
    if (t == NULL || t->members == NULL) {
        free(t);
        return EXG_OUT_OF_MEMORY(err);
    }
    t->size = size;
    t->first = t->started = first;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    pthread_cond_init(&t->done, NULL);
    for (; t->started < size; t->started++) {
        member *m = &t->members[t->started];

        m->team = t;
        m->rank = t->started;
        if (!exg_thread_start(&m->thread, serve, m)) {
            exg_status status =
                EXG_FAIL(err, NO_MEMORY, "THR-001", "the system starts no thread for rank %u of %u",
                         t->started, size);

            exg_team_destroy(t);
            return status;
        }
    }
    *team = t;
    return EXG_OK;
}

exg_status exg_team_create(uint32_t size, exg_team **team, exg_error *err)
{
    return create(size, 1, team, err);
}

exg_status exg_team_create_watched(uint32_t size, exg_team **team, exg_error *err)
{
    return create(size, 0, team, err);
}

void exg_team_destroy(exg_team *team)
{
    if (team == NULL) {
        return;
    }
    pthread_mutex_lock(&team->lock);
    team->closing = true;
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->lock);
    for (uint32_t r = team->first; r < team->started; r++) {
        pthread_join(team->members[r].thread, NULL);
    }
    pthread_cond_destroy(&team->done);
    pthread_cond_destroy(&team->wake);
    pthread_mutex_destroy(&team->lock);
    free(team->members);
    free(team);
}

/* With the lock held. */
static void wake(exg_team *team, void (*work)(void *context, uint32_t rank), void *context)
{
    team->work = work;
    team->context = context;
    team->running = team->size - team->first;
    for (uint32_t r = team->first; r < team->size; r++) {
        team->members[r].runs = true;
    }
    team->generation++;
    pthread_cond_broadcast(&team->wake);
}

void exg_team_run(exg_team *team, void (*work)(void *context, uint32_t rank), void *context)
{
    pthread_mutex_lock(&team->lock);
    wake(team, work, context);
    pthread_mutex_unlock(&team->lock);
    if (team->first == 1) {
        work(context, 0);
    }
    for (int i = 0; i < SPINS && team->running > 0; i++) {
        sched_yield();
    }
    pthread_mutex_lock(&team->lock);
    while (team->running > 0) {
        pthread_cond_wait(&team->done, &team->lock);
    }
    pthread_mutex_unlock(&team->lock);
}

static struct timespec after(uint64_t ns)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += (time_t)(ns / 1000000000u);
    t.tv_nsec += (long)(ns % 1000000000u);
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    return t;
}

uint32_t exg_team_watch(exg_team *team, void (*work)(void *context, uint32_t rank), void *context,
                        uint64_t limit_ns)
{
    struct timespec limit;
    uint32_t lost = EXG_NO_RANK;
    int waited = 0;

    pthread_mutex_lock(&team->lock);
    wake(team, work, context);
    while (team->running == team->size) {
        pthread_cond_wait(&team->done, &team->lock);
    }
    limit = after(limit_ns);
    while (team->running > 0 && waited == 0) {
        waited = pthread_cond_timedwait(&team->done, &team->lock, &limit);
    }
    for (uint32_t r = 0; team->running > 0 && lost == EXG_NO_RANK; r++) {
        lost = team->members[r].runs ? r : EXG_NO_RANK;
    }
    pthread_mutex_unlock(&team->lock);
    return lost;
}
