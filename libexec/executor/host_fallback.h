/* host_fallback.h - a step that the host computes for a device: its operands come over, its results
 * go back.
 */
#ifndef EXG_LIBEXEC_EXECUTOR_HOST_FALLBACK_H
#define EXG_LIBEXEC_EXECUTOR_HOST_FALLBACK_H

#include "libexec/device/device.h"
#include "libexec/plan/plan_internal.h"

/* Bytes of the host's memory, aligned to 64, that the step's operands take. */
uint64_t exg_host_fallback_bytes(exg_step *step);

/* The step's operands are in `memory` from here on. */
void exg_host_fallback_bind(exg_step *step, uint8_t *memory);

/* By buffer: its first byte on the device. */
typedef uint8_t *exg_host_fallback_base(const void *context, uint32_t buffer);

/* Brings the operands over, runs the kernel and brings the results back; `memory` as it was
 * bound. */
exg_status exg_host_fallback_run(exg_accelerator *device, const exg_step *step, uint8_t *memory,
                                 exg_host_fallback_base *base, const void *context, exg_error *err);

#endif
