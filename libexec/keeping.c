/* keeping.c - in aligned blocks, and in those of devices. */
#include "libexec/keeping.h"
#include "libexec/device/device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* NULL: the host. */
static exg_accelerator *device_of(const exg_engine *engine, uint32_t place)
{
    return engine->devices == NULL ? NULL : engine->devices[place];
}

void exg_keeping_drop(exg_keeping *keeping, const exg_engine *engine)
{
    for (uint32_t p = 0; keeping->data != NULL && p < exg_engine_places(engine); p++) {
        exg_accelerator *device = device_of(engine, p);

        if (device == NULL) {
            free(keeping->data[p]);
        } else {
            device->table->release(device, keeping->data[p]);
        }
        keeping->data[p] = NULL;
    }
    keeping->capacity = 0;
}

exg_status exg_keeping_room(exg_keeping *keeping, const exg_engine *engine, uint64_t bytes,
                            exg_error *err)
{
    if (bytes <= keeping->capacity && keeping->data[0] != NULL) {
        return EXG_OK;
    }
    exg_keeping_drop(keeping, engine);
    for (uint32_t p = 0; p < exg_engine_places(engine); p++) {
        exg_accelerator *device = device_of(engine, p);

        if (device != NULL) {
            EXG_TRY(device->table->allocate(device, bytes, &keeping->data[p], err));
            continue;
        }
        keeping->data[p] =
            bytes > INT64_MAX - 128 ? NULL : aligned_alloc(64, (bytes / 64 + 2) * 64);
        if (keeping->data[p] == NULL) {
            return EXG_FAIL(err, NO_MEMORY, "MEM-002", "a loop's result needs %" PRIu64 " bytes",
                            bytes);
        }
    }
    keeping->capacity = bytes;
    return EXG_OK;
}

exg_status exg_keeping_copy(const exg_engine *engine, uint32_t place, void *to, const void *from,
                            uint64_t bytes, exg_error *err)
{
    exg_accelerator *device = device_of(engine, place);

    if (device != NULL) {
        return device->table->copy(device, to, from, bytes, err);
    }
    memcpy(to, from, bytes);
    return EXG_OK;
}
