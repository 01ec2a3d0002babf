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

bool exg_box_inside(const exg_box *a, const exg_box *b, uint32_t rank)
{
    bool inside = true;

    for (uint32_t d = 0; d < rank; d++) {
        if (a->size[d] == 0) {
            return true;
        }
        inside = inside && a->offset[d] >= b->offset[d] &&
                 a->offset[d] + a->size[d] <= b->offset[d] + b->size[d];
    }
    return inside;
}

exg_tensor exg_box_tensor(const exg_box *box, exg_dtype dtype, uint32_t rank, void *data)
{
    exg_tensor t = {.data = data, .dtype = dtype, .rank = rank};

    memcpy(t.sizes, box->size, rank * sizeof(int64_t));
    exg_tensor_set_contiguous(&t);
    return t;
}

/* The first element of `part` in a tensor that holds `box`. */
static uint8_t *element_at(const exg_tensor *t, const exg_box *box, const exg_box *part)
{
    int64_t at = 0;

    for (uint32_t d = 0; d < t->rank; d++) {
        at += (part->offset[d] - box->offset[d]) * t->strides[d];
    }
    return (uint8_t *)t->data + at * (int64_t)exg_dtype_bytes(t->dtype);
}

void exg_box_copy(const exg_box *part, const exg_tensor *from, const exg_box *from_box,
                  const exg_tensor *to, const exg_box *to_box)
{
    int64_t item = exg_dtype_bytes(from->dtype);
    const uint8_t *source = element_at(from, from_box, part);
    uint8_t *target = element_at(to, to_box, part);
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
    const exg_box *from_boxes, *to_boxes;
    exg_gives_fn *gives;
    const void *user;
} journey;

static bool goes(const journey *j, uint32_t giver, uint32_t taker, exg_box *part)
{
    return j->gives(j->user, giver, taker) &&
           exg_box_meet(&j->from_boxes[giver], &j->to_boxes[taker], j->rank, part);
}

/* Does any rank want what it has not? The same answer everywhere. */
static bool anyone_lacks(const journey *j)
{
    for (uint32_t r = 0; r < j->mesh->size; r++) {
        if (!j->gives(j->user, r, r) ||
            !exg_box_inside(&j->to_boxes[r], &j->from_boxes[r], j->rank)) {
            return true;
        }
    }
    return false;
}

/* Bytes of what is packed on the way: all that goes, and all that comes. */
static uint64_t packed_bytes(const journey *j)
{
    uint64_t bytes = 0;
    exg_box part;

    for (uint32_t r = 0; r < j->mesh->size; r++) {
        bytes += r != j->me && goes(j, j->me, r, &part)
                     ? (uint64_t)(exg_box_numel(&part, j->rank) * j->item)
                     : 0;
        bytes += r != j->me && goes(j, r, j->me, &part)
                     ? (uint64_t)(exg_box_numel(&part, j->rank) * j->item)
                     : 0;
    }
    return bytes;
}

static exg_status travel(const journey *j, exg_segment *send, exg_segment *receive,
                         uint8_t *packed, exg_error *err)
{
    exg_box part;

    for (uint32_t r = 0; r < j->mesh->size; r++) {
        if (r != j->me && goes(j, j->me, r, &part)) {
            exg_tensor box = exg_box_tensor(&part, j->from->dtype, j->rank, packed);

            exg_box_copy(&part, j->from, &j->from_boxes[j->me], &box, &part);
            send[r] = (exg_segment){packed, (uint64_t)(exg_box_numel(&part, j->rank) * j->item)};
            packed += send[r].bytes;
        }
    }
    for (uint32_t r = 0; r < j->mesh->size; r++) {
        if (r != j->me && goes(j, r, j->me, &part)) {
            receive[r] = (exg_segment){packed,
                                       (uint64_t)(exg_box_numel(&part, j->rank) * j->item)};
            packed += receive[r].bytes;
        }
    }
    EXG_TRY(exg_exchange(j->mesh->communicator, send, receive, err));
    for (uint32_t r = 0; r < j->mesh->size; r++) {
        if (r != j->me && goes(j, r, j->me, &part)) {
            exg_tensor box = exg_box_tensor(&part, j->to->dtype, j->rank, receive[r].data);

            exg_box_copy(&part, &box, &part, j->to, &j->to_boxes[j->me]);
        }
    }
    return EXG_OK;
}

exg_status exg_box_exchange(exg_device_mesh *mesh, const exg_tensor *from,
                            const exg_box *from_boxes, const exg_tensor *to,
                            const exg_box *to_boxes, exg_gives_fn *gives, const void *user,
                            exg_error *err)
{
    journey j = {mesh, exg_device_mesh_rank(mesh), to->rank, exg_dtype_bytes(to->dtype),
                 from, to, from_boxes, to_boxes, gives, user};
    exg_segment *segments;
    uint8_t *packed;
    exg_status status;
    exg_box part;

    if (goes(&j, j.me, j.me, &part)) {
        exg_box_copy(&part, from, &from_boxes[j.me], to, &to_boxes[j.me]);
    }
    if (!anyone_lacks(&j)) {
        return EXG_OK;
    }
    segments = calloc(2 * (size_t)mesh->size, sizeof(*segments));
    packed = malloc(packed_bytes(&j) + 1);
    if (segments == NULL || packed == NULL) {
        exg_communicator_abort(mesh->communicator, EXG_NO_MEMORY);
        status = EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    } else {
        status = travel(&j, segments, segments + mesh->size, packed, err);
    }
    free(segments);
    free(packed);
    return status;
}
