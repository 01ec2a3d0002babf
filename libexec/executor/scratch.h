/* scratch.h - memory that the plans of a session take turns in: what is there lasts until another
 * plan has its turn.
 *
 * A run is a chain of segments, with loops between them whose graphs are chains of their own. Each
 * segment of the chain has a level, the graphs of a loop those after it, so what one left is there
 * while those after it run. Plans of one level never run at once: they are in the same blocks, each
 * as large as the largest asked for.
 */
#ifndef EXG_LIBEXEC_EXECUTOR_SCRATCH_H
#define EXG_LIBEXEC_EXECUTOR_SCRATCH_H

#include "libexec/executor/memory_budget.h"

typedef enum exg_scratch_use {
    EXG_SCRATCH_VALUES,            /* of a plan */
    EXG_SCRATCH_WORKSPACE,         /* of the step that runs */
    EXG_SCRATCH_STAGING,           /* operands of a step that the host computes for a device, */
    EXG_SCRATCH_STAGING_WORKSPACE, /* and its workspace */
    EXG_SCRATCH_INPUT,             /* on a device, of a user's input */
    EXG_SCRATCH_RESULT,            /* the host's copy of what a device made */
    EXG_SCRATCH_COPY,              /* a rank's own copy of an input that the program writes */
    EXG_SCRATCH_GIVEN,             /* an input that lay in a result of the last run, */
    EXG_SCRATCH_GIVEN_THERE,       /* and one on the device */
    EXG_SCRATCH_LOOP,              /* what a loop keeps from iteration to iteration */
} exg_scratch_use;

/* Which block: of a level, of a rank of this process, and of several of one use. */
typedef struct exg_scratch_key {
    exg_scratch_use use;
    uint32_t level, rank, index;
} exg_scratch_key;

typedef struct exg_scratch_row exg_scratch_row;

typedef struct exg_scratch {
    exg_memory_budget *budget;
    exg_scratch_row *rows;
    uint32_t row_count, row_capacity;
    uint32_t live;  /* levels that hold what is still read: the caller's to say */
    uint64_t moves; /* how often a block moved */
} exg_scratch;

/* At least `bytes`, aligned to 64, on the host (`device` NULL) or the device. What was in the block
 * may be lost. Where `moves` is as it was, blocks are where they lay. LIMIT PLC-009; NO_MEMORY. */
exg_status exg_scratch_block(exg_scratch *scratch, exg_scratch_key key,
                             struct exg_accelerator *device, uint64_t bytes, void **block,
                             exg_error *err);

/* Is any of the bytes in one of the blocks of the host (`device` NULL) or the device, other than
 * GIVEN ones? */
bool exg_scratch_holds(const exg_scratch *scratch, const struct exg_accelerator *device,
                       const void *data, uint64_t bytes);

/* Lets go of a block that no live level reads: false, there is none. */
bool exg_scratch_evict(exg_scratch *scratch);

/* Lets go of all. */
void exg_scratch_empty(exg_scratch *scratch);

#endif
