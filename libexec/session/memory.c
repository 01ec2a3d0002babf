/* memory.c - memory of a session's devices, or of the host, for the caller. */
#include "libexec/device/device.h"
#include "libexec/session/session.h"
#include "libexport/base/require.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 256

exg_status exg_session_rank_allocate(exg_session *session, uint32_t rank, uint64_t bytes,
                                     void **memory, exg_error *err)
{
    EXG_REQUIRE(err, session, memory);
    const exg_session_context *e = &session->context;

    *memory = NULL;
    if (rank - e->first_rank >= e->rank_count) {
        return EXG_FAIL(err, USAGE, "INP-016", "rank %u does not run here", rank);
    }
    if (e->devices != NULL) {
        exg_accelerator *device = e->devices[rank - e->first_rank];

        return device->table->allocate(device, bytes, memory, err);
    }
    if (bytes <= SIZE_MAX - ALIGNMENT) {
        *memory = aligned_alloc(ALIGNMENT, ((size_t)bytes / ALIGNMENT + 1) * ALIGNMENT);
    }
    return *memory == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

exg_status exg_session_allocate(exg_session *session, uint64_t bytes, void **memory, exg_error *err)
{
    EXG_REQUIRE(err, session, memory);
    return exg_session_rank_allocate(session, session->context.first_rank, bytes, memory, err);
}

/* Of the ranks' devices the one whose memory it is; the first, where it is nobody's. NULL: the
 * host. */
static exg_accelerator *device_of(const exg_session *session, const void *memory)
{
    const exg_session_context *e = &session->context;

    for (uint32_t r = 0; e->devices != NULL && r < e->rank_count; r++) {
        if (e->devices[r]->table->holds(e->devices[r], memory)) {
            return e->devices[r];
        }
    }
    return e->devices == NULL ? NULL : e->devices[0];
}

void exg_session_free(exg_session *session, void *memory)
{
    exg_accelerator *device;

    if (session == NULL || memory == NULL) {
        return;
    }
    device = device_of(session, memory);
    if (device == NULL) {
        free(memory);
    } else {
        device->table->release(device, memory);
    }
}

static exg_status copy(const exg_session *session, void *to, const void *from, uint64_t bytes,
                       bool in, exg_error *err)
{
    exg_accelerator *device = device_of(session, in ? to : from);

    if (device == NULL) {
        if (bytes > 0) {
            memcpy(to, from, (size_t)bytes);
        }
        return EXG_OK;
    }
    EXG_TRY((in ? device->table->copy_in : device->table->copy_out)(device, to, from, bytes, err));
    return device->table->wait(device, err);
}

exg_status exg_session_copy_in(exg_session *session, void *to, const void *from, uint64_t bytes,
                               exg_error *err)
{
    EXG_REQUIRE(err, session, EXG_IF_ANY(bytes, to), EXG_IF_ANY(bytes, from));
    return copy(session, to, from, bytes, true, err);
}

exg_status exg_session_copy_out(exg_session *session, void *to, const void *from, uint64_t bytes,
                                exg_error *err)
{
    EXG_REQUIRE(err, session, EXG_IF_ANY(bytes, to), EXG_IF_ANY(bytes, from));
    return copy(session, to, from, bytes, false, err);
}
