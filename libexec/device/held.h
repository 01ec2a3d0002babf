/* held.h - an open device that several hold: the meshes of a rank, what lies in its memory, plans
 * for it. It is closed when the last lets go.
 *
 * Memory that is given back stays for the next that asks for as much: what was asked for on the
 * stream is done with it first, in order, so nobody waits. When the device has no more, and past
 * so many blocks, it goes to the device.
 *
 * Threads: as the device.
 */
#ifndef EXG_LIBEXEC_DEVICE_HELD_H
#define EXG_LIBEXEC_DEVICE_HELD_H

#include "libexec/device/device.h"

typedef struct exg_held_device exg_held_device;

/* Opens device `index` of the kind's, counted round; NULL of the host. One use. USAGE DEV-001,
 * DEVICE. */
exg_status exg_held_open(const char *kind, uint32_t index, exg_held_device **held,
                         exg_error *err);
exg_held_device *exg_held_share(exg_held_device *held); /* one use more; NULL gives NULL */
void exg_held_release(exg_held_device *held);           /* one use less; NULL is allowed */

exg_accelerator *exg_held_accelerator(const exg_held_device *held); /* NULL gives NULL */

/* Unset memory of the device, which is used in the stream's order. NO_MEMORY MEM-004. */
exg_status exg_held_take(exg_held_device *held, uint64_t bytes, void **address, exg_error *err);
void exg_held_give(exg_held_device *held, void *address, uint64_t bytes); /* as many as taken */
/* What was given back goes to the device, for others. false: there is none. */
bool exg_held_trim(exg_held_device *held);

/* Prepares a kernel of the device's, and asks for it. The call has operands with their data,
 * arguments and what prepare() takes. UNSUPPORTED: by prepare(). */
exg_status exg_held_launch(exg_held_device *held, const exg_kernel *kernel,
                           const exg_kernel_call *call, exg_error *err);

/* The same of a kernel of the host's (kernels.h). UNSUPPORTED: the device has none for it too. */
exg_status exg_held_compute(exg_held_device *held, const exg_kernel *kernel,
                            const exg_kernel_call *call, exg_error *err);

#endif
