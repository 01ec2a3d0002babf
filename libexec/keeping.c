/* keeping.c - in blocks of the scratch. */
#include "libexec/keeping.h"
#include "libexec/device/device.h"

#include <string.h>

/* NULL: the host. */
static exg_accelerator *device_of(const exg_engine *engine, uint32_t place)
{
    return engine->devices == NULL ? NULL : engine->devices[place];
}

exg_status exg_keeping_room(exg_keeping *keeping, const exg_engine *engine, uint64_t bytes,
                            exg_error *err)
{
    for (uint32_t p = 0; p < exg_engine_places(engine); p++) {
        EXG_TRY(exg_scratch_block(
            exg_memory_scratch(engine->memory),
            (exg_scratch_key){EXG_SCRATCH_LOOP, keeping->level, p, keeping->index},
            device_of(engine, p), bytes, &keeping->data[p], err));
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
