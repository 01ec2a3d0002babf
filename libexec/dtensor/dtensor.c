/* dtensor.c - DTensors over a mesh of one dimension. */
#include "libexec/comm/collectives.h"

#include <exg/dtensor.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct exg_device_mesh {
    exg_communicator *communicator;
};

struct exg_dtensor {
    exg_device_mesh *mesh;
    exg_placement placement;
    exg_tensor local;
    uint32_t rank;
    int64_t sizes[EXG_RANK_MAX]; /* global */
    void *owned;                 /* the local memory, when it is ours */
};

/* ---- mesh --------------------------------------------------------------------------- */

exg_status exg_local_mesh_create(uint32_t size, exg_device_mesh **meshes, exg_error *err)
{
    exg_communicator **communicators;
    exg_status status;

    if (size == 0) {
        return EXG_FAIL(err, USAGE, "DTN-001", "a mesh of no ranks");
    }
    communicators = calloc(size, sizeof(*communicators));
    if (communicators == NULL) {
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    memset(meshes, 0, size * sizeof(*meshes));
    status = exg_local_create(size, communicators, err);
    for (uint32_t r = 0; status == EXG_OK && r < size; r++) {
        meshes[r] = calloc(1, sizeof(**meshes));
        if (meshes[r] == NULL) {
            for (uint32_t i = 0; i < size; i++) {
                exg_communicator_close(communicators[i]);
                free(meshes[i]);
            }
            status = EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
        } else {
            meshes[r]->communicator = communicators[r];
        }
    }
    free(communicators);
    return status;
}

void exg_device_mesh_destroy(exg_device_mesh *mesh)
{
    if (mesh != NULL) {
        exg_communicator_close(mesh->communicator);
        free(mesh);
    }
}

uint32_t exg_device_mesh_size(const exg_device_mesh *mesh)
{
    return mesh->communicator->size;
}

uint32_t exg_device_mesh_rank(const exg_device_mesh *mesh)
{
    return mesh->communicator->rank;
}

void exg_device_mesh_set_deadline(exg_device_mesh *mesh, uint64_t ns)
{
    mesh->communicator->deadline_ns = ns;
}

uint64_t exg_device_mesh_exchanges(const exg_device_mesh *mesh)
{
    return mesh->communicator->exchanges;
}

/* ---- making --------------------------------------------------------------------------- */

static exg_status normalize(exg_placement *placement, uint32_t rank, exg_error *err)
{
    if (placement->kind != EXG_SHARD) {
        return EXG_OK;
    }
    placement->dim += placement->dim < 0 ? (int32_t)rank : 0;
    if (placement->dim < 0 || placement->dim >= (int32_t)rank) {
        return EXG_FAIL(err, USAGE, "DTN-002", "a shard of dim %d of a tensor of rank %u",
                        placement->dim, rank);
    }
    return EXG_OK;
}

static exg_status create(exg_device_mesh *mesh, exg_placement placement, const exg_tensor *like,
                         const int64_t *sizes, exg_dtensor **t, exg_error *err)
{
    exg_dtensor *made = calloc(1, sizeof(*made));

    *t = NULL;
    if (made == NULL) {
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    made->mesh = mesh;
    made->placement = placement;
    made->local = *like;
    made->rank = like->rank;
    memcpy(made->sizes, sizes, like->rank * sizeof(*sizes));
    *t = made;
    return EXG_OK;
}

/* The local part of a placement, row-major, in memory of its own. */
static exg_status create_owned(exg_device_mesh *mesh, exg_placement placement, exg_dtype dtype,
                               uint32_t rank, const int64_t *sizes, exg_dtensor **t, exg_error *err)
{
    exg_tensor local = {.dtype = dtype, .rank = rank};
    int64_t offset;
    void *memory;

    memcpy(local.sizes, sizes, rank * sizeof(*sizes));
    if (placement.kind == EXG_SHARD) {
        exg_chunk(sizes[placement.dim], exg_device_mesh_size(mesh), exg_device_mesh_rank(mesh),
                  &offset, &local.sizes[placement.dim]);
    }
    exg_tensor_set_contiguous(&local);
    memory = malloc((size_t)exg_tensor_numel(&local) * exg_dtype_bytes(dtype) + 1);
    if (memory == NULL) {
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    local.data = memory;
    if (create(mesh, placement, &local, sizes, t, err) != EXG_OK) {
        free(memory);
        return EXG_NO_MEMORY;
    }
    (*t)->owned = memory;
    return EXG_OK;
}

void exg_dtensor_destroy(exg_dtensor *t)
{
    if (t != NULL) {
        free(t->owned);
        free(t);
    }
}

exg_status exg_dtensor_from_local(exg_device_mesh *mesh, const exg_tensor *local,
                                  exg_placement placement, const int64_t *shape, exg_dtensor **t,
                                  exg_error *err)
{
    int64_t sizes[EXG_RANK_MAX];

    *t = NULL;
    EXG_TRY(normalize(&placement, local->rank, err));
    if (local->rank > EXG_RANK_MAX || !exg_tensor_is_contiguous(local)) {
        return EXG_FAIL(err, USAGE, "DTN-003", "the local tensor is not row-major");
    }
    memcpy(sizes, shape == NULL ? local->sizes : shape, local->rank * sizeof(*sizes));
    if (placement.kind == EXG_SHARD && shape == NULL) {
        sizes[placement.dim] *= exg_device_mesh_size(mesh);
    }
    for (uint32_t d = 0; d < local->rank; d++) {
        int64_t offset;
        int64_t own = sizes[d];

        if (placement.kind == EXG_SHARD && placement.dim == (int32_t)d) {
            exg_chunk(sizes[d], exg_device_mesh_size(mesh), exg_device_mesh_rank(mesh), &offset,
                      &own);
        }
        if (own != local->sizes[d]) {
            return EXG_FAIL(err, USAGE, "DTN-004",
                            "the local size in dim %u is %" PRId64 ", this rank's chunk is %" PRId64,
                            d, local->sizes[d], own);
        }
    }
    return create(mesh, placement, local, sizes, t, err);
}

/* ---- moving ----------------------------------------------------------------------------- */

static exg_tensor *chunk_window(const exg_dtensor *t, uint32_t dim, exg_tensor *window)
{
    int64_t offset;

    *window = t->local;
    exg_chunk(t->sizes[dim], exg_device_mesh_size(t->mesh), exg_device_mesh_rank(t->mesh), &offset,
              &window->sizes[dim]);
    window->data = (char *)t->local.data +
                   offset * t->local.strides[dim] * (int64_t)exg_dtype_bytes(t->local.dtype);
    return window;
}

/* A strided window into row-major memory. */
static void copy_window(const exg_tensor *from, exg_tensor *to)
{
    int64_t index[EXG_RANK_MAX] = {0};
    int64_t item = exg_dtype_bytes(from->dtype);

    for (int64_t i = 0; i < exg_tensor_numel(to); i++) {
        int64_t at = 0;

        for (uint32_t d = 0; d < from->rank; d++) {
            at += index[d] * from->strides[d];
        }
        memcpy((char *)to->data + i * item, (const char *)from->data + at * item, (size_t)item);
        for (uint32_t d = from->rank; d-- > 0 && ++index[d] == to->sizes[d];) {
            index[d] = 0;
        }
    }
}

static exg_status move(const exg_dtensor *t, exg_dtensor *out, exg_error *err)
{
    exg_communicator *c = t->mesh->communicator;
    exg_placement from = t->placement;
    exg_placement to = out->placement;
    uint64_t bytes = 0;
    void *workspace;
    exg_tensor window;
    exg_status status;

    if (from.kind == EXG_REPLICATE) { /* to a shard: a local chunk, no message */
        copy_window(chunk_window(t, (uint32_t)to.dim, &window), &out->local);
        return EXG_OK;
    }
    bytes = from.kind == EXG_SHARD && to.kind == EXG_SHARD
                ? exg_all_to_all_workspace(c, &t->local, &out->local)
            : from.kind == EXG_SHARD ? exg_all_gather_workspace(c, &out->local)
            : to.kind == EXG_SHARD
                ? exg_reduce_scatter_workspace(c, &t->local, (uint32_t)to.dim)
                : exg_all_reduce_workspace(c, &t->local);
    workspace = malloc(bytes + 1);
    if (workspace == NULL) {
        exg_communicator_abort(c, EXG_NO_MEMORY);
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    status = from.kind == EXG_SHARD && to.kind == EXG_SHARD
                 ? exg_all_to_all(c, &t->local, &out->local, (uint32_t)from.dim, (uint32_t)to.dim,
                                  workspace, err)
             : from.kind == EXG_SHARD
                 ? exg_all_gather(c, &t->local, &out->local, (uint32_t)from.dim, workspace, err)
             : to.kind == EXG_SHARD ? exg_reduce_scatter(c, &t->local, &out->local,
                                                         (uint32_t)to.dim, from.op, workspace, err)
                                    : exg_all_reduce(c, &t->local, &out->local, from.op, workspace,
                                                     err);
    free(workspace);
    return status;
}

exg_status exg_dtensor_redistribute(const exg_dtensor *t, exg_placement placement,
                                    exg_dtensor **out, exg_error *err)
{
    exg_status status;

    *out = NULL;
    EXG_TRY(normalize(&placement, t->rank, err));
    if (exg_placement_equal(t->placement, placement)) {
        return create(t->mesh, placement, &t->local, t->sizes, out, err);
    }
    if (placement.kind == EXG_PARTIAL) {
        return EXG_FAIL(err, USAGE, "DTN-005", "a redistribution to Partial");
    }
    if (t->placement.kind == EXG_PARTIAL && !exg_can_reduce(t->local.dtype, t->placement.op)) {
        return EXG_FAIL(err, USAGE, "DTN-006", "a reduction '%s' of %s",
                        exg_reduce_op_name(t->placement.op), exg_dtype_name(t->local.dtype));
    }
    EXG_TRY(create_owned(t->mesh, placement, t->local.dtype, t->rank, t->sizes, out, err));
    status = move(t, *out, err);
    if (status != EXG_OK) {
        exg_dtensor_destroy(*out);
        *out = NULL;
    }
    return status;
}

exg_status exg_dtensor_full_tensor(const exg_dtensor *t, exg_dtensor **out, exg_error *err)
{
    return exg_dtensor_redistribute(t, exg_replicate(), out, err);
}

exg_status exg_distribute_tensor(exg_device_mesh *mesh, const exg_tensor *global,
                                 exg_placement placement, uint32_t source, exg_dtensor **t,
                                 exg_error *err)
{
    exg_dtensor *whole;
    exg_status status;

    *t = NULL;
    EXG_TRY(normalize(&placement, global->rank, err));
    if (placement.kind == EXG_PARTIAL || source >= exg_device_mesh_size(mesh) ||
        !exg_tensor_is_contiguous(global)) {
        return EXG_FAIL(err, USAGE, "DTN-007",
                        "distribute_tensor of a row-major tensor, to Shard or Replicate");
    }
    EXG_TRY(create_owned(mesh, exg_replicate(), global->dtype, global->rank, global->sizes, &whole,
                         err));
    if (exg_device_mesh_rank(mesh) == source) {
        memcpy(whole->local.data, global->data,
               (size_t)exg_tensor_numel(global) * exg_dtype_bytes(global->dtype));
    }
    status = exg_broadcast_bytes(mesh->communicator, whole->local.data,
                                 (uint64_t)exg_tensor_numel(global) * exg_dtype_bytes(global->dtype),
                                 source, err);
    if (status == EXG_OK && placement.kind == EXG_SHARD) {
        status = exg_dtensor_redistribute(whole, placement, t, err);
        exg_dtensor_destroy(whole);
        return status;
    }
    if (status != EXG_OK) {
        exg_dtensor_destroy(whole);
        return status;
    }
    *t = whole;
    return EXG_OK;
}

/* ---- asking ------------------------------------------------------------------------------ */

const exg_tensor *exg_dtensor_to_local(const exg_dtensor *t)
{
    return &t->local;
}

exg_placement exg_dtensor_placement(const exg_dtensor *t)
{
    return t->placement;
}

uint32_t exg_dtensor_rank_count(const exg_dtensor *t)
{
    return t->rank;
}

const int64_t *exg_dtensor_sizes(const exg_dtensor *t)
{
    return t->sizes;
}

exg_dtype exg_dtensor_dtype(const exg_dtensor *t)
{
    return t->local.dtype;
}
