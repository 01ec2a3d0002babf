/* box.c - parts of tensors: where they meet, how they lie, how they are copied. */
#include "libexec/dtensor/box.h"
#include "libexec/dtensor/spec.h"

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

exg_tensor exg_box_view(const exg_box *part, const exg_tensor *t, const int64_t *origin)
{
    exg_tensor view = *t;

    memcpy(view.sizes, part->size, t->rank * sizeof(int64_t));
    view.data = element_at(t, origin, part);
    return view;
}

/* `size` times what the strip has so far, `stride` bytes apart. */
static bool repeat(exg_strip *s, uint64_t size, uint64_t stride)
{
    if (size == 1) {
        return true;
    }
    if (s->rows == 1 && stride == s->run) {
        s->run *= size;
        return true;
    }
    s->pitch = s->rows == 1 ? stride : s->pitch;
    s->rows *= size;
    return stride == s->rows / size * s->pitch;
}

bool exg_box_strip(const exg_box *part, const int64_t *origin, const int64_t *sizes, uint32_t rank,
                   exg_dtype dtype, exg_strip *strip)
{
    uint64_t stride = exg_dtype_bytes(dtype);
    bool is_one = true;

    *strip = (exg_strip){0};
    if (exg_box_numel(part, rank) == 0) {
        return true;
    }
    *strip = (exg_strip){.rows = 1, .run = stride, .pitch = stride};
    for (uint32_t d = rank; d-- > 0;) {
        strip->first += (uint64_t)(part->offset[d] - origin[d]) * stride;
        is_one = is_one && repeat(strip, (uint64_t)part->size[d], stride);
        stride *= (uint64_t)sizes[d];
    }
    return is_one;
}
