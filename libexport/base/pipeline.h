/* pipeline.h - blocks made on all cores and used in order.
 *
 * While blocks are made, the ones made before are used, so a job takes as long as the
 * slower of the two. Blocks live in slots: what make() leaves in one stays there until
 * use() has had it. The first fault in the order of blocks ends the job.
 * Threads: one job at a time.
 */
#ifndef EXG_LIBEXPORT_BASE_PIPELINE_H
#define EXG_LIBEXPORT_BASE_PIPELINE_H

#include "libexport/base/pool.h"

#include <exg/status.h>
#include <stdint.h>

typedef struct exg_pipeline_block {
    uint64_t index;  /* of the block in the job */
    uint32_t slot;   /* below exg_pipeline_slots() */
    uint32_t worker; /* below exg_pipeline_workers(): nobody else has it meanwhile; of make() */
} exg_pipeline_block;

typedef exg_status exg_pipeline_step(void *context, const exg_pipeline_block *block,
                                     exg_error *err);

/* NULL is a pool of one. */
uint32_t exg_pipeline_slots(const exg_pool *pool);
uint32_t exg_pipeline_workers(const exg_pool *pool);

/* make() on any thread, then use() in the order of blocks, one at a time. */
exg_status exg_pipeline_run(exg_pool *pool, uint64_t block_count, exg_pipeline_step *make,
                            exg_pipeline_step *use, void *context, exg_error *err);

#endif
