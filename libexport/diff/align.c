/* align.c - longest common subsequence by Myers' greedy walk along diagonals. */
#include "libexport/diff/differ.h"

#include <stdlib.h>
#include <string.h>

#define EDITS_MAX 2000 /* the trace takes EDITS_MAX^2 * 4 bytes at most */

/* Furthest x on diagonal k = x - y, after some edits; stored at k + offset. */
typedef struct walk {
    const uint64_t *a, *b;
    int32_t count_a, count_b;
    int32_t *furthest; /* of the last round, 2 * EDITS_MAX + 3 */
    int32_t **trace;   /* round r: furthest before it, diagonals -r-1 ... r+1 */
} walk;

static int32_t step(const walk *w, int32_t k, int32_t round)
{
    const int32_t *f = w->furthest + EDITS_MAX + 1;
    bool down = k == -round || (k != round && f[k - 1] < f[k + 1]);
    int32_t x = down ? f[k + 1] : f[k - 1] + 1;
    int32_t y = x - k;

    while (x < w->count_a && y < w->count_b && w->a[x] == w->b[y]) {
        x++;
        y++;
    }
    return x;
}

/* Number of edits, or -1: too many, or no memory (then d->failed). */
static int32_t forward(exg_differ *d, walk *w)
{
    int32_t *f = w->furthest + EDITS_MAX + 1;

    for (int32_t round = 0; round <= EDITS_MAX; round++) {
        size_t kept = 2 * (size_t)round + 3;

        w->trace[round] = malloc(kept * sizeof(int32_t));
        if (w->trace[round] == NULL) {
            d->failed = true;
            return -1;
        }
        memcpy(w->trace[round], f - round - 1, kept * sizeof(int32_t));
        for (int32_t k = -round; k <= round; k += 2) {
            f[k] = step(w, k, round);
            if (k == w->count_a - w->count_b && f[k] >= w->count_a) {
                return round;
            }
        }
    }
    return -1;
}

static void backward(const walk *w, int32_t edits, uint32_t *partner)
{
    int32_t x = w->count_a;
    int32_t y = w->count_b;

    for (int32_t round = edits; round >= 0; round--) {
        const int32_t *f = w->trace[round] + round + 1;
        int32_t k = x - y;
        bool down = k == -round || (k != round && f[k - 1] < f[k + 1]);
        int32_t from_k = down ? k + 1 : k - 1;
        int32_t from_x = round == 0 ? 0 : f[from_k];
        int32_t from_y = round == 0 ? 0 : from_x - from_k;

        while (x > from_x && y > from_y && x > 0 && y > 0 && w->a[x - 1] == w->b[y - 1]) {
            partner[--x] = (uint32_t)--y;
        }
        x = from_x;
        y = from_y;
    }
}

typedef struct place {
    uint64_t token;
    uint32_t index;
} place;

static int by_token(const void *p, const void *q)
{
    const place *x = p;
    const place *y = q;

    if (x->token != y->token) {
        return x->token < y->token ? -1 : 1;
    }
    return (x->index > y->index) - (x->index < y->index);
}

static place *sorted(exg_differ *d, const uint64_t *tokens, uint32_t count)
{
    place *places = EXG_NEW_ARRAY(d->scratch, place, count);

    for (uint32_t i = 0; places != NULL && i < count; i++) {
        places[i] = (place){tokens[i], i};
    }
    if (places == NULL) {
        d->failed = true;
    } else if (count > 0) {
        qsort(places, count, sizeof(*places), by_token);
    }
    return places;
}

void exg_pair_equal(exg_differ *d, const uint64_t *a, uint32_t count_a, const uint64_t *b,
                    uint32_t count_b, uint32_t *partner)
{
    const place *x = sorted(d, a, count_a);
    const place *y = sorted(d, b, count_b);

    for (uint32_t i = 0, j = 0; !d->failed && i < count_a && j < count_b;) {
        if (x[i].token == y[j].token) {
            partner[x[i++].index] = y[j++].index;
        } else if (x[i].token < y[j].token) {
            i++;
        } else {
            j++;
        }
    }
}

void exg_align(exg_differ *d, const uint64_t *a, uint32_t count_a, const uint64_t *b,
               uint32_t count_b, uint32_t *partner)
{
    walk w = {.a = a, .b = b, .count_a = (int32_t)count_a, .count_b = (int32_t)count_b};
    int32_t edits = -1;

    for (uint32_t i = 0; i < count_a; i++) {
        partner[i] = EXG_NO_PARTNER;
    }
    if (count_a == 0 || count_b == 0) {
        return;
    }
    w.furthest = calloc(2 * EDITS_MAX + 3, sizeof(int32_t));
    w.trace = calloc(EDITS_MAX + 1, sizeof(*w.trace));
    if (w.furthest == NULL || w.trace == NULL) {
        d->failed = true;
    } else {
        edits = forward(d, &w);
    }
    if (edits >= 0) {
        backward(&w, edits, partner);
    } else if (!d->failed) {
        exg_pair_equal(d, a, count_a, b, count_b, partner);
    }
    for (int32_t round = 0; w.trace != NULL && round <= EDITS_MAX; round++) {
        free(w.trace[round]);
    }
    free(w.trace);
    free(w.furthest);
}
