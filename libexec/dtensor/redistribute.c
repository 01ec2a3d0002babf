/* redistribute.c - from any placements to any others: summands are reduced first, each
 * rank of a group to a part of its own (a reduce-scatter), then every rank gets the pieces
 * it lacks in one exchange.
 *
 * So an all-gather, an all-to-all and every nesting of shards are one exchange in which
 * each rank receives what it lacks and no more; an all-reduce is two. A rank that has
 * replicas to choose from takes the one at its own coordinates.
 */
#include "libexec/comm/reduce.h"
#include "libexec/dtensor/box.h"
#include "libexec/dtensor/exchange.h"
#include "libexec/dtensor/link.h"
#include "libexec/dtensor/region.h"
#include "libexec/dtensor/spec.h"
#include "libexec/dtensor/storage.h"
#include "libexport/base/require.h"

#include <stdlib.h>
#include <string.h>

/* What every rank holds on the way. */
typedef struct passage {
    const exg_dtensor *t;
    const exg_placement *to;
    exg_region *held; /* by rank of the mesh */
    exg_tensor data;
    bool there;                      /* it is on the device, on all ranks */
    exg_host_copy copy;              /* of the part, when it does not any more */
    void *owned;                     /* of `data`, or NULL */
    exg_block *block;                /* the same on the device */
    bool reduced[EXG_MESH_DIMS_MAX]; /* mesh dims that were Partial */
} passage;

/* The place of `rank` among those it reduces with, and how many they are. */
static uint32_t place_in_group(const passage *p, const bool *dims, uint32_t rank, uint32_t *size)
{
    const exg_device_mesh *mesh = p->t->mesh;
    uint32_t place = 0;

    *size = 1;
    for (uint32_t m = 0; m < mesh->ndim; m++) {
        if (dims[m]) {
            place = place * mesh->sizes[m] + exg_mesh_coordinate(mesh, rank, m);
            *size *= mesh->sizes[m];
        }
    }
    return place;
}

static bool same_group(const exg_device_mesh *mesh, const bool *dims, uint32_t a, uint32_t b)
{
    for (uint32_t m = 0; m < mesh->ndim; m++) {
        if (!dims[m] && exg_mesh_coordinate(mesh, a, m) != exg_mesh_coordinate(mesh, b, m)) {
            return false;
        }
    }
    return true;
}

/* The tensor dim along which the sum is scattered: where it is to be sharded anyway, else
 * the longest. */
static uint32_t scatter_dim(const passage *p, const bool *dims)
{
    uint32_t longest = 0;

    for (uint32_t m = 0; m < p->t->mesh->ndim; m++) {
        if (dims[m] && exg_placement_is_shard(p->to[m])) {
            return (uint32_t)p->to[m].dim;
        }
    }
    for (uint32_t d = 1; d < p->t->rank; d++) {
        longest = p->held[0].sizes[d] > p->held[0].sizes[longest] ? d : longest;
    }
    return longest;
}

static uint64_t box_bytes(const passage *p, const exg_box *box)
{
    return (uint64_t)exg_box_numel(box, p->t->rank) * exg_dtype_bytes(p->data.dtype);
}

typedef struct reduction {
    const bool *dims; /* of the mesh: along which ranks hold summands */
    exg_reduce_op op;
    uint32_t dim; /* of the tensor: along which the sum is scattered */
    uint32_t n;   /* summands */
    exg_segment *send, *receive;
    uint8_t *packed; /* what goes, then what comes */
    uint8_t *result;
} reduction;

/* What `taker` takes of the local part that all of its group have summands of. */
static exg_box share_of(const passage *p, const reduction *r, uint32_t taker)
{
    exg_box part = {{0}, {0}};
    uint32_t n;
    uint32_t place = place_in_group(p, r->dims, taker, &n);

    memcpy(part.size, p->held[taker].sizes, sizeof(part.size));
    if (p->t->rank > 0) {
        exg_chunk(part.size[r->dim], n, place, &part.offset[r->dim], &part.size[r->dim]);
    }
    return part;
}

/* Every rank of the group is sent its share, packed; what comes is summed in their order. */
static exg_status reduce_shares(const passage *p, reduction *r, exg_error *err)
{
    const exg_device_mesh *mesh = p->t->mesh;
    uint32_t me = exg_device_mesh_rank(mesh);
    static const int64_t start[EXG_RANK_MAX];
    exg_box own = share_of(p, r, me);
    uint8_t *at = r->packed;
    uint8_t *parts;

    for (uint32_t q = 0; q < mesh->size; q++) {
        if (same_group(mesh, r->dims, me, q)) {
            exg_box part = share_of(p, r, q);
            exg_tensor box = exg_box_tensor(&part, p->data.dtype, p->t->rank, at);

            exg_box_copy(&part, &p->data, start, &box, part.offset);
            r->send[q] = (exg_segment){.data = at, .bytes = box_bytes(p, &part)};
            at += r->send[q].bytes;
        }
    }
    parts = at;
    for (uint32_t q = 0; q < mesh->size; q++) {
        if (same_group(mesh, r->dims, me, q)) {
            r->receive[q] = (exg_segment){.data = at, .bytes = box_bytes(p, &own)};
            at += r->receive[q].bytes;
        }
    }
    EXG_TRY(exg_exchange(mesh->communicator, r->send, r->receive, err));
    exg_reduce_parts(p->data.dtype, r->op, parts, r->n, exg_box_numel(&own, p->t->rank), r->result);
    return EXG_OK;
}

/* Between copies in the host's memory. */
static exg_status reduce_here(passage *p, reduction *r, const exg_box *own, exg_error *err)
{
    const exg_device_mesh *mesh = p->t->mesh;
    uint64_t item = exg_dtype_bytes(p->data.dtype);
    uint64_t own_bytes = box_bytes(p, own);
    exg_status status;

    r->send = calloc(2 * (size_t)mesh->size, sizeof(*r->send));
    r->receive = r->send == NULL ? NULL : r->send + mesh->size;
    r->packed = malloc(
        (size_t)(r->n * item + (uint64_t)exg_tensor_numel(&p->data) * item + r->n * own_bytes));
    r->result = malloc((size_t)own_bytes + 1);
    status = r->send == NULL || r->packed == NULL || r->result == NULL ? EXG_OUT_OF_MEMORY(err)
                                                                       : reduce_shares(p, r, err);
    free(r->send);
    free(r->packed);
    free(p->owned);
    p->owned = r->result;
    p->data = exg_box_tensor(own, p->data.dtype, p->t->rank, r->result);
    return status;
}

/* From row-major memory, along a line of those who reduce together. */
static exg_status reduce_along(passage *p, const reduction *r, exg_mesh_link *line,
                               const exg_tensor *from, const exg_tensor *to, exg_error *err)
{
    exg_device_mesh *mesh = p->t->mesh;
    uint32_t me = exg_device_mesh_rank(mesh);
    static const int64_t start[EXG_RANK_MAX];
    exg_collective what = {.kind = from->rank == 0 ? EXG_ALL_REDUCE : EXG_REDUCE_SCATTER,
                           .in = from,
                           .out = to,
                           .dim = r->dim,
                           .op = r->op};
    exg_strip sent[EXG_RANKS_MAX] = {{0}};
    exg_strip received[EXG_RANKS_MAX] = {{0}};
    uint64_t bytes = (uint64_t)exg_tensor_numel(to) * exg_dtype_bytes(to->dtype);

    for (uint32_t q = 0; q < mesh->size; q++) {
        if (same_group(mesh, r->dims, me, q)) {
            exg_box part = share_of(p, r, q);
            uint32_t n;
            uint32_t place = place_in_group(p, r->dims, q, &n);

            /* a chunk of one dim always is one */
            (void)exg_box_strip(&part, start, from->sizes, from->rank, from->dtype, &sent[place]);
            received[place] = (exg_strip){.rows = 1, .run = bytes, .pitch = bytes};
        }
    }
    return exg_mesh_link_run(mesh, line, &what, sent, received, err);
}

/* UNSUPPORTED, on all ranks: not there. */
static exg_status reduce_there(passage *p, const reduction *r, const exg_box *own, exg_error *err)
{
    exg_device_mesh *mesh = p->t->mesh;
    exg_block *from_block = NULL, *result = NULL;
    exg_mesh_link *line;
    exg_tensor from, to;
    exg_status status;

    EXG_TRY(exg_mesh_link_find(mesh, r->dims, &line, err));
    if (line == NULL) {
        return EXG_FAIL(err, UNSUPPORTED, "DEV-011", "the ranks do not share a device");
    }
    status = exg_mesh_row_major(mesh, &p->data, true, &from, &from_block, err);
    if (status == EXG_OK) {
        status = exg_block_create(mesh, box_bytes(p, own), &result, err);
    }
    if (status == EXG_OK) {
        to = exg_box_tensor(own, from.dtype, from.rank, exg_block_data(result));
        status = reduce_along(p, r, line, &from, &to, err);
    }
    exg_block_release(from_block);
    if (status != EXG_OK) {
        exg_block_release(result);
        return status;
    }
    exg_block_release(p->block);
    p->block = result;
    p->data = to;
    return EXG_OK;
}

/* On the device, or from now on on the host. */
static exg_status reduce_shared(passage *p, reduction *r, const exg_box *own, exg_error *err)
{
    exg_status status = p->there ? reduce_there(p, r, own, err) : EXG_UNSUPPORTED;
    exg_tensor data = p->data;

    if (status != EXG_UNSUPPORTED) {
        return status;
    }
    exg_error_clear(err);
    if (p->there) {
        EXG_TRY(exg_host_copy_open(&p->copy, p->t->mesh->device, &data, true, err));
        p->data = p->copy.here;
        p->there = false;
    }
    return reduce_here(p, r, own, err);
}

/* Reduces over the mesh dims that are Partial(op) and shall not stay it. */
static exg_status reduce(passage *p, exg_reduce_op op, exg_error *err)
{
    const exg_device_mesh *mesh = p->t->mesh;
    uint32_t me = exg_device_mesh_rank(mesh);
    bool dims[EXG_MESH_DIMS_MAX] = {false};
    reduction r = {.dims = dims, .op = op};
    bool any = false;
    exg_box part;
    exg_status status;

    for (uint32_t m = 0; m < mesh->ndim; m++) {
        dims[m] = p->t->placements[m].kind == EXG_PARTIAL && p->t->placements[m].op == op &&
                  p->to[m].kind != EXG_PARTIAL;
        p->reduced[m] = p->reduced[m] || dims[m];
        any = any || dims[m];
    }
    if (!any) {
        return EXG_OK;
    }
    r.dim = scatter_dim(p, dims);
    (void)place_in_group(p, dims, me, &r.n);
    part = share_of(p, &r, me);
    status = reduce_shared(p, &r, &part, err);
    for (uint32_t q = 0; q < mesh->size; q++) {
        exg_box box = share_of(p, &r, q);

        exg_region_cut(&p->held[q], p->t->rank, &box);
    }
    return status;
}

/* Of ranks that hold the same, each serves those at its own coordinates. */
static bool gives(const void *user, uint32_t giver, uint32_t taker)
{
    const passage *p = user;
    const exg_device_mesh *mesh = p->t->mesh;

    for (uint32_t m = 0; m < mesh->ndim; m++) {
        bool split = exg_placement_is_shard(p->t->placements[m]) || p->reduced[m];

        if (!split && exg_mesh_coordinate(mesh, giver, m) != exg_mesh_coordinate(mesh, taker, m)) {
            return false;
        }
    }
    return true;
}

static exg_status pass(passage *p, exg_dtensor *out, bool async, exg_error *err)
{
    const exg_dtensor *t = p->t;
    exg_region *wanted = exg_regions_create(t->mesh, p->to, t->sizes, t->rank);
    exg_status status = EXG_OK;

    p->held = exg_regions_create(t->mesh, t->placements, t->sizes, t->rank);
    if (p->held == NULL || wanted == NULL) {
        status = EXG_OUT_OF_MEMORY(err);
    }
    for (int op = 0; status == EXG_OK && op < EXG_REDUCE_OP_COUNT; op++) {
        status = reduce(p, (exg_reduce_op)op, err);
    }
    if (status != EXG_OK) { /* the others would wait */
        exg_communicator_abort(t->mesh->communicator, status);
    } else {
        status =
            exg_dtensor_receive(out, &p->data, p->there, p->held, wanted, gives, p, async, err);
    }
    exg_host_copy_close(&p->copy);
    exg_block_release(p->block);
    free(p->held);
    free(p->owned);
    free(wanted);
    return status;
}

/* To Partial only from the same; sums that the dtype has. */
static exg_status check(const exg_dtensor *t, const exg_placement *to, bool *same, exg_error *err)
{
    *same = true;
    for (uint32_t m = 0; m < t->mesh->ndim; m++) {
        exg_placement from = t->placements[m];
        bool equal = exg_placement_equal(from, to[m]);

        *same = *same && equal;
        if (to[m].kind == EXG_PARTIAL && !equal) {
            return EXG_FAIL(err, USAGE, "DTN-005", "a redistribution to Partial");
        }
        if (from.kind == EXG_PARTIAL && !equal && !exg_can_reduce(t->local.dtype, from.op)) {
            return EXG_FAIL(err, USAGE, "DTN-006", "a reduction '%s' of %s",
                            exg_reduce_op_name(from.op), exg_dtype_name(t->local.dtype));
        }
    }
    return EXG_OK;
}

exg_status exg_dtensor_move(const exg_dtensor *t, const exg_placement *to, bool async,
                            exg_dtensor **out, exg_error *err)
{
    passage p = {.t = t, .to = to, .data = t->local, .there = t->mesh->device != NULL};
    exg_status status;
    bool same;

    *out = NULL;
    EXG_TRY(exg_dtensor_wait(t, err));
    EXG_TRY(check(t, to, &same, err));
    if (same) {
        EXG_TRY(exg_dtensor_make(t->mesh, to, &t->local, t->sizes, t->strides, out, err));
        (*out)->owned = exg_block_share(t->owned);
        (*out)->meta = t->meta;
        return EXG_OK;
    }
    if (t->meta) {
        return exg_dtensor_make_meta(t->mesh, to, t->local.dtype, t->rank, t->sizes, out, err);
    }
    status = exg_dtensor_make_owned(t->mesh, to, t->local.dtype, t->rank, t->sizes, out, err);
    if (t->mesh->communicator == NULL) {
        return status;
    }
    if (status != EXG_OK) {
        exg_communicator_abort(t->mesh->communicator, status);
        return status;
    }
    status = pass(&p, *out, async, err);
    if (status != EXG_OK) {
        exg_dtensor_destroy(*out);
        *out = NULL;
    }
    return status;
}

exg_status exg_dtensor_redistribute(const exg_dtensor *t, const exg_placement *placements,
                                    uint32_t count, exg_dtensor **out, exg_error *err)
{
    EXG_REQUIRE(err, t, out);
    exg_placement to[EXG_MESH_DIMS_MAX];

    *out = NULL;
    if (placements == NULL) {
        return EXG_FAIL(err, USAGE, "DTN-002", "a redistribution without placements");
    }
    EXG_TRY(exg_spec_placements(t->mesh, placements, count, t->rank, to, err));
    EXG_TRY(exg_dtensor_move(t, to, false, out, err));
    return exg_dtensor_set_requires_grad(*out, t->history != NULL, err);
}

exg_status exg_dtensor_full_tensor(const exg_dtensor *t, exg_dtensor **out, exg_error *err)
{
    EXG_REQUIRE(err, t, out);
    exg_placement whole[EXG_MESH_DIMS_MAX];

    for (uint32_t m = 0; m < t->mesh->ndim; m++) {
        whole[m] = exg_replicate();
    }
    return exg_dtensor_redistribute(t, whole, t->mesh->ndim, out, err);
}
