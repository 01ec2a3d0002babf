/* mesh_stack.c - the meshes that calls happen on: pushed ones, that of the options, this rank
 * alone. */
#include "libexec/dispatch/mesh_stack.h"
#include "libexec/dispatch/dispatcher.h"
#include "libexport/base/require.h"

#include <exg/autograd.h>

exg_device_mesh *exg_current_mesh(const exg_dispatcher *d)
{
    return d->mesh_count > 0 ? d->meshes[d->mesh_count - 1] : d->options.mesh;
}

exg_status exg_dispatcher_push_mesh(exg_dispatcher *d, exg_device_mesh *mesh, exg_error *err)
{
    EXG_REQUIRE(err, d, mesh);
    if (d->mesh_count == EXG_MESHES_MAX) {
        return EXG_FAIL(err, LIMIT, "TAP-005", "%d meshes inside one another", EXG_MESHES_MAX);
    }
    d->meshes[d->mesh_count++] = mesh;
    return EXG_OK;
}

exg_device_mesh *exg_dispatcher_pop_mesh(exg_dispatcher *d)
{
    return d->mesh_count == 0 ? NULL : d->meshes[--d->mesh_count];
}

exg_status exg_dispatcher_self(exg_dispatcher *d, exg_device_mesh **self, exg_error *err)
{
    EXG_REQUIRE(err, d, self);
    *self = d->self;
    if (d->self == NULL && exg_current_mesh(d) == NULL) {
        return EXG_FAIL(err, USAGE, "DSP-008", "no mesh is set");
    }
    if (d->self == NULL) {
        EXG_TRY(exg_device_mesh_self(exg_current_mesh(d), &d->self, err));
        *self = d->self;
    }
    return EXG_OK;
}
