/* The thread pool: every block once, whatever the timing. Built with TSan too. */
#include "libexport/base/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <pthread.h>

#define BLOCKS_MAX 1000

typedef struct tally {
    _Atomic uint32_t runs[BLOCKS_MAX];
    uint64_t plain[BLOCKS_MAX]; /* written without a lock, read by the caller after */
    uint64_t mark;
} tally;

static void count_block(void *context, uint32_t block)
{
    tally *t = context;

    atomic_fetch_add(&t->runs[block], 1);
    t->plain[block] = t->mark * 1000 + block;
}

static void check_job(exg_pool *pool, tally *t, uint32_t blocks, uint64_t mark)
{
    memset(t, 0, sizeof(*t));
    t->mark = mark;
    exg_pool_run(pool, count_block, t, blocks);
    for (uint32_t b = 0; b < BLOCKS_MAX; b++) {
        assert_int_equal(t->runs[b], b < blocks ? 1 : 0);
        assert_int_equal(t->plain[b], b < blocks ? mark * 1000 + b : 0);
    }
}

static void a_job_runs_every_block_once_and_is_seen_by_the_caller(void **state)
{
    static tally t;

    (void)state;
    for (uint32_t threads = 1; threads <= 5; threads++) {
        exg_pool *pool = NULL;

        assert_int_equal(exg_pool_create(threads, &pool, NULL), EXG_OK);
        assert_int_equal(exg_pool_thread_count(pool), threads);
        for (uint32_t job = 0; job < 300; job++) {
            check_job(pool, &t, job * 7 % (job % 10 == 0 ? BLOCKS_MAX : 9), job);
        }
        exg_pool_destroy(pool);
    }
}

static void workers_that_fell_asleep_are_woken(void **state)
{
    static tally t;
    const struct timespec nap = {.tv_nsec = 3000000};
    exg_pool *pool = NULL;

    (void)state;
    assert_int_equal(exg_pool_create(3, &pool, NULL), EXG_OK);
    for (uint32_t job = 0; job < 20; job++) {
        nanosleep(&nap, NULL);
        check_job(pool, &t, 50, job);
    }
    exg_pool_destroy(pool);
}

/* A block that is much longer than the others: the caller has to sleep for it. */
static void one_slow_block(void *context, uint32_t block)
{
    const struct timespec nap = {.tv_nsec = 20000000};

    if (block == 0) {
        nanosleep(&nap, NULL);
    }
    count_block(context, block);
}

static void the_caller_waits_for_the_slowest_block(void **state)
{
    static tally t;
    exg_pool *pool = NULL;

    (void)state;
    assert_int_equal(exg_pool_create(2, &pool, NULL), EXG_OK);
    for (uint32_t job = 0; job < 5; job++) {
        memset(&t, 0, sizeof(t));
        exg_pool_run(pool, one_slow_block, &t, 4);
        for (uint32_t b = 0; b < 4; b++) {
            assert_int_equal(t.runs[b], 1);
        }
    }
    exg_pool_destroy(pool);
}

static void no_pool_runs_in_the_caller(void **state)
{
    static tally t;

    (void)state;
    check_job(NULL, &t, 17, 1);
    assert_int_equal(exg_pool_thread_count(NULL), 1);
    exg_pool_destroy(NULL);
}

/* As much as kernels take at most; on a stack that the default would not hold. */
static void fill_stack(void *context, uint32_t block)
{
    volatile char room[1 << 20];

    for (size_t i = 0; i < sizeof(room); i += 512) {
        room[i] = (char)block;
    }
    count_block(context, block);
}

static void a_worker_has_stack_enough_whatever_the_default(void **state)
{
    static tally t;
    pthread_attr_t small;
    exg_pool *pool = NULL;

    (void)state;
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, 128 << 10), 0);
    assert_int_equal(pthread_setattr_default_np(&small), 0);
    memset(&t, 0, sizeof(t));
    assert_int_equal(exg_pool_create(3, &pool, NULL), EXG_OK);
    exg_pool_run(pool, fill_stack, &t, BLOCKS_MAX);
    for (uint32_t b = 0; b < BLOCKS_MAX; b++) {
        assert_int_equal(t.runs[b], 1);
    }
    exg_pool_destroy(pool);
    pthread_attr_destroy(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_runs_every_block_once_and_is_seen_by_the_caller),
        cmocka_unit_test(workers_that_fell_asleep_are_woken),
        cmocka_unit_test(the_caller_waits_for_the_slowest_block),
        cmocka_unit_test(a_worker_has_stack_enough_whatever_the_default),
        cmocka_unit_test(no_pool_runs_in_the_caller),
    };

    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
