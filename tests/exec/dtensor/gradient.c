/* gradient.c - gradients over the borders of DTensors: rows of tests/seeds-003.md. */
#include "tests/exec/dtensor/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_tensor filled(float *data, int64_t rows, int64_t columns, float value)
{
    exg_tensor t = {.data = data, .dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {rows, columns}};

    exg_tensor_set_contiguous(&t);
    for (int64_t i = 0; i < rows * columns; i++) {
        data[i] = value;
    }
    return t;
}

/* x -> from_local(from) -> redistribute(to) -> to_local -> times (rank + 1), summed. */
typedef struct road {
    const char *from, *to;
    int64_t rows, columns; /* of the local part */
    float gradient[2][4];  /* by rank, of the local part */
    uint64_t exchanges;    /* on the way back */
} road;

static void walk_back(rank_context *c)
{
    const road *r = c->user;
    uint32_t rank = exg_device_mesh_rank(c->mesh);
    exg_placement from, to;
    float x[16], g[16];
    exg_tensor local = filled(x, r->rows, r->columns, 1), part;
    exg_dtensor *a = NULL, *b = NULL, *gb = NULL, *ga = NULL, *gx = NULL;
    uint64_t before;
    exg_error err;

    placements_of(r->from, &from);
    placements_of(r->to, &to);
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &from, 1, NULL, &a, &err) == EXG_OK &&
               exg_dtensor_redistribute(a, &to, 1, &b, &err) == EXG_OK,
           "%s", err.message);
    if (c->faults > 0) {
        return;
    }
    part = filled(g, exg_dtensor_to_local(b)->sizes[0], exg_dtensor_to_local(b)->sizes[1],
                  (float)(rank + 1));
    before = exg_device_mesh_exchanges(c->mesh);
    EXPECT(c,
           exg_to_local_backward(b, &part, NULL, 0, &gb, &err) == EXG_OK &&
               exg_device_mesh_exchanges(c->mesh) == before && borrows(gb, part.data),
           "to_local sends, or copies");
    EXPECT(c,
           exg_redistribute_backward(a, gb, &ga, &err) == EXG_OK &&
               exg_from_local_backward(a, ga, NULL, 0, &gx, &err) == EXG_OK,
           "%s", err.message);
    EXPECT(c, exg_device_mesh_exchanges(c->mesh) == before + r->exchanges, "%s -> %s: %d exchanges",
           r->from, r->to, (int)(exg_device_mesh_exchanges(c->mesh) - before));
    for (int i = 0; c->faults == 0 && i < 4; i++) {
        EXPECT(c, ((const float *)on_host(gx)->data)[i] == r->gradient[rank][i],
               "%s -> %s: element %d is %g", r->from, r->to, i,
               (double)((const float *)on_host(gx)->data)[i]);
    }
    exg_dtensor_destroy(a);
    exg_dtensor_destroy(b);
    exg_dtensor_destroy(gb);
    exg_dtensor_destroy(ga);
    exg_dtensor_destroy(gx);
}

/* S003-06, S003-08, S003-32, S003-33, S003-70: PyTorch's table. */
static void gradients_go_back_the_way(void **state)
{
    static const road roads[] = {
        {"S(0)", "S(1)", 2, 2, {{1, 2, 1, 2}, {1, 2, 1, 2}}, 1},
        {"S(0)", "R", 2, 2, {{1, 1, 1, 1}, {2, 2, 2, 2}}, 0},
        {"S(0)", "S(0)", 2, 2, {{1, 1, 1, 1}, {2, 2, 2, 2}}, 0},
        {"R", "S(0)", 2, 2, {{1, 1, 2, 2}, {1, 1, 2, 2}}, 1},
        {"R", "S(1)", 2, 2, {{1, 2, 1, 2}, {1, 2, 1, 2}}, 1},
        {"P(sum)", "S(0)", 2, 2, {{1, 1, 2, 2}, {1, 1, 2, 2}}, 1},
        {"P(sum)", "S(1)", 2, 2, {{1, 2, 1, 2}, {1, 2, 1, 2}}, 1},
        {"P(sum)", "R", 2, 2, {{1, 1, 1, 1}, {2, 2, 2, 2}}, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(roads) / sizeof(roads[0]); i++) {
        on_mesh("2", walk_back, &roads[i]);
    }
}

/* The gradient of what lies as `forward`, said to lie as `hint`. */
static void take_hints(rank_context *c)
{
    static const char *const ways[] = {"S(0)", "R", "P(sum)"};
    float value = (float)(exg_device_mesh_rank(c->mesh) + 1);
    float x[8], g[8];
    exg_error err;

    for (int k = 0; k < 9; k++) {
        exg_placement forward, hint;
        exg_tensor local, part;
        exg_dtensor *t = NULL, *made = NULL;

        placements_of(ways[k / 3], &forward);
        placements_of(ways[k % 3], &hint);
        local = filled(x, k / 3 == 0 ? 1 : 2, 2, 0); /* of (2, 2) */
        part = filled(g, k % 3 == 0 ? 1 : 2, 2, value);
        EXPECT(c, exg_dtensor_from_local(c->mesh, &local, &forward, 1, NULL, &t, &err) == EXG_OK,
               "%s", err.message);
        EXPECT(c, exg_to_local_backward(t, &part, &hint, 1, &made, &err) == EXG_OK, "%s",
               err.message);
        if (c->faults == 0) {
            EXPECT(c,
                   exg_placement_equal(exg_dtensor_placements(made)[0], hint) &&
                       exg_dtensor_sizes(made)[0] == 2 &&
                       ((const float *)on_host(made)->data)[1] == value,
                   "%s as %s", ways[k / 3], ways[k % 3]);
        }
        exg_dtensor_destroy(made);
        if (k % 3 != 2) { /* the hint that does not fit */
            part = filled(g, k % 3 == 0 ? 2 : 1, 2, value);
            EXPECT(c,
                   exg_to_local_backward(t, &part, &hint, 1, &made, &err) == EXG_USAGE &&
                       made == NULL && strcmp(err.code, "DTN-015") == 0,
                   "%s", err.message);
        }
        EXPECT(c, exg_to_local_backward(t, NULL, &hint, 1, &made, &err) == EXG_OK && made == NULL,
               "no gradient gives none");
        exg_dtensor_destroy(t);
    }
}

/* S003-05, S003-09, S003-10, S003-11 */
static void gradients_lie_as_the_caller_says(void **state)
{
    (void)state;
    on_mesh("2", take_hints, NULL);
}

static void more_hints(rank_context *c)
{
    exg_placement rows = exg_shard(0), sum = exg_partial(EXG_REDUCE_SUM), whole = exg_replicate();
    float x[8], g[8];
    exg_tensor local = filled(x, 1, 3, 0), part;
    exg_dtensor *t = NULL, *full = NULL, *gf = NULL, *gt = NULL, *gx = NULL;
    uint64_t before;
    exg_error err;

    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &rows, 1, NULL, &t, &err) == EXG_OK &&
               exg_dtensor_full_tensor(t, &full, &err) == EXG_OK,
           "%s", err.message);
    part = filled(g, 2, 3, 1);
    before = exg_device_mesh_exchanges(c->mesh);
    EXPECT(c,
           exg_to_local_backward(full, &part, &sum, 1, &gf, &err) == EXG_OK &&
               exg_redistribute_backward(t, gf, &gt, &err) == EXG_OK,
           "%s", err.message);
    EXPECT(c, exg_device_mesh_exchanges(c->mesh) == before + 1, "one reduce-scatter");
    EXPECT(c, ((const float *)on_host(gt)->data)[2] == 2, "n times ones");
    EXPECT(c,
           exg_from_local_backward(t, gt, &whole, 1, &gx, &err) == EXG_USAGE && gx == NULL &&
               strcmp(err.code, "DTN-015") == 0,
           "%s", err.message);
    part = filled(g, 1, 3, 1);
    part.rank = 1; /* (1) */
    EXPECT(c,
           exg_to_local_backward(t, &part, NULL, 0, &gx, &err) == EXG_USAGE && gx == NULL &&
               strcmp(err.code, "DTN-015") == 0 && strstr(err.message, "of 1 dims, not 2") != NULL,
           "%s", err.message);
    EXPECT(c,
           exg_from_local_backward(t, gt, &rows, 1, &gx, &err) == EXG_OK &&
               exg_dtensor_to_local(gx)->sizes[0] == 1,
           "%s", err.message);
    exg_dtensor_destroy(gf);
    part = filled(g, 1, 3, 1); /* strides (3, 1) of the part: (3, 1) of the whole */
    EXPECT(c,
           exg_to_local_backward(t, &part, NULL, 0, &gf, &err) == EXG_OK &&
               exg_dtensor_strides(gf)[0] == 3 && exg_dtensor_strides(gf)[1] == 1,
           "strides");
    exg_dtensor_destroy(t);
    exg_dtensor_destroy(full);
    exg_dtensor_destroy(gf);
    exg_dtensor_destroy(gt);
    exg_dtensor_destroy(gx);
}

/* Strides of the whole follow from those of the part and from how the tensor lies, not the
 * gradient: what PyTorch has, of transposed parts too. */
static void stride_gradients(rank_context *c)
{
    static const struct {
        const char *lies, *hint;
        int64_t sizes[2], part[2], strides[2], whole[2];
    } rows[] = {
        {"S(0) R", "S(0) R", {2, 3}, {1, 3}, {3, 1}, {3, 1}},
        {"S(0) R", "S(0) R", {2, 3}, {1, 3}, {1, 1}, {1, 2}},
        {"S(0) R", "S(0) R", {4, 3}, {2, 3}, {1, 2}, {1, 4}},
        {"R S(1)", "R S(1)", {3, 4}, {3, 2}, {1, 3}, {1, 3}},
        {"S(0) S(1)", "S(1) S(0)", {2, 2}, {1, 1}, {1, 1}, {1, 2}},
        {"S(1) S(0)", "S(0) S(1)", {2, 2}, {1, 1}, {1, 1}, {2, 1}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_placement lies[2], hint[2];
        float data[12] = {0};
        exg_dtensor_like like = {.size = sizeof(like),
                                 .rank = 2,
                                 .sizes = rows[i].sizes,
                                 .placements = lies,
                                 .placement_count = 2};
        exg_tensor part = {.data = data, .dtype = EXG_DTYPE_F32, .rank = 2};
        exg_dtensor *t = NULL, *gradient = NULL;
        exg_error err;

        (void)placements_of(rows[i].lies, lies);
        (void)placements_of(rows[i].hint, hint);
        memcpy(part.sizes, rows[i].part, sizeof(rows[i].part));
        memcpy(part.strides, rows[i].strides, sizeof(rows[i].strides));
        EXPECT(c,
               exg_dtensor_zeros(c->mesh, &like, &t, &err) == EXG_OK &&
                   exg_to_local_backward(t, &part, hint, 2, &gradient, &err) == EXG_OK,
               "%s", err.message);
        EXPECT(c,
               gradient == NULL ||
                   memcmp(exg_dtensor_strides(gradient), rows[i].whole, sizeof(rows[i].whole)) == 0,
               "strides of row %d", (int)i);
        exg_dtensor_destroy(gradient);
        exg_dtensor_destroy(t);
    }
}

/* S003-07, S003-34, S003-74 */
static void summands_and_mismatches(void **state)
{
    (void)state;
    on_mesh("2x2", stride_gradients, NULL);
    on_mesh("2", more_hints, NULL);
}

/* The way back is a redistribution too, and has a way back: the gradient of a gradient, whole or
 * in parts, is the same whole. */
static void walk_twice(rank_context *c)
{
    static const char *const ways[][2] = {{"S(0)", "R"}, {"R", "S(0)"}, {"S(0)", "S(1)"}};
    uint32_t rank = exg_device_mesh_rank(c->mesh);
    exg_error err;

    for (int k = 0; k < 3; k++) {
        exg_placement from, to;
        float x[8], g[8], gg[8];
        exg_tensor whole = filled(x, 2, 2, 1), part;
        exg_dtensor *a = NULL, *b = NULL, *gb = NULL, *ga = NULL, *gga = NULL, *ggb = NULL;
        exg_dtensor *full = NULL;

        placements_of(ways[k][0], &from);
        placements_of(ways[k][1], &to);
        EXPECT(c,
               exg_distribute_tensor(c->mesh, &whole, &from, 1, 0, &a, &err) == EXG_OK &&
                   exg_dtensor_redistribute(a, &to, 1, &b, &err) == EXG_OK,
               "%s", err.message);
        part = filled(g, exg_dtensor_to_local(b)->sizes[0], exg_dtensor_to_local(b)->sizes[1], 1);
        EXPECT(c,
               exg_to_local_backward(b, &part, NULL, 0, &gb, &err) == EXG_OK &&
                   exg_redistribute_backward(a, gb, &ga, &err) == EXG_OK,
               "%s", err.message);
        part = filled(gg, exg_dtensor_to_local(a)->sizes[0], exg_dtensor_to_local(a)->sizes[1],
                      k == 1 ? 5 : (float)(rank + 1));
        EXPECT(c,
               exg_to_local_backward(ga, &part, NULL, 0, &gga, &err) == EXG_OK &&
                   exg_redistribute_backward(gb, gga, &ggb, &err) == EXG_OK &&
                   exg_dtensor_full_tensor(ggb, &full, &err) == EXG_OK,
               "%s", err.message);
        EXPECT(c, c->faults > 0 || exg_placement_equal(exg_dtensor_placements(ggb)[0], to),
               "lies otherwise");
        for (int i = 0; c->faults == 0 && i < 4; i++) {
            EXPECT(c, ((const float *)on_host(full)->data)[i] == (float)(k == 1 ? 5 : i / 2 + 1),
                   "%s -> %s: %d", ways[k][0], ways[k][1], i);
        }
        exg_dtensor_destroy(a);
        exg_dtensor_destroy(b);
        exg_dtensor_destroy(gb);
        exg_dtensor_destroy(ga);
        exg_dtensor_destroy(gga);
        exg_dtensor_destroy(ggb);
        exg_dtensor_destroy(full);
    }
}

/* S003-71 */
static void gradients_have_gradients(void **state)
{
    (void)state;
    on_mesh("2", walk_twice, NULL);
}

static void coerce(rank_context *c)
{
    exg_placement rows = exg_shard(0), sum = exg_partial(EXG_REDUCE_SUM);
    float x[8];
    exg_tensor local = filled(x, 2, 2, 3);
    exg_dtensor *t = NULL, *made = NULL;
    uint64_t before = exg_device_mesh_exchanges(c->mesh);
    exg_error err;

    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &rows, 1, NULL, &t, &err) == EXG_OK &&
               exg_dtensor_coerce_tangent(t, &made, &err) == EXG_OK,
           "%s", err.message);
    EXPECT(c, c->faults > 0 || (borrows(made, x) && exg_device_mesh_exchanges(c->mesh) == before),
           "rows stay");
    exg_dtensor_destroy(made);
    exg_dtensor_destroy(t);
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &sum, 1, NULL, &t, &err) == EXG_OK &&
               exg_dtensor_coerce_tangent(t, &made, &err) == EXG_OK,
           "%s", err.message);
    EXPECT(c,
           c->faults > 0 ||
               (exg_placement_equal(exg_dtensor_placements(made)[0], exg_replicate()) &&
                ((const float *)on_host(made)->data)[3] == 6),
           "a sum");
    exg_dtensor_destroy(made);
    exg_dtensor_destroy(t);
}

/* S003-47 */
static void tangents_are_whole(void **state)
{
    (void)state;
    on_mesh("2", coerce, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_go_back_the_way),
        cmocka_unit_test(gradients_lie_as_the_caller_says),
        cmocka_unit_test(summands_and_mismatches),
        cmocka_unit_test(gradients_have_gradients),
        cmocka_unit_test(tangents_are_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
