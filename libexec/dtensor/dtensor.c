/* dtensor.c - into DTensors: from local parts, from a whole. */
#include "libexec/comm/collectives.h"
#include "libexec/dtensor/exchange.h"
#include "libexec/dtensor/region.h"
#include "libexec/dtensor/spec.h"
#include "libexec/dtensor/storage.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void exg_global_from_local(const exg_device_mesh *mesh, const exg_tensor *local,
                           const exg_placement *placements, int64_t *sizes, int64_t *strides)
{
    memcpy(sizes, local->sizes, local->rank * sizeof(*sizes));
    memcpy(strides, local->strides, local->rank * sizeof(*strides));
    for (uint32_t m = 0; m < mesh->ndim; m++) {
        uint32_t shard = (uint32_t)placements[m].dim;

        if (!exg_placement_is_shard(placements[m])) {
            continue;
        }
        sizes[shard] *= mesh->sizes[m];
        for (uint32_t d = 0; d < local->rank; d++) {
            strides[d] *= d != shard && strides[d] >= strides[shard] ? mesh->sizes[m] : 1;
        }
    }
}

/* ---- what the ranks say of their parts ----------------------------------------------------- */

typedef struct statement {
    int64_t dtype, rank, has_shape, requires_grad;
    int64_t local[EXG_RANK_MAX], whole[EXG_RANK_MAX];
    int64_t strides[EXG_RANK_MAX]; /* of the whole, or of even parts */
} statement;

/* The sizes along each dim of the ranks that are first on every mesh dim but those which
 * shard it, one after the other. */
static void sum_sizes(const exg_device_mesh *mesh, const exg_placement *placements,
                      const statement *all, uint32_t rank, int64_t *sizes)
{
    for (uint32_t d = 0; d < rank; d++) {
        sizes[d] = 0;
        for (uint32_t r = 0; r < mesh->size; r++) {
            bool counts = true;

            for (uint32_t m = 0; m < mesh->ndim; m++) {
                bool shards =
                    exg_placement_is_shard(placements[m]) && placements[m].dim == (int32_t)d;

                counts = counts && (shards || exg_mesh_coordinate(mesh, r, m) == 0);
            }
            sizes[d] += counts ? all[r].local[d] : 0;
        }
    }
}

/* The same faults in the same order on every rank. */
static exg_status compare_statements(const exg_device_mesh *mesh, const exg_placement *placements,
                                     const statement *all, const int64_t *sizes, exg_error *err)
{
    uint32_t rank = (uint32_t)all[0].rank;
    int64_t offsets[EXG_RANK_MAX];
    int64_t chunk[EXG_RANK_MAX];

    for (uint32_t r = 0; r < mesh->size; r++) {
        if (all[r].dtype != all[0].dtype || all[r].rank != all[0].rank ||
            all[r].has_shape != all[0].has_shape || all[r].requires_grad != all[0].requires_grad ||
            memcmp(all[r].whole, all[0].whole, sizeof(all[0].whole)) != 0 ||
            memcmp(all[r].strides, all[0].strides, sizeof(all[0].strides)) != 0) {
            return EXG_FAIL(err, USAGE, "DTN-013",
                            "rank %u has another dtype, number of dims, "
                            "shape, strides or requires_grad than rank 0",
                            r);
        }
        exg_local_chunk(mesh, r, placements, sizes, rank, offsets, chunk);
        for (uint32_t d = 0; d < rank; d++) {
            if (chunk[d] != all[r].local[d]) {
                return EXG_FAIL(err, USAGE, "DTN-013",
                                "rank %u has %" PRId64 " in dim %u, its chunk is %" PRId64, r,
                                all[r].local[d], d, chunk[d]);
            }
        }
    }
    return EXG_OK;
}

static exg_status check_all(exg_device_mesh *mesh, const exg_placement *placements,
                            const exg_tensor *local, const exg_from_local_options *options,
                            int64_t *sizes, exg_error *err)
{
    statement own = {.dtype = local->dtype,
                     .rank = local->rank,
                     .has_shape = options->shape != NULL,
                     .requires_grad = options->requires_grad};
    statement *all = calloc(mesh->size, sizeof(*all));
    exg_status status;

    if (all == NULL) {
        exg_communicator_abort(mesh->communicator, EXG_NO_MEMORY);
        return EXG_OUT_OF_MEMORY(err);
    }
    memcpy(own.local, local->sizes, local->rank * sizeof(int64_t));
    if (options->shape != NULL) {
        memcpy(own.whole, options->shape, local->rank * sizeof(int64_t));
        memcpy(own.strides, options->strides, local->rank * sizeof(int64_t));
    } else if (!options->infer_shape) {
        memcpy(own.strides, local->strides, local->rank * sizeof(int64_t));
    }
    status = exg_mesh_gather(mesh, &own, all, sizeof(own), err);
    if (status == EXG_OK && options->infer_shape) {
        sum_sizes(mesh, placements, all, local->rank, sizes);
    }
    if (status == EXG_OK) {
        status = compare_statements(mesh, placements, all, sizes, err);
    }
    free(all);
    return status;
}

/* ---- from local ----------------------------------------------------------------------------- */

static exg_status check_own(const exg_device_mesh *mesh, const exg_placement *placements,
                            const exg_tensor *local, const int64_t *sizes, exg_error *err)
{
    int64_t offsets[EXG_RANK_MAX];
    int64_t chunk[EXG_RANK_MAX];

    exg_local_chunk(mesh, exg_device_mesh_rank(mesh), placements, sizes, local->rank, offsets,
                    chunk);
    for (uint32_t d = 0; d < local->rank; d++) {
        if (chunk[d] != local->sizes[d]) {
            return EXG_FAIL(err, USAGE, "DTN-004",
                            "the local size in dim %u is %" PRId64
                            ", this rank's chunk is %" PRId64,
                            d, local->sizes[d], chunk[d]);
        }
    }
    return EXG_OK;
}

typedef struct copies {
    const exg_device_mesh *mesh;
    const exg_placement *placements;
} copies;

/* The first of those that hold the same is the truth. */
static bool first_gives(const void *user, uint32_t giver, uint32_t taker)
{
    const copies *c = user;

    for (uint32_t m = 0; m < c->mesh->ndim; m++) {
        uint32_t from = exg_mesh_coordinate(c->mesh, giver, m);

        if (from !=
            (c->placements[m].kind == EXG_REPLICATE ? 0 : exg_mesh_coordinate(c->mesh, taker, m))) {
            return false;
        }
    }
    return true;
}

/* In place of the borrowed part: everyone's copy of the first's. */
static exg_status take_copies(exg_dtensor *t, exg_error *err)
{
    copies c = {t->mesh, t->placements};
    exg_region *regions = exg_regions_create(t->mesh, t->placements, t->sizes, t->rank);
    exg_dtensor *copy = NULL;
    exg_status status;

    status = regions == NULL ? EXG_OUT_OF_MEMORY(err)
                             : exg_dtensor_make_owned(t->mesh, t->placements, t->local.dtype,
                                                      t->rank, t->sizes, &copy, err);
    if (status != EXG_OK) {
        exg_communicator_abort(t->mesh->communicator, status);
    } else {
        status = exg_dtensor_receive(copy, &t->local, t->mesh->device != NULL, regions, regions,
                                     first_gives, &c, false, err);
    }
    free(regions);
    if (status == EXG_OK) { /* the copy's memory for its own */
        exg_block *before = t->owned;

        t->local = copy->local;
        t->owned = copy->owned;
        copy->owned = before;
    }
    exg_dtensor_destroy(copy);
    return status;
}

static bool has_copies(const exg_dtensor *t)
{
    for (uint32_t m = 0; m < t->mesh->ndim; m++) {
        if (t->placements[m].kind == EXG_REPLICATE && t->mesh->sizes[m] > 1) {
            return true;
        }
    }
    return false;
}

exg_status exg_dtensor_from_local(exg_device_mesh *mesh, const exg_tensor *local,
                                  const exg_placement *placements, uint32_t count,
                                  const exg_from_local_options *given, exg_dtensor **t,
                                  exg_error *err)
{
    EXG_REQUIRE(err, local, t);
    exg_from_local_options options = {0};
    exg_placement to[EXG_MESH_DIMS_MAX];
    int64_t sizes[EXG_RANK_MAX];
    int64_t strides[EXG_RANK_MAX];
    exg_status status;
    bool member;

    *t = NULL;
    EXG_TRY(EXG_READ_OPTIONS(exg_from_local_options, &options, given, err));
    EXG_TRY(exg_spec_sizes(local->dtype, local->rank, local->sizes, err));
    EXG_TRY(exg_spec_placements(mesh, placements, count, local->rank, to, err));
    member = exg_device_mesh_is_member(mesh);
    if ((options.shape == NULL) != (options.strides == NULL) ||
        (options.shape != NULL && options.infer_shape)) {
        return EXG_FAIL(err, USAGE, "DTN-003",
                        "shape and strides go together, and not with infer_shape");
    }
    exg_global_from_local(mesh, local, to, sizes, strides);
    if (options.shape != NULL) {
        memcpy(sizes, options.shape, local->rank * sizeof(*sizes));
        memcpy(strides, options.strides, local->rank * sizeof(*strides));
    }
    if (member && (options.run_check || options.infer_shape)) {
        EXG_TRY(check_all(mesh, to, local, &options, sizes, err));
    } else if (member) {
        EXG_TRY(check_own(mesh, to, local, sizes, err));
    }
    if (member && local->data == NULL && !options.meta && exg_tensor_numel(local) > 0) {
        return EXG_FAIL(err, USAGE, "DTN-003", "a local tensor without data that is not meta");
    }
    EXG_TRY(exg_dtensor_make(mesh, to, local, sizes, strides, t, err));
    (*t)->meta = options.meta;
    (*t)->local.data = options.meta ? NULL : (*t)->local.data;
    status = exg_dtensor_settle(*t, err);
    if (status == EXG_OK) {
        status = exg_dtensor_set_requires_grad(*t, options.requires_grad, err);
    }
    if (status == EXG_OK && member && options.run_check && !options.meta && has_copies(*t)) {
        status = take_copies(*t, err);
    }
    if (status != EXG_OK) {
        exg_dtensor_destroy(*t);
        *t = NULL;
    }
    return status;
}

/* ---- from a whole ---------------------------------------------------------------------------- */

static bool source_gives(const void *user, uint32_t giver, uint32_t taker)
{
    uint32_t source = *(const uint32_t *)user;

    return giver == (source == EXG_NO_RANK ? taker : source);
}

/* Each summand of `value` over a Partial mesh dim; S003-98. */
static exg_status divide(exg_dtensor *t, exg_error *err)
{
    exg_status status;
    exg_host_copy part;
    double by = 1;

    for (uint32_t m = 0; m < t->mesh->ndim; m++) {
        exg_placement p = t->placements[m];

        if (p.kind == EXG_PARTIAL && p.op >= EXG_REDUCE_PRODUCT) {
            return EXG_FAIL(err, USAGE, "DTN-007", "a tensor is not distributed to Partial(%s)",
                            exg_reduce_op_name(p.op));
        }
        by *= p.kind == EXG_PARTIAL && p.op == EXG_REDUCE_SUM ? t->mesh->sizes[m] : 1;
    }
    if (by == 1) {
        return EXG_OK;
    }
    if (exg_dtype_class(t->local.dtype) != 'F') {
        return EXG_FAIL(err, USAGE, "DTN-007", "summands of %s would not be whole",
                        exg_dtype_name(t->local.dtype));
    }
    EXG_TRY(exg_dtensor_host_copy(t, true, &part, err));
    for (int64_t i = 0; i < exg_tensor_numel(&part.here); i++) {
        uint8_t *at = (uint8_t *)part.here.data + i * (int64_t)exg_dtype_bytes(part.here.dtype);

        exg_element_store(part.here.dtype, at, exg_element_value(part.here.dtype, at) / by);
    }
    status = exg_host_copy_write(&part, err);
    exg_host_copy_close(&part);
    return status;
}

/* The strides of the whole are given; those of the part follow their order. */
static void keep_order(exg_dtensor *t, const int64_t *strides)
{
    bool done[EXG_RANK_MAX] = {false};
    int64_t step = 1;

    memcpy(t->strides, strides, t->rank * sizeof(*strides));
    for (uint32_t k = 0; t->mesh->communicator != NULL && k < t->rank; k++) {
        uint32_t inner = t->rank;

        for (uint32_t d = t->rank; d-- > 0;) {
            if (!done[d] && (inner == t->rank || strides[d] < strides[inner])) {
                inner = d;
            }
        }
        done[inner] = true;
        t->local.strides[inner] = step;
        step *= t->local.sizes[inner] > 0 ? t->local.sizes[inner] : 1;
    }
}

/* Is what is given on the device? The source says so for all; not a DTensor's exchange. */
static exg_status lies_there(exg_device_mesh *mesh, const exg_tensor *global, uint32_t source,
                             bool *there, exg_error *err)
{
    exg_communicator *c = mesh->communicator;
    uint64_t exchanges = c->exchanges, bytes_sent = c->bytes_sent;
    uint8_t word = mesh->device != NULL && mesh->device->table->holds(mesh->device, global->data);
    exg_status status = mesh->device == NULL || source == EXG_NO_RANK
                            ? EXG_OK
                            : exg_broadcast_bytes(c, &word, sizeof(word), source, err);

    *there = word != 0;
    c->exchanges = exchanges;
    c->bytes_sent = bytes_sent;
    return status;
}

/* Fills the part of `t` from `global`, wherever that is. */
static exg_status take_parts(exg_dtensor *t, const exg_tensor *global, uint32_t source,
                             exg_error *err)
{
    exg_device_mesh *mesh = t->mesh;
    exg_region *held = exg_regions_create(mesh, NULL, global->sizes, global->rank);
    exg_region *wanted = exg_regions_create(mesh, t->placements, global->sizes, global->rank);
    bool there = false;
    exg_status status = held == NULL || wanted == NULL
                            ? EXG_OUT_OF_MEMORY(err)
                            : lies_there(mesh, global, source, &there, err);

    if (status != EXG_OK) {
        exg_communicator_abort(mesh->communicator, status);
    } else {
        status =
            exg_dtensor_receive(t, global, there, held, wanted, source_gives, &source, false, err);
    }
    free(held);
    free(wanted);
    return status;
}

exg_status exg_distribute_tensor(exg_device_mesh *mesh, const exg_tensor *global,
                                 const exg_placement *placements, uint32_t count, uint32_t source,
                                 exg_dtensor **t, exg_error *err)
{
    EXG_REQUIRE(err, global, t);
    exg_placement to[EXG_MESH_DIMS_MAX];
    exg_status status;

    *t = NULL;
    EXG_TRY(exg_spec_sizes(global->dtype, global->rank, global->sizes, err));
    EXG_TRY(exg_spec_placements(mesh, placements, count, global->rank, to, err));
    if (source != EXG_NO_RANK && source >= mesh->size) {
        return EXG_FAIL(err, USAGE, "DTN-007", "rank %u of a mesh of %u", source, mesh->size);
    }
    status =
        global->data == NULL && exg_tensor_numel(global) > 0
            ? exg_dtensor_make_meta(mesh, to, global->dtype, global->rank, global->sizes, t, err)
            : exg_dtensor_make_owned(mesh, to, global->dtype, global->rank, global->sizes, t, err);
    if (status != EXG_OK && source != EXG_NO_RANK && mesh->communicator != NULL) {
        exg_communicator_abort(mesh->communicator, status); /* the others would wait */
    }
    EXG_TRY(status);
    keep_order(*t, global->strides);
    if (mesh->communicator == NULL || (*t)->meta) {
        return EXG_OK;
    }
    status = take_parts(*t, global, source, err);
    if (status == EXG_OK) {
        status = divide(*t, err);
    }
    if (status != EXG_OK) {
        exg_dtensor_destroy(*t);
        *t = NULL;
    }
    return status;
}
