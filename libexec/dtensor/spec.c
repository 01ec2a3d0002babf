/* spec.c - placements that fit, DTensor objects. */
#include "libexec/dtensor/spec.h"
#include "libexec/dtensor/box.h"
#include "libexec/dtensor/exchange.h"
#include "libexec/dtensor/storage.h"
#include "libexport/base/checked.h"
#include "libexport/base/require.h"

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

exg_status exg_spec_sizes(exg_dtype dtype, uint32_t rank, const int64_t *sizes, exg_error *err)
{
    int64_t bytes;

    EXG_REQUIRE(err, EXG_IF_ANY(rank, sizes));
    if (rank > EXG_RANK_MAX) {
        return EXG_FAIL(err, LIMIT, "DTN-009", "a tensor of %u dims; at most %d", rank,
                        EXG_RANK_MAX);
    }
    if (exg_dtype_bytes(dtype) == 0) {
        return EXG_FAIL(err, USAGE, "DTN-009", "a tensor with an unknown dtype");
    }
    bytes = exg_dtype_bytes(dtype);
    for (uint32_t d = 0; d < rank; d++) {
        int64_t size = sizes[d] > 0 ? sizes[d] : 1; /* the others stay to be counted */

        if (sizes[d] < 0 || !exg_mul_i64(bytes, size, &bytes)) {
            return EXG_FAIL(err, USAGE, "DTN-009", "a size of %" PRId64 " in dim %u", sizes[d], d);
        }
    }
    return EXG_OK;
}

exg_status exg_spec_placements(const exg_device_mesh *mesh, const exg_placement *placements,
                               uint32_t count, uint32_t rank, exg_placement *out, exg_error *err)
{
    char text[EXG_PLACEMENT_TEXT];

    if (mesh == NULL) {
        return EXG_FAIL(err, USAGE, "DTN-018", "no mesh is given");
    }
    if (rank > EXG_RANK_MAX) {
        return EXG_FAIL(err, LIMIT, "DTN-009", "a tensor of %u dims; at most %d", rank,
                        EXG_RANK_MAX);
    }
    if (placements != NULL && count != mesh->ndim) {
        return EXG_FAIL(err, USAGE, "DTN-002", "%u placements on a mesh of %u dims", count,
                        mesh->ndim);
    }
    for (uint32_t m = 0; m < mesh->ndim; m++) {
        out[m] = placements == NULL ? exg_replicate() : placements[m];
        if ((uint32_t)out[m].kind >= EXG_PLACEMENT_KIND_COUNT ||
            (out[m].kind == EXG_STRIDED_SHARD && out[m].split_factor < 1)) {
            return EXG_FAIL(err, UNSUPPORTED, "DTN-019", "no placement %s on mesh dim %u",
                            exg_placement_print(out[m], text), m);
        }
        if (!exg_placement_is_shard(out[m])) {
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

exg_status exg_dtensor_make(exg_device_mesh *mesh, const exg_placement *placements,
                            const exg_tensor *local, const int64_t *sizes, const int64_t *strides,
                            exg_dtensor **t, exg_error *err)
{
    exg_dtensor *made = malloc(sizeof(*made)); /* from its lists; calloc has none */

    *t = NULL;
    if (made == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *made = (exg_dtensor){.mesh = mesh, .local = *local, .rank = local->rank};
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

exg_status exg_dtensor_make_meta(exg_device_mesh *mesh, const exg_placement *placements,
                                 exg_dtype dtype, uint32_t rank, const int64_t *sizes,
                                 exg_dtensor **t, exg_error *err)
{
    exg_tensor whole = {.dtype = dtype, .rank = rank};
    exg_tensor local = whole;
    int64_t offsets[EXG_RANK_MAX];

    memcpy(whole.sizes, sizes, rank * sizeof(*sizes));
    exg_tensor_set_contiguous(&whole);
    exg_local_chunk(mesh, exg_device_mesh_rank(mesh), placements, sizes, rank, offsets,
                    local.sizes);
    exg_tensor_set_contiguous(&local);
    EXG_TRY(exg_dtensor_make(mesh, placements, &local, sizes, whole.strides, t, err));
    (*t)->meta = true;
    return EXG_OK;
}

exg_status exg_dtensor_make_owned(exg_device_mesh *mesh, const exg_placement *placements,
                                  exg_dtype dtype, uint32_t rank, const int64_t *sizes,
                                  exg_dtensor **t, exg_error *err)
{
    uint64_t bytes;
    exg_status status;

    EXG_TRY(exg_dtensor_make_meta(mesh, placements, dtype, rank, sizes, t, err));
    bytes = mesh->communicator == NULL
                ? 0
                : (uint64_t)exg_tensor_numel(&(*t)->local) * exg_dtype_bytes(dtype);
    status = exg_block_create(mesh, bytes, &(*t)->owned, err);
    (*t)->meta = false;
    if (status != EXG_OK) {
        exg_dtensor_destroy(*t);
        *t = NULL;
        return status;
    }
    (*t)->local.data = exg_block_data((*t)->owned);
    return EXG_OK;
}

void exg_dtensor_destroy(exg_dtensor *t)
{
    if (t != NULL) {
        (void)exg_transit_finish(t->transit, false, NULL); /* others may wait for it */
        exg_block_release(t->owned);
        exg_history_release(t->history);
        free(t);
    }
}

/* ---- between the host and the device ------------------------------------------------------ */

exg_status exg_dtensor_settle(exg_dtensor *t, exg_error *err)
{
    exg_accelerator *device = t->mesh->device;
    const exg_device_table *table = device == NULL ? NULL : device->table;
    exg_block *block;
    exg_span span; /* gaps too: strides stay */
    uint64_t bytes;
    exg_status status;

    if (device == NULL || t->meta || t->local.data == NULL || table->holds(device, t->local.data)) {
        return EXG_OK;
    }
    span = exg_tensor_span(&t->local);
    bytes = (uint64_t)(span.high - span.low);
    EXG_TRY(exg_block_create(t->mesh, bytes, &block, err));
    status = bytes == 0 ? EXG_OK
                        : table->copy_in(device, exg_block_data(block),
                                         (const uint8_t *)t->local.data + span.low, bytes, err);
    if (status == EXG_OK) {
        status = table->wait(device, err);
    }
    if (status != EXG_OK) {
        exg_block_release(block);
        return status;
    }
    exg_block_release(t->owned);
    t->owned = block;
    t->local.data = (uint8_t *)exg_block_data(block) - span.low;
    return EXG_OK;
}

exg_status exg_dtensor_host_copy(const exg_dtensor *t, bool reads, exg_host_copy *m, exg_error *err)
{
    return exg_host_copy_open(m, t->mesh->device, &t->local, reads, err);
}

static exg_status copy_from_host(const exg_host_copy *from, const exg_dtensor *to, exg_error *err)
{
    exg_box box = {{0}, {0}};
    exg_host_copy there;
    exg_status status;

    EXG_TRY(exg_dtensor_host_copy(to, false, &there, err));
    memcpy(box.size, to->local.sizes, sizeof(box.size));
    exg_box_copy(&box, &from->here, box.offset, &there.here, box.offset);
    status = exg_host_copy_write(&there, err);
    exg_host_copy_close(&there);
    return status;
}

static bool are_apart(const exg_tensor *a, const exg_tensor *b)
{
    exg_span x = exg_tensor_span(a), y = exg_tensor_span(b);
    intptr_t first = (intptr_t)a->data, second = (intptr_t)b->data;

    return first + x.high <= second + y.low || second + y.high <= first + x.low;
}

exg_status exg_dtensor_copy_part(const exg_dtensor *from, const exg_dtensor *to, exg_error *err)
{
    exg_host_copy here;
    exg_status status = to->mesh->device != NULL && are_apart(&from->local, &to->local)
                            ? exg_mesh_copy(to->mesh, &from->local, &to->local, err)
                            : EXG_UNSUPPORTED;

    if (status != EXG_UNSUPPORTED) {
        return status;
    }
    exg_error_clear(err);
    EXG_TRY(exg_dtensor_host_copy(from, true, &here, err));
    status = copy_from_host(&here, to, err);
    exg_host_copy_close(&here);
    return status;
}

/* ---- asking ------------------------------------------------------------------------------ */

exg_status exg_dtensor_wait(const exg_dtensor *t, exg_error *err)
{
    EXG_REQUIRE(err, t);
    exg_transit *transit = t->transit;

    if (transit == NULL) {
        return EXG_OK;
    }
    ((exg_dtensor *)(uintptr_t)t)->transit = NULL; /* all else of it stays */
    return exg_transit_finish(transit, false, err);
}

bool exg_dtensor_is_ready(const exg_dtensor *t)
{
    return t->transit == NULL || exg_transit_arrived(t->transit);
}

const exg_tensor *exg_dtensor_to_local(const exg_dtensor *t)
{
    exg_ignore(exg_dtensor_wait(t, NULL)); /* a fault stays in the communicator */
    return &t->local;
}

bool exg_dtensor_is_meta(const exg_dtensor *t)
{
    return t->meta;
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
