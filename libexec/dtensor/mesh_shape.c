/* mesh_shape.c - the shape of a mesh: its dims, their names, where a rank stands. */
#include "libexec/dtensor/mesh.h"
#include "libexport/base/require.h"

#include <string.h>

uint32_t exg_mesh_coordinate(const exg_device_mesh *mesh, uint32_t rank, uint32_t dim)
{
    for (uint32_t d = mesh->ndim - 1; d > dim; d--) {
        rank /= mesh->sizes[d];
    }
    return rank % mesh->sizes[dim];
}

uint32_t exg_device_mesh_ndim(const exg_device_mesh *mesh)
{
    return mesh->ndim;
}

uint32_t exg_device_mesh_size(const exg_device_mesh *mesh)
{
    return mesh->size;
}

uint32_t exg_device_mesh_dim_size(const exg_device_mesh *mesh, uint32_t dim)
{
    return dim < mesh->ndim ? mesh->sizes[dim] : 0;
}

const char *exg_device_mesh_device_type(const exg_device_mesh *mesh)
{
    return mesh->device_type;
}

const char *exg_device_mesh_dim_name(const exg_device_mesh *mesh, uint32_t dim)
{
    return dim < mesh->ndim ? mesh->names[dim] : "";
}

bool exg_device_mesh_is_member(const exg_device_mesh *mesh)
{
    return mesh->communicator != NULL;
}

uint32_t exg_device_mesh_rank(const exg_device_mesh *mesh)
{
    return mesh->communicator == NULL ? 0 : mesh->communicator->rank;
}

uint32_t exg_device_mesh_coordinate(const exg_device_mesh *mesh, uint32_t dim)
{
    return dim < mesh->ndim ? exg_mesh_coordinate(mesh, exg_device_mesh_rank(mesh), dim) : 0;
}

uint32_t exg_device_mesh_global_rank(const exg_device_mesh *mesh, uint32_t rank)
{
    return rank < mesh->size ? mesh->ranks[rank] : UINT32_MAX;
}

exg_status exg_device_mesh_find_dim(const exg_device_mesh *mesh, const char *name, uint32_t *dim,
                                    exg_error *err)
{
    EXG_REQUIRE(err, mesh, name, dim);
    for (*dim = 0; *dim < mesh->ndim; (*dim)++) {
        if (name[0] != '\0' && strcmp(mesh->names[*dim], name) == 0) {
            return EXG_OK;
        }
    }
    return EXG_FAIL(err, USAGE, "DTN-010", "the mesh has no dim called '%.40s'", name);
}

bool exg_device_mesh_equal(const exg_device_mesh *a, const exg_device_mesh *b)
{
    return a->ndim == b->ndim && a->size == b->size && a->device == b->device &&
           memcmp(a->sizes, b->sizes, a->ndim * sizeof(a->sizes[0])) == 0 &&
           memcmp(a->names, b->names, a->ndim * sizeof(a->names[0])) == 0 &&
           memcmp(a->ranks, b->ranks, a->size * sizeof(a->ranks[0])) == 0;
}
