/* pipeline.c - every block made once and used once, in order; the first fault counts. */
#include "libexport/base/pipeline.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

typedef struct job {
    uint64_t slots[64];
    atomic_int busy[64]; /* of workers */
    uint64_t used;
    uint64_t make_fails, use_fails; /* at this block, UINT64_MAX: never */
    bool broken;
} job;

static exg_status make(void *context, const exg_pipeline_block *block, exg_error *err)
{
    job *j = context;

    if (atomic_fetch_add(&j->busy[block->worker], 1) != 0) {
        j->broken = true; /* two blocks of one worker at once */
    }
    j->slots[block->slot] = block->index * 3 + 1;
    atomic_fetch_sub(&j->busy[block->worker], 1);
    if (block->index >= j->make_fails) {
        return EXG_FAIL(err, IO, "MADE", "block %llu", (unsigned long long)block->index);
    }
    return EXG_OK;
}

static exg_status use(void *context, const exg_pipeline_block *block, exg_error *err)
{
    job *j = context;

    if (block->index != j->used || j->slots[block->slot] != block->index * 3 + 1) {
        j->broken = true;
    }
    j->used++;
    return block->index == j->use_fails ? EXG_FAIL(err, LIMIT, "USED", "stop") : EXG_OK;
}

static void it_uses_every_block_once_and_in_order(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 12; threads++) {
        static const uint64_t counts[] = {0, 1, 2, 3, 7, 64, 1000};
        exg_pool *pool = NULL;

        assert_int_equal(exg_pool_create(threads, &pool, NULL), EXG_OK);
        assert_true(exg_pipeline_slots(pool) <= 64);
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            job j = {.make_fails = UINT64_MAX, .use_fails = UINT64_MAX};

            assert_int_equal(exg_pipeline_run(pool, counts[c], make, use, &j, NULL), EXG_OK);
            assert_int_equal(j.used, counts[c]);
            assert_false(j.broken);
        }
        exg_pool_destroy(pool);
    }
}

static void it_ends_with_the_first_fault(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 3; threads++) {
        exg_pool *pool = NULL;
        exg_error err;
        job made = {.make_fails = 37, .use_fails = UINT64_MAX};
        job used = {.make_fails = 37, .use_fails = 36};

        assert_int_equal(exg_pool_create(threads, &pool, NULL), EXG_OK);
        assert_int_equal(exg_pipeline_run(pool, 100, make, use, &made, &err), EXG_IO);
        assert_string_equal(err.message, "block 37");
        assert_int_equal(made.used, 37);
        assert_int_equal(exg_pipeline_run(pool, 100, make, use, &used, &err), EXG_LIMIT);
        assert_string_equal(err.code, "USED");
        assert_int_equal(used.used, 37);
        exg_pool_destroy(pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_uses_every_block_once_and_in_order),
        cmocka_unit_test(it_ends_with_the_first_fault),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
