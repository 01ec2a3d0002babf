/* host_copy.c - see host_copy.h. */
#include "libexec/device/host_copy.h"

#include <stdlib.h>
#include <string.h>

exg_status exg_host_copy_open(exg_host_copy *m, exg_accelerator *device, const exg_tensor *t,
                              bool reads, exg_error *err)
{
    exg_span span = exg_tensor_span(t);
    exg_status status = EXG_OK;

    *m = (exg_host_copy){.here = *t};
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
        if (status == EXG_OK) {
            status = device->table->wait(device, err);
        }
    }
    if (status != EXG_OK) {
        exg_host_copy_close(m);
    }
    return status;
}

exg_status exg_host_copy_write(const exg_host_copy *m, exg_error *err)
{
    if (m->device == NULL || m->bytes == 0) {
        return EXG_OK;
    }
    EXG_TRY(m->device->table->copy_in(m->device, m->there, m->memory, m->bytes, err));
    return m->device->table->wait(m->device, err);
}

void exg_host_copy_close(exg_host_copy *m)
{
    free(m->memory);
    m->memory = NULL;
    m->device = NULL;
}
