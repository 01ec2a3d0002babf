/* copy.c - to, from and within the device. Long copies of pageable memory go through two pinned
 * buffers in turn: the host fills one, with all cores that are lent, while the device empties the
 * other.
 */
#include "libexec/device/cuda/link.h"

#include <string.h>

#define DIRECT_MAX (64u << 10) /* bytes that the driver stages itself */

void exg_cuda_drop_stages(exg_cuda_device *device)
{
    for (int i = 0; i < 2; i++) {
        if (device->staged[i] != NULL) {
            (void)device->driver.event_destroy(device->staged[i]);
        }
        if (device->stages[i] != NULL) {
            (void)device->driver.pinned_free(device->stages[i]);
        }
        device->stages[i] = NULL;
        device->staged[i] = NULL;
    }
}

static exg_status need_stages(exg_cuda_device *d, exg_error *err)
{
    for (int i = 0; i < 2; i++) {
        if (d->stages[i] == NULL) {
            EXG_TRY(exg_cuda_check(&d->driver,
                                   d->driver.pinned_alloc(&d->stages[i], EXG_CUDA_STAGE),
                                   "taking pinned memory", err));
        }
        if (d->staged[i] == NULL) {
            EXG_TRY(exg_cuda_check(&d->driver,
                                   d->driver.event_create(&d->staged[i], CUDA_EVENT_NO_TIMING),
                                   "making an event", err));
        }
    }
    return EXG_OK;
}

/* A part between pageable memory and a stage, by each core a block at a time: one core alone
 * copies at a fraction of what the device takes. */
typedef struct staging {
    char *to;
    const char *from;
    size_t bytes;
} staging;

#define BLOCK_BYTES (1u << 20)

static void copy_block(void *context, uint32_t block)
{
    const staging *s = context;
    size_t first = (size_t)block * BLOCK_BYTES;
    size_t left = s->bytes - first;

    memcpy(s->to + first, s->from + first, left < BLOCK_BYTES ? left : BLOCK_BYTES);
}

static void copy_part(const exg_cuda_device *d, void *to, const void *from, size_t bytes)
{
    staging s = {to, from, bytes};

    exg_pool_run(d->head.pool, copy_block, &s, (uint32_t)((bytes + BLOCK_BYTES - 1) / BLOCK_BYTES));
}

static exg_status stage_in(exg_cuda_device *d, cuda_address to, const char *from, uint64_t bytes,
                           exg_error *err)
{
    const exg_cuda_driver *c = &d->driver;

    for (uint64_t done = 0, turn = 0; done < bytes; turn++) {
        uint64_t left = bytes - done;
        size_t part = left < EXG_CUDA_STAGE ? (size_t)left : EXG_CUDA_STAGE;

        /* an event that was never recorded is over */
        EXG_TRY(exg_cuda_check(c, c->event_wait(d->staged[turn % 2]), "waiting for a copy", err));
        copy_part(d, d->stages[turn % 2], from + done, part);
        EXG_TRY(exg_cuda_check(c, c->copy_in(to + done, d->stages[turn % 2], part, d->stream),
                               "copying to the device", err));
        EXG_TRY(exg_cuda_check(c, c->event_record(d->staged[turn % 2], d->stream),
                               "recording an event", err));
        done += part;
    }
    return EXG_OK;
}

/* Bytes of part `turn`. */
static size_t part_of(uint64_t bytes, uint64_t turn)
{
    uint64_t left = bytes - turn * EXG_CUDA_STAGE;

    return left < EXG_CUDA_STAGE ? (size_t)left : EXG_CUDA_STAGE;
}

static exg_status stage_out(exg_cuda_device *d, char *to, cuda_address from, uint64_t bytes,
                            exg_error *err)
{
    const exg_cuda_driver *c = &d->driver;
    uint64_t parts = (bytes + EXG_CUDA_STAGE - 1) / EXG_CUDA_STAGE;

    for (uint64_t turn = 0; turn <= parts; turn++) {
        if (turn < parts) {
            EXG_TRY(exg_cuda_check(c,
                                   c->copy_out(d->stages[turn % 2], from + turn * EXG_CUDA_STAGE,
                                               part_of(bytes, turn), d->stream),
                                   "copying from the device", err));
            EXG_TRY(exg_cuda_check(c, c->event_record(d->staged[turn % 2], d->stream),
                                   "recording an event", err));
        }
        if (turn > 0) { /* the part before, while this one is on its way */
            uint64_t last = turn - 1;

            EXG_TRY(
                exg_cuda_check(c, c->event_wait(d->staged[last % 2]), "waiting for a copy", err));
            copy_part(d, to + last * EXG_CUDA_STAGE, d->stages[last % 2], part_of(bytes, last));
        }
    }
    return EXG_OK;
}

exg_status exg_cuda_copy_in(exg_accelerator *device, void *to, const void *from, uint64_t bytes,
                            exg_error *err)
{
    exg_cuda_device *d = (exg_cuda_device *)device;
    cuda_address address = (cuda_address)(uintptr_t)to;

    if (bytes == 0) {
        return EXG_OK;
    }
    EXG_TRY(exg_cuda_enter(d, err));
    if (bytes <= DIRECT_MAX || d->recording != NULL) {
        return exg_cuda_check(&d->driver, d->driver.copy_in(address, from, bytes, d->stream),
                              "copying to the device", err);
    }
    EXG_TRY(need_stages(d, err));
    if (d->links != NULL) { /* as below: a stage may be waited for */
        EXG_TRY(exg_cuda_watch(d, err));
    }
    return stage_in(d, address, from, bytes, err);
}

exg_status exg_cuda_copy_out(exg_accelerator *device, void *to, const void *from, uint64_t bytes,
                             exg_error *err)
{
    exg_cuda_device *d = (exg_cuda_device *)device;
    cuda_address address = (cuda_address)(uintptr_t)from;

    if (bytes == 0) {
        return EXG_OK;
    }
    EXG_TRY(exg_cuda_enter(d, err));
    if (d->links != NULL) { /* a copy may block, and would hide a collective that does not end */
        EXG_TRY(exg_cuda_watch(d, err));
    }
    if (bytes <= DIRECT_MAX || d->recording != NULL) {
        return exg_cuda_check(&d->driver, d->driver.copy_out(to, address, bytes, d->stream),
                              "copying from the device", err);
    }
    EXG_TRY(need_stages(d, err));
    return stage_out(d, to, address, bytes, err);
}

exg_status exg_cuda_copy_within(exg_accelerator *device, void *to, const void *from, uint64_t bytes,
                                exg_error *err)
{
    exg_cuda_device *d = (exg_cuda_device *)device;

    if (bytes == 0) {
        return EXG_OK;
    }
    EXG_TRY(exg_cuda_enter(d, err));
    return exg_cuda_check(&d->driver,
                          d->driver.copy((cuda_address)(uintptr_t)to, (cuda_address)(uintptr_t)from,
                                         bytes, d->stream),
                          "copying on the device", err);
}
