/* storage.h - memory of local parts, on the host or on the device of a mesh. */
#ifndef EXG_LIBEXEC_DTENSOR_STORAGE_H
#define EXG_LIBEXEC_DTENSOR_STORAGE_H

#include "libexec/device/host_copy.h"
#include "libexec/dtensor/mesh.h"

/* Local memory that DTensors share, as views of one another do: it goes with the last. */
typedef struct exg_block exg_block;

/* Unset, of the device (NULL: the host) of a mesh; one use. NO_MEMORY. */
exg_status exg_block_create(const exg_device_mesh *mesh, uint64_t bytes, exg_block **block,
                            exg_error *err);
exg_block *exg_block_share(exg_block *block); /* one use more; NULL gives NULL */
void exg_block_release(exg_block *block);     /* one use less; NULL is allowed */
void *exg_block_data(exg_block *block);       /* aligned to 64 bytes; an address of the device */
uint64_t exg_block_bytes(const exg_block *block);
void exg_block_touch(exg_block *block);             /* it was written again; NULL is allowed */
uint32_t exg_block_version(const exg_block *block); /* how often; 0 of NULL */

/* A tensor in the memory of the host or of the device, as the host sees it (host_copy.h). */
exg_status exg_mesh_host_copy(const exg_device_mesh *mesh, const exg_tensor *t, bool reads,
                              exg_host_copy *m, exg_error *err);

/* On the mesh's device: a copy of a tensor of any strides to one of the same sizes, which does not
 * overlap, and the tensor as it is or, where it is not row-major, as *block (else NULL) has room
 * for it and with `copies` what it is. Asked for. UNSUPPORTED, NO_MEMORY, DEVICE. */
exg_status exg_mesh_copy(const exg_device_mesh *mesh, const exg_tensor *from, const exg_tensor *to,
                         exg_error *err);
exg_status exg_mesh_row_major(const exg_device_mesh *mesh, const exg_tensor *t, bool copies,
                              exg_tensor *row_major, exg_block **block, exg_error *err);

#endif
