/* mirror.c - see mirror.h. */
#include "libexec/device/mirror.h"

#include <stdlib.h>
#include <string.h>

exg_status exg_mirror_open(exg_mirror *m, exg_accelerator *device, const exg_tensor *t, bool reads,
                           exg_error *err)
{
    exg_span span = exg_tensor_span(t);
    exg_status status = EXG_OK;

    *m = (exg_mirror){.here = *t};
    if (device == NULL || t->data == NULL) {
        return EXG_OK;
    }
    m->device = device;
    m->bytes = (uint64_t)(span.high - span.low);
    m->there = (uint8_t *)t->data + span.low;
    m->memory = malloc((size_t)m->bytes + 1);
    if (m->memory == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    m->here.data = m->memory - span.low;
    if (m->bytes > 0 &&
        (reads || m->bytes > (uint64_t)exg_tensor_numel(t) * exg_dtype_bytes(t->dtype))) {
        status = device->table->copy_out(device, m->memory, m->there, m->bytes, err);
        status = status == EXG_OK ? device->table->wait(device, err) : status;
    }
    if (status != EXG_OK) {
        exg_mirror_close(m);
    }
    return status;
}

exg_status exg_mirror_write(const exg_mirror *m, exg_error *err)
{
    if (m->device == NULL || m->bytes == 0) {
        return EXG_OK;
    }
    EXG_TRY(m->device->table->copy_in(m->device, m->there, m->memory, m->bytes, err));
    return m->device->table->wait(m->device, err);
}

void exg_mirror_close(exg_mirror *m)
{
    free(m->memory);
    m->memory = NULL;
    m->device = NULL;
}
