/* shared_device.c - see shared_device.h. */
#include "libexec/device/shared_device.h"

#include <stdlib.h>
#include <string.h>

#define KEPT_MAX  64
#define ROUND     512u
#define ASKED_MAX 256 /* uses of the arena between two waits */

typedef struct kept {
    void *address;
    uint64_t bytes;
} kept;

struct exg_shared_device {
    exg_accelerator *open;
    uint32_t uses;
    kept kept[KEPT_MAX]; /* given back, the oldest first */
    uint32_t kept_count;
    exg_arena *asked; /* what was asked for since works with this; NULL: nothing was */
    uint32_t asked_count;
};

exg_status exg_shared_device_open(const char *kind, uint32_t index, exg_shared_device **device,
                                  exg_error *err)
{
    const exg_device_table *table;
    exg_shared_device *made;
    uint32_t count;
    exg_status status;

    *device = NULL;
    if (strcmp(kind, exg_device_kind(0)) == 0) {
        return EXG_OK;
    }
    EXG_TRY(exg_device_table_find(kind, &table, err));
    EXG_TRY(table->count(&count, err));
    made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    made->uses = 1;
    index %= count;
    status = table->open(index, &made->open, err);
    if (status != EXG_OK) {
        free(made);
        return exg_error_within(err, status, "%s:%u", kind, index);
    }
    *device = made;
    return EXG_OK;
}

exg_shared_device *exg_shared_device_share(exg_shared_device *device)
{
    if (device != NULL) {
        device->uses++;
    }
    return device;
}

bool exg_shared_device_empty_cache(exg_shared_device *device)
{
    bool any = device->kept_count > 0;

    for (uint32_t i = 0; i < device->kept_count; i++) {
        device->open->table->release(device->open, device->kept[i].address);
    }
    device->kept_count = 0;
    return any;
}

void exg_shared_device_release(exg_shared_device *device)
{
    if (device != NULL && --device->uses == 0) {
        (void)exg_shared_device_empty_cache(device);
        device->open->table->close(device->open);
        exg_arena_destroy(device->asked);
        free(device);
    }
}

exg_accelerator *exg_shared_device_accelerator(const exg_shared_device *device)
{
    return device == NULL ? NULL : device->open;
}

static uint64_t rounded(uint64_t bytes)
{
    return bytes > UINT64_MAX - ROUND ? bytes : (bytes + ROUND - 1) / ROUND * ROUND;
}

/* The one given back last is likeliest near. */
static void *take_kept(exg_shared_device *device, uint64_t bytes)
{
    for (uint32_t i = device->kept_count; i-- > 0;) {
        if (device->kept[i].bytes == bytes) {
            void *address = device->kept[i].address;

            device->kept_count--;
            memmove(&device->kept[i], &device->kept[i + 1],
                    (device->kept_count - i) * sizeof(device->kept[0]));
            return address;
        }
    }
    return NULL;
}

exg_status exg_shared_device_allocate(exg_shared_device *device, uint64_t bytes, void **address,
                                      exg_error *err)
{
    const exg_device_table *table = device->open->table;
    uint64_t whole = table->shows_releases ? bytes : rounded(bytes);
    exg_status status;

    *address = table->shows_releases ? NULL : take_kept(device, whole);
    if (*address != NULL) {
        return EXG_OK;
    }
    status = table->allocate(device->open, whole, address, err);
    if (status == EXG_NO_MEMORY && exg_shared_device_empty_cache(device)) {
        exg_error_clear(err);
        status = table->allocate(device->open, whole, address, err);
    }
    return status;
}

void exg_shared_device_free(exg_shared_device *device, void *address, uint64_t bytes)
{
    if (device->kept_count == KEPT_MAX) {
        (void)exg_shared_device_empty_cache(device);
    }
    device->kept[device->kept_count++] =
        (kept){address, device->open->table->shows_releases ? bytes : rounded(bytes)};
}

/* What is in it stays until what is asked for next is done. */
static exg_status arena_for_asked(exg_shared_device *device, exg_arena **arena, exg_error *err)
{
    if (device->asked == NULL) {
        device->asked = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    }
    if (device->asked == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (device->asked_count++ == ASKED_MAX) {
        EXG_TRY(device->open->table->wait(device->open, err));
        exg_arena_reset(device->asked);
        device->asked_count = 1;
    }
    *arena = device->asked;
    return EXG_OK;
}

exg_status exg_shared_device_launch(exg_shared_device *device, const exg_kernel *kernel,
                                    const exg_kernel_call *call, exg_error *err)
{
    exg_kernel_call made = *call;
    exg_status status;

    made.device = device->open;
    EXG_TRY(arena_for_asked(device, &made.arena, err));
    EXG_TRY(kernel->prepare(&made, err));
    if (made.workspace_bytes > 0) {
        EXG_TRY(exg_shared_device_allocate(device, made.workspace_bytes, &made.workspace, err));
    }
    status = device->open->table->launch(device->open, kernel, &made, made.input_count, err);
    if (made.workspace_bytes > 0) {
        exg_shared_device_free(device, made.workspace, made.workspace_bytes);
    }
    return status;
}

exg_status exg_shared_device_compute(exg_shared_device *device, const exg_kernel *kernel,
                                     const exg_kernel_call *call, exg_error *err)
{
    const exg_kernel *own = device->open->table->kernel_of(kernel);

    return own == NULL ? EXG_FAIL(err, UNSUPPORTED, "KRN-001", "the device has no kernel '%s'",
                                  kernel->name)
                       : exg_shared_device_launch(device, own, call, err);
}
