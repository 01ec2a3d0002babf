/* storage.c - memory of local parts, shared by views of one another, and what is copied there. */
#include "libexec/dtensor/storage.h"
#include "libexec/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_ALIGN 64

struct exg_block {
    uint32_t uses; /* by one rank's thread */
    uint32_t version;
    exg_shared_device *shared_device; /* NULL: the host, whose bytes follow */
    void *there;                      /* on the device */
    uint64_t bytes;                   /* of its memory */
};

static exg_status take_there(exg_block *block, exg_shared_device *shared_device, uint64_t bytes,
                             exg_error *err)
{
    EXG_TRY(exg_shared_device_allocate(shared_device, bytes, &block->there, err));
    block->shared_device = exg_shared_device_share(shared_device);
    block->bytes = bytes;
    return EXG_OK;
}

/* Small blocks come and go with every operator: plain malloc keeps lists of them, memalign has
 * none. */
exg_status exg_block_create(const exg_device_mesh *mesh, uint64_t bytes, exg_block **block,
                            exg_error *err)
{
    uint64_t here = mesh->shared_device == NULL ? BLOCK_ALIGN - 1 + bytes : 0;
    exg_block *made = bytes > SIZE_MAX - sizeof(*made) - BLOCK_ALIGN
                          ? NULL
                          : malloc(sizeof(*made) + (size_t)here);
    exg_status status;

    *block = NULL;
    if (made == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    made->uses = 1;
    made->version = 0;
    made->shared_device = NULL;
    made->bytes = bytes;
    status =
        mesh->shared_device == NULL ? EXG_OK : take_there(made, mesh->shared_device, bytes, err);
    if (status != EXG_OK) {
        free(made);
        return status;
    }
    *block = made;
    return EXG_OK;
}

exg_block *exg_block_share(exg_block *block)
{
    if (block != NULL) {
        block->uses++;
    }
    return block;
}

void exg_block_release(exg_block *block)
{
    if (block != NULL && --block->uses == 0) {
        if (block->shared_device != NULL) {
            exg_shared_device_free(block->shared_device, block->there, block->bytes);
            exg_shared_device_release(block->shared_device);
        }
        free(block);
    }
}

uint64_t exg_block_bytes(const exg_block *block)
{
    return block->bytes;
}

void exg_block_touch(exg_block *block)
{
    if (block != NULL) {
        block->version++;
    }
}

uint32_t exg_block_version(const exg_block *block)
{
    return block == NULL ? 0 : block->version;
}

void *exg_block_data(exg_block *block)
{
    uint8_t *at = (uint8_t *)(block + 1);

    if (block->shared_device != NULL) {
        return block->there;
    }
    return at + (BLOCK_ALIGN - (uintptr_t)at % BLOCK_ALIGN) % BLOCK_ALIGN;
}

exg_status exg_mesh_host_copy(const exg_device_mesh *mesh, const exg_tensor *t, bool reads,
                              exg_host_copy *m, exg_error *err)
{
    exg_accelerator *device = mesh->device;
    bool there = device != NULL && device->table->holds(device, t->data);

    return exg_host_copy_open(m, there ? device : NULL, t, reads, err);
}

exg_status exg_mesh_copy(const exg_device_mesh *mesh, const exg_tensor *from, const exg_tensor *to,
                         exg_error *err)
{
    uint64_t bytes = (uint64_t)exg_tensor_numel(to) * exg_dtype_bytes(to->dtype);
    exg_tensor in = *from;
    exg_tensor out = *to;
    exg_kernel_call call = {.inputs = &in, .outputs = &out, .input_count = 1, .output_count = 1};

    if (bytes == 0) {
        return EXG_OK;
    }
    return exg_tensor_is_contiguous(from) && exg_tensor_is_contiguous(to)
               ? mesh->device->table->copy(mesh->device, to->data, from->data, bytes, err)
               : exg_shared_device_compute(mesh->shared_device, &exg_kernel_copy, &call, err);
}

exg_status exg_mesh_row_major(const exg_device_mesh *mesh, const exg_tensor *t, bool copies,
                              exg_tensor *row_major, exg_block **block, exg_error *err)
{
    uint64_t bytes = (uint64_t)exg_tensor_numel(t) * exg_dtype_bytes(t->dtype);

    *row_major = *t;
    *block = NULL;
    if (exg_tensor_is_contiguous(t)) {
        return EXG_OK;
    }
    EXG_TRY(exg_block_create(mesh, bytes, block, err));
    exg_tensor_set_contiguous(row_major);
    row_major->data = exg_block_data(*block);
    return copies ? exg_mesh_copy(mesh, t, row_major, err) : EXG_OK;
}
