/* overlap.c - tensors that share elements: is there a place that both reach?
 *
 * A place is a sum of a step a dim, so that two tensors share one where a sum of steps, each taken
 * 0 to `last` times, makes their distance. The largest step is tried first: what the smaller ones
 * can make leaves it a few counts, one or two where dims nest as those of views do.
 */
#include "libexport/transform/overlap.h"

#define STEPS_MAX (2 * (EXG_SHAPE_RANK_MAX + 1))

/* Sums that are tried; a tensor of nested dims takes some dozen. */
#define TRIES_MAX 100000

/* Of steps and distances, so that sums of all fit. */
#define REACH_MAX (INT64_MAX / (STEPS_MAX + 2))

typedef struct step {
    int64_t size, last;
} step;

typedef struct sum {
    step steps[STEPS_MAX]; /* the largest first */
    uint32_t count;
    bool is_wide; /* some reach is too long to be added */
} sum;

static void add_step(sum *s, int64_t size, int64_t last)
{
    uint32_t at = s->count;

    if (last <= 0 || size == 0) {
        return;
    }
    if (size < 0 || size > REACH_MAX / last) {
        s->is_wide = true;
        return;
    }
    for (; at > 0 && s->steps[at - 1].size < size; at--) {
        s->steps[at] = s->steps[at - 1];
    }
    s->steps[at] = (step){size, last};
    s->count++;
}

/* Counts are tried as an odometer turns: `left[i]` is what steps from `i` on have to make. */
static bool makes(const sum *s, int64_t distance)
{
    int64_t left[STEPS_MAX + 1] = {distance}, rest[STEPS_MAX + 1] = {0};
    int64_t taken[STEPS_MAX] = {0}, last[STEPS_MAX] = {0};
    uint32_t at = 0;
    bool is_down = true; /* to a step that is not begun */

    for (uint32_t i = s->count; i > 0; i--) {
        rest[i - 1] = rest[i] + s->steps[i - 1].size * s->steps[i - 1].last;
    }
    if (distance < 0 || distance > rest[0]) {
        return false;
    }
    for (uint32_t tries = 0; tries < TRIES_MAX; tries++) {
        if (at == s->count) {
            return true; /* what was left was within the rest, which is 0 */
        }
        if (is_down) {
            const step *of = &s->steps[at];
            int64_t least = left[at] - rest[at + 1];
            int64_t most = left[at] / of->size;

            taken[at] = least <= 0 ? 0 : (least + of->size - 1) / of->size;
            last[at] = most < of->last ? most : of->last;
        } else {
            taken[at]++;
        }
        is_down = taken[at] <= last[at];
        if (is_down) {
            left[at + 1] = left[at] - taken[at] * s->steps[at].size;
            at++;
        } else if (at-- == 0) {
            return false;
        }
    }
    return true;
}

static bool is_empty(const exg_strided *s)
{
    bool empty = false;

    for (uint32_t d = 0; d < s->rank; d++) {
        empty = empty || s->sizes[d] == 0;
    }
    return empty;
}

/* The steps of all bytes of a tensor, and how far they reach. */
static int64_t add_steps(sum *s, const exg_strided *of)
{
    int64_t width = (int64_t)exg_dtype_bytes(of->dtype);
    int64_t reach = width - 1;

    add_step(s, 1, width - 1);
    for (uint32_t d = 0; d < of->rank && !s->is_wide; d++) {
        int64_t size = 0;

        s->is_wide = of->strides[d] > REACH_MAX / width;
        size = s->is_wide ? 0 : of->strides[d] * width;
        add_step(s, size, of->sizes[d] - 1);
        reach += s->is_wide ? 0 : size * (of->sizes[d] - 1);
    }
    s->is_wide = s->is_wide || of->offset < 0 || of->offset > REACH_MAX / width;
    return reach;
}

bool exg_share_elements(const exg_strided *a, const exg_strided *b)
{
    sum s = {.count = 0};
    int64_t reach;

    if (is_empty(a) || is_empty(b)) {
        return false;
    }
    (void)add_steps(&s, a);
    reach = add_steps(&s, b); /* counted from its end */
    return s.is_wide || makes(&s, b->offset * (int64_t)exg_dtype_bytes(b->dtype) -
                                      a->offset * (int64_t)exg_dtype_bytes(a->dtype) + reach);
}

/* Two elements that differ in dim `d`, and in others, are as far apart as nothing. */
static bool meets_along(const exg_strided *a, uint32_t d)
{
    sum s = {.count = 0};
    int64_t distance = -a->strides[d];

    if (a->strides[d] == 0) {
        return true;
    }
    add_step(&s, a->strides[d], a->sizes[d] - 2);
    for (uint32_t other = 0; other < a->rank && !s.is_wide; other++) {
        if (other != d) {
            add_step(&s, a->strides[other], 2 * (a->sizes[other] - 1));
            distance += s.is_wide ? 0 : a->strides[other] * (a->sizes[other] - 1);
        }
    }
    return s.is_wide || makes(&s, distance);
}

bool exg_shares_elements_itself(const exg_strided *a)
{
    bool meets = false;

    for (uint32_t d = 0; d < a->rank && !is_empty(a) && !meets; d++) {
        meets = a->sizes[d] > 1 && meets_along(a, d);
    }
    return meets;
}
