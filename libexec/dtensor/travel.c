/* travel.c - how parts of tensors travel from rank to rank: packed through the host's memory, or as
 * strips from device to device.
 */
#include "libexec/dtensor/line.h"
#include "libexec/dtensor/spec.h"

#include <stdlib.h>
#include <string.h>

/* ---- what goes where ---------------------------------------------------------------------- */

typedef struct journey {
    exg_device_mesh *mesh;
    uint32_t me;
    uint32_t rank; /* of the tensor */
    int64_t item;
    const exg_tensor *from, *to;
    const exg_region *held, *wanted;
    exg_gives_fn *gives;
    const void *user;
} journey;

/* What goes from one rank to another, piece by piece in an order that both know. */
typedef struct parcel {
    const journey *j;
    uint32_t giver, taker;
    uint32_t next_held, next_wanted;
    const exg_piece *held, *wanted;
    exg_box part; /* that both pieces have */
} parcel;

static parcel parcel_of(const journey *j, uint32_t giver, uint32_t taker)
{
    bool goes = j->gives(j->user, giver, taker);

    return (parcel){.j = j, .giver = giver, .taker = taker,
                    .next_wanted = goes ? 0 : j->wanted[taker].count};
}

static bool next_part(parcel *p)
{
    const exg_region *held = &p->j->held[p->giver];
    const exg_region *wanted = &p->j->wanted[p->taker];

    while (p->next_wanted < wanted->count) {
        p->wanted = &wanted->pieces[p->next_wanted];
        while (p->next_held < held->count) {
            p->held = &held->pieces[p->next_held++];
            if (exg_box_meet(&p->held->box, &p->wanted->box, p->j->rank, &p->part)) {
                return true;
            }
        }
        p->next_held = 0;
        p->next_wanted++;
    }
    return false;
}

static uint64_t parcel_bytes(const journey *j, uint32_t giver, uint32_t taker)
{
    parcel p = parcel_of(j, giver, taker);
    int64_t numel = 0;

    while (next_part(&p)) {
        numel += exg_box_numel(&p.part, j->rank);
    }
    return (uint64_t)(numel * j->item);
}

/* Does any rank want what it has not? The same answer everywhere. */
static bool anyone_lacks(const journey *j)
{
    for (uint32_t r = 0; r < j->mesh->size; r++) {
        uint64_t wanted = (uint64_t)j->item;

        for (uint32_t d = 0; d < j->rank; d++) {
            wanted *= (uint64_t)j->wanted[r].sizes[d];
        }
        if (parcel_bytes(j, r, r) != wanted) {
            return true;
        }
    }
    return false;
}

static void pack(const journey *j, uint32_t taker, uint8_t *packed)
{
    parcel p = parcel_of(j, j->me, taker);

    while (next_part(&p)) {
        exg_tensor box = exg_box_tensor(&p.part, j->from->dtype, j->rank, packed);

        exg_box_copy(&p.part, j->from, p.held->origin, &box, p.part.offset);
        packed += exg_box_numel(&p.part, j->rank) * j->item;
    }
}

static void keep_own(const journey *j)
{
    parcel p = parcel_of(j, j->me, j->me);

    while (next_part(&p)) {
        exg_box_copy(&p.part, j->from, p.held->origin, j->to, p.wanted->origin);
    }
}

/* Fills the byte counts of both sides; gives their sum. */
static uint64_t count_bytes(const journey *j, exg_segment *send, exg_segment *receive)
{
    uint64_t bytes = 0;

    for (uint32_t r = 0; r < j->mesh->size; r++) {
        if (r != j->me) {
            send[r].bytes = parcel_bytes(j, j->me, r);
            receive[r].bytes = parcel_bytes(j, r, j->me);
            bytes += send[r].bytes + receive[r].bytes;
        }
    }
    return bytes;
}

/* Where a part of what comes goes. */
typedef struct landing {
    exg_box part;
    int64_t origin[EXG_RANK_MAX]; /* of the local tensor, as of an exg_piece */
    uint8_t *packed;
} landing;

struct exg_transit {
    exg_posted posted; /* first */
    exg_device_mesh *mesh;
    bool is_held, is_settled; /* by a DTensor; by all that read what was sent */
    exg_tensor to;
    exg_mirror there;            /* of a device that `to` is of */
    exg_segment *send, *receive; /* by rank */
    uint8_t *packed;             /* what goes and what comes */
    landing *landings;
    uint32_t landing_count;
};

static void drop(exg_transit *t)
{
    exg_mirror_close(&t->there);
    free(t->send);
    free(t->packed);
    free(t->landings);
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

    for (uint32_t i = 0; i < t->landing_count; i++) {
        const landing *l = &t->landings[i];
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
static uint32_t land(const journey *j, uint32_t giver, uint8_t *packed, landing *landings)
{
    parcel p = parcel_of(j, giver, j->me);
    uint32_t count = 0;

    for (; next_part(&p); count++) {
        if (landings != NULL) {
            landings[count] = (landing){.part = p.part, .packed = packed};
            memcpy(landings[count].origin, p.wanted->origin, sizeof(p.wanted->origin));
            packed += exg_box_numel(&p.part, j->rank) * j->item;
        }
    }
    return count;
}

static exg_transit *make_transit(const journey *j)
{
    exg_transit *t = calloc(1, sizeof(*t));
    uint32_t size = j->mesh->size;

    if (t == NULL) {
        return NULL;
    }
    t->mesh = j->mesh;
    t->to = *j->to;
    t->posted.arrive = take_in;
    t->posted.settle = settled;
    t->is_held = true;
    t->send = calloc(2 * (size_t)size, sizeof(*t->send));
    t->receive = t->send == NULL ? NULL : t->send + size;
    for (uint32_t r = 0; r < size; r++) {
        t->landing_count += r == j->me ? 0 : land(j, r, NULL, NULL);
    }
    t->landings = calloc(t->landing_count + 1u, sizeof(*t->landings));
    t->packed = t->send == NULL ? NULL : malloc(count_bytes(j, t->send, t->receive) + 1);
    if (t->landings == NULL || t->packed == NULL) {
        drop(t);
        return NULL;
    }
    return t;
}

/* Packs what goes, and says where what comes lies and goes. */
static void load(const journey *j, exg_transit *t)
{
    uint8_t *packed = t->packed;
    landing *next = t->landings;

    for (uint32_t r = 0; r < j->mesh->size; r++) {
        if (t->send[r].bytes > 0) {
            t->send[r].data = packed;
            pack(j, r, packed);
            packed += t->send[r].bytes;
        }
        if (t->receive[r].bytes > 0) {
            t->receive[r].data = packed;
            next += land(j, r, packed, next);
            packed += t->receive[r].bytes;
        }
    }
}

/* Nothing is on its way when everyone has what it wants. */
static exg_status begin(const journey *j, exg_transit **transit, exg_error *err)
{
    exg_status status;

    *transit = NULL;
    keep_own(j);
    if (!anyone_lacks(j)) {
        return EXG_OK;
    }
    *transit = make_transit(j);
    if (*transit == NULL) {
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    load(j, *transit);
    status = exg_exchange_post(j->mesh->communicator, &(*transit)->posted, (*transit)->send,
                               (*transit)->receive, err);
    if (status != EXG_OK) {
        drop(*transit);
        *transit = NULL;
    }
    return status;
}

exg_status exg_transit_finish(exg_transit *t, bool settles, exg_error *err)
{
    exg_communicator *c = t == NULL ? NULL : t->mesh->communicator;
    exg_status status;

    if (t == NULL) {
        return EXG_OK;
    }
    status = exg_exchange_arrive(c, &t->posted, err);
    status = status == EXG_OK ? exg_mirror_write(&t->there, err) : status;
    if (status == EXG_OK && settles) {
        status = exg_exchange_settle(c, t->posted.turn, err);
    }
    t->is_held = false;
    drop_unused(t);
    return status;
}

bool exg_transit_arrived(const exg_transit *t)
{
    return t->posted.arrived;
}

/* ---- from device to device ----------------------------------------------------------------- */

/* What goes from one rank to another, as a strip of either's part. */
static bool find_strips(const journey *j, uint32_t giver, uint32_t taker, exg_strip *from,
                        exg_strip *to)
{
    parcel p = parcel_of(j, giver, taker);
    exg_dtype dtype = j->to->dtype;
    bool is_one = true;

    *from = *to = (exg_strip){0};
    if (next_part(&p)) {
        is_one = exg_box_strip(&p.part, p.held->origin, j->held[giver].sizes, j->rank, dtype,
                               from) &&
                 exg_box_strip(&p.part, p.wanted->origin, j->wanted[taker].sizes, j->rank, dtype,
                               to);
    }
    return is_one && !next_part(&p);
}

/* Of this rank; false, on all ranks, when some part is more than a strip. */
static bool find_all_strips(const journey *j, exg_strip *sent, exg_strip *received)
{
    for (uint32_t giver = 0; giver < j->mesh->size; giver++) {
        for (uint32_t taker = 0; taker < j->mesh->size; taker++) {
            exg_strip from;
            exg_strip to;

            if (!find_strips(j, giver, taker, &from, &to)) {
                return false;
            }
            if (giver == j->me) {
                sent[taker] = from;
            }
            if (taker == j->me) {
                received[giver] = to;
            }
        }
    }
    return true;
}

static exg_status keep_own_there(const journey *j, exg_error *err)
{
    parcel p = parcel_of(j, j->me, j->me);

    while (next_part(&p)) {
        exg_tensor from = exg_box_window(&p.part, j->from, p.held->origin);
        exg_tensor to = exg_box_window(&p.part, j->to, p.wanted->origin);

        EXG_TRY(exg_mesh_copy(j->mesh, &from, &to, err));
    }
    return EXG_OK;
}

static bool gives_any(const journey *j)
{
    bool any = false;

    for (uint32_t r = 0; r < j->mesh->size; r++) {
        any = any || j->gives(j->user, j->me, r);
    }
    return any;
}

/* From row-major memory to row-major memory, where these are not so by way of it. */
static exg_status exchange_there(const journey *j, const exg_mesh_line *line,
                                 const exg_strip *sent, const exg_strip *received, exg_error *err)
{
    exg_tensor from, to;
    exg_collective what = {.kind = EXG_ALL_TO_ALL, .in = &from, .out = &to};
    exg_block *from_block = NULL, *to_block = NULL;
    exg_status status = exg_mesh_row_major(j->mesh, j->to, false, &to, &to_block, err);

    from = *j->from;
    if (status == EXG_OK && gives_any(j)) {
        status = exg_mesh_row_major(j->mesh, j->from, true, &from, &from_block, err);
    }
    status = status == EXG_OK ? exg_mesh_line_run(j->mesh, line, &what, sent, received, err)
                              : status;
    status = status == EXG_OK && to_block != NULL ? exg_mesh_copy(j->mesh, &to, j->to, err)
                                                  : status;
    exg_block_release(from_block);
    exg_block_release(to_block);
    return status;
}

/* UNSUPPORTED, on all ranks: through the host; so goes what no rank is to wait for, since along a
 * line hosts meet. */
static exg_status travel_there(const journey *j, bool async, exg_error *err)
{
    exg_mesh_line *line;
    exg_strip *sent;
    exg_status status;

    if (!anyone_lacks(j)) {
        return keep_own_there(j, err);
    }
    if (async) {
        return EXG_UNSUPPORTED;
    }
    EXG_TRY(exg_mesh_line_find(j->mesh, NULL, &line, err));
    sent = calloc(2 * (size_t)j->mesh->size, sizeof(*sent));
    status = sent == NULL ? EXG_OUT_OF_MEMORY(err)
             : line == NULL || !find_all_strips(j, sent, sent + j->mesh->size)
                 ? EXG_FAIL(err, UNSUPPORTED, "DEV-011", "not from device to device")
                 : exchange_there(j, line, sent, sent + j->mesh->size, err);
    free(sent);
    return status;
}

/* ---- either way ------------------------------------------------------------------------ */

/* Between copies of what lies on a device. */
static exg_status travel(const journey *asked, exg_transit **transit, exg_error *err)
{
    journey j = *asked;
    exg_mirror from, to = {.device = NULL};
    exg_status status = exg_mesh_mirror(j.mesh, j.from, true, &from, err);

    status = status == EXG_OK ? exg_mirror_open(&to, j.mesh->device, j.to, false, err) : status;
    j.from = &from.here;
    j.to = &to.here;
    status = status == EXG_OK ? begin(&j, transit, err) : status;
    if (status == EXG_OK && *transit != NULL) { /* is brought there when it is whole */
        (*transit)->there = to;
        to = (exg_mirror){.device = NULL};
    }
    status = status == EXG_OK ? exg_mirror_write(&to, err) : status;
    exg_mirror_close(&to);
    exg_mirror_close(&from);
    return status;
}

exg_status exg_dtensor_receive(exg_dtensor *t, const exg_tensor *from, bool there,
                               const exg_region *held, const exg_region *wanted,
                               exg_gives_fn *gives, const void *user, bool async, exg_error *err)
{
    journey j = {t->mesh, exg_device_mesh_rank(t->mesh), t->rank, exg_dtype_bytes(t->local.dtype),
                 from, &t->local, held, wanted, gives, user};
    exg_status status = there ? travel_there(&j, async, err) : EXG_UNSUPPORTED;

    if (status == EXG_UNSUPPORTED) {
        exg_error_clear(err);
        status = travel(&j, &t->transit, err);
    }
    if (status != EXG_OK) { /* the others would wait */
        exg_communicator_abort(t->mesh->communicator, status);
    } else if (!async) {
        status = exg_transit_finish(t->transit, true, err);
        t->transit = NULL;
    }
    return status;
}
