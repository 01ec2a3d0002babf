/* autograd.c - histories over the borders of DTensors, modes, and what goes wrong: rows of
 * tests/seeds-003.md.
 */
#include "tests/exec/dispatch/eager.h"

#include <exg/autograd.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_device_mesh *self_of(eager *e)
{
    exg_device_mesh *self = NULL;

    EXPECT(e->c, exg_dispatcher_self(e->d, &self, &e->err) == EXG_OK, "%s", e->err.message);
    return self;
}

/* A plain tensor of this rank alone, owned: value + step * i. */
static exg_dtensor *plain(eager *e, int64_t rows, int64_t columns, double value, double step,
                          bool wanted)
{
    int64_t sizes[2] = {rows, columns};
    exg_dtensor_like like = {sizeof(like), EXG_DTYPE_F32, 2, sizes, NULL, 0, wanted};
    const exg_tensor *part;
    exg_dtensor *t = NULL;

    EXPECT(e->c, exg_dtensor_empty(self_of(e), &like, &t, &e->err) == EXG_OK, "%s", e->err.message);
    if (t == NULL) {
        return NULL;
    }
    part = on_host(t);
    for (int64_t i = 0; i < rows * columns; i++) {
        ((float *)part->data)[i] = (float)(value + step * (double)i);
    }
    to_device(t, part);
    return t;
}

static void expect_local(eager *e, const exg_dtensor *t, const double *values, int count,
                         const char *what)
{
    const float *part = t == NULL ? NULL : on_host(t)->data;

    EXPECT(e->c, t != NULL, "%s: nothing", what);
    for (int i = 0; t != NULL && i < count; i++) {
        double got = (double)part[i];

        EXPECT(e->c, fabs(got - values[i]) <= 1e-4 * (1 + fabs(values[i])), "%s[%d] is %g, not %g",
               what, i, got, values[i]);
    }
}

static void go_back(eager *e, exg_dtensor *root, const exg_dtensor *gradient)
{
    EXPECT(e->c, exg_backward(e->d, &root, &gradient, 1, NULL, &e->err) == EXG_OK, "%s",
           e->err.message);
}

/* ---- borders --------------------------------------------------------------------------------- */

/* Module A on this rank's rows, module B on DTensors (a column of weights on each rank), module C
 * on the whole, summed: of ranks together sum(tanh(x wa) wb)^2. */
typedef struct chain {
    double wb[4]; /* the gradient of B's weights, whole */
    double wa[2][4];
} chain;

static void run_chain(rank_context *c)
{
    const chain *expected = c->user;
    uint32_t rank = exg_device_mesh_rank(c->mesh);
    exg_placement rows = exg_shard(0), columns = exg_shard(1), whole = exg_replicate();
    exg_dtensor *x, *wa, *wb0, *wb = NULL, *a, *h, *b = NULL, *y, *moved = NULL, *out = NULL;
    exg_dtensor *square, *loss;
    exg_from_local_options how = {.size = sizeof(how)};
    eager e;

    eager_begin(&e, c, NULL);
    x = plain(&e, 1, 2, 0.1 + rank, 0.3, false);
    wa = plain(&e, 2, 2, 0.2, 0.1, true);
    wb0 = plain(&e, 2, 2, -0.4, 0.2, true);
    EXPECT(c, exg_distribute(e.d, wb0, NULL, &columns, 1, 0, &wb, &e.err) == EXG_OK, "%s",
           e.err.message);
    EXPECT(c, wb != NULL && exg_dtensor_requires_grad(wb) && exg_dtensor_is_leaf(wb), "a leaf");
    h = CALL(&e, "aten.mm.default", T(x), T(wa));
    a = CALL(&e, "aten.tanh.default", T(h));
    EXPECT(c, exg_dtensor_requires_grad(a) && !exg_dtensor_is_leaf(a) && exg_dtensor_is_leaf(wa),
           "computed");
    EXPECT(c, exg_from_local(e.d, a, NULL, &rows, 1, &how, NULL, &b, &e.err) == EXG_OK, "%s",
           e.err.message);
    if (c->faults > 0) {
        return;
    }
    EXPECT(c,
           exg_dtensor_requires_grad(b) && exg_dtensor_sizes(b)[0] == 2 &&
               exg_dtensor_to_local(b)->data == exg_dtensor_to_local(a)->data,
           "from_local");
    y = CALL(&e, "aten.mm.default", T(b), T(wb));
    EXPECT(c,
           exg_redistribute(e.d, y, &whole, 1, NULL, &moved, &e.err) == EXG_OK &&
               exg_to_local(e.d, moved, NULL, &out, &e.err) == EXG_OK,
           "%s", e.err.message);
    square = CALL(&e, "aten.square.default", T(out));
    loss = CALL(&e, "aten.sum.default", T(square));
    go_back(&e, loss, NULL);
    expect_local(&e, exg_dtensor_grad(wa), expected->wa[rank], 4, "the plain weight's gradient");
    if (exg_dtensor_grad(wb) != NULL) {
        expect_values(&e, exg_dtensor_grad(wb), "S(1)", expected->wb, 4, "the sharded weight's");
    } else {
        EXPECT(c, false, "no gradient of the sharded weight");
    }
    EXPECT(c, exg_dtensor_grad(x) == NULL && exg_dtensor_grad(wb0) == NULL,
           "distributing is no step");
    exg_dtensor_destroy(loss);
    exg_dtensor_destroy(square);
    exg_dtensor_destroy(out);
    exg_dtensor_destroy(moved);
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(b);
    exg_dtensor_destroy(a);
    exg_dtensor_destroy(h);
    exg_dtensor_destroy(wb);
    exg_dtensor_destroy(wb0);
    exg_dtensor_destroy(wa);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* What torch.autograd says of the same, each rank's loss being the whole's. S003-02, S003-104 */
static void gradients_cross_the_borders(void **state)
{
    static const chain expected = {
        {-0.3661911, 0.03505907, -0.4363092, 0.04185458},
        {{0.005146455, 0.0003639834, 0.02058582, 0.001455934},
         {0.1257502, 0.004277667, 0.1600458, 0.005444303}},
    };

    (void)state;
    on_mesh("2", run_chain, &expected);
}

/* x -> from_local(from) -> redistribute(to) -> to_local -> times (rank + 1), summed. */
typedef struct road {
    const char *from, *to;
    double gradient[2][4]; /* by rank */
    uint64_t exchanges;    /* on the way back */
} road;

static void walk(rank_context *c)
{
    const road *r = c->user;
    uint32_t rank = exg_device_mesh_rank(c->mesh);
    exg_placement from, to;
    exg_dtensor *x, *a = NULL, *b = NULL, *local = NULL, *y, *loss;
    uint64_t before;
    eager e;

    placements_of(r->from, &from);
    placements_of(r->to, &to);
    eager_begin(&e, c, NULL);
    x = plain(&e, 2, 2, 1, 0, true);
    EXPECT(c,
           exg_from_local(e.d, x, NULL, &from, 1, NULL, NULL, &a, &e.err) == EXG_OK &&
               exg_redistribute(e.d, a, &to, 1, NULL, &b, &e.err) == EXG_OK &&
               exg_to_local(e.d, b, NULL, &local, &e.err) == EXG_OK,
           "%s", e.err.message);
    y = CALL(&e, "aten.mul.Scalar", T(local), of_int(rank + 1));
    loss = CALL(&e, "aten.sum.default", T(y));
    before = exg_device_mesh_exchanges(c->mesh);
    go_back(&e, loss, NULL);
    EXPECT(c, exg_device_mesh_exchanges(c->mesh) == before + r->exchanges, "%s -> %s: %d sent",
           r->from, r->to, (int)(exg_device_mesh_exchanges(c->mesh) - before));
    expect_local(&e, exg_dtensor_grad(x), r->gradient[rank], 4, r->from);
    exg_dtensor_destroy(loss);
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(local);
    exg_dtensor_destroy(b);
    exg_dtensor_destroy(a);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S003-08, S003-32, S003-33, S003-70 once more, by the tape. */
static void the_tape_goes_back_the_way(void **state)
{
    static const road roads[] = {
        {"S(0)", "S(1)", {{1, 2, 1, 2}, {1, 2, 1, 2}}, 1},
        {"S(0)", "R", {{1, 1, 1, 1}, {2, 2, 2, 2}}, 0},
        {"S(0)", "S(0)", {{1, 1, 1, 1}, {2, 2, 2, 2}}, 0},
        {"R", "S(0)", {{1, 1, 2, 2}, {1, 1, 2, 2}}, 1},
        {"P(sum)", "S(1)", {{1, 2, 1, 2}, {1, 2, 1, 2}}, 1},
        {"P(sum)", "R", {{1, 1, 1, 1}, {2, 2, 2, 2}}, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(roads) / sizeof(roads[0]); i++) {
        on_mesh("2", walk, &roads[i]);
    }
}

static void take_hints(rank_context *c)
{
    exg_placement rows = exg_shard(0), sum = exg_partial(EXG_REDUCE_SUM), whole = exg_replicate();
    exg_step_options summands = {
        .size = sizeof(summands), .grad_placements = &sum, .grad_placement_count = 1};
    exg_step_options mismatch = {
        .size = sizeof(mismatch), .grad_placements = &whole, .grad_placement_count = 1};
    exg_dtensor *x = NULL, *full = NULL, *loss, *local, *t = NULL;
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "2x2", "S(0)");
    EXPECT(c,
           exg_dtensor_set_requires_grad(x, true, &e.err) == EXG_OK &&
               exg_full_tensor(e.d, x, &summands, &full, &e.err) == EXG_OK,
           "%s", e.err.message);
    loss = CALL(&e, "aten.sum.default", T(full));
    go_back(&e, loss, NULL);
    expect_values(&e, exg_dtensor_grad(x), "S(0)", (const double[]){2, 2, 2, 2}, 4, "summands");
    local = plain(&e, 1, 2, 0, 1, true);
    EXPECT(c,
           exg_from_local(e.d, local, NULL, &rows, 1, NULL, &mismatch, &t, &e.err) == EXG_USAGE &&
               t == NULL && strcmp(e.err.code, "DTN-015") == 0,
           "%s", e.err.message);
    exg_dtensor_destroy(local);
    exg_dtensor_destroy(loss);
    exg_dtensor_destroy(full);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S003-34, S003-74 */
static void hints_say_how_gradients_lie(void **state)
{
    (void)state;
    on_mesh("2", take_hints, NULL);
}

/* ---- gradients of gradients ------------------------------------------------------------------ */

static void differentiate_twice(rank_context *c)
{
    static const char *const ways[][2] = {{"S(0)", "R"}, {"R", "S(0)"}, {"S(0)", "S(1)"}};
    exg_backward_options graph = {sizeof(graph), true};
    eager e;

    eager_begin(&e, c, NULL);
    for (int k = 0; k < 3; k++) { /* (x^3)' = 3 x^2; (9 x^4)' = 36 x^3 */
        exg_dtensor *x = counted(&e, EXG_DTYPE_F32, "2x2", ways[k][0]), *y = NULL, *cube, *loss;
        exg_dtensor *g, *square;
        exg_placement to;

        placements_of(ways[k][1], &to);
        EXPECT(c,
               exg_dtensor_set_requires_grad(x, true, &e.err) == EXG_OK &&
                   exg_redistribute(e.d, x, &to, 1, NULL, &y, &e.err) == EXG_OK,
               "%s", e.err.message);
        cube = CALL(&e, "aten.pow.Tensor_Scalar", T(y), of_int(3));
        loss = CALL(&e, "aten.sum.default", T(cube));
        graph.size = 0;
        EXPECT(c,
               exg_backward(e.d, &loss, NULL, 1, &graph, &e.err) == EXG_USAGE &&
                   exg_to_local(e.d, y, &(exg_step_options){.grad_placements = &to}, &g, &e.err) ==
                       EXG_USAGE &&
                   strcmp(e.err.code, "OPT-001") == 0,
               "options without a size");
        graph.size = sizeof(graph);
        EXPECT(c, exg_backward(e.d, &loss, NULL, 1, &graph, &e.err) == EXG_OK, "%s", e.err.message);
        g = exg_dtensor_take_grad(x);
        EXPECT(c, g != NULL && exg_dtensor_requires_grad(g) && exg_dtensor_grad(x) == NULL,
               "a gradient with a history");
        if (g == NULL) {
            return;
        }
        expect_values(&e, g, ways[k][0], (const double[]){0, 3, 12, 27}, 4, "once");
        exg_dtensor_destroy(loss);
        square = CALL(&e, "aten.square.default", T(g));
        loss = CALL(&e, "aten.sum.default", T(square));
        go_back(&e, loss, NULL);
        expect_values(&e, exg_dtensor_grad(x), ways[k][0], (const double[]){0, 36, 288, 972}, 4,
                      "twice");
        exg_dtensor_destroy(loss);
        exg_dtensor_destroy(square);
        exg_dtensor_destroy(g);
        exg_dtensor_destroy(cube);
        exg_dtensor_destroy(y);
        exg_dtensor_destroy(x);
    }
    eager_end(&e);
}

/* S003-71 */
static void the_tape_is_differentiated_too(void **state)
{
    (void)state;
    on_mesh("2", differentiate_twice, NULL);
}

/* ---- modes ----------------------------------------------------------------------------------- */

static void count_notes(void *user, exg_dispatch_event event, const char *text)
{
    int *notes = user;

    *notes += event == EXG_EVENT_NOTE && strstr(text, "from_local") != NULL;
}

static void disable(rank_context *c)
{
    int notes = 0;
    exg_dispatch_options options = {
        .size = sizeof(options), .log = count_notes, .log_user = &notes};
    exg_placement rows = exg_shard(0), whole = exg_replicate();
    exg_dtensor *x, *y, *moved = NULL, *full = NULL, *local, *t = NULL;
    exg_dispatch_stats before, after;
    eager e;

    eager_begin(&e, c, &options);
    x = counted(&e, EXG_DTYPE_F32, "4x2", "S(0)");
    EXPECT(c, exg_dtensor_set_requires_grad(x, true, &e.err) == EXG_OK, "%s", e.err.message);
    y = CALL(&e, "aten.neg.default", T(x));
    EXPECT(c, exg_dtensor_requires_grad(y), "at first");
    exg_dtensor_destroy(y);
    EXPECT(c, exg_grad_enabled(e.d) && exg_set_grad_enabled(e.d, false) && !exg_grad_enabled(e.d),
           "it was enabled");
    before = *exg_dispatcher_statistics(e.d);
    y = CALL(&e, "aten.neg.default", T(x));
    after = *exg_dispatcher_statistics(e.d);
    EXPECT(c, !exg_dtensor_requires_grad(y) && after.misses == before.misses + 1,
           "the mode is of the key");
    exg_dtensor_destroy(y);
    EXPECT(c,
           exg_redistribute(e.d, x, &whole, 1, NULL, &moved, &e.err) == EXG_OK &&
               !exg_dtensor_requires_grad(moved) &&
               exg_full_tensor(e.d, x, NULL, &full, &e.err) == EXG_OK &&
               !exg_dtensor_requires_grad(full),
           "steps without gradients");
    local = plain(&e, 2, 2, 0, 1, true);
    EXPECT(c,
           exg_from_local(e.d, local, NULL, &rows, 1, NULL, NULL, &t, &e.err) == EXG_OK &&
               !exg_dtensor_requires_grad(t) && notes == 1,
           "%d notes", notes);
    exg_dtensor_destroy(t);
    exg_dtensor_destroy(local);
    local = plain(&e, 2, 2, 0, 1, false); /* of which none is wanted */
    EXPECT(c,
           exg_from_local(e.d, local, NULL, &rows, 1, NULL, NULL, &t, &e.err) == EXG_OK &&
               notes == 1,
           "%d notes", notes);
    y = CALL(&e, "aten.add_.Scalar", T(x), of_int(1)); /* an optimizer may */
    EXPECT(c, y == x && exg_dtensor_is_leaf(x) && exg_dtensor_requires_grad(x), "in place");
    EXPECT(c, !exg_set_grad_enabled(e.d, true), "it was disabled");
    exg_dtensor_destroy(t);
    exg_dtensor_destroy(local);
    exg_dtensor_destroy(full);
    exg_dtensor_destroy(moved);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S003-41, S003-72, S000-22 */
static void nothing_is_remembered_while_disabled(void **state)
{
    (void)state;
    on_mesh("2", disable, NULL);
}

static void stack_meshes(rank_context *c)
{
    exg_placement rows = exg_shard(0);
    exg_device_mesh *part = NULL;
    exg_dtensor *local, *t = NULL;
    eager e;

    EXPECT(c, exg_device_mesh_slice(c->mesh, (const uint32_t[]){1}, 1, &part, NULL) == EXG_OK,
           "a slice");
    eager_begin(&e, c, NULL);
    local = plain(&e, 1, 2, 0, 1, false);
    EXPECT(c,
           exg_dispatcher_push_mesh(e.d, part, &e.err) == EXG_OK &&
               exg_from_local(e.d, local, NULL, &rows, 1, NULL, NULL, &t, &e.err) == EXG_OK &&
               exg_dtensor_device_mesh(t) == part && exg_dtensor_sizes(t)[0] == 2,
           "the pushed mesh");
    exg_dtensor_destroy(t);
    EXPECT(c, exg_dispatcher_pop_mesh(e.d) == part && exg_dispatcher_pop_mesh(e.d) == NULL,
           "popped");
    EXPECT(c,
           exg_from_local(e.d, local, NULL, NULL, 0, NULL, NULL, &t, &e.err) == EXG_OK &&
               exg_dtensor_device_mesh(t) == c->mesh,
           "the mesh before");
    exg_dtensor_destroy(t);
    for (int i = 0; i < 16; i++) {
        EXPECT(c, exg_dispatcher_push_mesh(e.d, part, &e.err) == EXG_OK, "%d", i);
    }
    EXPECT(c,
           exg_dispatcher_push_mesh(e.d, part, &e.err) == EXG_LIMIT &&
               strcmp(e.err.code, "TAP-005") == 0,
           "too many");
    exg_dtensor_destroy(local);
    eager_end(&e);
    exg_device_mesh_destroy(part);
}

static void lose_mesh(rank_context *c)
{
    exg_device_mesh *self;
    exg_dispatcher *d = NULL;
    exg_error err;

    EXPECT(c,
           exg_dispatcher_create(all_operators(), NULL, &d, &err) == EXG_OK &&
               exg_dispatcher_self(d, &self, &err) == EXG_USAGE && strcmp(err.code, "DSP-008") == 0,
           "no mesh at all");
    exg_dispatcher_destroy(d);
    EXPECT(c,
           exg_device_mesh_self(c->mesh, &self, &err) == EXG_OK &&
               exg_device_mesh_size(self) == 1 &&
               exg_device_mesh_global_rank(self, 0) == exg_device_mesh_rank(c->mesh),
           "this rank alone");
    exg_device_mesh_destroy(self);
}

/* S003-13 */
static void meshes_are_pushed_and_popped(void **state)
{
    (void)state;
    on_mesh("2x2", stack_meshes, NULL);
    on_mesh("2", lose_mesh, NULL);
}

/* ---- dtypes ---------------------------------------------------------------------------------- */

static void send_narrow(rank_context *c)
{
    exg_placement whole = exg_replicate(), rows = exg_shard(0);
    exg_step_options forward = {.size = sizeof(forward), .forward_dtype = EXG_DTYPE_BF16};
    exg_step_options backward = {.size = sizeof(backward), .backward_dtype = EXG_DTYPE_BF16};
    exg_dtensor *x, *y = NULL, *g, *wide;
    uint64_t sent;
    eager e;

    eager_begin(&e, c, NULL);
    x = plain(&e, 4, 1, 1.001953125, 0, false); /* 1 + 2^-9, 1 in bf16 */
    EXPECT(c,
           exg_distribute(e.d, x, c->mesh, &rows, 1, 0, &wide, &e.err) == EXG_OK &&
               exg_dtensor_set_requires_grad(wide, true, &e.err) == EXG_OK,
           "%s", e.err.message);
    sent = exg_device_mesh_bytes_sent(c->mesh);
    EXPECT(c,
           exg_redistribute(e.d, wide, &whole, 1, &forward, &y, &e.err) == EXG_OK &&
               exg_dtensor_dtype(y) == EXG_DTYPE_BF16 &&
               exg_device_mesh_bytes_sent(c->mesh) == sent + 2 * 2,
           "two numbers of two bytes");
    g = CALL(&e, "aten.ones_like.default", T(y));
    go_back(&e, y, g);
    EXPECT(c,
           exg_dtensor_grad(wide) != NULL &&
               exg_dtensor_dtype(exg_dtensor_grad(wide)) == EXG_DTYPE_F32,
           "in f32 again");
    exg_dtensor_destroy(exg_dtensor_take_grad(wide));
    exg_dtensor_destroy(g);
    exg_dtensor_destroy(y);

    EXPECT(c,
           exg_redistribute(e.d, wide, &whole, 1, &backward, &y, &e.err) == EXG_OK &&
               exg_dtensor_dtype(y) == EXG_DTYPE_F32,
           "%s", e.err.message);
    g = CALL(&e, "aten.full_like.default", T(y), of_float(1.001953125));
    go_back(&e, y, g);
    if (exg_dtensor_grad(wide) != NULL) {
        expect_values(&e, exg_dtensor_grad(wide), "S(0)", (const double[]){1, 1, 1, 1}, 4, "bf16");
        EXPECT(c,
               exg_dtensor_dtype(exg_dtensor_grad(wide)) == EXG_DTYPE_F32 &&
                   *(const float *)on_host(exg_dtensor_grad(wide))->data == 1.0f,
               "the gradient went in bf16");
    }
    exg_dtensor_destroy(g);
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(wide);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S003-69 */
static void gradients_travel_in_a_dtype_of_their_own(void **state)
{
    (void)state;
    on_mesh("2", send_narrow, NULL);
}

/* ---- on the way ------------------------------------------------------------------------------ */

static void move_async(rank_context *c)
{
    static const struct {
        const char *from, *to;
        bool ready;
    } rows[] = {{"S(0)", "R", false},   {"S(0)", "S(1)", false}, {"P(sum)", "R", false},
                {"S(0)", "S(0)", true}, {"R", "S(0)", true},     {"R", "R", true}};
    static const double values[] = {0, 1, 2, 3, 4, 5}, doubled[] = {0, 2, 4, 6, 8, 10};
    exg_step_options async = {.size = sizeof(async), .async = true};
    eager e;

    eager_begin(&e, c, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_dtensor *x = counted(&e, EXG_DTYPE_F32, "3x2", rows[i].from), *y[5] = {NULL}, *z;
        exg_dtensor *local = NULL;
        exg_placement to;

        placements_of(rows[i].to, &to);
        for (int k = 0; k < 5; k++) { /* several at once */
            EXPECT(c,
                   exg_redistribute(e.d, x, &to, 1, &async, &y[k], &e.err) == EXG_OK &&
                       exg_dtensor_is_ready(y[k]) == rows[i].ready,
                   "%s -> %s: %d", rows[i].from, rows[i].to, exg_dtensor_is_ready(y[k]));
        }
        exg_dtensor_destroy(x); /* what goes has gone */
        EXPECT(c,
               exg_dtensor_wait(y[0], &e.err) == EXG_OK && exg_dtensor_is_ready(y[0]) &&
                   exg_dtensor_wait(y[0], &e.err) == EXG_OK,
               "%s", e.err.message);
        expect_values(&e, y[0], rows[i].to, values, 6, "waited for");
        z = CALL(&e, "aten.mul.Scalar", T(y[1]), of_int(2)); /* every use waits */
        EXPECT(c, exg_dtensor_is_ready(y[1]), "an operator waits");
        expect_values(&e, z, rows[i].to, doubled, 6, "an operator");
        exg_dtensor_destroy(z);
        expect_values(&e, y[2], rows[i].to, values, 6, "full_tensor");
        EXPECT(c, exg_dtensor_to_local(y[3]) != NULL && exg_dtensor_is_ready(y[3]), "its part");
        EXPECT(c, exg_to_local(e.d, y[3], NULL, &local, &e.err) == EXG_OK, "%s", e.err.message);
        exg_dtensor_destroy(local);
        for (int k = 0; k < 5; k++) { /* the last was never used */
            exg_dtensor_destroy(y[k]);
        }
    }
    eager_end(&e);
}

static _Atomic int gone;

/* Rank 0 sends and goes on, to three moves more, before the others begin. */
static void move_before_the_others(rank_context *c)
{
    static const double values[] = {0, 1, 2, 3, 4, 5};
    exg_step_options async = {.size = sizeof(async), .async = true};
    exg_placement rows = exg_shard(0), columns = exg_shard(1), whole = exg_replicate();
    exg_dtensor *x, *y[4];
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "3x2", "S(0)");
    EXPECT(c, exg_redistribute(e.d, x, &whole, 1, NULL, &y[0], &e.err) == EXG_OK, "%s",
           e.err.message); /* the first of all joins devices */
    exg_dtensor_destroy(y[0]);
    while (exg_device_mesh_rank(c->mesh) != 0 && atomic_load(&gone) == 0) {
        sched_yield();
    }
    for (int k = 0; k < 4; k++) {
        EXPECT(c,
               exg_redistribute(e.d, x, k % 2 == 0 ? &whole : &columns, 1, &async, &y[k], &e.err) ==
                   EXG_OK,
               "%s", e.err.message);
    }
    EXPECT(c, !exg_dtensor_is_ready(y[0]) && !exg_dtensor_is_ready(y[3]), "on their way");
    atomic_store(&gone, 1);
    expect_values(&e, y[2], "R", values, 6, "the third first");
    EXPECT(c, exg_dtensor_is_ready(y[0]) && exg_dtensor_is_ready(y[1]), "those before came too");
    expect_values(&e, y[3], "S(1)", values, 6, "the last");
    expect_values(&e, y[0], "R", values, 6, "the first");
    for (int k = 0; k < 4; k++) {
        exg_dtensor_destroy(y[k]);
    }
    for (int k = 0; k < 40; k++) { /* more than can be under way, none looked at but the last */
        EXPECT(c, exg_redistribute(e.d, x, &whole, 1, &async, &y[k % 4], &e.err) == EXG_OK, "%s",
               e.err.message);
        if (k % 4 == 3) {
            for (int i = 0; i < 4; i++) {
                exg_dtensor_destroy(y[i]);
            }
        }
    }
    EXPECT(c,
           exg_redistribute(e.d, x, &whole, 1, &async, &y[0], &e.err) == EXG_OK &&
               exg_redistribute(e.d, x, &rows, 1, NULL, &y[1], &e.err) == EXG_OK,
           "%s", e.err.message);
    expect_values(&e, y[0], "R", values, 6, "one among others");
    exg_dtensor_destroy(y[0]);
    exg_dtensor_destroy(y[1]);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S003-67, S003-68 */
static void what_is_on_its_way_is_waited_for(void **state)
{
    (void)state;
    on_mesh("2", move_async, NULL);
    on_mesh("3", move_async, NULL);
    for (int ranks = 0; ranks < 2; ranks++) {
        atomic_store(&gone, 0);
        on_mesh(ranks == 0 ? "2" : "3", move_before_the_others, NULL);
    }
}

/* A number beside a DTensor is the caller's: what it was counts, not what it became. */
static void keep_numbers(rank_context *c)
{
    float value = 3;
    exg_tensor number = {.data = &value, .dtype = EXG_DTYPE_F32, .rank = 0};
    exg_dtensor *x, *y, *sum;
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4", "S(0)");
    EXPECT(c, exg_dtensor_set_requires_grad(x, true, &e.err) == EXG_OK, "%s", e.err.message);
    y = CALL(&e, "aten.mul.Tensor", T(x), exg_object_tensor(&number));
    value = 99;
    sum = CALL(&e, "aten.sum.default", T(y));
    go_back(&e, sum, NULL);
    expect_values(&e, exg_dtensor_grad(x), "S(0)", (const double[]){3, 3, 3, 3}, 4, "of its time");
    exg_dtensor_destroy(sum);
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

static void numbers_are_kept_as_they_were(void **state)
{
    (void)state;
    on_mesh("2", keep_numbers, NULL);
}

/* Of several results each has its history. */
static void go_through_results(rank_context *c)
{
    exg_dtensor *x, *squared, *sum;
    exg_object result;
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4", "R");
    EXPECT(c, exg_dtensor_set_requires_grad(x, true, &e.err) == EXG_OK, "%s", e.err.message);
    for (uint32_t k = 0; k < 2; k++) { /* the second half first */
        result = call(&e, "aten.split.Tensor", (exg_object[]){T(x), of_int(2)}, 2);
        EXPECT(c, result.kind == EXG_OBJECT_LIST && result.count == 2, "two halves");
        squared = CALL(&e, "aten.square.default", T(result.items[1 - k].dtensor));
        sum = CALL(&e, "aten.sum.default", T(squared));
        go_back(&e, sum, NULL);
        expect_values(&e, exg_dtensor_grad(x), "R", (const double[]){0, k == 0 ? 0 : 2, 4, 6}, 4,
                      "of one half, then of both");
        exg_dtensor_destroy(sum);
        exg_dtensor_destroy(squared);
        exg_object_clear(&result, true);
    }
    exg_dtensor_destroy(x);
    eager_end(&e);
}

static void each_result_has_a_history(void **state)
{
    (void)state;
    on_mesh("2", go_through_results, NULL);
}

/* ---- leaves ---------------------------------------------------------------------------------- */

static void distribute_leaves(rank_context *c)
{
    exg_placement rows = exg_shard(0), last = exg_shard(-2), whole = exg_replicate();
    exg_step_options elsewhere = {.size = sizeof(elsewhere)};
    exg_dtensor_like like = {.size = sizeof(like),
                             .dtype = EXG_DTYPE_F32,
                             .rank = 2,
                             .sizes = (const int64_t[]){2, 2},
                             .requires_grad = true};
    exg_dtensor *x, *y, *t = NULL, *same = NULL, *local = NULL, *made = NULL;
    exg_device_mesh *self;
    eager e;

    eager_begin(&e, c, NULL);
    self = self_of(&e);
    x = plain(&e, 2, 2, 0, 1, true);
    y = CALL(&e, "aten.neg.default", T(x));
    EXPECT(c,
           exg_distribute(e.d, y, NULL, &rows, 1, 0, &t, &e.err) == EXG_USAGE && t == NULL &&
               strcmp(e.err.code, "TAP-004") == 0,
           "what was computed");
    EXPECT(c, exg_dtensor_set_requires_grad(y, false, &e.err) == EXG_USAGE, "%s", e.err.message);
    EXPECT(c,
           exg_distribute(e.d, x, NULL, &rows, 1, 0, &t, &e.err) == EXG_OK &&
               exg_dtensor_is_leaf(t) && exg_dtensor_requires_grad(t),
           "%s", e.err.message);
    EXPECT(c,
           exg_to_local(e.d, t, NULL, &local, &e.err) == EXG_OK &&
               exg_dtensor_requires_grad(local) && !exg_dtensor_is_leaf(local) &&
               exg_dtensor_to_local(local)->data == exg_dtensor_to_local(t)->data,
           "its local tensor");
    EXPECT(c, exg_distribute(e.d, t, NULL, &last, 1, 0, &same, &e.err) == EXG_OK && same == t,
           "it lies so already");
    EXPECT(c,
           exg_distribute(e.d, t, NULL, &whole, 1, 0, &same, &e.err) == EXG_USAGE && same == NULL &&
               strstr(e.err.fix, "redistribute") != NULL,
           "%s", e.err.fix);
    EXPECT(c,
           exg_distribute(e.d, t, self, &whole, 1, 0, &same, &e.err) == EXG_USAGE &&
               strstr(e.err.message, "another mesh") != NULL,
           "%s", e.err.message);
    EXPECT(c,
           exg_from_local(e.d, t, NULL, &rows, 1, NULL, NULL, &same, &e.err) == EXG_USAGE &&
               strcmp(e.err.code, "TAP-004") == 0,
           "from_local of a DTensor");
    elsewhere.mesh = self;
    EXPECT(c,
           exg_redistribute(e.d, t, &whole, 1, &elsewhere, &same, &e.err) == EXG_UNSUPPORTED &&
               strcmp(e.err.code, "TAP-006") == 0,
           "to another mesh");
    elsewhere.mesh = c->mesh;
    EXPECT(c, exg_redistribute(e.d, t, &whole, 1, &elsewhere, &same, &e.err) == EXG_OK, "%s",
           e.err.message);
    exg_dtensor_destroy(same);
    exg_dtensor_destroy(local);
    EXPECT(c,
           exg_dtensor_ones(c->mesh, &like, &made, &e.err) == EXG_OK &&
               exg_to_local(e.d, made, NULL, &local, &e.err) == EXG_OK &&
               exg_dtensor_requires_grad(made) && exg_dtensor_requires_grad(local),
           "a factory's");
    exg_dtensor_destroy(local);
    exg_dtensor_destroy(made);
    exg_dtensor_destroy(t);
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S003-04, S003-21, S003-59, S003-87, S003-91, S003-92, S003-102, S003-104, S003-122, S003-147 */
static void only_leaves_are_distributed(void **state)
{
    (void)state;
    on_mesh("2", distribute_leaves, NULL);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static exg_status back(eager *e, exg_dtensor *root, const exg_dtensor *gradient)
{
    return exg_backward(e->d, &root, &gradient, 1, NULL, &e->err);
}

static void misuse(rank_context *c)
{
    exg_dtensor *x, *y, *z, *g, *one;
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4x2", "S(0)");
    y = CALL(&e, "aten.exp.default", T(x));
    EXPECT(c, back(&e, y, y) == EXG_USAGE && strcmp(e.err.code, "TAP-004") == 0, "no history");
    exg_dtensor_destroy(y);
    EXPECT(c, exg_dtensor_set_requires_grad(x, true, &e.err) == EXG_OK, "%s", e.err.message);
    y = CALL(&e, "aten.exp.default", T(x));
    EXPECT(c, back(&e, y, NULL) == EXG_USAGE && strstr(e.err.message, "8 elements") != NULL, "%s",
           e.err.message);
    g = counted(&e, EXG_DTYPE_F32, "2x4", "R");
    EXPECT(c, back(&e, y, g) == EXG_USAGE && strstr(e.err.message, "other sizes") != NULL, "%s",
           e.err.message);
    exg_dtensor_destroy(g);
    EXPECT(c,
           refusal(&e, "aten.add_.Scalar", (exg_object[]){T(x), of_int(1)}, 2) == EXG_UNSUPPORTED &&
               strcmp(e.err.code, "TAP-002") == 0,
           "%s", e.err.message);
    g = CALL(&e, "aten.ones_like.default", T(y));
    EXPECT(c, !exg_dtensor_requires_grad(g), "constants have none");
    z = CALL(&e, "aten.detach.default", T(y));
    EXPECT(c, !exg_dtensor_requires_grad(z), "detached");
    exg_dtensor_destroy(z);
    EXPECT(c, back(&e, y, g) == EXG_OK && back(&e, y, g) == EXG_OK, "twice: %s", e.err.message);
    z = exg_dtensor_take_grad(x);
    EXPECT(c, z != NULL, "a gradient");
    if (z != NULL) {
        double expected[8];

        for (int i = 0; i < 8; i++) {
            expected[i] = 2 * exp(i);
        }
        expect_values(&e, z, "S(0)", expected, 8, "added up");
    }
    exg_dtensor_destroy(z);
    (void)exg_set_grad_enabled(e.d, false);
    (void)CALL(&e, "aten.mul_.Scalar", T(y), of_int(2));
    (void)exg_set_grad_enabled(e.d, true);
    EXPECT(c,
           back(&e, y, g) == EXG_USAGE && strcmp(e.err.code, "TAP-003") == 0 &&
               exg_dtensor_grad(x) == NULL,
           "overwritten: %s", e.err.message);
    exg_dtensor_destroy(y);
    y = CALL(&e, "aten.digamma.default", T(x));
    one = CALL(&e, "aten.sum.default", T(y));
    EXPECT(c,
           back(&e, one, NULL) == EXG_UNSUPPORTED && strcmp(e.err.code, "TAP-001") == 0 &&
               strstr(e.err.message, "digamma") != NULL,
           "%s", e.err.message);
    exg_dtensor_destroy(one);
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(g);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

static void faults_are_told(void **state)
{
    (void)state;
    on_mesh("2", misuse, NULL);
}

/* A long history is let go, and gone back, without taking the stack. */
static void compute_long(rank_context *c)
{
    exg_dtensor *x, *y, *loss;
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "2", "S(0)");
    EXPECT(c, exg_dtensor_set_requires_grad(x, true, &e.err) == EXG_OK, "%s", e.err.message);
    y = CALL(&e, "aten.neg.default", T(x));
    for (int i = 0; i < 20000 && c->faults == 0; i++) {
        exg_dtensor *next = CALL(&e, "aten.neg.default", T(y));

        exg_dtensor_destroy(y);
        y = next;
    }
    loss = CALL(&e, "aten.sum.default", T(y));
    exg_dtensor_destroy(y);
    go_back(&e, loss, NULL);
    expect_values(&e, exg_dtensor_grad(x), "S(0)", (const double[]){-1, -1}, 2, "20001 steps");
    exg_dtensor_destroy(loss);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

static void histories_may_be_long(void **state)
{
    (void)state;
    on_mesh("2", compute_long, NULL);
}

/* Ranks that are no members make the same calls, and compute nothing. */
static void compute_on_some(rank_context *c)
{
    exg_mesh_shape two = {.ndim = 1, .sizes = {2}};
    exg_placement rows = exg_shard(0);
    exg_device_mesh *part = NULL;
    exg_dtensor *x, *t = NULL, *y, *loss;
    eager e;

    EXPECT(c,
           exg_device_mesh_select(c->mesh, (const uint32_t[]){0, 1}, &two, &part, NULL) == EXG_OK,
           "two ranks");
    eager_begin(&e, c, NULL);
    x = plain(&e, 2, 2, 1, 1, true);
    EXPECT(c, exg_distribute(e.d, x, part, &rows, 1, 0, &t, &e.err) == EXG_OK, "%s", e.err.message);
    y = CALL(&e, "aten.square.default", T(t));
    loss = CALL(&e, "aten.sum.default", T(y));
    go_back(&e, loss, NULL);
    EXPECT(c, exg_dtensor_grad(t) != NULL, "a gradient everywhere");
    if (exg_device_mesh_is_member(part) && exg_dtensor_grad(t) != NULL) {
        expect_values(&e, exg_dtensor_grad(t), "S(0)", (const double[]){2, 4, 6, 8}, 4, "members");
    }
    exg_dtensor_destroy(loss);
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(t);
    exg_dtensor_destroy(x);
    eager_end(&e);
    exg_device_mesh_destroy(part);
}

static void others_do_not_wait(void **state)
{
    (void)state;
    on_mesh("4", compute_on_some, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_cross_the_borders),
        cmocka_unit_test(the_tape_goes_back_the_way),
        cmocka_unit_test(hints_say_how_gradients_lie),
        cmocka_unit_test(the_tape_is_differentiated_too),
        cmocka_unit_test(nothing_is_remembered_while_disabled),
        cmocka_unit_test(meshes_are_pushed_and_popped),
        cmocka_unit_test(gradients_travel_in_a_dtype_of_their_own),
        cmocka_unit_test(what_is_on_its_way_is_waited_for),
        cmocka_unit_test(numbers_are_kept_as_they_were),
        cmocka_unit_test(each_result_has_a_history),
        cmocka_unit_test(only_leaves_are_distributed),
        cmocka_unit_test(faults_are_told),
        cmocka_unit_test(histories_may_be_long),
        cmocka_unit_test(others_do_not_wait),
    };
    int status;

    (void)all_operators();
    status = cmocka_run_group_tests(tests, NULL, NULL);
    free_operators();
    return status;
}
