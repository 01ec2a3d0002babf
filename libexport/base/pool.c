/* pool.c - a job is one 64-bit ticket: generation and blocks left.
 *
 * Whoever lowers the ticket by one owns that block. A job's fields are written
 * while the ticket shows no blocks left, and a claim succeeds only if the ticket
 * is still the one whose fields were read, so a late worker can never run a block
 * with another job's fields. Nobody waits for a worker that has claimed nothing.
 */
#include "libexport/base/pool.h"
#include "libexport/base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define SPINS  2000 /* about 50 us of pauses before a thread yields */
#define YIELDS 50   /* and then sleeps */

#define BLOCKS_LEFT(ticket) ((uint32_t)(ticket))
#define GENERATION          (UINT64_C(1) << 32)

typedef void pool_work(void *context, uint32_t block);

struct exg_pool {
    _Atomic uint64_t ticket;
    _Atomic(pool_work *) work;
    _Atomic(void *) context;
    _Atomic(const exg_stop *) stop_wish; /* NULL: nobody's */
    _Atomic uint32_t block_count;
    _Atomic uint32_t done;
    _Atomic uint32_t sleepers;
    atomic_bool caller_sleeps;
    atomic_bool stop;
    uint32_t thread_count;
    uint32_t started;
    pthread_mutex_t mutex;
    pthread_cond_t job_cond;
    pthread_cond_t done_cond;
    pthread_t threads[];
};

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* So many blocks are done, or left out. */
static void count_done(exg_pool *pool, uint32_t blocks, uint32_t count)
{
    if (atomic_fetch_add(&pool->done, blocks) + blocks == count &&
        atomic_load(&pool->caller_sleeps)) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_signal(&pool->done_cond);
        pthread_mutex_unlock(&pool->mutex);
    }
}

/* Runs blocks of the job now in the ticket until none is left; all of them are taken at once, and
 * not run, when it is to stop. */
static void work_on_job(exg_pool *pool)
{
    uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);

    while (BLOCKS_LEFT(ticket) > 0) {
        pool_work *work = atomic_load_explicit(&pool->work, memory_order_relaxed);
        void *context = atomic_load_explicit(&pool->context, memory_order_relaxed);
        uint32_t count = atomic_load_explicit(&pool->block_count, memory_order_relaxed);
        bool stops = exg_stop_is_due(atomic_load_explicit(&pool->stop_wish, memory_order_relaxed));
        uint32_t taken = stops ? BLOCKS_LEFT(ticket) : 1;

        if (!atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket - taken,
                                                   memory_order_acq_rel, memory_order_acquire)) {
            continue;
        }
        if (!stops) {
            work(context, count - BLOCKS_LEFT(ticket));
        }
        count_done(pool, taken, count);
        ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    }
}

static bool job_waits(exg_pool *pool)
{
    return BLOCKS_LEFT(atomic_load(&pool->ticket)) > 0 || atomic_load(&pool->stop);
}

/* Until there is a job or the end: spins, yields, sleeps. */
static void wait_for_job(exg_pool *pool)
{
    for (uint32_t i = 0; i < SPINS + YIELDS; i++) {
        if (job_waits(pool)) {
            return;
        }
        if (i < SPINS) {
            pause_briefly();
        } else {
            sched_yield();
        }
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while (!job_waits(pool)) {
        pthread_cond_wait(&pool->job_cond, &pool->mutex);
    }
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
}

static void *worker_main(void *argument)
{
    exg_pool *pool = argument;

    while (!atomic_load(&pool->stop)) {
        wait_for_job(pool);
        work_on_job(pool);
    }
    return NULL;
}

static void wait_until_done(exg_pool *pool, uint32_t block_count)
{
    for (uint32_t i = 0; i < SPINS + YIELDS; i++) {
        if (atomic_load(&pool->done) == block_count) {
            return;
        }
        if (i < SPINS) {
            pause_briefly();
        } else {
            sched_yield();
        }
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->caller_sleeps, true);
    while (atomic_load(&pool->done) != block_count) {
        pthread_cond_wait(&pool->done_cond, &pool->mutex);
    }
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->mutex);
}

void exg_pool_run(exg_pool *pool, void (*work)(void *context, uint32_t block), void *context,
                  uint32_t block_count)
{
    const exg_stop *stop =
        pool == NULL ? NULL : atomic_load_explicit(&pool->stop_wish, memory_order_relaxed);
    uint64_t ticket;

    if (pool == NULL || pool->thread_count == 1 || block_count <= 1) {
        for (uint32_t b = 0; b < block_count && !exg_stop_is_due(stop); b++) {
            work(context, b);
        }
        return;
    }
    ticket = atomic_load_explicit(&pool->ticket, memory_order_relaxed);
    atomic_store_explicit(&pool->work, work, memory_order_relaxed);
    atomic_store_explicit(&pool->context, context, memory_order_relaxed);
    atomic_store_explicit(&pool->block_count, block_count, memory_order_relaxed);
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    atomic_store(&pool->ticket, ticket + GENERATION + block_count);
    if (atomic_load(&pool->sleepers) > 0) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->job_cond);
        pthread_mutex_unlock(&pool->mutex);
    }
    work_on_job(pool);
    wait_until_done(pool, block_count);
}

void exg_pool_watch(exg_pool *pool, const exg_stop *stop)
{
    if (pool != NULL) {
        atomic_store_explicit(&pool->stop_wish, stop, memory_order_relaxed);
    }
}

uint32_t exg_core_count(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0 || CPU_COUNT(&set) < 1) {
        return 1;
    }
    return (uint32_t)CPU_COUNT(&set);
}

exg_status exg_pool_create(uint32_t thread_count, exg_pool **out, exg_error *err)
{
    uint32_t cores = thread_count == 0 ? exg_core_count() : 0;
    uint32_t count = thread_count > 0               ? thread_count
                     : cores < EXG_POOL_THREADS_MAX ? cores
                                                    : EXG_POOL_THREADS_MAX;
    exg_pool *pool;

    *out = NULL;
    if (count > EXG_POOL_THREADS_MAX) {
        return exg_error_fix(err,
                             EXG_FAIL(err, USAGE, "POOL-002",
                                      "%u threads are asked for, at most "
                                      "%d are possible",
                                      count, EXG_POOL_THREADS_MAX),
                             "0 takes one a core");
    }
    pool = calloc(1, sizeof(*pool) + (count - 1) * sizeof(pthread_t));
    if (pool == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->job_cond, NULL);
    pthread_cond_init(&pool->done_cond, NULL);
    while (pool->started + 1 < count &&
           exg_thread_start(&pool->threads[pool->started], worker_main, pool)) {
        pool->started++;
    }
    pool->thread_count = pool->started + 1; /* the caller's alone would do */
    *out = pool;
    return EXG_OK;
}

void exg_pool_destroy(exg_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->stop, true);
    pthread_cond_broadcast(&pool->job_cond);
    pthread_mutex_unlock(&pool->mutex);
    for (uint32_t i = 0; i < pool->started; i++) {
        pthread_join(pool->threads[i], NULL);
    }
    pthread_cond_destroy(&pool->done_cond);
    pthread_cond_destroy(&pool->job_cond);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

uint32_t exg_pool_thread_count(const exg_pool *pool)
{
    return pool == NULL ? 1 : pool->thread_count;
}
