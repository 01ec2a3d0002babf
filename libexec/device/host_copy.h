/* host_copy.h - a tensor of a device in the host's memory: copied over, and back again.
 *
 *   open    `here` is the tensor with its elements on the host; of one that is there already
 *           itself, and nothing below does anything
 *   write   brings the host's elements back
 *
 * Open (where it reads) and write wait until all that was asked of the device is done.
 */
#ifndef EXG_LIBEXEC_DEVICE_HOST_COPY_H
#define EXG_LIBEXEC_DEVICE_HOST_COPY_H

#include "libexec/device/device.h"

typedef struct exg_host_copy {
    exg_tensor here;         /* sizes and strides are the tensor's */
    exg_accelerator *device; /* NULL: it is on the host */
    uint8_t *memory, *there; /* from the lowest element to the highest */
    uint64_t bytes;
} exg_host_copy;

/* Of `t` in the memory of `device` (NULL: the host's). Without `reads` the elements are unset
 * where the tensor has no gaps. Closed by the caller when it is OK. NO_MEMORY, DEVICE. */
exg_status exg_host_copy_open(exg_host_copy *m, exg_accelerator *device, const exg_tensor *t,
                              bool reads, exg_error *err);
exg_status exg_host_copy_write(const exg_host_copy *m, exg_error *err);
void exg_host_copy_close(exg_host_copy *m); /* once more is allowed, and of zeros */

#endif
