/* mirror.h - what lies on a device as the host sees it: a copy over, and back again.
 *
 *   open    `here` is the tensor with its elements on the host; of one that is there already
 *           itself, and nothing below does anything
 *   write   brings the host's elements back
 *
 * Open (where it reads) and write wait until all that was asked of the device is done.
 */
#ifndef EXG_LIBEXEC_DEVICE_MIRROR_H
#define EXG_LIBEXEC_DEVICE_MIRROR_H

#include "libexec/device/device.h"

typedef struct exg_mirror {
    exg_tensor here;         /* sizes and strides are the tensor's */
    exg_accelerator *device; /* NULL: it lies on the host */
    uint8_t *memory, *there; /* from the lowest element to the highest */
    uint64_t bytes;
} exg_mirror;

/* Of `t` in the memory of `device` (NULL: the host's). Without `reads` the elements are unset
 * where the tensor has no gaps. Closed by the caller when it is OK. NO_MEMORY, DEVICE. */
exg_status exg_mirror_open(exg_mirror *m, exg_accelerator *device, const exg_tensor *t, bool reads,
                           exg_error *err);
exg_status exg_mirror_write(const exg_mirror *m, exg_error *err);
void exg_mirror_close(exg_mirror *m); /* once more is allowed, and of zeros */

#endif
