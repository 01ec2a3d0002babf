/* spec.c - placements that fit, the part of a rank, DTensor objects. */
#include "libexec/dtensor/spec.h"
#include "libexport/base/arena.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* sum and avg may stand side by side; of the others there is one kind a tensor. */
static exg_status check_partials(const exg_device_mesh *mesh, const exg_placement *placements,
                                 exg_error *err)
{
    for (uint32_t m = 0; m < mesh->ndim; m++) {
        for (uint32_t k = 0; k < m; k++) {
            exg_reduce_op a = placements[k].op;
            exg_reduce_op b = placements[m].op;

            if (placements[k].kind == EXG_PARTIAL && placements[m].kind == EXG_PARTIAL && a != b &&
                (a > EXG_REDUCE_AVG || b > EXG_REDUCE_AVG)) {
                return EXG_FAIL(err, USAGE, "DTN-002", "Partial(%s) beside Partial(%s)",
                                exg_reduce_op_name(a), exg_reduce_op_name(b));
            }
        }
    }
    return EXG_OK;
}

exg_status exg_spec_placements(const exg_device_mesh *mesh, const exg_placement *placements,
                               uint32_t count, uint32_t rank, exg_placement *out, exg_error *err)
{
    if (mesh == NULL) {
        return EXG_FAIL(err, USAGE, "DTN-018", "no mesh is given");
    }
    if (placements != NULL && count != mesh->ndim) {
        return EXG_FAIL(err, USAGE, "DTN-002", "%u placements on a mesh of %u dims", count,
                        mesh->ndim);
    }
    for (uint32_t m = 0; m < mesh->ndim; m++) {
        out[m] = placements == NULL ? exg_replicate() : placements[m];
        if (out[m].kind != EXG_SHARD) {
            continue;
        }
        out[m].dim += out[m].dim < 0 ? (int32_t)rank : 0;
        if (out[m].dim < 0 || out[m].dim >= (int32_t)rank) {
            return EXG_FAIL(err, USAGE, "DTN-002", "a shard of dim %d of a tensor of rank %u",
                            placements[m].dim, rank);
        }
    }
    return check_partials(mesh, out, err);
}

void exg_local_chunk(const exg_device_mesh *mesh, uint32_t rank, const exg_placement *placements,
                     const int64_t *sizes, uint32_t dims, int64_t *offsets, int64_t *local_sizes)
{
    for (uint32_t d = 0; d < dims; d++) {
        offsets[d] = 0;
        local_sizes[d] = sizes[d];
    }
    for (uint32_t m = 0; m < mesh->ndim; m++) {
        uint32_t d = placements[m].kind == EXG_SHARD ? (uint32_t)placements[m].dim : dims;
        int64_t start;

        if (d < dims) {
            exg_chunk(local_sizes[d], mesh->sizes[m], exg_mesh_coordinate(mesh, rank, m), &start,
                      &local_sizes[d]);
            offsets[d] += start;
        }
    }
}

#define BLOCK_HEAD 64

struct exg_block {
    uint32_t uses; /* by one rank's thread */
};

exg_block *exg_block_create(uint64_t bytes)
{
    exg_block *block = exg_allocate(NULL, BLOCK_HEAD + bytes);

    if (block != NULL) {
        block->uses = 1;
    }
    return block;
}

exg_block *exg_block_share(exg_block *block)
{
    if (block != NULL) {
        block->uses++;
    }
    return block;
}

void exg_block_release(exg_block *block)
{
    if (block != NULL && --block->uses == 0) {
        exg_release(NULL, block, 0);
    }
}

void *exg_block_data(exg_block *block)
{
    return (uint8_t *)block + BLOCK_HEAD;
}

exg_status exg_dtensor_make(exg_device_mesh *mesh, const exg_placement *placements,
                            const exg_tensor *local, const int64_t *sizes, const int64_t *strides,
                            exg_dtensor **t, exg_error *err)
{
    exg_dtensor *made = calloc(1, sizeof(*made));

    *t = NULL;
    if (made == NULL) {
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    made->mesh = mesh;
    made->local = *local;
    made->rank = local->rank;
    memcpy(made->placements, placements, mesh->ndim * sizeof(*placements));
    memcpy(made->sizes, sizes, local->rank * sizeof(*sizes));
    memcpy(made->strides, strides, local->rank * sizeof(*strides));
    if (mesh->communicator == NULL) { /* not of the mesh: nothing is here */
        made->local.rank = 1;
        made->local.sizes[0] = 0;
        made->local.strides[0] = 1;
    }
    *t = made;
    return EXG_OK;
}

exg_status exg_dtensor_make_owned(exg_device_mesh *mesh, const exg_placement *placements,
                                  exg_dtype dtype, uint32_t rank, const int64_t *sizes,
                                  exg_dtensor **t, exg_error *err)
{
    exg_tensor whole = {.dtype = dtype, .rank = rank};
    exg_tensor local = whole;
    int64_t offsets[EXG_RANK_MAX];
    exg_block *memory;

    *t = NULL;
    memcpy(whole.sizes, sizes, rank * sizeof(*sizes));
    exg_tensor_set_contiguous(&whole);
    exg_local_chunk(mesh, exg_device_mesh_rank(mesh), placements, sizes, rank, offsets,
                    local.sizes);
    exg_tensor_set_contiguous(&local);
    memory = exg_block_create(
        mesh->communicator == NULL ? 0
                                   : (uint64_t)exg_tensor_numel(&local) * exg_dtype_bytes(dtype));
    if (memory == NULL) {
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    local.data = exg_block_data(memory);
    if (exg_dtensor_make(mesh, placements, &local, sizes, whole.strides, t, err) != EXG_OK) {
        exg_block_release(memory);
        return EXG_NO_MEMORY;
    }
    (*t)->owned = memory;
    return EXG_OK;
}

void exg_dtensor_destroy(exg_dtensor *t)
{
    if (t != NULL) {
        exg_block_release(t->owned);
        free(t);
    }
}

/* ---- asking ------------------------------------------------------------------------------ */

const exg_tensor *exg_dtensor_to_local(const exg_dtensor *t)
{
    return &t->local;
}

exg_device_mesh *exg_dtensor_device_mesh(const exg_dtensor *t)
{
    return t->mesh;
}

const exg_placement *exg_dtensor_placements(const exg_dtensor *t)
{
    return t->placements;
}

uint32_t exg_dtensor_rank_count(const exg_dtensor *t)
{
    return t->rank;
}

const int64_t *exg_dtensor_sizes(const exg_dtensor *t)
{
    return t->sizes;
}

const int64_t *exg_dtensor_strides(const exg_dtensor *t)
{
    return t->strides;
}

exg_dtype exg_dtensor_dtype(const exg_dtensor *t)
{
    return t->local.dtype;
}

bool exg_dtensor_requires_grad(const exg_dtensor *t)
{
    return t->requires_grad;
}

exg_status exg_dtensor_set_requires_grad(exg_dtensor *t, bool requires_grad, exg_error *err)
{
    if (requires_grad && !exg_dtype_is_float(t->local.dtype) &&
        !exg_dtype_is_complex(t->local.dtype)) {
        return EXG_FAIL(err, USAGE, "DTN-016", "a gradient of %s",
                        exg_dtype_name(t->local.dtype));
    }
    t->requires_grad = requires_grad;
    return EXG_OK;
}

exg_status exg_dtensor_chunk(const exg_dtensor *t, int64_t *offsets, int64_t *sizes,
                             exg_error *err)
{
    for (uint32_t m = 0; m < t->mesh->ndim; m++) {
        if (t->placements[m].kind == EXG_PARTIAL) {
            return EXG_FAIL(err, USAGE, "DTN-014", "a Partial has no chunks: redistribute it");
        }
    }
    if (t->mesh->communicator == NULL) {
        memset(offsets, 0, t->rank * sizeof(*offsets));
        memset(sizes, 0, t->rank * sizeof(*sizes));
    } else {
        exg_local_chunk(t->mesh, exg_device_mesh_rank(t->mesh), t->placements, t->sizes, t->rank,
                        offsets, sizes);
    }
    return EXG_OK;
}

exg_status exg_dtensor_shard_at(const exg_dtensor *t, const int64_t *offsets,
                                const exg_tensor **local, exg_error *err)
{
    int64_t own[EXG_RANK_MAX], sizes[EXG_RANK_MAX];

    *local = NULL;
    EXG_TRY(exg_dtensor_chunk(t, own, sizes, err));
    if (memcmp(own, offsets, t->rank * sizeof(*own)) != 0) {
        return EXG_FAIL(err, USAGE, "DTN-014", "this rank's part does not begin there");
    }
    *local = &t->local;
    return EXG_OK;
}
