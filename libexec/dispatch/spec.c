/* spec.c - of what a DTensor is, its spec. */
#include "libexec/dtensor/spec.h"

#include <exg/dispatch.h>

#include <string.h>

void exg_dtensor_get_spec(const exg_dtensor *t, exg_dtensor_spec *spec)
{
    spec->mesh = t->mesh;
    spec->dtype = t->local.dtype;
    spec->rank = t->rank;
    memcpy(spec->sizes, t->sizes, sizeof(spec->sizes));
    memcpy(spec->strides, t->strides, sizeof(spec->strides));
    memcpy(spec->placements, t->placements, sizeof(spec->placements));
}

bool exg_dtensor_spec_equal(const exg_dtensor_spec *a, const exg_dtensor_spec *b)
{
    if (a->dtype != b->dtype || !exg_device_mesh_equal(a->mesh, b->mesh) ||
        !exg_dims_equal(a->sizes, a->rank, b->sizes, b->rank) ||
        !exg_dims_equal(a->strides, a->rank, b->strides, b->rank)) {
        return false;
    }
    for (uint32_t m = 0; m < a->mesh->ndim; m++) {
        if (!exg_placement_equal(a->placements[m], b->placements[m])) {
            return false;
        }
    }
    return true;
}
