/* pipeline.c - two batches of slots: one is made while the other is used. */
#include "libexport/base/pipeline.h"

#include <stdatomic.h>
#include <stdlib.h>

#define BATCH_MAX 16

typedef struct batch {
    uint64_t first; /* block */
    uint32_t count;
    uint32_t slot; /* of the first block */
} batch;

typedef struct pipeline {
    exg_pipeline_step *make;
    exg_pipeline_step *use;
    void *context;
    batch made, making;  /* `made` waits for use() */
    atomic_uint next;    /* of `making` */
    exg_status *results; /* a slot each */
    exg_error *errors;
    exg_status used; /* of `made` */
    exg_error used_error;
} pipeline;

static uint32_t batch_size(const exg_pool *pool)
{
    uint32_t threads = exg_pool_thread_count(pool);

    return threads == 1 ? 1 : threads < BATCH_MAX / 2 ? 2 * threads : BATCH_MAX;
}

uint32_t exg_pipeline_slots(const exg_pool *pool)
{
    return 2 * batch_size(pool);
}

uint32_t exg_pipeline_workers(const exg_pool *pool)
{
    return exg_pool_thread_count(pool);
}

static void use_batch(pipeline *p)
{
    p->used = EXG_OK;
    for (uint32_t i = 0; i < p->made.count && p->used == EXG_OK; i++) {
        exg_pipeline_block block = {p->made.first + i, p->made.slot + i, 0};

        p->used = p->results[block.slot];
        if (p->used != EXG_OK) {
            p->used_error = p->errors[block.slot];
        } else {
            p->used = p->use(p->context, &block, &p->used_error);
        }
    }
}

/* The first worker uses what was made, then all of them make. */
static void work(void *context, uint32_t worker)
{
    pipeline *p = context;
    uint32_t i;

    if (worker == 0) {
        use_batch(p);
    }
    while ((i = atomic_fetch_add(&p->next, 1)) < p->making.count) {
        exg_pipeline_block block = {p->making.first + i, p->making.slot + i, worker};

        p->results[block.slot] = p->make(p->context, &block, &p->errors[block.slot]);
    }
}

static exg_status run(pipeline *p, exg_pool *pool, uint64_t block_count, exg_error *err)
{
    uint32_t size = batch_size(pool);
    uint64_t at = 0;

    while (at < block_count || p->made.count > 0) {
        uint64_t left = block_count - at;

        p->making = (batch){at, left < size ? (uint32_t)left : size, p->made.slot == 0 ? size : 0};
        atomic_store(&p->next, 0);
        exg_pool_run(pool, work, p, exg_pool_thread_count(pool));
        if (p->used != EXG_OK) {
            if (err != NULL) {
                *err = p->used_error;
            }
            return p->used;
        }
        at += p->making.count;
        p->made = p->making;
    }
    return EXG_OK;
}

exg_status exg_pipeline_run(exg_pool *pool, uint64_t block_count, exg_pipeline_step *make,
                            exg_pipeline_step *use, void *context, exg_error *err)
{
    pipeline p = {.make = make, .use = use, .context = context};
    uint32_t slots = exg_pipeline_slots(pool);
    exg_status status;

    p.results = calloc(slots, sizeof(*p.results));
    p.errors = calloc(slots, sizeof(*p.errors));
    status = p.results == NULL || p.errors == NULL ? EXG_OUT_OF_MEMORY(err)
                                                   : run(&p, pool, block_count, err);
    free(p.results);
    free(p.errors);
    return status;
}
