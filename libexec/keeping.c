/* keeping.c - in aligned blocks, and in those of devices. */
#include "libexec/keeping.h"
#include "libexec/device/device.h"

#include <string.h>

/* NULL: the host. */
static exg_accelerator *device_of(const exg_engine *engine, uint32_t place)
{
    return engine->devices == NULL ? NULL : engine->devices[place];
}

void exg_keeping_drop(exg_keeping *keeping, const exg_engine *engine)
{
    for (uint32_t p = 0; keeping->data != NULL && p < exg_engine_places(engine); p++) {
        exg_budget_release(exg_memory_budget(engine->memory), device_of(engine, p),
                           keeping->data[p], keeping->capacity);
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
    keeping->capacity = bytes;
    for (uint32_t p = 0; p < exg_engine_places(engine); p++) {
        EXG_TRY(exg_budget_allocate(exg_memory_budget(engine->memory), device_of(engine, p), bytes,
                                    "a loop's result", &keeping->data[p], err));
    }
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
