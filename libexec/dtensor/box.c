/* box.c - parts of tensors: where they meet, how they are copied, how they travel. */
#include "libexec/dtensor/spec.h"

#include <stdlib.h>
#include <string.h>

int64_t exg_box_numel(const exg_box *box, uint32_t rank)
{
    int64_t numel = 1;

    for (uint32_t d = 0; d < rank; d++) {
        numel *= box->size[d];
    }
    return numel;
}

bool exg_box_meet(const exg_box *a, const exg_box *b, uint32_t rank, exg_box *both)
{
    for (uint32_t d = 0; d < rank; d++) {
        int64_t start = a->offset[d] > b->offset[d] ? a->offset[d] : b->offset[d];
        int64_t a_end = a->offset[d] + a->size[d];
        int64_t b_end = b->offset[d] + b->size[d];

        both->offset[d] = start;
        both->size[d] = (a_end < b_end ? a_end : b_end) - start;
        if (both->size[d] <= 0) {
            return false;
        }
    }
    return true;
}

exg_tensor exg_box_tensor(const exg_box *box, exg_dtype dtype, uint32_t rank, void *data)
{
    exg_tensor t = {.data = data, .dtype = dtype, .rank = rank};

    memcpy(t.sizes, box->size, rank * sizeof(int64_t));
    exg_tensor_set_contiguous(&t);
    return t;
}

/* The first element of `part` in a tensor that begins at `origin`. */
static uint8_t *element_at(const exg_tensor *t, const int64_t *origin, const exg_box *part)
{
    int64_t at = 0;

    for (uint32_t d = 0; d < t->rank; d++) {
        at += (part->offset[d] - origin[d]) * t->strides[d];
    }
    return (uint8_t *)t->data + at * (int64_t)exg_dtype_bytes(t->dtype);
}

void exg_box_copy(const exg_box *part, const exg_tensor *from, const int64_t *from_origin,
                  const exg_tensor *to, const int64_t *to_origin)
{
    int64_t item = exg_dtype_bytes(from->dtype);
    const uint8_t *source = element_at(from, from_origin, part);
    uint8_t *target = element_at(to, to_origin, part);
    int64_t index[EXG_RANK_MAX] = {0};
    int64_t run = 1;
    uint32_t outer = from->rank;

    /* Trailing dims in which both go on without a gap are one run. */
    while (outer > 0 && from->strides[outer - 1] == run && to->strides[outer - 1] == run) {
        run *= part->size[--outer];
    }
    if (exg_box_numel(part, from->rank) == 0) {
        return;
    }
    for (bool more = true; more;) {
        memcpy(target, source, (size_t)(run * item));
        more = false;
        for (uint32_t d = outer; d-- > 0 && !more;) {
            source += from->strides[d] * item;
            target += to->strides[d] * item;
            more = ++index[d] < part->size[d];
            if (!more) {
                source -= from->strides[d] * item * index[d];
                target -= to->strides[d] * item * index[d];
                index[d] = 0;
            }
        }
    }
}

/* ---- travelling ------------------------------------------------------------------------- */

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

exg_status exg_transit_begin(exg_device_mesh *mesh, const exg_tensor *from, const exg_region *held,
                             const exg_tensor *to, const exg_region *wanted, exg_gives_fn *gives,
                             const void *user, exg_transit **transit, exg_error *err)
{
    journey j = {mesh, exg_device_mesh_rank(mesh), to->rank, exg_dtype_bytes(to->dtype),
                 from, to, held, wanted, gives, user};
    exg_status status;

    *transit = NULL;
    keep_own(&j);
    if (!anyone_lacks(&j)) {
        return EXG_OK;
    }
    *transit = make_transit(&j);
    if (*transit == NULL) {
        exg_communicator_abort(mesh->communicator, EXG_NO_MEMORY);
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    load(&j, *transit);
    status = exg_exchange_post(mesh->communicator, &(*transit)->posted, (*transit)->send,
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

void exg_transit_bring(exg_transit *transit, exg_mirror *m)
{
    transit->there = *m;
    *m = (exg_mirror){.device = NULL};
}

bool exg_transit_arrived(const exg_transit *t)
{
    return t->posted.arrived;
}

exg_status exg_region_exchange(exg_device_mesh *mesh, const exg_tensor *from,
                               const exg_region *held, const exg_tensor *to,
                               const exg_region *wanted, exg_gives_fn *gives, const void *user,
                               exg_error *err)
{
    exg_transit *transit;

    EXG_TRY(exg_transit_begin(mesh, from, held, to, wanted, gives, user, &transit, err));
    return exg_transit_finish(transit, true, err);
}
