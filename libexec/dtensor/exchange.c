/* exchange.c - sends parts of tensors from rank to rank: packed through the host's memory, as
 * MPI_Alltoallv does, or as strips from device to device by ncclSend and ncclRecv.
 */
#include "libexec/dtensor/exchange.h"
#include "libexec/dtensor/box.h"
#include "libexec/dtensor/link.h"
#include "libexec/dtensor/region.h"
#include "libexec/dtensor/spec.h"
#include "libexec/dtensor/storage.h"

#include <stdlib.h>
#include <string.h>

/* ---- what goes where ---------------------------------------------------------------------- */

typedef struct exchange {
    exg_device_mesh *mesh;
    uint32_t me;
    uint32_t rank; /* of the tensor */
    int64_t item;
    const exg_tensor *from, *to;
    const exg_region *held, *wanted;
    exg_sends_fn *sends;
    const void *user;
} exchange;

/* What goes from one rank to another, piece by piece in an order that both know. */
typedef struct message {
    const exchange *e;
    uint32_t sender, receiver;
    uint32_t next_held, next_wanted;
    const exg_piece *held, *wanted;
    exg_box part; /* that both pieces have */
} message;

static message message_of(const exchange *e, uint32_t sender, uint32_t receiver)
{
    bool goes = e->sends(e->user, sender, receiver);

    return (message){.e = e,
                     .sender = sender,
                     .receiver = receiver,
                     .next_wanted = goes ? 0 : e->wanted[receiver].count};
}

static bool next_part(message *p)
{
    const exg_region *held = &p->e->held[p->sender];
    const exg_region *wanted = &p->e->wanted[p->receiver];

    while (p->next_wanted < wanted->count) {
        p->wanted = &wanted->pieces[p->next_wanted];
        while (p->next_held < held->count) {
            p->held = &held->pieces[p->next_held++];
            if (exg_box_meet(&p->held->box, &p->wanted->box, p->e->rank, &p->part)) {
                return true;
            }
        }
        p->next_held = 0;
        p->next_wanted++;
    }
    return false;
}

static uint64_t message_bytes(const exchange *e, uint32_t sender, uint32_t receiver)
{
    message p = message_of(e, sender, receiver);
    int64_t numel = 0;

    while (next_part(&p)) {
        numel += exg_box_numel(&p.part, e->rank);
    }
    return (uint64_t)(numel * e->item);
}

/* Does any rank want what it has not? The same answer everywhere. */
static bool anyone_lacks(const exchange *e)
{
    for (uint32_t r = 0; r < e->mesh->size; r++) {
        uint64_t wanted = (uint64_t)e->item;

        for (uint32_t d = 0; d < e->rank; d++) {
            wanted *= (uint64_t)e->wanted[r].sizes[d];
        }
        if (message_bytes(e, r, r) != wanted) {
            return true;
        }
    }
    return false;
}

static void pack(const exchange *e, uint32_t receiver, uint8_t *packed)
{
    message p = message_of(e, e->me, receiver);

    while (next_part(&p)) {
        exg_tensor box = exg_box_tensor(&p.part, e->from->dtype, e->rank, packed);

        exg_box_copy(&p.part, e->from, p.held->origin, &box, p.part.offset);
        packed += exg_box_numel(&p.part, e->rank) * e->item;
    }
}

static void keep_own(const exchange *e)
{
    message p = message_of(e, e->me, e->me);

    while (next_part(&p)) {
        exg_box_copy(&p.part, e->from, p.held->origin, e->to, p.wanted->origin);
    }
}

/* Fills the byte counts of both sides; gives their sum. */
static uint64_t count_bytes(const exchange *e, exg_segment *send, exg_segment *receive)
{
    uint64_t bytes = 0;

    for (uint32_t r = 0; r < e->mesh->size; r++) {
        if (r != e->me) {
            send[r].bytes = message_bytes(e, e->me, r);
            receive[r].bytes = message_bytes(e, r, e->me);
            bytes += send[r].bytes + receive[r].bytes;
        }
    }
    return bytes;
}

/* Where a part of what comes goes. */
typedef struct scatter_target {
    exg_box part;
    int64_t origin[EXG_RANK_MAX]; /* of the local tensor, as of an exg_piece */
    uint8_t *packed;
} scatter_target;

struct exg_transit {
    exg_posted posted; /* first */
    exg_device_mesh *mesh;
    bool is_held, is_settled; /* by a DTensor; by all that read what was sent */
    exg_tensor to;
    exg_host_copy there;         /* of a device that `to` is of */
    exg_segment *send, *receive; /* by rank */
    uint8_t *packed;             /* what goes and what comes */
    scatter_target *targets;
    uint32_t target_count;
    exg_mesh_flight *flight; /* from device to device: nothing is posted */
};

static void drop(exg_transit *t)
{
    exg_host_copy_close(&t->there);
    free(t->send);
    free(t->packed);
    free(t->targets);
    free(t);
}

static void drop_unused(exg_transit *t)
{
    if (!t->is_held && t->is_settled) {
        drop(t);
    }
}

/* All that came goes to its place. */
static void take_in(exg_posted *posted)
{
    const exg_transit *t = (const exg_transit *)posted;

    for (uint32_t i = 0; i < t->target_count; i++) {
        const scatter_target *l = &t->targets[i];
        exg_tensor box = exg_box_tensor(&l->part, t->to.dtype, t->to.rank, l->packed);

        exg_box_copy(&l->part, &box, l->part.offset, &t->to, l->origin);
    }
}

static void settled(exg_posted *posted)
{
    exg_transit *t = (exg_transit *)posted;

    t->is_settled = true;
    drop_unused(t);
}

/* Notes where what comes from `giver` goes; without room only counts. */
static uint32_t find_targets(const exchange *e, uint32_t sender, uint8_t *packed,
                             scatter_target *targets)
{
    message p = message_of(e, sender, e->me);
    uint32_t count = 0;

    for (; next_part(&p); count++) {
        if (targets != NULL) {
            targets[count] = (scatter_target){.part = p.part, .packed = packed};
            memcpy(targets[count].origin, p.wanted->origin, sizeof(p.wanted->origin));
            packed += exg_box_numel(&p.part, e->rank) * e->item;
        }
    }
    return count;
}

static exg_transit *make_transit(const exchange *e)
{
    exg_transit *t = calloc(1, sizeof(*t));
    uint32_t size = e->mesh->size;

    if (t == NULL) {
        return NULL;
    }
    t->mesh = e->mesh;
    t->to = *e->to;
    t->posted.arrive = take_in;
    t->posted.settle = settled;
    t->is_held = true;
    t->send = calloc(2 * (size_t)size, sizeof(*t->send));
    t->receive = t->send == NULL ? NULL : t->send + size;
    for (uint32_t r = 0; r < size; r++) {
        t->target_count += r == e->me ? 0 : find_targets(e, r, NULL, NULL);
    }
    t->targets = calloc(t->target_count + 1u, sizeof(*t->targets));
    t->packed = t->send == NULL ? NULL : malloc(count_bytes(e, t->send, t->receive) + 1);
    if (t->targets == NULL || t->packed == NULL) {
        drop(t);
        return NULL;
    }
    return t;
}

/* Packs what goes, and says where what comes is and goes. */
static void load(const exchange *e, exg_transit *t)
{
    uint8_t *packed = t->packed;
    scatter_target *next = t->targets;

    for (uint32_t r = 0; r < e->mesh->size; r++) {
        if (t->send[r].bytes > 0) {
            t->send[r].data = packed;
            pack(e, r, packed);
            packed += t->send[r].bytes;
        }
        if (t->receive[r].bytes > 0) {
            t->receive[r].data = packed;
            next += find_targets(e, r, packed, next);
            packed += t->receive[r].bytes;
        }
    }
}

/* Nothing is on its way when everyone has what it wants. */
static exg_status begin(const exchange *e, exg_transit **transit, exg_error *err)
{
    exg_status status;

    *transit = NULL;
    keep_own(e);
    if (!anyone_lacks(e)) {
        return EXG_OK;
    }
    *transit = make_transit(e);
    if (*transit == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    load(e, *transit);
    status = exg_exchange_post(e->mesh->communicator, &(*transit)->posted, (*transit)->send,
                               (*transit)->receive, err);
    if (status != EXG_OK) {
        drop(*transit);
        *transit = NULL;
    }
    return status;
}

static exg_status arrive(exg_transit *t, bool settles, exg_error *err)
{
    exg_communicator *c = t->mesh->communicator;

    EXG_TRY(exg_exchange_arrive(c, &t->posted, err));
    EXG_TRY(exg_host_copy_write(&t->there, err));
    return settles ? exg_exchange_settle(c, t->posted.turn, err) : EXG_OK;
}

exg_status exg_transit_finish(exg_transit *t, bool settles, exg_error *err)
{
    exg_status status;

    if (t == NULL) {
        return EXG_OK;
    }
    status = t->flight == NULL ? arrive(t, settles, err) : exg_mesh_flight_finish(t->flight, err);
    t->is_held = false;
    drop_unused(t);
    return status;
}

bool exg_transit_arrived(const exg_transit *t)
{
    return t->flight == NULL ? t->posted.arrived : exg_mesh_flight_arrived(t->flight);
}

/* ---- from device to device ----------------------------------------------------------------- */

/* What goes from one rank to another, as a strip of either's part. */
static bool find_strips(const exchange *e, uint32_t sender, uint32_t receiver, exg_strip *from,
                        exg_strip *to)
{
    message p = message_of(e, sender, receiver);
    exg_dtype dtype = e->to->dtype;
    bool is_one = true;

    *from = *to = (exg_strip){0};
    if (next_part(&p)) {
        is_one =
            exg_box_strip(&p.part, p.held->origin, e->held[sender].sizes, e->rank, dtype, from) &&
            exg_box_strip(&p.part, p.wanted->origin, e->wanted[receiver].sizes, e->rank, dtype, to);
    }
    return is_one && !next_part(&p);
}

/* Of this rank; false, on all ranks, when some part is more than a strip. */
static bool find_all_strips(const exchange *e, exg_strip *sent, exg_strip *received)
{
    for (uint32_t sender = 0; sender < e->mesh->size; sender++) {
        for (uint32_t receiver = 0; receiver < e->mesh->size; receiver++) {
            exg_strip from;
            exg_strip to;

            if (!find_strips(e, sender, receiver, &from, &to)) {
                return false;
            }
            if (sender == e->me) {
                sent[receiver] = from;
            }
            if (receiver == e->me) {
                received[sender] = to;
            }
        }
    }
    return true;
}

static exg_status keep_own_there(const exchange *e, exg_error *err)
{
    message p = message_of(e, e->me, e->me);

    while (next_part(&p)) {
        exg_tensor from = exg_box_view(&p.part, e->from, p.held->origin);
        exg_tensor to = exg_box_view(&p.part, e->to, p.wanted->origin);

        EXG_TRY(exg_mesh_copy(e->mesh, &from, &to, err));
    }
    return EXG_OK;
}

static bool sends_any(const exchange *e)
{
    bool any = false;

    for (uint32_t r = 0; r < e->mesh->size; r++) {
        any = any || e->sends(e->user, e->me, r);
    }
    return any;
}

/* From row-major memory to row-major memory, where these are not so by way of it. */
static exg_status exchange_there(const exchange *e, exg_mesh_link *link, const exg_strip *sent,
                                 const exg_strip *received, exg_block *blocks[2], exg_error *err)
{
    exg_tensor from = *e->from, to;
    exg_collective what = {.kind = EXG_ALL_TO_ALL, .in = &from, .out = &to};

    EXG_TRY(exg_mesh_row_major(e->mesh, e->to, false, &to, &blocks[0], err));
    if (sends_any(e)) {
        EXG_TRY(exg_mesh_row_major(e->mesh, e->from, true, &from, &blocks[1], err));
    }
    EXG_TRY(exg_mesh_link_run(e->mesh, link, &what, sent, received, err));
    return blocks[0] == NULL ? EXG_OK : exg_mesh_copy(e->mesh, &to, e->to, err);
}

/* The same of a copy, since the part may be written meanwhile; the result is row-major. */
static exg_status begin_there(const exchange *e, exg_mesh_link *link, const exg_strip *sent,
                              const exg_strip *received, exg_transit *t, exg_error *err)
{
    uint64_t bytes = (uint64_t)exg_tensor_numel(e->from) * (uint64_t)e->item;
    exg_tensor from = *e->from;
    exg_collective what = {.kind = EXG_ALL_TO_ALL, .in = &from, .out = e->to};
    exg_block *source;
    exg_status status;

    EXG_TRY(exg_block_create(e->mesh, bytes, &source, err));
    exg_tensor_set_contiguous(&from);
    from.data = exg_block_data(source);
    status = exg_mesh_copy(e->mesh, e->from, &from, err);
    if (status == EXG_OK) {
        status = exg_mesh_link_begin(e->mesh, link, &what, sent, received, source, &t->flight, err);
    }
    exg_block_release(source);
    return status;
}

static exg_status post_there(const exchange *e, exg_mesh_link *link, const exg_strip *sent,
                             const exg_strip *received, exg_transit **transit, exg_error *err)
{
    exg_transit *t = calloc(1, sizeof(*t));
    exg_status status = EXG_OUT_OF_MEMORY(err);

    if (t != NULL) {
        *t = (exg_transit){.mesh = e->mesh, .is_held = true, .is_settled = true};
        status = begin_there(e, link, sent, received, t, err);
    }
    if (status != EXG_OK) {
        free(t);
        return status;
    }
    *transit = t;
    return EXG_OK;
}

/* A rank's messages, end to end. */
static uint64_t lay_out(const exchange *e, bool sends, exg_strip *strips)
{
    uint64_t at = 0;

    for (uint32_t r = 0; r < e->mesh->size; r++) {
        uint64_t bytes = sends ? message_bytes(e, e->me, r) : message_bytes(e, r, e->me);

        strips[r] = (exg_strip){.first = at, .rows = 1, .run = bytes, .pitch = bytes};
        at += bytes;
    }
    return at;
}

/* What goes from one rank to another between where it lies and `packed`. */
static exg_status copy_pieces(const exchange *e, message p, bool packs, uint8_t *packed,
                              exg_error *err)
{
    while (next_part(&p)) {
        exg_tensor box = exg_box_tensor(&p.part, e->to->dtype, e->rank, packed);
        exg_tensor part = packs ? exg_box_view(&p.part, e->from, p.held->origin)
                                : exg_box_view(&p.part, e->to, p.wanted->origin);

        EXG_TRY(exg_mesh_copy(e->mesh, packs ? &part : &box, packs ? &box : &part, err));
        packed += exg_box_numel(&p.part, e->rank) * e->item;
    }
    return EXG_OK;
}

/* Where what goes to a rank is more than a strip: packed there. */
static exg_status exchange_packed(const exchange *e, exg_mesh_link *link, exg_strip *sent,
                                  exg_strip *received, exg_block *blocks[2], exg_error *err)
{
    uint64_t bytes[2] = {lay_out(e, true, sent), lay_out(e, false, received)};
    exg_tensor packed[2];
    exg_collective what = {.kind = EXG_ALL_TO_ALL, .in = &packed[0], .out = &packed[1]};

    for (int i = 0; i < 2; i++) {
        EXG_TRY(exg_block_create(e->mesh, bytes[i], &blocks[i], err));
        packed[i] = (exg_tensor){.data = exg_block_data(blocks[i]),
                                 .dtype = e->to->dtype,
                                 .rank = 1,
                                 .sizes = {(int64_t)bytes[i] / e->item},
                                 .strides = {1}};
    }
    for (uint32_t r = 0; r < e->mesh->size; r++) {
        EXG_TRY(copy_pieces(e, message_of(e, e->me, r), true,
                            (uint8_t *)packed[0].data + sent[r].first, err));
    }
    EXG_TRY(exg_mesh_link_run(e->mesh, link, &what, sent, received, err));
    for (uint32_t r = 0; r < e->mesh->size; r++) {
        EXG_TRY(copy_pieces(e, message_of(e, r, e->me), false,
                            (uint8_t *)packed[1].data + received[r].first, err));
    }
    return EXG_OK;
}

/* UNSUPPORTED, on all ranks: through the host; so goes what no rank is to wait for where hosts
 * would meet. `transit` NULL: it is waited for. */
static exg_status exchange_on_device(const exchange *e, exg_transit **transit, exg_error *err)
{
    exg_block *blocks[2] = {NULL, NULL}; /* on the way */
    exg_mesh_link *link;
    exg_strip *sent, *received;
    bool meets = false;
    exg_status status;

    if (!anyone_lacks(e)) {
        return keep_own_there(e, err);
    }
    if (transit != NULL) {
        EXG_TRY(exg_mesh_shares_device(e->mesh, &meets, err));
    }
    if (meets) {
        return EXG_UNSUPPORTED;
    }
    EXG_TRY(exg_mesh_link_find(e->mesh, NULL, &link, err));
    if (link == NULL) {
        return EXG_UNSUPPORTED;
    }
    sent = calloc(2 * (size_t)e->mesh->size, sizeof(*sent));
    received = sent == NULL ? NULL : sent + e->mesh->size;
    status = sent == NULL ? EXG_OUT_OF_MEMORY(err)
             : !find_all_strips(e, sent, received)
                 ? exchange_packed(e, link, sent, received, blocks, err)
             : transit != NULL ? post_there(e, link, sent, received, transit, err)
                               : exchange_there(e, link, sent, received, blocks, err);
    exg_block_release(blocks[0]);
    exg_block_release(blocks[1]);
    free(sent);
    return status;
}

/* ---- either way ------------------------------------------------------------------------ */

/* Between copies of what is on a device. */
static exg_status exchange_through_host(const exchange *asked, exg_transit **transit,
                                        exg_error *err)
{
    exchange e = *asked;
    exg_host_copy from, to = {.device = NULL};
    exg_status status = exg_mesh_host_copy(e.mesh, e.from, true, &from, err);

    if (status == EXG_OK) {
        status = exg_host_copy_open(&to, e.mesh->device, e.to, false, err);
    }
    e.from = &from.here;
    e.to = &to.here;
    if (status == EXG_OK) {
        status = begin(&e, transit, err);
    }
    if (status == EXG_OK && *transit != NULL) { /* is brought there when it is whole */
        (*transit)->there = to;
        to = (exg_host_copy){.device = NULL};
    }
    if (status == EXG_OK) {
        status = exg_host_copy_write(&to, err);
    }
    exg_host_copy_close(&to);
    exg_host_copy_close(&from);
    return status;
}

exg_status exg_dtensor_receive(exg_dtensor *t, const exg_tensor *from, bool there,
                               const exg_region *held, const exg_region *wanted,
                               exg_sends_fn *sends, const void *user, bool async, exg_error *err)
{
    exchange e = {t->mesh, exg_device_mesh_rank(t->mesh),
                  t->rank, exg_dtype_bytes(t->local.dtype),
                  from,    &t->local,
                  held,    wanted,
                  sends,   user};
    exg_status status =
        there ? exchange_on_device(&e, async ? &t->transit : NULL, err) : EXG_UNSUPPORTED;

    if (status == EXG_UNSUPPORTED) {
        exg_error_clear(err);
        status = exchange_through_host(&e, &t->transit, err);
    }
    if (status != EXG_OK) { /* the others would wait */
        exg_communicator_abort(t->mesh->communicator, status);
    } else if (!async) {
        status = exg_transit_finish(t->transit, true, err);
        t->transit = NULL;
    }
    return status;
}
