/* loop_buffers.c - in blocks of the scratch. */
#include "libexec/session/loop_buffers.h"
#include "libexec/device/device.h"

#include <string.h>

/* NULL: the host. */
static exg_accelerator *device_of(const exg_session_context *context, uint32_t place)
{
    return context->devices == NULL ? NULL : context->devices[place];
}

exg_status exg_loop_buffer_reserve(exg_loop_buffer *buffer, const exg_session_context *context,
                                   uint64_t bytes, exg_error *err)
{
    for (uint32_t p = 0; p < exg_session_context_memories(context); p++) {
        EXG_TRY(
            exg_scratch_block(exg_weight_store_scratch(context->store),
                              (exg_scratch_key){EXG_SCRATCH_LOOP, buffer->level, p, buffer->index},
                              device_of(context, p), bytes, &buffer->data[p], err));
    }
    return EXG_OK;
}

exg_status exg_loop_buffer_copy(const exg_session_context *context, uint32_t place, void *to,
                                const void *from, uint64_t bytes, exg_error *err)
{
    exg_accelerator *device = device_of(context, place);

    if (device != NULL) {
        return device->table->copy(device, to, from, bytes, err);
    }
    memcpy(to, from, bytes);
    return EXG_OK;
}
