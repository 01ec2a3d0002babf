/* team.c - sleeping threads woken by a generation count. */
#include "libexec/comm/team.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

typedef struct member {
    exg_team *team;
    uint32_t rank;
    pthread_t thread;
} member;

struct exg_team {
    member *members; /* 1..size-1 have threads */
    uint32_t size;
    uint32_t started;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_cond_t done;
    uint64_t generation;
    uint32_t running;
    bool closing;
    void (*work)(void *context, uint32_t rank);
    void *context;
};

static void *serve(void *argument)
{
    member *m = argument;
    exg_team *team = m->team;
    uint64_t seen = 0;

    pthread_mutex_lock(&team->lock);
    for (;;) {
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
        if (--team->running == 0) {
            pthread_cond_signal(&team->done);
        }
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

exg_status exg_team_create(uint32_t size, exg_team **team, exg_error *err)
{
    exg_team *t = calloc(1, sizeof(*t));

    *team = NULL;
    if (t != NULL) {
        t->members = calloc(size, sizeof(*t->members));
    }
    if (t == NULL || t->members == NULL) {
        free(t);
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    t->size = size;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    pthread_cond_init(&t->done, NULL);
    for (t->started = 1; t->started < size; t->started++) {
        member *m = &t->members[t->started];

        m->team = t;
        m->rank = t->started;
        if (pthread_create(&m->thread, NULL, serve, m) != 0) {
            exg_status status = EXG_FAIL(err, IO, "THR-001", "cannot start a thread for rank %u",
                                         t->started);

            exg_team_destroy(t);
            return status;
        }
    }
    *team = t;
    return EXG_OK;
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
    for (uint32_t r = 1; r < team->started; r++) {
        pthread_join(team->members[r].thread, NULL);
    }
    pthread_cond_destroy(&team->done);
    pthread_cond_destroy(&team->wake);
    pthread_mutex_destroy(&team->lock);
    free(team->members);
    free(team);
}

void exg_team_run(exg_team *team, void (*work)(void *context, uint32_t rank), void *context)
{
    pthread_mutex_lock(&team->lock);
    team->work = work;
    team->context = context;
    team->running = team->size - 1;
    team->generation++;
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->lock);
    work(context, 0);
    pthread_mutex_lock(&team->lock);
    while (team->running > 0) {
        pthread_cond_wait(&team->done, &team->lock);
    }
    pthread_mutex_unlock(&team->lock);
}
