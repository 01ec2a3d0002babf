/* device_frame.h - the memory that a rank's plan needs on a device, and the ways in and out: what
 * nativert calls an execution frame.
 *
 *   give   the caller's bytes of a user input, which are copied in as a run begins
 *   take   the host's copy of a result, there when the run has ended; or where it is bound to
 *
 * What one plan of a run leaves for another stays on the device.
 *
 * Faults of the data are noted by step, in the device's memory.
 */
#ifndef EXG_LIBEXEC_EXECUTOR_DEVICE_FRAME_H
#define EXG_LIBEXEC_EXECUTOR_DEVICE_FRAME_H

#include "libexec/executor/host_fallback.h"
#include "libexec/executor/scratch.h"
#include "libexec/kernels/random.h"

typedef struct exg_device_frame exg_device_frame;

/* Bytes of a result that is a tensor, packed. */
uint64_t exg_plan_result_bytes(const exg_plan_output *output);

/* A result that is an input is handed out before the others, which may be bound to its memory. */
bool exg_plan_output_comes_first(const exg_plan *plan, uint32_t output);

/* Memory of the caller's for a result, on the device (`there`) or the host; NULL: the plan's own.
 */
typedef struct exg_result_place {
    void *data;
    bool there;
} exg_result_place;

/* The plan must stay. `base` and `context` as host_fallback.h asks for them. NO_MEMORY, DEVICE. */
exg_status exg_device_frame_create(exg_accelerator *device, exg_plan *plan,
                                   exg_host_fallback_base *base, const void *context,
                                   exg_device_frame **frame, exg_error *err);
void exg_device_frame_destroy(exg_device_frame *frame); /* NULL is allowed */

/* Takes its turn in the scratch: before all that follows. LIMIT, NO_MEMORY, DEVICE. */
exg_status exg_device_frame_settle(exg_device_frame *frame, exg_scratch *scratch, uint32_t level,
                                   uint32_t rank, exg_error *err);

uint8_t *exg_device_frame_arena(const exg_device_frame *frame);
uint8_t *exg_device_frame_input(const exg_device_frame *frame,
                                uint32_t input); /* NULL: not the caller's */

/* What step `s` works with but its operands on the device; those too where the host computes
 * it, whose faults go to `fault`. */
void exg_device_frame_bind(exg_device_frame *frame, uint32_t s, exg_fault_note *fault,
                           const exg_random_source *random);

/* `there`: in the device's memory. NULL: its steps find it where it is. */
void exg_device_frame_give(exg_device_frame *frame, uint32_t input, void *data, bool there);
void *exg_device_frame_taken(const exg_device_frame *frame,
                             uint32_t output); /* NULL: not the host's */

/* Is the input's room needed, or will it be used where it is? True: not as before, so the frame is
 * to be settled again. */
bool exg_device_frame_expect(exg_device_frame *frame, uint32_t input, bool there);

/* Where a result is to be from the next run on. */
void exg_device_frame_bind_output(exg_device_frame *frame, uint32_t output,
                                  const exg_result_place *place);

/* Operands of its steps have moved. */
void exg_device_frame_moved(exg_device_frame *frame);

/* A run: its inputs and random numbers, steps, results. After end() all is done; or only
 * enqueued, where all inputs and results are other plans', no step can raise a fault and none is a
 * collective. *step is the first that raised a fault, or EXG_NO_STEP, and *note what it noted. */
#define EXG_NO_STEP UINT32_MAX
/* `waits` false: it is only enqueued in any case, and exg_device_frame_filled waits. */
exg_status exg_device_frame_begin(exg_device_frame *frame, const exg_random_source *random,
                                  exg_error *err);
exg_status exg_device_frame_step(exg_device_frame *frame, uint32_t s, exg_error *err);
exg_status exg_device_frame_end(exg_device_frame *frame, bool waits, uint32_t *step,
                                exg_fault_note *note, exg_error *err);

/* Waits for all runs, and for the folded steps. */
exg_status exg_device_frame_filled(exg_device_frame *frame, uint32_t *step, exg_fault_note *note,
                                   exg_error *err);

/* All steps of a run, asked for as one when the device can. */
bool exg_device_frame_can_replay(const exg_device_frame *frame);
exg_status exg_device_frame_replay(exg_device_frame *frame, exg_error *err);

#endif
