/* lane.h - a rank's part of a device: the memory its plan needs there, and the ways in and out.
 *
 *   give   the caller's bytes of a user input, which are copied in as a run begins
 *   take   the host's copy of a result, there when the run has ended
 *
 * What is handed on between the plans of a run stays on the device.
 *
 * Faults of the data are noted by step, in the device's memory.
 */
#ifndef EXG_LIBEXEC_LANE_H
#define EXG_LIBEXEC_LANE_H

#include "libexec/scratch.h"
#include "libexec/staging.h"
#include "libexec/kernels/random.h"

typedef struct exg_lane exg_lane;

/* The plan must stay. `base` and `context` as staging.h asks for them. NO_MEMORY, DEVICE. */
exg_status exg_lane_create(exg_accelerator *device, exg_plan *plan, exg_staging_base *base,
                           const void *context, exg_lane **lane, exg_error *err);
void exg_lane_destroy(exg_lane *lane); /* NULL is allowed */

/* Takes its turn in the scratch: before all that follows. LIMIT, NO_MEMORY, DEVICE. */
exg_status exg_lane_settle(exg_lane *lane, exg_scratch *scratch, uint32_t level, uint32_t rank,
                           exg_error *err);

uint8_t *exg_lane_arena(const exg_lane *lane);
uint8_t *exg_lane_input(const exg_lane *lane, uint32_t input); /* NULL: not the caller's */

/* What step `s` works with but its operands on the device; those too where the host computes
 * it, whose faults go to `fault`. */
void exg_lane_bind(exg_lane *lane, uint32_t s, exg_fault_note *fault,
                   const exg_random_source *random);

void exg_lane_give(exg_lane *lane, uint32_t input, void *data);
void *exg_lane_taken(const exg_lane *lane, uint32_t output); /* NULL: not the host's */

/* Operands of its steps lie elsewhere now. */
void exg_lane_moved(exg_lane *lane);

/* A run: its inputs and random numbers, steps, results. After end() all is done, but where all
 * inputs and results are handed on, no step can raise a fault and none exchanges: then it has been
 * asked for. *step is the first that raised a fault, or EXG_NO_STEP, and *note what it noted. */
#define EXG_NO_STEP UINT32_MAX
exg_status exg_lane_begin(exg_lane *lane, const exg_random_source *random, exg_error *err);
exg_status exg_lane_step(exg_lane *lane, uint32_t s, exg_error *err);
exg_status exg_lane_end(exg_lane *lane, uint32_t *step, exg_fault_note *note, exg_error *err);

/* The same where nothing is handed out: after the steps that run once. */
exg_status exg_lane_filled(exg_lane *lane, uint32_t *step, exg_fault_note *note, exg_error *err);

/* All steps of a run, asked for as one when the device can. */
bool exg_lane_can_replay(const exg_lane *lane);
exg_status exg_lane_replay(exg_lane *lane, exg_error *err);

#endif
