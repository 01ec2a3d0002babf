/* mesh.c - device meshes: grids of ranks over one communicator each. */
#include "libexec/comm/collectives.h"
#include "libexec/comm/grid.h"
#include "libexec/dtensor/link.h"
#include "libexport/base/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 256 /* of collectives */

/* ---- making -------------------------------------------------------------------------- */

static exg_status check_shape(const exg_mesh_shape *shape, uint32_t *size, exg_error *err)
{
    uint64_t ranks = 1;

    if (shape->ndim == 0 || shape->ndim > EXG_MESH_DIMS_MAX) {
        return EXG_FAIL(err, USAGE, "DTN-001", "a mesh of %u dims; 1 to %d", shape->ndim,
                        EXG_MESH_DIMS_MAX);
    }
    for (uint32_t d = 0; d < shape->ndim; d++) {
        const char *name = shape->names[d];

        ranks *= shape->sizes[d];
        if (ranks == 0 || ranks > RANKS_MAX) {
            return EXG_FAIL(err, USAGE, "DTN-001", "a mesh of %llu ranks; 1 to %d",
                            (unsigned long long)ranks, RANKS_MAX);
        }
        for (uint32_t k = 0; name != NULL && k < d; k++) {
            if (shape->names[k] != NULL && strcmp(shape->names[k], name) == 0) {
                return EXG_FAIL(err, USAGE, "DTN-001", "two dims of a mesh are called '%s'", name);
            }
        }
        if (name != NULL && strlen(name) >= EXG_MESH_NAME_MAX) {
            return EXG_FAIL(err, USAGE, "DTN-001", "a mesh dim's name of more than %d bytes",
                            EXG_MESH_NAME_MAX - 1);
        }
    }
    *size = (uint32_t)ranks;
    return EXG_OK;
}

/* The kind's own name; of what there is none, what was given. */
static const char *kind_of(const char *device_type)
{
    if (device_type == NULL) {
        return exg_device_kind(0);
    }
    for (uint32_t k = 0; exg_device_kind(k) != NULL; k++) {
        if (strcmp(exg_device_kind(k), device_type) == 0) {
            return exg_device_kind(k);
        }
    }
    return device_type;
}

/* Without communicator, ranks and device. */
static exg_device_mesh *make(const exg_mesh_shape *shape, uint32_t size)
{
    exg_device_mesh *mesh = calloc(1, sizeof(*mesh));

    if (mesh == NULL) {
        return NULL;
    }
    mesh->ndim = shape->ndim;
    mesh->size = size;
    mesh->device_type = kind_of(shape->device_type);
    mesh->ranks = calloc(size, sizeof(*mesh->ranks));
    for (uint32_t d = 0; d < shape->ndim; d++) {
        mesh->sizes[d] = shape->sizes[d];
        snprintf(mesh->names[d], EXG_MESH_NAME_MAX, "%s",
                 shape->names[d] == NULL ? "" : shape->names[d]);
    }
    if (mesh->ranks == NULL) {
        free(mesh);
        return NULL;
    }
    return mesh;
}

void exg_device_mesh_destroy(exg_device_mesh *mesh)
{
    if (mesh != NULL) {
        exg_mesh_leave_links(mesh);
        exg_communicator_close(mesh->communicator);
        exg_communicator_close(mesh->around);
        exg_shared_device_release(mesh->shared_device);
        free(mesh->ranks);
        free(mesh);
    }
}

/* The rank's device, one after the other as there are. */
static exg_status open_device(exg_device_mesh *mesh, uint32_t rank, exg_error *err)
{
    EXG_TRY(exg_shared_device_open(mesh->device_type, rank, &mesh->shared_device, err));
    mesh->device = exg_shared_device_accelerator(mesh->shared_device);
    return EXG_OK;
}

/* A part of `mesh`, whose device its members share. */
static void share_device(const exg_device_mesh *mesh, exg_device_mesh *part)
{
    part->device_type = mesh->device_type;
    if (part->communicator != NULL) {
        part->shared_device = exg_shared_device_share(mesh->shared_device);
        part->device = mesh->device;
    }
}

exg_status exg_local_mesh_create(const exg_mesh_shape *shape, exg_device_mesh **meshes,
                                 exg_error *err)
{
    EXG_REQUIRE(err, shape, meshes);
    exg_communicator *communicators[RANKS_MAX];
    exg_status status = EXG_OK;
    uint32_t size;

    EXG_TRY(check_shape(shape, &size, err));
    EXG_TRY(exg_local_create(size, communicators, err));
    for (uint32_t r = 0; r < size; r++) {
        meshes[r] = make(shape, size);
        status = status != EXG_OK    ? status
                 : meshes[r] != NULL ? open_device(meshes[r], r, err)
                                     : EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t r = 0; r < size; r++) {
        if (status != EXG_OK) {
            exg_device_mesh_destroy(meshes[r]);
            exg_communicator_close(communicators[r]);
            meshes[r] = NULL;
            continue;
        }
        meshes[r]->communicator = communicators[r];
        for (uint32_t i = 0; i < size; i++) {
            meshes[r]->ranks[i] = i;
        }
    }
    return status;
}

exg_status exg_mpi_mesh_create(const exg_mesh_shape *shape, exg_device_mesh **mesh, exg_error *err)
{
    EXG_REQUIRE(err, shape, mesh);
    exg_communicator *world;
    exg_status status;
    uint32_t size;

    *mesh = NULL;
    EXG_TRY(check_shape(shape, &size, err));
    EXG_TRY(exg_mpi_create(size, EXG_DEADLINE_NS, &world, err));
    *mesh = make(shape, size);
    status = *mesh == NULL ? EXG_OUT_OF_MEMORY(err) : open_device(*mesh, world->rank, err);
    if (status != EXG_OK) {
        exg_communicator_abort(world, status); /* the others find it when they first meet */
        exg_communicator_close(world);
        exg_device_mesh_destroy(*mesh);
        *mesh = NULL;
        return status;
    }
    (*mesh)->communicator = world;
    for (uint32_t r = 0; r < size; r++) {
        (*mesh)->ranks[r] = r;
    }
    return EXG_OK;
}

/* ---- asking -------------------------------------------------------------------------- */

void exg_device_mesh_set_deadline(exg_device_mesh *mesh, uint64_t ns)
{
    if (mesh->communicator != NULL) {
        mesh->communicator->deadline_ns = ns;
    }
    if (mesh->around != NULL) {
        mesh->around->deadline_ns = ns;
    }
}

uint64_t exg_device_mesh_exchanges(const exg_device_mesh *mesh)
{
    return mesh->communicator == NULL ? 0 : mesh->communicator->exchanges;
}

uint64_t exg_device_mesh_bytes_sent(const exg_device_mesh *mesh)
{
    return mesh->communicator == NULL ? 0 : mesh->communicator->bytes_sent;
}

/* ---- meshes of meshes ------------------------------------------------------------------- */

/* The ranks of `mesh` along `dims` at the other coordinates of `rank`, row-major. */
static void ranks_along(const exg_device_mesh *mesh, const uint32_t *dims, uint32_t dim_count,
                        uint32_t rank, exg_device_mesh *slice)
{
    uint32_t found = 0;

    for (uint32_t r = 0; r < mesh->size; r++) {
        bool same = true;

        for (uint32_t d = 0; d < mesh->ndim; d++) {
            bool along = false;

            for (uint32_t k = 0; k < dim_count; k++) {
                along = along || dims[k] == d;
            }
            same = same &&
                   (along || exg_mesh_coordinate(mesh, r, d) == exg_mesh_coordinate(mesh, rank, d));
        }
        if (same) {
            slice->ranks[found++] = mesh->ranks[r];
        }
    }
}

/* Makes the communicator of the part of `mesh` that this rank is in. Collective. `has_others`:
 * ranks of the mesh are in no part. */
static exg_status split(exg_device_mesh *mesh, uint32_t color, bool has_others,
                        exg_device_mesh *part, exg_device_mesh **out, exg_error *err)
{
    exg_status status = exg_communicator_split(mesh->communicator, color, &part->communicator, err);

    if (status == EXG_OK && has_others) {
        status = exg_communicator_split(mesh->communicator, 0, &part->around, err);
    }
    if (status != EXG_OK) {
        exg_device_mesh_destroy(part);
        return status;
    }
    share_device(mesh, part);
    *out = part;
    return EXG_OK;
}

static exg_status out_of_memory(exg_device_mesh *mesh, exg_error *err)
{
    exg_communicator_abort(mesh->communicator, EXG_NO_MEMORY); /* the others would wait */
    return EXG_OUT_OF_MEMORY(err);
}

static exg_status check_dims(const exg_device_mesh *mesh, const uint32_t *dims, uint32_t dim_count,
                             exg_error *err)
{
    for (uint32_t k = 0; k < dim_count; k++) {
        if (dims[k] >= mesh->ndim || (k > 0 && dims[k] <= dims[k - 1])) {
            return EXG_FAIL(err, USAGE, "DTN-011",
                            "dims of a part of a mesh ascend and are below %u", mesh->ndim);
        }
    }
    if (dim_count == 0 || mesh->communicator == NULL) {
        return EXG_FAIL(err, USAGE, "DTN-011", "%s",
                        dim_count == 0 ? "a part of a mesh along no dim"
                                       : "this rank is no member of the mesh");
    }
    return EXG_OK;
}

static exg_status slice_as(exg_device_mesh *mesh, const uint32_t *dims, uint32_t dim_count,
                           const exg_mesh_shape *shape, exg_device_mesh **out, exg_error *err)
{
    uint32_t rank = exg_device_mesh_rank(mesh);
    exg_device_mesh *part = make(shape, exg_mesh_shape_size(shape));

    if (part == NULL) {
        return out_of_memory(mesh, err);
    }
    ranks_along(mesh, dims, dim_count, rank, part);
    return split(mesh, part->ranks[0], false, part, out, err); /* one colour a part */
}

exg_status exg_device_mesh_slice(exg_device_mesh *mesh, const uint32_t *dims, uint32_t dim_count,
                                 exg_device_mesh **slice, exg_error *err)
{
    EXG_REQUIRE(err, mesh, EXG_IF_ANY(dim_count, dims), slice);
    exg_mesh_shape shape = {.ndim = dim_count};

    *slice = NULL;
    EXG_TRY(check_dims(mesh, dims, dim_count, err));
    for (uint32_t k = 0; k < dim_count; k++) {
        shape.sizes[k] = mesh->sizes[dims[k]];
        shape.names[k] = mesh->names[dims[k]];
    }
    return slice_as(mesh, dims, dim_count, &shape, slice, err);
}

exg_status exg_device_mesh_flatten(exg_device_mesh *mesh, const uint32_t *dims, uint32_t dim_count,
                                   const char *name, exg_device_mesh **flat, exg_error *err)
{
    EXG_REQUIRE(err, mesh, EXG_IF_ANY(dim_count, dims), flat);
    char joined[EXG_MESH_NAME_MAX * EXG_MESH_DIMS_MAX] = "";
    exg_mesh_shape shape = {.ndim = 1, .sizes = {1}, .names = {joined}};

    *flat = NULL;
    EXG_TRY(check_dims(mesh, dims, dim_count, err));
    for (uint32_t k = 0; k < dim_count; k++) {
        size_t used = strlen(joined);

        shape.sizes[0] *= mesh->sizes[dims[k]];
        snprintf(joined + used, sizeof(joined) - used, "%s%s", k > 0 ? "_" : "",
                 mesh->names[dims[k]]);
    }
    if (name != NULL) {
        snprintf(joined, sizeof(joined), "%s", name);
    }
    return slice_as(mesh, dims, dim_count, &shape, flat, err);
}

exg_status exg_device_mesh_select(exg_device_mesh *mesh, const uint32_t *ranks,
                                  const exg_mesh_shape *shape, exg_device_mesh **selected,
                                  exg_error *err)
{
    EXG_REQUIRE(err, mesh, ranks, shape, selected);
    uint32_t size;
    uint32_t color = EXG_NO_COLOR;
    exg_device_mesh *part;

    *selected = NULL;
    EXG_TRY(check_shape(shape, &size, err));
    if (shape->device_type != NULL && strcmp(shape->device_type, mesh->device_type) != 0) {
        return EXG_FAIL(err, USAGE, "DTN-021", "a part of type '%s' of a mesh of type '%s'",
                        shape->device_type, mesh->device_type);
    }
    for (uint32_t i = 0; i < size; i++) {
        bool good = ranks[i] < mesh->size && (i == 0 || ranks[i] > ranks[i - 1]);

        if (!good || mesh->communicator == NULL) {
            return EXG_FAIL(err, USAGE, "DTN-012",
                            "the ranks of a part of a mesh ascend and are below %u", mesh->size);
        }
        color = ranks[i] == exg_device_mesh_rank(mesh) ? 0 : color;
    }
    part = make(shape, size);
    if (part == NULL) {
        return out_of_memory(mesh, err);
    }
    for (uint32_t i = 0; i < size; i++) {
        part->ranks[i] = mesh->ranks[ranks[i]];
    }
    return split(mesh, color, size < mesh->size, part, selected, err);
}

exg_status exg_device_mesh_self(const exg_device_mesh *mesh, exg_device_mesh **self, exg_error *err)
{
    EXG_REQUIRE(err, mesh, self);
    exg_mesh_shape alone = {.ndim = 1, .sizes = {1}};

    EXG_TRY(exg_local_mesh_create(&alone, self, err));
    share_device(mesh, *self);
    (*self)->ranks[0] = mesh->ranks[exg_device_mesh_rank(mesh)];
    return EXG_OK;
}

exg_status exg_mesh_gather(exg_device_mesh *mesh, void *own, void *all, uint64_t bytes,
                           exg_error *err)
{
    exg_segment *segments = calloc(2 * (size_t)mesh->size, sizeof(*segments));
    exg_status status;

    if (segments == NULL) {
        return out_of_memory(mesh, err);
    }
    for (uint32_t r = 0; r < mesh->size; r++) {
        segments[r] = (exg_segment){.data = own, .bytes = bytes};
        segments[mesh->size + r] =
            (exg_segment){.data = (uint8_t *)all + r * bytes, .bytes = bytes};
    }
    status = exg_exchange(mesh->communicator, segments, segments + mesh->size, err);
    free(segments);
    return status;
}

exg_status exg_mesh_agree(exg_device_mesh *mesh, exg_status status, exg_error *err)
{
    exg_status *all = calloc(mesh->size, sizeof(*all));
    exg_error first = {0};
    exg_status met;
    uint32_t r = 0;

    if (all == NULL) {
        return out_of_memory(mesh, err);
    }
    met = exg_mesh_gather(mesh, &status, all, sizeof(status), err);
    while (met == EXG_OK && r < mesh->size && all[r] == EXG_OK) {
        r++;
    }
    if (met == EXG_OK && r < mesh->size) {
        if (r == exg_device_mesh_rank(mesh) && err != NULL) {
            first = *err;
        }
        met = exg_broadcast_bytes(mesh->communicator, &first, sizeof(first), r, err);
        if (met == EXG_OK) {
            met = all[r];
            if (r != exg_device_mesh_rank(mesh) && err != NULL) {
                first.source_file = __FILE__; /* an address of the other process */
                *err = first;
                met = exg_error_within(err, met, "rank %u:", r);
            }
        }
    }
    free(all);
    return met;
}
