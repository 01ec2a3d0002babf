/* cache.c - which calls are decided again: as the least recently used going first says, whatever
 * the order, and what is made of others or goes back along gradients included.
 */
#include "tests/exec/dispatch/eager.h"

#include <exg/autograd.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define CALLS 9 /* that differ */

/* What a cache of this capacity holds, the newest first. */
typedef struct model {
    uint32_t capacity, count, keys[CALLS];
} model;

/* Is `key` there? It is the newest then. */
static bool model_has(model *m, uint32_t key)
{
    uint32_t at = 0;
    bool found;

    while (at < m->count && m->keys[at] != key) {
        at++;
    }
    found = at < m->count;
    if (!found) {
        at = m->count < m->capacity ? m->count++ : m->count - 1;
    }
    memmove(m->keys + 1, m->keys, at * sizeof(m->keys[0]));
    m->keys[0] = key;
    return found;
}

static void call_at_random(rank_context *c)
{
    exg_dtensor *x[CALLS];
    uint32_t seed = 1;
    char size[4];
    eager e;

    for (uint32_t capacity = 1; capacity <= CALLS; capacity++) {
        exg_dispatch_options options = {.size = sizeof(options), .cache_capacity = capacity};
        model m = {.capacity = capacity};
        uint64_t hits = 0;

        eager_begin(&e, c, &options);
        for (uint32_t k = 0; k < CALLS; k++) {
            snprintf(size, sizeof(size), "%u", k + 1);
            x[k] = counted(&e, EXG_DTYPE_F32, size, "S(0)");
        }
        for (uint32_t i = 0; i < 150 && c->faults == 0; i++) {
            const exg_dispatch_stats *stats;
            uint32_t k;

            seed = seed * 1664525 + 1013904223;
            k = (seed >> 16) % CALLS;
            hits += model_has(&m, k);
            exg_dtensor_destroy(CALL(&e, "aten.neg.default", T(x[k])));
            stats = exg_dispatcher_statistics(e.d);
            EXPECT(c, stats->size == sizeof(*stats), "of another size");
            EXPECT(c, stats->hits == hits && stats->misses == i + 1 - hits,
                   "capacity %u: %u hits, not %u, of %u", capacity, (unsigned)stats->hits,
                   (unsigned)hits, i + 1);
            EXPECT(c, stats->entries == m.count, "capacity %u: %u entries", capacity,
                   stats->entries);
        }
        for (uint32_t k = 0; k < CALLS; k++) {
            exg_dtensor_destroy(x[k]);
        }
        eager_end(&e);
    }
}

/* S000-22 */
static void the_least_recently_used_goes_first(void **state)
{
    (void)state;
    on_mesh("1", call_at_random, NULL);
}

/* An entry that runs stays until it has run, and goes then: of views, of plans, of graphs, of what
 * is written, of derivatives, and where a call fails. */
static void run_in_little_room(rank_context *c)
{
    static const char *const keys[] = {"aten.neg.default",  "aten.nansum.default",
                                       "aten.t.default",    "aten.relu_.default",
                                       "aten.gelu.default", "aten.var_mean.correction"};
    exg_dispatch_options options = {.size = sizeof(options), .cache_capacity = 1};
    exg_placement whole = exg_replicate();
    eager e;

    eager_begin(&e, c, &options);
    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
        for (int graded = 0; graded < 2; graded++) {
            exg_dtensor *x = counted(&e, EXG_DTYPE_F32, "4x2", "S(0)");
            exg_dtensor *leaf = NULL, *sum;
            exg_object made, arg;

            if (graded && strcmp(keys[k], "aten.relu_.default") != 0) {
                EXPECT(c, exg_dtensor_set_requires_grad(x, true, &e.err) == EXG_OK, "a leaf");
            }
            arg = T(x);
            made = call(&e, keys[k], &arg, 1);
            if (graded && made.kind == EXG_OBJECT_DTENSOR && made.dtensor != x) {
                sum = CALL(&e, "aten.sum.default", made);
                EXPECT(c,
                       exg_dtensor_redistribute(sum, &whole, 1, &leaf, &e.err) == EXG_OK &&
                           exg_backward(e.d, &sum, NULL, 1, NULL, &e.err) == EXG_OK,
                       "%s: %s", keys[k], e.err.message);
                exg_dtensor_destroy(leaf);
                exg_dtensor_destroy(sum);
            }
            if (made.kind != EXG_OBJECT_DTENSOR || made.dtensor != x) {
                exg_object_clear(&made, true);
            }
            exg_dtensor_destroy(x);
            x = counted(&e, EXG_DTYPE_F32, "3", "S(0)"); /* what comes next has all the room */
            exg_dtensor_destroy(CALL(&e, "aten.exp.default", T(x)));
            EXPECT(c, exg_dispatcher_statistics(e.d)->entries == 1, "%s: %u entries", keys[k],
                   exg_dispatcher_statistics(e.d)->entries);
            exg_dtensor_destroy(x);
        }
    }
    eager_end(&e);
}

static void what_has_run_may_go(void **state)
{
    (void)state;
    on_mesh("2", run_in_little_room, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_recently_used_goes_first),
        cmocka_unit_test(what_has_run_may_go),
    };
    int failed;

    (void)all_operators();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_operators();
    return failed;
}
