/* fence.c - places in what sessions were asked for, by which others wait: on the device where both
 * are devices of a kind that has marks, else on the host.
 */
#include "libexec/device/device.h"
#include "libexec/session/session.h"
#include "libexport/base/require.h"

#include <stdlib.h>

struct exg_fence {
    exg_accelerator *device; /* NULL: it was over when it was made */
    void *mark;              /* NULL: the device has none, and all that it was asked for counts */
};

/* The one device; NULL: the host, or several, whose runs are waited for. */
static exg_accelerator *device_of(const exg_session *s)
{
    return s->context.devices == NULL || s->context.grids != NULL ? NULL : s->context.devices[0];
}

exg_status exg_session_fence(exg_session *session, exg_fence **fence, exg_error *err)
{
    EXG_REQUIRE(err, session, fence);
    exg_fence *made = calloc(1, sizeof(*made));
    exg_accelerator *device = device_of(session);
    exg_status status = EXG_OK;

    *fence = NULL;
    if (made == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (session->owes && device != NULL) {
        made->device = device;
        status =
            device->table->mark == NULL ? EXG_OK : device->table->mark(device, &made->mark, err);
    }
    if (status != EXG_OK) {
        free(made);
        return status;
    }
    *fence = made;
    return EXG_OK;
}

exg_status exg_fence_wait(const exg_fence *fence, exg_error *err)
{
    EXG_REQUIRE(err, fence);
    exg_accelerator *device = fence->device;

    return device == NULL        ? EXG_OK
           : fence->mark == NULL ? device->table->wait(device, err)
                                 : device->table->await(device, fence->mark, err);
}

void *exg_fence_event(const exg_fence *fence)
{
    return fence == NULL ? NULL : fence->mark;
}

void exg_fence_destroy(exg_fence *fence)
{
    if (fence != NULL && fence->mark != NULL) {
        fence->device->table->unmark(fence->device, fence->mark);
    }
    free(fence);
}

exg_status exg_session_after(exg_session *session, const exg_fence *fence, exg_error *err)
{
    EXG_REQUIRE(err, session, fence);
    exg_accelerator *device = device_of(session);

    if (device == fence->device) { /* what is asked for comes later anyway */
        return EXG_OK;
    }
    return device != NULL && fence->mark != NULL && device->table == fence->device->table
               ? device->table->after(device, fence->mark, err)
               : exg_fence_wait(fence, err);
}

exg_status exg_session_after_event(exg_session *session, void *event, exg_error *err)
{
    EXG_REQUIRE(err, session, event);
    exg_accelerator *device = device_of(session);

    return device == NULL || device->table->after == NULL
               ? EXG_FAIL(err, USAGE, "DEV-015", "the session's device knows no events")
               : device->table->after(device, event, err);
}
