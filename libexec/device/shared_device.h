/* shared_device.h - an open device with several users: the meshes of a rank, tensors in its memory,
 * plans for it. It is closed when the last one releases it.
 *
 * Its memory comes from a caching allocator, as PyTorch's does: a freed block stays for the next
 * request of as many bytes. Work on the stream is in order, so nobody waits for it. Blocks go back
 * to the device when it has no more memory, and past a number of them.
 *
 * Threads: as the device.
 */
#ifndef EXG_LIBEXEC_DEVICE_SHARED_DEVICE_H
#define EXG_LIBEXEC_DEVICE_SHARED_DEVICE_H

#include "libexec/device/device.h"

typedef struct exg_shared_device exg_shared_device;

/* Opens device `index` of the kind's, counted round; NULL of the host. One user. USAGE DEV-001,
 * DEVICE. */
exg_status exg_shared_device_open(const char *kind, uint32_t index, exg_shared_device **device,
                                  exg_error *err);
exg_shared_device *exg_shared_device_share(
    exg_shared_device *device);                            /* one user more; NULL gives NULL */
void exg_shared_device_release(exg_shared_device *device); /* one user less; NULL is allowed */

exg_accelerator *exg_shared_device_accelerator(
    const exg_shared_device *device); /* NULL gives NULL */

/* Unset memory of the device, which is used in the stream's order. NO_MEMORY MEM-004. */
exg_status exg_shared_device_allocate(exg_shared_device *device, uint64_t bytes, void **address,
                                      exg_error *err);
void exg_shared_device_free(exg_shared_device *device, void *address,
                            uint64_t bytes); /* as many as allocated */
/* Cached blocks go back to the device, for others. false: there is none. */
bool exg_shared_device_empty_cache(exg_shared_device *device);

/* Prepares a kernel of the device's, and asks for it. The call has operands with their data,
 * arguments and what prepare() takes. UNSUPPORTED: by prepare(). */
exg_status exg_shared_device_launch(exg_shared_device *device, const exg_kernel *kernel,
                                    const exg_kernel_call *call, exg_error *err);

/* The same of a kernel of the host's (kernels.h). UNSUPPORTED: the device has none for it too. */
exg_status exg_shared_device_compute(exg_shared_device *device, const exg_kernel *kernel,
                                     const exg_kernel_call *call, exg_error *err);

#endif
